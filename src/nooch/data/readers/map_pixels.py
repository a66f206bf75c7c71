"""Counting the pixels of each class in label maps (one 8- or 16-bit image for each photograph)."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.base.calls import Map, StepProgress
from nooch.base.errors import InputError, some_of, unreadable
from nooch.data.image_names import MAP_ENDINGS
from nooch.data.readers.image_files import LABEL_MAPS, UNREADABLE, opened_image
from nooch.data.readers.image_rows import ImageRows, files_below, parse_files
from nooch.data.table_schema import identifiers

FEW = 20
"""Values that a remedy lists at most."""
_MODES = {"1", "L", "P", "I;16", "I;16B", "I"}

_COUNTED = {
    "width": pl.Int64,
    "height": pl.Int64,
    "keys": pl.List(pl.Int64),
    "pixels": pl.List(pl.Int64),
    "areas": pl.List(pl.Float64),
}
"""The size of a map; by ascending class column, the number of pixels and their share."""


def list_maps(folder: Path, suffix: str = "") -> pl.DataFrame:
    """The maps below a folder, sorted by image id: ``image_id``, ``stem`` (no suffix), ``file``.
    Raises InputError: there is none, or there are two for an image.
    """
    ending = next(filter(suffix.lower().endswith, MAP_ENDINGS), "")
    suffix = suffix[: len(suffix) - len(ending)]

    def is_map(name: str) -> bool:
        stem, ending = os.path.splitext(name)  # noqa: PTH122 - a Path for each is slow
        return ending.lower() in MAP_ENDINGS and stem.endswith(suffix)

    files = files_below(folder, is_map)
    if not files:
        allowed = f"files ending in {', '.join(MAP_ENDINGS)}"
        raise InputError("contains no label maps", where=folder, allowed=allowed)
    stems = [file.rsplit("/", 1)[-1].rsplit(".", 1)[0].removesuffix(suffix) for file in files]
    ids = identifiers(stems)
    if len(twice := ids.filter(ids.is_duplicated()).unique()):
        raise InputError(f"several maps have the same name: {some_of(twice)}", where=folder)
    return pl.DataFrame({"image_id": ids, "stem": stems, "file": files}).sort("image_id")


def count_maps(
    listed: pl.DataFrame,
    names: Mapping[int, str],
    ignored: Collection[int],
    folder: Path,
    map: Map,
    progress: StepProgress,
) -> ImageRows:
    """Count the pixels of every class in maps of ``list_maps``: their size, and lists of ``keys``
    (columns, in the order of ``names``, which are of values), ``pixels`` and ``areas``; ``ignored``
    values mean no class.
    """
    columns = {value: column for column, value in enumerate(names)}
    parse = partial(_count, columns, frozenset(ignored))
    return parse_files(listed, parse, _COUNTED, folder, map, progress)


def _count(
    columns: Mapping[int, int], ignored: Collection[int], path: Path, where: str
) -> dict[str, Any]:
    (width, height), values, counts = _pixel_counts(path, where)
    pixels = {}
    for value, count in zip(values.tolist(), counts.tolist(), strict=True):
        if value in columns:
            pixels[columns[value]] = count
        elif value not in ignored:
            classes, void = some_of(sorted(columns), 8), some_of(sorted(ignored)) or "none"
            problem = f"{count} pixels have value {value}, which is not a class"
            allowed = f"{classes}; ignored: {void}"
            if len(ignored) > FEW:
                # pixel maps of COCO ignore all values of things
                remedy = "give maps that use these values"
                raise InputError(problem, where=where, allowed=allowed, remedy=remedy)
            remedy = "add the value to the class list; or, if it is not a class, {}"
            give = {"void": sorted({*ignored, value})}
            raise InputError(problem, where=where, allowed=allowed, remedy=remedy, give=give)
    ordered = sorted(pixels)
    counted = [pixels[column] for column in ordered]
    areas = [count / (width * height) for count in counted]
    size = {"width": width, "height": height}
    return {**size, "keys": ordered, "pixels": counted, "areas": areas}


def _pixel_counts(
    path: Path, where: str
) -> tuple[tuple[int, int], NDArray[np.int64], NDArray[np.int64]]:
    """Size of a map, the values in it, and how many pixels have each."""
    broken = unreadable(where, errors=UNREADABLE, problem="cannot be read as an image")
    with broken, opened_image(path, LABEL_MAPS) as image:
        mode, size = image.mode, image.size
        pixels = np.asarray(image if mode in _MODES else ())
    if mode not in _MODES:
        allowed = "one channel of class values (modes L, P, I, I;16)"
        raise InputError(f"is a {mode} image", where=where, allowed=allowed)
    if pixels.dtype.itemsize == 1:
        counts = np.bincount(pixels.ravel(), minlength=256)
        values = np.flatnonzero(counts)
        return size, values, counts[values]
    values, counts = np.unique(pixels, return_counts=True)
    return size, values.astype(np.int64), counts.astype(np.int64)
