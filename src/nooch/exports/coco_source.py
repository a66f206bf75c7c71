"""Annotation files -> what they say of some images. Annotations are cut out as they stand, polygons
are never decoded.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from nooch.errors import InputError, some_of
from nooch.readers.coco.coco_decoder import Document, opened
from nooch.readers.coco.coco_rows import source_of
from nooch.readers.coco.coco_structure import Instances, decode

__all__ = ["Annotations", "Source", "read_annotations"]

Annotations = list[tuple[int | None, bytes]]
"""(annotation id or None, the annotation's JSON)."""


@dataclass(frozen=True)
class Source:
    """What annotation files say of the wanted images.

    Attributes:
        info: the first file's.
        licenses: of all files, ids as they have them; ``categories`` likewise, as JSON.
        names: category id -> name.
        images: id -> the image's record as the first file that lists it has it.
        annotations: image id -> its annotations in the files' order.
        notes: what a user should know.
    """

    info: Any
    licenses: list[dict[str, Any]]
    categories: list[msgspec.Raw]
    names: dict[int, str]
    images: dict[int, dict[str, Any]]
    annotations: dict[int, Annotations]
    notes: list[str]


class _Document(Instances, gc=False):
    info: Any = None


class _Identified(msgspec.Struct, gc=False):
    id: int | None = None


def read_annotations(
    paths: Sequence[Path], wanted: Collection[int], recorded: Sequence[Mapping[str, Any]]
) -> Source:
    """Images, categories, licences, and the annotations of some images, from instances and stuff
    files.

    Args:
        paths: the files; of what is not wanted, a slice at a time is in memory.
        wanted: ids of images.
        recorded: ``file`` and ``blake3`` of the files that the dataset was imported from.

    Raises:
        InputError: a file that is missing, altered, or no annotation file; files that name
            categories or licences differently under one id; wanted images that no file lists.
    """
    merged = _Merged(set(wanted))
    for path in paths:
        merged.note_origin(path, recorded)
        with opened(path) as content:
            merged.add(Document(content, path, _Document), path)
    if missing := sorted(merged.wanted - set(merged.images)):
        files = some_of(source["file"] for source in recorded)
        raise InputError(
            f"{len(missing)} images of the sets are in none of the annotation files:"
            f" {some_of(missing)}",
            where=some_of(paths),
            remedy=(
                f"give all files that the dataset was imported from{f': {files}' if files else ''}"
            ),
        )
    categories = [msgspec.Raw(text) for _, text in merged.categories.values()]
    names = {number: name for number, (name, _) in merged.categories.items()}
    licenses = list(merged.licenses.values())
    return Source(
        merged.info, licenses, categories, names, merged.images, merged.annotations, merged.notes
    )


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
        """Raise InputError for a file that is not what it was, or comes twice; note one that the
        dataset does not know.
        """
        found = source_of(path)
        if found["blake3"] in self._hashes:
            raise InputError("is given twice", where=path, allowed="each annotation file once")
        self._hashes.add(found["blake3"])
        hashes = [source.get("blake3") for source in recorded if source["file"] == path.name]
        if hashes and found["blake3"] not in hashes:
            raise InputError(
                "is not the file that the dataset was imported from: its BLAKE3 is another",
                where=path,
                remedy=(
                    "give the file as it was, import the dataset again, or rename the file if it is"
                    " another on purpose"
                ),
            )
        if recorded and not hashes:
            self.notes.append(
                f"{path.name} is none of the files that the dataset was imported from"
            )

    def add(self, document: Document[_Document], path: Path) -> None:
        images: dict[int, dict[str, Any]] = {}
        annotations: dict[int, Annotations] = {}
        for key in document.arrays():
            if key == "images":
                images = {
                    image.id: msgspec.json.decode(raw)
                    for image, raw in document.records(key)
                    if image.id in self.wanted
                }
                continue
            annotations = {}
            for annotation, raw in document.records(key):
                if annotation.image_id in self.wanted:
                    entry = (decode(raw, _Identified, path).id, bytes(raw))
                    annotations.setdefault(annotation.image_id, []).append(entry)
        rest = document.rest()
        self.info = self.info or rest.info or {}
        for licence in rest.licenses or []:
            if self.licenses.setdefault(str(licence.get("id", licence)), licence) != licence:
                raise _conflict("licence", licence.get("id"), path)
        texts = msgspec.json.decode(document.members["categories"], type=list[msgspec.Raw])
        for category, text in zip(rest.categories, texts, strict=True):
            if (
                self.categories.setdefault(category.id, (category.name, bytes(text)))[0]
                != category.name
            ):
                raise _conflict("category", category.id, path)
        self.images = images | self.images
        for number, found in annotations.items():
            self.annotations.setdefault(number, []).extend(found)


def _conflict(what: str, number: object, path: Path) -> InputError:
    return InputError(
        f"{what} {number} is another one in the files before",
        where=path,
        allowed=f"the same {what} under one id in all files",
        remedy="export the files apart",
    )
