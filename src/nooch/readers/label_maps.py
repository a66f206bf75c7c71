"""Label maps -> Dataset: one single-channel image of class values for each photograph, areas counted exactly."""

from __future__ import annotations

import builtins
import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.sparse import csr_array

from nooch.data import Dataset, class_name
from nooch.errors import InputError, ParameterError, some_of
from nooch.readers.cocostuff import MAP_VALUES, OTHER, map_values
from nooch.readers.image_files import ImageIndex
from nooch.readers.maps import CountedMaps, count_maps
from nooch.shared_types import Map

__all__ = ["read_label_maps"]

_NOT_ANNOTATED = {"void", "unknown", "unlabelled", "unlabeled", "unannotated", "unlabel", "ignore", "ignored"}
_FILLERS = {"label", "class", "pixel", "pixels", "region", "area"}

_VOID = {"cocostuff": (255,), "pixelmaps": (0, OTHER)}


def read_label_maps(
    folder: str | Path,
    classes: str | Path,
    *,
    void: Sequence[int] = (),
    images: str | Path | None = None,
    suffix: str = "",
    map: Map = builtins.map,
) -> Dataset:
    """Count every class in every map.

    A class's area is its pixels over all pixels of the image, so areas and the unlabelled share add up to 1.

    Args:
        folder: the maps; a map is called after its image.
        classes: ``cocostuff`` (value = COCO id - 1, 255 unlabelled), ``pixelmaps`` (value = COCO id, 183 other), or a
            text file with a class in each line: ``value name``, or only names, then counted from 0.
        void: values that are no class. Needed for a listed class that is called void, unknown, unlabeled, unannotated or ignore
            (also ``name (void)``): its pixels were not annotated, which is no class.
        images: folder below which the images lie; each needs the name of its map, with any ending.
        suffix: what the maps' names carry beyond the image's.
        map: where maps are counted.

    Raises:
        InputError: see ``nooch.readers.maps``; also a class list that cannot be read.
        ParameterError: a class of the list is called void or the like, and ``void`` does not have its value.
    """
    folder = Path(folder)
    values = map_classes(folder, classes, void)
    counted = count_maps(folder, values.names, values.ignored, map, suffix=suffix)
    index = None if images is None else ImageIndex(images)
    data, missing = counted_dataset(counted, index)
    digest = digest_of(lambda: [counted])
    notes = located_notes(missing, len(missing), len(data), images)
    return replace(data, provenance=maps_provenance(values, len(data), digest, notes))


@dataclass(frozen=True)
class MapClasses:
    """What the values of maps mean.

    Attributes:
        listed: name of the list of classes.
        names: value -> class.
        ignored: values that are none.
    """

    listed: str
    names: dict[int, str]
    ignored: set[int]


def map_classes(folder: Path, classes: str | Path, void: Sequence[int]) -> MapClasses:
    """What the values of the maps of a folder mean. Raises InputError and ParameterError as ``read_label_maps``."""
    if not folder.is_dir():
        raise InputError("no such folder of label maps", where=folder)
    is_preset = str(classes) in MAP_VALUES
    names = map_values(str(classes)) if is_preset else _class_list(Path(classes))
    ignored = set(void) | set(_VOID.get(str(classes), ()))
    named = {value: name for value, name in names.items() if value not in ignored}
    if meant := [value for value, name in named.items() if _means_void(name)]:
        listed = ", ".join(f"{value} {named[value]!r}" for value in meant)
        raise ParameterError(
            f"the class list gives {listed}, which names pixels that were not annotated",
            where=classes,
            allowed=f"void: {some_of(meant, len(meant))}",
            remedy=f"add {' '.join(f'--void {value}' for value in meant)} (or give a class that is annotated another name)",
        )
    return MapClasses(str(classes) if is_preset else Path(classes).name, named, ignored)


