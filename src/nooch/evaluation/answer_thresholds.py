"""The probability above which an answer is positive: a number, by task, or chosen on valid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import logit

from nooch.challenge import ChallengeSet, Suite
from nooch.data import class_name
from nooch.data.disk_tables import checked_read, read_table
from nooch.errors import InputError, ParameterError, check_one_of, some_of
from nooch.evaluation.aligned_predictions import Aligned
from nooch.evaluation.predictions import Predictions
from nooch.metrics import stable_order
from nooch.metrics.pointwise import probabilities
from nooch.yaml_files import read_yaml

__all__ = ["AnswerThreshold", "RunThresholds", "answer_thresholds", "best_threshold"]

AnswerThreshold = float | str | Path | Mapping[str, float]
"""A number, numbers by task, a file of those, or ``valid``."""
RunThresholds = dict[str, dict[str, float]]
"""Run -> task -> threshold."""

_CHOSEN = "valid"
_ALLOWED = "0 to 1 (a probability), a file of thresholds by task, or valid"


def answer_thresholds(
    threshold: AnswerThreshold, suite: Suite, runs: Sequence[Predictions], tasks: Sequence[str]
) -> tuple[RunThresholds, list[str]]:
    """The threshold of each run and task, and notes that state them.

    Args:
        threshold: a number; task -> number, or a file of this (``.json``, ``.yaml``, or a table
            with the columns ``task`` and ``threshold``); or ``valid``: for each run and task the
            threshold of the largest balanced accuracy on the validation split.
        suite: the suite.
        runs: the predictions.
        tasks: those that are scored.

    Raises:
        ParameterError: a number outside [0, 1], an unknown task, one without a threshold, a suite
            without validation split.
        InputError: a file that cannot be read; ``valid``, where predictions of it are missing or
            the suite holds hard images alone.
    """
    if threshold == _CHOSEN:
        chosen = _chosen(suite, runs, tasks)
        notes = [
            f"answers of {run} are positive above probabilities chosen on {_CHOSEN}:"
            f" {_listed(of_tasks)}"
            for run, of_tasks in chosen.items()
        ]
        return chosen, notes
    try:
        number = float(threshold)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        given = threshold if isinstance(threshold, Mapping) else _read(Path(str(threshold)))
        by_task = _checked(given, suite, tasks)
        note = f"answers are positive above these probabilities: {_listed(by_task)}"
    else:
        _check_range(number)
        by_task, note = (
            dict.fromkeys(tasks, number),
            f"answers are positive above the probability {number:g}",
        )
    return {run.run: by_task for run in runs}, [note]


def best_threshold(labels: NDArray[np.bool_], values: NDArray[np.float64], scale: str) -> float:
    """The threshold on the probability of the largest balanced accuracy; 0.5 for one class.

    Candidates are 0.5 and the middles between neighboring probabilities, 0 and 1 among them; of
    several best ones the nearest to 0.5 is taken, of two as near the lower.

    Args:
        labels: bool (n,).
        values: float64 (n,), finite; logits, or probabilities of being positive.
        scale: ``logit`` or ``probability``.
    """
    n, n_positive = len(labels), int(labels.sum())
    order = stable_order(values)
    known = np.concatenate([[0.0], np.unique(probabilities(values, scale)), [1.0]])
    candidates = np.unique(np.append((known[1:] + known[:-1]) / 2, 0.5))
    bounds = candidates if scale == "probability" else logit(candidates)
    not_above = np.searchsorted(values[order], bounds, "right")
    missed = np.concatenate([[0], np.cumsum(labels[order])])[not_above]
    hits, claims = n_positive - missed, n - not_above
    # recall - FPR, times the counts of both classes: integers, so that ties are exact
    gain = hits * (n - n_positive) - (claims - hits) * n_positive
    best = candidates[gain == gain.max()]
    return float(best[np.argmin(np.abs(best - 0.5))])


def _chosen(suite: Suite, runs: Sequence[Predictions], tasks: Sequence[str]) -> RunThresholds:
    check_one_of("split", _CHOSEN, suite.splits, owner="the suite")
    suite.require_easy(f"a threshold chosen on {_CHOSEN}")
    chosen: RunThresholds = {run.run: {} for run in runs}
    for task in tasks:
        images = _validation_images(suite, task)
        for run in [run for run in runs if task in run.tasks]:
            try:
                aligned = Aligned(run, images.image_ids, _CHOSEN)
                values = aligned.values(task, slice(None), images)
            except InputError as error:
                raise InputError(
                    f"no threshold can be chosen on {_CHOSEN}: {error.problem}",
                    where=error.where,
                    allowed=f"predictions of {_CHOSEN} for every task",
                    remedy="predict this split as well, or give `threshold` a number or a file",
                ) from error
            chosen[run.run][task] = best_threshold(images.labels, values, run.scale)
    return chosen


def _validation_images(suite: Suite, task: str) -> ChallengeSet:
    """The images of valid on which any criterion has a verdict, whether hard or easy."""
    sets = [suite.set(*key) for key in suite.keys if key[1:] == (task, _CHOSEN)]
    rows = pl.concat(pl.DataFrame({"id": s.image_ids, "label": s.labels}) for s in sets)
    rows = rows.unique("id").sort("id")
    labels = rows["label"].to_numpy()
    return ChallengeSet("any", task, _CHOSEN, rows["id"], labels, np.zeros(len(rows), np.uint8))


def _read(path: Path) -> Mapping[str, float]:
    ending = path.suffix.lower()
    if ending not in {".json", ".yaml", ".yml"}:
        table = read_table(path)
        if not {"task", "threshold"} <= set(table.columns) or table["task"].has_nulls():
            allowed = "the columns task and threshold"
            raise InputError(f"has columns {some_of(table.columns)}", where=path, allowed=allowed)
        if table["task"].is_duplicated().any():
            raise InputError("has a task twice", where=path, allowed="a row per task")
        return dict(table.select(pl.col("task").cast(pl.String), "threshold").rows())
    if ending == ".json":
        decode = partial(msgspec.json.decode, type=dict[str, float])
        return checked_read(path, lambda: decode(path.read_bytes()))
    return read_yaml(path)


def _checked(given: Mapping[str, float], suite: Suite, tasks: Sequence[str]) -> dict[str, float]:
    by_task = {class_name(str(task)): number for task, number in given.items()}
    for task, number in by_task.items():
        check_one_of("task", task, suite.tasks, owner="the suite")
        _check_range(number, f" of {task}")
    if lacking := [task for task in tasks if task not in by_task]:
        raise ParameterError(
            f"there is no threshold for {some_of(lacking)}",
            where="`threshold`",
            allowed="one for each task that is scored",
        )
    return {task: float(by_task[task]) for task in tasks}


def _check_range(number: object, of: str = "") -> None:
    if not isinstance(number, int | float) or not 0 <= number <= 1:
        raise ParameterError(
            f"the threshold{of} is {number}", where="`threshold`", allowed=_ALLOWED
        )


def _listed(by_task: Mapping[str, float]) -> str:
    return some_of([f"{task} {value:.3g}" for task, value in by_task.items()])
