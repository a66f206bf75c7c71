"""Which two methods are compared image by image: the baseline and its rival."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from nooch.errors import ParameterError, check_one_of
from nooch.evaluation import AVERAGE
from nooch.results.run_results import Results

__all__ = ["baseline_of", "checked_pair", "rival_of"]


def checked_pair(pair: Sequence[str] | None, methods: Sequence[str]) -> tuple[str, str] | None:
    """The two methods to compare, the baseline first, or None where none are named.

    Raises:
        ParameterError: not two different methods that have losses of images.
    """
    if pair is None:
        return None
    if len(pair) != 2 or pair[0] == pair[1]:
        text = f"methods are {', '.join(pair) or 'none'}"
        raise ParameterError(text, allowed="two different methods")
    baseline, rival = (check_one_of("method with losses of images", m, methods) for m in pair)
    return baseline, rival


def baseline_of(methods: Sequence[str], pair: tuple[str, str] | None = None) -> str | None:
    """The baseline: the first of a pair; else ERM; else the first method."""
    if pair is not None:
        return pair[0]
    return "erm" if "erm" in methods else methods[0] if methods else None


def rival_of(
    results: Results | None,
    criterion: str,
    methods: Sequence[str],
    pair: tuple[str, str] | None = None,
) -> str | None:
    """The second of a pair; else the method with the best average AUC on hard images."""
    if pair is not None:
        return pair[1]
    baseline = baseline_of(methods)
    others = [method for method in methods if method != baseline]
    if results is None or not others:
        return others[0] if others else None
    place = {"criterion": criterion, "metric": "auc", "subset": "hard", "task": AVERAGE}
    rows = results.cells.filter(pl.col("method").is_in(others), **place).drop_nulls("mean")
    best = rows.sort("mean", descending=True, maintain_order=True)["method"]
    return str(best[0]) if len(best) else others[0]
