"""FiftyOne: which samples get which tags (always), against a stand-in (always), and for real where
it is installed.
"""

import importlib.util
import sys

import pytest
from refusals import fails

from nooch.errors import InputError, MissingExtraError, OutputError, ParameterError
from nooch.exports.export_contract import Content
from nooch.exports.export_suite import export
from nooch.exports.fiftyone_export import match_samples, plan_tags

HARD = ("hard_positive", "hard_negative")


def test_the_plan_is_the_suites_hard_images(made):
    plan = plan_tags(Content(made.suite, tuple(made.suite.keys)), HARD)
    expected = {}
    for criterion, task, split in made.suite.keys:
        for subset in HARD:
            ids = made.suite.set(criterion, task, split).ids(subset)
            expected.setdefault(f"nooch:{criterion}:{task}:{subset}", []).extend(ids)
    assert {tag.name: tag.ids for tag in plan} == {
        name: ids for name, ids in expected.items() if ids
    }
    assert len(plan) > 4
    assert plan[0].view == "nooch ce car hard_positive"


def test_samples_are_found_by_the_end_of_their_path():
    names = {"1.jpg": 1, "a/1.jpg": 2, "b/c/3.jpg": 3}
    samples = [
        ("s1", "/x/1.jpg"),
        ("s2", "C:\\data\\a\\1.jpg"),
        ("s3", "/b/c/3.jpg"),
        ("s4", "/c/3.jpg"),
        ("s5", "/x/11.jpg"),
    ]
    assert match_samples(names, samples) == {1: "s1", 2: "s2", 3: "s3"}
    fails(
        lambda: match_samples(names, [("s1", "/x/1.jpg"), ("s2", "/y/1.jpg")]),
        "several samples",
        "1.jpg",
        "`id_field`",
    )


def tagged(dataset):
    return {(tag, sample["filepath"]) for sample in dataset.samples for tag in sample["tags"]}


def test_samples_are_tagged_and_views_saved(made, fiftyone):
    dataset = fiftyone.datasets["photos"]
    done = export(made.suite, "fiftyone", "photos", data=made.data)
    plan = plan_tags(Content(made.suite, tuple(made.suite.keys)), HARD)
    assert tagged(dataset) == {(tag.name, f"/photos/{i:012d}.jpg") for tag in plan for i in tag.ids}
    assert set(dataset.views) == {tag.view for tag in plan}
    for tag in plan:
        assert len(dataset.views[tag.view].values("id")) == len(tag.ids)
    assert dataset.info["nooch"]["licences"][0]["name"] == "CC BY"
    assert dataset.saved == 1
    assert not any("no samples" in text for text in done.notes)


@pytest.mark.parametrize(
    ("field", "option"), [("image_id", None), ("coco_id", None), ("number", "number")]
)
@pytest.mark.parametrize(
    "kind", [int, str, lambda i: f"{i:012d}"], ids=["integer", "text", "zeros"]
)
def test_samples_are_found_by_a_field_of_ids(made, fiftyone, field, option, kind):
    dataset = type(fiftyone.datasets["photos"])(
        [{"filepath": f"/x/{i}.png", field: kind(i)} for i in range(1, 41)]
        + [{"filepath": "y", field: None}]
    )
    fiftyone.datasets["photos"] = dataset
    # no dataset is needed then
    export(
        made.suite,
        "fiftyone",
        "photos",
        criteria=["ce"],
        tasks=["car"],
        subsets=["hard_negative"],
        id_field=option,
    )
    hard = [
        i
        for split in ("valid", "test")
        for i in made.suite.set("ce", "car", split).ids("hard_negative")
    ]
    assert tagged(dataset) == {("nooch:ce:car:hard_negative", f"/x/{i}.png") for i in hard}


def test_a_file_path_can_be_asked_for(made, fiftyone):
    dataset = fiftyone.datasets["photos"]
    for sample in dataset.samples:
        sample["image_id"] = "something else"
    fails(
        lambda: export(made.suite, "fiftyone", "photos", data=made.data),
        "several samples have the image_id",
    )
    export(made.suite, "fiftyone", "photos", data=made.data, id_field="filepath")
    assert tagged(dataset)


