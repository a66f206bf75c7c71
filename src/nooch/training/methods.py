"""Methods: what a name on the command line stands for, with its hyperparameter, its usual values, and what it may see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nooch.errors import ParameterError, check_one_of
from nooch.objectives import OBJECTIVES

__all__ = ["METHODS", "PAPER_METHODS", "SIGHTS", "Method", "grid_of_methods"]

SIGHTS = ("labels", "environments in training", "environments in validation")
"""What a method may look at beside the batch's images and labels: class frequencies, and environments."""

_ENVIRONMENTS = SIGHTS[1:]


@dataclass(frozen=True)
class Method:
    """A way of training.

    Attributes:
        name: what it is called.
        objective: name of the objective that it minimises.
        parameter: its hyperparameter, or None.
        values: the hyperparameter's usual values (the paper's Table 8 for the paper's methods).
        sampler: by what rows are drawn, ``labels`` or ``environments``, or None for every row once an epoch.
        balanced: whether as many rows of each label or environment are kept, those of the rarest one (SUBY, SUBG).
        fixed: values of the objective's other hyperparameters.
        sees: what it may look at, out of ``SIGHTS``; empty for nothing.
        source: where it is from.
    """

    name: str
    objective: str
    parameter: str | None = None
    values: tuple[float, ...] = ()
    sampler: str | None = None
    balanced: bool = False
    fixed: tuple[tuple[str, float], ...] = ()
    sees: tuple[str, ...] = ()
    source: str = "paper"

    @property
    def needs_environments(self) -> bool:
        """Whether a task without environments cannot be trained so."""
        return bool(set(self.sees) & set(_ENVIRONMENTS))


_ALPHA = (0.2, 0.5, 0.7, 1.0)
_LISTED = (
    Method("erm", "erm"),
    Method("label-reweight", "label-reweight", "alpha", _ALPHA, sees=("labels",)),
    Method("label-undersample", "erm", "alpha", _ALPHA, sampler="labels", sees=("labels",)),
    Method("environment-reweight", "environment-reweight", "alpha", (0.5, 1.0, 1.5, 2.0), sees=_ENVIRONMENTS),
    Method("environment-undersample", "erm", "alpha", _ALPHA, sampler="environments", sees=_ENVIRONMENTS),
    Method("gdro", "gdro", "K", (5.0, 30.0, 60.0, 240.0), sees=_ENVIRONMENTS),
    Method("irm", "irm", "lambda_", (0.1, 1.0, 3.0, 10.0), sees=_ENVIRONMENTS),
    Method("cvar", "cvar", "p", (0.05, 0.1, 0.15)),
    Method("focal", "focal", "gamma", _ALPHA),
    Method("online-gdro", "online-gdro", "eta", (0.01, 0.1), sees=_ENVIRONMENTS, source="Sagawa et al., 2020"),
    Method("vrex", "vrex", "beta", (1.0, 10.0, 100.0), sees=_ENVIRONMENTS, source="Krueger et al., 2021"),
    Method("balanced-softmax", "balanced-softmax", sees=("labels",), source="Ren et al., 2020"),
    Method("suby", "erm", sampler="labels", balanced=True, sees=("labels",), source="Idrissi et al., 2022"),
    Method("subg", "erm", sampler="environments", balanced=True, sees=_ENVIRONMENTS, source="Idrissi et al., 2022"),
)
METHODS: dict[str, Method] = {method.name: method for method in _LISTED}
"""Name -> method."""
PAPER_METHODS = tuple(method.name for method in _LISTED if method.source == "paper")
"""The paper's nine methods; with the values of its Table 8 they make 32 settings."""


def grid_of_methods(asked: Mapping[str, Any] | Sequence[str] | None) -> list[tuple[str, dict[str, float]]]:
    """Settings: (method, hyperparameters).

    Args:
        asked: method -> hyperparameter -> value or list of values; or names, or a mapping to nothing, for the usual values; the
            paper's nine methods by default.

    Raises:
        ParameterError: an unknown method or hyperparameter, or a value that is out of range.
    """
    named = dict.fromkeys(asked if asked is not None else PAPER_METHODS) if not isinstance(asked, Mapping) else asked
    settings = []
    for name, given in named.items():
        method = METHODS[check_one_of("method", str(name), METHODS)]
        settings += [(method.name, values) for values in _settings(method, given)]
    return settings


def _settings(method: Method, given: Any) -> list[dict[str, float]]:
    if given is not None and not isinstance(given, Mapping):
        raise ParameterError(
            f"method {method.name} has {given!r}", allowed="hyperparameter: value, or a list of values"
        )
    for name in given or ():
        check_one_of("hyperparameter", str(name), [method.parameter] if method.parameter else [], owner=method.name)
    if method.parameter is None:
        return [{}]
    listed = (given or {}).get(method.parameter, method.values)
    listed = listed if isinstance(listed, Sequence) and not isinstance(listed, str) else [listed]
    values = [_number(method, value) for value in listed]
    if not values or len(set(values)) != len(values):
        raise ParameterError(
            f"{method.parameter} has {listed}", where=method.name, allowed="different numbers, one at least"
        )
    return [{method.parameter: value} for value in values]


def _number(method: Method, value: Any) -> float:
    # a sampler's alpha is no hyperparameter of its objective: any exponent from 0 on
    low, high = OBJECTIVES[method.objective].ranges.get(str(method.parameter), (0.0, float("inf")))
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise ParameterError(
            f"{method.parameter} is {value!r}", where=method.name, allowed=f"a number, {low:g} to {high:g}"
        )
    return float(value)
