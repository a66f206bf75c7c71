"""Recognition: a path -> how to read it, with the reasons."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nooch.base.errors import InputError, ParameterError
from nooch.base.files import DATASET_MARKER
from nooch.data.image_names import IMAGE_ENDINGS, MAP_ENDINGS
from nooch.data.readers import reading_of
from nooch.data.table_files import TABLE_ENDINGS

if TYPE_CHECKING:
    from nooch.data.readers.contract import Reading


_CLASSES = ("classes.txt", "labels.txt", "names.txt", "obj.names", "class_names.txt")
_IDS = ("image_id", "id", "img_id", "imageid", "file_name", "filename", "image", "path")
_FILE_NAMES = ("file_name", "filename", "img_filename", "image", "path", "image_path")
_MAPS = ("labels", "masks", "annotations", "segmentation", "SegmentationClass", "gt")
_MOST_LISTED = 20_000
"""Files that are looked at below a folder, at most."""


@dataclass(frozen=True)
class Recognized:
    """The recognized reading of a path.

    Attributes:
        kind: such as ``coco`` or ``image-folder``.
        reading: for ``nooch.import_dataset``.
        why: what was seen, in words.
        images: folder of the image files, if one was seen.
    """

    kind: str
    reading: Reading
    why: str
    images: Path | None = None


def recognize(path: str | Path) -> Recognized:
    """Recognize the annotations in a file or folder, by the names of files and columns."""
    place = Path(path)
    if not place.exists():
        raise InputError("no such file or folder", where=path)
    if (place / DATASET_MARKER).is_file():
        raise ParameterError("is a dataset folder already", where=path, remedy="use it as it is")
    for attempt in _OF_FOLDERS if place.is_dir() else _OF_FILES:
        if (recognized := attempt(place)) is not None:
            return recognized
    problem = "contains no annotations that are known"
    allowed = (
        "COCO JSON, a YOLO data.yaml or label folder, Pascal VOC XML, an Open Images CSV, label"
        " maps with classes.txt, a table with a column of ids, or a folder of images for each"
        " class"
    )
    remedy = "name the format: nooch import coco, label-maps, boxes or table"
    raise InputError(problem, where=path, allowed=allowed, remedy=remedy)


def _found(reader: str, why: str, images: Path | None, *arguments: Any) -> Recognized:
    return Recognized(reader, reading_of(reader, *arguments), why, images)


def _coco(files: list[Path], images: Path | None, why: str) -> Recognized:
    roles: dict[str, list[Path]] = {"things": [], "stuff": [], "captions": []}
    for file in files:
        name = file.name.lower()
        role = next((role for role in ("stuff", "captions") if role in name), "things")
        roles[role].append(file)
    read = ", ".join(f"{file.name} ({role})" for role, listed in roles.items() for file in listed)
    return _found("coco", f"{why}: {read}", images, *roles.values())


def _coco_file(file: Path) -> Recognized | None:
    if file.suffix.lower() != ".json":
        return None
    return _coco([file], _images_near(file.parent), "a JSON file")


def _yolo_file(file: Path) -> Recognized | None:
    if file.suffix.lower() not in {".yaml", ".yml"}:
        return None
    return _found("boxes", f"{file.name} as YOLO's list of images", None, file, "yolo")


def _table_file(file: Path) -> Recognized | None:
    if file.suffix.lower() not in TABLE_ENDINGS:
        return None
    import polars as pl

    from nooch.data.readers.table_layouts import Columns, LongTable, TableOfImages
    from nooch.data.table_files import read_table

    table = read_table(file)
    names = {name.lower(): name for name in table.columns}
    if {"imageid", "labelname", "xmin", "xmax"} <= set(names):
        return _found("boxes", "columns of Open Images' boxes", None, file, "openimages")
    key = next((names[name] for name in _IDS if name in names), None)
    if key is None:
        return None
    split, file_name = names.get("split"), next((names[n] for n in _FILE_NAMES if n in names), None)
    columns = Columns(key, None if file_name == key else file_name, split)
    if "class" in names:
        layout: Any = LongTable(names["class"], names.get("area"))
        why = f"a long table of {key}, {names['class']}"
        return _found("table", why, None, file, columns, layout)
    taken = {key, split, file_name}
    labels = [
        name
        for name in table.columns
        if name not in taken
        and table[name].dtype.is_numeric() | (table[name].dtype == pl.Boolean)
        and table[name].cast(pl.Float64).is_in([0.0, 1.0]).all()
    ]
    if not labels:
        return None
    why = f"a row for each {key}; columns of 0 and 1 are labels: {', '.join(labels)}"
    return _found("table", why, None, file, columns, TableOfImages(labels))


def _coco_stuff(folder: Path) -> Recognized | None:
    from nooch.data.readers.coco.layout import find_coco

    try:
        layout = find_coco(folder)
    except InputError:
        return None
    return Recognized("coco-stuff", layout.reading, "COCO 2017's files", layout.images)


def _coco_folder(folder: Path) -> Recognized | None:
    # next to a folder of annotations, JSON files are of something else
    files = sorted(folder.glob("annotations/*.json")) or sorted(folder.glob("*.json"))
    return _coco(files, _images_near(folder), "JSON files") if files else None


def _yolo_folder(folder: Path) -> Recognized | None:
    for name in ("data.yaml", "dataset.yaml", "data.yml"):
        if (folder / name).is_file():
            return _yolo_file(folder / name)
    names = _class_list(folder)
    labels = folder / "labels" if (folder / "labels").is_dir() else folder
    texts = [file for file in _listed(labels, (".txt",)) if file.name not in _CLASSES]
    if names is None or not texts:
        return None
    why = f"YOLO labels below {labels.name} and {names.name}"
    return _found("boxes", why, None, labels, "yolo", names, _images_near(folder))


def _voc_folder(folder: Path) -> Recognized | None:
    place = folder / "Annotations" if (folder / "Annotations").is_dir() else folder
    if next(_listed(place, (".xml",)), None) is None:
        return None
    images = folder / "JPEGImages" if (folder / "JPEGImages").is_dir() else _images_near(folder)
    return _found("boxes", f"Pascal VOC's XML below {place.name}", None, place, "voc", None, images)


def _label_maps(folder: Path) -> Recognized | None:
    names = _class_list(folder)
    for below in _MAPS:
        maps = folder / below
        if names is not None and next(_listed(maps, MAP_ENDINGS), None) is not None:
            why = f"label maps below {below} and {names.name}; no value is void"
            return _found("label-maps", why, _images_near(folder), maps, str(names))
    return None


def _image_folder(folder: Path) -> Recognized | None:
    if next(_listed(folder, IMAGE_ENDINGS), None) is None:
        return None
    folders = [place for place in folder.iterdir() if place.is_dir()]
    if not folders or any(file.suffix.lower() in IMAGE_ENDINGS for file in folder.iterdir()):
        return None
    why = f"a folder of images for each class: {', '.join(sorted(p.name for p in folders)[:5])}"
    return _found("image-folder", why, folder, folder)


_Attempt = Callable[[Path], Recognized | None]
_OF_FILES: tuple[_Attempt, ...] = (_coco_file, _yolo_file, _table_file)
_OF_FOLDERS: tuple[_Attempt, ...] = (
    _coco_stuff, _coco_folder, _yolo_folder, _voc_folder, _label_maps, _image_folder,
)  # fmt: skip


def _class_list(folder: Path) -> Path | None:
    return next((folder / name for name in _CLASSES if (folder / name).is_file()), None)


def _images_near(folder: Path) -> Path | None:
    """The folder of images next to annotations, if one contains any."""
    for place in (folder / "images", folder.parent / "images", folder):
        if place.is_dir() and next(_listed(place, IMAGE_ENDINGS), None) is not None:
            return place
    return None


def _listed(folder: Path, endings: tuple[str, ...]) -> Iterator[Path]:
    """Files with these endings below a folder, in a bounded search."""
    seen = 0
    for place, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            seen += 1
            if name.lower().endswith(endings):
                yield Path(place) / name
        if seen > _MOST_LISTED:
            return
