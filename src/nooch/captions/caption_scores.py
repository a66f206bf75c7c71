"""Captions and challenge sets -> how often absent objects are mentioned, by context."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from nooch.answers import images_of
from nooch.captions.caption_files import ModelCaptions, read_captions
from nooch.captions.mention_vocabulary import COCO, Vocabulary, load_vocabulary
from nooch.challenge import Suite
from nooch.data import ImageId
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
    for done, run in enumerate(read_captions(paths, images_of(suite)), 1):
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
    counts = {image: [vocabulary.mentions(t) for t in texts] for image, texts in run.texts.items()}
    rows, lines = [], []
    if run.n_outside:
        lines.append(f"{run.run}: {run.n_outside:,} captions are of images that the suite lacks")
    for criterion, known in cells.items():
        mentioned = _with_mentions(known, counts)
        if not mentioned.height:
            lines.append(f"{run.run}: no caption is of an image of {criterion}'s sets")
            continue
        parts = {POOLED: mentioned}
        parts |= {task: mentioned.filter(task=task) for task in tasks}
        for task, part in parts.items():
            if not part.height:
                continue
            rates = context_rates(part, bootstrap=chosen.bootstrap, seed=chosen.seed)
            frame = rates.frame().insert_column(0, pl.lit(task).alias("task"))
            rows.append(frame.insert_column(0, pl.lit(criterion).alias("criterion")))
            if task == POOLED and (line := headline(rates, "mentions")):
                lines.append(f"{run.run}, {criterion}: {line}")
        rows.append(_chair(criterion, mentioned, counts))
    table = pl.concat(rows)
    return table.insert_column(0, pl.lit(run.run).alias("run")), lines


def _with_mentions(
    known: pl.DataFrame, counts: Mapping[ImageId, Sequence[Counter[str]]]
) -> pl.DataFrame:
    """``image_id, task, cell`` of captioned images; ``yes``, the share of captions that mention."""
    ids = pl.Series("image_id", list(counts), dtype=known["image_id"].dtype)
    captioned = known.join(ids.to_frame(), on="image_id", how="semi")
    yes = [
        sum(task in mentions for mentions in counts[image]) / len(counts[image])
        for image, task in captioned.select("image_id", "task").iter_rows()
    ]
    return captioned.with_columns(yes=pl.Series(yes, dtype=pl.Float64))


def _chair(
    criterion: str, known: pl.DataFrame, counts: Mapping[ImageId, Sequence[Counter[str]]]
) -> pl.DataFrame:
    """CHAIR_i and CHAIR_s over the tasks whose labels are known, as rows of the table."""
    absent = known.filter(pl.col("cell").str.ends_with("negative"))
    of_image: dict[ImageId, tuple[set[str], set[str]]] = {}
    for frame, place in ((known, 0), (absent, 1)):
        for image, task in frame.select("image_id", "task").iter_rows():
            of_image.setdefault(image, (set(), set()))[place].add(task)
    total = wrong = captions = with_wrong = 0
    for image, (tasks, missing) in of_image.items():
        for mentions in counts[image]:
            bad = sum(mentions[task] for task in missing)
            total += sum(mentions[task] for task in tasks)
            wrong += bad
            captions += 1
            with_wrong += bad > 0
    shares = (("chair_i", wrong, total), ("chair_s", with_wrong, captions))
    rows = [
        {"measure": name, "value": part / n if n else None, "n": n, "reason": None if n else "none"}
        for name, part, n in shares
    ]
    frame = pl.DataFrame(rows, schema_overrides={"value": pl.Float64, "reason": pl.String})
    return frame.select(
        pl.lit(criterion).alias("criterion"),
        pl.lit(POOLED).alias("task"),
        "measure",
        pl.lit("all").alias("subset"),
        "value",
        *(pl.lit(None, pl.Float64).alias(end) for end in ("low", "high")),
        "n",
        "reason",
    )
