"""COCO documents decoded slice by slice give what decoding the whole gives, whatever the cuts."""

import json
import tempfile
from functools import partial
from pathlib import Path

import msgspec
import pytest
from coco_files import AWKWARD, INNER, as_json, check_areas, naive_areas, sources, write
from hypothesis import example, given, settings, strategies as st
from refusals import fails

from nooch.base.engines import LocalEngine
from nooch.base.errors import InputError
from nooch.base.limits import BROKEN_JSON
from nooch.data.readers.coco import decoder as coco_decoder
from nooch.data.readers.coco.decoder import Document, drop, opened
from nooch.data.readers.coco.reader import CocoReading
from nooch.data.readers.coco.structure import decode
from nooch.data.readers.contract import read


class _Element(msgspec.Struct):
    n: int


class _Any(msgspec.Struct):
    images: list[_Element]
    annotations: list[_Element]
    categories: list[dict] | None = None


@st.composite
def documents(draw):
    """The text of a document: members in any order, some of them twice, some keys with escapes."""
    values = st.lists(INNER, max_size=6)
    elements = values.map(lambda more: [{"n": n, "m": m} for n, m in enumerate(more)])
    reordered = elements.map(
        lambda listed: [dict(sorted(e.items())) if e["n"] % 2 else e for e in listed]
    )
    members = [(key, draw(elements | reordered)) for key in ("images", "annotations")]
    categories = st.lists(st.fixed_dictionaries({"id": INNER}), max_size=2) | st.none()
    others = st.tuples(AWKWARD.filter(lambda key: key != "images"), INNER)
    members += [("categories", draw(categories)), *draw(st.lists(others, max_size=2))]
    members += draw(st.lists(st.sampled_from(members), max_size=2))
    space = lambda: draw(_SPACES)  # noqa: E731
    texts = [
        f"{space()}{as_json(draw, key)}{space()}:{space()}{as_json(draw, value)}{space()}"
        for key, value in draw(st.permutations(members))
    ]
    text = f"{space()}{{{','.join(texts)}}}{space()}"
    return (text.replace('"images"', '"im\\u0061ges"') if draw(st.booleans()) else text).encode()


_SPACES = st.sampled_from(["", "", " ", "\r\n\t"])


def _walked(text, size):
    """Elements and other members by a walk in slices of a size."""
    members = {}
    document = Document(text, Path("x.json"), _Any, size)
    for key in document.arrays():
        pairs = document.records(key)
        records = [(e.n, msgspec.json.decode(raw, type=_Element).n) for e, raw in pairs]
        members[key] = [n for n, again in records if again == n]
    return members | {"categories": document.rest().categories}


def _whole(text):
    """The same by decoding the whole."""
    whole = decode(text, _Any, Path("x.json"))
    images, annotations = ([e.n for e in listed] for listed in (whole.images, whole.annotations))
    return {"images": images, "annotations": annotations, "categories": whole.categories}


@settings(deadline=None, max_examples=40)
@given(documents(), st.integers(1, 90))
def test_every_element_is_found_once_wherever_arrays_are_cut(text, size):
    found = _walked(text, size)
    assert found == _whole(text)
    content = json.loads(text)
    assert found["annotations"] == [element["n"] for element in content["annotations"]]
    assert found["images"] == [element["n"] for element in content["images"]]
    assert found["categories"] == content["categories"]


def _said(act):
    try:
        return act()
    except InputError as error:
        return str(error)


DAMAGE = st.sampled_from(
    [b"", b"\x0b", b"tru", b"\xff", b'"n":"a"', *(b"%c" % c for c in b',}]{"[1:\\5')]
)


@settings(deadline=None, max_examples=50)
@given(documents(), st.integers(1, 90), st.data())
def test_a_damaged_document_is_refused_in_the_words_for_the_whole(text, size, data):
    start = data.draw(st.integers(0, len(text)))
    damaged = text[:start] + data.draw(DAMAGE) + text[start + data.draw(st.integers(0, 2)) :]
    if data.draw(st.booleans()):
        damaged = damaged[: data.draw(st.integers(0, len(damaged)))]
    assert _said(lambda: _walked(damaged, size)) == _said(lambda: _whole(damaged))


def test_a_damaged_key_is_refused_in_the_words_for_the_whole():
    text = b'{"\\images": [], "annotations": []}'
    assert "byte 4" in _said(lambda: _walked(text, 1)) == _said(lambda: _whole(text))


def _decoded(text, start, stop):
    """The elements of a slice; None where it does not decode."""
    try:
        return msgspec.json.decode(b"[" + text[start:stop] + b"]", type=list[_Element])
    except BROKEN_JSON:
        return None


def _plain(n):
    """As most files are: objects within elements begin with another key than elements do."""
    elements = [
        {"n": k, "segmentation": {"counts": [1, 2], "more": [{"x": 1}, {"x": 2}]}} for k in range(n)
    ]
    members = {"images": [{"n": 1}], "annotations": elements, "categories": [{"id": 1}]}
    return json.dumps(members).encode()


def test_plain_arrays_are_cut_right_at_once():
    text, tried = _plain(1000), []
    document = Document(text, Path("x.json"), _Any, 500)
    for key in document.arrays():
        tried.clear()

        def attempt(start, stop):
            tried.append((start, stop))
            return _decoded(text, start, stop)

        n_cuts = len(document.cuts())
        list(document.elements(key, attempt))
    document.rest()
    assert key == "annotations"
    # but for the end of the last element, where a list of objects ends too
    assert 100 < n_cuts <= len(tried) <= n_cuts + 1


