"""Properties of image files: against plain formulas, Pillow's qualities and damaged files."""

import colorsys

import numpy as np
import polars as pl
import pytest
from PIL import Image
from planted import planted_data
from refusals import fails
from scipy.sparse import csr_array

import nooch
from nooch.base.errors import ParameterError
from nooch.criteria import Attribute
from nooch.data import Dataset, load_dataset, save_dataset
from nooch.data.importing.attributes import image_properties
from nooch.data.readers import image_files
from nooch.data.table_schema import PROPERTIES
from nooch.report.images.thumbnails import Wanted, draw_pictures


def dataset(root, names, **columns):
    images = pl.DataFrame({"image_id": range(len(names)), "file_name": names, **columns})
    areas = csr_array(np.full((len(names), 1), 0.2))
    return Dataset.build(images, ["car"], areas, image_root=str(root))


def by_formula(pixels):
    """Properties of RGB values (height, width, 3), one pixel after the other."""
    height, width, _ = pixels.shape
    luma = np.array([[int(0.299 * r + 0.587 * g + 0.114 * b + 0.5) for r, g, b in row]
                     for row in pixels.astype(float)])  # fmt: skip
    edged = np.pad(luma, 1, mode="symmetric")
    second = [
        edged[y, x + 1] + edged[y + 2, x + 1] + edged[y + 1, x] + edged[y + 1, x + 2]
        - 4 * edged[y + 1, x + 1]
        for y in range(height) for x in range(width)
    ]  # fmt: skip
    saturation = [colorsys.rgb_to_hsv(*(pixel / 255))[1] for pixel in pixels.reshape(-1, 3)]
    shares = np.bincount(luma.ravel()) / luma.size
    return {
        "brightness": luma.mean() / 255, "contrast": luma.std() / 255,
        "sharpness": np.var(second), "saturation": np.mean(saturation),
        "entropy": -sum(p * np.log2(p) for p in shares if p), "aspect": width / height,
        "megapixels": width * height / 1e6,
    }  # fmt: skip


def test_properties_are_those_of_the_formulas(tmp_path):
    random, expected = np.random.default_rng(0), []
    for number, (height, width) in enumerate([(1, 1), (9, 14), (30, 11)]):
        pixels = random.integers(0, 256, (height, width, 3), dtype=np.uint8) // (number + 1)
        Image.fromarray(pixels).save(tmp_path / f"{number}.png")
        expected.append(by_formula(pixels))
    table = image_properties(dataset(tmp_path, [f"{n}.png" for n in range(3)]))
    assert table.columns == ["image_id", *PROPERTIES]
    for row, values in zip(table.to_dicts(), expected, strict=True):
        assert {name: row[name] for name in values} == pytest.approx(values, rel=4e-3, abs=1e-5)
        assert row["jpeg_quality"] is None


def test_the_quality_of_a_jpeg_is_the_one_it_was_saved_with(tmp_path):
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 256, (24, 40, 3), np.uint8))
    qualities = [*range(50, 96, 5), 1, 30, 99]
    for quality in qualities:
        picture.save(tmp_path / f"{quality}.jpg", quality=quality)
    # the names' order, upright, of one channel
    picture.save(tmp_path / "turned.jpg", quality=61, exif=exif_of(6))
    picture.convert("L").save(tmp_path / "gray.jpg", quality=62)
    names = [*(f"{quality}.jpg" for quality in qualities), "turned.jpg", "gray.jpg"]
    table = image_properties(dataset(tmp_path, names))
    assert table["jpeg_quality"].to_list() == [*qualities, 61, 62]
    assert table["aspect"].to_list()[-2:] == [24 / 40, 40 / 24]
    assert table["saturation"].to_list()[-1] == 0


def test_a_file_is_opened_once(tmp_path, monkeypatch):
    """To be measured, and to be drawn."""
    opened, opening = [], image_files.regular_file
    monkeypatch.setattr(image_files, "regular_file", lambda p: opened.append(p) or opening(p))
    path = tmp_path / "a.jpg"
    Image.new("RGB", (400, 200), "red").save(path)
    image_properties(dataset(tmp_path, ["a.jpg"]))
    assert opened == [path]
    assert draw_pictures([Wanted("all", 0, path)], tmp_path)[0].sizes == 2
    assert opened == [path, path]


def test_images_of_any_mode(tmp_path):
    """Values of 32 bits need a range; one color has no entropy, and that is 0 and not -0."""
    luma = np.random.default_rng(0).integers(0, 256, (9, 7))
    gray = Image.fromarray(luma.astype(np.uint8))
    frames = [Image.new("L", (3, 2), 90), Image.new("L", (3, 2), 10)]
    gray.save(tmp_path / "gray.png")
    gray.convert("P").save(tmp_path / "palette.png")
    gray.convert("LA").save(tmp_path / "alpha.png")
    Image.fromarray((luma * 257).astype(np.uint16)).save(tmp_path / "wide.png")
    Image.fromarray(luma.astype(np.float32) / 255).save(tmp_path / "float.tif")
    frames[0].save(tmp_path / "moving.png", save_all=True, append_images=frames[1:])
    Image.new("CMYK", (1, 1), (0, 255, 255, 0)).save(tmp_path / "ink.tif")
    names = ["gray", "palette", "alpha", "wide", "float", "moving", "ink"]
    names = [name + (".tif" if name in {"float", "ink"} else ".png") for name in names]
    rows = image_properties(dataset(tmp_path, names)).drop("image_id").rows()
    assert rows[0][0] == pytest.approx(luma.mean() / 255)
    assert rows[0] == rows[1] == rows[2] == rows[3]
    assert rows[4] == (None,) * len(PROPERTIES)
    assert rows[5] == (90 / 255, 0, 0, 0, 0, 1.5, 6e-6, None)
    assert not np.signbit(rows[5][4])
    assert rows[6][:4] == (76 / 255, 0, 0, 1)
    one = image_properties(dataset(tmp_path, ["float.tif"]), value_range=(0, 1))
    assert one.drop("image_id").rows() == rows[:1]
    fails(lambda: image_properties(dataset(tmp_path, names), value_range=(1, 0)), "LOW,HIGH",
          kind=ParameterError)  # fmt: skip


