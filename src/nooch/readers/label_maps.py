"""Label maps -> Dataset: one single-channel image of class values for each photograph, areas counted exactly."""

from __future__ import annotations

import builtins
import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
from scipy.sparse import csr_array

from nooch.data import Dataset, class_name
from nooch.errors import InputError, some_of
from nooch.readers import Map
from nooch.readers.cocostuff import MAP_VALUES, OTHER, map_values
from nooch.readers.image_files import ImageIndex
from nooch.readers.maps import CountedMaps, count_maps

__all__ = ["read_label_maps"]

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
        void: values that are no class.
        images: folder below which the images lie; each needs the name of its map, with any ending.
        suffix: what the maps' names carry beyond the image's.
        map: where maps are counted.

    Raises:
        InputError: see ``nooch.readers.maps``; also a class list that cannot be read.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError("no such folder of label maps", where=folder)
    is_preset = str(classes) in MAP_VALUES
    names = map_values(str(classes)) if is_preset else _class_list(Path(classes))
    ignored = set(void) | set(_VOID.get(str(classes), ()))
    named = {value: name for value, name in names.items() if value not in ignored}
    counted = count_maps(folder, named, ignored, map, suffix=suffix)
    notes: list[str] = []
    file_names, root = _locate(counted, images, notes)
    frame = pl.DataFrame(
        {
            "image_id": counted.image_ids,
            "file_name": pl.Series(file_names, dtype=pl.String),
            "width": counted.sizes[:, 0],
            "height": counted.sizes[:, 1],
        }
    )
    return Dataset.build(
        frame,
        counted.classes,
        _fractions(counted),
        image_root=root,
        provenance={
            "reader": "label-maps",
            "area": "pixels",
            "sources": [{"role": "maps", "files": len(counted.stems), "sha256": _digest(counted)}],
            "classes": str(classes) if is_preset else Path(classes).name,
            "void": sorted(ignored),
            "notes": notes,
        },
    )


def _fractions(counted: CountedMaps) -> csr_array:
    areas = counted.pixels.astype(np.float64)
    areas.data /= np.repeat(counted.sizes.prod(axis=1).astype(np.float64), np.diff(areas.indptr))
    return areas


def _digest(counted: CountedMaps) -> str:
    # of what was read, not of the files: re-encoded maps with the same pixels count the same
    digest = hashlib.sha256("\0".join(counted.stems).encode())
    for array in (counted.sizes, counted.pixels.indptr, counted.pixels.indices, counted.pixels.data):
        digest.update(np.ascontiguousarray(array, dtype=np.int64).tobytes())
    return digest.hexdigest()


def _locate(counted: CountedMaps, images: str | Path | None, notes: list[str]) -> tuple[list[str | None], str | None]:
    if images is None:
        return [None] * len(counted.stems), None
    index = ImageIndex(images)
    found = [index.by_stem(stem) for stem in counted.stems]
    missing = [stem for stem, path in zip(counted.stems, found, strict=True) if path is None]
    if len(missing) == len(found):
        raise InputError(f"no image is called after a map, such as {some_of(missing, 2)}", where=images)
    if missing:
        notes.append(f"{len(missing)} of {len(found)} maps have no image below {images}: {some_of(missing)}")
    return found, str(index.root.resolve())


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
