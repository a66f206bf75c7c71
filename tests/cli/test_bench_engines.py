"""A bench and a find on every engine, as a user types them: the flag alone changes, the bytes do
not, whoever is killed meanwhile.
"""

import json
import os
import re
import signal
import threading
from itertools import count

import numpy as np
import pytest
from clusters import ray_cluster, slurm_everywhere
from commands import completed
from pictures import CONFIG, picture_dataset
from refusals import fails
from small_world import N_JOBS, N_PASSES, bench_command, contents, make_world, small_dataset
from waiting import HANGS, until

from nooch.base.engines import ENGINES, job_window as base
from nooch.base.errors import OutputError
from nooch.criteria import CE
from nooch.data import divide, save_dataset
from nooch.suites.find import find
from nooch.training.bench import run as bench_run
from nooch.training.bench.config import read_config
from nooch.training.bench.plan import plan_finetune
from nooch.training.bench.run import PlanSource, planned_for, status, train_pass, training_device
from nooch.training.records import RunsFolder

pytest.importorskip("torch")


@pytest.fixture(scope="module")
def cluster():
    with ray_cluster({"num_cpus": 2}) as made:
        yield made


@pytest.fixture(params=ENGINES)
def flag(request, monkeypatch):
    """What ``--engine`` is given."""
    monkeypatch.setattr(base, "WAIT", 0.01)
    if request.param == "ray":
        yield f"ray:{request.getfixturevalue('cluster').address}"
    elif request.param == "slurm":
        with slurm_everywhere(monkeypatch):
            yield "slurm"
    else:
        yield "local:2"


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return make_world(tmp_path_factory.mktemp("world"), epochs=30)


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


def test_a_bench_whose_worker_is_killed(flag, world, undisturbed, run_cli, tmp_path):
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
    # what nooch status says while it runs is so, and never goes back
    assert all(before <= facts["done"] <= after for before, facts, after in watcher.facts)
    counts = [facts["done"] for _, facts, _ in watcher.facts]
    assert counts == sorted(counts)
    for number in range(N_PASSES):
        epochs = [facts["passes"][number]["epochs"] for _, facts, _ in watcher.facts]
        known = [epoch for epoch in epochs if epoch is not None]
        assert known == sorted(known)
    final = run_cli("status runs --format json").json
    assert (final["done"], final["jobs"]) == (N_JOBS, N_JOBS)


def test_a_find_in_parts(flag, run_cli, tmp_path):
    save_dataset(divide(small_dataset(), 3), tmp_path / "parts")
    words = "find parts --tasks car,bowl --alpha 0.001 --out"
    run_cli(f"{words} here").ok()
    run_cli(f"{words} there --engine {flag}").ok()
    assert contents(tmp_path / "there") == contents(tmp_path / "here")


def test_two_that_train_the_same_runs(world, run_cli, tmp_path):
    run_cli(bench_command(world, "runs", "--set epochs=1")).ok()
    runs = RunsFolder.open(tmp_path / "runs")
    with runs.held():
        refused = run_cli(bench_command(world, "runs", "--set epochs=1"))
        fails(lambda: runs.held().__enter__(), "another process is training", kind=OutputError)
    assert refused.code == 2
    assert "another process is training these runs" in refused.err


def test_a_job_that_an_earlier_bench_has_left_in_the_queue(world, undisturbed, run_cli, tmp_path):
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


def test_gpus_are_asked_for_where_jobs_train_on_them(world, run_cli, tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,3")
    # this process needs none, and without CUDA the worker says so
    done = run_cli(bench_command(world, "runs", "--engine local --device cuda"))
    import torch

    if not torch.cuda.is_available():
        assert done.code == 2
        assert "there is no device 'cuda' here" in done.err
    # the first job's error may end the bench before a second worker has begun
    assert list((tmp_path / "runs-logs").glob("*.log"))
    other = bench_command(world, "other", "--engine")
    run_cli(f"{other} local --device cuda:1").refused("each job has a GPU to itself")
    run_cli(f"{other} local:3 --device cuda").refused("this process may use 2 (0, 3)")
    run_cli(f"{other} local --device cuda --dry-run --format json").ok()
    assert not (tmp_path / "other").exists()


def test_auto_takes_the_gpus_that_the_engine_has(monkeypatch):
    asked = []
    real = bench_run.engine_of
    monkeypatch.setattr(
        bench_run, "engine_of", lambda *a, **k: asked.append(k.get("gpus")) or real(*a, **k)
    )
    monkeypatch.setattr("torch.backends.cuda.is_built", lambda: True)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5")
    assert training_device("auto", "local") == "cuda"
    assert asked[-1] == 1
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert training_device("auto", "local") == "cpu"
    assert asked[-1] == 0


def test_a_plan_for_a_device_that_is_not_here(tmp_path):
    pytest.importorskip("transformers")
    data = picture_dataset(tmp_path, n_train=24, n_other=12)
    suite = find(data, {"ce": CE()}, tasks=["car"])
    (tmp_path / "small.json").write_text(json.dumps(CONFIG))
    config = read_config({"methods": ["erm"], "seeds": [0, 1]}, "finetune")
    pixels = _Pixels(np.zeros((len(data), 16, 16, 3), np.uint8))
    plan = plan_finetune(
        data, suite, pixels, f"config:{tmp_path / 'small.json'}", config, device="cpu"
    )
    there = planned_for(plan, config.settings, "cuda")
    assert there.header.data["backbone"] == {**plan.header.data["backbone"], "device": "cuda"}
    assert not set(there.jobs) & set(plan.jobs)
    assert [len(names) for names in there.header.passes] == [
        len(names) for names in plan.header.passes
    ]
    assert (
        {name for names in there.header.passes for name in names}
        == set(there.jobs)
        == set(there.header.jobs)
    )
    back = planned_for(there, config.settings, "cpu")
    assert (back.header, back.jobs) == (plan.header, plan.jobs)
    assert planned_for(plan, config.settings, "cpu") is plan


class _Pixels:
    def __init__(self, values):
        self.values, self.size, self.identity = values, values.shape[1:3], "made"

    def __len__(self):
        return len(self.values)
