"""Scores: a long table of values with counts and intervals, differences of runs, conditions."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import polars as pl
from msgspec import Meta

from nooch.base.display import DisplayTable, TabularResult
from nooch.base.errors import Command, ParameterError, check_one_of, some_of
from nooch.base.words import counted
from nooch.evaluation.averages import AVERAGE
from nooch.evaluation.bootstrap import FEWEST, MOST_RESAMPLES, RESAMPLES
from nooch.evaluation.boxes.matched import effect_sentence
from nooch.evaluation.context_changes import ContextChange
from nooch.evaluation.context_rates import MOST_UNKNOWN, ContextRates, headlines
from nooch.evaluation.metrics import METRIC_NAMES
from nooch.evaluation.task_scores import INTERVALS, OF_BOTH, Block, deciding
from nooch.suites import Suite

_SHOWN = {
    "auc": ("hard", "easy"),
    "nll": ("hard_positive", "easy_positive", "hard_negative", "easy_negative"),
    "error": ("hard_positive", "easy_positive", "hard_negative", "easy_negative"),
}
"""Displayed columns, if present."""

_TEXTS = ("run", "baseline", "criterion", "task", "split", "subset", "cue", "group", "metric")
"""Columns that identify a value."""


@dataclass(frozen=True, eq=False, repr=False)
class Scores(TabularResult):
    """Scores of runs on a suite.

    Attributes:
        table: one row for each run, criterion, task, split, subset and metric: ``run, method, seed,
            criterion, task, split, subset, cue, group, metric, value, low, high, interval, n,
            n_positive, n_tasks, averaged_tasks, reason``, and ``n_groups`` where images are in
            groups. ``value`` is null if it is undefined, and ``reason`` explains why; ``low`` and
            ``high`` bound the 95% interval, whose kind ``interval`` is ``bootstrap``, ``wilson``
            or, of d', ``jeffreys``; of runs with more
            than 5% unknown answers ``unknown``: there is no value, and the bounds contain it for
            any meaning of these answers. Task ``average`` is the unweighted mean over ``n_tasks``
            tasks, which ``averaged_tasks`` names.
        differences: the same for each run minus the baseline run, in columns ``run, baseline, ...,
            difference, low, high``; of shares the interval is ``tango``, and ``p`` McNemar's exact.
        notes: what a reader should know.
        settings: how the values were made (JSON-like).
        verdicts: on the conditions of ``fail_if``.
        contexts: (run, criterion) -> how often the run answers yes in each context, of answers.
        changes: of answers and captions of at least two runs, what each changes against the
            baseline: rates of yes to absent objects by context, their ratio, recall, d'; paired.
        box_effects: of boxes, hard against easy images over all tasks at once: a row for each run,
            criterion, split and side; see ``nooch.evaluation.boxes.matched.EFFECTS``.
    """

    table: pl.DataFrame
    differences: pl.DataFrame
    notes: Sequence[str] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    verdicts: Sequence[ConditionVerdict] = ()
    contexts: Mapping[tuple[str, str], ContextRates] = field(default_factory=dict)
    box_effects: pl.DataFrame = field(default_factory=pl.DataFrame)
    changes: Sequence[ContextChange] = ()

    @property
    def headlines(self) -> list[str]:
        """For answers, a line for each run and criterion: how often absent objects get a yes; then
        what each run changes against the baseline. For boxes, how much more often objects are
        missed, and boxes claimed, on hard images.
        """
        of_answers = headlines(self.contexts, self._verb) if self.contexts else []
        of_answers += [change.sentence for change in self.changes]
        return [*of_answers, *map(effect_sentence, self.box_effects.iter_rows(named=True))]

    _verb: ClassVar = "yes to"

    @property
    def display(self) -> DisplayTable:
        """Usual values of each run, averages over tasks first."""
        keys = ["criterion", "split", "task", "run"]
        plain = self.table.filter(pl.col("cue").is_null() & pl.col("group").is_null())
        wide = plain.with_columns(pl.concat_str("metric", pl.lit(" "), "subset").alias("of")).pivot(
            on="of", index=keys, values="value", maintain_order=True
        )
        usual = [f"{metric} {subset}" for metric, subsets in _SHOWN.items() for subset in subsets]
        columns = [*keys, *(name for name in usual if name in wide.columns)]
        # averages first: a long table is cut at its end
        rows = wide.sort(pl.col("task") != AVERAGE, maintain_order=True).select(columns).rows()
        runs, tasks = self.table["run"].n_unique(), self.table["task"].n_unique()
        sizes = (runs, "run"), (tasks, "task"), (self.table.height, "value")
        title = f"Scores({', '.join(counted(*size) for size in sizes)})"
        return DisplayTable(
            title, columns, rows, left=len(keys), notes=[*self.headlines, *self.notes]
        )

    def of_runs(self, names: Sequence[str]) -> Self:
        """The scores of some runs, and the differences between them."""
        mine = pl.col("run").is_in(names)
        compared = self.differences.filter(mine & pl.col("baseline").is_in(names))
        contexts = {key: rates for key, rates in self.contexts.items() if key[0] in names}
        verdicts = [verdict for verdict in self.verdicts if verdict.run in names]
        changes = [one for one in self.changes if {one.run, one.baseline} <= {*names}]
        return replace(
            self, table=self.table.filter(mine), differences=compared, contexts=contexts,
            verdicts=verdicts, changes=changes,
        )  # fmt: skip

    def value(self, metric: str, subset: str, **where: Any) -> float | None:
        """One value; ``where`` selects by run, criterion, task, split, cue or group.

        Raises:
            ParameterError: nothing or several values fit.
        """
        check_one_of("metric", metric, METRIC_NAMES)
        rows = self.table.filter(metric=metric, subset=subset)
        for column in ("cue", "group"):
            where.setdefault(column, None)
        for column, expected in where.items():
            check_one_of("column", column, self.table.columns)
            rows = rows.filter(pl.col(column).eq_missing(pl.lit(expected)))
        if rows.height != 1:
            keys = rows.select("run", "criterion", "task", "split")
            values = {c.name: c.unique(maintain_order=True).to_list() for c in keys}
            several = {column: v for column, v in values.items() if len(v) > 1}
            more = f"more of run, criterion, task, split: {several}"
            raise ParameterError(
                f"{rows.height} values of {metric} on {subset} fit {where}",
                allowed=more if several else "values of the table",
            )
        value: float | None = rows["value"][0]
        return value

    def by_group(self, metric: str, subset: str = "all", **where: Any) -> pl.DataFrame:
        """A metric by group of an attribute, with the gap between groups.

        Returns:
            One row for each run, criterion, task, split and attribute: ``attribute``, ``groups`` (a
            struct of values by group), ``overall``, ``min``, ``max``, ``difference`` (max - min),
            ``ratio`` (min / max).

        Raises:
            ParameterError: an unknown metric, or scores that were made without groups.
        """
        check_one_of("metric", metric, METRIC_NAMES)
        rows = self.table.filter(pl.col("cue").is_null(), metric=metric, subset=subset, **where)
        keys, value = ["run", "criterion", "task", "split"], pl.col("value")
        grouped = rows.filter(pl.col("group").is_not_null())
        if not grouped.height:
            raise ParameterError("the scores have no groups", give=Command("evaluate", by=...))
        split = pl.col("group").str.split_exact("=", 1).struct.rename_fields(["attribute", "level"])
        wide = (
            grouped.with_columns(split.alias("parts"))
            .unnest("parts")
            .group_by([*keys, "attribute"], maintain_order=True)
            .agg(pl.struct("group", "value", "n").alias("groups"), min=value.min(), max=value.max())
        )
        overall = rows.filter(pl.col("group").is_null()).select(*keys, overall="value")
        return wide.join(overall, on=keys, how="left", maintain_order="left").with_columns(
            difference=pl.col("max") - pl.col("min"), ratio=pl.col("min") / pl.col("max")
        )


Metric = Annotated[str, METRIC_NAMES]
Resamples = Annotated[int, Meta(ge=0, le=MOST_RESAMPLES)]


def scores_table(
    blocks: Sequence[Block],
    metrics: Sequence[str],
    about: Mapping[str, tuple[str | None, int | None]],
    resamples: int,
) -> pl.DataFrame:
    """Blocks without a baseline as the table of ``Scores``; ``about``: run -> (method, seed)."""
    rows = [(run, *key) for run, key in about.items()]
    runs = pl.DataFrame(
        rows, {"run": pl.String, "method": pl.String, "seed": pl.Int64}, orient="row"
    )
    frame = _frame([b for b in blocks if b.baseline is None], metrics, resamples).drop("p")
    frame = frame.join(runs, on="run", how="left", maintain_order="left")
    return frame.select(*runs.columns, pl.exclude(*runs.columns, "baseline"))


def differences_table(
    blocks: Sequence[Block], metrics: Sequence[str], resamples: int
) -> pl.DataFrame:
    """Blocks with a baseline as the table of differences of ``Scores``."""
    frame = _frame([b for b in blocks if b.baseline is not None], metrics, resamples)
    return frame.rename({"value": "difference"})


def with_bounds(
    table: pl.DataFrame,
    differences: pl.DataFrame,
    unread: Sequence[tuple[str, str]],
    readings: Sequence[pl.DataFrame],
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Scores and differences without values of runs whose answers are not known well enough."""
    reason = f"more than {100 * MOST_UNKNOWN:g}% of the answers are unknown"

    def concerned(column: str) -> pl.Expr:
        return pl.any_horizontal(
            (pl.col(column) == run) & (pl.col("criterion") == criterion)
            for run, criterion in unread
        )

    low, high = (
        pl.DataFrame(
            {
                str(number): reading.select(pl.coalesce(bound, "value")).to_series()
                for number, reading in enumerate(readings)
            }
        )
        for bound in ("low", "high")
    )
    nothing = pl.lit(None, pl.Float64)
    columns: dict[str, Any] = {"value": nothing, "interval": pl.lit("unknown")}
    columns |= {"low": low.min_horizontal(), "high": high.max_horizontal()}
    none: dict[str, Any] = dict.fromkeys(("difference", "low", "high", "p"), nothing)
    none |= {"interval": pl.lit(None, pl.String)}

    def changed(frame: pl.DataFrame, where: pl.Expr, new: Mapping[str, Any]) -> pl.DataFrame:
        new = {**new, "reason": pl.lit(reason)}
        return frame.with_columns(
            pl.when(where).then(to).otherwise(n).alias(n) for n, to in new.items()
        )

    either = concerned("run") | concerned("baseline")
    return changed(table, concerned("run"), columns), changed(differences, either, none)


