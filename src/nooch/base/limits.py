"""Limits that all readers share; light, so that a worker that parses can start at once."""

from __future__ import annotations

import msgspec

__all__ = [
    "BROKEN_JSON", "MOST_ALIASES", "MOST_AREA", "MOST_NESTED", "MOST_RATIO", "MOST_ROWS",
    "MOST_UNPACKED",
]  # fmt: skip

BROKEN_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for JSON that is damaged, of other types, or nested too deeply: beyond
Python's recursion limit, about 1,000 levels.
"""

MOST_AREA = 100.0
"""Times the image that annotations of one class may cover in it. Overlaps bring a sum over 1, and
boxes of a crowd further; what is beyond this is given in another unit, or damaged.
"""

MOST_ROWS = 500_000_000
"""Rows of a Parquet file: a few bytes can stand for any number of equal rows."""

MOST_RATIO = 200
"""Highest compression ratio of a member of a zip that is larger than a MiB, or, of an ``.npz``,
than ``MOST_UNPACKED``; annotations reach 20, bombs 1000.
"""
MOST_UNPACKED = 1 << 30

MOST_ALIASES = 20
"""Aliases in a YAML file: each can repeat a list of aliases, so that a few lines never end."""

MOST_NESTED = 100
"""Lists in lists in a YAML file: the time to parse more grows with the square of their number."""
