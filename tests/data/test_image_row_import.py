"""Imports of label maps and boxes give what reading and dividing in memory gives."""

import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from coco_files import PHOTO, write
from hypothesis import HealthCheck, given, settings, strategies as st
from in_memory import read_boxes, read_label_maps
from PIL import Image
from refusals import fails
from same_datasets import changing, in_parts_of, same_folder, stopping, told

from nooch.base.engines import LocalEngine
from nooch.base.split_plan import SplitPlan
from nooch.data import load_dataset
from nooch.data.importing.import_dataset import import_dataset, with_split
from nooch.data.readers.boxes import BoxReading
from nooch.data.readers.label_maps import MapReading

LIST = "0 sky\n1 road\n2 fire hydrant\n"


def _save(folder, name, pixels):
    folder.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.array(pixels, np.uint8)).save(folder / name)


def _maps(folder, names, values=(0, 1, 2, 255)):
    """Maps of these names, in two folders."""
    random = np.random.default_rng(len(names))
    for number, name in enumerate(names):
        pixels = random.choice(values, (1 + number % 3, 4))
        _save(folder / "maps" / f"{number % 2}", f"{name}_ids.png", pixels)
    return folder / "maps"


def _same(folder, read, reading, part_size, plan=None, **more):
    """Reading into memory and importing give the same dataset, or the same error."""
    whole, problem = told(lambda: with_split(read(), plan))
    options = {"part_size": part_size, "split": plan, **more}
    done, other = told(lambda: import_dataset(reading, folder / "new" / "data", **options))
    assert str(problem) == str(other)
    assert (folder / "new").exists() == (done is not None)
    if done is not None:
        in_parts_of(whole, part_size or len(whole), folder / "whole")
        same_folder(folder / "new" / "data", folder / "whole")
        assert [p.name for p in (folder / "new").iterdir()] == ["data"]
    return problem


def _both(folder, maps, part_size, plan=None, images=None, **more):
    listed = write(folder / "classes.txt", LIST)
    read = partial(read_label_maps, maps, listed, void=[255], suffix="_ids", images=images)
    reading = MapReading(maps, listed, [255], "_ids")
    return _same(folder, read, reading, part_size, plan, images=images, **more)


NAMES = st.sets(st.integers(0, 10**6).map(str), min_size=1, max_size=9) | st.sets(
    st.sampled_from(["a", "b c", "9", "10", "é", "007", "x-1"]), min_size=1
)


PLANS = st.sampled_from([None, SplitPlan("50/25/25", 1)])
IGNORED = [HealthCheck.function_scoped_fixture]


@settings(suppress_health_check=IGNORED, deadline=None, max_examples=15)
@given(names=NAMES, part=st.none() | st.integers(1, 9), plan=PLANS)
def test_any_cut_gives_the_same_bytes(names, part, plan, tmp_path_factory):
    folder = tmp_path_factory.mktemp("maps")
    _both(folder, _maps(folder, sorted(names)), part, plan)


def test_images_notes_and_processes(tmp_path):
    names = [f"{i:012d}" for i in range(40)]
    maps = _maps(tmp_path, names)
    for name in names[:-7]:
        write(tmp_path / "pictures" / name[-1] / f"{name}.jpg", PHOTO)
    plan, pictures = SplitPlan("60/20/20"), tmp_path / "pictures"
    assert _both(tmp_path, maps, 9, plan, pictures, map=LocalEngine(2).map) is None