def without_easy(table: pl.DataFrame) -> pl.DataFrame:
    """Scores on a suite of only hard images: null, with a reason, where others are needed."""
    # ece_paper scales a subset's ECE by its share of all images
    hard = pl.col("subset").is_in(["hard", "hard_positive", "hard_negative"])
    hard &= pl.col("metric") != "ece_paper"
    values = ["value" if "value" in table.columns else "difference", "low", "high"]
    reason = pl.lit("the suite contains only hard images: which images are easy is not known")
    return table.with_columns(
        *(pl.when(hard).then(name).alias(name) for name in values),
        reason=pl.when(hard).then("reason").otherwise(reason),
    )


def _frame(blocks: Sequence[Block], metrics: Sequence[str], resamples: int) -> pl.DataFrame:
    rows = [
        (b.run, b.baseline, b.scope.criterion, b.scope.task, b.scope.split, *vars(s).values())
        for b in blocks
        for s in b.scope.subsets
    ]
    places = pl.DataFrame(rows, dict.fromkeys(_TEXTS[:-1], pl.String), orient="row")
    number = pl.int_range(len(rows) * len(metrics), eager=True)

    def numbers(getter: Callable[[Block], Any], kind: type[pl.DataType] = pl.Float64) -> pl.Series:
        values = [np.broadcast_to(getter(b), b.values.shape).reshape(-1) for b in blocks]
        return pl.Series(np.concatenate(values) if values else [], dtype=kind)

    over: list[tuple[str, ...] | None] = []
    for block in blocks:
        over += [None] * block.values.size if block.over is None else block.over
    averaged = [", ".join(tasks) if tasks else None for tasks in over]
    intervals = [INTERVALS[kind] for kind in numbers(lambda b: b.kinds, pl.Int8)]
    frame = places[number // len(metrics)].with_columns(
        metric=pl.Series(metrics, dtype=pl.String)[number % len(metrics)],
        value=numbers(lambda b: b.values),
        low=numbers(lambda b: b.low),
        high=numbers(lambda b: b.high),
        interval=pl.Series(intervals, dtype=pl.String),
        n=numbers(lambda b: b.scope.n[:, None], pl.Int64),
        n_positive=numbers(lambda b: b.scope.n_positive[:, None], pl.Int64),
        n_groups=numbers(lambda b: b.scope.units[0][:, None], pl.Int64),
        n_tasks=pl.Series([None if t is None else len(t) for t in over], dtype=pl.Int64),
        averaged_tasks=pl.Series(averaged, dtype=pl.String),
        defined=numbers(lambda b: b.resamples, pl.Int64),
        tasks=numbers(lambda b: b.scope.tasks, pl.Int64),
        deciding=numbers(lambda b: deciding(b.scope, metrics), pl.Int64),
        p=numbers(lambda b: np.nan if b.p is None else b.p),
    )
    if all(b.scope.groups is None for b in blocks):
        frame = frame.drop("n_groups")
    return frame.with_columns(pl.col("value", "low", "high", "p").fill_nan(None)).select(
        pl.exclude("defined", "tasks", "deciding", "p"), "p", _reason(resamples).alias("reason")
    )


