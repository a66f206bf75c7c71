"""Annotation files -> their content about some images, cut out without decoding polygons."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from nooch.base.errors import InputError, some_of
from nooch.data.readers.coco.decoder import Document, opened
from nooch.data.readers.coco.rows import source_of
from nooch.data.readers.coco.structure import Instances, decode

Annotations = list[tuple[int | None, bytes]]
"""(annotation id or None, the annotation's JSON)."""


@dataclass
class CocoContent:
    """Entries of annotation files for the wanted images: ``info`` of the first file, licenses as
    they have them, categories with name and JSON, records of images as in the first file that lists
    them, and their annotations in the files' order; ``notes`` are for the user.
    """

    info: Any = field(default_factory=dict)
    licenses: dict[str, dict[str, Any]] = field(default_factory=dict)
    categories: dict[int, tuple[str, bytes]] = field(default_factory=dict)
    images: dict[int, dict[str, Any]] = field(default_factory=dict)
    annotations: dict[int, Annotations] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


class _Document(Instances, gc=False):
    info: Any = None


class _Identified(msgspec.Struct, gc=False):
    id: int | None = None


def read_annotations(
    paths: Sequence[Path], image_ids: Collection[int], recorded: Sequence[Mapping[str, Any]]
) -> CocoContent:
    """Images, categories, licenses and annotations of the wanted images, from instances and stuff
    files; ``recorded`` has ``file`` and ``blake3`` of those that the dataset was imported from.
    """
    merged, image_ids = CocoContent(), set(image_ids)
    hashes: set[str] = set()
    for path in paths:
        own = source_of(path)["blake3"]
        if own in hashes:
            raise InputError("is given twice", where=path, allowed="each annotation file once")
        hashes.add(own)
        merged.notes += _origin_notes(path, own, recorded)
        with opened(path) as content:
            _add(merged, Document(content, path, _Document), path, image_ids)
    if missing := sorted(image_ids - set(merged.images)):
        files = some_of(source["file"] for source in recorded)
        suffix = f": {files}" if files else ""
        problem = f"{len(missing)} images of the sets are in none of the annotation files"
        remedy = f"give all files that the dataset was imported from{suffix}"
        raise InputError(f"{problem}: {some_of(missing)}", where=some_of(paths), remedy=remedy)
    return merged


def _origin_notes(path: Path, own: str, recorded: Sequence[Mapping[str, Any]]) -> list[str]:
    """Raise InputError for a file that was altered; note one that the dataset does not know."""
    hashes = [source.get("blake3") for source in recorded if source["file"] == path.name]
    if hashes and own not in hashes:
        problem = "is not the file that the dataset was imported from: its BLAKE3 is another"
        remedy = "give the file as it was, or rename it if it is another on purpose"
        raise InputError(problem, where=path, remedy=remedy)
    unknown = f"{path.name} is none of the files that the dataset was imported from"
    return [unknown] if recorded and not hashes else []


def _add(
    merged: CocoContent, document: Document[_Document], path: Path, image_ids: Collection[int]
) -> None:
    images: dict[int, dict[str, Any]] = {}
    annotations: dict[int, Annotations] = {}
    for key in document.arrays():
        if key == "images":
            images = {
                image.id: msgspec.json.decode(raw)
                for image, raw in document.records(key)
                if image.id in image_ids
            }
            continue
        annotations = {}
        for annotation, raw in document.records(key):
            if annotation.image_id in image_ids:
                entry = (decode(raw, _Identified, path).id, bytes(raw))
                annotations.setdefault(annotation.image_id, []).append(entry)
    rest = document.rest()
    merged.info = merged.info or rest.info or {}
    for terms in rest.licenses or []:
        if merged.licenses.setdefault(str(terms.get("id", terms)), terms) != terms:
            raise _conflict("license", terms.get("id"), path)
    texts = msgspec.json.decode(document.members["categories"], type=list[msgspec.Raw])
    for category, text in zip(rest.categories, texts, strict=True):
        name, _ = merged.categories.setdefault(category.id, (category.name, bytes(text)))
        if name != category.name:
            raise _conflict("category", category.id, path)
    merged.images = images | merged.images
    for image_id, entries in annotations.items():
        merged.annotations.setdefault(image_id, []).extend(entries)


def _conflict(what: str, number: object, path: Path) -> InputError:
    return InputError(
        f"{what} {number} is another one in the files before",
        where=path,
        allowed=f"the same {what} under one id in all files",
        remedy="export the files apart",
    )
