"""The paper's numbers: what each of its tables of results and of sets shows, the numbers, and one's
own results next to them (``next_to_paper``).

Tables are numbered as in the text with appendices. In the text without them the three main ones are
numbered one lower (2, 3 and 4), and the others are not in it. Facts are in ``nooch_results.csv``
(Tables 9 to 18) and ``waterbirds_results.csv`` (Table 5).
"""

from __future__ import annotations

import io
from collections.abc import Collection
from dataclasses import dataclass
from importlib import resources
from typing import Any

import polars as pl

from nooch.evaluation import AVERAGE
from nooch.evaluation.averages import WORST_HARD, mean_and_std, named_tasks
from nooch.report.results.cells import CELLS, COLUMNS, sight
from nooch.report.results.run_results import Results
from nooch.suites.published_counts import COUNTS, paper_tasks
from nooch.training.methods import METHODS


@dataclass(frozen=True)
class PaperPanel:
    """A block of a table: one metric of ``nooch.evaluation.metrics.METRICS`` on one subset of
    ``nooch.evaluation.SCORED``, or ``worst_hard``, of the sets of one kind of criterion: ``ce``,
    ``gist`` or ``attribute``.
    """

    criterion: str
    metric: str
    subset: str


@dataclass(frozen=True)
class PaperTable:
    """A table of the paper, numbered as in the text with appendices; its blocks in order,
    ``stacked`` as rows of one table, as in Table 5, or tables of their own.
    """

    number: int
    shows: str
    panels: tuple[PaperPanel, ...]
    stacked: bool = False

    @property
    def name(self) -> str:
        """The name by which ``nooch paper tables`` knows it."""
        return f"table{self.number}"


def _both(metric: str, subset: str) -> tuple[PaperPanel, ...]:
    return PaperPanel("ce", metric, subset), PaperPanel("gist", metric, subset)


_BIRDS = "Waterbirds: worst group of the two hard ones, and AUC on hard images"
_OF_BIRDS = (("error", WORST_HARD), ("nll", WORST_HARD), ("auc", "hard"))
_LISTED = (
    PaperTable(3, "AUC on hard images", (PaperPanel("ce", "auc", "hard"),)),
    PaperTable(4, "AUC on hard images", (PaperPanel("gist", "auc", "hard"),)),
    PaperTable(5, _BIRDS, tuple(PaperPanel("attribute", *of) for of in _OF_BIRDS), stacked=True),
    PaperTable(9, "AUC on hard images", _both("auc", "hard")),
    PaperTable(10, "AUC on easy images", _both("auc", "easy")),
    PaperTable(11, "Error on hard positives", _both("error", "hard_positive")),
    PaperTable(12, "Error on hard negatives", _both("error", "hard_negative")),
    PaperTable(13, "Error on easy images", _both("error", "easy")),
    PaperTable(14, "NLL on hard positives", _both("nll", "hard_positive")),
    PaperTable(15, "NLL on hard negatives", _both("nll", "hard_negative")),
    PaperTable(16, "NLL on easy images", _both("nll", "easy")),
    PaperTable(17, "the paper's ECE (ece_paper) on hard images", _both("ece_paper", "hard")),
    PaperTable(18, "the paper's ECE (ece_paper) on easy images", _both("ece_paper", "easy")),
)
PAPER_TABLES: dict[str, PaperTable] = {table.name: table for table in _LISTED}
"""Name -> table, in the paper's order."""

_COLUMNS_OF_FILES = (
    *("erm", "cvar", "focal", "reweight", "undersample", "reweight_envs", "undersample_envs"),
    *("gdro", "irm"),
)
PAPER_NAMES: dict[str, str] = dict(zip(_COLUMNS_OF_FILES, COLUMNS, strict=True))
"""A method's name in the paper's files -> its name here, in the order of the paper's columns."""

_COLUMNS = ("table", "criterion", "metric", "subset", "task", "method", "mean", "std")


