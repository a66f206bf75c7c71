"""Recognition: a path -> how to read it, with the reasons."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nooch.base.errors import (
    Command,
    InputError,
    NoochError,
    ParameterError,
    no_such,
    some_of,
    unreadable,
)
from nooch.base.files import DATASET_MARKER
from nooch.base.words import counted
from nooch.data.image_names import IMAGE_ENDINGS, MAP_ENDINGS, is_image, is_junk
from nooch.data.importing.class_folders import NO_CLASSES, annotation_signs, folder_signs, map_of
from nooch.data.importing.other_formats import (
    INSTALLED,
    files_seen,
    head_of,
    is_voc,
    is_yolo_label,
    layout_of,
    looks_like_coco,
    refuse_other,
    refuse_other_among,
)
from nooch.data.importing.table_roles import Hints, named_roles, table_roles
from nooch.data.json_records import JSON_TABLES
from nooch.data.readers import custom_reading, reading_of
from nooch.data.readers.box_formats import openimages_files
from nooch.data.readers.coco.reader import CocoReading
from nooch.data.readers.cocostuff import map_values
from nooch.data.readers.nested_tables import SPLIT, read_flat_table, read_split_tables, splits_of
from nooch.data.readers.yolo import DATA_ENDINGS, image_lists
from nooch.data.splits import SPLIT_NAMES, split_of
from nooch.data.table_files import TABLE_ENDINGS

if TYPE_CHECKING:
    import polars as pl

    from nooch.data.readers.contract import Reading


_CLASSES = ("classes.txt", "labels.txt", "names.txt", "obj.names", "class_names.txt")
_MAPS = (
    "labels", "masks", "annotations", "segmentation", "SegmentationClass", "SegmentationClassPNG",
    "gt",
)  # fmt: skip
_MOST_LISTED, _MOST_READ = 20_000, 50
"""Files below a folder whose names are looked at, and those whose content is."""


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


def recognize(
    path: str | Path, hints: Hints | None = None, images: str | Path | None = None
) -> Recognized:
    """Recognize the annotations in a file or folder, by the names of files and columns; ``hints``
    decide where these leave a choice, and the sizes of ``images``.
    """
    place = Path(path)
    if not place.exists():
        raise no_such(path)
    if b'"nooch-dataset"' in head_of(place / DATASET_MARKER):
        raise ParameterError("is already a dataset folder", where=path, remedy="use it directly")
    if hints is not None and hints.reader is not None:
        reading = custom_reading(hints.reader, place)
        return Recognized(hints.reader, reading, f"read by {hints.reader}")
    for attempt in _OF_FOLDERS if place.is_dir() else _OF_FILES:
        of_tables = {"pictures": Path(images)} if images and attempt in _OF_TABLES else {}
        if (recognized := attempt(place, hints or Hints(), **of_tables)) is not None:
            return recognized
    suffix = place.suffix
    problem = f"{suffix} is not a known format of annotations" if suffix else "has no extension"
    if place.is_dir():
        problem = f"contains {files_seen(place)}; no annotations were recognized"
    raise InputError(problem, where=path, allowed=_KNOWN, remedy=_NAME_IT, give=_OWN)


_NAME_IT = (
    "name the format: nooch import coco, label-maps, boxes or table; or {} to use a custom reader"
)
_OWN = {"reader": "package.module:Name"}
_KNOWN = (
    "COCO JSON, a YOLO data.yaml or label folder, Pascal VOC XML, an Open Images CSV, label maps"
    " with classes.txt, a table with a column of ids, or a folder of images for each class"
)


def recognize_table(path: str | Path, hints: Hints, images: str | Path | None = None) -> Recognized:
    """As ``recognize``, of a table: a file or a folder of parts. Where hints name the columns of
    images and of labels or classes, it is not read, and columns that they do not name have no role.
    """
    place, pictures = Path(path), None if images is None else Path(images)
    is_folder = place.is_dir()
    splits = splits_of(_tables_below(place)) if is_folder and not hints.split_column else {}
    roles = named_roles(replace(hints, split_column=SPLIT) if splits else hints)
    if roles is not None:
        return Recognized("table", reading_of("table", place, *roles, splits), "")
    found = (
        _table(place, hints, pictures, _split_tables(place, hints))
        if is_folder
        else recognize(path, hints, images)
    )
    if found.kind not in {"table", "boxes"}:
        remedy = "import it with nooch import auto"
        raise InputError(
            f"is {found.kind}: {found.why}", where=path, allowed="a table", remedy=remedy
        )
    return found


def _found(reader: str, why: str, images: Path | None, *arguments: Any) -> Recognized:
    # boxes and folders for each class name their images themselves
    shown = None if reader in {"boxes", "image-folder", "datumaro"} else images
    return Recognized(reader, reading_of(reader, *arguments), why, shown)


def _coco(files: list[Path], images: Path | None, why: str) -> Recognized:
    roles: dict[str, list[Path]] = {"things": [], "stuff": [], "captions": []}
    names = {file.name.lower() for file in files}
    for file in files:
        name = file.name.lower()
        # information on images has no annotations; key points repeat the instances of that name
        if len(files) > 1 and name.startswith("image_info"):
            continue
        if name.replace("person_keypoints", "instances") in names - {name}:
            continue
        role = next((role for role in ("stuff", "captions") if role in name), "things")
        roles[role].append(file)
    left_out = [file.name for file in files if not any(file in listed for listed in roles.values())]
    if not any(roles.values()):
        raise InputError(
            f"{some_of(left_out)}: image information without annotations",
            where=files[0].parent,
            allowed="COCO's files of instances, stuff or key points",
        )
    if not roles["things"] and not roles["stuff"]:
        raise InputError(
            f"{some_of(file.name for file in files)}: captions, which name no classes",
            where=files[0].parent,
            allowed="captions together with instances or stuff",
            give=Command("import coco", captions=files[0], things=...),
        )
    alike = len(names) < len(files)
    read = some_of(
        f"{file.parent.name + '/' if alike else ''}{file.name} ({role})"
        for role, listed in roles.items()
        for file in listed
    )
    listing = roles["things"] or roles["stuff"]
    named = [split_of(file.parent.name if alike else file.name) for file in listing]
    splits = [name for name in named if name]
    # one split is none
    divided = splits if len(splits) == len(named) and len(set(splits)) > 1 else []
    read += f"; splits {', '.join(divided)} from the names" if divided else ""
    read += f"; left out: {some_of(left_out)}" if left_out else ""
    reading = CocoReading(roles["things"], roles["stuff"], roles["captions"], splits=divided)
    return Recognized("coco", reading, f"{why}: {read}", images)


def _coco_file(file: Path, _: Hints) -> Recognized | None:
    """COCO, by its lists and records; other JSON is a table."""
    return (
        _coco([file], _images_near(file.parent, file), "a JSON file")
        if looks_like_coco(file)
        else None
    )


def _yolo_file(file: Path, hints: Hints) -> Recognized | None:
    if file.suffix.lower() not in DATA_ENDINGS:
        return None
    why, links = f"{file.name} as YOLO's list of images", hints.follow_links
    return _found("boxes", why, None, file, "yolo", None, None, links)


def _table_file(file: Path, hints: Hints, pictures: Path | None = None) -> Recognized | None:
    return _table(file, hints, pictures) if file.suffix.lower() in TABLE_ENDINGS else None


def _tables_below(folder: Path) -> list[Path]:
    """The tables in a folder and those below it, but JSON."""
    endings = tuple(ending for ending in TABLE_ENDINGS if ending != ".json")
    below = [*sorted(folder.iterdir()), *sorted(folder.glob("*/*"))]
    return [file for file in below if file.name.lower().endswith(endings) and file.is_file()]


def _split_tables(folder: Path, hints: Hints) -> tuple[dict[Path, str], pl.DataFrame] | None:
    """The split of each table of a folder, and all of their rows; None unless all are of splits."""
    splits = {} if hints.split_column else splits_of(_tables_below(folder))
    table = read_split_tables(splits) if splits else None
    return None if table is None else (splits, table)


def _table(
    file: Path,
    hints: Hints,
    pictures: Path | None,
    of_splits: tuple[dict[Path, str], pl.DataFrame] | None = None,
) -> Recognized:
    splits, table = of_splits or ({}, read_flat_table(file))
    if {"image_id", "category_id"} <= {*table.columns} and {"bbox", "score"} & {*table.columns}:
        raise InputError(
            "contains detections (COCO's results format), which are predictions",
            where=file,
            allowed=f"annotations: COCO with images, annotations and categories; {JSON_TABLES}",
            remedy="import the labels, and give this file as predictions: {}",
            give=Command("check", predictions=file),
        )
    names = {name.lower(): name for name in table.columns}
    if {"imageid", "labelname", "xmin", "xmax"} <= set(names):
        return _found("boxes", "columns of Open Images' boxes", None, file, "openimages")
    near = pictures or _images_near(file if splits else file.parent)
    columns, layout, why, is_file = table_roles(table, file, hints, near)
    images = near if is_file or columns.file_name or layout.by_size else None
    if splits:
        named = (f"{f.relative_to(file).as_posix()} ({split})" for f, split in splits.items())
        why = f"tables of splits {some_of(named)}: {why}"
    return _found("table", why, images, file, columns, layout, splits)


def _other_file(file: Path, _: Hints) -> None:
    """Refuse a file of a format that is known and not read."""
    refuse_other(file)
    if is_image(file.name):
        raise InputError(
            "is an image, not annotations",
            where=file,
            remedy="give the folder of images, or the file of their labels: {}",
            give=Command("import auto", images=file.parent),
        )
    if file.suffix.lower() == ".txt":
        raise InputError(
            f"is a text file: {head_of(file).decode(errors='replace').splitlines()[:1]}",
            where=file,
            allowed="a table with a header, as .csv; a folder of YOLO's labels",
            remedy="if each line has a file and a label: separate them by commas, add a first line"
            " 'filename,label', and rename it to .csv",
        )


def _other_folder(folder: Path, _: Hints) -> None:
    """Refuse a folder of a format that is known, by what its files contain, and not read."""
    refuse_other_among(folder, _listed(folder, ("",)), by_ending=False)


def _unread_folder(folder: Path, _: Hints) -> None:
    """As ``_other_folder``, also by the endings of files, such as of archives."""
    refuse_other_among(folder, _listed(folder, ("",)), by_ending=True)


def _other_layout(folder: Path, _: Hints) -> Recognized | None:
    """A layout that Datumaro reads. Raises InputError without Datumaro."""
    if (layout := layout_of(folder)) is None:
        return None
    name, importer = layout
    if find_spec("datumaro") is None:
        raise InputError(
            f"has the layout of {name}, which nooch reads with Datumaro",
            where=folder,
            remedy=f"{INSTALLED} {{}}",
            give={"reader": f"datumaro/{importer}"},
            allowed=_KNOWN,
        )
    return _found("datumaro", f"the layout of {name}", None, folder, importer)


def _coco_stuff(folder: Path, _: Hints) -> Recognized | None:
    from nooch.data.readers.coco.layout import find_coco

    try:
        layout = find_coco(folder)
    except InputError:
        return None
    return Recognized("coco-stuff", layout.reading, "COCO 2017's files", layout.images)


def _coco_folder(folder: Path, _: Hints) -> Recognized | None:
    below = [place for place in sorted(folder.iterdir()) if place.is_dir()]
    named = [place for place in below if place.name.lower() in ("annotations", "labels")]
    splits = [place for place in below if place.name.lower() in SPLIT_NAMES]
    # next to a folder of annotations, JSON files are of something else
    for places in (named, [folder], splits):
        listed = (file for place in places for file in sorted(place.glob("*.json")))
        if files := [file for file in listed if looks_like_coco(file)]:
            images = folder if places == splits else _images_near(folder, files[0])
            return _coco(files, images, "JSON files")
    return None


def _yolo_folder(folder: Path, _: Hints) -> Recognized | None:
    described = [
        file
        for file in sorted(folder.iterdir())
        if file.suffix.lower() in DATA_ENDINGS and _NAMES_KEY.search(head_of(file))
    ]
    if len(described) > 1:
        raise InputError(
            f"{some_of(file.name for file in described)} all name classes of YOLO boxes",
            where=folder,
            allowed="one such file",
            remedy="name one: {}; or remove the others",
            give=Command("import auto", path=str(described[0])),
        )
    if described:
        why = f"{described[0].name} as YOLO's list of images"
        return _found("boxes", why, None, folder, "yolo", described[0])
    labels = folder / "labels" if (folder / "labels").is_dir() else folder
    names = _class_list(folder) or _class_list(labels)
    texts = (file for file in _listed(labels, (".txt",)) if file.name not in _CLASSES)
    text = next(texts, None)
    if text is None or (names is None and not is_yolo_label(text)):
        return None
    if names is None:
        raise InputError(
            f"{labels.name}/ has YOLO boxes, such as {text.name}, but no list of classes",
            where=folder,
            allowed=f"a data.yaml, or one of {', '.join(_CLASSES)} with a name on each line",
            remedy="add it; its lines are the classes 0, 1, 2 ... of the boxes",
        )
    why = f"YOLO labels below {labels.name} and {names.name}"
    if lists := image_lists(names.parent):
        why = f"YOLO's lists of images {', '.join(lists)} and {names.name}"
        return _found("boxes", why, None, names.parent, "yolo", names)
    return _found("boxes", why, None, labels, "yolo", names, _images_near(folder))


_NAMES_KEY = re.compile(rb"(?m)^\s*[\"']?names[\"']?\s*[:=]")


def _voc_folder(folder: Path, _: Hints) -> Recognized | None:
    place = folder / "Annotations" if (folder / "Annotations").is_dir() else folder
    if not any(map(is_voc, islice(_listed(place, (".xml",)), _MOST_READ))):
        return None
    images = folder / "JPEGImages" if (folder / "JPEGImages").is_dir() else _images_near(folder)
    return _found("boxes", f"Pascal VOC's XML below {place.name}", None, place, "voc", None, images)


def _label_maps(folder: Path, hints: Hints) -> Recognized | None:
    names = _class_list(folder)
    for below in _MAPS:
        maps = folder / below
        if names is not None and next(_listed(maps, MAP_ENDINGS), None) is not None:
            void = f"void: {some_of(hints.void)}" if hints.void else "no value is void"
            why = f"label maps below {below} and {names.name}; {void}"
            return _found("label-maps", why, _images_near(folder), maps, str(names), hints.void)
    return None


def _unnamed_maps(folder: Path, _: Hints) -> Recognized | None:
    """Refuse label maps without a list of classes; COCO-Stuff's maps are recognized."""
    below = [place for place in sorted(folder.iterdir()) if place.is_dir()]
    stems = {
        place: {file.stem for file in sorted(place.iterdir()) if _is_map(file)} for place in below
    }
    maps = [place for place in below if place.name in _MAPS or place.name == "label"]
    maps = [place for place in maps if stems[place]]
    photos = _photos_of([p for p in below if p not in maps], stems[maps[0]]) if maps else None
    if not maps or photos is None:
        return None
    values = _values(maps[0])
    stuff = maps[0].name == "label" and (folder / "inst").is_dir()
    if stuff and values <= {*map_values("cocostuff"), 255}:
        why = f"COCO-Stuff's maps below {maps[0].name}: value = COCO id - 1, 255 void"
        return _found("label-maps", why, photos, maps[0], "cocostuff")
    # a panoptic file names the classes
    refuse_other_among(folder, _listed(folder, ("",)), by_ending=False)
    raise InputError(
        f"{maps[0].name}/ has a label map for each image of {photos.name}/, with values"
        f" {some_of(sorted(values), 8)}, but there is no list of classes",
        where=folder,
        allowed=f"one of {', '.join(_CLASSES)}, next to {maps[0].name}: 'value name' on each line",
        remedy="add it, or name it: {}",
        give=Command("import label-maps", maps=maps[0], classes=..., images=photos),
    )


