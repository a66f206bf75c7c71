"""The process that hands out jobs is killed again and again: what is done stays done, and the end
is that of an undisturbed run.

NOOCH_TEST_KILLS=30 kills more often; NOOCH_TEST_SEED=1 at other moments.
"""

import json
import os
import re
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from commands import argv, completed
from own_criteria import LINES
from small_world import N_JOBS, bench_command, contents, make_world, small_dataset
from waiting import HANGS, has_ended, until

from nooch.data import divide, save_dataset

KILLS = int(os.environ.get("NOOCH_TEST_KILLS", "2"))
SEED = int(os.environ.get("NOOCH_TEST_SEED", "0"))
TESTS = str(Path(__file__).parents[1])
SHARDS = 8 * KILLS


def killed_until_done(words, out, finished, environment, within, check):
    """Run a command and kill it, or all of its group, some moments after something more was
    finished; then let it end.

    Returns how often it was killed. ``check`` is called after each kill with what was finished by
    then.
    """
    random, kills = np.random.default_rng(SEED), 0
    while kills < KILLS and not out.exists():
        before = finished()
        process = subprocess.Popen(
            words, env=environment, start_new_session=True, stderr=subprocess.DEVNULL
        )
        until(
            lambda before=before: finished() != before,
            while_=lambda p=process: p.poll() is None,
            every=0.002,
        )
        time.sleep(float(random.uniform(0, within)))
        if process.poll() is not None:
            assert process.returncode == 0
            break
        if kills % 2:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            os.kill(process.pid, signal.SIGKILL)
        process.wait()
        kills += 1
        check(finished())
    if not out.exists():
        # at once: workers of the last one may just be ending
        subprocess.run(words, env=environment, check=True, capture_output=True, timeout=HANGS)
    print(f"killed {kills} times")  # noqa: T201
    return kills


def stamps(folder, *patterns):
    """Files that say that something is done, with when they were written."""
    found = {}
    for pattern in patterns:
        for file in folder.glob(pattern):
            try:
                status = file.stat()
            except FileNotFoundError:
                continue
            found[file.parent.name, file.name] = (status.st_mtime_ns, status.st_ino)
    return found


def kept_every_time():
    """A check that nothing which was finished is ever written again, or gone."""
    seen = {}

    def check(finished):
        assert {key: finished.get(key) for key in seen} == seen
        seen.update(finished)

    return seen, check


def test_a_find_in_parts(tmp_path, monkeypatch):
    save_dataset(divide(small_dataset(16 * SHARDS), SHARDS), tmp_path / "parts")
    find = f"find {tmp_path / 'parts'} --criterion own_criteria:Counted --tasks car,bowl"
    lines = {name: tmp_path / f"{name}.txt" for name in ("undisturbed", "killed")}
    environment = {**os.environ, LINES: str(lines["killed"]), "PYTHONPATH": TESTS}
    (tmp_path / "undisturbed").mkdir()
    monkeypatch.setenv(LINES, str(lines["undisturbed"]))
    completed(f"{find} --out {tmp_path / 'undisturbed' / 'suite'}")
    shards = Counter(lines["undisturbed"].read_text().split())
    assert len(shards) == SHARDS

    def finished():
        patterns = "summing-*/shard-*.msgpack finding-*/shard-*.images.arrow"
        return stamps(tmp_path / "killed", *(f".suite.{pattern}" for pattern in patterns.split()))

    done, measured = [], []
    seen, kept = kept_every_time()

    def check(now):
        kept(now)
        done.append({int(file[6:13]) for _, file in now if file.endswith(".images.arrow")})
        measured.append(len(lines["killed"].read_text().split()) if lines["killed"].exists() else 0)

    (tmp_path / "killed").mkdir()
    suite = tmp_path / "killed" / "suite"
    again = argv(f"{find} --engine local:2 --out {suite}")
    assert killed_until_done(again, suite, finished, environment, 0.2, check)
    assert contents(suite) == contents(tmp_path / "undisturbed" / "suite")
    assert {path.name for path in (tmp_path / "killed").iterdir()} == {"suite", "suite-logs"}
    # a part that was finished at a kill is in no later line, and every part is in some line
    written = lines["killed"].read_text().split()
    first = sorted(shards, key=int)
    assert set(written) == set(shards)
    for finished_then, length in zip(done, measured, strict=True):
        assert not {first[number] for number in finished_then} & set(written[length:])
    assert seen


def test_a_bench(tmp_path):
    world = make_world(tmp_path, epochs=4 * KILLS)
    words = argv(bench_command(world, "runs", "--engine local:2"))
    completed(bench_command(world, "undisturbed"))

    def finished():
        return stamps(tmp_path / "runs", "jobs/[!.]*/done")

    def progress():
        return finished() | stamps(tmp_path / "runs", "passes/*.npz")

    _, kept = kept_every_time()
    nothing = tmp_path / "nothing"
    assert killed_until_done(words, nothing, progress, None, 0.1, lambda _now: kept(finished()))
    kept(finished())
    assert len(finished()) == N_JOBS
    assert contents(tmp_path / "runs") == contents(tmp_path / "undisturbed")
    # an epoch whose state was kept is not trained again
    timings = (tmp_path / "runs" / "timings.jsonl").read_text().splitlines()
    lines = [json.loads(line) for line in timings]
    epochs = Counter((line["of_pass"], line["epoch"]) for line in lines)
    assert max(epochs.values()) == 1


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_bench_ends_soon_and_goes_on(tmp_path, stop):
    world = make_world(tmp_path, epochs=4000)
    words = argv(bench_command(world, "runs", "--engine local:2"))
    process = subprocess.Popen(words, stderr=subprocess.DEVNULL, start_new_session=True)
    until(
        lambda: list((tmp_path / "runs" / "passes").glob("*.npz")),
        while_=lambda: process.poll() is None,
    )
    assert process.poll() is None
    os.killpg(process.pid, stop)
    assert process.wait(timeout=HANGS) in {130, 143}
    # soon: long before all epochs are done
    assert list((tmp_path / "runs" / "passes").glob("*.npz"))
    logs = [log.read_text() for log in (tmp_path / "runs-logs").glob("job-*.log")]
    # the signal may have ended the fork server, too: then nobody waits for the workers
    until(
        lambda: all(
            has_ended(int(worker)) for log in logs for worker in re.findall(r"process (\d+)", log)
        )
    )
    # the one that had an epoch; another may just have been loading what it needs
    logs = [log.read_text() for log in (tmp_path / "runs-logs").glob("job-*.log")]
    assert any("interrupted" in log for log in logs)
    assert not list((tmp_path / "runs").rglob("*.partial-*"))
