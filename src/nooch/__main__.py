"""``nooch`` and ``python -m nooch``: the command line."""

import os
import signal
import sys


def run() -> None:
    """Run the command line; when all went well, end the process at once.

    Everything is written by then; freeing half a gigabyte of arrays would only take time.
    """
    # only the exit code: while modules are imported, an exception might become one of theirs
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    try:
        from nooch.cli import main

        main()
    except KeyboardInterrupt:
        # after the command, while its result is returned
        sys.exit(130)
    except SystemExit as stop:
        # errors and signals exit the usual way, which also ends worker processes
        if stop.code:
            raise
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    run()
