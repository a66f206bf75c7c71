"""What class numbers, orders of numbers and images mean is checked by the objects at hand."""

import json
import random

import numpy as np
import pytest
from hypothesis import event, given, settings, strategies as st
from in_memory import read_coco
from oracles import dataset_of
from refusals import fails

from nooch.base.errors import InputError
from nooch.data import Dataset
from nooch.data.objects import objects_table
from nooch.data.readers.cocostuff import COCOSTUFF_IDS, THINGS
from nooch.evaluation import load_predictions

N = 12
OWN = {3: "car", 9: "boat", 18: "dog", 25: "giraffe"}


def _world(categories, *, objects=True):
    """One object of each class in each of 12 images, far from the others, of different sizes."""
    classes = [*categories.values()]
    data = dataset_of([dict.fromkeys(classes, 0.01)] * N, classes, ["test"] * N, range(1, N + 1))
    images = data.images.with_columns(width=9000, height=400)
    image, label = (part.ravel() for part in np.indices((N, len(classes))))
    box = np.stack([100 * label + 7.0, 20.0 + image, 60 + image, 90 - image], axis=1)
    table = objects_table(images["image_id"], classes, image, label, box) if objects else None
    listed = {name: {"id": n, "name": name} for n, name in categories.items()}
    known = Dataset.build(images, classes, data.areas, objects=table,
                          provenance={"categories": listed})  # fmt: skip
    return known, image + 1, [[*categories][at] for at in label], box


def _written(folder, image, number, box):
    rows = [{"image_id": int(i), "category_id": n, "bbox": [*map(float, b)], "score": 0.5}
            for i, n, b in zip(image, number, box, strict=True)]  # fmt: skip
    (folder / "d.json").write_text(json.dumps(rows))
    return folder / "d.json"


def _is_perfect(run, data):
    found = run.boxes.boxes
    got = {(run.image_ids[int(i)], run.tasks[c], *b) for i, c, b in
           zip(found.image, found.label, found.box.tolist(), strict=True)}  # fmt: skip
    table = data.objects.select("image_id", "class", "left", "top", "width", "height")
    return got == set(table.rows())


@settings(max_examples=60)
@given(st.randoms(use_true_random=False), st.integers(-4, 4),
       st.sampled_from(["permuted", "shifted", "counted", "any"]),
       st.sampled_from([None, "list", "yaml", "json"]))  # fmt: skip
def test_perfect_boxes_in_any_numbering_are_read_as_perfect_or_refused(
    tmp_path_factory, random_, shift, kind, given_as
):
    folder = tmp_path_factory.mktemp("d")
    data, image, number, box = _world(OWN)
    ids = [*OWN]
    shuffled = random_.sample(ids, len(ids))
    new = {
        "permuted": dict(zip(ids, shuffled, strict=True)),
        "shifted": {n: n + shift for n in ids},
        "counted": {n: at + shift for at, n in enumerate(ids)},
        "any": dict(zip(ids, random_.sample(range(30), len(ids)), strict=True)),
    }[kind]
    file = _written(folder, image, [new[n] for n in number], box)
    names = {"list": "\n".join(OWN.values()), "yaml": f"names: {json.dumps([*OWN.values()])}",
             "json": json.dumps({"id2label": OWN})}  # fmt: skip
    classes = None
    if given_as is not None:
        classes = folder / f"c.{'txt' if given_as == 'list' else given_as}"
        classes.write_text(names[given_as])
    is_right = all(new[n] == n for n in ids) and given_as not in {"list", "yaml"}
    try:
        (run,) = load_predictions(file, data=data, classes=classes)
    except InputError:
        refused = True
    else:
        refused = False
        event("read")
    assert not (refused and is_right)
    assert refused or _is_perfect(run, data)


