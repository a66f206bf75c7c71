"""Refuse sets that would stand on a minority of the images because the others were not annotated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nooch.challenge.suite import SetRecord
from nooch.criteria import Fitted, SupportFitted
from nooch.errors import InputError, some_of

__all__ = ["check_counted", "check_fit", "check_sets", "left_out"]

_MOST = 6
_REMEDY = (
    "import the annotation files of the other images too, or only the images that were annotated; "
    "with `allow_unannotated` the rest is used as it is"
)


def left_out(
    fitted: Mapping[str, Fitted], tasks: Sequence[str]
) -> dict[str, dict[str, tuple[int, int]]]:
    """Criterion -> task -> training positives that were not annotated and are left out of the fit,
    of how many.

    Only tasks with such images are listed.
    """
    found: dict[str, dict[str, tuple[int, int]]] = {}
    for name, one in fitted.items():
        counts = {
            task: pair for task in tasks if (pair := one.left_out(task)) is not None and pair[0]
        }
        if counts:
            found[name] = counts
    return found


def check_fit(
    fitted: Mapping[str, Fitted], criteria: Mapping[str, Any], tasks: Sequence[str]
) -> None:
    """Raise InputError where a fit leaves out more than half of a task's training positives.

    Args:
        fitted: fitted criteria by name.
        criteria: what they were made of, by name; those that came fitted were checked when they
            were.
        tasks: names.
    """
    fresh = {
        name: one for name, one in fitted.items() if not isinstance(criteria.get(name), Fitted)
    }
    problems = [
        f"{name}: {task} ({missing} of {positives})"
        for name, counts in left_out(fresh, tasks).items()
        for task, (missing, positives) in counts.items()
        if 2 * missing > positives
    ]
    if problems:
        raise InputError(
            f"more than half of the training positives of {_tasks(problems)} would be left out, "
            f"since things or stuff were not annotated there: {some_of(problems, _MOST)}",
            allowed="at most half of a task's training positives",
            remedy=_REMEDY,
        )


def check_sets(records: Iterable[SetRecord], fitted: Mapping[str, Fitted]) -> None:
    """Raise InputError where a set leaves out more than half of its split's images because they
    were not annotated.

    Images without a gist have always been left out and counted: they are not counted here.
    """
    problems = []
    for record in records:
        excluded = record.excluded_positives + record.excluded_negatives
        missing, one = record.excluded_unknown, fitted.get(record.criterion)
        if isinstance(one, SupportFitted) and one.needs_annotation:
            missing += excluded
        total = record.positives + record.negatives + excluded + record.excluded_unknown
        if 2 * missing > total:
            problems.append(
                f"{record.criterion}: {record.task}, {record.split} ({missing} of {total})"
            )
    if problems:
        raise InputError(
            f"more than half of the images would be left out of {len(problems)} challenge sets, "
            f"since the class or its cues were not annotated there: {some_of(problems, _MOST)}",
            allowed="at most half of a split's images",
            remedy=_REMEDY,
        )


def check_counted(tasks: Sequence[str], split: str, counted: NDArray[np.int64], total: int) -> None:
    """Raise InputError where fewer than half of a split's ``total`` images are counted for a task;
    ``counted`` is int (n_tasks,).
    """
    few = [
        f"{task} ({total - n} of {total})"
        for task, n in zip(tasks, counted.tolist(), strict=True)
        if 2 * n < total
    ]
    if few:
        raise InputError(
            f"more than half of the images of {split} would be left out for {_tasks(few)}, "
            f"since the class or its cues were not annotated there: {some_of(few, _MOST)}",
            allowed="at most half of a split's images",
            remedy=_REMEDY,
        )


def _tasks(problems: Sequence[str]) -> str:
    return "1 task" if len(problems) == 1 else f"{len(problems)} tasks"
