"""Large annotation files are read in slices, with the result of reading them whole."""

import json

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import fails

from nooch.readers import coco_json
from nooch.readers.coco_json import parse_captions, parse_instances
from nooch.readers.json_slices import NotSliced, Slices, skeleton

# what could be taken for a boundary: inner objects, lists of them, text that looks like them
AWKWARD = st.sampled_from(["}, {", '"annotations": [', "}]", "]}", '\\"}, {\\"', "{}", "[", "a", ""])
VALUES = st.recursive(
    AWKWARD | st.integers(), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(AWKWARD, inner, max_size=2)
)
SPACES = st.sampled_from([None, 1])


class _Element(msgspec.Struct):
    n: int


@settings(deadline=None)
@given(st.lists(VALUES, max_size=12), st.integers(1, 60), SPACES, st.permutations(["images", "x", "annotations"]))
def test_slices_give_every_element_once_or_say_that_they_cannot(values, size, indent, order):
    elements = [{"n": number, "more": value} for number, value in enumerate(values)]
    content = {"images": [{"n": -1}], "x": 5, "annotations": elements}
    text = json.dumps({key: content[key] for key in order}, indent=indent).encode()
    slices = Slices(text, "annotations", _Element, size)
    try:
        found = [record.n for records in slices for record in records]
        rest = json.loads(skeleton(text, [slices]))
    except NotSliced:
        return
    assert found == list(range(len(values)))
    assert rest == {**content, "annotations": []}


def test_plain_arrays_are_always_sliced():
    elements = [{"n": number, "segmentation": {"counts": [1, 2], "size": [3, 4]}} for number in range(1000)]
    text = json.dumps({"annotations": elements, "categories": [{"id": 1}]}).encode()
    slices = Slices(text, "annotations", _Element, 500)
    lists = list(slices)
    assert len(lists) > 50
    assert [record.n for records in lists for record in records] == list(range(1000))
    with pytest.raises(NotSliced):
        Slices(text, "images", _Element, 500)
    with pytest.raises(NotSliced):
        list(Slices(text.replace(b'"n"', b'"m"'), "annotations", _Element, 500))
    with pytest.raises(NotSliced):
        list(Slices(text[:2000], "annotations", _Element, 500))


def _document(n=300):
    random = np.random.default_rng(0)
    polygon = [[1, 1, 5, 1, 5, 5]]
    return {
        "info": {"note": "}, {"},
        "licenses": [{"id": 1, "name": "free", "url": "x"}],
        "images": [{"id": i * 3, "width": 10, "height": 8, "file_name": f"{i}.jpg"} for i in range(n)],
        "annotations": [
            {"id": k, "image_id": int(random.integers(n)) * 3, "category_id": 1 + k % 2, "segmentation": polygon}
            | ({} if k % 5 == 0 else {"area": k / 7})
            for k in range(2 * n)
        ],
        "categories": [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}],
    }


def _same(one, two):
    for name in one.__dataclass_fields__:
        a, b = getattr(one, name), getattr(two, name)
        assert np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b, name


@pytest.fixture
def sliced(monkeypatch):
    """Read everything in slices; count how often a file was decoded whole all the same."""

    def set_up():
        whole = []
        decode = coco_json._decode

        def counted(content, kind, path):
            if not isinstance(content, bytes):
                whole.append(path.name)
            return decode(content, kind, path)

        monkeypatch.setattr(coco_json, "_LARGE", 0)
        monkeypatch.setattr(coco_json, "_SLICE", 1000)
        monkeypatch.setattr(coco_json, "_decode", counted)
        return whole

    return set_up


@pytest.mark.parametrize("order", [("images", "annotations"), ("annotations", "images")])
def test_a_file_in_slices_is_the_file(tmp_path, sliced, order):
    document = _document()
    path = tmp_path / "instances.json"
    path.write_text(json.dumps({k: document[k] for k in order} | document))
    expected = parse_instances(path)
    whole = sliced()
    _same(parse_instances(path), expected)
    assert whole == []


def test_captions_in_slices_are_the_captions(tmp_path, sliced):
    document = _document()
    document["annotations"] = [{"image_id": k % 300 * 3, "caption": f"a }}, {{ {k}"} for k in range(700)]
    path = tmp_path / "captions.json"
    path.write_text(json.dumps(document))
    expected = parse_captions(path)
    whole = sliced()
    _same(parse_captions(path), expected)
    assert whole == []


def test_what_is_wrong_is_told_as_for_a_whole_file(tmp_path, sliced):
    sliced()
    path = tmp_path / "instances.json"

    def told(change, *words, helps=True):
        document = _document()
        change(document)
        path.write_text(json.dumps(document))
        fails(lambda: parse_instances(path), *words, helps=helps)

    told(lambda d: d["annotations"][431].update(area=-1), "annotation 431 (counted from 0) has area -1")
    told(
        lambda d: d["annotations"][430].update(segmentation=None, area=None),
        "annotation 430 (counted from 0) has no area",
    )
    told(
        lambda d: d["annotations"][431].update(image_id=7),
        "image ids of annotations are not listed: 7",
        "annotation 431",
    )
    told(lambda d: d["annotations"][5].pop("image_id"), "$.annotations[5]")
    told(lambda d: d["images"][299].update(id=0), "image ids occur more than once: 0", helps=False)
    told(lambda d: d.pop("categories"), "is not COCO's structure")
    path.write_text(json.dumps(_document())[:-200])
    fails(lambda: parse_instances(path), "is no valid JSON")
