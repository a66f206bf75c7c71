"""Old names of what ``nooch.data.store`` writes: always part files."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import polars as pl

from nooch.data.dataset import Dataset
from nooch.data.store import PartRecord, _check_part, seal_dataset, write_table
from nooch.data.store import write_part as write_part_of
from nooch.errors import InputError
from nooch.files import DATASET_MARKER, atomic_folder

__all__ = ["PartRecord", "save_shards", "seal_shards", "write_images", "write_part"]

seal_shards = seal_dataset


def save_shards(
    parts: Iterable[Dataset],
    folder: str | Path,
    *,
    overwrite: bool = False,
    progress: Callable[[int], None] = lambda _done: None,
) -> Path:
    """Old name of ``save_dataset`` of parts."""
    with atomic_folder(folder, overwrite=overwrite, marker=DATASET_MARKER) as partial:
        first, last, records = None, None, []
        for number, part in enumerate(parts):
            first = first or part
            last = _check_part(first, part, last, number)
            records.append(write_part(part, partial, number))
            progress(number + 1)
        if first is None:
            raise InputError("a dataset in parts needs one part at least")
        seal_dataset(partial, records, first.classes, first.image_root, first.provenance)
    return Path(folder)


def write_part(part: Dataset, folder: Path, number: int) -> PartRecord:
    """Old name."""
    return write_part_of(part, folder, number, 2)


def write_images(images: pl.DataFrame, folder: Path, number: int) -> Path:
    """Old name of ``write_table``."""
    return write_table(images, folder, "images", number, 2)
