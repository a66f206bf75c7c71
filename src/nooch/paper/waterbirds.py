"""Scores of Waterbirds as the paper gives them (section 6)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from nooch.base.errors import Command, ParameterError
from nooch.data.dataset import Dataset, as_dataset
from nooch.data.readers.waterbirds import GROUP, TASK
from nooch.evaluation import CELLS, Distribution, Scores, evaluate
from nooch.evaluation.averages import WORST_HARD, with_worst_hard
from nooch.evaluation.prediction_files import PredictionSource
from nooch.suites import Suite, as_suite

_METRICS = ("auc", "error", "nll")


_KEYS = ("run", "method", "seed", "criterion", "split")


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
    data: Dataset | str | Path,
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
        split: split to score.
        bootstrap: see ``evaluate``.
        seed: seed of the resamples.

    Raises:
        ParameterError: the dataset has no groups; another suite.
        InputError: see ``evaluate``.
    """
    suite = as_suite(suite)
    data = as_dataset(data)
    _group_column(data)
    averages: Sequence[str | Distribution] = (group_shares(data), "uniform")
    grouped = {"averages": averages, "by": [GROUP], "attributes": data.images}
    fixed: dict[str, Any] = {"tasks": [TASK], "metrics": _METRICS, **grouped}
    return evaluate(suite, predictions, split=split, bootstrap=bootstrap, seed=seed, **fixed)


_FOUR = (pl.col("subset") == "all") & pl.col("group").str.starts_with(f"{GROUP}=")


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
        ParameterError: scores without groups or averages; ``score_waterbirds`` gives both.
    """
    table = scores.table.filter(pl.col("cue").is_null(), task=TASK)
    if not table["group"].drop_nulls().str.starts_with(f"{GROUP}=").any():
        again = Command("evaluate", by=GROUP, average=("train", "uniform"))
        raise ParameterError(f"the scores of {TASK} have no groups", give=again)
    table = with_worst_hard(table.select(pl.exclude("low", "high")))
    result = table.select(_KEYS).unique(maintain_order=True)
    for name, (metric, rows, count) in QUANTITIES.items():
        # an empty group has no row, or no value
        worst = pl.when(pl.col("value").count() == count).then(pl.col("value").max())
        values = table.filter(rows, metric=metric).group_by(_KEYS).agg(worst.alias(name))
        result = result.join(values, on=_KEYS, how="left", nulls_equal=True, maintain_order="left")
    return result


def _group_column(data: Dataset) -> str:
    if GROUP not in data.attributes or TASK not in data.classes:
        problem = f"the dataset has no task {TASK} with an attribute {GROUP}"
        raise ParameterError(problem, give=Command("import waterbirds"))
    return GROUP
