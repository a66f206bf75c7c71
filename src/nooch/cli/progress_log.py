"""Location of the logs of work with an engine."""

from __future__ import annotations

from pathlib import Path


def logs_of(out: Path) -> Path:
    """The folder of logs of the work on a folder, next to it."""
    folder = out.absolute()
    return folder.with_name(f"{folder.name}-logs")
