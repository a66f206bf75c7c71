"""Work of an import's workers: write a part of the dataset, and assign splits to its images."""

from __future__ import annotations

import filecmp
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.base.calls import Map, Progress
from nooch.base.errors import InputError, some_of
from nooch.base.files import replacing
from nooch.base.split_plan import SplitPlan
from nooch.base.work_folder import Batches, Steps
from nooch.data.dataset import ImageId, load_dataset
from nooch.data.dataset_folder import PartRecord, seal_dataset, write_part, write_table
from nooch.data.importing.broken_images import (
    BAD_LIST,
    BrokenImage,
    broken_note,
    check_bad,
    check_broken,
    save_list,
    without_broken,
)
from nooch.data.part_files import Header, file_record
from nooch.data.readers.contract import ImageListing, Scanned, bad_lines, bad_notes, part_edges
from nooch.data.readers.jobs import NumberedJob, results_of
from nooch.data.splits import group_names, split_codes
from nooch.data.table_files import csv_bytes
from nooch.data.table_schema import SPLITS


class Written(msgspec.Struct):
    """A part whose files are written, and what was counted in it; ``unknown`` areas are NaN,
    ``broken`` images were left out.

    The fingerprint of a single part is the dataset's.
    """

    record: PartRecord
    counts: dict[str, int]
    image_root: str | None
    attributes: list[str]
    unknown: int
    broken: list[BrokenImage]
    fingerprint: str | None = None


@dataclass(frozen=True)
class PartRange:
    """Images ``first`` to ``first + count`` by id; ``low <= id < high``, with None for an open
    end.
    """

    low: ImageId | None
    high: ImageId | None
    first: int
    count: int