def paper_results() -> pl.DataFrame:
    """Tables 5 and 9 to 18 as one long frame; Tables 3 and 4 are the means of Table 9.

    Returns:
        ``table`` (number), ``criterion``, ``metric``, ``subset``, ``task`` (``average``: the mean
        over tasks), ``method`` (as in ``METHODS``), ``mean``, ``std`` over three seeds; std is null
        in Table 5, which has none, and 0 where it was below 0.0005.
    """
    # what the paper calls ECE (docs/results.md has the evidence)
    metric = pl.col("metric").replace({"ece": "ece_paper"})
    long = _read("nooch_results.csv").with_columns(metric, pl.col("mean", "std").cast(pl.Float64))
    names = dict(zip(("worst_group_error", "worst_group_nll", "auc_hard"), _OF_BIRDS, strict=True))
    metrics, subsets = ({name: places[place] for name, places in names.items()} for place in (0, 1))
    birds = _read("waterbirds_results.csv").select(
        pl.lit(5, pl.Int64).alias("table"),
        pl.lit("attribute").alias("criterion"),
        pl.col("metric").replace_strict(metrics),
        pl.col("metric").replace_strict(subsets).alias("subset"),
        "method",
        mean="value",
        std=pl.lit(None, pl.Float64),
    )
    # one task: it is its own average
    both = [
        birds.with_columns(task=pl.lit(task)).select(_COLUMNS) for task in ("waterbirds", AVERAGE)
    ]
    frame = pl.concat([*both, long.select(_COLUMNS)])
    return frame.with_columns(pl.col("method").replace_strict(PAPER_NAMES))


def paper_cells() -> Results:
    """The paper's own numbers (Tables 5 and 9 to 18) in the same form."""
    sees = {name: sight(METHODS[name].sees) for name in PAPER_NAMES.values()}
    task, average = pl.col("task"), pl.when(pl.col("task") == AVERAGE)
    # averages are over all tasks
    tasks = task.filter(task != AVERAGE).unique(maintain_order=True)
    # for Table 5 the paper does not give their number
    seeds = pl.when(pl.col("table") != 5).then(pl.lit(3, pl.Int64))
    paper_rows = paper_results().with_columns(
        sees=pl.col("method").replace_strict(sees),
        n_tasks=average.then(tasks.len().cast(pl.Int64).over("criterion")),
        averaged_tasks=average.then(tasks.str.join(", ").over("criterion")),
        n_seeds=seeds,
        seeds=seeds,
    )
    cells = pl.concat([pl.DataFrame(schema=CELLS), paper_rows.drop("table")], how="diagonal")
    return Results(cells, [], "the paper's tables")


def _read(name: str) -> pl.DataFrame:
    return pl.read_csv(io.BytesIO(resources.files("nooch.paper").joinpath(name).read_bytes()))


_CELL = ["criterion", "metric", "subset", "task", "method"]


def next_to_paper(cells: pl.DataFrame) -> pl.DataFrame:
    """Cells with the paper's number next to each.

    ``cells``: ``criterion, metric, subset, task, method, mean, std, n_tasks, averaged_tasks``;
    criteria called ``ce``, ``gist`` and ``attribute``.
    """
    paper = paper_results().drop("table").rename({"mean": "paper_mean", "std": "paper_std"})
    parts = [
        _compared(part, paper.filter(criterion=criterion))
        for (criterion,), part in cells.group_by("criterion", maintain_order=True)
    ]
    return pl.concat(parts) if parts else cells


