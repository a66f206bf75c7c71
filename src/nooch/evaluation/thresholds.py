"""The probability above which an answer is positive: a number, by task, or chosen on valid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import logit

from nooch.base.errors import InputError, ParameterError, check_idle, check_one_of, some_of
from nooch.criteria.contract import read_task_numbers
from nooch.data import class_name
from nooch.evaluation.metrics import stable_order
from nooch.evaluation.metrics.pointwise import probabilities
from nooch.evaluation.predictions import Predictions, values_of
from nooch.suites import ChallengeSet, Suite

AnswerThreshold = float | str | Path | Mapping[str, float]
"""A number, numbers by task, a file of those, or a rule: ``valid`` or ``worst-side``."""
RunThresholds = dict[str, dict[str, float]]
"""Run -> task -> threshold."""

_CHOSEN, RULES = "valid", ("valid", "worst-side")
_ALLOWED = "0 to 1 (a probability), a file of thresholds by task, valid, or worst-side"
_GIVE = {"threshold": 0.5}


def answer_thresholds(
    threshold: AnswerThreshold, suite: Suite, runs: Sequence[Predictions], tasks: Sequence[str]
) -> tuple[RunThresholds, list[str]]:
    """The threshold of each run and task, and notes that state them.

    ``threshold``: a number; task -> number, or a table of ``task`` and ``threshold``; or ``valid``:
    for each run and task the threshold of the largest balanced accuracy on the validation split; or
    ``worst-side``: of the smallest error there on the worst of hard and easy positives and
    negatives.
    """
    if runs and all(run.in_words for run in runs):
        why = ": every answer is yes or no, without a probability"
        check_idle({"threshold": threshold}, why, where="predictions")
    if threshold in RULES:
        by_run = _chosen(suite, runs, tasks, by_side=threshold != _CHOSEN)
        above = f"are positive above probabilities chosen on {_CHOSEN}:"
        return by_run, [
            f"answers of {run} {above} {listed(thresholds)}" for run, thresholds in by_run.items()
        ]
    if isinstance(threshold, Mapping) or Path(str(threshold)).is_file():
        by_task = _by_task(threshold, suite, tasks)
        note = f"answers are positive above these probabilities: {listed(by_task)}"
    else:
        by_task = dict.fromkeys(tasks, one_threshold(threshold))
        note = f"answers are positive above the probability {threshold}"
    return {run.run: by_task for run in runs}, [note]


def best_threshold(
    labels: NDArray[np.bool_],
    values: NDArray[np.float64],
    scale: str,
    sides: Sequence[NDArray[np.bool_]] = (),
) -> float:
    """The threshold on the probability of the largest balanced accuracy; 0.5 for one class. With
    ``sides``, the one of the smallest error on the worst of them.

    Candidates are 0.5 and the middles between neighboring probabilities, 0 and 1 among them; of
    several best ones the nearest to 0.5 is taken, of two as near the lower.

    ``labels``: bool (n,); ``values``: float64 (n,), finite; logits, or probabilities of being
    positive; ``sides``: bool (n,) each, images of one label.
    """
    n, n_positive = len(labels), int(labels.sum())
    order = stable_order(values)
    possible = np.concatenate([[0.0], np.unique(probabilities(values, scale)), [1.0]])
    candidates = np.unique(np.append((possible[1:] + possible[:-1]) / 2, 0.5))
    bounds = candidates if scale == "probability" else logit(candidates)
    not_above = np.searchsorted(values[order], bounds, "right")
    missed = np.concatenate([[0], np.cumsum(labels[order])])[not_above]
    hits, claims = n_positive - missed, n - not_above
    # recall - FPR, times the counts of both classes: integers, so that ties are exact
    gain = hits * (n - n_positive) - (claims - hits) * n_positive
    if sides:
        gain = -np.max([_errors(labels[side], values[side], bounds) for side in sides], axis=0)
    best = candidates[gain == gain.max()]
    return float(best[np.argmin(np.abs(best - 0.5))])


def _errors(
    labels: NDArray[np.bool_], values: NDArray[np.float64], bounds: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Share of the images of one label that are wrong with each bound."""
    not_above = np.searchsorted(np.sort(values), bounds, "right")
    return (not_above if labels[0] else len(values) - not_above) / len(values)


def _chosen(
    suite: Suite, runs: Sequence[Predictions], tasks: Sequence[str], *, by_side: bool
) -> RunThresholds:
    if _CHOSEN not in suite.splits:
        problem = f"a threshold chosen on {_CHOSEN} needs this split, which the suite lacks"
        raise ParameterError(problem, give=_GIVE)
    suite.require_easy(f"a threshold chosen on {_CHOSEN}")
    thresholds: RunThresholds = {run.run: {} for run in runs}
    for task in tasks:
        images, sides = _validation_images(suite, task)
        for run in [run for run in runs if task in run.tasks]:
            try:
                values = values_of(run, images)
            except InputError as error:
                problem = f"no threshold can be chosen on {_CHOSEN}: {error.problem}"
                raise InputError(
                    problem, where=error.where, remedy="predict this split as well", give=_GIVE
                ) from error
            thresholds[run.run][task] = best_threshold(
                images.labels, values, run.scale, sides if by_side else ()
            )
    return thresholds


def _validation_images(suite: Suite, task: str) -> tuple[ChallengeSet, list[NDArray[np.bool_]]]:
    """The images of valid on which any criterion has a verdict, and those on each side of it."""
    sets = [suite.set(*key) for key in suite.keys if key[1:] == (task, _CHOSEN)]
    rows = pl.concat(pl.DataFrame({"id": s.image_ids, "label": s.labels}) for s in sets)
    rows = rows.unique("id").sort("id")
    labels = rows["label"].to_numpy()
    images = ChallengeSet("any", task, _CHOSEN, rows["id"], labels, np.zeros(len(rows), np.uint8))
    ids = (s.image_ids.filter(pl.Series(s.cells == cell)) for s in sets for cell in range(4))
    return images, [rows["id"].is_in(side.implode()).to_numpy() for side in ids if len(side)]


def _by_task(threshold: AnswerThreshold, suite: Suite, tasks: Sequence[str]) -> dict[str, float]:
    where = "`threshold`" if isinstance(threshold, Mapping) else str(threshold)
    given: Mapping[str, Any]
    if isinstance(threshold, Mapping):
        given = threshold
    else:
        numbers = read_task_numbers(where, ["threshold"])
        given = {task: number for task, (number,) in numbers.items()}
    by_task = {
        class_name(str(task)): one_threshold(value, where, task) for task, value in given.items()
    }
    for task in by_task:
        check_one_of("task", task, suite.tasks, owner="the suite")
    if lacking := [task for task in tasks if task not in by_task]:
        problem = f"there is no threshold for {some_of(lacking)}"
        raise ParameterError(
            problem, where="`threshold`", allowed="one for each task that is scored"
        )
    return {task: by_task[task] for task in tasks}


def one_threshold(value: Any, where: str = "`threshold`", task: str | None = None) -> float:
    """The number, in [0, 1]. Raises ParameterError for anything else."""
    try:
        number = np.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = np.nan
    if not 0 <= number <= 1:
        problem = f"the threshold{'' if task is None else f' of {task}'} is {value}"
        raise ParameterError(problem, where=where, allowed=_ALLOWED)
    return number


def listed(by_task: Mapping[str, float]) -> str:
    """Tasks with their numbers, in words."""
    return some_of([f"{task} {value:.3g}" for task, value in by_task.items()])
