"""Devices of networks: which there are, what they need, and what to do without memory."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from nooch.base.errors import MissingExtraError, NoochError, ParameterError

_SIGNS = ("out of memory", "can't allocate memory", "not enough memory", "alloc_failed")
# numbers of GNU's mallopt; 32 MiB is the most that it takes for the first
_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1


def require_packages(purpose: str = "a backbone", extra: str = "train") -> None:
    """Raise MissingExtraError if torch or transformers is not installed."""
    for package in ("torch", "transformers"):
        # importing it here would take a second, also if it is not used
        if find_spec(package) is None:
            raise MissingExtraError(package, extra, purpose)


def choose_device(device: str = "auto") -> str:
    """``cpu``, ``cuda`` or ``cuda:N``; auto takes a GPU if there is one."""
    require_packages()
    import torch

    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    kind, _, number = device.partition(":")
    if kind == "cpu" and not number:
        return device
    here = torch.cuda.device_count()
    if kind != "cuda" or not (number or "0").isdecimal() or int(number or 0) >= here:
        gpus = ", ".join(f"cuda:{n}" for n in range(here))
        raise ParameterError(
            f"there is no device {device!r} here", allowed=f"auto, cpu{', ' if gpus else ''}{gpus}"
        )
    return device


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
