"""read_label_maps against counting pixel by pixel, and on genuine maps."""

import json
import tempfile
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from coco_files import areas_of, write
from hypothesis import given, settings, strategies as st
from in_memory import read_label_maps
from PIL import Image
from refusals import fails, refused

from nooch.base.engines import LocalEngine
from nooch.base.errors import InputError
from nooch.data.readers.cocostuff import COCOSTUFF, MAP_VALUES

NAMES = {0: "sky", 1: "road", 2: "fire hydrant", 3: "car"}


def _classes(folder, names=None):
    lines = [f"{value} {name}\n" for value, name in (names or NAMES).items()]
    return write(folder / "classes.txt", "".join(lines))


def _save(folder, name, pixels):
    folder.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(folder / name)
    return folder


def _shares(pixels, names):
    """Share of each class, and of the other values, counted value by value."""
    counts = Counter(np.asarray(pixels).ravel().tolist())
    shares = {value: count / counts.total() for value, count in counts.items()}
    classes = {names[value]: share for value, share in shares.items() if value in names}
    return classes, sum(share for value, share in shares.items() if value not in names)


@st.composite
def maps(draw):
    """Maps by image id: uint8 or uint16 arrays of values in NAMES and 255, which is void."""
    kind = draw(st.sampled_from([np.uint8, np.uint16]))
    ids = draw(st.sets(st.integers(0, 10**6), min_size=1, max_size=5))
    values = st.sampled_from([*NAMES, 255])
    widths = {i: draw(st.integers(1, 6)) for i in ids}
    rows = {w: st.lists(values, min_size=w, max_size=w) for w in widths.values()}
    pixels = {i: draw(st.lists(rows[w], min_size=1, max_size=6)) for i, w in widths.items()}
    return {i: np.array(listed, kind) for i, listed in pixels.items()}


@settings(max_examples=50, deadline=None)
@given(maps())
def test_areas_are_counts_and_add_up_to_one_with_the_void(images):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for i, pixels in images.items():
            _save(folder / "maps", f"{i:012d}.png", pixels)
        data = read_label_maps(folder / "maps", _classes(folder), void=[255])
    found = areas_of(data)
    assert list(found) == sorted(images)
    for i, pixels in images.items():
        expected, void = _shares(pixels, {v: name.replace(" ", "_") for v, name in NAMES.items()})
        assert found[i] == expected
        assert sum(found[i].values()) + void == pytest.approx(1, abs=1e-12)
    sizes = {i: (w, h) for i, w, h in data.images.select("image_id", "width", "height").rows()}
    assert sizes == {i: pixels.shape[::-1] for i, pixels in images.items()}


@pytest.mark.parametrize(
    ("kind", "mode"), [(np.uint8, "L"), (bool, "1"), (np.uint16, "I;16"), (np.uint8, "P")]
)
def test_kinds_of_images(tmp_path, kind, mode):
    """A palette is not looked up."""
    image = Image.fromarray(np.array([[0, 1], [1, 1]], kind))
    if mode == "P":
        image = image.convert("P")
        image.putpalette([9, 9, 9, 0, 0, 0])
    (tmp_path / "maps").mkdir()
    image.save(tmp_path / "maps" / "1.png")
    with Image.open(tmp_path / "maps" / "1.png") as saved:
        assert saved.mode == mode
    data = read_label_maps(tmp_path / "maps", _classes(tmp_path, {0: "a", 1: "b"}))
    assert areas_of(data) == {1: {"a": 0.25, "b": 0.75}}


@pytest.mark.parametrize(
    "text",
    [
        "1 sky\n2 fire hydrant\n",
        "# value name\n\n1: sky\n2: fire hydrant\n",
        "1,sky\r\n2,fire hydrant\r\n",
        "\ufeff1 sky\n2 fire hydrant\n",
        "road\nsky\nfire hydrant\n",
    ],
)
def test_class_lists(tmp_path, text):
    _save(tmp_path / "maps", "1.png", np.array([[1, 2]], np.uint8))
    data = read_label_maps(tmp_path / "maps", write(tmp_path / "classes.txt", text.encode()))
    assert areas_of(data) == {1: {"sky": 0.5, "fire_hydrant": 0.5}}


