"""Every metric against scikit-learn or the paper's words, on values with ties and with weights."""

from itertools import pairwise

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from oracles import naive_ece, naive_metric
from refusals import fails
from scipy.special import expit
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    balanced_accuracy_score,
    brier_score_loss,
    f1_score,
    log_loss,
    precision_score,
    recall_score,
    roc_auc_score,
)

from nooch.base.errors import ParameterError, UndefinedError
from nooch.evaluation.metrics import (
    ALL_METRICS,
    METRICS,
    Graded,
    Parts,
    Resampler,
    auc,
    nll,
    stable_order,
)

I = np.arange(40)  # noqa: E741 - the design's name
P = ((37 * I + 11) % 101) / 101
Y = (7 * I * I + 3 * I) % 5 < 2


def scored(name, labels, values, weights=None, scale="logit"):
    """A metric of all images; NaN where it is undefined."""
    one, n = np.zeros(1, np.intp), len(labels)
    parts = Parts(labels, np.zeros(n, np.intp), np.ones((1, 1), bool), one, np.empty((0, 1)))
    model = Graded(labels, values, scale, (name,))
    if weights is None:
        return model.scores(parts)[0, 0]
    return Resampler(model, parts)(weights[:, None], weights[:, None])[0, 0, 0]


def test_the_designs_fixture():
    assert auc(Y, P) == pytest.approx(0.5625, abs=1e-12)
    top, right = np.maximum(P, 1 - P), (P > 0.5) == Y
    for metric, values, bins, value in (
        ("ece", (P, Y), 10, 0.2952970297),
        ("ece", (P, Y), 15, 0.3512376238),
        ("ece_top", (top, right), 10, 0.275),
        ("ece_top", (top, right), 15, 0.3764851485),
    ):
        assert naive_ece(*values, bins=bins) == pytest.approx(value, abs=1e-9)
        if bins == 15:
            assert scored(metric, Y, P, scale="probability") == pytest.approx(value, abs=1e-9)


SCORES = st.sampled_from([-2.5, -1.0, -0.5, 0.0, 0.25, 0.5, 1.0, 3.0]) | st.floats(-8, 8)


@st.composite
def outputs(draw, both=True):
    """Labels of both classes and logits with ties; sometimes float32 in truth."""
    n = draw(st.integers(2 if both else 1, 40))
    labels = np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    if both:
        labels[0], labels[1] = True, False
    values = np.array(draw(st.lists(SCORES, min_size=n, max_size=n)))
    return labels, values.astype(np.float32).astype(float) if draw(st.booleans()) else values


def by_scikit_learn(name, labels, logits, weights):
    """A metric of images of both labels; NaN where scikit-learn has none."""
    p, said = expit(logits), logits > 0
    values = {
        "auc": lambda w: roc_auc_score(labels, logits, sample_weight=w),
        "auprc": lambda w: average_precision_score(labels, logits, sample_weight=w),
        "nll": lambda w: log_loss(labels, p, labels=[0, 1], sample_weight=w),
        "accuracy": lambda w: accuracy_score(labels, said, sample_weight=w),
        "balanced_accuracy": lambda w: balanced_accuracy_score(labels, said, sample_weight=w),
        "precision": lambda w: precision_score(labels, said, sample_weight=w, zero_division=np.nan),
        "recall": lambda w: recall_score(labels, said, sample_weight=w),
        "fpr": lambda w: 1 - recall_score(~labels, ~said, sample_weight=w),
        "f1": lambda w: f1_score(labels, said, sample_weight=w, zero_division=0),
        "brier": lambda w: brier_score_loss(labels, p, sample_weight=w),
    }
    return values[name](weights) if name in values else naive_metric(name, labels, logits, weights)


@given(outputs())
@settings(max_examples=20)
def test_metrics_equal_scikit_learn(case):
    labels, logits = case
    weights = np.random.default_rng(len(labels)).random(len(labels)) + 0.1
    for name in ALL_METRICS:
        for w in (None, weights):
            expected = by_scikit_learn(name, labels, logits, w)
            for value in (scored(name, labels, logits, w), naive_metric(name, labels, logits, w)):
                assert value == pytest.approx(expected, abs=1e-9, nan_ok=True), name
    assert auc(labels, logits) == scored("auc", labels, logits)
    assert nll(labels, logits) == pytest.approx(by_scikit_learn("nll", labels, logits, None))
    p = expit(logits)
    exact = pytest.approx(log_loss(labels, p, labels=[0, 1]), abs=1e-12)
    assert nll(labels, p, scale="probability") == exact
    assert scored("nll", labels, p, scale="probability") == exact


