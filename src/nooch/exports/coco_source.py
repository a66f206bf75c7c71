"""Annotation files -> what they say of some images. Annotations are cut out as they stand, polygons are never decoded."""

from __future__ import annotations

import mmap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from nooch.errors import InputError, some_of
from nooch.readers.coco_json import do_job

__all__ = ["Annotations", "Source", "read_annotations"]

Annotations = list[tuple[int | None, bytes]]
"""(annotation id or None, the annotation's JSON)."""


@dataclass(frozen=True)
class Source:
    """What annotation files say of the wanted images.

    Attributes:
        info: the first file's.
        licenses: of all files, ids as they have them; ``categories`` likewise, as JSON.
        images: id -> the image's record as the first file that lists it has it.
        annotations: image id -> its annotations in the files' order.
        notes: what a user should know.
    """

    info: Any
    licenses: list[dict[str, Any]]
    categories: list[msgspec.Raw]
    images: dict[int, dict[str, Any]]
    annotations: dict[int, Annotations]
    notes: list[str]


class _Identified(msgspec.Struct, gc=False):
    id: int


class _Category(msgspec.Struct, gc=False):
    id: int
    name: str


class _Annotation(msgspec.Struct, gc=False):
    image_id: int
    category_id: int
    id: int | None = None


class _File(msgspec.Struct, gc=False):
    images: list[msgspec.Raw]
    annotations: list[msgspec.Raw]
    categories: list[msgspec.Raw]
    licenses: list[dict[str, Any]] | None = None
    info: Any = None


def read_annotations(paths: Sequence[Path], wanted: Collection[int], recorded: Sequence[Mapping[str, Any]]) -> Source:
    """Images, categories, licences, and the annotations of some images, from instances and stuff files.

    Args:
        paths: the files; each is mapped, and what is not wanted is never copied.
        wanted: ids of images.
        recorded: ``file`` and ``blake3`` of the files that the dataset was imported from.

    Raises:
        InputError: a file that is missing, altered, or no annotation file; files that name categories or licences
            differently under one id; wanted images that no file lists.
    """
    merged = _Merged(set(wanted))
    for path in paths:
        merged.note_origin(path, recorded)
        # what could be wrong with reading the file was found when it was hashed
        with path.open("rb") as file:
            # not closed here: what is decoded points into it, and it is closed with the last of that
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        try:
            merged.add(msgspec.json.decode(content, type=_File), path)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise InputError(f"is no COCO annotation file: {error}", where=path, allowed=_STRUCTURE) from error
    if missing := sorted(merged.wanted - set(merged.images)):
        names = some_of(source["file"] for source in recorded)
        raise InputError(
            f"{len(missing)} images of the sets are in none of the annotation files: {some_of(missing)}",
            where=some_of(paths),
            remedy=f"give all files that the dataset was imported from{f': {names}' if names else ''}",
        )
    categories = [msgspec.Raw(text) for _, text in merged.categories.values()]
    return Source(
        merged.info, list(merged.licenses.values()), categories, merged.images, merged.annotations, merged.notes
    )


_STRUCTURE = "images [{id}], categories [{id, name}] and annotations [{image_id, category_id}]; ids are integers"


class _Merged:
    """What the files say, being put together."""

    def __init__(self, wanted: set[int]) -> None:
        self.wanted = wanted
        self.info: Any = {}
        self.licenses: dict[str, dict[str, Any]] = {}
        self.categories: dict[int, tuple[str, bytes]] = {}
        self.images: dict[int, dict[str, Any]] = {}
        self.annotations: dict[int, Annotations] = {}
        self.notes: list[str] = []
        self._hashes: set[str] = set()

    def note_origin(self, path: Path, recorded: Sequence[Mapping[str, Any]]) -> None:
        """Raise InputError for a file that is not what it was, or comes twice; note one that the dataset does not know."""
        found = do_job(("source", path))
        assert isinstance(found, dict)  # noqa: S101 - tells the type checker what this job gives
        if found["blake3"] in self._hashes:
            raise InputError("is given twice", where=path, allowed="each annotation file once")
        self._hashes.add(found["blake3"])
        hashes = [source.get("blake3") for source in recorded if source["file"] == path.name]
        if hashes and found["blake3"] not in hashes:
            raise InputError(
                "is not the file that the dataset was imported from: its BLAKE3 is another",
                where=path,
                remedy="give the file as it was, import the dataset again, or rename the file if it is another on purpose",
            )
        if recorded and not hashes:
            self.notes.append(f"{path.name} is none of the files that the dataset was imported from")

    def add(self, file: _File, path: Path) -> None:
        self.info = self.info or file.info or {}
        for licence in file.licenses or []:
            if self.licenses.setdefault(str(licence.get("id", licence)), licence) != licence:
                raise _conflict("licence", licence.get("id"), path)
        for raw in file.categories:
            category = msgspec.json.decode(raw, type=_Category)
            if self.categories.setdefault(category.id, (category.name, bytes(raw)))[0] != category.name:
                raise _conflict("category", category.id, path)
        image, annotation = msgspec.json.Decoder(_Identified), msgspec.json.Decoder(_Annotation)
        for raw in file.images:
            number = image.decode(raw).id
            if number in self.wanted and number not in self.images:
                self.images[number] = msgspec.json.decode(raw)
        for raw in file.annotations:
            entry = annotation.decode(raw)
            if entry.image_id in self.wanted:
                self.annotations.setdefault(entry.image_id, []).append((entry.id, bytes(raw)))


def _conflict(what: str, number: object, path: Path) -> InputError:
    return InputError(
        f"{what} {number} is another one in the files before",
        where=path,
        allowed=f"the same {what} under one id in all files",
        remedy="export the files apart",
    )
