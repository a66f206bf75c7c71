"""An engine is one method, ``map``: apply a function to items somewhere, yield results in order."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from nooch.base.calls import imported
from nooch.base.engines.local import LocalEngine
from nooch.base.errors import ParameterError, check_one_of
from nooch.base.files import writing

if TYPE_CHECKING:
    from nooch.base.engines.ray import RayEngine
    from nooch.base.engines.slurm import SlurmEngine

__all__ = ["ENGINES", "LocalEngine", "engine"]

ENGINES = {
    "local": "nooch.base.engines.local:LocalEngine",
    "ray": "nooch.base.engines.ray:RayEngine",
    "slurm": "nooch.base.engines.slurm:SlurmEngine",
}
"""Name -> import string of the engine. Its first argument is what follows the name after a colon.
"""


def engine(
    text: str, logs: str | Path | None = None, *, gpus: int = 0
) -> LocalEngine | RayEngine | SlurmEngine:
    """The engine of a text: ``local[:N]``, ``ray[:ADDRESS]`` or ``slurm[:PARTITION]``.

    Args:
        text: name, and argument after a colon.
        logs: folder for a log of each job; it is made. Slurm needs one that its nodes see.
        gpus: that each job needs for itself; jobs see no others.

    Raises:
        ParameterError: an unknown engine, an argument that it does not take, or missing GPUs.
        MissingExtraError: its package is not installed.
        OutputError: the folder of logs cannot be made.
    """
    name, _, argument = text.partition(":")
    target = ENGINES[check_one_of("engine", name, ENGINES)]
    folder = None if logs is None else Path(logs).absolute()
    if folder is not None:
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
    given: str | int | None = argument or None
    if name == "local" and argument:
        if not argument.isdecimal():
            raise ParameterError(f"`engine` {text}", allowed="local, or local:N for N processes")
        given = int(argument)
    backend: LocalEngine | RayEngine | SlurmEngine = imported(target, f"`engine` {name}")(
        given, folder, gpus=gpus
    )
    return backend
