"""Is a run worse than a baseline where the context misleads? Paired by image, per task and side."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.base.calls import Progress, no_progress, tracked
from nooch.base.display import DisplayTable, TabularResult
from nooch.base.errors import ParameterError, some_of
from nooch.base.words import counted, printable, readable
from nooch.evaluation.answer_sample import AskedSample
from nooch.evaluation.findings import (
    SIDES,
    SMALLEST,
    errors_in,
    misleading_contexts,
    outcomes_of,
    phi_of_set,
)
from nooch.evaluation.judged import JudgedRuns
from nooch.evaluation.metrics.proportions import (
    SIGNIFICANT,
    effective_number,
    exact_mcnemar,
    holm,
    paired_interval,
    wilson_of_groups,
)
from nooch.evaluation.predictions import Predictions
from nooch.evaluation.rate_words import Rate, context_words, model_name, percent, started
from nooch.evaluation.scores import WORSE, ConditionVerdict, verdicts_on_tasks
from nooch.suites import ChallengeSet, Suite
from nooch.suites.challenge_set import NO_CONTEXT

CHANGES = ("worse", "better", "unchanged")
_LONGEST = 160
"""Characters of changes in a sentence."""
"""Verdicts on a run."""
COLUMNS: dict[str, Any] = {
    "run": pl.String, "baseline": pl.String, "criterion": pl.String, "task": pl.String,
    "cue": pl.String, "side": pl.String, "split": pl.String, "n": pl.Int64, "n_broken": pl.Int64,
    "n_fixed": pl.Int64, "rate": pl.Float64, "rate_low": pl.Float64, "rate_high": pl.Float64,
    "rate_before": pl.Float64, "before_low": pl.Float64, "before_high": pl.Float64,
    "difference": pl.Float64, "low": pl.Float64, "high": pl.Float64, "p": pl.Float64,
    "p_adjusted": pl.Float64, "of_boxes": pl.Boolean, "one_label": pl.Boolean,
    "verdict": pl.String, "phi": pl.String,
}  # fmt: skip
"""Columns of a comparison. ``side`` is ``positive`` (objects out of context that are missed) or
``negative`` (objects that are claimed where only their context is); ``n`` images, of boxes objects,
of which ``n_broken`` are wrong only in the run and ``n_fixed`` only in the baseline; ``difference``
is the rate of errors less the baseline's, ``low`` and ``high`` its 95% interval. Of drawn questions
rates are by weight."""
_KEYS = ("task", "split", "side")


@dataclass(frozen=True, eq=False, repr=False)
class RunComparison(TabularResult):
    """Errors of runs in misleading contexts against a baseline's, on the same images.

    Attributes:
        table: a row for each run, task and side, see ``COLUMNS``; first what is worse, then better,
            by the end of the interval that is nearer to 0.
        baseline: the baseline's name; ``others`` the runs to compare with it, name -> tasks.
        places: tasks and splits on which they are to be compared.
        notes: what is compared, and which tasks are not.
    """

    table: pl.DataFrame
    baseline: str
    others: Mapping[str, Collection[str]]
    places: Sequence[tuple[str, str]]
    notes: Sequence[str] = field(default=())

    @property
    def display(self) -> DisplayTable:
        """The numbers, and the result of each run in a sentence."""
        columns = ["task", "side", "rate_before", "rate", "difference", "low", "high", "p_adjusted",
                   "n", "verdict", "run"]  # fmt: skip
        words = [name.replace("_", " ") for name in columns]
        rows = self.table.select(columns).rows()
        title = f"Comparison with {self.baseline}"
        return DisplayTable(title, words, rows, left=2, notes=[*self.sentences, *self.notes])

    @property
    def runs(self) -> list[str]:
        """The other runs: worse ones first, last those that cannot be compared."""
        return list(dict.fromkeys([*self.table["run"], *self.others]))

    @property
    def sentences(self) -> list[str]:
        """The number of tasks on which each run is worse, better and unchanged; or that too few
        images are compared.
        """
        compared = self.table["run"].n_unique()
        few, old = "too few images are in misleading contexts", printable(self.baseline)
        rest = some_of([model_name(run) for run in self.runs[compared:]])
        who = "Nothing can be" if not compared else f"{started(rest)} cannot be"
        last = [f"{who} compared with {old}: {few}"] if rest else []
        return [*map(self._sentence, self.runs[:compared]), *last]

    def _sentence(self, run: str) -> str:
        of_task: dict[str, str] = {}
        # the worst of a task comes first
        for task, verdict in self.table.filter(run=run).select("task", "verdict").rows():
            of_task.setdefault(task, verdict)
        n = {kind: [*of_task.values()].count(kind) for kind in CHANGES}
        who, tasks = started(model_name(run)), counted(len(of_task), "task")
        old = printable(self.baseline)
        worse = [change(row) for row in self.rows("worse") if row["run"] == run]
        parts = [f"{who} is not shown to be worse than {old} on any of {tasks}"]
        if worse:
            # long names are in the findings below
            few = (f": {text}" for text in (some_of(worse, 2), some_of(worse, 1)))
            listed = next((text for text in few if len(text) <= _LONGEST), "")
            parts = [f"{who} is worse than {old} on {n['worse']} of {tasks}{listed}"]
        parts += [f"better on {n['better']}"] if n["better"] else []
        parts += [f"{n['unchanged']} unchanged"] if n["unchanged"] else []
        return "; ".join(parts)

    def rows(self, verdict: str) -> Iterator[dict[str, Any]]:
        """Rows of a verdict."""
        return self.table.filter(verdict=verdict).iter_rows(named=True)

    def judged(self) -> list[ConditionVerdict]:
        """The condition ``worse`` of ``fail_if`` on each run and task."""
        judged = {}
        for (run, task, split), rows in self.table.group_by("run", "task", "split"):
            worse = rows.filter(verdict="worse")
            shown = worse if worse.height else rows
            reason = "; ".join(change_sentence(row) for row in shown.iter_rows(named=True))
            judged[str(run), str(task), str(split)] = worse.height, reason
        tasks_of = {run: self.others[run] for run in self.runs}
        return verdicts_on_tasks(WORSE, judged, tasks_of, self.places)


def change(row: Mapping[str, Any]) -> str:
    """``missed cars without a road 55% -> 74%``; ``row``: of ``RunComparison.table``."""
    what, *_ = context_words(row)
    verb = "missed" if row["side"] == SIDES[0] else "claimed"
    return f"{verb} {what} {percent(row['rate_before'])} -> {percent(row['rate'])}"


def change_sentence(row: Mapping[str, Any]) -> str:
    """A row in a sentence: ``new misses cars without a road more often than old (55% -> 74%)``."""
    rates, old = f"({percent(row['rate_before'])} -> {percent(row['rate'])})", row["baseline"]
    how = {"worse": " more often than {}", "better": " less often than {}"}.get(row["verdict"])
    how = (how or ": no difference from {} is shown").format(printable(old))
    return f"{errors_in(row)}{how} {rates}"


def change_rates(row: Mapping[str, Any]) -> tuple[Rate, Rate]:
    """The rates of a row: the run's, and the baseline's."""
    new, old = printable(row["run"]), printable(row["baseline"])
    return (
        Rate(new, row["rate"], row["n"], row["rate_low"], row["rate_high"]),
        Rate(old, row["rate_before"], row["n"], row["before_low"], row["before_high"]),
    )


def compare_runs(
    suite: Suite,
    judged: JudgedRuns,
    keys: Sequence[tuple[str, str, str]],
    baseline: str,
    progress: Progress = no_progress,
) -> RunComparison:
    """Compare errors in misleading contexts with a baseline's on the same images.

    Without a context, errors on all images are compared. Of a task and side, the first criterion
    counts that has at least ``SMALLEST`` images (or groups)
    there. The test is McNemar's exact one, for the effective number of images where groups are
    alike, p-values are corrected by Holm (1979) over all runs, tasks and sides, and a run is worse
    or better where the corrected p is at most .05 and Tango's interval excludes 0. An unknown
    answer is an error of both. Drawn questions count by their weights.

    Args:
        suite: whose sets.
        judged: the runs and the baseline.
        keys: (criterion, task, split).
        baseline: the name of one of the runs.
        progress: called with what is being done, and how many of how many are done.

    Raises:
        ParameterError: no other run, or none with a task of the baseline.
    """
    old = judged.run(baseline)
    others = [run for run in judged.runs if run.run != baseline]
    if not any({*run.tasks} & {*old.tasks} for run in others):
        problem = f"no other run has predictions for the tasks of {baseline}"
        raise ParameterError(problem, where="`baseline`", allowed="one of at least two runs")
    asked = AskedSample.from_runs(suite, judged.runs, [k for k in keys if k in suite.keys])
    sample = asked.suite
    rows: dict[tuple[str, ...], dict[str, Any]] = {}
    for key in tracked(keys, len(keys), "comparing runs, sets", progress):
        if key in sample.keys and key[1] in old.tasks:
            challenge = sample.set(*key)
            weights = asked.weights_of(challenge)
            for run in others:
                if key[1] in run.tasks:
                    for row in _of_set(sample, challenge, run, old, weights, judged.one_label):
                        rows.setdefault((run.run, *(row[name] for name in _KEYS)), row)
    tasks = dict.fromkeys(task for _, task, _ in keys)
    few = [readable(task) for task in tasks if not any(task == place[1] for place in rows)]
    places = list(dict.fromkeys((task, split) for _, task, split in keys))
    name, number = printable(baseline), counted(len(rows), "comparison")
    whole = all(criterion == NO_CONTEXT for criterion, _, _ in keys)
    what = f"errors on the same images{'' if whole else ' in misleading contexts'}"
    notes = [f"compared with {name}: {what}; {number}, corrected by Holm's procedure"]
    if few:
        place = "" if whole else " in a misleading context"
        what = f"fewer than {SMALLEST} {suite.unit_name}{place}, or no predictions"
        notes.append(f"not compared with {name}: {some_of(few, 12)} ({what})")
    tasks_of = {run.run: run.tasks for run in others}
    return RunComparison(_judged([*rows.values()]), baseline, tasks_of, places, notes)


def paired_errors(
    run: Predictions, old: Predictions, challenge: ChallengeSet, side: str
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.intp]]:
    """Errors of two runs on one side of a set, bool (n,) each, and the row in the set, intp (n,);
    of images, where boxes are matched of objects.
    """
    pair = [outcomes_of(one, challenge, side) for one in (run, old)]
    # objects are in the order of the dataset, but images in the one of their run
    orders = [np.argsort(one.row, kind="stable") for one in pair]
    rows = [one.row[order] for one, order in zip(pair, orders, strict=True)]
    if not np.array_equal(rows[0], rows[1]):
        # one of them counts objects, the other images
        n = len(challenge)
        both = np.intersect1d(rows[0], rows[1])
        wrong = [one.images_with_errors(n)[both] for one in pair]
        return wrong[0], wrong[1], both
    wrong = [one.wrong[order] for one, order in zip(pair, orders, strict=True)]
    return wrong[0], wrong[1], rows[0]


def _of_set(
    suite: Suite,
    challenge: ChallengeSet,
    run: Predictions,
    old: Predictions,
    weights: NDArray[np.float64] | None,
    one_label: bool,
) -> Iterator[dict[str, Any]]:
    """Rows of the sides that have enough images; ``weights``: of images, None for equal ones."""
    cue, misleading = misleading_contexts(suite, challenge)[0]
    units = suite.units(challenge.image_ids)
    for side in SIDES:
        new, before, row = paired_errors(run, old, challenge, side)
        inside = misleading[row]
        new, before, row = new[inside], before[inside], row[inside]
        of_objects = len(np.unique(row)) < len(row)
        groups = row if units is None and of_objects else None if units is None else units[row]
        n_units = len(np.unique(row if groups is None else groups))
        if n_units < SMALLEST:
            continue
        broken, fixed = new & ~before, before & ~new
        weight = None if weights is None else weights[row]
        n = effective_number(new.astype(np.float64) - before, groups, weight)
        up, down, rate, rate_before = (
            np.array(np.average(of, weights=weight)) for of in (broken, fixed, new, before)
        )
        low, high = paired_interval(up, down, np.array(n))
        rate_low, rate_high = wilson_of_groups(new, groups, weight)
        before_low, before_high = wilson_of_groups(before, groups, weight)
        yield {
            "run": run.run, "baseline": old.run, "criterion": challenge.criterion,
            "task": challenge.task, "cue": cue, "side": side, "split": challenge.split,
            "n": len(row), "n_broken": int(broken.sum()), "n_fixed": int(fixed.sum()),
            "rate": rate, "rate_low": rate_low, "rate_high": rate_high,
            "rate_before": rate_before, "before_low": before_low, "before_high": before_high,
            "difference": up - down, "low": low, "high": high,
            "p": exact_mcnemar(up * n, down * n), "of_boxes": run.objects is not None,
            "one_label": one_label, "phi": phi_of_set(suite, challenge),
        }  # fmt: skip


def _judged(rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """The table: p-values corrected, verdicts, and what is worse first."""
    plain = [{k: v.item() if isinstance(v, np.ndarray | np.generic) else v for k, v in r.items()}
             for r in rows]  # fmt: skip
    table = pl.DataFrame(
        [{"p_adjusted": None, "verdict": None, **row} for row in plain], schema=COLUMNS
    ).with_columns(pl.col(pl.Float64).fill_nan(None))
    adjusted = pl.Series("p_adjusted", holm(table["p"].to_numpy()), pl.Float64)
    beyond = pl.col("p_adjusted") <= SIGNIFICANT
    table = table.with_columns(adjusted).with_columns(
        verdict=pl.when(beyond & (pl.col("low") > 0)).then(pl.lit(CHANGES[0]))
        .when(beyond & (pl.col("high") < 0)).then(pl.lit(CHANGES[1])).otherwise(pl.lit(CHANGES[2]))
    )  # fmt: skip
    rank = pl.col("verdict").replace_strict({kind: n for n, kind in enumerate(CHANGES)})
    nearer = pl.max_horizontal("low", -pl.col("high"))
    return table.sort(rank, -nearer, maintain_order=True)
