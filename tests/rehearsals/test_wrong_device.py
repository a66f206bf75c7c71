"""Whatever computes on a GPU puts its tensors there: the checks for one, on a made-up device."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed (nooch[train])")
pytest.importorskip("transformers", reason="transformers is not installed (nooch[train])")
TESTS = Path(__file__).resolve().parents[1]
FILES = ("gpu/test_frozen_on_gpu.py", "gpu/test_networks_on_gpu.py")
CHECKS = (
    "(test_features and more1) or test_heads or (test_one and (head or augment)) or gdro or jtt"
)


MISTAKES = """
import torch, far_device
x = torch.ones(3).to(far_device.install())
near = torch.ones(3)
mistakes = (lambda: near + x, lambda: near @ x, lambda: torch.where(near > 0, x, x), x.numpy)
for mistake in mistakes:
    try:
        mistake()
    except (RuntimeError, TypeError) as error:
        print(type(error).__name__, "far" in str(error))
print((x + x.cpu().to("far")).tolist(), x[torch.tensor([0])].device)
"""
CHECK = "import sys, pytest; sys.exit(pytest.main(sys.argv[1:]))"


@pytest.fixture(scope="module")
def ran():
    """Output and exit code of a process of its own, which alone knows the device."""
    environment = {**os.environ, "NOOCH_GPU_CHECK_DEVICE": "far"}
    command = [sys.executable, "-W", "ignore", "-c", f"{MISTAKES}\n{CHECK}"]
    command += ["-q", "-p", "no:cacheprovider", "-W", "ignore", *FILES, "-k", CHECKS]
    done = subprocess.run(
        command, cwd=TESTS, env=environment, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr, done.returncode


def test_no_tensor_is_on_the_wrong_device(ran):
    output, code = ran
    assert code == 0, output
    assert "skipped" not in output


def test_such_mistakes_are_found(ran):
    found = ["RuntimeError True"] * 3 + ["TypeError True"]
    assert ran[0].splitlines()[:5] == [*found, "[2.0, 2.0, 2.0] far:0"]
