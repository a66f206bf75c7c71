"""Every engine, undisturbed and with killed workers: local, a Ray cluster of two nodes on this
machine, and a stand-in for Slurm. The engine alone changes, the results and bytes do not.
"""

import os
import re
import shutil
import signal
import sys
import threading
import tracemalloc
from itertools import count

import pytest
from clusters import ray_cluster, slurm_everywhere
from commands import completed
from refusals import fails
from small_world import N_JOBS, bench_command, contents, make_world, small_dataset
from waiting import HANGS, until
from work import alone_on_its_node, die, die_once, printing, square

from nooch.base.engines import (
    ENGINES,
    LocalEngine,
    engine,
    job_window as base,
    slurm as slurm_engine,
)
from nooch.base.errors import InputError, MissingExtraError, NoochError, OutputError, ParameterError
from nooch.data import divide, save_dataset
from nooch.training.bench.config import read_config
from nooch.training.bench.run import PlanSource, status, train_pass
from nooch.training.records import RunsFolder


@pytest.fixture(scope="module")
def cluster():
    """Two nodes: one takes a job, the other takes two."""
    with ray_cluster({"num_cpus": 1, "num_gpus": 1}, {"num_cpus": 2, "num_gpus": 2}) as made:
        yield made


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    with slurm_everywhere(monkeypatch):
        yield engine("slurm", tmp_path)


@pytest.fixture(params=["local:2", *(name for name in ENGINES if name != "local")])
def flag(request, monkeypatch):
    """What ``--engine`` is given."""
    monkeypatch.setattr(base, "WAIT", 0.01)
    if request.param == "slurm":
        request.getfixturevalue("slurm")
    if request.param == "ray":
        return f"ray:{request.getfixturevalue('cluster').address}"
    return request.param


@pytest.fixture
def any_engine(flag, tmp_path):
    return engine(flag, tmp_path)


# every engine: a new one is a row of ENGINES


@pytest.mark.parametrize(
    "flag", ["local:1", "local:2", *(name for name in ENGINES if name != "local")], indirect=True
)
def test_results_come_in_order_errors_whole_and_every_job_has_its_log(any_engine, tmp_path):
    # Slurm gets an array and a single job
    assert list(any_engine.map(square, range(4))) == [x * x for x in range(4)]
    assert list(any_engine.map(square, [])) == []
    # what submitit leaves
    assert not list(tmp_path.rglob("*.pkl"))
    for log in tmp_path.glob("job-*.log"):
        log.unlink()
    with pytest.raises(InputError) as caught:
        list(any_engine.map(printing, [0, 1]))
    assert str(caught.value) == "record 1: is broken\n  allowed: others\n  remedy: fix it"
    assert (caught.value.where, caught.value.remedy) == ("record 1", "fix it")
    first, second = ((tmp_path / f"job-{number:07d}.log").read_text() for number in range(2))
    assert "working on 0\n" in first
    assert first.endswith("done\n")
    assert "InputError: record 1: is broken" in second
    assert second.endswith("failed\n")


def test_a_worker_that_is_killed_loses_only_its_job(any_engine, tmp_path):
    jobs = [(number, tmp_path) for number in range(4)]
    assert list(any_engine.map(die_once, jobs)) == [number * 10 for number in range(4)]
    begun = (tmp_path / "begun").read_text().split()
    assert sorted(begun) == ["0", "1", "2", "2", "3"]


def test_a_job_whose_worker_always_dies_is_given_up(any_engine, monkeypatch):
    monkeypatch.setattr(base, "RETRIES", 1)
    parts = ("of job", "was lost 2 times")
    fails(lambda: list(any_engine.map(die, range(2))), *parts, kind=NoochError)


