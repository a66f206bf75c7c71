"""Which hyperparameters: chosen on the validation split from scores, by the paper's rule or
another, after the fact.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import polars as pl

from nooch.errors import InputError, check_one_of

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
    # what a peek at the test split would give: a bound, never a result
    "oracle": ("test", lambda: _nll("hard_positive", "hard_negative")),
}
"""Rule -> the split that it looks at, and what it minimises, from means over seeds."""


def select(
    scores: pl.DataFrame, settings: pl.DataFrame, rules: Sequence[str] = ("worst-hard",)
) -> pl.DataFrame:
    """The setting of each method that a rule chooses, for each criterion and task.

    Args:
        scores: table of ``nooch.evaluate`` with the metrics auc and nll on the splits that the
            rules look at.
        settings: ``run, task, method, setting, seed``, and ``environment``, the worst environment's
            mean validation loss (null where there is none).
        rules: out of ``RULES``.

    Returns:
        ``rule, split, criterion, task, method, setting, value, n_seeds, n_settings``: the chosen
            setting has the smallest value, the mean
        over seeds; ties go to the earlier setting. Settings without a value (a side without an
        image) are not chosen.

    Raises:
        InputError: the scores lack a split that a rule looks at.
    """
    found = []
    for rule in rules:
        split, value = RULES[check_one_of("rule", rule, RULES)]
        means = _means(scores.filter(split=split), settings)
        if not means.height:
            raise InputError(
                f"the scores have no split {split}",
                where=f"rule {rule}",
                allowed="scores of valid and test",
            )
        ranked = means.with_columns(value=value()).filter(
            pl.col("value").is_not_nan() & pl.col("value").is_not_null()
        )
        best = ranked.sort("value", maintain_order=True).unique(
            _KEYS, keep="first", maintain_order=True
        )
        n = means.group_by(_KEYS).agg(n_settings=pl.len())
        found.append(
            best.join(n, on=_KEYS)
            .sort(_KEYS)
            .select(
                pl.lit(rule).alias("rule"),
                pl.lit(split).alias("split"),
                *_KEYS,
                "setting",
                "value",
                "n_seeds",
                "n_settings",
            )
        )
    return pl.concat(found)


def _means(scores: pl.DataFrame, settings: pl.DataFrame) -> pl.DataFrame:
    """Means over seeds of what rules look at, a row for each criterion, task, method and setting."""
    plain = scores.filter(pl.col("cue").is_null() & pl.col("group").is_null())
    named = plain.select(
        "run", "criterion", "task", "value", what=pl.col("metric") + " " + pl.col("subset")
    )
    wide = named.join(settings, on=["run", "task"], how="inner").group_by(
        [*_KEYS, "setting", "what"], maintain_order=True
    ).agg(
        # a mean over some of the seeds would favour those that have a value
        pl.when(pl.col("value").null_count() == 0).then(pl.col("value").mean()).alias("value"),
        n_seeds=pl.col("seed").n_unique(),
        environment=pl.when(pl.col("environment").null_count() == 0).then(pl.col("environment").mean()),
    )  # fmt: skip
    if not wide.height:
        return wide
    keys = [*_KEYS, "setting"]
    columns = wide.select(*keys, "n_seeds", "environment").unique(
        keys, keep="first", maintain_order=True
    )
    table = wide.pivot("what", index=keys, values="value", maintain_order=True)
    needed = ("nll all", "nll easy", "nll hard_positive", "nll hard_negative", "auc hard")
    table = table.with_columns(
        pl.lit(None, pl.Float64).alias(c) for c in needed if c not in table.columns
    )
    return columns.join(table, on=keys, how="left", maintain_order="left")
