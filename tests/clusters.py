"""Context managers: a Ray cluster of several nodes on this machine; Slurm, or its stand-in."""

import contextlib
import os

import pytest

REAL_SLURM = "NOOCH_TEST_SLURM" in os.environ
"""Set where tests/slurm.sh has started a Slurm."""


@contextlib.contextmanager
def ray_cluster(*nodes):
    """Nodes with these resources, on loopback addresses alone (Ray uses 127.0.0.1 itself)."""
    ray = pytest.importorskip("ray", reason="ray is not installed")
    from ray.cluster_utils import Cluster

    # neither logs, scaling nor a dashboard: each is a process
    small = {"object_store_memory": 80 << 20, "include_log_monitor": False, "no_monitor": True}
    small |= {"node_ip_address": "127.0.0.2"}
    cluster = Cluster()
    try:
        for node in nodes:
            cluster.add_node(**small, **node, include_dashboard=False)
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


@contextlib.contextmanager
def slurm_everywhere(patch, **more):
    """Let ``engine("slurm")`` in this process be the real one, or without any the stand-in."""
    pytest.importorskip("submitit", reason="submitit is not installed")
    from nooch.base.engines import slurm as slurm_engine
    from nooch.base.engines.slurm import SlurmEngine

    # jobs here end sooner than those of a cluster
    for name, seconds in (("_PAUSE", 0.05), ("LOOK", 0.5), ("PATIENCE", 1.0)):
        patch.setattr(slurm_engine, name, seconds)
    started = []
    if REAL_SLURM:
        more = {"partition": "main", **more}
    else:
        from submitit.local import local

        start = local.start_controller

        def start_and_note(*arguments, **named):
            started.append(start(*arguments, **named))
            return started[-1]

        patch.setattr(local, "start_controller", start_and_note)
        more = {"cluster": "local", "array": 3, **more}

    def stand_in(_partition, logs=None, *, gpus=0):
        engine = SlurmEngine(logs=logs, gpus=gpus, **more)
        with contextlib.suppress(OSError):
            # the stand-in makes it before there is any job
            engine._folder.rmdir()
        return engine

    patch.setattr("nooch.base.engines.slurm.SlurmEngine", stand_in)
    yield
    for process in started:
        process.kill()
        process.wait(10)
