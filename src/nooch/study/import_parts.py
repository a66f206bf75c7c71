"""What workers do for an import: write a part of the dataset from scanned rows; give its images their splits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

import msgspec
import numpy as np
import polars as pl

from nooch.data import SPLITS, ImageId
from nooch.data.array_files import read_array
from nooch.data.splits import group_names
from nooch.data.store import PartRecord, file_record, write_part, write_table
from nooch.plans import SplitPlan
from nooch.readers.reading import ImageListing, Job, Scanned

__all__ = ["Part", "PartJob", "SplitJob", "Work", "Written", "divided", "groups_of"]


class Written(msgspec.Struct):
    """A part whose files are written, and what was counted in it; ``unknown`` areas are NaN."""

    record: PartRecord
    counts: dict[str, int]
    image_root: str | None
    attributes: list[str]
    unknown: int


@dataclass(frozen=True)
class Part:
    """Images ``first`` to ``first + count`` in the order of ids; theirs lie in ``low <= id < high``, where None is no end."""

    low: ImageId | None
    high: ImageId | None
    first: int
    count: int


def divided(ids: pl.Series, part_size: int | None) -> list[Part]:
    """Parts of about as many images each, ``part_size`` at most; one part where it is None. Their ranges leave no id out."""
    n_parts = 1 if part_size is None else max(1, -(-len(ids) // part_size))
    edges = np.linspace(0, len(ids), n_parts + 1).astype(np.int64).tolist()
    bounds = [None, *(ids[edge] for edge in edges[1:-1]), None]
    return [
        Part(low, high, first, last - first)
        for (low, high), (first, last) in zip(pairwise(bounds), pairwise(edges), strict=True)
    ]


@dataclass(frozen=True)
class Work:
    """Everything that workers need; it is pickled to them with each part.

    Attributes:
        folder: of intermediate files.
        scanned: rows of the sources.
        images: where the image files lie.
        plan: how images are divided.
        n_parts: number of parts.
    """

    folder: Path
    scanned: Scanned
    images: ImageListing | None
    plan: SplitPlan | None
    n_parts: int

    @property
    def dataset(self) -> Path:
        """The folder of the dataset, until it is complete."""
        return self.folder / "dataset"

    @property
    def splits(self) -> Path:
        """Position in SPLITS of every image."""
        return self.folder / "splits.npy"

    def groups(self, number: int) -> Path:
        """Name of the group of each image of a part."""
        return self.folder / f"groups-{number:07d}.parquet"


@dataclass(frozen=True)
class PartJob(Job):
    """Write one part. A split by groups waits until those of all images are known."""

    name: ClassVar[str] = "part"
    result: ClassVar[type] = Written
    work: Work
    part: Part

    def make(self) -> Written:
        """Read the images, and write their tables."""
        work = self.work
        data, counts = work.scanned.read(self.part.low, self.part.high, work.images)
        if work.plan is not None and work.plan.group is not None:
            names = group_names(data.images, work.plan.group)
            names.to_frame().write_parquet(work.groups(self.number))
        elif work.plan is not None:
            data = replace(data, images=self.divided(data.images))
        unknown = int(np.isnan(data.areas.data).sum())
        record = write_part(data, work.dataset, self.number, work.n_parts)
        return Written(record, counts, data.image_root, list(data.attributes), unknown)

    def divided(self, images: pl.DataFrame) -> pl.DataFrame:
        """Images with their splits."""
        codes = read_array(self.work.splits, mapped=True)[self.part.first : self.part.first + self.part.count]
        return images.with_columns(split=pl.Series(SPLITS, dtype=pl.String).gather(codes))


@dataclass(frozen=True)
class SplitJob(PartJob):
    """Write the images of a part again, with their splits."""

    name: ClassVar[str] = "split"

    def make(self) -> Written:
        """Write the table of images."""
        work, number = self.work, self.number
        written: Written = PartJob(self.folder, number, work, self.part).do()
        record = written.record
        name = next(name for name in record.files if name.startswith("images"))
        images = self.divided(pl.read_parquet(work.dataset / name, glob=False))
        record.files[name] = file_record(write_table(images, work.dataset, "images", number, work.n_parts))
        record.splits = dict(images["split"].value_counts().iter_rows())
        return written


def groups_of(files: Sequence[Path]) -> pl.Series:
    """Groups of the images of all parts, as numbers in the order of their names, from files of names."""
    named = [pl.scan_parquet(file, glob=False).select("group") for file in files]
    names = pl.concat(some.unique() for some in named).unique().collect()["group"].sort()
    kind = pl.Enum(names)
    return pl.concat(some.collect()["group"].cast(kind).to_physical() for some in named)
