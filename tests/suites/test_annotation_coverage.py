"""What was not annotated is not absent: labels, CE, sets and sweeps against loops over images."""

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from altered_files import write_header
from hypothesis import HealthCheck, given, settings, strategies as st
from oracles import collections, coverages, dataset_of, naive_known_A, naive_known_subset
from refusals import fails as refused
from scipy.sparse import csr_array

from nooch.base.errors import FormatError, InputError, ParameterError, UndefinedError
from nooch.criteria import CE, Attribute, Combination, FittedCE, Gist
from nooch.data import Dataset, divide, load_dataset, open_dataset, save_dataset
from nooch.data.coverage import no_exceptions
from nooch.evaluation.losses import sweep_losses
from nooch.report.images.choice import UNKNOWN, labels_of
from nooch.report.images.thumbnails import SplitImages
from nooch.suites import SUBSETS, load_suite, save_suite
from nooch.suites.find import find
from nooch.suites.sweep import sweep_thresholds
from nooch.training.training_data import Environments

ALPHAS, BETAS = [0.0, 0.05, 0.1, 0.3], [0.02, 0.05, 0.1, 0.3]


def fails(action, kind, *parts):
    refused(action, *parts, kind=kind)


def _find(data, **more):
    """Find boats by CE."""
    return find(data, {"ce": CE()}, tasks="boat", **more)


@st.composite
def partly_annotated(draw):
    images, classes, splits = draw(collections(max_images=20, splits=True))
    coverage = draw(coverages(classes, len(images)))
    data = coverage.applied(dataset_of(images, classes, splits), classes)
    return images, classes, splits, coverage, data


@given(partly_annotated(), st.sampled_from(ALPHAS), st.sampled_from(BETAS))
@settings(deadline=None, max_examples=30)
def test_ce_equals_the_rule_image_by_image(sample, alpha, beta):
    images, classes, splits, coverage, data = sample
    train = [i for i, split in enumerate(splits) if split == "train"]
    searched = [s for s in ("valid", "test") if s in splits]
    if not train or not searched:
        return
    suite = find(data, {"ce": CE(alpha, beta)}, allow_unannotated=True)
    fitted = CE(alpha, beta).fit(data.select("train"))
    for task in classes:
        others = (c for c in classes if c != task)
        strengths = {c: naive_known_A(images, coverage, train, c, task) for c in others}
        for cue, expected in strengths.items():
            assert fitted.strength(cue, task) == pytest.approx(expected, abs=1e-12, nan_ok=True)
        if any(abs(a - alpha) < 1e-12 for a in strengths.values()):
            continue
        cues = [cue for cue, a in strengths.items() if a > alpha]
        assert set(fitted.cues(task)) == set(cues)
        for split in searched if cues else []:
            rule = {
                i + 1: naive_known_subset(
                    images[i], {c for c in classes if coverage.unknown(i, c)}, cues, task, beta
                )
                for i, own in enumerate(splits)
                if own == split
            }
            challenge = suite.set("ce", task, split)
            subsets = [SUBSETS[code] for code in challenge.subset]
            found = dict(zip(challenge.image_ids, subsets, strict=True))
            assert found == {i: subset for i, subset in rule.items() if subset in SUBSETS}
            out = [i for i, subset in rule.items() if subset == "excluded"]
            positives = sum(task in images[i - 1] for i in out)
            unlabeled = sum(subset == "unlabeled" for subset in rule.values())
            assert challenge.excluded == (positives, len(out) - positives, unlabeled)


@given(sample=partly_annotated(), parts=st.integers(1, 4))
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=10
)
def test_any_division_gives_the_bytes_of_one_piece(sample, parts, tmp_path_factory):
    *_, data = sample
    if not {"train"} < set(data.splits):
        return
    vectors = np.random.default_rng(0).normal(size=(len(data), 3))
    data, folder = data.with_embedding("e", vectors), tmp_path_factory.mktemp("unannotated")
    criteria = {
        "ce": CE(0.05, 0.1),
        "gist": Gist("e"),
        "phi": Attribute("y = 1"),
        "both": Combination("~ce | gist & phi"),
    }
    whole = find(data, criteria, match="ce", allow_unannotated=True)
    save_suite(whole, folder / "whole")
    save_dataset(divide(data, min(parts, len(data))), folder / "parts")
    assert open_dataset(folder / "parts").header.fingerprint == data.fingerprint
    again = load_dataset(folder / "parts")
    assert again.fingerprint == data.fingerprint
    assert again.kinds == data.kinds
    options = {"match": "ce", "allow_unannotated": True}
    found = find(open_dataset(folder / "parts"), criteria, out=folder / "suite", **options)
    table = "challenge_sets.parquet"
    assert (folder / "suite" / table).read_bytes() == (folder / "whole" / table).read_bytes()
    assert found.header == load_suite(folder / "whole").header
    for key in whole.keys:
        one, task = whole.set(*key), key[1]
        unknown = data.unknown_labels(task)
        if unknown is not None:
            # no set of any criterion has an image of unknown label
            assert not set(one.image_ids) & set(data.image_ids[unknown])
    refitted = FittedCE.from_json(json.loads(json.dumps(CE().fit(data.select("train")).to_json())))
    assert np.array_equal(refitted.A, CE().fit(data.select("train")).A, equal_nan=True)