ALL = ("sky", "road", "fire_hydrant", "car")
# pixels, class list, void -> areas, classes
VOID = {
    "maps of nothing but void stay": ([9], None, [9], {}, ALL),
    "a void value that is listed is not a class": ([0, 1], None, [0], {"road": 0.5}, ALL[1:]),
    "values between classes may be void": (
        [1, 2, 3, 255], {1: "sky", 3: "road"}, [0, 2, 255], {"sky": 0.25, "road": 0.25}, ALL[:2]),
}  # fmt: skip


@pytest.mark.parametrize("case", VOID)
def test_values_that_are_void(tmp_path, case):
    pixels, names, void, areas, classes = VOID[case]
    _save(tmp_path / "maps", "1.png", np.array([pixels], np.uint8))
    data = read_label_maps(tmp_path / "maps", _classes(tmp_path, names), void=void)
    assert areas_of(data) == {1: areas}
    assert data.classes == classes
    assert data.provenance["void"] == void


NOT_ANNOTATED = ["void", "unknown", "Unlabelled", "unlabeled", "unannotated", "ignore"]
NOT_ANNOTATED += ["void/unknown", "ignore label", "other (void)", "rest [Unlabeled]"]


@pytest.mark.parametrize("name", NOT_ANNOTATED)
def test_a_class_that_names_what_was_not_annotated_asks_for_void(tmp_path, name):
    _save(tmp_path / "maps", "1.png", np.array([[0, 1, 255, 255]], np.uint8))
    listed = write(tmp_path / "classes.txt", f"0 sky\n1 void deck\n255 {name}\n")
    parts = f"255 '{name.replace(' ', '_')}'", "allowed: void: 255", "remedy: pass void=[255]"
    act = partial(read_label_maps, tmp_path / "maps", listed)
    refused(act, str(listed), *parts)
    data = read_label_maps(tmp_path / "maps", listed, void=[255])
    assert data.classes == ("sky", "void_deck")
    assert areas_of(data) == {1: {"sky": 0.25, "void_deck": 0.25}}


def test_names_by_position_are_checked_too(tmp_path):
    _save(tmp_path / "maps", "1.png", np.array([[0, 1]], np.uint8))
    listed = write(tmp_path / "classes.txt", "unlabeled\nsky\nvoid\n")
    act = partial(read_label_maps, tmp_path / "maps", listed)
    refused(act, "void=[0, 2]")
    assert read_label_maps(tmp_path / "maps", listed, void=[0, 2]).classes == ("sky",)


def test_images_are_found_by_the_name_of_the_map_without_its_suffix(tmp_path):
    pixels = np.array([[0, 1]], np.uint8)
    for name in ("a/x1_labelIds.png", "b/x2_labelIds.png", "a/x1_color.png"):
        _save((tmp_path / "maps" / name).parent, Path(name).name, pixels)
    write(tmp_path / "pictures" / "train" / "x1.jpg", "")
    maps, pictures = tmp_path / "maps", tmp_path / "pictures"
    data = read_label_maps(maps, _classes(tmp_path), images=pictures, suffix="_labelIds")
    rows = data.images.select("image_id", "file_name").rows()
    assert rows == [("x1", "train/x1.jpg"), ("x2", None)]
    assert data.provenance["notes"] == [f"1 of 2 maps have no image below {pictures}: x2"]


def test_processes_and_folders_of_another_order_give_the_same(tmp_path):
    maps, classes = tmp_path / "maps", _classes(tmp_path)
    for i in range(130):
        _save(maps / str(i % 3), f"{i}.png", np.array([[0, 3, 7, i % 2]], np.uint8) % 2 * 3)
    data = read_label_maps(maps, classes, map=LocalEngine(2).map)
    assert data.fingerprint == read_label_maps(maps, classes).fingerprint


def test_damaged_maps_are_refused_by_name_and_never_miscounted(tmp_path):
    classes, folder = _classes(tmp_path, {0: "a", 1: "b"}), tmp_path / "maps"
    rng = np.random.default_rng(0)
    _save(folder, "1.png", rng.integers(0, 2, (40, 40)).astype(np.uint8))
    whole = areas_of(read_label_maps(folder, classes))
    content = (folder / "1.png").read_bytes()
    cut = [content[:keep] for keep in range(0, len(content), 7)]
    flipped = [
        content[:i] + bytes([content[i] ^ 0xFF]) + content[i + 1 :] for i in range(len(content))
    ]
    refused = 0
    for damaged in (*cut, *flipped):
        (folder / "1.png").write_bytes(damaged)
        try:
            # what lies behind the last pixel has no effect
            assert areas_of(read_label_maps(folder, classes)) == whole
        except InputError as error:
            refused += str(error).startswith(f"{folder / '1.png'}: cannot be read as an image")
    assert refused > 0.9 * len(cut + flipped)


