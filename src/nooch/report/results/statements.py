"""The paper's conclusions as statements about results: exact tests, verdicts, numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import polars as pl

from nooch.base.display import DisplayTable
from nooch.base.errors import check_one_of
from nooch.evaluation import AVERAGE
from nooch.evaluation.averages import LARGER_IS_BETTER, named_tasks
from nooch.report.results.cells import with_averages
from nooch.report.results.paper_numbers import PAPER_NAMES
from nooch.report.results.run_results import Results
from nooch.report.tables.score_tables import mean_sd, printable_table

HOLDS, FAILS, OPEN = VERDICTS = ("holds", "does not hold", "inconclusive")
"""``inconclusive``: numbers are missing, or what they differ by is within their deviations."""

_ROUNDING = 1e-9


@dataclass(frozen=True)
class Number:
    """A mean with its deviation over seeds (None where it is unknown), and what it is of."""

    what: str
    mean: float
    std: float | None

    def __str__(self) -> str:
        return f"{self.what} {mean_sd(self.mean, self.std)}"

    def minus(self, other: Number, what: str) -> Number:
        """The difference; deviations add as those of independent numbers."""
        return Number(what, self.mean - other.mean, _root([self.std, other.std]))


def mean_of(numbers: Sequence[Number], what: str) -> Number:
    """The mean, with deviation sqrt(sum of squared deviations) / n."""
    root = _root([number.std for number in numbers])
    mean = sum(number.mean for number in numbers) / len(numbers)
    return Number(what, mean, None if root is None else root / len(numbers))


def _root(deviations: Iterable[float | None]) -> float | None:
    listed = list(deviations)
    return None if None in listed else math.sqrt(sum(d * d for d in listed if d is not None))


@dataclass(frozen=True)
class Check:
    """One comparison of a statement, in words; its verdict out of ``VERDICTS``, and the numbers
    behind it, or what is missing.
    """

    what: str
    verdict: str
    numbers: str


def concluded(checks: Sequence[Check]) -> str:
    """A statement holds if all its checks do, does not if one does not, else is inconclusive."""
    verdicts = {check.verdict for check in checks}
    return FAILS if FAILS in verdicts else HOLDS if verdicts == {HOLDS} else OPEN


def unknown(what: str, why: str) -> Check:
    """A check that cannot be made."""
    return Check(what, OPEN, why)


def above(high: Number, low: Number, what: str) -> Check:
    """Whether ``high`` is above ``low`` by more than both deviations together.

    This is the rule by which the paper sets numbers in bold. The check holds where high - low >
    std + std, does not where low - high > std + std; in between, or with an unknown deviation, it
    is inconclusive.
    """
    difference = high.mean - low.mean
    if high.std is None or low.std is None:
        return unknown(what, f"{high}; {low}: a deviation is unknown")
    reach = high.std + low.std + _ROUNDING
    verdict = HOLDS if difference > reach else FAILS if -difference > reach else OPEN
    together = f"deviations together {high.std + low.std:.3f}"
    return Check(what, verdict, f"{high}; {low}: {difference:+.3f}, {together}")


def nearer(number: Number, near: Number, far: Number, what: str) -> Check:
    """Whether a number is nearer to ``near`` than to ``far``.

    That is, on that side of their middle by more than the deviations together. Where near and far
    do not themselves differ by more than theirs, the check is inconclusive.
    """
    ordered = above(near, far, what) if near.mean > far.mean else above(far, near, what)
    if ordered.verdict != HOLDS:
        return unknown(what, f"the two ends are within deviations: {ordered.numbers}")
    middle = mean_of([near, far], "their middle")
    side = above(number, middle, what) if near.mean > far.mean else above(middle, number, what)
    return Check(what, side.verdict, f"{number}; {near}; {far}")


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Spearman's: the correlation of ranks, ties sharing the mean rank; NaN of a constant."""
    frame = pl.DataFrame({"first": first, "second": second}).select(pl.all().rank("average"))
    correlation = frame.select(pl.corr("first", "second")).item()
    return float("nan") if correlation is None else float(correlation)


