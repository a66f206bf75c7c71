"""Pascal VOC: a folder of XML files, one for each image."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import polars as pl

from nooch.base.errors import InputError, ParameterError
from nooch.data import class_name
from nooch.data.readers.box_rows import BOX_COLUMNS, BoxFiles, check_box, files_of, listed_files

__all__ = ["find_voc"]

_EDGES = ("xmin", "xmax", "ymin", "ymax")


def find_voc(folder: Path, classes: Path | None, images: Path | None) -> BoxFiles:
    """Boxes of VOC files; parameters and errors as of ``nooch.data.readers.boxes.read_boxes``."""
    del images  # each file names its image
    if classes is not None:
        raise ParameterError(
            "VOC files name their classes themselves", remedy="leave `classes` out"
        )
    known = {**BOX_COLUMNS, "width": pl.Int64, "height": pl.Int64, "file_name": pl.String}
    return BoxFiles(
        source=folder,
        names_of=lambda keys: {key: class_name(key, folder) for key in keys},
        listed=listed_files(files_of(folder, ".xml")),
        parse=_parse,
        parsed=known,
    )


def _parse(path: Path, where: str) -> dict[str, Any]:
    content = path.read_bytes()
    # entities can blow up a small file or name other files; in UTF-16, zeros lie between
    plain = content.replace(b"\0", b"")
    if b"<!DOCTYPE" in plain or b"<!ENTITY" in plain:
        raise InputError(
            "declares a document type or entities", where=where, allowed="plain annotation XML"
        )
    try:
        root = ET.fromstring(content)  # noqa: S314 - declarations were refused above
        width, height = (int(_text(root, f"size/{side}")) for side in ("width", "height"))
        names = [_text(item, "name") for item in root.findall("object")]
        edges = [
            [float(_text(item, f"bndbox/{edge}")) for edge in _EDGES]
            for item in root.findall("object")
        ]
    except (ET.ParseError, ValueError, LookupError) as error:
        raise InputError(f"is no VOC annotation: {error}", where=where) from error
    if min(width, height) < 1 or max(width, height) >= 1 << 31:
        allowed = "1 pixel to 2,147,483,647"
        raise InputError(f"size is {width} x {height}", where=where, allowed=allowed)
    for left, right, top, bottom in edges:
        # VOC counts pixels from 1 and includes the last; some tools count from 0
        first, upper = (edge - 1 if edge >= 1 else edge for edge in (left, top))
        check_box((first / width, right / width, upper / height, bottom / height), where)
    size = width * height
    areas = [(right - left + 1) * (bottom - top + 1) / size for left, right, top, bottom in edges]
    file_name = root.findtext("filename")
    return {"keys": names, "areas": areas, "width": width, "height": height, "file_name": file_name}


def _text(item: ET.Element, path: str) -> str:
    text = item.findtext(path)
    if text is None:
        raise ValueError(f"{path} is missing")
    return text
