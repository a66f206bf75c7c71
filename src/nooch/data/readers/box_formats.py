"""Interface of bounding-box formats, which give each image's boxes, and their shared checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import polars as pl

from nooch.base.calls import Map, StepProgress
from nooch.base.errors import InputError, ParameterError, check_one_of, some_of, unreadable
from nooch.data.objects import LEEWAY
from nooch.data.readers.contract import ImageListing
from nooch.data.readers.image_rows import (
    ImageRows,
    Parse,
    files_below,
    parse_files,
    write_rows,
)
from nooch.data.table_files import BROKEN_TABLE, read_table
from nooch.data.table_schema import class_name, identifiers

BOX_COLUMNS: dict[str, Any] = {
    "keys": pl.List(pl.String),
    "areas": pl.List(pl.Float64),
    "boxes": pl.List(pl.Float64),
}
"""Class keys of an image's boxes; their areas as fractions of it; left, top, width, height of one
box after the other, in pixels with columns ``width`` and ``height``, else fractions. Formats may
add lists ``crowd`` and ``ignore``, as of objects.
"""


@dataclass(frozen=True, kw_only=True)
class FoundBoxes:
    """The location of the boxes, before any is read: in a file for each image, or in one table.

    Attributes:
        source: what was given, for errors.
        names_of: class keys that occur, sorted -> class key -> class name, in the order of classes.
        listed: ``stem`` of each image, the ``file`` of its boxes (null: it has none), and
            ``file_name`` and ``split`` if they are known; empty for a table.
        parse: gives ``BOX_COLUMNS``, or the columns of ``parsed``, of a file.
        read: gives a table of ``stem`` and ``BOX_COLUMNS``.
        root: folder of the images, where the files name each of them.
        images: folder below which the images are looked for, unless another one is given.
        notes: for the dataset.
    """

    source: Path
    names_of: Callable[[Sequence[str]], dict[str, str]]
    listed: pl.DataFrame = field(default_factory=pl.DataFrame)
    parse: Parse | None = None
    parsed: Mapping[str, Any] = field(default_factory=lambda: BOX_COLUMNS)
    read: Callable[[], pl.DataFrame] = pl.DataFrame
    root: Path | None = None
    images: Path | None = None
    notes: tuple[str, ...] = ()

    def scan(
        self, folder: Path, map: Map, progress: StepProgress, images: ImageListing | None
    ) -> ImageRows:
        """Read the boxes. Raises InputError if two files have the same name."""
        if self.parse is None:
            rows = write_rows(_with_bare(self.read(), images), folder)
            progress(1, 1)
            return rows
        stems = self.listed["stem"]
        if len(twice := stems.filter(stems.is_duplicated()).unique().sort()):
            problem = f"several files are called {some_of(twice)}"
            raise InputError(problem, where=self.source, allowed="one file for each image")
        listed = _with_bare(self.listed, images)
        return parse_files(listed, self.parse, self.parsed, folder, map, progress)


def _with_bare(rows: pl.DataFrame, images: ImageListing | None) -> pl.DataFrame:
    """Rows with ids, in the order of stems, also for images without boxes."""
    rows = rows.with_columns(bare=False)
    if images is not None:
        stems = sorted({Path(path).stem for path in images.paths()})
        bare = pl.DataFrame({"stem": stems}, schema={"stem": pl.String})
        bare = bare.join(rows, on="stem", how="anti").with_columns(bare=True)
        rows = pl.concat([rows, bare], how="diagonal").with_columns(pl.col(pl.List).fill_null([]))
    return rows.with_columns(identifiers(rows["stem"].to_list())).sort("stem")


def listed_files(files: Sequence[str]) -> pl.DataFrame:
    """Files that are called after their images, as ``FoundBoxes.listed``."""
    stems = [file.rsplit("/", 1)[-1].rsplit(".", 1)[0] for file in files]
    return pl.DataFrame(
        {"stem": stems, "file": files}, schema={"stem": pl.String, "file": pl.String}
    )


def files_of(folder: Path, ending: str) -> list[str]:
    """The files below a folder with an ending, sorted. Raises InputError if there is none."""
    if not folder.is_dir():
        raise InputError("is not a folder", where=folder, allowed=f"a folder of {ending} files")
    files = files_below(folder, lambda name: name.lower().endswith(ending))
    if not files:
        raise InputError(f"contains no {ending} file", where=folder)
    return files


def count_notes(bare: int, missing: int, total: int) -> list[str]:
    """Notes that count images without labels, and labels without an image file."""
    without = (
        f"{bare} of {total} images have no label file or row: they count as images without objects"
    )
    lost = f"{missing} of {total} image files are not there"
    return [note for note, count in ((without, bare), (lost, missing)) if count]


def check_box(edges: Sequence[float], where: object) -> None:
    """Raise InputError unless left, right, top, bottom (fractions) lie within the image."""
    left, right, top, bottom = edges
    # also false for NaN
    if not (-LEEWAY <= left <= right <= 1 + LEEWAY and -LEEWAY <= top <= bottom <= 1 + LEEWAY):
        box = f"({left:.4g}, {top:.4g}) to ({right:.4g}, {bottom:.4g})"
        problem = f"the box from {box} is not within the image"
        allowed = "edges between 0 and 1 of the image's width and height, in order"
        remedy = "correct the box, or remove it from the file"
        raise InputError(problem, where=where, allowed=allowed, remedy=remedy)


_EDGES = ("xmin", "xmax", "ymin", "ymax")


def find_voc(folder: Path, classes: Path | None, images: Path | None) -> FoundBoxes:
    """Boxes of VOC files; parameters and errors as of ``nooch.data.readers.boxes.read_boxes``."""
    del images  # each file names its image
    if classes is not None:
        raise ParameterError("VOC files name their classes themselves", give={"classes": None})
    sizes = {"width": pl.Int64, "height": pl.Int64}
    columns = {**BOX_COLUMNS, "ignore": pl.List(pl.Boolean), **sizes, "file_name": pl.String}
    return FoundBoxes(
        source=folder,
        names_of=lambda keys: {key: class_name(key, folder) for key in keys},
        listed=listed_files(files_of(folder, ".xml")),
        parse=_parse,
        parsed=columns,
    )


def _parse(path: Path, where: str) -> dict[str, Any]:
    content = path.read_bytes()
    # entities can blow up a small file or name other files; in UTF-16, zeros lie between
    plain = content.replace(b"\0", b"")
    if b"<!DOCTYPE" in plain or b"<!ENTITY" in plain:
        raise InputError(
            "declares a document type or entities", where=where, allowed="plain annotation XML"
        )
    broken = (ET.ParseError, ValueError, LookupError)
    with unreadable(where, errors=broken, problem="is not a VOC annotation"):
        root = ET.fromstring(content)  # noqa: S314 - declarations were refused above
        width, height = (int(_text(root, f"size/{side}")) for side in ("width", "height"))
        objects = root.findall("object")
        names = [_text(item, "name") for item in objects]
        edges = [[float(_text(item, f"bndbox/{edge}")) for edge in _EDGES] for item in objects]
        # an object that is hard to recognize does not count in VOC's evaluation
        ignore = [(item.findtext("difficult") or "").strip() == "1" for item in objects]
    if min(width, height) < 1 or max(width, height) >= 1 << 31:
        allowed = "1 pixel to 2,147,483,647"
        raise InputError(f"size is {width} x {height}", where=where, allowed=allowed)
    areas, boxes = [], []
    for left, right, top, bottom in edges:
        # VOC counts pixels from 1 and includes the last; some tools count from 0
        first, upper = (edge - 1 if edge >= 1 else edge for edge in (left, top))
        check_box((first / width, right / width, upper / height, bottom / height), where)
        wide, tall = right - left + 1, bottom - top + 1
        areas.append(wide * tall / (width * height))
        boxes += [first, upper, wide, tall]
    about = {"width": width, "height": height, "file_name": root.findtext("filename")}
    return {"keys": names, "areas": areas, "boxes": boxes, "ignore": ignore, **about}


def _text(item: ET.Element, path: str) -> str:
    text = item.findtext(path)
    if text is None:
        raise ValueError(f"{path} is missing")
    return text


_CORNERS = ("XMin", "XMax", "YMin", "YMax")


def find_openimages(file: Path, classes: Path | None, images: Path | None) -> FoundBoxes:
    """Boxes of a table; parameters and errors as of ``nooch.data.readers.boxes.read_boxes``."""
    del images  # a table names no images
    return FoundBoxes(
        source=file,
        names_of=partial(_names, file, classes),
        read=partial(_read, file),
        parsed={**BOX_COLUMNS, "crowd": pl.List(pl.Boolean)},
    )


def _read(file: Path) -> pl.DataFrame:
    """The boxes of each image, in the order of rows."""
    table = read_table(file)
    for name in ("ImageID", "LabelName", *_CORNERS):
        check_one_of("column", name, table.columns, owner=str(file))
    # -1 is not known
    group = pl.col("IsGroupOf") if "IsGroupOf" in table.columns else pl.lit(0)
    crowd = (group.cast(pl.Int64, strict=False) == 1).fill_null(value=False).alias("crowd")
    table = table.select(pl.col("ImageID", "LabelName").cast(pl.String), crowd, *_CORNERS)
    if bare := table.filter(pl.any_horizontal(pl.col("ImageID", "LabelName").is_null())).height:
        raise InputError(
            f"{bare} rows have no ImageID or no LabelName", where=file, allowed="both in every row"
        )
    with unreadable(file, errors=BROKEN_TABLE, problem="edges are not numbers"):
        table = table.with_columns(pl.col(_CORNERS).cast(pl.Float64))
    left, right, top, bottom = (pl.col(edge) for edge in _CORNERS)
    # the same bounds as ``check_box``, which raises for the first box outside them
    inside = [
        pl.all_horizontal(low >= -LEEWAY, low <= high, high <= 1 + LEEWAY)
        for low, high in ((left, right), (top, bottom))
    ]
    is_inside = pl.all_horizontal(inside).fill_null(value=False)
    outside = table.with_row_index("row", 1).filter(~is_inside).head(1)
    for row, *box in outside.select("row", pl.col(_CORNERS).fill_null(float("nan"))).iter_rows():
        check_box(box, f"{file}, row {row}")
    wide, tall = right - left, bottom - top
    boxes = table.select(
        "crowd", stem="ImageID", keys="LabelName", areas=wide * tall,
        boxes=pl.concat_list(left, top, wide, tall),
    )  # fmt: skip
    lists = "keys", "areas", pl.col("boxes").explode(), "crowd"
    return boxes.group_by("stem", maintain_order=True).agg(*lists)


def _names(file: Path, classes: Path | None, keys: Sequence[str]) -> dict[str, str]:
    if classes is None:
        return {key: class_name(key, file) for key in keys}
    options = {"has_header": False} if classes.suffix == ".csv" else {}
    listed = read_table(classes, **options)
    if listed.width < 2:
        raise InputError("has one column", where=classes, allowed="LabelName, name")
    names = {str(row[0]): class_name(str(row[1]), classes) for row in listed.iter_rows()}
    if unknown := [key for key in keys if key not in names]:
        allowed = "a row LabelName, name for each label"
        raise InputError(f"labels {some_of(unknown)} have no name", where=classes, allowed=allowed)
    return {key: names[key] for key in keys}
