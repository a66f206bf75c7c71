"""What every format of bounding boxes gives: where the boxes of each image are, and the checks that formats share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from nooch.errors import InputError
from nooch.readers.image_rows import Parse

__all__ = ["BOX_COLUMNS", "LEEWAY", "FoundBoxes", "check_box", "count_notes", "files_of", "listed_files"]

BOX_COLUMNS: dict[str, Any] = {"keys": pl.List(pl.String), "areas": pl.List(pl.Float64)}
"""Class keys of an image's boxes, and their areas as fractions of the image."""

LEEWAY = 1e-3
"""How far a box may reach beyond the image, as a fraction: annotation tools round outwards."""


@dataclass(frozen=True)
class FoundBoxes:
    """Where the boxes are, before any is read.

    Attributes:
        rows: ``stem`` of each image with the ``file`` of its boxes (null: it has none); or a function that reads all boxes as a table of
            ``stem`` and ``BOX_COLUMNS``. Other columns are ``file_name`` and ``split``, where they are known.
        names_of: class keys that occur, sorted -> class key -> class name, in the order of classes.
        parse: parses a file.
        parsed: columns that it gives.
        root: folder of the images, where the files name each of them.
        images: folder below which the images are looked for, unless another one is given.
        notes: for the dataset.
    """

    rows: pl.DataFrame | Callable[[], pl.DataFrame]
    names_of: Callable[[Sequence[str]], dict[str, str]]
    parse: Parse | None = None
    parsed: tuple[tuple[str, Any], ...] = tuple(BOX_COLUMNS.items())
    root: Path | None = None
    images: Path | None = None
    notes: tuple[str, ...] = ()


def listed_files(files: Sequence[Path]) -> pl.DataFrame:
    """Files that are called after their images, as rows of ``FoundBoxes``."""
    columns = {"stem": [file.stem for file in files], "file": [str(file) for file in files]}
    return pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.String))


def files_of(folder: Path, ending: str) -> list[Path]:
    """The files below a folder with an ending, sorted. Raises InputError where there is no such folder or file."""
    if not folder.is_dir():
        raise InputError("is no folder", where=folder, allowed=f"a folder of {ending} files")
    files = sorted(p for p in folder.rglob(f"*{ending}") if p.is_file())
    if not files:
        raise InputError(f"holds no {ending} file", where=folder)
    return files


def count_notes(bare: int, missing: int, of: int) -> list[str]:
    """Notes that count images without labels, and labels without an image file."""
    notes = [f"{bare} of {of} images have no label file or row: they count as images without objects"] if bare else []
    return [*notes, *([f"{missing} of {of} image files are not there"] if missing else [])]


def check_box(left: float, right: float, top: float, bottom: float, where: object) -> None:
    """Raise InputError for a box that is not within the image; edges are fractions of width and height."""
    low, high = -LEEWAY, 1 + LEEWAY
    # false for NaN, too
    if not (low <= left <= right <= high and low <= top <= bottom <= high):
        raise InputError(
            f"the box from ({left:.4g}, {top:.4g}) to ({right:.4g}, {bottom:.4g}) is not within the image",
            where=where,
            allowed="edges between 0 and 1 of the image's width and height, in order",
        )
