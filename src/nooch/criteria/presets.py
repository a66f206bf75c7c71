"""The out-of-context conditions of the paper's Table 1, written in the language of phi."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nooch.base.errors import ParameterError, check_one_of, some_of
from nooch.criteria.phi import identifier, literal_text

PRESETS = {
    # C != Y: the background does not fit the bird's kind
    "waterbirds": "{column} != y",
    # C not in {1 ... 245}: a camera trap that training lacks; `fit` learns which it has
    "iwildcam": "unseen({column})",
    # C_time >= 2013: taken in 2013 or later; a column of dates takes a date as text
    "fmow": "{column} >= {value}",
    # C >= -log(0.15): the largest loss of an ensemble, so any of several columns
    "imagenet-a": "{column} >= -ln({value})",
    # C in the target subset: a subclass that training was not given
    "breeds": "{column} IN ({values})",
}
"""Name of a row of Table 1 -> its phi."""

_COLUMN = {
    "waterbirds": "place",
    "iwildcam": "location_remapped",
    "fmow": "year",
    "imagenet-a": "max_nll",
    "breeds": "subclass",
}
_VALUE = {"fmow": 2013, "imagenet-a": 0.15}


def phi_preset(name: str, columns: Sequence[str] = (), values: Sequence[object] = ()) -> str:
    """The phi of a row of Table 1.

    Args:
        name: one of ``PRESETS``.
        columns: attribute columns to use instead of the benchmark's own names.
        values: the values that the row compares with; ``breeds`` needs some.

    Returns:
        Text for ``Attribute(phi=...)``, with names and values quoted if they must be.

    Raises:
        ParameterError: no such preset, or columns or values that it cannot take.
    """
    text = PRESETS[check_one_of("preset", name, PRESETS, owner="phi")]
    given: dict[str, str] = {}
    if "{values}" in text:
        given["values"] = _listed(name, values)
    elif name in _VALUE:
        given["value"] = literal_text(_at_most_one("value", values, _VALUE[name]))
    elif values:
        problem = f"takes no values, and has {len(values)}"
        raise ParameterError(problem, where=f"preset {name}", give={"values": None})
    if name != "imagenet-a":
        columns = [_at_most_one("column", columns, _COLUMN[name])]
    columns = columns or [_COLUMN[name]]
    tests = [text.format(column=identifier(column), **given) for column in columns]
    return tests[0] if len(tests) == 1 else " OR ".join(f"({test})" for test in tests)


def _listed(name: str, values: Sequence[object]) -> str:
    if not values:
        allowed, remedy = "the subclasses of the target domain", "give them as values"
        raise ParameterError(
            "has no values", where=f"preset {name}", allowed=allowed, remedy=remedy
        )
    return ", ".join(map(literal_text, values))


def _at_most_one(what: str, options: Sequence[Any], default: Any) -> Any:
    """The only option, or the default without one."""
    if len(options) > 1:
        problem = f"has {len(options)} {what}s: {some_of(options)}"
        raise ParameterError(problem, where="preset", allowed=f"one {what}")
    return options[0] if options else default
