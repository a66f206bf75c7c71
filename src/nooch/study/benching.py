"""A plan -> trained jobs, each with its record and predictions; interrupted or killed, it goes on where it was."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.errors import ParameterError
from nooch.metrics import nll
from nooch.study.planning import Plan, Training
from nooch.training.records import JobRecord, RunsFolder
from nooch.training.tasks import TrainingData

__all__ = ["bench", "status"]

Progress = Callable[[str, int, int], None]
Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]


def bench(
    plan: Plan,
    out: str | Path,
    *,
    map: Map | None = None,
    again: Callable[[], Plan] | None = None,
    progress: Progress = lambda _w, _d, _t: None,
) -> RunsFolder:
    """Train all jobs of a plan that are not done, and keep their predictions.

    A pass is saved after every epoch: a bench that was interrupted or killed goes on there and ends with the same bytes.

    Args:
        plan: what to train.
        out: folder of runs, which workers must see.
        map: where passes are trained, such as an engine's; by default here, one after another.
        again: with ``map``, gives the plan in a worker, so that data are read there and not sent.
        progress: called with what is being done, and how much of how much is done.

    Raises:
        OutputError: the folder holds something else, or runs of another configuration.
        ParameterError: ``map`` without ``again``.
    """
    if map is not None and again is None:
        raise ParameterError("workers need to know how to make the plan", allowed="map together with again")
    runs = RunsFolder.begin(out, plan.header)
    waiting = [n for n, names in enumerate(runs.header.passes) if not all(runs.is_done(name) for name in names)]
    if map is None:
        for number in waiting:
            _train(plan, runs, number, runs.header.passes[number], progress)
    elif again is not None:
        results = map(partial(_pass_elsewhere, again, Path(out).absolute()), waiting)
        for done, _ in enumerate(results, 1):
            progress("passes", done, len(waiting))
    for names in runs.header.passes:
        runs.drop_checkpoint(names)
    progress("jobs", len(plan.jobs), len(plan.jobs))
    return runs


def _pass_elsewhere(again: Callable[[], Plan], out: Path, number: int) -> None:
    """Train a pass in a worker, from its last checkpoint if it has one."""
    runs = RunsFolder.open(out)
    names = runs.header.passes[number]
    # one that was lost may have finished all but its answer
    if not all(runs.is_done(name) for name in names):
        _train(again(), runs, number, names, lambda _what, _done, _total: None)
    runs.drop_checkpoint(names)


def _train(plan: Plan, runs: RunsFolder, number: int, names: Sequence[str], progress: Progress) -> None:
    jobs = {runs.header.jobs[name]: name for name in names}
    trained = plan.begin(list(jobs))
    saved = runs.checkpoint(names)
    if saved is not None:
        trained.load_state_dict(saved)
    while not trained.finished:
        started = time.perf_counter()
        trained.step()
        runs.save_checkpoint(names, trained.state_dict())
        seconds = time.perf_counter() - started
        runs.note_time("epoch", seconds, of_pass=number, epoch=trained.epoch, going=len(jobs) - trained.n_stopped)
        what = f"pass {number + 1} of {len(runs.header.passes)}, epoch {trained.epoch}, jobs that have stopped"
        progress(what, trained.n_stopped, len(jobs))
    trained.refit()
    outputs = {split: trained.logits(split) for split in ("valid", "test")}
    for place, job in enumerate(trained.jobs):
        if not runs.is_done(jobs[job]):
            mine = {split: values[place] for split, values in outputs.items()}
            _write(plan, runs, trained, place, jobs[job], mine)


def _write(
    plan: Plan, runs: RunsFolder, trained: Training, place: int, name: str, outputs: Mapping[str, NDArray[np.float32]]
) -> None:
    job, best = trained.jobs[place], int(trained.best_epochs[place])
    history = [
        {"epoch": epoch, **{key: float(values[place]) for key, values in record.items()}}
        for epoch, record in enumerate(trained.history, 1)
        if np.isfinite(record["valid"][place]) or np.isfinite(record["train"][place])
    ]
    predictions, environments = None, []
    if best:
        frames = []
        environments = _by_environment(plan.training, job.task, outputs["valid"])
        for split, logits in outputs.items():
            ids = plan.data.images["image_id"].gather(plan.training.rows[split])
            frames.append(pl.DataFrame({"image_id": ids, "logit": logits}).with_columns(split=pl.lit(split)))
        predictions = pl.concat(frames).with_columns(
            task=pl.lit(job.task), run=pl.lit(job.run), method=pl.lit(job.method), seed=pl.lit(job.seed)
        )
    record = JobRecord(
        name,
        job,
        runs.header.settings,
        runs.header.data,
        list(job.kind.sees),
        best,
        len(history),
        not best,
        environments,
    )
    # JSON has no NaN
    lines = [{key: value if np.isfinite(value) else None for key, value in line.items()} for line in history]

    def weights(folder: Path) -> None:
        if plan.keep_weights and best:
            trained.save(place, folder)

    runs.write_job(record, lines, predictions, weights)


def _by_environment(data: TrainingData, task: str, logits: NDArray[np.float32]) -> list[float | None]:
    """Mean loss of the validation images of each environment."""
    if task not in data.environments:
        return []
    groups, labels = data.groups(task, "environments", "valid"), data.groups(task, "labels", "valid") > 0
    values = logits.astype(np.float64)
    present = [groups == number for number in range(data.n_environments)]
    return [nll(labels[rows], values[rows]) if rows.any() else None for rows in present]


def status(runs: RunsFolder) -> dict[str, Any]:
    """How far a bench is: jobs done and all, by method, and passes with their epochs."""
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
