"""Parts of statements about results: numbers with deviations, and three-valued checks on them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from nooch.evaluation import AVERAGE
from nooch.evaluation.score_summaries import LARGER_IS_BETTER
from nooch.evaluation.task_averages import named_tasks
from nooch.report.results.cells import with_averages
from nooch.report.tables.score_tables import mean_sd

__all__ = [
    "VERDICTS", "Check", "Number", "Numbers", "above", "concluded", "mean_of", "nearer",
    "rank_correlation", "unknown",
]  # fmt: skip

HOLDS, FAILS, OPEN = VERDICTS = ("holds", "does not hold", "inconclusive")
"""``inconclusive``: numbers are missing, or what they differ by is within their deviations."""

_ROUNDING = 1e-9


@dataclass(frozen=True)
class Number:
    """A mean with its deviation over seeds (None where it is unknown), and what it is of."""

    what: str
    mean: float
    std: float | None

    def __str__(self) -> str:
        return f"{self.what} {mean_sd(self.mean, self.std)}"

    def minus(self, other: Number, what: str) -> Number:
        """The difference; deviations add as those of independent numbers."""
        return Number(what, self.mean - other.mean, _root([self.std, other.std]))


def mean_of(numbers: Sequence[Number], what: str) -> Number:
    """The mean, with deviation sqrt(sum of squared deviations) / n."""
    root = _root([number.std for number in numbers])
    mean = sum(number.mean for number in numbers) / len(numbers)
    return Number(what, mean, None if root is None else root / len(numbers))


def _root(deviations: Iterable[float | None]) -> float | None:
    listed = list(deviations)
    return None if None in listed else math.sqrt(sum(d * d for d in listed if d is not None))


@dataclass(frozen=True)
class Check:
    """One comparison of a statement, in words; its verdict out of ``VERDICTS``, and the numbers
    behind it, or what is missing.
    """

    what: str
    verdict: str
    numbers: str


def concluded(checks: Sequence[Check]) -> str:
    """A statement holds if all its checks do, does not if one does not, else is inconclusive."""
    verdicts = {check.verdict for check in checks}
    return FAILS if FAILS in verdicts else HOLDS if verdicts == {HOLDS} else OPEN


def unknown(what: str, why: str) -> Check:
    """A check that cannot be made."""
    return Check(what, OPEN, why)


def above(high: Number, low: Number, what: str) -> Check:
    """Whether ``high`` is above ``low`` by more than both deviations together.

    This is the rule by which the paper sets numbers in bold. The check holds where high - low >
    std + std, does not where low - high > std + std; in between, or with an unknown deviation, it
    is inconclusive.
    """
    difference = high.mean - low.mean
    if high.std is None or low.std is None:
        return unknown(what, f"{high}; {low}: a deviation is unknown")
    reach = high.std + low.std + _ROUNDING
    verdict = HOLDS if difference > reach else FAILS if -difference > reach else OPEN
    together = f"deviations together {high.std + low.std:.3f}"
    return Check(what, verdict, f"{high}; {low}: {difference:+.3f}, {together}")


def nearer(number: Number, near: Number, far: Number, what: str) -> Check:
    """Whether a number is nearer to ``near`` than to ``far``.

    That is, on that side of their middle by more than the deviations together. Where near and far
    do not themselves differ by more than theirs, the check is inconclusive.
    """
    ordered = above(near, far, what) if near.mean > far.mean else above(far, near, what)
    if ordered.verdict != HOLDS:
        return unknown(what, f"the two ends are within deviations: {ordered.numbers}")
    middle = mean_of([near, far], "their middle")
    side = above(number, middle, what) if near.mean > far.mean else above(middle, number, what)
    return Check(what, side.verdict, f"{number}; {near}; {far}")


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Spearman's: the correlation of ranks, ties sharing the mean rank; NaN of a constant."""
    frame = pl.DataFrame({"first": first, "second": second}).select(pl.all().rank("average"))
    correlation = frame.select(pl.corr("first", "second")).item()
    return float("nan") if correlation is None else float(correlation)


class Numbers:
    """Results looked up by what they are of; task ``average`` is the mean over tasks."""

    def __init__(self, cells: pl.DataFrame) -> None:
        self._cells = cells

    def alike(self, criteria: Sequence[str]) -> tuple[Numbers, str]:
        """Numbers whose averages under several criteria are over the same tasks.

        Averages are taken again, over the tasks that those under each criterion are over.

        Returns:
            The numbers, and in words which tasks these are, where they are fewer.
        """
        own = self._cells.filter(pl.col("criterion").is_in(list(criteria)))
        hard = own.filter(metric="auc", subset="hard", task=AVERAGE).drop_nulls("mean")
        lists = hard["averaged_tasks"].unique(maintain_order=True).drop_nulls()
        if len(lists) < 2:
            return self, ""
        known = list(dict.fromkeys(task for c in criteria for task in self.tasks(c)))
        common = [task for task in known if all(task in named_tasks(of, known) for of in lists)]
        over = f" (over {', '.join(common)})" if common else " (no task is averaged under both)"
        return Numbers(with_averages(own.filter(pl.col("task").is_in(common)))), over

    def has(self, criterion: str, metric: str) -> bool:
        """Whether there is any value of a metric under a criterion."""
        return any(key[:2] == (criterion, metric) for key in self._of)

    @cached_property
    def _of(self) -> Mapping[tuple[str, ...], tuple[float, float | None]]:
        keys = ["criterion", "metric", "subset", "task", "method"]
        known = self._cells.filter(pl.col("mean").is_not_null() & pl.col("mean").is_not_nan())
        rows = known.select(*keys, "mean", "std").iter_rows()
        return {tuple(row[:5]): (row[5], row[6]) for row in rows}

    def methods(self, criterion: str) -> list[str]:
        """Methods with results under a criterion."""
        return list(dict.fromkeys(self._cells.filter(criterion=criterion)["method"]))

    def tasks(self, criterion: str) -> list[str]:
        """Tasks with results under a criterion, without the average."""
        rows = self._cells.filter(pl.col("task") != AVERAGE, criterion=criterion)
        return list(dict.fromkeys(rows["task"]))

    def get(
        self, criterion: str, metric: str, subset: str, method: str, task: str = AVERAGE
    ) -> Number | None:
        """A number, or None where there is none."""
        values = self._of.get((criterion, metric, subset, task, method))
        where = method if task == AVERAGE else f"{method} on {task}"
        return None if values is None else Number(where, *values)

    def lacking(
        self, criterion: str, metric: str, subset: str, methods: Iterable[str]
    ) -> str | None:
        """Which averages are missing, in words; None where none is."""
        if not self.methods(criterion):
            return f"no results under {criterion}"
        missing = [m for m in methods if self.get(criterion, metric, subset, m) is None]
        where = f"{metric} on {subset}, {criterion}"
        return f"no average of {', '.join(missing)} ({where})" if missing else None

    def averages(
        self, criterion: str, metric: str, subset: str, methods: Iterable[str]
    ) -> list[Number]:
        """Averages over tasks of those methods that have one."""
        numbers = (self.get(criterion, metric, subset, method) for method in methods)
        return [number for number in numbers if number is not None]

    @staticmethod
    def best(numbers: Sequence[Number], metric: str) -> Number:
        """The best of several, the first where several are."""
        return max(numbers, key=lambda n: n.mean if metric in LARGER_IS_BETTER else -n.mean)