def _is_map(file: Path) -> bool:
    return file.suffix.lower() in MAP_ENDINGS and not is_junk(file.name)


def _photos_of(folders: list[Path], stems: set[str]) -> Path | None:
    """The folder that has a photograph, in JPEG unless it is called images, for every map."""
    for place in folders:
        endings = IMAGE_ENDINGS if place.name.lower() in NO_CLASSES else (".jpg", ".jpeg")
        names = {file.stem for file in place.iterdir() if file.suffix.lower() in endings}
        if stems <= names:
            return place
    return None


def _values(folder: Path) -> set[int]:
    """Values of the first maps of a folder."""
    import numpy as np

    from nooch.data.readers.image_files import LABEL_MAPS, UNREADABLE, opened_image

    found: set[int] = set()
    for file in [file for file in sorted(folder.iterdir()) if _is_map(file)][:20]:
        with unreadable(file, errors=UNREADABLE), opened_image(file, LABEL_MAPS) as opened:
            found |= set(np.unique(np.asarray(opened)).tolist())
    return found


def _table_folder(folder: Path, hints: Hints, pictures: Path | None = None) -> Recognized | None:
    """The only table of a folder, or of one below it; or the boxes of Open Images."""
    tables, boxes = _tables_below(folder), openimages_files(folder)
    images = folder if next(_listed(folder, IMAGE_ENDINGS), None) is not None else None
    if boxes:
        names = next((file for file in tables if file.name.startswith("class-descriptions")), None)
        why = f"Open Images' boxes in {some_of(file.name for file in boxes)}"
        why += "; no class-descriptions*.csv names its classes" if names is None else ""
        source = boxes[0] if len(boxes) == 1 else folder
        return _found("boxes", why, None, source, "openimages", names, images)
    if (of_splits := _split_tables(folder, hints)) is not None:
        return _table(folder, hints, pictures or images, of_splits)
    if len(tables) > 1:
        names_of = [file.relative_to(folder).as_posix() for file in tables]
        one = next((file for file in tables if _is_read(file, hints, pictures)), tables[0])
        raise InputError(
            f"has {len(tables)} tables: {some_of(names_of)}",
            where=folder,
            allowed="one table of all images, with a column split if there are splits",
            remedy="join them, or name one: {}",
            give=Command("import auto", path=one, **({"images": images} if images else {})),
        )
    tables = tables or [*sorted(folder.glob("*.json")), *sorted(folder.glob("*/*.json"))]
    if len(tables) != 1:
        return None
    found = _coco_file(tables[0], hints) or _table_file(tables[0], hints, pictures or images)
    if found is None:
        return None
    why = f"{tables[0].relative_to(folder).as_posix()}: {found.why}"
    return replace(found, why=why, images=found.images or images)


