"""A dataset folder in parts: ``images/``, ``areas/``, ``captions/`` and ``embeddings/NAME/`` hold part files by image.

Part k of every table is about the same images, and every image id in it is above those of the parts before. Parts are
read one at a time, so that nothing needs the whole dataset in memory. ``dataset.json`` is that of a folder in one piece,
with the same fingerprint: how a dataset is divided is no part of what it says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from blake3 import blake3
from numpy.typing import NDArray

from nooch.data.checks import ALL, SPLITS
from nooch.data.dataset import Dataset, column_bytes
from nooch.data.header import encode_header
from nooch.data.store import (
    FORMAT_VERSION,
    Header,
    areas_matrix,
    areas_table,
    check_file,
    file_record,
    load_dataset,
    load_embedding,
    read_header,
)
from nooch.data.tables import read_table
from nooch.errors import FormatError, InputError, ParameterError
from nooch.files import DATASET_MARKER, atomic_folder
from nooch.version import __version__

__all__ = ["ShardedDataset", "divide", "open_shards", "save_shards"]

_TABLES = ("images", "areas", "captions")
_AGAIN = "write the dataset again"


@dataclass(frozen=True)
class ShardedDataset:
    """A dataset folder of which a part is read when it is asked for. A folder in one piece has one part.

    Attributes:
        folder: where it lies.
        header: contents of ``dataset.json``.
        parts: for each part, table or ``embeddings/NAME`` -> file name in the folder.
    """

    folder: Path
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

    def load(self, number: int) -> Dataset:
        """Read one part, checking sizes and hashes of its files (embeddings: sizes only).

        Raises:
            FormatError: files that are missing, altered, or about other images.
        """
        if self.parts[number] == _WHOLE:
            return load_dataset(self.folder)
        files = self.parts[number]
        for kind, name in files.items():
            check_file(self.folder, name, self.header.files[name], hashed=kind in _TABLES)
        images = read_table(self.folder / files["images"])
        areas = read_table(self.folder / files["areas"])
        captions = read_table(self.folder / files["captions"]) if "captions" in files else None
        for table in (areas, captions):
            if table is not None and not table["image_id"].unique().is_in(images["image_id"].implode()).all():
                raise FormatError(f"part {number} has rows of images that it does not hold", where=self.folder)
        embeddings = {
            kind.partition("/")[2]: load_embedding(self.folder, name, images.height)
            for kind, name in files.items()
            if kind not in _TABLES
        }
        matrix = areas_matrix(areas, images, self.header.classes, self.folder)
        return Dataset(
            images, self.classes, matrix, captions, embeddings, self.header.image_root, self.header.provenance
        )


_WHOLE: Mapping[str, str] = {"images": "images.parquet"}


def open_shards(folder: str | Path) -> ShardedDataset:
    """A dataset folder, in one piece or in parts, without reading its tables.

    Raises:
        FormatError: no dataset, a newer version, or parts that do not belong together.
    """
    folder = Path(folder)
    header = read_header(folder)
    if "images.parquet" in header.files:
        return ShardedDataset(folder, header, (_WHOLE,))
    found: dict[str, dict[str, str]] = {}
    for name in header.files:
        kind, _, part = name.rpartition("/")
        found.setdefault(Path(part).stem, {})[kind] = name
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


def save_shards(
    parts: Iterable[Dataset],
    folder: str | Path,
    *,
    overwrite: bool = False,
    progress: Callable[[int], None] = lambda _done: None,
) -> Path:
    """Write a dataset folder in parts, one for each dataset that comes, whole or not at all; one is in memory at a time.

    Args:
        parts: with the same classes, columns and embeddings; the image ids of each lie above those of the one before.
        folder: where to write.
        overwrite: replace a dataset folder that exists.
        progress: called with how many parts are written.

    Raises:
        InputError: no part, or parts that do not fit together.
        OutputError: the folder exists (and ``overwrite`` is false) or cannot be written.
    """
    with atomic_folder(folder, overwrite=overwrite, marker=DATASET_MARKER) as partial:
        first: Dataset | None = None
        last: Any = None
        splits: dict[str, int] = {}
        sizes: list[NDArray[Any]] = []
        for number, part in enumerate(parts):
            first = first or part
            last = _check_part(first, part, last, number)
            for name, count in part.splits.items():
                splits[name] = splits.get(name, 0) + count
            per_image = np.diff(part.areas.indptr)
            sizes.append(per_image.astype(np.min_scalar_type(int(per_image.max(initial=0)))))
            _write_part(part, partial, f"part-{number:07d}")
            progress(number + 1)
        if first is None:
            raise InputError("a dataset in parts needs one part at least")
        if ALL in splits and len(splits) > 1:
            raise InputError(
                f"some parts have splits, others {ALL}", allowed=f"{', '.join(SPLITS)}, or {ALL} in every part"
            )
        files = {f.relative_to(partial).as_posix(): file_record(f) for f in sorted(partial.rglob("*")) if f.is_file()}
        header = Header(
            format="nooch-dataset",
            version=FORMAT_VERSION,
            nooch=__version__,
            fingerprint=_fingerprint(partial, first, sizes),
            n_images=sum(map(len, sizes)),
            splits={name: splits[name] for name in (*SPLITS, ALL) if name in splits},
            classes=list(first.classes),
            image_root=first.image_root,
            provenance=dict(first.provenance),
            files=files,
        )
        (partial / DATASET_MARKER).write_bytes(encode_header(header))
    return Path(folder)


def _check_part(first: Dataset, part: Dataset, last: Any, number: int) -> Any:
    """The part's largest id; InputError where it does not go on from the parts before."""
    where = f"part {number}"
    if not len(part):
        raise InputError("has no image", where=where, allowed="one image at least")
    for what, same in (
        ("classes", part.classes == first.classes),
        ("columns of images", part.images.schema == first.images.schema),
        ("captions", (part.captions is None) == (first.captions is None)),
        (
            "embeddings",
            {k: v.shape[1] for k, v in part.embeddings.items()} == {k: v.shape[1] for k, v in first.embeddings.items()},
        ),
    ):
        if not same:
            raise InputError(f"has other {what} than part 0", where=where, allowed="the same in every part")
    ids = part.images["image_id"]
    if last is not None and not last < ids[0]:
        raise InputError(
            f"begins with image {ids[0]!r}, and the part before ends with {last!r}",
            where=where,
            allowed="ids that ascend from part to part",
        )
    return ids[-1]


