"""Bounding boxes -> Dataset: YOLO, Pascal VOC, Open Images. A box's area stands for the object's, and says so."""

from __future__ import annotations

import builtins
import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import polars as pl
from scipy.sparse import csr_array

from nooch.data import Dataset, check_file_names, class_name, identifiers, read_table
from nooch.errors import InputError, ParameterError, check_one_of, some_of
from nooch.readers import Map
from nooch.readers.image_files import ImageIndex

__all__ = ["FORMATS", "read_boxes"]

_BATCH = 256


@dataclass(frozen=True)
class _Boxes:
    """Boxes of one image: class keys and areas as fractions of the image."""

    stem: str
    keys: list[str]
    areas: list[float]
    width: int | None = None
    height: int | None = None
    file_name: str | None = None


def read_boxes(
    source: str | Path,
    format: str,
    *,
    classes: str | Path | None = None,
    images: str | Path | None = None,
    map: Map = builtins.map,
) -> Dataset:
    """Sum the areas of each class's boxes in each image, a proxy (an upper bound) for the areas of the objects.

    Args:
        source: YOLO: folder of ``.txt`` files (``class x y w h``, relative). VOC: folder of ``.xml`` files. Open Images: a CSV
            with ``ImageID, LabelName, XMin, XMax, YMin, YMax`` (relative).
        format: ``yolo``, ``voc`` or ``openimages``.
        classes: YOLO: text file with a name in each line (needed). Open Images: CSV of ``LabelName, name``. VOC: none.
        images: folder below which the images lie. Images without a label file have no object.
        map: where files are parsed.

    Raises:
        InputError: files that do not parse, boxes outside the image, classes without a name.
        ParameterError: an unknown format, or a class list that is missing.
    """
    read = FORMATS[check_one_of("format", format, FORMATS, owner="boxes")]
    source = Path(source)
    if not source.exists():
        raise InputError("no such file or folder", where=source)
    names, found = read(source, None if classes is None else Path(classes), map)
    stems = [boxes.stem for boxes in found]
    if twice := sorted({stem for stem, count in Counter(stems).items() if count > 1}):
        raise InputError(f"several files are called {some_of(twice)}", where=source, allowed="one file for each image")
    index = None if images is None else ImageIndex(images)
    if index is not None:
        bare = sorted({Path(path).stem for path in index.paths} - set(stems))
        found = [*found, *(_Boxes(stem, [], []) for stem in bare)]
    return _dataset(found, names, source, format, index)


def _dataset(
    found: list[_Boxes], names: dict[str, str], source: Path, format: str, index: ImageIndex | None
) -> Dataset:
    classes = list(dict.fromkeys(names.values()))
    column = {key: classes.index(name) for key, name in names.items()}
    rows = np.repeat(np.arange(len(found)), [len(boxes.keys) for boxes in found])
    columns = np.array([column[key] for boxes in found for key in boxes.keys], dtype=np.int64)
    areas = np.array([area for boxes in found for area in boxes.areas], dtype=np.float64)
    digest = hashlib.sha256(repr([(b.stem, b.keys, b.areas) for b in sorted(found, key=lambda b: b.stem)]).encode())
    file_names = [b.file_name if index is None else index.by_stem(b.stem) for b in found]
    check_file_names(pl.Series(file_names, dtype=pl.String), source)
    missing = sum(name is None for name in file_names) if index is not None else 0
    frame = pl.DataFrame(
        {
            "image_id": identifiers([boxes.stem for boxes in found]),
            "file_name": pl.Series(file_names, dtype=pl.String),
            "width": pl.Series([boxes.width for boxes in found], dtype=pl.Int64),
            "height": pl.Series([boxes.height for boxes in found], dtype=pl.Int64),
        }
    )
    notes = ["areas are those of bounding boxes, which are larger than the objects in them"]
    if missing:
        notes.append(f"{missing} of {len(found)} image files are not there")
    return Dataset.build(
        frame,
        classes,
        csr_array((areas, (rows, columns)), shape=(len(found), len(classes))),
        image_root=None if index is None else str(index.root.resolve()),
        provenance={
            "reader": f"boxes/{format}",
            "area": "boxes",
            "sources": [{"role": "boxes", "file": source.name, "images": len(found), "sha256": digest.hexdigest()}],
            "notes": notes,
        },
    )