def _is_read(file: Path, hints: Hints, pictures: Path | None) -> bool:
    try:
        return _table(file, hints, pictures) is not None
    except NoochError:
        return False


def _only_images(folder: Path, _: Hints) -> None:
    """Refuse a folder of images without annotations that are known."""
    images = list(islice(_listed(folder, IMAGE_ENDINGS), 3))
    if not images:
        return
    example = images[0].relative_to(folder).as_posix()
    signs, _table = annotation_signs(folder, _listed(folder, ("",)))
    classes, loose = (
        _classes_below(folder)[0],
        [p.name for p in folder.iterdir() if is_image(p.name)],
    )
    inner = _inner(folder)
    if signs:
        named = [*_maps_named(folder), *inner]
        raise InputError(
            f"contains images, such as {example}, and possibly annotations in an unknown"
            f" layout: {'; '.join(signs)}",
            where=folder,
            allowed=_KNOWN,
            remedy=f"{'{}; or ' * len(named)}{_NAME_IT}",
            give=[*named, _OWN],
        )
    if loose and classes and not {place.name.lower() for place in classes} & NO_CLASSES:
        raise InputError(
            f"has {counted(len(loose), 'image')} outside of folders, such as {loose[0]};"
            f" {some_of(place.name for place in classes)} would be classes",
            where=folder,
            remedy="{} to leave these images out",
            give={"reader": "image-folder"},
        )
    raise InputError(
        f"contains images, such as {example}, but no annotations; it has {files_seen(folder)}",
        where=folder,
        allowed="a table of labels, COCO JSON, boxes, label maps, or a folder for each class"
        " (not named after splits, images, labels or the like)",
        remedy=f"{'import its folders as classes: {}; or ' * len(inner)}{{}} to label them with a"
        " model; or import the file of labels: {}; or {} if each folder is a class",
        give=(
            *inner,
            Command("annotate", images=folder, segmenter=...),
            Command("import auto", images=folder),
            {"reader": "image-folder"},
        ),
    )