class Numbers:
    """Results looked up by what they are of; task ``average`` is the mean over tasks."""

    def __init__(self, cells: pl.DataFrame) -> None:
        self._cells = cells

    def alike(self, criteria: Sequence[str]) -> tuple[Numbers, str]:
        """Numbers whose averages under several criteria are over the same tasks.

        Averages are taken again, over the tasks that those under each criterion are over.
        """
        own = self._cells.filter(pl.col("criterion").is_in(list(criteria)))
        hard = own.filter(metric="auc", subset="hard", task=AVERAGE).drop_nulls("mean")
        lists = hard["averaged_tasks"].unique(maintain_order=True).drop_nulls()
        if len(lists) < 2:
            return self, ""
        known = list(dict.fromkeys(task for c in criteria for task in self.tasks(c)))
        common = [task for task in known if all(task in named_tasks(of, known) for of in lists)]
        over = f" (over {', '.join(common)})" if common else " (no task is averaged under both)"
        return Numbers(with_averages(own.filter(pl.col("task").is_in(common)))), over

    def has(self, criterion: str, metric: str) -> bool:
        """Whether there is any value of a metric under a criterion."""
        return any(key[:2] == (criterion, metric) for key in self._of)

    @cached_property
    def _of(self) -> Mapping[tuple[str, ...], tuple[float, float | None]]:
        keys = ["criterion", "metric", "subset", "task", "method"]
        known = self._cells.filter(pl.col("mean").is_not_null() & pl.col("mean").is_not_nan())
        rows = known.select(*keys, "mean", "std").iter_rows()
        return {tuple(row[:5]): (row[5], row[6]) for row in rows}

    def methods(self, criterion: str) -> list[str]:
        """Methods with results under a criterion."""
        return list(dict.fromkeys(self._cells.filter(criterion=criterion)["method"]))

    def tasks(self, criterion: str) -> list[str]:
        """Tasks with results under a criterion, without the average."""
        rows = self._cells.filter(pl.col("task") != AVERAGE, criterion=criterion)
        return list(dict.fromkeys(rows["task"]))

    def get(
        self, criterion: str, metric: str, subset: str, method: str, task: str = AVERAGE
    ) -> Number | None:
        """A number, or None where there is none."""
        values = self._of.get((criterion, metric, subset, task, method))
        where = method if task == AVERAGE else f"{method} on {task}"
        return None if values is None else Number(where, *values)

    def lacking(
        self, criterion: str, metric: str, subset: str, methods: Iterable[str]
    ) -> str | None:
        """Which averages are missing, in words; None where none is."""
        if not self.methods(criterion):
            return f"no results under {criterion}"
        missing = [m for m in methods if self.get(criterion, metric, subset, m) is None]
        where = f"{metric} on {subset}, {criterion}"
        return f"no average of {', '.join(missing)} ({where})" if missing else None

    def averages(
        self, criterion: str, metric: str, subset: str, methods: Iterable[str]
    ) -> list[Number]:
        """Averages over tasks of those methods that have one."""
        numbers = (self.get(criterion, metric, subset, method) for method in methods)
        return [number for number in numbers if number is not None]

    @staticmethod
    def best(numbers: Sequence[Number], metric: str) -> Number:
        """The best of several, the first where several are."""
        return max(numbers, key=lambda n: n.mean if metric in LARGER_IS_BETTER else -n.mean)


PAPER = tuple(PAPER_NAMES.values())
ENVIRONMENT = ("environment-reweight", "environment-undersample", "gdro", "irm")
OTHERS = tuple(name for name in PAPER if name not in ENVIRONMENT)
_CALIBRATED = ("erm", "label-undersample", "environment-undersample")

CLEAR = -0.6
"""Rank correlation from which two sides trade off: critical for 9 methods, one-sided at 5 %."""
_TIED = 1e-9
FAR = 2.0
"""How many times larger a lead is that is far larger."""


def lead(numbers: Numbers, criterion: str) -> list[Check]:
    """The best environment method above the best of the others on average, and an environment
    method the best on more tasks than not.
    """
    first = f"{criterion}: best environment method above the best of the others, AUC on hard"
    second = (
        f"{criterion}: an environment method has the highest AUC on hard, on more tasks than one of"
        " the others has"
    )
    if why := numbers.lacking(criterion, "auc", "hard", PAPER):
        return [unknown(first, why)]
    inside, outside = (
        numbers.best(numbers.averages(criterion, "auc", "hard", group), "auc")
        for group in (ENVIRONMENT, OTHERS)
    )
    gaps = []
    for task in numbers.tasks(criterion):
        of_methods = {m: numbers.get(criterion, "auc", "hard", m, task) for m in PAPER}
        means = {m: number.mean for m, number in of_methods.items() if number is not None}
        if len(means) == len(PAPER):
            gaps.append(max(means[m] for m in ENVIRONMENT) - max(means[m] for m in OTHERS))
    return [above(inside, outside, first), _more(second, gaps)]


