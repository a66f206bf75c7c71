"""COCO-JSON: pycocotools loads it, annotations are those of the source, and what does not fit is
refused.
"""

import json
from functools import partial
from operator import itemgetter

import pytest
from coco_files import STUFF, THINGS, document, image, write
from in_memory import read_coco
from pycocotools.coco import COCO
from refusals import fails, refused

from nooch.criteria import CE
from nooch.report.exports.export import export
from nooch.suites.find import find

# pycocotools' own, when it decodes a mask
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


def loaded(path):
    return COCO(str(path))


def contents(path):
    return json.loads(path.read_text())


def test_pycocotools_loads_exactly_the_hard_images(made, tmp_path):
    options = {"criteria": ["ce"], "annotations": made.annotations}
    export(made.suite, "coco", tmp_path / "out", data=made.data, **options)
    for split in ("valid", "test"):
        found = loaded(tmp_path / "out" / f"{split}.json")
        hard = {task: made.suite.set("ce", task, split) for task in ("car", "fire_hydrant")}
        assert set(found.getImgIds()) == {i for one in hard.values() for i in one.ids("hard")}
        for number, entry in found.imgs.items():
            expected = {
                task: subset
                for task, one in hard.items()
                for subset in ("hard_positive", "hard_negative")
                if number in one.ids(subset)
            }
            assert entry["nooch"] == {"ce": expected}


def test_images_and_annotations_are_what_the_source_says(made, tmp_path):
    export(made.suite, "coco", tmp_path / "out", data=made.data, annotations=made.annotations)
    sources = [contents(path) for path in made.annotations]
    for split in ("valid", "test"):
        found = contents(tmp_path / "out" / f"{split}.json")
        ids = [entry["id"] for entry in found["images"]]
        assert ids == sorted(ids)
        originals = {entry["id"]: entry for entry in sources[0]["images"]}
        for entry in found["images"]:
            assert entry.pop("nooch")
            assert entry == originals[entry["id"]]
            assert entry["license"] == 1
        expected = [a for s in sources for a in s["annotations"] if a["image_id"] in set(ids)]
        by_id = itemgetter("id")
        assert sorted(found["annotations"], key=by_id) == sorted(expected, key=by_id)
        assert found["categories"] == [c for source in sources for c in source["categories"]]
        assert found["licenses"] == sources[0]["licenses"]
        assert found["info"] == sources[0]["info"]
        assert loaded(tmp_path / "out" / f"{split}.json").annToMask(found["annotations"][0]).any()


def test_other_subsets_can_be_asked_for(made, tmp_path):
    options = {"criteria": ["ce"], "tasks": ["car"], "subsets": ["easy", "hard_positive"]}
    export(made.suite, "coco", tmp_path / "out", annotations=made.annotations, **options)
    one = made.suite.set("ce", "car", "test")
    ids = [entry["id"] for entry in contents(tmp_path / "out" / "test.json")["images"]]
    assert ids == sorted(one.ids("easy") + one.ids("hard_positive"))
    write = partial(export, made.suite, "coco", tmp_path / "b", no_annotations=True)
    for subsets in (["hard"], []):
        refused(partial(write, subsets=subsets), "subset", "easy")


def test_without_annotation_files_images_and_categories_come_from_the_dataset(made, tmp_path):
    options = {"no_annotations": True, "licenses": ["Mine"]}
    export(made.suite, "coco", tmp_path / "out", data=made.data, **options)
    found = contents(tmp_path / "out" / "test.json")
    assert found["annotations"] == []
    named = {c["id"]: c["name"] for c in found["categories"]}
    assert named | {183: "other"} == {**THINGS, **STUFF}
    assert found["images"][0]["width"] == 10
    assert found["licenses"] == [
        {"id": 1, "name": "CC BY", "url": "https://example.org/by"},
        {"id": 2, "name": "Mine"},
    ]
    assert len(loaded(tmp_path / "out" / "test.json").getImgIds()) == len(found["images"])
    without = partial(export, made.suite, "coco", tmp_path / "b", no_annotations=True)
    fails(without, "needs the dataset", "`data`")


def test_one_of_the_two_must_be_said(made, tmp_path):
    act = partial(export, made.suite, "coco", tmp_path / "out")
    text = refused(partial(act, data=made.data), "`no_annotations`")
    assert "things.json, stuff.json" in text
    both = partial(act, annotations=made.annotations, no_annotations=True)
    refused(both, "exclude", helps=False)


def unusable(made, tmp_path, annotations, *parts, data=None):
    options = {"data": data, "annotations": annotations}
    text = fails(lambda: export(made.suite, "coco", tmp_path / "out", **options), *parts)
    assert not (tmp_path / "out").exists()
    return text


def test_a_file_that_was_altered_is_refused_and_a_strange_one_noted(made, tmp_path):
    things = contents(made.annotations[0])
    things["annotations"].pop()
    altered = write(tmp_path / "things.json", things)
    unusable(made, tmp_path, [altered], "things.json", "is not the file", "BLAKE3", data=made.data)
    # without the dataset nobody can know
    export(made.suite, "coco", tmp_path / "unknown", annotations=[altered])
    other = write(tmp_path / "other.json", things)
    done = export(made.suite, "coco", tmp_path / "other", data=made.data, annotations=[other])
    assert any("other.json is not a file that the dataset" in text for text in done.notes)


