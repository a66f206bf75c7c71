"""Betas on predicted areas: against a loop over thresholds, planted noise, and a trap for leaks."""

from itertools import pairwise

import hypothesis.strategies as st
import msgspec
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from oracles import dataset_of
from refusals import fails

import nooch
from nooch.analysis.calibrate import best_beta
from nooch.base.errors import FormatError, InputError, ParameterError

CLASSES = ["cow", "grass", "field"]
CUES = {"cow": ["grass"]}
CE = nooch.CE(cues=CUES)
SHARES = ("precision", "recall", "calibrated_precision", "calibrated_recall")


def world(n=400, noise=0.0, bias=0.0, seed=0):
    """True images, and the same with areas of grass that a model would predict."""
    random = np.random.default_rng(seed)
    true, predicted = [], []
    for _ in range(n):
        area = 0.0 if random.random() < 0.4 else float(random.uniform(0.01, 0.6))
        image = {"cow": 0.2} if random.random() < 0.3 else {}
        seen = min(1.0, max(0.0, area + bias + noise * float(random.normal())))
        true.append(image | ({"grass": area} if area else {}))
        predicted.append(image | ({"grass": seen} if seen else {}))
    return [dataset_of(images, CLASSES) for images in (predicted, true)]


def verdict(found, cell="hard_negative", cue=None):
    (row,) = [row for row in found.verdicts if (row["set"], row["cue"]) == (cell, cue)]
    return row


def obvious_beta(areas, hard, positive, beta, precision):
    """Every threshold that tells images apart, one after the other."""
    known = sorted(set(areas))
    middles = [(a + b) / 2 for a, b in pairwise(known)]
    rows = []
    for threshold in [beta, *(m for m in middles if 0 < m <= 1)]:
        found = [(a < threshold) if positive else (a > threshold) for a in areas]
        right = sum(f and h for f, h in zip(found, hard, strict=True))
        share = right / sum(found) if any(found) else 0.0
        rows.append((share, right, threshold))
    of_beta = rows[0][1]
    enough = [row for row in rows if row[0] >= precision and row[1] >= of_beta / 2]
    if enough:
        rows = [(right, share, -abs(t - beta), t) for share, right, t in enough]
    else:
        # F = 2 right / (found + hard), as 1 / F so that equal ones are equal
        rows = [
            (2 * right / (sum(a < t if positive else a > t for a in areas) + sum(hard)),
             share, -abs(t - beta), t)
            for share, right, t in rows
        ]  # fmt: skip
    best = max(row[:3] for row in rows)
    return {row[3] for row in rows if row[:3] == best}


AREA = st.sampled_from([0.0, 0.05, 0.1, 0.2]) | st.floats(0, 1.2).map(lambda x: round(x, 2))


@given(
    st.lists(st.tuples(AREA, st.booleans()), min_size=10, max_size=40),
    st.booleans(),
    st.sampled_from([0.05, 0.1, 0.3]),
    st.sampled_from([0.5, 0.75, 0.9, 1.0]),
)
def test_the_beta_is_the_best_of_all_thresholds(rows, positive, beta, precision):
    areas, hard = (list(column) for column in zip(*rows, strict=True))
    chosen = best_beta(np.array(areas), np.array(hard), positive, beta, precision)
    if sum(hard) < 10:
        assert chosen == beta
        return
    assert chosen in obvious_beta(areas, hard, positive, beta, precision)


def test_exact_areas_keep_beta_and_are_never_wrong():
    predicted, true = world()
    found = nooch.calibrate(predicted, true, criterion=CE)
    assert found.criterion.betas == {"cow": {"grass": (0.1, 0.1)}}
    assert {row[name][0] for row in found.verdicts for name in SHARES} == {1.0}
    assert found.notes == []
    areas = {row["name"]: row for row in found.areas}
    assert (areas["grass"]["bias"], areas["grass"]["auc"]) == (0.0, 1.0)
    assert areas["grass"]["correlation"] == pytest.approx(1)
    assert areas["field"] == {
        "name": "field", "predicted": "field", "images": 400, "bias": 0.0, "correlation": None,
        "auc": None,
    }  # fmt: skip


