"""YOLO label files: a folder with a list of classes, or the images that a ``data.yaml`` lists."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from nooch.base.errors import InputError, ParameterError, some_of
from nooch.base.text_encoding import text_lines
from nooch.base.words import counted
from nooch.base.yaml_files import read_yaml
from nooch.data.image_names import IMAGE_ENDINGS, is_image
from nooch.data.objects import LEEWAY
from nooch.data.readers.box_formats import (
    BOX_COLUMNS,
    LEFT_OUT,
    ONCE,
    UNREAD,
    FoundBoxes,
    bad_line,
    count_notes,
    files_of,
    judged_box,
    label_of,
    listed_files,
    split_lists,
)
from nooch.data.readers.image_files import AWAY, FolderWalk, ImageIndex, list_images
from nooch.data.splits import SPLIT_NAMES
from nooch.data.table_schema import class_name

YAML_ENDINGS = (".yaml", ".yml")
DATA_ENDINGS = (*YAML_ENDINGS, ".data")
"""Endings of files that name the classes, and may list the images of each split."""
_PARSED = {**BOX_COLUMNS, "polygons": pl.Int64, "shapes": pl.List(pl.Int64)}
_IMAGE_FILES = f"files ending in {', '.join(IMAGE_ENDINGS)}"

_SPLITS = {key: SPLIT_NAMES[key] for key in ("train", "val", "valid", "validation", "test")}


@dataclass(frozen=True)
class YoloData:
    """Content of a ``data.yaml`` or of darknet's ``obj.data``: names by class number, as label
    files write it, the root that it names, for each split (train, valid, test) folders and lists
    of image paths, as written, and how many numbers of key points follow each box, None where it
    does not say.
    """

    file: Path
    names: dict[str, str]
    path: str | None
    entries: dict[str, list[str]]
    keypoints: int | None = None

    @property
    def root(self) -> Path:
        """Its ``path``, relative to the folder of the file; that folder if it names none."""
        return self.file.parent / (self.path or ".")


def read_yolo_data(file: Path) -> YoloData:
    """Read the names, the split entries and ``kpt_shape``; nothing else has an effect. Raises
    InputError: a file that is not a YAML mapping; ``names`` that are missing or no texts; a count
    ``nc`` that differs; entries that are not paths; one split under two keys.
    """
    content = read_yaml(file) if file.suffix.lower() in YAML_ENDINGS else _darknet(file)
    names, path = _names(content.get("names"), file), content.get("path")
    if content.get("nc", len(names)) not in (None, len(names)):
        allowed = f"nc: {len(names)}, or no nc"
        raise InputError("nc is not the number of names", where=file, allowed=allowed)
    if path is not None and not isinstance(path, str):
        raise InputError("path is not text", where=file, allowed="path: FOLDER")
    entries: dict[str, list[str]] = {}
    for key, split in _SPLITS.items():
        listed = content.get(key)
        paths = [listed] if isinstance(listed, str) else listed
        if not paths:
            continue
        if not isinstance(paths, list) or not all(isinstance(path, str) and path for path in paths):
            allowed = f"{key}: a folder, a .txt file, or a list of them"
            raise InputError(f"{key} is not a path", where=file, allowed=allowed)
        if split in entries:
            problem = f"{key} names the split {split} again"
            raise InputError(problem, where=file, allowed="one key for each split")
        entries[split] = paths
    return YoloData(file, names, path, entries, _keypoints(content.get("kpt_shape"), file))


def _darknet(file: Path) -> dict[str, Any]:
    """The lines ``key = value`` of an ``obj.data``, as the keys of a ``data.yaml``."""
    parts = (line.partition("=") for line in text_lines(file))
    content = {key.strip(): value.strip() for key, _, value in parts}
    listed = _place(content.get("names", ""), None, file.parent.resolve(), follow=False)
    names = None if listed is None else [*_class_list(file.parent / listed).values()]
    count = content.get("classes", "")
    return {**content, "nc": int(count) if count.isdecimal() else None, "names": names}


def _keypoints(shape: Any, file: Path) -> int | None:
    if shape is None:
        return None
    if not (isinstance(shape, list) and len(shape) == 2 and all(type(n) is int for n in shape)):
        allowed = "kpt_shape: [points, 2 or 3 numbers each]"
        raise InputError("kpt_shape is not two numbers", where=file, allowed=allowed)
    return int(shape[0] * shape[1])


def _names(names: Any, file: Path) -> dict[str, str]:
    allowed = (
        "names: a list, or a mapping of class numbers to names (quote names such as 'no' or '1')"
    )
    if isinstance(names, list):
        names = dict(enumerate(names))
    if not isinstance(names, Mapping) or not names:
        raise InputError("gives no names", where=file, allowed=allowed)
    by_number: dict[int, str] = {}
    for number, name in names.items():
        if not isinstance(name, str):
            problem = f"the name of class {some_of([number])} is not text"
            raise InputError(problem, where=file, allowed=allowed)
        key = str(number)
        if isinstance(number, bool) or not key.isdecimal() or int(key) in by_number:
            problem = f"class {key[:40]!r} of names is not a number, or given twice"
            raise InputError(problem, where=file, allowed=allowed)
        by_number[int(key)] = class_name(name, file)
    return unique_names({str(n): by_number[n] for n in sorted(by_number)}, file)


def unique_names(names: dict[str, str], file: Path) -> dict[str, str]:
    """The names by class number. Raises InputError if two classes have the same name."""
    numbers: dict[str, str] = {}
    for number, name in names.items():
        if (first := numbers.setdefault(name, number)) != number:
            problem = f"classes {first} and {number} have the same name {name!r}"
            raise InputError(problem, where=file, remedy="give each class another name")
    return names


Listed = tuple[Path, dict[str, str], list[str]]
"""The folder, paths of images relative to it -> their split, and notes."""


def find_images(data: YoloData, base: Path, *, follow: bool) -> Listed | None:
    """The images of the splits that ``data`` names, or None where no entry is below ``base``.

    An entry may be a folder, with all image files below it, or a ``.txt`` file with an image path
    per line. Paths are relative to ``base``; in a list, ``./`` is the folder of the list. What is
    not there is looked for by the end of its path, as of another machine; notes name it.

    Args:
        data: the names and entries.
        base: a folder.
        follow: whether links that lead out of the folder are followed.

    Raises:
        InputError: entries of which only some exist; links that lead out of ``base`` and are not
            followed; most images of a list not there; an image in two splits; a split without
            images.
    """
    root, base, walk = base, base.resolve(), FolderWalk(follow=follow)
    path = None if data.root.resolve() == base else data.path
    entries = [entry for listed in data.entries.values() for entry in listed]
    places = {entry: _place(entry, path, base, follow=follow) for entry in entries}
    lost = [entry for entry, place in places.items() if place is None]
    if len(lost) == len(entries):
        return None
    if lost:
        problem = f"{some_of(lost)} does not exist"
        allowed = f"folders and .txt files below {base}"
        remedy = "correct the entry, or remove it"
        raise InputError(problem, where=data.file, allowed=allowed, remedy=remedy)
    notes = [
        f"{entry} of {data.file.name} does not exist: reading {place} instead"
        for entry, place in places.items()
        if place != os.path.normpath(f"{path or ''}/{entry}".strip("/").removeprefix("../"))
    ]
    splits: dict[str, str] = {}
    for split, listed in data.entries.items():
        found = (_images(places[entry] or "", base, walk, notes) for entry in listed)
        images = dict.fromkeys(path for paths in found for path in paths)
        if not images:
            left = "".join(f"; {note}" for note in walk.left_notes())
            give = {"follow_links": True} if AWAY in left else ()
            raise InputError(
                f"the split {split} has no image{left}", where=data.file, allowed=_IMAGE_FILES,
                remedy="{} to follow links" if give else None, give=give,
            )  # fmt: skip
        if twice := [path for path in images if path in splits]:
            both = f"{splits[twice[0]]} and {split}"
            problem = f"{len(twice)} images are in the splits {both}: {some_of(twice, 2)}"
            allowed = "each image in one split"
            remedy = "remove one of the entries, and split at import if needed"
            raise InputError(problem, where=data.file, allowed=allowed, remedy=remedy)
        splits |= dict.fromkeys(images, split)
    return root, splits, [*notes, *walk.notes()]


def _place(entry: str, path: str | None, base: Path, *, follow: bool) -> str | None:
    """Path of an entry relative to the base, or None: as written, else by the end of its path."""
    parts = re.split(r"[/\\]", entry)
    ends = ("/".join(parts[first:]) for first in range(len(parts)))
    for text in (*([f"{path}/{entry}"] if path else []), entry, *ends):
        place = Path(os.path.normpath(base / text))
        # resolve links first: nothing outside is opened
        is_inside = place.is_relative_to(base) and (follow or not _leads_out(place, base))
        is_end = text not in (entry, entry.removeprefix("../"), f"{path}/{entry}")
        # a folder of that name may be another
        empty = is_end and place.is_dir() and next(list_images(place), None) is None
        if text and is_inside and place.exists() and not empty:
            return place.relative_to(base).as_posix()
    return None


def _led_out(files: Sequence[object], what: str, where: object) -> InputError:
    verb = "leads" if len(files) == 1 else "lead"
    problem = f"{counted(len(files), what)} {verb} out of the folder by links: {some_of(files, 2)}"
    remedy = "{} to read them" if len(files) > 1 else "{} to read it"
    return InputError(problem, where=where, remedy=remedy, give={"follow_links": True})


def _leads_out(path: str | Path, base: Path) -> bool:
    return not Path(os.path.realpath(path)).is_relative_to(base)


def _images(place: str, base: Path, walk: FolderWalk, notes: list[str]) -> Iterable[str]:
    """Paths of images relative to the base."""
    at = base / place
    if at.is_dir():
        walk.led_out += [place] if _leads_out(at, base) else []
        below = (os.path.normpath(f"{place}/{path}") for path in list_images(at, walk))
        return sorted(below)
    if at.suffix.lower() != ".txt":
        problem = "is neither a folder nor a list of images"
        raise InputError(problem, where=at, allowed="a folder, or a .txt file")
    return _listed(at, base, walk, notes)


def _listed(file: Path, base: Path, walk: FolderWalk, notes: list[str]) -> list[str]:
    """The images of a list that have an image or a label file."""
    lines = [line.strip() for line in text_lines(file) if line.strip()]
    if others := [line[:80] for line in lines if not line.lower().endswith(IMAGE_ENDINGS)]:
        raise InputError(f"{others[0]!r} is not an image", where=file, allowed=_IMAGE_FILES)
    found, away = dict[str, str | None](), []
    for line in lines:
        # not resolved yet: paths are not normalized; links are followed to see where they lead
        path = os.path.normpath((file.parent if line.startswith("./") else base) / line)
        below = os.path.relpath(path, base)
        is_there = not below.startswith("..") and _is_there(base, below)
        found[line] = below if is_there else None
        away += [below] if is_there and _leads_out(path, base) else []
    if away and not walk.follow:
        raise _led_out(away, "image", file)
    walk.led_out += away
    if lost := [line for line, path in found.items() if path is None]:
        ends = _by_ends(lost, base, walk)
        found |= ends
        gone = [line for line, path in ends.items() if path is None]
        if len(gone) * 2 > len(found):
            raise InputError(
                f"{len(gone):,} of {len(found):,} images have neither an image file nor a label"
                f" file: {some_of(gone, 2)}",
                where=file,
                allowed=f"paths below {base}",
                remedy="correct path: or the list of images",
            )
        about = f"{counted(len(gone), 'image')} of {file.name} left out, with neither an image"
        notes += [f"{about} nor a label file: {some_of(gone, 2)}"] if gone else []
        read = [f"{line} is {path}" for line, path in ends.items() if path is not None]
        about = f"{counted(len(read), 'image')} of {file.name} found by the end of their path"
        notes += [f"{about}: {some_of(read, 2)}"] if read else []
    return [path for path in found.values() if path is not None]


def _is_there(base: Path, image: str) -> bool:
    return any(os.path.isfile(f"{base}/{path}") for path in (image, label_of(image)))  # noqa: PTH113 - fast


def _by_ends(names: Sequence[str], base: Path, walk: FolderWalk) -> dict[str, str | None]:
    """The path of each name by its end, of an image file, else of an image with a label file."""
    images = ImageIndex(base, list_images(base, walk)).by_file_names(names)
    found = dict(zip(names, images, strict=True))
    if lost := [name for name, path in found.items() if path is None]:
        labels = ImageIndex(base, _texts_below(base, walk.follow))
        for name in lost:
            label = labels.by_file_name(label_of(name.replace("\\", "/")))
            # the image is called as its label, in as many folders
            parts = re.split(r"[/\\]", name)
            found[name] = label and "/".join(parts[-1 - label.count("/") :])
    return found


def _texts_below(base: Path, follow: bool) -> Iterator[str]:
    walk = FolderWalk(follow, wanted=lambda name: name.lower().endswith(".txt"))
    return walk.below(base, "", [base])


def find_yolo(
    source: Path, classes: Path | None, images: Path | None, follow_links: bool
) -> FoundBoxes:
    """Boxes of YOLO label files; parameters and errors as of ``BoxReading``."""
    names_all = source.suffix.lower() in DATA_ENDINGS and source.is_file()
    if names_all and (classes, images) != (None, None):
        raise ParameterError(
            f"{source.name} already names the classes and the images",
            give={n: None for n, v in (("classes", classes), ("images", images)) if v is not None},
        )
    if not names_all and classes is None:
        raise ParameterError(
            "YOLO files name classes by number",
            remedy="{}, a file with a name per line or a data.yaml",
            give={"classes": ...},
        )
    data = _data_of(source if classes is None else classes)
    # a folder that a file names is not one that a user names
    follow = follow_links or source != data.file
    listed = _images_of(data, source, images, follow)
    if listed is not None:
        return _find_listed(source, data, listed, follow)
    notes = list[str]()
    if data.entries:
        lost = f"none of them is below {source}"
        notes.append(f"the splits of {data.file.name} have no effect: {lost}")
    lists = {file.name for files in image_lists(source).values() for file in files}
    files = [
        text
        for text in files_of(source, ".txt")
        if not (text.endswith(data.file.name) and data.file.samefile(text))
        and not (text.rsplit("/", 1)[-1] in lists and Path(text).parent == source)
    ]
    if images is None and next(list_images(source), None) is not None:
        images = source
    if images is None:
        notes.append("no folder of images was given: images without a label file are left out")
    return FoundBoxes(
        source=source,
        names_of=lambda _keys: data.names,
        listed=listed_files(files),
        parse=partial(_parse, data.names, data.file.name, data.keypoints),
        parsed=_PARSED,
        images=images,
        notes=tuple(notes),
    )


def image_lists(folder: Path) -> dict[str, list[Path]]:
    """The lists of images in a folder, such as ``train.txt``, by split."""
    lists = split_lists(folder).items()
    named = {s: [f for f in files if is_image(" ".join(text_lines(f)[:1]))] for s, files in lists}
    return {split: files for split, files in named.items() if files}


def _data_of(file: Path) -> YoloData:
    """The content of a file of classes; lists of images next to a list of names are splits."""
    if file.suffix.lower() in DATA_ENDINGS:
        return read_yolo_data(file)
    lists = image_lists(file.parent).items()
    entries = {split: [listed.name for listed in files] for split, files in lists}
    return YoloData(file, _class_list(file), None, entries)


def _class_list(file: Path) -> dict[str, str]:
    # an empty line in the middle is an error: leaving it out would shift all that follow
    lines = text_lines(file)
    while lines and not lines[-1].strip():
        lines.pop()
    if not lines:
        raise InputError("names no classes", where=file, allowed="a name per line")
    # "0 car", "1: bus", or in quotes
    numbered = [re.fullmatch(rf"\s*{n}[\s:.,)]+(.+)", line) for n, line in enumerate(lines)]
    lines = [match[1] for match in numbered if match] if all(numbered) else lines
    quoted = [re.fullmatch(r"""\s*(["'])(.+)\1,?\s*""", line) for line in lines]
    lines = [match[2] for match in quoted if match] if all(quoted) else lines
    names = (class_name(line, f"{file}, line {n}") for n, line in enumerate(lines, 1))
    return unique_names({str(number): name for number, name in enumerate(names)}, file)


