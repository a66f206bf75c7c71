"""Data as scripts: a page that was opened from disk may load scripts beside it, but read no other
file.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

__all__ = ["packed", "script", "sparse"]

_KINDS = {"u1": np.uint8, "u4": np.uint32, "f4": np.float32, "f8": np.float64}
# what ends a script element or a line of a script in the middle of a text
_UNSAFE = re.compile("[<>&\u2028\u2029]")


def script(name: str, content: Any) -> bytes:
    """A script that hands ``content``, JSON-like, to the page under a name; no text in it can end
    the script.
    """
    text = msgspec.json.encode([name, content]).decode()
    return f"nooch.put.apply(null, {_UNSAFE.sub(_escaped, text)});\n".encode()


def _escaped(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


def packed(values: NDArray[Any] | Sequence[Any], kind: str) -> dict[str, str]:
    """Numbers as the bytes of an array, little-endian, in base64: float64 arrives bit by bit as it
    was.

    Args:
        values: (n,).
        kind: ``u1``, ``u4``, ``f4`` or ``f8``.
    """
    array = np.ascontiguousarray(values, dtype=np.dtype(_KINDS[kind]).newbyteorder("<"))
    return {kind: b64encode(array.tobytes()).decode()}


def sparse(rows: NDArray[np.intp], values: NDArray[np.float64]) -> dict[str, dict[str, str]]:
    """Rows and float64 values; all others are 0."""
    return {"rows": packed(rows, "u4"), "values": packed(values, "f8")}
