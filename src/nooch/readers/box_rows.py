"""Boxes of images, as every format of them gives them, and the checks that they share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nooch.errors import InputError
from nooch.shared_types import Map

__all__ = ["Boxes", "FoundBoxes", "check_box", "count_notes", "files_of", "inside", "parsed"]

_BATCH = 256


@dataclass(frozen=True)
class Boxes:
    """Boxes of one image: class keys and areas as fractions of the image."""

    stem: str
    keys: list[str]
    areas: list[float]
    width: int | None = None
    height: int | None = None
    file_name: str | None = None
    split: str | None = None


@dataclass(frozen=True)
class FoundBoxes:
    """What a format's files hold.

    Attributes:
        names: class key -> class name.
        boxes: of each image.
        root: folder of the images, where the files name each of them.
        images: folder below which the images are looked for, unless another one is given.
        notes: for the dataset.
    """

    names: dict[str, str]
    boxes: list[Boxes]
    root: Path | None = None
    images: Path | None = None
    notes: tuple[str, ...] = ()


def files_of(folder: Path, ending: str) -> list[Path]:
    """The files below a folder with an ending, sorted. Raises InputError where there is no such folder or file."""
    if not folder.is_dir():
        raise InputError("is no folder", where=folder, allowed=f"a folder of {ending} files")
    files = sorted(p for p in folder.rglob(f"*{ending}") if p.is_file())
    if not files:
        raise InputError(f"holds no {ending} file", where=folder)
    return files


def parsed(files: list[Path], parse: Callable[[list[Path]], list[Boxes]], map: Map) -> list[Boxes]:
    """Boxes of each file, in order; ``parse`` takes a batch of files and must be picklable."""
    batches = [files[i : i + _BATCH] for i in range(0, len(files), _BATCH)]
    return [boxes for batch in map(parse, batches) for boxes in batch]


def count_notes(bare: int, missing: int, of: int) -> list[str]:
    """Notes that count images without labels, and labels without an image file."""
    notes = [f"{bare} of {of} images have no label file or row: they count as images without objects"] if bare else []
    return [*notes, *([f"{missing} of {of} image files are not there"] if missing else [])]


def inside(edges: Any) -> Any:
    """Whether boxes ``(left, right, top, bottom)``, float (..., 4) in fractions of the image, are within it: bool (...)."""
    low, high = edges[..., [0, 2]], edges[..., [1, 3]]
    # annotation tools round outwards: a thousandth beyond the edge is no error
    return ((low >= -1e-3) & (high <= 1 + 1e-3) & (low <= high)).all(axis=-1)


def check_box(left: float, right: float, top: float, bottom: float, where: object) -> None:
    """Raise InputError for a box that is not within the image; edges are fractions of width and height."""
    if not inside(np.array([left, right, top, bottom])):
        raise InputError(
            f"the box from ({left:.4g}, {top:.4g}) to ({right:.4g}, {bottom:.4g}) is not within the image",
            where=where,
            allowed="edges between 0 and 1 of the image's width and height, in order",
        )
