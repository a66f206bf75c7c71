"""The validation value that decides when to stop: three rules, on all objectives; and a job against
the best constant answer, by what its method minimizes.
"""

import numpy as np
import pytest
from refusals import refused
from scipy.optimize import minimize_scalar
from shortcuts import finished, jobs_of, shortcut

from nooch.training.bench.run import own_values
from nooch.training.head_pass import HeadPass
from nooch.training.jobs import ProbeSettings
from nooch.training.methods import METHODS, PAPER_METHODS
from nooch.training.network_settings import STOP_ON, TuneSettings, stop_rule
from nooch.training.objectives import losses
from nooch.training.training_data import objective_of
from nooch.training.training_pass import validation_value

torch = pytest.importorskip("torch")

SMALL = shortcut(n_train=200, n_other=90)


@pytest.mark.parametrize("method", [name for name in METHODS if METHODS[name].mixing is None])
def test_batches_are_those_of_a_loop(method):
    """The objective's mean over 32, 32 and 26 images; the plain loss where rows are drawn."""
    settings = ProbeSettings(epochs=2, stop_on="batches")
    job = jobs_of([method])[-1]
    trained = HeadPass(SMALL, [job], settings)
    trained.step()
    rows = SMALL.rows["valid"]
    y = torch.from_numpy(SMALL.labels["car"][rows]).float()[:, None]
    c = torch.from_numpy(SMALL.environments["car"][rows]).long()[:, None]
    objective = objective_of(SMALL, [job], "paper")
    if hasattr(objective, "q"):
        objective.q = trained.heads.groups[0].objective.q
    z = torch.from_numpy(trained.current("valid")).T
    total = 0.0
    for start in range(0, len(rows), 32):
        part = slice(start, start + 32)
        drawn = job.kind.sampler is not None or job.kind.first is not None
        measured = losses(z[part], y[part]).mean() if drawn else None
        value = objective.measure(z[part], y[part], c[part]) if measured is None else measured
        total += float(value) * len(z[part])
    assert trained.history[-1]["valid"][0] == pytest.approx(total / len(rows), rel=1e-4)
    assert len(rows) % 32


def test_rules_differ_where_they_should():
    # without adjustments, which are the larger part of GDRO's value
    jobs = jobs_of({name: {"K": 0} if name == "gdro" else None for name in PAPER_METHODS})
    found = {rule: finished(SMALL, jobs, ProbeSettings(epochs=1, stop_on=rule)) for rule in STOP_ON}
    values = {rule: trained.history[0]["valid"] for rule, trained in found.items()}
    apart = set()
    for number, job in enumerate(found["nll"].jobs):
        own, batches, plain = (values[rule][number] for rule in ("objective", "batches", "nll"))
        if job.method == "erm":
            assert own == pytest.approx(plain)
        if job.method == "erm" or job.method.endswith("undersample"):
            assert batches == pytest.approx(plain)
        if batches != pytest.approx(own, rel=1e-3):
            apart.add(job.method)
    # of GDRO, CVaR and IRM, no means over images, a split is no mean of its batches
    assert apart == {"gdro", "cvar", "irm", "label-undersample", "environment-undersample"}


@pytest.mark.parametrize("kind", [ProbeSettings, TuneSettings])
def test_released_stops_on_batches(kind):
    assert kind().stop_on == "objective"
    assert kind(variant="released").stop_on == "batches"
    assert kind(variant="released", stop_on="objective").stop_on == "objective"
    assert kind(stop_on="batches").stop_on == "batches"
    refused(lambda: kind(stop_on="auc"), "auc", "batches")
    assert stop_rule(None, "paper") == "objective"


def test_weights_of_drawn_rows():
    z, y = torch.tensor([[2.0], [-1.0]]), torch.tensor([[1.0], [1.0]])
    c, times = torch.zeros(2, 1, dtype=torch.int64), torch.tensor([[2.0], [0.0]])
    objective = objective_of(SMALL, jobs_of(["erm"]), "paper")
    plain = losses(z, y)
    outputs = z, y, c
    values = {r: validation_value(r, objective, outputs, times, 1).item() for r in STOP_ON}
    assert values["objective"] == pytest.approx(float(plain[0]))
    assert values["batches"] == values["nll"] == pytest.approx(float(plain.mean()))
    assert np.isfinite(list(values.values())).all()


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
