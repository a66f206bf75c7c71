"""Runs and a suite -> scores of all jobs, and the settings that a rule chooses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from nooch.benching.bench_plan import identity_of
from nooch.challenge import Suite
from nooch.errors import InputError, ParameterError, UndefinedError, some_of
from nooch.evaluation import AVERAGE, Predictions, Scores, evaluate
from nooch.report.score_tables import average_label
from nooch.selection import select
from nooch.shared_types import Progress, no_progress
from nooch.training.methods import METHODS
from nooch.training.run_records import JobRecord, RunsFolder

__all__ = ["chosen_scores", "collect", "runs_predictions", "worse_note"]


def collect(
    runs: RunsFolder,
    suite: Suite,
    *,
    rules: Sequence[str] = ("worst-hard",),
    bootstrap: int = 0,
    progress: Progress = no_progress,
) -> tuple[Scores, pl.DataFrame, list[str]]:
    """Scores of all jobs that are done, on valid and test, and the settings that the rules choose.

    Returns:
        The scores, with ``worse_than_constant`` of the run on the task: whether its validation loss
            is
        above that of the best constant answer (null where that is not recorded); the table of
        ``nooch.selection.select``, with the number of seeds of which that is so; and notes: jobs
        that are missing, have diverged, or are worse than a constant.

    Raises:
        ParameterError: another suite than the one that was trained for.
        InputError: no job is done.
    """
    if runs.header.data["suite"] != identity_of(suite):
        raise ParameterError("the suite is not the one that was trained for", where=runs.path)
    done = runs.done()
    if not done:
        raise InputError(
            "no job is done",
            where=runs.path,
            remedy="run nooch bench again; it goes on where it was",
        )
    records = [runs.read_job(name) for name in done]
    kept = [record for record in records if not record.diverged]
    notes = (
        [f"{len(runs.header.jobs) - len(done)} of {len(runs.header.jobs)} jobs are not done"]
        if len(done) < len(runs.header.jobs)
        else []
    )
    notes += [f"job {r.id} diverged: {r.job.task}, {r.job.run}" for r in records if r.diverged]
    notes += worse_note((r.job.method, r.job.setting, r.worse_than_constant) for r in kept)
    predictions = runs_predictions(runs, kept, progress)
    splits = [split for split in ("valid", "test") if split in suite.splits]
    scores = evaluate(
        suite,
        predictions,
        split=splits,
        bootstrap=bootstrap,
        ignore_unknown=True,
        progress=progress,
    )
    settings = pl.DataFrame([_setting(record) for record in kept], schema=_SETTING)
    blind = settings["environment"].null_count() == settings.height
    usable = [rule for rule in rules if rule != "worst-environment" or not blind]
    if not usable:
        raise UndefinedError(
            "rule worst-environment: no job has environments",
            where=runs.path,
            allowed="tasks with a context cue",
            remedy="choose by another rule",
        )
    notes += [
        f"rule {rule} is left out: no job has environments" for rule in rules if rule not in usable
    ]
    # differences from whatever run comes first say nothing here
    worse = settings.select("run", "task", "worse_than_constant")
    table = scores.table.join(worse, on=["run", "task"], how="left", maintain_order="left")
    alone = replace(scores, table=table, differences=scores.differences.clear())
    known = pl.col("worse_than_constant")
    counted = settings.group_by("task", "method", "setting").agg(
        pl.when(known.null_count() == 0)
        .then(known.sum().cast(pl.Int64))
        .alias("worse_than_constant")
    )
    chosen = select(scores.table, settings, usable)
    return (
        alone,
        chosen.join(counted, on=counted.columns[:3], how="left", maintain_order="left"),
        notes,
    )


def worse_note(runs: Iterable[tuple[str, str, bool | None]]) -> list[str]:
    """A note on the runs that are worse than a constant answer, by method and setting; none where
    there are none.

    Args:
        runs: (method, setting, whether it is worse or None where that is not recorded) of each job.
    """
    of_setting: dict[str, list[bool]] = {}
    unknown = 0
    for method, setting, worse in runs:
        unknown += worse is None
        if worse is not None:
            of_setting.setdefault(" ".join(filter(None, (method, setting))), []).append(worse)
    listed = [
        f"{name} {found.count(True)} of {len(found)}"
        for name, found in of_setting.items()
        if True in found
    ]
    n, known = (sum(map(of, of_setting.values())) for of in (sum, len))
    text = (
        f"{n} of {known} jobs are worse than a constant: their validation NLL is above the entropy"
        f" of the validation labels ({some_of(listed, 8)}); of methods that weigh images otherwise,"
        " docs/bench.md says more"
    )
    older = (
        f"; of {unknown} jobs, trained by an earlier version, it is not recorded" if unknown else ""
    )
    return [text + older] if n else []


_SETTING = {
    "run": pl.String, "task": pl.String, "method": pl.String, "setting": pl.String, "seed": pl.Int64, "sees": pl.String,
    "environment": pl.Float64, "worse_than_constant": pl.Boolean,
}  # fmt: skip


def _setting(record: JobRecord) -> dict[str, Any]:
    job = record.job
    known = [value for value in record.environments if value is not None]
    return {
        "run": job.run, "task": job.task, "method": job.method, "setting": job.setting, "seed": job.seed,
        "sees": ", ".join(record.sees) or "nothing", "environment": max(known) if known else None,
        "worse_than_constant": record.worse_than_constant,
    }  # fmt: skip


def runs_predictions(
    runs: RunsFolder, records: Sequence[JobRecord], progress: Progress = no_progress
) -> list[Predictions]:
    """Jobs of one method, setting and seed as one run over their tasks."""
    of_run: dict[str, list[JobRecord]] = {}
    for record in records:
        of_run.setdefault(record.job.run, []).append(record)
    found = []
    for number, (run, members) in enumerate(of_run.items(), 1):
        frames = [runs.predictions(record.id) for record in members]
        ids = frames[0]["image_id"]
        for record, frame in zip(members, frames, strict=True):
            if not frame["image_id"].equals(ids):
                raise InputError(
                    "has other images than the jobs beside it", where=runs.path / "jobs" / record.id
                )
        values = np.array([frame["logit"].to_numpy() for frame in frames], dtype=np.float64)
        job = members[0].job
        found.append(
            Predictions(
                run, ids, tuple(r.job.task for r in members), values, "logit", job.method, job.seed
            )
        )
        progress("reading predictions", number, len(of_run))
    return found


def chosen_scores(
    scores: Scores, selected: pl.DataFrame, split: str = "test"
) -> list[tuple[str, list[str], list[list[Any]]]]:
    """For each rule and criterion a table: AUC on hard and easy images of the chosen settings, mean
    (sd) over seeds by task and method.

    Returns:
        (title, columns, rows); the last row is the mean over those tasks in which every method has
        both values, the same ones for both tables.
    """
    found = []
    plain = scores.table.filter(
        pl.col("cue").is_null() & pl.col("group").is_null(), metric="auc", split=split
    )
    for (rule, criterion), chosen in selected.partition_by(
        ["rule", "criterion"], as_dict=True, maintain_order=True
    ).items():
        runs = plain.with_columns(setting=_setting_of(pl.col("run"))).join(
            chosen, on=["criterion", "task", "method", "setting"], how="semi"
        )
        there = runs["method"].unique(maintain_order=True).to_list()
        own = runs.filter(pl.col("subset").is_in(["hard", "easy"]), criterion=criterion)
        values = own.group_by("task", "method", "subset", maintain_order=True).agg(
            known=pl.col("value").null_count() == 0
        )
        counted = (
            values.filter("known")
            .group_by("task", maintain_order=True)
            .len()
            .filter(pl.col("len") == 2 * len(there))
        )
        averaged = counted["task"].to_list()
        n_tasks = plain.filter(pl.col("task") != AVERAGE, criterion=criterion)["task"].n_unique()
        for subset in ("hard", "easy"):
            means = runs.filter(subset=subset, criterion=criterion).group_by("task", "method", maintain_order=True).agg(
                pl.col("value").mean(), sd=pl.col("value").std(ddof=1)
            )  # fmt: skip
            # a method of one's own is in no table; it comes last
            methods = sorted(
                there,
                key=lambda name: list(METHODS).index(name) if name in METHODS else len(METHODS),
            )
            cells = {(task, method): (value, sd) for task, method, value, sd in means.rows()}
            tasks = list(dict.fromkeys(means["task"].to_list()))
            rows: list[list[Any]] = [
                [task, *(_mean_sd(cells.get((task, method))) for method in methods)]
                for task in tasks
            ]
            averages = [[cells[task, m][0] for task in averaged] for m in methods]
            means_of = (_mean_sd((float(np.mean(a)), None)) if averaged else "–" for a in averages)
            rows.append([average_label([len(averaged)], n_tasks), *means_of])
            found.append(
                (
                    f"AUC on {subset} {criterion} images ({split}), settings chosen by {rule}",
                    ["task", *methods],
                    rows,
                )
            )
    return found


def _setting_of(run: pl.Expr) -> pl.Expr:
    """The part of a run's name between method and seed."""
    parts = run.str.split("/")
    return (
        pl.when(parts.list.len() == 3)
        .then(parts.list.get(1, null_on_oob=True))
        .otherwise(pl.lit(""))
    )


def _mean_sd(cell: tuple[float | None, float | None] | None) -> str:
    if cell is None or cell[0] is None:
        return "–"
    return f"{cell[0]:.3f}" + (f" ({cell[1]:.3f})" if cell[1] is not None else "")
