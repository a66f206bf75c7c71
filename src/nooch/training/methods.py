"""Methods: a method is stages x sampler x batch transform x objective, under a name."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from nooch.base.calls import imported
from nooch.base.errors import ParameterError, check_one_of
from nooch.training.last_layers import AFR, DFR, LogisticRegression, Refit
from nooch.training.objectives import OBJECTIVES, Objective, Ranges, check_objective
from nooch.training.samplers import (
    Balance,
    FixedShare,
    Lisa,
    Mixing,
    Mixup,
    Parameters,
    Redraw,
    Sampler,
)

INFORMATION = ("labels", "environments in training", "environments in validation")
"""Information that a method may use besides a batch's images and labels."""

_ENVIRONMENTS = INFORMATION[1:]


@dataclass(frozen=True)
class Errors:
    """A first stage (JTT; Liu et al., 2021): ERM for ``epochs``; its errors count ``up`` times."""

    ranges: ClassVar[Ranges] = {"epochs": (1, 1000), "up": (1, 1e6)}

    @staticmethod
    def epochs(parameters: Parameters) -> int:
        """For the first stage."""
        return round(parameters["epochs"])

    @staticmethod
    def counts(
        labels: NDArray[np.bool_], logits: NDArray[np.floating], parameters: Parameters
    ) -> NDArray[np.int64]:
        """Number of times each image is taken, int64 (n,), given the first stage's logits."""
        return np.where((logits > 0) == labels, 1, round(parameters["up"])).astype(np.int64)


@dataclass(frozen=True)
class Method:
    """A way of training.

    Attributes:
        name: of the method.
        objective: what it minimizes: a name out of ``OBJECTIVES``, or a custom class.
        parameters: hyperparameter -> its usual value or values, which make the grid (the paper's
            Table 8 for its methods), such as ``{"power": [1, 2]}``.
        sampler: how often rows are taken in an epoch; every row once by default.
        mixing: what rows are mixed with, if anything.
        first: the stage before the main training, if any.
        refit: the stage after it, if any: a new last layer.
        frozen: whether it is for frozen features only.
        fixed: hyperparameter -> value, for the objective's others.
        sees: annotations the method uses; one of ``INFORMATION``.
        source: the paper that it is from.
    """

    name: str
    objective: str | type[Objective] = "erm"
    parameters: Mapping[str, float | Sequence[float]] = field(default_factory=dict, hash=False)
    sampler: Sampler | None = None
    mixing: Mixing | None = None
    first: Errors | None = None
    refit: Refit | None = None
    frozen: bool = False
    fixed: Mapping[str, float] = field(default_factory=dict, hash=False)
    sees: tuple[str, ...] = ()
    source: str = "paper"

    def __post_init__(self) -> None:
        for name in self.sees:
            check_one_of("information", name, INFORMATION, owner=f"method {self.name}")
        if isinstance(self.objective, str):
            check_one_of("objective", self.objective, OBJECTIVES, owner=f"method {self.name}")

    @property
    def objective_class(self) -> type[Objective]:
        """The quantity it minimizes."""
        return OBJECTIVES[self.objective] if isinstance(self.objective, str) else self.objective

    @property
    def needs_environments(self) -> bool:
        """True if a task without environments cannot be trained so."""
        return bool(set(self.sees) & set(_ENVIRONMENTS))

    def range(self, parameter: str) -> tuple[float, float]:
        """Smallest and largest value of a hyperparameter."""
        for part in (self.objective_class, self.sampler, self.mixing, self.first, self.refit):
            if part is not None and parameter in part.ranges:
                return part.ranges[parameter]
        return 0.0, float("inf")


