"""Bounding boxes -> Dataset: YOLO, Pascal VOC, Open Images. A box's area stands for the object's, and says so."""

from __future__ import annotations

import builtins
import hashlib
from collections import Counter
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import polars as pl
from scipy.sparse import csr_array

from nooch.data import Dataset, check_file_names, class_name, identifiers, read_table
from nooch.errors import InputError, ParameterError, check_one_of, some_of
from nooch.readers.box_rows import Boxes, FoundBoxes, check_box, count_notes, files_of, inside, parsed
from nooch.readers.image_files import ImageIndex
from nooch.readers.yolo import read_yolo
from nooch.shared_types import Map

__all__ = ["FORMATS", "read_boxes"]


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
        source: YOLO: folder of ``.txt`` files (``class x y w h``, relative), or a ``data.yaml``, which names the classes, the folder
            and the images of each split. VOC: folder of ``.xml`` files. Open Images: a CSV with ``ImageID, LabelName, XMin, XMax,
            YMin, YMax`` (relative).
        format: ``yolo``, ``voc`` or ``openimages``.
        classes: YOLO: text file with a name per line, or a ``data.yaml``, whose splits are taken where they are below ``source``
            (needed, unless that is the source). Open Images: CSV of ``LabelName, name``. VOC: none.
        images: folder below which the images lie; YOLO: by default ``source``, where it holds images. Images without a label file
            have no object; a note counts them.
        map: where files are parsed.

    Raises:
        InputError: files that do not parse, boxes outside the image, classes without a name, paths that lead out of the folder.
        ParameterError: an unknown format, a class list that is missing or not wanted.
    """
    read = FORMATS[check_one_of("format", format, FORMATS, owner="boxes")]
    source = Path(source)
    if not source.exists():
        raise InputError("no such file or folder", where=source)
    found = read(source, None if classes is None else Path(classes), None if images is None else Path(images), map)
    stems = [boxes.stem for boxes in found.boxes]
    if twice := sorted({stem for stem, count in Counter(stems).items() if count > 1}):
        raise InputError(f"several files are called {some_of(twice)}", where=source, allowed="one file for each image")
    root, images = found.root, images or found.images
    if images is not None:
        index = ImageIndex(images)
        bare = sorted({Path(path).stem for path in index.paths} - set(stems))
        boxes = [replace(b, file_name=index.by_stem(b.stem)) for b in (*found.boxes, *(Boxes(s, [], []) for s in bare))]
        root, notes = index.root, count_notes(len(bare), sum(box.file_name is None for box in boxes), len(boxes))
        found = replace(found, boxes=boxes, notes=(*found.notes, *notes))
    return _dataset(found, source, format, root)


def _dataset(found: FoundBoxes, source: Path, format: str, root: Path | None) -> Dataset:
    boxes, names = found.boxes, found.names
    classes = list(dict.fromkeys(names.values()))
    column = {key: classes.index(name) for key, name in names.items()}
    rows = np.repeat(np.arange(len(boxes)), [len(box.keys) for box in boxes])
    columns = np.array([column[key] for box in boxes for key in box.keys], dtype=np.int64)
    areas = np.array([area for box in boxes for area in box.areas], dtype=np.float64)
    digest = hashlib.sha256(repr([(b.stem, b.keys, b.areas) for b in sorted(boxes, key=lambda b: b.stem)]).encode())
    file_names = pl.Series([box.file_name for box in boxes], dtype=pl.String)
    check_file_names(file_names, source)
    frame = pl.DataFrame(
        {
            "image_id": identifiers([box.stem for box in boxes]),
            "file_name": file_names,
            "width": pl.Series([box.width for box in boxes], dtype=pl.Int64),
            "height": pl.Series([box.height for box in boxes], dtype=pl.Int64),
        }
    )
    if boxes[0].split is not None:
        frame = frame.with_columns(split=pl.Series([box.split for box in boxes], dtype=pl.String))
    return Dataset.build(
        frame,
        classes,
        csr_array((areas, (rows, columns)), shape=(len(boxes), len(classes))),
        image_root=None if root is None else str(root.resolve()),
        provenance={
            "reader": f"boxes/{format}",
            "area": "boxes",
            "sources": [{"role": "boxes", "file": source.name, "images": len(boxes), "sha256": digest.hexdigest()}],
            "notes": ["areas are those of bounding boxes, which are larger than the objects in them", *found.notes],
        },
    )


def _read_voc(folder: Path, classes: Path | None, images: Path | None, map: Map) -> FoundBoxes:
    del images  # each file names its image
    if classes is not None:
        raise ParameterError("VOC files name their classes themselves", remedy="leave --classes out")
    found = parsed(files_of(folder, ".xml"), _parse_voc, map)
    keys = sorted({key for boxes in found for key in boxes.keys})
    return FoundBoxes({key: class_name(key, folder) for key in keys}, found)


def _parse_voc(files: list[Path]) -> list[Boxes]:
    return [_voc_file(file) for file in files]


def _voc_file(file: Path) -> Boxes:
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
        check_box(first / width, right / width, upper / height, bottom / height, file)
    areas = [(right - left + 1) * (bottom - top + 1) / (width * height) for left, right, top, bottom in edges]
    return Boxes(file.stem, names, areas, width, height, root.findtext("filename"))


_EDGES = ("xmin", "xmax", "ymin", "ymax")


def _edge(item: ET.Element, edge: str) -> float:
    return float(_text(item, f"bndbox/{edge}"))


def _text(item: ET.Element, path: str) -> str:
    text = item.findtext(path)
    if text is None:
        raise ValueError(f"{path} is missing")
    return text


def _read_openimages(file: Path, classes: Path | None, images: Path | None, map: Map) -> FoundBoxes:
    del images, map  # one file, read by polars with all its threads
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
    outside = np.flatnonzero(~inside(edges))
    if len(outside):
        left, right, top, bottom = edges[outside[0]]
        check_box(left, right, top, bottom, f"{file}, row {outside[0] + 1}")
    areas = (edges[:, 1] - edges[:, 0]) * (edges[:, 3] - edges[:, 2])
    grouped = (
        table.select(id="ImageID", key="LabelName")
        .with_columns(area=pl.Series(areas))
        .group_by("id", maintain_order=True)
        .agg("key", "area")
    )
    return FoundBoxes(names, [Boxes(stem, keys, values) for stem, keys, values in grouped.iter_rows()])


FORMATS = {"yolo": read_yolo, "voc": _read_voc, "openimages": _read_openimages}
"""Name -> how boxes of that format are read."""
