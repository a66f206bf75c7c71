"""Signs that a folder of folders of images is not one for each class."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path

from nooch.base.errors import some_of
from nooch.data.image_names import IMAGE_COLUMNS, IMAGE_ENDINGS, is_image, is_junk
from nooch.data.importing.other_formats import head_of, is_known, looks_like_coco
from nooch.data.readers.image_files import UNREADABLE, list_images, opened_image
from nooch.data.splits import SPLIT_NAMES, split_of

NO_CLASSES = {
    "image", "images", "img", "imgs", "photos", "pictures", "jpegimages", "leftimg8bit", "gtfine",
    "annotation", "annotations", "label", "labels", "masks", "segmentationclass", "train2017",
    "val2017", "test2017", "train2014", "val2014", "test2014",
}  # fmt: skip
"""Usual names, in small letters, of folders that are not of one class."""

_ANNOTATIONS = (".json", ".jsonl", ".xml", ".txt", ".csv", ".tsv", ".npy", ".mat")
_MAPS = (
    "seg(?:mentation)?s?|masks?|labels?|labelids|instanceids|colou?r|gt|annot(?:ation)?s?|parts?"
)
_MAP_OF = re.compile(rf"(?i)(.+?)[_.\- ]+(?:{_MAPS}|truth|alpha|matte|depth|p|l)(?:[_\- ]?\d+)*$")
_MAP_FOLDER = re.compile(r"(?i)annot|label|mask|seg|gt|truth|depth|matte|edges")
_NAMES_IMAGES = re.compile(rf"(?i)[\w-]({'|'.join(map(re.escape, IMAGE_ENDINGS))})\b".encode())
_MOST_READ, _MOST_FOLDERS, _MOST_OPENED = 50, 30, 3
"""Files of an ending that are looked into, folders that are compared, images of each opened."""


def annotation_signs(folder: Path, files: Iterable[Path]) -> tuple[list[str], Path | None]:
    """Signs, in words, that files below a folder annotate its images; and the first of them that
    is a table or COCO's.
    """
    images, others = dict[str, Path](), defaultdict[str, list[Path]](list)
    for file in files:
        if is_image(file.name):
            images.setdefault(file.stem, file)
        elif file.suffix.lower() in _ANNOTATIONS:
            others[file.suffix.lower()].append(file)
    signs, table = [], None

    def shown(file: Path) -> str:
        return file.relative_to(folder).as_posix()

    for ending, found in others.items():
        own = next((file for file in found if images.keys() & _names_of(file)), None)
        if own is not None:
            image = next(images[name] for name in _names_of(own) if name in images)
            signs.append(f"{shown(own)} has the name of the image {shown(image)}")
        known = [file for file in found[:_MOST_READ] if file != own and _annotates(file)]
        if known and own is None:
            signs.append(f"{some_of(map(shown, known), 3)} may contain annotations")
            is_readable = ending in (".csv", ".tsv") or looks_like_coco(known[0])
            table = table or (known[0] if is_readable else None)
    if pair := map_of(images.values()):
        signs.append(f"{shown(pair[1])} looks like a label map of {shown(pair[0])}")
    return signs, table


def map_of(images: Iterable[Path]) -> tuple[Path, Path] | None:
    """An image, and one that looks like its map by a suffix of the name; None without any."""
    named: dict[str, Path] = {}
    for file in images:
        named.setdefault(file.stem, file)
    pairs = ((_MAP_OF.match(stem), file) for stem, file in named.items())
    return next(((named[m[1]], file) for m, file in pairs if m and m[1] in named), None)


def _names_of(file: Path) -> list[str]:
    """Names of images that a file may be called after, such as a of gt_a.txt."""
    return [file.stem, file.stem.partition("_")[2], file.stem.rpartition("_")[0]]


def _annotates(file: Path) -> bool:
    """True if a text is of a known format, or names images or their column."""
    head = head_of(file)
    columns = re.split(rb"[,;|\t\"' ]+", head.split(b"\n", 1)[0].strip().lower())
    named = {name.encode() for name in IMAGE_COLUMNS} & {*columns}
    is_table = file.suffix.lower() in (".csv", ".tsv") and len(columns) > 1 and bool(named)
    return is_table or bool(_NAMES_IMAGES.search(head)) or looks_like_coco(file) or is_known(file)


def folder_signs(classes: Sequence[Path], divided: bool) -> Iterator[str]:
    """Signs, in words, that folders are not classes, by their names and images; ``divided``:
    they lie below folders of splits.
    """
    names = {place.name for place in classes}
    splits = sorted(name for name in names if name.lower() in SPLIT_NAMES)
    within = [entry for place in classes for entry in place.iterdir() if not is_junk(entry.name)]
    inner = {entry.name for entry in within if entry.is_dir()}
    called = {name: split_of(name) for name in sorted(names)}
    if len(names) == 1:
        yield f"one class only, {next(iter(names))}"
    if splits and not divided:
        yield f"{some_of(splits)} {'names a split' if len(splits) == 1 else 'name splits'}"
    if not splits and len({*called.values()} - {None}) > 1:
        yield f"{some_of(name for name in called if called[name])} are named after splits"
    if inner and not any(is_image(entry.name) for entry in within):
        yield f"their images are in subfolders: {some_of(sorted(inner))}"
    stems = {place: _by_stem(place) for place in classes[:_MOST_FOLDERS]}
    for (one, first), (other, second) in combinations(stems.items(), 2):
        if one.parent == other.parent and (how := _same_images(one, other, first, second)):
            yield f"the images of {one.name} and {other.name} have the same names{how}"
            break


def _same_images(
    one: Path, other: Path, first: Mapping[str, Path], second: Mapping[str, Path]
) -> str | None:
    """The sign that two folders have views of the same images, such as maps; None without any."""
    shared = sorted(first.keys() & second.keys())
    if len(shared) * 2 <= max(len(first), len(second)):
        return None
    some = shared[:_MOST_OPENED]
    if {first[stem].suffix.lower() for stem in some}.isdisjoint(
        second[stem].suffix.lower() for stem in some
    ):
        return f", as {first[some[0]].suffix} and {second[some[0]].suffix}"
    if bool(_MAP_FOLDER.search(one.name)) != bool(_MAP_FOLDER.search(other.name)):
        return ", as images and maps"
    looks = [(_look(first[stem]), _look(second[stem])) for stem in some]
    if all(None not in (a, b) and a != b for a, b in looks):
        return ", in other colors"
    return None if _are_counted(shared) else ", not just numbers from 1"


def _by_stem(folder: Path) -> dict[str, Path]:
    """Names without ending, and without the words that all end with, such as _thumb -> image."""
    stems = {path.rsplit(".", 1)[0]: folder / path for path in list_images(folder)}
    words = {"".join(re.findall(r"[_.\- ]\D+$", stem)) for stem in stems}
    return {stem.removesuffix(max(words) if len(words) == 1 else ""): file
            for stem, file in stems.items()}  # fmt: skip


def _are_counted(stems: Sequence[str]) -> bool:
    """True if names mean nothing: few, short, or most numbers of a range, as 1 to 9."""
    numbers = [int(digits) for stem in stems if (digits := "".join(re.findall(r"\d", stem)))]
    if len(stems) < 4 or max(map(len, stems)) < 3:
        return True
    return bool(numbers) and len({*numbers}) > (max(numbers) - min(numbers)) / 2


def _look(file: Path) -> tuple[bool, bool] | None:
    """(several channels, more than 256 colors) of an image; None if it is unreadable."""
    try:
        with opened_image(file) as image:
            several = image.mode not in {"1", "L", "P", "I", "F"} and image.mode[0] != "I"
            return several, image.getcolors(256) is None
    except UNREADABLE:
        return None
