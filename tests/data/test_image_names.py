"""Which image a name means: against a slow matcher, and what is refused."""

import json
import unicodedata

import polars as pl
import pytest
from hypothesis import given, strategies as st
from refusals import fails

from nooch.data import ImageNames, name_column
from nooch.data.json_records import json_records

_PARTS = st.sampled_from(["a", "b", "ä", "x1", "1", "12", "012"])
_NAMES = st.builds(
    lambda parts, ending: "/".join(parts) + ending,
    st.lists(_PARTS, min_size=1, max_size=3),
    st.sampled_from([".jpg", ".PNG", ".txt", ""]),
)


def _of(files, ids=None):
    ids = range(len(files)) if ids is None else ids
    names = pl.Series(files, dtype=pl.String)
    return ImageNames.from_images(pl.DataFrame({"image_id": ids, "file_name": names}))


def _ends(name):
    """All ends of a path, longest first, then those without the ending of an image."""
    parts = unicodedata.normalize("NFC", name).replace("\\", "/").split("/")
    ends = ["/".join(parts[n:]) for n in range(len(parts))]
    images = (".jpg", ".png")
    return ends + [e[:-4] if e.lower().endswith(images) else e for e in ends]


def _slow(files, name):
    """Images of the files with the longest end in common."""
    for end in _ends(name):
        if found := {number for number, file in enumerate(files) if end in _ends(file)}:
            return found
    return set()


@given(st.lists(_NAMES, min_size=1, max_size=6, unique=True), _NAMES, st.booleans())
def test_the_longest_common_end_decides(files, name, windows):
    if windows:
        name = unicodedata.normalize("NFD", name.replace("/", "\\"))
    # ids that no name is, and that no file ends in
    known = _of(files, [1000 + number for number in range(len(files))])
    found = _slow(files, name)
    match = lambda: known.match(pl.Series([name]), "here")  # noqa: E731
    if len(found) > 1:
        fails(match, f"{name} names several images", "here")
    else:
        assert match().ids.to_list() == ([1000 + found.pop()] if found else [None])


@given(st.lists(st.integers(0, 99), min_size=1, max_size=8, unique=True), st.data())
def test_ids_and_file_names_of_other_images_are_never_confused(numbers, data):
    """Files called after numbers: a column of these is ids, file names, or refused."""
    order = data.draw(st.permutations(numbers))
    known = _of([f"{n}.jpg" for n in order], numbers)
    texts = pl.Series([str(n) for n in numbers])
    if order == numbers:
        assert known.rule == "digits"
        assert known.match(texts, "here").ids.to_list() == numbers
    else:
        words = "names mean one image as an id", "with their endi"
        fails(lambda: known.match(texts, "here"), *words)
    as_files = known.match(texts + ".jpg", "here")
    assert as_files.ids.to_list() == [numbers[order.index(n)] for n in numbers]
    assert known.match(pl.Series(numbers), "here").ids.to_list() == numbers


@pytest.mark.parametrize(
    ("files", "ids", "rule"),
    [
        (["a/COCO_0012.jpg", "7.png", None], [12, 7, 8], "digits"),
        (["a/COCO_0012.jpg", "7.png"], [12, 8], "table"),
        (["x.jpg"], [1], "table"),
        ([None, None], [1, 2], ""),
        (["a/b.jpg", "c.jpg", "d/e.jpg"], ["b", "c.jpg", "d/e"], "ids"),
        (["a/b.jpg", "c.jpg"], ["b", "d"], "table"),
    ],
)
def test_what_has_to_be_recorded(files, ids, rule):
    assert _of(files, ids).rule == rule


def test_digits_count_where_the_known_names_say_so_alone():
    names = pl.Series(["COCO_val2014_000000000012.jpg", "8/7"])
    assert _of(["12.jpg", "00007.jpg"], [12, 7]).match(names, "x").ids.to_list() == [12, 7]
    assert ImageNames(pl.Series([12, 7]), digits=True).match(names, "x").ids.to_list() == [12, 7]
    assert _of(["12.jpg", "00007.jpg"], [12, 8]).match(names, "x").ids.to_list() == [None, None]
    assert ImageNames(pl.Series([12, 7])).match(names, "x").ids.to_list() == [None, None]


