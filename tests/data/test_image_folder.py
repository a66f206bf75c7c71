"""Image folders: classes and splits by the names of folders."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from PIL import Image
from refusals import fails

import nooch
from nooch.data.importing.import_dataset import import_dataset
from nooch.data.readers.contract import read
from nooch.data.readers.image_folder import FolderReading

FLAT = ("cat/1.jpg", "cat/deep/2.jpg", "fire hydrant/1.jpg")
DIVIDED = ("train/cat/1.jpg", "val/cat/2.jpg", "test/dog/3.PNG")


def images(folder, names):
    """Tiny images of these names."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        kind = "PNG" if name.lower().endswith("png") else "JPEG"
        Image.new("RGB", (2, 2)).save(folder / name, kind)
    return folder


def test_each_image_shows_the_class_of_its_folder(tmp_path):
    data = read(FolderReading(images(tmp_path, FLAT)))
    assert data.classes == ("cat", "fire_hydrant")
    assert list(data.image_ids) == sorted(FLAT)
    assert data.labels("cat").tolist() == [True, True, False]
    assert np.isnan(data.area("fire_hydrant")[2])
    assert data.area("fire_hydrant")[0] == 0
    assert data.image_root == str(tmp_path)
    assert data.splits == {"all": 3}


def test_folders_called_after_splits_are_splits(tmp_path):
    data = read(FolderReading(images(tmp_path, DIVIDED)))
    assert data.classes == ("cat", "dog")
    assert data.splits == {"train": 1, "valid": 1, "test": 1}


def test_an_import_in_parts_is_the_same(tmp_path):
    source = images(tmp_path / "in", [*FLAT, "dog/4.jpg", "dog/5.jpg"])
    import_dataset(FolderReading(source), tmp_path / "one")
    import_dataset(FolderReading(source), tmp_path / "parts", part_size=2)
    one, parts = (nooch.open_dataset(tmp_path / name) for name in ("one", "parts"))
    assert (one.n_parts, parts.n_parts) == (1, 3)
    assert one.fingerprint == parts.fingerprint == read(FolderReading(source)).fingerprint


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 30)), min_size=1, unique=True))
def test_any_collection_keeps_each_image_once(tmp_path_factory, names):
    folder = images(tmp_path_factory.mktemp("any"), [f"{c}/{i}.jpg" for c, i in names])
    data = read(FolderReading(folder))
    assert len(data) == len(names)
    for name in data.classes:
        assert data.labels(name).sum() == sum(c == name for c, _ in names)


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ((), "no images"),
        (("1.jpg",), "no image is in a folder of a class: 1.jpg"),
        (("train/1.jpg", "val/2.jpg"), "no image is in a folder of a class: train/1.jpg"),
    ],
)
def test_images_without_a_class_are_refused(tmp_path, names, text):
    images(tmp_path, names)
    fails(lambda: read(FolderReading(tmp_path)), text)


@pytest.mark.parametrize("top", ["", "train/"])
def test_images_next_to_folders_of_classes_are_left_out(tmp_path, top):
    source = images(tmp_path, [f"{top}{name}" for name in ("1.jpg", "cat/2.jpg", "dog/3.jpg")])
    data = read(FolderReading(source))
    assert list(data.image_ids) == [f"{top}cat/2.jpg", f"{top}dog/3.jpg"]
    assert f"left out 1 image outside folders of classes: {top}1.jpg" in data.provenance["notes"]


def test_other_endings_of_jpeg_are_read_and_other_formats_counted(tmp_path):
    source = images(tmp_path, ["cat/1.jfif", "cat/2.JPE", "dog/3.jpg"])
    for name in ("cat/4.heic", "dog/5.AVIF", "dog/6.avif"):
        (source / name).write_bytes(b"")
    data = read(FolderReading(source))
    assert len(data) == 3
    left = "left out 3 files in formats that nooch does not read: .avif 2, .heic 1"
    assert left in data.provenance["notes"]
