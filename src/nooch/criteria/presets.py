"""The out-of-context conditions of the paper's Table 1, written in the language of phi."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nooch.base.errors import ParameterError, check_one_of, some_of
from nooch.criteria.phi import identifier, literal_text

Preset = Callable[[Sequence[str], Sequence[object]], str]
"""(columns, values) -> phi; where both are empty, the names and values of the paper's row."""


def preset(name: str, columns: Sequence[str] = (), values: Sequence[object] = ()) -> str:
    """The phi of a row of Table 1.

    Args:
        name: one of ``PRESETS``.
        columns: the attribute columns to use instead of those that the benchmark itself has.
        values: the values that the row compares with; ``breeds`` needs some.

    Returns:
        Text for ``Attribute(phi=...)``, with names and values quoted where they must be.

    Raises:
        ParameterError: no such preset, or columns or values that it cannot take.
    """
    return PRESETS[check_one_of("preset", name, PRESETS, owner="phi")](columns, values)


def _waterbirds(columns: Sequence[str], values: Sequence[object]) -> str:
    """C != Y: the background is not that of the bird's kind."""
    _none(values, "waterbirds")
    return f"{_name(columns, 'place')} != y"


def _iwildcam(columns: Sequence[str], values: Sequence[object]) -> str:
    """C not in {1 ... 245}: a camera trap that training lacks; ``fit`` learns which it has."""
    _none(values, "iwildcam")
    return f"unseen({_name(columns, 'location_remapped')})"


def _fmow(columns: Sequence[str], values: Sequence[object]) -> str:
    """C_time >= 2013: taken in 2013 or later. A column of dates takes a date as text."""
    return f"{_name(columns, 'year')} >= {_value(values, 2013)}"


def _imagenet_a(columns: Sequence[str], values: Sequence[object]) -> str:
    """C >= -log(0.15): the largest loss of an ensemble, so any of several columns."""
    threshold = f"-ln({_value(values, 0.15)})"
    tests = [f"{identifier(name)} >= {threshold}" for name in columns or ("max_nll",)]
    return tests[0] if len(tests) == 1 else " OR ".join(f"({test})" for test in tests)


def _breeds(columns: Sequence[str], values: Sequence[object]) -> str:
    """C in the target subset: a subclass that training was not given."""
    if not values:
        allowed, remedy = "the subclasses of the target domain", "give them as values"
        raise ParameterError("has no values", where="preset breeds", allowed=allowed, remedy=remedy)
    return f"{_name(columns, 'subclass')} IN ({', '.join(map(literal_text, values))})"


PRESETS: dict[str, Preset] = {
    "waterbirds": _waterbirds,
    "iwildcam": _iwildcam,
    "fmow": _fmow,
    "imagenet-a": _imagenet_a,
    "breeds": _breeds,
}
"""Name of a row of Table 1 -> its phi."""


def _name(columns: Sequence[str], default: str) -> str:
    return identifier(_at_most_one("column", columns, default))


def _value(values: Sequence[object], default: float) -> str:
    return literal_text(_at_most_one("value", values, default))


def _at_most_one(what: str, options: Sequence[Any], default: Any) -> Any:
    """The only option, or the default without one."""
    if len(options) > 1:
        problem = f"has {len(options)} {what}s: {some_of(options)}"
        raise ParameterError(problem, where="preset", allowed=f"one {what}")
    return options[0] if options else default


def _none(values: Sequence[object], name: str) -> None:
    if values:
        problem = f"takes no values, and has {len(values)}"
        raise ParameterError(problem, where=f"preset {name}", remedy="leave them out")
