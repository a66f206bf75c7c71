"""The pixel cache: Pillow's pictures, made once, kept after a kill, refused if it does not fit."""

import io
import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from altered_files import write_header
from image_folders import image_dataset, smooth
from in_memory import read_label_maps
from PIL import Image
from refusals import fails, refused
from scipy.sparse import csr_array
from waiting import HANGS

from nooch.base.engines import LocalEngine
from nooch.base.errors import FormatError, MissingExtraError, NoochError, OutputError
from nooch.base.files import sha256_of
from nooch.data import Dataset
from nooch.models import images as image_decoding
from nooch.models.caches import array_store, pixels
from nooch.models.caches.pixels import PixelCache, build_pixels

FILES = ("pixels.npy", "pixels.json", "images.parquet")
FAST = image_decoding.choose_codec() == "fast"
WITHOUT = pytest.mark.skipif(not FAST, reason="simplejpeg or torch is missing (nooch[pixels])")
CODECS = ["pil", pytest.param("fast", marks=WITHOUT)]


def _plain(path, size):
    with Image.open(path) as image:
        return _resized(image.convert("RGB"), size)


def _resized(image, size):
    return np.asarray(image.resize((size[1], size[0]), Image.Resampling.BILINEAR))


_fails = partial(fails, kind=FormatError)


@pytest.fixture
def small_blocks(monkeypatch):
    """Three images of 24 x 20 in a block."""
    monkeypatch.setattr(pixels, "BLOCK_BYTES", 3 * 24 * 20 * 3)


@pytest.fixture
def data(tmp_path):
    return image_dataset(tmp_path, 11)


@pytest.mark.parametrize("codec", CODECS)
def test_pixels_are_those_of_pillow(data, tmp_path, codec, small_blocks):
    cache = build_pixels(data, tmp_path / "px", size=(24, 20), codec=codec)
    assert cache.array.shape == (11, 24, 20, 3)
    assert cache.array.dtype == np.uint8
    names = data.images["file_name"]
    expected = np.stack([_plain(tmp_path / "images" / name, (24, 20)) for name in names])
    apart = np.abs(expected.astype(int) - cache.array)
    assert apart.max() <= (0 if codec == "pil" else 1)
    assert apart.mean() < 0.1
    rows = np.array([7, 0, 7])
    out = np.empty((3, 24, 20, 3), np.uint8)
    assert np.array_equal(cache.batch(rows, out), cache.array[rows])
    assert np.array_equal(cache.batch(rows), out)
    assert cache.size == (24, 20)
    assert cache.matrix() is cache.array
    assert {f.name for f in (tmp_path / "px").iterdir()} == set(FILES)
    assert not list(tmp_path.glob(".px*"))


@pytest.mark.parametrize("codec", CODECS)
def test_every_kind_of_image_file(tmp_path, codec):
    picture = smooth(0, 60, 40)
    folder = tmp_path / "images"
    folder.mkdir()
    palette = Image.new("P", (60, 40), 1)
    palette.putpalette([255, 0, 0, 0, 200, 30])
    palette.save(folder / "palette.png", transparency=bytes([0, 128]))
    rotated = Image.Exif()
    rotated[0x0112] = 6
    picture.save(folder / "rotated.jpg", exif=rotated)
    picture.convert("L").save(folder / "gray.jpg")
    picture.convert("CMYK").save(folder / "cmyk.jpg")
    picture.convert("RGBA").save(folder / "alpha.png")
    picture.resize((1200, 900)).save(folder / "large.jpg", quality=95)
    # named as a JPEG, which it is not
    picture.save(buffer := io.BytesIO(), "PNG")
    (folder / "other.jpg").write_bytes(buffer.getvalue())
    names = sorted(f.name for f in folder.iterdir())
    frame = pl.DataFrame({"image_id": names, "file_name": names})
    data = Dataset.build(frame, ["car"], csr_array((len(names), 1)), image_root=str(folder))
    cache = build_pixels(data, tmp_path / "px", size=32, codec=codec)
    for row, name in enumerate(names):
        with Image.open(folder / name) as opened:
            plain = opened.convert("RGBA" if opened.mode == "P" else opened.mode).convert("RGB")
        plain = plain.transpose(Image.Transpose.ROTATE_270) if name == "rotated.jpg" else plain
        apart = np.abs(_resized(plain, (32, 32)).astype(int) - cache.array[row])
        # a large JPEG is reduced while it is decoded
        # Pillow decodes what is to be turned, and torch resizes it
        assert apart.mean() < {"large.jpg": 1.5, "rotated.jpg": 0.3}.get(name, 0.1), name


