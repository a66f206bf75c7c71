"""YOLO label files: a folder with a list of classes, or the images that a ``data.yaml`` lists."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from nooch.base.errors import InputError, ParameterError, some_of
from nooch.data import class_name
from nooch.data.readers.box_rows import BoxFiles, check_box, count_notes, files_of, listed_files
from nooch.data.readers.image_files import list_images
from nooch.data.readers.yolo_data import (
    YAML_ENDINGS,
    YoloData,
    YoloImages,
    find_images,
    label_of,
    read_lines,
    read_yolo_data,
    unique_names,
)

__all__ = ["find_yolo"]


def find_yolo(source: Path, classes: Path | None, images: Path | None) -> BoxFiles:
    """Boxes of YOLO label files; parameters and errors as of ``nooch.data.readers.boxes.read_boxes``."""
    is_yaml = source.suffix.lower() in YAML_ENDINGS and source.is_file()
    if is_yaml and (classes, images) != (None, None):
        raise ParameterError(
            f"{source.name} names the classes and the images", remedy="leave classes and images out"
        )
    if not is_yaml and classes is None:
        raise ParameterError(
            "YOLO files name classes by number",
            remedy="give `classes`, a file with a name per line or a data.yaml",
        )
    notes = []
    file = source if classes is None else classes
    if file.suffix.lower() in YAML_ENDINGS:
        data = read_yolo_data(file)
        listed = _images_of(data, source, images)
        if listed is not None:
            return _find_listed(source, data, listed)
        names = data.names
        if data.entries:
            lost = f"none of them is below {source}"
            notes.append(f"the splits of {file.name} have no effect: {lost}")
    else:
        names = _class_list(file)
    files = [f for f in files_of(source, ".txt") if not file.samefile(f)]
    if images is None and next(list_images(source), None) is not None:
        images = source
    if images is None:
        notes.append("no folder of images was given: images without a label file are left out")
    return BoxFiles(
        source=source,
        names_of=lambda _keys: names,
        listed=listed_files(files),
        parse=partial(_parse, names, file.name),
        images=images,
        notes=tuple(notes),
    )


def _class_list(file: Path) -> dict[str, str]:
    # an empty line in the middle is an error: leaving it out would shift all that follow
    lines = read_lines(file)
    while lines and not lines[-1].strip():
        lines.pop()
    if not lines:
        raise InputError("names no class", where=file, allowed="a name per line")
    names = (class_name(line, f"{file}, line {n}") for n, line in enumerate(lines, 1))
    return unique_names({str(number): name for number, name in enumerate(names)}, file)


def _images_of(data: YoloData, source: Path, images: Path | None) -> YoloImages | None:
    """The images that a ``data.yaml`` lists; None where only its names apply."""
    if data.file == source:
        listed = find_images(data, data.root) if data.entries else None
        if listed is None:
            raise InputError(
                "names no images that are there",
                where=source,
                allowed=f"train:, val: and test: below {data.root}",
                remedy="correct path:, or give the dataset's folder as source and this file as"
                " classes",
            )
        return listed
    listed = find_images(data, source) if data.entries and source.is_dir() else None
    if listed is not None and images is not None:
        raise ParameterError(
            f"{data.file.name} names the images below {source}", remedy="leave images out"
        )
    return listed


def _find_listed(source: Path, data: YoloData, listed: YoloImages) -> BoxFiles:
    """Labels of the images that are listed; an image without a label file has no object."""
    base = listed.root.resolve()
    labels = {image: base / label_of(image) for image in listed.splits}
    files = {image: file for image, file in labels.items() if file.is_file()}
    if not files:
        first = next(iter(labels.values()))
        raise InputError(f"no label file is there, such as {first}", where=data.file)
    if outside := [file for file in files.values() if not file.resolve().is_relative_to(base)]:
        problem = f"label files lead out of the folder: {some_of(outside, 2)}"
        raise InputError(problem, where=base, allowed="no such links")
    missing = [image for image in labels if not (base / image).is_file()]
    if lost := [image for image in missing if image not in files]:
        raise InputError(
            f"{len(lost)} images have neither an image file nor a label file: {some_of(lost, 2)}",
            where=data.file,
            remedy="correct path: or the list of images",
        )
    rows = {
        "stem": [Path(image).stem for image in labels],
        "file": [str(files[image]) if image in files else None for image in labels],
        "file_name": list(labels),
        "split": list(listed.splits.values()),
    }
    return BoxFiles(
        source=source,
        names_of=lambda _keys: data.names,
        listed=pl.DataFrame(rows, schema=dict.fromkeys(rows, pl.String)),
        parse=partial(_parse, data.names, data.file.name),
        root=listed.root,
        notes=(
            *count_notes(len(labels) - len(files), len(missing), len(labels)),
            *listed.notes,
        ),
    )


def _range(names: Mapping[str, str]) -> str:
    numbers = [int(key) for key in names]
    gapless = numbers == list(range(len(numbers)))
    return f"0 to {len(numbers) - 1}" if gapless else some_of(numbers, 8)


def _parse(names: Mapping[str, str], listed_in: str, path: Path, where: str) -> dict[str, Any]:
    keys, areas = [], []
    for number, line in enumerate(read_lines(path, where), 1):
        parts = line.split()
        if not parts:
            continue
        at = f"{where}, line {number}"
        try:
            # a sixth number is a confidence; more are the corners of a segment
            x, y, width, height = map(float, parts[1:5] if len(parts) < 7 else parts[1:])
            key = str(int(parts[0]))
        except ValueError as error:
            raise InputError(
                f"{line[:80]!r} is no box",
                where=at,
                allowed="class x y width height, and perhaps a confidence",
            ) from error
        check_box((x - width / 2, x + width / 2, y - height / 2, y + height / 2), at)
        keys.append(key)
        areas.append(width * height)
    if unknown := [key for key in keys if key not in names]:
        raise InputError(
            f"class {some_of(unknown)} has no name",
            where=where,
            allowed=f"{_range(names)}, as {listed_in} lists",
        )
    return {"keys": keys, "areas": areas}
