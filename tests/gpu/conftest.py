"""Checks on a GPU, against a CPU's results. Data are generated, and weights are random.

Without CUDA they are skipped. NOOCH_GPU_CHECK_DEVICE=cpu runs the same lines on a CPU, as a
rehearsal: it shows that the checks work, and nothing of a GPU. With ``far``, the rehearsal fails
where a tensor is on the wrong device, see ``far_device``.
"""

import json
import os

import pytest
from pictures import CONFIG

VARIABLE = "NOOCH_GPU_CHECK_DEVICE"


@pytest.fixture(scope="session")
def device():
    """``cuda``, or the device that NOOCH_GPU_CHECK_DEVICE names."""
    torch = pytest.importorskip("torch", reason="torch is not installed (nooch[train])")
    pytest.importorskip("transformers", reason="transformers is not installed (nooch[train])")
    named = os.environ.get(VARIABLE)
    if named is None and not torch.cuda.is_available():
        pytest.skip(f"no CUDA device here; {VARIABLE}=cpu rehearses the checks on a CPU")
    if named == "far":
        import far_device

        from nooch.models import backbones

        backbones.choose_device = lambda device: device
        far_device.install()
    return named or "cuda"


@pytest.fixture(autouse=True)
def exact(device):
    """Products and convolutions in full float32: TF32 would round inputs to 10 bits."""
    import torch

    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    yield
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


@pytest.fixture(scope="session")
def compiles(device):
    """Skip where torch.compile does not work, for want of a C compiler, say."""
    import torch

    try:
        torch.compile(lambda x: torch.sin(x) + 1)(torch.ones(8, device=device))
    except Exception as error:  # noqa: BLE001 - compilation fails with errors of several packages
        pytest.skip(f"torch.compile does not work here: {str(error).splitlines()[0][:200]}")


@pytest.fixture
def small(tmp_path):
    """A small ResNet with random weights, as ``--backbone`` takes it."""
    (tmp_path / "small.json").write_text(json.dumps(CONFIG))
    return f"config:{tmp_path / 'small.json'}"
