"""Arrays on disk with a row for each image: written in blocks, resumable, hashed.

A folder has the array (``NAME.npy``), ``images.parquet`` (the image of each row) and a header,
which is written last. While it is made, everything is in ``.FOLDER.building``: the array and a list
of the blocks that are done, each with its hash. A killed process leaves that, and the next one
verifies those blocks and makes the others only.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from nooch.base.disk import sync
from nooch.base.errors import NoochError
from nooch.base.files import atomic_folder, check_output, replace_file, sha256_of, writing
from nooch.base.version import __version__
from nooch.base.work_folder import check_space, held, remove_folder
from nooch.data import Dataset, sealed_header

__all__ = ["ArrayHeader", "ArrayKind", "Unfinished", "block_hash", "making", "write_block"]

IMAGES = "images.parquet"


class ArrayHeader(msgspec.Struct, frozen=True, kw_only=True):
    """What the header of every such folder has.

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
    make: str

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
    """An array that is being made in ``work``, in blocks of ``block`` rows; ``done`` has the hashes
    of those that are there.
    """

    work: Path
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
        """Where a block starts in the array's file, in bytes."""
        row = int(np.prod(self.shape[1:])) * self.dtype.itemsize
        return self.offset + number * self.block * row

    def record(self, number: int, digest: str) -> None:
        """Note that a block is written; what is noted is not made again."""
        with (self.work / "blocks.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps([number, digest]) + "\n")
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
        unfinished = _begin(work, kind, json.loads(json.dumps(plan)))
        yield unfinished
        if unfinished.todo:
            problem = f"{len(unfinished.todo)} blocks are missing"
            raise NoochError(problem, where=path, remedy="run again")
        # on disk before it moves: afterwards a kill would cost all of it
        sync(unfinished.array)
        with atomic_folder(path, overwrite=overwrite, marker=kind.marker) as partial:
            data.images.select("image_id", "file_name").write_parquet(partial / IMAGES)
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


def _begin(work: Path, kind: ArrayKind, plan: dict[str, Any]) -> Unfinished:
    """The array of an earlier process with the same plan, or a new one."""
    array, noted, blocks = work / kind.array, work / "plan.json", work / "blocks.jsonl"
    shape, dtype = tuple(plan["shape"]), np.dtype(plan["dtype"])
    if not _same(noted, plan) or not array.is_file():
        for file in (noted, blocks, array):
            file.unlink(missing_ok=True)
        check_space(work.parent, int(np.prod(shape)) * dtype.itemsize, "the array")
        np.lib.format.open_memmap(array, mode="w+", dtype=dtype, shape=shape)
        sync(array)
        replace_file(noted, json.dumps(plan).encode())
    mapped: np.memmap[Any, Any] = np.lib.format.open_memmap(array, mode="r")
    unfinished = Unfinished(work, array, shape, dtype, plan["block"], int(mapped.offset))
    for number, digest in _recorded(blocks):
        if block_hash(mapped[unfinished.rows(number)]) == digest:
            unfinished.done[number] = digest
    return unfinished


def _same(noted: Path, plan: dict[str, Any]) -> bool:
    try:
        return bool(json.loads(noted.read_bytes()) == plan)
    except (OSError, ValueError):
        return False


def _recorded(file: Path) -> Iterator[tuple[int, str]]:
    """Blocks that were noted; a line that a kill cut short is none."""
    for line in file.read_bytes().splitlines() if file.is_file() else []:
        try:
            number, digest = json.loads(line)
        except ValueError:
            continue
        yield int(number), str(digest)
