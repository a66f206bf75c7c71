"""Types of callables that most rooms hand on: maps and progress, and results with progress."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

__all__ = ["Map", "Progress", "StepProgress", "no_progress", "tracked"]

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
