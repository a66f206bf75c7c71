"""A suite and sources of evidence -> its labels, those first that the sources contradict most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from nooch.auditing.label_evidence import context_run, fold_numbers, mentions, values_of, weighed
from nooch.auditing.review_page import write_review
from nooch.captions import COCO, load_vocabulary, read_captions
from nooch.challenge import Suite, as_suite
from nooch.data import Dataset, parquet_bytes
from nooch.display import DisplayTable, TabularResult
from nooch.english import counted
from nooch.errors import InputError, ParameterError
from nooch.evaluation import PredictionFormat, Predictions, load_predictions
from nooch.evaluation.prediction_files import PredictionSource
from nooch.files import Place, atomic_folder, check_output
from nooch.shared_types import Progress, no_progress, options_from, tracked

__all__ = ["Audit", "AuditOptions", "audit"]

_PAIR = ("image_id", "task", "label")
_TABLE = "audit.parquet"
_SHOWN = 20


@dataclass(frozen=True, kw_only=True)
class AuditOptions(PredictionFormat):
    """Which labels are audited, and what the page shows; also the fields of ``PredictionFormat``.

    Attributes:
        split: one or several; by default ``test``, or the only one.
        tasks: names; all of the suite's by default.
        captions: files of captions, see ``nooch.score_captions``.
        synonyms: how captions mention tasks: ``coco``, or a YAML file.
        most: labels on the page at most.
        images: folder of images; by default the one that the dataset records, where it exists.
    """

    split: str | Sequence[str] | None = None
    tasks: Sequence[str] | None = None
    captions: Sequence[str | Path] = ()
    synonyms: str | Path = COCO
    most: int = 200
    images: str | Path | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.most < 1:
            raise ParameterError(f"most is {self.most}", allowed="1 and more")


@dataclass(frozen=True, eq=False, repr=False)
class Audit(TabularResult):
    """Labels, those first that are most likely wrong.

    Attributes:
        table: ``image_id, task, label, score``, and a column for each source. All numbers are
            natural log odds against the label: above 0, they contradict it. A source is null where
            it says nothing; ``score`` is of all together.
        notes: what a reader should know.
    """

    table: pl.DataFrame
    notes: Sequence[str] = ()

    @property
    def display(self) -> DisplayTable:
        """The labels that are contradicted most."""
        title = f"Audit({counted(len(self.table), 'label')}; {', '.join(self.table.columns[4:])})"
        rows = self.table.head(_SHOWN).rows()
        return DisplayTable(title, self.table.columns, rows, left=2, notes=self.notes)


def audit(
    suite: Suite | str | Path,
    predictions: PredictionSource = None,
    *,
    data: Dataset | Place | str | None = None,
    out: str | Path | None = None,
    overwrite: bool = False,
    options: AuditOptions | None = None,
    progress: Progress = no_progress,
    **named: Any,
) -> Audit:
    """Rank labels by how strongly models, captions and the context contradict them.

    Each source is turned into log odds of presence by a logistic regression on the labels
    themselves, fitted on the images of the other folds; another one weighs all sources together,
    so that models that err alike count once, and a source that is silent counts nothing.

    Args:
        suite: whose labels.
        predictions: as for ``nooch.evaluate``: outputs, or answers in words, of several models.
        data: the dataset, whose other labels are the context; by default the one that the suite
            records, where it is there.
        out: folder to write: ``audit.parquet``, and ``index.html`` to review labels.
        overwrite: replace an earlier audit.
        options: see ``AuditOptions``.
        progress: called with what is being done, and how much of how much is done.
        named: fields of ``AuditOptions``, such as ``split`` and ``captions``.

    Raises:
        InputError: files that cannot be used, no source, two of one name, labels all alike.
        ParameterError: unknown tasks or splits, another dataset than the suite's.
        OutputError: ``out`` exists (and ``overwrite`` is false) or cannot be written.
    """
    suite, asked = as_suite(suite), options_from(AuditOptions, options, named)
    if out is not None:
        check_output(out, overwrite=overwrite, marker=_TABLE)
    splits = suite.splits_to_score(asked.split)
    keys = suite.select_keys((), asked.tasks or (), splits)
    tasks = list(dict.fromkeys(key[1] for key in keys))
    found = suite.found_in() if data is None else suite.require_dataset(data)
    runs = []
    if predictions is not None:
        runs += load_predictions(predictions, suite, found, options=asked)
    if asked.captions:
        words, ids = load_vocabulary(asked.synonyms), suite.image_ids()
        runs += [mentions(one, words, tasks) for one in read_captions(asked.captions, ids)]
    notes = [f"{run.run}: {text}" for run in runs for text in run.notes]
    if found is not None:
        runs.insert(0, context_run(found, tasks, splits, progress))
    else:
        notes.append("no context: the dataset is not where it was; it can be given as `dataset`")
    table = _ranked(suite, keys, runs, progress)
    if out is not None:
        with atomic_folder(out, overwrite=overwrite, marker=_TABLE) as folder:
            shown = table.head(asked.most)
            write_review(folder, shown, suite, found, asked.images, notes, progress)
            (folder / _TABLE).write_bytes(parquet_bytes(table))
    return Audit(table, notes)


def _ranked(
    suite: Suite,
    keys: Sequence[tuple[str, str, str]],
    runs: Sequence[Predictions],
    progress: Progress,
) -> pl.DataFrame:
    """The table of ``Audit``: the images on which any criterion has a verdict."""
    names = [run.run for run in runs]
    if not names or len({*names, *_PAIR, "score"}) < len(names) + 4:
        raise InputError(
            f"the sources of evidence are {', '.join(names) or 'none'}",
            allowed=f"one and more of different names, but {', '.join(_PAIR)}, score",
            remedy="give `predictions`, `captions` or `dataset`; rename files of one name",
        )
    frames = []
    for task in dict.fromkeys(key[1] for key in keys):
        sets = (suite.set(*key).table for key in keys if key[1] == task)
        rows = pl.concat(one.select("image_id", "label") for one in sets).unique("image_id")
        rows = rows.sort("image_id").with_columns(task=pl.lit(task))
        values = {run.run: values_of(run, task, rows["image_id"]) for run in runs}
        frames.append(rows.with_columns(**{name: pl.Series(one) for name, one in values.items()}))
    pairs = pl.concat(frames)
    labels, folds = pairs["label"].to_numpy() == 1, fold_numbers(pairs["image_id"])
    if labels.all() or not labels.any():
        raise InputError("all labels are alike: nothing can be weighed", allowed="yes and no")
    sources = {"score": names, **{name: [name] for name in names}}
    odds = {
        name: weighed(pairs.select(of).to_numpy(), labels, folds)
        for name, of in tracked(sources.items(), len(sources), "weighing sources", progress)
    }
    against = [pl.Series(name, np.where(labels, -one, one)) for name, one in odds.items()]
    table = pairs.select(*_PAIR, *against).fill_nan(None)
    order = {"score": True, "task": False, "image_id": False}
    return table.sort(*order, descending=[*order.values()], nulls_last=True)
