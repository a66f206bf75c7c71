"""Cost of training on a device: a few real steps of a network, or matrix products for heads."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

import numpy as np

from nooch.models.networks import Backbones, read_logits
from nooch.models.pixel_batches import parts
from nooch.training.epoch_batches import BatchHooks, Epochs
from nooch.training.jobs import Job
from nooch.training.network_pass import fastest_convolutions
from nooch.training.network_settings import TuneSettings
from nooch.training.network_trainer import NetworkTrainer
from nooch.training.targets import Target
from nooch.training.training_data import TrainingData, objective_of

__all__ = ["EpochCost", "head_cost", "network_cost"]

_STEPS = 3


@dataclass(frozen=True)
class EpochCost:
    """Time of an epoch.

    Attributes:
        seconds: of an epoch of all jobs, one after another.
        steps: of an epoch of one job; ``step_seconds`` of each. None where steps were not timed.
        evaluations: batches of validation images after it; ``evaluation_seconds`` of each.
        measured: what was timed.
    """

    seconds: float
    measured: str
    steps: int | None = None
    step_seconds: float | None = None
    evaluations: int | None = None
    evaluation_seconds: float | None = None


def network_cost(
    backbones: Backbones, data: TrainingData, job: Job, settings: TuneSettings, n_jobs: int
) -> EpochCost:
    """Train one network for a few steps on real pixels, and evaluate it; nothing is kept.

    The first step is not counted: it compiles, allocates, and looks for the fastest convolutions.
    Reading pixels is counted where it is slower than the step that runs at the same time.

    Args:
        backbones: seed -> backbone on its device.
        data: pixels, labels and rows.
        job: whose objective is taken.
        settings: of the training.
        n_jobs: networks that are trained.

    Raises:
        NoochError: memory ran out.
    """
    backbone = backbones(job.seed)
    train, valid = data.rows["train"], data.rows["valid"]
    batch = min(settings.batch, len(train))
    rows = np.resize(train, batch * (_STEPS + 1))
    environments = data.environments.get(job.task)
    labels = data.labels[job.task].astype(np.float32)[:, None]
    objective = objective_of(data, [job], settings.variant, backbone.device)
    if environments is not None:
        environments = environments[:, None]
    target = Target(job.run, labels, objective, environments=environments)
    trainer = NetworkTrainer.start(target, backbone, settings)
    trainer.network.training(True)
    epochs = Epochs(data.inputs, train, backbone, settings, BatchHooks(rows=lambda _epoch: rows))
    with fastest_convolutions():
        ends = list(_trained(trainer, epochs))
    step = median(later - earlier for earlier, later in pairwise(ends))
    evaluation = _evaluated(trainer, data, np.resize(valid, min(settings.batch, len(valid))))
    steps, evaluations = (len(parts(len(of), settings.batch)) for of in (train, valid))
    seconds = n_jobs * (steps * step + evaluations * evaluation)
    measured = f"{_STEPS} steps of training of this backbone, and a batch of validation"
    return EpochCost(seconds, measured, steps, step, evaluations, evaluation)


def _trained(trainer: NetworkTrainer, epochs: Epochs) -> Iterator[float]:
    """When each step ended."""
    for batch in epochs.batches(0):
        trainer.step(batch, trainer.settings.lr)
        _wait(trainer.network.backbone.device)
        yield time.perf_counter()


def _evaluated(trainer: NetworkTrainer, data: TrainingData, rows: np.ndarray) -> float:
    """Seconds of a batch of validation images, the second time."""
    taken = 0.0
    for _ in range(2):
        started = time.perf_counter()
        read_logits([trainer.network], data.inputs, rows, len(rows))
        taken = time.perf_counter() - started
    return taken


def head_cost(operations: float, device: str) -> EpochCost:
    """From the speed of a product of matrices of a head's size on the device, in float32.

    Args:
        operations: multiplications and additions of an epoch of all jobs.
        device: where they are trained.
    """
    import torch

    left, right = (torch.ones(shape, device=device) for shape in ((512, 2048), (2048, 512)))
    _ = left @ right
    _wait(device)
    started = time.perf_counter()
    for _ in range(4):
        _ = left @ right
    _wait(device)
    speed = 4 * 2 * 512 * 2048 * 512 / (time.perf_counter() - started)
    return EpochCost(operations / speed, "products of matrices alone, in float32")


def _wait(device: str) -> None:
    """A GPU works on after the call has come back."""
    import torch

    if device != "cpu":
        torch.cuda.synchronize(device)
