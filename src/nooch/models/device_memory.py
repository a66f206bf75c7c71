"""Memory: errors with a remedy when it runs out, and reusing it instead of returning it."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

from nooch.errors import NoochError

__all__ = ["memory_limits", "reuse_memory"]

_SIGNS = ("out of memory", "can't allocate memory", "not enough memory", "alloc_failed")
# numbers of GNU's mallopt; 32 MiB is the most that it takes for the first
_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1


@contextmanager
def memory_limits(batch: int, what: str, smaller: str = "`batch` {}") -> Iterator[None]:
    """Turn errors of exhausted memory while doing ``what`` into a NoochError that suggests a
    smaller batch, in the words of ``smaller``.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        # torch.OutOfMemoryError and the CPU allocator's error are RuntimeErrors
        signs = (sign in str(error).lower() for sign in _SIGNS)
        if not isinstance(error, MemoryError) and not any(signs):
            raise
        remedy = "smaller images (`size`)"
        if batch > 1:
            remedy = f"a smaller batch, such as {smaller.format(batch // 2)}"
        problem = f"out of memory while {what} with batches of {batch}"
        raise NoochError(problem, remedy=remedy) from error


def reuse_memory() -> None:
    """Let this process keep the memory that it frees, where the C library is GNU's.

    By default it gives large blocks back to the operating system at once and requests them again,
    page by page, with every operation: for a convolutional network on a CPU that can be more than
    half of the time. Nothing else changes.
    """
    try:
        adjust = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        # another C library, or Windows: then it stays as it is
        return
    adjust(_MMAP_THRESHOLD, 32 << 20)
    adjust(_TRIM_THRESHOLD, 1 << 30)
