"""Shared by public functions: a ``map``, progress, and settings that are checked."""

from __future__ import annotations

import builtins
import importlib
import inspect
import math
import numbers
import operator
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, wraps
from inspect import formatannotation
from types import UnionType
from typing import Annotated, Any, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from msgspec import Meta

from nooch.base.errors import ParameterError, WrongTypeError, check_one_of, reason_of, wrong_type

P = ParamSpec("P")
T = TypeVar("T")

Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
"""Applies a function to items, with results in order: the builtin ``map``, or an engine's."""

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and of how much."""

StepProgress = Callable[[int, int], None]
"""As ``Progress``, for a single step that its caller names: how much is done, and of how much."""


def no_progress(*_: object) -> None:
    """A ``Progress`` or ``StepProgress`` that reports to nobody."""


def tracked(results: Iterable[T], total: int, what: str, progress: Progress) -> Iterator[T]:
    """The results, with progress before the first and after each."""
    progress(what, 0, total)
    for done, result in enumerate(results, 1):
        yield result
        progress(what, done, total)


Count = Annotated[int, Meta(ge=1)]
"""A count of at least one."""
Seed = Annotated[int, Meta(ge=0, lt=2**63)]
Share = Annotated[float, Meta(ge=0, le=1)]

_BOUNDS: Mapping[str, tuple[Callable[[Any, Any], bool], str]] = {
    "gt": (operator.gt, "above"),
    "ge": (operator.ge, "at least"),
    "lt": (operator.lt, "below"),
    "le": (operator.le, "at most"),
}


class Options:
    """Base of settings, which are checked against their annotations: ``Annotated[int, Meta(ge=1)]``
    is a finite number in a range, ``Annotated[str, names]`` one of some names.

    Raises WrongTypeError or ParameterError for the first field that does not fit.
    """

    def __post_init__(self) -> None:
        owner: Any = type(self)
        for name in _hints(owner):
            _check(owner, name, getattr(self, name))


def checked(function: Callable[P, T]) -> Callable[P, T]:
    """A public function whose keywords are checked against their annotations, as ``Options`` are.

    One text for a sequence of texts is a sequence of one. Also raises ParameterError for an unknown
    keyword, WrongTypeError for a parameter that was not given.
    """
    owner: Any = function
    parameters = inspect.signature(owner).parameters
    needed = [name for name, one in parameters.items() if one.default is one.empty]
    needed = [name for name in needed if parameters[name].kind < inspect.Parameter.VAR_POSITIONAL]

    @wraps(function)
    def run(*values: P.args, **named: P.kwargs) -> T:
        given: dict[str, Any] = dict(named)
        for name, value in given.items():
            check_one_of("keyword", name, parameters, owner=owner.__name__)
            hint = _hints(owner)[name]
            if isinstance(value, str) and not _fits(value, hint) and _fits([value], hint):
                given[name] = [value]
            _check(owner, name, given[name])
        if missing := [name for name in needed[len(values) :] if name not in given]:
            problem = f"{owner.__name__} needs {' and '.join(missing)}"
            raise WrongTypeError(problem, give=dict.fromkeys(missing, ...))
        named.update(given)
        return function(*values, **named)

    return run


def _check(owner: Any, name: str, value: Any) -> None:
    """Raise WrongTypeError or ParameterError if a value does not fit its annotation."""
    hint = _hints(owner)[name]
    if not _fits(value, hint):
        default = inspect.signature(owner).parameters[name].default
        likely = [value] if _fits([value], hint) else default
        raise wrong_type(name, value, _written(owner, name), f"{name}={likely!r}")
    for number in value if isinstance(value, list | tuple) else [value]:
        if isinstance(number, int) and (bits := number.bit_length()) > 64:
            problem = f"has a number of {bits} bits"
            raise ParameterError(problem, where=f"`{name}`", allowed="numbers of at most 64 bits")
    for part, limit in _limits(value, hint):
        if isinstance(limit, Meta):
            _check_range(name, part, limit)
        else:
            check_one_of(f"value of `{name}`", part, limit)


@cache
def _hints(owner: Any) -> dict[str, Any]:
    """Name -> annotation; names imported only for type checkers are not checked."""
    return get_type_hints(owner, localns=_Unknown(owner), include_extras=True)


class _Anything:
    """The type of what cannot be looked up."""

    def __class_getitem__(cls, _: object) -> type:
        return cls


class _Unknown(dict[str, Any]):
    """Names that a module has only for type checkers: anything."""

    def __init__(self, owner: Any) -> None:
        modules = [
            vars(sys.modules[kind.__module__]) for kind in getattr(owner, "__mro__", [owner])
        ]
        self._known = {name for names in [vars(builtins), *modules] for name in names}

    def __missing__(self, name: str) -> Any:
        if name in self._known:
            raise KeyError(name)
        return _Anything


def _check_range(name: str, value: float, limit: Meta) -> None:
    bounds = [
        (*_BOUNDS[option], getattr(limit, option))
        for option in _BOUNDS
        if getattr(limit, option) is not None
    ]
    if not (math.isfinite(value) and all(fits(value, bound) for fits, _, bound in bounds)):
        allowed = " and ".join(f"{words} {bound:,}" for _, words, bound in bounds)
        remedy = f"did you mean {value / 100:g}?" if limit.le == 1 and 2 <= value <= 100 else None
        raise ParameterError(f"is {value}", where=f"`{name}`", allowed=allowed, remedy=remedy)


def _limits(value: Any, hint: Any) -> Iterator[tuple[Any, Any]]:
    """Values, or parts of them, with what their annotations allow."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        yield from ((value, limit) for limit in inner[1:])
    elif origin in (Union, UnionType):
        yield from (
            pair for option in inner if _fits(value, option) for pair in _limits(value, option)
        )
    elif origin in (Sequence, tuple):
        yield from (pair for option in value for pair in _limits(option, inner[0]))


def _written(owner: Any, name: str) -> str:
    """The type of a setting as code has it, without the names of modules."""
    plain = formatannotation(get_type_hints(owner, localns=_Unknown(owner))[name])
    return re.sub(r"\b[a-z_][\w.]*\.(?=[A-Z])", "", plain)


def _fits(value: object, hint: Any) -> bool:
    """True if a value has the type of an annotation; annotations that are hard to check pass."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _fits(value, inner[0])
    if origin in (Union, UnionType):
        return any(_fits(value, option) for option in inner)
    if hint in (int, float):
        number = numbers.Integral if hint is int else numbers.Real
        return isinstance(value, number) and not isinstance(value, bool)
    if origin in (Sequence, tuple):
        kind = Collection if origin is Sequence else tuple
        if not isinstance(value, kind) or isinstance(value, str | Mapping):
            return False
        return all(_fits(option, inner[0]) for option in value)
    accepted = origin or hint
    return hint in (Any, _Anything) or not isinstance(accepted, type) or isinstance(value, accepted)


_OBJECT = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def is_named(text: str) -> bool:
    """True if a text has the form ``package.module:Name``."""
    return _OBJECT.fullmatch(text) is not None


def imported(target: str, what: str) -> Any:
    """The object of that name. Raises ParameterError, for ``what``, if it cannot be imported."""
    module, _, attribute = target.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ParameterError(
            f"{what} cannot be imported: {reason_of(error)}", allowed="package.module:Name"
        ) from error
    except SyntaxError as error:
        place = f"{error.filename}:{error.lineno}"
        raise ParameterError(
            f"{what} cannot be imported: {error.msg}", where=place, remedy="correct that line"
        ) from error
