"""Files of any size -> a dataset folder in parts: what importing in one piece gives, bit by bit, in bounded memory.

Three steps, each spread over workers by an engine's ``map``: ranges of the files, read into rows on disk; parts of the
dataset, put together from the rows of their images; splits by groups, where they are asked for. What is done lies beside
the dataset until that is written, so that an interrupted import goes on where it was.
"""

from __future__ import annotations

import builtins
import contextlib
import filecmp
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
from blake3 import blake3
from numpy.typing import NDArray

from nooch.data import SPLITS
from nooch.data.array_files import write_array
from nooch.data.shard_writing import seal_shards
from nooch.data.splits import apply_split, draw_split, file_split
from nooch.data.store import Header
from nooch.errors import InputError, ParameterError
from nooch.files import DATASET_MARKER, atomic_folder, check_output, writing
from nooch.plans import SplitPlan
from nooch.readers.coco_files import RANGE
from nooch.readers.coco_reading import CocoReading
from nooch.readers.coco_scan import SLICE
from nooch.readers.parts import Reading, write_listing
from nooch.shared_types import Map, Progress, no_progress
from nooch.study.holding import held, remove_folder, remove_leftovers
from nooch.study.import_parts import PUT_TOGETHER, SPLIT, Done, Part, Step, Work, divided, groups_of
from nooch.study.importing import split_provenance
from nooch.version import __version__

__all__ = ["PART_SIZE", "Imported", "import_coco_in_parts", "import_in_parts"]

PART_SIZE = 125_000
"""Images of a part that a worker holds in a few hundred MB."""

Paths = Sequence[str | Path]


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


def import_coco_in_parts(
    out: str | Path,
    things: Paths = (),
    stuff: Paths = (),
    captions: Paths = (),
    *,
    part_size: int = PART_SIZE,
    images: str | Path | None = None,
    split: SplitPlan | None = None,
    notes: Sequence[str] = (),
    overwrite: bool = False,
    map: Map = builtins.map,
    progress: Progress = no_progress,
    range_size: int = RANGE,
    slice_size: int = SLICE,
) -> Imported:
    """Merge COCO-format files of any size into a dataset folder in parts, with the fingerprint of one in one piece.

    A worker holds a range of a file, or the rows of a part. This process holds a few dozen bytes an image: ids, splits, and
    names of groups where a split is by groups.

    Args:
        out: folder to write. Intermediate files, about an eighth of the sources, lie beside it, where all workers must
            be able to write.
        things: as for ``read_coco``.
        stuff: as for ``read_coco``.
        captions: as for ``read_coco``.
        part_size: images in a part, at most.
        images: folder below which the image files lie.
        split: how images are divided.
        notes: to put before those of the import.
        overwrite: replace a dataset folder that exists.
        map: where the work is done, such as an engine's.
        progress: called with what is being done, and how much of how much is done.
        range_size: bytes of a file that one job reads.
        slice_size: bytes that are decoded at once.

    Raises:
        ParameterError: no file, a part of no image, or a plan that does not fit.
        InputError: as ``read_coco``. Lists and counts in the message are those of a part. Nothing is written then.
        OutputError: the folder exists, or another process is importing this dataset.
    """
    return import_in_parts(
        CocoReading(things, stuff, captions, range_size, slice_size),
        out,
        part_size=part_size,
        images=images,
        split=split,
        notes=notes,
        overwrite=overwrite,
        map=map,
        progress=progress,
    )


def import_in_parts(
    reading: Reading,
    out: str | Path,
    *,
    part_size: int = PART_SIZE,
    images: str | Path | None = None,
    split: SplitPlan | None = None,
    notes: Sequence[str] = (),
    overwrite: bool = False,
    map: Map = builtins.map,
    progress: Progress = no_progress,
) -> Imported:
    """Put a dataset folder together in parts, with the fingerprint of one in one piece.

    ``reading`` says what is read, such as ``TableReading``; all else is as for ``import_coco_in_parts``.

    Raises:
        ParameterError: a part of no image, or a plan that does not fit.
        InputError: as reading in one piece. Lists and counts in the message are those of a part. Nothing is written then.
        OutputError: the folder exists, or another process is importing this dataset.
    """
    target = check_output(out, overwrite=overwrite, marker=DATASET_MARKER)
    if part_size < 1:
        raise ParameterError(f"a part of {part_size} images", allowed="1 and more")
    reading.check(split)
    root = None if images is None else Path(images).absolute()
    asked = [part_size, None if root is None else str(root), list(notes)]
    key = _key(reading, split, asked)
    folder = target.with_name(f".{target.name}.importing-{key}")
    with _gone_if_refused(target.parent), held(folder, "importing this dataset"), writing(folder, _GO_ON):
        try:
            scanned = reading.scan(folder, map, partial(progress, "reading annotation files"))
            work = Work(folder, scanned, root, split)
            done = _parts(work, part_size, map, progress)
            _check_unchanged(key, _key(reading, split, asked))
            progress("writing", 0, 1)
            imported = _finish(work, done, images, notes, target, overwrite)
        except (InputError, ParameterError):
            # what was read is of no use to the files or words that come instead
            remove_folder(folder)
            raise
    # what other imports of this dataset left, of other files or with other words, is of no use now
    remove_leftovers(target, "importing", "importing this dataset")
    progress("writing", 1, 1)
    return imported


