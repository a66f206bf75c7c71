"""Bounding boxes (YOLO, Pascal VOC, Open Images) -> Dataset, with box areas for objects' areas."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from blake3 import blake3

from nooch.base.calls import Map, StepProgress
from nooch.base.errors import InputError, check_one_of, no_such, some_of
from nooch.base.split_plan import SplitPlan
from nooch.data.objects import NOTES
from nooch.data.readers.box_formats import (
    LEFT_OUT,
    REVERSED,
    FoundBoxes,
    count_notes,
    find_openimages,
    find_voc,
)
from nooch.data.readers.contract import ImageListing
from nooch.data.readers.image_files import list_images
from nooch.data.readers.image_rows import ImageRows, ScannedRows, columns_of, listed_digest
from nooch.data.readers.yolo import check_shapes, find_yolo
from nooch.data.table_files import table_files

FORMATS: dict[str, Callable[[Path, Path | None, Path | None, bool], FoundBoxes]] = {
    "yolo": find_yolo,
    "voc": find_voc,
    "openimages": find_openimages,
}
"""Name -> the format's finder; its arguments: source, classes, images, follow_links of
``BoxReading``.
"""


@dataclass(frozen=True)
class BoxReading:
    """Bounding boxes as objects; areas of each class's boxes in each image are summed: upper bounds
    of the objects' areas. Polygons of YOLO give their own areas.

    Attributes:
        source: YOLO: folder of ``.txt`` files (``class x y w h``, or ``class`` and the corners of a
            polygon, relative), or a ``data.yaml``, which names the classes, the folder and the
            images of each split. VOC: folder of ``.xml`` files; ``difficult`` objects are ignored.
            Open Images: a CSV with ``ImageID, LabelName, XMin, XMax, YMin, YMax`` (relative), and
            optionally ``IsGroupOf``: crowds; or a folder of them, each a split by its name.
        format: ``yolo``, ``voc`` or ``openimages``.
        classes: YOLO: text file with a name per line, or a ``data.yaml``, whose splits are taken
            if they are below ``source`` (needed, unless that is the source). Open Images: CSV of
            ``LabelName, name``. VOC: none.
        images: folder below which the images lie; YOLO: by default ``source``, if it contains
            images. Images without a label file have no object; a note counts them.
        follow_links: YOLO: follow links that lead out of the folder that a ``data.yaml`` names, as
            if that folder were the ``source``.
    """

    source: str | Path
    format: str
    classes: str | Path | None = None
    images: str | Path | None = None
    follow_links: bool = False

    def files(self) -> list[tuple[str, Path]]:
        """The source, and the list of classes."""
        source = Path(self.source)
        files = [source] if source.is_dir() or self.format != "openimages" else table_files(source)
        return [("boxes", file) for file in files] + (
            [("classes", Path(self.classes))] if self.classes else []
        )

    def check(self, plan: SplitPlan | None) -> None:
        """Raises ParameterError for an unknown format, InputError if there is no source."""
        del plan  # what columns there are is known when the files are read
        check_one_of("format", self.format, FORMATS, owner="boxes")
        if not Path(self.source).exists():
            raise no_such(self.source)

    def dependencies(self) -> list[Any]:
        """The files of boxes by name, size and time, and the names of images."""
        boxes = self._boxes()
        folder = self.images or boxes.images
        names = [] if folder is None else sorted(list_images(folder))
        listed = blake3(os.fsencode("\0".join(names))).hexdigest()
        parameters = map(
            str, (self.format, self.source, self.classes, self.images, self.follow_links)
        )
        return [*parameters, listed_digest(boxes.listed), listed]

    def scan(
        self, folder: Path, map: Map, progress: StepProgress, part_size: int | None = None
    ) -> ScannedRows:
        """Boxes of all images.

        Raises:
            InputError: files that do not parse, most boxes outside the image, classes without a
                name, paths that lead out of the folder.
            ParameterError: a class list that is missing or not wanted.
        """
        del part_size
        boxes = self._boxes()
        images = self.images or boxes.images
        listing = None if images is None else ImageListing.write(images, folder / "images-of-boxes")
        rows, divided = boxes.scan(folder, map, progress, listing)
        if not rows.batches:
            raise InputError("contains no boxes of any image", where=self.source)
        batches = (batch["keys"].explode().drop_nulls() for batch in rows.columns("keys"))
        counted = pl.concat(some.value_counts() for some in batches)
        names = boxes.names_of(counted["keys"].unique().sort().to_list())
        n_boxes = int(counted["count"].sum())
        notes = _checked(rows, n_boxes, boxes, self.source)
        n_proxies = n_boxes - _polygons(rows, boxes.parsed)
        proxy = "areas are of bounding boxes, which are larger than their objects"
        if 0 < n_proxies < n_boxes:
            proxy = f"{proxy}, for {n_proxies:,} of {n_boxes:,} objects; the others have polygons"
        source = {"role": "boxes", "file": Path(self.source).name, "images": len(rows.ids())}
        has_segments = n_boxes > 0 == n_proxies
        lists = [name for name, kind in boxes.parsed.items() if isinstance(kind, pl.List)]
        lists = [name for name in lists if name not in ("bad", "shapes")]
        about = {
            "reader": f"boxes/{self.format}",
            "area": "segments" if has_segments else "boxes",
            "sources": [{**source, "sha256": _digest(rows, lists)}],
            "notes": [
                *(() if has_segments else (proxy,)),
                *boxes.notes,
                *divided,
                *notes,
                *(() if listing is None else listing.notes),
            ],
        }
        return ScannedRows(
            rows,
            names,
            about,
            self.source,
            _notes,
            boxes.root,
            listing,
            ordered=_is_ordered(rows, columns_of(names)),
            has_objects=n_boxes > 0,
            unread=rows.unread,
        )

    def _boxes(self) -> FoundBoxes:
        classes = None if self.classes is None else Path(self.classes)
        images = None if self.images is None else Path(self.images)
        return FORMATS[self.format](Path(self.source), classes, images, self.follow_links)


def _checked(rows: ImageRows, n_boxes: int, boxes: FoundBoxes, where: object) -> list[str]:
    """Notes on all boxes. Raises InputError where most cannot be used, or what they are is open."""
    lines = (batch["bad"].explode().drop_nulls() for batch in rows.columns("bad"))
    bad = pl.concat([pl.Series(rows.unread, dtype=pl.String), *lines])
    lost = bad.filter(bad.str.ends_with(LEFT_OUT))
    if len(lost) > n_boxes:
        words = lost.head(3).str.split("\t").list.head(3).list.join(", ")
        raise InputError(
            f"{len(lost):,} of {len(lost) + n_boxes:,} boxes cannot be used: {'; '.join(words)}",
            where=where,
            allowed="edges in order, from 0 to 1 of the image's width and height; in VOC, within"
            " the image's pixels",
            remedy="check whether the boxes are in this format, and export them again",
        )
    if "shapes" not in boxes.parsed:
        reversed_ = lost.filter(lost.str.ends_with(f"{REVERSED}\t{LEFT_OUT}"))
        # a few are slips
        if len(reversed_) * 4 > len(lost) + n_boxes:
            some = some_of((line.split("\t")[2] for line in reversed_), 2)
            raise InputError(
                f"{len(reversed_):,} of {len(lost) + n_boxes:,} boxes have reversed edges: {some}",
                where=where,
                allowed="left, top, right, bottom; these may be left, top, width, height",
                remedy="correct these boxes, or leave them out",
            )
        return []
    shapes = (batch["shapes"].explode().drop_nulls() for batch in rows.columns("shapes"))
    return check_shapes(pl.concat(shapes), where)


def _is_ordered(rows: ImageRows, columns: Mapping[str, int]) -> bool:
    """True if the boxes of every image are in the order of their classes."""
    for batch in rows.columns("keys"):
        numbers = batch["keys"].list.eval(
            pl.element().replace_strict(columns, return_dtype=pl.Int64)
        )
        if (numbers != numbers.list.sort()).any():
            return False
    return True


def _polygons(rows: ImageRows, parsed: Mapping[str, Any]) -> int:
    """Number of objects that have a polygon."""
    if "polygons" not in parsed:
        return 0
    return sum(int(batch["polygons"].sum()) for batch in rows.columns("polygons"))


def _digest(rows: ImageRows, lists: Sequence[str]) -> str:
    """SHA-256 of the list of (stem, and lists of the objects) of all images, as Python writes
    it.
    """
    digest, separator = hashlib.sha256(b"["), b""
    for batch in rows.columns("stem", *lists):
        digest.update(separator + ", ".join(map(repr, batch.iter_rows())).encode())
        separator = b", "
    digest.update(b"]")
    return digest.hexdigest()


def _notes(counts: Mapping[str, int], n_images: int, images: object) -> list[str]:
    del images  # of the scan
    noted = [text.format(n=counts[n]) for n, text in NOTES.items() if counts.get(n)]
    return [*count_notes(counts["bare"], counts["missing"], n_images), *noted]
