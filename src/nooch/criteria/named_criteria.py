"""Criteria as a user gives them, by name or as objects -> criteria by name."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from nooch.criteria.combinations import Combination, is_combination
from nooch.criteria.cooccurrence import CE
from nooch.criteria.fitted_criterion import Criterion, Fitted
from nooch.criteria.gist import Gist
from nooch.errors import ParameterError, check_one_of, wrong_type
from nooch.import_string import imported, is_named

__all__ = ["AnyCriterion", "custom_criterion", "named_criteria"]

AnyCriterion = Criterion | Fitted | Combination
_BY_NAME = {"ce": CE, "gist": Gist}
_ALLOWED = "a criterion, its name (ce, gist, ce & gist, package.module:Name), or several of them"


def named_criteria(criteria: Any, embeddings: Collection[str]) -> dict[str, AnyCriterion]:
    """Name -> criterion, of one or several.

    Args:
        criteria: ``CE()``, ``"ce"`` or ``"ce & gist"``, a list of these, or a mapping from names of
            the user to these. In a list, a combination brings along the criteria that it names.
        embeddings: names of the dataset's embeddings; ``Gist()`` takes the only one.

    Raises:
        WrongTypeError: what is no criterion.
        ParameterError: an unknown name, two criteria of one name, not one embedding for ``Gist()``.
    """
    if isinstance(criteria, Mapping):
        return {str(name): _criterion(one, embeddings) for name, one in criteria.items()}
    base: dict[str, AnyCriterion] = {}
    combined: dict[str, AnyCriterion] = {}
    for one in criteria if isinstance(criteria, list | tuple) else [criteria]:
        criterion = _criterion(one, embeddings)
        own = getattr(criterion, "kind", type(one).__name__)
        name = one if isinstance(one, str) else getattr(criterion, "expression", own)
        if name in base or name in combined:
            raise ParameterError(
                f"two criteria are named {name}",
                where="`criteria`",
                remedy='give them names: {"first": nooch.CE(), "second": nooch.CE(alpha=0.1)}',
            )
        (combined if isinstance(criterion, Combination) else base)[name] = criterion
    for combination in combined.values():
        for part in combination.names:  # type: ignore[union-attr]
            base.setdefault(part, _criterion(part, embeddings))
    return base | combined


def custom_criterion(name: str) -> Criterion:
    """A criterion named ``package.module:Name``; a class is called without arguments."""
    named = imported(name, f"criterion {name}")
    criterion: Criterion = named() if isinstance(named, type) else named
    return criterion


def _criterion(one: Any, embeddings: Collection[str]) -> AnyCriterion:
    if isinstance(one, str):
        one = _by_name(one)
    if isinstance(one, type) or not (isinstance(one, Fitted | Combination) or hasattr(one, "fit")):
        called = f"{one.__name__}()" if isinstance(one, type) else "CE()"
        raise wrong_type("criteria", one, _ALLOWED, f"nooch.find(data, nooch.{called})")
    if isinstance(one, Gist) and not one.embedding:
        if len(embeddings) != 1:
            raise ParameterError(
                f"the dataset has {len(embeddings)} embeddings",
                where="Gist",
                allowed=f"the name of one: {', '.join(embeddings) or 'there is none'}",
                remedy='data, name = nooch.embed(data, "all-MiniLM-L6-v2"), then nooch.Gist(name)',
            )
        one = replace(one, embedding=next(iter(embeddings)))
    criterion: AnyCriterion = one
    return criterion


def _by_name(name: str) -> Any:
    if is_combination(name):
        return Combination(name)
    if is_named(name):
        return custom_criterion(name)
    return _BY_NAME[check_one_of("criterion that is found by its name", name, _BY_NAME)]()
