"""What every format of bounding boxes gives: each image's boxes; and the checks they share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import polars as pl

from nooch.base.errors import InputError, some_of
from nooch.data import identifiers
from nooch.data.readers.contract import ImageListing, NumberedJob
from nooch.data.readers.image_rows import (
    ImageRows,
    Parse,
    files_below,
    listed_digest,
    parse_files,
    write_rows,
)
from nooch.data.readers.jobs import JobRunner

__all__ = [
    "BOX_COLUMNS", "LEEWAY", "BoxFiles", "BoxTable", "FoundBoxes", "check_box", "count_notes",
    "files_of", "listed_files",
]  # fmt: skip

BOX_COLUMNS: dict[str, Any] = {"keys": pl.List(pl.String), "areas": pl.List(pl.Float64)}
"""Class keys of an image's boxes, and their areas as fractions of the image."""

LEEWAY = 1e-3
"""How far a box may reach beyond the image, as a fraction: annotation tools round outwards."""


@dataclass(frozen=True, kw_only=True)
class FoundBoxes(ABC):
    """Where the boxes are, before any is read.

    Attributes:
        source: what was given, for errors.
        names_of: class keys that occur, sorted -> class key -> class name, in the order of classes.
        root: folder of the images, where the files name each of them.
        images: folder below which the images are looked for, unless another one is given.
        notes: for the dataset.
    """

    source: Path
    names_of: Callable[[Sequence[str]], dict[str, str]]
    root: Path | None = None
    images: Path | None = None
    notes: tuple[str, ...] = ()

    @abstractmethod
    def digest(self) -> str:
        """A digest of the files beyond the source itself."""

    @abstractmethod
    def scan(self, folder: Path, runner: JobRunner, images: ImageListing | None) -> ImageRows:
        """Read the boxes: ``stem``, ``BOX_COLUMNS``, ``bare`` (no boxes), other known columns."""


@dataclass(frozen=True, kw_only=True)
class BoxFiles(FoundBoxes):
    """Boxes in a file for each image: ``listed`` has its ``stem``, the ``file`` of its boxes (null:
    it has none), and ``file_name`` and ``split`` where they are known; ``parsed`` are columns of
    ``parse``.
    """

    listed: pl.DataFrame
    parse: Parse
    parsed: Mapping[str, Any] = field(default_factory=lambda: BOX_COLUMNS)

    def digest(self) -> str:
        """Of the files by name, size and time."""
        return listed_digest(self.listed)

    def scan(self, folder: Path, runner: JobRunner, images: ImageListing | None) -> ImageRows:
        """Parse the files. Raises InputError where two have the same name."""
        stems = self.listed["stem"]
        if len(twice := stems.filter(stems.is_duplicated()).unique().sort()):
            problem = f"several files are called {some_of(twice)}"
            raise InputError(problem, where=self.source, allowed="one file for each image")
        return parse_files(_with_bare(self.listed, images), self.parse, self.parsed, folder, runner)


@dataclass(frozen=True, kw_only=True)
class BoxTable(FoundBoxes):
    """Boxes in one table, which ``read`` gives as ``stem`` and ``BOX_COLUMNS``."""

    read: Callable[[], pl.DataFrame]

    def digest(self) -> str:
        """Empty: there is only the source."""
        return ""

    def scan(self, folder: Path, runner: JobRunner, images: ImageListing | None) -> ImageRows:
        """Read the table."""
        (n_batches,) = runner.results([_TableJob(folder, 0, self.read, images)])
        return ImageRows(folder, n_batches)


@dataclass(frozen=True)
class _TableJob(NumberedJob):
    """Read a table of boxes; the result is the number of batches of rows."""

    name: ClassVar[str] = "table"
    result_type: ClassVar[type] = int
    read: Callable[[], pl.DataFrame]
    images: ImageListing | None

    def make(self) -> int:
        """Read the table."""
        return write_rows(_with_bare(self.read(), self.images), self.folder)


def _with_bare(rows: pl.DataFrame, images: ImageListing | None) -> pl.DataFrame:
    """Rows with ids, in the order of stems; images without boxes have rows, too."""
    rows = rows.with_columns(bare=False)
    if images is not None:
        stems = sorted({Path(path).stem for path in images.paths()})
        bare = pl.DataFrame({"stem": stems}, schema={"stem": pl.String})
        bare = bare.join(rows, on="stem", how="anti").with_columns(bare=True)
        rows = pl.concat([rows, bare], how="diagonal").with_columns(pl.col(pl.List).fill_null([]))
    return rows.with_columns(identifiers(rows["stem"].to_list())).sort("stem")


def listed_files(files: Sequence[str]) -> pl.DataFrame:
    """Files that are called after their images, as ``BoxFiles.listed``."""
    stems = [file.rsplit("/", 1)[-1].rsplit(".", 1)[0] for file in files]
    return pl.DataFrame(
        {"stem": stems, "file": files}, schema={"stem": pl.String, "file": pl.String}
    )


def files_of(folder: Path, ending: str) -> list[str]:
    """The files below a folder with an ending, sorted. Raises InputError where there is none."""
    if not folder.is_dir():
        raise InputError("is no folder", where=folder, allowed=f"a folder of {ending} files")
    files = files_below(folder, lambda name: name.endswith(ending))
    if not files:
        raise InputError(f"holds no {ending} file", where=folder)
    return files


def count_notes(bare: int, missing: int, of: int) -> list[str]:
    """Notes that count images without labels, and labels without an image file."""
    without = (
        f"{bare} of {of} images have no label file or row: they count as images without objects"
    )
    lost = f"{missing} of {of} image files are not there"
    return [note for note, count in ((without, bare), (lost, missing)) if count]


def check_box(edges: Sequence[float], where: object) -> None:
    """Raise InputError unless left, right, top, bottom (fractions) lie within the image."""
    left, right, top, bottom = edges
    # false for NaN, too
    if not (-LEEWAY <= left <= right <= 1 + LEEWAY and -LEEWAY <= top <= bottom <= 1 + LEEWAY):
        box = f"({left:.4g}, {top:.4g}) to ({right:.4g}, {bottom:.4g})"
        raise InputError(
            f"the box from {box} is not within the image",
            where=where,
            allowed="edges between 0 and 1 of the image's width and height, in order",
        )