def test_every_image_must_be_in_some_file(made, tmp_path):
    things = contents(made.annotations[0])
    hard = made.suite.set("ce", "car", "test").ids("hard")
    things["images"] = [entry for entry in things["images"] if entry["id"] != hard[0]]
    things["annotations"] = [a for a in things["annotations"] if a["image_id"] != hard[0]]
    part = write(tmp_path / "part.json", things)
    words = f"1 images of the sets are in none of the annotation files: {hard[0]}"
    unusable(made, tmp_path, [part], words)
    text = unusable(made, tmp_path, [part], "things.json", data=made.data)
    assert "remedy: give all files" in text


EMPTY = {"images": [], "annotations": [], "categories": []}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "is empty"),
        ('{"images": [', "not valid JSON"),
        ({**EMPTY, "annotations": [{"image_id": 1, "caption": "x"}]}, "category_id"),
        ({**EMPTY, "images": [{"id": "1"}]}, "$.images[0].id"),
        ({"images": []}, "annotations"),
        (json.dumps(EMPTY).encode()[:-3] + b'[{"id": 1, "name": "\xff"}]}', "not valid JSON"),
    ],
)
def test_what_is_no_annotation_file_is_unusable(made, tmp_path, content, words):
    bad = write(tmp_path / "bad.json", content)
    act = partial(export, made.suite, "coco", tmp_path / "out", annotations=[bad])
    fails(act, "bad.json", words, helps=False)
    assert not (tmp_path / "out").exists()


def test_a_file_that_is_not_there_or_comes_twice(made, tmp_path):
    nowhere = partial(export, annotations=[tmp_path / "nowhere.json"])
    fails(lambda: nowhere(made.suite, "coco", tmp_path / "out"), "nowhere.json", helps=False)
    unusable(made, tmp_path, [made.annotations[0], made.annotations[0]], "given twice")


@pytest.mark.parametrize("what", ["category", "license"])
def test_files_that_disagree_are_unusable(made, tmp_path, what):
    stuff = contents(made.annotations[1])
    if what == "category":
        stuff["categories"][0] = {"id": 1, "name": "tree"}
    else:
        stuff["licenses"][0]["name"] = "another"
    other = write(tmp_path / "other.json", stuff)
    unusable(
        made,
        tmp_path,
        [made.annotations[0], other],
        f"{what} 1 differs in an earlier",
        "other.json",
    )


def test_annotation_ids_become_unique(made, tmp_path):
    stuff = contents(made.annotations[1])
    for number, annotation in enumerate(stuff["annotations"], 1):
        annotation["id"] = number
    same = write(tmp_path / "same.json", stuff)
    done = export(made.suite, "coco", tmp_path / "out", annotations=[made.annotations[0], same])
    assert any("counted from 1" in text for text in done.notes)
    found = contents(tmp_path / "out" / "test.json")["annotations"]
    assert [a["id"] for a in found] == list(range(1, len(found) + 1))
    originals = [a for path in (made.annotations[0], same) for a in contents(path)["annotations"]]
    bare = [{k: v for k, v in a.items() if k != "id"} for a in originals]
    assert all({k: v for k, v in a.items() if k != "id"} in bare for a in found)
    for annotation in stuff["annotations"]:
        del annotation["id"]
    missing = write(tmp_path / "missing.json", stuff)
    export(made.suite, "coco", tmp_path / "none", annotations=[made.annotations[0], missing])
    assert len(loaded(tmp_path / "none" / "test.json").anns) == len(found)


def test_a_file_name_that_leads_elsewhere_is_not_passed_on(make_suite, tmp_path):
    suite = make_suite({"ce": ["car"]}, [1, 2, 3, 4])
    images = [image(i, file_name=f"../{i}.jpg") for i in (1, 2, 3, 4)]
    evil = write(tmp_path / "evil.json", document(images))
    fails(lambda: export(suite, "coco", tmp_path / "out", annotations=[evil]), "lead out")
    assert not (tmp_path / "out").exists()


def test_ids_that_are_text_are_refused(make_suite, tmp_path):
    suite = make_suite({"ce": ["car"]}, ["a", "b", "c", "d"])
    fails(lambda: export(suite, "coco", tmp_path / "out", annotations=["x"]), "image ids are text")


def test_licenses_of_the_annotation_files_count_where_no_others_are_recorded(
    published, made, tmp_path
):
    done = export(published, "coco", tmp_path / "out", annotations=made.annotations)
    terms = {"name": "CC BY", "url": "https://example.org/by", "source": "recorded"}
    assert done.licenses == [terms]
    assert "CC BY" in (tmp_path / "out" / "LICENSES.txt").read_text()


def test_genuine_annotations(shared_data, tmp_path):
    """80 real images with polygons and crowds: masks have the official areas."""
    file = shared_data / "coco-real" / "coco-tiny" / "annotations" / "instances_train2017.json"
    data = read_coco([file])
    suite = find(data, {"ce": CE(cues={"cup": ("person", "dining_table")})}, tasks=["cup"])
    done = export(suite, "coco", tmp_path / "out", data=data, annotations=[file])
    found = loaded(tmp_path / "out" / "all.json")
    assert sorted(found.getImgIds()) == suite.set("ce", "cup", "all").ids("hard") != []
    source = loaded(file)
    expected = [a for a in source.anns.values() if a["image_id"] in found.imgs]
    assert sorted(found.anns) == sorted(a["id"] for a in expected)
    for annotation in expected:
        assert (found.annToMask(found.anns[annotation["id"]]) == source.annToMask(annotation)).all()
    licenses = [entry["name"] for entry in contents(file).get("licenses", [])]
    assert [terms["name"] for terms in done.licenses] == licenses
