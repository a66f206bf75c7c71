"""Large annotation files are walked in slices and ranges, with the result of decoding them whole."""

import json

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import fails

from nooch.readers import coco_json, json_ranges
from nooch.readers.coco_json import parse_captions, parse_instances
from nooch.readers.json_ranges import BEGIN, Begun, Broken, Elements, Value, Walk, guess

# what could be taken for a boundary: inner objects, lists of them, text that looks like them
AWKWARD = st.sampled_from(
    ["}, {", '"annotations": [', "}]", "]}", '\\"}, {\\"', "{}", "[", "a", "", "é", "\\", "images"]
)
VALUES = st.recursive(
    AWKWARD | st.integers() | st.none() | st.floats(allow_nan=False, allow_infinity=False) | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(AWKWARD, inner, max_size=2),
)
KEYS = ["images", "x", "annotations", "categories", "y"]


class _Element(msgspec.Struct):
    n: int


class _Any(msgspec.Struct):
    images: list[_Element]
    annotations: list[_Element]
    categories: list[dict] | None = None


ARRAYS = {"annotations": _Element, "images": _Element}


@st.composite
def documents(draw):
    """A document, and its text in some order and spacing."""
    arrays = {
        key: [{"n": number, "more": draw(VALUES)} for number in range(draw(st.integers(0, 8)))]
        for key in ("images", "annotations")
    }
    inner = st.fixed_dictionaries({"annotations": st.lists(st.fixed_dictionaries({"n": st.just(7)}), max_size=3)})
    content = {**arrays, "x": draw(VALUES | inner | st.lists(inner, max_size=3)), "y": draw(VALUES)}
    content["categories"] = [{"id": 1, "name": draw(AWKWARD)}]
    keys = draw(st.permutations(KEYS))
    text = json.dumps({key: content[key] for key in keys}, indent=draw(st.sampled_from([None, 1])))
    # keys may be written with escapes, too
    if draw(st.booleans()):
        text = text.replace('"images":', '"im\\u0061ges":')
    return {key: content[key] for key in keys}, (draw(st.sampled_from(["", "\n"])) + text + " ").encode()


def _collect(walk, stop, rows, values):
    for found in walk.until(stop):
        if isinstance(found, Begun):
            rows[found.key] = []
        elif isinstance(found, Elements):
            again = msgspec.json.decode(found.text, type=list[_Element])
            assert [r.n for r in found.records] == [r.n for r in again]
            rows.setdefault(found.key, []).extend(record.n for record in found.records)
        elif isinstance(found, Value):
            values[found.key] = json.loads(found.text)


def _check(content, rows, values):
    for key in ("images", "annotations"):
        assert rows.get(key, []) == [element["n"] for element in content[key]]
        assert (key in rows) == bool(content[key])
        assert values.get(key, []) == []
    assert values["categories"] == content["categories"]


@settings(deadline=None, max_examples=150)
@given(documents(), st.integers(1, 60))
def test_a_walk_finds_every_element_once_and_nothing_else(sample, size):
    content, text = sample
    rows, values = {}, {}
    walk = Walk(text, BEGIN, ARRAYS, ("categories",), size)
    _collect(walk, len(text) + 1, rows, values)
    assert walk.state.place == "end"
    _check(content, rows, values)


@settings(deadline=None, max_examples=150)
@given(documents(), st.lists(st.integers(0, 400), max_size=9), st.integers(1, 60))
def test_walks_that_follow_one_another_are_one_walk(sample, stops, size):
    content, text = sample
    rows, values, state = {}, {}, BEGIN
    for stop in [*sorted(stops), len(text) + 1]:
        walk = Walk(text, state, ARRAYS, ("categories",), size)
        _collect(walk, stop, rows, values)
        assert walk.state.position >= min(stop, len(text))
        state = walk.state
    _check(content, rows, values)


@settings(deadline=None, max_examples=300)
@given(documents(), st.data())
def test_a_walk_refuses_just_what_decoding_the_whole_refuses(sample, data):
    text = bytearray(sample[1])
    for _ in range(data.draw(st.integers(1, 2))):
        position = data.draw(st.integers(0, len(text)))
        end = position + data.draw(st.integers(0, 2))
        text[position:end] = data.draw(
            st.sampled_from([b"", b",", b"}", b"]", b"{", b'"', b"\x0b", b"[", b"1", b":", b"\\"])
        )
    text = bytes(text)
    try:
        whole = msgspec.json.decode(text, type=_Any)
    except (msgspec.DecodeError, UnicodeDecodeError):
        whole = None
    rows, values = {}, {}
    try:
        _collect(Walk(text, BEGIN, ARRAYS, ("categories",), data.draw(st.integers(1, 60))), len(text) + 1, rows, values)
        # the arrays that are no arrays of objects, and what else is wanted, are left to the caller to decode
        msgspec.json.decode(json.dumps({**dict.fromkeys(rows, ()), **values}), type=_Any)
    except (Broken, msgspec.DecodeError, UnicodeDecodeError):
        assert whole is None
        return
    assert whole is not None
    for key in ("images", "annotations"):
        # of a key that occurs twice, what comes last counts, here as there
        if key in rows and key not in values:
            assert rows[key] == [record.n for record in getattr(whole, key)]


