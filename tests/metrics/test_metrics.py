"""Every metric against scikit-learn or the paper's words, on values with ties and with weights."""

from functools import partial
from itertools import pairwise

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from oracles import ANSWER_METRICS, answer_metric
from refusals import fails
from scipy.special import expit
from sklearn.metrics import average_precision_score, log_loss, roc_auc_score

from nooch.errors import ParameterError, UndefinedError
from nooch.metrics import (
    ALL_METRICS,
    METRICS,
    Graded,
    Parts,
    auc,
    auprc,
    ece,
    ece_paper,
    ece_top,
    error,
    nll,
    stable_order,
)

I = np.arange(40)  # noqa: E741 - the design's name
P = ((37 * I + 11) % 101) / 101
Y = (7 * I * I + 3 * I) % 5 < 2


def test_the_designs_fixture():
    assert auc(Y, P) == pytest.approx(0.5625, abs=1e-12)
    expected = {
        (ece, 10): 0.2952970297,
        (ece, 15): 0.3512376238,
        (ece_top, 10): 0.275,
        (ece_top, 15): 0.3764851485,
    }
    for (metric, bins), value in expected.items():
        assert metric(Y, P, scale="probability", n_bins=bins) == pytest.approx(value, abs=1e-9)


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


def naive_ece(labels, confidence, right, bins=15):
    """Loops over bins, from the definition."""
    bounds, total = np.linspace(0, 1, bins + 1), 0.0
    for low, high in pairwise(bounds):
        inside = (confidence >= low) & ((confidence < high) | (high == 1) & (confidence == 1))
        if inside.any():
            total += inside.mean() * abs(right[inside].mean() - confidence[inside].mean())
    del labels
    return total


@given(outputs())
def test_metrics_equal_scikit_learn(case):
    labels, logits = case
    p = expit(logits)
    assert auc(labels, logits) == pytest.approx(roc_auc_score(labels, logits), abs=1e-12)
    assert auprc(labels, logits) == pytest.approx(
        average_precision_score(labels, logits), abs=1e-12
    )
    assert nll(labels, logits) == pytest.approx(log_loss(labels, p, labels=[0, 1]), abs=1e-9)
    assert nll(labels, p, scale="probability") == pytest.approx(
        log_loss(labels, p, labels=[0, 1]), abs=1e-12
    )
    assert error(labels, logits) == pytest.approx(np.mean((logits > 0) != labels), abs=1e-12)
    assert ece(labels, logits) == pytest.approx(naive_ece(labels, p, labels), abs=1e-9)
    right = (logits > 0) == labels
    assert ece_top(labels, logits) == pytest.approx(
        naive_ece(labels, np.maximum(p, 1 - p), right), abs=1e-9
    )
    # the paper's: bins summed over the subset, divided by all images of the set
    naive = naive_ece(labels, np.maximum(p, 1 - p), right) * len(labels) / (len(labels) + 7)
    assert ece_paper(labels, logits, images=len(labels) + 7) == pytest.approx(naive, abs=1e-9)


@given(outputs(), st.data())
def test_weights_are_repetitions(case, data):
    labels, logits = case
    times = np.array(
        data.draw(st.lists(st.integers(0, 4), min_size=len(labels), max_size=len(labels)))
    )
    times[:2] = np.maximum(times[:2], 1)
    repeated = np.repeat(labels, times), np.repeat(logits, times)
    for metric in (auc, auprc, nll, error, ece, ece_top):
        assert metric(labels, logits, times.astype(float)) == pytest.approx(
            metric(*repeated), abs=1e-9
        )


def test_fractions_as_weights_equal_scikit_learn():
    random = np.random.default_rng(0)
    labels, logits, weights = (
        random.random(500) < 0.3,
        random.normal(size=500).round(1),
        random.random(500),
    )
    assert auc(labels, logits, weights) == pytest.approx(
        roc_auc_score(labels, logits, sample_weight=weights), abs=1e-12
    )
    ours = auprc(labels, logits, weights)
    assert ours == pytest.approx(
        average_precision_score(labels, logits, sample_weight=weights), abs=1e-12
    )
    ours = nll(labels, expit(logits), weights, scale="probability")
    assert ours == pytest.approx(log_loss(labels, expit(logits), sample_weight=weights), abs=1e-12)


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
    assert error(np.array([True]), np.array([0.0])) == 1
    assert error(np.array([False]), np.array([0.5]), scale="probability") == 0
    # 0 and 1 have bins of their own
    assert ece(labels, np.array([1.0, 0.0]), scale="probability") == 0


