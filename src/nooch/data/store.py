"""The dataset folder: ``dataset.json``, ``images.parquet``, ``areas.parquet``, ``captions.parquet``, ``embeddings/``.

``areas.parquet`` has one row for each present class of an image: ``image_id, class, area``. ``exceptions.parquet``, where there is
one, has one for each pair that differs from the image's ``annotated_*`` columns: ``image_id, class, known``. Everything is
hashed in ``dataset.json``, which is written last; a folder without it is not a dataset.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.data.dataset import Dataset
from nooch.data.embedding_files import load_embedding, save_embedding
from nooch.data.header import encode_header, load_header
from nooch.data.pairs import areas_matrix, areas_table, exceptions_matrix, exceptions_table
from nooch.data.tables import read_table, table_of
from nooch.errors import FormatError, OutputError, ParameterError
from nooch.files import (
    DATASET_MARKER,
    Place,
    atomic_folder,
    is_address,
    place,
    read_bytes,
    replace_file,
    sha256_of,
    sha256_once,
    writing,
)
from nooch.version import __version__

__all__ = [
    "FORMAT_VERSION",
    "add_embedding",
    "add_embedding_files",
    "check_file",
    "file_record",
    "load_dataset",
    "save_dataset",
]

FORMAT_VERSION = 2
"""Version 2 records what was annotated. In a folder of version 1 every class counts as annotated in every image."""

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
    kinds: dict[str, str] = {}


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
        if data.exceptions is not None and data.exceptions.nnz:
            exceptions_table(data).write_parquet(partial / "exceptions.parquet", compression="lz4")
        for name, values in data.embeddings.items():
            save_embedding(partial, name, values)
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
            kinds=dict(data.kinds),
        )
        (partial / DATASET_MARKER).write_bytes(encode_header(header))
    return Path(folder)


def read_header(folder: str | Place) -> Header:
    """``dataset.json`` of a folder. Raises FormatError where it is missing, broken or of another version."""
    return load_header(
        place(folder) / DATASET_MARKER,
        Header,
        name="dataset",
        version=FORMAT_VERSION,
        make="make one with nooch import",
        again=_AGAIN,
    )


def load_dataset(folder: str | Place, *, reads: Collection[str] | None = None) -> Dataset:
    """Read a dataset folder and check sizes and hashes of its files; embeddings are hashed once and then mapped.

    Args:
        folder: a folder of this machine, or an address such as ``s3://bucket/data`` (see ``nooch.files.place``). From an
            address every file is read whole.
        reads: what is read beside images and areas, of ``captions`` and ``embeddings/NAME``; everything by default.

    Raises:
        FormatError: no dataset, a newer version, or files that are missing or altered.
        InputError: a file at an address that cannot be fetched.
        ParameterError, MissingExtraError: an address that cannot be used.
    """
    folder = place(folder)
    header = read_header(folder)
    kinds = {kind: names for kind, names in tables_of(header).items() if is_read(kind, reads)}
    for kind in ("images", "areas"):
        if kind not in kinds:
            raise FormatError(f"{DATASET_MARKER} does not list {kind}.parquet", where=folder, remedy=_AGAIN)
    for kind, names in kinds.items():
        # also what no table is made of: a folder is whole, or it is refused
        for name in () if _is_known(kind) else names:
            check_file(folder, name, header.files[name], hashed=True)
    images = _read_parts(folder, header, kinds["images"])
    if images.height != header.n_images:
        raise FormatError(
            f"images.parquet has {images.height} images, {DATASET_MARKER} says {header.n_images}",
            where=folder,
            remedy=_AGAIN,
        )
    return Dataset(
        images,
        tuple(header.classes),
        areas_matrix(_read_parts(folder, header, kinds["areas"]), images, header.classes, folder),
        _read_parts(folder, header, kinds["captions"]) if "captions" in kinds else None,
        {k.partition("/")[2]: _embedding(folder, header, n) for k, n in kinds.items() if k.startswith("embeddings/")},
        header.image_root,
        header.provenance,
        header.kinds,
        exceptions_matrix(_read_parts(folder, header, kinds["exceptions"]), images, header.classes, folder)
        if "exceptions" in kinds
        else None,
    )


def tables_of(header: Header) -> dict[str, list[str]]:
    """Table or ``embeddings/NAME`` -> its files: one, or one for each part, in order."""
    found: dict[str, list[str]] = {}
    for name in sorted(header.files):
        kind = name.rpartition("/")[0]
        if kind in ("", "embeddings"):
            kind = name.rpartition(".")[0]
        found.setdefault(kind, []).append(name)
    return found


def _is_known(kind: str) -> bool:
    return kind in (*ALWAYS, "captions") or kind.startswith("embeddings/")


def is_read(kind: str, reads: Collection[str] | None) -> bool:
    """Whether a table or embedding is among those that are read; images, areas and exceptions always are."""
    return reads is None or kind in ALWAYS or kind in reads


ALWAYS = ("images", "areas", "exceptions")
"""Tables without which nothing can be said of a class."""


def open_table(folder: Place, header: Header, name: str) -> pl.DataFrame:
    """One of the folder's Parquet files, its size and hash checked. Raises FormatError, or InputError at an address."""
    content = check_file(folder, name, header.files[name], hashed=True)
    return read_table(str(folder / name)) if content is None else table_of(content, folder / name)


def open_embedding(folder: Place, header: Header, name: str, n_images: int | None = None) -> NDArray[Any]:
    """One of the folder's embedding files, float (n, d); mapped, or read where it lies at an address.

    Its SHA-256 is checked when this process first opens the file, and again where the file has changed since.

    Raises:
        FormatError: it is missing, altered, or has another number of rows.
        InputError: it cannot be fetched.
    """
    record = header.files[name]
    content = check_file(folder, name, record, hashed=False)
    if isinstance(folder, Path) and sha256_once(folder / name) != record.sha256:
        raise _altered(folder, name)
    return load_embedding(folder, name, n_images, content)


