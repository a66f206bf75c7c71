"""Thumbnails of the hardest images: which ones, from where, and what is missing."""

import io

import msgspec
import numpy as np
import pytest
from pictures import picture_dataset
from PIL import Image
from refusals import fails, refused

import nooch
from nooch.base.errors import InputError, WrongTypeError
from nooch.suites.challenge_set import thumbnail_sheet


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """(folder, dataset with pictures, suite in memory); the folder has both, too."""
    folder = tmp_path_factory.mktemp("thumbnails")
    nooch.save_dataset(picture_dataset(folder), folder / "data")
    nooch.find(folder / "data", nooch.CE(), tasks=["car"], out=folder / "suite")
    data = nooch.load_dataset(folder / "data")
    return folder, data, nooch.find(data, "ce", tasks=["car"])


def test_the_hardest_are_those_of_extreme_support(world):
    challenge = world[2].set("ce", "car", "test")
    for side, sign in (("hard_positive", 1), ("hard_negative", -1)):
        ids = challenge.ids(side)
        support = dict(zip(challenge.image_ids, challenge.support, strict=True))
        ranked = sorted(ids, key=lambda i: (sign * support[i], i))
        rows = challenge.hardest(side, 4)
        assert challenge.image_ids.gather(rows).to_list() == ranked[:4]
        assert len(challenge.hardest(side, 10_000)) == len(ids)


def test_sets_without_support_show_the_first_by_id(world):
    data = world[1]
    challenge = nooch.find(data, "~ce", tasks=["car"]).set("~ce", "car", "test")
    ids = challenge.image_ids.gather(challenge.hardest("hard_negative", 3)).to_list()
    assert ids == challenge.ids("hard_negative")[:3]
    assert challenge.show(2).size[0] > 0


def test_a_set_shows_pictures_wherever_its_suite_comes_from(world, tmp_path):
    folder, data, suite = world
    sheet = suite.set("ce", "car", "test").show(12)
    assert isinstance(sheet, Image.Image)
    # rows of six with a line below, and a title, for each side
    assert sheet.size == (6 * 168 + 8, 8 + 2 * (16 + 184))
    stored = nooch.load_suite(folder / "suite").set("ce", "car", "test")
    assert stored.show().tobytes() == sheet.tobytes()
    elsewhere = stored.show(12, data=folder / "data", images=data.image_root)
    assert elsewhere.tobytes() == sheet.tobytes()
    sheet.save(tmp_path / "sheet.png")
    # odd numbers have one more positive; nothing is drawn of nothing
    assert suite.set("ce", "car", "test").show(13).size[1] == 8 + 16 + 2 * 184 + 16 + 184
    assert suite.set("ce", "car", "test").show(0).size[1] == 8 + 2 * 16


def test_pixels_are_those_of_the_files(world):
    challenge = world[2].set("ce", "car", "test")
    first = challenge.image_ids[int(challenge.hardest("hard_positive", 1)[0])]
    sheet = np.asarray(challenge.show(2))
    with Image.open(world[0] / "images" / f"{first:04d}.png") as image:
        expected = np.asarray(image.convert("RGB").resize((160, 160), Image.Resampling.BICUBIC))
    assert np.array_equal(sheet[24:184, 8:168], expected)


def test_what_is_missing_is_said(world, tmp_path):
    _, data, suite = world
    header = msgspec.structs.replace(
        suite.header, dataset=msgspec.structs.replace(suite.header.dataset, fingerprint="other")
    )
    for unknown in (nooch.Suite(suite.header, suite.set), nooch.Suite(header, suite.set, data)):
        assert unknown.found_in() is None
        refused(unknown.set("ce", "car", "test").show, "is not known", "challenge_set.show(data=")
    challenge = suite.set("ce", "car", "test")
    fails(lambda: challenge.show(data=3), "`data`: is 3", kind=WrongTypeError)
    fails(lambda: challenge.show(images=tmp_path), "images are not there")
    refused(lambda: challenge.show(data=data.select("train")), "there is no image with id")
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"no picture")
    with pytest.raises(InputError, match="is no image that can be read"):
        thumbnail_sheet({"title": [(broken, "words")]})


def test_any_name_can_be_drawn(tmp_path):
    Image.new("RGB", (400, 100), "red").save(tmp_path / "wide.png")
    sheet = thumbnail_sheet({"\u202e名前\x1b[2J": [(tmp_path / "wide.png", "é\n" * 50)]})
    content = io.BytesIO()
    sheet.save(content, "PNG")
    assert sheet.getpixel((100, 40)) == (255, 0, 0)
