"""Counting the pixels of each class in label maps (one 8- or 16-bit image for each photograph)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.sparse import csr_array

from nooch.data import identifiers
from nooch.errors import InputError, some_of
from nooch.readers.opening import LABEL_MAPS, UNREADABLE, opened_image
from nooch.shared_types import Map

__all__ = ["CountedMaps", "Maps", "count_listed", "count_maps", "list_maps"]

_BATCH = 64
_ENDINGS = (".png", ".bmp", ".tif", ".tiff")
_MODES = {"1", "L", "P", "I;16", "I;16B", "I"}


@dataclass(frozen=True)
class Maps:
    """Maps and their images.

    Attributes:
        image_ids: from the file names (integers where all are written in digits).
        files: their paths.
        stems: file names without ending, nor what they carry beyond the image's.
    """

    image_ids: pl.Series
    files: list[str]
    stems: list[str]


@dataclass(frozen=True)
class CountedMaps:
    """Pixel counts of a folder of maps, sorted by image id.

    Attributes:
        image_ids: from the file names (integers where all are written in digits).
        stems: file names without ending.
        sizes: int64 (n, 2), width and height in pixels.
        classes: names in the order of the columns of ``pixels``.
        pixels: int64 CSR (n, n_classes).
    """

    image_ids: pl.Series
    stems: list[str]
    sizes: NDArray[np.int64]
    classes: list[str]
    pixels: csr_array


def count_maps(
    folder: Path, names: Mapping[int, str], ignored: Collection[int], map: Map, *, suffix: str = ""
) -> CountedMaps:
    """Count the pixels of every class in every map of a folder.

    Args:
        folder: holds the maps, directly or in folders below.
        names: pixel value -> class name.
        ignored: values that mean no class (void, unlabelled).
        map: where batches of files are counted.
        suffix: what the maps' names carry beyond the image's, such as ``_labelIds``.

    Raises:
        InputError: no map, a file that is no single-channel image, or a value that means nothing.
    """
    return count_listed(list_maps(folder, suffix), names, ignored, map)


def list_maps(folder: Path, suffix: str = "") -> Maps:
    """The maps below a folder, in the order of their names. Raises InputError where there is none, or two for an image."""
    files = sorted(
        str(p) for p in folder.rglob("*") if p.suffix.lower() in _ENDINGS and p.stem.endswith(suffix) and p.is_file()
    )
    if not files:
        raise InputError("holds no label maps", where=folder, allowed=f"files ending in {', '.join(_ENDINGS)}")
    stems = [Path(file).stem.removesuffix(suffix) for file in files]
    ids = identifiers(stems)
    if ids.n_unique() != len(ids):
        raise InputError(
            f"several maps have the same name: {some_of(ids.filter(ids.is_duplicated()).unique())}", where=folder
        )
    return Maps(ids, files, stems)


def count_listed(maps: Maps, names: Mapping[int, str], ignored: Collection[int], map: Map) -> CountedMaps:
    """As ``count_maps``, of maps that are listed already."""
    files = [Path(file) for file in maps.files]
    batches = [files[i : i + _BATCH] for i in range(0, len(files), _BATCH)]
    counted = [result for batch in map(_count_batch, batches) for result in batch]
    return _assemble(files, maps.stems, maps.image_ids, counted, names, ignored)


def _assemble(
    files: list[Path],
    stems: list[str],
    ids: pl.Series,
    counted: list[tuple[tuple[int, int], NDArray[np.int64], NDArray[np.int64]]],
    names: Mapping[int, str],
    ignored: Collection[int],
) -> CountedMaps:
    classes = list(names.values())
    column = {value: position for position, value in enumerate(names)}
    rows, columns, pixels = [], [], []
    for row, (_, values, counts) in enumerate(counted):
        for value, count in zip(values.tolist(), counts.tolist(), strict=True):
            if value in column:
                rows.append(row)
                columns.append(column[value])
                pixels.append(count)
            elif value not in ignored:
                raise InputError(
                    f"{count} pixels have value {value}, which is no class",
                    where=files[row],
                    allowed=f"{some_of(sorted(names), 8)}; ignored: {some_of(sorted(ignored)) or 'none'}",
                    remedy="add the value to the class list, or name it with --void",
                )
    matrix = csr_array((np.array(pixels, np.int64), (rows, columns)), shape=(len(files), len(classes)))
    order = ids.arg_sort().to_numpy()
    sizes = np.array([size for size, _, _ in counted], dtype=np.int64)[order]
    return CountedMaps(ids[order], [stems[i] for i in order], sizes, classes, matrix[order])


def _count_batch(files: list[Path]) -> list[tuple[tuple[int, int], NDArray[np.int64], NDArray[np.int64]]]:
    return [_count(file) for file in files]


def _count(file: Path) -> tuple[tuple[int, int], NDArray[np.int64], NDArray[np.int64]]:
    """Size of a map, the values in it, and how many pixels have each."""
    try:
        with opened_image(file, LABEL_MAPS) as image:
            mode, size = image.mode, image.size
            pixels = np.asarray(image if mode in _MODES else ())
    except UNREADABLE as error:
        raise InputError(f"cannot be read as an image: {error}", where=file) from error
    if mode not in _MODES:
        raise InputError(f"is a {mode} image", where=file, allowed="one channel of class values (modes L, P, I, I;16)")
    if pixels.dtype.itemsize == 1:
        counts = np.bincount(pixels.ravel(), minlength=256)
        values = np.flatnonzero(counts)
        return size, values, counts[values]
    values, counts = np.unique(pixels, return_counts=True)
    return size, values.astype(np.int64), counts.astype(np.int64)
