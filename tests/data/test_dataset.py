"""The Dataset: canonical order, checks, parts of it, its fingerprint."""

import dataclasses
import math
from functools import partial

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st
from oracles import collections, dataset_of
from refusals import fails, refused
from scipy.sparse import csr_array

from nooch.data import Dataset, check_file_names, class_name, identifiers, replaced_columns
from nooch.data.table_schema import CORE_COLUMNS, check_captions


def _build(images=None, classes=("a", "b"), areas=None, captions=None, **rest):
    frame = pl.DataFrame({"image_id": [3, 1, 2]} if images is None else images)
    areas = np.array([[0.5, 0], [0, 0.25], [0, 0]])[: frame.height] if areas is None else areas
    return Dataset.build(frame, classes, csr_array(areas), captions, **rest)


# what is built


def test_everything_is_put_into_the_order_of_ids():
    captions = pl.DataFrame({"image_id": [3, 1, 3, 2], "caption": ["c", "b", "a", None]})
    data = _build(captions=captions, embeddings={"e": np.array([[3.0], [1.0], [2.0]])})
    assert data.image_ids.tolist() == [1, 2, 3]
    assert data.areas.toarray().tolist() == [[0, 0.25], [0, 0], [0.5, 0]]
    assert data.embeddings["e"].tolist() == [[1.0], [2.0], [3.0]]
    assert data.captions.rows() == [(1, "b"), (3, "c"), (3, "a")]
    types = [pl.Int64, pl.String, pl.Int64, pl.Int64, pl.String]
    assert list(data.images.schema.items()) == list(zip(CORE_COLUMNS, types, strict=True))
    assert data.splits == {"all": 3}
    assert data.fitting_split == "all"
    assert repr(data).splitlines()[:3] == [
        "Dataset(3 images, 2 classes)",
        "split  images",
        "all         3",
    ]


@settings(max_examples=40, deadline=None)
@given(collections(splits=True), st.randoms(use_true_random=False))
def test_the_order_of_input_has_no_effect(sample, rng):
    images, classes, splits = sample
    order = list(range(len(images)))
    rng.shuffle(order)
    shuffled = dataset_of(
        [images[i] for i in order], classes, [splits[i] for i in order], [i + 1 for i in order]
    )
    assert shuffled.fingerprint == dataset_of(images, classes, splits).fingerprint


@settings(max_examples=40, deadline=None)
@given(collections())
def test_labels_and_areas_are_those_of_the_dictionaries(sample):
    images, classes, _ = sample
    data = dataset_of(images, classes)
    for name in classes:
        assert data.labels(name).tolist() == [name in image for image in images]
        assert data.area(name).tolist() == [image.get(name, 0.0) for image in images]
        rows, areas = data.rows_of(name)
        assert rows.tolist() == [row for row, image in enumerate(images) if name in image]
        assert areas.tolist() == [image[name] for image in images if name in image]


def test_a_stored_zero_is_present_and_nan_is_present_with_unknown_area():
    areas = csr_array((np.array([0.0, math.nan]), ([0, 1], [0, 0])), shape=(3, 2))
    data = Dataset.build(pl.DataFrame({"image_id": [1, 2, 3]}), ["a", "b"], areas)
    assert data.labels("a").tolist() == [True, True, False]
    assert not data.has_areas
    assert data.select(rows=np.array([0])).has_areas


def test_it_is_immutable():
    data = _build()
    with pytest.raises(dataclasses.FrozenInstanceError):
        data.classes = ()
    with pytest.raises(ValueError, match="read-only"):
        data.areas.data[0] = 1
    with pytest.raises(TypeError):
        data.provenance["a"] = 1
    with pytest.raises(TypeError):
        data.embeddings["a"] = np.ones((3, 1))


def _of(**columns):
    return {"images": columns}


