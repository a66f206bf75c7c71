"""Inputs by name -> a plan, in any process -> trained jobs; an interrupted bench resumes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.base.calls import Map, Progress, no_progress
from nooch.base.engines import engine as engine_of
from nooch.base.errors import ParameterError, check_one_of
from nooch.base.files import absolute
from nooch.base.limits import limited_threads
from nooch.data import load_dataset
from nooch.evaluation.metrics import constant_nll, nll
from nooch.models.caches.features import load_features
from nooch.models.caches.pixels import PixelCache
from nooch.models.devices import choose_device, require_packages
from nooch.models.sources import DEFAULT, is_custom
from nooch.suites import is_shipped, load_suite
from nooch.training.bench.config import BenchConfig
from nooch.training.bench.plan import Plan, Training, plan_bench, plan_finetune
from nooch.training.jobs import Job, ProbeSettings
from nooch.training.methods import add_method
from nooch.training.network_settings import TuneSettings
from nooch.training.records import JobRecord, RunsFolder
from nooch.training.training_data import Outputs, TrainingData, expected_of, objective_of
from nooch.training.training_pass import validation_value


@dataclass(frozen=True)
class PlanSource:
    """Inputs of a bench: exactly one of ``features``, ``embedding`` and ``pixels``.

    Attributes:
        dataset: folder or address.
        suite: folder, or the name of a suite that comes with the package.
        config: methods, settings, seeds.
        methods: the user's own, ``package.module:Name``.
        features: folder of nooch train features: heads are trained on them.
        embedding: an embedding of the dataset, instead of features.
        pixels: folder of nooch train pixels: whole networks are fine-tuned.
        backbone: backbone for ``pixels``: hub id, folder, config:NAME from scratch, or
            ``package.module:Name``.
    """

    dataset: str | Path
    suite: Path
    config: BenchConfig
    methods: Sequence[str] = ()
    features: Path | None = None
    embedding: str | None = None
    pixels: Path | None = None
    backbone: str | None = None

    def plan(self, device: str) -> Plan:
        """The plan for a device. Raises as ``plan_bench`` and ``plan_finetune``."""
        data, suite = load_dataset(self.dataset), load_suite(self.suite)
        if self.pixels is not None:
            pixels, backbone = PixelCache.load(self.pixels, data), self.backbone or DEFAULT
            return plan_finetune(data, suite, pixels, backbone, self.config, device=device)
        if self.features is not None:
            features = load_features(self.features, data)
            return plan_bench(data, suite, features, self.config, device=device)
        name = check_one_of("embedding", str(self.embedding), data.embeddings, owner="the dataset")
        about = f"embedding {name}"
        return plan_bench(
            data, suite, data.embeddings[name], self.config, features_name=about, device=device
        )

    def plan_in_worker(self, device: str) -> Plan:
        """The plan in a worker, which does not know the user's methods and must have the device."""
        for name in self.methods:
            add_method(name)
        choose_device(device)
        return self.plan(device)

    def absolute(self) -> Self:
        """The same for a process in another folder; names of shipped suites and hub ids stay."""
        backbone = self.backbone
        if backbone is not None and not is_custom(backbone):
            kind, sign, name = backbone.rpartition(":")
            backbone = f"{kind}{sign}{Path(name).absolute() if Path(name).exists() else name}"
        return replace(
            self,
            dataset=absolute(self.dataset),
            suite=self.suite if is_shipped(self.suite) else self.suite.absolute(),
            features=self.features and self.features.absolute(),
            pixels=self.pixels and self.pixels.absolute(),
            backbone=backbone,
        )


def bench(
    plan: Plan,
    out: str | Path,
    *,
    map: Map | None = None,
    again: Callable[[], Plan] | None = None,
    threads: int | None = None,
    progress: Progress = no_progress,
) -> RunsFolder:
    """Train all jobs of a plan that are not done, and keep their predictions.

    A pass is saved after every epoch: an interrupted bench resumes and ends with the same bytes.

    Args:
        plan: what to train.
        out: folder of runs, which workers must see.
        map: where passes are trained, such as an engine's; by default here, one after another.
        again: with ``map``, gives the plan in a worker, so that data are read there and not sent.
        threads: with ``map``, CPUs of each job; they decide last bits. Libraries choose by default.
        progress: called with what is being done, and how much of how much is done.

    Raises:
        OutputError: the folder contains something else or other runs, or is being trained.
        ParameterError: ``map`` without ``again``.
    """
    if map is not None and again is None:
        problem = "workers need `again`, the function that makes the plan"
        raise ParameterError(problem, allowed="map together with again")
    runs = RunsFolder.begin(out, plan.header)
    with runs.held():
        waiting = [n for n, names in enumerate(runs.header.passes) if not _all_done(runs, names)]
        if map is None:
            for number in waiting:
                train_pass(lambda: plan, runs, number, lambda text: progress(text, 0, 1), progress)
        elif again is not None:
            progress("passes", 0, len(waiting))
            results = map(partial(_pass_elsewhere, again, Path(out).absolute(), threads), waiting)
            for done, _ in enumerate(results, 1):
                progress("passes", done, len(waiting))
        runs.tidy()
    progress("jobs", len(plan.jobs), len(plan.jobs))
    return runs


