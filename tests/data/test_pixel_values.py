"""Every kind of image has the same pixels everywhere: all modes of Pillow, 16 bits, orientation."""

import base64
import io
import json
import re
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

from nooch.data import Dataset, load_dataset, save_dataset
from nooch.data.readers.image_files import display_range, range_text, rgb_image, thumbnail
from nooch.inference.endpoint import image_url
from nooch.inference.requests import plan_requests
from nooch.models.images import Decoding, choose_codec, dark_notes, decode_images
from nooch.report.images.thumbnails import SMALL, Wanted, draw_pictures, picture_name
from nooch.suites.questions import Draw

CODECS = ["pil", *(["fast"] if choose_codec() == "fast" else [])]
GRAY = np.add.outer(np.arange(16) * 16, np.arange(12)).astype(np.uint8)
COLORS = np.asarray(smooth(3, 12, 16))


def _in_url(path, value_range):
    _, _, data = image_url(path, None, value_range).partition(";base64,")
    return Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB")


def _drawn(path, value_range):
    wanted = [Wanted("test", 0, path)]
    (drawn,) = draw_pictures(wanted, path.parent / "site", value_range=value_range)
    assert drawn.sizes == 1, drawn.problem
    with Image.open(path.parent / "site" / picture_name("test", 0)) as picture:
        return picture.copy()


