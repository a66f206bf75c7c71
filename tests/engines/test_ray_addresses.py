"""Which Ray cluster is used, and that there is none is told soon: Ray itself would try for a
quarter of an hour.
"""

import os
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from clusters import ray_cluster
from refusals import fails
from waiting import HANGS

from nooch.engines import engine
from nooch.errors import NoochError

ray = pytest.importorskip("ray", reason="ray is not installed")

WAITED = "RAY_gcs_server_port_wait_time_s"
SQUARES = """
import sys
from nooch.engines import engine
if __name__ == "__main__":
    print(list(engine(sys.argv[1]).map(abs, [-1, 2, -3])))
"""


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def test_nothing_listens(monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    address = f"127.0.0.1:{free_port()}"
    fails(
        lambda: engine(f"ray:{address}").map(abs, [1]),
        address,
        "cannot connect to Ray",
        "ray start",
        kind=NoochError,
    )
    fails(lambda: engine(f"ray:{address}").gpus_there(), address, kind=NoochError)
    monkeypatch.setenv("RAY_ADDRESS", address)
    fails(lambda: engine("ray").map(abs, [1]), address, kind=NoochError)


def test_ray_tries_once_where_something_else_listens(monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.delenv(WAITED, raising=False)
    asked = []

    def init(**named):
        asked.append((named["address"], os.environ.get(WAITED)))
        raise ConnectionError("Failed to connect to Ray cluster")

    def given(text):
        made = engine(text)
        made._ray = SimpleNamespace(is_initialized=lambda: False, init=init)
        return made

    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        fails(
            lambda: given(f"ray:{address}").map(abs, [1]),
            address,
            "Failed to connect",
            kind=NoochError,
        )
    fails(lambda: given("ray:auto").map(abs, [1]), "auto", kind=NoochError)
    # one of its own takes the time that it takes
    fails(lambda: given("ray").map(abs, [1]), "Failed to connect", kind=NoochError)
    assert asked == [(address, "1"), ("auto", "1"), ("local", None)]
    assert WAITED not in os.environ


@pytest.mark.parametrize("token", [False, True])
def test_a_cluster_begun_by_hand_on_the_loopback_address(token, tmp_path):
    """Where the user has a token, one that ray.init has left say, the cluster asks for it."""
    home = {**os.environ, "HOME": str(tmp_path)}
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "RAY_ADDRESS"):
        home.pop(name, None)
    if token:
        (tmp_path / ".ray").mkdir()
        (tmp_path / ".ray" / "auth_token").write_text("0123456789abcdef" * 4)
    port = free_port()
    words = [
        "--head",
        "--block",
        "--node-ip-address=127.0.0.1",
        f"--port={port}",
        "--num-cpus=1",
        "--include-dashboard=0",
    ]
    words += [
        "--object-store-memory=80000000",
        "--disable-usage-stats",
        "--min-worker-port=0",
        "--max-worker-port=0",
    ]
    program = Path(sys.executable).with_name("ray")
    begun = subprocess.Popen(
        [program, "start", *words], env=home, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        done = subprocess.run(
            [sys.executable, "-c", _UNTIL_IT_LISTENS + SQUARES, f"ray:127.0.0.1:{port}"],
            check=False, capture_output=True, text=True, timeout=HANGS, env=home,
        )  # fmt: skip
        assert done.stdout.strip() == "[1, 2, 3]", done.stderr
        if token:
            refused = subprocess.run(
                [sys.executable, "-c", SQUARES, f"ray:127.0.0.1:{port}"],
                check=False, capture_output=True, text=True, timeout=HANGS, env={**home, "RAY_AUTH_MODE": "disabled"},
            )  # fmt: skip
            assert "the cluster asks for a token" in refused.stderr, refused.stderr
            assert "RAY_AUTH_MODE=token" in refused.stderr
    finally:
        begun.terminate()
        begun.wait(30)


_UNTIL_IT_LISTENS = """
import socket, sys, time
for _ in range(200):
    try:
        socket.create_connection(("127.0.0.1", int(sys.argv[1].rpartition(":")[2])), timeout=1).close()
        break
    except OSError:
        time.sleep(0.1)
time.sleep(1)
"""


def test_a_cluster_without_a_processor_for_a_job():
    with ray_cluster(1, num_cpus=0) as cluster:
        fails(
            lambda: engine(f"ray:{cluster.address}").map(abs, [1]),
            "none of the cluster's 1 nodes has a processor",
            kind=NoochError,
        )