def _reason(resamples: int) -> pl.Expr:
    """Why a value or an interval is null, or what it leaves out."""
    average = pl.col("task") == AVERAGE
    fewer = average & (pl.col("n_tasks") < pl.col("tasks"))
    of_tasks = "defined for {} of {} tasks"
    no_claim = pl.col("metric") == "precision"
    rest = pl.when(no_claim).then(pl.lit("positive answer")).otherwise(pl.lit("image"))
    mostly = (
        f"no interval: undefined in most of {resamples} resamples, which have one class or no {{}}"
    )
    partly = (
        f"interval from {{}} of {resamples} resamples{{}}; the others have one class or no {{}}"
    )
    suffix = pl.when(average).then(pl.lit(" of a task")).otherwise(pl.lit(""))
    same = f"no interval: each resample that defines it ({{}} of {resamples}) gives this value"
    few = f"no interval: fewer than {FEWEST} {{}}"
    which = pl.when(pl.col("metric").is_in(OF_BOTH)).then(pl.lit("images of a label"))
    unbounded = pl.col("value").is_not_null() & pl.col("low").is_null() & pl.lit(resamples > 0)
    return (
        pl.when(average & (pl.col("n_tasks") == 0))
        .then(pl.lit("undefined for every task"))
        .when(fewer & pl.col("value").is_null())
        .then(pl.format(f"only {of_tasks}: {{}}", "n_tasks", "tasks", "averaged_tasks"))
        .when(fewer)
        .then(pl.format("the mean of {} of {} tasks; undefined for the others", "n_tasks", "tasks"))
        .when(unbounded & (pl.col("deciding") < FEWEST))
        .then(pl.format(few, which.otherwise(pl.lit("images"))))
        .when(unbounded & (2 * pl.col("defined") < resamples))
        .then(pl.format(mostly, rest))
        .when(unbounded)
        .then(pl.format(same, "defined"))
        .when((pl.col("interval") == INTERVALS[1]) & (pl.col("defined") < resamples))
        .then(pl.format(partly, "defined", suffix, rest))
        .when(pl.col("value").is_not_null())
        .then(None)
        .when(pl.col("n") == 0)
        .then(pl.lit("no image"))
        .when(pl.col("subset").str.starts_with("avg:"))
        .then(pl.lit("a subset with a share in the distribution has no image"))
        .when(pl.col("n_positive") == 0)
        .then(pl.lit("no positive"))
        .when(no_claim & (pl.col("n_positive") < pl.col("n")))
        .then(pl.lit("no positive answer"))
        .otherwise(pl.lit("no negative"))
    )


