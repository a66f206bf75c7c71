"""What only a real Slurm does: preempt, requeue, time out, cancel. Run by ``make test-slurm``."""

import json
import os
import signal
import subprocess
import threading
import time
from collections import Counter

import pytest
from clusters import REAL_SLURM, slurm_everywhere
from commands import argv, completed
from small_world import bench_command, contents, make_world
from waiting import until
from work import count_up, gpu_for_a_while

from nooch.base.engines import engine, job_window as base, slurm
from nooch.base.engines.slurm import SlurmEngine
from nooch.training.records import RunsFolder

UNSET = "NOOCH_TEST_SLURM is not set: make test-slurm"
pytestmark = pytest.mark.skipif(not REAL_SLURM, reason=UNSET)

TWO_PASSES = "--set heads=12"


def asked(*words):
    return subprocess.run(words, check=False, capture_output=True, text=True).stdout


def hasten():
    """Start requeued jobs, which Slurm lets wait for two minutes."""
    for job in asked("squeue", "-h", "-r", "-t", "PD", "-o", "%i").split():
        asked("scontrol", "update", f"JobId={job}", "StartTime=now")


class Meanwhile(threading.Thread):
    """Acts once, when the first pass has saved an epoch; hastens the queue all the time."""

    def __init__(self, out, act):
        super().__init__(daemon=True)
        self.out, self.act, self.acted, self.over = out, act, False, threading.Event()

    def run(self):
        while not self.over.wait(0.2 if self.acted else 0.02):
            if self.acted:
                hasten()
            elif (self.out / "runs.json").exists():
                runs = RunsFolder.open(self.out)
                if runs.progress_of(runs.header.passes[0]) is not None:
                    self.act()
                    self.acted = True


def first_job():
    """The number of the running job that trains the first pass."""
    running = asked("squeue", "-h", "-r", "-t", "R", "-o", "%i").split()
    return next(job for job in running if job.endswith("_0"))


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(base, "WAIT", 0.01)
    monkeypatch.setattr(slurm, "LOOK", 0.5)
    monkeypatch.setattr(slurm, "PATIENCE", 2.0)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return make_world(tmp_path_factory.mktemp("world"), epochs=1500)


@pytest.fixture(scope="module")
def undisturbed(world, tmp_path_factory):
    out = tmp_path_factory.mktemp("undisturbed") / "runs"
    completed(bench_command(world, out, TWO_PASSES))
    return contents(out)


def epochs_of(out):
    lines = [json.loads(line) for line in (out / "timings.jsonl").read_text().splitlines()]
    return Counter((line["of_pass"], line["epoch"]) for line in lines)


def lose_the_node():
    """It is down, and comes back when its processes have ended."""
    node = f"NodeName={asked('hostname', '-s').strip()}"
    asked("scontrol", "update", node, "State=DOWN", "Reason=test")
    until(lambda: not asked("pgrep", "slurmstepd"), every=0.1)
    asked("scontrol", "update", node, "State=RESUME")


LOST = "its node is down, and comes back"
ACTS = {
    "the signal that precedes preemption": lambda: asked("scancel", "--signal=USR2", first_job()),
    "put back into the queue": lambda: asked("scontrol", "requeue", first_job()),
    "canceled": lambda: asked("scancel", first_job()),
    LOST: lose_the_node,
}


@pytest.mark.parametrize("act", ACTS)
def test_a_bench_resumes_from_its_epoch(act, world, undisturbed, run_cli, tmp_path, monkeypatch):
    out = tmp_path / "runs"
    meanwhile = Meanwhile(out, ACTS[act])
    meanwhile.start()
    with slurm_everywhere(monkeypatch):
        done = run_cli(bench_command(world, out, f"{TWO_PASSES} --engine slurm"))
    meanwhile.over.set()
    meanwhile.join()
    assert done.code == 0, done.err
    assert meanwhile.acted
    assert contents(out) == undisturbed
    assert max(epochs_of(out).values()) == 1
    logs = sorted((tmp_path / "runs-logs").glob("job-*.log"))
    assert [log.read_text().count("began") for log in logs] == [2, 2 if act == LOST else 1]


def test_a_driver_that_is_killed_leaves_jobs_that_do_no_harm(world, undisturbed, tmp_path):
    out = tmp_path / "runs"
    words = argv(bench_command(world, out, f"{TWO_PASSES} --engine slurm:main"))
    driver = subprocess.Popen(words, stderr=subprocess.DEVNULL, start_new_session=True)
    deadline = time.monotonic() + 120
    while not list((out / "passes").glob("*.npz")) and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(driver.pid, signal.SIGKILL)
    driver.wait()
    left = len(asked("squeue", "-h", "-r", "-o", "%i").split())
    again = subprocess.run(words, check=False, capture_output=True, text=True, timeout=300)
    assert again.returncode == 0, again.stderr
    assert left
    assert contents(out) == undisturbed
    assert max(epochs_of(out).values()) == 1
    subprocess.run(["scancel", "--name=nooch"], check=True)


def test_a_job_that_runs_out_of_time_resumes(tmp_path):
    made = SlurmEngine("main", tmp_path, minutes=1, more={"slurm_signal_delay_s": 20})
    over = threading.Event()

    def hurry():
        while not over.wait(0.5):
            hasten()

    threading.Thread(target=hurry, daemon=True).start()
    assert list(made.map(count_up, [(tmp_path / "lines", 90)])) == [90]
    over.set()
    # every half second once, on both sides of the minute
    assert (tmp_path / "lines").read_text().split() == [str(number) for number in range(90)]
    log = (tmp_path / "job-0000000.log").read_text()
    # a slow machine may need a third minute
    assert log.count("began") == log.count("interrupted") + 1 >= 2


def test_each_job_has_its_gpu(tmp_path):
    assert SlurmEngine("main", tmp_path).gpu_count() == 2
    seen = list(engine("slurm:main", tmp_path, gpus=1).map(gpu_for_a_while, [tmp_path] * 5))
    assert set(seen) == {"0", "1"}
    with pytest.raises(Exception, match="Slurm rejects the jobs"):
        list(engine("slurm:main", tmp_path, gpus=3).map(gpu_for_a_while, [tmp_path] * 2))
    assert SlurmEngine("main", tmp_path).array == 200
