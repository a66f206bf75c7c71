"""Two suites compared set by set, with intervals."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.sparse import coo_array

from nooch.base.calls import Seed, checked
from nooch.base.errors import InputError
from nooch.evaluation import AVERAGE
from nooch.evaluation.bootstrap import BootstrapDraws, intervals
from nooch.evaluation.metrics.proportions import wilson
from nooch.evaluation.scores import Resamples
from nooch.suites import CELLS, Suite, as_suite
from nooch.suites.published import Published
from nooch.suites.sweep import POOLED

Floats = NDArray[np.float64]
_METRICS = ("jaccard", "precision", "recall", "kappa")
_N = len(CELLS)
_Cells = Mapping[str, pl.DataFrame]
_COUNTS = ["images", "first", "second", "both", "only_first", "only_second"]


@checked
def verify(
    suite: Suite | str | Path,
    other: Suite | Published | str | Path,
    *,
    bootstrap: Resamples = 1000,
    seed: Seed = 0,
) -> pl.DataFrame:
    """Compare a suite with a second one, or with the published sets.

    Only images that both have for a task, in any split, are compared. Criteria match by name, or
    are the only ones of the two suites; the published sets are of CE and gist, and their easy
    images are the suite's in the published splits.

    Args:
        suite: a suite or its folder.
        other: the reference: a suite, its folder, or the published sets of ``read_published``.
        bootstrap: resamples of the images for 95% percentile intervals. Where these have no
            width, and without resamples, shares have Wilson's.
        seed: of the resamples.

    Returns:
        A row for each criterion, task, set (one of the four cells) and metric: ``criterion, task,
        set, metric, value, low, high, images, first, second, both, only_first, only_second``. Of
        the ``images`` that both suites have for the task, ``first`` and ``second`` are in the set
        of the first and of the second suite, ``both`` in both; ``only_*`` count the images that
        only one suite has. Metrics are ``jaccard``, ``precision`` (the share of the first set that
        is in the second), ``recall`` (the reverse) and Cohen's ``kappa``; null where undefined.
        Task ``all tasks`` pools tasks, ``average`` is the mean over those that define the metric.

    Raises:
        InputError: the suites share no criterion, task or image, have ids of different types, or
            a suite, if not compared with the published sets, contains only hard images.
        ParameterError: a negative number of resamples.

    Examples:
        >>> compared = nooch.verify("suite", "suite")
        >>> compared.select("set", "metric", "first", "second").row(0)
        ('hard_positive', 'jaccard', 78, 78)
    """
    first = as_suite(suite)
    pairs: dict[str, tuple[_Cells, _Cells]] = {}
    if isinstance(other, Published):
        kinds = {record.kind: name for name, record in reversed(first.header.criteria.items())}
        for kind in sorted({each_suite.criterion for each_suite in other.sets} & kinds.keys()):
            own = _cells(first, kinds[kind])
            pairs[kinds[kind]] = own, _published_cells(other, kind, own)
    else:
        second = as_suite(other)
        names = [(name, name) for name in first.criteria if name in second.criteria]
        if not names and len(first.criteria) == len(second.criteria) == 1:
            names = [(first.criteria[0], second.criteria[0])]
        for each_suite in (first, second):
            each_suite.require_easy("comparing suites")
        pairs = {a: (_cells(first, a), _cells(second, b)) for a, b in names}
    tables = [
        agreement(*sets, bootstrap, seed).select(pl.lit(name).alias("criterion"), pl.all())
        for name, sets in pairs.items()
    ]
    if not any(table["images"].max() for table in tables):
        raise InputError(
            "the suites share no criterion, task and image",
            allowed="criteria of one name, or one in each suite, of the same tasks and images",
        )
    return pl.concat(tables)


def _cells(suite: Suite, criterion: str) -> dict[str, pl.DataFrame]:
    """Task -> ``image_id, cell`` (an index into ``CELLS``) of its images with a verdict."""
    cells_found: dict[str, list[pl.DataFrame]] = {}
    for challenge in (suite.set(*key) for key in suite.keys if key[0] == criterion):
        frame = pl.DataFrame({"image_id": challenge.image_ids, "cell": challenge.cells})
        cells_found.setdefault(challenge.task, []).append(frame)
    return {task: pl.concat(frames) for task, frames in cells_found.items()}


def _published_cells(published: Published, kind: str, own: _Cells) -> dict[str, pl.DataFrame]:
    """As ``_cells``; the labels of easy images are the suite's own."""
    sets_of_splits = {}
    for task, frame in own.items():
        sets = [
            published_set
            for published_set in published.sets
            if (published_set.criterion, published_set.task) == (kind, task)
        ]
        if not sets:
            continue
        if frame["image_id"].dtype != pl.Int64:
            raise InputError("the suite's image ids are text, the published ones are integers")
        hard = pl.concat(
            pl.DataFrame(
                {"image_id": published_set.ids, "cell": CELLS.index(f"hard_{published_set.side}")}
            )
            for published_set in sets
        )
        splits = [
            published.splits[published_set.split]
            for published_set in sets
            if published_set.split in published.splits
        ]
        inside = pl.col("image_id").is_in(np.concatenate(splits)) if splits else pl.lit(value=True)
        easy = frame.filter(inside).join(hard, on="image_id", how="anti")
        easy = easy.with_columns(cell=pl.col("cell") % 2 + 2)
        sets_of_splits[task] = pl.concat([hard, easy], how="vertical_relaxed")
    return sets_of_splits