def divided(ids: pl.Series, part_size: int | None) -> list[PartRange]:
    """Parts of about as many images each, at most ``part_size``; one part if it is None."""
    edges = part_edges(len(ids), part_size)
    bounds = [None, *(ids[edge] for edge in edges[1:-1]), None]
    return [
        PartRange(low, high, first, last - first)
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
        group: by which images are grouped, see ``Dataset.group``.
        n_parts: number of parts.
        notes: of what was found when all parts were written.
    """

    folder: Path
    scanned: Scanned
    images: ImageListing | None
    plan: SplitPlan | None
    group: str | None
    n_parts: int
    notes: tuple[str, ...] = ()

    @property
    def divides_groups(self) -> bool:
        """True if the split waits until the groups of all images are known."""
        return self.plan is not None and self.plan.group is not None

    @property
    def dataset(self) -> Path:
        """The folder of the dataset, until it is complete."""
        return self.folder / "dataset"

    @property
    def kept(self) -> Steps:
        """Position in SPLITS of every image; groups of the images of each part."""
        return Steps(self.folder)


@dataclass(frozen=True)
class PartJob(NumberedJob):
    """Write one part. A split by groups waits until the groups of all images are known."""

    name: ClassVar[str] = "part"
    result_type: ClassVar[type] = Written
    work: Work
    part: PartRange

    def make(self) -> Written:
        """Read the images, and write their tables."""
        work = self.work
        data, counts = work.scanned.read(self.part.low, self.part.high, work.images)
        # a name that is wrong is refused
        names = group_names(data.images, work.group or _PHOTOGRAPH)
        work.kept.put(_groups_file(self.number), [names.to_frame()])
        if work.plan is not None and not work.divides_groups:
            data = replace(data, images=self.divided(data.images))
        data, broken = without_broken(data)
        unknown = int(np.isnan(data.areas.data).sum())
        record = write_part(data, work.dataset, self.number, work.n_parts)
        # the fingerprint of several parts needs all files; with groups, splits are still to come
        fingerprint = data.fingerprint if work.n_parts == 1 and not work.divides_groups else None
        return Written(
            record, counts, data.image_root, list(data.attributes), unknown, broken, fingerprint
        )

    def divided(self, images: pl.DataFrame, broken: Sequence[BrokenImage] = ()) -> pl.DataFrame:
        """Images, without the broken ones, with their splits."""
        first, last = self.part.first, self.part.first + self.part.count
        codes = self.work.kept.read("splits.npy")[first:last]
        codes = np.delete(codes, [image.row for image in broken])
        return images.with_columns(split=pl.Series(SPLITS, dtype=pl.String).gather(codes))


@dataclass(frozen=True)
class SplitJob(PartJob):
    """Write the images of a part again, with their splits."""

    name: ClassVar[str] = "split"

    def make(self) -> Written:
        """Write the table of images."""
        work, number = self.work, self.number
        written: Written = PartJob(self.folder, number, work, self.part).result()
        written.fingerprint = None
        record = written.record
        name = next(name for name in record.files if name.startswith("images"))
        images = self.divided(pl.read_parquet(work.dataset / name, glob=False), written.broken)
        file = write_table(images, work.dataset, "images", number, work.n_parts)
        record.files[name] = file_record(file)
        record.splits = dict(images["split"].value_counts().iter_rows())
        return written


_PHOTOGRAPH = "file_name"
"""Column that groups the ids of one image file."""


def _groups_file(part: int) -> str:
    return f"groups-{part:07d}.arrow"


def groups_of(parts: Sequence[Batches]) -> pl.Series:
    """The group of each image of all parts, as a number in the order of the groups' names."""
    names = pl.concat(part[0]["group"].unique() for part in parts).drop_nulls().unique().sort()
    kind = pl.Enum(names)
    return pl.concat(part[0]["group"].cast(kind).to_physical() for part in parts)


def write_parts(
    folder: Path,
    scanned: Scanned,
    images: str | Path | None,
    plan: SplitPlan | None,
    group: str | None,
    part_size: int | None,
    map: Map,
    progress: Progress,
) -> tuple[Work, list[Written]]:
    """Write all parts. Parameters as in ``import_dataset``; ``folder`` is for intermediate
    files.
    """
    ids = scanned.ids()
    parts = divided(ids, part_size)
    listing = None if images is None else _listing(images, folder)
    work = Work(folder, scanned, listing, plan, group, len(parts))
    if plan is not None and plan.group is None:
        _save_splits(work, plan, split_codes(ids, plan))
    del ids
    work.dataset.mkdir(exist_ok=True)
    jobs = [PartJob(folder, number, work, part) for number, part in enumerate(parts)]
    written = results_of(jobs, map, partial(progress, "putting parts together"))
    batches = [work.kept.read(_groups_file(job.number)) for job in jobs]
    if group is None:
        work = _of_photographs(work, [batch[0]["group"] for batch in batches])
    if work.plan is not None and work.divides_groups:
        groups = groups_of(batches)
        # only the number of ids is used
        _save_splits(work, work.plan, split_codes(groups, work.plan, groups))
        again = [SplitJob(folder, job.number, work, job.part) for job in jobs]
        written = results_of(again, map, partial(progress, "splitting parts"))
    return work, written


def _of_photographs(work: Work, files: Sequence[pl.Series]) -> Work:
    """The work with the ids of one image file as a group, if a file has several."""
    # hashes: names of all files take much memory
    known = pl.concat(some.is_not_null() for some in files)
    repeated = pl.concat(some.hash() for some in files).is_duplicated() & known
    if not repeated.any():
        return work
    some = some_of(work.scanned.ids().filter(repeated))
    note = f"{int(repeated.sum())} images share their file with another: {some}; each file is one"
    plan = work.plan
    if plan is not None and plan.shares is not None:
        plan = replace(plan, group=_PHOTOGRAPH)
    notes = (f"{note} group, {_PHOTOGRAPH}",)
    return replace(work, plan=plan, group=_PHOTOGRAPH, notes=notes)


def _listing(images: str | Path, folder: Path) -> ImageListing:
    """List the image files. Parts written with another list are removed."""
    file = folder / "image-files"
    with replacing(file) as partial:
        new = ImageListing.write(images, partial)
        if file.is_file() and not filecmp.cmp(partial, file, shallow=False):
            for job in (PartJob, SplitJob):
                for kept in folder.glob(f"{job.name}-*"):
                    kept.unlink()
    return replace(new, file=file)


def _save_splits(work: Work, plan: SplitPlan, codes: NDArray[np.int8]) -> None:
    counts = dict(zip(SPLITS, np.bincount(codes, minlength=len(SPLITS)).tolist(), strict=True))
    # raises for a split that is left empty before parts are written
    split_provenance({}, plan, counts)
    work.kept.put("splits.npy", codes)


@dataclass(frozen=True)
class Imported:
    """A written part.

    Attributes:
        header: contents of ``dataset.json``.
        annotated: number of pairs of an image and a class that it has.
        captions: number of captions.
        attributes: names of the attribute columns.
        has_areas: whether every present class has a known area.
        missing: number of images whose file is not below the folder of images.
    """

    header: Header
    annotated: int
    captions: int
    attributes: list[str]
    has_areas: bool
    missing: int = 0

    @property
    def facts(self) -> dict[str, Any]:
        """JSON-like."""
        about = self.header.provenance
        return {
            "images": self.header.n_images,
            "splits": self.header.splits,
            "classes": len(self.header.classes),
            "annotated": self.annotated,
            "captions": self.captions,
            "attributes": self.attributes,
            "area": about.get("area"),
            "fingerprint": self.header.fingerprint,
            "notes": about.get("notes", []),
        }


def seal(
    work: Work,
    written: Sequence[Written],
    images: str | Path | None,
    notes: Sequence[str],
    broken: str,
    value_range: tuple[float, float] | None,
    context: Sequence[str],
) -> Imported:
    """Make a dataset of the parts. Parameters as in ``import_dataset``. Raises InputError: broken
    images, if they are refused or there are no others; ParameterError as ``Dataset.with_context``.
    """
    records = [part.record for part in written]
    splits, counts = _sum(r.splits for r in records), _sum(part.counts for part in written)
    left_out = [*work.scanned.broken, *(image for part in written for image in part.broken)]
    n_images, bad = sum(splits.values()) + len(left_out), bad_lines(counts)
    provenance = work.scanned.provenance(counts, n_images, images)
    if value_range is not None:
        provenance["range"] = list(value_range)
    listed = () if work.images is None else work.images.notes
    provenance["notes"] = [*notes, *provenance["notes"], *listed, *work.notes]
    if bad.height:
        check_bad(bad, broken)
        provenance["notes"] += bad_notes(bad, f"; listed in {BAD_LIST} of the dataset")
        file = work.dataset / BAD_LIST
        file.write_bytes(csv_bytes(bad))
        records[0].files[file.name] = file_record(file)
    if left_out:
        kept = bool(work.scanned.broken)
        check_broken(left_out, n_images, written[0].image_root, broken, kept)
        provenance["notes"].insert(len(notes), broken_note(left_out, n_images))
        file = save_list(left_out, work.dataset)
        records[0].files[file.name] = file_record(file)
    if work.plan is not None:
        provenance = split_provenance(provenance, work.plan, splits)
    if work.group is not None and not work.divides_groups:
        provenance["group"] = work.group
    first, classes = written[0], work.scanned.classes
    about = work.dataset, records, classes, first.image_root
    header = seal_dataset(*about, provenance, first.fingerprint)
    if context:
        provenance["context"] = load_dataset(work.dataset).with_context(context).context
        header = seal_dataset(*about, provenance, header.fingerprint)
    return Imported(
        header,
        sum(int(record.per_image.sum(dtype=np.int64)) for record in records),
        sum(record.captions or 0 for record in records),
        first.attributes,
        not any(part.unknown for part in written),
        counts.get("missing", 0) + counts.get("files", 0),
    )


def _sum(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total = Counter[str]()
    for some in counts:
        total.update(some)
    return dict(total)


def split_provenance(
    provenance: Mapping[str, Any], plan: SplitPlan, counts: Mapping[str, int]
) -> dict[str, Any]:
    """Provenance with the plan, and a note on empty splits; ``counts`` are images per split."""
    notes = list(provenance.get("notes", []))
    empty = [name for name in SPLITS if not counts.get(name)]
    splits = [name for name, share in zip(SPLITS, plan.shares or (), strict=False) if share > 0]
    if lost := [name for name in empty if name in splits]:
        problem = f"leaves {' and '.join(lost)} empty: there are only {sum(counts.values())} images"
        remedy = "give more images, or other percentages"
        raise InputError(f"split {plan.source} {problem}", remedy=remedy)
    if empty:
        notes.append(f"no image is in the split {' or '.join(empty)}")
    plan_record = {**asdict(plan), "values": dict(plan.values)}
    return {**provenance, "split": plan_record, "notes": notes}