READS = {
    "rgb": rgb_image,
    "thumbnail": lambda path, value_range: thumbnail(path, SMALL, value_range),
    "request to a server": _in_url,
    "site": _drawn,
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
    # Pillow before 13 cannot read the YCbCr that it writes without compression
    picture.save(path, kind, **({"compression": "tiff_lzw"} if mode == "YCbCr" else {}))
    with Image.open(path) as opened:
        # Pillow before 13 opens YCbCr as RGB
        assert opened.mode in {mode.split(" ")[0], "RGB" if mode == "YCbCr" else ""}
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
    assert "without a fixed range: give `range` LOW,HIGH" in problem
    made = _pixels(path, codec, (0, 20))[..., 0]
    assert (made == np.rint(np.clip(values.astype(float) / 20, 0, 1) * 255)).all()
    # what is not of more than 8 bits keeps its scale
    Image.fromarray(GRAY).save(tmp_path / "b.png")
    assert (_pixels(tmp_path / "b.png", codec, (0, 20))[..., 0] == GRAY).all()


def test_a_pixel_that_is_no_number_is_refused(tmp_path):
    Image.fromarray(np.full((4, 4), np.nan, np.float32)).save(tmp_path / "a.tif")
    _, (problem,) = decode_images([tmp_path / "a.tif"], (4, 4), Decoding("pil", (0, 1)))
    assert "has pixels that are NaN" in problem


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


def test_the_range_of_pictures_is_of_percentiles_of_a_sample(tmp_path):
    """Those of the sampled files' values, in every wide mode; none for 8 bits."""
    random = np.random.default_rng(0)
    for kind in (np.uint16, np.int32, np.float32):
        values = random.normal(2000, 500, (70, 9, 11)).clip(1, 4095).astype(kind)
        for number, image in enumerate(values):
            Image.fromarray(image).save(tmp_path / f"{number}.tif")
        paths = [tmp_path / f"{number}.tif" for number in range(70)]
        ordered = np.sort(values[:: -(-70 // 32)], axis=None)
        low, high = display_range(paths)
        assert (ordered < low).mean() == pytest.approx(0.005, abs=1e-3)
        assert (ordered > high).mean() == pytest.approx(0.005, abs=1e-3)
        assert {low, high} <= set(ordered.tolist())
        shown = np.asarray(READS["site"](paths[0], (low, high)))
        assert (shown.min() < 60, shown.max() > 200) == (True, True)
    Image.fromarray(np.full((4, 4), 7, np.uint16)).save(tmp_path / "flat.png")
    assert display_range([tmp_path / "flat.png"]) == (7, 8)
    Image.fromarray(np.full((4, 4), np.nan, np.float32)).save(tmp_path / "nan.tif")
    Image.fromarray(GRAY).save(tmp_path / "gray.png")
    for names in (["gray.png"], ["nan.tif"], ["missing.png"], []):
        assert display_range([tmp_path / name for name in names]) is None
    assert range_text((112.0, 3980.5)) == "values 112 (black) to 3,980.5 (white)"


@pytest.fixture
def twelve(tmp_path):
    """40 images of 12 bits in a folder, labels of two classes, and a model's output."""
    random, rows = np.random.default_rng(0), []
    (tmp_path / "images").mkdir()
    for number in range(40):
        values = random.normal(2000, 700, (20, 24)).clip(50, 4095).astype(np.uint16)
        Image.fromarray(values).save(tmp_path / "images" / f"{number}.tif")
        car = number % 2
        rows.append((f"{number}.tif", car, int(random.random() < 0.3 + 0.4 * car)))
    labels = pl.DataFrame(rows, schema=["file_name", "car", "road"], orient="row")
    labels.write_csv(tmp_path / "labels.csv")
    labels.select("file_name", car=pl.lit(random.random(40))).write_csv(tmp_path / "p.csv")
    return tmp_path


def _means(folder):
    return [np.asarray(Image.open(file)).mean() for file in folder.rglob("*.jpg")]


def test_pages_show_twelve_bits_and_say_how(twelve, capsys):
    completed(f"import auto {twelve}/labels.csv {twelve}/data --images {twelve}/images")
    completed(f"find {twelve}/data --criterion context --out {twelve}/suite")
    check = f"check {twelve}/data {twelve}/p.csv --criterion context --min-hard 1 --bootstrap 0"
    completed(f"{check} --out {twelve}/check")
    completed(f"report {twelve}/suite --out {twelve}/site")
    completed(f"audit {twelve}/suite {twelve}/p.csv --out {twelve}/audit")
    for name, page in (
        ("check", "report/examples.html"),
        ("site", "examples.html"),
        ("audit", "data/audit.js"),
    ):
        means = _means(twelve / name)
        assert means, name
        assert min(means) > 60, name
        said = re.search(
            r"values [\d,]+ \(black\) to [\d,]+ \(white\)", (twelve / name / page).read_text()
        )
        assert said, name
    capsys.readouterr()
    completed(f"report {twelve}/suite --out {twelve}/dark --range 0,65535")
    assert max(_means(twelve / "dark")) < 20
    assert "values 0 (black) to 65,535 (white)" in " ".join(capsys.readouterr().err.split())
    completed(f"gallery {twelve}/suite --task car --out {twelve}/g.png")
    completed(f"gallery {twelve}/suite --task car --out {twelve}/d.png --range 0,65535")
    light, dark = (np.asarray(Image.open(twelve / f"{n}.png").convert("L")) for n in "gd")
    assert (light < 40).mean() < (dark < 40).mean() / 2


def test_a_range_is_recorded_once_and_used_wherever_images_are_read(twelve, run_cli):
    data = twelve / "data"
    made = f"import auto {twelve}/labels.csv {data} --images {twelve}/images --range"
    run_cli(f"{made} 9,4").refused("--range: is 9,4", "LOW below HIGH")
    run_cli(f"{made} 9").refused("two numbers, LOW,HIGH")
    assert not data.exists()
    completed(f"{made} 0,4095")
    assert load_dataset(data).value_range == (0, 4095)
    completed(f"train pixels {data} --out {twelve}/px --size 8")
    completed(f"train pixels {data} --out {twelve}/other --size 8 --range 0,65535")
    for name, value_range in (("px", [0, 4095]), ("other", [0, 65535])):
        header = json.loads((twelve / name / "pixels.json").read_bytes())["made"]
        assert header["range"] == value_range
    completed(f"find {data} --criterion context --out {twelve}/suite")
    completed(f"report {twelve}/suite --out {twelve}/site")
    text = (twelve / "site" / "examples.html").read_text()
    assert "values 0 (black) to 4,095 (white)" in text
    plan = plan_requests(
        twelve / "suite", None, per_set=1, template=Draw().template, seed=0, criteria=(), tasks=(),
        splits=(), questions=None, prompts=(), describe=False, images=None, range=None, limit=None,
        sample=None,
    )  # fmt: skip
    assert plan.range == (0, 4095)
