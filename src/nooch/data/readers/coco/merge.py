"""Parsed COCO files -> Dataset: things, stuff (or its pixel maps) and captions by image."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.sparse import csr_array

from nooch.base.calls import Map, StepProgress
from nooch.base.errors import InputError, some_of
from nooch.data.box_columns import NUMBERS, are_fractions, check_inside
from nooch.data.dataset import Dataset
from nooch.data.objects import NOTES, objects_table, usable_boxes
from nooch.data.readers.coco.structure import (
    ABSENT,
    CROWD,
    IGNORE,
    PARTIAL,
    ParsedFile,
    is_flat,
    listed_twice,
)
from nooch.data.readers.cocostuff import COCOSTUFF, OTHER, map_values
from nooch.data.readers.contract import ImageListing
from nooch.data.readers.image_files import sizes_of, stored_size
from nooch.data.readers.image_rows import Entries, ImageRows, entries_of, located, summed
from nooch.data.readers.map_pixels import count_maps, list_maps
from nooch.data.table_schema import check_file_names, class_name

_OF_FILES = {
    "larger": "{n} of {compared} areas are larger than their box",
    "zero": "{n} of {compared} areas are 0, although their box is not empty",
    "whole": "{n} of {unboxed} areas without a box equal their image",
    "flat": "{n} boxes are empty, but have a positive area: they are not among the objects",
    "nan": "{n} values are NaN or Infinity: they count as missing",
}
"""Counts of whole files -> their notes."""

_NOTES = {
    "listed": (
        "{n} images list the classes that were annotated, as in LVIS: other classes are unknown,"
        " not absent"
    ),
    "things": "{n} images are in no things file: their things are unknown, not absent",
    "stuff": "{n} images are in no stuff file: their stuff is unknown, not absent",
    "maps": "{n} images have no pixel map: their stuff is unknown, not absent",
    **NOTES,
    "proxies": (
        "{n} annotations have neither an area nor a segmentation: the areas of their boxes, which"
        " are larger than the objects, are used"
    ),
    "unsized": "{n} annotations have no area, segmentation or box: their areas are unknown",
    "unmasked": (
        "{n} segmentations cannot be decoded, or lie outside their image: the areas of their"
        " boxes are used"
    ),
    "resized": (
        "{n} of {measured} inspected image files differ in size from their annotations: boxes may"
        " not fit"
    ),
    "files": "{n} of {images} image files are not below {root}",
    "strays": "{n} captions of images that no annotation file lists are left out",
    "bare": "{n} images have no caption, so they have no gist",
}
"""Counts of a merge -> their notes, in this order."""


def merge(
    parsed: Sequence[tuple[str, ParsedFile]],
    images: ImageListing | None,
    texts: pl.Series | None = None,
) -> tuple[Dataset, dict[str, int]]:
    """Parsed files (or one part of each) as a Dataset without provenance, and counts, which
    add up over parts. The ids of images are positions in ``texts``, if there are any.
    """

    def named(ids: pl.Series) -> pl.Series:
        return ids if texts is None else texts.gather(ids).alias(ids.name)

    listed = [(role, file) for role, file in parsed if role in {"things", "stuff"}]
    merged = _MergedFiles(listed, texts)
    for role, file in parsed:
        if role == "maps":
            merged.add_maps(file)
    captions = _captions([file for role, file in parsed if role == "captions"], merged)
    frame = pl.DataFrame(
        {
            "image_id": merged.ids,
            "file_name": merged.file_names,
            "width": merged.widths,
            "height": merged.heights,
            **{column: np.isin(merged.ids, ids) for column, ids in merged.annotated.items()},
        },
        schema_overrides={"file_name": pl.String},
    )
    root = None
    if images is not None:
        frame, missing = located(frame, images)
        root, merged.counts["files"] = str(images.root.resolve()), len(missing)
        merged.counts |= _other_sizes(frame, images)
    # of absolute names, of another machine, the ends count
    check_file_names(frame["file_name"], merged.files)
    frame = frame.with_columns(named(frame["image_id"]))
    captions, objects = (
        table if table is None else table.with_columns(named(table["image_id"]))
        for table in (captions, merged.objects())
    )
    data = Dataset.build(
        frame,
        merged.classes,
        merged.areas(),
        captions,
        image_root=root,
        kinds=merged.kinds,
        objects=objects,
        verified=merged.verified(),
    )
    return data, merged.counts


def _other_sizes(frame: pl.DataFrame, images: ImageListing) -> dict[str, int]:
    """Number of image files of a sample, and of those that have another size than their annotations
    say, both as they are stored and as they are shown.
    """
    step = -(-frame.height // _MOST_MEASURED) or 1
    sample = frame.gather_every(step).select("file_name", "width", "height").drop_nulls()
    names, widths, heights = (sample[name].to_list() for name in sample.columns)
    paths = [f"{images.root}/{name}" for name in names]
    sizes = sizes_of(paths)
    measured = [size for size in zip(paths, widths, heights, sizes, strict=True) if size[3][0]]
    differ = sum(
        size != (width, height) and (size != (height, width) or stored_size(path) == size)
        for path, width, height, size in measured
    )
    return {"measured": len(measured), "resized": differ}


_SMALL = 16
"""Pixels: in images up to this side, the order of a box's numbers is not doubted."""
_MOST_MEASURED = 1000
"""Image files of a part whose sizes are looked at."""


