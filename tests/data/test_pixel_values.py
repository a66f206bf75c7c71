"""Every kind of image has the same pixels everywhere: all modes of Pillow, 16 bits, orientation."""

import base64
import io
import json
import shutil
import warnings

import numpy as np
import polars as pl
import pytest
from commands import completed
from image_folders import image_dataset, smooth
from PIL import Image, ImageCms
from refusals import refused
from scipy.sparse import csr_array

from nooch.data import Dataset, save_dataset
from nooch.data.readers.image_files import rgb_image, thumbnail
from nooch.inference.endpoint import image_url
from nooch.models.images import Decoding, choose_codec, dark_notes, decode_images
from nooch.report.exports.torch_dataset import _ItemsOfImages
from nooch.report.images.thumbnails import SMALL, Wanted, draw_pictures, picture_name

CODECS = ["pil", *(["fast"] if choose_codec() == "fast" else [])]
GRAY = np.add.outer(np.arange(16) * 16, np.arange(12)).astype(np.uint8)
COLORS = np.asarray(smooth(3, 12, 16))


def _in_url(path, value_range):
    _, _, data = image_url(path, None, value_range).partition(";base64,")
    return Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB")


def _drawn(path, value_range):
    assert value_range is None, "the site has no range"
    (drawn,) = draw_pictures([Wanted("test", 0, path)], path.parent / "site")
    assert drawn.sizes == 1, drawn.problem
    with Image.open(path.parent / "site" / picture_name("test", 0)) as picture:
        return picture.copy()


READS = {
    "rgb": rgb_image,
    "thumbnail": lambda path, value_range: thumbnail(path, SMALL, value_range),
    "request to a server": _in_url,
    "site": _drawn,
    "torch": lambda path, _: _ItemsOfImages([path], [()], None)[0][0],
}


def _pixels(path, codec, value_range=None, size=(16, 12)):
    pixels, broken = decode_images([path], size, Decoding(codec, value_range))
    assert not broken
    return pixels[0]


def _lab(colors):
    spaces = [ImageCms.createProfile(space) for space in ("sRGB", "LAB")]
    return ImageCms.profileToProfile(Image.fromarray(colors), *spaces, outputMode="LAB")


def _palette(mode):
    palette = Image.fromarray(GRAY)
    return palette.convert("P") if mode == "P" else palette.convert("LA").convert("PA")


MODES = {
    "1": (Image.fromarray(GRAY > 100), "PNG", np.where(GRAY > 100, 255, 0)),
    "L": (Image.fromarray(GRAY), "PNG", GRAY),
    "LA": (Image.fromarray(GRAY).convert("LA"), "PNG", GRAY),
    "P": (_palette("P"), "PNG", GRAY),
    "PA": (_palette("PA"), "TIFF", GRAY),
    "RGB": (Image.fromarray(COLORS), "PNG", COLORS),
    "RGBA": (Image.fromarray(COLORS).convert("RGBA"), "PNG", COLORS),
    "CMYK": (Image.fromarray(COLORS).convert("CMYK"), "TIFF", COLORS),
    "YCbCr": (Image.fromarray(COLORS).convert("YCbCr"), "TIFF", COLORS),
    "LAB": (_lab(COLORS), "TIFF", COLORS),
    "I;16": (Image.fromarray(GRAY * np.uint16(257)), "PNG", GRAY),
    "I;16B": (Image.fromarray((GRAY * np.uint16(257)).astype(">u2")), "TIFF", GRAY),
    "I of PGM": (Image.fromarray(GRAY * np.uint16(257)), "PPM", GRAY),
}


@pytest.mark.parametrize("read", [*CODECS, *READS])
@pytest.mark.parametrize("mode", MODES)
def test_every_mode_has_its_colors(mode, read, tmp_path):
    picture, kind, expected = MODES[mode]
    path = tmp_path / f"a.{kind.lower()}"
    picture.save(path, kind)
    with Image.open(path) as opened:
        assert opened.mode == mode.split(" ")[0]
    made = _pixels(path, read) if read in CODECS else np.asarray(READS[read](path, None))
    expected = expected if expected.ndim == 3 else np.repeat(expected[:, :, None], 3, axis=2)
    # JPEG is what a server and the site get
    lossy = read in {"request to a server", "site"}
    apart = np.abs(made.astype(int) - expected)
    assert apart.mean() < (30 if lossy else 2)
    assert lossy or mode in {"LAB", "YCbCr"} or not apart.any()