def test_a_bias_is_corrected_and_the_figures_are_those_of_the_suites():
    predicted, true = world(bias=0.08)
    found = nooch.calibrate(predicted, true, criterion=CE)
    assert found.criterion.betas["cow"]["grass"] == pytest.approx((0.1, 0.18), abs=0.02)
    assert verdict(found)["precision"][0] < 0.9
    assert verdict(found)["calibrated_precision"][0] > 0.95
    assert found.areas[1]["bias"] == pytest.approx(0.08, abs=1e-9)
    suites = [nooch.find(data, CE, tasks=["cow"]) for data in (predicted, true)]
    same = nooch.verify(*suites, bootstrap=0).filter(task="cow")
    for cell in ("hard_positive", "hard_negative"):
        for metric in ("precision", "recall"):
            (row,) = same.filter(set=cell, metric=metric).select("value", "low", "high").rows()
            assert verdict(found, cell)[metric] == list(row)
        assert verdict(found, cell)["true"] == same.filter(set=cell)["second"][0]


def test_noise_costs_recall_and_what_cannot_be_reached_is_told():
    found = nooch.calibrate(*world(n=1500, noise=0.06), criterion=CE, precision=0.95)
    row = verdict(found)
    assert row["calibrated_recall"][0] < row["recall"][0]
    assert row["calibrated_precision"][0] == pytest.approx(0.95, abs=0.03)
    predicted, _ = world(seed=1)
    _, unrelated = world(seed=2)
    hopeless = nooch.calibrate(predicted, unrelated, criterion=CE)
    note = hopeless.notes[0]
    assert note.startswith("precision out of fold below 0.9: ")
    assert "cow hard_negative 0." in note
    assert f"(by beta 0.1: {verdict(hopeless)['precision'][0]:.3f})" in note
    assert hopeless.criterion.betas["cow"]["grass"][1] == pytest.approx(0.1, abs=0.1)


@pytest.mark.parametrize("seed", range(4))
def test_a_side_is_calibrated_only_where_its_precision_rises(seed):
    """Out of fold; elsewhere beta stays, and figures are those by beta."""
    predicted, true = world(n=200, noise=0.3, bias=0.02 * seed, seed=seed)
    found = nooch.calibrate(predicted, true, criterion=CE)
    kept = [note for note in found.notes if note.startswith("beta stays 0.1 where")]
    for side, cell in enumerate(("hard_positive", "hard_negative")):
        row, (beta, *_) = verdict(found, cell), found.criterion.betas["cow"]["grass"][side:]
        if beta == 0.1:
            assert row["calibrated_precision"] == row["precision"]
        else:
            assert row["calibrated_precision"][0] > row["precision"][0]
            assert not any(f"cow {cell} (" in note for note in kept)


def test_easy_images_do_not_become_worse():
    """Areas that scatter raise the beta of hard negatives; images below it are not called easy."""
    predicted, true = world(n=2000, noise=0.12)
    found = nooch.calibrate(predicted, true, criterion=CE)
    hard, easy = verdict(found), verdict(found, "easy_negative")
    assert hard["calibrated_precision"][0] > hard["precision"][0] + 0.02
    assert found.criterion.betas["cow"]["grass"][1] > 0.15
    assert easy["calibrated_precision"][0] >= easy["precision"][0]
    (between,) = [note for note in found.notes if note.startswith("images between two betas")]
    suite = nooch.find(predicted, found.criterion, tasks=["cow"])
    record = suite.record("ce", "cow", "all")
    n = record.between_positives + record.between_negatives
    assert n > 100
    assert (record.excluded_positives, record.excluded_negatives) == (
        record.between_positives, record.between_negatives
    )  # fmt: skip
    assert abs(int(between.split(" cow ")[1].split(" of ")[0].replace(",", "")) - n) < 0.3 * n


def test_expected_figures_hold_on_the_unseen_half():
    """On average over 12 worlds: the precision that half of the images expects the other has."""
    gaps = []
    for seed in range(12):
        halves = [
            [one.select(rows=np.arange(len(one)) % 2 == part) for one in pair]
            for pair in [world(n=1600, noise=0.12, seed=seed)]
            for part in (0, 1)
        ]
        found = nooch.calibrate(*halves[0], criterion=CE)
        suites = [nooch.find(one, c, tasks=["cow"]) for one, c in
                  zip(halves[1], (found.criterion, CE), strict=True)]  # fmt: skip
        said, truly = ({*s.set("ce", "cow", "all").ids("hard_negative")} for s in suites)
        assert len(said) > 60
        gaps.append(len(said & truly) / len(said) - verdict(found)["calibrated_precision"][0])
    assert abs(np.mean(gaps)) < 0.03


