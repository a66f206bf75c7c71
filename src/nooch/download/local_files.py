"""Files found below another folder, which is only read: linked or copied, and checked."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from nooch.download.catalogue import Remote
from nooch.download.file_checks import fault
from nooch.errors import InputError, OutputError, ParameterError

__all__ = ["LocalFiles", "files_below", "is_linkable", "take"]

_BLOCK = 1 << 22

LocalFiles = dict[str, list[Path]]
"""Name -> paths of files of this name."""


def files_below(source: str | Path | None, root: Path, names: set[str]) -> LocalFiles:
    """Files of these names anywhere below a folder; none without a folder.

    Raises:
        InputError: no such folder.
        ParameterError: it is the folder of downloads.
    """
    if source is None:
        return {}
    folder = Path(source)
    if not folder.is_dir():
        problem, allowed = "no such folder to take files from", "a folder that has some of them"
        raise InputError(problem, where=folder, allowed=allowed)
    if folder.resolve() == root.resolve():
        raise ParameterError(
            "`source` names the folder of downloads itself",
            remedy="leave `source` out: what is there is used anyway",
        )
    local: LocalFiles = {}
    for place, _, files in os.walk(folder.resolve()):
        for name in sorted(names.intersection(files)):
            local.setdefault(name, []).append(Path(place) / name)
    # in an order that does not depend on the disk
    return {name: sorted(paths) for name, paths in local.items()}


def is_linkable(local: LocalFiles, name: str, root: Path) -> bool:
    """Whether a file of this name is on the same disk, so that taking it needs no space."""
    device = root.stat().st_dev
    return any(path.stat().st_dev == device for path in local.get(name, []) if path.exists())


def take(
    remote: Remote, local: LocalFiles, final: Path, note: Callable[[str], None]
) -> Path | None:
    """Link or copy the first right local file to the final name; returns it, or None.

    The others are noted. OutputError if there is no space.
    """
    place = final.with_name(f".{final.name}.taken")
    for candidate in local.get(remote.name, []):
        try:
            reason = _link_or_copy(candidate, place) or fault(place, remote)
            if reason is None:
                place.replace(final)
                return candidate
        finally:
            place.unlink(missing_ok=True)
        note(f"{candidate} {reason}; it is not used")
    return None


def _link_or_copy(source: Path, place: Path) -> str | None:
    """Why the source cannot be read, or None."""
    place.unlink(missing_ok=True)
    try:
        place.hardlink_to(source.resolve())
    except OSError:
        # another disk, one without links, or somebody else's file
        return _copy(source, place)
    return None


def _copy(source: Path, place: Path) -> str | None:
    try:
        file = source.open("rb")
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
    with file:
        try:
            with place.open("xb") as copy:
                shutil.copyfileobj(file, copy, _BLOCK)
        except OSError as error:
            raise OutputError(
                f"cannot be written: {error.strerror or error}", where=place, remedy="make room"
            ) from error
    return None