def merged_provenance(
    files: Sequence[Any], counts: Mapping[str, int], n_images: int, images: object
) -> dict[str, Any]:
    """Provenance of a dataset merged from files, each a ``ScannedFile``, with the notes that the
    counts of all parts make; ``images`` is the folder of image files.
    """
    sources = [file.source for file in files]
    categories = class_categories([(file.role, file) for file in files])
    listed: dict[str, dict[str, Any]] = {}
    for entry in chain.from_iterable(file.licenses for file in files):
        record: dict[str, Any] = {k: entry[k] for k in ("name", "url") if k in entry}
        listed.setdefault(str(entry.get("name", entry)), record)
    of_files = Counter[str]()
    for file in files:
        of_files.update(file.counts)
    if 2 * counts.get("lost", 0) > counts.get("annotations", 0):
        raise InputError(
            f"{counts['lost']} of {counts['annotations']} annotations lie outside their image",
            where=some_of(file.name for file in files),
            allowed="boxes and polygons in pixels of their image",
            remedy="correct the sizes of the images, or export the annotations again",
        )
    texts = {**of_files, "measured": counts.get("measured")}
    dropped = some_of(sorted({name for file in files for name in file.dropped}))
    notes = [f"left out, without annotations and with the name of another category: {dropped}"]
    notes = notes if dropped else []
    if differing := _numbered_differently([(file.role, file) for file in files]):
        categories, some = {}, some_of(differing, 3)
        notes.append(f"files number categories differently and were joined by name: {some}")
    if unknown := some_of(file.name for file in files if file.is_contradictory):
        notes.append(f"areas in {unknown} count as unknown: most contradict their boxes or images")
    proxies, kept = counts.get("proxies", 0), of_files["compared"]
    return {
        "reader": "coco",
        "area": "boxes" if proxies and not kept else "segments",
        "sources": sources,
        "categories": {c: {"id": number, "name": name} for c, (number, name) in categories.items()},
        "licenses": list(listed.values()),
        "notes": notes
        + [
            text.format(n=number, images=n_images, root=images, **texts)
            for what, text in (_OF_FILES | _NOTES).items()
            if (number := of_files[what] or counts.get(what))
        ],
    }


