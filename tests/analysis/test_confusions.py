"""One class per image: the largest output is the answer; and confusions, counted by loops."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st
from refusals import fails
from scipy.sparse import csr_array

from nooch.analysis.check import check, largest_answer, largest_answers
from nooch.analysis.confusions import find_confusions
from nooch.data import Dataset
from nooch.evaluation import Predictions

CLASSES = ["cat", "dog", "cow"]


def one_each(labels, splits=None, **columns):
    """A dataset of images with one class each, none of an unknown split."""
    presence = np.eye(len(CLASSES))[labels]
    areas = csr_array(np.where(presence > 0, np.nan, 0.0))
    known = {"image_id": range(len(labels)), "split": splits or ["all"] * len(labels)}
    images = pl.DataFrame(known | columns)
    return Dataset.build(images, CLASSES, areas)


VALUES = st.lists(
    st.tuples(st.integers(0, 2), *[st.sampled_from([0.1, 0.2, 0.3, 0.7, 0.9])] * 3),
    min_size=3,
    max_size=30,
)


@given(VALUES, st.sampled_from(["logit", "probability"]))
def test_confusions_are_those_of_a_loop(rows, scale):
    labels, outputs = [row[0] for row in rows], np.array([row[1:] for row in rows])
    run = Predictions.from_arrays(outputs, range(len(rows)), CLASSES, scale=scale, run="m")
    data = one_each(labels)
    answered = largest_answer(run)
    said = [
        [k for k in range(3) if all(own[k] > own[j] for j in range(3) if j != k)] for own in outputs
    ]
    for row, answers in enumerate(said):
        assert np.flatnonzero(answered.values[:, row] > 0).tolist() == answers
    table = find_confusions(data, [answered], CLASSES).table
    wanted = {}
    for label, answers in zip(labels, said, strict=True):
        for answer in answers:
            if answer != label:
                key = CLASSES[label], CLASSES[answer]
                wanted[key] = wanted.get(key, 0) + 1
    found = {(task, answer): n for task, answer, n in table["task", "answer", "count"].rows()}
    assert found == wanted
    assert table["low"].is_sorted(descending=True)
    for row in table.iter_rows(named=True):
        n, back = labels.count(CLASSES.index(row["task"])), (row["answer"], row["task"])
        assert (row["n"], row["share"]) == (n, row["count"] / n)
        assert row["low"] <= row["share"] <= row["high"]
        others = labels.count(CLASSES.index(row["answer"]))
        assert row["back"] == (wanted.get(back, 0) / others if others else None)


def _model(labels, wrong, seed=0):
    """Logits of a model that takes cats for dogs in a share of their images, and may say no."""
    random = np.random.default_rng(seed)
    outputs = random.normal(size=(len(labels), 3)) * 0.3 - 4
    answers = np.where((labels == 0) & (random.random(len(labels)) < wrong), 1, labels)
    outputs[np.arange(len(labels)), answers] += 1.8
    return outputs


@pytest.fixture(scope="module")
def labels():
    return np.random.default_rng(1).integers(0, 3, 300)


def test_a_folder_of_classes_is_checked_by_its_confusions(labels, tmp_path):
    run = Predictions.from_arrays(_model(labels, 0.3), range(300), CLASSES, scale="logit", run="m")
    checked = check(one_each(labels), run, tmp_path / "out", bootstrap=0)
    first = checked.confusions.table.row(0, named=True)
    assert (first["task"], first["answer"]) == ("cat", "dog")
    assert 0.2 < first["low"] < first["share"] < first["high"] < 0.45
    sentence = checked.confusions.sentences(1)[0]
    assert sentence.startswith("m answers dog for cat images in ")
    assert sentence.endswith("the reverse in 0%")
    assert not len(checked.findings)
    assert any("exclude each other" in note for note in checked.notes)
    # every output is below 0: by themselves, all classes would be missed
    missed = {row[0]: row[2] for row in checked.errors.rows}
    assert missed["dog"] == f"0 of {(labels == 1).sum()}"
    assert (tmp_path / "out" / "confusions.parquet").is_file()
    assert (
        "m answers dog for cat images in"
        in (tmp_path / "out" / "report" / "index.html").read_text()
    )
    # a folder with only val needs no training images
    few = check(one_each(labels, ["valid"] * 300), run, tmp_path / "valid", bootstrap=0)
    assert few.confusions.sentences(1) == checked.confusions.sentences(1)
    assert set(few.scores.table["run"]) == {"m", "baseline: constant"}


def test_the_decision_can_be_chosen(labels, tmp_path):
    run = Predictions.from_arrays(_model(labels, 0), range(300), CLASSES, scale="logit", run="m")
    checked = check(one_each(labels), run, tmp_path / "out", bootstrap=0, decision="threshold")
    assert {row[2] for row in checked.errors.rows} == {
        f"{n:,} of {n:,}" for n in np.bincount(labels)
    }
    for scale, outputs in (("logit", [-1.0, 1, 2]), ("probability", [0.2, 0.6, 0.7])):
        run = Predictions.from_arrays([outputs] * 2, range(2), CLASSES, scale=scale)
        answers = find_confusions(one_each([1, 2]), [run], CLASSES).table["task", "answer"].rows()
        assert sorted(answers) == [("cow", "dog"), ("dog", "cow")]
    one = Predictions.from_arrays(np.ones(300), range(300), "cat", scale="logit")
    fails(lambda: largest_answers([one], "argmax", exclusive=True), "two classes")
    assert largest_answers([one], None, exclusive=True) == [one]


def test_a_table_of_one_class_for_each_image_is_its_answers(labels, tmp_path):
    outputs = _model(labels, 0.3)
    said = [CLASSES[k] for k in outputs.argmax(axis=1)]
    truth = [CLASSES[k] for k in labels]
    table = pl.DataFrame({"image": range(300), "label": truth, "pred": said, "conf": 0.4})
    table.write_csv(tmp_path / "said.csv")
    run = Predictions.from_arrays(outputs, range(300), CLASSES, scale="logit", run="m")
    checked = check(one_each(labels), [run, tmp_path / "said.csv"], tmp_path / "out", bootstrap=0)
    assert 'one class for each image (column "pred")' in checked.notes[0]
    rows = checked.confusions.table.rows_by_key("run")
    assert rows["m"] == rows["said"]
    errors = {tuple(row[:2]): row[2:] for row in checked.errors.rows}
    for name in CLASSES:
        assert errors[name, "m"] == errors[name, "said"]


def test_columns_are_the_context_of_labels_that_exclude_each_other(labels, tmp_path):
    random = np.random.default_rng(2)
    place = np.where(random.random(300) < 0.8, labels, random.integers(0, 3, 300))
    outputs = _model(labels, 0)
    outputs[np.arange(300), place] += 1.9
    splits = random.choice(["train", "test"], 300, p=[0.3, 0.7]).tolist()
    data = one_each(labels, splits, place=pl.Series(place).cast(pl.String))
    run = Predictions.from_arrays(outputs, range(300), CLASSES, scale="logit", run="m")
    checked = check(data, run, tmp_path / "out", bootstrap=0, min_hard=5)
    assert list(checked.suite.criteria) == ["context"]
    assert any("the context is place" in note for note in checked.notes)
    worse = checked.findings.table.filter(pl.col("effect") > 0)
    assert len(worse)
    assert len(checked.confusions)
