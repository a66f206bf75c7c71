"""Limits that all readers share; light, so that a worker that parses can start at once."""

from __future__ import annotations

__all__ = ["MOST_AREA"]

MOST_AREA = 100.0
"""Times the image that annotations of one class may cover in it. Overlaps bring a sum over 1, and
boxes of a crowd further; what is beyond this is given in another unit, or damaged.
"""