def _images_of(data: YoloData, source: Path, images: Path | None, follow: bool) -> Listed | None:
    """The images that a ``data.yaml`` lists; None where only its names apply."""
    if data.file == source:
        base = data.root if data.root.is_dir() else source.parent
        listed = find_images(data, base, follow=follow) if data.entries else None
        if listed is None:
            raise InputError(
                "names no images that exist",
                where=source,
                allowed=f"train:, val: and test: below {data.root}",
                remedy="correct path:, or give the dataset's folder as source and this file as"
                " classes",
            )
        return listed
    has_splits = data.entries and source.is_dir()
    listed = find_images(data, source, follow=follow) if has_splits else None
    if listed is not None and images is not None:
        raise ParameterError(
            f"{data.file.name} already names the images below {source}", give={"images": None}
        )
    return listed


def _find_listed(source: Path, data: YoloData, listed: Listed, follow: bool) -> FoundBoxes:
    """Labels of the images that are listed; an image without a label file has no object."""
    root, splits, notes = listed
    base = root.resolve()
    labels = {image: f"{base}/{label_of(image)}" for image in splits}
    files = {image: file for image, file in labels.items() if os.path.isfile(file)}  # noqa: PTH113 - fast
    if len(files) < len(labels):
        # endings in capital letters
        texts = {f"{base}/{path}" for path in _texts_below(base, follow)} - {*files.values()}
        called = {text.lower(): text for text in texts}
        files |= {i: called[f.lower()] for i, f in labels.items() if f.lower() in called}
    if not files:
        first = next(iter(labels.values()))
        raise InputError(f"no label file exists, such as {first}", where=data.file)
    outside = [] if follow else [file for file in files.values() if _leads_out(file, base)]
    if outside:
        raise _led_out(outside, "label file", base)
    missing = sum(not os.path.isfile(f"{base}/{image}") for image in labels)  # noqa: PTH113 - fast
    stems = [image.rsplit("/", 1)[-1].rsplit(".", 1)[0] for image in labels]
    if len({*stems}) < len(stems):
        stems = [image.rsplit(".", 1)[0] for image in labels]
    rows = {
        "stem": stems,
        "file": [files.get(image) for image in labels],
        "file_name": list(labels),
        "split": list(splits.values()),
    }
    return FoundBoxes(
        source=source,
        names_of=lambda _keys: data.names,
        listed=pl.DataFrame(rows, schema=dict.fromkeys(rows, pl.String)),
        parse=partial(_parse, data.names, data.file.name, data.keypoints),
        parsed=_PARSED,
        root=root,
        notes=(*count_notes(len(labels) - len(files), missing, len(labels)), *notes),
    )