@given(partly_annotated())
@settings(deadline=None, max_examples=12)
def test_every_point_of_a_sweep_equals_finding_there(sample):
    _, classes, _, _, data = sample
    searched = [s for s in ("valid", "test") if s in data.splits]
    if "train" not in data.splits or not searched:
        return
    sweep = sweep_thresholds(data, alpha=ALPHAS, beta=BETAS, allow_unannotated=True)
    sides = ("hard_positives", "hard_negatives", "positives", "negatives")
    for alpha in ALPHAS:
        suite = find(data, {"ce": CE(alpha, BETAS[1])}, allow_unannotated=True)
        for task in classes:
            for split in searched:
                point = {"alpha": alpha, "beta": BETAS[1], "task": task, "split": split}
                row = sweep.grid.filter(**point).row(0, named=True)
                if ("ce", task, split) in suite.keys:
                    record = suite.record("ce", task, split)
                    assert all(row[side] == getattr(record, side) for side in sides)


def _boats(n_train: int, n_test: int, **more) -> Dataset:
    """In each split 10 boats on the sea and 10 others, 3 on it; sea annotated in the first n."""
    rows, splits, annotated = [], [], []
    for split, n in (("train", n_train), ("test", n_test)):
        for number in range(20):
            seen = number % 10 < n
            rows.append([0.1 * (number < 10), 0.6 * (seen and number < 13), 0.0])
            splits.append(split)
            annotated.append(seen)
    columns = {"image_id": range(1, 41), "split": splits, "annotated_stuff": annotated}
    frame = pl.DataFrame({**columns, **more})
    kinds = {"boat": "thing", "sea": "stuff", "car": "thing"}
    return Dataset.build(frame, list(kinds), csr_array(np.array(rows)), kinds=kinds)


def test_a_is_the_mean_over_annotated_images_and_find_says_what_is_left_out():
    data = _boats(5, 6)
    fitted = CE().fit(data.select("train"))
    # with 0 for what was not annotated it would be .3 - .1
    assert fitted.strength("sea", "boat") == pytest.approx(0.5)
    assert fitted.left_out("boat") == (5, 10)
    record = _find(data).record("ce", "boat", "test")
    assert (record.positives, record.negatives) == (6, 6)
    excluded = (record.excluded_positives, record.excluded_negatives, record.excluded_unknown)
    assert excluded == (4, 4, 0)
    # the sea itself: known in 12 images
    sea = find(data, {"ce": CE(cues={"sea": ["boat"]})}, tasks="sea").record("ce", "sea", "test")
    assert (sea.positives + sea.negatives, sea.excluded_unknown) == (12, 8)


def test_sets_that_would_stand_on_a_minority_are_refused(tmp_path):
    few, bad = _boats(4, 10), _boats(10, 4)
    text = "training positives without annotated things or stuff"
    fails(lambda: _find(few), InputError, text, "ce: boat (6 of 10)", "at most half")
    fails(lambda: _find(few), InputError, "allow_unannotated")
    assert _find(few, allow_unannotated=True).record("ce", "boat", "test").positives == 10
    text = "images of challenge sets without annotated things"
    fails(lambda: _find(bad), InputError, text, "ce: boat, test (12 of 20)")
    for data, text in ((few, "ce: boat (6 of 10)"), (bad, "(12 of 20)")):
        save_dataset(data, tmp_path / "d", overwrite=True)
        opened = open_dataset(tmp_path / "d")
        fails(lambda opened=opened: _find(opened, out=tmp_path / "s"), InputError, text)
        assert not (tmp_path / "s").exists()
    # a sweep refuses the same
    area = {"alpha": [0.05], "beta": [0.1], "tasks": "boat"}
    fails(lambda: sweep_thresholds(few, **area), InputError, "ce: boat (6 of 10)")
    fails(lambda: sweep_thresholds(bad, **area), InputError, "boat (12 of 20)")
    # nor does a sweep of the gist count where the class itself is unknown in most images; here 14
    # of 20
    gist = _boats(10, 3).with_embedding("e", np.random.default_rng(0).normal(size=(40, 3)))
    criteria, tau = {"gist": Gist("e", 0.1)}, {"tau": [0.1], "embedding": "e", "tasks": "sea"}
    fails(lambda: find(gist, criteria, tasks="sea"), InputError, "gist: sea, test (14 of 20)")
    fails(lambda: sweep_thresholds(gist, **tau), InputError, "sea (14 of 20)")
    row = sweep_thresholds(gist, **tau, allow_unannotated=True).tau.filter(task="sea")
    assert row.select(pl.sum_horizontal("positives", "negatives")).item() == 6
    # also without a cue: the kind that was not annotated could have been one
    none = _boats(0, 10)
    fails(lambda: find(none, {"ce": CE()}, tasks="car,boat"), InputError, "ce: boat (10 of 10)")
    # what was fitted before was checked then
    find(few, {"ce": CE().fit(few.select("train"))}, tasks="boat")


