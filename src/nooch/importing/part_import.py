"""What workers do for an import: write a part of the dataset, and give its images their splits."""

from __future__ import annotations

import filecmp
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.data import SPLITS, ImageId
from nooch.data.array_files import read_array, write_array
from nooch.data.dataset_folder import (
    Header,
    PartRecord,
    file_record,
    seal_dataset,
    write_part,
    write_table,
)
from nooch.data.splits import group_names, split_codes
from nooch.errors import InputError
from nooch.plans import SplitPlan
from nooch.readers.reader_contract import ImageListing, NumberedJob, Scanned, part_edges
from nooch.readers.resumable_jobs import JobRunner
from nooch.shared_types import Map, Progress

__all__ = [
    "Imported",
    "Part",
    "PartJob",
    "SplitJob",
    "Work",
    "Written",
    "divided",
    "groups_of",
    "seal",
    "split_provenance",
    "write_parts",
]


class Written(msgspec.Struct):
    """A part whose files are written, and what was counted in it; ``unknown`` areas are NaN.

    The fingerprint of a single part is that of the dataset.
    """

    record: PartRecord
    counts: dict[str, int]
    image_root: str | None
    attributes: list[str]
    unknown: int
    fingerprint: str | None = None


@dataclass(frozen=True)
class Part:
    """Images ``first`` to ``first + count`` by id; ``low <= id < high``, where None is no end."""

    low: ImageId | None
    high: ImageId | None
    first: int
    count: int


def divided(ids: pl.Series, part_size: int | None) -> list[Part]:
    """Parts of about as many images each, at most ``part_size``; one part where it is None."""
    edges = part_edges(len(ids), part_size)
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
class PartJob(NumberedJob):
    """Write one part. A split by groups waits until those of all images are known."""

    name: ClassVar[str] = "part"
    result_type: ClassVar[type] = Written
    work: Work
    part: Part

    def make(self) -> Written:
        """Read the images, and write their tables."""
        work = self.work
        data, counts = work.scanned.read(self.part.low, self.part.high, work.images)
        group = None if work.plan is None else work.plan.group
        if group is not None:
            names = group_names(data.images, group)
            names.to_frame().write_parquet(work.groups(self.number))
        elif work.plan is not None:
            data = replace(data, images=self.divided(data.images))
        unknown = int(np.isnan(data.areas.data).sum())
        record = write_part(data, work.dataset, self.number, work.n_parts)
        # of several parts, it takes another look at all files; with groups, splits are still to
        # come
        fingerprint = data.fingerprint if work.n_parts == 1 and group is None else None
        return Written(record, counts, data.image_root, list(data.attributes), unknown, fingerprint)

    def divided(self, images: pl.DataFrame) -> pl.DataFrame:
        """Images with their splits."""
        codes = read_array(self.work.splits, mapped=True)[
            self.part.first : self.part.first + self.part.count
        ]
        return images.with_columns(split=pl.Series(SPLITS, dtype=pl.String).gather(codes))


@dataclass(frozen=True)
class SplitJob(PartJob):
    """Write the images of a part again, with their splits."""

    name: ClassVar[str] = "split"

    def make(self) -> Written:
        """Write the table of images."""
        work, number = self.work, self.number
        written: Written = PartJob(self.folder, number, work, self.part).result()
        record = written.record
        name = next(name for name in record.files if name.startswith("images"))
        images = self.divided(pl.read_parquet(work.dataset / name, glob=False))
        record.files[name] = file_record(
            write_table(images, work.dataset, "images", number, work.n_parts)
        )
        record.splits = dict(images["split"].value_counts().iter_rows())
        return written


def groups_of(files: Sequence[Path]) -> pl.Series:
    """The group of each image of all parts, as a number in the order of the groups' names."""
    named = [pl.scan_parquet(file, glob=False).select("group") for file in files]
    names = pl.concat(some.unique() for some in named).unique().collect()["group"].sort()
    kind = pl.Enum(names)
    return pl.concat(some.collect()["group"].cast(kind).to_physical() for some in named)