def _more(what: str, gaps: Sequence[float]) -> Check:
    """Whether more differences are above 0 than below; ties are left out."""
    up, down = (sum(sign * gap > _TIED for gap in gaps) for sign in (1, -1))
    verdict = HOLDS if up > down else FAILS if down > up else OPEN
    tied = len(gaps) - up - down
    text = f"on {up} of {len(gaps)} tasks, the other way on {down}, equal on {tied}"
    return Check(what, verdict, text)


def harder(numbers: Numbers) -> list[Check]:
    """Gist's AUC on hard below CE's for each method, and on most tasks."""
    numbers, over = numbers.alike(("ce", "gist"))
    if why := _lacking_both(numbers, PAPER):
        return [unknown(f"AUC on hard under gist below that under ce{over}", why)]
    checks = []
    for method in PAPER:
        what = f"{method}: AUC on hard is lower under gist than under ce{over}"
        ce, gist = (
            Number(f"{method}, {criterion}", number.mean, number.std)
            for criterion in ("ce", "gist")
            for number in numbers.averages(criterion, "auc", "hard", [method])
        )
        checks.append(above(ce, gist, what))
    means = ([_task_mean(numbers, c, task) for c in ("ce", "gist")] for task in numbers.tasks("ce"))
    gaps = [ce - gist for ce, gist in means if ce is not None and gist is not None]
    what = "the mean over methods is lower under gist on more tasks than not"
    return [*checks, _more(what, gaps)]


def _task_mean(numbers: Numbers, criterion: str, task: str) -> float | None:
    of_methods = (numbers.get(criterion, "auc", "hard", method, task) for method in PAPER)
    known = [number for number in of_methods if number is not None]
    return mean_of(known, task).mean if known else None


def _lacking_both(numbers: Numbers, methods: Sequence[str]) -> str | None:
    reasons = (numbers.lacking(criterion, "auc", "hard", methods) for criterion in ("ce", "gist"))
    return "; ".join(filter(None, reasons)) or None


def _lead_over_erm(numbers: Numbers, criterion: str) -> Number:
    """Mean of the four environment methods minus ERM, AUC on hard."""
    inside = mean_of(numbers.averages(criterion, "auc", "hard", ENVIRONMENT), "environment methods")
    (erm,) = numbers.averages(criterion, "auc", "hard", ["erm"])
    return inside.minus(erm, f"lead under {criterion}")


def shrinks(numbers: Numbers) -> list[Check]:
    """Lead over ERM under CE above that under gist."""
    numbers, over = numbers.alike(("ce", "gist"))
    what = (
        "the lead of the environment methods over ERM, AUC on hard, is larger under ce than under"
        f" gist{over}"
    )
    if why := _lacking_both(numbers, ("erm", *ENVIRONMENT)):
        return [unknown(what, why)]
    return [above(_lead_over_erm(numbers, "ce"), _lead_over_erm(numbers, "gist"), what)]


def near(numbers: Numbers, criterion: str) -> list[Check]:
    """Environment reweighting between ERM and the better of GDRO and IRM: nearer to which."""
    what = (
        f"{criterion}: environment reweighting is nearer to the better of GDRO and IRM than to ERM,"
        " AUC on hard"
    )
    needed = ("erm", "environment-reweight", "gdro", "irm")
    if why := numbers.lacking(criterion, "auc", "hard", needed):
        return [unknown(what, why)]
    erm, reweight, *special = numbers.averages(criterion, "auc", "hard", needed)
    better = numbers.best(special, "auc")
    if better.mean <= erm.mean:
        return [unknown(what, f"neither is above ERM: {better}; {erm}")]
    return [nearer(reweight, better, erm, what)]


