"""384 probe jobs (8 methods x 4 values x 12 seeds of initialization) in one pass and one by one.

86,302 x 2,048 made-up features, batch 32, SGD with momentum and weight decay, the same order of
rows. The peer is a plain PyTorch loop: one Linear, autograd on the objective, ``torch.optim.SGD``;
it is timed on a fraction of an epoch for one job of each method, from which its jobs per hour are
computed. Both train the same steps: the weights after that fraction are compared.

    python benchmarks/bench_probe.py [--images 86302] [--features 2048] [--runs 3] [--steps 200]
    [--json FILE]
"""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from bench_criteria import timed
from measuring import Spread, machine, parser, ratios, write_json

from nooch.training.block_sgd import Descent, HeadState
from nooch.training.head_pass import HeadPass
from nooch.training.jobs import Job, ProbeSettings
from nooch.training.methods import METHODS
from nooch.training.objectives import TrainingCounts
from nooch.training.training_data import TrainingData

VALUES = {
    "label-reweight": (0.2, 0.5, 0.7, 1.0),
    "environment-reweight": (0.5, 1.0, 1.5, 2.0),
    "gdro": (5.0, 30.0, 60.0, 240.0),
    "irm": (0.1, 1.0, 3.0, 10.0),
    "cvar": (0.05, 0.1, 0.15, 0.3),
    "focal": (0.2, 0.5, 0.7, 1.0),
    "vrex": (0.5, 1.0, 3.0, 10.0),
    "online-gdro": (0.001, 0.01, 0.05, 0.1),
}
SEEDS = 12
# features are not standardized, as in the plain loops; one epoch is trained: after its last one a
# pass has no heads in training
SETTINGS = ProbeSettings(Descent(), "none", epochs=2)


def made_up(n: int, d: int) -> TrainingData:
    """Features of which one goes with the label and one with the context."""
    random = np.random.default_rng(0)
    features = random.standard_normal((n + 512, d), dtype=np.float32)
    y = random.random(n + 512) < 0.05
    cue = random.random(n + 512) < np.where(y, 0.8, 0.2)
    features[:, 0] += y
    features[:, 1] += cue
    rows = {"train": np.arange(n), "valid": np.arange(n, n + 512), "test": np.arange(n, n + 512)}
    return TrainingData(features, rows, {"car": y}, {"car": (2 * y + cue).astype(np.uint8)})


def jobs() -> list[Job]:
    """All 384."""
    return [
        Job("car", method, ((next(iter(METHODS[method].parameters)), value),), seed, 0)
        for method, values in VALUES.items()
        for value in values
        for seed in range(SEEDS)
    ]


def one_pass(data: TrainingData, listed: list[Job], part: int) -> HeadPass:
    """An epoch over the first ``part`` rows of the order, all jobs together."""
    train = data.rows["train"]
    order = np.random.default_rng([0, 0, 0]).permutation(len(train))[:part]
    trained = HeadPass(replace(data, rows={**data.rows, "train": train[order]}), listed, SETTINGS)
    trained.step()
    return trained


def alone(data: TrainingData, job: Job, rows: np.ndarray) -> torch.Tensor:
    """The plain loop over some rows in their order; the weights after it."""
    descent = SETTINGS.descent
    x, y, c = torch.from_numpy(data.inputs), data.labels["car"], data.environments["car"]
    labels, environments = torch.from_numpy(y).float()[:, None], torch.from_numpy(c).long()[:, None]
    counts = TrainingCounts(
        torch.from_numpy(np.bincount(y[rows], minlength=2)).float()[:, None],
        torch.from_numpy(np.bincount(c[rows], minlength=4)).float()[:, None],
    )
    parameters: dict[str, Any] = dict(job.parameters)
    objective = job.kind.objective_class(counts, **parameters)
    start = HeadState.initial([job.seed], x.shape[1])
    linear = torch.nn.Linear(x.shape[1], 1)
    with torch.no_grad():
        linear.weight.copy_(start.weights[:, :1].T)
        linear.bias.copy_(start.biases[:1])
    decay = descent.weight_decay
    optimiser = torch.optim.SGD(linear.parameters(), descent.lr, descent.momentum, 0, decay)
    # one epoch of a pass permutes its rows again
    order = torch.from_numpy(rows[np.random.default_rng([0, 0, 0]).permutation(len(rows))])
    for begin in range(0, len(order), SETTINGS.batch):
        batch = order[begin : begin + SETTINGS.batch]
        loss = objective(linear(x[batch]), labels[batch], environments[batch])
        optimiser.zero_grad()
        torch.autograd.backward(loss.sum())
        optimiser.step()
    return torch.cat([linear.weight.detach()[0], linear.bias.detach()])


def main() -> None:
    """Run and print."""
    arguments = parser(__doc__, images=86_302, features=2048, runs=3, steps=200).parse_args()
    data, listed = made_up(arguments.images, arguments.features), jobs()
    part = arguments.steps * SETTINGS.batch
    rows = data.rows["train"][np.random.default_rng([0, 0, 0]).permutation(arguments.images)[:part]]
    firsts = {method: next(job for job in listed if job.method == method) for method in VALUES}
    check(one_pass(data, listed, part), {job: alone(data, job, rows) for job in firsts.values()})
    seconds: dict[str, list[float]] = {"one pass": [], "one after another": []}
    epochs = arguments.images / part
    for _ in range(arguments.runs):
        taken, _ = timed(lambda: one_pass(data, listed, arguments.images))
        seconds["one pass"].append(taken)
        taken = sum(timed(partial(alone, data, job, rows))[0] for job in firsts.values())
        seconds["one after another"].append(taken * epochs * len(listed) / len(firsts))
    ratio = ratios(seconds["one after another"], seconds["one pass"])
    for name, values in seconds.items():
        print(f"an epoch of {len(listed)} jobs, {name}: {Spread.from_values(values)} s")
    print(f"jobs per hour in one pass against one after another: {ratio} times as many")
    write_json(arguments.json, {"machine": machine(), "seconds": seconds, "ratio": ratio})


def check(trained: HeadPass, expected: dict[Job, torch.Tensor]) -> None:
    """Stop if the weights differ by more than rounding."""
    n = trained.state.n_heads
    for number, job in enumerate(trained.jobs):
        if job in expected:
            bias = trained.state.biases[number : number + 1]
            ours = torch.cat([trained.state.weights[:, number], bias])
            apart = float((ours - expected[job]).abs().max())
            if apart > 1e-5:
                sys.exit(f"error: {job} differs by {apart} among {n}")


if __name__ == "__main__":
    main()
