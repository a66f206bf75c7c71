"""Old name of a dataset that is opened."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from nooch.data.dataset import Dataset, divide
from nooch.data.part_files import Header, PartFiles, open_parts
from nooch.files import Place

__all__ = ["ShardedDataset", "divide", "open_shards"]


@dataclass(frozen=True)
class ShardedDataset:
    """Old name of what ``open_dataset`` gives; its length is the number of parts."""

    folder: Place
    header: Header
    parts: tuple[Mapping[str, str], ...]

    def __len__(self) -> int:
        return len(self.parts)

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
        """The split that criteria are fitted on."""
        return self._data.fitting_split

    def load(self, number: int, *, reads: Collection[str] | None = None) -> Dataset:
        """Old name of ``Dataset.part``."""
        return self._data.part(number, reads)

    @property
    def _data(self) -> Dataset:
        return Dataset.stored(PartFiles(self.folder, self.header, self.parts))

    @property
    def in_parts(self) -> bool:
        """Whether its tables come in part files."""
        return self.parts[0]["images"] != "images.parquet"

    @property
    def embeddings(self) -> tuple[str, ...]:
        """Names of the embeddings that it has."""
        return self._data.embedding_names


def open_shards(folder: str | Place) -> ShardedDataset:
    """Old name of ``open_dataset``."""
    files = open_parts(folder)
    return ShardedDataset(files.folder, files.header, files.parts)