def test_hsv_is_converted(monkeypatch, tmp_path):
    """No file has it, but Pillow does."""
    Image.fromarray(COLORS).save(tmp_path / "a.png")
    hsv = Image.fromarray(COLORS).convert("HSV")
    hsv.format = "PNG"
    monkeypatch.setattr(Image, "open", lambda *_, **__: hsv)
    assert np.abs(np.asarray(rgb_image(tmp_path / "a.png")).astype(int) - COLORS).max() <= 6


@pytest.mark.parametrize("codec", CODECS)
def test_sixteen_bits_are_scaled_alike_in_every_image(codec, tmp_path):
    values = np.linspace(0, 65535, 192).reshape(16, 12).astype(np.uint16)
    for name, of in (("bright", values), ("dark", values // 16)):
        Image.fromarray(of).save(tmp_path / f"{name}.png")
        assert (_pixels(tmp_path / f"{name}.png", codec)[..., 0] == of >> 8).all()
    whole = _pixels(tmp_path / "dark.png", codec, (0, 4095))[..., 0]
    assert (whole == np.rint(values // 16 * (255 / 4095))).all()


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_values_without_a_scale_need_a_range(codec, dtype, tmp_path):
    values = np.linspace(-10, 30, 192).reshape(16, 12).astype(dtype)
    path = tmp_path / "a.tif"
    Image.fromarray(values).save(path)
    _, (problem,) = decode_images([path], (16, 12), codec)
    assert "which have no scale of their own: give `range` LOW,HIGH" in problem
    made = _pixels(path, codec, (0, 20))[..., 0]
    assert (made == np.rint(np.clip(values.astype(float) / 20, 0, 1) * 255)).all()
    # what is not of more than 8 bits keeps its scale
    Image.fromarray(GRAY).save(tmp_path / "b.png")
    assert (_pixels(tmp_path / "b.png", codec, (0, 20))[..., 0] == GRAY).all()


def test_a_pixel_that_is_no_number_is_refused(tmp_path):
    Image.fromarray(np.full((4, 4), np.nan, np.float32)).save(tmp_path / "a.tif")
    _, (problem,) = decode_images([tmp_path / "a.tif"], (4, 4), Decoding("pil", (0, 1)))
    assert "has pixels that are not a number" in problem


@pytest.mark.parametrize("pair", [(1, 1), (2, 1), (0, np.inf), (np.nan, 1)])
def test_a_range_ascends(pair):
    refused(lambda: Decoding("pil", pair), "is ", "`range`", "LOW,HIGH with LOW below HIGH")


UPRIGHT = np.asarray(smooth(5, 90, 60).quantize(16).convert("RGB"))
# how each orientation is stored, by what the standard says of the rows and columns
STORED = {
    1: lambda a: a, 2: lambda a: a[:, ::-1], 3: lambda a: a[::-1, ::-1], 4: lambda a: a[::-1],
    5: lambda a: a.swapaxes(0, 1), 6: lambda a: a.swapaxes(0, 1)[::-1],
    7: lambda a: a.swapaxes(0, 1)[::-1, ::-1], 8: lambda a: a.swapaxes(0, 1)[:, ::-1],
}  # fmt: skip


@pytest.mark.parametrize("read", [*CODECS, *READS])
@pytest.mark.parametrize("kind", ["PNG", "JPEG", "TIFF", "WEBP"])
@pytest.mark.parametrize("number", STORED)
def test_every_orientation_is_upright_everywhere(number, kind, read, tmp_path):
    exif = Image.Exif()
    exif[0x0112] = number
    path = tmp_path / "a.jpg"
    options = {"quality": 100, "exif": exif, **({"lossless": True} if kind == "WEBP" else {})}
    Image.fromarray(np.ascontiguousarray(STORED[number](UPRIGHT))).save(path, kind, **options)
    if read in CODECS:
        made = _pixels(path, read, size=UPRIGHT.shape[:2])
    else:
        made = np.asarray(READS[read](path, None))
    assert made.shape == UPRIGHT.shape
    assert np.abs(made.astype(int) - UPRIGHT).mean() < 12


def test_damaged_metadata_do_not_make_an_image_unreadable(tmp_path):
    picture = Image.fromarray(COLORS)
    picture.save(tmp_path / "plain.jpg")
    for number, exif in enumerate((b"Exif\0\0", b"Exif\0\0II*\0\xff\xff\xff\xff", b"Exif\0\0xy")):
        picture.save(tmp_path / f"{number}.jpg", exif=exif)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for codec in CODECS:
                made = _pixels(tmp_path / f"{number}.jpg", codec)
                assert (made == _pixels(tmp_path / "plain.jpg", codec)).all()


def test_twelve_bits_in_sixteen_are_noted(tmp_path):
    for number in range(80):
        Image.fromarray(np.full((4, 4), 4095, np.uint16)).save(tmp_path / f"{number}.png")
    paths = [tmp_path / f"{number}.png" for number in range(80)]
    (note,) = dark_notes(paths)
    assert "have no value above 4095" in note
    assert "`range` 0,4095" in note
    assert dark_notes(paths, Decoding("pil", (0, 4095))) == []
    Image.fromarray(np.full((4, 4), 4096, np.uint16)).save(paths[0])
    assert dark_notes(paths) == []
    Image.fromarray(GRAY).save(tmp_path / "b.png")
    assert dark_notes([tmp_path / "b.png", tmp_path / "missing.png"]) == dark_notes([]) == []


@pytest.fixture
def twins(tmp_path):
    """The same pictures with 8 bits, with 16, and with floating-point numbers: three datasets."""
    image_dataset(tmp_path / "made", 4)
    for kind in ("png", "wide.png", "tif"):
        (folder := tmp_path / kind).mkdir()
        for number in range(4):
            with Image.open(tmp_path / "made" / "images" / f"{number:03d}.jpg") as photo:
                gray = np.asarray(photo.convert("L"))
            values = {"png": gray, "wide.png": gray * np.uint16(257), "tif": gray / np.float32(255)}
            Image.fromarray(values[kind]).save(folder / f"{number}.{kind[-3:]}")
        names = sorted(file.name for file in folder.iterdir())
        frame = pl.DataFrame({"image_id": range(4), "file_name": names})
        data = Dataset.build(frame, ["car"], csr_array((4, 1)), image_root=str(folder))
        save_dataset(data, tmp_path / f"{kind}-data")
    return tmp_path


def test_commands_see_the_same_pixels(twins, capsys):
    for kind, options in (("png", ""), ("wide.png", ""), ("tif", "--range 0,1")):
        out, data = twins / f"{kind}-px", twins / f"{kind}-data"
        completed(f"train pixels {data} --out {out} --size 32 {options}")
        backbone = "config:resnet-18 --size 32 --processes 1"
        completed(f"train features {data} --backbone {backbone} --out {out}-f {options}")
        header = json.loads((out / "pixels.json").read_bytes())["made"]
        assert header["orientation"] == "upright"
        assert header.get("range") == ([0, 1] if options else None)
    for name in ("px/pixels.npy", "px-f/features.npy"):
        one, two, three = (
            (twins / f"{kind}-{name}").read_bytes() for kind in ("png", "wide.png", "tif")
        )
        assert one == two == three, name
    capsys.readouterr()


def test_twelve_bits_are_noted_on_the_command_line(twins, capsys):
    folder = twins / "wide.png"
    for file in folder.iterdir():
        Image.fromarray(np.full((4, 4), 4095, np.uint16)).save(file)
    completed(f"train pixels {twins}/wide.png-data --out {twins}/dark --size 8")
    noted = " ".join(capsys.readouterr().err.split())
    assert "nearly black; give --range 0,4095" in noted
    shutil.rmtree(twins / "dark")
    completed(f"train pixels {twins}/wide.png-data --out {twins}/dark --size 8 --range 0,4095")
    assert "--range" not in capsys.readouterr().err
