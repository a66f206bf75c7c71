"""A disk on which no file grows beyond a limit, as one that is full."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import forkserver


@contextmanager
def full_disk(at: int) -> Iterator[None]:
    """Limit files of this process, and of those that it starts, to ``at`` bytes."""
    # one that is started below the limit would keep it, and so would all its later processes
    forkserver.ensure_running()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (at, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
