"""What this machine has, and how much of it libraries may use."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

__all__ = ["limited_threads", "processors"]

_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextlib.contextmanager
def limited_threads(count: int | None) -> Iterator[None]:
    """Let libraries that are loaded, and those that are loaded meanwhile, use that many threads; None changes nothing.

    A smaller number in the environment stays.
    """
    if count is None:
        yield
        return
    # a package that scikit-learn needs, so it is there; it has no types
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    before = {name: os.environ.get(name) for name in _VARIABLES}
    for name, value in before.items():
        os.environ[name] = str(min(count, int(value)) if value and value.isdigit() else count)
    torch = sys.modules.get("torch")
    threads = None if torch is None else torch.get_num_threads()
    try:
        with threadpool_limits(int(os.environ["OMP_NUM_THREADS"])):
            if torch is not None and threads is not None:
                torch.set_num_threads(min(count, threads))
            yield
    finally:
        if torch is not None and threads is not None:
            torch.set_num_threads(threads)
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