_FORM = re.compile(
    r"\s*(?:(\S.*?)\s+)?(\w+)\s*@\s*([^\[\]<>=\s]+)\s*(?:\[([^\]]*)\])?\s*(<=|>=|<|>)\s*"
    r"([^\s<>=].*?)\s*"
)
_MARGIN = re.compile(r"(.*?\S)\s*([+-])\s*(\d+\.?\d*(?:e-?\d+)?|\.\d+)", re.IGNORECASE)
_ALLOWED = (
    "worse, context, or [RUN] METRIC@SUBSET<VALUE, narrowed by [CRITERION] or [CRITERION,TASK] (*"
    " for any), such as auc@hard[ce,car]<0.85; in place of VALUE another RUN, or RUN + 0.02, such"
    " as new error@hard>old"
)
_SIGNS: dict[str, Callable[[float, float], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


@dataclass(frozen=True)
class Condition:
    """A condition that must not be true.

    Attributes:
        text: as it was written.
        metric: the metric; ``subset`` the subset it is on.
        criterion: the only criterion that it concerns, or None for all; the same for ``task``
            (``average`` is the mean over tasks).
        sign: ``<``, ``<=``, ``>`` or ``>=``.
        bound: the number on the right; of a difference the margin.
        run: the only run that it judges, or None.
        against: the run on the right, whose value is subtracted, or None.
    """

    text: str
    metric: str
    subset: str
    criterion: str | None
    task: str | None
    sign: str
    bound: float
    run: str | None = None
    against: str | None = None

    def of_runs(self, names: Sequence[str], baseline: str | None) -> Self:
        """The condition on runs of these names. ``baseline``: the one that was named, which
        ``baseline`` on the right means.

        Raises:
            ParameterError: a run that is not there, or two readings of the right side.
        """
        where = f"`fail_if` {self.text}"
        if self.run is None and {*names} == {baseline}:
            problem = f"{baseline} is the only run, and a baseline is not judged"
            raise ParameterError(problem, where=where, allowed="another run")
        if self == WORSE and baseline is None:
            raise ParameterError("compares runs with a baseline, but none is named", where=where,
                                 give=({"baseline": ...}, {"fail_if": CONTEXT.text}))  # fmt: skip
        if self in (WORSE, CONTEXT):
            return self
        if self.run is not None:
            check_one_of("run", self.run, names, owner="the predictions")
        right = self.against or self.text.rpartition(self.sign)[2].strip()
        known = {**({"baseline": baseline} if baseline else {}), **{name: name for name in names}}
        fit = [(known[right], 0.0)] if right in known else []
        if self.against is None:
            if fit:
                problem = f"{right} is a number and a run"
                allowed = f"{right} + 0 for the run, {float(right):g}.0 for the number"
                raise ParameterError(problem, where=where, allowed=allowed)
            return self
        matched = _MARGIN.fullmatch(right)
        if matched is not None and matched[1] in known:
            fit.append((known[matched[1]], float(matched[2] + matched[3])))
        if not fit:
            problem = f"{right!r} is neither a number nor a run"
            raise ParameterError(problem, where=where, allowed=some_of([*known]))
        if len(fit) > 1:
            problem = f"{right!r} is a run, and run {fit[1][0]} with a margin"
            allowed = f"{right} + 0 for the first, {fit[1][0]} + 0 {fit[1][1]:+g} for the second"
            raise ParameterError(problem, where=where, allowed="one reading", remedy=allowed)
        return replace(self, against=fit[0][0], bound=fit[0][1])


WORSE = Condition("worse", "comparison", "", None, None, ">", 0)
"""A run errs more often than the baseline in misleading contexts, see ``RunComparison.judged``."""
CONTEXT = Condition("context", "findings", "", None, None, ">", 0)
"""Errors are more frequent in a misleading context, see ``judged_contexts``."""
TOO_FEW = "nothing can be compared: too few images are in misleading contexts, or no predictions"
"""Why ``worse`` or ``context`` is undefined."""


@dataclass(frozen=True)
class ConditionVerdict:
    """A condition on one value.

    Attributes:
        condition: the condition.
        run: its name; ``criterion``, ``task`` and ``split`` are names as well; of ``worse`` and
            ``context``, which are on all sets, ``criterion`` is empty.
        value: the value, of a difference the difference, or None if it is undefined; of ``context``
            the number of findings, of ``worse`` of sides.
        fired: whether the condition is true of it, or it is undefined; a task that the condition
            does not name and whose images decide nothing fires only if no other of the run does.
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


def parse_condition(text: str, suite: Suite | None = None) -> Condition:
    """A condition from its text. Raises ParameterError for another form or an unknown metric, or
    for a criterion or task that the suite does not have; names of runs are not checked, see
    ``Condition.of_runs``.
    """
    for whole in (WORSE, CONTEXT):
        if text.strip() == whole.text:
            return whole
    matched = _FORM.fullmatch(text)
    if matched is None:
        raise ParameterError(f"{text!r} is not a condition", where="`fail_if`", allowed=_ALLOWED)
    run, metric, subset, inside, sign, right = matched.groups()
    check_one_of("metric", metric, METRIC_NAMES)
    names = [name.strip() for name in (inside or "").split(",")]
    try:
        bound, against = float(right), None
    except ValueError:
        bound, against = 0.0, right
    if len(names) > 2 or bound != bound:  # noqa: PLR0124 - only NaN differs from itself
        raise ParameterError(f"{text!r} is not a condition", where="`fail_if`", allowed=_ALLOWED)
    criterion, task = (name if name not in {"", "*"} else None for name in (*names, "", "")[:2])
    if suite is not None and criterion is not None:
        check_one_of("criterion", criterion, suite.criteria, owner="the suite")
    if suite is not None and task not in {None, AVERAGE}:
        check_one_of("task", str(task), suite.tasks, owner="the suite")
    return Condition(text.strip(), metric, subset, criterion, task, sign, bound, run, against)


def verdicts_on_tasks(
    condition: Condition,
    judged: Mapping[tuple[str, str, str], tuple[int, str]],
    tasks_of: Mapping[str, Collection[str]],
    places: Sequence[tuple[str, str]],
) -> list[ConditionVerdict]:
    """A condition on what is ``judged``: (run, task, split) -> the number of what fires it, and
    why. It fires for a run that is judged on none of the ``places`` (task, split), and for a task
    that it lacks; a place with too few images next to others does not.

    ``tasks_of``: run -> the tasks that it predicts.
    """
    verdicts = []
    for run, tasks in tasks_of.items():
        some = any(name == run for name, *_ in judged)
        for place in places if some else [("", "")]:
            lacks = some and place[0] not in tasks
            nothing = None, "it has no predictions" if lacks else TOO_FEW
            n, reason = judged.get((run, *place), nothing)
            value, fired = (None, lacks or not some) if n is None else (float(n), n > 0)
            verdicts.append(ConditionVerdict(condition, run, "", *place, value, fired, reason))
    return verdicts


_PLACE = ("run", "criterion", "task", "split")
_OF_LABELS = (": no image", ": no positive", ": no negative")
"""Ends of the reasons of what is undefined for any run."""


def judge(
    table: pl.DataFrame,
    conditions: Sequence[Condition],
    suite: Suite,
    differences: pl.DataFrame | None = None,
    *,
    baseline: str | None = None,
) -> list[ConditionVerdict]:
    """Every condition on every value of the tables of ``Scores`` that it concerns; an undefined or
    missing value fires it, see ``ConditionVerdict.fired``. A difference fires where its interval is
    beyond the margin. A ``baseline`` is only judged where a condition names it.
    """
    verdicts, named = list[ConditionVerdict](), table["run"].unique(maintain_order=True)
    for c in (c for c in conditions if c.metric in METRIC_NAMES):
        rows = table
        if c.against is not None:
            assert differences is not None  # noqa: S101 - runs are compared where a condition asks
            swapped = differences.with_columns(
                run="baseline", baseline="run", difference=-pl.col("difference"),
                low=-pl.col("high"), high=-pl.col("low"),
            )  # fmt: skip
            both = pl.concat([differences, swapped]).filter(baseline=c.against)
            rows = both.rename({"difference": "value"})
            whole = c.against in differences["baseline"] or {*differences["run"]} == {c.against}
            if not (whole if c.run is None else c.run in rows["run"]):
                problem = f"{c.run or 'each run'} is not compared with {c.against}"
                raise ParameterError(
                    problem, where=f"`fail_if` {c.text}", give={"baseline": c.against}
                )
        rows = rows.filter(pl.col("cue").is_null(), pl.col("group").is_null())
        runs = [run for run in named if run not in {baseline, c.against}]
        for kind, name in (("subset", c.subset), ("metric", c.metric)):
            check_one_of(kind, name, rows[kind].unique(maintain_order=True), owner="the scores")
        rows = rows.filter(subset=c.subset, metric=c.metric)
        keys = (
            table.filter(pl.col("task") != AVERAGE).select(_PLACE[1:]).unique(maintain_order=True)
        )
        verdicts += _judge(rows, c, [c.run] if c.run is not None else runs, keys, suite)
    return verdicts


def _judge(
    rows: pl.DataFrame, c: Condition, runs: Sequence[str], keys: pl.DataFrame, suite: Suite
) -> list[ConditionVerdict]:
    """A condition on the rows of its metric and subset; of what is there for any run (``keys``)."""
    values = {name: keys[name].unique(maintain_order=True).to_list() for name in keys.columns}
    criteria = [c.criterion] if c.criterion else values["criterion"]
    tasks = [c.task] if c.task else values["task"]
    place = {
        tuple(place): row
        for *place, row in rows.select(*_PLACE, pl.struct("value", "low", "high", "reason")).rows()
    }
    verdicts = []
    for run, *key in product(runs, criteria, tasks, values["split"]):
        if c.criterion and c.task not in {None, AVERAGE}:
            # where the condition names both, a missing set is an error
            suite.record(*key)
        if key[1] == AVERAGE or tuple(key) in suite.keys:
            verdicts.append(_verdict(c, (run, *key), place.get((run, *key))))
    if not verdicts:
        problem = "concerns no value"
        raise ParameterError(
            problem, where=f"`fail_if` {c.text}", allowed="criteria and tasks that have a set"
        )
    judged = {verdict.run for verdict in verdicts if verdict.value is not None and c.task is None}
    return [
        replace(verdict, fired=False)
        if verdict.run in judged and verdict.reason.endswith(_OF_LABELS)
        else verdict
        for verdict in verdicts
    ]


def _verdict(
    condition: Condition, place: tuple[str, str, str, str], row: dict[str, object] | None
) -> ConditionVerdict:
    value, low, high = (None if row is None else row[name] for name in ("value", "low", "high"))
    is_above = condition.sign[0] == ">"
    what = f"{condition.metric} on {condition.subset} is"
    if isinstance(value, float) and condition.against is None:
        fired = _SIGNS[condition.sign](value, condition.bound)
        relation = f"{'which is' if fired else 'not'} {condition.sign} {condition.bound:g}"
        return ConditionVerdict(condition, *place, value, fired, f"{what} {value:.6g}, {relation}")
    if isinstance(value, float) and isinstance(low, float) and isinstance(high, float):
        fired = low > condition.bound if is_above else high < condition.bound
        beyond = f"{'' if fired else 'not '}{'above' if is_above else 'below'}"
        reason = (
            f"{what} {value:+.3g} [{low:+.3g}, {high:+.3g}] against {condition.against}: the"
            f" interval is {beyond} {condition.bound:g}"
        )
        return ConditionVerdict(condition, *place, value, fired, reason)
    why = "a mean needs at least two tasks" if place[2] == AVERAGE else "it was not scored"
    if isinstance(value, float) and not (row or {})["reason"]:
        problem = f"a difference of {condition.metric} has an interval only by resamples"
        raise ParameterError(
            problem, where=f"`fail_if` {condition.text}", give={"bootstrap": RESAMPLES}
        )
    if row is not None:
        why = str(row["reason"])
    reason = f"{condition.metric} is undefined: {why}"
    return ConditionVerdict(condition, *place, None, fired=True, reason=reason)