def training_device(device: str, engine: str | None) -> str:
    """Device that jobs are trained on: one here or, with an engine, the kind each job has."""
    if engine is None:
        return choose_device(device)
    if device not in {"cpu", "cuda", "auto"}:
        raise ParameterError(
            f"jobs of an engine cannot share {device}",
            where="`device`",
            allowed="auto, cpu, or cuda: each job has a GPU to itself",
            give=({"device": "auto"}, {"engine": None}),
        )
    require_packages()
    if device == "auto":
        # workers have the same packages; the kind of device is in the records of all jobs
        device = "cuda" if engine_of(engine).gpu_count() and _has_cuda() else "cpu"
    engine_of(engine, gpus=int(device == "cuda"))
    return device


def _has_cuda() -> bool:
    # imported only if there are GPUs: it takes seconds, and only workers train
    import torch

    built: bool = torch.backends.cuda.is_built()  # type: ignore[no-untyped-call]
    return built


def planned_for(plan: Plan, settings: ProbeSettings | TuneSettings, device: str) -> Plan:
    """The plan for another kind of device, which this machine need not have.

    What networks are fine-tuned on is in their record, and so in the identity of each job.
    """
    known_data = plan.header.data
    if "backbone" not in known_data or known_data["backbone"]["device"] == device:
        return plan
    data = {**known_data, "backbone": {**known_data["backbone"], "device": device}}
    renamed = {old: job.identity(settings, data) for old, job in plan.jobs.items()}
    jobs = {renamed[old]: job for old, job in plan.jobs.items()}
    passes = [[renamed[old] for old in names] for names in plan.header.passes]
    header = msgspec.structs.replace(plan.header, data=data, jobs=jobs, passes=passes)
    return replace(plan, header=header)


def _all_done(runs: RunsFolder, names: Sequence[str]) -> bool:
    return all(runs.is_done(name) for name in names)


def _pass_elsewhere(again: Callable[[], Plan], out: Path, threads: int | None, number: int) -> None:
    """Train a pass in a worker, from its last checkpoint if it has one."""
    with limited_threads(threads):
        # what it prints is in the log of the job
        train_pass(again, RunsFolder.open(out), number, print, no_progress)


def train_pass(
    make: Callable[[], Plan],
    runs: RunsFolder,
    number: int,
    tell: Callable[[str], None],
    progress: Progress,
) -> None:
    """Train a pass of a folder of runs, unless another process does or has done so."""
    names = runs.header.passes[number]
    with runs.training(names, lambda text: tell(f"pass {number + 1}: {text}")):
        # a lost job may have done everything except return its result
        if not _all_done(runs, names):
            _train(make(), runs, number, names, progress)
        runs.drop_checkpoint(names)


def _train(
    plan: Plan, runs: RunsFolder, number: int, names: Sequence[str], progress: Progress
) -> None:
    jobs = {runs.header.jobs[name]: name for name in names}
    trained = plan.begin(list(jobs))
    saved = runs.checkpoint(names)
    if saved is not None:
        trained.load_state_dict(saved)
    while not trained.finished:
        started = time.perf_counter()
        trained.step()
        runs.save_checkpoint(names, trained.state_dict())
        seconds, going = time.perf_counter() - started, len(jobs) - trained.n_stopped
        runs.note_time("epoch", seconds, of_pass=number, epoch=trained.epoch, going=going)
        where = f"pass {number + 1} of {len(runs.header.passes)}, epoch {trained.epoch}"
        progress(f"{where}, jobs that have stopped", trained.n_stopped, len(jobs))
    trained.refit(progress)
    outputs = {split: trained.logits(split) for split in ("valid", "test")}
    for place, job in enumerate(trained.jobs):
        if not runs.is_done(jobs[job]):
            mine = {split: values[place] for split, values in outputs.items()}
            _write(plan, runs, trained, place, jobs[job], mine)