# case -> words of the refusal, in memory and in parts
REFUSED = {
    "value": ("100_ids.png", "2 pixels have value 9, which is not a class", "allowed: 0, 1, 2",
        "void=[9, 255]"),
    "mode": ("100_ids.png", "is a RGB image", "one channel"),
    "no image": ("pictures", "no image is named like a map, such as 0, 1 and 6 more"),
    "twice": ("maps: several maps have the same name: 5",),
    "none": ("nowhere", "no such folder of label maps"),
    "empty": ("empty", "contains no label maps", ".png"),
    "broken": ("100_ids.png", "cannot be read as an image"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_in_memory_is_refused_in_parts(tmp_path, case):
    maps, images = _maps(tmp_path, [f"{i}" for i in range(8)]), None
    if case == "value":
        _save(maps, "100_ids.png", [[9, 9]])
    elif case == "mode":
        _save(maps, "100_ids.png", np.zeros((2, 2, 3)))
    elif case == "no image":
        images = tmp_path / "pictures"
        write(images / "other.jpg", PHOTO)
    elif case == "twice":
        _save(maps, "05_ids.png", [[0]])
    elif case in ("none", "empty"):
        maps = tmp_path / "nowhere" if case == "none" else tmp_path / "empty"
        (tmp_path / "empty").mkdir()
    else:
        write(maps / "100_ids.png", "x")
    problem = str(_both(tmp_path, maps, 3, images=images))
    for words in REFUSED[case]:
        assert words in problem
    assert case not in ("value", "mode", "empty") or "allowed:" in problem or "remedy:" in problem


def test_a_class_that_names_what_was_not_annotated_asks_for_void_(run_cli, tmp_path):
    maps = _maps(tmp_path, ["1", "2"])
    listed = write(tmp_path / "classes.txt", LIST + "255 unknown\n")
    command = f"import label-maps {maps} {tmp_path / 'out'} --classes {listed} --suffix _ids"
    for more in ("", " --part-size 1"):
        done = run_cli(command + more)
        assert done.code == 2
        assert "255 'unknown'" in done.err
        assert "give --void 255" in done.err
        assert not (tmp_path / "out").exists()
        assert run_cli(f"{command}{more} --void 255 --overwrite").code == 0
        assert load_dataset(tmp_path / "out").classes == ("sky", "road", "fire_hydrant")
        shutil.rmtree(tmp_path / "out")


def test_a_relative_path_stays_so_in_errors(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _save(Path("maps"), "1_ids.png", [[9]])
    assert str(_both(tmp_path, Path("maps"), 3)).startswith("maps/1_ids.png: 1 pixels have value 9")


def test_an_interrupted_import_resumes_and_changes_are_reported(tmp_path):
    maps, done = _maps(tmp_path, [f"{i}" for i in range(300)]), []
    listed = write(tmp_path / "classes.txt", LIST)
    reading = MapReading(maps, listed, [255], "_ids")
    act = partial(import_dataset, reading, tmp_path / "parts", part_size=100)
    with pytest.raises(KeyboardInterrupt):
        act(map=stopping(done, 4))
    act(map=stopping(done, None))
    # three batches of maps, and three parts
    assert len(done) == len(set(done)) == 6
    whole = read_label_maps(maps, listed, void=[255], suffix="_ids")
    same_folder(tmp_path / "parts", in_parts_of(whole, 100, tmp_path / "whole"))
    other = changing(maps / "0" / "2_ids.png")
    act = partial(import_dataset, reading, tmp_path / "x", map=other)
    fails(act, "changed while it was read")


# boxes

BOX = st.tuples(
    st.integers(0, 2), *[st.tuples(st.integers(0, 64), st.integers(0, 64)).map(sorted)] * 2
)
BOXES = st.dictionaries(
    st.integers(0, 10**6) | st.sampled_from(["a", "b c", "007"]),
    st.lists(BOX, max_size=12, unique_by=str),
    min_size=1,
)


def _yolo(folder, boxes):
    for name, listed in boxes.items():
        lines = [
            f"{key} {(left + right) / 128} {(top + bottom) / 128} {(right - left) / 64}"
            f" {(bottom - top) / 64}\n"
            for key, (left, right), (top, bottom) in listed
        ]
        write(folder / "in" / f"{name}.txt", "".join(lines))
    return folder / "in", "yolo", write(folder / "names.txt", "sky\nroad\ncar\n")


def _voc(folder, boxes):
    for name, listed in boxes.items():
        objects = "".join(
            f"<object><name>{'abc'[key]}</name><bndbox><xmin>{left + 1}</xmin><xmax>{right}</xmax>"
            f"<ymin>{top + 1}</ymin><ymax>{bottom}</ymax></bndbox></object>"
            for key, (left, right), (top, bottom) in listed
            if left < right and top < bottom
        )
        size = "<size><width>64</width><height>64</height></size>"
        text = f"<annotation><filename>{name}.jpg</filename>{size}{objects}</annotation>"
        write(folder / "in" / f"{name}.xml", text)
    return folder / "in", "voc", None


def _openimages(folder, boxes):
    rows = [
        f"{name},/m/{key},{left / 64},{right / 64},{top / 64},{bottom / 64}\n"
        for name, listed in boxes.items()
        for key, (left, right), (top, bottom) in listed
    ]
    text = "ImageID,LabelName,XMin,XMax,YMin,YMax\n" + "".join(rows)
    return write(folder / "boxes.csv", text), "openimages", None


@pytest.mark.parametrize("kind", [_yolo, _voc, _openimages])
@settings(suppress_health_check=IGNORED, deadline=None, max_examples=4)
@given(boxes=BOXES, part=st.none() | st.integers(1, 4), bare=st.sets(st.integers(0, 9), max_size=3))
def test_boxes_in_any_cut_give_the_same_bytes(kind, boxes, part, bare, tmp_path_factory):
    folder = tmp_path_factory.mktemp("boxes")
    source, name, classes = kind(folder, boxes)
    images = folder / "pictures" if bare else None
    for image in bare:
        write(folder / "pictures" / f"{image}.jpg", PHOTO)
    reading = BoxReading(source, name, classes, images)
    _same(folder, lambda: read_boxes(source, name, classes=classes, images=images), reading, part)


def test_boxes_are_summed_as_they_come_where_they_are_in_order(tmp_path):
    """Sums depend on their order in the last digits: here, the order of the file."""
    areas = [0.1, 0.2, 0.3] * 9
    write(
        tmp_path / "in" / "1.txt", "".join(f"0 .5 .5 {a} 1 .{n}\n" for n, a in enumerate(areas, 10))
    )
    names = write(tmp_path / "names.txt", "car\nroad\n")
    expected = 0.0
    for area in areas:
        expected += area
    assert read_boxes(tmp_path / "in", "yolo", classes=names).areas.data.tolist() == [expected]


def test_the_command_tells_the_same(run_cli, tmp_path):
    maps, listed = _maps(tmp_path, range(20)), write(tmp_path / "classes.txt", LIST)
    options = f"--classes {listed} --void 255 --suffix _ids --split 60/20/20 --format json"
    command = f"import label-maps {options} {maps}"
    one = run_cli(f"{command} {tmp_path / 'a'}")
    two = run_cli(f"{command} {tmp_path / 'b'} --part-size 6 --engine local:2")
    assert two.code == 0, two.err
    assert two.json == one.json | {"dataset": str(tmp_path / "b")}
