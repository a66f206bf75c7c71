"""Numbers in words: durations, sizes."""

from __future__ import annotations

__all__ = ["duration", "human_size"]

_UNITS = (("years", 365.25 * 86400), ("days", 86400), ("h", 3600), ("min", 60))
_SIZES = ("bytes", "kB", "MB", "GB", "TB")


def duration(seconds: float) -> str:
    """Seconds in the largest unit with two or more: ``12 ms``, ``58 s``, ``3.4 days``."""
    for name, length in _UNITS:
        if seconds >= 2 * length:
            return f"{_short(seconds / length)} {name}"
    return f"{_short(seconds)} s" if seconds >= 1 else f"{_short(seconds * 1000)} ms"


def human_size(size: float) -> str:
    """Bytes in decimal units: ``26 MB``."""
    for name in _SIZES[:-1]:
        if size < 1000:
            return f"{_short(size)} {name}"
        size /= 1000
    return f"{_short(size)} {_SIZES[-1]}"


def _short(value: float) -> str:
    """Two digits at least, and no more behind the point."""
    rounded = round(value, 1)
    return f"{value:.1f}" if rounded < 10 and rounded != int(rounded) else f"{value:,.0f}"