def test_what_matched_is_counted_and_the_rest_refused_where_all_names_are_known():
    known = _of(["a/x.jpg", "a/y.jpg", "a/z.jpg"])
    names = pl.Series(["x.png", None, "b/y", "x.png", "nowhere.jpg"])
    matched = known.match(names, "here")
    assert matched.ids.to_list() == [0, None, 1, 0, None]
    assert matched.note == "2 of 3 images by file name"
    fails(lambda: known.match(names, "here", strict=True), "1 of 3 names", "nowhere.jpg")
    twice = pl.Series(["x.jpg", "a/x"])
    fails(lambda: known.match(twice, "here"), "mean the same image: a/x, x.jpg")
    # numbers that are ids, and some that are not, are not names of files
    assert known.match(pl.Series(["1", "007"]), "here", strict=True).ids.to_list() == [1, None]


def test_text_ids_are_file_names():
    known = ImageNames(pl.Series(["cat/1.jpg", "dog/1.jpg", "dog/2.jpg"]))
    names = pl.Series(["D:\\all\\dog\\1.jpg", "2"])
    assert known.match(names, "x").ids.to_list() == ["dog/1.jpg", "dog/2.jpg"]
    fails(lambda: known.match(pl.Series(["1.jpg"]), "x"), "cat/1.jpg and dog/1.jpg")
    swapped = _of(["b.jpg", "a.jpg"], ["a", "b"])
    fails(lambda: swapped.match(pl.Series(["a", "b"]), "x"), "a is the id a", "belongs to image b")


def test_integers_are_ids_where_the_file_has_types():
    assert name_column([1, 2], "x.json").dtype == pl.Int64
    assert name_column([1, 2], "x.csv").to_list() == ["1", "2"]
    assert name_column([1, "2", None], "x.json").to_list() == ["1", "2", None]
    assert name_column([True, 2**70], "x.json").dtype == pl.String


def test_where_as_many_names_are_ids_as_are_files_they_are_ids():
    known = _of(["x.jpg", "y.jpg"], [1, 2])
    matched = known.match(pl.Series(["1", "y.jpg"]), "x")
    assert (matched.ids.to_list(), matched.rule) == ([1, None], "by id")


def test_integers_up_to_63_bits_are_ids_and_others_text():
    ids, texts = ([2**63 - 1], [1 - 2**63]), ([2**63], [-(2**63)], [True], [1.0])
    assert {name_column(values, "x.json").dtype for values in ids} == {pl.Int64}
    assert {name_column(values, "x.json").dtype for values in texts} == {pl.String}


def test_names_that_only_look_alike_are_other_images():
    """NFC joins accents to their letters; NFKC would also take a ligature for two letters."""
    files = ["\ufb01sh.jpg", "fish.jpg", "x\u00b2.jpg", "x2.jpg", "\u00e9.jpg"]
    known = _of(files, [10, 11, 12, 13, 14])
    names = pl.Series([*files[:4], "e\u0301.jpg"])
    assert known.match(names, "x").ids.to_list() == [10, 11, 12, 13, 14]


def test_names_are_refused_where_no_file_is_known_and_other_ids_are_not():
    known = ImageNames(pl.Series([12, 7]))
    words = ("a.jpg, b.jpg are not image ids", "the file names are unknown", "12, 7")
    fails(lambda: known.match(pl.Series(["a.jpg", "b.jpg"]), "x", strict=True), *words)
    for names in ([], ["99", "100"], ["99", "a.jpg"]):
        column = pl.Series(names, dtype=pl.String)
        assert known.match(column, "x", strict=True).ids.to_list() == [None] * len(names)


_ONE = _of(["3.jpg", "2.jpg", "1.jpg"], [1, 2, 3])
_NUMBERS, _FILES = pl.Series([1, 2, 3]), pl.Series(["a/1.jpg", "a/2.jpg", "a/3.jpg"])


