"""Rows of images on disk, which every reader but COCO's scans its files into, and their Dataset.

``summed`` adds up areas of the same image and class in the same order regardless of other rows.
"""

from __future__ import annotations

import math
import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
import polars as pl
from blake3 import blake3
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from nooch.base.calls import Map, StepProgress
from nooch.base.disk import sync
from nooch.base.errors import InputError, some_of, unreadable
from nooch.data.dataset import Dataset, ImageId
from nooch.data.objects import objects_table, rescaled
from nooch.data.readers.contract import BAD, ImageListing, in_range
from nooch.data.readers.image_files import FolderWalk, ImageIndex, sizes_of, stem_of
from nooch.data.readers.jobs import NumberedJob, results_of
from nooch.data.table_files import parquet_bytes
from nooch.data.table_schema import CORE_COLUMNS, identifiers

Parse = Callable[[Path, str], dict[str, Any]]
"""Parses one file: its path, and how errors name it -> values of columns. It is pickled to workers.
"""


@dataclass(frozen=True)
class ImageRows:
    """A table on disk, a file in ``folder`` for each batch of rows; ``unread`` lists the files
    that were left out, as lines of ``bad``.
    """

    folder: Path
    batches: int
    unread: Sequence[str] = ()

    def ids(self) -> pl.Series:
        """Ids of all images, ascending."""
        return pl.concat(frame["image_id"] for frame in self.columns("image_id")).sort()

    def read(self, low: ImageId | None, high: ImageId | None) -> pl.DataFrame:
        """The rows with ``low <= image_id < high``, sorted by id."""
        condition = in_range("image_id", low, high)
        rows = pl.scan_parquet([*self._files()], glob=False).filter(condition)
        return rows.collect().sort("image_id", maintain_order=True)

    def columns(self, *names: str) -> Iterator[pl.DataFrame]:
        """Some columns of all rows, in order, in batches of any size."""
        rows = pl.scan_parquet([*self._files()], glob=False).select(names)
        return rows.collect_batches(maintain_order=True, engine="streaming")

    def with_numbers(self) -> None:
        """Make ids numbers where all that are left are."""
        ids = self.ids()
        if ids.dtype == pl.String and identifiers(ids.to_list()).dtype == pl.Int64:
            for number, file in enumerate(self._files()):
                rows = pl.read_parquet(file, glob=False)
                rows = rows.with_columns(pl.col("image_id").cast(pl.Int64))
                write_batch(rows, self.folder, number)

    def _files(self) -> Iterator[Path]:
        return (batch_file(self.folder, number) for number in range(self.batches))


def files_below(folder: Path, is_wanted: Callable[[str], bool]) -> list[str]:
    """Sorted paths of the files below a folder with wanted names; links are followed.

    Raises InputError: a link that leads nowhere or to where the folder is, a pipe or device, a name
    that is not UTF-8: nothing is left out silently.
    """
    walk, real = FolderWalk(wanted=is_wanted), folder.resolve()
    paths = sorted(f"{folder}/{path}" for path in walk.below(real, "", [real]))
    if walk.left_out:
        problem = f"{len(walk.left_out)} entries cannot be read: {some_of(sorted(walk.left_out))}"
        raise InputError(problem, where=folder, remedy="repair, rename or remove them")
    return paths


def parse_files(
    listed: pl.DataFrame,
    parse: Parse,
    schema: Mapping[str, Any],
    folder: Path,
    map: Map,
    progress: StepProgress,
) -> ImageRows:
    """Parse files into a table whose rows keep the order of ``listed``: ``image_id``, ``file``
    (null: the image has none, and its lists are empty), and other columns. A file of which
    ``parse`` gives only ``unread`` has no row.
    """
    here = Path.cwd()
    jobs = [
        _ParseJob(folder, number, batch, parse, schema, here)
        for number, batch in enumerate(_batches(listed))
    ]
    unread = [line for lines in results_of(jobs, map, progress) for line in lines]
    return ImageRows(folder, len(jobs), unread)


def write_rows(rows: pl.DataFrame, folder: Path) -> ImageRows:
    """Write a table that has a column ``image_id``."""
    batches = [*_batches(rows)]
    for number, batch in enumerate(batches):
        write_batch(batch, folder, number)
    return ImageRows(folder, len(batches))


