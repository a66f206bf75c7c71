"""Refuse challenge sets for which most of the images were not annotated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nooch.base.errors import InputError, some_of
from nooch.criteria import Fitted, SupportFitted
from nooch.suites.suite import SetRecord

_MOST = 6
_UNKNOWN = "since the class or its cues"
_REMEDY = (
    "import the annotation files of the other images too, or only the images that were annotated; "
    "with `allow_unannotated` the rest is used as it is"
)


def left_out(
    fitted: Mapping[str, Fitted], tasks: Sequence[str]
) -> dict[str, dict[str, tuple[int, int]]]:
    """Criterion -> task -> (training positives left out of the fit as unannotated, of how many).

    Only tasks with such images are listed.
    """
    return {
        name: {task: pair for task in tasks if (pair := one.left_out(task)) is not None and pair[0]}
        for name, one in fitted.items()
    }


def check_fit(
    fitted: Mapping[str, Fitted], criteria: Mapping[str, Any], tasks: Sequence[str]
) -> None:
    """Raise InputError where a fit leaves out more than half of a task's training positives."""
    problems = [
        f"{name}: {task} ({missing} of {positives})"
        for name, counts in left_out(fitted, tasks).items()
        for task, (missing, positives) in counts.items()
        if 2 * missing > positives and not isinstance(criteria.get(name), Fitted)
    ]
    _refuse(
        problems,
        f"training positives of {_tasks(problems)} would be left out, since things or stuff",
        "task's training positives",
    )


def check_sets(records: Iterable[SetRecord], fitted: Mapping[str, Fitted]) -> None:
    """Raise InputError where a set leaves out over half of its split's images as unannotated.

    Images without a gist have always been left out and counted: they are not counted here.
    """
    problems = []
    for record in records:
        excluded = record.excluded_positives + record.excluded_negatives
        missing, one = record.excluded_unknown, fitted.get(record.criterion)
        if isinstance(one, SupportFitted) and one.needs_annotation:
            missing += excluded - record.between_positives - record.between_negatives
        total = record.positives + record.negatives + excluded + record.excluded_unknown
        if 2 * missing > total:
            problems.append(
                f"{record.criterion}: {record.task}, {record.split} ({missing} of {total})"
            )
    _refuse(
        problems,
        f"images would be left out of {len(problems)} challenge sets, {_UNKNOWN}",
        "split's images",
    )


def check_counted(tasks: Sequence[str], split: str, counted: NDArray[np.int64], total: int) -> None:
    """Raise InputError where ``counted``, int64 (n_tasks,), is below half of ``total`` images."""
    few = [
        f"{task} ({total - n} of {total})"
        for task, n in zip(tasks, counted.tolist(), strict=True)
        if 2 * n < total
    ]
    _refuse(
        few, f"images of {split} would be left out for {_tasks(few)}, {_UNKNOWN}", "split's images"
    )


def _refuse(problems: Sequence[str], what: str, whole: str) -> None:
    if problems:
        raise InputError(
            f"more than half of the {what} were not annotated there: {some_of(problems, _MOST)}",
            allowed=f"at most half of a {whole}",
            remedy=_REMEDY,
        )


def _tasks(problems: Sequence[str]) -> str:
    return "1 task" if len(problems) == 1 else f"{len(problems)} tasks"
