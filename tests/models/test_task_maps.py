"""Task maps: which labels and prompts stand for a task, and clear words where none does."""

import json

import pytest
from answering import LABELS
from refusals import fails

from nooch.base.errors import ParameterError
from nooch.models.task_maps import TaskWords, find_labels, prompts_of, read_task_map

TWO = (*LABELS, "crane, a bird", "crane, a machine")


def test_labels_by_number_text_name_and_spelling():
    words = {"a": [0], "b": ["sports car, sport car"], "c": ["sport car"], "d": ["SPORTS_car"]}
    words |= {"e": ["Cardigan"], "f": ["cardigan"], "g": ["car", 3], "h": "water bird"}
    found = find_labels(LABELS, list(words), read_task_map(words), "it")
    expected = {"a": [0], "b": [0], "c": [0], "d": [0], "e": [1], "f": [2], "g": [3, 5], "h": [4]}
    assert found == expected


def test_tasks_by_their_own_names():
    found = find_labels(LABELS, ["water_bird", "car", "street"], None, "it")
    assert found == {"water_bird": [4], "car": [5], "street": [3]}
    tasks, parts = ["car", "fire_hydrant", "crane"], ("fire_hydrant, crane", "`task_map`")
    text = fails(lambda: find_labels(TWO, tasks, None, "it"), *parts)
    assert "tasks=['car']" in text
    assert "imagenet" not in text
    many = [f"label {i}" for i in range(1000)]
    fails(lambda: find_labels(many, ["car"], None, "it"), "task_map='imagenet'")
    assert find_labels(["car"], ["car"], None, "it") == {"car": [0]}


def test_words_that_do_not_fit():
    def refused(words, *parts, tasks=None):
        fails(lambda: find_labels(TWO, tasks or list(words), read_task_map(words), "it"), *parts)

    words = (
        "car: 'no car' matches none",
        "car: 9 matches none",
        "b: 'Crane' matches 6 (crane, a bird)",
    )
    given = {"car": ["sport car", "no car", 9], "b": ["Crane"]}
    refused(given, *words, "7 (crane, a machine)")
    sides = {"car": {"positive": ["car"], "negative": ["street"]}}
    refused(sides, "car have negative prompts", "is a classifier")
    refused({"car": ["car"]}, "the map has no bus, cow", "`tasks`", tasks=["car", "bus", "cow"])


def test_synonyms_are_names_that_a_model_may_lack():
    labels = ["plane", "aeroplane", "Bike", "zebra", "dog, hound"]
    tasks = ["airplane", "bicycle", "dog", "unicorn"]
    words = read_task_map("synonyms", tasks)
    found = find_labels(labels, tasks, words, "it", skip_unmapped=True)
    assert found == {"airplane": [0, 1], "bicycle": [2], "dog": [4]}
    fails(lambda: find_labels(labels, tasks, words, "it"), "a synonym of unicorn", "`tasks`")
    none = read_task_map("synonyms", ["unicorn"])
    fails(lambda: find_labels(labels, ["unicorn"], none, "it", skip_unmapped=True), "unicorn")
    # a task in other words than COCO's, and one label of two meanings
    other = read_task_map("synonyms", ["aeroplane"])
    assert find_labels(labels, ["aeroplane"], other, "it") == {"aeroplane": [0, 1]}
    fails(
        lambda: find_labels(["plane", "plane", "x"], ["aeroplane"], other, "it"),
        "'plane' matches 0",
    )
    assert "a photo of an aeroplane" in prompts_of(["aeroplane"], other)["aeroplane"][0]


def test_a_map_from_a_file(tmp_path):
    file = tmp_path / "map.yaml"
    file.write_text("fire hydrant: [a, 3]\ncar: b\nbus: {positive: [c], negative: d}\n")
    hydrant, car, bus = TaskWords(("a", 3)), TaskWords(("b",)), TaskWords(("c",), ("d",))
    assert read_task_map(file) == {"fire_hydrant": hydrant, "car": car, "bus": bus}
    for text, message in (
        ("car: []", "task car has []"),
        *((f"car: {value}", "task car") for value in ("[true]", "1.5", "['']")),
        ("", "contains no task"),
        ("car: {negative: a}", "task car has None"),
        ("fire_hydrant: a\nfire hydrant: b", "names task fire_hydrant twice"),
        ("- a", "contains a list"),
    ):
        file.write_text(text)
        fails(lambda: read_task_map(file), message)
    file.write_text("car: {positve: a}")
    fails(lambda: read_task_map(file), "positve", "positive", kind=ParameterError)
    fails(lambda: read_task_map(tmp_path / "no.yaml"), "cannot be read")
    file.write_text("car: !!python/object/apply:os.system ['true']")
    fails(lambda: read_task_map(file), "cannot be read")


def test_prompts():
    names = {"fire_hydrant": "a fire hydrant", "airplane": "an airplane", "sky-other": "a sky"}
    expected = {task: ((f"a photo of {name}",), ("a photo",)) for task, name in names.items()}
    assert prompts_of(list(names), None) == expected
    words = read_task_map({"car": ["x", "y"], "bus": {"positive": "x", "negative": ["y", "z"]}})
    expected = {"car": (("x", "y"), ("a photo",)), "bus": (("x",), ("y", "z"))}
    assert prompts_of(["car", "bus"], words) == expected
    fails(lambda: prompts_of(["car", "tie"], words), "the map has no tie")
    both = read_task_map({"car": {"positive": ["x"], "negative": ["x"]}})
    fails(lambda: prompts_of(["car"], both), "positive and negative", kind=ParameterError)


def test_the_ready_map_fits_imagenet(shared_data):
    backbone, published = shared_data / "backbones", shared_data / "nooch-published"
    config = json.loads((backbone / "mobilenet_v1_0.75_224" / "config.json").read_bytes())
    labels = [config["id2label"][str(i)] for i in range(1000)]
    words = read_task_map("imagenet")
    found = find_labels(labels, list(words), words, "ImageNet")
    assert len(found["dog"]) == 118
    assert found["airplane"] == found["aeroplane"]
    classes = json.loads((published / "cocostuff_classes.json").read_bytes())
    names = {c["name"] for c in classes}
    assert len(names & set(found)) >= 60
    pascal = "aeroplane motorbike pottedplant sofa diningtable tvmonitor"
    assert set(found) - names == set(pascal.split())
    # no class stands for two of COCO's
    taken = [place for task in set(found) & names for place in found[task]]
    assert len(taken) == len(set(taken))


@pytest.mark.parametrize("task", ["kite", "fire_hydrant", "person"])
def test_what_imagenet_lacks_is_not_in_the_ready_map(task):
    assert task not in read_task_map("imagenet")