class _MergedFiles:
    """Images, classes and area triples of several files, being put together."""

    def __init__(self, files: list[tuple[str, ParsedFile]], texts: pl.Series | None = None) -> None:
        self.counts: dict[str, int] = {}
        self._texts = texts
        # reserved column -> ids of the images that files of its role list
        self.annotated: dict[str, NDArray[np.int64]] = {}
        self.files = ", ".join(file.name for _, file in files)
        self._check_disjoint(files)
        parsed = [file for _, file in files]
        self.ids = _union([file.image_ids for file in parsed])
        rows = [np.searchsorted(self.ids, file.image_ids).astype(np.int32) for file in parsed]
        self.widths = self._agreed("width", rows, [file.widths for file in parsed])
        self.heights = self._agreed("height", rows, [file.heights for file in parsed])
        self.file_names = self._first_names(rows, [file.file_names for file in parsed])
        self.classes = list(class_categories(files))
        self._column = {name: column for column, name in enumerate(self.classes)}
        # a class that both roles name is one of things
        self.kinds: dict[str, str] = {}
        for role, kind in (("stuff", "stuff"), ("things", "thing")):
            listed = class_categories([file for file in files if file[0] == role])
            self.kinds |= dict.fromkeys(listed, kind)
        self._parts = [
            self._triples(file, rows_of_file)
            for file, rows_of_file in zip(parsed, rows, strict=True)
        ]
        self._things = [
            (rows_of_file, self._columns_of(file)[file.category_index], file)
            for (role, file), rows_of_file in zip(files, rows, strict=True)
            if role == "things"
        ]
        self._note_coverage(files)
        for file in parsed:
            for what, number in file.counts.items():
                self.counts[what] = self.counts.get(what, 0) + number

    def _some(self, ids: NDArray[np.int64]) -> str:
        """Ids of images in words."""
        return some_of(ids if self._texts is None else self._texts.gather(ids).to_list())

    def areas(self) -> csr_array:
        """Sums of square pixels over height x width, CSR (n_images, n_classes)."""
        rows, columns, values = (np.concatenate(part) for part in zip(*self._parts, strict=True))
        total = summed((rows, columns, values), (len(self.ids), len(self.classes)))
        # one division of each sum: within 1e-15 of the official areas summed by hand
        size = (self.widths * self.heights).astype(np.float64)
        total.data /= np.repeat(size, np.diff(total.indptr))
        return total

    def objects(self) -> pl.DataFrame | None:
        """A row for each annotation of things that has a box and a class; None where no file has
        boxes.
        """
        if all(file.boxes is None for _, _, file in self._things):
            return None
        rows, columns, boxes, areas, flags = (
            np.concatenate(part)
            for part in zip(
                *(
                    (rows[file.image_index], columns, *_boxes_of(file))
                    for rows, columns, file in self._things
                ),
                strict=True,
            )
        )
        parts = rows, columns, boxes, areas, flags
        kept = (columns >= 0) & ~is_flat(areas, boxes)
        rows, columns, boxes, areas, flags = _where(kept, *parts)
        usable = usable_boxes(boxes, self.widths[rows], self.heights[rows], self.counts)
        self._check_boxes(boxes[usable], rows[usable])
        rows, columns, boxes, areas, flags = _where(usable, rows, columns, boxes, areas, flags)
        crowd, ignore = ((flags & flag).astype(bool) for flag in (CROWD, IGNORE))
        ids = pl.Series("image_id", self.ids)
        return objects_table(ids, self.classes, rows, columns, boxes, areas, crowd, ignore)

    def _check_boxes(self, boxes: NDArray[np.float64], rows: NDArray[Any]) -> None:
        """Refuse boxes that fit their images in another order of numbers, or as fractions."""
        remedy = "write left, top, width and height in pixels, or leave bbox out if there is a"
        remedy += " segmentation or an area"
        sizes = np.stack([self.widths[rows], self.heights[rows]], axis=1)
        boxes, sizes = (some[(sizes > _SMALL).all(axis=1)] for some in (boxes, sizes))
        if are_fractions(boxes):
            problem = "the boxes are fractions of the image, where COCO has pixels"
            raise InputError(problem, where=self.files, allowed=NUMBERS["xywh"], remedy=remedy)
        try:
            check_inside(boxes, "xywh", sizes, self.files)
        except InputError as error:
            raise error.changed(remedy=remedy, give=()) from None

    def verified(self) -> csr_array | None:
        """The pairs that are known in images that list the classes that were looked for: classes
        that are absent, or all of whose objects are annotated; CSR (n_images, n_classes). None
        where no file has such lists.
        """
        parts: list[list[tuple[NDArray[Any], NDArray[Any]]]] = [[], []]
        for rows, columns, file in self._things:
            if file.lists is not None:
                image, category, kind = file.lists.T
                of_listed = np.append(self._columns_of(file), -1)[category]
                has_lists = np.isin(np.arange(len(rows)), image)[file.image_index]
                parts[0] += [(rows[file.image_index], np.where(has_lists, columns, -1))]
                for number, wanted in enumerate((ABSENT, PARTIAL)):
                    parts[number] += [(rows[image], np.where(kind == wanted, of_listed, -1))]
        if not parts[0]:
            return None
        found, partial = (self._pairs(*map(np.concatenate, zip(*of, strict=True))) for of in parts)
        return csr_array(found - found.multiply(partial))

    def _pairs(self, rows: NDArray[Any], columns: NDArray[Any]) -> csr_array:
        """1 for each pair of a row and a column, without columns below 0."""
        kept = columns >= 0
        shape, ones = (len(self.ids), len(self.classes)), np.ones(int(kept.sum()), np.int8)
        pairs = csr_array((ones, (rows[kept], columns[kept])), shape)
        pairs.data[:] = 1
        return pairs

    def add_maps(self, maps: ParsedFile) -> None:
        """Add areas of stuff that were counted in pixel maps; maps of other images are left out."""
        for name in maps.categories.values():
            self._column.setdefault(name, len(self._column))
            self.kinds.setdefault(name, "stuff")
        self.classes = list(self._column)
        in_images = np.isin(maps.image_ids, self.ids)
        rows = np.searchsorted(self.ids, maps.image_ids)
        rows_with_maps = rows[in_images]
        differ = self.widths[rows_with_maps] != maps.widths[in_images]
        differ |= self.heights[rows_with_maps] != maps.heights[in_images]
        if differ.any():
            problem = "maps and annotation files give different sizes for images"
            raise InputError(
                f"{problem} {some_of(self.ids[rows_with_maps[differ]])}", where=maps.name
            )
        keep = in_images[maps.image_index]
        columns = np.array([self._column[name] for name in maps.categories.values()], np.int32)
        entry_rows, column = rows[maps.image_index][keep], columns[maps.category_index][keep]
        self._parts.append((entry_rows, column, maps.areas[keep]))
        self.counts["maps"] = len(self.ids) - len(rows_with_maps)
        self.annotated["annotated_stuff"] = self.ids[rows_with_maps]

    def _check_disjoint(self, files: list[tuple[str, ParsedFile]]) -> None:
        for role in ("things", "stuff"):
            among = [f for r, f in files if r == role]
            if len(among) < 2:
                continue
            ids = np.concatenate([f.image_ids for f in among])
            values, counts = np.unique(ids, return_counts=True)
            if len(twice := values[counts > 1]):
                raise listed_twice(role, [f.name for f in among], self._some(twice))

    def _agreed(
        self, what: str, rows: list[NDArray[np.int32]], values: list[NDArray[np.int64]]
    ) -> NDArray[np.int64]:
        values_agreed = np.zeros(len(self.ids), dtype=np.int64)
        for file_rows, given in zip(rows, values, strict=True):
            values_agreed[file_rows] = given
        for file_rows, given in zip(rows, values, strict=True):
            if len(differ := np.flatnonzero(values_agreed[file_rows] != given)):
                raise InputError(
                    f"files give different {what}s for images"
                    f" {self._some(self.ids[file_rows[differ]])}",
                    where=self.files,
                    allowed="the same size in every file that lists an image",
                )
        return values_agreed

    def _first_names(
        self, rows: list[NDArray[np.int32]], names: list[list[str | None]]
    ) -> list[str | None]:
        names_chosen = np.full(len(self.ids), None, dtype=object)
        # written from the last file to the first, so that the first name given is what stays
        for file_rows, given in zip(reversed(rows), reversed(names), strict=True):
            listed = np.array(given, dtype=object)
            is_named = listed != None  # noqa: E711 - element by element
            names_chosen[file_rows[is_named]] = listed[is_named]
        first_names: list[str | None] = names_chosen.tolist()
        return first_names

    def _triples(self, file: ParsedFile, rows: NDArray[np.int32]) -> Entries:
        columns = self._columns_of(file)[file.category_index]
        keep = np.flatnonzero(columns >= 0) if (columns < 0).any() else slice(None)
        return rows[file.image_index][keep], columns[keep], file.areas[keep]

    def _columns_of(self, file: ParsedFile) -> NDArray[np.int32]:
        """The column of the class of each category; -1 where it has none."""
        names = {i: class_name(name, file.name) for i, name in file.categories.items()}
        sides = [
            -1 if (i, name) == (OTHER, "other") else self._column[name] for i, name in names.items()
        ]
        return np.array(sides, dtype=np.int32)

    def _note_coverage(self, files: list[tuple[str, ParsedFile]]) -> None:
        for role in ("things", "stuff"):
            listed = [f.image_ids for r, f in files if r == role]
            # the files of a role share no image, so their lengths add up
            self.counts[role] = len(self.ids) - sum(map(len, listed)) if listed else 0
            if listed:
                self.annotated[f"annotated_{role}"] = np.concatenate(listed)
        lists = [f.image_ids[f.lists[:, 0]] for _, f in files if f.lists is not None]
        if lists:
            images = np.unique(np.concatenate(lists))
            things = self.annotated["annotated_things"]
            self.annotated["annotated_things"] = np.setdiff1d(things, images)
            self.counts["listed"] = len(images)