def agreement(first: _Cells, second: _Cells, bootstrap: int = 0, seed: int = 0) -> pl.DataFrame:
    """The table of ``verify`` without ``criterion``, of task -> ``image_id, cell`` (an index into
    ``CELLS``), each image once.
    """
    if len({f["image_id"].dtype for suite in (first, second) for f in suite.values()}) > 1:
        problem = "ids of images are text on one side and integers on the other"
        raise InputError(problem, allowed="the same images on both sides")
    joined = {t: first[t].join(second[t], on="image_id") for t in first if t in second}
    joined = {task: frame for task, frame in joined.items() if frame.height}
    frames = list(joined.values())
    ids = pl.concat([f["image_id"] for f in frames] or [pl.Series()]).unique().sort()
    # images by task, cell of the first and cell of the second
    rows = [
        _N**2 * position + (_N * f["cell"] + f["cell_right"]).to_numpy()
        for position, f in enumerate(frames)
    ]
    columns = [ids.search_sorted(f["image_id"]).to_numpy() for f in frames]
    places = tuple(np.concatenate([*parts, np.empty(0, np.int64)]) for parts in (rows, columns))
    pairs = coo_array((np.ones(len(places[0])), places), (_N**2 * len(frames), len(ids))).tocsr()
    draws = BootstrapDraws(len(ids), bootstrap, seed).weights(slice(None))
    weights = [np.ones((len(ids), 1)), *(block for _, block in draws)]
    sizes = np.concatenate([_sizes(pairs @ parts) for parts in weights], axis=-1)
    values = _metrics(sizes)
    low, high, _ = intervals(values[..., 1:] if bootstrap else values * np.nan)
    images, of_first, of_second, both = sizes[..., 0]
    # what a metric is a share of; a kappa is none
    totals = np.stack([of_first + of_second - both, of_first, of_second, both * np.nan])
    narrow = np.isnan(low) | (high <= low)
    by_share = (
        np.where(np.isnan(totals), np.nan, bound) for bound in wilson(values[..., 0], totals)
    )
    low, high = (np.where(narrow, *pair) for pair in zip(by_share, (low, high), strict=True))
    only = np.full((2, len(frames) + 2, 1), np.nan)
    for side, suite in enumerate((first, second)):
        only[side, 2:, 0] = [suite[task].height - frame.height for task, frame in joined.items()]
    table = {
        "task": np.array([POOLED, AVERAGE, *joined])[:, None],
        "set": np.array(CELLS),
        "metric": np.array(_METRICS)[:, None, None],
        "value": values[..., 0],
        "low": low,
        "high": high,
        **dict(zip(_COUNTS, (images, of_first, of_second, both, *only), strict=True)),
    }
    # by task and set, then by metric
    flat = {n: np.moveaxis(np.broadcast_to(c, low.shape), 0, -1).ravel() for n, c in table.items()}
    paired_cells = pl.DataFrame(flat).with_columns(pl.col(pl.Float64).fill_nan(None))
    return paired_cells.with_columns(pl.col(_COUNTS).round().cast(pl.Int64))


def _sizes(sums: Floats) -> Floats:
    """Images compared, in the first set, in the second and in both, (4, n_tasks + 2, 4 sets, k), of
    sums (16 n_tasks, k): of all tasks together, NaN for their average, and of each task.
    """
    by_task = sums.reshape(-1, _N, _N, sums.shape[1])
    together = by_task.sum(axis=0)[None]
    counts = np.concatenate([together, together * np.nan, by_task])
    second = counts.sum(axis=1)
    images = np.broadcast_to(second.sum(axis=1, keepdims=True), second.shape)
    return np.stack([images, counts.sum(axis=2), second, np.einsum("tcck->tck", counts)])


def _metrics(sizes: Floats) -> Floats:
    """``_METRICS`` by task and set, in the shape of ``sizes``; NaN if one is undefined."""
    images, first, second, both = sizes
    with np.errstate(invalid="ignore", divide="ignore"):
        observed = (images - first - second + 2 * both) / images
        chance = (first * second + (images - first) * (images - second)) / images**2
        kappa = np.where(chance < 1, (observed - chance) / (1 - chance), np.nan)
        values = np.stack([both / (first + second - both), both / first, both / second, kappa])
        of_tasks = values[:, 2:]
        values[:, 1] = np.nansum(of_tasks, axis=1) / (~np.isnan(of_tasks)).sum(axis=1)
    return values