_GO_ON = "mend that and give the same command again: it goes on where it was"


def _key(reading: Reading, plan: SplitPlan | None, asked: list[Any]) -> str:
    """What intermediate files depend on: another import never takes them for its own."""
    read = [*reading.files(), *([] if plan is None or plan.shares is not None else [("split", Path(plan.source))])]
    try:
        stats = [(role, str(path.absolute()), path.stat()) for role, path in read]
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=error.filename) from error
    content = {
        "version": __version__,
        "files": [[role, path, stat.st_size, stat.st_mtime_ns] for role, path, stat in stats],
        "split": None if plan is None else [plan.source, plan.seed, plan.group, dict(plan.values)],
        "asked": [*asked, *reading.words()],
    }
    return blake3(msgspec.json.encode(content)).hexdigest()[:16]


def _check_unchanged(before: str, now: str) -> None:
    if now != before:
        raise InputError("a file was changed while it was read", remedy="import again")


def _parts(work: Work, part_size: int, map: Map, progress: Progress) -> list[Done]:
    """All parts, written."""
    ids = work.scanned.ids()
    if work.plan is not None and work.group is None:
        _keep_split(work, work.plan, _split_of(ids, work.plan))
    if work.images is not None:
        _list_images(work, work.images)
    work.dataset.mkdir(exist_ok=True)
    parts = divided(ids, part_size)
    del ids
    done = _each(work, PUT_TOGETHER, parts, map, progress)
    if work.plan is not None and work.group is not None:
        groups = groups_of(work, parts)
        _keep_split(work, work.plan, draw_split(len(groups), work.plan, groups))
        done = _each(work, SPLIT, parts, map, progress)
    return done


def _list_images(work: Work, images: Path) -> None:
    """List the image files. Parts that were put together while others were there are of no use."""
    new = work.listing.with_name("image-files.partial")
    write_listing(images, new)
    if work.listing.is_file() and not filecmp.cmp(new, work.listing, shallow=False):
        for step in (PUT_TOGETHER, SPLIT):
            for kept in work.folder.glob(f"{step.name}-*"):
                kept.unlink()
    new.replace(work.listing)


def _split_of(ids: pl.Series, plan: SplitPlan) -> NDArray[np.int8]:
    """Position in SPLITS of every image."""
    if plan.shares is not None:
        return draw_split(len(ids), plan)
    if ids.dtype == pl.Int64:
        return file_split(ids.to_numpy(), plan)
    named = apply_split(pl.DataFrame([ids]), plan)["split"].cast(pl.Enum(SPLITS))
    return named.to_physical().to_numpy().astype(np.int8)


def _each(work: Work, step: Step, parts: list[Part], map: Map, progress: Progress) -> list[Done]:
    """What came of a step for every part: of those done before, and of the others, by workers."""
    waiting = [part for part in parts if not work.kept(part, step.name).is_file()]
    before = len(parts) - len(waiting)
    progress(step.doing, before, len(parts))
    for number, _ in enumerate(map(partial(step, work), waiting), 1):
        progress(step.doing, before + number, len(parts))
    return [step(work, part) for part in parts]


def _keep_split(work: Work, plan: SplitPlan, codes: NDArray[np.int8]) -> None:
    counts = dict(zip(SPLITS, np.bincount(codes, minlength=len(SPLITS)).tolist(), strict=True))
    # a split that is left empty is told before parts are put together
    split_provenance({}, plan, counts)
    write_array(work.splits, codes)


def _finish(
    work: Work, done: Sequence[Done], images: str | Path | None, notes: Sequence[str], target: Path, overwrite: bool
) -> Imported:
    records = [one.record for one in done]
    sizes = [len(record.per_image) for record in records]
    provenance = work.scanned.provenance(_sum(one.counts for one in done), sum(sizes), images)
    provenance["notes"] = [*notes, *provenance["notes"]]
    if work.plan is not None:
        provenance = split_provenance(provenance, work.plan, _sum(record.splits for record in records))
    header = seal_shards(work.dataset, records, work.scanned.classes, done[0].image_root, provenance)
    with atomic_folder(target, overwrite=overwrite, marker=DATASET_MARKER) as made:
        for name in [*header.files, DATASET_MARKER]:
            (made / name).parent.mkdir(exist_ok=True)
            _link(work.dataset / name, made / name)
    return Imported(
        header,
        sum(int(record.per_image.sum(dtype=np.int64)) for record in records),
        sum(record.captions or 0 for record in records),
        done[0].attributes,
        not any(one.unknown for one in done),
    )


def _sum(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for some in counts:
        for name, count in some.items():
            total[name] = total.get(name, 0) + count
    return total


def _link(file: Path, new: Path) -> None:
    """The file under a second name: what is interrupted now finds it in its old place."""
    try:
        os.link(file, new)
    except OSError:
        shutil.copyfile(file, new)


@contextlib.contextmanager
def _gone_if_refused(folder: Path) -> Iterator[None]:
    """Remove the folders again that were made on the way to this one, if the import is refused."""
    made = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    try:
        yield
    except (InputError, ParameterError):
        for parent in made:
            with contextlib.suppress(OSError):
                parent.rmdir()
        raise
