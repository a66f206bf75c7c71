"""Hyperparameters chosen from scores on the validation split, by the paper's rule or another; and
the most misleading tasks, by their losses.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated, Any

import polars as pl
from msgspec import Meta

from nooch.base.calls import Count, checked
from nooch.base.errors import InputError, UndefinedError, check_one_of, some_of
from nooch.suites import Suite

_KEYS = ["criterion", "task", "method"]


def _nll(*subsets: str) -> pl.Expr:
    """The largest of the mean losses on some subsets; null if one of them is."""
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

    ``settings``: ``run, task, method, setting, seed``, and ``environment``, the worst environment's
    mean validation loss (null if there is none). Returns ``rule, split, criterion, task, method,
    setting, value, n_seeds, n_settings``: the chosen setting has the smallest value, the mean over
    seeds; ties go to the earlier setting. Settings without a value (a side without an image) are
    not chosen.
    """
    selections = []
    for rule in rules:
        split, value = RULES[check_one_of("rule", rule, RULES)]
        means = _means(scores.filter(split=split), settings)
        if not means.height:
            problem = f"the scores have no split {split}"
            raise InputError(problem, where=f"rule {rule}", allowed="scores of valid and test")
        ranked = (
            means.with_columns(value=value())
            .filter(pl.col("value").is_not_nan() & pl.col("value").is_not_null())
            .sort("value", maintain_order=True)
        )
        best = ranked.unique(_KEYS, keep="first", maintain_order=True)
        n = means.group_by(_KEYS).agg(n_settings=pl.len())
        columns = [*_KEYS, "setting", "value", "n_seeds", "n_settings"]
        rows = best.join(n, on=_KEYS).sort(_KEYS)
        rule_columns = (pl.lit(rule).alias("rule"), pl.lit(split).alias("split"))
        selections.append(rows.select(*rule_columns, *columns))
    return pl.concat(selections)


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


SIMILAR = (("cow", "sheep"), ("backpack", "handbag"), ("cup", "bottle", "wine_glass"))
"""Tasks that are too similar in the paper; of each group only the first in rank is taken (B.3)."""


def paper_rule(tasks: Collection[str]) -> dict[str, Any]:
    """The paper's rule, as arguments of ``select_tasks`` (section 3.3 and appendix B.3).

    The 12 tasks of largest NLL(hard) - NLL(all) under CE, among those with at least 50 hard
    positives and 50 hard negatives, without similar ones; losses of ``LOSS_SPLIT``.
    """
    similar = [[task for task in group if task in tasks] for group in SIMILAR]
    return {"criterion": "ce", "n": 12, "min_hard": 50, "similar": similar}


@checked
def select_tasks(
    losses: pl.DataFrame,
    *,
    criterion: str = "ce",
    n: Count = 12,
    min_hard: Annotated[int, Meta(ge=0)] = 50,
    similar: Sequence[Sequence[str]] = (),
) -> pl.DataFrame:
    """Rank tasks by NLL(hard) - NLL(all) and take the first ``n``.

    Args:
        losses: a row for each criterion and task, as of ``nooch.evaluation.class_losses``.
        criterion: criterion whose hard images count.
        n: tasks to choose.
        min_hard: hard positives, and hard negatives, that a chosen task must have.
        similar: groups of tasks that are alike; of each, one is chosen.

    Returns a row for each task, best first: ``task, difference, hard, all, hard_positives,
    hard_negatives, chosen, reason``; ``reason`` states why a task is not chosen.
    """
    check_one_of("criterion", criterion, sorted(set(losses["criterion"])), owner="the losses")
    difference = (pl.col("hard") - pl.col("all")).alias("difference")
    ranked = (
        losses.filter(criterion=criterion)
        .select("task", difference, "hard", "all", "hard_positives", "hard_negatives")
        .sort("difference", "task", descending=[True, False], nulls_last=True, maintain_order=True)
    )
    groups = {task: number for number, group in enumerate(similar) for task in group}
    for task in groups:
        check_one_of("task", task, ranked["task"].to_list(), owner="the losses")
    taken: list[str] = []
    reasons: list[str | None] = []
    for row in ranked.iter_rows(named=True):
        reason = _unusable(row, min_hard) or _like_another(row["task"], taken, groups)
        if reason is None and len(taken) == n:
            reason = f"not among the first {n}"
        reasons.append(reason)
        if reason is None:
            taken.append(row["task"])
    if not taken:
        raise UndefinedError(
            f"no task has {min_hard} hard positives and hard negatives",
            where=f"criterion {criterion}",
            remedy="find with other thresholds, or {}, a lower number",
            give={"min_hard": ...},
        )
    reason_column = pl.Series("reason", reasons, pl.String)
    return ranked.with_columns(chosen=reason_column.is_null(), reason=reason_column)


def _unusable(row: Mapping[str, object], min_hard: int) -> str | None:
    if row["difference"] is None:
        return "no hard image has a loss"
    sides = ("hard_positives", "hard_negatives")
    short = [f"{row[s]} {s.replace('_', ' ')}" for s in sides if int(str(row[s])) < min_hard]
    return ", ".join(short) or None


def _like_another(task: str, taken: Sequence[str], groups: Mapping[str, int]) -> str | None:
    """For which task that is taken this one is dropped."""
    for other in taken:
        if task in groups and groups[task] == groups.get(other):
            return f"in one group with {other}"
    return None


def uneven_runs(losses: pl.DataFrame) -> list[str]:
    """A note where some classes have means over fewer runs than others."""
    most = max(losses["runs"])
    fewer = losses.filter(pl.col("runs") < most)["task"].unique(maintain_order=True)
    if fewer.is_empty():
        return []
    what = f"losses are means over {most} runs, but fewer for {some_of(fewer.to_list())}"
    return [f"{what}: compare these with the others only if the runs are alike"]


def chosen_suite(
    suite: Suite, losses: pl.DataFrame, *, criterion: str = "ce", **rule: Any
) -> tuple[Suite, pl.DataFrame]:
    """The suite of the chosen tasks, and the ranking with reasons.

    Args and errors as for ``nooch.training.selection.select_tasks``, except that ``criterion`` is
    one of the suite; ``**paper_rule(losses["task"])`` chooses by the paper's rule.
    """
    name = check_one_of("criterion", criterion, suite.criteria)
    ranking = select_tasks(losses, criterion=name, **rule)
    return suite.only(ranking.filter("chosen")["task"].to_list()), ranking
