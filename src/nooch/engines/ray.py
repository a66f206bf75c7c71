"""A Ray cluster: one that is there, or one of this machine, begun for the occasion."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

from nooch.engines.base import Jobs, Logged, Lost, ordered
from nooch.errors import MissingExtraError, NoochError

__all__ = ["RayEngine"]

T = TypeVar("T")
R = TypeVar("R")


class RayEngine:
    """Applies functions in the workers of a Ray cluster, a processor each.

    Args:
        address: of the cluster, such as ``10.0.0.1:6379`` or ``auto``; by default RAY_ADDRESS, or else a cluster of this
            machine alone, which ends with this process.
        logs: folder for a log of each job, which every node sees; or None.

    Nodes need the same nooch installed, and the same paths of data.

    Raises:
        MissingExtraError: ray is not installed.
    """

    def __init__(self, address: str | None = None, logs: Path | None = None) -> None:
        self.address, self.logs = address, logs
        # what ray would otherwise send about its use
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            import ray
        except ImportError as error:
            raise MissingExtraError("ray", "ray", "--engine ray") from error
        self._ray: Any = ray

    @classmethod
    def of(cls, argument: str | None, logs: Path | None = None) -> Self:
        """``ray`` or ``ray:ADDRESS``."""
        return cls(argument, logs)

    def map(self, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """Results in the order of items. Items are taken as results are fetched.

        An error of one item is raised in its place. A worker or node that is lost loses only its jobs, which are done again.

        Raises:
            NoochError: there is no cluster at the address.
        """
        self._connect()
        return ordered(_RayJobs(self._ray, Logged(function, self.logs)), items)

    def _connect(self) -> None:
        if self._ray.is_initialized():
            return
        try:
            # modules of the user's own are found where this process finds them
            host = (self.address or "").rpartition(":")[0]
            paths = os.pathsep.join(path for path in sys.path if path)
            self._ray.init(
                runtime_env={"env_vars": {"PYTHONPATH": paths}},
                address=self.address,
                # a cluster of this machine alone does not know the driver under its outer address
                _node_ip_address=host if host.startswith("127.") else None,
                log_to_driver=False,
                include_dashboard=None,
                logging_level="error",
            )
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise NoochError(
                f"cannot connect to Ray: {error}",
                where=self.address,
                remedy="begin a cluster with ray start --head, and give its address as --engine ray:ADDRESS",
            ) from error


_ALIKE = "install the same packages on every node"


class _RayJobs(Jobs):
    """Tasks of Ray. Retries are ours: Ray's own make no pause."""

    remedy = "look at the logs of the cluster's nodes; give workers more memory"

    def __init__(self, ray: Any, function: Logged) -> None:
        self._ray = ray
        # once for all jobs: functions may carry a dataset's statistics
        self._function = ray.put(function)
        self._call = ray.remote(max_retries=0)(_call)
        self.window = 4 * max(1, int(ray.cluster_resources().get("CPU", 1)))

    def submit(self, items: Sequence[tuple[int, Any]]) -> list[Any]:
        return [self._call.remote(self._function, item) for item in items]

    def result(self, handle: Any) -> Any:
        errors = self._ray.exceptions
        try:
            return self._ray.get(handle)
        except errors.RayTaskError as error:
            # as the job raised it
            if isinstance(error.cause, errors.RayError):
                raise NoochError(f"a job could not be begun: {error.cause}", remedy=_ALIKE) from error
            raise error.cause from None
        except (
            errors.WorkerCrashedError,
            errors.NodeDiedError,
            errors.ObjectLostError,
            errors.OutOfMemoryError,
        ) as error:
            raise Lost(str(error).partition("\n")[0]) from error
        except errors.RayError as error:
            raise NoochError(f"Ray gave up: {error}", remedy="look at the cluster with ray status") from error

    def is_lost(self, handle: Any) -> bool:
        ready, _ = self._ray.wait([handle], timeout=0)
        if not ready:
            return False
        try:
            self.result(handle)
        except Lost:
            return True
        # an error of its own is raised in its place
        except Exception:  # noqa: BLE001
            return False
        return False

    def close(self, handles: Sequence[Any]) -> None:
        for handle in handles:
            self._ray.cancel(handle)


def _call(function: Logged, job: tuple[int, Any]) -> Any:
    return function(job)