N_PASSES = 2


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return make_world(tmp_path_factory.mktemp("world"), epochs=30, heads=N_JOBS // N_PASSES)


@pytest.fixture(scope="module")
def undisturbed(world, tmp_path_factory):
    """The runs without an engine."""
    out = tmp_path_factory.mktemp("undisturbed") / "runs"
    completed(bench_command(world, out))
    return contents(out)


_DONE = re.compile(r" done$", re.MULTILINE)


class Watcher(threading.Thread):
    """Looks at a folder of runs all the time; once an epoch was kept, kills a worker that is at a
    pass.
    """

    def __init__(self, out):
        super().__init__(daemon=True)
        self.out, self.facts, self.killed, self.over = out, [], None, threading.Event()

    def run(self):
        for tick in count():
            # a look at all runs takes longer than one for a worker to kill
            if tick % 10 == 0 and (self.out / "runs.json").exists():
                runs = RunsFolder.open(self.out)
                before = len(runs.done())
                self.facts.append((before, status(runs), len(runs.done())))
            if self.killed is None and list((self.out / "passes").glob("*.npz")):
                self.killed = next(filter(self._kill, self._at_work()), None)
            if self.over.wait(0.01):
                break

    def _at_work(self):
        return sorted(self.out.with_name(f"{self.out.name}-logs").glob("job-*.log"))

    def _kill(self, log):
        """Kill the worker of this job, unless the job has ended."""
        processes = re.findall(r"process (\d+)", log.read_text())
        if not processes or _DONE.search(log.read_text()):
            return False
        process = int(processes[-1])
        # stopped, it cannot end the job meanwhile
        os.kill(process, signal.SIGSTOP)
        ended = _DONE.search(log.read_text())
        os.kill(process, signal.SIGCONT if ended else signal.SIGKILL)
        return not ended


def test_a_bench_whose_worker_is_killed(flag, world, undisturbed, run_cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    watcher = Watcher(tmp_path / "runs")
    watcher.start()
    done = run_cli(bench_command(world, "runs", f"--engine {flag}"))
    watcher.over.set()
    watcher.join()
    assert done.code == 0, done.err
    assert contents(tmp_path / "runs") == undisturbed
    assert watcher.killed
    logs = sorted((tmp_path / "runs-logs").glob("job-*.log"))
    assert len(logs) == N_PASSES
    # the one that was killed is begun twice, the others once
    assert sorted(log.read_text().count("began") for log in logs) == [1] * (N_PASSES - 1) + [2]
    # what nooch train status says while it runs is so, and never goes back
    assert all(before <= facts["done"] <= after for before, facts, after in watcher.facts)
    counts = [facts["done"] for _, facts, _ in watcher.facts]
    assert counts == sorted(counts)
    for number in range(N_PASSES):
        epochs = [facts["passes"][number]["epochs"] for _, facts, _ in watcher.facts]
        known = [epoch for epoch in epochs if epoch is not None]
        assert known == sorted(known)
    final = run_cli("train status runs --format json").json
    assert (final["done"], final["jobs"]) == (N_JOBS, N_JOBS)


@pytest.mark.parametrize("flag", ["ray"], indirect=True)
def test_a_find_in_parts(flag, run_cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_dataset(divide(small_dataset(), 3), tmp_path / "parts")
    words = "find parts --tasks car,bowl --alpha 0.001 --out"
    run_cli(f"{words} here").ok()
    run_cli(f"{words} there --engine {flag}").ok()
    assert contents(tmp_path / "there") == contents(tmp_path / "here")


def test_a_job_that_an_earlier_bench_has_left_in_the_queue(
    world, undisturbed, run_cli, tmp_path, monkeypatch
):
    """It trains a pass while the bench is begun again: that one waits for it, and trains the
    others.
    """
    out = tmp_path / "runs"
    config = read_config(world / "bench.yaml", "probe")
    plan = PlanSource(world / "dataset", world / "suite", config, embedding="made").plan("cpu")
    runs = RunsFolder.begin(out, plan.header)
    told, going = [], threading.Event()

    def bench_again():
        assert going.wait(HANGS)
        told.append(run_cli(bench_command(world, out, "--engine local:2")))

    def progress(_what, done, _total):
        going.set()
        log = tmp_path / "runs-logs" / "job-0000000.log"
        until(lambda: done or (log.exists() and "waiting" in log.read_text()))

    other = threading.Thread(target=bench_again)
    other.start()
    train_pass(lambda: plan, runs, 0, print, progress)
    other.join(HANGS)
    assert told[0].code == 0, told[0].err
    assert contents(out) == undisturbed
    assert (
        "pass 1: another process trains this pass: waiting for it"
        in (tmp_path / "runs-logs" / "job-0000000.log").read_text()
    )


# one engine


def test_gpus_of_a_ray_cluster(cluster, tmp_path):
    address = f"ray:{cluster.address}"
    assert engine(address).gpu_count() == 3
    # Ray starts a process for each job on a GPU
    seen = list(engine(address, gpus=1).map(alone_on_its_node, [tmp_path] * 5))
    assert len({node for node, _ in seen}) == 2
    assert {gpu for _, gpu in seen} == {"0", "1"}
    # the nodes have three, but none of them has: Ray would wait forever
    parts = ("none of the cluster's 2 nodes", "2 GPUs")
    fails(lambda: list(engine(address, gpus=3).map(abs, [1])), *parts, kind=NoochError)


def test_a_ray_cluster_without_a_cpu_for_a_job(cluster, monkeypatch):
    made = engine(f"ray:{cluster.address}")
    made.gpu_count()
    nodes = made._ray.nodes()
    for node in nodes:
        # as Ray lists nodes that were started with --num-cpus=0
        del node["Resources"]["CPU"]
    monkeypatch.setattr("ray.nodes", lambda: nodes)
    fails(lambda: made.map(abs, [1]), "none of the cluster's 2 nodes has a CPU", kind=NoochError)


def test_a_node_that_is_lost_loses_only_its_jobs(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(base, "WAIT", 0.01)
    node = cluster.add_node(num_cpus=2, object_store_memory=80 << 20, node_ip_address="127.0.0.2")
    results = engine(f"ray:{cluster.address}", tmp_path).map(square, range(60))
    taken = [next(results) for _ in range(5)]
    cluster.remove_node(node, allow_graceful=False)
    assert taken + list(results) == [x * x for x in range(60)]


def test_items_are_taken_as_results_are_fetched():
    taken = []

    def items():
        for number in range(1000):
            taken.append(number)
            yield number

    results = LocalEngine(2).map(abs, items())
    assert len(taken) <= 8
    assert next(results) == 0
    assert len(taken) <= 9
    assert list(results) == list(range(1, 1000))


def test_the_drivers_memory_does_not_grow_with_the_number_of_jobs():
    def peak(n):
        tracemalloc.start()
        for _ in LocalEngine(2).map(bytes, (10_000 for _ in range(n))):
            pass
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    peak(10)
    assert peak(2000) < 2 * peak(200)


def test_what_is_no_engine_is_refused(tmp_path, monkeypatch):
    fails(lambda: engine("local:many"), "`engine` local:many", kind=ParameterError)
    (tmp_path / "file").touch()
    logs = tmp_path / "file" / "logs"
    fails(lambda: engine("local", logs), "cannot write", kind=OutputError, helps=False)
    for package, name in (("ray", "ray"), ("submitit", "slurm")):
        monkeypatch.setitem(sys.modules, package, None)
        line = f"pip install 'nooch[{name}]'"
        fails(lambda name=name: engine(name), line, kind=MissingExtraError)


def test_a_missing_cluster_is_reported():
    pytest.importorskip("submitit", reason="submitit is not installed")
    if shutil.which("srun"):
        pytest.skip("there is a Slurm here")
    # the remedy is one of commands and functions that take an engine by name
    with pytest.raises(NoochError, match="Slurm is not installed here"):
        engine("slurm")


def test_cpus_of_a_job(tmp_path):
    pytest.importorskip("submitit", reason="submitit is not installed")
    assert slurm_engine.SlurmEngine(logs=tmp_path, cluster="local", cpus=2).threads == 2
