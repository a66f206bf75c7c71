"""Pixel maps of stuff, counted in place of a stuff file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.base.calls import Map, StepProgress
from nooch.base.errors import InputError, some_of
from nooch.data.readers.coco.structure import ParsedFile
from nooch.data.readers.cocostuff import COCOSTUFF, OTHER, map_values
from nooch.data.readers.image_rows import ImageRows, entries_of
from nooch.data.readers.map_pixels import count_maps, list_maps


@dataclass(frozen=True)
class StuffMaps:
    """Counted pixel maps on disk."""

    folder: Path
    classes: list[str]
    rows: ImageRows

    def read(self, low: int | None, high: int | None) -> ParsedFile:
        """Maps of images with ``low <= id < high`` as an annotation file; areas are pixels."""
        rows = self.rows.read(low, high)
        at, columns, pixels = entries_of(rows, "pixels")
        return ParsedFile(
            str(self.folder),
            image_ids=rows["image_id"].to_numpy(),
            widths=rows["width"].to_numpy(),
            heights=rows["height"].to_numpy(),
            file_names=[None] * rows.height,
            categories=dict(enumerate(self.classes)),
            image_index=at,
            category_index=columns,
            areas=pixels.astype(np.float64),
        )


def scan_stuff_maps(
    maps: Path,
    values: str,
    known: NDArray[np.int64],
    folder: Path,
    map: Map,
    progress: StepProgress,
) -> StuffMaps:
    """Count the pixels of stuff in maps."""
    listed = list_maps(maps)
    ids = listed["image_id"]
    if ids.dtype != pl.Int64 or not np.isin(ids.to_numpy(), known).any():
        raise InputError(
            "no map is named after an image of the annotation files, such as"
            f" {some_of(listed['stem'].to_list(), 2)}",
            where=maps,
            allowed="names of maps that are image ids, such as 000000000139.png",
        )
    stuff = {
        value: name for value, name in map_values(values).items() if COCOSTUFF[name] == "stuff"
    }
    # thing pixels are left to the things files
    ignored = (set(map_values(values)) | {0, 255, OTHER}) - set(stuff)
    return StuffMaps(
        maps, list(stuff.values()), count_maps(listed, stuff, ignored, folder, map, progress)
    )
