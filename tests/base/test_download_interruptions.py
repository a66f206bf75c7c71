"""Downloads that are interrupted, killed, or run at the same time as others."""

import errno
import os
import signal
import subprocess
import sys
import threading

import msgspec
import pytest
from download_server import BODY, MARK, SIZE, endless, hows, left, remote
from refusals import fails
from waiting import HANGS, until

from nooch.base.download import Collection
from nooch.base.errors import DownloadError, OutputError

SCRIPT = """
import sys
import msgspec
from nooch.base.download import Collection
from nooch.base.http import Patience
import nooch.base.download as downloading

wanted = msgspec.json.decode(sys.argv[1].encode(), type=Collection)
downloading.collection = lambda *_, **__: wanted
if len(sys.argv) > 3:
    # in the middle of unpacking
    import pathlib, time
    import nooch.base.zips as unpacking
    ready = pathlib.Path(sys.argv[3])
    def wait():
        ready.touch()
        # a signal just before a sleep begins does not end it
        while True:
            time.sleep(0.05)
    unpacking.os.sync = wait
sys.argv = ["nooch", "download", "coco-stuff", sys.argv[2]]
from nooch.cli import main
main()
"""


@pytest.fixture
def started(root):
    """Start ``nooch download`` of these files in a process of its own."""
    running = []

    def start(*files, more=()):
        wanted = msgspec.json.encode(Collection(name="made-up", files=files)).decode()
        command = [sys.executable, "-c", SCRIPT, wanted, str(root), *more]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        running.append(process)
        return process

    yield start
    for process in running:
        process.kill()
        process.communicate()


def _until(condition, process):
    until(condition, while_=lambda: process.poll() is None)
    assert condition(), process.stderr.read().decode()


FIRST_BYTES = SIZE // 2


@pytest.fixture
def held():
    """An act that sends the first half, and the rest when ``held.event`` is set."""
    event = threading.Event()

    def act(handler, file):
        body = handler.begin(file)
        handler.send(body[:FIRST_BYTES])
        event.wait(HANGS)
        handler.send(body[FIRST_BYTES:])

    act.event = event
    yield act
    event.set()


CODES = {signal.SIGKILL: -9, signal.SIGINT: 130, signal.SIGTERM: 143}


@pytest.mark.parametrize("number", CODES)
def test_a_killed_download_continues_where_it_was(server, started, fetched, root, number, held):
    files = remote(server.put("/file.bin", BODY, held))
    process = started(files)
    partial = root / ".file.bin.partial"
    _until(lambda: partial.is_file() and partial.stat().st_size > 1_000_000, process)
    process.send_signal(number)
    out, err = process.communicate(timeout=HANGS)
    assert process.returncode == CODES[number]
    assert (out, b"Traceback" in err) == (b"", False)
    assert left(root) == [".file.bin.partial"]
    had = partial.stat().st_size
    process = started(files)
    out, err = process.communicate(timeout=HANGS)
    assert process.returncode == 0, err
    assert (root / "file.bin").read_bytes() == BODY
    assert left(root) == ["file.bin"]
    assert server.ranges() == [None, f"bytes={had}-"]
    # the second request sent the rest and nothing more
    assert server.sent <= FIRST_BYTES + SIZE - had


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_kill_while_unpacking_leaves_nothing_half(
    server, served_zip, started, fetched, root, number
):
    files = served_zip()
    process = started(files, more=[str(root.parent / "ready")])
    _until((root.parent / "ready").exists, process)
    process.send_signal(number)
    process.communicate(timeout=HANGS)
    # an interruption has tidied up, a kill could not
    assert left(root) == [".some.zip.unpacking"] * (number == signal.SIGKILL) + ["some.zip"]
    assert hows(fetched(files)) == ["there"]
    assert left(root) == [MARK, "annotations", "some.zip"]
    assert len(server.requests) == 1


def test_two_processes_at_once(server, started, fetched, root, held):
    files = remote(server.put("/file.bin", BODY, held))
    first = started(files)
    _until((root / ".file.bin.partial").is_file, first)
    second = started(files)
    _, err = second.communicate(timeout=HANGS)
    assert second.returncode == 2
    assert err.decode().startswith("error: ")
    assert "another process is downloading into this folder" in err.decode()
    parts = ("another process is downloading", "wait until it has ended")
    fails(lambda: fetched(files), *parts, kind=OutputError)
    held.event.set()
    first.communicate(timeout=HANGS)
    assert first.returncode == 0
    assert (root / "file.bin").read_bytes() == BODY
    assert hows(fetched(files)) == ["there"]


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_folder_that_cannot_be_locked(server, fetched, root, monkeypatch, number):
    def refuse(_file, _operation):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("fcntl.flock", refuse)
    files = remote(server.put("/file.bin", BODY))
    fails(lambda: fetched(files), "cannot be locked", kind=OutputError)
    assert server.requests == []
    # nor a soft lock, which a kill would leave
    assert not any(file.stat().st_size for file in root.iterdir())


def test_an_error_lets_go_of_the_folder(server, fetched, root):
    files = remote(server.put("/file.bin", BODY, always=endless))
    for _ in range(2):
        fails(lambda: fetched(files), "sends more than", kind=DownloadError)
    assert left(root) == []
