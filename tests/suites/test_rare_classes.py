"""Classes of few images, through find, fsck, explain, check, repair: what is written is read."""

import tempfile
from pathlib import Path

import numpy as np
import polars as pl
from hypothesis import Phase, example, given, settings, strategies as st
from refusals import fails, refused
from scipy.sparse import csr_array

import nooch
from nooch.criteria import CE, Attribute, FittedCE
from nooch.criteria.cue_stability import CueStability
from nooch.criteria.presences import fold_numbers
from nooch.data import Dataset, save_dataset

COMMON = ["car", "road", "boat", "water"]


def collection(positives, folds, splits, seed):
    """Cars on roads, boats on water, and ``rare0, rare1, ...`` of so many images, in one fold of
    five where ``folds`` says so.
    """
    random, n = np.random.default_rng(seed), 240
    things = random.random((n, 2)) < 0.4
    places = random.random((n, 2)) < np.where(things, 0.8, 0.3)
    present = np.zeros((n, 4 + len(positives)), bool)
    present[:, [0, 2, 1, 3]] = np.hstack([things, places])
    split = random.choice(splits, n)
    fold, fitted = fold_numbers(pl.Series(range(n)), 5), np.isin(split, ["train", "all"])
    for column, (count, together) in enumerate(zip(positives, folds, strict=True), 4):
        among = np.flatnonzero(fitted & ((fold == 2) if together else True))
        present[random.choice(among, count, replace=False), column] = True
    areas = csr_array(present * random.uniform(0.02, 0.6, present.shape))
    names = [*COMMON, *(f"rare{k}" for k in range(len(positives)))]
    images = pl.DataFrame({"image_id": range(n), "split": split})
    return Dataset.build(images, names, areas), random.normal(size=(n, 6)).astype(np.float32)


def read_whole(folder):
    """The suite, which fsck finds whole and whose criteria have the statistics of the fit."""
    assert nooch.fsck(folder).damaged == []
    suite = nooch.load_suite(folder)
    records = suite.header.criteria.values()
    assert all(r.restored() is not None for r in records if r.kind != "combination")
    return suite


@settings(max_examples=2, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(
    st.lists(st.tuples(st.integers(1, 5), st.booleans()), min_size=1, max_size=4),
    st.sampled_from([["all"], ["train", "test"], ["valid", "test"]]),
    st.integers(0, 10**6),
)
@example([(1, True), (2, True), (2, False), (5, True)], ["all"], 0)
@example([(1, True), (4, True)], ["train", "test"], 0)
@example([(1, True), (3, True), (4, False), (5, False)], ["valid", "test"], 0)
def test_a_class_of_few_images_harms_no_other(rare, places, seed):
    counts, together = zip(*rare, strict=True)
    splits = places if places == ["all"] else ["train", "valid", "test"]
    data, features = collection(counts, together, splits, seed)
    split, fold = data.images["split"], fold_numbers(data.images["image_id"], 5)
    fitted = split.is_in(["train", "all"]).to_numpy()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        save_dataset(data, folder / "data")
        out, criteria = folder / "suite", ["context", "ce & context"]
        nooch.find(folder / "data", criteria, out=out, splits=places, stability=20)
        suite = read_whole(out)
        context = suite.header.criteria["context"].restored()
        skipped = {s.task: s.reason for s in suite.header.skipped if s.criterion == "context"}
        for task in data.classes:
            own = fitted & data.labels(task)
            lost = places != ["valid", "test"] and len({*fold[own]}) == 1
            assert lost == (task in skipped)
            keys = [key for name, of, key in suite.keys if (name, of) == ("context", task)]
            assert keys == ([p for p in places if p in ("valid", "test")] if lost else places)
            if lost:
                images = int((fitted & (fold == fold[own][0])).sum())
                start = "one of 5 folds has" if places == ["all"] else "in train: one of"
                assert skipped[task].startswith(start)
                assert f"the class ({own.sum()}), so that its {images} images" in skipped[task]
            assert np.isnan(context.support(data, task)).sum() == (images if lost else 0)
            of_fold = fold == (fold[own][0] if lost else 0)
            row = int(np.flatnonzero(split.is_in(places).to_numpy() & of_fold)[0])
            (verdict,) = nooch.explain(out, task, row, data, ["context"])["verdicts"]
            assert not lost or verdict["text"] == skipped[task] or split[row] == "test"
            if lost and places == ["train", "test"]:
                row = int((split == "valid").arg_true()[0])
                words = f"image {row} is in none of the suite's {task} sets"
                refused(lambda i=row, t=task: nooch.explain(out, t, i, data), words)
        again = nooch.find(folder / "data", {"context": context}, splits=places)
        assert again.set("context", "car", places[-1]).table.equals(
            suite.set("context", "car", places[-1]).table
        )
        answers = {task: 0.2 + 0.6 * data.labels(task) for task in data.classes}
        table = pl.DataFrame({"image_id": data.images["image_id"], **answers})
        options = {"criterion": ["context"], "min_hard": 1, "bootstrap": 0, "slices": False}
        checked = nooch.check(folder / "data", table, folder / "check", **options)
        read_whole(folder / "check" / "suite")
        assert {*COMMON} <= {*checked.scores.table["task"]}
        if places == ["valid", "test"]:
            done = nooch.repair(out, features, folder / "repaired", methods=["erm"], bootstrap=10)
            assert {*done.table["task"]} & {*COMMON}


def test_statistics_that_json_cannot_hold_are_refused_before_a_file_is_written(tmp_path):
    """NaN and infinity are null there."""

    class Lossy(FittedCE):
        def to_json(self):
            return {**super().to_json(), "alpha": float("nan")}

    data, _ = collection([1], [True], ["train", "test"], 0)
    fitted = CE().fit(data.select("train"))
    lossy = Lossy(fitted.criterion, fitted.classes, fitted.state)
    out = tmp_path / "suite"
    fails(lambda: nooch.find(data, {"own": lossy}, out=out), "own: what it saves as JSON", "null")
    seen = data.images.with_columns(t=pl.col("image_id") / 0)
    columns = Dataset.build(seen, data.classes, data.areas)
    fails(lambda: nooch.find(columns, Attribute("unseen(t)"), out=out), "infinite values of t")
    assert [*tmp_path.iterdir()] == []


def test_cues_by_hand_of_a_class_without_a_training_image_have_no_evidence(tmp_path):
    data, _ = collection([1], [True], ["train", "test"], 0)
    bare = data.select(rows=~(data.labels("rare0") & (data.images["split"] == "train").to_numpy()))
    ce = CE(cues={"rare0": ["road"]})
    nooch.find(bare, ce, tasks=["rare0"], stability=20, out=tmp_path / "suite")
    (cue,) = read_whole(tmp_path / "suite").header.criteria["ce"].stability["rare0"]
    assert cue == CueStability("road", None, None, None, 0.0)
