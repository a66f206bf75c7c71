"""What remains of a failure that nobody foresaw: one line, and a file that can be reported."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import traceback
from pathlib import Path

from nooch.base.version import __version__
from nooch.cli.terminal import fail

__all__ = ["INTERNAL_ERROR", "LONGEST", "report_failure"]

INTERNAL_ERROR = 70
"""Exit code: an internal error (EX_SOFTWARE of sysexits.h)."""
LONGEST = 300
_NOOCH = Path(__file__).parents[1]


def report_failure(error: BaseException) -> int:
    """Print one line about an unexpected error, write the report file, and return the exit code.
    An error in a criterion, method or model that the user wrote names the line, and is no internal
    error.

    The file holds the versions, the command without its arguments' values, and the places in the
    code that led to the error. It holds no message, since messages quote data; the terminal shows
    the message, shortened.
    """
    frames = traceback.extract_tb(error.__traceback__)
    message = " ".join(str(error).split())[:LONGEST]
    last = next((frame for frame in reversed(frames) if not _is_installed(frame.filename)), None)
    if last is not None and not Path(last.filename).is_relative_to(_NOOCH):
        where = f"{last.filename}:{last.lineno}, in {last.name}"
        remedy = "correct that code, which is not nooch's"
        return fail(f"{where}: {type(error).__name__}: {message}\n  remedy: {remedy}")
    places = [f"{frame.filename}:{frame.lineno} in {frame.name}" for frame in frames]
    kinds: list[str] = []
    cause: BaseException | None = error
    while cause is not None:
        kinds.append(type(cause).__qualname__)
        cause = cause.__cause__ or cause.__context__
    options = [word.partition("=")[0] for word in sys.argv[1:] if word.startswith("-")]
    lines = [
        f"nooch {__version__}, Python {platform.python_version()}, {platform.platform()}",
        f"options: {' '.join(options)}",
        f"error: {', raised by '.join(kinds)}",
        *places,
    ]
    fail(f"internal error, {type(error).__name__}: {message}\n  remedy: {_written(lines)}")
    return INTERNAL_ERROR


def _is_installed(file: str) -> bool:
    """Whether code is Python's own or an installed package's, but not nooch's."""
    # takes milliseconds, which every command would wait for
    import sysconfig

    path = Path(file).absolute()
    names = ("stdlib", "platstdlib", "purelib", "platlib", "scripts")
    return not path.is_relative_to(_NOOCH) and (
        not path.is_file() or any(path.is_relative_to(sysconfig.get_path(name)) for name in names)
    )


def _written(lines: list[str]) -> str:
    """Write the report; says where it is."""
    try:
        handle, path = tempfile.mkstemp(prefix="nooch-error-", suffix=".txt")
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as file:
            file.write("\n".join(lines) + "\n")
    except OSError as error:
        return f"report it; the report could not be written: {error.strerror}"
    return f"report it with the file {path}, which holds none of your data"