LONG = pl.Series([2**64 - 1], dtype=pl.UInt64)
STRAYS = pl.DataFrame({"image_id": [1, 8, 9, 8], "caption": ["a"] * 4})
# what is built -> words of the refusal
BAD = {
    "no ids": (_of(id=[1]), "images have no column image_id", "columns: id"),
    "an id that is null": (_of(image_id=[1, None]), "column image_id has 1 nulls"),
    "a repeated id": (_of(image_id=[1, 2, 1]), "image ids occur more than once: 1",
        "each image once"),
    "ids of 64 bits without sign": (_of(image_id=LONG), "integers of at most 64 bits",
        "image ids that are not whole numbers, or too large: 18446744073709551615"),
    "ids that are infinite": (_of(image_id=[1.0, math.inf]), "or too large: inf"),
    "ids of 1e300": (_of(image_id=[1.0, 1e300]), "or too large: 1e+300"),
    "ids with fractions": (_of(image_id=[1.0, 2.5]), "not whole numbers, or too large: 2.5"),
    "a width in words": (_of(image_id=[1], width=["wide"]), "wrong kind", "integers as width"),
    "a width of 0": (_of(image_id=[7], width=[0]), "column width contains 0 in images 7",
        "at least 1 pixel"),
    "a negative height": (_of(image_id=[7], height=[-1]), "column height contains -1 in images 7"),
    "an unknown split": (_of(image_id=[1], split=["night"]), "column split contains night",
        "train, valid, test"),
    "a split that is null": (_of(image_id=[1, 2], split=["train", None]),
        "column split has 1 nulls", "train, valid, test or all"),
    "all and train": (_of(image_id=[1, 2], split=["train", "all"]), "split names all, train"),
    "an unsafe name": (_of(image_id=[1], file_name=["../a.jpg"]),
        "column file_name contains ../a.jpg in images 1"),
    "a repeated class": ({"classes": ("a", "a")}, "class 'a' is listed twice", "each class once"),
    "a class without a name": ({"classes": ("a", "")}, "name"),
    "areas of another shape": ({"classes": ("a",)}, "areas have shape (3, 2), expected (3, 1)"),
    "a negative area": ({"areas": [[0, -1.0], [0, 0], [0, 0]]}, "class b has area -1 in image 3",
        "fractions of the image"),
    "an infinite area": ({"areas": [[0, math.inf], [0, 0], [0, 0]]},
        "class b has area inf in image 3"),
    "an area of 101 images": ({"areas": [[0, 0], [0, 0], [101.0, 0]]},
        "class a has area 101 in image 2", "from 0 to 100"),
    "captions of unknown images": ({"captions": STRAYS}, "leave these captions out",
        "captions of 2 images that are not in the dataset: 8, 9"),
}  # fmt: skip
BARE = {"an id that is null", "a class without a name", "areas of another shape"}


@pytest.mark.parametrize("case", BAD)
def test_what_is_refused(case):
    changed, *parts = BAD[case]
    fails(lambda: _build(**changed), *parts, helps=case not in BARE)


OUTSIDE = [
    "/a.jpg", "\\a.jpg", "\\\\host\\a.jpg", "..", "../a", "a/..", "a/../b", "a\\..\\b", "C:\\a",
    "c:a", "a\0b",
]  # fmt: skip
INSIDE = [
    "a.jpg", "a/b.jpg", "..a.jpg", "a../b", "a..b", "...", "train 1/ü.jpg", "a/./b", "12:30.jpg"
]  # fmt: skip


@pytest.mark.parametrize("name", OUTSIDE)
def test_file_names_that_lead_out(name):
    check_file_names(pl.Series(INSIDE))
    check_file_names(pl.Series([None, None], dtype=pl.String))
    names = pl.Series(["fine.jpg", None, name])
    words = "table.csv: column file_name contains", "none that lead out"
    fails(lambda: check_file_names(names, "table.csv"), *words)


@pytest.mark.parametrize(
    ("text", "name"),
    [("fire hydrant", "fire_hydrant"), (" a  b\t", "a_b"), ("floor-wood", "floor-wood")],
)
def test_class_names(text, name):
    assert class_name(text) == name
    for empty in ("", " ", "\t\n"):
        act = partial(class_name, empty, "list.txt")
        fails(act, "list.txt: a class has an empty name", helps=False)


NUMBERS = [(["000000000139", "7"], [139, 7]), (["9" * 18], [10**18 - 1])]
TEXTS = [["9" * 19, "7"], ["10_3_s", "7"], ["-7"], ["7\n"], ["٣"], ["", "1"], []]


@pytest.mark.parametrize(("texts", "expected"), [*NUMBERS, *((text, text) for text in TEXTS)])
def test_identifiers(texts, expected):
    column = identifiers(texts)
    assert column.name == "image_id"
    assert column.to_list() == expected


def test_captions_keep_their_order_and_lose_what_is_null():
    images = pl.DataFrame({"image_id": [1, 2]})
    captions = pl.DataFrame({"image_id": [2, 1, 2, 1], "caption": ["d", "b", None, "a"]})
    assert check_captions(captions, images).rows() == [(1, "b"), (1, "a"), (2, "d")]


# parts of it


def test_select_by_split_rows_and_ids():
    images = {"image_id": [1, 2, 3], "split": ["train", "test", "train"]}
    captions = pl.DataFrame({"image_id": [1, 2, 3, 3], "caption": ["x", "y", "z", "w"]})
    data = _build(images, captions=captions, embeddings={"e": np.array([[1.0], [2.0], [3.0]])})
    assert data.splits == {"train": 2, "test": 1}
    assert data.fitting_split == "train"
    for part in (
        data.select("train"),
        data.select(rows=np.array([True, False, True])),
        data.select(rows=np.array([0, 2])),
        data.select(image_ids=[3, 1]),
    ):
        assert part.image_ids.tolist() == [1, 3]
        assert part.areas.toarray().tolist() == [[0.5, 0], [0, 0]]
        assert part.captions["caption"].to_list() == ["x", "z", "w"]
        assert part.embeddings["e"].tolist() == [[1.0], [3.0]]
        assert part.classes == data.classes
    assert data.select() is data
    for name, way in (
        ("all", "pass split='train' or pass split='test'"),
        ("valid", "nooch import auto with split='60/20/20'"),
    ):
        words = f"'{name}' is not a split of the dataset", "test, train", way
        refused(lambda name=name: data.select(name), *words)
    refused(lambda: data.select(image_ids=[1, 8]), "there is no image with id 8")


