"""Thresholds on support: one number, or a pair for each task (paper, Tables 6 and 7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from nooch.base.errors import InputError, ParameterError, some_of
from nooch.criteria.fitted_criterion import TaskThresholds, Thresholds
from nooch.data.data_files import checked_read, read_table

__all__ = ["Pairs", "Tau", "checked_tau", "read_task_numbers", "read_thresholds", "thresholds_of"]

Pairs = Mapping[str, tuple[float, float] | None]
"""Task -> thresholds of its positives and negatives; None: the task has no challenge set."""
Tau = float | Pairs
"""One threshold for all tasks and both sides, or pairs."""

_SIDES = ("positive", "negative")


def checked_tau(tau: Tau | None, where: str, low: float, high: float, allowed: str) -> Tau | None:
    """``tau`` with numbers as floats and pairs as tuples.

    The two numbers of a pair are of different images, so either may be the larger one.

    Args:
        tau: None where counts are matched.
        where: criterion, for errors.
        low: smallest allowed value.
        high: largest allowed value.
        allowed: the range in words, for errors.

    Raises:
        ParameterError: no task, no pair, or a number that is NaN or out of range.
    """
    if tau is None:
        return None
    if not isinstance(tau, Mapping):
        if not low <= tau <= high:
            raise ParameterError(f"tau is {tau}", where=where, allowed=allowed)
        return tau
    if not tau:
        raise ParameterError("tau has no task", where=where, allowed="a pair of numbers per task")
    pairs: dict[str, tuple[float, float] | None] = {}
    for task, pair in tau.items():
        if pair is None:
            pairs[task] = None
            continue
        if len(pair) != len(_SIDES):
            problem = f"tau of {task} has {len(pair)} numbers"
            raise ParameterError(problem, where=where, allowed="two: of positives and of negatives")
        for side, value in zip(_SIDES, pair, strict=True):
            if not low <= value <= high:
                problem = f"tau of the {side}s of {task} is {value}"
                raise ParameterError(problem, where=where, allowed=allowed)
        pairs[task] = (float(pair[0]), float(pair[1]))
    return pairs


def thresholds_of(tau: Tau | None) -> TaskThresholds:
    """What ``SupportFitted.thresholds`` holds for a ``tau``."""
    if isinstance(tau, Mapping):
        return {task: None if pair is None else Thresholds(*pair) for task, pair in tau.items()}
    return None if tau is None else Thresholds(tau, tau)


def read_thresholds(path: str | Path) -> dict[str, tuple[float, float]]:
    """Thresholds per task and side from a table; see ``read_task_numbers``."""
    numbers = read_task_numbers(path, _SIDES)
    return {task: (positive, negative) for task, (positive, negative) in numbers.items()}


def read_task_numbers(path: str | Path, columns: Sequence[str]) -> dict[str, tuple[float, ...]]:
    """Numbers per task from a table.

    Columns other than ``task`` and these are ignored, so that a Table 6 of ``nooch results`` can be
    read.

    Args:
        path: ``.csv``, ``.tsv``, ``.parquet``, ``.jsonl``, or ``.json`` (a list of rows).
        columns: of numbers.

    Raises:
        InputError: no such table, a column that is missing or holds no numbers, no row, a task
            twice, an empty or NaN cell.
    """
    path, allowed = Path(path), f"a row per task with the columns task, {', '.join(columns)}"
    if path.suffix.lower() == ".json":
        frame = checked_read(path, lambda: pl.read_json(path.read_bytes()))
    else:
        frame = read_table(path)
    if missing := [name for name in ("task", *columns) if name not in frame.columns]:
        raise InputError(f"lacks the columns {', '.join(missing)}", where=path, allowed=allowed)
    for name in columns:
        if not (kind := frame[name].dtype).is_numeric():
            raise InputError(f"column {name} holds {kind}", where=path, allowed="numbers")
    frame = frame.select(pl.col("task").cast(pl.String), pl.col(columns).cast(pl.Float64))
    no_value = pl.any_horizontal(pl.all().is_null(), pl.col(columns).is_nan())
    empty = frame.filter(no_value)["task"]
    twice = frame["task"].filter(frame["task"].is_duplicated()).unique(maintain_order=True)
    problem = None
    if not frame.height:
        problem = "holds no row"
    elif len(empty):
        problem = f"has an empty or NaN cell for {some_of(empty)}"
    elif len(twice):
        problem = f"has more than one row for {some_of(twice)}"
    if problem:
        raise InputError(problem, where=path, allowed=allowed)
    return {task: tuple(numbers) for task, *numbers in frame.rows()}
