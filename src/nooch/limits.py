"""Limits that all readers share; light, so that a worker that parses can start at once."""

from __future__ import annotations

import msgspec

__all__ = ["BROKEN_JSON", "MOST_AREA"]

BROKEN_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for JSON that is damaged, of other types, or nested too deeply: beyond
Python's recursion limit, about 1,000 levels.
"""

MOST_AREA = 100.0
"""Times the image that annotations of one class may cover in it. Overlaps bring a sum over 1, and
boxes of a crowd further; what is beyond this is given in another unit, or damaged.
"""
