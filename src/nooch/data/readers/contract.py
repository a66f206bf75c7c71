"""The contract of every reader: a ``Reading`` scans files into rows, which are read by part.

``read`` gives all images as one Dataset; jobs that are done once make a scan resumable.
"""

from __future__ import annotations

import builtins
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
import polars as pl

from nooch.base.calls import Map, StepProgress, no_progress
from nooch.base.errors import some_of
from nooch.base.split_plan import SplitPlan
from nooch.base.words import counted
from nooch.data.dataset import Dataset, ImageId
from nooch.data.readers.image_files import FolderWalk, ImageIndex, list_images

_BLOCK = 1 << 22


@dataclass(frozen=True)
class ImageListing:
    """Image files listed in a file: a worker indexes only the files of its part.

    In ``file`` the path of each, relative to ``root``, is ended by a zero byte, which no path
    contains; ``notes`` list what was left out.
    """

    root: Path
    file: Path
    notes: tuple[str, ...] = ()

    @classmethod
    def write(cls, images: str | Path, file: Path) -> Self:
        """List the image files below a folder. Raises InputError as ``ImageIndex``."""
        walk = FolderWalk()
        with file.open("wb") as listing:
            listing.writelines(os.fsencode(path) + b"\0" for path in list_images(images, walk))
        return cls(Path(images).absolute(), file, tuple(walk.notes()))

    def index(self, is_wanted: Callable[[str], bool]) -> ImageIndex:
        """An index of the files whose names, without folders, are wanted."""
        return ImageIndex(
            self.root, (path for path in self.paths() if is_wanted(path.rsplit("/", 1)[-1]))
        )

    def paths(self) -> Iterator[str]:
        """All listed paths."""
        with self.file.open("rb") as listing:
            rest = b""
            while block := listing.read(_BLOCK):
                *paths, rest = (rest + block).split(b"\0")
                yield from map(os.fsdecode, paths)


class Scanned(Protocol):
    """Files that were read into rows on disk. It is pickled to workers."""

    @property
    def classes(self) -> Sequence[str]:
        """Names of all classes."""

    @property
    def broken(self) -> Sequence[Any]:
        """Images that were left out because they cannot be read: ``BrokenImage``."""

    def ids(self) -> pl.Series:
        """Ids of all images, each once, ascending: Int64 or String."""

    def read(
        self, low: ImageId | None, high: ImageId | None, images: ImageListing | None
    ) -> tuple[Dataset, dict[str, int]]:
        """The images with ``low <= id < high`` without provenance, and counts that add up.

        None is not an end of the range; ``images`` is the folder of image files.
        """

    def provenance(
        self, counts: Mapping[str, int], n_images: int, images: object
    ) -> dict[str, Any]:
        """Provenance of the dataset, with notes on the sums of the counts of all parts; ``images``
        is the folder as the user named it.
        """


class Reading(Protocol):
    """The parameters of a reader: files, and how to read them."""

    def files(self) -> Sequence[tuple[str, Path]]:
        """The files, each with its role."""

    def check(self, plan: SplitPlan | None) -> None:
        """Raise all errors that can be found before anything is read."""

    def dependencies(self) -> list[Any]:
        """Further inputs of the rows, JSON-like: an import resumes only if they are equal.

        Compared again when everything is read: a file that has changed is refused.
        """

    def scan(
        self, folder: Path, map: Map, progress: StepProgress, part_size: int | None = None
    ) -> Scanned:
        """Read the files into rows below a folder, except those that an earlier scan wrote.

        ``part_size``: images that are going to be read at once, for a reader that stores rows by
        part; None: all.
        """


def read(reading: Reading, *, images: str | Path | None = None, map: Map = builtins.map) -> Dataset:
    """All images of files as one Dataset in memory, without splits.

    Args:
        reading: the files and how they are read, such as ``nooch.io.TableReading(...)``; its errors
            are raised.
        images: folder below which the image files lie.
        map: where files are read; workers must see the temporary folder of this process.

    Examples:
        >>> nooch.io.read(nooch.io.CocoReading(things=["instances.json"])).classes
        ('car',)
    """
    reading.check(None)
    with tempfile.TemporaryDirectory(prefix="nooch-") as folder:
        scanned = reading.scan(Path(folder), map, no_progress)
        listing = (
            None if images is None else ImageListing.write(images, Path(folder, "image-files"))
        )
        data, counts = scanned.read(None, None, listing)
        bad = bad_lines(counts)
        provenance = scanned.provenance(counts, len(data), images)
        provenance["notes"] = [*provenance["notes"], *bad_notes(bad)]
        if listing is not None:
            provenance["notes"] = [*provenance["notes"], *listing.notes]
        return replace(data, provenance=provenance)


BAD = "bad: "
"""Begins the count of an annotation that is not as it should be; its row of ``bad_lines`` ends it.
"""


def bad_lines(counts: MutableMapping[str, int]) -> pl.DataFrame:
    """``file, place, problem, rule`` of annotations that are not as they should be, taken out of
    ``counts``.
    """
    found = sorted(name for name in counts if name.startswith(BAD))
    for name in found:
        del counts[name]
    rows = [name.removeprefix(BAD).split("\t") for name in found]
    return pl.DataFrame(
        rows, dict.fromkeys(("file", "place", "problem", "rule"), pl.String), orient="row"
    )


def bad_notes(bad: pl.DataFrame, listed: str = "") -> list[str]:
    """A note for each rule that was applied; ``listed``: where all are listed."""
    notes = []
    for rule, rows in sorted(bad.rows_by_key("rule", named=True).items()):
        some = some_of((f"{r['file']}, {r['place']}: {r['problem']}" for r in rows), 2)
        notes.append(f"{counted(len(rows), 'annotation')} {rule}: {some}{listed}")
    return notes


def part_edges(n_images: int, part_size: int | None) -> list[int]:
    """Edges of parts among images sorted by id: n_parts + 1 positions, 0 to ``n_images``.

    Parts have about as many images each, at most ``part_size``; None: one part.
    """
    n_parts = 1 if part_size is None else max(1, -(-n_images // part_size))
    edges: list[int] = np.linspace(0, n_images, n_parts + 1).astype(np.int64).tolist()
    return edges


def in_range(column: str, low: ImageId | None, high: ImageId | None) -> pl.Expr:
    """Rows with ``low <= column < high``, where None is not an end; skips row groups on disk."""
    condition = pl.lit(value=True) if low is None else pl.col(column) >= pl.lit(low)
    return condition if high is None else condition & (pl.col(column) < pl.lit(high))
