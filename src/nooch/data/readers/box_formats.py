"""Interface of bounding-box formats, which give each image's boxes, and their shared checks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import polars as pl

from nooch.base.calls import Map, StepProgress
from nooch.base.errors import InputError, ParameterError, check_one_of, some_of, unreadable
from nooch.base.text_encoding import text_lines
from nooch.base.words import counted
from nooch.data.box_columns import Floats, box_numbers
from nooch.data.objects import LEEWAY
from nooch.data.readers.contract import ImageListing
from nooch.data.readers.image_files import ImageIndex, stem_of
from nooch.data.readers.image_rows import ImageRows, Parse, files_below, parse_files, write_rows
from nooch.data.splits import SPLIT_NAMES, split_of
from nooch.data.table_files import read_table
from nooch.data.table_schema import SPLITS, class_name, identifiers

BOX_COLUMNS: dict[str, Any] = {
    "keys": pl.List(pl.String),
    "areas": pl.List(pl.Float64),
    "boxes": pl.List(pl.Float64),
    "bad": pl.List(pl.String),
}
"""Class keys of an image's boxes; their areas as fractions of it; left, top, width, height of one
box after the other, in pixels with columns ``width`` and ``height``, else fractions; and what is
wrong, as ``bad_line``. Formats may add lists ``crowd`` and ``ignore``, as of objects.
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
        lists: names of images by split, as lines of ``split_lists``.
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
    lists: Mapping[str, Sequence[str]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def scan(
        self, folder: Path, map: Map, progress: StepProgress, images: ImageListing | None
    ) -> tuple[ImageRows, list[str]]:
        """Read the boxes; and notes on splits. Raises InputError if two files have the same
        name.
        """
        paths = [] if images is None else [*images.paths()]
        if self.parse is None:
            listed, _ = _with_bare(self.read(), paths, self.source)
            rows = write_rows(_with_ids(listed), folder)
            progress(1, 1)
            return rows, []
        listed, notes = self._divided(*_with_bare(self.listed, paths, self.source))
        stems = listed["stem"]
        if len(twice := stems.filter(stems.is_duplicated()).unique().sort()):
            problem = f"several files are called {some_of(twice)}"
            raise InputError(problem, where=self.source, allowed="one file for each image")
        rows = parse_files(_with_ids(listed), self.parse, self.parsed, folder, map, progress)
        if len(rows.unread) == len(listed):
            some = some_of((": ".join(line.split("\t")[::2][:2]) for line in rows.unread), 3)
            problem = f"none of {counted(len(listed), 'file')} can be read: {some}"
            remedy = "check whether the boxes are in this format, and export them again"
            raise InputError(problem, where=self.source, remedy=remedy)
        if rows.unread:
            rows.with_numbers()
        return rows, notes

    def _divided(
        self, rows: pl.DataFrame, own: Mapping[str, str]
    ) -> tuple[pl.DataFrame, list[str]]:
        """Rows with the splits of lists, else of folders, if there are at least two; and notes."""
        if "split" in rows.columns:
            return rows, []
        stems, notes = rows["stem"].to_list(), list[str]()
        called = {stem.rsplit("/", 1)[-1]: stem for stem in stems} | {stem: stem for stem in stems}
        listed = dict[str, str]()
        for split, lines in self.lists.items():
            # the line is the name, or the name with a label or a second path behind it
            tokens = (line if line in called else line.split()[0] for line in lines)
            names = (called.get(name) or called.get(_stem(_base(name))) for name in tokens)
            for stem in filter(None, names):
                if listed.setdefault(stem, split) != split:
                    problem = f"{stem} is in the lists of {listed[stem]} and {split}"
                    raise InputError(problem, where=self.source, allowed="each image in one list")
        if len({*listed.values()}) > 1:
            notes = [
                f"splits {', '.join(sorted(self.lists, key=SPLITS.index))} from lists of images"
            ]
            if left := len(stems) - len(listed):
                notes.append(f"left out {counted(left, 'image')} in none of these lists")
        else:
            start = len(f"{self.source}/")
            files = [
                own.get(stem, "") if file is None else file[start:]
                for stem, file in zip(stems, rows["file"], strict=True)
            ]
            splits = [_folder_split(file) for file in files]
            listed = {} if None in splits else dict(zip(stems, map(str, splits), strict=True))
            found = sorted({*listed.values()}, key=SPLITS.index)
            if self.lists:
                about = "have no effect: they do not name images of two splits"
                notes.append(f"lists of {', '.join(self.lists)} {about}")
            if len(found) < 2:
                return rows, notes
            notes.append(f"splits {', '.join(found)} from the names of folders")
        column = pl.Series("split", [listed.get(stem) for stem in stems], dtype=pl.String)
        return rows.with_columns(column).drop_nulls("split"), notes


def _folder_split(path: str) -> str | None:
    """The split that a folder of a path is called after."""
    return next(filter(None, map(split_of, path.split("/")[:-1])), None)


def _base(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def _stem(path: str) -> str:
    """A path without its ending."""
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}{name.rsplit('.', 1)[0]}"


def _with_ids(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows with ids, in the order of stems."""
    return rows.with_columns(identifiers(rows["stem"].to_list())).sort("stem")


def _with_bare(
    rows: pl.DataFrame, paths: Sequence[str], source: Path
) -> tuple[pl.DataFrame, dict[str, str]]:
    """Rows also for images without boxes; and the path of each image by stem: its name, or also
    its folders, where files below ``source`` name no images and a name repeats.
    """
    own, stems = {_stem(_base(path)): path for path in paths}, rows["stem"]
    repeats = stems.n_unique() < len(stems) or len(own) < len(paths)
    if repeats and "file" in rows.columns and "file_name" not in rows.columns:
        own = {_stem(path): path for path in paths}
        # the folder labels is for the folder images
        labels = {label_of(path): path for path in paths}
        index = ImageIndex(source, labels)
        files = [file[len(f"{source}/") :] for file in rows["file"]]
        found = [labels.get(index.by_stem(_stem(file)) or "", file) for file in files]
        rows = rows.with_columns(stem=pl.Series(map(_stem, found), dtype=pl.String))
    rows = rows.with_columns(bare=False)
    if paths:
        known = {*rows["stem"]}
        # a file that is called otherwise, such as 7 for 007, is of the image that lacks one
        lost = {stem_of(f"{stem}.") for stem in known - own.keys()}
        bare = sorted(s for s in own.keys() - known if stem_of(f"{s}.") not in lost)
        frame = pl.DataFrame({"stem": bare}, schema={"stem": pl.String}).with_columns(bare=True)
        if "split" in rows.columns:
            splits = pl.Series([_folder_split(own[stem]) for stem in bare], dtype=pl.String)
            if len(nowhere := frame["stem"].filter(splits.is_null())):
                problem = f"no row or folder gives the split of {some_of(nowhere)}"
                raise InputError(problem, where=source, allowed="folders named after splits")
            frame = frame.with_columns(split=splits)
        rows = pl.concat([rows, frame], how="diagonal").with_columns(pl.col(pl.List).fill_null([]))
    return rows, own


def label_of(image: str) -> str:
    """The label file of an image: the last folder ``images`` becomes ``labels``, if any."""
    parts = [*PurePosixPath(image).with_suffix(".txt").parts]
    for number in range(len(parts) - 2, -1, -1):
        if parts[number].lower() == "images":
            parts[number] = "labels"
            break
    return "/".join(parts)


def split_lists(folder: Path) -> dict[str, list[Path]]:
    """Files of a folder that are called after a split, such as ``train.txt``, by split;
    ``trainval.txt`` is of train where that has none.
    """
    lists = dict[str, list[Path]]()
    for file in sorted(folder.glob("*.[tT][xX][tT]")):
        if split := SPLIT_NAMES.get(file.stem.lower()):
            lists.setdefault(split, []).append(file)
    both = [*folder.glob("trainval.txt")]
    return lists if "train" in lists or not both else {"train": both, **lists}


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


LEFT_OUT, KEPT = "left out", "kept; its area is the part within the image"
ONCE, UNREAD = "counted once", "not read, and its image left out"
"""Rules for a faulty annotation."""
REVERSED = "has reversed edges"
"""Ends the problem of a box whose right or bottom edge comes first."""


def bad_line(file: object, line: object, problem: str, rule: str) -> str:
    """A row of the list of broken annotations."""
    return "\t".join(str(part).replace("\t", " ") for part in (file, line, problem, rule))


def judged_box(
    edges: Sequence[float], leeway: tuple[float, float] = (LEEWAY, LEEWAY)
) -> tuple[float, str, str]:
    """Area within the image of a box, of left, right, top, bottom as fractions of it, NaN if it
    cannot be used; and what is wrong with it, and the rule for that, or empty texts.
    """
    left, right, top, bottom = edges
    wide, tall = right - left, bottom - top
    across, down = leeway
    if -across <= left <= right <= 1 + across and -down <= top <= bottom <= 1 + down:
        return wide * tall, "", ""
    box = f"the box from ({left:.4g}, {top:.4g}) to ({right:.4g}, {bottom:.4g})"
    if not math.isfinite(wide + tall):
        return math.nan, f"{box} is not finite", LEFT_OUT
    if wide < 0 or tall < 0:
        return math.nan, f"{box} {REVERSED}", LEFT_OUT
    wide, tall = min(right, 1) - max(left, 0), min(bottom, 1) - max(top, 0)
    if wide < 0 or tall < 0:
        return math.nan, f"{box} is outside the image", LEFT_OUT
    return wide * tall, f"{box} reaches beyond the image", KEPT


def judged_boxes(
    boxes: Floats, leeway: Floats, keys: pl.DataFrame
) -> tuple[Floats, dict[int, tuple[str, str]]]:
    """As ``judged_box``, of many: areas (n,), and by position what is wrong with some of them.

    ``boxes``: left, top, width, height as fractions (n, 4); ``leeway``: (n, 2); two boxes of equal
    ``keys``, ``class`` among them, and numbers are one.
    """
    start, end = boxes[:, :2], boxes[:, :2] + boxes[:, 2:]
    inside = (start >= -leeway) & (start <= end) & (end <= 1 + leeway)
    areas, odd = boxes[:, 2:].prod(axis=1), dict[int, tuple[str, str]]()
    for row in np.flatnonzero(~inside.all(axis=1)).tolist():
        edges = start[row, 0], end[row, 0], start[row, 1], end[row, 1]
        areas[row], problem, rule = judged_box(edges, (leeway[row, 0], leeway[row, 1]))
        odd[row] = problem, rule
    for row in keys["class"].fill_null("").eq("").arg_true():
        areas[row], odd[row] = math.nan, ("the box has no class", LEFT_OUT)
    rows = keys.hstack(pl.DataFrame(boxes, ["left", "top", "width", "height"]))
    again = ~rows.select(pl.struct(pl.all()).is_first_distinct()).to_series()
    for row in again.arg_true():
        areas[row], odd[row] = math.nan, ("the box is listed twice", ONCE)
    return areas, odd


_EDGES = tuple(f"bndbox/{edge}" for edge in ("xmin", "xmax", "ymin", "ymax"))


def find_voc(
    folder: Path, classes: Path | None, images: Path | None, follow_links: bool
) -> FoundBoxes:
    """Boxes of VOC files; parameters and errors as of ``boxes.BoxReading``."""
    del images, follow_links  # each file names its image
    if classes is not None:
        raise ParameterError("VOC files name their classes themselves", give={"classes": None})
    sizes = {"width": pl.Int64, "height": pl.Int64}
    columns = {**BOX_COLUMNS, "ignore": pl.List(pl.Boolean), **sizes, "file_name": pl.String}
    above = folder.parent if folder.name.lower() == "annotations" else folder
    places = (above / "ImageSets" / "Main", above / "ImageSets", above)
    lists = next(filter(None, map(split_lists, places)), {})
    lines = {
        s: [line.strip() for f in files for line in text_lines(f)] for s, files in lists.items()
    }
    return FoundBoxes(
        source=folder,
        names_of=lambda keys: {key: class_name(key, folder) for key in keys},
        listed=listed_files(files_of(folder, ".xml")),
        parse=_parse,
        parsed=columns,
        lists={split: [*filter(None, names)] for split, names in lines.items()},
    )


def _parse(path: Path, where: str) -> dict[str, Any]:
    with unreadable(where):
        content = path.read_bytes()
    # entities can blow up a small file or name other files; in UTF-16, zeros lie between
    plain = content.replace(b"\0", b"")
    problem = "declares a document type or entities"
    if b"<!DOCTYPE" not in plain and b"<!ENTITY" not in plain:
        try:
            root = ET.fromstring(content)  # noqa: S314 - declarations were refused above
            is_voc = root.tag == "annotation" or root.find("object") is not None
            problem = "" if is_voc else f"is a {root.tag}, not an annotation"
        except (ET.ParseError, ValueError, LookupError) as error:
            problem = f"is not XML: {error}"
    if problem:
        return {"unread": bad_line(where, "the file", problem, UNREAD)}
    sides = [_side(root.findtext(f"size/{side}")) for side in ("width", "height")]
    width, height = sides if all(sides) else (None, None)
    lists: dict[str, list[Any]] = {name: [] for name in ("keys", "areas", "boxes", "bad", "ignore")}
    seen = set[tuple[Any, ...]]()
    for number, item in enumerate(root.findall("object"), 1):
        texts = {name: item.findtext(name) for name in ("name", *_EDGES)}
        name, box = texts["name"], [_decimal(texts[edge]) for edge in _EDGES]
        # VOC counts pixels from 1 and includes the last; some tools count from 0
        first, upper = (edge - 1 if edge >= 1 else edge for edge in (box[0], box[2]))
        wide, tall = box[1] - box[0] + 1, box[3] - box[2] + 1
        corners = first, box[1], upper, box[3]
        area, problem, rule = judged_pixels(corners, wide * tall, width, height)
        if odd := [
            f"{at} is {text or 'missing'}"
            for at, text in texts.items()
            if not text or (at != "name" and math.isnan(_decimal(text)))
        ]:
            area, problem, rule = math.nan, ", ".join(odd), LEFT_OUT
        elif (name, *box) in seen:
            area, problem, rule = math.nan, f"{name} is listed twice", ONCE
        elif min(box) >= 0 and max(box) <= 1 and not all(map(float.is_integer, box)):
            problem = f"the box {', '.join(map(str, box))} is in fractions of the image, not pixels"
            area, rule = math.nan, LEFT_OUT
        seen.add((name, *box))
        if problem:
            lists["bad"].append(bad_line(where, f"object {number}", problem, rule))
        if not math.isnan(area):
            lists["keys"].append(name)
            lists["areas"].append(area)
            lists["boxes"] += [first, upper, wide, tall]
            # an object that is hard to recognize does not count in VOC's evaluation
            lists["ignore"].append((item.findtext("difficult") or "").strip() == "1")
    return {**lists, "width": width, "height": height, "file_name": root.findtext("filename")}


def judged_pixels(
    corners: Sequence[float], area: float, width: int | None, height: int | None
) -> tuple[float, str, str]:
    """As ``judged_box``, of left, right, top, bottom in pixels; a box within a pixel of the image
    has its own ``area``, in pixels where the size is not known.
    """
    across, down = width or 2.0**31, height or 2.0**31
    edges = [c / side for c, side in zip(corners, (across, across, down, down), strict=True)]
    part, problem, rule = judged_box(edges, (1 / across, 1 / down))
    if width is None:
        return (part if problem else area), problem, rule
    return (part if problem else area / (across * down)), problem, rule


def _side(text: str | None) -> int | None:
    """A side of an image in pixels; None where it is not stated."""
    side = _decimal(text)
    return int(side) if 1 <= side < 1 << 31 else None


def _decimal(text: str | None) -> float:
    """The number of a text, NaN if it is none."""
    try:
        return float((text or "nan").replace(",", "."))
    except ValueError:
        return math.nan


_CORNERS = ("XMin", "XMax", "YMin", "YMax")


def find_openimages(
    source: Path, classes: Path | None, images: Path | None, follow_links: bool
) -> FoundBoxes:
    """Boxes of a table, or of those below a folder, each a split by its name; parameters and errors
    as of ``boxes.BoxReading``.
    """
    del images, follow_links  # a table names no images
    files = openimages_files(source) if source.is_dir() else [source]
    if source.is_dir() and classes is None:
        classes = next(iter(sorted(source.glob("**/class-descriptions*.csv"))), None)
    if not files:
        allowed = f"a table with columns ImageID, LabelName, {', '.join(_CORNERS)}"
        raise InputError("contains no table of boxes", where=source, allowed=allowed)
    return FoundBoxes(
        source=source,
        names_of=partial(_names, source, classes),
        listed=pl.DataFrame({"file": [*map(str, files)]}),
        read=partial(_read_all, files),
        parsed={**BOX_COLUMNS, "crowd": pl.List(pl.Boolean)},
    )


def openimages_files(folder: Path) -> list[Path]:
    """The tables of boxes in a folder, or in one below it."""
    files = [file for file in (*folder.glob("*.csv"), *folder.glob("*/*.csv")) if file.is_file()]
    names = {b"ImageID", b"LabelName", *map(str.encode, _CORNERS)}
    return sorted(file for file in files if names <= {*_first_line(file).split(b",")})


def _first_line(file: Path) -> bytes:
    with unreadable(file, errors=(OSError,)), file.open("rb") as opened:
        return opened.readline(1 << 12).strip()


def _read_all(files: Sequence[Path]) -> pl.DataFrame:
    """The boxes of each image, with its split where the names of several files have one each."""
    splits = [split_of(file.name) for file in files]
    tables = [_read(file) for file in files]
    if None not in splits and len(files) > 1:
        tables = [
            table.with_columns(split=pl.lit(split))
            for table, split in zip(tables, splits, strict=True)
        ]
    table = pl.concat(tables)
    if len(twice := table["stem"].filter(table["stem"].is_duplicated()).unique().sort()):
        problem = f"images are in several files: {some_of(twice)}"
        raise InputError(problem, where=files[0].parent, allowed="each in one")
    return table


def _read(file: Path) -> pl.DataFrame:
    """The boxes of each image, in the order of rows."""
    table = read_table(file)
    for name in ("ImageID", "LabelName", *_CORNERS):
        check_one_of("column", name, table.columns, owner=str(file))
    # -1 is not known
    group = pl.col("IsGroupOf") if "IsGroupOf" in table.columns else pl.lit(0)
    crowd = (group.cast(pl.Int64, strict=False) == 1).fill_null(value=False).alias("crowd")
    table = table.select(pl.col("ImageID", "LabelName").cast(pl.String), crowd, *_CORNERS)
    if bare := table["ImageID"].null_count():
        raise InputError(f"{bare} rows have no ImageID", where=file, allowed="one in every row")
    left, right, top, bottom = box_numbers(table, _CORNERS, "", file)[0].to_numpy().T
    boxes = np.stack([left, top, right - left, bottom - top], axis=1)
    keys = table.select("ImageID", "crowd", pl.col("LabelName").alias("class"))
    areas, odd = judged_boxes(boxes, np.full((len(boxes), 2), LEEWAY), keys)
    bad = [
        bad_line(file, f"row {row + 1}", *odd[row]) if row in odd else None
        for row in range(len(boxes))
    ]
    rows = table.select(
        "crowd", stem="ImageID", keys="LabelName", areas=areas,
        bad=pl.Series(bad, dtype=pl.String), boxes=pl.Series(boxes, dtype=pl.List(pl.Float64)),
    )  # fmt: skip
    usable = pl.col("areas").is_not_nan()
    lists = (pl.col(name).filter(usable) for name in ("keys", "areas", "crowd"))
    found = pl.col("boxes").filter(usable).explode().drop_nulls(), pl.col("bad").drop_nulls()
    return rows.group_by("stem", maintain_order=True).agg(*lists, *found)


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
