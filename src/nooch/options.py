"""Options that travel together: a frozen dataclass, of which single fields can be given by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

from nooch.errors import check_one_of

__all__ = ["options_from"]

T = TypeVar("T")


def options_from(kind: type[T], options: T | None, named: Mapping[str, Any]) -> T:
    """``options``, or the defaults of ``kind``, with the fields that were given by name replaced.

    Args:
        kind: a frozen dataclass whose fields all have defaults.
        options: an instance, or None.
        named: field -> value, such as the keywords of a function.

    Raises:
        ParameterError: a name that is no field of ``kind``.
    """
    allowed = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    for name in named:
        check_one_of("option", name, allowed, owner=kind.__name__)
    return replace(kind() if options is None else options, **named)  # type: ignore[type-var]
