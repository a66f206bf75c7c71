"""Finding COCO 2017 and COCO-Stuff below a folder, in the usual layouts."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from nooch.base.errors import Command, InputError, some_of
from nooch.base.files import sha256_of
from nooch.data.image_names import MAP_ENDINGS
from nooch.data.readers.coco.reader import CocoReading

SPLIT_FILES = ("nooch_split.npz", "cocostuff_split_image_ids.npz")
"""Name of the paper's split."""

PARTS = ("train2017", "val2017")
_BASES = ("", "dataset", "coco")
_ANNOTATIONS = (
    "annotations",
    "",
    "stuff_trainval2017",
    "stuff_trainval2017/annotations",
    "annotations/stuff_trainval2017",
)
# folder of maps -> what their values mean; PART is train2017 or val2017
_MAPS = {
    "stuffthingmaps/PART": "cocostuff",
    "stuffthingmaps_trainval2017/PART": "cocostuff",
    "stuff_PART_pixelmaps": "pixelmaps",
    "annotations/stuff_PART_pixelmaps": "pixelmaps",
    "stuff_trainval2017/stuff_PART_pixelmaps": "pixelmaps",
}
_IMAGES = ("images", "")


@dataclass(frozen=True)
class CocoLayout:
    """The files found, in the order train2017, val2017; ``images`` contains the parts' folders.

    ``stuff`` is empty where ``stuff_maps`` takes its place.
    """

    things: list[Path]
    stuff: list[Path]
    captions: list[Path]
    stuff_maps: Path | None = None
    stuff_map_values: str = "cocostuff"
    images: Path | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def reading(self) -> CocoReading:
        """Settings for reading the files."""
        return CocoReading(
            self.things, self.stuff, self.captions, self.stuff_maps, self.stuff_map_values
        )


def find_coco(root: str | Path) -> CocoLayout:
    """Find ``{instances,stuff,captions}_{train,val}2017.json``, stuff pixel maps and images.

    A part (train2017, val2017) exists where its instances do; that one is missing, or has no
    captions, is noted. Annotations are looked for in ``annotations/``, the folder itself,
    ``stuff_trainval2017/`` and ``annotations/stuff_trainval2017/``, then the same below
    ``dataset/`` and ``coco/``. Pixel maps (``stuffthingmaps/PART/``, ``stuff_PART_pixelmaps/``) are
    used where a stuff file is missing.
    """
    root = Path(root)
    if not root.is_dir():
        make = Command("download coco-stuff", root=root)
        raise InputError("no such folder", where=root, remedy="{} gets the files", give=make)
    things, stuff, captions = (_files(root, role) for role in ("instances", "stuff", "captions"))
    if not things:
        raise _missing(root, [f"instances_{part}.json" for part in PARTS])
    maps, values = None, "cocostuff"
    if bare := [part for part in things if part not in stuff]:
        maps, values = _maps(root, list(things), bare)
    left_out = [part for part in PARTS if part not in things]
    notes = [f"instances_{part}.json is not there: {part} is left out" for part in left_out]
    bare = [part for part in things if captions and part not in captions]
    notes += [f"captions_{part}.json is not there" for part in bare]
    return CocoLayout(
        list(things.values()),
        [] if maps else [stuff[part] for part in things],
        [captions[part] for part in things if part in captions],
        maps,
        values,
        _images(root, list(things)),
        notes,
    )


def find_split(root: str | Path) -> Path | None:
    """The file of the paper's split in a folder, if there is one."""
    return next((path for name in SPLIT_FILES if (path := Path(root) / name).is_file()), None)


def _places(root: Path, below: Iterable[str]) -> list[Path]:
    return [root / base / folder for base in _BASES for folder in below]


def _files(root: Path, role: str) -> dict[str, Path]:
    """Part -> its file, if it exists; identical copies count as one, the first by place."""
    by_part = {}
    for part in PARTS:
        files = [place / f"{role}_{part}.json" for place in _places(root, _ANNOTATIONS)]
        places = [file for file in files if file.is_file()]
        if others := [path for path in places[1:] if not _same(places[0], path)]:
            problem = f"differs from {others[0]}: which of the two is meant?"
            give, remedy = Command("import coco", things=..., stuff=...), "move one of the two away"
            raise InputError(problem, where=places[0], remedy=remedy, give=give)
        if places:
            by_part[part] = places[0]
    return by_part


def _same(file: Path, other: Path) -> bool:
    if file.samefile(other):
        return True
    return file.stat().st_size == other.stat().st_size and sha256_of(file) == sha256_of(other)


def _missing(root: Path, names: list[str], also: str = "") -> InputError:
    places = [os.path.relpath(place, root) for place in _places(root, _ANNOTATIONS)]
    return InputError(
        f"does not contain {' or '.join(names)}",
        where=root,
        allowed=f"looked for in {some_of(dict.fromkeys(places), 20)}{also}",
        remedy="{} downloads the files; {} reads them from anywhere",
        give=(Command("download coco-stuff", root=root), Command("import coco")),
    )


def _maps(root: Path, parts: list[str], bare: list[str]) -> tuple[Path, str]:
    """One folder that contains the pixel maps of all parts, and what their values mean."""
    for base in _BASES:
        for pattern, values in _MAPS.items():
            folders = [root / base / pattern.replace("PART", part) for part in parts]
            if not all(any(_map_files(folder)) for folder in folders):
                continue
            if len(folders) == 1:
                return folders[0], values
            _check_alone(folders)
            return folders[0].parent, values
    patterns = ", ".join(pattern.replace("PART", bare[0]) for pattern in _MAPS)
    raise _missing(root, [f"stuff_{part}.json" for part in bare], f"; or pixel maps in {patterns}")


def _check_alone(folders: list[Path]) -> None:
    """The reader counts every map below a folder: other files are not allowed."""
    parent = folders[0].parent
    for stray in _map_files(parent):
        if not any(stray.is_relative_to(folder) for folder in folders):
            raise InputError(
                f"contains images next to {' and '.join(folder.name for folder in folders)},"
                f" such as {stray.name}, that would be counted as pixel maps",
                where=parent,
                remedy="move the two folders of maps into a new folder, and name it: {}",
                give=Command("import coco", stuff_maps=...),
            )


def _map_files(folder: Path) -> Iterable[Path]:
    for place, _, names in os.walk(folder):
        yield from (Path(place) / name for name in names if name.lower().endswith(MAP_ENDINGS))


def _images(root: Path, parts: list[str]) -> Path | None:
    """The folder that contains the folders of images."""
    for place in _places(root, _IMAGES):
        if any((place / part).is_dir() for part in parts):
            return place
    return next((place for place in _places(root, _IMAGES[:1]) if place.is_dir()), None)
