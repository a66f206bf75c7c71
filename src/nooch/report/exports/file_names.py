"""Names of criteria and tasks in file names."""

from __future__ import annotations

import re

from nooch.base.errors import ParameterError

__all__ = ["Names", "safe_name"]


def safe_name(name: str) -> str:
    """A name that is safe in paths and addresses: letters, digits, ``_``, ``-``, ``=`` and ``.``
    inside stay as they are.

    Every other byte becomes ``+`` and two hexadecimal digits, so that ``ce & gist`` is
    ``ce+20+26+20gist``: percent-encoding with another sign.
    """
    return re.sub(
        r"^\.|[^A-Za-z0-9_.=-]", lambda match: "".join(f"+{b:02X}" for b in match[0].encode()), name
    )


class Names:
    """File names that were given, so that two things never share one, not even where case is
    ignored.
    """

    def __init__(self) -> None:
        self._owner: dict[str, str] = {}

    def take(self, file: str, owner: str) -> str:
        """The file name, for ``owner``. Raises ParameterError where another owner has it."""
        other = self._owner.setdefault(file.casefold(), owner)
        if other != owner:
            raise ParameterError(
                f"{other} and {owner} would both be written to {file}",
                remedy="choose one with `criterion` or `tasks`",
            )
        return file
