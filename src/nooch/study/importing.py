"""Import: files of any size -> a dataset folder, in bounded memory.

Three steps, each spread over workers by a ``map``: files are scanned into rows on disk; parts of the dataset, one by default,
are written from the rows of their images; a split by groups is added once all groups are known. Finished work lies
beside the dataset until that is written, so that an interrupted import resumes.
"""

from __future__ import annotations

import builtins
import filecmp
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.data import SPLITS, Dataset, apply_split, save_dataset
from nooch.data.array_files import write_array
from nooch.data.splits import split_codes
from nooch.data.store import Header, read_header, seal_dataset
from nooch.errors import InputError, ParameterError
from nooch.files import DATASET_MARKER, atomic_folder, check_output, writing
from nooch.plans import SplitPlan
from nooch.readers.reading import Counter, ImageListing, Reading, Scanned
from nooch.shared_types import Map, Progress, no_progress
from nooch.study.import_parts import PartJob, SplitJob, Work, Written, divided, groups_of
from nooch.version import __version__
from nooch.work_folder import held, remove_leftovers, work_folder

__all__ = ["Imported", "import_dataset", "save_imported", "with_split"]


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


def import_dataset(
    reading: Reading,
    out: str | Path,
    *,
    part_size: int | None = None,
    images: str | Path | None = None,
    split: SplitPlan | None = None,
    notes: Sequence[str] = (),
    overwrite: bool = False,
    map: Map = builtins.map,
    progress: Progress = no_progress,
) -> Imported:
    """Import files as a dataset folder.

    A worker holds a piece of a file, or the rows of a part. This process holds a few dozen bytes an image: ids, splits, and
    groups where a split is by groups.

    Args:
        reading: what is read, such as ``CocoReading(things=["instances.json"])``.
        out: folder to write. Intermediate files lie beside it, where all workers must be able to write.
        part_size: images in a part, at most; by default all images are one part. 125,000 take a few hundred MB of memory.
        images: folder below which the image files lie.
        split: how images are divided.
        notes: put before those of the import.
        overwrite: replace a dataset folder that exists.
        map: where the work is done, such as an engine's.
        progress: called with what is being done, how much of it is done, and of how much.

    Raises:
        ParameterError: a part of no image, or a plan that does not fit.
        InputError: files that the reading refuses; a file that is changed meanwhile. Lists and counts in the message are those
            of a part. Nothing is written then.
        OutputError: the folder exists or cannot be written, or another process is importing this dataset.
    """
    target = check_output(out, overwrite=overwrite, marker=DATASET_MARKER)
    if part_size is not None and part_size < 1:
        raise ParameterError(f"a part of {part_size} images", allowed="1 and more")
    reading.check(split)
    root = None if images is None else str(Path(images).absolute())
    asked = [part_size, root, list(notes)]
    content = _dependencies(reading, split, asked)
    folder = work_folder(target, "importing", content)
    with held(folder, _DOING, clear_if_refused=True), writing(folder, _RESUME):
        scanned = reading.scan(folder, map, partial(progress, "reading annotation files"), part_size)
        work, written = _write_parts(folder, scanned, images, split, part_size, map, progress)
        if _dependencies(reading, split, asked) != content:
            raise InputError("a file was changed while it was read", remedy="import again")
        progress("writing", 0, 1)
        imported = _seal(work, written, images, notes)
        with atomic_folder(target, overwrite=overwrite, marker=DATASET_MARKER) as made:
            for name in [*imported.header.files, DATASET_MARKER]:
                (made / name).parent.mkdir(exist_ok=True)
                _link(work.dataset / name, made / name)
    # also what other imports of this dataset left, of other files or with other parameters
    remove_leftovers(target, "importing", _DOING)
    progress("writing", 1, 1)
    return imported


_DOING = "importing this dataset"
_RESUME = "mend that and give the same command again: it goes on where it was"


def _dependencies(reading: Reading, plan: SplitPlan | None, asked: list[Any]) -> dict[str, Any]:
    """What intermediate files depend on, JSON-like: another import never takes them for its own."""
    files = [*reading.files(), *([] if plan is None or plan.shares is not None else [("split", Path(plan.source))])]
    try:
        stats = [(role, str(path.absolute()), path.stat()) for role, path in files]
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=error.filename) from error
    return {
        "version": __version__,
        "files": [[role, path, stat.st_size, stat.st_mtime_ns] for role, path, stat in stats],
        "split": None if plan is None else [plan.source, plan.seed, plan.group, dict(plan.values)],
        "asked": [*asked, *reading.words()],
    }


