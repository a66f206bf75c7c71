"""Findings: how much more often a model errs in a misleading context, in numbers and words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.stats import false_discovery_control

from nooch.base.display import DisplayTable, TabularResult
from nooch.base.words import counted, plural, readable, with_article

__all__ = ["COLUMNS", "SMALLEST", "VERDICTS", "Findings", "sentence", "some_images", "with_runs"]

SMALLEST = 20
"""Images in the misleading and in the usual context below which nothing is concluded."""
VERDICTS = ("worse", "better", "no difference shown", "n too small to conclude")

COLUMNS: dict[str, Any] = {
    "run": pl.String, "criterion": pl.String, "task": pl.String, "cue": pl.String,
    "side": pl.String, "split": pl.String, "n_misleading": pl.Int64, "n_usual": pl.Int64,
    "rate_misleading": pl.Float64, "rate_low": pl.Float64, "rate_high": pl.Float64,
    "rate_usual": pl.Float64, "effect": pl.Float64, "low": pl.Float64, "high": pl.Float64,
    "p": pl.Float64, "p_adjusted": pl.Float64, "by_size": pl.Boolean, "verdict": pl.String,
    "images": pl.List(pl.String),
}  # fmt: skip
"""Columns of ``findings.parquet``. ``side`` is ``positive`` (objects that are missed) or
``negative`` (objects that are claimed); ``cue`` is null for the criterion as a whole; ``by_size``
says that the effect compares objects of similar size; ``images`` are ids of some errors."""
_SHOWN = 6


@dataclass(frozen=True, eq=False, repr=False)
class Findings(TabularResult):
    """What a model gets wrong because of the context.

    Attributes:
        table: a row for each run, criterion, task, cue and side, see ``COLUMNS``; first what is
            worse, by the lower end of the interval of its effect.
        settings: how it was computed (JSON-like).
    """

    table: pl.DataFrame
    settings: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, Any]], settings: Mapping[str, Any]) -> Self:
        """Adjust p-values by Benjamini and Hochberg (1995) over all rows with enough images, give
        each row its verdict, and rank them.
        """
        table = pl.DataFrame(
            [{"p_adjusted": None, "verdict": None, **row} for row in rows], schema=COLUMNS
        ).with_columns(pl.col(pl.Float64).fill_nan(None))
        enough = (pl.min_horizontal("n_misleading", "n_usual") >= SMALLEST) & pl.col(
            "p"
        ).is_not_null()
        known = table.select(enough).to_series().to_numpy()
        adjusted = np.full(table.height, np.nan)
        if known.any():
            adjusted[known] = false_discovery_control(table["p"].to_numpy()[known])
        table = table.with_columns(p_adjusted=pl.Series(adjusted).fill_nan(None))
        shown, more = adjusted < 0.05, (table["effect"].fill_null(0) > 0).to_numpy()
        verdict = np.select(
            [~known, shown & more, shown], [VERDICTS[i] for i in (3, 0, 1)], VERDICTS[2]
        )
        table = table.with_columns(verdict=pl.Series(verdict))
        rank = pl.col("verdict") != VERDICTS[0]
        return cls(
            table.sort(rank, pl.col("low"), descending=[False, True], nulls_last=True,
                       maintain_order=True),
            dict(settings),
        )  # fmt: skip

    def __len__(self) -> int:
        return self.table.height

    @property
    def counts(self) -> str:
        """How many have each verdict."""
        return ", ".join(f"{self.table.filter(verdict=v).height:,} {v}" for v in VERDICTS)

    @property
    def display(self) -> DisplayTable:
        """The numbers, and below them the worst findings in words."""
        columns = ["task", "cue", "side", "n_misleading", "rate_misleading", "rate_usual", "effect",
                   "low", "high", "p_adjusted", "verdict", "criterion", "run"]  # fmt: skip
        words = [name.replace("_", " ") for name in columns]
        rows = self.table.select(columns).rows()
        title = f"Findings({self.counts})"
        return DisplayTable(title, words, rows, left=3, notes=self.sentences(5))

    def sentences(self, most: int = 10) -> list[str]:
        """The worst findings in words, each run's name before them where several were checked."""
        worse = self.table.filter(verdict=VERDICTS[0])
        return with_runs(worse.head(most), sentence, self.table["run"])


def with_runs(
    rows: pl.DataFrame, words: Callable[[Mapping[str, Any]], str], runs: pl.Series
) -> list[str]:
    """Rows in words, each run's name before them where ``runs`` has several."""
    several = runs.n_unique() > 1
    named = rows.iter_rows(named=True)
    return [(f"{row['run']}: " if several else "") + words(row) for row in named]


def some_images(ids: pl.Series, where: NDArray[np.bool_]) -> list[str]:
    """Ids of some of the images, as text, spread over all of them."""
    rows = np.flatnonzero(where)
    spread = np.linspace(0, len(rows) - 1, min(_SHOWN, len(rows))).astype(np.intp)
    return ids[rows[spread]].cast(pl.String).to_list()


def sentence(row: Mapping[str, Any]) -> str:
    """A finding in words: condition, how much more often, rates with their interval, images."""
    task, verb = plural(row["task"]), "missed" if row["side"] == "positive" else "claimed"
    misleading, usual = row["rate_misleading"], row["rate_usual"]
    interval = f"[{100 * row['rate_low']:.0f}, {100 * row['rate_high']:.0f}]"
    rates = f"{_percent(misleading)} {interval} against {_percent(usual)}"
    images = counted(row["n_misleading"], "image")
    points, by_size, often = 100 * (row["effect"] or 0), "", f"are {verb}"
    if row["by_size"]:
        by_size = f"; {points:+.0f} points for objects of the same size"
    if row["by_size"] and points * (misleading - usual) < 0:
        # sizes differ so much between the contexts that the rates of all sizes say the opposite
        more = "more" if points > 0 else "less"
        often = f"of the same size are {verb} {abs(points):.0f} points {more} often"
        by_size, rates = "", f"of all sizes {rates}"
    elif usual:
        often = f"are {verb} {misleading / usual:.1f} times as often"
    return f"{_condition(row)}, {task} {often} ({rates}; {images}{by_size})"


def _condition(row: Mapping[str, Any]) -> str:
    absent = f"no {readable(row['task'])}"
    if row["criterion"] == "context" and row["cue"] is None:
        task = with_article(row["task"])
        if row["side"] == "positive":
            return f"Where the other labels do not suggest {task}"
        return f"Where the other labels suggest {task}, but there is none"
    if row["cue"] is None:
        where = f"the context that {row['criterion']} expects"
        return f"Outside {where}" if row["side"] == "positive" else f"In {where}, with {absent}"
    cue = with_article(row["cue"])
    return f"Without {cue}" if row["side"] == "positive" else f"With {cue} but {absent}"


def _percent(rate: float) -> str:
    return f"{100 * rate:.0f} %" if rate in {0, 1} or rate >= 0.1 else f"{100 * rate:.1f} %"