def trade(numbers: Numbers, criterion: str, metric: str) -> list[Check]:
    """Rank correlation over methods of the average on hard positives and on hard negatives."""
    better = f"{criterion}: methods that are better on hard positives"
    what = f"{better} are worse on hard negatives, {metric}"
    sides = ("hard_positive", "hard_negative")
    methods = [m for m in PAPER if all(numbers.get(criterion, metric, side, m) for side in sides)]
    if len(methods) < 5:
        why = f"{len(methods)} methods have both averages; 5 at least are compared"
        return [unknown(what, why)]
    first, second = (
        [n.mean for n in numbers.averages(criterion, metric, side, methods)] for side in sides
    )
    rho = rank_correlation(first, second)
    verdict = HOLDS if rho <= CLEAR else FAILS if rho >= 0 else OPEN
    return [Check(what, verdict, f"rank correlation {rho:+.2f} over {len(methods)} methods")]


def _apart(
    numbers: Numbers, criterion: str, metric: str, subset: str, methods: Sequence[str]
) -> tuple[list[Number], list[Number]]:
    """Averages of some methods, and of the paper's others."""
    rest = [method for method in PAPER if method not in methods]
    own, others = (numbers.averages(criterion, metric, subset, group) for group in (methods, rest))
    return own, others


def erm_best(numbers: Numbers, criterion: str, metric: str, subset: str) -> list[Check]:
    """ERM below every other method."""
    what = f"{criterion}: ERM has the lowest {metric} on {subset}"
    if why := numbers.lacking(criterion, metric, subset, PAPER):
        return [unknown(what, why)]
    (erm,), rest = _apart(numbers, criterion, metric, subset, ["erm"])
    return [above(numbers.best(rest, metric), erm, what)]


def focal(
    numbers: Numbers, criterion: str, metric: str, subset: str, like_erm: bool
) -> list[Check]:
    """Focal between ERM and the mean of the environment methods: nearer to which."""
    side = "ERM" if like_erm else "the mean of the environment methods"
    what = f"{criterion}: focal is nearer to {side}, {metric} on {subset}"
    needed = ("focal", "erm", *ENVIRONMENT)
    if why := numbers.lacking(criterion, metric, subset, needed):
        return [unknown(what, why)]
    focal, erm, *environment = numbers.averages(criterion, metric, subset, needed)
    inside = mean_of(environment, "environment methods")
    return [nearer(focal, erm, inside, what) if like_erm else nearer(focal, inside, erm, what)]


def _ece(numbers: Numbers, criterion: str) -> tuple[str, str]:
    """Which ECE is compared, and its name: the paper's where it is known."""
    if numbers.has(criterion, "ece_paper"):
        return "ece_paper", "the paper's ECE (ece_paper)"
    return "ece", "ECE of the positive probability (ece)"


def calibrated(numbers: Numbers, criterion: str, subset: str) -> list[Check]:
    """The largest ECE of ERM and the two undersamplings below the smallest of the others."""
    metric, name = _ece(numbers, criterion)
    what = (
        f"{criterion}: ERM and undersampling by label and environment are below all others on"
        f" {subset}, {name}"
    )
    if why := numbers.lacking(criterion, metric, subset, PAPER):
        return [unknown(what, why)]
    own, rest = _apart(numbers, criterion, metric, subset, _CALIBRATED)
    return [above(numbers.best(rest, metric), max(own, key=lambda n: n.mean), what)]


def worst_calibrated(numbers: Numbers, criterion: str) -> list[Check]:
    """CVaR's ECE on easy above that of every other method."""
    metric, name = _ece(numbers, criterion)
    what = f"{criterion}: CVaR is above all others on easy, {name}"
    if why := numbers.lacking(criterion, metric, "easy", PAPER):
        return [unknown(what, why)]
    (cvar,), rest = _apart(numbers, criterion, metric, "easy", ["cvar"])
    return [above(cvar, max(rest, key=lambda n: n.mean), what)]


