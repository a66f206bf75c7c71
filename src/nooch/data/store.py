"""The dataset folder: ``dataset.json``, ``images.parquet``, ``areas.parquet``, ``captions.parquet``, ``embeddings/``.

``areas.parquet`` has one row for each present class of an image: ``image_id, class, area``. Everything is hashed in
``dataset.json``, which is written last; a folder without it is not a dataset.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.sparse import csr_array

from nooch.data.dataset import Dataset
from nooch.data.header import encode_header, load_header
from nooch.data.tables import read_table
from nooch.errors import FormatError, OutputError, ParameterError
from nooch.files import DATASET_MARKER, atomic_folder, replace_file, sha256_of
from nooch.version import __version__

__all__ = [
    "FORMAT_VERSION",
    "add_embedding",
    "areas_matrix",
    "areas_table",
    "check_file",
    "file_record",
    "load_dataset",
    "load_embedding",
    "save_dataset",
]

FORMAT_VERSION = 1

_AGAIN = "import the dataset again"


class FileRecord(msgspec.Struct, frozen=True):
    """Size and hash of one file of the folder."""

    sha256: str
    bytes: int


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


def save_dataset(data: Dataset, folder: str | Path, *, overwrite: bool = False) -> Path:
    """Write a dataset folder, whole or not at all, and return its path.

    Raises:
        OutputError: the folder exists (and ``overwrite`` is false) or cannot be written.
    """
    with atomic_folder(folder, overwrite=overwrite, marker=DATASET_MARKER) as partial:
        data.images.write_parquet(partial / "images.parquet", compression="lz4")
        areas_table(data).write_parquet(partial / "areas.parquet", compression="lz4")
        if data.captions is not None:
            data.captions.write_parquet(partial / "captions.parquet")
        for name, values in data.embeddings.items():
            _save_embedding(partial, name, values)
        header = Header(
            format="nooch-dataset",
            version=FORMAT_VERSION,
            nooch=__version__,
            fingerprint=data.fingerprint,
            n_images=len(data),
            splits=data.splits,
            classes=list(data.classes),
            image_root=data.image_root,
            provenance=dict(data.provenance),
            files={
                str(f.relative_to(partial).as_posix()): file_record(f)
                for f in sorted(partial.rglob("*"))
                if f.is_file()
            },
        )
        (partial / DATASET_MARKER).write_bytes(encode_header(header))
    return Path(folder)


def read_header(folder: str | Path) -> Header:
    """``dataset.json`` of a folder. Raises FormatError where it is missing, broken or of another version."""
    return load_header(
        Path(folder) / DATASET_MARKER,
        Header,
        name="dataset",
        version=FORMAT_VERSION,
        make="make one with nooch import",
        again=_AGAIN,
    )


def load_dataset(folder: str | Path) -> Dataset:
    """Read a dataset folder and check sizes and hashes of its tables (embeddings: sizes only; they are mapped, not read).

    Raises:
        FormatError: no dataset, a newer version, or files that are missing or altered.
    """
    folder = Path(folder)
    header = read_header(folder)
    tables = {kind: _files_of(header, kind) for kind in ("images", "areas", "captions")}
    for kind in ("images", "areas"):
        if not tables[kind]:
            raise FormatError(f"{DATASET_MARKER} does not list {kind}.parquet", where=folder, remedy=_AGAIN)
    for name, record in header.files.items():
        check_file(folder, name, record, hashed=not name.startswith("embeddings/"))
    images = _read_parts(folder, tables["images"])
    if images.height != header.n_images:
        raise FormatError(
            f"images.parquet has {images.height} images, {DATASET_MARKER} says {header.n_images}",
            where=folder,
            remedy=_AGAIN,
        )
    return Dataset(
        images,
        tuple(header.classes),
        areas_matrix(_read_parts(folder, tables["areas"]), images, header.classes, folder),
        _read_parts(folder, tables["captions"]) if tables["captions"] else None,
        _embeddings(folder, header),
        header.image_root,
        header.provenance,
    )


def _files_of(header: Header, kind: str) -> list[str]:
    """The files of a table: one, or one for each part, in order."""
    return sorted(name for name in header.files if name == f"{kind}.parquet" or name.startswith(f"{kind}/"))


def _read_parts(folder: Path, names: list[str]) -> pl.DataFrame:
    return pl.concat([read_table(folder / name) for name in names])


def _embeddings(folder: Path, header: Header) -> dict[str, NDArray[Any]]:
    """Embeddings by name; mapped where they are one file, read where they come in parts."""
    found: dict[str, list[str]] = {}
    for name in sorted(n for n in header.files if n.startswith("embeddings/")):
        path = Path(name)
        found.setdefault(path.stem if len(path.parts) == 2 else path.parts[1], []).append(name)
    whole = {}
    for name, files in found.items():
        n_images = header.n_images if len(files) == 1 else None
        parts = [load_embedding(folder, file, n_images) for file in files]
        whole[name] = parts[0] if len(parts) == 1 else np.concatenate(parts)
        if len(whole[name]) != header.n_images:
            problem = f"embeddings/{name} has {len(whole[name])} rows in {len(files)} parts, expected {header.n_images}"
            raise FormatError(problem, where=folder, remedy=_AGAIN)
    return whole


def add_embedding(folder: str | Path, name: str, values: NDArray[np.floating[Any]]) -> None:
    """Add an embedding, or replace the one of that name, in a dataset folder.

    Args:
        folder: the dataset folder.
        name: letters, digits, ``.``, ``_`` and ``-``.
        values: float array (n_images, d), rows in the order of the dataset's images.
    """
    folder = Path(folder)
    header = read_header(folder)
    if values.ndim != 2 or len(values) != header.n_images:
        raise ParameterError(f"embedding {name} has shape {values.shape}, expected ({header.n_images}, d)")
    try:
        file = _save_embedding(folder, name, values)
    except OSError as error:
        raise OutputError(f"cannot write: {error.strerror}", where=folder) from error
    files = {**header.files, f"embeddings/{name}.npy": file_record(file)}
    replace_file(folder / DATASET_MARKER, encode_header(msgspec.structs.replace(header, files=files)))


def _save_embedding(folder: Path, name: str, values: NDArray[np.floating[Any]]) -> Path:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise ParameterError(f"{name!r} cannot name an embedding", allowed="letters, digits, '.', '_' and '-'")
    (folder / "embeddings").mkdir(exist_ok=True)
    path = folder / "embeddings" / f"{name}.npy"
    partial = path.with_suffix(".partial")
    with partial.open("wb") as file:
        np.save(file, values, allow_pickle=False)
    shutil.move(partial, path)
    return path


def load_embedding(folder: Path, name: str, n_images: int | None = None) -> NDArray[Any]:
    """An embedding, mapped: float (n, d). Raises FormatError where it cannot be read or has another number of rows."""
    try:
        values: NDArray[Any] = np.load(folder / name, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise FormatError(f"{name} cannot be read: {error}", where=folder, remedy=_AGAIN) from error
    if values.ndim != 2 or (n_images is not None and len(values) != n_images):
        raise FormatError(f"{name} has shape {values.shape}, expected ({n_images}, d)", where=folder, remedy=_AGAIN)
    return values


def areas_table(data: Dataset) -> pl.DataFrame:
    """Areas as a table ``image_id, class, area``, a row for each stored entry."""
    per_row = np.diff(data.areas.indptr)
    return pl.DataFrame(
        {
            "image_id": data.images["image_id"].gather(np.repeat(np.arange(len(data)), per_row)),
            "class": pl.Series(data.classes, dtype=pl.Enum(list(data.classes))).gather(data.areas.indices),
            "area": data.areas.data,
        }
    )


def areas_matrix(table: pl.DataFrame, images: pl.DataFrame, classes: list[str], folder: Path) -> csr_array:
    """Areas as CSR (n_images, n_classes), from such a table. Raises FormatError where it names other images or classes."""
    if set(table["class"].cast(pl.String).unique()) - set(classes) or len(set(classes)) != len(classes):
        raise FormatError(f"{DATASET_MARKER} and areas.parquet name other classes", where=folder, remedy=_AGAIN)
    rows = images.select("image_id", row=pl.int_range(pl.len()))
    joined = table.join(rows, on="image_id", how="left", maintain_order="left")
    columns = joined["class"].cast(pl.Enum(classes)).to_physical().to_numpy()
    values = joined["area"].cast(pl.Float64).to_numpy()
    return csr_array((values, (joined["row"].to_numpy(), columns)), shape=(images.height, len(classes)))


def file_record(path: Path) -> FileRecord:
    """Hash and size of a file."""
    return FileRecord(sha256_of(path), path.stat().st_size)


def check_file(folder: Path, name: str, record: FileRecord, *, hashed: bool) -> None:
    """Raise a FormatError where a file is missing, or is not the one that was recorded."""
    path = folder / name
    try:
        inside = folder.resolve() in path.resolve().parents
        same_size = inside and path.is_file() and path.stat().st_size == record.bytes
    except (OSError, ValueError) as error:
        raise FormatError(f"{DATASET_MARKER} names {name!r}: {error}", where=folder, remedy=_AGAIN) from error
    # names come from a file: they must not lead out of the folder
    if not inside:
        raise FormatError(
            f"{DATASET_MARKER} names a file outside the folder: {name}", where=folder, allowed="files of the folder"
        )
    if not same_size:
        raise FormatError(
            f"{name} is missing or has another size than {DATASET_MARKER} says", where=folder, remedy=_AGAIN
        )
    if hashed and sha256_of(path) != record.sha256:
        raise FormatError(
            f"{name} was altered: its SHA-256 is not the one in {DATASET_MARKER}", where=folder, remedy=_AGAIN
        )
