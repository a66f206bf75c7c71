"""What can be downloaded: where it lies, how large it is, and its checksum. Facts alone; no file is
carried along.
"""

from __future__ import annotations

from importlib import resources

import msgspec

from nooch.errors import check_one_of

__all__ = ["COLLECTIONS", "Collection", "Remote", "collection"]


class Remote(msgspec.Struct, frozen=True, kw_only=True):
    """One file of a collection.

    Attributes:
        name: what it is called in the folder of downloads.
        urls: where it lies, tried in turn; http or https.
        size: bytes, or null where nobody has published them.
        md5: checksum in hexadecimal; ``sha1`` and ``sha256`` likewise. md5 and sha1 detect damage,
            not malice. Where there is none, the first download is recorded.
        about: estimate in bytes where ``size`` is null; a server that sends four times as much is
            cut off.
        into: folder below the downloads to which it is unpacked, where it is a zip.
        unpacked_at_most: bytes beyond which the zip's contents are refused.
        recorded_in: file that size and checksum were taken from, where that is not the catalogue.
        mirror: another file with the same contents, used where it is there already or this one
            cannot be had.
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
        """Who says so, to add to a message, where size and checksum are not the catalogue's."""
        if self.recorded_in is None:
            return ""
        return (
            f" (recorded in {self.recorded_in} at the first download; delete that to accept another"
            " version)"
        )

    @property
    def checksum(self) -> str | None:
        """Such as ``md5:442b...``, or None where it is not known."""
        known = (("sha256", self.sha256), ("sha1", self.sha1), ("md5", self.md5))
        return next((f"{algorithm}:{value}" for algorithm, value in known if value), None)

    @property
    def choices(self) -> tuple[Remote, ...]:
        """The file and its mirrors, in the order in which they are asked for."""
        return (self, *(self.mirror.choices if self.mirror else ()))

    @property
    def at_most(self) -> int:
        """Bytes beyond which a server is cut off."""
        return 4 * self.about if self.size is None else self.size

    @property
    def expected_size(self) -> int:
        """Bytes to count on."""
        return self.about if self.size is None else self.size


class Collection(msgspec.Struct, frozen=True, kw_only=True):
    """Files that belong together, their licences, and the command that comes next (``{root}`` is
    the folder).
    """

    name: str
    files: tuple[Remote, ...]
    licences: tuple[str, ...] = ()
    next: str = ""


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    mirrors: str
    path: str
    size: int | None = None
    md5: str | None = None
    sha1: str | None = None
    sha256: str | None = None
    about: int = 0
    into: str | None = None
    unpacked_at_most: int = 0
    images: bool = False
    mirror: _File | None = None


class _Group(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    files: list[_File]
    licences: list[str]
    image_licences: list[str]
    next: str


class _Catalogue(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    mirrors: dict[str, list[str]]
    collections: dict[str, _Group]


COLLECTIONS = ("coco-stuff", "nooch-published")
"""Names of the collections."""


def collection(name: str, *, images: bool = False) -> Collection:
    """A collection of the catalogue, ``images`` saying whether its images are wanted.
    ParameterError for an unknown name.
    """
    check_one_of("collection", name, COLLECTIONS)
    content = resources.files("nooch.download").joinpath("catalogue.json").read_bytes()
    known = msgspec.json.decode(content, type=_Catalogue)
    group = known.collections[name]
    return Collection(
        name=name,
        files=tuple(
            _remote(file, known.mirrors) for file in group.files if images or not file.images
        ),
        licences=(*group.licences, *(group.image_licences if images else ())),
        next=group.next,
    )


def _remote(file: _File, mirrors: dict[str, list[str]]) -> Remote:
    return Remote(
        name=file.path.rsplit("/", 1)[-1],
        urls=tuple(mirror + file.path for mirror in mirrors[file.mirrors]),
        size=file.size,
        md5=file.md5,
        sha1=file.sha1,
        sha256=file.sha256,
        about=file.about,
        into=file.into,
        unpacked_at_most=file.unpacked_at_most,
        mirror=_remote(file.mirror, mirrors) if file.mirror else None,
    )
