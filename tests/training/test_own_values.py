"""A job against the best constant answer, by what its method minimizes."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from shortcuts import jobs_of, shortcut

from nooch.training.bench.run import own_values

torch = pytest.importorskip("torch")


def plain(logits, labels, weights):
    return np.average(np.logaddexp(0, logits) - labels * logits, weights=weights)


def weights_of(method, labels, environments, train_labels, train_environments):
    """How much each validation image counts under a method, by hand."""
    if method == "erm":
        return np.ones(len(labels))
    if method == "label-reweight":
        return 1 / np.bincount(train_labels)[labels]
    if method == "subg":
        return 1 / np.bincount(train_environments)[environments]
    return 1 / np.bincount(environments)[environments]


@pytest.mark.parametrize("method", ["erm", "label-reweight", "subg", "dfr"])
def test_weighted_methods_are_compared_under_their_weights(method):
    data = shortcut()
    (job, *_) = jobs_of({method: {"alpha": 1.0} if method == "label-reweight" else {}})
    train, valid = data.rows["train"], data.rows["valid"]
    y, c = data.labels[job.task].astype(int), data.environments[job.task]
    weights = weights_of(method, y[valid], c[valid], y[train], c[train])
    noise = np.random.default_rng(0).normal(size=len(valid)).astype(np.float32)
    logits = (noise + 2 * y[valid] - 1).astype(np.float32)
    own, constant = own_values(data, job, logits, "paper")
    best = minimize_scalar(lambda x: plain(np.full(len(valid), x), y[valid], weights)).fun
    expected = plain(logits, y[valid], weights)
    assert own / constant == pytest.approx(expected / best, rel=2e-3)


def test_methods_of_the_worst_environment_are_compared_by_it():
    data = shortcut()
    (job, *_) = jobs_of({"gdro": {"K": 0.0}})
    valid = data.rows["valid"]
    y, c = data.labels["car"][valid], data.environments["car"][valid]
    logits = np.random.default_rng(1).normal(size=len(valid)).astype(np.float32)
    own, constant = own_values(data, job, logits, "paper")
    losses = np.logaddexp(0, np.where(y, -logits, logits))
    assert own == pytest.approx(max(losses[c == e].mean() for e in range(4)), rel=1e-5)
    # every environment has one label, and the worst of two is best at 1/2
    assert constant == pytest.approx(np.log(2), abs=2e-4)
