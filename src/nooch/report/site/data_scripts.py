"""Data as scripts: a page that was opened from disk may load scripts, but read no other file."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

__all__ = ["packed", "script", "sparse"]

# what ends a script element or a line of a script in the middle of a text
_UNSAFE = {c.encode(): b"\\u%04x" % ord(c) for c in "<>&\u2028\u2029"}


def script(name: str, content: Any) -> bytes:
    """A script that gives the page JSON-like ``content``; no text in it can end the script."""
    text = msgspec.json.encode([name, content])
    for unsafe, escaped in _UNSAFE.items():
        text = text.replace(unsafe, escaped)
    return b"nooch.put.apply(null, %b);\n" % text


def packed(values: NDArray[Any] | Sequence[Any], kind: str) -> dict[str, str]:
    """Numbers (n,) as the little-endian bytes of an array of kind ``u1``, ``u4``, ``f4`` or ``f8``
    in base64, so that float64 stays exact.
    """
    array = np.ascontiguousarray(values, dtype=f"<{kind}")
    return {kind: b64encode(array.tobytes()).decode()}


def sparse(rows: NDArray[np.intp], values: NDArray[np.float64]) -> dict[str, dict[str, str]]:
    """Rows and float64 values; all others are 0."""
    return {"rows": packed(rows, "u4"), "values": packed(values, "f8")}
