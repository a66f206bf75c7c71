"""The files of a dataset folder: ``dataset.json`` lists them, and each is checked against that when
it is read.

A dataset of one part is one file per table: ``images.parquet``, ``areas.parquet``,
``captions.parquet``, ``exceptions.parquet``, ``confidences.parquet``, ``objects.parquet``,
``embeddings/NAME.npy``. A dataset of several parts is a folder of part files per table:
``images/part-0000000.parquet`` and on, ``embeddings/NAME/part-0000000.npy``. Part k of every table
is about the same images, and every image id in it is above all ids of earlier parts. How a dataset
is divided does not change its fingerprint.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.sparse import csr_array

from nooch.base.errors import Command, FormatError, InputError, unreadable
from nooch.base.files import DATASET_MARKER, inside, place, read_bytes, sha256_of, sha256_once
from nooch.data.arrays import load_embedding
from nooch.data.coverage import KNOWN, UNKNOWN, pairs_matrix, rows_of
from nooch.data.objects import stored_objects
from nooch.data.table_files import load_header, read_table, table_of
from nooch.data.table_schema import (
    ALL,
    AREAS,
    CAPTIONS,
    CONFIDENCES,
    EXCEPTIONS,
    IMAGES,
    IMPORT_AGAIN,
    KINDS,
    OBJECTS,
    SPLITS,
    Schema,
    check_columns,
    dataset_error,
    is_ascending,
    type_name,
)

FORMAT_VERSION = 3
"""Version 3 has objects; without them version 2 is written. In version 1 every class counts as
annotated.
"""

_TABLES = ("images", "areas", "captions", "exceptions", "confidences", "objects")


class FileRecord(msgspec.Struct, frozen=True):
    """Size and hash of one file of the folder."""

    sha256: str
    bytes: int


class FileRecords(msgspec.Struct, frozen=True):
    """Name of each file in a folder -> its size and hash."""

    files: dict[str, FileRecord]


class Header(msgspec.Struct, frozen=True):
    """Contents of ``dataset.json``."""

    format: str
    version: int
    nooch: str
    fingerprint: str
    n_images: int
    splits: dict[str, int]
    classes: list[str]
    image_root: str | None
    provenance: dict[str, Any]
    files: dict[str, FileRecord]
    kinds: dict[str, str] = {}


def read_header(folder: str | Path) -> Header:
    """The header of a folder. Raises FormatError: missing, broken or of another version."""
    return load_header(
        inside(place(folder), DATASET_MARKER),
        Header,
        name="dataset",
        version=FORMAT_VERSION,
        make=Command("import auto"),
        again=IMPORT_AGAIN,
    )


@dataclass(frozen=True)
class PartFiles:
    """Files of some parts of a dataset folder. Tables are joined over these parts; small, so that
    it can travel to workers.

    Attributes:
        folder: path or address of the dataset.
        header: contents of ``dataset.json``.
        parts: for each part, table or ``embeddings/NAME`` -> file name in the folder.
        whole: whether these are all parts.
    """

    folder: str | Path
    header: Header
    parts: tuple[Mapping[str, str], ...]
    whole: bool = True

    def only(self, number: int) -> Self:
        """The files of one part.

        Raises FormatError if the parts together have another number of images than recorded;
        at an address, where each file would have to be fetched for it, that is not checked.
        """
        if isinstance(self.folder, Path) and len(self.parts) > 1:
            self._check_count(sum(self.rows))
        return replace(self, parts=(self.parts[number],), whole=len(self.parts) == 1)

    @cached_property
    def rows(self) -> tuple[int, ...]:
        """Number of images of each part in a folder of this machine, from the ends of the files.

        Raises FormatError if a file is missing, has another size or cannot be read.
        """
        # heavy, and needed only for several parts
        import pyarrow as pa
        import pyarrow.parquet as pq

        counts = []
        for file in (part["images"] for part in self.parts):
            check_file(self.folder, file, self.header.files[file], hashed=False)
            where = inside(self.folder, file)
            broken = (pa.ArrowException, OSError)
            with unreadable(where, errors=broken, kind=FormatError, remedy=IMPORT_AGAIN):
                counts.append(pq.read_metadata(str(where)).num_rows)
        return tuple(counts)

    def _check_count(self, n_images: int) -> None:
        if n_images != self.header.n_images:
            problem = (
                f"images.parquet has {n_images} images, {DATASET_MARKER} records"
                f" {self.header.n_images}"
            )
            raise dataset_error(problem, self.folder)

    @property
    def embedding_names(self) -> tuple[str, ...]:
        """Names of the embeddings."""
        return tuple(
            kind.partition("/")[2] for kind in self.parts[0] if kind.startswith("embeddings/")
        )

    def has(self, table: str) -> bool:
        """True if there is such a table."""
        return table in self.parts[0]

    def images(self) -> pl.DataFrame:
        """The images of these parts, ascending by id."""
        images, where = self._table("images", IMAGES)
        if not is_ascending(images["image_id"]):
            raise dataset_error(
                "column image_id does not ascend", where, "each image once, sorted by id"
            )
        if self.whole:
            self._check_count(images.height)
        counts, recorded = dict(images["split"].value_counts().iter_rows()), self.header.splits
        mixed = ALL in counts and len(counts) > 1
        if mixed or counts.keys() - recorded.keys() or (self.whole and counts != recorded):
            raise dataset_error(
                f"column split has {_listed(counts)}, {DATASET_MARKER} records {_listed(recorded)}",
                where,
                f"{', '.join(SPLITS)}, or {ALL} for every image",
            )
        return images

    def areas(self, images: pl.DataFrame) -> csr_array:
        """Areas as CSR float64 (n_images, n_classes); ``images`` are the images of these parts."""
        return self._numbers("areas", AREAS, images)

    def captions(self, images: pl.DataFrame) -> pl.DataFrame | None:
        """Captions as a table, or None if there are none."""
        if not self.has("captions"):
            return None
        return self._by_image("captions", CAPTIONS, images)[0]

    def exceptions(self, images: pl.DataFrame) -> csr_array | None:
        """Exceptions as CSR int8 (n_images, n_classes), or None if there are none."""
        if not self.has("exceptions"):
            return None
        table, where = self._table("exceptions", EXCEPTIONS)
        values = np.where(table["known"].to_numpy(), KNOWN, UNKNOWN).astype(np.int8)
        return pairs_matrix(table, values, images["image_id"], self.header.classes, where)

    def confidences(self, images: pl.DataFrame) -> csr_array | None:
        """Confidences as CSR float64 (n_images, n_classes), or None if there are none."""
        if not self.has("confidences"):
            return None
        return self._numbers("confidences", CONFIDENCES, images)

    def objects(self, images: pl.DataFrame) -> pl.DataFrame | None:
        """Objects as a table, or None if there are none."""
        if not self.has("objects"):
            return None
        table, where = self._by_image("objects", OBJECTS, images)
        return stored_objects(table, self.header.classes, where)

    def _by_image(
        self, kind: str, schema: Schema, images: pl.DataFrame
    ) -> tuple[pl.DataFrame, str | Path]:
        """A table with any number of rows for each image, in their order; and its path."""
        table, where = self._table(kind, schema)
        if (np.diff(rows_of(table["image_id"], images["image_id"], where)) < 0).any():
            raise dataset_error("column image_id is not in order", where, f"{kind} sorted by image")
        return table, where

    def _numbers(self, kind: str, schema: Schema, images: pl.DataFrame) -> csr_array:
        """A table of pairs by its last column."""
        table, where = self._table(kind, schema)
        values = table[list(schema)[-1]].to_numpy()
        return pairs_matrix(table, values, images["image_id"], self.header.classes, where)

    def embeddings(
        self, images: pl.DataFrame, reads: Collection[str] | None = None
    ) -> dict[str, NDArray[Any]]:
        """Embeddings by name, those in ``reads`` or all: float (n_images, d); one file: mapped."""
        names = [
            name for name in self.embedding_names if reads is None or f"embeddings/{name}" in reads
        ]
        return {name: self._embedding(f"embeddings/{name}", images.height) for name in names}

    def check_others(self) -> None:
        """Raise FormatError if a listed file that belongs to no table is missing or altered."""
        for part in self.parts:
            for kind, name in part.items():
                if kind not in _TABLES and not kind.startswith("embeddings/"):
                    check_file(self.folder, name, self.header.files[name], hashed=True)

    def _table(self, kind: str, schema: Schema) -> tuple[pl.DataFrame, str | Path]:
        """A table joined over the parts, and its path: a file, or the folder of its part files."""
        files = [part[kind] for part in self.parts]
        where = inside(self.folder, files[0] if len(files) == 1 else kind)
        tables = [
            check_columns(self._open(file), schema, inside(self.folder, file), IMPORT_AGAIN)
            for file in files
        ]
        first = tables[0].schema
        for file, table in zip(files, tables, strict=True):
            for name in {**first, **table.schema}:
                if table.schema.get(name) != first.get(name):
                    raise dataset_error(
                        f"column {name} is {type_name(table.schema.get(name))}, and"
                        f" {type_name(first.get(name))} in {files[0]}",
                        inside(self.folder, file),
                        "the same columns and types in every part",
                    )
        return pl.concat([table.select(list(first)) for table in tables]), where

    def _open(self, name: str) -> pl.DataFrame:
        """One of the folder's Parquet files, its size and hash checked."""
        content = check_file(self.folder, name, self.header.files[name], hashed=True)
        where = inside(self.folder, name)
        try:
            return read_table(str(where)) if content is None else table_of(content, where)
        except InputError as error:
            raise dataset_error(error.problem, where) from error

    def _embedding(self, kind: str, n_images: int) -> NDArray[Any]:
        """An embedding: mapped if it is one file, else read and joined."""
        files = [part[kind] for part in self.parts]
        if len(files) == 1:
            return _open_embedding(self.folder, self.header, files[0], n_images)
        parts = [_open_embedding(self.folder, self.header, file, None) for file in files]
        rows = sum(len(values) for values in parts)
        if rows != n_images or len({(values.shape[1], values.dtype) for values in parts}) > 1:
            raise dataset_error(
                f"{files[0]} and on have {rows} rows in {len(files)} parts, expected {n_images} of"
                " one length and type",
                self.folder,
            )
        return np.concatenate(parts)


