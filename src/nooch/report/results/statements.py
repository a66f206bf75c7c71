"""The paper's conclusions as statements about results: exact tests, verdicts, numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import polars as pl

from nooch.base.display import DisplayTable
from nooch.base.errors import check_one_of
from nooch.evaluation import AVERAGE
from nooch.evaluation.averages import LARGER_IS_BETTER, named_tasks
from nooch.report.results.cells import with_averages
from nooch.report.results.paper_numbers import PAPER_NAMES
from nooch.report.results.run_results import Results
from nooch.report.tables.score_tables import mean_sd

HOLDS, FAILS, OPEN = VERDICTS = ("holds", "does not hold", "inconclusive")
"""``inconclusive``: numbers are missing, or what they differ by is within their deviations."""

_ROUNDING = 1e-9


@dataclass(frozen=True)
class Number:
    """A mean with its deviation over seeds (None if it is unknown), and its meaning."""

    what: str
    mean: float
    std: float | None

    def __str__(self) -> str:
        return f"{self.what} {mean_sd(self.mean, self.std)}"

    def minus(self, other: Number, what: str) -> Number:
        """The difference; deviations add as for independent numbers."""
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
    """Check that ``high`` is above ``low`` by more than both deviations together.

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
    """Check that a number is nearer to ``near`` than to ``far``.

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
        task_names = list(dict.fromkeys(task for c in criteria for task in self.tasks(c)))
        common = [
            task
            for task in task_names
            if all(task in named_tasks(names, task_names) for names in lists)
        ]
        over = f" (over {', '.join(common)})" if common else " (no task is averaged under both)"
        return Numbers(with_averages(own.filter(pl.col("task").is_in(common)))), over

    @cached_property
    def _of(self) -> Mapping[tuple[str, ...], tuple[float, float | None]]:
        keys = ["criterion", "metric", "subset", "task", "method"]
        cells = self._cells.filter(pl.col("mean").is_not_null() & pl.col("mean").is_not_nan())
        rows = cells.select(*keys, "mean", "std").iter_rows()
        return {tuple(row[:5]): (row[5], row[6]) for row in rows}

    @cached_property
    def criteria(self) -> list[str]:
        """Criteria with results."""
        return list(dict.fromkeys(self._cells["criterion"]))

    def tasks(self, criterion: str) -> list[str]:
        """Tasks with results under a criterion, without the average."""
        rows = self._cells.filter(pl.col("task") != AVERAGE, criterion=criterion)
        return list(dict.fromkeys(rows["task"]))

    def get(
        self, criterion: str, metric: str, subset: str, methods: Iterable[str], task: str = AVERAGE
    ) -> list[Number]:
        """Numbers of those methods that have one."""
        numbers = {
            method: self._of.get((criterion, metric, subset, task, method)) for method in methods
        }
        return [Number(method, *values) for method, values in numbers.items() if values is not None]


PAPER = tuple(PAPER_NAMES.values())
ENVIRONMENT = ("environment-reweight", "environment-undersample", "gdro", "irm")
OTHERS = tuple(name for name in PAPER if name not in ENVIRONMENT)

CLEAR = -0.6
"""Rank correlation from which two sides trade off: critical for 9 methods, one-sided at 5%."""
FAR = 2.0
"""Factor from which a lead counts as far larger."""
_TIED = 1e-9


def _best(numbers: Sequence[Number], metric: str) -> Number:
    return max(numbers, key=lambda n: n.mean if metric in LARGER_IS_BETTER else -n.mean)


def _worst(numbers: Sequence[Number], metric: str) -> Number:
    return min(numbers, key=lambda n: n.mean if metric in LARGER_IS_BETTER else -n.mean)


def _mean(numbers: Sequence[Number], _metric: str) -> Number:
    return mean_of(numbers, f"mean of {len(numbers)} methods")


def _lead(numbers: Sequence[Number], metric: str) -> Number:
    erm, *environment = numbers
    return _mean(environment, metric).minus(erm, "lead")


def _but(*methods: str) -> Sequence[str]:
    return [method for method in PAPER if method not in methods]


_CALIBRATED = ("erm", "label-undersample", "environment-undersample")
_EACH = "each of the nine methods"
_NINE = "the mean of the nine methods"
_MEAN = "the mean of the environment methods"
_LEAD = "the lead of the environment methods over erm"
_OWN = "the worst of erm and the two undersamplings"
GROUPS: dict[str, tuple[Sequence[str], Callable[[Sequence[Number], str], Number]]] = {
    **{method: ([method], _best) for method in PAPER},
    _EACH: (PAPER, _mean),
    _NINE: (PAPER, _mean),
    _MEAN: (ENVIRONMENT, _mean),
    "the best environment method": (ENVIRONMENT, _best),
    "the best other method": (OTHERS, _best),
    _LEAD: (["erm", *ENVIRONMENT], _lead),
    "the better of gdro and irm": (["gdro", "irm"], _best),
    "the best method but erm": (_but("erm"), _best),
    "the worst method but cvar": (_but("cvar"), _worst),
    _OWN: (_CALIBRATED, _worst),
    "the best of the six others": (_but(*_CALIBRATED), _best),
}
"""A side of a test: methods, and the number that represents them."""


@dataclass(frozen=True)
class GroupSide:
    """A group under a criterion, by a metric on a subset."""

    numbers: Numbers
    group: str
    where: tuple[str, str, str]

    def known(self, task: str = AVERAGE) -> list[Number]:
        """Values of those methods that have one."""
        return self.numbers.get(*self.where, GROUPS[self.group][0], task)

    def number(self, task: str = AVERAGE) -> Number | None:
        """The number of the group; None where a method has no value."""
        methods, number = GROUPS[self.group]
        value = self.known(task)
        return number(value, self.where[1]) if len(value) == len(methods) else None

    def lacking(self) -> str:
        """Missing averages, in words; empty if there are none."""
        criterion, metric, subset = self.where
        if criterion not in self.numbers.criteria:
            return f"no results under {criterion}"
        parts = [number.what for number in self.known()]
        missing = [method for method in GROUPS[self.group][0] if method not in parts]
        where = f"{metric} on {subset}, {criterion}"
        return f"no average of {', '.join(missing)} ({where})" if missing else ""


def _of_numbers(test: Callable[..., Check]) -> Callable[..., Check]:
    return lambda *sides, what: test(*(side.number() for side in sides), what)


def _far_above(left: Number, right: Number, what: str) -> Check:
    # only of means: Table 5 has no deviations
    verdict = HOLDS if left.mean > 0 and left.mean >= FAR * right.mean else FAILS
    return Check(what, verdict, f"{left.mean:+.3f} and {right.mean:+.3f}")


def _comes_near(number: Number, near: Number, far: Number, what: str) -> Check:
    if near.mean <= far.mean:
        return unknown(what, f"neither is above {far.what}: {near}; {far}")
    return nearer(number, near, far, what)


def _more_tasks(left: GroupSide, right: GroupSide, what: str) -> Check:
    tasks = left.numbers.tasks(left.where[0])
    pairs = [(left.number(task), right.number(task)) for task in tasks]
    gaps = [first.mean - other.mean for first, other in pairs if first and other]
    up, down = (sum(sign * gap > _TIED for gap in gaps) for sign in (1, -1))
    verdict = HOLDS if up > down else FAILS if down > up else OPEN
    tied = len(gaps) - up - down
    text = f"on {up} of {len(gaps)} tasks, the other way on {down}, equal on {tied}"
    return Check(what, verdict, text)


def _trades(left: GroupSide, right: GroupSide, what: str) -> Check:
    others = {number.what: number.mean for number in right.known()}
    pairs = [(n.mean, others[n.what]) for n in left.known() if n.what in others]
    if len(pairs) < 5:
        why = f"{len(pairs)} methods have both averages; 5 at least are compared"
        return unknown(what, why)
    rho = rank_correlation(*zip(*pairs, strict=True))
    verdict = HOLDS if rho <= CLEAR else FAILS if rho >= 0 else OPEN
    return Check(what, verdict, f"rank correlation {rho:+.2f} over {len(pairs)} methods")


RELATIONS: dict[str, tuple[str, Callable[..., Check]]] = {
    "above": ("{} is above {}", _of_numbers(above)),
    "far above": (f"{{}} is at least {FAR:g} times {{}}", _of_numbers(_far_above)),
    "nearer": ("{} is nearer to {} than to {}", _of_numbers(nearer)),
    "comes near": ("{} is nearer to {} than to {}", _of_numbers(_comes_near)),
    "more tasks": ("{} is above {} on more tasks than below", _more_tasks),
    "trade": (f"the rank correlation over at least five methods is at most {CLEAR:g}", _trades),
}
"""Comparison of sides: in words, and the check."""


class Comparison(NamedTuple):
    """A comparison of groups; of two subsets, the first belongs to the left side."""

    left: str
    relation: str
    right: Sequence[str]
    metric: str = "auc"
    subsets: Sequence[str] = ("hard",)

    def words(self, under: Sequence[str]) -> str:
        """The comparison in words; two criteria belong to the left and the right side."""
        groups = [self.left, *("that" if group == self.left else group for group in self.right)]
        if len(under) > 1:
            groups = [f"{g} under {c}" for g, c in zip(groups, under, strict=True)]
        words = RELATIONS[self.relation][0].format(*groups)
        subsets = " and ".join(self.subsets).replace("_", " ")
        return f"{words}, {self.metric} on {subsets}"

    def checks(self, numbers: Numbers, under: Sequence[str]) -> list[Check]:
        """Checks with their numbers, or one that names what is missing."""
        numbers, over = numbers.alike(under) if under == _BOTH else (numbers, "")
        what = f"{'' if len(under) > 1 else f'{under[0]}: '}{self.words(under)}{over}"
        left, right = ((under[i], self.metric, self.subsets[i]) for i in (0, -1))
        sides = [
            GroupSide(numbers, self.left, left),
            *(GroupSide(numbers, g, right) for g in self.right),
        ]
        lacking = filter(None, dict.fromkeys(side.lacking() for side in sides))
        if self.relation != "trade" and (why := "; ".join(lacking)):
            return [unknown(what, why)]
        if self.left == _EACH and self.relation == "above":
            pairs = zip(*(side.known() for side in sides), strict=True)
            return [above(high, low, f"{high.what}: {what}") for high, low in pairs]
        return [RELATIONS[self.relation][1](*sides, what=what)]


_BOTH = ("ce", "gist")
_APART = (("ce",), ("gist",))


@dataclass(frozen=True)
class Statement:
    """A conclusion: its name, its text, the tests that it follows from, and under which criteria
    each is made (those with results): one, or one for each side.
    """

    name: str
    sentence: str
    tests: Sequence[Comparison]
    under: Sequence[Sequence[str]] = _APART

    @property
    def rule(self) -> str:
        """The exact test, in words; this module has what "above" and "nearer" mean."""
        words = (test.words(criteria) for criteria in self.under for test in self.tests)
        return "; ".join(dict.fromkeys(words))

    def _there(self, numbers: Numbers) -> list[Sequence[str]]:
        return [c for c in self.under if len(c) > 1 or c[0] in numbers.criteria]

    def checks(self, numbers: Numbers) -> list[Check]:
        """All checks that can be made, or one that names what is missing."""
        parts = self._there(numbers)
        if not parts:
            criteria = " or ".join(criterion for (criterion,) in self.under)
            return [unknown(self.sentence, f"no results under {criteria}")]
        return [c for under in parts for test in self.tests for c in test.checks(numbers, under)]

    def scope(self, numbers: Numbers) -> str:
        """The criteria that it is judged under, if not all of its own."""
        parts = self._there(numbers)
        if len(parts) in (0, len(self.under)):
            return ""
        return f"only {', '.join(criterion for (criterion,) in parts)}"


@dataclass(frozen=True)
class Finding:
    """The outcome of a statement.

    Attributes:
        statement: the statement.
        verdict: ``holds``, ``does not hold`` or ``inconclusive``.
        scope: the criteria with results, if some have none; else empty.
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
    requested = [check_one_of("statement", name, STATEMENTS) for name in names or STATEMENTS]
    numbers = Numbers(results.cells)
    findings = []
    for statement in (STATEMENTS[name] for name in requested):
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
    return [
        DisplayTable(f"Statements: {about}", columns, verdicts, 3),
        DisplayTable(f"Checks: {about}", ["statement", "check", "verdict", "numbers"], checks, 4),
    ]


