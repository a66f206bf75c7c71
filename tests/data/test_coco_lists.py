"""LVIS: images that list the classes that were looked for. Other classes are unknown there."""

import numpy as np
import pytest
from coco_files import document, image, write
from hypothesis import given, settings, strategies as st
from in_memory import read_coco
from refusals import fails
from same_datasets import same_dataset

from nooch.data import load_dataset
from nooch.data.importing.import_dataset import import_dataset
from nooch.data.readers.coco.reader import CocoReading
from nooch.integrity import fsck

NAMES = {4: "cat", 7: "dog", 9: "cow"}
LISTS = {"neg_category_ids": "absent", "not_exhaustive_category_ids": "partial"}


@st.composite
def files(draw):
    """Images 1 to 4 with lists or without, and annotations of them; in one file or two."""
    listed = st.lists(st.sampled_from([*NAMES]), max_size=2, unique=True)
    images = [image(i, **draw(st.dictionaries(st.sampled_from([*LISTS]), listed))) for i in (1, 2)]
    images += [image(3), image(4, neg_category_ids=[], not_exhaustive_category_ids=[7])]
    pairs = st.tuples(st.sampled_from([1, 2, 3, 4]), st.sampled_from([*NAMES]))
    annotations = [
        {"image_id": i, "category_id": c, "area": 4, "bbox": [k / 10, 0, 2, 2]}
        for k, (i, c) in enumerate(draw(st.lists(pairs, max_size=6)))
    ]
    return images, annotations, draw(st.sampled_from([4, 2]))


def _known(entry, category, annotations):
    """Whether presence, and whether the area, of a category is known in an image."""
    if not {*LISTS} & entry.keys():
        return True, True
    is_there = any(
        (a["image_id"], a["category_id"]) == (entry["id"], category) for a in annotations
    )
    partial = category in entry.get("not_exhaustive_category_ids", ())
    absent = category in entry.get("neg_category_ids", ())
    looked_for = (is_there or absent) and not partial
    return is_there or looked_for, looked_for


@settings(deadline=None, max_examples=8)
@given(files(), st.sampled_from([1 << 24, 120]))
def test_what_is_known_is_what_images_list(tmp_path_factory, drawn, slice_size):
    images, annotations, first = drawn
    folder = tmp_path_factory.mktemp("lvis")
    paths = [
        write(folder / f"{n}.json", document(
            some, [a for a in annotations if any(a["image_id"] == i["id"] for i in some)], NAMES
        ))
        for n, some in enumerate((images[:first], images[first:])) if some
    ]  # fmt: skip
    reading = CocoReading(paths, slice_size=slice_size)
    import_dataset(reading, folder / "whole")
    data = load_dataset(folder / "whole")
    for category, name in NAMES.items():
        expected = np.array([_known(i, category, annotations) for i in images])
        for number, mask in enumerate((data.unknown_labels(name), data.unknown(name))):
            unknown = np.zeros(4, bool) if mask is None else mask
            np.testing.assert_array_equal(unknown, ~expected[:, number])
    # objects are kept, whatever is known
    assert (0 if data.objects is None else data.objects.height) == len(annotations)
    count = sum(bool({*LISTS} & i.keys()) for i in images)
    notes = data.provenance["notes"]
    assert any(note.startswith(f"{count} images list the classes") for note in notes)
    import_dataset(reading, folder / "parts", part_size=1)
    same_dataset(load_dataset(folder / "parts"), data)
    assert fsck(folder / "parts").is_whole


def test_without_lists_everything_is_known(tmp_path):
    data = read_coco([write(tmp_path / "a.json", document([image(1)], [], NAMES))])
    assert data.exceptions is None
    assert data.images["annotated_things"].to_list() == [True]


@pytest.mark.parametrize(("lists", "words"), [
    ({"neg_category_ids": [4, 5]}, ["images 1 list unknown categories: 5", "own list"]),
    ({"not_exhaustive_category_ids": [1 << 70]}, ["an id does not fit into 64 bits"]),
    ({"neg_category_ids": "4"}, ["is not COCO's structure", "neg_category_ids"]),
    ({"neg_category_ids": [None]}, ["is not COCO's structure", "neg_category_ids"]),
])  # fmt: skip
def test_lists_that_are_refused(tmp_path, lists, words):
    file = write(tmp_path / "lvis.json", document([image(1, **lists)], [], NAMES))
    fails(lambda: read_coco([file]), "lvis.json", *words)
