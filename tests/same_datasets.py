"""Whether an import with several parts gives what an import and a division give."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from nooch.base.errors import NoochError
from nooch.data import Dataset, divide, open_dataset, save_dataset
from nooch.suites import Suite, save_suite
from nooch.suites.find import find

_T = TypeVar("_T")


def same_folder(folder: Path, other: Path) -> None:
    """Every table, byte for byte, and the header."""
    names = sorted(p.relative_to(folder) for p in folder.rglob("*"))
    assert names == sorted(p.relative_to(other) for p in other.rglob("*"))
    for file in folder.rglob("*.parquet"):
        assert file.read_bytes() == (other / file.relative_to(folder)).read_bytes(), file
    assert (folder / "dataset.json").read_text() == (other / "dataset.json").read_text()


def same_dataset(one: Dataset, other: Dataset) -> None:
    """Every table, with its order and types, and what is said of them."""
    assert one.images.equals(other.images)
    assert one.images.schema == other.images.schema
    assert one.classes == other.classes
    for part in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(one.areas, part), getattr(other.areas, part))
    assert (one.captions is None) == (other.captions is None)
    assert one.captions is None or one.captions.equals(other.captions)
    assert (one.objects is None) == (other.objects is None)
    if one.objects is not None:
        assert one.objects.schema == other.objects.schema
        assert one.objects.equals(other.objects)
    assert set(one.embeddings) == set(other.embeddings)
    for name, values in one.embeddings.items():
        np.testing.assert_array_equal(values, other.embeddings[name])
        assert values.dtype == other.embeddings[name].dtype
    assert one.image_root == other.image_root
    assert (dict(one.kinds), dict(one.provenance)) == (dict(other.kinds), dict(other.provenance))
    none = [data.exceptions is None or not data.exceptions.nnz for data in (one, other)]
    assert none[0] == none[1]
    assert none[0] or (one.exceptions != other.exceptions).nnz == 0
    assert one.fingerprint == other.fingerprint


def same_suite(folder: Path, other: Path) -> None:
    """The sets and the header, byte for byte."""
    for name in ("challenge_sets.parquet", "suite.json"):
        assert (folder / name).read_bytes() == (other / name).read_bytes(), name


def found_in_parts(folder: Path, data: Dataset, criteria: Any, n_parts: int, **more: Any) -> Suite:
    """The suite of a dataset in parts, after checking that it has the bytes of one in memory."""
    save_suite(find(data, criteria, **more), folder / "whole")
    save_dataset(divide(data, n_parts), folder / "parts")
    suite = find(open_dataset(folder / "parts"), criteria, out=folder / "suite", **more)
    same_suite(folder / "whole", folder / "suite")
    return suite


def in_parts_of(whole: Dataset, part_size: int, folder: Path) -> Path:
    """The dataset, divided and written."""
    return save_dataset(divide(whole, -(-len(whole) // part_size)), folder)


def told(act: Callable[[], _T]) -> tuple[_T | None, NoochError | None]:
    """The result, or the error that it was refused with."""
    try:
        return act(), None
    except NoochError as error:
        return None, error


def stopping(done: list[str], most: int | None) -> Any:
    """A map that notes what is done, and is interrupted when that is ``most``."""

    def mapping(function, items):
        for item in items:
            if len(done) == most:
                raise KeyboardInterrupt
            result = function(item)
            done.append(f"{type(item).__name__} {item!r}")
            yield result

    return mapping


def changing(file: Path) -> Any:
    """A map after which a file is another one."""

    def mapping(function, items):
        yield from map(function, items)
        os.utime(file, (1, 1))

    return mapping
