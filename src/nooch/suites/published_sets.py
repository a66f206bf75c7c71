"""Reading ``nooch_ids_{CE,gist}_{task}_hard_{positive,negative}_{test,valid}.npy``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nooch.base.errors import InputError, some_of
from nooch.data import read_arrays
from nooch.data.array_files import read_array

__all__ = ["Published", "PublishedSet", "read_published"]

SPLIT_FILE = "cocostuff_split_image_ids.npz"

_NAME = re.compile(r"nooch_ids_(CE|gist)_(.+)_hard_(positive|negative)_(test|valid)\.npy")


@dataclass(frozen=True)
class PublishedSet:
    """One file: criterion ``ce`` or ``gist``, side ``positive`` or ``negative``, ids int64 (n,)
    ascending.
    """

    criterion: str
    task: str
    split: str
    side: str
    ids: NDArray[np.int64]


@dataclass(frozen=True)
class Published:
    """The files of a folder.

    ``splits`` maps split -> ids (int64, ascending); it is empty where its file is missing.
    """

    sets: list[PublishedSet]
    splits: dict[str, NDArray[np.int64]]


def read_published(folder: str | Path) -> Published:
    """All published files of a folder, by criterion, task, split and side.

    Raises:
        InputError: no such folder, no file of that name in it, or a file that holds no integer ids.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError("no such folder of published sets", where=folder)
    matches = [(file, _NAME.fullmatch(file.name)) for file in sorted(folder.iterdir())]
    sets = [_read(file, match) for file, match in matches if match]
    if not sets:
        raise InputError(
            "holds no published set",
            where=folder,
            allowed="files nooch_ids_{CE,gist}_{task}_hard_{positive,negative}_{test,valid}.npy",
        )
    splits, file = {}, folder / SPLIT_FILE
    if file.is_file():
        arrays = read_arrays(file, "train_ids, valid_ids and test_ids")
        ids = {name: np.unique(ids) for name, ids in arrays.items() if name.endswith("_ids")}
        splits = {name.removesuffix("_ids"): unique for name, unique in ids.items()}
    return Published(sets, splits)


def _read(file: Path, match: re.Match[str]) -> PublishedSet:
    criterion, task, side, split = match.groups()
    ids = read_array(file)
    if ids.ndim != 1 or not np.issubdtype(ids.dtype, np.integer):
        problem = f"holds {ids.dtype} of shape {ids.shape}"
        raise InputError(problem, where=file, allowed="one row of integer image ids")
    unique, counts = np.unique(ids.astype(np.int64), return_counts=True)
    if (counts > 1).any():
        raise InputError(f"ids occur more than once: {some_of(unique[counts > 1])}", where=file)
    return PublishedSet(criterion.lower(), task, split, side, unique)