def test_processes_and_one_process_give_the_same_bytes(data, tmp_path, small_blocks):
    seen = []
    options = {"map": LocalEngine(2).map, "progress": lambda *done: seen.append(done)}
    build_pixels(data, tmp_path / "a", size=(24, 20), **options)
    build_pixels(data, tmp_path / "b", size=(24, 20))
    for name in FILES:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name
    assert seen == [(0, 11), (3, 11), (6, 11), (9, 11), (11, 11)]


_KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from image_folders import image_dataset
from nooch.models.caches import pixels
pixels.BLOCK_BYTES = 3 * 24 * 20 * 3
def progress(done, total):
    if done >= 6:
        os.kill(os.getpid(), signal.SIGKILL)
folder = Path({folder!r})
options = {{"size": (24, 20), "codec": "pil", "progress": progress}}
pixels.build_pixels(image_dataset(folder, 11), folder / "px", **options)
"""


def _kill_half_way(tmp_path):
    code = _KILLED.format(tests=str(Path(__file__).parents[1]), folder=str(tmp_path))
    killed = subprocess.run([sys.executable, "-c", code], check=False, timeout=HANGS)
    assert killed.returncode == -signal.SIGKILL
    assert not (tmp_path / "px").exists()
    return tmp_path / ".px.building"


def test_after_a_kill_it_goes_on(data, tmp_path, small_blocks, monkeypatch):
    work = _kill_half_way(tmp_path)
    # a line that the kill cut short, and a block that was damaged since
    (journal,), (array,) = work.glob("*.jsonl"), work.glob("*.npy")
    with journal.open("a") as file:
        file.write("\n[2, ")
    with array.open("r+b") as file:
        file.seek(128)
        file.write(b"damaged")
    made, original = [], pixels.decode_images
    record = lambda files, *how: made.append(files[0][-7:]) or original(files, *how)  # noqa: E731
    monkeypatch.setattr(pixels, "decode_images", record)
    build_pixels(data, tmp_path / "px", size=(24, 20), codec="pil")
    assert made == ["000.jpg", "006.jpg", "009.jpg"]
    build_pixels(data, tmp_path / "whole", size=(24, 20), codec="pil")
    for name in FILES:
        ours, theirs = ((tmp_path / folder / name).read_bytes() for folder in ("px", "whole"))
        assert ours == theirs, name
    assert not work.exists()


def test_what_a_kill_left_is_of_no_use_for_another_size(data, tmp_path, small_blocks):
    _kill_half_way(tmp_path)
    cache = build_pixels(data, tmp_path / "px", size=(20, 24), codec="pil")
    assert np.array_equal(cache.array[0], _plain(tmp_path / "images" / "000.jpg", (20, 24)))


def _unfinished(data, folder):
    plan = {"shape": (11, 1), "dtype": "uint8", "block": 4}
    return array_store.making(folder, pixels.PIXELS, data, {}, **plan)


def test_two_processes_do_not_make_the_same(data, tmp_path):
    with _unfinished(data, tmp_path / "px") as made:
        build = partial(build_pixels, data, tmp_path / "px", size=8)
        fails(build, "another process", kind=OutputError)
        for number in made.todo:
            block = np.zeros((11, 1), np.uint8)[made.rows(number)]
            digest = array_store.write_block(made.array, made.offset_of(number), block)
            made.record(number, digest)
    assert (tmp_path / "px" / "pixels.json").is_file()


def test_what_lacks_a_block_gets_no_name(data, tmp_path):
    missing = pytest.raises(NoochError, match="3 blocks are missing")
    with missing, _unfinished(data, tmp_path / "px"):
        pass
    assert not (tmp_path / "px").exists()


def test_missing_images_are_all_found_before_any_is_decoded(data, tmp_path, monkeypatch):
    monkeypatch.setattr(pixels, "decode_images", lambda *_: pytest.fail("an image was decoded"))
    (tmp_path / "images" / "004.jpg").unlink()
    (tmp_path / "images" / "009.jpg").unlink()
    text = "2 of 11 images were not found: 4 (004.jpg), 9 (009.jpg)"
    fails(lambda: build_pixels(data, tmp_path / "px", size=8), text)
    assert not list(tmp_path.glob("*px*"))
    out, nowhere, no = tmp_path / "px", replace(data, image_root=None), tmp_path / "no"
    fails(lambda: build_pixels(nowhere, out), "records no folder of images")
    fails(lambda: build_pixels(data, out, images=no), "no such folder of images", helps=False)


def test_a_link_out_of_the_folder_is_not_followed(data, tmp_path):
    outside = tmp_path / "secret.jpg"
    smooth(1, 64, 48).save(outside)
    (tmp_path / "images" / "003.jpg").unlink()
    (tmp_path / "images" / "003.jpg").symlink_to(outside)
    parts = "1 of 11 images were not found: 3 (003.jpg)", "links"
    fails(lambda: build_pixels(data, tmp_path / "px", size=8), *parts)
    # the folder that a user names is
    assert len(build_pixels(data, tmp_path / "px", size=8, images=tmp_path / "images")) == 11


@pytest.mark.parametrize("codec", CODECS)
def test_broken_images_are_named_together(data, tmp_path, codec, small_blocks):
    folder = tmp_path / "images"
    (folder / "001.jpg").write_bytes(b"no image")
    (folder / "008.jpg").write_bytes((folder / "008.jpg").read_bytes()[:400])
    build = partial(build_pixels, data, tmp_path / "px", size=(24, 20), codec=codec)
    text = fails(build, "2 images cannot be read", "001.jpg: cannot identify", "008.jpg: ")
    assert "<_io" not in text
    assert not (tmp_path / "px").exists()
    # fixed, only their blocks are made
    for name, seed in (("001.jpg", 1), ("008.jpg", 8)):
        smooth(seed, 64, 48).save(folder / name, quality=92)
    seen = []
    build(progress=lambda done, _: seen.append(done))
    assert seen == [5, 8, 11]


def test_an_altered_cache_is_refused(data, tmp_path):
    folder = build_pixels(data, tmp_path / "px", size=8).folder
    with (folder / "pixels.npy").open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        last = file.read(1)
        file.seek(-1, os.SEEK_END)
        file.write(bytes([last[0] ^ 1]))
    _fails(lambda: PixelCache.load(folder, data), "was altered")
    load = partial(PixelCache.load, folder, data, verify=False)
    assert len(load()) == 11
    with (folder / "pixels.npy").open("r+b") as file:
        file.truncate(500)
    _fails(load, "cannot be read")
    np.save(folder / "pixels.npy", np.zeros((11, 8, 8), np.uint8))
    _fails(load, "shape (11, 8, 8)")


def test_images_and_header_are_checked(data, tmp_path):
    folder = build_pixels(data, tmp_path / "px", size=8).folder
    load = partial(PixelCache.load, folder, data)
    header = json.loads((folder / "pixels.json").read_bytes())
    data.images.head(3).select("image_id", "file_name").write_parquet(folder / "images.parquet")
    _fails(load, "images.parquet is missing or altered")
    header["version"] = 9
    write_header(folder / "pixels.json", header)
    _fails(load, "nooch-pixels version 9")
    _fails(lambda: PixelCache.load(tmp_path, data), "is not a pixels folder", "nooch train pixels")


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda t: t.drop("image_id"), "has no column image_id"),
        (lambda t: t.drop("file_name"), "has no column file_name"),
        (lambda t: t.cast({"image_id": pl.Float64}), "column image_id is Float64"),
        (
            lambda t: t.with_columns(image_id=pl.lit(1, pl.Int64)),
            "column image_id contains 1, 1, 1",
        ),
    ],
)
def test_altered_images_with_their_hash_are_refused(data, tmp_path, change, word):
    folder = build_pixels(data, tmp_path / "px", size=8).folder
    images, header = folder / "images.parquet", folder / "pixels.json"
    change(pl.read_parquet(images)).write_parquet(images)
    write_header(header, {**json.loads(header.read_bytes()), "images": sha256_of(images)})
    _fails(lambda: PixelCache.load(folder, data), "images.parquet", word, "nooch train pixels")


@pytest.mark.parametrize("text_ids", [False, True])
def test_a_part_of_the_dataset_finds_its_rows(tmp_path, text_ids):
    data = image_dataset(tmp_path, 9, text_ids=text_ids)
    whole = build_pixels(data, tmp_path / "px", size=8)
    part = data.select(rows=np.array([1, 4, 8]))
    cache = PixelCache.load(tmp_path / "px", part)
    assert len(cache) == 3
    assert np.array_equal(cache.matrix(), whole.array[[1, 4, 8]])
    assert np.array_equal(cache.batch(np.array([2, 0])), whole.array[[8, 1]])
    for rows in ([3], [-1]):
        refused(lambda rows=rows: cache.batch(np.array(rows)), "0 to 2")


def test_images_that_it_does_not_have(data, tmp_path):
    build_pixels(data.select(rows=np.arange(9)), tmp_path / "px", size=8)
    fails(lambda: PixelCache.load(tmp_path / "px", data), "no pixels of 2 of 11 images: 9, 10")
    # the same ids may mean other images
    images = data.images.with_columns(file_name=pl.lit("x/") + pl.col("file_name"))
    renamed = replace(data, images=images).select(rows=np.arange(2))
    fails(lambda: PixelCache.load(tmp_path / "px", renamed), "no pixels of 2 of 2")


def test_parameters_and_places(data, tmp_path, monkeypatch):
    out, there = tmp_path / "px", tmp_path / "there"
    refused(lambda: build_pixels(data, out, size=0), "size 0 x 0")
    refused(lambda: build_pixels(data, out, codec="quick"), "'quick' is not a codec")
    there.mkdir()
    fails(lambda: build_pixels(data, there, size=8), "exists already", kind=OutputError)
    build_pixels(data, there, size=8, overwrite=True)
    assert build_pixels(data, there, size=9, overwrite=True).size == (9, 9)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: shutil._ntuple_diskusage(10, 10, 0))
    fails(lambda: build_pixels(data, out, size=8), "are free", kind=OutputError)
    none = data.select(rows=np.arange(0))
    fails(lambda: build_pixels(none, out), "has no images", helps=False)


def test_without_the_fast_packages(data, tmp_path, monkeypatch):
    monkeypatch.setattr(image_decoding.importlib.util, "find_spec", lambda name: None)
    assert image_decoding.choose_codec() == "pil"
    build = partial(build_pixels, data, tmp_path / "px", codec="fast")
    fails(build, "simplejpeg", "pip install 'nooch[pixels]'", kind=MissingExtraError)


def test_real_photographs(shared_data, tmp_path):
    root = shared_data / "msrc-v2"
    data = read_label_maps(root / "labels", root / "classes.txt", void=[0], images=root / "images")
    part = data.select(rows=np.arange(0, len(data), 20))
    made = {c: build_pixels(part, tmp_path / c, codec=c) for c in ("pil", "auto")}
    expected = np.stack([_plain(root / "images" / n, (321, 321)) for n in part.images["file_name"]])
    assert np.array_equal(made["pil"].array, expected)
    apart = np.abs(expected.astype(int) - made["auto"].array)
    assert apart.max() <= 1
    assert apart.mean() < 0.05