def _plain(n):
    elements = [{"n": number, "segmentation": {"counts": [1, 2], "size": [3, 4]}} for number in range(n)]
    return json.dumps({"images": [{"n": 1}], "annotations": elements, "categories": [{"id": 1}]}).encode()


def test_plain_arrays_are_sliced_and_guessed_right():
    text = _plain(1000)
    found = [f for f in Walk(text, BEGIN, ARRAYS, (), 500).until(len(text) + 1) if isinstance(f, Elements)]
    assert len(found) > 50
    for stop in range(500, len(text) - 200, 777):
        walk = Walk(text, BEGIN, {"annotations": _Element}, (), 500)
        list(walk.until(stop))
        assert guess(text, stop, {"annotations": _Element}) == walk.state
    assert guess(text, len(text) - 5, ARRAYS) is None
    assert guess(b"nothing", 0, ARRAYS) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "truncated"),
        (b"  ", "truncated"),
        (b"hello", "invalid character (byte 0)"),
        (b"[1]", "Expected `object`, got `array`"),
        (b'{"x": 1} {}', "trailing characters (byte 10)"),
        (b'{"x" 1}', "expected ':' (byte 5)"),
        (b'{"x": 1 "y": 2}', "expected ',' (byte 8)"),
        (b'{"x": 1, }', "object keys must be strings (byte 9)"),
        (b'{"x": tru}', "invalid character (byte 9)"),
        (b'{"\\q": 1}', "byte"),
        (b'{"x": {"a": 1', "truncated"),
        (b'{"x": "a', "truncated"),
        (b'{"annotations": [{"n": 1}', "truncated"),
        (b'{"annotations": [{"n": 1}, ', "truncated"),
        (b'{"annotations": [{"n": 1}, ]}', "trailing comma"),
        (b'{"annotations": [{"n": 1} {"n": 2}]}', "expected ',' or ']'"),
        (b'{"annotations": [{"n": 1}}', "expected ',' or ']' (byte 25)"),
        (b'{"annotations": [{"n": "a"}]}', "$[0].n"),
        (b'{"annotations": [{"n": 1, "m": "]}', "truncated"),
        (b'{"other": [{"n": 1}, {"n" 2}]}', "expected ':'"),
    ],
)
def test_what_is_wrong_is_said(text, words):
    with pytest.raises(Broken) as caught:
        list(Walk(text, BEGIN, ARRAYS, (), 10).until(len(text) + 1))
    assert words in caught.value.text


def test_bytes_of_texts_that_are_not_wanted_do_not_matter():
    text = b'{"x\xff": "\xff", "annotations": [{"n": 1, "m\xff": "\xff"}], "images": []}'
    assert len(msgspec.json.decode(text, type=_Any).annotations) == 1
    rows, values = {}, {}
    _collect(Walk(text, BEGIN, ARRAYS, (), 10), len(text) + 1, rows, values)
    assert (rows, values) == ({"annotations": [1]}, {"images": []})


def test_a_quote_that_is_missing_is_found_before_long(monkeypatch):
    """Behind it texts and what lies between them change places, down to the end of the file."""
    monkeypatch.setattr(json_ranges, "_CHECK", 1 << 12)
    looked = []
    check = Walk._check
    monkeypatch.setattr(Walk, "_check", lambda self, position, end: looked.append(end) or check(self, position, end))
    text = json.dumps({"annotations": [{"n": n, "m": "x"} for n in range(100_000)]}).encode()
    broken = text.replace(b'"x"', b'"x', 1)
    with pytest.raises(Broken, match=r"\(byte 38\)"):
        list(Walk(broken, BEGIN, ARRAYS, (), 100).until(len(broken) + 1))
    assert max(looked) < 1 << 15


# the reader of one file, in slices


def _document(n=300):
    random = np.random.default_rng(0)
    polygon = [[1, 1, 5, 1, 5, 5]]
    return {
        "info": {
            "note": "}, {",
            "annotations": [{"image_id": 0, "category_id": 1, "area": 5.0}],
            "images": [{"id": 1}],
        },
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
        decode = coco_json.decode

        def counted(content, kind, path):
            if not isinstance(content, bytes):
                whole.append(path.name)
            return decode(content, kind, path)

        monkeypatch.setattr(coco_json, "_LARGE", 0)
        monkeypatch.setattr(coco_json, "_SLICE", 1000)
        monkeypatch.setattr(coco_json, "decode", counted)
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


def test_an_array_of_the_same_name_elsewhere_is_none_of_the_files(tmp_path, sliced):
    path = tmp_path / "instances.json"
    path.write_text(json.dumps(_document() | {"annotations": []}))
    sliced()
    assert len(parse_instances(path).areas) == 0


def test_of_a_key_that_occurs_twice_the_last_counts(tmp_path, sliced):
    path = tmp_path / "instances.json"
    twice = json.dumps({"annotations": [{"image_id": 3, "category_id": 2, "area": 9}]})[1:-1]
    path.write_text(json.dumps(_document())[:-1] + f", {twice}}}")
    expected = parse_instances(path)
    sliced()
    _same(parse_instances(path), expected)
    assert expected.areas.tolist() == [9]


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
    told(lambda d: d.update(images=[]), "lists no image")
    told(lambda d: d.pop("categories"), "is not COCO's structure")
    path.write_text(json.dumps(_document())[:-200])
    fails(lambda: parse_instances(path), "is no valid JSON")
