"""Two suites compared set by set, with intervals; the published sets are one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from nooch.challenge import CELLS, POOLED, Suite, as_suite
from nooch.display import DisplayTable, TabularResult
from nooch.errors import InputError, ParameterError, check_one_of, some_of
from nooch.evaluation import AVERAGE
from nooch.evaluation.bootstrap import BootstrapDraws, intervals, wilson
from nooch.files import Place
from nooch.metrics.agreement import AGREEMENT, agreement
from nooch.published import Published, SetAgreement
from nooch.published import verify as verify_published

__all__ = ["SuiteAgreement", "verify"]

Floats = NDArray[np.float64]
_TEXTS = ["criterion", "task", "set"]
_COUNTS = ["images", "first", "second", "both"]
_LACKING = ["only_first", "only_second"]
_SCHEMA: dict[str, Any] = {
    **dict.fromkeys([*_TEXTS, "metric"], pl.String),
    **dict.fromkeys(["value", "low", "high"], pl.Float64),
    **dict.fromkeys([*_COUNTS, *_LACKING, "n_tasks"], pl.Int64),
}
_N = len(CELLS)
_REST = _N * _N - 1
"""The pair of cells that nearly all images have: easy negatives in both suites."""


@dataclass(frozen=True, eq=False, repr=False)
class SuiteAgreement(TabularResult):
    """How far the challenge sets of a suite are those of a second one, which is the reference.

    Attributes:
        table: a row for each criterion, task, set (hard and easy positives and negatives) and
            metric: ``criterion, task, set, metric, value, low, high, images, first, second, both,
            only_first, only_second, n_tasks``. ``first`` and ``second`` count the set's images in
            the two suites among the ``images`` that both have for the task, ``both`` those that
            the sets share; ``only_first`` and ``only_second`` count images that one suite lacks.
            Metrics are ``jaccard``, ``precision`` (the share of the first set that is in the
            second), ``recall`` (the reverse) and ``kappa``, null where undefined. Task ``all
            tasks`` pools all tasks, ``average`` is the mean over the ``n_tasks`` tasks where the
            metric is defined.
        settings: how it was computed (JSON-like).
    """

    table: pl.DataFrame
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def display(self) -> DisplayTable:
        """A row for each task and set, all tasks together first."""
        value, low, high = (pl.col(n).round(3).cast(pl.String) for n in ("value", "low", "high"))
        shown = pl.concat_str(value, pl.format(" [{}, {}]", low, high).fill_null(""))
        wide = self.table.with_columns(shown.alias("shown")).pivot(
            on="metric", index=[*_TEXTS, *_COUNTS], values="shown", maintain_order=True
        )
        rows = wide.filter(pl.max_horizontal("first", "second") > 0).rows()
        lost = self.table.select(pl.col("only_first", "only_second").max()).row(0)
        notes = ["precision: the share of the first set that is in the second; recall: the reverse"]
        if any(lost):
            words = f"{lost[0]:,} of the first and {lost[1]:,} of the second suite"
            notes.append(f"images that the other suite lacks, in a task at most: {words}")
        return DisplayTable("Agreement of two suites", wide.columns, rows, left=3, notes=notes)


@overload
def verify(suite: Suite | Place | str, other: Published) -> list[SetAgreement]: ...
@overload
def verify(
    suite: Suite | Place | str,
    other: Suite | Place | str,
    *,
    splits: Sequence[str] | None = None,
    bootstrap: int = 1000,
    seed: int = 0,
) -> SuiteAgreement: ...
def verify(
    suite: Any,
    other: Any,
    *,
    splits: Sequence[str] | None = None,
    bootstrap: int = 1000,
    seed: int = 0,
) -> SuiteAgreement | list[SetAgreement]:
    """Compare a suite with a second one, or with the published sets.

    Only images that both hold for a task are compared. Criteria are those of the same name, or the
    only ones of the two suites.

    Args:
        suite: a suite or its folder.
        other: the reference: a suite, its folder, or the published sets of ``read_published``.
        splits: of either suite; by default all together.
        bootstrap: resamples of the images for 95 % percentile intervals. Where these have no
            width, and without resamples, shares have Wilson's.
        seed: of the resamples.

    Returns:
        A ``SuiteAgreement``; for published sets a ``SetAgreement`` for each.

    Raises:
        InputError: the suites share no criterion, task or image, have ids of different types, or
            one holds hard images alone.
        ParameterError: an unknown split, or a negative number of resamples.
    """
    if isinstance(other, Published):
        return verify_published(as_suite(suite), other)
    if bootstrap < 0:
        raise ParameterError(f"`bootstrap` is {bootstrap}", allowed="0 and more")
    pair = as_suite(suite), as_suite(other)
    for one in pair:
        one.require_easy("comparing suites")
        for split in splits or ():
            check_one_of("split", split, {*pair[0].splits, *pair[1].splits}, owner="the suites")
    tables = [_agreement(pair, names, splits, bootstrap, seed) for names in _criteria(pair)]
    return SuiteAgreement(
        pl.concat(tables), {"splits": splits, "bootstrap": bootstrap, "seed": seed}
    )


def _criteria(pair: tuple[Suite, Suite]) -> list[tuple[str, str]]:
    """Names of the same criterion in the two suites."""
    first, second = (one.criteria for one in pair)
    shared = [(name, name) for name in first if name in second]
    if not shared and len(first) == len(second) == 1:
        shared = [(first[0], second[0])]
    if not shared:
        problem = f"the suites share no criterion: {some_of(first)}, and {some_of(second)}"
        raise InputError(problem, allowed="criteria of the same name, or one in each suite")
    return shared


def _marks(suite: Suite, criterion: str, splits: Sequence[str] | None) -> dict[str, pl.DataFrame]:
    """Task -> ``image_id, cell`` (an index into ``CELLS``) of its images with a verdict."""
    found: dict[str, list[pl.DataFrame]] = {}
    for key in suite.keys:
        if key[0] == criterion and (splits is None or key[2] in splits):
            one = suite.set(*key)
            frame = pl.DataFrame({"image_id": one.image_ids, "cell": one.cells.astype(np.int8)})
            found.setdefault(key[1], []).append(frame)
    return {task: pl.concat(frames) for task, frames in found.items()}


def _agreement(
    pair: tuple[Suite, Suite],
    names: tuple[str, str],
    splits: Sequence[str] | None,
    bootstrap: int,
    seed: int,
) -> pl.DataFrame:
    """The table of one criterion."""
    first, second = (_marks(one, name, splits) for one, name in zip(pair, names, strict=True))
    if len({frame["image_id"].dtype for marks in (first, second) for frame in marks.values()}) > 1:
        raise InputError(
            "image ids of one suite are text, those of the other integers",
            allowed="suites of the same images",
        )
    joined = {t: first[t].join(second[t], on="image_id") for t in first if t in second}
    joined = {task: frame for task, frame in joined.items() if frame.height}
    if not joined:
        problem = f"the {names[0]} sets of the suites share no task and image"
        raise InputError(problem, allowed="suites that were found for the same tasks and images")
    ids = pl.concat([frame["image_id"] for frame in joined.values()]).unique().sort()
    pairs = _cell_pairs(list(joined.values()), ids)
    counts = _counts(pairs, np.ones((len(ids), 1)))
    values, defined = _measures(counts)
    draws = BootstrapDraws(len(ids), bootstrap, seed).weights(slice(None))
    resampled = [_measures(_counts(pairs, block))[0] for _, block in draws]
    low, high = _bounds(values[..., 0], resampled, counts)
    sizes = np.rint(np.stack(_sizes(counts))[..., 0]).astype(np.int64)
    lacking = [
        [marks[task].height - frame.height for marks in (first, second)]
        for task, frame in joined.items()
    ]
    rows = []
    for row, task in enumerate([POOLED, AVERAGE, *joined]):
        of_task = dict.fromkeys([*_COUNTS, *_LACKING])
        if row > 1:
            of_task |= dict(zip(_LACKING, lacking[row - 2], strict=True))
        for c, cell in enumerate(CELLS):
            if task != AVERAGE:
                of_task |= dict(zip(_COUNTS, sizes[:, row - (row > 1), c].tolist(), strict=True))
            for m, metric in enumerate(AGREEMENT):
                at = m, row, c
                rows.append(
                    {
                        **dict(zip(_TEXTS, (names[0], task, cell), strict=True)),
                        "metric": metric,
                        "value": values[at][0],
                        "low": low[at],
                        "high": high[at],
                        **of_task,
                        "n_tasks": int(defined[m, c]) if task == AVERAGE else None,
                    }
                )
    return pl.DataFrame(rows, schema=_SCHEMA).with_columns(pl.col(pl.Float64).fill_nan(None))


def _cell_pairs(frames: Sequence[pl.DataFrame], ids: pl.Series) -> csr_array:
    """Images by task and pair of cells, (16 n_tasks, n_images): a row for each pair but ``_REST``,
    whose row has the images that were not compared instead; these are few.
    """
    rows, columns = [], []
    for number, frame in enumerate(frames):
        codes = (_N * frame["cell"] + frame["cell_right"]).to_numpy()
        at = ids.search_sorted(frame["image_id"]).to_numpy()
        few = codes != _REST
        others = np.delete(np.arange(len(ids)), at)
        rows += [_N * _N * number + codes[few], np.full(len(others), _N * _N * number + _REST)]
        columns += [at[few], others]
    places = np.concatenate(rows), np.concatenate(columns)
    shape = len(frames) * _N * _N, len(ids)
    return coo_array((np.ones(len(places[0])), places), shape).tocsr()


def _counts(pairs: csr_array, weights: Floats) -> Floats:
    """Images by task, cell in the first and in the second suite, (n_tasks + 1, 4, 4, k); all tasks
    together come first.
    """
    sums = (pairs @ weights).reshape(-1, _N * _N, weights.shape[1])
    sums[:, _REST] = weights.sum(axis=0) - sums.sum(axis=1)
    by_task = sums.reshape(-1, _N, _N, weights.shape[1])
    return np.concatenate([by_task.sum(axis=0, keepdims=True), by_task])


def _sizes(counts: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """``images, first, second, both``, each (n_tasks + 1, 4, k)."""
    images = np.broadcast_to(counts.sum(axis=(1, 2))[:, None], counts.sum(axis=1).shape)
    return images, counts.sum(axis=2), counts.sum(axis=1), np.einsum("tcck->tck", counts)


def _measures(counts: Floats) -> tuple[Floats, NDArray[np.int64]]:
    """``AGREEMENT`` of all tasks together, on average, and of each, (4, n_tasks + 2, 4, k); and the
    number of tasks in each average, (4, 4).
    """
    images, first, second, both = _sizes(counts)
    values = agreement(first, second, both, images)
    defined = (~np.isnan(values[:, 1:])).sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):
        average = np.nansum(values[:, 1:], axis=1, keepdims=True) / defined
    return np.concatenate([values[:, :1], average, values[:, 1:]], axis=1), defined[:, 0, :, 0]


def _bounds(values: Floats, resampled: Sequence[Floats], counts: Floats) -> tuple[Floats, Floats]:
    """Intervals of values (4, n_tasks + 2, 4): of resamples, else Wilson's of shares of images."""
    low, high = np.full((2, *values.shape), np.nan)
    if resampled:
        low, high, _ = intervals(np.concatenate(resampled, axis=-1))
    _, first, second, both = (size[..., 0] for size in _sizes(counts))
    totals = np.full(values.shape, np.nan)
    # in the order of AGREEMENT; an average and a kappa are no shares
    totals[:3, [0, *range(2, values.shape[1])]] = first + second - both, first, second
    narrow = np.isnan(low) | (high <= low)
    for bound, by_share in zip((low, high), wilson(values, totals), strict=True):
        bound[narrow] = by_share[narrow]
    return low, high