def counted_dataset(counted: CountedMaps, index: ImageIndex | None) -> tuple[Dataset, list[str]]:
    """Counted maps as a Dataset without provenance, and the names of those that have no image."""
    found = [None if index is None else index.by_stem(stem) for stem in counted.stems]
    frame = pl.DataFrame(
        {
            "image_id": counted.image_ids,
            "file_name": pl.Series(found, dtype=pl.String),
            "width": counted.sizes[:, 0],
            "height": counted.sizes[:, 1],
        }
    )
    root = None if index is None else str(index.root.resolve())
    missing = [] if index is None else [s for s, path in zip(counted.stems, found, strict=True) if path is None]
    return Dataset.build(frame, counted.classes, _fractions(counted), image_root=root), missing


def located_notes(first: Sequence[str], missing: int, n_images: int, images: object) -> list[str]:
    """A note where maps have no image, of which the first are named. Raises InputError where none has."""
    # the others count, but need no names
    listed = [*first, *[""] * (missing - len(first))]
    if missing == n_images:
        raise InputError(f"no image is called after a map, such as {some_of(listed, 2)}", where=images)
    return [f"{missing} of {n_images} maps have no image below {images}: {some_of(listed)}"] if missing else []


def maps_provenance(values: MapClasses, n_images: int, digest: str, notes: list[str]) -> dict[str, Any]:
    """Where a dataset comes from that was read from maps."""
    return {
        "reader": "label-maps",
        "area": "pixels",
        "sources": [{"role": "maps", "files": n_images, "sha256": digest}],
        "classes": values.listed,
        "void": sorted(values.ignored),
        "notes": notes,
    }


def _fractions(counted: CountedMaps) -> csr_array:
    areas = counted.pixels.astype(np.float64)
    areas.data /= np.repeat(counted.sizes.prod(axis=1).astype(np.float64), np.diff(areas.indptr))
    return areas


def digest_of(parts: Callable[[], Iterable[CountedMaps]]) -> str:
    """Of what was read, not of the files: re-encoded maps with the same pixels count the same.

    Args:
        parts: called several times: gives what was counted, in the order of image ids, one part or several.
    """
    digest = hashlib.sha256()
    for number, part in enumerate(parts()):
        digest.update(("\0" if number else "").encode() + "\0".join(part.stems).encode())
    for part in parts():
        digest.update(_int64(part.sizes))
    # of all rows together: 0, and then where each row ends
    digest.update(_int64(np.zeros(1)))
    entries = 0
    for part in parts():
        digest.update(_int64(part.pixels.indptr[1:].astype(np.int64) + entries))
        entries += part.pixels.nnz
    for name in ("indices", "data"):
        for part in parts():
            digest.update(_int64(getattr(part.pixels, name)))
    return digest.hexdigest()


def _int64(values: NDArray[Any]) -> bytes:
    return np.ascontiguousarray(values, dtype=np.int64).tobytes()


def _means_void(name: str) -> bool:
    """Whether a class name says that its pixels have no annotation."""
    marks = [name, *re.findall(r"[(\[]([^)\]]*)[)\]]", name)]
    words = [[word for word in re.findall("[a-z]+", mark.lower()) if word not in _FILLERS] for mark in marks]
    return any(listed and set(listed) <= _NOT_ANNOTATED for listed in words)


def _class_list(path: Path) -> dict[int, str]:
    """Pixel value -> class name from a text file."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"cannot be read: {error}", where=path, allowed=f"a text file of classes, or one of {', '.join(MAP_VALUES)}"
        ) from error
    lines = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    heads = [line.replace(":", " ", 1).replace(",", " ", 1).split(None, 1) for line in lines]
    if heads and all(len(head) == 2 and head[0].isdigit() for head in heads):
        values = [int(head[0]) for head in heads]
        names = [class_name(head[1], path) for head in heads]
    else:
        values, names = list(range(len(lines))), [class_name(line, path) for line in lines]
    if not values or len(set(values)) != len(values) or len(set(names)) != len(names):
        raise InputError(
            "names no class, or a value or name twice", where=path, allowed="one 'value name' in each line"
        )
    return dict(zip(values, names, strict=True))
