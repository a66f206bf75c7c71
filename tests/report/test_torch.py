"""The torch Dataset: the set's images in the order of ids, opened only below their folder."""

import os
import pickle
import subprocess
import sys
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from refusals import fails, refused

import nooch
from nooch.base.errors import InputError, NoochError

torch_data = pytest.importorskip("torch.utils.data", reason="torch is not installed (nooch[train])")
CHOICE = {"criterion": "ce", "task": "car", "split": "test"}


def test_items_are_the_set(made):
    items = nooch.io.torch_dataset(made.suite, made.data, **CHOICE)
    assert isinstance(items, torch_data.Dataset)
    one = made.suite.set("ce", "car", "test")
    assert len(items) == len(one) > 0
    for k in range(len(items)):
        image, label, subset, image_id = items[k]
        assert (label, subset, image_id) == (one.labels[k], one.subset[k], one.image_ids[k])
        assert [type(value) for value in (label, subset, image_id)] == [int, int, int]
        assert (image.mode, image.size) == ("RGB", (10, 10))
        # the made images are of the color of their number
        assert abs(int(np.asarray(image)[0, 0, 0]) - image_id) <= 3
    with pytest.raises(IndexError):
        items[len(items)]


def _tensor(image):
    import torch

    return torch.tensor(np.asarray(image).mean())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_loader_takes_it_with_processes_too(made):
    items = nooch.io.torch_dataset(made.suite, made.data, **CHOICE, transform=_tensor)
    assert len(pickle.loads(pickle.dumps(items))) == len(items)
    batches = list(torch_data.DataLoader(items, batch_size=4))
    ids = made.suite.set("ce", "car", "test").image_ids.to_list()
    assert [int(i) for batch in batches for i in batch[3]] == ids
    assert batches[0][0].shape == (4,)


def test_a_split_of_the_dataset_with_environments(made):
    environments = np.arange(len(made.data)) % 4
    train = made.data.select("train")
    choice = {"task": "car", "split": "train", "environments": environments}
    items = nooch.io.torch_dataset(None, made.data, **choice)
    # the suite has no use without a criterion
    assert items[0][1:] == nooch.io.torch_dataset(made.suite, made.data, **choice)[0][1:]
    rows = [items[k][1:] for k in range(len(items))]
    by_id = dict(zip(made.data.images["image_id"], environments, strict=True))
    labels, ids = train.labels("car").astype(int), train.images["image_id"]
    assert rows == [(y, -1, i, by_id[i]) for y, i in zip(labels, ids, strict=True)]
    of_set = nooch.io.torch_dataset(made.suite, made.data, **CHOICE, environments=environments)
    assert all(item[4] == by_id[item[3]] for item in of_set)
    plain = nooch.io.torch_dataset(made.suite, made.data, **CHOICE)
    assert [item[1:4] for item in of_set] == [item[1:] for item in plain]


def test_what_is_no_split_and_no_environments(made):
    make = partial(nooch.io.torch_dataset, None, made.data, task="car")
    refused(lambda: make(split="tain"), "'tain' is not a split", "train")
    refused(lambda: make(split="train", environments=[0, 1]), "`environments`", "shape (2,)")
    fails(lambda: make(split="test", criterion="ce"), "`suite`", kind=NoochError)


def test_a_set_that_is_not_there(made):
    choice = {**CHOICE, "task": "cow"}
    refused(lambda: nooch.io.torch_dataset(made.suite, made.data, **choice), "'cow' is not a task")


@pytest.fixture
def first(made, tmp_path):
    """The set's first image; all others are linked into the folder ``inside``."""
    first = made.suite.set("ce", "car", "test").image_ids[0]
    (tmp_path / "inside").mkdir()
    for entry in (made.folder / "images").iterdir():
        if f"{first:012d}" not in entry.name:
            os.link(entry, tmp_path / "inside" / entry.name)
    return first


def test_images_that_are_missing_are_named_at_once(made, tmp_path, first):
    items = partial(nooch.io.torch_dataset, made.suite, **CHOICE)
    n = len(made.suite.set("ce", "car", "test"))
    missing = f"1 of {n} images are not there: {first} ({first:012d}.jpg)"
    fails(lambda: items(made.data, image_root=tmp_path / "inside"), missing, "image_root")
    fails(lambda: items(replace(made.data, image_root=None)), "no folder of images")
    gone = replace(made.data, image_root=str(tmp_path / "gone"))
    fails(lambda: items(gone), "no such folder", helps=False)


def test_an_image_that_the_dataset_does_not_name(made, make_suite):
    suite = make_suite({"ce": ["car"]}, [1, 2, 3, 999])
    act = partial(nooch.io.torch_dataset, suite, made.data, **CHOICE)
    fails(act, "1 of 4", "999 (no file name)")


def test_no_file_outside_the_folder_is_opened(made, tmp_path, first):
    items = partial(nooch.io.torch_dataset, made.suite, **CHOICE, image_root=tmp_path / "inside")
    name = f"{first:012d}.jpg"
    (tmp_path / "secret.jpg").write_bytes((made.folder / "images" / name).read_bytes())
    (tmp_path / "inside" / name).symlink_to(tmp_path / "secret.jpg")
    # the user names this folder; one that came with data is not left
    assert items(made.data)[0]
    names = made.data.images["file_name"].replace(name, "../secret.jpg")
    climbing = replace(made.data, images=made.data.images.with_columns(file_name=names))
    fails(lambda: items(climbing), "../secret.jpg")
    recorded = replace(made.data, image_root=str(tmp_path / "inside"))
    act = partial(nooch.io.torch_dataset, made.suite, recorded, **CHOICE)
    fails(act, "1 of", f"{name} (a link that leads out of the folder)")


def test_a_file_that_is_no_image_is_named(made, tmp_path):
    for entry in (made.folder / "images").iterdir():
        (tmp_path / entry.name).write_bytes(b"no image")
    items = nooch.io.torch_dataset(made.suite, made.data, **CHOICE, image_root=tmp_path)
    fails(lambda: items[0], "cannot be read as an image", kind=InputError, helps=False)


def test_the_extra_is_named_where_it_is_missing(made):
    code = f"""
import sys
sys.modules["torch"] = None
import nooch
suite = nooch.load_suite({str(made.folder / "suite")!r})
data = nooch.load_dataset({str(made.folder / "dataset")!r})
nooch.io.torch_dataset(suite, data, criterion="ce", task="car", split="test")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'nooch[train]'" in done.stderr
    assert "MissingExtraError" in done.stderr
