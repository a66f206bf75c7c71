"""Runs and a suite -> scores of all jobs, and the settings that a rule chooses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from nooch.base.calls import Progress, no_progress
from nooch.base.errors import (
    Command,
    InputError,
    ParameterError,
    UndefinedError,
    check_one_of,
    some_of,
)
from nooch.base.split_plan import LOSS_SPLIT
from nooch.evaluation import Predictions, Scores, class_losses, evaluate, load_predictions
from nooch.evaluation.scores import Resamples
from nooch.report.results.cells import sight
from nooch.suites import Suite
from nooch.training.bench.plan import identity_of
from nooch.training.jobs import Job
from nooch.training.records import RUNS_MARKER, JobRecord, RunsFolder
from nooch.training.selection import RULES, select

_WORSE = "worse_than_constant"
_TOGETHER = 512
"""Jobs whose outputs are in memory at once, where settings are chosen."""
_SETTING = dict.fromkeys(("run", "task", "method", "setting"), pl.String) | {
    "seed": pl.Int64, "sees": pl.String, "environment": pl.Float64, _WORSE: pl.Boolean
}  # fmt: skip


def score_runs(
    runs: RunsFolder,
    suite: Suite,
    *,
    rules: Sequence[str] = ("worst-hard",),
    bootstrap: Resamples = 0,
    chosen_on: str | None = None,
    progress: Progress = no_progress,
) -> tuple[Scores, pl.DataFrame, list[str]]:
    """Scores of all jobs that are done, on valid and test, and the settings that the rules choose.

    Args:
        runs: the folder.
        suite: that was trained for.
        rules: ``worst-hard`` (the paper's, the default), ``mean``, ``easy``, ``auc-hard``,
            ``worst-environment`` or ``oracle``.
        bootstrap: resamples for intervals of the scores.
        chosen_on: a split: only the chosen jobs are scored, on this split; of the others no more is
            computed than the rules need.
        progress: called with what is being done, and how much of how much is done.

    Returns:
        The scores, with ``worse_than_constant`` of the run on the task: whether the best
        constant answer is better by the method's own objective on the validation images (null where
        that is not recorded); the table of
        ``training.selection.select``, with the number of seeds of which that is so; and notes: jobs
        that are missing, have diverged, or are worse than a constant.

    Raises:
        ParameterError: another suite than the one that was trained for.
        InputError: no job is done.
        UndefinedError: no rule can choose, because no job has environments.
    """
    if runs.header.data["suite"] != identity_of(suite):
        raise ParameterError("the runs were trained for another suite", where=runs.path)
    done, total = runs.done(), len(runs.header.jobs)
    if not done:
        remedy = "run nooch train bench again; it resumes"
        raise InputError("no job is done", where=runs.path, remedy=remedy)
    records = [runs.read_job(name) for name in done]
    trained = [record for record in records if not record.diverged]
    notes = [f"{total - len(done)} of {total} jobs are not done"] if len(done) < total else []
    notes += [f"job {r.id} diverged: {r.job.task}, {r.job.run}" for r in records if r.diverged]
    notes += worse_note((r.job.method, r.job.setting, bool(r.worse_than_constant)) for r in trained)
    settings = pl.DataFrame([_setting(record) for record in trained], schema=_SETTING)
    usable = _usable(rules, settings, runs)
    notes += [f"rule {r} is left out: no job has environments" for r in rules if r not in usable]
    # differences from the run that happens to come first mean nothing here
    score = partial(evaluate, suite, differences=False, reading={"ignore_unknown": True})
    splits: list[str] = [split for split in ("valid", "test") if split in suite.splits]
    if chosen_on is not None:
        needed = {RULES[rule][0] for rule in usable}.intersection(splits) or splits
        tables = _rule_scores(runs, score, trained, sorted(needed), progress)
        chosen_jobs = select(tables, settings, usable)
        places = set(chosen_jobs.select("task", "method", "setting").rows())
        mine = [r for r in trained if (r.job.task, r.job.method, r.job.setting) in places]
        # one has scores even where no setting was chosen
        trained = mine or trained[:1]
        splits = [chosen_on]
    predictions = runs_predictions(runs, trained, progress=progress)
    scores = score(predictions, split=splits, bootstrap=bootstrap, progress=progress)
    if chosen_on is None:
        chosen_jobs = select(scores.table, settings, usable)
    key = ["task", "method", "setting"]
    is_complete = pl.col(_WORSE).null_count() == 0
    counts = settings.group_by(key).agg(
        pl.when(is_complete).then(pl.col(_WORSE).sum().cast(pl.Int64))
    )
    chosen_jobs = chosen_jobs.join(counts, on=key, how="left", maintain_order="left")
    worse = settings.select("run", "task", _WORSE)
    table = scores.table.join(worse, on=["run", "task"], how="left", maintain_order="left")
    return replace(scores, table=table), chosen_jobs, notes


def _rule_scores(
    runs: RunsFolder,
    score: Callable[..., Scores],
    records: Sequence[JobRecord],
    splits: Sequence[str],
    progress: Progress,
) -> pl.DataFrame:
    """Scores that rules need, of some hundred jobs at a time, in the order of their runs."""
    numbers = {run: n for n, run in enumerate(dict.fromkeys(r.job.run for r in records))}
    ordered, tables = sorted(records, key=lambda record: numbers[record.job.run]), []
    for start in range(0, max(1, len(ordered)), _TOGETHER):
        predictions = runs_predictions(runs, ordered[start : start + _TOGETHER])
        tables.append(score(predictions, split=splits, metrics=("auc", "nll")).table)
        progress("choosing settings", min(start + _TOGETHER, len(ordered)), len(ordered))
    return pl.concat(tables)


def _usable(rules: Sequence[str], settings: pl.DataFrame, runs: RunsFolder) -> list[str]:
    """The rules that can choose among these jobs."""
    blind = settings["environment"].null_count() == settings.height
    usable = [rule for rule in rules if rule != "worst-environment" or not blind]
    if not usable:
        problem = "rule worst-environment: no job has environments"
        raise UndefinedError(problem, where=runs.path, give={"rules": "worst-hard"})
    return usable


def worse_note(runs: Iterable[tuple[str, str, bool]]) -> list[str]:
    """A note on the runs that are worse than a constant answer, by method and setting, if any are.

    Runs are (method, setting, whether it is worse).
    """
    of_setting: dict[str, list[bool]] = {}
    for method, setting, worse in runs:
        of_setting.setdefault(" ".join(filter(None, (method, setting))), []).append(worse)
    listed = [f"{name} {sum(w)} of {len(w)}" for name, w in of_setting.items() if any(w)]
    n, n_settings = (sum(map(reduce, of_setting.values())) for reduce in (sum, len))
    text = (
        f"{n} of {n_settings} jobs are worse than a constant: by the method's own objective, one"
        f" answer for all validation images would do better ({some_of(listed, 8)})"
    )
    return [text] if n else []


def _setting(record: JobRecord) -> dict[str, Any]:
    job = record.job
    groups = [value for value in record.environments if value is not None]
    values = (job.run, job.task, job.method, job.setting, job.seed, sight(record.sees))
    losses = (max(groups, default=None), record.worse_than_constant)
    return dict(zip(_SETTING, values + losses, strict=True))


def runs_predictions(
    runs: RunsFolder,
    records: Sequence[JobRecord],
    name: Callable[[Job], str] = lambda job: job.run,
    progress: Progress = no_progress,
) -> list[Predictions]:
    """Jobs of one method and seed as one run over their tasks: those with the same ``name``, by
    default method, setting and seed. Raises InputError if they have different images.
    """
    of_run: dict[str, list[JobRecord]] = {}
    for record in records:
        of_run.setdefault(name(record.job), []).append(record)
    predictions = []
    for number, (run, members) in enumerate(of_run.items(), 1):
        ids, values = runs.outputs([record.id for record in members])
        tasks = tuple(record.job.task for record in members)
        job = members[0].job
        predictions.append(Predictions(run, ids, tasks, values, "logit", job.method, job.seed))
        progress("reading predictions", number, len(of_run))
    return predictions


def losses_by_class(
    suite: Suite,
    source: Any,
    *,
    split: str = LOSS_SPLIT,
    method: str = "erm",
    scale: str | None = None,
) -> pl.DataFrame:
    """``nooch.evaluation.class_losses`` of predictions, or of a folder of runs.

    Args:
        suite: the suite.
        source: predictions, or a folder of runs.
        split: split of the images.
        method: for a folder of runs, the method whose jobs are used, over all seeds.
        scale: of predictions, as for ``nooch.load_predictions``.
    """
    if isinstance(source, str | Path) and (Path(source) / RUNS_MARKER).is_file():
        runs = _of_method(RunsFolder.open(source), method)
    else:
        runs = load_predictions(source, suite, scale=scale)
    return class_losses(suite, runs, split=split)


def _of_method(runs: RunsFolder, method: str) -> list[Predictions]:
    methods = sorted({job.method for job in runs.header.jobs.values()})
    check_one_of("method", method, methods, owner=str(runs.path))
    mine = {name: job for name, job in runs.header.jobs.items() if job.method == method}
    settings = sorted({job.setting for job in mine.values()})
    if len(settings) > 1:
        problem = f"method {method} has {len(settings)} settings: {', '.join(settings)}"
        raise InputError(problem, where=runs.path, allowed="one setting")
    missing = [name for name in mine if not runs.is_done(name)]
    if missing:
        problem = f"{len(missing)} of {len(mine)} jobs of {method} are not done"
        again = Command("train bench")
        raise InputError(problem, where=runs.path, remedy="{} again, which resumes", give=again)
    records = [runs.read_job(name) for name in mine]
    return runs_predictions(runs, [record for record in records if not record.diverged])
