"""The ``data.yaml`` of a YOLO dataset: class names, and the images of each split."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from nooch.base.errors import InputError, some_of
from nooch.base.text_encoding import text_lines
from nooch.base.yaml_files import read_yaml
from nooch.data import class_name
from nooch.data.readers.image_files import IMAGE_ENDINGS, FolderWalk, list_images

__all__ = [
    "YAML_ENDINGS", "YoloData", "YoloImages", "find_images", "label_of", "read_lines",
    "read_yolo_data", "unique_names",
]  # fmt: skip

YAML_ENDINGS = (".yaml", ".yml")
_IMAGE_FILES = f"files ending in {', '.join(IMAGE_ENDINGS)}"

_SPLITS = {
    "train": "train",
    **dict.fromkeys(("val", "valid", "validation"), "valid"),
    "test": "test",
}


@dataclass(frozen=True)
class YoloData:
    """What a ``data.yaml`` says: names by class number, as label files write it, the root that it
    names, and for each split (train, valid, test) folders and lists of image paths, as written.
    """

    file: Path
    names: dict[str, str]
    path: str | None
    entries: dict[str, list[str]]

    @property
    def root(self) -> Path:
        """Its ``path``, relative to the folder of the file; that folder where it names none."""
        return self.file.parent / (self.path or ".")


@dataclass(frozen=True)
class YoloImages:
    """The images of a ``data.yaml``: paths relative to ``root`` -> their split, and notes."""

    root: Path
    splits: dict[str, str]
    notes: list[str]


def read_yolo_data(file: Path) -> YoloData:
    """Read the names and the split entries; nothing else in the file has an effect. Raises
    InputError: a file that is no YAML mapping; ``names`` that are missing or no texts; a count
    ``nc`` that differs; entries that are no paths; one split under two keys.
    """
    content = read_yaml(file)
    names, path = _names(content.get("names"), file), content.get("path")
    if content.get("nc", len(names)) not in (None, len(names)):
        allowed = f"nc: {len(names)}, or no nc"
        raise InputError("nc is not the number of names", where=file, allowed=allowed)
    if path is not None and not isinstance(path, str):
        raise InputError("path is no text", where=file, allowed="path: FOLDER")
    entries: dict[str, list[str]] = {}
    for key, split in _SPLITS.items():
        listed = content.get(key)
        paths = [listed] if isinstance(listed, str) else listed
        if not paths:
            continue
        if not isinstance(paths, list) or not all(isinstance(path, str) and path for path in paths):
            allowed = f"{key}: a folder, a .txt file, or a list of them"
            raise InputError(f"{key} is no path", where=file, allowed=allowed)
        if split in entries:
            problem = f"{key} names the split {split} again"
            raise InputError(problem, where=file, allowed="one key for each split")
        entries[split] = paths
    return YoloData(file, names, path, entries)


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
            problem = f"the name of class {some_of([number])} is no text"
            raise InputError(problem, where=file, allowed=allowed)
        key = str(number)
        if isinstance(number, bool) or not key.isdecimal() or int(key) in by_number:
            problem = f"class {key[:40]!r} of names is no number, or given twice"
            raise InputError(problem, where=file, allowed=allowed)
        by_number[int(key)] = class_name(name, file)
    return unique_names({str(n): by_number[n] for n in sorted(by_number)}, file)


def unique_names(names: dict[str, str], file: Path) -> dict[str, str]:
    """The names by class number. Raises InputError where two classes have the same name."""
    numbers: dict[str, str] = {}
    for number, name in names.items():
        if (first := numbers.setdefault(name, number)) != number:
            problem = f"classes {first} and {number} have the same name {name!r}"
            raise InputError(problem, where=file, remedy="give each class another name")
    return names


def read_lines(file: Path, where: object = None) -> list[str]:
    """The lines of a text file, which errors call ``where``. Raises InputError."""
    try:
        return text_lines(file)
    except OSError as error:
        raise InputError(f"cannot be read: {error}", where=where or file) from error


def find_images(data: YoloData, root: Path) -> YoloImages | None:
    """The images of the splits that ``data`` names, or None where no entry is below ``root``.

    An entry may be a folder, with all image files below it, or a ``.txt`` file with an image path
    per line. Paths are relative to ``root``; in a list, ``./`` is the folder of the list. An entry
    ``../NAME`` that is not there is looked for as ``NAME``, as some exports write it.

    Raises:
        InputError: a root that is no folder; entries of which only some exist; paths that lead
            out of ``root``; an image in two splits; a split without images.
    """
    if not root.is_dir():
        raise InputError(
            f"{root} is no folder",
            where=f"{data.file}, path",
            remedy="give the dataset's folder as source, and the file as classes",
        )
    base = root.resolve()
    entries = [entry for listed in data.entries.values() for entry in listed]
    lost = [entry for entry in entries if _place(entry, base) is None]
    if len(lost) == len(entries):
        return None
    if lost:
        raise InputError(
            f"{some_of(lost)} is not there",
            where=data.file,
            allowed=f"folders and .txt files below {root}",
            remedy="correct the entry, or remove it",
        )
    splits: dict[str, str] = {}
    # a folder that a file names is not one that a user names
    walk = FolderWalk(follow=False)
    for split, listed in data.entries.items():
        places = filter(None, (_place(entry, base) for entry in listed))
        images = list(
            dict.fromkeys(path for place in places for path in _images(place, base, walk))
        )
        if not images:
            problem = f"the split {split} has no image"
            raise InputError(problem, where=data.file, allowed=_IMAGE_FILES)
        if twice := [path for path in images if path in splits]:
            both = f"{splits[twice[0]]} and {split}"
            raise InputError(
                f"{len(twice)} images are in the splits {both}: {some_of(twice, 2)}",
                where=data.file,
                allowed="each image in one split",
                remedy="remove one of the entries, and split at import if need be",
            )
        splits |= dict.fromkeys(images, split)
    return YoloImages(root, splits, walk.notes())


def label_of(image: str) -> str:
    """The label file of an image: the last folder ``images`` becomes ``labels``, if any."""
    parts = list(PurePosixPath(image).with_suffix(".txt").parts)
    for number in range(len(parts) - 2, -1, -1):
        if parts[number] == "images":
            parts[number] = "labels"
            break
    return "/".join(parts)


def _place(entry: str, base: Path) -> Path | None:
    """Where an entry is, or None; never outside of the base."""
    for text in (entry, entry.removeprefix("../")):
        # resolve links first: nothing outside is opened
        place = (base / text).resolve()
        if place.is_relative_to(base) and place.exists():
            return place
    return None


def _images(place: Path, base: Path, walk: FolderWalk) -> Iterator[str]:
    """Paths of images relative to the base."""
    if place.is_dir():
        below = place.relative_to(base).as_posix()
        prefix = "" if below == "." else f"{below}/"
        yield from sorted(f"{prefix}{path}" for path in list_images(place, walk))
        return
    if place.suffix != ".txt":
        problem = "is neither a folder nor a list of images"
        raise InputError(problem, where=place, allowed="a folder, or a .txt file")
    yield from _listed([line.strip() for line in read_lines(place) if line.strip()], place, base)


def _listed(lines: Iterable[str], place: Path, base: Path) -> Iterator[str]:
    for line in lines:
        # not resolved yet: a path keeps its spelling, and links are followed to see where they lead
        path = os.path.normpath((place.parent if line.startswith("./") else base) / line)
        if not (Path(path).is_relative_to(base) and Path(path).resolve().is_relative_to(base)):
            problem = f"the image {line[:80]!r} leads out of the folder"
            raise InputError(problem, where=place, allowed=f"paths below {base}")
        if not path.lower().endswith(IMAGE_ENDINGS):
            raise InputError(f"{line[:80]!r} is no image", where=place, allowed=_IMAGE_FILES)
        yield Path(path).relative_to(base).as_posix()