def _inner(folder: Path) -> list[Command]:
    """The way out where the only folder of a folder has the classes; empty without one."""
    tops = _with_images(sorted(folder.iterdir()))
    try:
        is_one = len(tops) == 1 and _image_folder(tops[0], Hints()) is not None
    except InputError:
        is_one = False
    return [Command("import auto", path=tops[0])] if is_one else []


def _maps_named(folder: Path) -> list[Command]:
    """The way out where label maps are called as images, with a suffix; else empty."""
    listed = [Path(file) for file in _listed(folder, IMAGE_ENDINGS)]
    if (pair := map_of(listed)) is None or pair[0].parent == pair[1].parent:
        return []
    photo, label_map = pair
    texts = [*folder.glob("*.txt")]
    return [
        Command(
            "import label-maps",
            maps=label_map.parent,
            classes=texts[0] if len(texts) == 1 else ...,
            suffix=label_map.stem.removeprefix(photo.stem),
            images=photo.parent,
        )
    ]


def _classes_below(folder: Path) -> tuple[list[Path], bool]:
    """The folders that may be of a class each, and whether they are below folders of splits."""
    tops = _with_images(sorted(folder.iterdir()))
    if not tops or not {place.name.lower() for place in tops} <= set(SPLIT_NAMES):
        return tops, False
    return _with_images(entry for place in tops for entry in sorted(place.iterdir())), True


