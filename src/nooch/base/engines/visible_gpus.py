"""GPUs that this process may use, from the driver's programs and files: torch loads slowly."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

__all__ = ["GPUS_VARIABLE", "visible_gpus"]

GPUS_VARIABLE = "CUDA_VISIBLE_DEVICES"

PROC = Path("/proc/driver/nvidia/gpus")


def visible_gpus() -> list[str]:
    """GPUs as ``CUDA_VISIBLE_DEVICES`` names them: those of the variable, else all of this machine.

    A GPU that is divided is not listed, its parts are.
    """
    named = os.environ.get(GPUS_VARIABLE)
    return _all() if named is None else _named(named)


def _named(text: str) -> list[str]:
    names: list[str] = []
    for name in (part.strip() for part in text.split(",")):
        # CUDA itself stops at the first name that is none, such as -1
        if not name or name.startswith("-") or name.lower() in {"nodevfiles", "none", "void"}:
            break
        names.append(name)
    return list(dict.fromkeys(names))


def _all() -> list[str]:
    try:
        # the program is the one that the user's PATH names
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, check=True, timeout=60)  # noqa: S607
        return _gpu_names(listed.stdout.decode())
    except (OSError, subprocess.SubprocessError):
        pass
    return [str(number) for number in range(len(list(PROC.iterdir())))] if PROC.is_dir() else []


def _gpu_names(text: str) -> list[str]:
    """Names from lines ``GPU 0: NAME (UUID: GPU-...)``, each followed by its MIG lines, if any."""
    gpus: list[list[str]] = []
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["GPU"]:
            gpus.append([])
        elif words[:1] == ["MIG"] and gpus:
            gpus[-1].append(words[-1].rstrip(")"))
    return [name for number, parts in enumerate(gpus) for name in parts or [str(number)]]
