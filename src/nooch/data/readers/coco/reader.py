"""COCO-format annotations -> Dataset: things, stuff (or its pixel maps) and captions by image.

This module is light on purpose: files are being read by workers before Polars and SciPy are
imported here.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nooch.base.calls import Map, StepProgress
from nooch.base.errors import ParameterError
from nooch.base.split_plan import SplitPlan
from nooch.data.readers.coco.decoder import SLICE
from nooch.data.readers.coco.rows import ScannedFile, keyed, scan_files
from nooch.data.readers.cocostuff import map_values

if TYPE_CHECKING:
    import polars as pl

    from nooch.data.dataset import Dataset, ImageId
    from nooch.data.readers.coco.merge import StuffMaps
    from nooch.data.readers.contract import ImageListing


Paths = Sequence[str | Path]


@dataclass(frozen=True)
class CocoReading:
    """COCO-format files, joined by image.

    Areas are the sums of the annotations' ``area`` (crowds too) over height x width; a mask is
    decoded only where ``area`` is missing. Category 183 ``other`` is not a class. Images without
    annotations stay.

    Attributes:
        things: ``instances_*.json`` files of different images, such as train2017 and val2017.
        stuff: ``stuff_*.json`` files, joined to the things by image id.
        captions: ``captions_*.json`` files; captions of images that no other file lists are left
            out and counted.
        stuff_maps: folder of pixel maps (one PNG for each image) to count the stuff in, instead of
            ``stuff``.
        stuff_map_values: ``cocostuff`` (value = category id - 1, 255 unlabeled) or ``pixelmaps``
            (value = category id).
        slice_size: bytes that are decoded at once.
        splits: the splits of the images of each file of things, if its name tells them.
    """

    things: Paths = ()
    stuff: Paths = ()
    captions: Paths = ()
    stuff_maps: str | Path | None = None
    stuff_map_values: str = "cocostuff"
    slice_size: int = SLICE
    splits: Sequence[str] = ()

    def __post_init__(self) -> None:
        for role in ("things", "stuff", "captions"):
            given: Paths | str | Path = getattr(self, role)
            if isinstance(given, str | Path):
                object.__setattr__(self, role, (given,))

    def files(self) -> list[tuple[str, Path]]:
        """The files, and the folder of maps."""
        maps = () if self.stuff_maps is None else (self.stuff_maps,)
        roles = (
            ("things", self.things),
            ("stuff", self.stuff),
            ("captions", self.captions),
            ("maps", maps),
        )
        return [(role, Path(path)) for role, paths in roles for path in paths]

    def check(self, plan: SplitPlan | None) -> None:
        """Raises ParameterError for parameters that do not fit, or an unusable group."""
        if not self.things and not self.stuff:
            raise ParameterError(
                "no annotation file was given", give=({"things": ...}, {"stuff": ...})
            )
        if self.stuff and self.stuff_maps is not None:
            raise ParameterError(
                "`stuff` and `stuff_maps` exclude each other: each gives the areas of stuff",
                give=({"stuff": None}, {"stuff_maps": None}),
            )
        stuff = {Path(path).absolute() for path in self.stuff}
        for path in self.things:
            if Path(path).absolute() in stuff:
                remedy = "give it once: as things if it contains both"
                raise ParameterError("is both things and stuff", where=path, remedy=remedy)
        map_values(self.stuff_map_values)
        if plan is not None and plan.group is not None:
            import polars as pl

            from nooch.data.splits import group_names
            from nooch.data.table_schema import CORE_COLUMNS

            # these files give images no other columns
            group_names(pl.DataFrame(schema=dict.fromkeys(CORE_COLUMNS, pl.String)), plan.group)

    def dependencies(self) -> list[Any]:
        """The pieces that files are cut into, and the maps."""
        words: list[Any] = [self.slice_size, *self.splits]
        if self.stuff_maps is not None:
            from nooch.data.readers.image_rows import listed_digest
            from nooch.data.readers.map_pixels import list_maps

            words += [self.stuff_map_values, listed_digest(list_maps(Path(self.stuff_maps)))]
        return words

    def scan(
        self, folder: Path, map: Map, progress: StepProgress, part_size: int | None = None
    ) -> ScannedCoco:
        """Rows of all files.

        Raises:
            InputError: a file that cannot be read, is truncated or of another structure, or
                contains ids, sizes or areas that are not allowed; images that two things files
                share, sizes or category names that disagree between files, and unsafe file names.
        """
        del part_size  # rows are sorted by image id, so that any part's rows are found
        sources = [(role, path) for role, path in self.files() if role != "maps"]
        files, texts = keyed(scan_files(sources, folder, self.slice_size, map, progress))
        from nooch.data.readers.coco.merge import class_categories

        # errors of categories come before errors of rows
        classes = list(class_categories([(file.role, file) for file in files]))
        maps = None
        if self.stuff_maps is not None:
            from nooch.data.readers.coco.merge import scan_stuff_maps

            image_ids = ScannedCoco(files, classes, None).numbers().to_numpy()
            maps = scan_stuff_maps(
                Path(self.stuff_maps), self.stuff_map_values, image_ids, folder, map, progress
            )
            classes = list(dict.fromkeys([*classes, *maps.classes]))
        return ScannedCoco(files, classes, maps, self.splits, texts)


@dataclass(frozen=True)
class ScannedCoco:
    """Rows of COCO files on disk; ``classes`` are their categories, in order, plus the maps'
    classes. Ids of images are positions in ``texts``, if there are any.
    """

    files: list[ScannedFile]
    classes: list[str]
    maps: StuffMaps | None
    splits: Sequence[str] = ()
    texts: list[str] | None = None
    broken: Sequence[Any] = ()

    def ids(self) -> pl.Series:
        """Ids of all images that things and stuff files list."""
        return self._named(self.numbers())

    def _named(self, numbers: pl.Series) -> pl.Series:
        import polars as pl

        if self.texts is None:
            return numbers
        return pl.Series(numbers.name, self.texts, pl.String).gather(numbers)

    def numbers(self) -> pl.Series:
        """Ids of all images as numbers."""
        import polars as pl

        # one file at a time: only the ids of all images stay in memory
        ids = pl.Series("image_id", [], pl.Int64)
        for file in self.files:
            if file.role != "captions":
                ids = pl.concat([ids, pl.Series("image_id", file.ids())]).unique()
        return ids.sort()

    def read(
        self, low: ImageId | None, high: ImageId | None, images: ImageListing | None
    ) -> tuple[Dataset, dict[str, int]]:
        """The images with ``low <= id < high``. Raises InputError as ``scan`` of the reading."""
        import polars as pl

        from nooch.data.readers.coco.merge import merge

        first, last = (
            None
            if end is None
            else int(end)
            if self.texts is None
            else bisect_left(self.texts, end)
            for end in (low, high)
        )
        things = [file for file in self.files if file.role == "things"]
        # without any annotation of a thing, it is known that images have none
        bare = bool(things) and not any(file.annotations for file in things)
        parsed = [
            (
                file.role,
                file.read(
                    first, last, images, bare=bare and file.role == "things", texts=self.texts
                ),
            )
            for file in self.files
        ]
        if self.maps is not None:
            parsed.append(("maps", self.maps.read(first, last)))
        texts = None if self.texts is None else pl.Series(self.texts, dtype=pl.String)
        data, counts = merge(parsed, images, texts)
        return (self._divided(data) if self.splits else data), counts

    def _divided(self, data: Dataset) -> Dataset:
        """With the split of the file of things, without any of stuff, that lists each image; train
        without one.
        """
        import polars as pl

        role = min((file.role for file in self.files), key=["things", "stuff", "captions"].index)
        split = pl.lit("train")
        listing = [file for file in self.files if file.role == role]
        for file, name in zip(listing, self.splits, strict=True):
            listed = self._named(pl.Series("image_id", file.ids()))
            split = (
                pl.when(pl.col("image_id").is_in(listed.implode()))
                .then(pl.lit(name))
                .otherwise(split)
            )
        return replace(data, images=data.images.with_columns(split=split))

    def provenance(
        self, counts: Mapping[str, int], n_images: int, images: object
    ) -> dict[str, Any]:
        """Sources, licenses, and notes of what was counted."""
        from nooch.data.readers.coco.merge import merged_provenance

        return merged_provenance(self.files, counts, n_images, images)
