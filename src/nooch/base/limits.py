"""Limits that all readers share; light, so that a worker that parses can start at once."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping

import msgspec

BROKEN_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Exceptions of msgspec for JSON that is damaged, of other types, or nested too deeply: beyond
Python's recursion limit, about 1,000 levels.
"""

MOST_AREA = 100.0
"""Times the image that annotations of one class may cover in it. Overlaps bring a sum over 1, and
boxes of a crowd further; what is beyond this is given in another unit, or damaged.
"""

MOST_RATIO = 200
"""Highest compression ratio of a member of a zip that is larger than a MiB, or, of an ``.npz``,
than ``MOST_UNPACKED``; annotations reach 20, bombs 1000. The same of a Parquet file's values, of
which a few bytes can stand for any number that are equal.
"""
MOST_UNPACKED = 1 << 30
MOST_WORKBOOK = 1 << 28
"""Bytes that an Excel workbook may unpack to: about five million cells, and a few GB as objects."""

MOST_ALIASES = 20
"""Aliases in a YAML file: each can repeat a list of aliases, so that a few lines never end."""

MOST_NESTED = 100
"""Lists in lists in a YAML file: the time to parse more grows with the square of their number."""


THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""Read by libraries, when they are loaded, as the number of threads they may use."""


def usable_cpus() -> int:
    """Number of CPUs this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextlib.contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    """Variables of the environment that have these values meanwhile."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


@contextlib.contextmanager
def limited_threads(count: int | None) -> Iterator[None]:
    """Limit the threads of libraries meanwhile; None changes nothing, smaller limits stay."""
    if count is None:
        yield
        return
    # a package that scikit-learn needs, so it is there; it has no types
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    values = {}
    for name in THREAD_VARIABLES:
        value = os.environ.get(name, "")
        values[name] = str(min(count, int(value)) if value.isdigit() else count)
    torch = sys.modules.get("torch")
    threads = None if torch is None else torch.get_num_threads()
    try:
        with environment(values), threadpool_limits(int(values["OMP_NUM_THREADS"])):
            if torch is not None and threads is not None:
                torch.set_num_threads(min(count, threads))
            yield
    finally:
        if torch is not None and threads is not None:
            torch.set_num_threads(threads)


def spread(count: int, limit: int | None) -> list[int]:
    """Positions of ``limit`` of ``count`` items, evenly spread; of all if there is no limit."""
    kept = count if limit is None else min(count, limit)
    return [number * count // kept for number in range(kept)]
