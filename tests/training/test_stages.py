"""Samplers, mixing, first and last stages: what they do to rows and heads, and recover."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from refusals import refused
from shortcuts import finished, hard_auc, jobs_of, shortcut

from nooch.training.block_sgd import Descent
from nooch.training.head_pass import HeadPass
from nooch.training.jobs import Job, ProbeSettings
from nooch.training.last_layers import AFR, DFR, LogisticRegression, Trained
from nooch.training.methods import METHODS, Errors, Method, add_method, grid_of_methods
from nooch.training.objectives import Objective, losses
from nooch.training.samplers import (
    Balance,
    FixedShare,
    Lisa,
    Mixup,
    RandomStreams,
    Redraw,
    in_order,
    row_weights,
)

torch = pytest.importorskip("torch")


@given(st.lists(st.integers(0, 3), min_size=1, max_size=60), st.floats(0, 3), st.integers(0, 5))
@settings(max_examples=60, deadline=None)
def test_counts_are_rows(groups, alpha, seed):
    groups = np.array(groups, dtype=np.uint8)
    draws = RandomStreams(seed, "a job", 2)
    for sampler in (Redraw("labels"), Balance("environments"), FixedShare(0.7)):
        counts = sampler.counts(groups, {"alpha": alpha}, draws)
        assert np.array_equal(counts, sampler.counts(groups, {"alpha": alpha}, draws))
        rows = in_order(counts, seed, 1)
        assert np.array_equal(np.bincount(rows, minlength=len(groups)), counts)
        assert row_weights(counts).mean() == pytest.approx(1, rel=1e-5)
    assert Redraw("labels").counts(groups, {"alpha": alpha}, draws).sum() == len(groups)
    balanced = Balance("labels").counts(groups, {}, draws)
    assert len({int(balanced[groups == g].sum()) for g in np.unique(groups)}) == 1
    assert sorted(in_order(len(groups), seed, 1)) == list(range(len(groups)))


@given(st.lists(st.integers(0, 3), min_size=2, max_size=60), st.floats(0, 1), st.integers(0, 5))
@settings(max_examples=60, deadline=None)
def test_lisa_mixes_as_it_says(environments, p, seed):
    c = np.array(environments, dtype=np.uint8)
    y = c >= 2
    mixture = Lisa()(y, c, {"p": p}, np.random.default_rng(seed))
    partner = c[mixture.partners]
    changed = mixture.partners != np.arange(len(c))
    # of one label and another context, or of one context and another label: never both, never
    # neither
    same_label, same_context = (partner >= 2) == y, partner % 2 == c % 2
    assert (same_label != same_context)[changed].all()
    assert (mixture.weights[~changed] == 1).all()
    assert ((mixture.weights >= 0) & (mixture.weights <= 1)).all()
    if p in {0, 1}:
        assert (same_label == bool(p))[changed].all()


def test_mixup_permutes():
    mixture = Mixup()(np.zeros(500, bool), None, {"alpha": 0.2}, np.random.default_rng(0))
    assert sorted(mixture.partners) == list(range(500))
    # Beta(.2, .2) has most of its mass near 0 and 1
    extreme = (mixture.weights < 0.1) | (mixture.weights > 0.9)
    assert extreme.mean() == pytest.approx(0.71, abs=0.06)


def test_errors_of_the_first_stage_are_taken_more_often():
    labels, logits = np.array([True, True, False, False]), np.array([1.0, -1, 1, -1])
    assert Errors.counts(labels, logits, {"up": 5.0}).tolist() == [1, 5, 5, 1]


def trained_on(n=400, d=6, seed=0):
    random = np.random.default_rng(seed)
    y = random.random(n) < 0.4
    c = (2 * y + (random.random(n) < np.where(y, 0.95, 0.05))).astype(np.uint8)
    x = random.normal(size=(n, d)).astype(np.float32)
    x[:, 0] += 2 * y
    x[:, 1] += 3 * (c % 2)
    return Trained(x * 5 + 3, y, c, random.normal(size=d + 1).astype(np.float32))


def test_logistic_regression_is_scikit_learns_on_standardised_features():
    from sklearn.linear_model import LogisticRegression as Peer
    from sklearn.preprocessing import StandardScaler

    trained = trained_on()
    head = LogisticRegression()(trained, {"C": 0.1}, RandomStreams(0, "a"))
    scaler = StandardScaler().fit(trained.features)
    peer = Peer(C=0.1, max_iter=1000).fit(scaler.transform(trained.features), trained.labels)
    expected = peer.decision_function(scaler.transform(trained.features))
    assert np.abs(trained.features @ head[:-1] + head[-1] - expected).max() < 1e-3


def test_afr_stays_where_it_was_or_follows_the_weights():
    trained = trained_on()
    held = AFR()(trained, {"gamma": 4.0, "lambda_": 1e6}, RandomStreams(0, "a"))
    assert np.abs(held - trained.head).max() < 1e-3
    free = AFR()(trained, {"gamma": 0.0, "lambda_": 0.0}, RandomStreams(0, "a"))
    # without pull and with equal weights it is balanced logistic regression: the gradient by the
    # bias vanishes
    z = trained.features.astype(float) @ free[:-1] + free[-1]
    residual = 1 / (1 + np.exp(-z)) - trained.labels
    weights = np.where(trained.labels, 1 / trained.labels.sum(), 1 / (~trained.labels).sum())
    assert abs(weights @ residual) < 1e-3
    assert np.abs((weights * residual) @ trained.features).max() < 1e-2


def test_afr_leaves_its_first_stage_what_it_does_not_use():
    draws = RandomStreams(3, "a job")
    taken = FixedShare().counts(np.zeros(100, np.uint8), {}, draws)
    places = AFR().places(100, draws)
    assert len(places) == 20
    assert not taken[places].any()


def test_dfr_does_not_look_at_the_cue():
    trained = trained_on(n=2000)
    head = DFR(subsets=3)(trained, {}, RandomStreams(0, "a"))
    plain = LogisticRegression()(trained, {"C": 1.0}, RandomStreams(0, "a"))
    assert plain[1] > 0.5 * plain[0]
    assert head[0] > 0
    assert abs(head[1]) < 0.2 * head[0]


def test_dfr_of_a_few_images():
    trained, labels = trained_on(n=12), np.array([True, False, False, False])
    environments = np.array([2, 0, 1, 0], np.uint8)
    few = Trained(trained.features[:4], labels, environments, trained.head)
    assert np.isfinite(DFR()(few, {}, RandomStreams(0, "a"))).all()


def test_released_afr_weighs_as_the_authors_code():
    """exp(-gamma q) times n / n_class, scaled to sum 1; gammas and shares of the positives are
    those that the code of its authors gave.
    """
    z, y = np.array([-4.0, -3, -2, -1, 0.5, -3, 2, -1]), np.arange(8) > 5
    released = AFR().of("released")
    for gamma, share in ((4.0, 0.751), (8.0, 0.867), (16.0, 0.944)):
        weights = released.weights(z, y, gamma)
        assert weights.sum() == pytest.approx(1)
        assert weights[y].sum() == pytest.approx(share, abs=5e-4)
        assert AFR().of("paper").weights(z, y, gamma)[y].sum() == pytest.approx(0.5)
    trained = trained_on()
    # the distance of two outputs that differ by one is half of it
    heads = [refit(trained, {"gamma": 0.0, "lambda_": pull}, RandomStreams(0, "a"))
             for refit, pull in ((released, 2.0), (AFR(), 1.0))]  # fmt: skip
    counts = np.bincount(trained.labels)
    assert counts[0] != counts[1]
    np.testing.assert_allclose(*heads, atol=1e-4)


def dfr_loop(train, valid, random):
    """The authors' code as a plain loop: C on halves of validation, then the mean of 20 fits."""
    from sklearn.linear_model import LogisticRegression as Peer
    from sklearn.preprocessing import StandardScaler

    def balanced(rows):
        places = [rows[valid.environments[rows] == g] for g in range(4)]
        least = min(map(len, places))
        return np.concatenate([random.permutation(p)[:least] for p in places])

    def fit(x, y, c):
        return Peer(l1_ratio=1.0, C=c, solver="liblinear", max_iter=1000).fit(x, y)

    order = random.permutation(len(valid.labels))
    first, second = balanced(order[len(order) // 2 :]), order[: len(order) // 2]
    own, best = StandardScaler().fit(valid.features[first]), (-1, None)
    for c in (1.0, 0.7, 0.3, 0.1, 0.07, 0.03, 0.01):
        peer = fit(own.transform(valid.features[first]), valid.labels[first], c)
        right = peer.predict(own.transform(valid.features[second])) == valid.labels[second]
        worst = min(right[valid.environments[second] == g].mean() for g in range(4))
        best = max(best, (worst, c), key=lambda pair: pair[0])
    scaler = StandardScaler().fit(train.features)
    fits = [fit(scaler.transform(valid.features[rows]), valid.labels[rows], best[1])
            for rows in (balanced(np.arange(len(valid.labels))) for _ in range(20))]  # fmt: skip
    weights = np.mean([peer.coef_[0] for peer in fits], axis=0) / scaler.scale_
    bias = np.mean([peer.intercept_[0] for peer in fits]) - scaler.mean_ @ weights
    return np.append(weights, bias)


def worst_group(head, test):
    right = (test.features @ head[:-1] + head[-1] > 0) == test.labels
    return min(right[test.environments == g].mean() for g in range(4))


def test_released_dfr_is_the_authors_within_its_deviation():
    train, valid, test = (trained_on(n, seed=s) for n, s in ((3000, 1), (400, 2), (9000, 3)))
    splits = {"train": train, "valid": valid}
    whole = replace(valid, of_split=splits.__getitem__)
    released = DFR().of("released")
    assert released.subsets == 20
    scores = np.array([
        [worst_group(head, test) for head in (
            released(whole, {}, RandomStreams(seed, "a")),
            dfr_loop(train, valid, np.random.default_rng(seed)),
        )] for seed in range(4)
    ])  # fmt: skip
    mean, deviation = scores.mean(axis=0), scores.std(axis=0, ddof=1).max()
    assert abs(mean[0] - mean[1]) < max(deviation, 0.01)
    of_train = DFR("train").of("released")(replace(train, of_split=splits.__getitem__), {},
                                           RandomStreams(0, "a"))  # fmt: skip
    assert worst_group(of_train, test) > 0.7


def test_released_lisa_draws_as_many_rows_of_each_environment():
    random = np.random.default_rng(1)
    c = np.repeat(np.arange(4, dtype=np.uint8), (4000, 300, 50, 650))
    mixture = Lisa().of("released")(c >= 2, c, {"p": 0.5}, random)
    for rows in (mixture.rows, mixture.partners):
        assert np.bincount(c[rows]) / len(c) == pytest.approx([0.25] * 4, abs=0.03)
    same_label = c[mixture.rows] // 2 == c[mixture.partners] // 2
    same_context = c[mixture.rows] % 2 == c[mixture.partners] % 2
    assert (same_label != same_context).all()
    assert same_label.mean() == pytest.approx(0.5, abs=0.03)
    plain = Lisa()(c >= 2, c, {"p": 0.5}, random)
    assert plain.rows.tolist() == list(range(len(c)))
    # an environment that is missing leaves its partners as they are
    few = Lisa().of("released")(c[:4300] >= 2, c[:4300], {"p": 1.0}, random)
    assert np.bincount(c[few.rows]) / 4300 == pytest.approx([0.5, 0.5], abs=0.03)
    assert (few.weights < 1).all()


@pytest.mark.parametrize("variant", ["paper", "released"])
def test_stages_resist_the_shortcut(variant):
    """As environment methods do in test_head_pass: ERM's AUC on hard images is below 0.6 there."""
    data = shortcut(n_train=3000, n_other=1000)
    settings = ProbeSettings(epochs=12, patience=12, variant=variant)
    asked = {"erm": None, "jtt": {"epochs": 1, "up": 20}, "dfr": None}
    asked |= {"afr": {"gamma": 8, "lambda_": 0}, "lisa": {"p": 0.5}}
    found = {}
    for name, grid in asked.items():
        trained = finished(data, jobs_of({name: grid}, seeds=(0, 1)), settings)
        trained.refit()
        found[name] = hard_auc(trained, data, name)
    assert found["erm"] < 0.6
    assert all(found[name] > found["erm"] + 0.1 for name in asked if name != "erm"), found


class Squared(Objective):
    """A custom objective without a closed form of its derivative."""

    name = "squared"
    ranges = {"power": (1.0, 4.0)}  # noqa: RUF012 - as a user would write it

    def __call__(self, logits, labels, _environments):
        return (losses(logits, labels) ** self.parameters["power"]).mean(dim=0)


OWN = Method("squared", Squared, {"power": 2}, source="a test")
NONE = 5
PAIRS = ((0, "car"), (1, "cow"))


def test_a_custom_method():
    name = f"{__name__}:OWN"
    try:
        assert add_method(name) is OWN
        jobs = jobs_of({name: {"power": [1, 2]}, "erm": None})
        settings = ProbeSettings(Descent(lr=0.01), epochs=3)
        trained = HeadPass(shortcut(n_train=200, n_other=100), jobs, settings)
        trained.step()
        # to the power of one it is ERM
        first = {job.setting: trained.history[0]["train"][n] for n, job in enumerate(trained.jobs)}
        assert first["power=1"] == pytest.approx(first[""], rel=1e-5)
        assert first["power=2"] != pytest.approx(first[""], rel=1e-2)
        large = {name: {"power": 5}}
        refused(lambda: grid_of_methods(large), "power is 5", "1 to 4")
    finally:
        METHODS.pop(name, None)
    refused(lambda: add_method(f"{__name__}:NONE"), "a int", "nooch.Method")
    refused(lambda: add_method(f"{__name__}:MISSING"), "MISSING")
    refused(lambda: Method("a", "no-such"), "no-such")
    refused(lambda: Method("a", sees=("everything",)), "everything")


def test_what_is_refused():
    refused(lambda: grid_of_methods({"lisa": {"p": 1.5}}), "p is 1.5", "0 to 1")
    refused(lambda: grid_of_methods({"jtt": {"up": 0}}), "up is 0")
    refused(lambda: grid_of_methods({"jtt": {"epoch": 1}}), "epoch", "epochs")
    refused(lambda: grid_of_methods({"logistic": {"C": 0}}), "C is 0")
    assert len(grid_of_methods({"jtt": None})) == 4
    assert grid_of_methods({"jtt": {"up": 3}})[0][1] == {"epochs": 1.0, "up": 3.0}
    for method, parameter, same in (("mixup", "alpha", True), ("lisa", "p", False)):
        jobs = [Job(task, method, ((parameter, 1.0),), seed, 0) for seed, task in PAIRS]
        assert (jobs[0].shares == jobs[1].shares) == same
