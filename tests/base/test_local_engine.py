"""Engines: results in order, errors at once, nothing left behind. A new engine is one row here."""

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import HANGS, has_ended, until
from work import asked_to_end, awkward, die, die_with_a_child, mark, who

from nooch.base.engines import LocalEngine, job_window as base
from nooch.base.errors import NoochError, ParameterError
from nooch.base.limits import usable_cpus


def none_left():
    """Wait until every worker has ended by itself."""
    until(lambda: not multiprocessing.active_children())
    return True


def both(function, folder, logs=None):
    """Results of two jobs in two processes, with their numbers and a folder."""
    return list(LocalEngine(2, logs).map(function, [(0, folder), (1, folder)]))


def test_processes_are_several_and_gone_afterwards():
    pids = set(LocalEngine(2).map(who, range(4)))
    assert len(pids) == 2
    assert os.getpid() not in pids
    assert none_left()


def test_abandoned_work_is_ended():
    results = LocalEngine(2).map(who, range(8))
    next(iter(results))
    results.close()
    assert none_left()
    # also if no result was asked for
    results = LocalEngine(2).map(who, range(8))
    del results
    assert none_left()


def test_workers_do_not_wait_for_the_driver(tmp_path):
    results = LocalEngine(2).map(mark, [tmp_path / str(number) for number in range(8)])
    until(lambda: len(list(tmp_path.iterdir())) == 8)
    assert list(results) == [str(number) for number in range(8)]


def test_what_cannot_travel():
    engine, unpicklable = LocalEngine(2), (AttributeError, TypeError, pickle.PicklingError)
    with pytest.raises(NoochError, match="Awkward: this and that"):
        list(engine.map(awkward, [0, 1]))
    with pytest.raises(unpicklable, match="lambda"):
        list(engine.map(awkward, [0, 2]))
    with pytest.raises(unpicklable, match="lambda"):
        list(engine.map(lambda x: x, [0, 2]))
    with pytest.raises(SystemExit):
        list(engine.map(awkward, [0, 3]))
    # more than a pipe holds, both ways
    large = [bytes(3_000_000), bytes(2_000_000), bytes(1_000_000)]
    assert list(LocalEngine(2).map(bytes, large)) == large
    assert none_left()


def test_a_worker_that_leaves_a_child_behind_is_missed_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(base, "WAIT", 0.01)
    assert both(die_with_a_child, tmp_path) == ["done"] * 2
    # not only when the child has ended, too
    child = int((tmp_path / "child").read_text())
    assert not has_ended(child)
    os.kill(child, signal.SIGKILL)


def test_a_worker_that_is_asked_to_end_loses_its_job_to_another(tmp_path, monkeypatch):
    monkeypatch.setattr(base, "WAIT", 0.01)
    logs = tmp_path / "logs"
    logs.mkdir()
    assert both(asked_to_end, tmp_path, logs) == ["done"] * 2
    assert sum("interrupted" in file.read_text() for file in logs.iterdir()) == 1


def test_control_characters_are_spelled_out_in_logs(tmp_path):
    assert list(LocalEngine(1, tmp_path).map(print, ["\x1b[2Jcar\u202e"])) == [None]
    (log,) = tmp_path.iterdir()
    assert "\x1b" not in log.read_text()
    assert "car" in log.read_text()
    assert "\u202e" not in log.read_text()


DRIVER = """
import sys
from pathlib import Path
from work import leave_after_the_driver
from nooch.base.engines import LocalEngine
if __name__ == "__main__":
    folders = [Path(word) for word in sys.argv[1:]]
    list(LocalEngine(2).map(leave_after_the_driver, folders))
"""


def test_workers_finish_their_way_out_when_a_signal_ends_the_driver_first(tmp_path):
    # the signal also ends the fork server, without which the driver cannot wait for its workers
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
    (tmp_path / "driver.py").write_text(DRIVER)
    words = [sys.executable, tmp_path / "driver.py", *folders]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    options = {"env": environment, "start_new_session": True, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(words, **options)

    def all_have(name):
        return all((folder / name).exists() for folder in folders)

    until(lambda: all_have("begun"), while_=lambda: process.poll() is None)
    os.killpg(process.pid, signal.SIGTERM)
    process.wait(timeout=HANGS)
    until(lambda: all_have("left"))


WARMING = """
import sys, time
from nooch.base.engines import LocalEngine
try:
    LocalEngine.warm("slow_to_import")
    time.sleep(300)
except KeyboardInterrupt:
    sys.exit(130)
"""


def test_an_interrupt_while_the_fork_server_imports_is_silent(tmp_path):
    """Ctrl-C reaches all processes of the terminal."""
    ready = tmp_path / "ready"
    lines = "import pathlib, time", f"pathlib.Path({str(ready)!r}).touch()", "time.sleep(2)"
    (tmp_path / "slow_to_import.py").write_text("\n".join(lines))
    process = subprocess.Popen(
        [sys.executable, "-c", WARMING],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    until(ready.is_file, while_=lambda: process.poll() is None)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=HANGS)
    assert (process.returncode, said) == (130, b"")


def test_workers_that_cannot_start_are_an_error(tmp_path):
    # without the guard of multiprocessing, each worker would start workers
    script = tmp_path / "unguarded.py"
    script.write_text(
        "from nooch.base.engines import LocalEngine, job_window\njob_window.WAIT = 0.01\n"
        "list(LocalEngine(2).map(abs, [1, 2]))"
    )
    command = [sys.executable, script]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=HANGS)
    assert done.returncode == 1
    assert "was lost 4 times" in done.stderr


def test_a_worker_that_is_killed_gives_an_error_with_a_remedy(monkeypatch):
    monkeypatch.setattr(base, "WAIT", 0.01)
    with pytest.raises(NoochError, match=r"killed[\s\S]*`processes`"):
        list(LocalEngine(2).map(die, range(2)))


def test_no_process_is_refused():
    with pytest.raises(ParameterError, match="0 processes"):
        LocalEngine(0)
    assert issubclass(ParameterError, NoochError)


def test_jobs_share_the_cpus():
    assert LocalEngine(1).threads == usable_cpus()
    assert LocalEngine(usable_cpus()).threads == 1
    assert LocalEngine(4 * usable_cpus()).threads == 1


def test_a_job_of_a_bench_uses_the_cpus_that_it_was_given(tmp_path):
    import torch
    from small_world import make_world

    from nooch.training.bench.config import read_config
    from nooch.training.bench.run import PlanSource, bench

    make_world(tmp_path, epochs=1)
    config = read_config(tmp_path / "bench.yaml", "probe")
    used = []

    def plan():
        used.append(torch.get_num_threads())
        source = PlanSource(tmp_path / "dataset", tmp_path / "suite", config, embedding="made")
        return source.plan("cpu")

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        bench(plan(), tmp_path / "runs", map=map, again=plan, threads=1)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert used[0] == 2
    assert set(used[1:]) == {1}