def _write_parts(
    folder: Path,
    scanned: Scanned,
    images: str | Path | None,
    plan: SplitPlan | None,
    part_size: int | None,
    map: Map,
    progress: Progress,
) -> tuple[Work, list[Written]]:
    ids = scanned.ids()
    parts = divided(ids, part_size)
    listing = None if images is None else _listing(images, folder)
    work = Work(folder, scanned, listing, plan, len(parts))
    if plan is not None and plan.group is None:
        _save_splits(work, plan, split_codes(ids, plan))
    del ids
    work.dataset.mkdir(exist_ok=True)
    jobs = [PartJob(folder, number, work, part) for number, part in enumerate(parts)]
    written = Counter(map, partial(progress, "putting parts together")).done(jobs)
    if plan is not None and plan.group is not None:
        groups = groups_of([work.groups(number) for number in range(len(parts))])
        # of the ids, only the number counts
        _save_splits(work, plan, split_codes(groups, plan, groups))
        again = [SplitJob(folder, job.number, work, job.part) for job in jobs]
        written = Counter(map, partial(progress, "splitting parts")).done(again)
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
    _split_provenance({}, plan, counts)
    write_array(work.splits, codes)


def _seal(work: Work, written: Sequence[Written], images: str | Path | None, notes: Sequence[str]) -> Imported:
    """Make a dataset of the parts."""
    records = [one.record for one in written]
    splits = _sum(record.splits for record in records)
    provenance = work.scanned.provenance(_sum(one.counts for one in written), sum(splits.values()), images)
    provenance["notes"] = [*notes, *provenance["notes"]]
    if work.plan is not None:
        provenance = _split_provenance(provenance, work.plan, splits)
    return Imported(
        seal_dataset(work.dataset, records, work.scanned.classes, written[0].image_root, provenance),
        sum(int(record.per_image.sum(dtype=np.int64)) for record in records),
        sum(record.captions or 0 for record in records),
        written[0].attributes,
        not any(one.unknown for one in written),
    )


def _sum(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for some in counts:
        for name, count in some.items():
            total[name] = total.get(name, 0) + count
    return total


def _link(file: Path, new: Path) -> None:
    """The file under a second name: an import that is interrupted now finds it in its old place."""
    try:
        os.link(file, new)
    except OSError:
        shutil.copyfile(file, new)


def save_imported(data: Dataset, out: str | Path, *, overwrite: bool = False) -> Imported:
    """Write a dataset that was put together in memory. Raises OutputError as ``save_dataset``."""
    save_dataset(data, out, overwrite=overwrite)
    captions = 0 if data.captions is None else data.captions.height
    return Imported(read_header(out), int(data.areas.nnz), captions, list(data.attributes), data.has_areas)


def with_split(data: Dataset, plan: SplitPlan | None) -> Dataset:
    """The dataset with the plan's splits, and the plan in its provenance.

    Raises:
        InputError: percentages that leave a split empty. A file may do so, since a dataset may hold a part of
            the images that the file names; that is noted.
    """
    if plan is None:
        return data
    images = apply_split(data.images, plan)
    counts = dict(images["split"].value_counts().iter_rows())
    provenance = _split_provenance(data.provenance, plan, counts)
    return replace(data, images=images.select(pl.col(data.images.columns)), provenance=provenance)


def _split_provenance(provenance: Mapping[str, Any], plan: SplitPlan, counts: Mapping[str, int]) -> dict[str, Any]:
    """Provenance with the plan, and a note where it leaves a split empty; ``counts`` are images in each split.

    Raises:
        InputError: percentages that leave a split empty.
    """
    notes = list(provenance.get("notes", []))
    empty = [name for name in SPLITS if not counts.get(name)]
    wanted = [name for name, share in zip(SPLITS, plan.shares or (), strict=False) if share > 0]
    if lost := [name for name in empty if name in wanted]:
        raise InputError(
            f"split {plan.source} of {sum(counts.values())} images leaves {' and '.join(lost)} empty",
            remedy="give more images, or other percentages",
        )
    if empty:
        notes.append(f"no image is in the split {' or '.join(empty)}")
    record = {"source": plan.source, "seed": plan.seed, "group": plan.group, "values": dict(plan.values)}
    return {**provenance, "split": record, "notes": notes}
