"""Whether an import with several parts gives what an import and a division give."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from nooch.base.errors import NoochError
from nooch.data import Dataset, divide, save_dataset

_T = TypeVar("_T")


def same_folder(folder: Path, other: Path) -> None:
    """Every table, byte for byte, and the header."""
    names = sorted(p.relative_to(folder) for p in folder.rglob("*"))
    assert names == sorted(p.relative_to(other) for p in other.rglob("*"))
    for file in folder.rglob("*.parquet"):
        assert file.read_bytes() == (other / file.relative_to(folder)).read_bytes(), file
    assert (folder / "dataset.json").read_text() == (other / "dataset.json").read_text()


def in_parts_of(whole: Dataset, part_size: int, folder: Path) -> Path:
    """The dataset, divided and written."""
    return save_dataset(divide(whole, -(-len(whole) // part_size)), folder)


def told(act: Callable[[], _T]) -> tuple[_T | None, NoochError | None]:
    """The result, or the error that it was refused with."""
    try:
        return act(), None
    except NoochError as error:
        return None, error