COCO = {COCOSTUFF_IDS[name]: name for name in THINGS}
FROM_0 = {n: at for at, n in enumerate(COCO)}


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("recorded", [True, False])
def test_labels_of_80_classes_are_not_read_as_ids(tmp_path, first, recorded):
    """Also without the numbers that are no ids of COCO's (0, 12, 26 and others)."""
    data, image, number, box = _world(COCO)
    if not recorded:
        data = Dataset.build(data.images, data.classes, data.areas, objects=data.objects)
    for all_numbers in (True, False):
        kept = [all_numbers or FROM_0[n] + first in COCO for n in number]
        file = _written(tmp_path, image[kept],
                        [FROM_0[n] + first for n, k in zip(number, kept, strict=True) if k],
                        box[kept])  # fmt: skip
        if recorded and not all_numbers:
            fails(lambda file=file: load_predictions(file, data=data),
                  f"{132 * first} as the dataset numbers", f"{sum(kept)} counted from {first}",
                  f"pass first_class={first}")  # fmt: skip
        else:
            (run,) = load_predictions(file, data=data)
            assert f"classes counted from {first} in the order of" in run.read
            assert _is_perfect(run, data) or not all_numbers
        (run,) = load_predictions(file, data=data, classes="coco", first_class=first)
        assert _is_perfect(run, data) or not all_numbers


def test_numbers_of_other_detectors_classes_are_read_by_the_objects(tmp_path):
    """80 classes of COCO's where the dataset has four, by ids or from 0 or 1."""
    data, image, number, box = _world(OWN)
    for new in (COCO, FROM_0, {n: at + 1 for n, at in FROM_0.items()}):
        told = {n: n for n in COCO} if new is COCO else new
        other = told[44]  # a bottle, which the dataset does not have
        file = _written(tmp_path, [*image, 1], [*(told[n] for n in number), other],
                        [*box, (5000, 5, 50, 50)])  # fmt: skip
        (run,) = load_predictions(file, data=data, tasks=data.classes)
        assert _is_perfect(run, data)
        assert "COCO" in run.read


def test_what_nothing_decides_is_asked(tmp_path):
    data, image, number, box = _world(OWN, objects=False)
    shifted = {3: 1, 9: 2, 18: 3, 25: 3}
    file = _written(tmp_path, image, [shifted[n] for n in number], box)
    names = tmp_path / "data.yaml"
    names.write_text("names: [car, boat, dog, giraffe]\n")
    fails(lambda: load_predictions(file, data=data, classes=names),
          "counted from 0 in the order of data.yaml or counted from 1",
          "pass first_class=0 if", "pass first_class=1 if")  # fmt: skip
    (run,) = load_predictions(file, data=data, classes=names, first_class=1)
    assert set(run.tasks) == {"car", "boat", "dog"}
    fails(lambda: load_predictions(file, data=data, first_class=2), "first_class", kind=ValueError)
    # classes of whole images decide, too: images 1 to 4 have a car, others a dog
    presence = [{"car": 0.1}] * 4 + [{"dog": 0.1}] * 4
    known = dataset_of(presence, [*OWN.values()], ["test"] * 8, range(1, 9))
    file = _written(tmp_path, range(1, 9), [1] * 4 + [3] * 4, [(5, 5, 20, 20)] * 8)
    (run,) = load_predictions(file, data=known, classes=names)
    assert run.tasks == ("car", "dog")
    assert "classes counted from 1 in the order of data.yaml" in run.read


