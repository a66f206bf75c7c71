"""A suite and sources of evidence -> its labels, those first that the sources contradict most."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.auditing.audit_result import COLUMNS, Audit, AuditOptions
from nooch.auditing.label_evidence import (
    context_run,
    cross_fitted,
    fold_numbers,
    mentions,
    values_of,
)
from nooch.auditing.review_page import AUDIT_MARKER, write_review
from nooch.captions import load_vocabulary, read_captions
from nooch.challenge import Suite, as_suite
from nooch.data import Dataset
from nooch.errors import InputError, check_one_of
from nooch.evaluation import Predictions, load_predictions
from nooch.evaluation.prediction_files import PredictionSource
from nooch.files import Place, atomic_folder, check_output
from nooch.shared_types import Progress, no_progress, options_from

__all__ = ["audit"]


def audit(
    suite: Suite | str | Path,
    predictions: PredictionSource = (),
    *,
    captions: Sequence[str | Path] = (),
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
        captions: files of captions, see ``nooch.score_captions``.
        data: the dataset, whose other labels are the context; by default the one that the suite
            records, where it is there.
        out: folder to write: ``audit.parquet``, and ``index.html`` to review labels.
        overwrite: replace an earlier audit.
        options: see ``AuditOptions``.
        progress: called with what is being done, and how much of how much is done.
        named: fields of ``AuditOptions``, such as ``split`` and ``most``.

    Raises:
        InputError: files that cannot be used, no source, two of one name, labels all alike.
        ParameterError: unknown tasks or splits, another dataset than the suite's.
        OutputError: ``out`` exists (and ``overwrite`` is false) or cannot be written.
    """
    suite, asked = as_suite(suite), options_from(AuditOptions, options, named)
    if out is not None:
        check_output(out, overwrite=overwrite, marker=AUDIT_MARKER)
    splits = suite.splits_to_score(asked.split)
    with_sets = dict.fromkeys(key[1] for key in suite.keys if key[2] in splits)
    for task in asked.tasks or ():
        check_one_of("task with a set", task, with_sets, owner="the suite")
    tasks = [task for task in with_sets if asked.tasks is None or task in asked.tasks]
    found = suite.found_in() if data is None else suite.require_dataset(data)
    runs = (
        []
        if isinstance(predictions, Sequence) and not predictions
        else (load_predictions(predictions, suite, found, options=asked))
    )
    if captions:
        words, texts = load_vocabulary(asked.synonyms), read_captions(captions, suite.image_ids())
        runs += [mentions(one, words, tasks) for one in texts]
    names = [*(["context"] if found is not None else []), *(run.run for run in runs)]
    if not names or len({*names, *COLUMNS}) < len(names) + len(COLUMNS):
        raise InputError(
            f"the sources of evidence are {', '.join(names) or 'none'}",
            allowed=f"one and more of different names, but {', '.join(COLUMNS)}",
            remedy="give `predictions`, `captions` or `dataset`; rename files of one name",
        )
    notes = [f"{run.run}: {text}" for run in runs for text in run.notes]
    if found is None:
        notes.append("no context: the dataset is not where it was; it can be given as `dataset`")
    else:
        runs.insert(0, context_run(found, tasks, splits, asked.seed, progress))
    table = _ranked(pl.concat(_labels(suite, task, splits) for task in tasks), runs, asked.seed)
    result = Audit(table, notes)
    if out is not None:
        with atomic_folder(out, overwrite=overwrite, marker=AUDIT_MARKER) as folder:
            write_review(result, suite, found, folder, asked, progress)
    return result


def _labels(suite: Suite, task: str, splits: Sequence[str]) -> pl.DataFrame:
    """``image_id, task, label`` of the images on which any criterion has a verdict."""
    keys = [key for key in suite.keys if key[1] == task and key[2] in splits]
    frames = [suite.set(*key).table.select("image_id", "label") for key in keys]
    one_each = pl.concat(frames).unique("image_id").sort("image_id")
    return one_each.select("image_id", pl.lit(task).alias("task"), "label")


def _ranked(pairs: pl.DataFrame, runs: Sequence[Predictions], seed: int) -> pl.DataFrame:
    """The table of ``Audit``."""
    labels, folds = pairs["label"].to_numpy() == 1, fold_numbers(pairs["image_id"], seed)
    if labels.all() or not labels.any():
        raise InputError("all labels are alike: nothing can be weighed", allowed="yes and no")
    parts = pairs.partition_by("task", maintain_order=True)
    values = np.stack(
        [
            np.concatenate([values_of(run, p["task"][0], p["image_id"]) for p in parts])
            for run in runs
        ],
        axis=1,
    )
    odds = {
        run.run: _weighed(values[:, [column]], labels, folds) for column, run in enumerate(runs)
    }
    score = _weighed(values, labels, folds)
    against = {name: np.where(labels, -one, one) for name, one in {"score": score, **odds}.items()}
    table = pairs.with_columns(pl.Series(name, one) for name, one in against.items())
    order = pl.col("score"), pl.col("task"), pl.col("image_id")
    return table.with_columns(pl.col(pl.Float64).fill_nan(None)).sort(
        order, descending=[True, False, False], nulls_last=True
    )


def _weighed(
    values: NDArray[np.float64], labels: NDArray[np.bool_], folds: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Log odds of presence from the sources that speak of each label, float64 (n,).

    A regression for each set of sources, fitted on the labels that all of them speak of.
    """
    known = ~np.isnan(values)
    odds = np.full(len(values), np.nan)
    bits = 1 << np.arange(values.shape[1])
    codes = known @ bits
    for code in np.unique(codes[codes > 0]):
        speaking = bits & code > 0
        own, rows = codes == code, codes & code == code
        fitted = cross_fitted(values[np.ix_(rows, speaking)], labels[rows], folds[rows])
        odds[own] = fitted[own[rows]]
    return odds