def test_cues_by_hand_need_no_training_split():
    predicted, true = world()
    images = true.images.with_columns(split=pl.lit("test"))
    test_only = nooch.Dataset.build(images, true.classes, true.areas)
    assert "train" not in test_only.splits
    for tasks in (None, ["cow"]):
        found = nooch.calibrate(predicted, test_only, criterion=CE, tasks=tasks)
        assert found.criterion.betas == {"cow": {"grass": (0.1, 0.1)}}
    for named in ({"criterion": CE, "tasks": ["cow", "field"]}, {}):
        fails(
            lambda named=named: nooch.calibrate(predicted, test_only, **named),
            "the split train is empty", "give cues by hand for every task", kind=InputError,
        )  # fmt: skip


def test_a_fold_is_judged_by_the_betas_of_the_others():
    """In each group alone some threshold is right; what is right in one is wrong in the other."""
    true, predicted, places = [], [], []
    for i in range(200):
        group, large = i % 2, i // 2 % 2
        # predicted areas: group 0 has .2 and .3, of which .3 is true; group 1 .4 and .5, only .5
        area = (0.2, 0.3, 0.4, 0.5)[2 * group + large]
        predicted.append({"grass": area})
        true.append({"grass": 0.5 if large else 0.02})
        places.append(f"camera {group}")
    data = dataset_of(predicted, CLASSES)
    images = data.images.with_columns(pl.Series("camera", places))
    data = nooch.Dataset.build(images, data.classes, data.areas)
    options = {"criterion": CE, "precision": 1, "folds": 2}
    apart = nooch.calibrate(data, dataset_of(true, CLASSES), **options, group="camera")
    # by the betas of group 0 all of group 1 is hard; by those of group 1 none of group 0
    assert verdict(apart)["calibrated_precision"][0] == 0.5
    assert "cow hard_negative (0.500, by beta 0.1: 0.500)" in apart.notes[-1]
    mixed = nooch.calibrate(data, dataset_of(true, CLASSES), criterion=CE, precision=1, folds=2)
    assert verdict(mixed)["calibrated_precision"][0] == 1.0


def test_classes_are_matched_and_several_cues_have_betas_of_their_own():
    predicted, true = world(bias=0.08)
    renamed = nooch.Dataset.build(predicted.images, ["animal", "lawn", "path"], predicted.areas)
    match = {"cow": "animal", "grass": "lawn", "field": "path"}
    criterion = nooch.CE(cues={"cow": ["grass", "field"]})
    found = nooch.calibrate(renamed, true, criterion=criterion, match=match)
    assert found.criterion.cues == {"animal": ("lawn", "path")}
    assert set(found.criterion.expected) == {"animal"}
    of_cue = verdict(found, cue="grass")
    assert [of_cue[name] for name in SHARES] == [verdict(found)[name] for name in SHARES]
    assert verdict(found, cue="field")["true"] == 0
    assert verdict(found, cue="field")["recall"] == [None, None, None]
    del match["field"]
    partial = nooch.calibrate(renamed, true, criterion=criterion, match=match)
    assert partial.criterion.cues == {"animal": ("lawn",)}
    assert partial.notes[0] == "no predicted class is field (for cow)"


def test_folds_depend_on_the_seed_alone():
    data = world(n=1500, noise=0.12)
    a, b, other = (nooch.calibrate(*data, criterion=CE, seed=seed) for seed in (1, 1, 2))
    assert a == b
    assert a.criterion.betas["cow"]["grass"][1] == other.criterion.betas["cow"]["grass"][1]
    assert a.verdicts != other.verdicts


