"""What public functions share: a ``map``, progress, and options of which fields can be named."""

from __future__ import annotations

import importlib
import numbers
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from inspect import formatannotation
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from nooch.base.errors import ParameterError, check_one_of, reason_of, wrong_type

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


def options_from(kind: type[T], options: T | None, named: Mapping[str, Any]) -> T:
    """``options``, or the defaults of ``kind``, with the fields that were given by name
    replaced.
    """
    allowed = {field.name: _written(field.type) for field in fields(kind)}  # type: ignore[arg-type]
    for name in named:
        check_one_of("option", name, allowed, owner=kind.__name__)
    if not isinstance(options, kind | NoneType):
        raise wrong_type("options", options, kind.__name__, f"options=nooch.{kind.__name__}()")
    hints = get_type_hints(kind)
    for name, value in named.items():
        if not _fits(value, hints[name]):
            likely = [value] if _fits([value], hints[name]) else getattr(kind, name, None)
            raise wrong_type(name, value, allowed[name], f"{name}={likely!r}")
    return replace(kind() if options is None else options, **named)  # type: ignore[type-var]


def _written(annotation: Any) -> str:
    """An annotation as code has it; one that is not deferred without the names of modules."""
    if isinstance(annotation, str):
        return annotation
    return re.sub(r"\b[a-z_][\w.]*\.(?=[A-Z])", "", formatannotation(annotation))


def _fits(value: object, hint: Any) -> bool:
    """Whether a value has the type of an annotation, as far as that is easy to say."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(_fits(value, one) for one in inner)
    if hint in (int, float):
        number = numbers.Integral if hint is int else numbers.Real
        return isinstance(value, number) and not isinstance(value, bool)
    if origin is Sequence:
        if not isinstance(value, Collection) or isinstance(value, str | Mapping):
            return False
        return all(_fits(one, inner[0]) for one in value)
    accepted = origin or hint
    return not isinstance(accepted, type) or isinstance(value, accepted)


_OBJECT = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def is_named(text: str) -> bool:
    """Whether a text has the form ``package.module:Name``."""
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
