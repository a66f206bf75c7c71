"""The paper's conclusions as statements about results: exact tests, verdicts, numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from nooch.base.display import DisplayTable
from nooch.base.errors import check_one_of
from nooch.report.results import statement_checks as tests
from nooch.report.results.run_results import Results
from nooch.report.results.three_valued import Check, Numbers, concluded, unknown
from nooch.report.tables.score_tables import printable_table

__all__ = [
    "STATEMENTS", "Finding", "Statement", "finding_facts", "finding_tables", "judge_statements",
]  # fmt: skip

_BOTH = ("ce", "gist")


@dataclass(frozen=True)
class Statement:
    """A conclusion.

    Attributes:
        name: what it is called.
        sentence: what it says.
        rule: the exact test, in words; ``nooch.report.results.three_valued`` has what "above" and "nearer"
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
            _each(tests.lead, (c,)),
        )
        for c in _BOTH
    ),
    Statement(
        "gist-is-harder",
        "Hard sets of gist are harder than those of CE.",
        "For each of the nine methods the average AUC on hard is lower under gist; and the mean"
        " over methods is, on more tasks than not.",
        _each(tests.harder, ()),
        each=False,
    ),
    Statement(
        "lead-shrinks-under-gist",
        "The lead of methods that see environments shrinks under gist.",
        "The mean of the four environment methods' average AUC on hard minus ERM's is larger under"
        " CE than under gist.",
        _each(tests.shrinks, ()),
        each=False,
    ),
    Statement(
        "reweighting-comes-near",
        "Environment reweighting comes near GDRO and IRM.",
        "Its average AUC on hard is nearer to the better of GDRO and IRM than to ERM.",
        _each(tests.near, *((c,) for c in _BOTH)),
    ),
    Statement(
        "sides-trade-off",
        "Hard positives trade against hard negatives.",
        "Spearman's rank correlation over the nine methods (five at least must be there) between"
        f" the averages on hard positives and on hard negatives is {tests.CLEAR:g} or less, for"
        " error and NLL; it does not hold from 0 on.",
        _each(tests.trade, *((c, m) for c in _BOTH for m in ("error", "nll"))),
    ),
    Statement(
        "erm-best-on-easy",
        "ERM is best on easy images by NLL and error.",
        "Its average is below that of the next best of the nine methods.",
        _each(tests.erm_best, *((c, m, "easy") for c in _BOTH for m in ("nll", "error"))),
    ),
    Statement(
        "focal-between",
        "Focal loss is like ERM by AUC, and like methods that see environments by NLL on hard"
        " positives.",
        "By AUC on hard and on easy its average is nearer to ERM's than to the mean of the four"
        " environment methods; by NLL on hard positives the other way round.",
        [
            *_each(tests.focal, *((c, "auc", s, True) for c in _BOTH for s in ("hard", "easy"))),
            *_each(tests.focal, *((c, "nll", "hard_positive", False) for c in _BOTH)),
        ],
    ),
    Statement(
        "erm-and-undersampling-calibrated",
        "ERM and undersampling are best calibrated, on hard and easy images.",
        "The largest average ECE of ERM and undersampling by label and by environment is below the"
        " smallest of the other six methods. The ECE is the paper's (ece_paper) where the results"
        " have it, else that of the positive probability (ece); each check names it.",
        _each(tests.calibrated, *((c, s) for c in _BOTH for s in ("hard", "easy"))),
    ),
    Statement(
        "cvar-worst-calibrated",
        "CVaR is worst calibrated on easy images.",
        "Its average ECE on easy is above that of the next worst of the nine methods; the paper's"
        " ECE (ece_paper) where the results have it, else ece.",
        _each(tests.worst_calibrated, *((c,) for c in _BOTH)),
    ),
    Statement(
        "waterbirds-lead-larger",
        "The lead of methods that see environments is far larger on Waterbirds.",
        "The mean of the four environment methods' AUC on hard minus ERM's is at least"
        f" {tests.FAR:g} times as large on Waterbirds as under CE and under gist.",
        _each(tests.waterbirds, ()),
        each=False,
    ),
)
STATEMENTS: dict[str, Statement] = {statement.name: statement for statement in _LISTED}
"""Name -> statement, in the order in which the paper comes to them."""