def test_what_cannot_be_calibrated_is_refused():
    predicted, true = world(n=30)
    elsewhere = dataset_of([{"cow": 0.2}], CLASSES, ids=["a"])
    for change, part in (
        ({"folds": 1}, "`folds`: is 1"),
        ({"precision": 90}, "`precision`: is 90"),
        ({"match": {"cwo": "cow"}}, "of the true dataset"),
        ({"match": {"cow": "cwo"}}, "of the predicted dataset"),
        ({"match": {"cow": "grass", "grass": "grass"}}, "matched with several"),
        ({"tasks": ["cwo"]}, "'cwo' is not a class"),
    ):
        named = {"criterion": CE, **change}
        fails(lambda n=named: nooch.calibrate(predicted, true, **n), part, kind=ParameterError)
    fails(lambda: nooch.calibrate(elsewhere, true, criterion=CE), "0 images are in both")
    other = nooch.Dataset.build(predicted.images, ["x", "y", "z"], predicted.areas)
    fails(lambda: nooch.calibrate(other, true, criterion=CE), "no task has", kind=InputError)


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Datasets in a folder, and the file of a calibration."""
    monkeypatch.chdir(tmp_path)
    for name, data in zip(("predicted", "true"), world(bias=0.08), strict=True):
        nooch.save_dataset(data, tmp_path / name)
    return tmp_path


def test_find_applies_a_calibration_and_shows_what_to_expect(files, run_cli):
    shown = run_cli("calibrate predicted true --cues cow=grass --out c.json").ok()
    assert "Hard images by predicted areas" in shown.out
    assert "find DATASET --calibration c.json" in shown.out
    found = run_cli("find predicted --tasks cow --calibration c.json --out suite").ok()
    assert "Expected of predicted areas" in found.out
    assert "Expected of predicted areas" in run_cli("show suite").ok().out
    betas = nooch.io.read_calibration("c.json").criterion.betas
    by_hand = nooch.find("predicted", nooch.CE(cues=CUES, betas=betas), tasks=["cow"])
    suite = nooch.load_suite("suite")
    assert suite.set("ce", "cow", "all").table.equals(by_hand.set("ce", "cow", "all").table)
    expected = suite.header.criteria["ce"].parameters["expected"]["cow"]["hard_negative"]
    row = verdict(nooch.io.read_calibration("c.json"))
    assert expected == {m: row[f"calibrated_{m}"] for m in ("precision", "recall")}
    page = run_cli("report suite --out site").ok()
    assert "Expected of predicted areas" in (files / "site" / "index.html").read_text()
    assert "index.html" in page.out


def test_commands_refuse_what_does_not_fit(files, run_cli):
    run_cli("calibrate predicted true --cues cow=grass --out c.json").ok()
    run_cli("calibrate predicted true --out c.json").refused("exists already")
    run_cli("calibrate predicted true --match cow --out d.json").refused("is not a pair")
    find = "find predicted --tasks cow --out suite --calibration"
    run_cli(f"{find} c.json --beta 0.2").refused("its own alpha, beta and cues")
    run_cli(f"{find} c.json --criterion gist --encoder lexical").refused("is of ce")
    run_cli(f"{find} predicted/dataset.json").refused("nooch-dataset")
    run_cli(f"{find} lost.json").refused("lost.json")
    model = msgspec.json.decode((files / "c.json").read_bytes())
    for change in ({"predicted": {"model": "x"}}, {"notes": ["better"]}, {"hash": "0"}):
        (files / "d.json").write_bytes(msgspec.json.encode(model | change))
        run_cli(f"{find} d.json").refused("was altered")
    calibration = nooch.io.read_calibration("c.json")
    other = msgspec.structs.replace(calibration, predicted={"model": "x"}).sealed()
    (files / "d.json").write_bytes(msgspec.json.encode(other))
    run_cli(f"{find} d.json").refused("areas by {'model': 'x'}", "by None")
    classes = nooch.load_dataset("predicted")
    renamed = nooch.Dataset.build(classes.images, ["cow", "lawn", "field"], classes.areas)
    nooch.save_dataset(renamed, files / "other")
    done = run_cli("find other --tasks cow --out suite --calibration c.json")
    done.refused("'grass' is not a class")
    assert not (files / "suite").exists()


def test_a_file_that_is_none_is_refused(tmp_path):
    (tmp_path / "c.json").write_text('{"format": "nooch-calibration", "version": 2}')
    fails(lambda: nooch.io.read_calibration(tmp_path / "c.json"), "version 2", kind=FormatError)
