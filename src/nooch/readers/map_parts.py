"""Label maps in parts: each part is counted by the worker that puts it together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
from blake3 import blake3
from scipy.sparse import csr_array

from nooch.data import Dataset, ImageId
from nooch.errors import InputError
from nooch.files import replace_file
from nooch.plans import SplitPlan
from nooch.readers.label_maps import (
    MapClasses,
    counted_dataset,
    digest_of,
    located_notes,
    map_classes,
    maps_provenance,
)
from nooch.readers.maps import CountedMaps, Maps, count_listed, list_maps
from nooch.readers.parts import as_given, in_range, listed_index
from nooch.shared_types import Map, StepProgress

__all__ = ["MapReading", "ScannedMaps"]


@dataclass(frozen=True)
class MapReading:
    """The import of label maps in parts; the attributes are parameters of ``read_label_maps``."""

    folder: Path
    class_list: str | Path
    void: Sequence[int] = ()
    suffix: str = ""

    def files(self) -> list[tuple[str, Path]]:
        """The folder, and the list of classes where it is a file."""
        listed = Path(self.class_list)
        return [("maps", self.folder), *([("classes", listed)] if listed.is_file() else [])]

    def check(self, plan: SplitPlan | None) -> None:
        """Raises InputError where there is no folder or no list of classes. Maps have no columns: groups are told later."""
        del plan
        map_classes(self.folder, self.class_list, self.void)

    def words(self) -> list[Any]:
        """The maps, by name, size and time, and what is read in them."""
        digest = blake3()
        for file in list_maps(self.folder, self.suffix).files:
            try:
                stat = Path(file).stat()
            except OSError as error:
                raise InputError(f"cannot be read: {error.strerror}", where=file) from error
            digest.update(f"{file}\0{stat.st_size}\0{stat.st_mtime_ns}\0".encode(errors="surrogateescape"))
        return [str(self.class_list), list(self.void), self.suffix, digest.hexdigest()]

    def scan(self, folder: Path, map: Map, progress: StepProgress) -> ScannedMaps:
        """List the maps. Raises InputError as ``read_label_maps`` does."""
        del map  # maps are counted where their part is put together
        maps = list_maps(self.folder, self.suffix)
        table = pl.DataFrame({"id": maps.image_ids, "file": maps.files, "stem": maps.stems}).sort("id")
        table.with_row_index("row").write_parquet(folder / "maps.parquet", row_group_size=1 << 13)
        progress(1, 1)
        return ScannedMaps(folder, Path.cwd(), map_classes(self.folder, self.class_list, self.void))


class _Counted(msgspec.Struct):
    """What was counted in a part, beside the pixels."""

    stems: list[str]
    missing: int
    first: list[str]


@dataclass(frozen=True)
class ScannedMaps:
    """Maps, listed.

    Attributes:
        folder: where the list lies, and what is counted in each part.
        here: the folder that their paths are relative to, if they are.
        values: what values mean.
    """

    folder: Path
    here: Path
    values: MapClasses

    @property
    def classes(self) -> list[str]:
        """The classes of the list that are not void."""
        return list(self.values.names.values())

    def ids(self) -> pl.Series:
        """Images of all maps."""
        return pl.read_parquet(self.folder / "maps.parquet", columns=["id"], glob=False)["id"].alias("image_id")

    def read(
        self, low: ImageId | None, high: ImageId | None, images: Path | None, listing: Path | None
    ) -> tuple[Dataset, dict[str, int]]:
        """Count the maps of the images with ``low <= id < high``. Raises InputError as ``read_label_maps`` does."""
        rows = pl.scan_parquet(self.folder / "maps.parquet", glob=False).filter(in_range("id", low, high)).collect()
        files = [str(self.here / file) for file in rows["file"].to_list()]
        maps = Maps(rows["id"].alias("image_id"), files, rows["stem"].to_list())
        with as_given(zip(files, rows["file"].to_list(), strict=True)):
            counted = count_listed(maps, self.values.names, self.values.ignored, map)
        index = None
        if images is not None and listing is not None:
            stems = set(maps.stems)
            index = listed_index(images, listing, lambda name: name.rsplit(".", 1)[0] in stems)
        data, missing = counted_dataset(counted, index)
        self._keep(self.folder / f"counted-{rows['row'][0]:012d}", counted, missing)
        return data, {"files": len(missing)}

    def provenance(self, counts: Mapping[str, int], n_images: int, images: object) -> dict[str, Any]:
        """As ``read_label_maps`` gives it. Raises InputError where no map has an image."""
        digest, first = digest_of(self._counted), []
        for part in sorted(self.folder.glob("counted-*.msgpack")):
            first += _read(part).first
        notes = located_notes(first[:5], counts.get("files", 0), n_images, images)
        return maps_provenance(self.values, n_images, digest, notes)

    def _keep(self, stem: Path, counted: CountedMaps, missing: list[str]) -> None:
        """Keep what the hash over all parts is of; this is there when the part is, since it is written before."""
        pixels = counted.pixels
        with stem.with_suffix(".partial").open("wb") as file:
            np.savez(file, sizes=counted.sizes, indptr=pixels.indptr, indices=pixels.indices, data=pixels.data)
        stem.with_suffix(".partial").replace(stem.with_suffix(".npz"))
        about = _Counted(counted.stems, len(missing), missing[:5])
        replace_file(stem.with_suffix(".msgpack"), msgspec.msgpack.encode(about))

    def _counted(self) -> Iterator[CountedMaps]:
        """What was counted, part by part."""
        for file in sorted(self.folder.glob("counted-*.msgpack")):
            with np.load(file.with_suffix(".npz"), allow_pickle=False) as kept:
                shape = (len(kept["sizes"]), len(self.classes))
                pixels = csr_array((kept["data"], kept["indices"], kept["indptr"]), shape=shape)
                yield CountedMaps(pl.Series("image_id", []), _read(file).stems, kept["sizes"], self.classes, pixels)


def _read(file: Path) -> _Counted:
    return msgspec.msgpack.decode(file.read_bytes(), type=_Counted)