def _batches(rows: pl.DataFrame) -> Iterator[pl.DataFrame]:
    # few enough jobs for a cluster, small enough ones for a progress bar
    return rows.iter_slices(max(128, min(2048, rows.height // 256)))


@dataclass(frozen=True)
class _ParseJob(NumberedJob):
    """A batch of files, relative to ``here``; the result is ``unread``."""

    name: ClassVar[str] = "rows"
    result_type: ClassVar[Any] = list[str]
    listed: pl.DataFrame
    parse: Parse
    schema: Mapping[str, Any]
    here: Path

    def make(self) -> list[str]:
        """Parse the files."""
        lists = [name for name, kind in self.schema.items() if isinstance(kind, pl.List)]
        empty: dict[str, Any] = {name: [] for name in lists}
        rows = [
            empty if file is None else self.parse(self.here / file, file)
            for file in self.listed["file"]
        ]
        unread = [row["unread"] for row in rows if "unread" in row]
        kept = [number for number, row in enumerate(rows) if "unread" not in row]
        content = pl.DataFrame([rows[number] for number in kept], schema=dict(self.schema))
        write_batch(self.listed[kept].hstack(content), self.folder, self.number)
        return unread


def write_batch(rows: pl.DataFrame, folder: Path, number: int) -> None:
    """Write a batch of rows, and sync it."""
    batch_file(folder, number).write_bytes(parquet_bytes(rows))
    sync(batch_file(folder, number))


def batch_file(folder: Path, number: int) -> Path:
    """The file of a batch of rows."""
    return folder / f"rows-{number:07d}.parquet"


def listed_digest(listed: pl.DataFrame) -> str:
    """A digest of listed files, sizes and times. Raises InputError for an unreadable file."""
    digest = blake3()
    for row in listed.iter_rows(named=True):
        with unreadable(row["file"]):
            stat = None if row["file"] is None else os.stat(row["file"])  # noqa: PTH116 - a Path for each is slow
        about = None if stat is None else (stat.st_size, stat.st_mtime_ns)
        digest.update(f"{[*row.values()]}\0{about}\0".encode(errors="surrogateescape"))
    return digest.hexdigest()


Entries = tuple[NDArray[Any], NDArray[Any], NDArray[np.float64]]
"""Positions of rows, of columns, and values."""


def entries_of(
    rows: pl.DataFrame,
    values: str = "areas",
    keys: str = "keys",
    columns: Mapping[Any, int] | None = None,
) -> Entries:
    """The entries of two columns of lists: the row, the column of the key, and the value of each;
    without ``columns``, keys are the columns.
    """
    entry_rows = np.repeat(np.arange(rows.height), rows[keys].list.len().to_numpy())
    listed, numbers = (rows[name].explode().drop_nulls() for name in (keys, values))
    if columns is not None:
        listed = listed.replace_strict(columns, return_dtype=pl.Int64)
    return entry_rows, listed.to_numpy(), numbers.to_numpy()


def summed(entries: Entries, shape: tuple[int, int], *, ordered: bool = False) -> csr_array:
    """Sum entries of the same place as CSR, in an order that depends only on their row;
    ``ordered``: in their own order, since the columns of every row ascend already.
    """
    rows, columns, values = entries
    listed = coo_array((values, (rows, columns)), shape=shape)
    # entries are put in order also where all of them are: sums must not depend on other rows
    listed.has_canonical_format = True
    sums = listed.tocsr()
    sums.has_sorted_indices, sums.has_canonical_format = ordered, False
    sums.sum_duplicates()
    return csr_array(sums)


def class_order(names: Mapping[Any, str]) -> list[str]:
    """The classes of class keys, which may share one."""
    return list(dict.fromkeys(names.values()))


def columns_of(names: Mapping[Any, str]) -> dict[Any, int]:
    """Class key -> the column of its class."""
    classes = {name: column for column, name in enumerate(class_order(names))}
    return {key: classes[name] for key, name in names.items()}


Notes = Callable[[Mapping[str, int], int, object], list[str]]
"""Words the counts of all parts, of so many images, whose files are below a folder."""


def no_notes(*_: object) -> list[str]:
    """No notes."""
    return []


class Rows(Protocol):
    """Rows of all images, which are read by range of ids."""

    def ids(self) -> pl.Series:
        """Ids of all images, each once, ascending."""

    def read(self, low: ImageId | None, high: ImageId | None) -> pl.DataFrame:
        """The rows with ``low <= id < high``."""


@dataclass(frozen=True)
class ScannedRows:
    """Rows of images on disk: the ``Scanned`` of every reader but COCO's.

    Their columns are ``image_id``; optionally ``file_name``, or the ``stem`` by which an image is
    found, ``width``, ``height``, ``split``; lists of ``keys`` of classes and of ``areas``;
    optionally lists ``boxes``, ``crowd``, ``ignore`` of the same objects, in pixels if there are
    sizes; and ``bare``, true for an image that no file describes.

    Attributes:
        names: class key -> class name, in the order of classes.
        about: the provenance without the notes on counts, which ``notes`` words.
        where: what was read, for errors.
        root: folder of the images, where rows name their files.
        listing: image files that the scan had to know: others do not count then.
        is_located: whether the scan knew where the images are.
        ordered: whether the keys of every image are in the order of their classes.
        broken: images that the scan could not read.
        has_objects: whether any image has a box.
        unread: of ``ImageRows``.
    """

    rows: Rows
    names: Mapping[Any, str]
    about: Mapping[str, Any]
    where: object
    notes: Notes = no_notes
    root: str | Path | None = None
    listing: ImageListing | None = None
    is_located: bool = True
    ordered: bool = False
    broken: Sequence[Any] = ()
    has_objects: bool = False
    unread: Sequence[str] = ()

    @property
    def classes(self) -> list[str]:
        """Names of the classes."""
        return class_order(self.names)

    def ids(self) -> pl.Series:
        """Ids of all images."""
        return self.rows.ids()

    def read(
        self, low: ImageId | None, high: ImageId | None, images: ImageListing | None
    ) -> tuple[Dataset, dict[str, int]]:
        """The images with ``low <= id < high``; counts of bare ones and of missing files, the first
        of which are named. Raises InputError.
        """
        rows, listing = self.rows.read(low, high), self.listing if self.is_located else images
        frame, root = self.images(rows), self.root
        counts = {"bare": 0, "missing": 0}
        if "bare" in frame.columns:
            counts["bare"] = int(frame["bare"].sum())
        if listing is not None:
            frame, missing = located(frame, listing)
            root, counts["missing"] = listing.root, len(missing)
            counts |= {f"{MISSING}{name}": 1 for name in missing[:5]}
        sized = self.sized(frame, root)
        content = self.content(rows, sized)
        counts |= content.pop("counts", {})
        counts |= {f"{BAD}{line}": 1 for line in (self.unread if low is None else ())}
        try:
            data = Dataset.build(
                sized.drop("stem", "bare", strict=False),
                self.classes,
                image_root=None if root is None else str(Path(root).resolve()),
                **content,
            )
        except InputError as error:
            raise error.changed(where=self.where) from error
        return _rescaled(data), counts

    def images(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The images of rows, by id."""
        return rows.select(c for c in (*CORE_COLUMNS, "stem", "bare") if c in rows.columns)

    def sized(self, frame: pl.DataFrame, root: str | Path | None) -> pl.DataFrame:
        """The images, with the sizes of their files where boxes in pixels need these."""
        if not self.has_objects or "width" not in frame.columns:
            return frame
        return with_sizes(frame, root)

    def content(self, rows: pl.DataFrame, images: pl.DataFrame) -> dict[str, Any]:
        """Fields of a Dataset of rows other than images and classes, and ``counts``: also of lines
        that are not as they should be.
        """
        counts = Counter[str]()
        if "bad" in rows.columns:
            counts.update(f"{BAD}{line}" for line in rows["bad"].explode().drop_nulls())
        if self.has_objects and "width" in rows.columns and rows["width"].null_count():
            areas, sizes = [], images.select("width", "height").rows()
            for size, stated, listed in zip(sizes, rows["width"], rows["areas"], strict=True):
                pixels = math.nan if size[0] is None else size[0] * size[1]
                areas.append([area / pixels for area in listed] if stated is None else listed)
            sized = images.select("width", "height")
            rows = rows.with_columns(*sized, areas=pl.Series(areas, dtype=pl.List(pl.Float64)))
            counts["unsized"] = int(
                (sized["width"].is_null() & (rows["keys"].list.len() > 0)).sum()
            )
        entries = entries_of(rows, columns=columns_of(self.names))
        shape = rows.height, len(self.classes)
        content: dict[str, Any] = {"areas": summed(entries, shape, ordered=self.ordered)}
        if self.has_objects:
            content["objects"] = self._objects(rows, entries)
        return {**content, "counts": counts}

    def _objects(self, rows: pl.DataFrame, entries: Entries) -> pl.DataFrame:
        image, columns, areas = entries
        numbers = {
            name: rows[name].explode().drop_nulls().to_numpy()
            for name in ("boxes", "crowd", "ignore")
            if name in rows.columns
        }
        boxes = numbers.pop("boxes").astype(np.float64).reshape(-1, 4)
        if "width" in rows.columns:
            pixels = (rows["width"] * rows["height"]).cast(pl.Float64).to_numpy()[image]
            # whole pixels stay whole
            areas = np.round(areas * pixels, 6)
            known = np.isfinite(pixels)
            image, columns, boxes, areas = (of[known] for of in (image, columns, boxes, areas))
            numbers = {name: of[known] for name, of in numbers.items()}
        areas = np.where(np.isnan(areas), boxes[:, 2] * boxes[:, 3], areas)
        return objects_table(
            rows["image_id"], self.classes, image, columns, boxes, areas, **numbers
        )

    def provenance(
        self, counts: Mapping[str, int], n_images: int, images: object
    ) -> dict[str, Any]:
        """Provenance of the dataset."""
        notes = [*self.about["notes"], *self.notes(counts, n_images, images)]
        return {**self.about, "notes": notes}


def _rescaled(data: Dataset) -> Dataset:
    """A dataset whose objects are in pixels of the image files that are there."""
    images, objects = data.images, data.objects
    if objects is None:
        return data
    sized = with_sizes(images, data.image_root)
    return replace(data, images=sized, objects=rescaled(objects, images, sized))


def with_sizes(images: pl.DataFrame, root: str | Path | None) -> pl.DataFrame:
    """Images with the sizes of their files where they have none."""
    if root is None or "file_name" not in images.columns or not images["width"].null_count():
        return images
    paths = [
        None if name is None or width is not None else f"{root}/{name}"
        for name, width in images.select("file_name", "width").iter_rows()
    ]
    sizes = pl.DataFrame(sizes_of(paths), schema={"w": pl.Int64, "h": pl.Int64}, orient="row")
    return images.with_columns(
        width=images["width"].fill_null(sizes["w"]), height=images["height"].fill_null(sizes["h"])
    )


MISSING = "missing: "
"""Each of the first images without a file is also counted, so that a note can name them."""


def files_named(names: Sequence[str | None], listing: ImageListing) -> list[str | None]:
    """The path of each name below the folder of images; None if there is no such file."""
    return _index(listing, filter(None, names)).by_file_names(names)


def located(frame: pl.DataFrame, listing: ImageListing) -> tuple[pl.DataFrame, list[Any]]:
    """The frame with the files of its images: by ``stem``, else by ``file_name``, which stays if
    there is no such file, else by id; and the names of those that are not there.
    """
    key = next(name for name in ("stem", "file_name", "image_id") if name in frame.columns)
    names = frame[key].to_list()
    if key == "file_name":
        paths = files_named(names, listing)
        files = [path or name for path, name in zip(paths, names, strict=True)]
    else:
        # ids may be file names, also of another machine
        texts = [name if isinstance(name, str) else "" for name in names]
        index = _index(listing, {*texts, *(f"{name}." for name in names)})
        if key == "stem":
            paths = [index.by_stem(name) for name in names]
            if not any(paths):
                paths = _by_longer_stem(listing, names)
        else:
            paths = [index.by_id(name) for name in names]
            as_files = index.by_file_names(
                [None if path else text for path, text in zip(paths, texts, strict=True)]
            )
            paths = [path or file for path, file in zip(paths, as_files, strict=True)]
        files = paths
    missing = [name for path, name in zip(paths, names, strict=True) if path is None]
    return frame.with_columns(file_name=pl.Series(files, dtype=pl.String)), missing


def _by_longer_stem(listing: ImageListing, stems: Sequence[str]) -> list[str | None]:
    """For each stem the one file that has it and an ending of its own: x_leftImg8bit.png for x."""
    wanted, found = {*stems}, defaultdict[str, list[str]](list)
    for path in listing.paths():
        stem = path.rsplit("/", 1)[-1].rsplit(".", 1)[0]
        for end in (match.start() for match in re.finditer("_", stem)):
            if stem[:end] in wanted:
                found[stem[:end]].append(path)
    return [found[stem][0] if len(found[stem]) == 1 else None for stem in stems]


def _index(listing: ImageListing, names: Iterable[str]) -> ImageIndex:
    """The image files that may be called so."""
    wanted = {stem_of(name) for name in names}
    return listing.index(lambda name: stem_of(name) in wanted)