def test_an_element_that_is_longer_than_slices_takes_linear_time():
    long = {"n": 2, "inner": [{"n": n} for n in range(3000)]}
    text = json.dumps({"images": [], "annotations": [{"n": 1}, long, {"n": 3}]}).encode()
    document, decoded = Document(text, Path("x.json"), _Any, 100), []
    for key in document.arrays():

        def attempt(start, stop):
            decoded.append(stop - start)
            return _decoded(text, start, stop)

        slices = document.elements(key, attempt)
        numbers = [element.n for _, elements in slices for element in elements]
    assert numbers == [1, 2, 3]
    assert sum(decoded) < 5 * len(text)


def test_bytes_of_text_that_is_not_wanted_do_not_matter():
    text = b'{"x\xff": "\xff", "annotations": [{"n": 1, "m\xff": "\xff"}], "images": []}'
    members = {"annotations": [1], "images": [], "categories": None}
    assert _walked(text, 10) == _whole(text) == members


def test_slices_that_were_decoded_leave_memory(tmp_path, monkeypatch):
    """Pages of a mapped file count as memory of the process."""
    dropped, path = [], write(tmp_path / "a.json", _plain(5000))

    def dropping(content, start, end):
        dropped.append(end - start)
        drop(content, start, end)

    monkeypatch.setattr(coco_decoder, "drop", dropping)
    with opened(path) as content:
        document = Document(content, path, _Any, 4096)
        for key in document.arrays():
            assert sum(1 for _ in document.records(key)) == (1 if key == "images" else 5000)
    assert sum(dropped) > 0.99 * path.stat().st_size


# whole files


@settings(deadline=None, max_examples=20)
@given(sources(), st.integers(1, 400))
def test_a_dataset_is_what_loops_over_the_documents_give(sample, size):
    contents, texts = sample
    with tempfile.TemporaryDirectory() as folder:
        files = {
            role: [write(Path(folder, f"{role}{n}.json"), text) for n, text in enumerate(listed)]
            for role, listed in texts.items()
        }
        data = read(CocoReading(**files, slice_size=size))
    documents = [file for role in ("things", "stuff") for file in contents[role]]
    for annotation in (a for file in documents for a in file["annotations"] if "pixels" in a):
        annotation["area"] = annotation["pixels"]
    check_areas(data, naive_areas(documents), rel=1e-12)
    images = [entry for file in documents for entry in file["images"]]
    listed = {i["id"]: (i["file_name"], i["width"], i["height"]) for i in images}
    rows = data.images.select("image_id", "file_name", "width", "height").rows()
    assert rows == [(number, *listed[number]) for number in sorted(listed)]
    if "captions" in contents:
        said = [(a["image_id"], a["caption"]) for a in contents["captions"][0]["annotations"]]
        said = [(image_id, text) for image_id, text in said if image_id in listed]
        assert data.captions.rows() == sorted(said, key=lambda row: row[0])


@settings(deadline=None, max_examples=20)
@given(sources(), st.data())
@example(
    ({}, {"things": ['{"images":[{"id":1}],"annotations":[{"image_id":1,"category_id":true}]}']}),
    None,
)
def test_a_damaged_file_is_refused_in_the_same_words_wherever_it_is_cut(sample, data):
    (text, *_), sizes = sample[1]["things"], (1, 40, 1 << 20)
    content = text.encode()
    if data is not None:
        start = data.draw(st.integers(0, len(content)))
        content = content[:start] + data.draw(DAMAGE) + content[start + 1 :]
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder, "things.json"), content)
        readings = [CocoReading([path], slice_size=size) for size in sizes]
        said = {_said(lambda r=reading: read(r).fingerprint) for reading in readings}
    assert len(said) == 1


def _without_area(document):
    for k in (431, 430, 200):
        document["annotations"][k].update(segmentation=[[1, 1]], area=None)


# change to a document -> what the error says
COUNTED = {
    "a negative area": (lambda d: d["annotations"][431].update(area=-1),
        "annotation 431 (counted from 0) has area -1"),
    "no area": (_without_area, "annotation 200 (counted from 0) has no area"),
    "another image": (lambda d: d["annotations"][431].update(image_id=7),
        "are not listed: 7", "annotation 431"),
    "no image": (lambda d: d["annotations"][599].pop("image_id"), "$.annotations[599]"),
    "70 bits": (lambda d: d["annotations"][430].update(image_id=2**70), "64 bits"),
    "a width in text": (lambda d: d["images"][298].update(width="wide"), "$.images[298].width"),
    "an image twice": (lambda d: d["images"][299].update(id=0), "ids occur more than once: 0"),
}  # fmt: skip


@pytest.mark.parametrize("case", COUNTED)
def test_records_are_counted_over_the_whole_array(tmp_path, case):
    change, *parts = COUNTED[case]
    images = [{"id": i * 3, "width": 10, "height": 8} for i in range(300)]
    polygon = [[1, 1, 5, 1, 5, 5]]
    annotations = [
        {"image_id": k % 300 * 3, "category_id": 1, "segmentation": polygon}
        | ({} if k % 5 == 0 else {"area": k / 7})
        for k in range(600)
    ]
    categories = [{"id": 1, "name": "cat"}]
    document = {"images": images, "annotations": annotations, "categories": categories}
    change(document)
    path = write(tmp_path / "instances.json", document)
    # workers report what they find in a slice, and this process what it finds in all
    by_workers = case in ("no image", "another image")
    for size, map_ in ((3000, LocalEngine(2).map if by_workers else map), (1 << 20, map)):
        act = partial(read, CocoReading([path], slice_size=size), map=map_)
        fails(act, *parts, helps=case != "an image twice")
