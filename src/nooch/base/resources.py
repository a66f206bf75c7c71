"""Resources of this machine: CPUs, threads, the environment."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping

__all__ = ["THREAD_VARIABLES", "environment", "limited_threads", "usable_cpus"]

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""Read by libraries, when they are loaded, as the number of threads they may use."""


def usable_cpus() -> int:
    """How many CPUs this process may use."""
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