def waterbirds(numbers: Numbers) -> list[Check]:
    """The lead over ERM on Waterbirds against those under CE and gist.

    Table 5 has no deviations, so means alone count.
    """
    needed = ("erm", *ENVIRONMENT)
    if why := numbers.lacking("attribute", "auc", "hard", needed):
        return [unknown("the lead on Waterbirds is far larger", why)]
    birds, checks = _lead_over_erm(numbers, "attribute").mean, []
    for criterion in ("ce", "gist"):
        times = f"at least {FAR:g} times that under {criterion}"
        what = f"the lead over ERM on Waterbirds is {times}, AUC on hard"
        if why := numbers.lacking(criterion, "auc", "hard", needed):
            checks.append(unknown(what, why))
            continue
        lead = _lead_over_erm(numbers, criterion).mean
        verdict = HOLDS if birds > 0 and birds >= FAR * lead else FAILS
        checks.append(Check(what, verdict, f"{birds:+.3f} and {lead:+.3f}"))
    return checks


_BOTH = ("ce", "gist")


@dataclass(frozen=True)
class Statement:
    """A conclusion.

    Attributes:
        name: what it is called.
        sentence: what it says.
        rule: the exact test, in words; this module has what "above" and "nearer"
            mean.
        tests: (function of numbers and arguments, arguments): each gives checks.
        each: whether every test is of one criterion, its first argument. It is then judged under
            the criteria that there are results of.
    """

    name: str
    sentence: str
    rule: str
    tests: Sequence[tuple[Callable[..., list[Check]], tuple[object, ...]]]
    each: bool = True

    @property
    def _criteria(self) -> list[str]:
        return list(dict.fromkeys(str(values[0]) for _, values in self.tests if self.each))

    def checks(self, numbers: Numbers) -> list[Check]:
        """All checks that can be made, or one that says what is missing."""
        there = [criterion for criterion in self._criteria if numbers.methods(criterion)]
        if self.each and not there:
            return [unknown(self.sentence, f"no results under {' or '.join(self._criteria)}")]
        tests = [(t, values) for t, values in self.tests if not self.each or values[0] in there]
        return [check for test, values in tests for check in test(numbers, *values)]

    def scope(self, numbers: Numbers) -> str:
        """Under which of its criteria it is judged, where it is not all of them."""
        there = [criterion for criterion in self._criteria if numbers.methods(criterion)]
        return f"{', '.join(there)} alone" if 0 < len(there) < len(self._criteria) else ""


@dataclass(frozen=True)
class Finding:
    """The outcome of a statement.

    Attributes:
        statement: the statement.
        verdict: ``holds``, ``does not hold`` or ``inconclusive``.
        scope: under which criteria, where there are not results of all; else empty.
        checks: what the verdict follows from, with numbers or the reason why there are none.
    """

    statement: Statement
    verdict: str
    scope: str
    checks: Sequence[Check]


def judge_statements(results: Results, names: Sequence[str] | None = None) -> list[Finding]:
    """Verdicts on statements, all by default.

    Raises:
        ParameterError: an unknown statement.
    """
    asked = [check_one_of("statement", name, STATEMENTS) for name in names or STATEMENTS]
    numbers = Numbers(results.cells)
    findings = []
    for statement in (STATEMENTS[name] for name in asked):
        checks = statement.checks(numbers)
        findings.append(Finding(statement, concluded(checks), statement.scope(numbers), checks))
    return findings


def finding_facts(findings: Sequence[Finding], paper: Sequence[Finding]) -> list[dict[str, Any]]:
    """Verdicts next to those on the paper's own tables, JSON-like."""
    of_paper = {finding.statement.name: finding.verdict for finding in paper}
    return [
        {
            "name": finding.statement.name,
            "sentence": finding.statement.sentence,
            "rule": finding.statement.rule,
            "verdict": finding.verdict,
            "scope": finding.scope,
            "paper": of_paper[finding.statement.name],
            "checks": finding.checks,
        }
        for finding in findings
    ]


def finding_tables(
    findings: Sequence[Finding], paper: Sequence[Finding], about: str
) -> list[DisplayTable]:
    """Verdicts next to those on the paper's own tables, then all checks with their numbers."""
    of_paper = {finding.statement.name: finding.verdict for finding in paper}
    verdicts, checks = [], []
    for finding in findings:
        statement, scope = finding.statement, f" ({finding.scope})" if finding.scope else ""
        verdict = f"{finding.verdict}{scope}"
        verdicts.append([statement.sentence, verdict, of_paper[statement.name]])
        checks += [[statement.name, c.what, c.verdict, c.numbers] for c in finding.checks]
    columns = ["statement", "verdict", "on the paper's tables"]
    tables = [
        DisplayTable(f"Statements: {about}", columns, verdicts, 3),
        DisplayTable(f"Checks: {about}", ["statement", "check", "verdict", "numbers"], checks, 4),
    ]
    return [printable_table(table) for table in tables]