CLASS_LISTS = {
    "": "names no class",
    "0 a\n0 b\n": "names 0 twice",
    "0 a\n1 a\n": "names a twice",
    "a\nb\na\n": "names a twice",
    # one bad line of numbered ones would shift all names
    "1 sky\n2 tree\nO3 road\n": "2 lines have a value and a name, but not 'O3 road'",
    "1 sky\n2\n3 road\n": "2 lines have a value and a name, but not '2'",
    "sky\n2 tree\nroad\n": "1 lines have a value and a name, but not 'sky', 'road'",
    "1 sky\n2 tree\n4 road\n": "lists values from 1 to 4, but not 3",
    "1 sky\n3 tree\n9999999999999999999 road\n": "but not 2, 4 to 9999999999999999998",
    b"\xff\xfe0": "line 1 is not text in utf-16",
    b"caf\xe9": "cp1252 would read 'café'",
    None: "cannot be read",
}


@pytest.mark.parametrize(("text", "message"), CLASS_LISTS.items())
def test_class_lists_that_are_refused(tmp_path, text, message):
    _save(tmp_path / "maps", "1.png", np.array([[0]], np.uint8))
    path = tmp_path / "classes.txt"
    if text is not None:
        write(path, text)
    fails(lambda: read_label_maps(tmp_path / "maps", path), "classes.txt", message)


# genuine maps


def test_the_classes_are_those_of_cocostuff(shared_data):
    listed = json.loads((shared_data / "nooch-published" / "cocostuff_classes.json").read_text())
    assert len(COCOSTUFF) == 171
    names = {entry["name"].replace(" ", "_"): entry["id"] for entry in listed}
    assert {name: value + 1 for value, name in MAP_VALUES["cocostuff"].items()} == names
    assert len(MAP_VALUES["pixelmaps"]) == 91


def test_genuine_maps_of_things_and_stuff(shared_data):
    folder = shared_data / "cocostuff-maps"
    data = read_label_maps(folder / "label", "cocostuff", images=folder / "img")
    assert len(data) == 13
    assert len(data.classes) == 171
    assert data.images["file_name"].null_count() == 0
    found = areas_of(data)
    for path in (folder / "label").glob("*.png"):
        with Image.open(path) as image:
            expected, void = _shares(image, MAP_VALUES["cocostuff"])
        assert found[int(path.stem)] == pytest.approx(expected, abs=1e-12)
        assert sum(found[int(path.stem)].values()) + void == pytest.approx(1, abs=1e-12)


def test_genuine_pixel_maps_of_stuff(shared_data):
    folder = shared_data / "stuff-json" / "pixelmaps"
    found = areas_of(read_label_maps(folder, "pixelmaps"))
    assert set(found) == {934, 13715}
    for path in folder.glob("*.png"):
        with Image.open(path) as image:
            expected, _ = _shares(image, MAP_VALUES["pixelmaps"])
        assert found[int(path.stem)] == pytest.approx(expected, abs=1e-12)


def test_msrc(shared_data, tmp_path):
    folder = shared_data / "msrc-v2"
    labels, listed = folder / "labels", folder / "classes.txt"
    data = read_label_maps(labels, listed, void=[0], images=folder / "images")
    assert len(data) == 591
    assert len(data.classes) == 23
    assert data.images["file_name"].null_count() == 0
    assert data.images["image_id"].to_list() == sorted(data.images["image_id"].to_list())
    # without void, every pixel of an image has a class
    refused(lambda: read_label_maps(labels, listed), "0 'void'", "void=[0]")
    text = listed.read_text().replace("0 void", "0 nothing")
    whole = read_label_maps(labels, write(tmp_path / "classes.txt", text))
    assert len(whole.classes) == 24
    np.testing.assert_allclose(whole.areas.sum(axis=1), 1, atol=1e-12)
    void = whole.area("nothing")
    np.testing.assert_allclose(data.areas.sum(axis=1) + void, 1, atol=1e-12)
    assert int(data.labels("cow").sum()) > 20