def test_a_label_that_is_unknown_is_never_read_as_absent():
    data = _boats(5, 6)
    text = "whether sea is present is unknown in 18 of 40 images"
    fails(lambda: data.labels("sea"), InputError, text, "1")
    fails(lambda: data.area("sea"), InputError, "the area of sea is unknown")
    assert data.labels("sea", unknown=True).sum() == 11 + 6 + 18
    assert np.isnan(data.area("sea", unknown=np.nan)).sum() == 18
    assert data.unknown_labels("boat") is None
    assert data.labels("boat").sum() == 20
    # phi that asks for another class has no value there; one that asks for the label leaves the
    # images out
    phi = Attribute("sea = 0").fit(data)
    text = "has no value for 18 of 40 images"
    fails(lambda: phi.phi(data, "boat"), InputError, text, "sea is null")
    suite = find(data, {"phi": Attribute("y = 0")}, tasks="sea")
    assert suite.record("phi", "sea", "test").excluded_unknown == 8
    # environments by a cue that is unknown
    cue = Environments(CE().fit(data.select("train")))
    data = data.select(rows=(data.images["split"] == "train").to_numpy())
    text = "its cue sea was not annotated in all images"
    fails(lambda: cue.for_task(data, "boat"), UndefinedError, text)


def test_pairs_are_stated_one_by_one():
    frame = pl.DataFrame({"image_id": [3, 1, 2], "annotated_things": [True, True, False]})
    areas = csr_array(np.array([[0.5, 0.0], [0.0, 0.0], [0.0, 0.0]]))
    unknown, verified = [[1, 0], [0, 1], [0, 0]], [[0, 0], [0, 0], [1, 0]]
    pairs = {"unknown": np.array(unknown), "verified": np.array(verified)}
    data = Dataset.build(frame, ["a", "b"], areas, kinds={"a": "thing", "b": "thing"}, **pairs)
    # image 3: a is present, not all of it annotated; image 1: b was not looked for; image 2: only a
    # was verified
    assert data.unknown("a").tolist() == [False, False, True]
    assert data.unknown_labels("a") is None
    assert data.unknown("b").tolist() == [True, True, False]
    assert data.labels("a").tolist() == [False, False, True]

    def refuses(kind, text, images=frame, **stated):
        fails(lambda: Dataset.build(images, ["a", "b"], areas, **stated), kind, text)

    both = {"unknown": pairs["unknown"], "verified": pairs["unknown"]}
    refuses(ParameterError, "unknown and verified name the same pairs", **both)
    refuses(ParameterError, "shape (2, 2)", unknown=np.ones((2, 2)))
    refuses(ParameterError, "animal", kinds={"a": "animal"})
    refuses(ParameterError, "c", kinds={"c": "thing"})
    numbers = frame.with_columns(annotated_things=pl.lit(1))
    refuses(InputError, "column annotated_things", images=numbers)