def write_parts(
    folder: Path,
    scanned: Scanned,
    images: str | Path | None,
    plan: SplitPlan | None,
    part_size: int | None,
    map: Map,
    progress: Progress,
) -> tuple[Work, list[Written]]:
    """Write all parts. Parameters as of ``import_dataset``; ``folder`` holds intermediate files."""
    ids = scanned.ids()
    parts = divided(ids, part_size)
    listing = None if images is None else _listing(images, folder)
    work = Work(folder, scanned, listing, plan, len(parts))
    if plan is not None and plan.group is None:
        _save_splits(work, plan, split_codes(ids, plan))
    del ids
    work.dataset.mkdir(exist_ok=True)
    jobs = [PartJob(folder, number, work, part) for number, part in enumerate(parts)]
    written = JobRunner(map, partial(progress, "putting parts together")).results(jobs)
    if plan is not None and plan.group is not None:
        groups = groups_of([work.groups(number) for number in range(len(parts))])
        # of the ids, only the number counts
        _save_splits(work, plan, split_codes(groups, plan, groups))
        again = [SplitJob(folder, job.number, work, job.part) for job in jobs]
        written = JobRunner(map, partial(progress, "splitting parts")).results(again)
    return work, written


def _listing(images: str | Path, folder: Path) -> ImageListing:
    """List the image files. Parts that were written while others were there are of no use."""
    file = folder / "image-files"
    new = ImageListing.write(images, file.with_suffix(".partial"))
    if file.is_file() and not filecmp.cmp(new.file, file, shallow=False):
        for job in (PartJob, SplitJob):
            for kept in folder.glob(f"{job.name}-*"):
                kept.unlink()
    new.file.replace(file)
    return replace(new, file=file)


def _save_splits(work: Work, plan: SplitPlan, codes: NDArray[np.int8]) -> None:
    counts = dict(zip(SPLITS, np.bincount(codes, minlength=len(SPLITS)).tolist(), strict=True))
    # a split that is left empty is told before parts are written
    split_provenance({}, plan, counts)
    write_array(work.splits, codes)


@dataclass(frozen=True)
class Imported:
    """What was written.

    Attributes:
        header: contents of ``dataset.json``.
        annotated: number of pairs of an image and a class that it has.
        captions: number of captions.
        attributes: names of the attribute columns.
        has_areas: whether every present class has a known area.
    """

    header: Header
    annotated: int
    captions: int
    attributes: list[str]
    has_areas: bool


def seal(
    work: Work, written: Sequence[Written], images: str | Path | None, notes: Sequence[str]
) -> Imported:
    """Make a dataset of the parts."""
    records = [one.record for one in written]
    splits = _sum(record.splits for record in records)
    provenance = work.scanned.provenance(
        _sum(one.counts for one in written), sum(splits.values()), images
    )
    provenance["notes"] = [*notes, *provenance["notes"]]
    if work.plan is not None:
        provenance = split_provenance(provenance, work.plan, splits)
    first = written[0]
    return Imported(
        seal_dataset(
            work.dataset,
            records,
            work.scanned.classes,
            first.image_root,
            provenance,
            first.fingerprint,
        ),
        sum(int(record.per_image.sum(dtype=np.int64)) for record in records),
        sum(record.captions or 0 for record in records),
        first.attributes,
        not any(one.unknown for one in written),
    )


def _sum(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for some in counts:
        for name, count in some.items():
            total[name] = total.get(name, 0) + count
    return total


def split_provenance(
    provenance: Mapping[str, Any], plan: SplitPlan, counts: Mapping[str, int]
) -> dict[str, Any]:
    """Provenance with the plan, and a note on empty splits; ``counts`` are images per split.

    Raises:
        InputError: percentages that leave a split empty.
    """
    notes = list(provenance.get("notes", []))
    empty = [name for name in SPLITS if not counts.get(name)]
    wanted = [name for name, share in zip(SPLITS, plan.shares or (), strict=False) if share > 0]
    if lost := [name for name in empty if name in wanted]:
        raise InputError(
            f"split {plan.source} of {sum(counts.values())} images leaves {' and '.join(lost)}"
            " empty",
            remedy="give more images, or other percentages",
        )
    if empty:
        notes.append(f"no image is in the split {' or '.join(empty)}")
    record = {
        "source": plan.source,
        "seed": plan.seed,
        "group": plan.group,
        "values": dict(plan.values),
    }
    return {**provenance, "split": record, "notes": notes}