_SIDES = ("hard_positive", "hard_negative")
_LEADS = [
    Comparison("the best environment method", relation, ["the best other method"])
    for relation in ("above", "more tasks")
]
_LISTED = (
    Statement(
        "environments-lead-ce",
        "Methods that see environments lead AUC on hard images (ce).",
        _LEADS,
        [("ce",)],
    ),
    Statement(
        "environments-lead-gist",
        "Methods that see environments lead AUC on hard images (gist).",
        _LEADS,
        [("gist",)],
    ),
    Statement(
        "gist-is-harder",
        "Hard sets of gist are harder than hard sets of CE.",
        [Comparison(_EACH, "above", [_EACH]), Comparison(_NINE, "more tasks", [_NINE])],
        [_BOTH],
    ),
    Statement(
        "lead-shrinks-under-gist",
        "The lead of methods that see environments shrinks under gist.",
        [Comparison(_LEAD, "above", [_LEAD])],
        [_BOTH],
    ),
    Statement(
        "reweighting-comes-near",
        "Environment reweighting comes near GDRO and IRM.",
        [Comparison("environment-reweight", "comes near", ["the better of gdro and irm", "erm"])],
    ),
    Statement(
        "sides-trade-off",
        "Hard positives trade against hard negatives.",
        [Comparison(_EACH, "trade", [_EACH], metric, _SIDES) for metric in ("error", "nll")],
    ),
    Statement(
        "erm-best-on-easy",
        "ERM is best on easy images by NLL and error.",
        [
            Comparison("the best method but erm", "above", ["erm"], m, ["easy"])
            for m in ("nll", "error")
        ],
    ),
    Statement(
        "focal-between",
        "Focal loss is like ERM by AUC, and like methods that see environments by NLL on hard"
        " positives.",
        [
            Comparison("focal", "nearer", ["erm", _MEAN]),
            Comparison("focal", "nearer", ["erm", _MEAN], "auc", ["easy"]),
            Comparison("focal", "nearer", [_MEAN, "erm"], "nll", ["hard_positive"]),
        ],
    ),
    Statement(
        "erm-and-undersampling-calibrated",
        "ERM and undersampling are best calibrated, on hard and easy images.",
        [
            Comparison("the best of the six others", "above", [_OWN], "ece_paper", [subset])
            for subset in ("hard", "easy")
        ],
    ),
    Statement(
        "cvar-worst-calibrated",
        "CVaR is worst calibrated on easy images.",
        [Comparison("cvar", "above", ["the worst method but cvar"], "ece_paper", ["easy"])],
    ),
    Statement(
        "waterbirds-lead-larger",
        "The lead of methods that see environments is far larger on Waterbirds.",
        [Comparison(_LEAD, "far above", [_LEAD])],
        [("attribute", "ce"), ("attribute", "gist")],
    ),
)
STATEMENTS: dict[str, Statement] = {statement.name: statement for statement in _LISTED}
"""Name -> statement, in the order in which the paper comes to them."""