def _range(names: Mapping[str, str]) -> str:
    numbers = [int(key) for key in names]
    gapless = numbers == list(range(len(numbers)))
    return f"0 to {len(numbers) - 1}" if gapless else some_of(numbers, 8)


def _parse(
    names: Mapping[str, str], listed_in: str, keypoints: int | None, path: Path, where: str
) -> dict[str, Any]:
    keys, areas, bad, shapes, polygons = [], [], [], [], 0
    boxes: list[float] = []
    seen = set[tuple[float, ...]]()
    for number, line in enumerate(text_lines(path, where), 1):
        if not (parts := line.split()):
            continue
        numbers = _numbers(parts)
        shape = _shape(numbers[1:], keypoints)
        box, area, problem, rule = _object(numbers[1:], shape)
        if problem == _NO_BOX:
            problem = f"{line[:80]!r} {problem}"
        elif numbers in seen:
            area, problem, rule = math.nan, f"{line[:80]!r} is listed twice", ONCE
        if problem:
            bad.append(bad_line(where, f"line {number}", problem, rule))
        if not math.isnan(area):
            seen.add(numbers)
            keys.append(str(int(numbers[0])))
            areas.append(area)
            boxes += box
            polygons += shape not in (_BOX, _POSE)
            shapes += [shape] if shape != _BOX and keypoints is None else []
    if bad and all(_NO_BOX in line for line in bad) and not keys:
        return {"unread": bad_line(where, "the file", "no line is a box", UNREAD)}
    if unknown := [key for key in keys if key not in names]:
        allowed = f"{_range(names)}, as {listed_in} lists"
        raise InputError(f"class {some_of(unknown)} has no name", where=where, allowed=allowed)
    lists = {"keys": keys, "areas": areas, "boxes": boxes, "bad": bad, "shapes": shapes}
    return {**lists, "polygons": polygons}


