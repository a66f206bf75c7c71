"""COCO files read in parts, as an import in parts asks for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from nooch.data import CORE_COLUMNS, Dataset, ImageId
from nooch.data.splits import group_names
from nooch.errors import ParameterError
from nooch.plans import SplitPlan
from nooch.readers.coco_files import RANGE, ScannedFile, scan_files
from nooch.readers.coco_merge import class_order, merged_provenance, notes_of
from nooch.readers.coco_parts import ids_of, read_part
from nooch.readers.coco_scan import SLICE
from nooch.readers.reading import ImageListing
from nooch.readers.spills import ALL_IDS
from nooch.shared_types import Map, StepProgress

__all__ = ["CocoReading", "ScannedCoco"]


@dataclass(frozen=True)
class CocoReading:
    """The import of COCO files in parts.

    Attributes:
        things: as for ``read_coco``.
        stuff: as for ``read_coco``.
        captions: as for ``read_coco``.
        range_size: bytes of a file that one job reads.
        slice_size: bytes that are decoded at once.
    """

    things: Sequence[str | Path] = ()
    stuff: Sequence[str | Path] = ()
    captions: Sequence[str | Path] = ()
    range_size: int = RANGE
    slice_size: int = SLICE
    stuff_maps: str | Path | None = None
    stuff_map_values: str = "cocostuff"

    def files(self) -> list[tuple[str, Path]]:
        """The files."""
        roles = (("things", self.things), ("stuff", self.stuff), ("captions", self.captions))
        return [(role, Path(path)) for role, paths in roles for path in paths]

    def check(self, plan: SplitPlan | None) -> None:
        """Raises a ParameterError where no file annotates images, and for groups by what is no column and no pattern."""
        if not self.things and not self.stuff:
            raise ParameterError("no annotation file was given", allowed="--things, --stuff, or both")
        if plan is not None and plan.group is not None:
            # these files give images no other columns
            group_names(pl.DataFrame(schema=dict.fromkeys(CORE_COLUMNS, pl.String)), plan.group)

    def words(self) -> list[Any]:
        """How files are cut."""
        return [self.range_size, self.slice_size]

    def scan(self, folder: Path, map: Map, progress: StepProgress) -> ScannedCoco:
        """Rows of all files. Raises InputError as ``read_coco`` does."""
        sizes = {"range_size": self.range_size, "slice_size": self.slice_size}
        files = scan_files(self.files(), folder, map=map, progress=progress, **sizes)
        # categories that do not fit together are told before rows are looked at
        return ScannedCoco(files, class_order([(file.role, file) for file in files]))


@dataclass(frozen=True)
class ScannedCoco:
    """Rows of COCO files on disk.

    Attributes:
        files: the files.
        classes: their categories, in order.
    """

    files: list[ScannedFile]
    classes: list[str]

    def ids(self) -> pl.Series:
        """Ids of all images that things and stuff files list."""
        return pl.Series("image_id", ids_of(self.files))

    def read(
        self, low: ImageId | None, high: ImageId | None, images: ImageListing | None
    ) -> tuple[Dataset, dict[str, int]]:
        """The images with ``low <= id < high``. Raises InputError as ``read_coco`` does."""
        first, last = (end if given is None else int(given) for given, end in zip((low, high), ALL_IDS, strict=True))
        return read_part(self.files, first, last, images)

    def provenance(self, counts: Mapping[str, int], n_images: int, images: Any) -> dict[str, Any]:
        """As ``read_coco`` gives it."""
        notes = notes_of(counts, n_images, images)
        return merged_provenance([file.source for file in self.files], (file.licenses for file in self.files), notes)