def test_what_does_not_fit_is_refused_and_changes_nothing(made, fiftyone):
    before = fiftyone.datasets["photos"].state
    fails(
        lambda: export(made.suite, "fiftyone", "nowhere", data=made.data),
        "no FiftyOne dataset 'nowhere'",
        "photos",
    )
    fails(
        lambda: export(made.suite, "fiftyone", "photos", data=made.data, id_field="colour"),
        "'colour' is no field", "filepath", kind=ParameterError,
    )  # fmt: skip
    fails(
        lambda: export(made.suite, "fiftyone", "photos", subsets=["hard"]),
        "'hard' is no subset",
        kind=ParameterError,
    )
    fails(lambda: export(made.suite, "fiftyone", "photos"), "needs the dataset", kind=InputError)
    for sample in fiftyone.datasets["photos"].samples:
        sample["filepath"] = "/elsewhere/x.jpg"
    fails(
        lambda: export(made.suite, "fiftyone", "photos", data=made.data),
        "no sample is an image of the sets",
    )
    assert fiftyone.datasets["photos"].state == before


def test_images_that_are_no_samples_are_counted(made, fiftyone):
    dataset = fiftyone.datasets["photos"]
    lost = made.suite.set("ce", "car", "test").ids("hard")[0]
    dataset.samples = [s for s in dataset.samples if f"{lost:012d}" not in s["filepath"]]
    dataset._ids = [s["id"] for s in dataset.samples]
    done = export(made.suite, "fiftyone", "photos", data=made.data)
    assert any(f"images are no samples there: {lost}" in text for text in done.notes)


def test_tags_move_with_the_suite_when_they_are_replaced(made, fiftyone):
    dataset = fiftyone.datasets["photos"]
    dataset.samples[-1]["tags"] |= {"nooch:ce:car:hard_positive", "mine"}
    fails(
        lambda: export(made.suite, "fiftyone", "photos", data=made.data),
        "has the tags nooch:ce:car:hard_positive",
        kind=OutputError,
    )
    export(made.suite, "fiftyone", "photos", data=made.data, overwrite=True)
    assert dataset.samples[-1]["tags"] == {"mine"}


@pytest.mark.parametrize("first", ["nothing", "an earlier export"])
def test_where_its_database_fails_everything_is_as_it_was(made, fiftyone, monkeypatch, first):
    dataset = fiftyone.datasets["photos"]
    if first != "nothing":
        export(made.suite, "fiftyone", "photos", data=made.data, criteria=["ce"])
        dataset.samples[0]["tags"].add("nooch:ce:car:hard_positive")
    before = dataset.state

    def save():
        raise RuntimeError("no connection")

    monkeypatch.setattr(dataset, "save", save)
    fails(
        lambda: export(made.suite, "fiftyone", "photos", data=made.data, overwrite=True),
        "FiftyOne failed: no connection", kind=OutputError, helps=False,
    )  # fmt: skip
    assert dataset.state == before


def test_the_extra_is_named_where_it_is_missing(made, monkeypatch):
    monkeypatch.setitem(sys.modules, "fiftyone", None)
    fails(
        lambda: export(made.suite, "fiftyone", "photos"),
        "pip install 'nooch[fiftyone]'",
        kind=MissingExtraError,
    )


@pytest.mark.skipif(
    importlib.util.find_spec("fiftyone") is None,
    reason="FiftyOne is not installed (nooch[fiftyone])",
)
@pytest.mark.filterwarnings("ignore")
def test_with_fiftyone_itself(made):
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
        names = made.data.images["file_name"]
        dataset.add_samples(
            [fiftyone.Sample(filepath=f"/photos/{file}") for file in names], progress=False
        )
        export(made.suite, "fiftyone", name, data=made.data)
        plan = plan_tags(Content(made.suite, tuple(made.suite.keys)), HARD)
        assert dataset.count_sample_tags() == {tag.name: len(tag.ids) for tag in plan}
        assert sorted(dataset.list_saved_views()) == sorted(tag.view for tag in plan)
        assert len(dataset.load_saved_view(plan[0].view)) == len(plan[0].ids)
        fails(
            lambda: export(made.suite, "fiftyone", name, data=made.data),
            "`overwrite`",
            kind=OutputError,
        )
        export(made.suite, "fiftyone", name, data=made.data, overwrite=True)
        assert dataset.count_sample_tags() == {tag.name: len(tag.ids) for tag in plan}
    finally:
        fiftyone.delete_dataset(name)