_ALPHA = {"alpha": (0.2, 0.5, 0.7, 1.0)}
_LISTED = (
    Method("erm"),
    Method("label-reweight", "label-reweight", _ALPHA, sees=("labels",)),
    Method("label-undersample", "erm", _ALPHA, Redraw("labels"), sees=("labels",)),
    Method(
        "environment-reweight",
        "environment-reweight",
        {"alpha": (0.5, 1.0, 1.5, 2.0)},
        sees=_ENVIRONMENTS,
    ),
    Method("environment-undersample", "erm", _ALPHA, Redraw("environments"), sees=_ENVIRONMENTS),
    Method("gdro", "gdro", {"K": (5.0, 30.0, 60.0, 240.0)}, sees=_ENVIRONMENTS),
    Method("irm", "irm", {"lambda_": (0.1, 1.0, 3.0, 10.0)}, sees=_ENVIRONMENTS),
    Method("cvar", "cvar", {"p": (0.05, 0.1, 0.15)}),
    Method("focal", "focal", {"gamma": (0.2, 0.5, 0.7, 1.0)}),
    Method(
        "online-gdro",
        "online-gdro",
        {"eta": (0.01, 0.1), "K": (0.0,)},
        sees=_ENVIRONMENTS,
        source="Sagawa et al., 2020",
    ),
    Method(
        "vrex",
        "vrex",
        {"beta": (1.0, 10.0, 100.0)},
        sees=_ENVIRONMENTS,
        source="Krueger et al., 2021",
    ),
    Method("balanced-softmax", "balanced-softmax", sees=("labels",), source="Ren et al., 2020"),
    Method("suby", sampler=Balance("labels"), sees=("labels",), source="Idrissi et al., 2022"),
    Method(
        "subg", sampler=Balance("environments"), sees=_ENVIRONMENTS, source="Idrissi et al., 2022"
    ),
    Method("mixup", "erm", {"alpha": (0.2, 1.0)}, mixing=Mixup(), source="Zhang et al., 2018"),
    Method(
        "lisa",
        "erm",
        {"p": (0.0, 0.5, 1.0)},
        mixing=Lisa(),
        sees=_ENVIRONMENTS[:1],
        source="Yao et al., 2022",
    ),
    Method(
        "jtt",
        "erm",
        {"epochs": (1.0, 3.0), "up": (5.0, 20.0)},
        first=Errors(),
        source="Liu et al., 2021",
    ),
    Method("dfr", refit=DFR(), sees=_ENVIRONMENTS[1:], source="Kirichenko et al., 2023"),
    Method(
        "dfr-train", refit=DFR("train"), sees=_ENVIRONMENTS[:1], source="Kirichenko et al., 2023"
    ),
    Method(
        "afr",
        "erm",
        {"gamma": (4.0, 8.0, 16.0), "lambda_": (0.0, 0.1)},
        sampler=FixedShare(),
        refit=AFR(),
        sees=("labels",),
        source="Qiu et al., 2023",
    ),
    Method(
        "logistic",
        "erm",
        {"C": (0.01, 0.1, 1.0)},
        refit=LogisticRegression(),
        frozen=True,
        source="paper, appendix A",
    ),
)
METHODS: dict[str, Method] = {method.name: method for method in _LISTED}
"""Name -> method."""
PAPER_METHODS = tuple(method.name for method in _LISTED if method.source == "paper")
"""The paper's nine methods; with the values of its Table 8 they make 32 settings."""


def add_method(name: str) -> Method:
    """Register a custom method in this process under its whole name, ``package.module:Name``.
    Raises ParameterError: there is no such method, it is none, or its objective is not one.
    """
    method = imported(name, "a method")
    if not isinstance(method, Method):
        raise ParameterError(f"{name} is a {type(method).__name__}", allowed="a nooch.Method")
    kind = method.objective_class
    if kind not in OBJECTIVES.values():
        first = {name: _values(method, name, given)[0] for name, given in method.parameters.items()}
        values = {**first, **method.fixed}
        check_objective(kind, {n: value for n, value in values.items() if n in kind.ranges})
    METHODS[name] = method
    return method


def grid_of_methods(
    methods: Mapping[str, Any] | Sequence[str] | None,
) -> list[tuple[str, dict[str, float]]]:
    """Settings: (method, hyperparameters), all combinations of the hyperparameters' values."""
    methods = PAPER_METHODS if methods is None else methods
    if isinstance(methods, str) or not isinstance(methods, Mapping | Sequence):
        allowed = "names of methods, or each with its hyperparameters"
        raise ParameterError(f"methods are {methods!r}", allowed=allowed)
    grid = methods if isinstance(methods, Mapping) else dict.fromkeys(map(str, methods))
    settings = []
    for name, values in grid.items():
        method = METHODS[check_one_of("method", str(name), METHODS)]
        settings += [(str(name), setting) for setting in _settings(method, values)]
    return settings


def _settings(method: Method, values: Any) -> list[dict[str, float]]:
    values = {} if values is None else values
    if not isinstance(values, Mapping):
        allowed = "hyperparameter: value, or a list of values"
        raise ParameterError(f"method {method.name} has {values!r}", allowed=allowed)
    usual = method.parameters
    for name in values:
        check_one_of("hyperparameter", str(name), usual, owner=method.name)
    listed = {name: _values(method, name, values.get(name, usual[name])) for name in usual}
    return [dict(zip(listed, values, strict=True)) for values in product(*listed.values())]


def _values(method: Method, name: str, given: Any) -> list[float]:
    listed = given if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    values = [_number(method, name, value) for value in listed]
    if not values or len(set(values)) != len(values):
        raise ParameterError(
            f"{name} has {listed}", where=method.name, allowed="different numbers, one at least"
        )
    return values


def _number(method: Method, name: str, value: Any) -> float:
    low, high = method.range(name)
    if isinstance(value, int) and abs(value) > sys.float_info.max:
        # not even its digits may be printed
        problem = f"{name} is an integer of {value.bit_length()} bits"
        raise ParameterError(problem, where=method.name, allowed=f"a number, {low:g} to {high:g}")
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise ParameterError(
            f"{name} is {value!r}", where=method.name, allowed=f"a number, {low:g} to {high:g}"
        )
    return float(value)
