"""Heads on standardized features: one rate for features of any size, heads for raw ones."""

from dataclasses import replace

import numpy as np
import pytest
from shortcuts import finished, jobs_of, shortcut

from nooch.training import head_pass
from nooch.training.block_sgd import Descent
from nooch.training.head_pass import scaling_of
from nooch.training.jobs import ProbeSettings
from nooch.training.methods import PAPER_METHODS

pytest.importorskip("torch")

SMALL = shortcut(n_train=200, n_other=100)
FAST = ProbeSettings(epochs=5)


class OnDisk:
    """Features of which no more than a few rows are read at a time."""

    def __init__(self, values, most):
        self.values, self.shape, self.most, self.read = values, values.shape, most, 0

    def __getitem__(self, rows):
        assert len(rows) <= self.most
        self.read += len(rows)
        return self.values[rows]


def test_mean_and_scale_in_one_pass(monkeypatch):
    random = np.random.default_rng(0)
    values = random.normal(size=(1000, 5)) * [1e-3, 1, 10, 1, 1] + [300, -5, 0, 7, 0]
    values = values.astype(np.float32)
    values[:, 3] = 7.3
    values[:, 4] = 0
    rows = random.permutation(1000)[:613]
    monkeypatch.setattr(head_pass, "BLOCK", 50)
    source = OnDisk(values, 50)
    found = scaling_of(source, rows)
    assert source.read == len(rows)
    exact = values[rows].astype(np.float64)
    assert found.mean == pytest.approx(exact.mean(axis=0), rel=1e-12)
    sd = exact.std(axis=0)
    assert found.scale[:3] == pytest.approx(sd[:3] * 3**0.5, rel=1e-9)
    # constant columns say nothing, and divide nothing by 0
    standard = found.apply(values[rows])
    assert standard.dtype == np.float32
    assert np.abs(standard[:, 3:]).max() < 1e-6
    assert (standard.astype(float) ** 2).sum(axis=1).mean() == pytest.approx(1, rel=1e-4)
    again = scaling_of(OnDisk(values, 50), rows)
    assert (again.mean == found.mean).all()
    assert (again.scale == found.scale).all()


def test_only_constant_columns():
    found = scaling_of(np.full((10, 3), 4.0, np.float32), np.arange(10))
    assert (found.apply(np.full((2, 3), 4.0)) == 0).all()


def test_results_do_not_depend_on_the_scale_of_features():
    """All 32 settings, on features as they are and on some that usual rates overshoot on."""
    jobs = jobs_of(list(PAPER_METHODS))
    assert len(jobs) == 32
    far = SMALL.inputs * np.logspace(-2, 3, SMALL.inputs.shape[1], dtype=np.float32) + 40
    scaled = replace(SMALL, inputs=far.astype(np.float32))
    plain, moved = finished(SMALL, jobs, FAST), finished(scaled, jobs, FAST)
    assert moved.best["value"] == pytest.approx(plain.best["value"], rel=0.01)
    old = finished(scaled, jobs, replace(FAST, condition="none"))
    assert np.median(old.best["value"] / plain.best["value"]) > 100


@pytest.mark.parametrize(
    ("method", "size"), [("erm", 1.0), ("environment-reweight", None), ("irm", None)]
)
def test_steps_are_divided_by_the_size_of_the_gradient(method, size):
    """A smaller rate with more decay takes the same steps on features standardized by hand."""
    job = jobs_of([method])[-1]
    train = SMALL.rows["train"]
    scaling = scaling_of(SMALL.inputs, train)
    if size is None:
        counts = np.bincount(SMALL.environments["car"][train], minlength=4)
        weights = (len(train) / counts) ** dict(job.parameters).get("alpha", 0)
        size = (weights * counts).sum() / len(train)
        size = 4 * (1 + dict(job.parameters)["lambda_"]) if method == "irm" else size
    settings = ProbeSettings(Descent(0.1, 0.9, 1e-3), epochs=4)
    by_hand = ProbeSettings(Descent(0.1 / size, 0.9, 1e-3 * size), "none", epochs=4)
    found = finished(SMALL, [job], settings)
    wanted = finished(replace(SMALL, inputs=scaling.apply(SMALL.inputs)), [job], by_hand)
    assert found.best["epoch"] == wanted.best["epoch"]
    assert found.best_weights == pytest.approx(wanted.best_weights, abs=1e-4)
    # the value is the objective's own, whatever steps are divided by
    assert found.best["value"] == pytest.approx(wanted.best["value"], rel=1e-4)


def test_a_saved_head_is_for_features_as_they_are(tmp_path):
    from safetensors.numpy import load_file

    random = np.random.default_rng(1)
    far = (SMALL.inputs * random.uniform(0.1, 5, SMALL.inputs.shape[1]) + 20).astype(np.float32)
    data = replace(SMALL, inputs=far)
    trained = finished(data, jobs_of(["erm", "jtt", "dfr", "afr", "logistic"]), FAST)
    trained.refit()
    for split in ("valid", "test"):
        outputs = trained.logits(split)
        for number in range(len(trained.jobs)):
            folder = tmp_path / f"{split}{number}"
            trained.save(number, folder)
            head = load_file(folder / "head.safetensors")
            assert head["weight"].dtype == np.float32
            raw = far[data.rows[split]].astype(np.float64)
            found = raw @ head["weight"][0].astype(np.float64) + float(head["bias"][0])
            assert outputs[number] == pytest.approx(found, rel=1e-6, abs=1e-6)
            # and that is what the head does on standardized features
            weights, standard = trained.best_weights[number], scaling_of(far, data.rows["train"])
            inner = standard.apply(raw) @ weights[:-1] + weights[-1]
            assert found == pytest.approx(inner, abs=1e-4)
