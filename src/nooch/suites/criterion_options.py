"""Options of each kind of criterion, as a command line has them -> the criteria."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nooch import criteria
from nooch.base.errors import ParameterError, check_one_of
from nooch.criteria.by_name import criterion_of, custom_fitted
from nooch.data import ALL, SPLITS, open_dataset
from nooch.suites.search import check_thresholds, resolve_tasks
from nooch.suites.suite import Suite
from nooch.suites.suite_folder import load_suite
from nooch.suites.thresholds import SuiteThresholds, suite_thresholds

_FROM = "from:"
_WITH_TAU = {"context": "log odds", "gist": "a cosine", "scores": "a score"}


@dataclass
class CriterionOptions:
    """Settings of each kind of criterion; ``suite`` is the one whose fitted criteria are used."""

    ce: Mapping[str, Any]
    tau: SuiteThresholds | criteria.Tau | None
    phi: str | None
    scores: str | None
    suite: Suite | None
    embedding: str = ""
    context: criteria.Context | None = None

    def set_context(self, typed: dict[str, Any], *, matched: bool) -> None:
        """Set the context criterion. With thresholds or a match it has no lift of its own."""
        lift = typed.get("lift")
        if lift is not None and self.tau is not None:
            raise ParameterError("both are thresholds", where="`lift` and `tau`", allowed="one")
        if lift is None and (matched or self.tau is not None):
            typed = {**typed, "lift": None}
        self.context = criteria.Context(**typed)

    def make(self, name: str) -> criteria.Criterion | criteria.Fitted:
        """The criterion of that name with these options, or as the suite of ``suite`` has it."""
        if self.suite is not None:
            check_one_of("criterion", name, self.suite.criteria, owner="`fitted`")
            record = self.suite.header.criteria[name]
            if ":" in name:
                return custom_fitted(name, record.fitted)
            if record.fitted is None:
                raise ParameterError(
                    f"{name} of the suite was not fitted: its sets were imported",
                    where="`fitted`",
                    allowed="a suite of nooch find",
                )
            fitted = criteria.fitted_from_json(record.kind, record.fitted)
            if isinstance(fitted, criteria.FittedGist):
                tau = self._tau_for("embedding", fitted.criterion.embedding)
            elif isinstance(fitted, criteria.ContextScores):
                tau = self._tau_for("column", fitted.column)
            elif isinstance(fitted, criteria.FittedContext):
                tau = self._tau_for("source", fitted.criterion.source)
            else:
                return fitted
            return fitted if tau is None else fitted.with_tau(tau)
        makers: dict[str, Callable[[], criteria.Criterion]] = {
            "ce": lambda: criteria.CE(**self.ce),
            "context": self._context,
            "gist": self._gist,
            "attribute": self._attribute,
            "scores": self._scores,
        }
        return makers[name]() if name in makers else criterion_of(name)

    def _gist(self) -> criteria.Gist:
        return criteria.Gist(self.embedding, self._tau_for("embedding", self.embedding))

    def _context(self) -> criteria.Context:
        own = self.context or criteria.Context()
        tau = self._tau_for("source", own.source)
        return own if tau is None else replace(own, tau=tau)

    def _attribute(self) -> criteria.Attribute:
        if self.phi is None:
            problem = "the attribute criterion is a condition, such as 'place != y'"
            raise ParameterError(problem, give=({"phi": ...}, {"phi_preset": ...}))
        return criteria.Attribute(self.phi)

    def _scores(self) -> criteria.ContextScores:
        if self.scores is None:
            raise ParameterError(
                "the scores criterion needs `column`",
                allowed="an attribute column such as 'context_{task}'",
            )
        return criteria.ContextScores(self.scores, self._tau_for("column", self.scores))

    def check_tau(self, dataset: str, tasks: str | Sequence[str]) -> None:
        """Check before captions are embedded that thresholds fit the tasks."""
        classes = open_dataset(dataset).classes
        tables = {"`tau`": criteria.thresholds_of(self._values)}
        check_thresholds(tables, resolve_tasks(classes, tasks), classes)

    @property
    def _values(self) -> criteria.Tau | None:
        return self.tau.tau if isinstance(self.tau, SuiteThresholds) else self.tau

    def _tau_for(self, key: str, value: str) -> criteria.Tau | None:
        """Thresholds, if they are of this support; of numbers and tables that is not known."""
        came = self.tau.support.get(key) if isinstance(self.tau, SuiteThresholds) else value
        if came != value:
            raise ParameterError(
                f"the suite's thresholds are of {key} {came}, and this find uses {key} {value}",
                where="`tau`",
                allowed="thresholds of the same support",
            )
        return self._values


def parse_tau(text: str | None, base: Sequence[str]) -> SuiteThresholds | criteria.Tau | None:
    """``0.5``, a table of thresholds per task and side, or ``from:SUITE[:SPLIT]``."""
    if text is None:
        return None
    kinds = [name for name in _WITH_TAU if name in base]
    if len(kinds) != 1:
        raise ParameterError(
            f"`tau` would be {' and '.join(_WITH_TAU[kind] for kind in kinds)}"
            if kinds
            else f"no criterion takes it: {', '.join(base)}",
            where="`tau`",
            allowed="`criterion` context, gist or scores, each in a find of its own",
            give={"tau": None, "match": "ce"} if "ce" in base else {"tau": None},
        )
    if text.startswith(_FROM):
        place, colon, split = text.removeprefix(_FROM).rpartition(":")
        if not colon or split not in (*SPLITS, ALL):
            place, split = text.removeprefix(_FROM), ""
        return suite_thresholds(load_suite(place), kinds[0], split or None)
    try:
        return float(text)
    except ValueError:
        return criteria.read_thresholds(text)


def needed_names(texts: list[str]) -> tuple[list[str], list[str]]:
    """Base criteria that are needed, and the combinations; a combination brings its parts along."""
    combined = [text for text in texts if criteria.is_combination(text)]
    base = [text for text in texts if not criteria.is_combination(text)]
    for text in combined:
        base += [name for name in criteria.Combination(text).names if name not in base]
    for name in base:
        if ":" not in name:
            check_one_of("criterion", name, criteria.FITTED)
    if len(set(texts)) != len(texts):
        raise ParameterError("a criterion is named twice", allowed="each `criterion` once")
    return base, combined


def preset_text(name: str | None, columns: Sequence[str], values: Path | None) -> str | None:
    """Expression of a preset of the attribute criterion, or None where none was named."""
    if name is None:
        return None
    try:
        text = "" if values is None else values.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ParameterError(f"`values` {values} cannot be read: {error}") from error
    listed = [line.strip() for line in text.splitlines() if line.strip()]
    return criteria.phi_preset(name, columns=columns, values=listed)
