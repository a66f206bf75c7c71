"""What can be downloaded: URL, size and checksum of each file. No file is included."""

from __future__ import annotations

from importlib import resources
from typing import Any

import msgspec

from nooch.base.errors import check_one_of


class Remote(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file of a collection.

    Attributes:
        name: its name in the folder of downloads.
        urls: its addresses, tried in turn; http or https.
        size: bytes, or null if they are not published.
        md5: checksum in hexadecimal; ``sha1`` and ``sha256`` likewise. md5 and sha1 detect damage,
            not malice. Without any, the first download is recorded.
        about: estimate in bytes if ``size`` is null; a server that sends four times that is cut
            off.
        into: folder below the downloads to which it is unpacked, if it is a zip.
        unpacked_at_most: bytes beyond which the zip's contents are refused.
        recorded_in: file that size and checksum were taken from, if not the catalog.
        mirror: another file with the same contents, used if it exists already or this one cannot
            be downloaded.
    """

    name: str
    urls: tuple[str, ...]
    size: int | None = None
    md5: str | None = None
    sha1: str | None = None
    sha256: str | None = None
    about: int = 0
    into: str | None = None
    unpacked_at_most: int = 0
    recorded_in: str | None = None
    mirror: Remote | None = None

    @property
    def authority(self) -> str:
        """Origin of size and checksum, to add to a message, if it is not the catalog."""
        if self.recorded_in is None:
            return ""
        recorded = f"recorded in {self.recorded_in} at the first download"
        return f" ({recorded}; delete that to accept another version)"

    @property
    def checksum(self) -> str | None:
        """Such as ``md5:442b...``, or None if it is not known."""
        known = (("sha256", self.sha256), ("sha1", self.sha1), ("md5", self.md5))
        return next((f"{algorithm}:{value}" for algorithm, value in known if value), None)

    @property
    def choices(self) -> tuple[Remote, ...]:
        """The file and its mirrors, in the order in which they are tried."""
        return (self, *(self.mirror.choices if self.mirror else ()))

    @property
    def at_most(self) -> int:
        """Bytes beyond which a server is cut off."""
        return 4 * self.about if self.size is None else self.size

    @property
    def expected_size(self) -> int:
        """Bytes to expect."""
        return self.about if self.size is None else self.size


class Collection(msgspec.Struct, frozen=True, kw_only=True):
    """Files, their licenses, and the command to run next (``{root}`` is the folder)."""

    name: str
    files: tuple[Remote, ...]
    licences: tuple[str, ...] = ()
    next: str = ""


COLLECTIONS = ("coco-stuff", "nooch-published")
"""Names of the collections."""


def collection(name: str, *, images: bool = False) -> Collection:
    """A collection of the catalog, with its images if asked. ParameterError for an unknown name."""
    check_one_of("collection", name, COLLECTIONS)
    content = resources.files("nooch.base.download").joinpath("catalogue.json").read_bytes()
    known = msgspec.json.decode(content)
    entry, mirrors = known["collections"][name], known["mirrors"]
    files = [_facts(file, mirrors) for file in entry["files"] if images or not file.get("images")]
    licences = [*entry["licences"], *(entry["image_licences"] if images else ())]
    made = {"name": name, "files": files, "licences": licences, "next": entry["next"]}
    return msgspec.convert(made, Collection)


def _facts(file: dict[str, Any], mirrors: dict[str, list[str]]) -> dict[str, Any]:
    """A file of the catalog, which has the beginnings of its addresses once, as a ``Remote``."""
    path, begin = file["path"], mirrors[file["mirrors"]]
    facts = {name: file[name] for name in file.keys() - {"path", "mirrors", "images"}}
    if "mirror" in file:
        facts["mirror"] = _facts(file["mirror"], mirrors)
    return {**facts, "name": path.rsplit("/", 1)[-1], "urls": [one + path for one in begin]}
