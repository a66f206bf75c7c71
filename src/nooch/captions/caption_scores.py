"""Captions and challenge sets -> how often absent objects are mentioned, by context."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from nooch.captions.caption_files import ModelCaptions, read_captions
from nooch.captions.mention_vocabulary import COCO, Vocabulary, load_vocabulary
from nooch.challenge import Suite
from nooch.display import DisplayTable, TabularResult
from nooch.errors import ParameterError, check_one_of, some_of
from nooch.evaluation.context_rates import context_rates, headline
from nooch.report.score_files import result_bytes
from nooch.shared_types import Progress, no_progress, options_from

__all__ = ["POOLED", "CaptionOptions", "CaptionScores", "score_captions"]

POOLED = "pooled"
"""The task that stands for the answers about all tasks together."""
_SHOWN = (
    ("absent_% hard", "rate", "hard_negative", 100.0),
    ("absent_% easy", "rate", "easy_negative", 100.0),
    ("absent ratio", "ratio", "negative", 1.0),
    ("odds ratio", "odds_ratio", "negative", 1.0),
    ("recall_% hard", "rate", "hard_positive", 100.0),
    ("recall_% easy", "rate", "easy_positive", 100.0),
)
"""What is shown: title, measure, subset, factor."""


@dataclass(frozen=True)
class CaptionOptions:
    """What captions are scored on.

    Attributes:
        split: one or several; by default ``test``, or the only one.
        criteria: names; all of the suite's by default.
        tasks: names; by default those that have synonyms.
        synonyms: ``coco``, or a YAML file, see ``load_vocabulary``.
        bootstrap: resamples of the images, for intervals; 0 for Wilson's of the rates alone.
        seed: of the resamples.
    """

    split: str | Sequence[str] | None = None
    criteria: Sequence[str] | None = None
    tasks: Sequence[str] | None = None
    synonyms: str | Path = COCO
    bootstrap: int = 1000
    seed: int = 0


@dataclass(frozen=True, eq=False, repr=False)
class CaptionScores(TabularResult):
    """How often captions mention objects.

    Attributes:
        table: ``run, criterion, task`` (``pooled``: all tasks), ``measure`` (``rate`` of mentions;
            ``ratio`` of the rates and Mantel-Haenszel ``odds_ratio`` over tasks, hard to easy),
            ``subset`` (a cell, or a side: ``positive`` for recall, ``negative`` for mentions of
            absent objects), ``value, low, high, n, reason``. Besides, for each run, ``chair_i``
            (the share of mentions that are of absent objects) and ``chair_s`` (of captions with
            one), over the tasks (Rohrbach et al., EMNLP 2018).
        notes: what a reader should know, first a line that sums up each run and criterion.
        settings: how it was computed (JSON-like).
    """

    table: pl.DataFrame
    notes: Sequence[str] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def display(self) -> DisplayTable:
        """Pooled over tasks: recall, mentions of absent objects in percent, ratio, odds ratio."""
        columns = ["run", "criterion", *(title for title, *_ in _SHOWN)]
        pooled = self.table.filter(pl.col("task") == POOLED)
        rows = []
        for (run, criterion), part in pooled.group_by("run", "criterion", maintain_order=True):
            values = {(row["measure"], row["subset"]): row for row in part.iter_rows(named=True)}
            cells = [_cell(values[measure, of], scale) for _, measure, of, scale in _SHOWN]
            rows.append([run, criterion, *cells])
        return DisplayTable("CaptionScores", columns, rows, left=2, notes=self.notes)

    def as_bytes(self, ending: str) -> bytes:
        """The table as ``.parquet`` or ``.csv``; with notes and settings as ``.json``."""
        content = {"settings": self.settings, "notes": self.notes, "scores": self.table.to_dicts()}
        return result_bytes(self.table, ending, content)


def _cell(row: Mapping[str, Any], scale: float) -> str | None:
    """A value with its interval."""
    if row["value"] is None:
        return None
    interval = ""
    if row["low"] is not None:
        interval = f" [{scale * row['low']:.1f}, {scale * row['high']:.1f}]"
    return f"{scale * row['value']:.1f}{interval}"


def score_captions(
    suite: Suite,
    captions: str | Path | Sequence[str | Path],
    *,
    options: CaptionOptions | None = None,
    progress: Progress = no_progress,
    **named: Any,
) -> CaptionScores:
    """Rates of mentions by side and subset: does a model mention objects because of the context?

    An image counts as often as its captions mention the task's object: 1, 0, or the share of its
    captions. Rates are pooled over images and tasks; images are resampled with all their captions.

    Args:
        suite: the suite.
        captions: one or several files, see ``read_captions``.
        options: see ``CaptionOptions``.
        progress: called with what is being done, and how many files are done.
        named: fields of ``CaptionOptions``, such as ``split`` and ``synonyms``.

    Raises:
        InputError: files of captions or synonyms that cannot be used.
        ParameterError: unknown criteria, tasks or splits, or tasks without synonyms.
    """
    chosen = options_from(CaptionOptions, options, named)
    vocabulary = load_vocabulary(chosen.synonyms)
    tasks, notes = _tasks(suite, vocabulary, chosen)
    for name in chosen.criteria or ():
        check_one_of("criterion", name, suite.criteria, owner="the suite")
    splits = suite.splits_to_score(chosen.split)
    keys = [
        key
        for key in suite.keys
        if key[1] in tasks
        and key[2] in splits
        and (chosen.criteria is None or key[0] in chosen.criteria)
    ]
    cells = _cells(suite, keys)
    paths = [captions] if isinstance(captions, str | Path) else list(captions)
    tables, lines = [], []
    for done, run in enumerate(read_captions(paths, suite.image_ids()), 1):
        frame, of_run = _scores(run, vocabulary, cells, tasks, chosen)
        tables.append(frame)
        lines += of_run
        progress("scoring captions", done, len(paths))
    settings = {name: getattr(chosen, name) for name in ("bootstrap", "seed")}
    settings |= {"synonyms": str(chosen.synonyms), "splits": splits}
    return CaptionScores(pl.concat(tables), [*lines, *notes], settings)


def _tasks(
    suite: Suite, vocabulary: Vocabulary, chosen: CaptionOptions
) -> tuple[list[str], list[str]]:
    for task in chosen.tasks or ():
        check_one_of("task", task, suite.tasks, owner="the suite")
    wanted = suite.tasks if chosen.tasks is None else chosen.tasks
    tasks = [task for task in wanted if task in vocabulary.classes]
    lacking = [task for task in wanted if task not in vocabulary.classes]
    if lacking and (chosen.tasks is not None or not tasks):
        raise ParameterError(
            f"there are no synonyms for {some_of(lacking)}",
            where="`synonyms`",
            allowed=some_of(vocabulary.classes, 12),
            remedy="list them in a YAML file: task: [words, ...]",
        )
    without = f"{len(lacking)} tasks without synonyms are left out: {some_of(lacking)}"
    return tasks, [without] if lacking else []


def _cells(suite: Suite, keys: Sequence[tuple[str, str, str]]) -> dict[str, pl.DataFrame]:
    """Criterion -> ``image_id, task, cell``."""
    parts: dict[str, list[pl.DataFrame]] = {}
    for key in keys:
        parts.setdefault(key[0], []).append(suite.set(*key).cell_frame)
    return {criterion: pl.concat(frames) for criterion, frames in parts.items()}


def _scores(
    run: ModelCaptions,
    vocabulary: Vocabulary,
    cells: Mapping[str, pl.DataFrame],
    tasks: Sequence[str],
    chosen: CaptionOptions,
) -> tuple[pl.DataFrame, list[str]]:
    """Rows of a run, and its lines for the reader."""
    captions = run.captions.with_row_index("number")
    mentions = enumerate(map(vocabulary.mentions, captions["caption"]))
    counts = [(number, *found) for number, some in mentions for found in some.items()]
    schema = {"number": pl.get_index_type(), "task": pl.String, "times": pl.Int64}
    said = pl.DataFrame(counts, schema, orient="row").join(captions, on="number")
    rows, lines = [], []
    if run.n_outside:
        lines.append(f"{run.run}: {run.n_outside:,} captions are of images that the suite lacks")
    for criterion, known in cells.items():
        mentioned = _with_mentions(known, captions, said)
        if not mentioned.height:
            lines.append(f"{run.run}: no caption is of an image of {criterion}'s sets")
            continue
        parts = {POOLED: mentioned}
        parts |= {task: mentioned.filter(task=task) for task in tasks}
        of_criterion = []
        for task, part in parts.items():
            if not part.height:
                continue
            rates = context_rates(part, bootstrap=chosen.bootstrap, seed=chosen.seed)
            of_criterion.append(rates.frame().select(pl.lit(task).alias("task"), pl.all()))
            if task == POOLED and (line := headline(rates, "mentions")):
                lines.append(f"{run.run}, {criterion}: {line}")
        of_criterion.append(pl.DataFrame(_chair(mentioned, said), of_criterion[0].schema))
        names = pl.lit(run.run).alias("run"), pl.lit(criterion).alias("criterion")
        rows.append(pl.concat(of_criterion).select(*names, pl.all()))
    return pl.concat(rows), lines


def _with_mentions(known: pl.DataFrame, captions: pl.DataFrame, said: pl.DataFrame) -> pl.DataFrame:
    """``image_id, task, cell`` of captioned images; ``captions``, how many an image has; ``yes``,
    the share of these that mention the task.
    """
    of_image = captions.group_by("image_id").agg(captions=pl.len())
    of_task = said.group_by("image_id", "task").agg(yes=pl.len())
    rows = known.join(of_image, on="image_id", maintain_order="left")
    rows = rows.join(of_task, on=["image_id", "task"], how="left", maintain_order="left")
    return rows.with_columns(pl.col("yes").fill_null(0) / pl.col("captions"))


def _chair(mentioned: pl.DataFrame, said: pl.DataFrame) -> list[dict[str, Any]]:
    """CHAIR_i and CHAIR_s over the tasks whose labels are known, as rows of the table."""
    of = said.join(mentioned.select("image_id", "task", "cell"), on=["image_id", "task"])
    wrong = of.filter(pl.col("cell").str.ends_with("negative"))
    captions = mentioned.unique("image_id")["captions"]
    shares = (
        ("chair_i", int(wrong["times"].sum()), int(of["times"].sum())),
        ("chair_s", wrong["number"].n_unique(), int(captions.sum())),
    )
    common = {"task": POOLED, "subset": "all"}
    return [
        {**common, "measure": name, "n": n, "value": part / n}
        if n
        else {**common, "measure": name, "n": 0, "reason": "none"}
        for name, part, n in shares
    ]
