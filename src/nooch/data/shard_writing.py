"""Writing a dataset folder in parts, one part in memory at a time; ``nooch.data.shards`` says what such a folder is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
from blake3 import blake3
from numpy.typing import NDArray

from nooch.data.array_files import write_array
from nooch.data.checks import ALL, SPLITS
from nooch.data.coverage import ANNOTATED, COLUMN_OF_KIND
from nooch.data.dataset import Dataset, column_bytes, kind_bytes
from nooch.data.header import encode_header
from nooch.data.pairs import areas_table, exceptions_table
from nooch.data.store import FORMAT_VERSION, FileRecord, Header, file_record
from nooch.errors import InputError
from nooch.files import DATASET_MARKER, atomic_folder
from nooch.version import __version__

__all__ = ["PartRecord", "save_shards", "seal_shards", "write_images", "write_part"]


class PartRecord(msgspec.Struct):
    """What is known of a part once its files are written.

    Attributes:
        splits: number of images in each split that has any.
        sizes: number of classes of each image, as the bytes of an array of ``size_kind``.
        captions: rows of captions, or None where there is no such table.
        files: file name in the folder -> its size and hash.
        kinds: class -> thing or stuff.
    """

    splits: dict[str, int]
    sizes: bytes
    size_kind: str
    captions: int | None
    files: dict[str, FileRecord]
    kinds: dict[str, str]

    @property
    def per_image(self) -> NDArray[Any]:
        """Number of classes of each image: unsigned integers (n_images,)."""
        return np.frombuffer(self.sizes, self.size_kind)


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
        records: list[PartRecord] = []
        for number, part in enumerate(parts):
            first = first or part
            last = _check_part(first, part, last, number)
            records.append(write_part(part, partial, number))
            progress(number + 1)
        if first is None:
            raise InputError("a dataset in parts needs one part at least")
        seal_shards(partial, records, first.classes, first.image_root, first.provenance)
    return Path(folder)


def write_part(part: Dataset, folder: Path, number: int) -> PartRecord:
    """Write the files of one part; any process may do so. ``seal_shards`` makes a dataset of all."""
    written = [write_images(part.images, folder, number)]
    exceptions = None if part.exceptions is None else exceptions_table(part)
    for kind, table in {"areas": areas_table(part), "captions": part.captions, "exceptions": exceptions}.items():
        if table is not None:
            written.append(_write_table(table, folder, kind, number))
    for kind, values in part.embeddings.items():
        file = folder / "embeddings" / kind / f"{_name(number)}.npy"
        file.parent.mkdir(parents=True, exist_ok=True)
        write_array(file, values)
        written.append(file)
    per_image = np.diff(part.areas.indptr)
    sizes = per_image.astype(np.min_scalar_type(int(per_image.max(initial=0))))
    return PartRecord(
        part.splits,
        sizes.tobytes(),
        sizes.dtype.str,
        None if part.captions is None else part.captions.height,
        {file.relative_to(folder).as_posix(): file_record(file) for file in written},
        dict(part.kinds),
    )


def write_images(images: pl.DataFrame, folder: Path, number: int) -> Path:
    """Write the table of images of one part, and return its file."""
    return _write_table(images, folder, "images", number)


def seal_shards(
    folder: Path,
    records: Sequence[PartRecord],
    classes: Sequence[str],
    image_root: str | None,
    provenance: Mapping[str, Any],
) -> Header:
    """Write ``dataset.json`` of a folder whose parts are all written, and return what it says.

    The files are read once more for the fingerprint, one column of one part at a time.

    Raises:
        InputError: some parts have splits and others none.
    """
    splits: dict[str, int] = {}
    for record in records:
        for name, count in record.splits.items():
            splits[name] = splits.get(name, 0) + count
    if ALL in splits and len(splits) > 1:
        raise InputError(
            f"some parts have splits, others {ALL}", allowed=f"{', '.join(SPLITS)}, or {ALL} in every part"
        )
    files = {name: file for record in records for name, file in record.files.items()}
    header = Header(
        format="nooch-dataset",
        version=FORMAT_VERSION,
        nooch=__version__,
        fingerprint=_fingerprint(folder, classes, records),
        n_images=sum(splits.values()),
        splits={name: splits[name] for name in (*SPLITS, ALL) if name in splits},
        classes=list(classes),
        image_root=image_root,
        provenance=dict(provenance),
        files={name: files[name] for name in sorted(files, key=Path)},
        kinds=records[0].kinds,
    )
    (folder / DATASET_MARKER).write_bytes(encode_header(header))
    return header


def _check_part(first: Dataset, part: Dataset, last: Any, number: int) -> Any:
    """The part's largest id; InputError where it does not go on from the parts before."""
    where = f"part {number}"
    if not len(part):
        raise InputError("has no image", where=where, allowed="one image at least")
    for what, same in (
        ("classes", part.classes == first.classes),
        ("kinds of classes", part.kinds == first.kinds),
        ("columns of images", part.images.schema == first.images.schema),
        ("captions", (part.captions is None) == (first.captions is None)),
        ("exceptions", (part.exceptions is None) == (first.exceptions is None)),
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


def _name(number: int) -> str:
    return f"part-{number:07d}"


def _write_table(table: pl.DataFrame, folder: Path, kind: str, number: int) -> Path:
    file = folder / kind / f"{_name(number)}.parquet"
    file.parent.mkdir(exist_ok=True)
    table.write_parquet(file, compression="lz4")
    return file


def _fingerprint(folder: Path, classes: Sequence[str], records: Sequence[PartRecord]) -> str:
    """``Dataset.fingerprint`` of the whole, from one column of one part at a time."""
    digest = blake3()
    schema = _schema(folder / "images")
    partly = [
        name for name in ANNOTATED if name in schema and not all(c.all() for c in _columns(folder / "images", name))
    ]
    for name, kind in schema.items():
        if name in ANNOTATED and name not in partly:
            continue
        digest.update(f"{name}\0{kind}\0".encode())
        _add_column(digest, folder / "images", name)
    digest.update("\0".join(classes).encode())
    digest.update(np.zeros(1, np.int64).tobytes())
    before = 0
    for record in records:
        ends = before + np.cumsum(record.per_image, dtype=np.int64)
        digest.update(ends.tobytes())
        before = int(ends[-1])
    for part in _columns(folder / "areas", "class"):
        digest.update(part.to_physical().cast(pl.Int64).to_numpy().tobytes())
    for part in _columns(folder / "areas", "area"):
        digest.update(part.to_numpy().tobytes())
    for name in () if records[0].captions is None else _schema(folder / "captions"):
        _add_column(digest, folder / "captions", name)
    if any(name in COLUMN_OF_KIND.values() for name in partly):
        digest.update(kind_bytes(records[0].kinds))
    _add_exceptions(digest, folder / "exceptions")
    return digest.hexdigest()


def _add_exceptions(digest: Any, folder: Path) -> None:
    """Exceptions, where there are any."""
    if not folder.is_dir() or not any(len(part) for part in _columns(folder, "known")):
        return
    digest.update(b"\0exceptions\0")
    _add_column(digest, folder, "image_id")
    for part in _columns(folder, "class"):
        digest.update(part.to_physical().cast(pl.Int64).to_numpy().tobytes())
    for part in _columns(folder, "known"):
        digest.update(part.to_numpy().tobytes())


def _schema(folder: Path) -> Mapping[str, pl.DataType]:
    return pl.read_parquet(min(folder.iterdir()), n_rows=0, glob=False).schema


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