_Tests = Sequence[tuple[Callable[..., list[Check]], tuple[object, ...]]]


def _each(test: Callable[..., list[Check]], *arguments: tuple[object, ...]) -> _Tests:
    """A test with each of several arguments."""
    return [(test, values) for values in arguments]


_LISTED = (
    *(
        Statement(
            f"environments-lead-{c}",
            f"Methods that see environments lead AUC on hard images ({c}).",
            "The best average AUC on hard of the four environment methods is above the best of the"
            " other five; and an environment method has the highest mean on more tasks than one of"
            " the others has.",
            _each(lead, (c,)),
        )
        for c in _BOTH
    ),
    Statement(
        "gist-is-harder",
        "Hard sets of gist are harder than those of CE.",
        "For each of the nine methods the average AUC on hard is lower under gist; and the mean"
        " over methods is, on more tasks than not.",
        _each(harder, ()),
        each=False,
    ),
    Statement(
        "lead-shrinks-under-gist",
        "The lead of methods that see environments shrinks under gist.",
        "The mean of the four environment methods' average AUC on hard minus ERM's is larger under"
        " CE than under gist.",
        _each(shrinks, ()),
        each=False,
    ),
    Statement(
        "reweighting-comes-near",
        "Environment reweighting comes near GDRO and IRM.",
        "Its average AUC on hard is nearer to the better of GDRO and IRM than to ERM.",
        _each(near, *((c,) for c in _BOTH)),
    ),
    Statement(
        "sides-trade-off",
        "Hard positives trade against hard negatives.",
        "Spearman's rank correlation over the nine methods (five at least must be there) between"
        f" the averages on hard positives and on hard negatives is {CLEAR:g} or less, for"
        " error and NLL; it does not hold from 0 on.",
        _each(trade, *((c, m) for c in _BOTH for m in ("error", "nll"))),
    ),
    Statement(
        "erm-best-on-easy",
        "ERM is best on easy images by NLL and error.",
        "Its average is below that of the next best of the nine methods.",
        _each(erm_best, *((c, m, "easy") for c in _BOTH for m in ("nll", "error"))),
    ),
    Statement(
        "focal-between",
        "Focal loss is like ERM by AUC, and like methods that see environments by NLL on hard"
        " positives.",
        "By AUC on hard and on easy its average is nearer to ERM's than to the mean of the four"
        " environment methods; by NLL on hard positives the other way round.",
        [
            *_each(focal, *((c, "auc", s, True) for c in _BOTH for s in ("hard", "easy"))),
            *_each(focal, *((c, "nll", "hard_positive", False) for c in _BOTH)),
        ],
    ),
    Statement(
        "erm-and-undersampling-calibrated",
        "ERM and undersampling are best calibrated, on hard and easy images.",
        "The largest average ECE of ERM and undersampling by label and by environment is below the"
        " smallest of the other six methods. The ECE is the paper's (ece_paper) where the results"
        " have it, else that of the positive probability (ece); each check names it.",
        _each(calibrated, *((c, s) for c in _BOTH for s in ("hard", "easy"))),
    ),
    Statement(
        "cvar-worst-calibrated",
        "CVaR is worst calibrated on easy images.",
        "Its average ECE on easy is above that of the next worst of the nine methods; the paper's"
        " ECE (ece_paper) where the results have it, else ece.",
        _each(worst_calibrated, *((c,) for c in _BOTH)),
    ),
    Statement(
        "waterbirds-lead-larger",
        "The lead of methods that see environments is far larger on Waterbirds.",
        "The mean of the four environment methods' AUC on hard minus ERM's is at least"
        f" {FAR:g} times as large on Waterbirds as under CE and under gist.",
        _each(waterbirds, ()),
        each=False,
    ),
)
STATEMENTS: dict[str, Statement] = {statement.name: statement for statement in _LISTED}
"""Name -> statement, in the order in which the paper comes to them."""