def _read_parts(folder: Place, header: Header, names: list[str]) -> pl.DataFrame:
    return pl.concat([open_table(folder, header, name) for name in names])


def _embedding(folder: Place, header: Header, files: list[str]) -> NDArray[Any]:
    """An embedding: mapped where it is one file, read where it comes in parts."""
    parts = [open_embedding(folder, header, file, header.n_images if len(files) == 1 else None) for file in files]
    whole = parts[0] if len(parts) == 1 else np.concatenate(parts)
    if len(whole) != header.n_images:
        problem = f"{files[0]} and on have {len(whole)} rows in {len(files)} parts, expected {header.n_images}"
        raise FormatError(problem, where=folder, remedy=_AGAIN)
    return whole


def add_embedding(folder: str | Place, name: str, values: NDArray[np.floating[Any]]) -> None:
    """Add an embedding, or replace the one of that name, in a dataset folder.

    Args:
        folder: the dataset folder.
        name: letters, digits, ``.``, ``_`` and ``-``.
        values: float array (n_images, d), rows in the order of the dataset's images.
    """
    if is_address(folder):
        raise OutputError(
            "cannot be written: an embedding is kept in a folder of this machine", where=folder, remedy="copy it"
        )
    folder = Path(str(folder))
    header = read_header(folder)
    if values.ndim != 2 or len(values) != header.n_images:
        raise ParameterError(f"embedding {name} has shape {values.shape}, expected ({header.n_images}, d)")
    files: dict[str, FileRecord] = {}
    try:
        with writing(folder):
            # as the images are divided, so that it can be read part by part
            start = 0
            for part, rows in rows_of_parts(folder, header).items():
                file = save_embedding(folder, name, values[start : start + rows], part)
                files[file.relative_to(folder).as_posix()] = file_record(file)
                start += rows
            add_embedding_files(folder, name, files)
    except OutputError:
        # what is not listed would never be read, nor removed
        for written in set(files) - set(header.files):
            (folder / written).unlink(missing_ok=True)
        raise


def add_embedding_files(folder: Path, name: str, files: Mapping[str, FileRecord]) -> None:
    """List an embedding whose files lie in the folder, in place of the one of that name."""
    header = read_header(folder)
    others = tables_of(header)
    before = others.pop(f"embeddings/{name}", [])
    kept = {file: header.files[file] for names in others.values() for file in names} | dict(files)
    replace_file(
        folder / DATASET_MARKER, encode_header(msgspec.structs.replace(header, files=dict(sorted(kept.items()))))
    )
    for file in set(before) - set(files):
        (folder / file).unlink(missing_ok=True)


def rows_of_parts(folder: Path, header: Header) -> dict[str, int]:
    """Part -> its number of images; a folder in one piece is the part ''."""
    files = tables_of(header)["images"]
    if files == ["images.parquet"]:
        return {"": header.n_images}
    for file in files:
        check_file(folder, file, header.files[file], hashed=False)
    # read from the end of each file
    counts = [pl.scan_parquet(folder / file, glob=False).select(pl.len()).collect().item() for file in files]
    return {Path(file).stem: count for file, count in zip(files, counts, strict=True)}


def file_record(path: Path) -> FileRecord:
    """Hash and size of a file."""
    return FileRecord(sha256_of(path), path.stat().st_size)


def check_file(folder: Place, name: str, record: FileRecord, *, hashed: bool) -> bytes | None:
    """Raise a FormatError where a file is missing, or is not the one that was recorded.

    Returns:
        None, or the content of a file at an address: it is fetched to be checked, and not a second time.
    """
    if not isinstance(folder, Path):
        return _fetched(folder, name, record)
    path = folder / name
    try:
        inside = folder.resolve() in path.resolve().parents
        same_size = inside and path.is_file() and path.stat().st_size == record.bytes
    except (OSError, ValueError) as error:
        raise FormatError(f"{DATASET_MARKER} names {name!r}: {error}", where=folder, remedy=_AGAIN) from error
    # names come from a file: they must not lead out of the folder
    if not inside:
        raise _outside(folder, name)
    if not same_size:
        raise _resized(folder, name)
    if hashed and sha256_of(path) != record.sha256:
        raise _altered(folder, name)
    return None


def _fetched(folder: Place, name: str, record: FileRecord) -> bytes:
    # there is no path to resolve, and servers and protocols read much into a name, so that it must be a plain one
    if not _PLAIN.fullmatch(name):
        raise _outside(folder, name)
    try:
        content = read_bytes(folder / name)
    except FileNotFoundError as error:
        raise _resized(folder, name) from error
    if len(content) != record.bytes:
        raise _resized(folder, name)
    if hashlib.sha256(content).hexdigest() != record.sha256:
        raise _altered(folder, name)
    return content


_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)*")


def _outside(folder: Place, name: str) -> FormatError:
    return FormatError(
        f"{DATASET_MARKER} names a file outside the folder: {name}", where=folder, allowed="files of the folder"
    )


def _resized(folder: Place, name: str) -> FormatError:
    return FormatError(f"{name} is missing or has another size than {DATASET_MARKER} says", where=folder, remedy=_AGAIN)


def _altered(folder: Place, name: str) -> FormatError:
    return FormatError(
        f"{name} was altered: its SHA-256 is not the one in {DATASET_MARKER}", where=folder, remedy=_AGAIN
    )
