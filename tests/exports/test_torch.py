"""The torch Dataset: the set's images in the order of ids, opened only below their folder."""

import os
import pickle
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from refusals import fails

import nooch
from nooch.errors import InputError, ParameterError

torch_data = pytest.importorskip("torch.utils.data", reason="torch is not installed (nooch[train])")
CHOICE = {"criterion": "ce", "task": "car", "split": "test"}


def test_items_are_the_set(made):
    items = nooch.torch_dataset(made.suite, made.data, **CHOICE)
    assert isinstance(items, torch_data.Dataset)
    one = made.suite.set("ce", "car", "test")
    assert len(items) == len(one) > 0
    for position, (image, label, subset, image_id) in enumerate(
        items[i] for i in range(len(items))
    ):
        assert (label, subset, image_id) == (
            one.labels[position],
            one.subset[position],
            one.image_ids[position],
        )
        assert [type(value) for value in (label, subset, image_id)] == [int, int, int]
        assert (image.mode, image.size) == ("RGB", (10, 10))
        # the made images are of the colour of their number
        assert abs(int(np.asarray(image)[0, 0, 0]) - image_id) <= 3
    with pytest.raises(IndexError):
        items[len(items)]


def _tensor(image):
    import torch

    return torch.tensor(np.asarray(image).mean())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_loader_takes_it_with_processes_too(made):
    items = nooch.torch_dataset(made.suite, made.data, **CHOICE, transform=_tensor)
    assert len(pickle.loads(pickle.dumps(items))) == len(items)
    batches = list(torch_data.DataLoader(items, batch_size=4))
    assert [int(i) for batch in batches for i in batch[3]] == made.suite.set(
        "ce", "car", "test"
    ).image_ids.to_list()
    assert batches[0][0].shape == (4,)


def test_a_set_that_is_not_there(made):
    fails(
        lambda: nooch.torch_dataset(made.suite, made.data, criterion="ce", task="cow", split="test"),
        "'cow' is no task", kind=ParameterError,
    )  # fmt: skip


def test_images_that_are_missing_are_named_at_once(made, tmp_path):
    first = made.suite.set("ce", "car", "test").image_ids[0]
    for entry in (made.folder / "images").iterdir():
        if f"{first:012d}" not in entry.name:
            (tmp_path / entry.name).write_bytes(entry.read_bytes())
    fails(
        lambda: nooch.torch_dataset(made.suite, made.data, **CHOICE, image_root=tmp_path),
        f"1 of {len(made.suite.set('ce', 'car', 'test'))} images are not there: {first} ({first:012d}.jpg)", "image_root",
    )  # fmt: skip
    fails(
        lambda: nooch.torch_dataset(made.suite, replace(made.data, image_root=None), **CHOICE),
        "no folder of images",
    )
    gone = replace(made.data, image_root=str(tmp_path / "gone"))
    fails(lambda: nooch.torch_dataset(made.suite, gone, **CHOICE), "no such folder", helps=False)


def test_an_image_that_the_dataset_does_not_name(made, make_suite):
    suite = make_suite({"ce": ["car"]}, [1, 2, 3, 999])
    fails(lambda: nooch.torch_dataset(suite, made.data, **CHOICE), "1 of 4", "999 (no file name)")


def test_no_file_outside_the_folder_is_opened(made, tmp_path):
    inside = tmp_path / "inside"
    inside.mkdir()
    first = made.suite.set("ce", "car", "test").image_ids[0]
    for entry in (made.folder / "images").iterdir():
        if f"{first:012d}" not in entry.name:
            os.link(entry, inside / entry.name)
    (tmp_path / "secret.jpg").write_bytes(
        (made.folder / "images" / f"{first:012d}.jpg").read_bytes()
    )
    (inside / f"{first:012d}.jpg").symlink_to(tmp_path / "secret.jpg")
    fails(lambda: nooch.torch_dataset(made.suite, made.data, **CHOICE, image_root=inside), "1 of")
    names = made.data.images["file_name"].to_list()
    names[made.data.row(first)] = "../secret.jpg"
    from polars import Series

    climbing = replace(made.data, images=made.data.images.with_columns(Series("file_name", names)))
    fails(
        lambda: nooch.torch_dataset(made.suite, climbing, **CHOICE, image_root=inside),
        "../secret.jpg",
    )


def test_a_file_that_is_no_image_is_named(made, tmp_path):
    for entry in (made.folder / "images").iterdir():
        (tmp_path / entry.name).write_bytes(b"no image")
    items = nooch.torch_dataset(made.suite, made.data, **CHOICE, image_root=tmp_path)
    fails(lambda: items[0], "cannot be read as an image", kind=InputError, helps=False)


def test_the_extra_is_named_where_it_is_missing(made):
    code = (
        "import sys\nsys.modules['torch'] = None\nimport nooch\nsuite, data ="
        f" nooch.load_suite({str(made.folder / 'suite')!r}),"
        f" nooch.load_dataset({str(made.folder / 'dataset')!r})\nnooch.torch_dataset(suite, data,"
        " criterion='ce', task='car', split='test')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'nooch[train]'" in done.stderr
    assert "MissingExtraError" in done.stderr
