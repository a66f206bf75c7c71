"""Where COCO 2017 and COCO-Stuff lie below a folder, in the layouts that people have, and reading
them from there.
"""

from __future__ import annotations

import builtins
import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from nooch.errors import InputError, some_of
from nooch.files import sha256_of
from nooch.readers.coco.coco_reader import CocoReading
from nooch.shared_types import Map

if TYPE_CHECKING:
    from nooch.data import Dataset

__all__ = ["SPLIT_FILES", "CocoLayout", "find_coco", "find_split", "read_coco_stuff"]

SPLIT_FILES = ("nooch_split.npz", "cocostuff_split_image_ids.npz")
"""What the paper's split is called."""

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
_MAP_ENDINGS = (".png", ".bmp", ".tif", ".tiff")
_IMAGES = ("images", "")


@dataclass(frozen=True)
class CocoLayout:
    """The files found, each list in the order train2017, val2017; ``images`` is the folder that
    holds their folders.

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
        """How the files are read."""
        return CocoReading(
            self.things, self.stuff, self.captions, self.stuff_maps, self.stuff_map_values
        )


def read_coco_stuff(
    root: str | Path, *, images: str | Path | None = None, map: Map = builtins.map
) -> Dataset:
    """COCO-Stuff below ``root`` as one Dataset without splits; see ``find_coco`` and
    ``nooch.readers.coco.coco_reader``.

    Args:
        root: folder such as ``nooch download coco-stuff`` leaves.
        images: folder below which the image files lie; by default where they are found below
            ``root``.
        map: where files are read.
    """
    layout = find_coco(root)
    from nooch.readers.reader_contract import read

    data = read(layout.reading, images=layout.images if images is None else images, map=map)
    notes = [*layout.notes, *data.provenance["notes"]]
    return replace(data, provenance={**data.provenance, "notes": notes})


def find_coco(root: str | Path) -> CocoLayout:
    """Find ``{instances,stuff,captions}_{train,val}2017.json``, pixel maps of stuff, and images
    below a folder.

    A part (train2017, val2017) is there when its instances are; that one is missing, or has no
    captions, is noted. Annotations are looked for in ``annotations/``, the folder itself,
    ``stuff_trainval2017/`` and ``annotations/stuff_trainval2017/``, then the same below
    ``dataset/`` and ``coco/``. Pixel maps (``stuffthingmaps/PART/``, ``stuff_PART_pixelmaps/``) are
    used where a stuff file is missing.

    Raises:
        InputError: no such folder; no instances; a part without stuff; different files of one name
            in two places.
    """
    root = Path(root)
    if not root.is_dir():
        raise InputError(
            "no such folder", where=root, remedy="nooch download coco-stuff gets the files"
        )
    things, stuff, captions = (_files(root, role) for role in ("instances", "stuff", "captions"))
    if not things:
        raise _missing(root, [f"instances_{part}.json" for part in PARTS])
    maps, values = None, "cocostuff"
    if bare := [part for part in things if part not in stuff]:
        maps, values = _maps(root, list(things), bare)
    return CocoLayout(
        list(things.values()),
        [] if maps else [stuff[part] for part in things],
        [captions[part] for part in things if part in captions],
        maps,
        values,
        _images(root, list(things)),
        [
            f"instances_{part}.json is not there: {part} is left out"
            for part in PARTS
            if part not in things
        ]
        + [
            f"captions_{part}.json is not there"
            for part in things
            if captions and part not in captions
        ],
    )


def find_split(root: str | Path) -> Path | None:
    """The file of the paper's split in a folder, where there is one."""
    return next((path for name in SPLIT_FILES if (path := Path(root) / name).is_file()), None)


def _places(root: Path, below: Iterable[str]) -> list[Path]:
    return [root / base / folder for base in _BASES for folder in below]


def _files(root: Path, role: str) -> dict[str, Path]:
    """Part -> its file, where there is one; copies of one file count as one, the first in the order
    of places.
    """
    found = {}
    for part in PARTS:
        places = [
            path
            for place in _places(root, _ANNOTATIONS)
            if (path := place / f"{role}_{part}.json").is_file()
        ]
        if others := [path for path in places[1:] if not _same(places[0], path)]:
            raise InputError(
                f"differs from {others[0]}: which of them is meant?",
                where=places[0],
                remedy=(
                    "move one of them away, or name files with nooch import coco `things` ..."
                    " `stuff` ..."
                ),
            )
        if places:
            found[part] = places[0]
    return found


def _same(one: Path, other: Path) -> bool:
    if one.samefile(other):
        return True
    return one.stat().st_size == other.stat().st_size and sha256_of(one) == sha256_of(other)


def _missing(root: Path, names: list[str], also: str = "") -> InputError:
    places = some_of(
        dict.fromkeys(os.path.relpath(place, root) for place in _places(root, _ANNOTATIONS)), 20
    )
    return InputError(
        f"neither of {', '.join(names)} is there" if len(names) > 1 else f"{names[0]} is not there",
        where=root,
        allowed=f"looked for in {places}{also}",
        remedy=(
            f"nooch download coco-stuff {root} gets the files; nooch import coco reads them from"
            " anywhere"
        ),
    )


def _maps(root: Path, parts: list[str], bare: list[str]) -> tuple[Path, str]:
    """One folder that holds the pixel maps of all parts, and what their values mean."""
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
    """The reader counts every map below a folder: there may be no others."""
    parent = folders[0].parent
    for stray in _map_files(parent):
        if not any(stray.is_relative_to(folder) for folder in folders):
            raise InputError(
                f"holds images beside {' and '.join(folder.name for folder in folders)}, such as"
                f" {stray.name}, that would be counted as pixel maps",
                where=parent,
                remedy=(
                    "move the two folders of maps into a folder of their own "
                    "and name it with nooch import coco `stuff_maps`"
                ),
            )


def _map_files(folder: Path) -> Iterable[Path]:
    for place, _, names in os.walk(folder):
        yield from (Path(place) / name for name in names if name.lower().endswith(_MAP_ENDINGS))


def _images(root: Path, parts: list[str]) -> Path | None:
    """The folder that holds the folders of images."""
    for place in _places(root, _IMAGES):
        if any((place / part).is_dir() for part in parts):
            return place
    return next((place for place in _places(root, _IMAGES[:1]) if place.is_dir()), None)
