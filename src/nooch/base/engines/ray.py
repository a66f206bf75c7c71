"""A Ray cluster: an existing one, or one of this machine that is started for the purpose."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from nooch.base.engines import job_window as base
from nooch.base.engines.job_window import (
    Jobs,
    Logged,
    check_gpus,
    lost_each_time,
    module_paths,
    ordered,
)
from nooch.base.errors import MissingExtraError, NoochError
from nooch.base.limits import environment
from nooch.base.words import counted

T = TypeVar("T")
R = TypeVar("R")

_OWN = "local"
_TRIES = "RAY_gcs_server_port_wait_time_s"
_BEGIN = (
    "start a cluster with ray start --head, and {}; if it asks for a token, set RAY_AUTH_MODE=token"
)
_MEMORY = "look at the logs of the cluster's nodes; give workers more memory"
_ALIKE = "install the same packages on every node"


class RayEngine:
    """Applies functions in the workers of a Ray cluster, one CPU each.

    Args:
        address: of the cluster, such as ``10.0.0.1:6379`` or ``auto``; by default RAY_ADDRESS,
            else a cluster of this machine, which ends with this process.
        logs: folder for a log of each job, which every node sees; or None.
        gpus: per job; Ray lets it see only these.

    Nodes need the same nooch installed, and the same paths of data.

    Raises:
        MissingExtraError: ray is not installed.
        ParameterError: a negative number of GPUs.
    """

    threads = 1
    """CPUs that each job may use."""

    def __init__(
        self, address: str | None = None, logs: Path | None = None, *, gpus: int = 0
    ) -> None:
        self.address, self.logs, self.gpus = address, logs, check_gpus(gpus)
        # ray would send statistics of its use
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        # by default, Ray restarts a task forever that its memory monitor has killed
        os.environ.setdefault("RAY_task_oom_retries", str(base.RETRIES))
        try:
            import ray
        except ImportError as error:
            raise MissingExtraError("ray", "ray", "`engine` ray") from error
        self._ray: Any = ray

    def gpu_count(self) -> int:
        """GPUs of the cluster. Raises NoochError if there is none at the address."""
        self._connect()
        return int(self._ray.cluster_resources().get("GPU", 0))

    def map(self, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """Results in the order of items. Items are taken as results are fetched.

        An error of one item is raised in its place. A worker or node that is lost loses only its
        jobs, which are run again.
        """
        self._connect()
        return ordered(_RayJobs(self._ray, Logged(function, self.logs), self.gpus), items)

    def _connect(self) -> None:
        if self._ray.is_initialized():
            return
        # ray reads this variable first; without local it would also look for an earlier cluster
        address = os.environ.get("RAY_ADDRESS") or self.address or _OWN
        host = address.rpartition(":")[0]
        # one try of 40 seconds, not twenty, to reach a cluster that should exist
        once = {} if address == _OWN or _TRIES in os.environ else {_TRIES: "1"}
        try:
            with environment(once):
                self._ray.init(
                    runtime_env={"env_vars": module_paths()},
                    address=address,
                    # a cluster on loopback does not know the driver by its outer address
                    _node_ip_address=host if host.startswith("127.") else None,
                    log_to_driver=False,
                    include_dashboard=None,
                    logging_level="error",
                )
        except Exception as error:
            raise NoochError(
                f"cannot connect to Ray: {error}",
                where=None if address == _OWN else address,
                remedy=_BEGIN,
                give={"engine": "ray:ADDRESS"},
            ) from error


class _RayJobs(Jobs):
    """Tasks of Ray, which itself starts those again whose worker or node is lost."""

    def __init__(self, ray: Any, function: Logged, gpus: int) -> None:
        self._ray = ray
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        _check_room(nodes, gpus)
        # once for all jobs: functions may carry a dataset's statistics
        self._function = ray.put(function)
        resources = {"num_gpus": gpus} if gpus else {}
        self._call = ray.remote(
            max_retries=base.RETRIES, retry_exceptions=False, num_cpus=1, **resources
        )(_call)
        self.window = 4 * max(1, sum(_room(node, gpus) for node in nodes))

    def submit(self, items: Sequence[tuple[int, Any]]) -> list[Any]:
        """Start tasks; their handles are pairs of number and reference."""
        return [(item[0], self._call.remote(self._function, item)) for item in items]

    def result(self, handle: Any) -> Any:
        """Wait for a task's result, and raise what it raised."""
        errors, (number, reference) = self._ray.exceptions, handle
        try:
            return self._ray.get(reference)
        except errors.RayTaskError as error:
            # as the job raised it
            if isinstance(error.cause, errors.RayError):
                raise NoochError(
                    f"a job could not be started: {error.cause}", remedy=_ALIKE
                ) from error
            raise error.cause from None
        except (
            errors.WorkerCrashedError,
            errors.NodeDiedError,
            errors.ObjectLostError,
            errors.OutOfMemoryError,
        ) as error:
            raise lost_each_time(number, str(error).partition("\n")[0], _MEMORY) from error
        except errors.RayError as error:
            raise NoochError(
                f"Ray gave up: {error}", remedy="look at the cluster with ray status"
            ) from error

    def close(self, handles: Sequence[Any]) -> None:
        """Cancel tasks."""
        references = [reference for _, reference in handles]
        with contextlib.suppress(Exception):
            # do not touch one that has just ended: to cancel it can crash Ray, and this process
            _, references = self._ray.wait(references, num_returns=len(references), timeout=0)
        for reference in references:
            with contextlib.suppress(Exception):
                self._ray.cancel(reference)


def _room(node: dict[str, float], gpus: int) -> int:
    """Jobs that a node has CPUs and GPUs for."""
    cpus = node.get("CPU", 0)
    return int(min(cpus, node.get("GPU", 0) // gpus) if gpus else cpus)


def _check_room(nodes: Sequence[dict[str, float]], gpus: int) -> None:
    """Raise NoochError if no node has room for a job: Ray would wait forever."""
    if not any(_room(node, gpus) for node in nodes):
        most = max((int(node.get("GPU", 0)) for node in nodes), default=0)
        request = f"a CPU and {counted(gpus, 'GPU')}" if gpus else "a CPU"
        raise NoochError(
            f"none of the cluster's {len(nodes)} nodes has {request} for a job"
            + (f"; {most} GPUs are the most that a node has" if gpus else ""),
            where="`engine` ray",
            remedy="start nodes with ray start --num-cpus N --num-gpus N",
            give={"device": "cpu"} if gpus else (),
        )


def _call(function: Logged, job: tuple[int, Any]) -> Any:
    return function(job)
