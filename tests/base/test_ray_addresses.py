"""Which Ray cluster is used, and how often Ray tries to reach it: by itself for 15 minutes."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from refusals import fails
from waiting import HANGS

from nooch.base.engines import engine
from nooch.base.errors import NoochError

ray = pytest.importorskip("ray", reason="ray is not installed")

WAITED = "RAY_gcs_server_port_wait_time_s"
SQUARES = """
import sys
from nooch.base.engines import engine
if __name__ == "__main__":
    print(list(engine(sys.argv[1]).map(abs, [-1, 2, -3])))
"""


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def test_ray_tries_once_to_reach_a_cluster(monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.delenv(WAITED, raising=False)
    asked = []

    def init(**named):
        asked.append((named["address"], os.environ.get(WAITED)))
        raise ConnectionError("Failed to connect to Ray cluster")

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", init)

    def refused(text, *parts):
        parts = ("cannot connect to Ray: Failed to connect", "ray start", *parts)
        fails(lambda: engine(text).map(abs, [1]), *parts, kind=NoochError)

    refused("ray:10.0.0.1:6379", "10.0.0.1:6379")
    refused("ray:auto", "auto")
    fails(lambda: engine("ray:auto").gpu_count(), "auto", kind=NoochError)
    # the start of its own cluster may take any time
    refused("ray")
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.2:6379")
    refused("ray", "10.0.0.2:6379")
    addresses = ["10.0.0.1:6379", "auto", "auto", "local", "10.0.0.2:6379"]
    assert asked == [(address, None if address == "local" else "1") for address in addresses]
    assert WAITED not in os.environ


def test_a_cluster_started_by_hand_on_the_loopback_address(tmp_path):
    """The user has a token, for example one that ray.init has left: the cluster asks for it."""
    home = {**os.environ, "HOME": str(tmp_path)}
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "RAY_ADDRESS"):
        home.pop(name, None)
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text("0123456789abcdef" * 4)
    port = free_port()
    options = "--head --block --num-cpus=1 --include-dashboard=0 --object-store-memory=80000000"
    options += " --no-monitor --include-log-monitor=false"
    options += " --disable-usage-stats --min-worker-port=0 --max-worker-port=0"
    words = [*options.split(), "--node-ip-address=127.0.0.1", f"--port={port}"]
    program = Path(sys.executable).with_name("ray")
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    started = subprocess.Popen([program, "start", *words], env=home, **quiet)

    def run(code, **more):
        captured = {"capture_output": True, "text": True, "timeout": HANGS, "env": home | more}
        words = [sys.executable, "-c", code, f"ray:127.0.0.1:{port}"]
        return subprocess.run(words, check=False, **captured)

    try:
        done = run(_UNTIL_IT_LISTENS + SQUARES, RAY_AUTH_MODE="token")
        assert done.stdout.strip() == "[1, 2, 3]", done.stderr
        refused = run(SQUARES)
        assert "cannot connect to Ray" in refused.stderr, refused.stderr
        assert "RAY_AUTH_MODE=token" in refused.stderr
    finally:
        started.terminate()
        started.wait(30)


_UNTIL_IT_LISTENS = """
import socket, sys, time
for _ in range(200):
    try:
        port = int(sys.argv[1].rpartition(":")[2])
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
        break
    except OSError:
        time.sleep(0.1)
time.sleep(1)
"""