def _write(
    plan: Plan,
    runs: RunsFolder,
    trained: Training,
    place: int,
    name: str,
    outputs: Mapping[str, NDArray[np.float32]],
) -> None:
    job, best = trained.jobs[place], int(trained.best_epochs[place])
    # JSON has no NaN
    history = [
        {"epoch": epoch, **{key: _finite(values[place]) for key, values in record.items()}}
        for epoch, record in enumerate(trained.history, 1)
        if np.isfinite(record["valid"][place]) or np.isfinite(record["train"][place])
    ]
    predictions, environments = None, []
    losses: tuple[float | None, float | None] = (None, None)
    own: tuple[float | None, float | None] = (None, None)
    if best:
        losses = _validation_losses(plan.training, job.task, outputs["valid"])
        variant, first = trained.settings.variant, trained.first_outputs(job)
        own = own_values(plan.training, job, outputs["valid"], variant, first)
        environments = _environment_losses(plan.training, job.task, outputs["valid"])
        frames = []
        for split, logits in outputs.items():
            ids = plan.data.images["image_id"].gather(plan.training.rows[split])
            frames.append(pl.DataFrame({"image_id": ids, "logit": logits, "split": split}))
        facts = {"task": job.task, "run": job.run, "method": job.method, "seed": job.seed}
        columns = {key: pl.lit(value) for key, value in facts.items()}
        predictions = pl.concat(frames).with_columns(**columns)
    data, settings, sees = runs.header.data, runs.header.settings, list(job.kind.sees)
    epochs = len(history)
    record = JobRecord(
        name, job, settings, data, sees, best, epochs, not best, environments, *losses, *own
    )

    def weights(folder: Path) -> None:
        if plan.keep_weights and best:
            trained.save(place, folder)

    runs.write_job(record, history, predictions, weights)


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _validation_losses(
    data: TrainingData, task: str, logits: NDArray[np.float32]
) -> tuple[float, float]:
    """Mean validation loss, and the loss of the best constant: the entropy of the labels."""
    labels = data.groups(task, "labels", "valid") > 0
    return nll(labels, logits.astype(np.float64)), constant_nll(int(labels.sum()), len(labels))


def _environment_losses(
    data: TrainingData, task: str, logits: NDArray[np.float32]
) -> list[float | None]:
    """Mean loss of the validation images of each environment."""
    if task not in data.environments:
        return []
    groups = data.groups(task, "environments", "valid")
    labels, values = data.groups(task, "labels", "valid") > 0, logits.astype(np.float64)
    present = [groups == number for number in range(data.n_environments)]
    return [nll(labels[rows], values[rows]) if rows.any() else None for rows in present]


_WIDEST = 10.0
"""Largest logit of a constant answer: 1 in 22,000."""
_AT_ONCE = 32
_ROUNDS = 4


def own_values(
    data: TrainingData,
    job: Job,
    logits: NDArray[np.float32],
    variant: str,
    first: Outputs | None = None,
) -> tuple[float, float]:
    """The method's own objective on all validation images, and its value for the best constant
    there.

    For methods that draw rows, and for those with a first or last stage, it is the mean loss with
    each image weighted as they weigh it. Learned weights of environments (online GDRO) are as they
    begin. The best constant is searched among logits of -10 to 10, to about .0002.

    ``logits``: its outputs for the validation images, float32 (n_valid,).
    """
    import torch

    heads = [job] * (1 + _AT_ONCE)
    labels, environments = (
        torch.from_numpy(values)[:, None].expand(-1, len(heads))
        for values in _own_targets(data, job)
    )
    weights = _own_weights(data, job, first)
    expected = None if weights is None else torch.from_numpy(weights)[:, None]
    own, middle, reach = torch.from_numpy(logits)[:, None], 0.0, _WIDEST
    values = torch.zeros(0)
    for _ in range(_ROUNDS):
        constants = torch.linspace(middle - reach, middle + reach, _AT_ONCE)
        outputs = torch.cat([own, constants.expand(len(own), -1)], dim=1)
        objective = objective_of(data, heads, variant)
        with torch.no_grad():
            inputs = outputs, labels, environments
            values = validation_value("objective", objective, inputs, expected, len(own))
        middle = float(constants[values[1:].argmin()])
        reach *= 2 / (_AT_ONCE - 1)
    return float(values[0]), float(values[1:].min())


def _own_targets(data: TrainingData, job: Job) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Labels and environments of the validation images; one environment if there are none."""
    labels = data.groups(job.task, "labels", "valid").astype(np.float32)
    if job.task not in data.environments:
        return labels, np.zeros(len(labels), np.int64)
    return labels, data.groups(job.task, "environments", "valid").astype(np.int64)


def _own_weights(data: TrainingData, job: Job, first: Outputs | None) -> NDArray[np.float32] | None:
    """Weight of each validation image, 1 on average, float32 (n_valid,); None for evenly."""
    even = None if job.kind.refit is None else job.kind.refit.even
    if even is None:
        return expected_of(data, job, first)
    groups = data.groups(job.task, even, "valid")
    counts = np.bincount(groups)
    weights: NDArray[np.float64] = 1 / counts[groups]
    return np.asarray(weights / weights.mean(), np.float32)


def status(runs: RunsFolder) -> dict[str, Any]:
    """Return the progress of a bench: jobs done and in all, by method, and passes with their
    epochs.
    """
    done = set(runs.done())
    methods: dict[str, list[int]] = {}
    for name, job in runs.header.jobs.items():
        count = methods.setdefault(job.method, [0, 0])
        count[0] += name in done
        count[1] += 1
    passes = []
    for names in runs.header.passes:
        saved, finished = runs.progress_of(names), sum(name in done for name in names)
        epochs, stopped = saved if saved is not None else (None, finished)
        passes.append({"jobs": len(names), "done": finished, "epochs": epochs, "stopped": stopped})
    return {
        "done": len(done),
        "jobs": len(runs.header.jobs),
        "methods": {m: {"done": d, "jobs": n} for m, (d, n) in methods.items()},
        "passes": passes,
    }
