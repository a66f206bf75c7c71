"""Objects named ``package.module:Name`` by a user; names found in files are never imported."""

from __future__ import annotations

import importlib
import re
from typing import Any

from nooch.base.errors import ParameterError

__all__ = ["imported", "is_named"]

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
            f"{what} cannot be imported: {error}", allowed="package.module:Name"
        ) from error
    except SyntaxError as error:
        place = f"{error.filename}:{error.lineno}"
        raise ParameterError(
            f"{what} cannot be imported: {error.msg}", where=place, remedy="correct that line"
        ) from error
