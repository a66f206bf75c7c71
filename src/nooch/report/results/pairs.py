"""Methods against each other, image by image: which two, and runs with their chosen settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from nooch.base.errors import ParameterError, check_one_of
from nooch.evaluation import AVERAGE, Predictions, Scores
from nooch.evaluation.differences import paired
from nooch.report.results.cells import in_order
from nooch.report.results.collect import runs_predictions
from nooch.report.results.run_results import Results, roles_of, suite_of
from nooch.suites import Suite
from nooch.training.records import RUNS_MARKER, RunsFolder


def checked_pair(pair: Sequence[str] | None, methods: Sequence[str]) -> tuple[str, str] | None:
    """The two methods to compare, the baseline first, or None where none are named. Raises
    ParameterError: not two different methods that have losses of images.
    """
    if pair is None:
        return None
    if len(pair) != 2 or pair[0] == pair[1]:
        text = f"methods are {', '.join(pair) or 'none'}"
        raise ParameterError(text, allowed="two different methods")
    baseline, rival = (check_one_of("method with losses of images", m, methods) for m in pair)
    return baseline, rival


def baseline_of(methods: Sequence[str], pair: tuple[str, str] | None = None) -> str | None:
    """The baseline: the first of a pair; else ERM; else the first method."""
    if pair is not None:
        return pair[0]
    return "erm" if "erm" in methods else methods[0] if methods else None


def rival_of(
    results: Results | None,
    criterion: str,
    methods: Sequence[str],
    pair: tuple[str, str] | None = None,
) -> str | None:
    """The second of a pair; else the method with the best average AUC on hard images."""
    if pair is not None:
        return pair[1]
    baseline = baseline_of(methods)
    others = [method for method in methods if method != baseline]
    if results is None or not others:
        return others[0] if others else None
    place = {"criterion": criterion, "metric": "auc", "subset": "hard", "task": AVERAGE}
    rows = results.cells.filter(pl.col("method").is_in(others), **place).drop_nulls("mean")
    best = rows.sort("mean", descending=True, maintain_order=True)["method"]
    return str(best[0]) if len(best) else others[0]


def paired_results(
    sources: Sequence[str | Path],
    suites: Sequence[Suite],
    results: Results,
    criteria: Sequence[str],
    *,
    baseline: str = "all",
    roles: Mapping[str, str] | None = None,
    how: Mapping[str, Any] | None = None,
) -> list[Scores]:
    """Paired bootstrap between the methods of results, each with the settings chosen for it.

    ``how``: keywords of ``paired``.
    """
    pairs = []
    for source in sources:
        if not (Path(source) / RUNS_MARKER).is_file():
            allowed = f"`paired` with folders of runs ({RUNS_MARKER})"
            raise ParameterError("has no predictions to resample", where=source, allowed=allowed)
        runs = RunsFolder.open(source)
        suite = suite_of(runs, suites)
        called = roles_of((key[0] for key in suite.keys), [suite], roles or {})
        for role, name in {role: name for name, role in called.items()}.items():
            if role in criteria:
                predictions = _chosen_predictions(runs, results, role)
                baselines = list(predictions)
                if baseline != "all":
                    baselines = [check_one_of("method", baseline, baselines, owner="the results")]
                pairs.append(paired(suite, name, predictions, baselines=baselines, **how or {}))
    return pairs


def _chosen_predictions(
    runs: RunsFolder, results: Results, criterion: str
) -> dict[str, list[Predictions]]:
    """Predictions of each method's chosen runs, one for each seed, over all its tasks."""
    cells = results.cells.filter(pl.col("task") != AVERAGE).drop_nulls("setting")
    check_one_of("criterion", criterion, cells["criterion"].unique().to_list(), owner="the results")
    chosen_cells = cells.filter(criterion=criterion).select("task", "method", "setting")
    jobs, settings = runs.header.jobs, set(chosen_cells.rows())
    done = [n for n in runs.done() if (jobs[n].task, jobs[n].method, jobs[n].setting) in settings]
    records = [record for record in map(runs.read_job, done) if not record.diverged]
    records.sort(key=lambda record: record.job.seed)
    predictions = {}
    for method in in_order(chosen_cells["method"]):
        mine = [record for record in records if record.job.method == method]
        if not mine:
            raise ParameterError(f"there are no predictions of {method}", where=runs.path)
        # the settings of a method differ by task: its runs are named only by seed
        predictions[method] = runs_predictions(runs, mine, lambda job: f"{job.method}/{job.seed}")
    return predictions
