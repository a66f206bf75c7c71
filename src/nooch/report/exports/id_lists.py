"""One JSON file: the ids of each challenge set's hard images, and the licenses of the data."""

from __future__ import annotations

from pathlib import Path

import msgspec

from nooch.base.errors import OutputError
from nooch.base.files import check_output, replace_file
from nooch.report.exports.export_contract import HARD_SUBSETS, Content, Exported, about
from nooch.suites import SetRecord

__all__ = ["FORMAT", "export_ids"]

FORMAT = "nooch-ids"
_HEAD = b'{"format":"nooch-ids"'


def export_ids(content: Content, out: str | Path, *, overwrite: bool = False) -> Exported:
    """Write ``OUT`` as JSON: ``format, version, nooch, suite, dataset, criteria, licences, sets,
    skipped``.

    A set has ``criterion, task, split``, ascending ids ``hard_positive`` and ``hard_negative``, and
    all of its counts and thresholds under the names they have in ``suite.json``.

    Raises:
        OutputError: the file exists (and ``overwrite`` is false, or it is another file) or cannot
            be written.
    """
    path = Path(out).absolute()
    # what exists is replaced only where it is an export of this kind
    if not (overwrite and path.exists()):
        check_output(path)
    elif not _is_ours(path):
        raise OutputError(
            "exists and is no nooch-ids file, so it is not replaced",
            where=path,
            remedy="choose another path",
        )
    sets = [
        msgspec.to_builtins(SetRecord.of(challenge))
        | {subset: challenge.ids(subset) for subset in HARD_SUBSETS}
        for challenge in content.sets()
    ]
    document = {
        "format": FORMAT,
        "version": 1,
        **about(content),
        "sets": sets,
        "skipped": content.suite.header.skipped,
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make the folder: {error.strerror}", where=path.parent) from error
    replace_file(path, msgspec.json.encode(document) + b"\n")
    return Exported(
        "ids", str(out), len(content.keys), [path.name], content.licences, content.notes
    )


def _is_ours(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_HEAD)) == _HEAD
    except OSError:
        # a folder, or a file that may not be read
        return False
