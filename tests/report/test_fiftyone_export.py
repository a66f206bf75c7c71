"""FiftyOne: which samples get which tags, with a stand-in, and for real where it is installed."""

import importlib.util
import sys
from functools import partial

import pytest
from refusals import fails, refused

from nooch.base.errors import MissingExtraError, OutputError
from nooch.report.exports.contract import Content
from nooch.report.exports.export import export
from nooch.report.exports.fiftyone import plan_tags

HARD = ("hard_positive", "hard_negative")


@pytest.fixture
def plan(made):
    return plan_tags(Content(made.suite, tuple(made.suite.keys)), HARD)


def test_the_plan_is_the_suites_hard_images(made, plan):
    expected = {}
    for criterion, task, split in made.suite.keys:
        for subset in HARD:
            ids = made.suite.set(criterion, task, split).ids(subset)
            expected.setdefault(f"nooch:{criterion}:{task}:{subset}", []).extend(ids)
    assert {tag.name: tag.ids for tag in plan} == {k: ids for k, ids in expected.items() if ids}
    assert len(plan) > 4
    assert plan[0].view == "nooch ce car hard_positive"


def tagged(dataset):
    return {(tag, sample["filepath"]) for sample in dataset.samples for tag in sample["tags"]}


def test_samples_are_tagged_and_views_saved(made, plan, fiftyone):
    dataset = fiftyone.datasets["photos"]
    done = export(made.suite, "fiftyone", "photos", data=made.data)
    assert tagged(dataset) == {
        (tag.name, f"{made.data.image_root}/{i:012d}.jpg") for tag in plan for i in tag.ids
    }
    assert set(dataset.views) == {tag.view for tag in plan}
    for tag in plan:
        assert len(dataset.views[tag.view].values("id")) == len(tag.ids)
    assert dataset.info["nooch"]["licenses"][0]["name"] == "CC BY"
    assert dataset.saved == 1
    assert not any("not samples" in text for text in done.notes)


@pytest.mark.parametrize(
    ("field", "option"), [("image_id", None), ("coco_id", None), ("number", "number")]
)
@pytest.mark.parametrize(
    "kind", [int, str, lambda i: f"{i:012d}"], ids=["integer", "text", "zeros"]
)
def test_samples_are_found_by_a_field_of_ids(made, fiftyone, field, option, kind):
    samples = [{"filepath": f"/x/{i}.png", field: kind(i)} for i in range(1, 41)]
    dataset = type(fiftyone.datasets["photos"])([*samples, {"filepath": "y", field: None}])
    fiftyone.datasets["photos"] = dataset
    # no dataset is needed then
    options = {"criteria": ["ce"], "tasks": ["car"], "subsets": ["hard_negative"]}
    export(made.suite, "fiftyone", "photos", id_field=option, **options)
    sets = [made.suite.set("ce", "car", split) for split in ("valid", "test")]
    hard = [i for one in sets for i in one.ids("hard_negative")]
    assert tagged(dataset) == {("nooch:ce:car:hard_negative", f"/x/{i}.png") for i in hard}


@pytest.fixture
def tag_photos(made, fiftyone):
    """Tag the samples of the dataset ``photos``."""
    return partial(export, made.suite, "fiftyone", "photos", data=made.data)


def test_a_file_path_can_be_requested(tag_photos, fiftyone):
    dataset = fiftyone.datasets["photos"]
    for sample in dataset.samples:
        sample["image_id"] = "something else"
    fails(tag_photos, "several samples have the image_id")
    tag_photos(id_field="filepath")
    assert tagged(dataset)
    dataset.samples[1]["filepath"] = dataset.samples[0]["filepath"]
    fails(partial(tag_photos, id_field="filepath"), "several samples have the filepath")


def test_what_does_not_fit_is_refused_and_changes_nothing(made, tag_photos, fiftyone):
    before = fiftyone.datasets["photos"].state
    nowhere = partial(export, made.suite, "fiftyone", "nowhere", data=made.data)
    fails(nowhere, "no FiftyOne dataset 'nowhere'", "photos")
    refused(lambda: tag_photos(id_field="color"), "'color' is not a field", "filepath")
    refused(lambda: tag_photos(subsets=["hard"]), "'hard' is not a subset")
    fails(lambda: tag_photos(data=None), "needs the dataset")
    for sample in fiftyone.datasets["photos"].samples:
        sample["filepath"] = "/elsewhere/x.jpg"
    fails(tag_photos, "no sample is an image of the sets")
    assert fiftyone.datasets["photos"].state == before


def test_images_that_are_no_samples_are_counted(made, tag_photos, fiftyone):
    dataset = fiftyone.datasets["photos"]
    lost = made.suite.set("ce", "car", "test").ids("hard")[0]
    dataset.samples = [s for s in dataset.samples if f"{lost:012d}" not in s["filepath"]]
    dataset._ids = [s["id"] for s in dataset.samples]
    done = tag_photos()
    assert any(f"images are not samples there: {lost}" in text for text in done.notes)


def test_tags_move_with_the_suite_when_they_are_replaced(tag_photos, fiftyone):
    dataset = fiftyone.datasets["photos"]
    dataset.samples[-1]["tags"] |= {"nooch:ce:car:hard_positive", "mine"}
    fails(tag_photos, "has the tags nooch:ce:car:hard_positive", kind=OutputError)
    tag_photos(overwrite=True)
    assert dataset.samples[-1]["tags"] == {"mine"}


def test_where_its_database_fails_the_same_export_again_completes_it(tag_photos, fiftyone):
    dataset, plain = fiftyone.datasets["photos"], fiftyone.datasets["photos"].save

    def save():
        raise RuntimeError("no connection")

    dataset.save = save
    fails(tag_photos, "FiftyOne failed: no connection", kind=OutputError, helps=False)
    dataset.save = plain
    tag_photos(overwrite=True)
    assert tagged(dataset)
    assert dataset.saved == 1


def test_the_extra_is_named_where_it_is_missing(made, monkeypatch):
    monkeypatch.setitem(sys.modules, "fiftyone", None)
    tag_photos = partial(export, made.suite, "fiftyone", "photos")
    fails(tag_photos, "pip install 'nooch[fiftyone]'", kind=MissingExtraError)


@pytest.mark.skipif(
    importlib.util.find_spec("fiftyone") is None,
    reason="FiftyOne is not installed (nooch[fiftyone])",
)
@pytest.mark.filterwarnings("ignore")
def test_with_fiftyone_itself(made, plan):
    import fiftyone

    name = "nooch-test-export"
    try:
        there = fiftyone.dataset_exists(name)
    except Exception as error:  # noqa: BLE001 - its errors have no common root
        pytest.skip(f"FiftyOne has no database: {error}")
    if there:
        fiftyone.delete_dataset(name)
    dataset = fiftyone.Dataset(name)
    try:
        paths = [f"{made.data.image_root}/{file}" for file in made.data.images["file_name"]]
        dataset.add_samples([fiftyone.Sample(filepath=p) for p in paths], progress=False)
        export(made.suite, "fiftyone", name, data=made.data)
        assert dataset.count_sample_tags() == {tag.name: len(tag.ids) for tag in plan}
        assert sorted(dataset.list_saved_views()) == sorted(tag.view for tag in plan)
        assert len(dataset.load_saved_view(plan[0].view)) == len(plan[0].ids)
        again = partial(export, made.suite, "fiftyone", name, data=made.data)
        fails(again, "`overwrite`", kind=OutputError)
        again(overwrite=True)
        assert dataset.count_sample_tags() == {tag.name: len(tag.ids) for tag in plan}
    finally:
        fiftyone.delete_dataset(name)
