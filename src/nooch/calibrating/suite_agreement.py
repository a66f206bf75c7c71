"""Two suites compared set by set, with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from nooch.challenge import CELLS, POOLED, Suite, as_suite
from nooch.display import DisplayTable, TabularResult
from nooch.errors import InputError, ParameterError
from nooch.evaluation import AVERAGE
from nooch.evaluation.bootstrap import BootstrapDraws, intervals, wilson
from nooch.published import Published, SetAgreement
from nooch.published import verify as verify_published

__all__ = ["SuiteAgreement", "agreement", "verify"]

Floats = NDArray[np.float64]
_METRICS = ("jaccard", "precision", "recall", "kappa")
_COUNTS = ["images", "first", "second", "both", "only_first", "only_second", "n_tasks"]
_N = len(CELLS)
_REST = _N * _N - 1
"""The pair of cells that nearly all images have: easy negatives in both suites."""


@dataclass(frozen=True, eq=False, repr=False)
class SuiteAgreement(TabularResult):
    """How far the challenge sets of a suite are those of a second one, the reference.

    Attributes:
        table: a row for each criterion, task, set (one of the four cells) and metric: ``criterion,
            task, set, metric, value, low, high, images, first, second, both, only_first,
            only_second, n_tasks``. Of the ``images`` that both suites have for the task, ``first``
            and ``second`` are in the set of the first and of the second, ``both`` in both; images
            of one suite alone are counted in ``only_first`` and ``only_second``. ``precision`` is
            the share of the first set that is in the second, ``recall`` the reverse; what is
            undefined is null. Task ``all tasks`` pools tasks, ``average`` is the mean over the
            ``n_tasks`` tasks where the metric is defined.
        settings: how it was computed (JSON-like).
    """

    table: pl.DataFrame
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def display(self) -> DisplayTable:
        """A row for each task and set, all tasks together first."""
        value, low, high = (pl.col(n).round(3).cast(pl.String) for n in ("value", "low", "high"))
        shown = pl.concat_str(value, pl.format(" [{}, {}]", low, high).fill_null(""))
        index = ["criterion", "task", "set", *_COUNTS[:-1]]
        wide = self.table.with_columns(shown.alias("shown")).pivot(
            on="metric", index=index, values="shown", maintain_order=True
        )
        rows = wide.filter(pl.any_horizontal(pl.col(_METRICS).is_not_null())).rows()
        notes = ["precision: the share of the first set that is in the second; recall: the reverse"]
        return DisplayTable("Agreement of two suites", wide.columns, rows, left=3, notes=notes)


def verify(
    suite: Suite | str | Any,
    other: Suite | Published | str | Any,
    *,
    bootstrap: int = 1000,
    seed: int = 0,
) -> SuiteAgreement | list[SetAgreement]:
    """Compare a suite with a second one, or with the published sets.

    Only images that both hold for a task, in whatever splits, are compared. Criteria are those of
    the same name, or the only ones of the two suites.

    Args:
        suite: a suite or its folder.
        other: the reference: a suite, its folder, or the published sets of ``read_published``.
        bootstrap: resamples of the images for 95 % percentile intervals. Where these have no
            width, and without resamples, shares have Wilson's.
        seed: of the resamples.

    Returns:
        A ``SuiteAgreement``; for published sets a ``SetAgreement`` for each, without intervals.

    Raises:
        InputError: the suites share no criterion, task or image, have ids of different types, or
            one holds hard images alone.
        ParameterError: a negative number of resamples.
    """
    if isinstance(other, Published):
        return verify_published(as_suite(suite), other)
    if bootstrap < 0:
        raise ParameterError(f"`bootstrap` is {bootstrap}", allowed="0 and more")
    first, second = as_suite(suite), as_suite(other)
    names = [(name, name) for name in first.criteria if name in second.criteria]
    if not names and len(first.criteria) == len(second.criteria) == 1:
        names = [(first.criteria[0], second.criteria[0])]
    tables = [
        agreement(_cells(first, a), _cells(second, b), bootstrap, seed).select(
            pl.lit(a).alias("criterion"), pl.all()
        )
        for a, b in names
    ]
    if not any(table["images"].max() for table in tables):
        raise InputError(
            "the suites share no criterion, task and image",
            allowed="criteria of one name, or one in each suite, of the same tasks and images",
        )
    return SuiteAgreement(pl.concat(tables), {"bootstrap": bootstrap, "seed": seed})


def _cells(suite: Suite, criterion: str) -> dict[str, pl.DataFrame]:
    """Task -> ``image_id, cell`` (an index into ``CELLS``) of its images with a verdict."""
    suite.require_easy("comparing suites")
    found: dict[str, list[pl.DataFrame]] = {}
    for key in suite.keys:
        if key[0] == criterion:
            one = suite.set(*key)
            frame = pl.DataFrame({"image_id": one.image_ids, "cell": one.cells})
            found.setdefault(key[1], []).append(frame)
    return {task: pl.concat(frames) for task, frames in found.items()}


def agreement(
    first: Mapping[str, pl.DataFrame],
    second: Mapping[str, pl.DataFrame],
    bootstrap: int = 0,
    seed: int = 0,
) -> pl.DataFrame:
    """The table of a ``SuiteAgreement`` without ``criterion``.

    Args:
        first: task -> ``image_id, cell`` (an index into ``CELLS``), each image once.
        second: likewise, of the reference.
        bootstrap: see ``verify``.
        seed: likewise.
    """
    if len({f["image_id"].dtype for one in (first, second) for f in one.values()}) > 1:
        problem = "ids of images are text on one side and integers on the other"
        raise InputError(problem, allowed="the same images on both sides")
    joined = {t: first[t].join(second[t], on="image_id") for t in first if t in second}
    joined = {task: frame for task, frame in joined.items() if frame.height}
    ids = pl.concat([f["image_id"] for f in joined.values()] or [pl.Series()]).unique().sort()
    pairs = _cell_pairs(list(joined.values()), ids)
    draws = BootstrapDraws(len(ids), bootstrap, seed).weights(slice(None))
    sizes = _sizes(pairs, np.ones((len(ids), 1)))
    values, replicates = _metrics(sizes), [_metrics(_sizes(pairs, block)) for _, block in draws]
    low, high = np.full((2, *values.shape[:-1]), np.nan)
    if replicates:
        low, high, _ = intervals(np.concatenate(replicates, axis=-1))
    images, of_first, of_second, both = sizes[..., 0]
    # what a metric is a share of; a kappa is none
    totals = np.stack([of_first + of_second - both, of_first, of_second, both * np.nan])
    narrow, by_share = np.isnan(low) | (high <= low), wilson(values[..., 0], totals)
    only = np.full((2, len(joined) + 2, 1), np.nan)
    for side, one in enumerate((first, second)):
        only[side, 2:, 0] = [one[task].height - frame.height for task, frame in joined.items()]
    columns = {
        "task": np.array([POOLED, AVERAGE, *joined])[:, None],
        "set": np.array(CELLS),
        "metric": np.array(_METRICS)[:, None, None],
        "value": values[..., 0],
        "low": np.where(narrow, by_share[0], low),
        "high": np.where(narrow, by_share[1], high),
    }
    counts = images, of_first, of_second, both, *only, _n_tasks(values)[..., 0]
    columns |= dict(zip(_COUNTS, counts, strict=True))
    # by task and set, then by metric
    shape = values.shape[:-1]
    flat = {n: np.moveaxis(np.broadcast_to(c, shape), 0, -1).ravel() for n, c in columns.items()}
    table = pl.DataFrame(flat).with_columns(pl.col(pl.Float64).fill_nan(None))
    return table.with_columns(pl.col(_COUNTS).round().cast(pl.Int64))


def _cell_pairs(frames: Sequence[pl.DataFrame], ids: pl.Series) -> csr_array:
    """Images by task and pair of cells, (16 n_tasks, n_images): a row for each pair but ``_REST``,
    whose row has the images that were not compared instead; these are few.
    """
    rows, columns = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for number, frame in enumerate(frames):
        codes = (_N * frame["cell"] + frame["cell_right"]).to_numpy()
        at = ids.search_sorted(frame["image_id"]).to_numpy()
        few, others = codes != _REST, np.delete(np.arange(len(ids)), at)
        rows += [_N * _N * number + codes[few], np.full(len(others), _N * _N * number + _REST)]
        columns += [at[few], others]
    places = np.concatenate(rows), np.concatenate(columns)
    return coo_array((np.ones(len(places[0])), places), (len(frames) * _N * _N, len(ids))).tocsr()


def _sizes(pairs: csr_array, weights: Floats) -> Floats:
    """Images compared, in the first set, in the second and in both, (4, n_tasks + 2, 4 sets, k):
    of all tasks together, NaN for their average, and of each task.
    """
    sums = (pairs @ weights).reshape(-1, _N * _N, weights.shape[1])
    sums[:, _REST] = weights.sum(axis=0) - sums.sum(axis=1)
    by_task = sums.reshape(-1, _N, _N, weights.shape[1])
    together = by_task.sum(axis=0)[None]
    counts = np.concatenate([together, together * np.nan, by_task])
    second = counts.sum(axis=1)
    images = np.broadcast_to(second.sum(axis=1, keepdims=True), second.shape)
    return np.stack([images, counts.sum(axis=2), second, np.einsum("tcck->tck", counts)])


def _metrics(sizes: Floats) -> Floats:
    """``_METRICS`` by task and set, in the shape of ``sizes``; NaN where one is undefined."""
    images, first, second, both = sizes
    with np.errstate(invalid="ignore", divide="ignore"):
        observed = (images - first - second + 2 * both) / images
        chance = (first * second + (images - first) * (images - second)) / images**2
        kappa = np.where(chance < 1, (observed - chance) / (1 - chance), np.nan)
        values = np.stack([both / (first + second - both), both / first, both / second, kappa])
        values[:, 1] = np.nansum(values[:, 2:], axis=1) / _n_tasks(values)[:, 1]
    return values


def _n_tasks(values: Floats) -> Floats:
    """Tasks in an average: how many define the metric; NaN in the other rows."""
    n_tasks = np.full_like(values, np.nan)
    n_tasks[:, 1] = (~np.isnan(values[:, 2:])).sum(axis=1)
    return n_tasks