def test_bins_are_those_of_their_bounds():
    # 0.6 * 15 is 9 in floating point, and so is the bound: on every bound the value belongs to the
    # bin above it
    bounds = np.linspace(0, 1, 16)
    labels = np.zeros(15, dtype=bool)
    for p, above in pairwise(bounds):
        inside = np.array([p, (p + above) / 2])
        below = np.nextafter(p, 0) if p else 0.0
        values = np.concatenate([inside, [below]])
        # two in this bin, one in the bin below: the gaps add up by bin, so signs tell which bin it
        # is
        ours = ece(np.array([True, True, False]), values, scale="probability")
        gaps = abs(2 - inside.sum()) + below if p else abs(2 - inside.sum() - below)
        assert ours == pytest.approx(gaps / 3, abs=1e-12)
    del labels


@given(
    st.lists(SCORES | st.sampled_from([-0.0, 1e-300, 1e300, 3.4e38, 1e-46]), max_size=60),
    st.booleans(),
)
def test_the_order_is_numpys(values, narrow):
    with np.errstate(over="ignore"):
        array = np.array(values, dtype=np.float32 if narrow else float).astype(float)
    array = array[np.isfinite(array)]
    assert stable_order(array).tolist() == np.argsort(array, kind="stable").tolist()


def test_undefined_is_an_error():
    one = np.array([True, True])
    for metric in (auc, auprc):
        fails(lambda m=metric: m(one, np.array([0.1, 0.2])), "one class", kind=UndefinedError)
    for metric in (nll, error, ece, ece_top, lambda y, z, w=None: ece_paper(y, z, w, images=9)):
        fails(lambda m=metric: m(np.empty(0, bool), np.empty(0)), "no image", kind=UndefinedError)
        fails(lambda m=metric: m(one, np.ones(2), np.zeros(2)), "no image", kind=UndefinedError)
    for metric in (ece, ece_top):
        fails(
            lambda m=metric: m(one, np.array([0.1, 1.2]), scale="probability"),
            "[0, 1]",
            kind=ParameterError,
        )
    fails(
        lambda: nll(one, np.ones(2), scale="percent"),
        "percent",
        "logit, probability",
        kind=ParameterError,
    )


PLAIN = {"auc": auc, "auprc": auprc, "error": error, "nll": nll, "ece": ece, "ece_top": ece_top}
"""Metrics of a subset alone; ``ece_paper`` needs the size of the whole set as well."""


@st.composite
def divided(draw):
    """A task's outputs, four atoms that are cells, subsets of them, and a mixture."""
    labels, values = draw(outputs())
    atoms = (
        np.array(draw(st.lists(st.integers(0, 1), min_size=len(labels), max_size=len(labels)))) * 2
        + ~labels
    )
    members = np.array(
        draw(st.lists(st.lists(st.booleans(), min_size=4, max_size=4), min_size=1, max_size=4))
    )
    shares = np.array(draw(st.lists(st.sampled_from([0.0, 1.0, 2.0]), min_size=4, max_size=4)))
    return (
        labels,
        values,
        Parts(
            labels,
            atoms.astype(np.intp),
            members,
            np.arange(4),
            shares[None] / max(shares.sum(), 1),
        ),
    )