def _write_part(part: Dataset, folder: Path, name: str) -> None:
    tables = {"images": part.images, "areas": areas_table(part), "captions": part.captions}
    for kind, table in tables.items():
        if table is not None:
            (folder / kind).mkdir(exist_ok=True)
            table.write_parquet(folder / kind / f"{name}.parquet", compression="lz4")
    for kind, values in part.embeddings.items():
        (folder / "embeddings" / kind).mkdir(parents=True, exist_ok=True)
        np.save(folder / "embeddings" / kind / f"{name}.npy", values, allow_pickle=False)


def _fingerprint(folder: Path, first: Dataset, sizes: list[NDArray[Any]]) -> str:
    """``Dataset.fingerprint`` of the whole, from one column of one part at a time."""
    digest = blake3()
    for name, kind in first.images.schema.items():
        digest.update(f"{name}\0{kind}\0".encode())
        _add_column(digest, folder / "images", name)
    digest.update("\0".join(first.classes).encode())
    digest.update(np.zeros(1, np.int64).tobytes())
    before = 0
    for counts in sizes:
        ends = before + np.cumsum(counts, dtype=np.int64)
        digest.update(ends.tobytes())
        before = int(ends[-1])
    for part in _columns(folder / "areas", "class"):
        digest.update(part.to_physical().cast(pl.Int64).to_numpy().tobytes())
    for part in _columns(folder / "areas", "area"):
        digest.update(part.to_numpy().tobytes())
    for name in () if first.captions is None else first.captions.columns:
        _add_column(digest, folder / "captions", name)
    return digest.hexdigest()


def _columns(folder: Path, name: str) -> Iterator[pl.Series]:
    return (pl.read_parquet(path, columns=[name], glob=False)[name] for path in sorted(folder.iterdir()))


def _add_column(digest: Any, folder: Path, name: str) -> None:
    """What ``column_bytes`` gives for the whole column, in pieces: it goes by the kind of column, and joins texts."""
    kinds = [(part.dtype, part.null_count() > 0) for part in _columns(folder, name)]
    kind, nulls = kinds[0][0], any(missing for _, missing in kinds)
    if kind.is_numeric() and not nulls:
        separator, opening, closing = b"", b"", b""
    elif kind.is_nested() or kind in (pl.Binary, pl.Object):
        separator, opening, closing = b", ", b"[", b"]"
    else:
        separator, opening, closing = b"\0", b"", b""
    digest.update(opening)
    begun = False
    for part in _columns(folder, name):
        if not len(part):
            continue
        digest.update(separator if begun else b"")
        # a part without nulls of a column with some is text too
        text = part.cast(pl.String) if kind.is_numeric() and nulls else part
        digest.update(column_bytes(text).removeprefix(opening).removesuffix(closing) if opening else column_bytes(text))
        begun = True
    digest.update(closing)