def _compared(cells: pl.DataFrame, paper: pl.DataFrame) -> pl.DataFrame:
    own, theirs = (set(frame["task"]) - {AVERAGE} for frame in (cells, paper))
    if len(own) == len(theirs) == 1:
        paper = paper.with_columns(pl.col("task").replace(dict(zip(theirs, own, strict=True))))
        theirs = own
    of_tasks = paper.filter(pl.col("task") != AVERAGE)
    lists = cells.filter(task=AVERAGE).select("averaged_tasks", "n_tasks").drop_nulls()
    published_cells = [of_tasks.with_columns(averaged_tasks=pl.lit(None, pl.String))]
    for averaged, n in lists.unique(maintain_order=True).rows():
        tasks = named_tasks(averaged, theirs)
        if len(tasks) == n:
            # an average over all tasks is as printed
            rows = paper.filter(task=AVERAGE) if n == len(theirs) else _average(of_tasks, tasks)
            published_cells.append(rows.with_columns(averaged_tasks=pl.lit(averaged)))
    joined = cells.join(
        pl.concat(published_cells),
        on=[*_CELL, "averaged_tasks"],
        how="left",
        nulls_equal=True,
        maintain_order="left",
    )
    strangers = [a for a, n in lists.rows() if len(named_tasks(a, theirs)) < n]
    ours, published, n_tasks = pl.col("std"), pl.col("paper_std"), pl.col("n_tasks")
    why = (
        pl.when(pl.col("averaged_tasks").is_in(strangers))
        .then(pl.lit("averages tasks that the paper does not have"))
        .when(pl.col("paper_mean").is_null())
        .then(pl.lit("not in the paper"))
        .when(pl.col("mean").is_null())
        .then(pl.lit("no value here"))
        .when(published.is_null())
        .then(pl.lit("the paper has no standard deviation"))
        .when(ours.is_null())
        .then(pl.lit("one seed has no standard deviation"))
        .when((ours == 0) & (published == 0))
        .then(pl.lit("both standard deviations are 0"))
    )
    fewer = f"the paper's average over the same {{}} of its {len(theirs)} tasks"
    remark = (
        pl.when(published == 0)
        .then(pl.lit("the paper's standard deviation rounds to 0"))
        .when(ours == 0)
        .then(pl.lit("the standard deviation here is 0"))
        .when((pl.col("task") == AVERAGE) & (n_tasks < len(theirs)))
        .then(pl.format(fewer, n_tasks))
    )
    difference = (pl.col("mean") - pl.col("paper_mean")) / (ours**2 + published**2).sqrt()
    return joined.with_columns(
        deviations=pl.when(why.is_null()).then(difference), comparison=pl.coalesce(why, remark)
    )


def _average(paper: pl.DataFrame, tasks: Collection[str]) -> pl.DataFrame:
    """The paper's averages over some of its tasks."""
    groups = paper.filter(pl.col("task").is_in(list(tasks))).group_by(
        [name for name in _CELL if name != "task"], maintain_order=True
    )
    averages = groups.agg(*mean_and_std("paper_mean", "paper_std"), whole=pl.len() == len(tasks))
    return averages.filter("whole").with_columns(task=pl.lit(AVERAGE)).select(paper.columns)


@dataclass(frozen=True)
class SetTable:
    """A table of challenge sets.

    Attributes:
        number: as in the text with appendices.
        shows: what it shows, in words.
        criteria: kinds of criteria that the paper's numbers are of; gist has CE's counts in the
            paper.
        split: whose sets in the paper.
        columns: names of its numbers -> column titles.
    """

    number: int
    shows: str
    criteria: tuple[str, ...]
    split: str
    columns: dict[str, str]

    @property
    def name(self) -> str:
        """The name by which ``nooch paper tables`` knows it."""
        return f"table{self.number}"

    @property
    def of_thresholds(self) -> bool:
        """True if it shows thresholds on support, and not counts of images."""
        return "positive" in self.columns


_LIMITS = {"positive": "hard positives below", "negative": "hard negatives above"}
_COUNTED = "Counts of hard positives, hard negatives and positives"
_OF_SETS = (
    SetTable(2, _COUNTED, ("ce", "gist"), "test", {n: n.replace("_", " ") for n in COUNTS}),
    SetTable(6, "Thresholds on support", ("gist",), "test", _LIMITS),
    SetTable(7, "Thresholds on support", ("gist",), "valid", _LIMITS),
)
SET_TABLES: dict[str, SetTable] = {table.name: table for table in _OF_SETS}
"""Name -> table, in the paper's order."""


def paper_rows(name: str) -> pl.DataFrame:
    """The paper's numbers of one of ``SET_TABLES``.

    Returns ``task`` and the table's columns, in the paper's order: counts of images (Int64), or
    cosines to two decimals (Float64).
    """
    table = SET_TABLES[name]
    tasks = list(paper_tasks().values())
    columns: dict[str, list[Any]] = {"task": [task.task for task in tasks]}
    for column in table.columns:
        place = table.split, column
        values = [t.tau[place] if table.of_thresholds else getattr(t, column) for t in tasks]
        columns[column] = values
    return pl.DataFrame(columns)
