"""Hyperparameters chosen from scores on the validation split, by the paper's rule or another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import polars as pl

from nooch.base.errors import InputError, check_one_of

__all__ = ["RULES", "select"]

_KEYS = ["criterion", "task", "method"]


def _nll(*subsets: str) -> pl.Expr:
    """The largest of the mean losses on some subsets; null where one of them is."""
    parts = [pl.col(f"nll {subset}") for subset in subsets]
    return pl.when(pl.all_horizontal(part.is_not_null() for part in parts)).then(
        pl.max_horizontal(parts)
    )


RULES: Mapping[str, tuple[str, Callable[[], pl.Expr]]] = {
    # the paper's (section 5): on the validation split, for each criterion on its own sets
    "worst-hard": ("valid", lambda: _nll("hard_positive", "hard_negative")),
    "mean": ("valid", lambda: _nll("all")),
    "easy": ("valid", lambda: _nll("easy")),
    "auc-hard": ("valid", lambda: -pl.col("auc hard")),
    "worst-environment": ("valid", lambda: pl.col("environment")),
    # with knowledge of the test split: a bound, never a result
    "oracle": ("test", lambda: _nll("hard_positive", "hard_negative")),
}
"""Rule -> the split that it uses, and what it minimizes, from means over seeds."""


def select(
    scores: pl.DataFrame, settings: pl.DataFrame, rules: Sequence[str] = ("worst-hard",)
) -> pl.DataFrame:
    """The setting of each method that a rule chooses, for each criterion and task.

    Args:
        scores: table of ``nooch.evaluate`` with the metrics auc and nll on the rules' splits.
        settings: ``run, task, method, setting, seed``, and ``environment``, the worst environment's
            mean validation loss (null where there is none).
        rules: out of ``RULES``.

    Returns:
        ``rule, split, criterion, task, method, setting, value, n_seeds, n_settings``: the chosen
        setting has the smallest value, the mean over seeds; ties go to the earlier setting.
        Settings without a value (a side without an image) are not chosen.

    Raises:
        InputError: the scores lack a rule's split.
    """
    chosen = []
    for rule in rules:
        split, value = RULES[check_one_of("rule", rule, RULES)]
        means = _means(scores.filter(split=split), settings)
        if not means.height:
            raise InputError(
                f"the scores have no split {split}",
                where=f"rule {rule}",
                allowed="scores of valid and test",
            )
        ranked = (
            means.with_columns(value=value())
            .filter(pl.col("value").is_not_nan() & pl.col("value").is_not_null())
            .sort("value", maintain_order=True)
        )
        best = ranked.unique(_KEYS, keep="first", maintain_order=True)
        n = means.group_by(_KEYS).agg(n_settings=pl.len())
        columns = [*_KEYS, "setting", "value", "n_seeds", "n_settings"]
        rows = best.join(n, on=_KEYS).sort(_KEYS)
        named = (pl.lit(rule).alias("rule"), pl.lit(split).alias("split"))
        chosen.append(rows.select(*named, *columns))
    return pl.concat(chosen)


def _means(scores: pl.DataFrame, settings: pl.DataFrame) -> pl.DataFrame:
    """Means over seeds of what rules use, a row for each criterion, task, method and setting."""
    keys, value, loss = [*_KEYS, "setting"], pl.col("value"), pl.col("environment")
    means = (
        scores.filter(pl.col("cue").is_null() & pl.col("group").is_null())
        .select("run", "criterion", "task", "value", what=pl.col("metric") + " " + pl.col("subset"))
        .join(settings, on=["run", "task"], how="inner")
        .group_by([*keys, "what"], maintain_order=True)
        .agg(
            # a mean over some of the seeds would favor those that have a value
            pl.when(value.null_count() == 0).then(value.mean()).alias("value"),
            n_seeds=pl.col("seed").n_unique(),
            environment=pl.when(loss.null_count() == 0).then(loss.mean()),
        )
    )
    if not means.height:
        return means
    first = means.unique(keys, keep="first", maintain_order=True)
    table = means.pivot("what", index=keys, values="value", maintain_order=True)
    needed = ("nll all", "nll easy", "nll hard_positive", "nll hard_negative", "auc hard")
    table = table.with_columns(
        pl.lit(None, pl.Float64).alias(c) for c in needed if c not in table.columns
    )
    columns = first.select(*keys, "n_seeds", "environment")
    return columns.join(table, on=keys, how="left", maintain_order="left")
