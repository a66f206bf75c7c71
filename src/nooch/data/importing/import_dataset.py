"""Import: files of any size -> a dataset folder, in bounded memory.

Three steps, each spread over workers by a ``map``: files are scanned into rows on disk; parts of
the dataset, one by default, are written from the rows of their images; a split by groups is added
once all groups are known. Finished work lies next to the dataset until that is written, so that an
interrupted import resumes.

This module is light on purpose: files are being read by workers before Polars and SciPy are
imported here.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from nooch.base.calls import Count, Map, Progress, checked, no_progress
from nooch.base.errors import InputError, giving
from nooch.base.files import DATASET_MARKER, link
from nooch.base.split_plan import SplitPlan
from nooch.base.version import __version__
from nooch.base.work_folder import resumable_folder

if TYPE_CHECKING:
    from nooch.data.dataset import Dataset
    from nooch.data.importing.parts import Imported
    from nooch.data.importing.table_roles import Hints
    from nooch.data.readers.contract import Reading


BROKEN = ("leave-out", "refuse")
"""Choices for images that cannot be read."""


@checked
def import_dataset(
    reading: Any,
    out: str | Path,
    *,
    hints: Hints | None = None,
    part_size: Count | None = None,
    images: str | Path | None = None,
    broken: Annotated[str, BROKEN] = "leave-out",
    split: SplitPlan | None = None,
    group: str | None = None,
    context: Sequence[str] = (),
    notes: Sequence[str] = (),
    range: tuple[float, float] | None = None,
    overwrite: bool = False,
    map: Map = builtins.map,
    progress: Progress = no_progress,
) -> Imported:
    """Import files as a dataset folder.

    A worker has in memory a piece of a file, or the rows of a part. This process uses a few dozen
    bytes per image: ids, splits, and groups where a split is by groups.

    Args:
        reading: what is read, such as ``CocoReading(things=["instances.json"])``; or a frame of
            labels of polars, pandas or Arrow, whose columns are recognized.
        hints: what the columns of a frame leave open, such as ``nooch.io.Hints(id="photo")``.
        out: folder to write. Intermediate files lie next to it, where all workers must be able to
            write.
        part_size: largest number of images in a part; by default all images are one part. 125,000
            images take a few hundred MB of memory.
        images: folder below which the image files lie.
        broken: what to do with images whose files cannot be read: ``leave-out`` the images and
            their labels, and list them in ``broken_images.csv``; or ``refuse`` the import. The
            first and last bytes of each file are checked: this finds empty files, files of another
            kind and truncated files, but no damage inside a file. Nothing is checked without a
            folder of images. The same applies to boxes that a rule leaves out or changes, listed in
            ``broken_annotations.csv``.
        split: how images are divided.
        group: images that count as one in intervals and tests, such as all images of a ``scene``:
            an attribute column, or a regular expression on the file name, whose first group (or
            whole match) is the name. A group stays on one side of a split by percentages.
        context: attribute columns that are the context of every class, such as ``scanner``, and
            no labels; or ``all`` that can be. Recorded, and used by all commands.
        notes: put before the import's own.
        range: for images of more than 8 bits per channel, the values that become black and white;
            recorded, and used wherever these images are read.
        overwrite: replace a dataset folder that exists.
        map: where the work is done, such as an engine's.
        progress: called with what is being done, how much of it is done, and of how much.

    Raises:
        ParameterError: a part of no image, or a plan that does not fit.
        InputError: files that the reading refuses; a file that changed during the import; broken
            images that are refused, or no other. Lists and counts in the message are of one part.
            Nothing is written then.
        OutputError: the folder exists or cannot be written, or another process is importing this
            dataset.

    Examples:
        >>> split = nooch.io.SplitPlan("70/10/20", seed=1)
        >>> reading = nooch.io.CocoReading(things=["instances.json"])
        >>> nooch.import_dataset(reading, "imported").header.n_images
        2
    """
    if not hasattr(reading, "scan"):
        from nooch.data.importing.frames import recognized_frame
        from nooch.data.importing.table_roles import HINTS

        with giving("hints", HINTS), recognized_frame(reading, hints, images) as table:
            notes = [*notes, f"recognized {table.kind}: {table.why}"]
            context = context or (() if hints is None else hints.context)
            return import_dataset(
                table.reading, out, part_size=part_size, images=images, broken=broken,
                split=split, group=group, context=context, notes=notes, range=range,
                overwrite=overwrite, map=map, progress=progress,
            )  # fmt: skip
    if split is not None and split.shares is not None:
        split = replace(split, group=group or split.group)
    group = group or (None if split is None else split.group)
    if range is not None:
        from nooch.data.readers.image_files import check_range

        check_range(range)
    reading.check(split)
    needs = partial(
        _dependencies, reading, part_size, images, split, [*notes, group or "", *context]
    )
    content, doing = needs(), "importing this dataset"
    place = resumable_folder(
        out, "importing", content, doing, marker=DATASET_MARKER, overwrite=overwrite
    )
    with place as (folder, written_folder):
        reading_progress = partial(progress, getattr(reading, "doing", "reading annotation files"))
        scanned = reading.scan(folder, map, reading_progress, part_size)
        from nooch.data.importing.parts import seal, write_parts

        how = split, group, part_size, map, progress
        work, written = write_parts(folder, scanned, images, *how)
        if needs() != content:
            raise InputError("a file changed while it was read", remedy="import again")
        progress("writing", 0, 1)
        imported = seal(work, written, images, notes, broken, range, context)
        with written_folder() as new:
            for name in [*imported.header.files, DATASET_MARKER]:
                (new / name).parent.mkdir(parents=True, exist_ok=True)
                # interrupted now, the import finds it in its old place
                link(work.dataset / name, new / name)
    progress("writing", 1, 1)
    return imported


def _dependencies(
    reading: Reading,
    part_size: int | None,
    images: str | Path | None,
    plan: SplitPlan | None,
    notes: Sequence[str],
) -> dict[str, Any]:
    """Inputs of the intermediate files, JSON-like, so that a different import never reuses them."""
    files = [*reading.files()]
    if plan is not None and plan.shares is None:
        files.append(("split", Path(plan.source)))
    try:
        stats = [(role, str(path.absolute()), path.stat()) for role, path in files]
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=error.filename) from error
    root = None if images is None else str(Path(images).absolute())
    settings = [part_size, root, list(notes), *reading.dependencies()]
    return {
        "version": __version__,
        "files": [[role, path, stat.st_size, stat.st_mtime_ns] for role, path, stat in stats],
        "split": None if plan is None else [plan.source, plan.seed, plan.group, dict(plan.values)],
        "asked": settings,
    }


def save_imported(data: Dataset, out: str | Path, *, overwrite: bool = False) -> Imported:
    """Write a dataset that was put together in memory. Raises OutputError as ``save_dataset``."""
    from nooch.data.dataset_folder import save_dataset
    from nooch.data.importing.parts import Imported
    from nooch.data.part_files import read_header

    save_dataset(data, out, overwrite=overwrite)
    header, n_areas = read_header(out), int(data.areas.nnz)
    captions = 0 if data.captions is None else data.captions.height
    return Imported(header, n_areas, captions, list(data.attributes), data.has_areas)


def with_split(data: Dataset, plan: SplitPlan | None) -> Dataset:
    """The dataset with the plan's splits, and the plan in its provenance.

    Raises:
        InputError: percentages that leave a split empty. A file may do so, since a dataset may
            contain a part of the images that the file names; that is noted.
    """
    import polars as pl

    from nooch.data.importing.parts import split_provenance
    from nooch.data.splits import apply_split

    if plan is None:
        return data
    images = apply_split(data.images, plan)
    counts = dict(images["split"].value_counts().iter_rows())
    provenance = split_provenance(data.provenance, plan, counts)
    return replace(data, images=images.select(pl.col(data.images.columns)), provenance=provenance)
