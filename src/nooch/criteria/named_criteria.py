"""Criteria as a user gives them, by name or as objects -> criteria by name."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from nooch.criteria.combinations import Combination, is_combination
from nooch.criteria.cooccurrence import CE
from nooch.criteria.fitted_criterion import Criterion, Fitted
from nooch.criteria.gist import Gist
from nooch.errors import ParameterError, WrongTypeError, check_one_of
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
    listed = criteria if isinstance(criteria, list | tuple) else [criteria]
    named: dict[str, AnyCriterion] = {}
    for one in listed:
        criterion = _criterion(one, embeddings)
        own = "expression" if isinstance(criterion, Combination) else "kind"
        name = one if isinstance(one, str) else str(getattr(criterion, own, type(one).__name__))
        if name in named:
            raise ParameterError(
                f"two criteria are named {name}",
                where="`criteria`",
                remedy='give them names: {"first": nooch.CE(), "second": nooch.CE(alpha=0.1)}',
            )
        named[name] = criterion
    combined = {name: one for name, one in named.items() if isinstance(one, Combination)}
    parts = [part for one in combined.values() for part in one.names if part not in named]
    base = {name: one for name, one in named.items() if name not in combined}
    return {**base, **{part: _criterion(part, embeddings) for part in parts}, **combined}


def custom_criterion(name: str) -> Criterion:
    """A criterion named ``package.module:Name``; a class is called without arguments."""
    named = imported(name, f"criterion {name}")
    criterion: Criterion = named() if isinstance(named, type) else named
    return criterion


def _criterion(one: Any, embeddings: Collection[str]) -> AnyCriterion:
    if isinstance(one, str):
        return _criterion(_by_name(one), embeddings)
    if isinstance(one, type) or not (isinstance(one, Fitted | Combination) or hasattr(one, "fit")):
        called = f"{one.__name__}() is" if isinstance(one, type) else "nooch.CE() is"
        raise WrongTypeError(
            f"holds {one!r:.60}, of type {type(one).__name__}",
            where="`criteria`",
            allowed=_ALLOWED,
            remedy=f"{called} a criterion: for example nooch.find(data, nooch.CE())",
        )
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