@given(outputs(), st.data())
def test_weights_are_repetitions(case, data):
    labels, logits = case
    counts = st.lists(st.integers(0, 4), min_size=len(labels), max_size=len(labels))
    times = np.array(data.draw(counts))
    times[:2] = np.maximum(times[:2], 1)
    repeated = np.repeat(labels, times), np.repeat(logits, times)
    for metric in ALL_METRICS:
        expected = pytest.approx(scored(metric, *repeated), abs=1e-9, nan_ok=True)
        assert scored(metric, labels, logits, times.astype(float)) == expected


def test_extremes():
    labels = np.array([True, False])
    assert nll(labels, np.array([1000.0, -1000.0])) == 0
    # a wrong logit costs what it says, without overflow; a wrong probability is bounded as
    # scikit-learn bounds it
    assert nll(labels, np.array([-1000.0, -1000.0])) == 500
    certain = np.array([0.0, 0.0])
    assert nll(labels, certain, scale="probability") == pytest.approx(
        log_loss(labels, certain, labels=[0, 1]), abs=1e-9
    )
    # on the boundary the answer is negative
    assert scored("error", np.array([True]), np.array([0.0])) == 1
    assert scored("error", np.array([False]), np.array([0.5]), scale="probability") == 0
    # 0 and 1 have bins of their own
    assert scored("ece", labels, np.array([1.0, 0.0]), scale="probability") == 0


def test_bins_are_those_of_their_bounds():
    # 0.6 * 15 is 9 in floating point, and so is the bound: on every bound the value belongs to the
    # bin above it
    for p, above in pairwise(np.linspace(0, 1, 16)):
        inside = np.array([p, (p + above) / 2])
        below = np.nextafter(p, 0) if p else 0.0
        values = np.concatenate([inside, [below]])
        # two in this bin, one in the bin below: the gaps add up by bin, so signs tell which bin it
        # is
        ours = scored("ece", np.array([True, True, False]), values, scale="probability")
        gaps = abs(2 - inside.sum()) + below if p else abs(2 - inside.sum() - below)
        assert ours == pytest.approx(gaps / 3, abs=1e-12)


@given(
    st.lists(SCORES | st.sampled_from([-0.0, 1e-300, 1e300, 3.4e38, 1e-46]), max_size=60),
    st.booleans(),
)
def test_the_order_is_numpys(values, narrow):
    with np.errstate(over="ignore"):
        array = np.array(values, dtype=np.float32 if narrow else float).astype(float)
    array = array[np.isfinite(array)]
    assert stable_order(array).tolist() == np.argsort(array, kind="stable").tolist()


def test_undefined_is_an_error_or_nan():
    one, none = np.array([True, True]), np.empty(0, bool)
    fails(lambda: auc(one, np.array([0.1, 0.2])), "one class", kind=UndefinedError)
    fails(lambda: nll(none, np.empty(0)), "no image", kind=UndefinedError)
    for name in ALL_METRICS:
        assert np.isnan(scored(name, none, np.empty(0)))
        assert np.isnan(scored(name, one, np.ones(2), np.zeros(2)))
    outside = one, np.array([0.1, 1.2]), None, "probability"
    for name in ("ece", "ece_top", "brier"):
        fails(lambda n=name: scored(n, *outside), "[0, 1]", kind=ParameterError)
    words = "percent", "logit, probability"
    fails(lambda: nll(one, np.ones(2), scale="percent"), *words, kind=ParameterError)


def test_of_one_label_recall_is_accuracy_and_others_are_undefined():
    """A side of the hard images has one label: precision would be 1 or 0 whatever the model."""
    values = np.array([1.0, -1.0, 2.0])
    for label, rate in ((True, "recall"), (False, "fpr")):
        labels = np.full(3, label)
        known = {name: scored(name, labels, values) for name in ALL_METRICS}
        assert known[rate] == pytest.approx(2 / 3)
        assert known["accuracy"] == pytest.approx(2 / 3 if label else 1 / 3)
        undefined = {name for name, value in known.items() if np.isnan(value)}
        other = {"recall", "fpr", "dprime", "response_criterion"} - {rate}
        assert undefined == {"auc", "auprc", "balanced_accuracy", "precision", "f1", *other}
    # no positive answer: no precision, but an F1 of 0
    labels = np.array([True, False, True])
    assert np.isnan(scored("precision", labels, -np.abs(values)))
    assert scored("f1", labels, -np.abs(values)) == 0


