"""A dataset folder in parts: ``images/``, ``areas/``, ``captions/``, ``exceptions/`` and ``embeddings/NAME/`` hold part files by image.

Part k of every table is about the same images, and every image id in it is above those of the parts before. Parts are
read one at a time, so that nothing needs the whole dataset in memory. ``dataset.json`` is that of a folder in one piece,
with the same fingerprint: how a dataset is divided is no part of what it says.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePosixPath

import numpy as np

from nooch.data.checks import ALL
from nooch.data.dataset import Dataset
from nooch.data.pairs import areas_matrix, exceptions_matrix
from nooch.data.store import (
    Header,
    is_read,
    load_dataset,
    open_embedding,
    open_table,
    read_header,
    tables_of,
)
from nooch.errors import FormatError, ParameterError
from nooch.files import DATASET_MARKER, Place, place

__all__ = ["ShardedDataset", "divide", "open_shards"]

_TABLES = ("images", "areas", "captions", "exceptions")
_AGAIN = "write the dataset again"


@dataclass(frozen=True)
class ShardedDataset:
    """A dataset folder of which a part is read when it is asked for. A folder in one piece has one part.

    Attributes:
        folder: where it lies, a path or an address.
        header: contents of ``dataset.json``.
        parts: for each part, table or ``embeddings/NAME`` -> file name in the folder.
    """

    folder: Place
    header: Header
    parts: tuple[Mapping[str, str], ...]

    def __len__(self) -> int:
        return len(self.parts)

    def __repr__(self) -> str:
        return f"ShardedDataset({self.header.n_images} images in {len(self)} parts, {len(self.classes)} classes)"

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes."""
        return tuple(self.header.classes)

    @property
    def splits(self) -> dict[str, int]:
        """Number of images in each split that has any."""
        return self.header.splits

    @property
    def fitting_split(self) -> str:
        """The split that criteria are fitted on: train, or all in a dataset without splits."""
        return ALL if set(self.splits) == {ALL} else "train"

    def load(self, number: int, *, reads: Collection[str] | None = None) -> Dataset:
        """Read one part, checking sizes and hashes of its files.

        Args:
            number: of the part.
            reads: what is read beside images and areas, of ``captions`` and ``embeddings/NAME``; everything by default.

        Raises:
            FormatError: files that are missing, altered, or about other images.
            InputError: a file at an address that cannot be fetched.
        """
        if not self.in_parts:
            return load_dataset(self.folder, reads=reads)
        files = {kind: name for kind, name in self.parts[number].items() if is_read(kind, reads)}
        tables = {kind: open_table(self.folder, self.header, name) for kind, name in files.items() if kind in _TABLES}
        images, captions = tables["images"], tables.get("captions")
        for table in (tables["areas"], captions, tables.get("exceptions")):
            if table is not None and not table["image_id"].unique().is_in(images["image_id"].implode()).all():
                raise FormatError(f"part {number} has rows of images that it does not hold", where=self.folder)
        embeddings = {
            kind.partition("/")[2]: open_embedding(self.folder, self.header, name, images.height)
            for kind, name in files.items()
            if kind not in _TABLES
        }
        about = images, self.header.classes, self.folder
        return Dataset(
            images,
            self.classes,
            areas_matrix(tables["areas"], *about),
            captions,
            embeddings,
            self.header.image_root,
            self.header.provenance,
            self.header.kinds,
            exceptions_matrix(tables["exceptions"], *about) if "exceptions" in tables else None,
        )

    @property
    def in_parts(self) -> bool:
        """Whether its tables come in part files."""
        return self.parts != (_WHOLE,)

    @property
    def embeddings(self) -> tuple[str, ...]:
        """Names of the embeddings that it has."""
        return tuple(kind.partition("/")[2] for kind in tables_of(self.header) if kind.startswith("embeddings/"))


_WHOLE: Mapping[str, str] = {"images": "images.parquet"}


def open_shards(folder: str | Place) -> ShardedDataset:
    """A dataset folder, in one piece or in parts, without reading its tables.

    Args:
        folder: a folder of this machine, or an address such as ``s3://bucket/data`` (see ``nooch.files.place``).

    Raises:
        FormatError: no dataset, a newer version, or parts that do not belong together.
        InputError, ParameterError, MissingExtraError: an address that cannot be used or gives nothing.
    """
    folder = place(folder)
    header = read_header(folder)
    if "images.parquet" in header.files:
        return ShardedDataset(folder, header, (_WHOLE,))
    found: dict[str, dict[str, str]] = {}
    for name in header.files:
        kind, _, part = name.rpartition("/")
        found.setdefault(PurePosixPath(part).stem, {})[kind] = name
    parts = [found[part] for part in sorted(found)]
    if not parts or any(set(part) != set(parts[0]) for part in parts) or not {"images", "areas"} <= set(parts[0]):
        raise FormatError(
            f"{DATASET_MARKER} does not list images.parquet, nor the same tables for every part",
            where=folder,
            remedy=_AGAIN,
        )
    return ShardedDataset(folder, header, tuple(parts))


def divide(data: Dataset, parts: int) -> Iterator[Dataset]:
    """A dataset as ``parts`` of about as many images each, in the order of image ids.

    Raises:
        ParameterError: fewer than one part, or more parts than images.
    """
    if not 1 <= parts <= max(1, len(data)):
        raise ParameterError(f"{parts} parts of {len(data)} images", allowed=f"1 to {max(1, len(data))}")
    edges = np.linspace(0, len(data), parts + 1).astype(np.int64)
    return (data.select(rows=np.arange(a, b)) for a, b in pairwise(edges.tolist()))