def _image_folder(folder: Path, _: Hints) -> Recognized | None:
    """A folder for each class, unless anything speaks against it."""
    classes, divided = _classes_below(folder)
    names = sorted({place.name for place in classes})
    tops = [folder, *({place.parent for place in classes} if divided else ())]
    loose = any(is_image(entry.name) for place in tops for entry in place.iterdir())
    if loose or not names or {name.lower() for name in names} & NO_CLASSES:
        return None
    signs, table = annotation_signs(folder, _listed(folder, ("",)))
    listed = _class_list(folder)
    if listed is not None and not any(name.encode() in head_of(listed) for name in names):
        signs.append(f"{listed.name} names none of them")
    if signs := [*signs, *folder_signs(classes, divided)]:
        other = f"; or import the annotations: nooch import auto {table}" if table else ""
        inner = _inner(folder)
        raise InputError(
            f"may be a folder of images for each class, {some_of(names)}, but: {'; '.join(signs)}",
            where=folder,
            allowed=_KNOWN,
            remedy=f"{'import its folders as classes: {}; or ' * len(inner)}{{}} if each folder"
            f" is a class{other}",
            give=[*inner, {"reader": "image-folder"}],
        )
    why = f"a folder of images for each class: {some_of(names)}"
    return _found("image-folder", why, folder, folder)