def test_identity_says_what_was_annotated_only_where_it_is_not_everything(tmp_path):
    plain = dataset_of([{"a": 0.5}, {"b": 0.1}, {}], ["a", "b"])
    frame = plain.images.with_columns(annotated_stuff=pl.lit(value=True))
    everything = Dataset.build(frame, ["a", "b"], plain.areas, kinds={"a": "thing", "b": "stuff"})
    assert everything.fingerprint == plain.fingerprint
    assert everything.gaps is None
    partly = []
    for absent, kind in ((2, "thing"), (1, "thing"), (2, "stuff")):
        images = frame.with_columns(annotated_stuff=pl.int_range(3) != absent)
        kinds = {"a": kind, "b": "stuff"}
        partly.append(Dataset.build(images, ["a", "b"], plain.areas, kinds=kinds))
    pairs = np.array([[0, 0], [0, 0], [1, 0]])
    stated = [
        Dataset.build(plain.images, ["a", "b"], plain.areas, **{name: pairs})
        for name in ("unknown", "verified")
    ]
    marks = {data.fingerprint for data in (plain, *partly, *stated)}
    assert len(marks) == 6
    for number, data in enumerate([everything, *partly, *stated]):
        save_dataset(data, tmp_path / f"{number}")
        assert load_dataset(tmp_path / f"{number}").fingerprint == data.fingerprint
        save_dataset(divide(data, 2), tmp_path / f"parts{number}")
        assert open_dataset(tmp_path / f"parts{number}").header.fingerprint == data.fingerprint


def test_a_folder_of_version_1_counts_as_annotated_everywhere(tmp_path):
    plain = dataset_of([{"a": 0.5}, {"b": 0.1}, {}], ["a", "b"])
    save_dataset(plain, tmp_path / "d")
    header = json.loads((tmp_path / "d" / "dataset.json").read_text())
    assert header["version"] == 2
    del header["kinds"]
    write_header(tmp_path / "d" / "dataset.json", {**header, "version": 1})
    old = load_dataset(tmp_path / "d")
    assert replace(old).fingerprint == plain.fingerprint == header["fingerprint"]
    assert old.gaps is None
    assert open_dataset(tmp_path / "d").part(0).fingerprint == plain.fingerprint


def test_losses_are_swept_over_known_labels_alone():
    data = _boats(5, 6)
    part = data.select("test")
    random = np.random.default_rng(0)
    logits = {"sea": random.normal(size=20), "boat": random.normal(size=20)}
    predictions = pl.DataFrame({"image_id": part.image_ids, **logits})
    options = {"alpha": [0.05], "beta": [0.1], "tasks": ["boat", "sea"], "allow_unannotated": True}
    swept = sweep_losses(data, predictions, **options, scale="logit")
    suite = _find(data)
    row = swept.grid.filter(task="boat").row(0, named=True)
    record = suite.record("ce", "boat", "test")
    for side in ("hard_positives", "hard_negatives"):
        assert row[side] == getattr(record, side)
    nll = np.logaddexp(0, predictions["boat"].to_numpy())
    hard = np.isin(part.image_ids, suite.set("ce", "boat", "test").ids("hard_negative"))
    assert hard.sum() == 3
    assert row["loss_negative"] == pytest.approx(nll[hard].mean())
    strict = {"alpha": [0.05], "beta": [0.1], "tasks": ["boat"], "scale": "logit"}
    few = _boats(4, 6)
    fails(lambda: sweep_losses(few, predictions, **strict), InputError, "ce: boat (6 of 10)")


def test_a_page_of_the_report_has_no_label_where_it_is_unknown():
    data = _boats(5, 6)
    suite = find(data, {"phi": Attribute("y = 0")}, tasks="sea")
    given = labels_of(suite, "sea", SplitImages.from_split(suite, "test", data))
    assert (given == UNKNOWN).tolist() == data.select("test").unknown_labels("sea").tolist()
    assert (given == 1).sum() == 9


def test_parts_say_the_same_of_what_was_annotated(tmp_path):
    first, second = divide(dataset_of([{"a": 0.5}, {"b": 0.1}], ["a", "b"]), 2)
    stated = Dataset.build(second.images, ["a", "b"], second.areas, unknown=np.array([[1, 0]]))
    of_kind = Dataset.build(second.images, ["a", "b"], second.areas, kinds={"a": "thing"})
    for other, text in (
        (stated, "has other exceptions than part 0"),
        (of_kind, "has other kinds of classes than part 0"),
    ):
        fails(lambda other=other: save_dataset([first, other], tmp_path / "d"), InputError, text)
    save_dataset([replace(first, exceptions=no_exceptions((1, 2))), stated], tmp_path / "d")
    again = load_dataset(tmp_path / "d")
    assert again.unknown_labels("a").tolist() == [False, True]
    assert open_dataset(tmp_path / "d").part(1).unknown_labels("a").tolist() == [True]


def test_a_fit_that_was_altered_is_none():
    saved = CE().fit(_boats(5, 6).select("train")).to_json()
    assert FittedCE.from_json(saved).left_out("boat") == (5, 10)
    for known in ({**saved["known"], "counts": [[1]]}, {"own": saved["known"]["own"]}):
        with pytest.raises(FormatError, match="is not a fitted CE criterion"):
            FittedCE.from_json({**saved, "known": known})
