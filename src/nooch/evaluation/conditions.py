"""Conditions on scores, such as ``auc@hard[ce,car]<0.85``: what a pipeline fails on."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import polars as pl

from nooch.base.errors import ParameterError, check_one_of
from nooch.evaluation.averages import AVERAGE
from nooch.evaluation.metrics import ALL_METRICS
from nooch.suites import Suite

_FORM = re.compile(r"\s*(\w+)\s*@\s*([^\[\]<>=\s]+)\s*(?:\[([^\]]*)\])?\s*(<=|>=|<|>)\s*(\S+)\s*")
_ALLOWED = (
    "METRIC@SUBSET<VALUE, narrowed by [CRITERION] or [CRITERION,TASK] (* for any), such as"
    " auc@hard[ce,car]<0.85"
)
_SIGNS: dict[str, Callable[[float, float], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


@dataclass(frozen=True)
class Condition:
    """A condition that must not hold.

    Attributes:
        text: as it was written.
        metric: the metric; ``subset`` the subset it is on.
        criterion: the only criterion that it concerns, or None for all; ``task`` likewise
            (``average`` is the mean over tasks).
        sign: ``<``, ``<=``, ``>`` or ``>=``.
        bound: the number on the right.
    """

    text: str
    metric: str
    subset: str
    criterion: str | None
    task: str | None
    sign: str
    bound: float


@dataclass(frozen=True)
class ConditionVerdict:
    """A condition on one value.

    Attributes:
        condition: the condition.
        run: the run; ``criterion``, ``task`` and ``split`` likewise.
        value: the value, or None where it is undefined.
        fired: whether the condition is true of it, or it is undefined.
        reason: why, in words.
    """

    condition: Condition
    run: str
    criterion: str
    task: str
    split: str
    value: float | None
    fired: bool
    reason: str


def parse_condition(text: str) -> Condition:
    """A condition from its text. Raises ParameterError for another form or an unknown metric."""
    matched = _FORM.fullmatch(text)
    if matched is None:
        raise ParameterError(f"{text!r} is no condition", where="`fail_if`", allowed=_ALLOWED)
    metric, subset, inside, sign, number = matched.groups()
    check_one_of("metric", metric, ALL_METRICS)
    names = [name.strip() for name in (inside or "").split(",")]
    try:
        bound = float(number)
    except ValueError as error:
        raise ParameterError(
            f"{number!r} is no number", where=f"`fail_if` {text}", allowed=_ALLOWED
        ) from error
    if len(names) > 2 or bound != bound:  # noqa: PLR0124 - NaN alone differs from itself
        raise ParameterError(f"{text!r} is no condition", where="`fail_if`", allowed=_ALLOWED)
    criterion, task = (name if name not in {"", "*"} else None for name in (*names, "", "")[:2])
    return Condition(text.strip(), metric, subset, criterion, task, sign, bound)


def check_names(condition: Condition, suite: Suite) -> None:
    """Raise ParameterError for a criterion or task that the suite does not have."""
    if condition.criterion is not None:
        check_one_of("criterion", condition.criterion, suite.criteria, owner="the suite")
    if condition.task not in {None, AVERAGE}:
        check_one_of("task", str(condition.task), suite.tasks, owner="the suite")


def judge(
    table: pl.DataFrame, conditions: Sequence[Condition], suite: Suite
) -> list[ConditionVerdict]:
    """Every condition on every value of the table of ``Scores`` that it concerns; an undefined or
    missing value fires it.
    """
    plain = table.filter(pl.col("cue").is_null() & pl.col("group").is_null())
    return [verdict for c in conditions for verdict in _judge(plain, c, suite)]


def _judge(table: pl.DataFrame, c: Condition, suite: Suite) -> list[ConditionVerdict]:
    columns = ("run", "criterion", "task", "split", "subset", "metric")
    known = {name: table[name].unique(maintain_order=True).to_list() for name in columns}
    for kind, name in (("subset", c.subset), ("metric", c.metric)):
        check_one_of(kind, name, known[kind], owner="the scores")
    check_names(c, suite)
    criteria = [c.criterion] if c.criterion else known["criterion"]
    tasks = [c.task] if c.task else [task for task in known["task"] if task != AVERAGE]
    rows = table.filter(subset=c.subset, metric=c.metric)
    of = {
        tuple(of): row
        for *of, row in rows.select(*columns[:4], pl.struct("value", "reason")).rows()
    }
    verdicts = []
    for run, *key in product(known["run"], criteria, tasks, known["split"]):
        if c.criterion and c.task not in {None, AVERAGE}:
            # where the condition names both, a missing set is an error
            suite.record(*key)
        if key[1] == AVERAGE or tuple(key) in suite.keys:
            verdicts.append(_verdict(c, (run, *key), of.get((run, *key))))
    if not verdicts:
        problem = "concerns no value"
        raise ParameterError(
            problem, where=f"`fail_if` {c.text}", allowed="criteria and tasks that have a set"
        )
    return verdicts


def _verdict(
    condition: Condition, place: tuple[str, str, str, str], row: dict[str, object] | None
) -> ConditionVerdict:
    value = None if row is None else row["value"]
    if isinstance(value, float):
        fired = _SIGNS[condition.sign](value, condition.bound)
        relation = f"{'which is' if fired else 'not'} {condition.sign} {condition.bound:g}"
        reason = f"{condition.metric} on {condition.subset} is {value:.6g}, {relation}"
        return ConditionVerdict(condition, *place, value, fired, reason)
    why = "the mean is over two tasks and more" if place[2] == AVERAGE else "it was not scored"
    if row is not None:
        why = str(row["reason"])
    reason = f"{condition.metric} is undefined: {why}"
    return ConditionVerdict(condition, *place, None, fired=True, reason=reason)