def _with_images(entries: Iterable[Path]) -> list[Path]:
    """The folders that contain an image."""
    folders = (entry for entry in entries if entry.is_dir() and not is_junk(entry.name))
    return [place for place in folders if next(_listed(place, IMAGE_ENDINGS), None) is not None]


_Attempt = Callable[..., Recognized | None]
_OF_TABLES = (_table_file, _table_folder)
"""Attempts that look at the sizes of image files."""
_OF_FILES: tuple[_Attempt, ...] = (_other_file, _coco_file, _yolo_file, _table_file)
_OF_FOLDERS: tuple[_Attempt, ...] = (
    _coco_stuff, _coco_folder, _other_layout, _yolo_folder, _voc_folder, _label_maps, _unnamed_maps,
    _other_folder, _image_folder, _table_folder, _unread_folder, _only_images,
)  # fmt: skip


def _class_list(folder: Path) -> Path | None:
    return next((folder / name for name in _CLASSES if (folder / name).is_file()), None)


def _images_near(folder: Path, file: Path | None = None) -> Path | None:
    """The folder of the images of annotations that are below a folder, or of a COCO ``file`` of
    it, whose names of images decide; next to it only where it is called after annotations.
    """
    for name in _FILE_NAME.findall(b"" if file is None else head_of(file))[:1]:
        if (folder / os.fsdecode(name)).is_file():
            return folder
    is_next = folder.name.lower() in ("annotations", "labels")
    near = [*(folder / name for name in _PHOTOS), folder]
    near += [folder.parent / name for name in _PHOTOS if is_next]
    images = (place for place in near if place.is_dir())
    return next((p for p in images if next(_listed(p, IMAGE_ENDINGS), None) is not None), None)


_PHOTOS = ("images", "JPEGImages")
_FILE_NAME = re.compile(rb'"file_name"\s*:\s*"([^"\\]{1,200})"')


def _listed(folder: Path, endings: tuple[str, ...]) -> Iterator[Path]:
    """Files with these endings below a folder, in a bounded search."""
    seen = 0
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not is_junk(name))
        for name in sorted(names):
            seen += 1
            if name.lower().endswith(endings) and not is_junk(name):
                yield Path(place) / name
        if seen > _MOST_LISTED:
            return
