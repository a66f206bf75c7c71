"""Questions: the draw, its weights, the wording and the table."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st
from refusals import fails, refused
from scipy.sparse import csr_array

import nooch
from nooch.base.errors import FormatError
from nooch.data import Dataset
from nooch.data.table_files import parquet_bytes
from nooch.suites import (
    CELLS,
    ChallengeSet,
    CriterionRecord,
    DatasetRecord,
    Mark,
    Suite,
    load_suite,
)
from nooch.suites.questions import (
    TEMPLATE,
    Draw,
    draw_questions,
    image_names,
    load_questions,
    question_text,
)

NONE, EASY, HARD = -1, 0, 1
SIZES = st.sampled_from([1, 2, 5, 50, None])
DRAWS = st.builds(Draw, SIZES, st.just(TEMPLATE), st.integers(0, 3))


@st.composite
def suites(draw):
    """Two tasks, two criteria, two splits, any marks; the second criterion may exclude images."""
    n = draw(st.integers(2, 60))
    random = np.random.default_rng(draw(st.integers(0, 1000)))
    ids = pl.Series("image_id", np.arange(n) * 3 + 5)
    tasks, sets = ["car", "skis"], {}
    labels = random.random((n, 2)) < draw(st.sampled_from([0.1, 0.5]))
    half = np.arange(n) % 2 == 0
    for criterion, codes in (("ce", [EASY, HARD]), ("gist", [NONE, EASY, HARD])):
        for column, task in enumerate(tasks):
            for split, rows in (("valid", half), ("test", ~half)):
                mark = Mark(random.choice(codes, n).astype(np.int8)[rows])
                key = (criterion, task, split)
                of_split = ids.filter(pl.Series(rows))
                sets[key] = ChallengeSet.from_mark(*key, mark, of_split, labels[rows, column])
    return Suite.from_sets(
        sets,
        dataset=DatasetRecord("x", n, {"valid": int(half.sum()), "test": int((~half).sum())}),
        criteria={name: CriterionRecord("attribute", {}) for name in ("ce", "gist")},
        skipped=[],
        tasks=tasks,
        splits=["valid", "test"],
    )


@given(suites(), DRAWS)
@settings(max_examples=20)
def test_every_stratum_is_drawn_and_weighted_to_its_size(suite, options):
    drawn = draw_questions(suite, list(suite.keys), options).frame
    assert drawn.select("image_id", "task").is_duplicated().any() is False
    assert drawn["question_id"].to_list() == list(range(1, drawn.height + 1))
    for split in suite.splits:
        for task in suite.tasks:
            # the obvious way: a dictionary from (label, subsets) to images
            sets = [suite.set(criterion, task, split) for criterion in suite.criteria]
            strata, sides = {}, [{i: s for s in CELLS for i in c.ids(s)} for c in sets]
            for image in sorted(set(sides[0]) | set(sides[1])):
                pattern = tuple(names.get(image) for names in sides)
                strata.setdefault(pattern, set()).add(image)
            part = drawn.filter(task=task, split=split)
            for (ce, gist), images in strata.items():
                rows = part.filter(pl.col("ce").eq_missing(ce) & pl.col("gist").eq_missing(gist))
                assert set(rows["image_id"]) <= images
                assert rows["weight"].sum() == pytest.approx(len(images))
                assert set(rows["label"]) == {int("positive" in (ce or gist))}
                assert rows.height == min(options.per_set or len(images), len(images))


@given(suites(), DRAWS)
@settings(max_examples=20)
def test_a_task_draws_alone_and_the_same_images_every_time(suite, options):
    every = draw_questions(suite, list(suite.keys), options).frame
    again = draw_questions(suite, list(suite.keys), options).frame
    assert every.equals(again)
    alone = [key for key in suite.keys if key[1] == "skis"]
    one = draw_questions(suite, alone, options).frame
    assert one.drop("question_id").equals(every.filter(task="skis").drop("question_id"))


def test_another_seed_draws_other_images():
    suite = load_suite("nooch-coco")
    keys = [key for key in suite.keys if key[1:] == ("car", "test")]
    frames = [draw_questions(suite, keys, Draw(seed=s)).frame for s in (0, 1)]
    drawn = [set(frame["image_id"]) for frame in frames]
    assert len(drawn[0] & drawn[1]) < 100
    assert [len(images) for images in drawn] == [400, 400]


def test_rates_of_a_draw_are_unbiased_for_the_sets():
    suite = load_suite("nooch-coco")
    challenge = suite.set("ce", "cup", "test")
    hard = set(challenge.ids("hard_negative"))
    truth = np.mean([image % 7 == 0 for image in hard])
    keys = [key for key in suite.keys if key[1:] == ("cup", "test")]
    rates = []
    for seed in range(60):
        rows = draw_questions(suite, keys, Draw(per_set=20, seed=seed)).frame
        rows = rows.filter(ce="hard_negative")
        rates.append(np.average(rows["image_id"].to_numpy() % 7 == 0, weights=rows["weight"]))
    assert abs(np.mean(rates) - truth) < 4 * np.std(rates) / np.sqrt(len(rates))


@pytest.mark.parametrize(
    ("task", "text"),
    [
        ("airplane", "Is there an airplane in the image?"),
        ("hot_dog", "Is there a hot dog in the image?"),
        ("wall-brick", "Is there a brick wall in the image?"),
        ("grass", "Is there grass in the image?"),
        ("skis", "Are there skis in the image?"),
    ],
)
def test_wording(task, text):
    assert question_text(TEMPLATE, task) == text


def test_a_template_of_ones_own():
    assert question_text("Do you see {a} {task}?", "skis") == "Do you see skis?"
    assert question_text("{task}: is it there?", "car") == "car: is it there?"


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"per_set": 0}, "is 0"),
        ({"template": "Is it there?"}, "not a template"),
        ({"template": "{task} {0}"}, "not a template"),
        ({"template": "{task"}, "expected '}'"),
    ],
)
def test_wrong_options_are_refused(options, part, tmp_path):
    refused(lambda: nooch.export("nooch-coco", "pope", tmp_path / "pope", **options), part)


class TestTable:
    @pytest.fixture
    def questions(self):
        suite = load_suite("nooch-coco").only(["car"])
        keys = [key for key in suite.keys if key[2] == "test"]
        return draw_questions(suite, keys, Draw(per_set=3))

    def test_it_is_read_as_it_was_written(self, questions, tmp_path):
        path = tmp_path / "q.parquet"
        path.write_bytes(parquet_bytes(questions.frame))
        read = load_questions(path)
        assert read.frame.equals(questions.frame)
        assert read.criteria == ("ce", "gist")
        assert repr(read) == f"Questions({len(read)} on {len(read)} images, 1 tasks)"

    @pytest.mark.parametrize(
        ("change", "part"),
        [
            (lambda f: f.drop("weight"), "no column weight"),
            (lambda f: f.with_columns(weight=pl.lit(0.5)), "weight"),
            (lambda f: f.with_columns(label=pl.lit(2, pl.Int8)), "label"),
            (lambda f: f.with_columns(question_id=pl.lit(1, pl.Int64)), "question_id"),
            (lambda f: f.with_columns(image_id=pl.lit(1, pl.Int64)), "two questions"),
            (lambda f: f.with_columns(ce=pl.lit("easy")), "ce"),
        ],
    )
    def test_an_altered_table_is_refused(self, questions, tmp_path, change, part):
        path = tmp_path / "q.parquet"
        path.write_bytes(parquet_bytes(change(questions.frame)))
        fails(lambda: load_questions(path), part, kind=FormatError)


class TestImageNames:
    @pytest.fixture
    def folder(self, tmp_path):
        for name in ("COCO_val2014_000000000285.jpg", "000000000009.jpg", "127.png", "deep/5.jpg"):
            file = tmp_path / name
            file.parent.mkdir(exist_ok=True)
            file.touch()
        return tmp_path

    def test_ids_find_the_names_of_coco_2014_and_2017(self, folder):
        assert image_names([285, 9, 127, 5], None, folder) == {
            285: "COCO_val2014_000000000285.jpg",
            9: "000000000009.jpg",
            127: "127.png",
            5: "deep/5.jpg",
        }

    def test_names_of_the_dataset_come_first(self, folder):
        frame = pl.DataFrame({"image_id": [1, 2], "file_name": ["127.png", "data/deep/5.jpg"]})
        data = Dataset.build(frame, ["car"], csr_array((2, 1)))
        assert image_names([1, 2], data, folder) == {1: "127.png", 2: "deep/5.jpg"}
        assert image_names([2], data, None) == {2: "data/deep/5.jpg"}

    @pytest.mark.parametrize("given", [True, False])
    def test_missing_files_are_named(self, folder, given):
        fails(lambda: image_names([9, 285, 77], None, folder if given else None), "77", "images")