def _files(folder: Path, ending: str) -> list[Path]:
    if not folder.is_dir():
        raise InputError("is no folder", where=folder, allowed=f"a folder of {ending} files")
    files = sorted(p for p in folder.rglob(f"*{ending}") if p.is_file())
    if not files:
        raise InputError(f"holds no {ending} file", where=folder)
    return files


def _parallel(files: list[Path], parse: Callable[[list[Path]], list[_Boxes]], map: Map) -> list[_Boxes]:
    batches = [files[i : i + _BATCH] for i in range(0, len(files), _BATCH)]
    return [boxes for batch in map(parse, batches) for boxes in batch]


def _read_yolo(folder: Path, classes: Path | None, map: Map) -> tuple[dict[str, str], list[_Boxes]]:
    if classes is None:
        raise ParameterError(
            "YOLO files name classes by number", remedy="give --classes, a file with a name in each line"
        )
    try:
        # an empty line in the middle is a class without a name: leaving it out would shift all that follow
        lines = classes.read_text(encoding="utf-8-sig").rstrip().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read: {error}", where=classes) from error
    if not lines:
        raise InputError("names no class", where=classes, allowed="a name in each line")
    names = {str(number): class_name(line, f"{classes}, line {number + 1}") for number, line in enumerate(lines)}
    files = [f for f in _files(folder, ".txt") if f.resolve() != classes.resolve()]
    found = _parallel(files, _parse_yolo, map)
    for file, boxes in zip(files, found, strict=True):
        if unknown := [key for key in boxes.keys if key not in names]:
            raise InputError(
                f"class {some_of(unknown)} has no name",
                where=file,
                allowed=f"0 to {len(names) - 1}, as {classes.name} lists",
            )
    return names, found


def _parse_yolo(files: list[Path]) -> list[_Boxes]:
    return [_yolo_file(file) for file in files]


def _yolo_file(file: Path) -> _Boxes:
    keys, areas = [], []
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read: {error}", where=file) from error
    for number, line in enumerate(lines, 1):
        parts = line.split()
        if not parts:
            continue
        where = f"{file}, line {number}"
        try:
            # a sixth number is a confidence; more are the corners of a segment
            x, y, width, height = (float(part) for part in (parts[1:5] if len(parts) < 7 else parts[1:]))
            key = str(int(parts[0]))
        except ValueError as error:
            raise InputError(
                f"{line[:80]!r} is no box", where=where, allowed="class x y width height, and perhaps a confidence"
            ) from error
        _check_box(x - width / 2, x + width / 2, y - height / 2, y + height / 2, where)
        keys.append(key)
        areas.append(width * height)
    return _Boxes(file.stem, keys, areas)


def _read_voc(folder: Path, classes: Path | None, map: Map) -> tuple[dict[str, str], list[_Boxes]]:
    if classes is not None:
        raise ParameterError("VOC files name their classes themselves", remedy="leave --classes out")
    found = _parallel(_files(folder, ".xml"), _parse_voc, map)
    keys = sorted({key for boxes in found for key in boxes.keys})
    return {key: class_name(key, folder) for key in keys}, found


def _parse_voc(files: list[Path]) -> list[_Boxes]:
    return [_voc_file(file) for file in files]


