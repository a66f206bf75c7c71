"""Entry point: commands are put together here, signals and errors end in one place."""

from __future__ import annotations

import errno
import os
import signal
import sys
from types import FrameType
from typing import Any

import typer
from typer import Option
from typer.core import TyperGroup

from nooch.cli.commands import (
    add_attributes,
    bench,
    classes,
    download,
    evaluate,
    export,
    figure,
    find,
    import_data,
    import_suite,
    info,
    pixels,
    predict,
    report,
    results,
    scenes,
    status,
    sweep_thresholds,
    waterbirds,
)
from nooch.cli.terminal_output import fail, speak_for
from nooch.errors import InputError, NoochError, OutputError
from nooch.version import __version__

__all__ = ["app", "run"]

_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO}


class _Commands(TyperGroup):
    """All commands; an unexpected file error becomes an error like any other."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        speak_for(self)
        try:
            return super().invoke(ctx)
        except EOFError as error:
            # click takes it for the end of a dialog and says "Aborted!"
            raise InputError(
                f"a file is empty or ends too early: {error}", remedy="make that file again"
            ) from error
        except OSError as error:
            if error.errno not in _DISK:
                raise
            raise OutputError(
                f"cannot read or write: {error.strerror}", where=error.filename
            ) from error


app = typer.Typer(
    cls=_Commands,
    help="Find the images whose context misleads a vision model, and measure what resists.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(import_data.app, name="import")
app.add_typer(import_suite.app, name="import-suite")
app.add_typer(download.app, name="download")
app.add_typer(waterbirds.app, name="waterbirds")
for _module in (
    add_attributes,
    find,
    info,
    evaluate,
    sweep_thresholds,
    export,
    pixels,
    bench,
    status,
    classes,
    results,
    scenes,
    predict,
    figure,
    report,
):
    _module.register(app)


@app.callback(invoke_without_command=True)
def _root(
    version: bool = Option(False, "--version", help="Print the version and stop.", is_eager=True),
) -> None:
    if version:
        print(__version__)  # noqa: T201 - what was asked for goes to standard output
        raise typer.Exit


def run() -> None:
    """Run and exit: 0 done, 1 a check failed, 2 an error to fix, 130 or 143 interrupted."""
    # waiting threads must not keep CPUs busy: on a shared machine that costs most of the time
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    signal.signal(signal.SIGTERM, _terminate)
    try:
        app()
    except NoochError as error:
        sys.exit(fail(str(error)))
    except MemoryError:
        remedy = "use fewer tasks or splits at once, or a machine with more memory"
        sys.exit(fail(f"out of memory\n  remedy: {remedy}"))
    except BrokenPipeError:
        # the reader of our output went away (head, less): no error, but Python must not flush again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)


def _terminate(_number: int, _frame: FrameType | None) -> None:
    # as an exception, so that temporary folders are removed on the way out
    raise SystemExit(143)