def test_rows_by_id():
    data = _build()
    assert [data.row(i) for i in (1, "2", np.int64(3), "003")] == [0, 1, 2, 2]
    texts = dataset_of([{}, {}], ["Y"], ids=["10_3_s", "7"])
    assert [texts.row(i) for i in ("10_3_s", "7")] == [0, 1]


@pytest.mark.parametrize("image_id", [8, -1, "x", "", "1.0", "--1", "²", "٣", 10**30, "9" * 30])
def test_rows_of_ids_that_are_not_there(image_id):
    words = f"no image with id {image_id!r}", "one of 3 ids, such as 1, 2, 3"
    refused(lambda: _build().row(image_id), *words)


def test_classes_that_are_not_there():
    data = _build(classes=("car", "cow"))
    refused(lambda: data.labels("cat"), "'cat' is not a class of the dataset", "did you mean car")


def test_with_embedding():
    data = _build().with_embedding("e", np.ones((3, 2)))
    assert data.embeddings["e"].shape == (3, 2)
    for wrong in (np.ones((2, 2)), np.ones(3)):
        words = f"embedding f has shape {wrong.shape}, expected (3, d)"
        fails(lambda w=wrong: data.with_embedding("f", w), words, helps=False)


# fingerprint

BASE = {
    "image_id": [1, 2],
    "file_name": ["a", "b"],
    "width": [4, 4],
    "height": [4, 4],
    "split": ["train", "test"],
    "place": ["x", None],
}
CHANGES = {
    "an id": {"image_id": [1, 3]},
    "a name": {"file_name": ["a", "c"]},
    "a name that is missing": {"file_name": ["a", None]},
    "a size": {"width": [4, 5]},
    "a split": {"split": ["train", "valid"]},
    "an attribute": {"place": ["x", "y"]},
    "an attribute that moves": {"place": [None, "x"]},
    "another attribute": {"light": [1, 2]},
}


@pytest.mark.parametrize("change", CHANGES)
def test_the_fingerprint_depends_on_images(change):
    areas = [[0.5, 0.0], [0.0, 0.25]]
    base = _build(BASE, areas=areas).fingerprint
    assert _build(BASE, areas=areas).fingerprint == base
    assert _build({**BASE, **CHANGES[change]}, areas=areas).fingerprint != base


def test_the_fingerprint_depends_on_classes_areas_and_captions_but_not_on_embeddings():
    areas = [[0.5, 0.0], [0.0, 0.25]]
    base = _build(BASE, areas=areas)
    captions = pl.DataFrame({"image_id": [1], "caption": ["c"]})
    prints = {
        base.fingerprint,
        _build(BASE, ("a", "c"), areas).fingerprint,
        _build(BASE, areas=[[0.5, 0.0], [0.0, 0.5]]).fingerprint,
        _build(BASE, areas=[[0.0, 0.5], [0.0, 0.25]]).fingerprint,
        _build(BASE, areas=areas, captions=captions).fingerprint,
        _build(BASE, areas=areas, captions=captions.with_columns(caption=pl.lit("d"))).fingerprint,
    }
    assert len(prints) == 6
    assert base.with_embedding("e", np.ones((2, 1))).fingerprint == base.fingerprint
    elsewhere = _build(BASE, areas=areas, provenance={"a": 1}, image_root="/x")
    assert elsewhere.fingerprint == base.fingerprint


@pytest.mark.parametrize(
    "values", [[["a"], ["b", "c"]], [{"x": 1}, {"x": 2}], [b"a", b"\xff"], [[1, None], None]]
)
def test_attributes_of_any_kind_have_a_fingerprint(values):
    first = _build({"image_id": [1, 2], "a": values}).fingerprint
    assert _build({"image_id": [1, 2], "a": values[::-1]}).fingerprint != first


@given(st.data())
def test_replaced_columns_are_those_of_the_other_table_zeros_included(draw):
    n, wide = draw.draw(st.integers(1, 5)), draw.draw(st.integers(1, 4))
    columns = draw.draw(st.lists(st.integers(0, wide - 1), unique=True, min_size=1))
    cell = st.none() | st.sampled_from([0.0, 0.25, 1.0])

    def table(width):
        cells = {(r, c): draw.draw(cell) for r in range(n) for c in range(width)}
        there = {at: value for at, value in cells.items() if value is not None}
        at = np.array([*there], dtype=int).reshape(-1, 2).T
        return there, csr_array((np.array([*there.values()]), tuple(at)), shape=(n, width))

    (old, before), (new, by) = table(wide), table(len(columns))
    found = replaced_columns(before, by, np.array(columns)).tocoo()
    kept = {at: value for at, value in old.items() if at[1] not in columns}
    places = zip(found.row.tolist(), found.col.tolist(), strict=True)
    assert dict(zip(places, found.data.tolist(), strict=True)) == kept | {
        (row, columns[place]): value for (row, place), value in new.items()
    }