def _where(kept: NDArray[np.bool_], *parts: NDArray[Any]) -> tuple[NDArray[Any], ...]:
    """The parts of some annotations; without a copy if those are all."""
    return parts if kept.all() else tuple(part[kept] for part in parts)


def _boxes_of(
    file: ParsedFile,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.uint8]]:
    """Boxes, areas and flags of the annotations of a file."""
    n = len(file.areas)
    if file.boxes is None or file.flags is None:
        return np.full((n, 4), np.nan), file.areas, np.zeros(n, np.uint8)
    areas = file.areas
    if (unknown := np.isnan(areas)).any():
        areas = np.where(unknown, file.boxes[:, 2] * file.boxes[:, 3], areas)
    return file.boxes, areas, file.flags


def _union(ids: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """All ids, ascending, without sorting where all files list the same images."""
    first = ids[0]
    if all(np.array_equal(first, others) for others in ids[1:]) and (first[1:] > first[:-1]).all():
        return first
    return np.unique(np.concatenate(ids))


class _HasCategories(Protocol):
    """A file's name and its categories."""

    @property
    def name(self) -> str: ...

    @property
    def categories(self) -> dict[int, str]: ...


def class_categories(files: Sequence[tuple[str, _HasCategories]]) -> dict[str, tuple[int, str]]:
    """Class -> category id, and its name, as the first file has them: things, then stuff, by id,
    without category 183 ``other``. Raises InputError: a name that two categories of a file have;
    files of one role that share ids and no name.
    """
    order: dict[str, tuple[int, str]] = {}
    for role in ("things", "stuff"):
        listed: dict[str, tuple[int, str]] = {}
        for file in (file for r, file in files if r == role):
            own = _own_names(file)
            _check_joined(own, listed, file.name)
            listed = own | listed
        by_id = sorted(listed.items(), key=lambda entry: entry[1][0])
        order |= {n: c for n, c in by_id if (c[0], n) != (OTHER, "other")} | order
    return order


def _own_names(file: _HasCategories) -> dict[str, tuple[int, str]]:
    """Class -> id and name of a file's categories. Raises InputError for one that has two."""
    own: dict[str, tuple[int, str]] = {}
    for number, text in file.categories.items():
        name = class_name(text, file.name)
        if own.setdefault(name, (number, text))[0] != number:
            problem = f"categories {own[name][0]} and {number} have the same name {name!r}"
            raise InputError(problem, where=file.name, remedy="rename one of the two")
    return own


def _check_joined(
    own: Mapping[str, tuple[int, str]], listed: Mapping[str, tuple[int, str]], where: str
) -> None:
    """Raise InputError for categories with the ids of others, with which they share no name."""
    numbers = {number: name for name, (number, _) in listed.items()}
    clash = next((n for n, (i, _) in own.items() if numbers.get(i, n) != n), None)
    if clash is not None and not own.keys() & listed.keys():
        number = own[clash][0]
        raise InputError(
            f"category {number} is {clash!r} here and {numbers[number]!r} in another file, and the"
            " files share no category name",
            where=where,
            allowed="one name for each category id in all files, or the same names",
            remedy="import each file separately, or use one list of categories in all files",
        )


def _numbered_differently(files: Sequence[tuple[str, _HasCategories]]) -> list[str]:
    """Category ids that mean different classes in files of one role, in words."""
    names: dict[tuple[str, int], dict[str, str]] = {}
    for role, file in files:
        for name, (number, _) in _own_names(file).items():
            names.setdefault((role, number), {}).setdefault(name, file.name)
    return [
        f"{number} is {' and '.join(f'{name} in {file}' for name, file in of.items())}"
        for (_, number), of in names.items()
        if len(of) > 1
    ]


def _captions(files: list[ParsedFile], merged: _MergedFiles) -> pl.DataFrame | None:
    if not files:
        return None
    merged.annotated["annotated_captions"] = np.concatenate([file.image_ids for file in files])
    ids = np.concatenate([file.image_ids[file.image_index] for file in files])
    texts = [*chain.from_iterable(file.captions for file in files)]
    in_images = np.isin(ids, merged.ids)
    merged.counts["strays"] = int((~in_images).sum())
    merged.counts["bare"] = int((~np.isin(merged.ids, ids)).sum())
    return pl.DataFrame({"image_id": ids, "caption": texts}).filter(pl.Series(in_images))


@dataclass(frozen=True)
class StuffMaps:
    """Counted pixel maps on disk."""

    folder: Path
    classes: list[str]
    rows: ImageRows

    def read(self, low: int | None, high: int | None) -> ParsedFile:
        """Maps of images with ``low <= id < high`` as an annotation file; areas are pixels."""
        rows = self.rows.read(low, high)
        entry_rows, columns, pixels = entries_of(rows, "pixels")
        return ParsedFile(
            str(self.folder),
            image_ids=rows["image_id"].to_numpy(),
            widths=rows["width"].to_numpy(),
            heights=rows["height"].to_numpy(),
            file_names=[None] * rows.height,
            categories=dict(enumerate(self.classes)),
            image_index=entry_rows,
            category_index=columns,
            areas=pixels.astype(np.float64),
        )


def scan_stuff_maps(
    maps: Path,
    values: str,
    image_ids: NDArray[np.int64],
    folder: Path,
    map: Map,
    progress: StepProgress,
) -> StuffMaps:
    """Count the pixels of stuff in maps."""
    listed = list_maps(maps)
    ids = listed["image_id"]
    if ids.dtype != pl.Int64 or not np.isin(ids.to_numpy(), image_ids).any():
        raise InputError(
            "no map is named after an image of the annotation files, such as"
            f" {some_of(listed['stem'].to_list(), 2)}",
            where=maps,
            allowed="names of maps that are image ids, such as 000000000139.png",
        )
    stuff = {
        value: name for value, name in map_values(values).items() if COCOSTUFF[name] == "stuff"
    }
    # thing pixels are left to the things files
    ignored = (set(map_values(values)) | {0, 255, OTHER}) - set(stuff)
    return StuffMaps(
        maps, list(stuff.values()), count_maps(listed, stuff, ignored, folder, map, progress)
    )