def exif_of(orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif


def test_what_cannot_be_read_is_null(tmp_path):
    Image.new("RGB", (4, 4)).save(tmp_path / "whole.png")
    (tmp_path / "broken.png").write_bytes((tmp_path / "whole.png").read_bytes()[:40])
    (tmp_path / "text.jpg").write_text("<html>")
    names, seen = ["whole.png", "broken.png", "text.jpg", "none.png", None], []
    data = dataset(tmp_path, names)
    table = image_properties(data, progress=lambda *now: seen.append(now))
    assert table["megapixels"].is_null().to_list() == [False, True, True, True, True]
    assert all(table[name].null_count() >= 4 for name in PROPERTIES)
    assert seen == [("measuring images", 5, 5)]
    fails(lambda: image_properties(dataset(tmp_path, ["a.png"])), "none of the dataset's images")
    fails(
        lambda: image_properties(dataset(tmp_path, names[:1], contrast=[1.0])),
        "the dataset has columns contrast already",
    )


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    """Cars in 240 images of noise, of which the dark ones are missed."""
    root, random = tmp_path_factory.mktemp("photographs"), np.random.default_rng(1)
    dark, wrong = random.permutation(240) < 60, random.random(240)
    for number in range(240):
        noise = random.integers(0, 60 if dark[number] else 256, (6, 8, 3), np.uint8)
        Image.fromarray(noise).save(root / f"{number}.png")
    (root / "7.png").unlink()
    data = dataset(root, [f"{number}.png" for number in range(240)], split="test")
    logit = np.where(wrong < np.where(dark, 0.7, 0.1), -1.0, 1.0)
    answers = pl.DataFrame({"image_id": range(240), "task": "car", "logit": logit})
    return data, answers, dark


def test_quartiles_of_properties_are_conditions(photographs, tmp_path, run_cli, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data, answers, dark = photographs
    found = nooch.find_slices(data, answers, image_properties=True)
    row = found.table.row(0, named=True)
    assert row["confirmed"]
    assert row["about"][0] in {"brightness", "contrast", "sharpness", "entropy"}
    assert "1 image missing or unreadable, without properties: 7" in found.settings["notes"]
    save_dataset(data, tmp_path / "data")
    answers.write_csv(tmp_path / "model.csv")
    # what slices print is a condition of the dataset once it is kept
    message = f"{row['about'][0]} is a property of image files"
    fails(lambda: Attribute(row["phi"]).fit(data).phi(data, "car"), message, kind=ParameterError)
    done = run_cli("tools add-attributes data new --image-properties")
    assert "1 image missing or unreadable" in done.ok().err
    stored = load_dataset(tmp_path / "new")
    assert stored.attributes == tuple(PROPERTIES)
    inside = Attribute(row["phi"]).fit(stored).phi(stored, "car")
    assert inside.sum() == row["n"]
    assert dark[inside].mean() > 0.95
    assert {"brightness", "entropy"} < {*stored.context_columns}
    again = run_cli("slices new model.csv --format json").ok().json["slices"]
    assert again[0]["phi"] == row["phi"]
    run_cli("tools add-attributes new newer --image-properties").refused("has columns brightness")


def test_a_check_measures_images_of_its_split(tmp_path, run_cli, monkeypatch):
    """Dark cars are missed, and the page says so; the dataset that it records is as it was."""
    monkeypatch.chdir(tmp_path)
    data, random = planted_data(400), np.random.default_rng(2)
    files, dark = [f"{number}.png" for number in range(400)], random.random(400) < 0.3
    for name, is_dark in zip(files, dark, strict=True):
        noise = random.integers(0, 60 if is_dark else 256, (6, 8, 3), np.uint8)
        Image.fromarray(noise).save(tmp_path / name)
    images = data.images.with_columns(file_name=pl.Series(files)).drop("place")
    made = Dataset.build(images, data.classes, data.areas, image_root=str(tmp_path))
    save_dataset(made, tmp_path / "data")
    car = data.labels("car")
    said = np.where(car, ~dark | (random.random(400) < 0.1), False)
    rows = {"image_id": data.images["image_id"], "task": "car", "logit": 2.0 * said - 1}
    pl.DataFrame(rows).write_csv("model.csv")
    done = run_cli("check data model.csv --image-properties --out out --bootstrap 0 --min-hard 5")
    assert "cars with brightness at most 0." in done.ok().out.lower()
    phis = pl.read_parquet("out/slices.parquet").filter("confirmed")["phi"].to_list()
    words = "present(car) AND brightness IS NOT NULL AND brightness <= 0."
    assert any(phi.startswith(words) for phi in phis)
    assert load_dataset("data").attributes == ()
