"""Scores as tables, one for each criterion and split, and as files."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from nooch.base.display import DisplayTable
from nooch.base.words import printable
from nooch.data.table_files import TABLE_FILES, result_contents, write_files
from nooch.evaluation import AVERAGE, Scores
from nooch.evaluation.averages import LARGER_IS_BETTER, named_tasks
from nooch.evaluation.context_changes import changes_tables

_RANKED, _SIDED = ("hard", "easy", "all"), ("hard", "easy")
# the loss on each side, hard against easy of the same label
_LOSSES = ("hard_positive", "easy_positive", "hard_negative", "easy_negative")
_COLUMNS = {
    "auc": ("AUC", _RANKED),
    "auprc": ("AUPRC", _RANKED),
    "nll": ("NLL", _LOSSES),
    "error": ("error", _LOSSES),
    "ece": ("ECE", _SIDED),
    "ece_top": ("ECE top", _SIDED),
    "ece_paper": ("paper's ECE", _SIDED),
    "accuracy": ("accuracy", _LOSSES),
    "balanced_accuracy": ("balanced accuracy", _RANKED),
    "precision": ("precision", _RANKED),
    "recall": ("recall", ("hard_positive", "easy_positive")),
    "fpr": ("FPR", ("hard_negative", "easy_negative")),
    "f1": ("F1", _RANKED),
    "brier": ("Brier", _LOSSES),
    "yes_rate": ("yes rate", _LOSSES),
    "dprime": ("d'", _RANKED),
    "response_criterion": ("response criterion", _RANKED),
    "missed": ("missed", ("hard_positive", "easy_positive")),
    "average_recall": ("average recall", ("hard_positive", "easy_positive")),
    "false_boxes": ("false boxes", ("hard_negative", "easy_negative")),
    "misplaced": ("misplaced boxes", ("hard_positive", "easy_positive")),
    "duplicates": ("duplicates", ("hard_positive", "easy_positive")),
}
"""Metric -> its name in tables, and the subsets that are shown."""
_OF_OUTPUTS, _OF_ANSWERS = ("auc", "nll"), ("recall", "fpr", "dprime", "response_criterion")
_OF_BOXES = ("missed", "false_boxes")
_WHOLE = pl.col("cue").is_null() & pl.col("group").is_null()
_COUNTED = ("hard_positive", "hard_negative")
_SHORT = {
    "hard_positive": "hard pos", "easy_positive": "easy pos",
    "hard_negative": "hard neg", "easy_negative": "easy neg",
}  # fmt: skip
_AVERAGE = re.compile(rf"{AVERAGE} of \d+( to \d+)?( of \d+)?")

Row = dict[str, Any]


def tables_of(
    scores: Scores, metrics: Sequence[str] = (), most: int | None = None
) -> list[DisplayTable]:
    """Tables of scores by criterion and split, of scores by cue and by group, and of differences,
    if present. Of more than ``most`` lines, all averages and the worst others, as a note explains.
    """
    metric_names = scores.table["metric"].unique().to_list()
    usual = _OF_OUTPUTS if "auc" in metric_names else _OF_ANSWERS
    usual = _OF_BOXES if scores.box_effects.height else usual
    metrics = [metric for metric in metrics or usual if metric in metric_names]
    columns = [(metric, subset) for metric in metrics for subset in _COLUMNS[metric][1]]
    of_cues = [(metric, subset) for metric, subset in columns if subset != "all"]
    table, tables = partial(_table, most=most), list[DisplayTable]()
    # values of captions that are pooled over splits are in no table
    places = scores.table.drop_nulls("split").group_by("criterion", "split", maintain_order=True)
    for (criterion, split), part in places:
        rows, place = part.filter(_WHOLE), f"{criterion} ({split})"
        extra = [s for s in rows["subset"].unique(maintain_order=True) if s.startswith("avg:")]
        columns = [(m, subset) for m in metrics for subset in (*_COLUMNS[m][1], *extra)]
        keys = ["task", "run"] if rows["run"].n_unique() > 1 else ["task"]
        tables += table(f"Scores on {criterion} challenge sets ({split})", rows, keys, columns)
        by_cue, by_group = part.drop_nulls("cue"), part.drop_nulls("group")
        tables += table(f"By context cue: {place}", by_cue, ["task", "run", "cue"], of_cues)
        tables += table(f"By group: {place}", by_group, ["task", "run", "group"], columns)
    rows = scores.differences.filter(_WHOLE).rename({"difference": "value"})
    groups = rows.group_by("criterion", "split", "baseline", maintain_order=True)
    for (criterion, split, baseline), part in groups:
        title = f"Differences from {baseline} on {criterion} challenge sets ({split})"
        tables += table(title, part, ["task", "run"], columns, differences=True)
    return tables + (changes_tables(scores.changes) if scores.changes else [])


def _table(
    title: str,
    rows: pl.DataFrame,
    keys: list[str],
    columns: Sequence[tuple[str, str]],
    *,
    most: int | None,
    differences: bool = False,
) -> list[DisplayTable]:
    """A line for each value of the keys: the counts of hard images, unless these are differences,
    and the values wanted. The worst lines are those by the first value, the undefined ones last.
    """
    of_tasks = rows.filter(pl.col("task") != AVERAGE)
    tasks = of_tasks["task"].n_unique()
    listed = []
    for names, group in rows.group_by(keys, maintain_order=True):
        cells = {(r["metric"], r["subset"]): r for r in group.iter_rows(named=True)}
        first, *others = map(str, names)
        average = first == AVERAGE
        if average:
            like = [pl.col(key) == value for key, value in zip(keys[1:], names[1:], strict=True)]
            cells, counted = _alike(cells, columns, of_tasks.filter(*like))
            first = average_label(counted, tasks)
        n = {subset: row["n"] for (_, subset), row in cells.items()}
        counts = [] if differences else [f"{n[side]:,}" for side in _COUNTED]
        values = [_cell(cells.get(key), signed=differences) for key in columns]
        value = cells.get(columns[0], {}).get("value") if columns else None
        listed.append((average, value, [first, *others, *counts, *values]))
    # all runs of a task together, the average last
    listed.sort(key=lambda row: row[0])
    notes, total = [], len(listed)
    if most is not None and total > most and columns:
        metric, subset = columns[0]
        sign, order = (1, "lowest") if metric in LARGER_IS_BETTER else (-1, "highest")
        worst = [row for row in listed if not row[0]]
        averages = listed[len(worst) :]
        worst.sort(key=lambda row: math.inf if row[1] is None else sign * row[1])
        listed = [*worst[: max(most - len(averages), 0)], *averages]
        first = f"{order} {_COLUMNS[metric][0]} {_SHORT.get(subset, subset)}"
        title = f"{title}: {len(listed):,} of {total:,} rows"
        notes = [f"averages, and rows with the {first}"]
    counts = [] if differences else [_SHORT[side] for side in _COUNTED]
    heads = (f"{_COLUMNS[metric][0]} {_SHORT.get(subset, subset)}" for metric, subset in columns)
    shown = [row for *_, row in listed]
    head = [*keys, *counts, *heads]
    return [DisplayTable(title, head, shown, len(keys), notes)] if listed else []


def _alike(
    cells: dict[tuple[str, str], Row], columns: Sequence[tuple[str, str]], of_tasks: pl.DataFrame
) -> tuple[dict[tuple[str, str], Row], list[int]]:
    """Averages of one line, over the same tasks, and how many these are.

    If they are over others, their values and counts are taken over the tasks that all of them
    have, without intervals. An average that is null, as a strict one is, stays so.
    """
    defined = [cells[key] for key in columns if key in cells and cells[key]["value"] is not None]
    tasks = of_tasks["task"].unique().to_list()
    lists = {
        row["averaged_tasks"]: set(named_tasks(row["averaged_tasks"], tasks)) for row in defined
    }
    if len(lists) < 2:
        return cells, [row["n_tasks"] for row in defined]
    common = set.intersection(*lists.values())
    means = of_tasks.filter(pl.col("task").is_in(common)).group_by("metric", "subset")
    taken = {
        (metric, subset): {"value": value, "n": n, "low": None}
        for metric, subset, value, n in means.agg(pl.col("value").mean(), pl.col("n").sum()).rows()
    }
    lacking = {"value": None, "n": 0, "low": None}
    return {key: {**row, **taken.get(key, lacking)} for key, row in cells.items()}, [len(common)]


def average_label(counts: Sequence[int], tasks: int) -> str:
    """``average of 7``, ``average of 6 of 7``, or ``average of 3 to 6 of 7`` for several counts."""
    few, many = (choose(counts, default=tasks) for choose in (min, max))
    over = f"{few}" if few == many else f"{few} to {many}"
    return f"{AVERAGE} of {over}" + (f" of {tasks}" if few < tasks else "")


def is_average(cell: str) -> bool:
    """True if the first cell of a line belongs to an average."""
    return _AVERAGE.fullmatch(cell) is not None


def mean_sd(mean: float | None, sd: float | None = None) -> str:
    """``0.911 (0.003)``, the deviation if it is known; a dash where the mean is unknown."""
    if mean is None:
        return "–"
    return f"{mean:.3f}" if sd is None else f"{mean:.3f} ({sd:.3f})"


def _cell(row: Row | None, *, signed: bool = False) -> str:
    """The value with three decimals, or a dash, and its interval."""
    sign = "+" if signed else ""
    text = "–" if row is None or row["value"] is None else f"{row['value']:{sign}.3f}"
    if row is None or row["low"] is None:
        return text
    bounds = (f"{row[bound]:{sign}.3f}" for bound in ("low", "high"))
    low, high = (re.sub(r"^([+-]?)0\.", r"\1.", bound) for bound in bounds)
    return f"{text} [{low}, {high}]"


def markdown(tables: Sequence[DisplayTable]) -> str:
    """Tables as GitHub-flavored Markdown."""
    return "\n".join(_markdown(table) for table in tables)


_MARKDOWN = re.compile(r"[\\`*\[\]<>&|~]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")


def _markdown(table: DisplayTable) -> str:
    def escaped(name: str) -> str:
        return _MARKDOWN.sub(r"\\\g<0>", printable(name))

    def line(cells: Sequence[str], names: int) -> str:
        # numbers with their intervals need nothing
        return "| " + " | ".join([*map(escaped, cells[:names]), *cells[names:]]) + " |"

    n = len(table.columns)
    rule = line(["---" if column < table.left else "---:" for column in range(n)], 0)
    body = [line(row, table.left) for row in table.rows]
    title = f"**{escaped(table.title)}**"
    return "\n".join([title, "", line(table.columns, n), rule, *body, ""])


_TEX = {c: f"\\{c}" for c in "&%$#_{}"} | {"–": "--"} | {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
}  # fmt: skip


def latex(tables: Sequence[DisplayTable]) -> str:
    """Tables as LaTeX with the package booktabs."""
    return "\n".join(_latex(table) for table in tables)


def _latex(table: DisplayTable) -> str:
    def escaped(text: str) -> str:
        return "".join(_TEX.get(c, c) for c in printable(text))

    def line(cells: Sequence[str]) -> str:
        text = " & ".join(escaped(cell) for cell in cells) + r" \\"
        # after the end of a row or a rule, a bracket or star would be an argument of it
        return f"{{}}{text}" if text[0] in "[*" else text

    spec = "l" * table.left + "r" * (len(table.columns) - table.left)
    body = [line(row) for row in table.rows]
    position = next((i for i, row in enumerate(table.rows) if is_average(row[0])), 0)
    body[position:position] = [r"\midrule"] if position else []
    caption, tabular = rf"\caption{{{escaped(table.title)}}}", rf"\begin{{tabular}}{{{spec}}}"
    head = [r"\begin{table}", r"\centering", caption, tabular]
    tail = [r"\bottomrule", r"\end{tabular}", r"\end{table}", ""]
    return "\n".join([*head, r"\toprule", line(table.columns), r"\midrule", *body, *tail])


@dataclass(frozen=True, eq=False)
class SetsShown:
    """A table of counts or thresholds.

    Attributes:
        name: such as ``table2``.
        title: what it shows.
        columns: names of its numbers -> column titles.
        rows: ``source, criterion, split, task``, the numbers, and ``reason`` if there is no set;
            of thresholds ``tied_positive`` and ``tied_negative`` too. Next to the paper's numbers
            ``paper_COLUMN`` and ``difference_COLUMN`` (here - paper) for each.
        decimals: of a number; 0 for counts.
    """

    name: str
    title: str
    columns: Mapping[str, str]
    rows: pl.DataFrame
    decimals: int

    @property
    def shown(self) -> DisplayTable:
        """A line for each task; next to the paper, three."""
        compared = any(name.startswith("paper_") for name in self.rows.columns)
        lines: list[list[str]] = []
        for row in self.rows.iter_rows(named=True):
            task = row["task"]
            tied = {c: " (tied)" if row.get(f"tied_{c}") else "" for c in self.columns}
            own = [_number(row[c], self.decimals) + tied[c] for c in self.columns]
            lines.append([task, *(["here"] if compared else []), *own])
            if compared:
                decimals = min(self.decimals, 2)
                theirs = (_number(row[f"paper_{c}"], decimals) for c in self.columns)
                gaps = (_number(row[f"difference_{c}"], self.decimals, "+") for c in self.columns)
                lines += [[task, "paper", *theirs], [task, "difference", *gaps]]
        head = ["task", *(["of"] if compared else []), *self.columns.values()]
        return DisplayTable(self.title, head, lines, 1 + compared)


def _number(value: float | None, decimals: int, sign: str = "") -> str:
    return "–" if value is None else f"{value:{sign},.{decimals}f}"


_WRITERS: dict[str, Callable[[Any, Sequence[str]], bytes]] = {
    ".json": lambda scores, _: msgspec.json.encode(as_json(scores)) + b"\n",
    ".md": lambda scores, metrics: markdown(tables_of(scores, metrics)).encode(),
    ".tex": lambda scores, metrics: latex(tables_of(scores, metrics)).encode(),
}
SCORE_FILES = (*TABLE_FILES, *_WRITERS)
"""Endings that scores can be written with."""


def as_json(scores: Scores) -> dict[str, Any]:
    """Everything as JSON-like values. For answers also ``headlines``, and ``answers``: rates of yes
    by run, criterion and subset, the share of unknown answers and the bounds that they leave. For
    boxes ``headlines`` and ``box_effects``. Of several runs of answers ``changes``.
    """
    extra: dict[str, Any] = {}
    if scores.contexts or scores.box_effects.height:
        extra["headlines"] = scores.headlines
    if scores.box_effects.height:
        extra["box_effects"] = scores.box_effects.to_dicts()
    if scores.contexts:
        rates = scores.contexts.items()
        extra["answers"] = [
            {"run": run, "criterion": criterion, **row}
            for (run, criterion), rate in rates
            for row in rate.bounded()
        ]
    if scores.changes:
        extra["changes"] = [change.as_json() for change in scores.changes]
    return {
        **extra,
        "settings": dict(scores.settings),
        "notes": list(scores.notes),
        "scores": scores.table.to_dicts(),
        "differences": scores.differences.to_dicts(),
    }


def save_scores(
    scores: Scores, path: str | Path, *, metrics: Sequence[str] = (), overwrite: bool = False
) -> list[Path]:
    """Write scores to a file whose ending names the format; return the files that were written.

    Differences between runs, if there are any, go to a second file ``NAME-differences`` in
    Parquet and CSV.

    Args:
        scores: of ``nooch.evaluate`` or ``nooch.vlm.score_captions``.
        path: ending in ``.parquet``, ``.csv``, ``.json``, ``.md`` or ``.tex``.
        metrics: which the tables of ``.md`` and ``.tex`` show, see ``tables_of``; the others
            contain all.
        overwrite: replace files that exist.

    Raises:
        ParameterError: another ending.
        OutputError: a file exists (and ``overwrite`` is false) or cannot be written.

    Examples:
        >>> scores = nooch.evaluate("suite", "model.csv")
        >>> [path.name for path in nooch.save_scores(scores, "scores.csv")]
        ['scores.csv']
    """
    tables = {"": scores.table}
    if scores.differences.height:
        tables["differences"] = scores.differences
    whole = {ending: partial(form, scores, metrics) for ending, form in _WRITERS.items()}
    contents = result_contents(path, "scores file", tables, whole, overwrite=overwrite)
    write_files(contents)
    return list(contents)