def open_parts(folder: str | Path) -> PartFiles:
    """The files of a dataset folder; nothing but ``dataset.json`` is read."""
    folder = place(folder)
    header = read_header(folder)
    files_of: dict[str, dict[str, str]] = {}
    one_part = "images.parquet" in header.files
    for name in sorted(header.files):
        # of all parts: the list of broken images
        if not one_part and "/" not in name:
            continue
        table = re.sub(r"\.(parquet|npy)$", "", name)
        kind, _, part = (table, "", "") if one_part else table.rpartition("/")
        files_of.setdefault(part, {})[kind] = name
    parts = tuple(files_of[part] for part in sorted(files_of))
    tables = {frozenset(part) for part in parts}
    if len(tables) != 1 or not {"images", "areas"} <= set(parts[0]):
        missing = (
            "areas.parquet" if one_part else "images.parquet, nor the same tables for every part"
        )
        raise dataset_error(f"{DATASET_MARKER} does not list {missing}", folder)
    if header.kinds.keys() - set(header.classes) or set(header.kinds.values()) - set(KINDS):
        problem = f"{DATASET_MARKER} gives unknown kinds, or kinds of unknown classes"
        raise dataset_error(problem, folder, f"{' or '.join(KINDS)} for a class")
    return PartFiles(folder, header, parts)


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {counts[name]}" for name in sorted(counts))