def _numbers(parts: Sequence[str]) -> tuple[float, ...]:
    """The class and the numbers of a line, with decimal commas if there are any; none of another
    line.
    """
    try:
        numbers = (*map(float, parts),)
    except ValueError:
        points = [part.replace(",", ".") for part in parts]
        return () if points == [*parts] else _numbers(points)
    return numbers if len(numbers) > 4 and not numbers[0] % 1 else ()


_NO_BOX = (
    "is not a box: class x y width height, and optionally a confidence; or class and the corners of"
    " a polygon, x1 y1 x2 y2 x3 y3 ..."
)
_BOX, _POSE, _POLYGON = -2, -1, 0
"""Shapes of a line: a box; certainly a box and key points; certainly a polygon. One that may be
both is its count of numbers.
"""


def _shape(numbers: Sequence[float], keypoints: int | None) -> int:
    if len(numbers) < 6 or len(numbers) == 4 + (keypoints or 0):
        return _BOX
    return _POLYGON if keypoints is not None else _pose(numbers)


def _object(
    numbers: Sequence[float], shape: int
) -> tuple[tuple[float, float, float, float], float, str, str]:
    """Left, top, width, height; the area within the image, what is wrong and the rule, as
    ``judged_box``.
    """
    is_polygon = shape not in (_BOX, _POSE)
    if not numbers or (is_polygon and len(numbers) % 2):
        return (0, 0, 0, 0), math.nan, _NO_BOX, LEFT_OUT
    if is_polygon:
        return _polygon(numbers)
    # a fifth number is a confidence; points may follow
    x, y, width, height = numbers[:4]
    edges = x - width / 2, x + width / 2, y - height / 2, y + height / 2
    part, problem, rule = judged_box(edges)
    return (edges[0], edges[2], width, height), part if problem else width * height, problem, rule