def value_or_nan(name, labels, values, weights=None, images=None, threshold=0.5):
    """A metric, NaN where it is undefined; ``images`` is the weight of the whole set, of which
    these images are a subset.
    """
    if name in ANSWER_METRICS:
        return answer_metric(name, labels, values, weights, threshold)
    if name == "error" and threshold != 0.5:
        return 1 - answer_metric("accuracy", labels, values, weights, threshold)
    try:
        if name == "ece_paper":
            images = (
                len(labels)
                if weights is None and images is None
                else weights.sum()
                if images is None
                else images
            )
            return ece_paper(labels, values, weights, images=images)
        return PLAIN[name](labels, values, weights)
    except UndefinedError:
        return np.nan


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


@given(divided(), THRESHOLDS)
def test_all_subsets_at_once_equal_one_after_another(case, at):
    labels, values, parts = case
    table = Graded(labels, values, "logit", ALL_METRICS, at).scores(parts)
    for row, member in enumerate(parts.members):
        inside = member[parts.atoms]
        for column, name in enumerate(ALL_METRICS):
            expected = value_or_nan(
                name, labels[inside], values[inside], images=len(labels), threshold=at
            )
            assert table[row, column] == pytest.approx(expected, abs=1e-12, nan_ok=True), name
    weights = mixture_weights(parts, np.ones(len(labels)))
    for column, name in enumerate(ALL_METRICS):
        expected = (
            np.nan if weights is None else value_or_nan(name, labels, values, weights, threshold=at)
        )
        assert table[-1, column] == pytest.approx(expected, abs=1e-9, nan_ok=True), name


@given(divided(), st.integers(0, 100), THRESHOLDS)
def test_resampling_equals_one_resample_after_another(case, seed, at):
    labels, values, parts = case
    weights = np.random.default_rng(seed).integers(0, 3, (len(labels), 5)).astype(float)
    table = Graded(labels, values, "logit", ALL_METRICS, at).resampled(parts, weights)
    for k in range(5):
        for row, member in enumerate(parts.members):
            inside = member[parts.atoms]
            for column, name in enumerate(ALL_METRICS):
                expected = value_or_nan(
                    name,
                    labels[inside],
                    values[inside],
                    weights[inside, k],
                    weights[:, k].sum(),
                    at,
                )
                assert table[row, column, k] == pytest.approx(expected, abs=1e-9, nan_ok=True), name
        mixed = mixture_weights(parts, weights[:, k])
        for column, name in enumerate(ALL_METRICS):
            expected = (
                np.nan if mixed is None else value_or_nan(name, labels, values, mixed, None, at)
            )
            assert table[-1, column, k] == pytest.approx(expected, abs=1e-9, nan_ok=True), name


def test_only_what_is_asked_for_is_computed():
    parts = Parts(
        Y, np.zeros(40, np.intp), np.ones((1, 1), bool), np.zeros(1, np.intp), np.empty((0, 1))
    )
    for names in (("auc",), ("nll", "auc"), ("ece_top",), ("ece_paper",), METRICS[::-1]):
        table = Graded(Y, P, "probability", names).scores(parts)
        plain = {**PLAIN, "ece_paper": partial(ece_paper, images=40)}
        expected = [
            plain[n](Y, P) if n in {"auc", "auprc"} else plain[n](Y, P, scale="probability")
            for n in names
        ]
        assert table[0].tolist() == pytest.approx(expected, abs=1e-12)


def test_waterbirds(shared_data):
    """On the real table, with scores that lean on the background."""
    import polars as pl

    table = pl.read_csv(shared_data / "waterbirds" / "metadata.csv").filter(split=2)
    labels = (table["y"] == 1).to_numpy()
    logits = (
        table["place"].to_numpy() * 2.0 - 1 + np.random.default_rng(0).normal(size=len(labels))
    ).round(2)
    assert len(labels) == 5794
    for inside in (np.ones(len(labels), bool), (table["place"] != table["y"]).to_numpy()):
        y, z = labels[inside], logits[inside]
        assert auc(y, z) == pytest.approx(roc_auc_score(y, z), abs=1e-12)
        assert auprc(y, z) == pytest.approx(average_precision_score(y, z), abs=1e-9)
        assert nll(y, z) == pytest.approx(log_loss(y, expit(z)), abs=1e-9)
        assert ece(y, z) == pytest.approx(naive_ece(y, expit(z), y), abs=1e-9)
