"""Arrays on disk with a row for each image: written in blocks, resumable, hashed.

A folder has the array (``NAME.npy``), ``images.parquet`` (the image of each row) and a header,
which is written last. While it is made, everything is in ``.FOLDER.building``: the array and a
journal of the blocks that are done, each with its hash. A killed process leaves that, and the next
one verifies those blocks and makes the others only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import msgspec
import numpy as np
import polars as pl
from blake3 import blake3
from numpy.typing import NDArray

from nooch.base.disk import sync
from nooch.base.errors import Command, FormatError, InputError, NoochError, ParameterError, some_of
from nooch.base.files import check_output, replacing, sha256_of, write_folder, writing
from nooch.base.limits import usable_cpus
from nooch.base.version import __version__
from nooch.base.work_folder import Journal, check_space, held, key_of, remove_folder
from nooch.data import Dataset, load_header, parquet_bytes, read_table, sealed_header
from nooch.data.arrays import read_array
from nooch.data.table_schema import Column, Schema, check_columns

IMAGES = "images.parquet"


class ArrayHeader(msgspec.Struct, frozen=True, kw_only=True):
    """Header of every such folder.

    Attributes:
        dataset: fingerprint of the dataset that it was made of.
        images: SHA-256 of ``images.parquet``.
        shape: of the array; a row for each image.
        block: rows in a block, the last one may have fewer.
        blocks: BLAKE3 of each block's bytes.
        made: how it was made; two arrays with the same are the same.
    """

    format: str
    version: int
    nooch: str
    dataset: str
    images: str
    shape: tuple[int, ...]
    dtype: str
    block: int
    blocks: list[str]
    made: dict[str, Any]


@dataclass(frozen=True)
class ArrayKind:
    """A kind of array folder: its name, the version of its format, the command that makes it."""

    name: str
    version: int
    make: Command

    @property
    def marker(self) -> str:
        """The header's file name."""
        return f"{self.name}.json"

    @property
    def array(self) -> str:
        """The array's file name."""
        return f"{self.name}.npy"


