"""Which GPUs this process may use, asked of the driver's programs and files: torch takes seconds to
load and might not be here.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

__all__ = ["GPUS_VARIABLE", "visible_gpus"]

GPUS_VARIABLE = "CUDA_VISIBLE_DEVICES"

_PROC = Path("/proc/driver/nvidia/gpus")


def visible_gpus() -> list[str]:
    """GPUs by what ``CUDA_VISIBLE_DEVICES`` would name them: those that it names, or else all of
    this machine.

    Where a GPU is divided, its parts are named and not the GPU.
    """
    named = os.environ.get(GPUS_VARIABLE)
    return _all() if named is None else _named(named)


def _named(text: str) -> list[str]:
    found: list[str] = []
    for name in (part.strip() for part in text.split(",")):
        # CUDA itself stops at the first name that is none, such as -1
        if not name or name.startswith("-") or name.lower() in {"nodevfiles", "none", "void"}:
            break
        found.append(name)
    return list(dict.fromkeys(found))


def _all() -> list[str]:
    try:
        # the program is the one that the user's PATH names
        asked = subprocess.run(
            ["nvidia-smi", "-L"],  # noqa: S607
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        if asked.returncode == 0:
            return _listed(asked.stdout)
    except (OSError, subprocess.TimeoutExpired):
        pass
    return [str(number) for number in range(len(list(_PROC.iterdir())))] if _PROC.is_dir() else []


def _listed(text: str) -> list[str]:
    """Names from lines such as ``GPU 0: NAME (UUID: GPU-...)`` and, below one, ``MIG ... (UUID:
    MIG-...)``.
    """
    gpus: list[list[str]] = []
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["GPU"]:
            gpus.append([])
        elif words[:1] == ["MIG"] and gpus:
            gpus[-1].append(words[-1].rstrip(")"))
    return [name for number, parts in enumerate(gpus) for name in parts or [str(number)]]
