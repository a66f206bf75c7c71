"""The tasks that averages are over: the same for averages next to each other."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TypeVar

from nooch.challenge import Suite
from nooch.errors import some_of
from nooch.evaluation.subsets import CELLS

__all__ = ["averaged_tasks", "comparable", "left_out", "named_tasks"]

T = TypeVar("T", bound=Hashable)
_MOST = 12
"""Tasks that a note names."""


def comparable(defined: Mapping[str, AbstractSet[T]]) -> list[str]:
    """Tasks that have everything that any task has; all tasks where no task has.

    Args:
        defined: task -> cells that have images, or (metric, subset) pairs that have a value.
    """
    needed: set[T] = set().union(*defined.values())
    return [task for task, has in defined.items() if has >= needed] or list(defined)


def averaged_tasks(
    suite: Suite, keys: Sequence[tuple[str, str, str]], predicted: Sequence[Collection[str]]
) -> dict[str, list[str]]:
    """The tasks that averages are over: those with images in each cell that any task has images in.

    A task without hard positives, say, would count in the AUC on easy images but not on hard ones.

    Args:
        suite: the suite.
        keys: (criterion, task, split) of the sets that are scored, of one split.
        predicted: tasks of each run; averages are over their common tasks, if two or more.

    Returns:
        Criterion -> tasks.
    """
    over = {}
    for criterion in dict.fromkeys(key[0] for key in keys):
        cells = {key[1]: _cells(suite, key) for key in keys if key[0] == criterion}
        common = {task: has for task, has in cells.items() if all(task in p for p in predicted)}
        over[criterion] = comparable(common if len(common) > 1 else cells)
    return over


def named_tasks(averaged: str, tasks: Iterable[str]) -> list[str]:
    """Those of the tasks that a value of the column ``averaged_tasks`` names."""
    # a task's name may have a comma in it
    return [task for task in tasks if f", {task}, " in f", {averaged}, "]


def left_out(
    suite: Suite, keys: Sequence[tuple[str, str, str]], over: Mapping[str, Collection[str]]
) -> list[str]:
    """A note for each criterion whose averages leave out tasks: which ones, and why."""
    notes = []
    for criterion, averaged in over.items():
        cells = {key: _cells(suite, key) for key in keys if key[0] == criterion}
        lacking = {key[1]: set(CELLS) - has for key, has in cells.items() if key[1] not in averaged}
        if not lacking:
            continue
        why = []
        for task, empty in lacking.items():
            names = [cell.replace("_", " ") for cell in CELLS if cell in empty]
            reason = f"no {' and no '.join(names)}" if empty else "not predicted by every run"
            why.append(f"{task} ({reason})")
        (split,) = {key[2] for key in cells}
        notes.append(
            f"averages on {criterion} ({split}) are over {len(averaged)} of {len(cells)} tasks:"
            f" {some_of(averaged, _MOST)}; left out: {some_of(why, _MOST)}"
        )
    return notes


def _cells(suite: Suite, key: tuple[str, str, str]) -> set[str]:
    """Cells of a set that have images."""
    return {cell for cell, count in zip(CELLS, suite.record(*key).cells, strict=True) if count}
