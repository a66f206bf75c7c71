"""The authors' layout: ``nooch_ids_{CE,gist}_{task}_hard_{positive,negative}_{split}.npy``."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.base.errors import InputError
from nooch.data.array_files import write_array
from nooch.report.exports.export_contract import HARD_SUBSETS, Content, Exported, write_folder
from nooch.report.exports.file_names import Names, safe_name

__all__ = ["export_npy"]


def export_npy(content: Content, out: str | Path, *, overwrite: bool = False) -> Exported:
    """Write a folder of ``.npy`` files, int64 ids ascending, as the authors published theirs.

    The criterion ``ce`` is called CE there; characters of other names that are not safe in file
    names are escaped (see ``safe_name``). ``cocostuff_split_image_ids.npz`` has ``{split}_ids``:
    all images of the dataset where it is there, else those of the exported sets.

    Raises:
        InputError: image ids are text.
        ParameterError: two sets would have the same file name.
        OutputError: the folder exists (and ``overwrite`` is false) or cannot be written.
    """
    return write_folder(content, "npy", out, partial(_fill, content), overwrite=overwrite)


def _fill(content: Content, folder: Path) -> list[str]:
    names = Names()
    splits: dict[str, list[NDArray[np.int64]]] = {}
    for challenge in content.sets():
        if challenge.image_ids.dtype != pl.Int64:
            raise InputError(
                "image ids are text, and the authors' layout has integers",
                remedy="export with `to` ids, csv or hf",
            )
        ids = challenge.image_ids.to_numpy()
        splits.setdefault(challenge.split, []).append(ids)
        criterion = "CE" if challenge.criterion == "ce" else safe_name(challenge.criterion)
        for number, subset in enumerate(HARD_SUBSETS):
            task = f"{safe_name(challenge.task)}_{subset}_{challenge.split}"
            owner = f"{challenge.criterion} {challenge.task}"
            file = names.take(f"nooch_ids_{criterion}_{task}.npy", owner)
            write_array(folder / file, ids[challenge.subset == number])
    notes = []
    if content.data is not None:
        parts = content.data.images.select("image_id", "split").partition_by("split", as_dict=True)
        whole = {
            str(split): part["image_id"].to_numpy() for (split,), part in sorted(parts.items())
        }
    else:
        whole = {split: np.unique(np.concatenate(ids)) for split, ids in splits.items()}
        notes.append(
            "the dataset is not there: the ids of a split are those of the exported sets, without"
            " images that have no verdict"
        )
    arrays: dict[str, Any] = {f"{split}_ids": ids for split, ids in whole.items()}
    np.savez(folder / "cocostuff_split_image_ids.npz", **arrays)
    if other := [split for split in content.splits if split not in {"valid", "test"}]:
        notes.append(
            f"the authors' layout knows the splits valid and test: files of {', '.join(other)} are"
            " read by no one else"
        )
    return notes