def _open_embedding(
    folder: str | Path, header: Header, name: str, n_images: int | None
) -> NDArray[Any]:
    """One of the folder's embedding files, float (n, d); mapped, or read from an address.

    Its SHA-256 is checked when this process first opens the file, and again where the file has
    changed since.
    """
    record = header.files[name]
    content = check_file(folder, name, record, hashed=False)
    if isinstance(folder, Path) and sha256_once(folder / name) != record.sha256:
        raise _altered(folder, name)
    return load_embedding(folder, name, n_images, content)


def file_record(path: Path) -> FileRecord:
    """Hash and size of a file."""
    return FileRecord(sha256_of(path), path.stat().st_size)


def check_file(folder: str | Path, name: str, record: FileRecord, *, hashed: bool) -> bytes | None:
    """Raise a FormatError if a file is missing, or is not the one that was recorded."""
    if not isinstance(folder, Path):
        return _fetched(folder, name, record)
    path = folder / name
    try:
        inside = folder.resolve() in path.resolve().parents
        same_size = inside and path.is_file() and path.stat().st_size == record.bytes
    except (OSError, ValueError) as error:
        raise dataset_error(f"{DATASET_MARKER} names {name!r}: {error}", folder) from error
    # names come from a file: they must not lead out of the folder
    if not inside:
        raise _outside(folder, name)
    if not same_size:
        raise _resized(folder, name)
    if hashed and sha256_of(path) != record.sha256:
        raise _altered(folder, name)
    return None


def _fetched(folder: str | Path, name: str, record: FileRecord) -> bytes:
    # no path to resolve, and servers read much into a name: only a plain one is allowed
    if not _PLAIN.fullmatch(name):
        raise _outside(folder, name)
    try:
        content = read_bytes(inside(folder, name))
    except FileNotFoundError as error:
        raise _resized(folder, name) from error
    if len(content) != record.bytes:
        raise _resized(folder, name)
    if hashlib.sha256(content).hexdigest() != record.sha256:
        raise _altered(folder, name)
    return content


_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)*")


def _outside(folder: str | Path, name: str) -> FormatError:
    problem = f"{DATASET_MARKER} names a file outside the folder: {name}"
    return FormatError(problem, where=folder, allowed="files of the folder")


def _resized(folder: str | Path, name: str) -> FormatError:
    problem = f"{name} is missing, or its size differs from the one in {DATASET_MARKER}"
    return dataset_error(problem, folder)


def _altered(folder: str | Path, name: str) -> FormatError:
    problem = f"{name} was altered: its SHA-256 is not the one in {DATASET_MARKER}"
    return dataset_error(problem, folder)
