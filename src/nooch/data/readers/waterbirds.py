"""Waterbirds: its standard folder as a dataset, and its table of scores (paper, Table 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from nooch.base.errors import InputError, ParameterError, check_one_of, some_of
from nooch.base.files import Place
from nooch.data.dataset import Dataset, as_dataset
from nooch.data.readers.tables import Columns, read_table_of_images
from nooch.evaluation import CELLS, Distribution, Scores, evaluate
from nooch.evaluation.averages import WORST_HARD, with_worst_hard
from nooch.evaluation.prediction_files import PredictionSource
from nooch.suites import Suite, as_suite

__all__ = [
    "METADATA", "QUANTITIES", "SPLIT_VALUES", "TASK", "group_shares", "read_waterbirds",
    "score_waterbirds", "waterbirds_table",
]  # fmt: skip

METADATA = "metadata.csv"
TASK = "waterbird"
"""The task: 1 for a water bird, 0 for a land bird."""
SPLIT_VALUES = {"0": "train", "1": "valid", "2": "test"}
"""Meaning of the numbers in the column ``split``."""

_PLACES = ("land", "water")
_BIRDS = ("landbird", "waterbird")
_GROUP = "group"
_METRICS = ("auc", "error", "nll")
_KEYS = ("run", "method", "seed", "criterion", "split")


def read_waterbirds(folder: str | Path) -> Dataset:
    """The standard folder: images and a ``metadata.csv`` that names them.

    Its columns are ``img_id, img_filename, y, split, place, place_filename``.

    Returns:
        A dataset of one class, ``waterbird`` (y = 1), with splits, and attributes ``place`` (0
        land, 1 water), ``group`` (one of four, ``landbird on land`` to ``waterbird on water``) and
        other columns. Areas are unknown. Missing images are counted in the notes: the table alone
        suffices to find sets and to score predictions.

    Raises:
        InputError: no such file or columns, labels or places that are not 0 or 1, unknown splits,
            repeated ids.
    """
    path = Path(folder) / METADATA
    if not path.is_file():
        allowed = f"a folder with {METADATA} and the images that it names"
        raise InputError("no such file", where=path, allowed=allowed)
    columns = Columns("img_id", "img_filename", "split", SPLIT_VALUES)
    data = read_table_of_images(path, columns, ["y"], images=folder)
    check_one_of("column", "place", data.attributes, owner=str(path))
    if data.classes != ("y",):
        problem = f"y has the values {some_of(data.classes)}"
        raise InputError(problem, where=path, allowed="0 (land bird) and 1 (water bird)")
    places = data.images["place"]
    if not places.dtype.is_integer() or not places.is_in([0, 1]).fill_null(value=False).all():
        problem = f"place has the values {some_of(places.unique().sort())}"
        raise InputError(problem, where=path, allowed="0 (land) and 1 (water)")
    pairs = zip(data.labels("y").astype(int).tolist(), places.to_list(), strict=True)
    names = [f"{_BIRDS[bird]} on {_PLACES[place]}" for bird, place in pairs]
    images = data.images.drop("img_filename").with_columns(pl.Series(_GROUP, names))
    provenance = {**data.provenance, "reader": "waterbirds"}
    return replace(data, images=images, classes=(TASK,), provenance=provenance)


def group_shares(data: Dataset, split: str = "train", name: str | None = None) -> Distribution:
    """Shares of the four groups in a split, as a distribution for averages.

    The training split's is the usual weighting of "average accuracy" on Waterbirds.
    """
    counts = dict(data.select(split).images[_group_column(data)].value_counts().iter_rows())
    total = sum(counts.values())
    # phi is place != y: each group is one cell
    groups = ("waterbird on land", "landbird on water", "waterbird on water", "landbird on land")
    shares = {cell: counts.get(group, 0) / total for cell, group in zip(CELLS, groups, strict=True)}
    return Distribution(name or split, shares)


def score_waterbirds(
    suite: Suite | str | Path,
    predictions: PredictionSource,
    data: Dataset | Place | str,
    *,
    split: str = "test",
    bootstrap: int = 0,
    seed: int = 0,
) -> Scores:
    """Scores with all that ``waterbirds_table`` needs.

    Args:
        suite: found with the attribute criterion ``place != y`` in ``data``.
        predictions: see ``evaluate``.
        data: from ``read_waterbirds``.
        split: to score.
        bootstrap: see ``evaluate``.
        seed: of the resamples.

    Raises:
        ParameterError: the dataset has no groups; another suite.
        InputError: see ``evaluate``.
    """
    suite = as_suite(suite)
    data = as_dataset(data)
    _group_column(data)
    averages: Sequence[str | Distribution] = (group_shares(data), "uniform")
    grouped = {"averages": averages, "by": [_GROUP], "attributes": data.images}
    fixed: dict[str, Any] = {"tasks": [TASK], "metrics": _METRICS, **grouped}
    return evaluate(suite, predictions, split=split, bootstrap=bootstrap, seed=seed, **fixed)


_FOUR = (pl.col("subset") == "all") & pl.col("group").str.starts_with(f"{_GROUP}=")


def _whole(subset: str) -> pl.Expr:
    return (pl.col("subset") == subset) & pl.col("group").is_null()


QUANTITIES: dict[str, tuple[str, pl.Expr, int]] = {
    "worst_group_error": ("error", _whole(WORST_HARD), 1),
    "worst_group_nll": ("nll", _whole(WORST_HARD), 1),
    "auc_hard": ("auc", _whole("hard"), 1),
    "worst_of_four_error": ("error", _FOUR, 4),
    "worst_of_four_nll": ("nll", _FOUR, 4),
    "error_over_images": ("error", _whole("all"), 1),
    "error_by_training_groups": ("error", _whole("avg:train"), 1),
    "error_mean_of_groups": ("error", _whole("avg:uniform"), 1),
}
"""Name -> (metric, rows of the scores, number of rows): the value is the largest of them.

Table 5 has ``worst_group_error`` and ``worst_group_nll``, of the worse of the two hard groups, and
``auc_hard`` over both; the worst of all four groups has another name. Average accuracy is 1 - error
under the weighting in the name: images equal, groups as in training, groups equal.
"""


def waterbirds_table(scores: Scores) -> pl.DataFrame:
    """Table 5: ``run, method, seed, criterion, split`` and a column for each of ``QUANTITIES``.

    A quantity is null if one of its values is undefined (a group without images).

    Raises:
        ParameterError: scores without groups or averages; those of ``score_waterbirds`` have both.
    """
    table = scores.table.filter(pl.col("cue").is_null(), task=TASK)
    if not table["group"].drop_nulls().str.starts_with(f"{_GROUP}=").any():
        remedy = f"evaluate with `by` {_GROUP}, `average` train and uniform"
        raise ParameterError(f"the scores of {TASK} have no groups", remedy=remedy)
    table = with_worst_hard(table.select(pl.exclude("low", "high")))
    result = table.select(_KEYS).unique(maintain_order=True)
    for name, (metric, rows, count) in QUANTITIES.items():
        # an empty group has no row, or no value
        worst = pl.when(pl.col("value").count() == count).then(pl.col("value").max())
        values = table.filter(rows, metric=metric).group_by(_KEYS).agg(worst.alias(name))
        result = result.join(values, on=_KEYS, how="left", nulls_equal=True, maintain_order="left")
    return result


def _group_column(data: Dataset) -> str:
    if _GROUP not in data.attributes or TASK not in data.classes:
        problem = f"the dataset has no task {TASK} with an attribute {_GROUP}"
        raise ParameterError(problem, remedy="import it with nooch import waterbirds")
    return _GROUP