def _voc_file(file: Path) -> _Boxes:
    content = file.read_bytes()
    # entities can blow up a small file or name other files: no annotation needs them (in UTF-16, zeros lie between)
    plain = content.replace(b"\0", b"")
    if b"<!DOCTYPE" in plain or b"<!ENTITY" in plain:
        raise InputError("declares a document type or entities", where=file, allowed="plain annotation XML")
    try:
        root = ET.fromstring(content)  # noqa: S314 - declarations were refused above
        width, height = (int(_text(root, f"size/{side}")) for side in ("width", "height"))
        names = [_text(item, "name") for item in root.findall("object")]
        edges = [[_edge(item, edge) for edge in _EDGES] for item in root.findall("object")]
    except (ET.ParseError, ValueError, LookupError) as error:
        raise InputError(f"is no VOC annotation: {error}", where=file) from error
    if width < 1 or height < 1:
        raise InputError(f"size is {width} x {height}", where=file, allowed="1 pixel and more")
    for left, right, top, bottom in edges:
        # VOC counts pixels from 1 and includes the last; some tools count from 0
        first, upper = (edge - 1 if edge >= 1 else edge for edge in (left, top))
        _check_box(first / width, right / width, upper / height, bottom / height, file)
    areas = [(right - left + 1) * (bottom - top + 1) / (width * height) for left, right, top, bottom in edges]
    return _Boxes(file.stem, names, areas, width, height, root.findtext("filename"))


_EDGES = ("xmin", "xmax", "ymin", "ymax")


def _edge(item: ET.Element, edge: str) -> float:
    return float(_text(item, f"bndbox/{edge}"))


def _text(item: ET.Element, path: str) -> str:
    text = item.findtext(path)
    if text is None:
        raise ValueError(f"{path} is missing")
    return text


def _read_openimages(file: Path, classes: Path | None, map: Map) -> tuple[dict[str, str], list[_Boxes]]:
    del map  # one file, read by polars with all its threads
    table = read_table(file)
    needed = ("ImageID", "LabelName", "XMin", "XMax", "YMin", "YMax")
    for name in needed:
        check_one_of("column", name, table.columns, owner=str(file))
    table = table.with_columns(pl.col("ImageID", "LabelName").cast(pl.String))
    if bare := table.filter(pl.any_horizontal(pl.col("ImageID", "LabelName").is_null())).height:
        raise InputError(f"{bare} rows have no ImageID or no LabelName", where=file, allowed="both in every row")
    keys = table["LabelName"].unique().sort().to_list()
    names = {key: class_name(key, file) for key in keys}
    if classes is not None:
        listed = read_table(classes, has_header=False) if classes.suffix == ".csv" else read_table(classes)
        if listed.width < 2:
            raise InputError("has one column", where=classes, allowed="LabelName, name")
        known = {str(row[0]): class_name(str(row[1]), classes) for row in listed.iter_rows()}
        if unknown := [key for key in keys if key not in known]:
            raise InputError(
                f"labels {some_of(unknown)} have no name", where=classes, allowed="a row LabelName, name for each label"
            )
        names = {key: known[key] for key in keys}
    try:
        edges = table.select(pl.col(needed[2:]).cast(pl.Float64)).to_numpy()
    except pl.exceptions.PolarsError as error:
        raise InputError(f"edges are no numbers: {str(error).splitlines()[0]}", where=file) from error
    outside = np.flatnonzero(~_inside(edges))
    if len(outside):
        left, right, top, bottom = edges[outside[0]]
        _check_box(left, right, top, bottom, f"{file}, row {outside[0] + 1}")
    areas = (edges[:, 1] - edges[:, 0]) * (edges[:, 3] - edges[:, 2])
    grouped = (
        table.select(id="ImageID", key="LabelName")
        .with_columns(area=pl.Series(areas))
        .group_by("id", maintain_order=True)
        .agg("key", "area")
    )
    return names, [_Boxes(stem, keys, values) for stem, keys, values in grouped.iter_rows()]


def _inside(edges: Any) -> Any:
    low, high = edges[..., [0, 2]], edges[..., [1, 3]]
    # annotation tools round outwards: a thousandth beyond the edge is no error
    return ((low >= -1e-3) & (high <= 1 + 1e-3) & (low <= high)).all(axis=-1)


def _check_box(left: float, right: float, top: float, bottom: float, where: object) -> None:
    if not _inside(np.array([left, right, top, bottom])):
        raise InputError(
            f"the box from ({left:.4g}, {top:.4g}) to ({right:.4g}, {bottom:.4g}) is not within the image",
            where=where,
            allowed="edges between 0 and 1 of the image's width and height, in order",
        )


FORMATS = {"yolo": _read_yolo, "voc": _read_voc, "openimages": _read_openimages}
"""Name -> how boxes of that format are read."""