@st.composite
def divided(draw):
    """A task's outputs, four atoms that are cells, subsets of them, and a mixture."""
    labels, values = draw(outputs())
    n, four = len(labels), {"min_size": 4, "max_size": 4}
    atoms = np.array(draw(st.lists(st.integers(0, 1), min_size=n, max_size=n))) * 2 + ~labels
    members = draw(st.lists(st.lists(st.booleans(), **four), min_size=1, max_size=4))
    shares = np.array(draw(st.lists(st.sampled_from([0.0, 1.0, 2.0]), **four)))
    mixture = shares[None] / max(shares.sum(), 1)
    parts = Parts(labels, atoms.astype(np.intp), np.array(members), np.arange(4), mixture)
    return labels, values, parts


def mixture_weights(parts, weights):
    """Weights of images under which each cell has its share, or None where a cell with a share has
    no weight.
    """
    result = np.zeros(len(parts.atoms))
    for cell, share in enumerate(parts.shares[0]):
        inside = parts.atoms == cell
        if share and not weights[inside].sum():
            return None
        if share:
            result[inside] = weights[inside] * share / weights[inside].sum()
    return result


THRESHOLDS = st.sampled_from([0.5, 0.2, 0.9, 0.0, 1.0])


def check_rows(table, parts, values, weights, threshold):
    """All metrics of the subsets, then of the mixture, under weights of the images."""
    labels = parts.labels
    for row, member in enumerate(parts.members):
        inside = member[parts.atoms]
        case = labels[inside], values[inside], weights[inside]
        for column, name in enumerate(ALL_METRICS):
            expected = naive_metric(name, *case, images=weights.sum(), threshold=threshold)
            assert table[row, column] == pytest.approx(expected, abs=1e-9, nan_ok=True), name
    mixed = mixture_weights(parts, weights)
    for column, name in enumerate(ALL_METRICS):
        expected = np.nan
        if mixed is not None:
            options = {"threshold": threshold, "size": weights.sum()}
            expected = naive_metric(name, labels, values, mixed, **options)
        assert table[-1, column] == pytest.approx(expected, abs=1e-9, nan_ok=True), name


@given(divided(), THRESHOLDS)
def test_all_subsets_at_once_equal_one_after_another(case, threshold):
    labels, values, parts = case
    table = Graded(labels, values, "logit", ALL_METRICS, threshold).scores(parts)
    check_rows(table, parts, values, np.ones(len(labels)), threshold)


@given(divided(), st.integers(0, 100), THRESHOLDS)
@settings(max_examples=20)
def test_resampling_equals_one_resample_after_another(case, seed, threshold):
    labels, values, parts = case
    weights = np.random.default_rng(seed).integers(0, 3, (len(labels), 5))
    resampler = Resampler(Graded(labels, values, "logit", ALL_METRICS, threshold), parts)
    for kind in (float, np.uint16):
        table = resampler(weights.astype(kind), weights.astype(float))
        for k in range(5):
            check_rows(table[..., k], parts, values, weights[:, k], threshold)


def test_only_what_is_asked_for_is_computed():
    atoms, one = np.zeros(40, np.intp), np.zeros(1, np.intp)
    parts = Parts(Y, atoms, np.ones((1, 1), bool), one, np.empty((0, 1)))
    asked = ("auc",), ("nll", "auc"), ("ece_top",), ("ece_paper",), ("f1", "brier"), METRICS[::-1]
    for names in asked:
        table = Graded(Y, P, "probability", names).scores(parts)
        expected = [scored(name, Y, P, scale="probability") for name in names]
        assert table[0].tolist() == pytest.approx(expected, abs=1e-12)


def test_waterbirds(shared_data):
    """On the real table, with scores that lean on the background."""
    import polars as pl

    table = pl.read_csv(shared_data / "waterbirds" / "metadata.csv").filter(split=2)
    labels = (table["y"] == 1).to_numpy()
    noise = np.random.default_rng(0).normal(size=len(labels))
    logits = (table["place"].to_numpy() * 2.0 - 1 + noise).round(2)
    assert len(labels) == 5794
    for inside in (np.ones(len(labels), bool), (table["place"] != table["y"]).to_numpy()):
        y, z = labels[inside], logits[inside]
        assert auc(y, z) == pytest.approx(roc_auc_score(y, z), abs=1e-12)
        for name in ALL_METRICS:
            assert scored(name, y, z) == pytest.approx(naive_metric(name, y, z), abs=1e-9)
