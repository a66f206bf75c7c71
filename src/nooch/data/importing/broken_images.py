"""Image files that cannot be read: found from their first and last bytes, and left out."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
import polars as pl

from nooch.base.errors import InputError, NoochError, reason_of, some_of
from nooch.base.words import counted, counted_are
from nooch.data.dataset import Dataset
from nooch.data.readers.image_files import UNREADABLE, in_threads, opened_image, regular_file
from nooch.data.table_files import csv_bytes

LIST = "broken_images.csv"
"""File of a dataset folder with ``file, reason`` of the images that were left out."""

BAD_LIST = "broken_annotations.csv"
"""File of a dataset folder with ``file, place, problem, rule`` of annotations that were left out
or changed.
"""

_ENDS = 64
"""Bytes that are read at either end of a file."""
_LAST = {b"\xff\xd8\xff": b"\xff\xd9", b"\x89PNG\r\n\x1a\n": b"IEND"}
"""First bytes of a JPEG or PNG -> bytes near the end of one that is whole."""


class BrokenImage(msgspec.Struct, frozen=True):
    """An image that cannot be read: its row among the images of its part, its file, why, and how
    many labels it has.
    """

    file: str
    reason: str
    row: int = -1
    labels: int = 0


def without_broken(data: Dataset) -> tuple[Dataset, list[BrokenImage]]:
    """The images of a dataset whose files can be read, or are missing or unknown; and the others.

    At the cost of a few bytes per file it finds files that are empty, of another kind (HTML, a
    pointer of Git LFS) or cut off, see ``broken_reason``; not those that are damaged inside.
    """
    if data.image_root is None:
        return data, []
    names = data.images["file_name"]
    paths = [None if name is None else f"{data.image_root}/{name}" for name in names]
    labels = np.diff(data.areas.indptr)
    reasons = in_threads(lambda path: None if path is None else broken_reason(path), paths)
    broken = [
        BrokenImage(names[row], reason, row, int(labels[row]))
        for row, reason in enumerate(reasons)
        if reason is not None
    ]
    if not broken:
        return data, []
    rows = np.delete(np.arange(len(data)), [image.row for image in broken])
    return data.select(rows=rows), broken


def broken_reason(path: str) -> str | None:
    """Why a file is not an image that can be read; None if it is, or if there is no such file.

    A JPEG, PNG or GIF that starts and ends as such, and a WebP or BMP as long as its header says,
    count as whole. Every other file is decoded by Pillow, whose error is the reason: a whole JPEG
    with data after its end is not broken.
    """
    try:
        with regular_file(path, buffering=0) as file:
            start = file.read(_ENDS)
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _ENDS))
            if _seems_whole(start, file.read(_ENDS), size):
                return None
        if reason := _other_kind(start):
            return reason
        with warnings.catch_warnings(), opened_image(Path(path)) as image:
            warnings.simplefilter("ignore")
            # a JPEG is decoded in an eighth of its size
            image.draft(None, (1, 1))
            image.load()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UNREADABLE as error:
        return getattr(error, "strerror", None) or reason_of(error)
    return None


def _seems_whole(start: bytes, end: bytes, size: int) -> bool:
    if start[:4] == b"RIFF" and start[8:12] == b"WEBP":
        return int.from_bytes(start[4:8], "little") + 8 <= size
    if start[:2] == b"BM":
        return 0 < int.from_bytes(start[2:6], "little") <= size
    if start[:4] == b"GIF8":
        return end.endswith(b";")
    return any(start.startswith(first) and last in end for first, last in _LAST.items())


def _other_kind(start: bytes) -> str | None:
    """The kind of a file that no image starts like, in words; None if unknown."""
    text = start.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if not start:
        return "is empty"
    if text.startswith((b"<!doctype html", b"<html", b"<?xml", b"<head", b"<svg")):
        return f"is {'SVG' if text.startswith(b'<svg') else 'HTML or XML'}, saved as an image"
    if text.startswith(b"version https://git-lfs"):
        return "is a pointer of Git LFS: run git lfs pull"
    return None


def broken_note(broken: Sequence[BrokenImage], n_images: int) -> str:
    """The note on images that were left out, of so many."""
    some = some_of((f"{image.file} ({image.reason})" for image in broken), 3)
    lost = counted(sum(image.labels for image in broken), "label")
    return (
        f"{len(broken):,} of {n_images:,} images cannot be read and are left out, with {lost}:"
        f" {some}; listed in {LIST} of the dataset"
    )


def check_broken(
    broken: Sequence[BrokenImage], n_images: int, where: object, choice: str, kept: bool
) -> None:
    """Raise an error if broken images are not to be left out, or all are; with work that is
    ``kept``, one that does not discard it.
    """
    if choice != "refuse" and len(broken) < n_images:
        return
    some = some_of(f"{image.file} ({image.reason})" for image in broken)
    raise (NoochError if kept else InputError)(
        f"{len(broken):,} of {n_images:,} images cannot be read: {some}",
        where=where,
        remedy="replace or remove these files",
        give={"broken": "leave-out"} if len(broken) < n_images else (),
    )


def check_bad(bad: pl.DataFrame, choice: str) -> None:
    """Raise InputError if annotations that are not as they should be are refused."""
    if choice == "refuse":
        some = some_of(("{}, {}: {}".format(*row) for row in bad.iter_rows()), 10)
        raise InputError(
            f"{counted_are(bad.height, 'annotation')} faulty: {some}",
            remedy="correct them, or {}, which lists each with what was done",
            give={"broken": "leave-out"},
        )


def save_list(broken: Sequence[BrokenImage], folder: Path) -> Path:
    """Write the list of a dataset folder, and return its path."""
    rows = [(image.file, image.reason) for image in broken]
    table = pl.DataFrame(rows, schema=["file", "reason"], orient="row")
    (folder / LIST).write_bytes(csv_bytes(table))
    return folder / LIST
