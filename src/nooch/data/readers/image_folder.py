"""Image folders -> Dataset: a folder of images for each class, optionally below a folder per
split.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from blake3 import blake3

from nooch.base.calls import Map, StepProgress
from nooch.base.errors import InputError, some_of
from nooch.base.split_plan import SplitPlan
from nooch.base.words import counted
from nooch.data.readers.image_files import FolderWalk, list_images
from nooch.data.readers.image_rows import ScannedRows, write_rows
from nooch.data.splits import SPLIT_NAMES
from nooch.data.table_schema import class_name


@dataclass(frozen=True)
class FolderReading:
    """The reading of images in a folder for each class, as classifiers are trained from.

    An image shows the class of its folder, with unknown area, and none of the other classes. Where
    all folders below ``source`` are called after splits (train, val, test, ...), classes are the
    folders below these. An image's id is its path relative to ``source``. Images in no folder of a
    class are left out, with a note.
    """

    source: str | Path

    def files(self) -> list[tuple[str, Path]]:
        """The folder."""
        return [("images", Path(self.source))]

    def check(self, plan: SplitPlan | None) -> None:
        """Raises InputError if there is no such folder."""
        del plan  # which columns there are is known when the folder is listed
        if not Path(self.source).is_dir():
            raise InputError("no such folder of images", where=self.source)

    def dependencies(self) -> list[Any]:
        """The names of all images."""
        return [str(self.source), _digest(sorted(list_images(self.source)))]

    def scan(
        self, folder: Path, map: Map, progress: StepProgress, part_size: int | None = None
    ) -> ScannedRows:
        """List the images. Raises InputError if none is in a folder of a class."""
        del map, part_size
        walk = FolderWalk()
        paths = sorted(list_images(self.source, walk))
        rows = _rows(paths, self.source)
        classes = rows["keys"].explode().unique().sort().to_list()
        source = {"role": "images", "file": Path(self.source).name, "images": rows.height}
        notes = ["an image shows only the class of its folder; areas are unknown"]
        if left := len(paths) - rows.height:
            some = some_of(sorted({*paths} - {*rows["file_name"]}))
            notes.append(f"left out {counted(left, 'image')} outside folders of classes: {some}")
        about = {
            "reader": "image-folder",
            "area": "unknown",
            "sources": [{**source, "blake3": _digest(paths)}],
            "notes": [*notes, *walk.notes()],
        }
        written = write_rows(rows, folder)
        progress(1, 1)
        names = {name: name for name in classes}
        return ScannedRows(written, names, about, self.source, root=self.source)


def _digest(paths: list[str]) -> str:
    return blake3("\0".join(paths).encode(errors="surrogateescape")).hexdigest()


def _rows(paths: list[str], source: str | Path) -> pl.DataFrame:
    """Rows of ``ScannedRows``, with a split if there are folders of splits."""
    tops = {path.split("/")[0].lower() for path in paths if "/" in path}
    divided = bool(tops) and tops <= set(SPLIT_NAMES)
    depth = 2 if divided else 1
    loose = [path for path in paths if path.count("/") < depth]
    if len(loose) == len(paths):
        problem = f"no image is in a folder of a class: {some_of(loose)}" if loose else "no images"
        allowed = "SOURCE/CLASS/image.jpg, or SOURCE/train/CLASS/image.jpg for each split"
        raise InputError(problem, where=source, allowed=allowed)
    paths = sorted({*paths} - {*loose})
    parts = [path.split("/") for path in paths]
    rows = {
        "image_id": paths,
        "file_name": paths,
        **({"split": [SPLIT_NAMES[f[0].lower()] for f in parts]} if divided else {}),
        "keys": [[class_name(folders[depth - 1])] for folders in parts],
        "areas": [[math.nan]] * len(paths),
    }
    return pl.DataFrame(rows).sort("image_id")
