"""The ``data.yaml`` of a YOLO dataset: class names, and the images of each split."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from nooch.data import class_name
from nooch.errors import InputError, some_of
from nooch.readers.image_files import IMAGE_ENDINGS, list_images

__all__ = ["YAML_ENDINGS", "YoloData", "YoloImages", "find_images", "label_of", "read_yolo_data"]

YAML_ENDINGS = (".yaml", ".yml")

_SPLITS = {
    "train": "train",
    "val": "valid",
    "valid": "valid",
    "validation": "valid",
    "test": "test",
}


@dataclass(frozen=True)
class YoloData:
    """What a ``data.yaml`` says.

    Attributes:
        file: the file.
        names: class number, as label files write it -> class name.
        path: the root that it names, or None.
        entries: split (train, valid, test) -> folders and lists of image paths, as they are
            written.
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
    """The images of a ``data.yaml``.

    Attributes:
        root: folder that their paths are relative to.
        splits: path of an image -> its split, in the order in which they are listed.
    """

    root: Path
    splits: dict[str, str]


def read_yolo_data(file: Path) -> YoloData:
    """Read the names and the split entries; nothing else in the file has an effect.

    Raises:
        InputError: a file that is no YAML mapping; ``names`` that are missing or no texts; a count
            ``nc`` that differs; entries that are no paths; one split under two keys.
    """
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        raise InputError(f"cannot be read: {error}", where=file) from error
    if not isinstance(content, Mapping):
        raise InputError(
            "is no YAML mapping",
            where=file,
            allowed="names: and perhaps path:, train:, val:, test:",
        )
    names, path = _names(content.get("names"), file), content.get("path")
    if (count := content.get("nc")) is not None and count != len(names):
        raise InputError(
            "nc is not the number of names", where=file, allowed=f"nc: {len(names)}, or no nc"
        )
    if path is not None and not isinstance(path, str):
        raise InputError("path is no text", where=file, allowed="path: FOLDER")
    entries: dict[str, list[str]] = {}
    for key, split in _SPLITS.items():
        listed = content.get(key)
        paths = [listed] if isinstance(listed, str) else listed
        if not paths:
            continue
        if not isinstance(paths, list) or not all(isinstance(path, str) and path for path in paths):
            raise InputError(
                f"{key} is no path",
                where=file,
                allowed=f"{key}: a folder, a .txt file, or a list of them",
            )
        if split in entries:
            raise InputError(
                f"{key} names the split {split} again", where=file, allowed="one key for each split"
            )
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
    found = {}
    for number, name in names.items():
        if not isinstance(name, str):
            raise InputError(
                f"the name of class {some_of([number])} is no text", where=file, allowed=allowed
            )
        key = str(number)
        if isinstance(number, bool) or not key.isdecimal() or str(int(key)) in found:
            raise InputError(
                f"class {key[:40]!r} of names is no number of its own", where=file, allowed=allowed
            )
        found[str(int(key))] = class_name(name, file)
    return dict(sorted(found.items(), key=lambda item: int(item[0])))


def find_images(data: YoloData, root: Path) -> YoloImages | None:
    """The images of the splits that ``data`` names, or None where no entry is below ``root``.

    An entry may be a folder, with all image files below it, or a ``.txt`` file with an image path
    per line. Paths are relative to ``root``; in a list, ``./`` is the folder of the list. An entry
    ``../NAME`` that is not there is looked for as ``NAME``, as some exports write it.

    Raises:
        InputError: a root that is no folder; entries of which only some are there; paths that lead
            out of ``root``; an image in two splits; a split without images.
    """
    if not root.is_dir():
        raise InputError(
            f"{root} is no folder",
            where=f"{data.file}, path",
            remedy="give the dataset's folder as source, and the file as classes",
        )
    base = root.resolve()
    places = {
        split: [_place(entry, base) for entry in entries] for split, entries in data.entries.items()
    }
    lost = [
        e
        for split, found in places.items()
        for e, p in zip(data.entries[split], found, strict=True)
        if p is None
    ]
    if len(lost) == sum(map(len, places.values())):
        return None
    if lost:
        raise InputError(
            f"{some_of(lost)} is not there",
            where=data.file,
            allowed=f"folders and .txt files below {root}",
            remedy="correct the entry, or remove it",
        )
    splits: dict[str, str] = {}
    for split, found in places.items():
        images = list(
            dict.fromkeys(path for place in found if place for path in _images(place, base))
        )
        if not images:
            raise InputError(
                f"the split {split} has no image",
                where=data.file,
                allowed=f"files ending in {', '.join(IMAGE_ENDINGS)}",
            )
        if twice := [path for path in images if path in splits]:
            raise InputError(
                f"{len(twice)} images are in the splits {splits[twice[0]]} and {split}:"
                f" {some_of(twice, 2)}",
                where=data.file,
                allowed="each image in one split",
                remedy="remove one of the entries, and split at import if need be",
            )
        splits |= dict.fromkeys(images, split)
    return YoloImages(root, splits)


def label_of(image: str) -> str:
    """The label file of an image: in ``labels`` where the last folder ``images`` is in its path,
    else next to it.
    """
    parts = list(PurePosixPath(image).with_suffix(".txt").parts)
    for number in range(len(parts) - 2, -1, -1):
        if parts[number] == "images":
            parts[number] = "labels"
            break
    return "/".join(parts)


def _place(entry: str, base: Path) -> Path | None:
    """Where an entry is, or None; never outside of the base."""
    for text in (entry, entry.removeprefix("../")):
        # resolved before it is looked at: nothing outside is opened, whatever links there are
        place = (base / text).resolve()
        if place.is_relative_to(base) and place.exists():
            return place
    return None


def _images(place: Path, base: Path) -> Iterator[str]:
    """Paths of images relative to the base."""
    if place.is_dir():
        below = place.relative_to(base).as_posix()
        yield from sorted(
            path if below == "." else f"{below}/{path}" for path in list_images(place)
        )
        return
    if place.suffix != ".txt":
        raise InputError(
            "is neither a folder nor a list of images",
            where=place,
            allowed="a folder, or a .txt file",
        )
    try:
        lines = place.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read: {error}", where=place) from error
    yield from _listed([line.strip() for line in lines if line.strip()], place, base)


def _listed(lines: Iterable[str], place: Path, base: Path) -> Iterator[str]:
    for line in lines:
        # not resolved yet: a path keeps its spelling, and a link is followed to the end to see
        # where it leads
        path = os.path.normpath((place.parent if line.startswith("./") else base) / line)
        if not (Path(path).is_relative_to(base) and Path(path).resolve().is_relative_to(base)):
            raise InputError(
                f"the image {line[:80]!r} leads out of the folder",
                where=place,
                allowed=f"paths below {base}",
            )
        if not path.lower().endswith(IMAGE_ENDINGS):
            raise InputError(
                f"{line[:80]!r} is no image",
                where=place,
                allowed=f"files ending in {', '.join(IMAGE_ENDINGS)}",
            )
        yield Path(path).relative_to(base).as_posix()
