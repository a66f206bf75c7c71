"""Image folders -> Dataset: a folder of images for each class, perhaps below a folder per split."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from blake3 import blake3
from scipy.sparse import csr_array

from nooch.base.calls import Map, StepProgress
from nooch.base.errors import InputError, some_of
from nooch.base.split_plan import SplitPlan
from nooch.data.dataset import Dataset, ImageId
from nooch.data.readers.contract import ImageListing, in_range, read
from nooch.data.readers.image_files import FolderWalk, list_images
from nooch.data.splits import SPLIT_NAMES
from nooch.data.table_schema import class_name

_COLUMNS = ("image_id", "split", "class")


def read_image_folder(source: str | Path, *, map: Map = builtins.map) -> Dataset:
    """Images in a folder for each class, as classifiers are trained from.

    An image shows the class of its folder, with unknown area, and none of the other classes. Where
    all folders below ``source`` are called after splits (train, val, test, ...), classes are the
    folders below these. An image's id is its path relative to ``source``.
    """
    return read(FolderReading(source), map=map)


@dataclass(frozen=True)
class FolderReading:
    """The reading of an image folder; the attribute is the parameter of ``read_image_folder``."""

    source: str | Path

    def files(self) -> list[tuple[str, Path]]:
        """The folder."""
        return [("images", Path(self.source))]

    def check(self, plan: SplitPlan | None) -> None:
        """Raises InputError where there is no such folder."""
        del plan  # which columns there are is known when the folder is listed
        if not Path(self.source).is_dir():
            raise InputError("no such folder of images", where=self.source)

    def dependencies(self) -> list[Any]:
        """The names of all images."""
        names = "\0".join(sorted(list_images(self.source)))
        return [str(self.source), blake3(names.encode(errors="surrogateescape")).hexdigest()]

    def scan(
        self, folder: Path, map: Map, progress: StepProgress, part_size: int | None = None
    ) -> ScannedFolder:
        """List the images. Raises as ``read_image_folder`` does."""
        del map, part_size
        walk = FolderWalk()
        paths = sorted(list_images(self.source, walk))
        rows = _rows(paths, self.source)
        file = folder / "image-folder.parquet"
        rows.write_parquet(file)
        progress(1, 1)
        classes = rows["class"].unique().sort().to_list()
        divided = rows["split"].null_count() == 0
        return ScannedFolder(self, file, classes, divided, walk.notes())


def _rows(paths: list[str], source: str | Path) -> pl.DataFrame:
    """Image ids, splits (null without split folders) and classes, sorted by id."""
    parts = [path.split("/") for path in paths]
    tops = {folders[0].lower() for folders in parts if len(folders) > 1}
    divided = bool(tops) and tops <= set(SPLIT_NAMES)
    depth = 2 if divided else 1
    loose = [path for path, folders in zip(paths, parts, strict=True) if len(folders) <= depth]
    if loose or not paths:
        problem = f"images lie in no folder of a class: {some_of(loose)}" if loose else "no images"
        raise InputError(
            problem,
            where=source,
            allowed="SOURCE/CLASS/image.jpg, or SOURCE/train/CLASS/image.jpg for each split",
        )
    return pl.DataFrame(
        {
            "image_id": paths,
            "split": [SPLIT_NAMES[f[0].lower()] if divided else None for f in parts],
            "class": [class_name(folders[depth - 1]) for folders in parts],
        },
        schema=dict.fromkeys(_COLUMNS, pl.String),
    ).sort("image_id")


@dataclass(frozen=True)
class ScannedFolder:
    """A listed image folder: ids, splits (null unless ``divided``) and classes, sorted by id; and
    notes.
    """

    reading: FolderReading
    file: Path
    classes: list[str]
    divided: bool
    notes: list[str]

    def ids(self) -> pl.Series:
        """Ids of all images."""
        return pl.read_parquet(self.file, columns=["image_id"], glob=False)["image_id"]

    def read(
        self, low: ImageId | None, high: ImageId | None, images: ImageListing | None
    ) -> tuple[Dataset, dict[str, int]]:
        """The images with ``low <= id < high``; there is nothing to count."""
        del images  # the folder is that of the images
        rows = pl.scan_parquet(self.file, glob=False).filter(in_range("image_id", low, high))
        table = rows.collect()
        columns = table["class"].replace_strict(
            {name: number for number, name in enumerate(self.classes)}, return_dtype=pl.Int64
        )
        areas = csr_array(
            (np.full(table.height, np.nan), columns.to_numpy(), np.arange(table.height + 1)),
            shape=(table.height, len(self.classes)),
        )
        unknown = pl.lit(None, pl.Int64)
        frame = table.select(
            "image_id",
            pl.col("image_id").alias("file_name"),
            unknown.alias("width"),
            unknown.alias("height"),
            *(["split"] if self.divided else []),
        )
        root = str(Path(self.reading.source).resolve())
        return Dataset.build(frame, self.classes, areas, image_root=root), {}

    def provenance(
        self, counts: Mapping[str, int], n_images: int, images: object
    ) -> dict[str, Any]:
        """Where the dataset comes from."""
        del counts, images
        name, digest = Path(self.reading.source).name, self.reading.dependencies()[1]
        source = {"role": "images", "file": name, "images": n_images, "blake3": digest}
        note = "an image shows the class of its folder and no other; areas are unknown"
        return {
            "reader": "image-folder",
            "area": "unknown",
            "sources": [source],
            "notes": [note, *self.notes],
        }
