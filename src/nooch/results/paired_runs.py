"""A folder of runs -> methods with their chosen settings against each other, image by image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from nooch.challenge import Suite
from nooch.errors import InputError, ParameterError, check_one_of
from nooch.evaluation import AVERAGE, Predictions, Scores
from nooch.evaluation.method_differences import paired
from nooch.metrics import METRICS
from nooch.results.result_cells import in_order
from nooch.results.run_results import Results, roles_of, suite_of
from nooch.shared_types import Progress, no_progress
from nooch.training.run_records import RUNS_MARKER, RunsFolder

__all__ = ["paired_results", "paired_runs"]


def paired_runs(
    runs: RunsFolder,
    suites: Sequence[Suite],
    results: Results,
    criterion: str,
    *,
    baseline: str = "all",
    roles: Mapping[str, str] | None = None,
    metrics: Sequence[str] = METRICS,
    split: str = "test",
    bootstrap: int = 1000,
    seed: int = 0,
    strict: bool = False,
    progress: Progress = no_progress,
) -> Scores:
    """Paired bootstrap between the methods of results, each with the settings that these say.

    Args:
        runs: what was trained; ``results`` are those of ``read_results`` of it.
        suites: one of them was trained for.
        results: they tell settings, tasks and methods.
        criterion: as it is called in the results.
        baseline: a method that the others are compared with; ``all`` for every pair.
        roles: kind of criterion -> name of the criterion that stands for it, as for
            ``read_results``.
        metrics: see ``nooch.evaluation.method_differences.paired``, as for the others.
        split: whose images; that of the results.
        bootstrap: number of resamples.
        seed: of the resamples.
        strict: of averages, as for the others.
        progress: called with what is being done, and how much of how much is done.

    Raises:
        ParameterError: no results under the criterion, or none of the baseline.
        InputError: a method has runs of different seeds on different tasks.
    """
    suite = suite_of(runs, suites)
    names = {role: name for name, role in roles_of(_places(suite), [suite], roles or {}).items()}
    cells = results.cells.filter((pl.col("task") != AVERAGE) & pl.col("setting").is_not_null())
    check_one_of("criterion", criterion, cells["criterion"].unique().to_list(), owner="the results")
    chosen = (
        cells.filter(criterion=criterion)
        .select("task", "method", "setting")
        .unique(maintain_order=True)
    )
    methods = in_order(chosen["method"])
    if baseline != "all":
        check_one_of("method", baseline, methods, owner="the results")
    predictions = {
        m: _of_method(runs, m, dict(chosen.filter(method=m).select("task", "setting").rows()))
        for m in methods
    }
    return paired(
        suite,
        names.get(criterion, criterion),
        predictions,
        baselines=methods if baseline == "all" else [baseline],
        metrics=metrics,
        split=split,
        bootstrap=bootstrap,
        seed=seed,
        strict=strict,
        progress=progress,
    )


def paired_results(
    sources: Sequence[str | Path],
    suites: Sequence[Suite],
    results: Results,
    criteria: Sequence[str],
    **options: Any,
) -> list[Scores]:
    """``paired_runs`` of several folders, under those of the criteria that each has results of.

    Raises:
        ParameterError: a source that is no folder of runs has no predictions to resample.
    """
    found = []
    for source in sources:
        if not (Path(source) / RUNS_MARKER).is_file():
            raise ParameterError(
                "has no predictions to resample",
                where=source,
                allowed=f"`paired` with folders of runs ({RUNS_MARKER})",
            )
        runs = RunsFolder.open(source)
        places = _places(suite_of(runs, suites))
        roles = roles_of(places, [suite_of(runs, suites)], options.get("roles") or {})
        here = [name for name in dict.fromkeys(roles.values()) if name in criteria]
        found += [paired_runs(runs, suites, results, name, **options) for name in here]
    return found


def _places(suite: Suite) -> pl.DataFrame:
    schema = {"criterion": pl.String, "task": pl.String}
    return pl.DataFrame([key[:2] for key in suite.keys], schema=schema, orient="row").unique(
        maintain_order=True
    )


def _of_method(runs: RunsFolder, method: str, settings: dict[str, str]) -> list[Predictions]:
    """Predictions of a method's chosen runs, one for each seed, over all its tasks."""
    of_seed: dict[int, dict[str, pl.DataFrame]] = {}
    for name in runs.done():
        job = runs.header.jobs[name]
        if (
            job.method == method
            and settings.get(job.task) == job.setting
            and not runs.read_job(name).diverged
        ):
            of_seed.setdefault(job.seed, {})[job.task] = runs.predictions(name)
    found = []
    for number, frames in sorted(of_seed.items()):
        ids = next(iter(frames.values()))["image_id"]
        if not all(frame["image_id"].equals(ids) for frame in frames.values()):
            raise InputError(
                "its jobs have different images", where=f"{runs.path}, {method}, seed {number}"
            )
        values = np.array(
            [frame["logit"].to_numpy() for frame in frames.values()], dtype=np.float64
        )
        found.append(
            Predictions(f"{method}/{number}", ids, tuple(frames), values, "logit", method, number)
        )
    if not found:
        raise ParameterError(f"there are no predictions of {method}", where=runs.path)
    return found
