"""Frozen features: those of a plain forward pass, the same bytes every time, kept after a kill."""

import json
import os
import signal
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from altered_files import write_header
from commands import forked
from image_folders import image_dataset, smooth, tiny_resnet
from in_memory import read_label_maps
from refusals import fails, refused
from waiting import HANGS

from nooch.base.errors import FormatError, NoochError, OutputError
from nooch.models.backbones import load_backbone
from nooch.models.caches import features
from nooch.models.caches.features import extract_features, load_features
from nooch.models.caches.pixels import PixelCache, build_pixels

torch = pytest.importorskip("torch", reason="torch is not installed (nooch[train])")
transformers = pytest.importorskip("transformers", reason="not installed (nooch[train])")


N = 23


@pytest.fixture
def data(tmp_path):
    return image_dataset(tmp_path, N)


@pytest.fixture
def folder(tmp_path):
    return tiny_resnet(tmp_path / "resnet")


@pytest.fixture
def backbone(folder):
    return load_backbone(str(folder), device="cpu")


@pytest.fixture
def pixels(data, tmp_path):
    return build_pixels(data, tmp_path / "px", size=32)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Eight images in a block, in batches of four."""
    monkeypatch.setattr(features, "BLOCK_IMAGES", 8)


def test_features_are_those_of_the_model(data, folder, backbone, pixels, tmp_path):
    made = extract_features(data, backbone, tmp_path / "f", batch=5, pixels=pixels)
    module = transformers.AutoModel.from_pretrained(folder).eval()
    with torch.inference_mode():
        expected = module(backbone.prepare(pixels.matrix().copy())).pooler_output.flatten(1).numpy()
    assert made.matrix().dtype == np.float32
    assert made.matrix().shape == (N, 16) == (len(made), made.n_features)
    # sums in another order, of numbers up to a few units
    assert np.allclose(made.matrix(), expected, rtol=1e-5, atol=1e-5)
    assert made.header.made["backbone"]["sha256"] == backbone.identity
    assert made.header.made["pixels"]["cache"] == pixels.identity
    names = {f.name for f in (tmp_path / "f").iterdir()}
    assert names == {"features.json", "features.npy", "images.parquet"}


def test_the_same_bytes_every_time_from_images_and_from_a_cache(data, backbone, pixels, tmp_path):
    seen = []
    options = {"batch": 4, "readers": 2}
    record = lambda *done: seen.append(done)  # noqa: E731
    a = extract_features(data, backbone, tmp_path / "a", **options, progress=record)
    b = extract_features(data, backbone, tmp_path / "b", batch=4, pixels=pixels)
    c = extract_features(data, backbone, tmp_path / "c", batch=4, readers=1)
    for name in ("features.npy", "features.json", "images.parquet"):
        assert (a.folder / name).read_bytes() == (c.folder / name).read_bytes(), name
    assert np.array_equal(a.matrix(), b.matrix())
    assert a.identity == b.identity
    assert seen == [(done, N) for done in (*range(0, N, 4), N)]


def test_half(data, backbone, pixels, tmp_path):
    whole = extract_features(data, backbone, tmp_path / "a", pixels=pixels)
    options = {"half": True}
    half = extract_features(data, backbone, tmp_path / "b", **options, pixels=pixels)
    assert half.matrix().dtype == np.float16
    assert np.array_equal(half.matrix(), whole.matrix().astype(np.float16))
    large = replace(backbone, preprocessing=replace(backbone.preprocessing, factor=1e6))
    given = data, large, tmp_path / "c"
    parts = "overflow float16", "rows 0, 1"
    fails(lambda: extract_features(*given, **options, pixels=pixels), *parts)
    assert not (tmp_path / "c").exists()


def _killed(folder):
    def progress(done, _total):
        if done > 8:
            os.kill(os.getpid(), signal.SIGKILL)

    features.BLOCK_IMAGES = 8
    backbone = load_backbone(str(folder / "resnet"), device="cpu")
    options, data = {"batch": 4, "codec": "pil"}, image_dataset(folder, N)
    extract_features(data, backbone, folder / "f", **options, progress=progress)


def test_after_a_kill_it_goes_on(data, backbone, tmp_path, monkeypatch):
    process = forked(_killed, tmp_path)
    process.join(HANGS)
    assert process.exitcode == -signal.SIGKILL
    assert (tmp_path / ".f.building").is_dir()
    sizes, original = [], features.forward
    counted = lambda f, p, d: sizes.append(len(p)) or original(f, p, d)  # noqa: E731
    monkeypatch.setattr(features, "forward", counted)
    extract_features(data, backbone, tmp_path / "f", batch=4, codec="pil")
    assert sizes == [4, 4, 4, 3]
    extract_features(data, backbone, tmp_path / "whole", batch=4, codec="pil")
    for name in ("features.npy", "features.json"):
        ours, theirs = ((tmp_path / folder / name).read_bytes() for folder in ("f", "whole"))
        assert ours == theirs, name
    assert not (tmp_path / ".f.building").exists()


def test_other_weights_do_not_go_on_with_what_was_left(data, backbone, tmp_path, monkeypatch):
    def stop(done, total):
        if done > 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        extract_features(data, backbone, tmp_path / "f", batch=4, progress=stop)
    other = load_backbone(str(tiny_resnet(tmp_path / "other", seed=5)), device="cpu")
    assert other.identity != backbone.identity
    options = {"batch": 4}
    made, again = (extract_features(data, other, tmp_path / name, **options) for name in "fg")
    assert np.array_equal(made.matrix(), again.matrix())


@pytest.mark.parametrize("text_ids", [False, True])
def test_a_part_of_the_dataset_finds_its_rows(backbone, tmp_path, text_ids):
    data = image_dataset(tmp_path, 7, text_ids=text_ids)
    whole = extract_features(data, backbone, tmp_path / "f")
    part = load_features(tmp_path / "f", data.select(rows=np.array([0, 3, 6])))
    assert np.array_equal(part.matrix(), whole.matrix()[[0, 3, 6]])
    assert np.array_equal(part.batch(np.array([2, 1])), whole.matrix()[[6, 3]])
    # and a cache of all images serves the part
    pixels = build_pixels(data, tmp_path / "px", size=32)
    some = data.select(rows=np.array([0, 3, 6]))
    cache = PixelCache.load(pixels.folder, some)
    made = extract_features(some, backbone, tmp_path / "g", pixels=cache)
    assert np.abs(made.matrix() - part.matrix()).max() < 1e-6
    larger = image_dataset(tmp_path, 9, text_ids=text_ids)
    fails(lambda: load_features(tmp_path / "f", larger), "no features of 2 of 9 images")


def test_altered_features_are_refused(data, backbone, pixels, tmp_path):
    made = extract_features(data, backbone, tmp_path / "f", pixels=pixels)
    file = made.folder / "features.npy"
    content = bytearray(file.read_bytes())
    content[-3] ^= 8
    file.write_bytes(content)
    load = partial(load_features, made.folder, data)
    fails(load, "was altered", "nooch train features", kind=FormatError)
    header = json.loads((made.folder / "features.json").read_bytes())
    write_header(made.folder / "features.json", {**header, "format": "nooch-pixels"})
    fails(load, "nooch-features", kind=FormatError)


def test_what_is_refused_before_any_work(data, backbone, pixels, tmp_path, monkeypatch):
    monkeypatch.setattr(features, "forward", lambda *_: pytest.fail("the model was run"))
    out = tmp_path / "f"
    refused(lambda: extract_features(None, None, "f", batch=0), "`batch`: is 0")
    other = replace(backbone, preprocessing=replace(backbone.preprocessing, size=(40, 40)))
    parts = "pixels of 32 x 32", "40 x 40"
    refused(lambda: extract_features(data, other, out, pixels=pixels), *parts)
    part = data.select(rows=np.arange(4))
    refused(lambda: extract_features(part, backbone, out, pixels=pixels), "of 23 images")
    (tmp_path / "images" / "004.jpg").unlink()
    text = "1 of 23 images were not found: 4 (004.jpg)"
    fails(lambda: extract_features(data, backbone, out), text)
    out.mkdir()
    smooth(4, 64, 48).save(tmp_path / "images" / "004.jpg")
    fails(lambda: extract_features(data, backbone, out), "exists already", kind=OutputError)


def test_a_broken_image_is_named_and_a_smaller_batch_suggested(
    data, backbone, tmp_path, monkeypatch
):
    (tmp_path / "images" / "004.jpg").write_bytes(b"no image")
    parts = "1 images cannot be read", "004.jpg"
    fails(lambda: extract_features(data, backbone, tmp_path / "f"), *parts)
    assert not (tmp_path / "f").exists()
    smooth(4, 64, 48).save(tmp_path / "images" / "004.jpg")

    def full(*_):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.")

    monkeypatch.setattr(features, "forward", full)
    extract = partial(extract_features, data, backbone, tmp_path / "f", batch=16)
    parts = "out of memory while extracting features with batches of 16", "`batch` 8"
    fails(extract, *parts, kind=NoochError)


def test_real_photographs_with_a_real_backbone(shared_data, tmp_path):
    root, weights = shared_data / "msrc-v2", shared_data / "backbones" / "mobilenet_v1_0.75_224"
    whole = read_label_maps(root / "labels", root / "classes.txt", void=[0], images=root / "images")
    data = whole.select(rows=np.arange(0, len(whole), 30))
    backbone = load_backbone(str(weights), device="cpu", channels_last=True)
    pixels = build_pixels(data, tmp_path / "px", size=224)
    made = extract_features(data, backbone, tmp_path / "f", batch=8, pixels=pixels)
    module = transformers.AutoModel.from_pretrained(weights).eval()
    processor = transformers.AutoImageProcessor.from_pretrained(weights)
    as_they_are = {"do_resize": False, "do_center_crop": False, "return_tensors": "pt"}
    images = processor(list(pixels.matrix()), **as_they_are)["pixel_values"]
    plain = torch.from_numpy(pixels.matrix().copy()).permute(0, 3, 1, 2).float()
    plain = plain.mul(1 / 255).sub(0.5).div(0.5)
    assert (images - plain).abs().max() < 1e-6
    with torch.inference_mode():
        expected = module(plain).pooler_output.numpy()
    assert expected.shape == (len(data), 768)
    # sums in another order, of numbers up to a few units
    assert np.allclose(made.matrix(), expected, rtol=1e-5, atol=1e-5)
