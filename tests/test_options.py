"""Settings that are checked against their annotations: types and ranges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, make_dataclass
from typing import Annotated

import numpy as np
import polars as pl
import pytest
from msgspec import Meta
from refusals import fails

from nooch.base.calls import Count, Options, Share, checked
from nooch.base.errors import ParameterError, WrongTypeError


@dataclass(frozen=True)
class DrawOptions(Options):
    draws: int = 1000
    seed: int = 0
    share: float = 0.5
    names: Sequence[str] | None = None
    name: str | Sequence[str] = "all"
    numbers: Sequence[Sequence[float]] = ()
    frame: pl.DataFrame | None = None
    roles: Mapping[str, str] | None = None
    strict: bool = False


RIGHT = [
    {"draws": np.int64(3)}, {"share": 1}, {"share": np.float32(0.5)}, {"names": ("a", "b")},
    {"names": pl.Series(["a"])}, {"names": np.array(["a"])}, {"names": None}, {"name": "a"},
    {"name": ["a"]}, {"numbers": [[1, 2.5], ()]}, {"frame": pl.DataFrame()}, {"roles": {"a": "b"}},
    {"strict": True},
]  # fmt: skip


@pytest.mark.parametrize("named", RIGHT)
def test_values_of_the_type_of_their_field_are_taken(named):
    (name, value), *_ = named.items()
    assert getattr(DrawOptions(**named), name) is value


WRONG = [
    ({"draws": "3"}, "is '3', of type str", "allowed: int", "write draws=1000"),
    ({"draws": 1.5}, "is 1.5, of type float"),
    ({"draws": True}, "is True, of type bool"),
    ({"draws": None}, "of type NoneType"),
    ({"share": "half"}, "allowed: float", "write share=0.5"),
    ({"names": "a"}, "allowed: Sequence[str] | None", "write names=['a']"),
    ({"names": [1]}, "is of type list"),
    ({"names": {"a": 1}}, "is of type dict"),
    ({"name": 3}, "write name='all'"),
    ({"numbers": [1]}, "allowed: Sequence[Sequence[float]]"),
    ({"frame": [1]}, "allowed: DataFrame | None"),
    ({"roles": ["a"]}, "allowed: Mapping[str, str] | None"),
    ({"strict": "yes"}, "allowed: bool"),
]


@pytest.mark.parametrize(("named", "message"), [(named, texts) for named, *texts in WRONG])
def test_values_of_another_type_are_refused_with_an_example(named, message):
    act = lambda: DrawOptions(**named)  # noqa: E731
    fails(act, f"`{next(iter(named))}`: ", *message, kind=WrongTypeError)


@dataclass(frozen=True)
class SeededOptions(DrawOptions):
    """The fields of another class, too."""


# annotations of types, not of text
FIELDS = [("draws", int, 1), ("names", Sequence[str] | None, None)]
PLAIN = make_dataclass("PLAIN", FIELDS, bases=(Options,))


@pytest.mark.parametrize(
    ("kind", "named", "allowed"),
    [
        (SeededOptions, {"seed": "3"}, "allowed: int"),
        (PLAIN, {"draws": "3"}, "allowed: int"),
        (PLAIN, {"names": 3}, "allowed: Sequence[str] | None"),
    ],
)
def test_the_type_of_any_field_is_worded(kind, named, allowed):
    fails(lambda: kind(**named), allowed, kind=WrongTypeError)


@dataclass(frozen=True)
class RangedOptions(Options):
    count: Count = 1
    share: Share | None = None
    zoom: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    rate: Annotated[float, Meta(gt=0)] = 1.0
    side: Annotated[str, ("left", "right")] | None = None
    parts: Sequence[Annotated[str, {"top": 1, "bottom": 2}]] = ()
    order: Annotated[str, ("by seed",)] | Count = "by seed"


ALLOWED = [
    {"count": np.int64(3), "share": 1, "zoom": 0},
    {"side": "left", "parts": ("bottom", "top")},
    {"side": None, "order": 3},
]


@pytest.mark.parametrize("named", ALLOWED)
def test_values_in_range_are_taken(named):
    made = RangedOptions(**named)
    assert all(getattr(made, name) is value for name, value in named.items())


OUTSIDE = [
    ({"count": 0}, "`count`: is 0", "allowed: at least 1"),
    ({"share": 1.5}, "`share`: is 1.5", "allowed: at least 0 and at most 1"),
    ({"share": float("nan")}, "`share`: is nan"),
    ({"zoom": 1.0}, "allowed: at least 0 and below 1"),
    ({"rate": 0}, "allowed: above 0"),
    ({"rate": float("inf")}, "`rate`: is inf", "allowed: above 0"),
    ({"side": "lift"}, "'lift' is not a value of `side`", "did you mean left?"),
    ({"parts": ["top", "bottle"]}, "'bottle' is not a value of `parts`", "allowed: bottom, top"),
    ({"order": "random"}, "'random' is not a value of `order`"),
    ({"order": 0}, "`order`: is 0"),
    *(
        ({name: 10**400}, f"`{name}`: has a number of 1329 bits", "allowed: numbers of at most 64")
        for name in ("count", "share", "rate", "order")
    ),
    ({"count": -(10**9000)}, "`count`: has a number of 29898 bits"),
]


@pytest.mark.parametrize(("named", "message"), [(named, texts) for named, *texts in OUTSIDE])
def test_values_out_of_range_are_refused(named, message):
    fails(lambda: RangedOptions(**named), *message, kind=ParameterError)


def test_one_text_is_a_sequence_of_one_and_what_was_not_given_is_named():
    @checked
    def named(first: int, out: str, *, names: Sequence[str] = (), either: str | Sequence[str] = ""):
        return first, out, names, either

    assert named(1, "a", names="b", either="c") == (1, "a", ["b"], "c")
    fails(lambda: named(1, names=["b"]), "named needs out", "`out`", kind=WrongTypeError)
    fails(lambda: named(names=["b"]), "needs first and out", kind=WrongTypeError)
    fails(lambda: named(1, "a", names=3), "allowed: Sequence[str]", kind=WrongTypeError)
