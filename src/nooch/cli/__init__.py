"""The command line: parses, calls study, prints. Errors that a user can mend end with exit code 2
and no traceback.
"""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line and exit. Worker processes import this module again, so it loads nothing
    by itself.
    """
    if sys.argv[1:2] == ["import"]:
        # workers get ready while this process reads its arguments
        from nooch.engines import LocalEngine

        LocalEngine.warm("nooch.readers.coco.coco_rows")
    from nooch.cli.main import run

    run()