def test_boxes_that_overlap_objects_in_another_reading_are_refused(tmp_path):
    data, image, number, box = _world(OWN)
    corners = np.hstack([box[:, :2], box[:, :2] + box[:, 2:]])
    fails(lambda: load_predictions(_written(tmp_path, image, number, corners), data=data),
          "overlap an object of any class, and 48 if they are left, top, right, bottom (xyxy)",
          "pass box_format='xyxy'")  # fmt: skip
    far = box + np.array([1500, 0, 0, 0])
    (run,) = load_predictions(_written(tmp_path, image, number, far), data=data)
    assert "warning: 0 boxes of 48 that could overlap an object" in run.notes[0]
    # images of which only the next one has objects
    few = data.objects.filter(image_id=12)
    other = Dataset.build(data.images, data.classes, data.areas, objects=few,
                          provenance=data.provenance)  # fmt: skip
    at = image == 12
    before = _written(tmp_path, [11, 12, 11, 12] * 2, number[:4] * 2, [*box[at], *far[at]])
    (run,) = load_predictions(before, data=other)
    shifted = _written(tmp_path, [11] * 4 + [12] * 4, number[:4] * 2, [*box[at], *far[at]])
    fails(lambda: load_predictions(shifted, data=other), "0 boxes of 4",
          "4 if they are of the image with the id +1")  # fmt: skip


def test_a_real_detector_is_read_in_its_numbering_alone(shared_data, tmp_path):
    """The ids of YOLOX-nano's boxes, right and in other numberings, by the objects of coco128."""
    real = shared_data / "coco-real" / "coco128" / "annotations" / "instances_train2017.json"
    data = read_coco([real])
    known = {*data.images["image_id"]}
    results = json.loads((shared_data / "boxes/yolox_nano_coco_real.json").read_bytes())
    rows = [row for row in results if row["image_id"] in known]

    def read(new):
        rows_ = [{**row, "category_id": new(row["category_id"])} for row in rows]
        (tmp_path / "d.json").write_text(json.dumps(rows_))
        return load_predictions(tmp_path / "d.json", data=data)[0]

    assert "as the dataset numbers them" in read(lambda n: n).read
    assert "counted from 0 in the order of the dataset" in read(FROM_0.get).read
    for seed in range(5):
        shuffled = random.Random(seed).sample([*COCO], len(COCO))
        new = dict(zip(COCO, shuffled, strict=True))
        fails(lambda new=new: read(new.get), "of 640 boxes that overlap an object")
    swapped = {1: 62, 62: 1}
    fails(lambda: read(lambda n: swapped.get(n, n)), "1 chair", "62 person")


def test_a_list_of_cocos_names_may_go_with_its_ids(tmp_path):
    """As ``yolo val`` writes numbers for COCO itself, whose data.yaml counts from 0."""
    data, image, number, box = _world(COCO)
    number = np.array(number)
    kept = number < 70  # numbers that counting from 0 names, too
    (tmp_path / "data.yaml").write_text(f"names: {json.dumps(list(THINGS))}\n")
    file = _written(tmp_path, image[kept], number[kept].tolist(), box[kept])
    for known in (data, Dataset.build(data.images, data.classes, data.areas, objects=data.objects)):
        (run,) = load_predictions(file, data=known, classes=tmp_path / "data.yaml")
        assert "numbers them" in run.read
        names = {run.tasks[c] for c in run.boxes.boxes.label}
        assert names == {name for n, name in COCO.items() if n < 70}


def test_the_file_that_an_error_dictates_is_right(tmp_path):
    data, image, number, box = _world(OWN)
    swapped = {3: 9, 9: 3, 18: 18, 25: 25}
    file = _written(tmp_path, image, [swapped[n] for n in number], box)
    with pytest.raises(InputError) as caught:
        load_predictions(file, data=data, first_class=None)
    assert "24 as the dataset numbers them, and 48 if 3 boat, 9 car are meant" in str(caught.value)
    lines = str(caught.value).split("into a file (")[1].split(")")[0]
    (tmp_path / "classes.txt").write_text(lines.replace(", ", "\n"))
    (run,) = load_predictions(file, data=data, classes=tmp_path / "classes.txt")
    assert _is_perfect(run, data)
    from_0 = _written(tmp_path, image, [[*OWN].index(n) for n in number], box)
    fails(lambda: load_predictions(from_0, data=data, first_class=1), "category ids 0; by the",
          "0 car, 1 boat, 2 dog, 3 giraffe", "leave out first_class")  # fmt: skip