@pytest.mark.parametrize(
    ("columns", "best", "note"),
    [
        # the number of a file's name, next to that name
        ({"image_id": _NUMBERS, "file_name": _FILES}, "file_name", "different images in 2 of 3"),
        ({"image_id": _NUMBERS, "file_name": _FILES.reverse()}, "file_name", ""),
        ({"image_id": _NUMBERS, "path": pl.Series(["x", "y", "z"])}, "image_id", "path names no"),
        ({"image_id": _NUMBERS, "path": pl.Series(["x", "2.jpg", "z"])}, "image_id", ""),
        # the number of a row
        ({"id": _NUMBERS, "image": _FILES}, "image", ""),
        ({"id": _NUMBERS, "image": pl.Series(["x", "y", "z"])}, "", ""),
        ({"image_id": _NUMBERS + 9, "image": pl.Series(["x", "y", "z"])}, "", ""),
    ],
)
def test_columns_that_name_the_same_images(columns, best, note):
    name, text = _ONE.agreed(columns, "here")
    assert name == best
    assert note in text
    assert bool(note) == bool(text)


def test_the_column_id_counts_where_names_of_files_are_not_known():
    columns = {"id": _NUMBERS, "image": pl.Series(["x", "y", "z"])}
    assert ImageNames(pl.Series([1, 2, 3])).agreed(columns, "x") == ("id", "")
    # AMBER's numbers of rows, next to names that are none of COCO
    coco = ImageNames(pl.Series([1, 2, 3]), digits=True, of_coco=True)
    assert coco.agreed(columns, "x") == ("", "")


@pytest.mark.parametrize(
    "columns",
    [
        {"image": _FILES, "path": _FILES.reverse()},
        {"image_id": _NUMBERS, "img_id": _NUMBERS.reverse()},
        {"image_id": _NUMBERS, "path": pl.Series(["x", "y", "3.jpg"])},
    ],
)
def test_columns_that_contradict_each_other(columns):
    text = fails(lambda: _ONE.agreed(columns, "here"), "name different images", "remove")
    assert all(name in text for name in columns)


def test_a_number_of_another_collection_is_no_id_of_coco():
    coco = ImageNames(pl.Series([139, 285, 9]), digits=True, of_coco=True)
    match = lambda names: coco.match(pl.Series(names), "x").ids.to_list()  # noqa: E731
    assert match(["COCO_val2014_000000000139.jpg", "a/000000000285.png"]) == [139, 285]
    assert match(["139.jpg", "d/285", "2327067188.png"]) == [139, 285, None]
    assert match(["AMBER_139.jpg", "AMBER_9.jpg"]) == [None, None]
    assert match(["2327067188.png", "1514131776.png", "139.png"]) == [None, None, None]


@given(st.lists(st.integers(0, 999), min_size=1, max_size=8, unique=True))
def test_numbers_that_lost_their_zeros_are_names_only_where_all_names_are_numbers(numbers):
    files = [f"{n:06}.jpg" for n in numbers]
    names = pl.Series([str(n) for n in numbers])
    known = _of(files, files)
    assert known.match(names, "here").ids.to_list() == files
    assert "by the number" in known.match(names, "here").note
    # integers of a typed file are ids, and other numbers can be of rows
    for others in (pl.Series(numbers), pl.Series([*names, "1000"])):
        assert known.match(others, "here").ids.null_count() == len(others)
    for other in ([*files[:-1], f"x{files[-1]}"], [*files, f"b/{files[0][1:]}"]):
        assert _of(other, other).match(names, "here").ids.null_count() == len(numbers)


def test_ids_of_a_file_with_a_list_of_its_images_stand_for_their_file_names(tmp_path):
    images = [{"id": n, "file_name": f"{n + 7:06}.jpg"} for n in range(3)]
    records = [{"image_id": n, "caption": "a"} for n in range(3)]
    file = tmp_path / "c.json"
    file.write_text(json.dumps({"images": images, "annotations": records}))
    named = [record.get("file_name") for record in json_records(file)]
    assert named == [image["file_name"] for image in images]
    # records that name files keep their names, and other members stay
    records[0]["file_name"] = "other.jpg"
    file.write_text(json.dumps({"images": images[:1], "annotations": records}))
    assert [record.get("file_name") for record in json_records(file)] == ["other.jpg", None, None]
