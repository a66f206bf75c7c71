"""The engine tests on a Ray cluster of two nodes on this machine, and on a stand-in for Slurm."""

import shutil
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from clusters import ray_cluster, slurm_everywhere
from oracles import dataset_of
from refusals import fails
from work import alone_on_its_node, die, die_once, printing, refuse, square

from nooch.base.engines import (
    ENGINES,
    LocalEngine,
    engine,
    job_window as base,
    slurm as slurm_engine,
)
from nooch.base.errors import InputError, MissingExtraError, NoochError, OutputError, ParameterError
from nooch.criteria import CE
from nooch.data import divide, open_dataset, save_dataset
from nooch.suites import save_suite
from nooch.suites.find import find


@pytest.fixture(scope="module")
def cluster():
    """Two nodes: one takes a job, the other takes two."""
    with ray_cluster({"num_cpus": 1, "num_gpus": 1}, {"num_cpus": 2, "num_gpus": 2}) as made:
        yield made


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    with slurm_everywhere(monkeypatch):
        yield engine("slurm", tmp_path)


@pytest.fixture(params=ENGINES)
def any_engine(request, tmp_path, monkeypatch):
    monkeypatch.setattr(base, "WAIT", 0.01)
    if request.param == "ray":
        return engine(f"ray:{request.getfixturevalue('cluster').address}", tmp_path)
    if request.param == "slurm":
        return request.getfixturevalue("slurm")
    return engine("local:2", tmp_path)


def test_results_come_in_the_order_of_items(any_engine):
    # Slurm gets an array and a single job
    assert list(any_engine.map(square, range(4))) == [x * x for x in range(4)]
    assert list(any_engine.map(square, [])) == []


def test_an_error_arrives_whole_and_every_job_has_its_log(any_engine, tmp_path):
    with pytest.raises(InputError) as caught:
        list(any_engine.map(printing, [0, 1]))
    assert str(caught.value) == "record 1: is broken\n  allowed: others\n  remedy: fix it"
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


def test_a_sharded_find_gives_the_same_bytes(any_engine, tmp_path):
    random = np.random.default_rng(0)
    classes = ["Y", "A", "B"]
    draws = ({c: random.random() / 3 for c in classes if random.random() < 0.5} for _ in range(200))
    images = list(draws)
    data = dataset_of(images, classes, random.choice(["train", "valid", "test"], 200).tolist())
    save_suite(find(data, {"ce": CE(0.001)}), tmp_path / "whole")
    save_dataset(divide(data, 3), tmp_path / "parts")
    parts = open_dataset(tmp_path / "parts")
    find(parts, {"ce": CE(0.001)}, out=tmp_path / "suite", map=any_engine.map)
    files = [tmp_path / name / "challenge_sets.parquet" for name in ("whole", "suite")]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_gpus_of_a_ray_cluster(cluster, tmp_path):
    address = f"ray:{cluster.address}"
    assert engine(address).gpus_there() == 3
    # Ray starts a process for each job on a GPU
    seen = list(engine(address, gpus=1).map(alone_on_its_node, [tmp_path] * 5))
    assert len({node for node, _ in seen}) == 2
    assert {gpu for _, gpu in seen} == {"0", "1"}
    # the nodes have three, but none of them has: Ray would wait forever
    parts = ("none of the cluster's 2 nodes", "2 GPUs")
    fails(lambda: list(engine(address, gpus=3).map(abs, [1])), *parts, kind=NoochError)


def test_a_ray_cluster_without_a_cpu_for_a_job(cluster, monkeypatch):
    made = engine(f"ray:{cluster.address}")
    made.gpus_there()
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
    fails(lambda: engine("condor"), "'condor' is no engine", kind=ParameterError)
    fails(lambda: engine("local:many"), "`engine` local:many", kind=ParameterError)
    fails(lambda: engine("local:0"), "0 processes", kind=ParameterError)
    (tmp_path / "file").touch()
    logs = tmp_path / "file" / "logs"
    fails(lambda: engine("local", logs), "cannot be made", kind=OutputError, helps=False)
    for package, name in (("ray", "ray"), ("submitit", "slurm")):
        monkeypatch.setitem(sys.modules, package, None)
        line = f"pip install 'nooch[{name}]'"
        fails(lambda name=name: engine(name), line, kind=MissingExtraError)


def test_a_missing_cluster_is_reported():
    pytest.importorskip("submitit", reason="submitit is not installed")
    if shutil.which("srun"):
        pytest.skip("there is a Slurm here")
    fails(lambda: engine("slurm"), "there is no Slurm here", kind=NoochError)


def test_cpus_of_a_job(tmp_path):
    pytest.importorskip("submitit", reason="submitit is not installed")
    assert slurm_engine.SlurmEngine(logs=tmp_path, cluster="local", cpus=2).threads == 2


def test_submitit_leaves_logs_alone(slurm, tmp_path):
    assert list(slurm.map(refuse, [0, 0])) == [0] * 2
    left = {path.suffix for path in Path(tmp_path / "submitit").rglob("*") if path.is_file()}
    assert ".pkl" not in left
