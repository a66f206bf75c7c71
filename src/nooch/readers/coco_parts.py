"""A part of scanned COCO files -> Dataset: the images with ids of a range, merged as whole files are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from nooch.data import Dataset
from nooch.readers.coco_files import Annotated, ScannedFile
from nooch.readers.coco_json import ParsedFile, captions_of, instances_of
from nooch.readers.coco_merge import counted_merge
from nooch.readers.coco_structure import checked_images, fill_areas, look_up
from nooch.readers.reading import ImageListing
from nooch.readers.spills import read_ids, read_spill

__all__ = ["ids_of", "read_part"]


def ids_of(files: Sequence[ScannedFile]) -> NDArray[np.int64]:
    """Ids of all images that things and stuff files list, ascending: int64 (n_images,), the one thing that is held of all."""
    ids = np.empty(0, np.int64)
    for file in files:
        if file.role != "captions":
            ids = np.union1d(ids, np.concatenate([read_ids(file.folder / stem) for stem in file.images]))
    return ids


def read_part(
    files: Sequence[ScannedFile], low: int, high: int, images: ImageListing | None = None
) -> tuple[Dataset, dict[str, int]]:
    """The images with ``low <= id < high`` as a Dataset without provenance, and the counts that ``notes_of`` tells.

    Args:
        files: as of ``scan_files``.
        low: of the range of ids. Ranges of parts leave no id out, so that each annotation is checked in one of them.
        high: behind the range.
        images: where the image files lie.

    Raises:
        InputError: as ``read_coco`` does; lists and counts in its message are those of the part.
    """
    parsed = [(file.role, _parsed(file, low, high)) for file in files]
    index = None
    if images is not None:
        wanted = {name.rsplit("/", 1)[-1] for _, file in parsed for name in file.file_names if name is not None}
        index = images.index(lambda name: name in wanted)
    return counted_merge(parsed, index)


def _parsed(file: ScannedFile, low: int, high: int) -> ParsedFile:
    images = _images(file, low, high)
    parts = [_annotations(file, part, images, low, high) for part in file.annotations]
    numbers, ids = (_joined([part[k] for part in parts], np.int64) for k in ("number", "id"))
    if file.role == "captions":
        return captions_of(file.path, images, ids, [text for part in parts for text in part["texts"]], numbers)
    categories, areas = (
        _joined([part[k] for part in parts], kind) for k, kind in (("category", np.int64), ("area", np.float64))
    )
    return instances_of(file.path, images, ids, categories, areas, file.categories, file.licenses, numbers)


def _images(file: ScannedFile, low: int, high: int) -> dict[str, Any]:
    spills = [read_spill(file.folder / stem, low, high) for stem in file.images]
    rows = np.concatenate([rows for rows, _ in spills])
    names = [None if name is None else name.decode() for _, texts in spills for name in texts]
    order = np.argsort(rows["id"], kind="stable")
    ordered = rows[order]
    columns = (ordered["id"].copy(), ordered["width"], ordered["height"], [names[row] for row in order.tolist()])
    return checked_images([columns], file.path)


def _annotations(file: ScannedFile, part: Annotated, images: dict[str, Any], low: int, high: int) -> dict[str, Any]:
    """Rows of one spill: those of an image in the order of the file."""
    rows, texts = read_spill(file.folder / part.stem, low, high)
    numbers = rows["number"].astype(np.int64) + part.first
    found: dict[str, Any] = {"id": rows["id"].copy(), "number": numbers}
    if file.role == "captions":
        return found | {"texts": [(text or b"").decode() for text in texts]}
    areas = rows["area"].copy()
    if part.masks:
        _, masks = read_spill(file.folder / part.masks, low, high)
        # both are in the same order, one mask for each area that is missing
        which = dict(zip(np.flatnonzero(np.isnan(areas)).tolist(), masks, strict=True))
        index = look_up(found["id"], images["image_ids"])
        areas = fill_areas(
            lambda row: msgspec.json.decode(which[row] or b"null"),
            areas,
            index,
            images,
            file.path,
            lambda row: int(numbers[row]),
        )
    return found | {"category": rows["category"].copy(), "area": areas}


def _joined(parts: list[NDArray[Any]], kind: type) -> NDArray[Any]:
    return np.concatenate([np.empty(0, kind), *parts])
