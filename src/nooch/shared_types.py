"""Types of callables that most rooms hand on: maps and progress."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["Map", "Progress", "StepProgress", "no_progress"]

Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
"""Applies a function to items, with results in order: the builtin ``map``, or an engine's."""

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and of how much."""

StepProgress = Callable[[int, int], None]
"""As ``Progress``, for a single step that its caller names: how much is done, and of how much."""


def no_progress(*_: object) -> None:
    """A ``Progress`` or ``StepProgress`` that reports to nobody."""