@dataclass
class Unfinished:
    """An array that is being made, in blocks of ``block`` rows; ``journal`` and ``done`` have the
    hashes of those that are there.
    """

    journal: Journal
    array: Path
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    block: int
    offset: int
    done: dict[int, str] = field(default_factory=dict)

    @property
    def todo(self) -> list[int]:
        """Numbers of the blocks that are missing."""
        return [b for b in range(-(-self.shape[0] // self.block)) if b not in self.done]

    def rows(self, number: int) -> slice:
        """The rows of a block."""
        return slice(number * self.block, min((number + 1) * self.block, self.shape[0]))

    def offset_of(self, number: int) -> int:
        """Offset of a block in the array's file, in bytes."""
        row = int(np.prod(self.shape[1:])) * self.dtype.itemsize
        return self.offset + number * self.block * row

    def record(self, number: int, digest: str) -> None:
        """Note that a block is written; what is noted is not made again."""
        self.journal.add((number, digest))
        self.done[number] = digest


def block_hash(block: NDArray[Any]) -> str:
    """BLAKE3 of a block's bytes, in hexadecimal."""
    return blake3(np.ascontiguousarray(block).data.cast("B")).hexdigest()


def write_block(file: Path, offset: int, block: NDArray[Any]) -> str:
    """Write a block at a byte of an array file, as several processes can, and return its hash."""
    with file.open("r+b", buffering=0) as stream:
        stream.seek(offset)
        rest = np.ascontiguousarray(block).data.cast("B")
        while rest:
            rest = rest[stream.write(rest) :]
    return block_hash(block)


@contextmanager
def making(
    folder: str | Path,
    kind: ArrayKind,
    data: Dataset,
    made: Mapping[str, Any],
    *,
    shape: tuple[int, ...],
    dtype: str,
    block: int,
    overwrite: bool = False,
) -> Iterator[Unfinished]:
    """Yield the array to fill; if the block ends without an error, the folder gets its name. Raises
    OutputError: the folder exists, cannot be written, is too large, or is being made.
    """
    path = check_output(folder, overwrite=overwrite, marker=kind.marker)
    work = path.with_name(f".{path.name}.building")
    plan = {"shape": shape, "dtype": dtype, "block": block, "made": made}
    plan["dataset"] = data.fingerprint
    with held(work, "making it"), writing(path):
        unfinished = _begin(work, plan)
        yield unfinished
        if unfinished.todo:
            problem = f"{len(unfinished.todo)} blocks are missing"
            raise NoochError(problem, where=path, remedy="run again")
        # on disk before it moves: afterwards a kill would cost all of it
        sync(unfinished.array)
        with write_folder(path, overwrite=overwrite, marker=kind.marker) as partial:
            images = data.images.select("image_id", "file_name")
            (partial / IMAGES).write_bytes(parquet_bytes(images))
            unfinished.array.replace(partial / kind.array)
            header = ArrayHeader(
                format=f"nooch-{kind.name}",
                version=kind.version,
                nooch=__version__,
                dataset=data.fingerprint,
                images=sha256_of(partial / IMAGES),
                shape=shape,
                dtype=dtype,
                block=block,
                blocks=[unfinished.done[number] for number in range(len(unfinished.done))],
                made=dict(made),
            )
            (partial / kind.marker).write_bytes(sealed_header(header))
        remove_folder(work)


def _begin(work: Path, plan: dict[str, Any]) -> Unfinished:
    """The array of an earlier process with the same plan, or a new one."""
    key, shape, dtype = key_of(plan), tuple(plan["shape"]), np.dtype(plan["dtype"])
    array, journal = work / f"{key}.npy", Journal(work / f"{key}.jsonl", tuple[int, str])
    for left in work.glob("[!.]*"):
        if left not in (array, journal.file):
            left.unlink()
    if not array.is_file():
        check_space(work.parent, int(np.prod(shape)) * dtype.itemsize, "the array")
        with replacing(array) as partial:
            np.lib.format.open_memmap(partial, mode="w+", dtype=dtype, shape=shape)
    mapped: np.memmap[Any, Any] = np.lib.format.open_memmap(array, mode="r")
    unfinished = Unfinished(journal, array, shape, dtype, plan["block"], int(mapped.offset))
    for number, digest in journal.entries():
        if block_hash(mapped[unfinished.rows(number)]) == digest:
            unfinished.done[number] = digest
    return unfinished


_IMAGES: Schema = {
    "image_id": Column(
        (pl.Int64, pl.String), "each id once", wrong=lambda ids: ids.is_duplicated()
    ),
    "file_name": Column((pl.String,), "names of files, null where unknown", nulls=True),
}


_NPY_START = 10
"""Bytes before the description in an ``.npy`` file: what it is, version, length."""


@dataclass(frozen=True, eq=False)
class MappedRows:
    """An array on disk, seen through a dataset: row i belongs to the dataset's image i.

    Attributes:
        folder: of the array.
        header: how it was made.
        array: memory map of the whole array; its rows follow the dataset that it was made of.
        rows: int64 (n_images,), for each image of the dataset its row in ``array``.
    """

    folder: Path
    header: ArrayHeader
    array: NDArray[Any]
    rows: NDArray[np.int64]

    @classmethod
    def load_as(cls, folder: str | Path, data: Dataset, kind: ArrayKind, *, verify: bool) -> Self:
        """Open a folder of a kind; see ``PixelCache.load`` and ``load_features``."""
        path = Path(folder)
        header, images, array = open_array(path, kind, verify=verify)
        return cls(path, header, array, _rows(path, images, data, kind))

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def identity(self) -> str:
        """BLAKE3 over the hashes of contents and images: equal for folders of equal content."""
        parts = self.header.images, self.header.dtype, str(self.header.shape), *self.header.blocks
        return blake3("\n".join(parts).encode()).hexdigest()

    @cached_property
    def _is_whole(self) -> bool:
        return np.array_equal(self.rows, np.arange(len(self.array)))

    def batch(self, rows: NDArray[Any], out: NDArray[Any] | None = None) -> NDArray[Any]:
        """A copy of some images' rows, (m, ...) in the order asked for, written into ``out`` if
        given. Raises ParameterError: a position that the dataset does not have.
        """
        rows = np.asarray(rows)
        if rows.size and (rows.min() < 0 or rows.max() >= len(self.rows)):
            allowed = f"0 to {len(self.rows) - 1}"
            raise ParameterError(f"row {rows.max()} or {rows.min()}", allowed=allowed)
        # checked above: only with "clip" does numpy copy straight into the result
        taken: NDArray[Any] = np.take(self.array, self.rows[rows], axis=0, out=out, mode="clip")
        return taken

    def matrix(self) -> NDArray[Any]:
        """All rows in the order of the dataset: the map itself where possible, else a copy."""
        return self.array if self._is_whole else self.batch(np.arange(len(self.rows)))


def open_array(
    folder: Path, kind: ArrayKind, *, verify: bool
) -> tuple[ArrayHeader, pl.DataFrame, NDArray[Any]]:
    """Header, table of images and memory map of a folder; ``verify`` compares all hashes.

    Raises FormatError: no such folder, of a newer version, incomplete or altered.
    """
    again = f"make it again with nooch {kind.make.path}"
    header = load_header(
        folder / kind.marker,
        ArrayHeader,
        name=kind.name,
        version=kind.version,
        make=kind.make,
        again=again,
    )
    images = _images(folder, header, again)
    array = _map(folder / kind.array, header, again)
    if verify:
        _verify(array, header, folder / kind.array, again)
    return header, images, array


def _images(folder: Path, header: ArrayHeader, again: str) -> pl.DataFrame:
    file = folder / IMAGES
    if not file.is_file() or sha256_of(file) != header.images:
        raise FormatError(f"{IMAGES} is missing or altered", where=folder, remedy=again)
    stored = check_columns(read_table(file), _IMAGES, file, again)
    if stored.height != header.shape[0]:
        problem = f"{IMAGES} has {stored.height} images, the header {header.shape[0]}"
        raise FormatError(problem, where=folder, remedy=again)
    return stored


def _rows(folder: Path, stored: pl.DataFrame, data: Dataset, kind: ArrayKind) -> NDArray[np.int64]:
    expected = data.images.select("image_id", "file_name")
    if stored["image_id"].dtype != expected["image_id"].dtype:
        as_text = pl.col("image_id").cast(pl.String)
        stored, expected = stored.with_columns(as_text), expected.with_columns(as_text)
    stored = stored.select("image_id", stored="file_name", row=pl.int_range(pl.len()))
    matched = expected.join(stored, on="image_id", how="left", maintain_order="left")
    # an id may mean another image in another dataset
    differs = pl.col("file_name").ne_missing(pl.col("stored"))
    other = matched.filter(pl.col("row").is_null() | differs)
    if other.height:
        lacking = f"{other.height} of {len(data)} images: {some_of(other['image_id'])}"
        allowed = f"{kind.name} of a dataset with these images, by the same ids and names"
        raise InputError(f"contains no {kind.name} of {lacking}", where=folder, allowed=allowed)
    return matched["row"].cast(pl.Int64).to_numpy()


def _map(file: Path, header: ArrayHeader, again: str) -> NDArray[Any]:
    try:
        array = read_array(file, mapped=True)
    except InputError as error:
        raise FormatError(error.problem, where=file, remedy=again) from error
    count = -(-header.shape[0] // max(1, header.block))
    form = array.shape, str(array.dtype), count
    if form != (header.shape, header.dtype, len(header.blocks)):
        problem = f"has shape {array.shape} {array.dtype}, unlike its header"
        raise FormatError(problem, where=file, remedy=again)
    # a plain array over the same map: the class of maps costs time with every look-up
    return np.asarray(array)


def _verify(array: NDArray[Any], header: ArrayHeader, file: Path, again: str) -> None:
    about = f"{{'descr': {array.dtype.str!r}, 'fortran_order': False, 'shape': {array.shape}, }}"
    with file.open("rb") as stream:
        described = stream.read(file.stat().st_size - array.nbytes)[_NPY_START:]
    if not re.fullmatch(re.escape(about).encode() + rb" *\n", described):
        raise FormatError("was altered: its description", where=file, remedy=again)
    starts = range(0, len(array), header.block)
    with ThreadPoolExecutor(usable_cpus()) as pool:
        hashes = pool.map(lambda start: block_hash(array[start : start + header.block]), starts)
        pairs = zip(starts, hashes, header.blocks, strict=True)
        altered = [start for start, digest, recorded in pairs if digest != recorded]
    if altered:
        problem = f"{len(altered)} blocks have another hash, from row {altered[0]} on"
        raise FormatError(f"was altered: {problem}", where=file, remedy=again)
