"""The command line: parses, calls a verb, prints; errors that a user can fix exit with code 2."""

import sys
from itertools import pairwise

__all__ = ["main"]


def main() -> None:
    """Run and exit. Worker processes import this module again, so it loads nothing by itself."""
    pairs = {*pairwise(sys.argv[1:])}
    if sys.argv[1:2] == ["import"] and not pairs & {("import", "table"), ("--processes", "1")}:
        # workers get ready while this process reads its arguments
        from nooch.base.engines import LocalEngine

        LocalEngine.warm("nooch.data.readers.coco.rows")
    from nooch.cli.main import run

    run()