def _pose(numbers: Sequence[float]) -> int:
    """The shape of numbers that are a polygon, or a box and key points: x, y, and optionally 0 to 2
    for how visible it is.
    """
    x, y, width, height, *points = numbers
    if not (width / 2 - x <= LEEWAY and x + width / 2 <= 1 + LEEWAY and width >= 0):
        return _POLYGON
    if not (height / 2 - y <= LEEWAY and y + height / 2 <= 1 + LEEWAY and height >= 0):
        return _POLYGON
    for step in (3, 2):
        seen = {*points[2::step]} if step == 3 else set()
        if len(points) % step or not seen <= {0.0, 1.0, 2.0}:
            continue
        if step == 3 and (2.0 in seen or len(numbers) % 2):
            return _POSE
        # a point that is not seen is 0, 0
        pairs = zip(points[::step], points[1::step], strict=True)
        if all(
            (abs(a - x) <= width / 2 + LEEWAY and abs(b - y) <= height / 2 + LEEWAY) or a == b == 0
            for a, b in pairs
        ):
            return len(numbers)
    return _POLYGON


def check_shapes(shapes: pl.Series, where: object) -> list[str]:
    """Notes on lines that have key points. Raises InputError where all longer lines, of one
    length, may be a box and points as well as a polygon.
    """
    counts = dict(shapes.value_counts().iter_rows())
    if len(counts) == 1 and (n := next(iter(counts))) > 0:
        k = f"{(n - 4) // 2}, 2" if (n - 4) % 3 else f"{(n - 4) // 3}, 3"
        raise InputError(
            f"{n} numbers per line can be a box and key points, or the corners of a polygon",
            where=where,
            remedy=f"{{}}, a data.yaml with `kpt_shape: [{k}]` for key points, or"
            " `kpt_shape: [0, 2]` for polygons",
            give={"classes": ...},
        )
    poses = counts.get(_POSE, 0)
    return [f"key points after the box are left out in {counted(poses, 'line')}"] if poses else []


