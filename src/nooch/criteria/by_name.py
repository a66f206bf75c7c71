"""Criteria as a user gives them: by name, combined (``ce & ~gist``), or as objects."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nooch.base.calls import imported, is_named
from nooch.base.errors import ParameterError, check_one_of, wrong_type
from nooch.criteria.ce import CE
from nooch.criteria.context import Context
from nooch.criteria.contract import Criterion, Fitted
from nooch.criteria.gist import Gist


def is_combination(text: str) -> bool:
    """True if a criterion's text combines others."""
    return any(sign in text for sign in "&|~()")


@dataclass(frozen=True)
class Combination:
    """Marks of several criteria combined; ``expression`` names them.

    ``~`` binds strongest, then ``&``, then ``|``. Hard and easy are combined by Kleene's
    three-valued logic, in which an image without a verdict under one criterion has one in the whole
    only if it cannot depend on the missing one.
    """

    expression: str

    @property
    def names(self) -> tuple[str, ...]:
        """Criteria that the expression names, in the order of first mention."""
        names = {node.id for node in ast.walk(self._tree()) if isinstance(node, ast.Name)}
        return tuple(sorted(names, key=self.expression.index))

    def evaluate(self, marks: Mapping[str, Any]) -> Any:
        """The combined mark, by their operators ``& | ~``."""
        return _evaluate(self._tree(), marks)

    def _tree(self) -> ast.expr:
        try:
            tree = ast.parse(self.expression.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise ParameterError(
                f"{self.expression!r} is not a combination of criteria", allowed=_EXPRESSIONS
            ) from error
        for node in ast.walk(tree):
            if not isinstance(node, _NODES):
                text = ast.unparse(node) if isinstance(node, ast.expr) else type(node).__name__
                problem = f"{text!r} has no meaning in the combination {self.expression!r}"
                raise ParameterError(problem, allowed=_EXPRESSIONS)
        return tree


_NODES = (ast.Name, ast.Load, ast.BinOp, ast.BitAnd, ast.BitOr, ast.UnaryOp, ast.Invert)
_EXPRESSIONS = "names of criteria, &, |, ~ and parentheses, such as 'ce & ~gist'"


def _evaluate(node: ast.expr, marks: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.BinOp):
        both = operator.and_ if isinstance(node.op, ast.BitAnd) else operator.or_
        return both(_evaluate(node.left, marks), _evaluate(node.right, marks))
    if isinstance(node, ast.UnaryOp):
        return ~_evaluate(node.operand, marks)
    if isinstance(node, ast.Name):
        return marks[node.id]
    raise TypeError(node)


AnyCriterion = Criterion | Fitted | Combination
CriteriaLike = str | AnyCriterion | Sequence[str | AnyCriterion] | Mapping[str, str | AnyCriterion]
"""A criterion or its text; a list of these, or name -> one of them, are several."""
Makers = Mapping[str, Callable[[], Criterion | Fitted]]
BY_NAME: Makers = {
    "ce": CE,
    "context": Context,
    "gist": Gist,
}
"""Name -> what gives the criterion, without arguments."""
_ALLOWED = (
    "a criterion, its name (ce, context, gist, ce & gist, package.module:Name), or several of them"
)
_NAMES = 'give them names: {"first": nooch.CE(), "second": nooch.CE(alpha=0.1)}'


def criterion_of(name: str, makers: Makers = BY_NAME) -> Criterion | Fitted:
    """The criterion of a name: one of ``makers``, or ``package.module:Name``."""
    if is_named(name):
        return custom_criterion(name)
    return makers[check_one_of("criterion that is found by its name", name, makers)]()


def parse_criteria(
    given: CriteriaLike, make: Callable[[str], Criterion | Fitted] = criterion_of
) -> dict[str, AnyCriterion]:
    """Name -> criterion; ``make`` gives the one of a name. A combination outside a mapping brings
    along the criteria that it names.
    """
    if isinstance(given, Mapping):
        return {str(name): _criterion(item, make) for name, item in given.items()}
    named: dict[str, AnyCriterion] = {}
    if isinstance(given, str) or not isinstance(given, Sequence):
        given = [given]
    for item in given:
        criterion = _criterion(item, make)
        own = getattr(criterion, "expression", getattr(criterion, "kind", type(item).__name__))
        name = item if isinstance(item, str) else own
        if name in named:
            raise ParameterError(
                f"two criteria are named {name}",
                where="`criteria`",
                allowed="each name once",
                remedy=None if isinstance(item, str) else _NAMES,
            )
        named[name] = criterion
    combined = {name: one for name, one in named.items() if isinstance(one, Combination)}
    base = {name: one for name, one in named.items() if name not in combined}
    for name in dict.fromkeys(name for one in combined.values() for name in one.names):
        if name not in base:
            base[name] = make(name)
    return base | combined


def _criterion(item: str | AnyCriterion, make: Callable[[str], AnyCriterion]) -> AnyCriterion:
    criterion = item
    if isinstance(item, str):
        criterion = Combination(item) if is_combination(item) else make(item)
    if isinstance(criterion, Fitted | Combination):
        return criterion
    if isinstance(criterion, str | type) or not hasattr(criterion, "fit"):
        called = f"{item.__name__}()" if isinstance(item, type) else "CE()"
        raise wrong_type("criteria", item, _ALLOWED, f"nooch.find(data, nooch.{called})")
    return criterion


def custom_criterion(name: str) -> Criterion:
    """A criterion named ``package.module:Name``; a class is called without arguments."""
    cls = imported(name, f"criterion {name}")
    criterion: Criterion = cls() if isinstance(cls, type) else cls
    return criterion


def custom_fitted(name: str, content: Mapping[str, Any] | None) -> Fitted:
    """A custom criterion named ``package.module:Name`` with the statistics that a suite has of it.
    Raises ParameterError: it does not name its fitted class.
    """
    kind = getattr(custom_criterion(name), "fitted", None)
    if not (isinstance(kind, type) and issubclass(kind, Fitted)):
        raise ParameterError(
            f"{name} does not name its fitted class",
            remedy="name the class in the criterion: fitted = FittedDusk",
        )
    return kind.from_json(content or {})
