"""``nooch`` and ``python -m nooch``: the command line."""

import contextlib
import os
import sys

from nooch.cli import main

__all__ = ["run"]


def run() -> None:
    """Run the command line and end the process at once.

    Everything is written by then; taking half a gigabyte of arrays and a hundred modules apart would only make the user wait.
    """
    code: object = 0
    try:
        main()
    except SystemExit as stop:
        code = stop.code
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)  # noqa: T201 - what sys.exit does with a text
        code = 1
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code or 0)


if __name__ == "__main__":
    run()
