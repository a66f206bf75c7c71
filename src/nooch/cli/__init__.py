"""The command line: parses, calls study, prints. Errors that a user can mend end with exit code 2 and no traceback."""

from nooch.cli.main import main

__all__ = ["main"]