def _polygon(numbers: Sequence[float]) -> tuple[tuple[float, float, float, float], float, str, str]:
    """As ``_object``, of the corners of a polygon, x1 y1 x2 y2 ..."""
    across, down = [*numbers[::2]], [*numbers[1::2]]
    left, right, top, bottom = edges = min(across), max(across), min(down), max(down)
    part, problem, rule = judged_box(edges)
    if not all(map(math.isfinite, numbers)):
        part, problem, rule = math.nan, "a corner of the polygon is not a number", LEFT_OUT
    elif problem:
        across, down = _clipped(across, down)
    pairs = zip(across, down, across[1:] + across[:1], down[1:] + down[:1], strict=True)
    area = abs(sum(x * next_y - next_x * y for x, y, next_x, next_y in pairs)) / 2
    area = math.nan if math.isnan(part) else area
    return (left, top, right - left, bottom - top), area, problem, rule


def _clipped(across: list[float], down: list[float]) -> tuple[list[float], list[float]]:
    """The part of a polygon within the image, by Sutherland and Hodgman's algorithm."""
    corners = [*zip(across, down, strict=True)]
    for axis, sign, border in ((0, 1, 0), (0, -1, -1), (1, 1, 0), (1, -1, -1)):
        before, corners = corners, []
        for first, second in zip(before[-1:] + before[:-1], before, strict=True):
            one, other = (sign * corner[axis] - border for corner in (first, second))
            if (one < 0) != (other < 0):
                x, y = (
                    a + one / (one - other) * (b - a) for a, b in zip(first, second, strict=True)
                )
                corners.append((x, y))
            if other >= 0:
                corners.append(second)
    return [x for x, _ in corners], [y for _, y in corners]
