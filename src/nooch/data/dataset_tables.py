"""Tables of a dataset: in memory, or in a folder of parts and read when they are first used."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.sparse import csr_array

from nooch.base.files import Place
from nooch.data.part_files import Header, PartFiles

__all__ = ["DatasetTables", "replaced_columns"]

_STORED = ("images", "areas", "captions", "embeddings", "exceptions", "confidences")
"""Fields that a stored dataset reads when they are first used."""


@dataclass(frozen=True, eq=False)
class DatasetTables:
    """The fields of a Dataset, which says what they are. A dataset in memory has one part.

    A field of a stored dataset is set when it is first used: none has a default in the class.
    """

    images: pl.DataFrame
    classes: tuple[str, ...]
    areas: csr_array
    captions: pl.DataFrame | None = field(default_factory=lambda: None)
    embeddings: Mapping[str, NDArray[np.floating[Any]]] = field(default_factory=dict)
    image_root: str | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)
    kinds: Mapping[str, str] = field(default_factory=dict)
    exceptions: csr_array | None = field(default_factory=lambda: None)
    confidences: csr_array | None = field(default_factory=lambda: None)
    _files: ClassVar[PartFiles | None] = None

    def __post_init__(self) -> None:
        names = ("areas", "embeddings", "provenance", "kinds")
        self._set(**{name: getattr(self, name) for name in names})

    def _set(self, **values: Any) -> None:
        """Give fields their values, which are read-only from then on."""
        for name, value in values.items():
            if isinstance(value, csr_array):
                for array in (value.data, value.indices, value.indptr):
                    array.flags.writeable = False
            self.__dict__[name] = (
                MappingProxyType(dict(value)) if isinstance(value, Mapping) else value
            )

    @classmethod
    def stored(cls, files: PartFiles) -> Self:
        """The dataset of a folder. Each table is read, checked and joined when it is first used."""
        data, header = object.__new__(cls), files.header
        data._set(_files=files, classes=tuple(header.classes), image_root=header.image_root)
        data._set(provenance=header.provenance, kinds=header.kinds)
        return data

    # hidden from mypy, which would then accept any attribute
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """A table of a stored dataset that was not used before."""
            if self._files is None or name not in _STORED:
                raise AttributeError(f"a Dataset has no attribute {name!r}")
            read = getattr(self._files, name)
            self._set(**{name: read() if name == "images" else read(self.images)})
            return self.__dict__[name]

    def __reduce__(self) -> tuple[Any, ...]:
        # a stored dataset travels to workers without its tables
        if self._files is not None:
            return type(self).stored, (self._files,)
        values = (getattr(self, item.name) for item in fields(self))
        plain = (dict(value) if isinstance(value, Mapping) else value for value in values)
        return type(self), tuple(plain)

    def in_memory(self, reads: Collection[str] | None = None) -> Self:
        """The dataset with everything read and checked now; itself where it is in memory.

        Args:
            reads: read in addition to images and areas: ``captions``, ``confidences`` and
                ``embeddings/NAME``; everything by default.

        Raises:
            FormatError: files that are missing, altered, or hold what a dataset cannot.
            InputError: a file at an address that cannot be fetched.
        """
        if self._files is None:
            return self
        if reads is None:
            self._files.check_others()
        images = self._files.images()
        data = type(self)(
            images,
            self.classes,
            self._files.areas(images),
            self._files.captions(images) if reads is None or "captions" in reads else None,
            self._files.embeddings(images, reads),
            self.image_root,
            self.provenance,
            self.kinds,
            self._files.exceptions(images),
            self._files.confidences(images) if reads is None or "confidences" in reads else None,
        )
        if self._files.whole:
            # the files are those that it was computed of: they are checked by their hashes
            vars(data)["fingerprint"] = self._files.header.fingerprint
        return data

    @property
    def n_parts(self) -> int:
        """Number of parts, 1 in memory."""
        return 1 if self._files is None else len(self._files.parts)

    def part(self, number: int, reads: Collection[str] | None = None) -> Self:
        """One part, in memory; arguments and errors as for ``in_memory``."""
        if self._files is None:
            return self
        return self.stored(self._files.only(number)).in_memory(reads)

    def image_parts(self) -> Iterator[pl.DataFrame]:
        """``images`` of one part after the other; of a stored dataset nothing else is read."""
        if self._files is None:
            yield self.images
            return
        for number in range(self.n_parts):
            yield self._files.only(number).images()

    @property
    def folder(self) -> Place | None:
        """Path or address of a stored dataset; None in memory."""
        return None if self._files is None else self._files.folder

    @property
    def header(self) -> Header | None:
        """Contents of ``dataset.json`` of a stored dataset; None in memory."""
        return None if self._files is None else self._files.header

    @property
    def embedding_names(self) -> tuple[str, ...]:
        """Names of the embeddings."""
        return tuple(self.embeddings) if self._files is None else self._files.embedding_names

    @property
    def has_captions(self) -> bool:
        """Whether there is a table of captions."""
        return self.captions is not None if self._files is None else self._files.has("captions")


def replaced_columns(table: csr_array, by: csr_array, columns: NDArray[np.int64]) -> csr_array:
    """The entries of a table, but in these columns those of another, (n_images, len(columns))."""
    old, new = table.tocoo(), by.tocoo()
    kept = ~np.isin(old.col, columns)
    rows = np.concatenate([old.row[kept], new.row])
    at = np.concatenate([old.col[kept], columns[new.col]])
    values = np.concatenate([old.data[kept], new.data])
    return csr_array((values, (rows, at)), shape=table.shape)
