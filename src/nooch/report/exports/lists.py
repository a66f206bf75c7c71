"""One JSON file: the ids of each challenge set's hard images, and the licenses of the data."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.base.errors import InputError, OutputError, some_of
from nooch.base.files import NO_ROOM, local_path, replace_file, write_array
from nooch.data import Dataset, csv_bytes
from nooch.report.exports.contract import (
    HARD_SUBSETS,
    Content,
    Exported,
    Names,
    about,
    check_replaceable,
    need_integers,
    safe_name,
    table_of,
    write_folder,
)
from nooch.suites import ChallengeSet, SetRecord

FORMAT = "nooch-ids"
_HEAD = b'{"format":"nooch-ids"'


def export_ids(content: Content, out: str | Path, *, overwrite: bool = False) -> Exported:
    """Write ``OUT`` as JSON: ``format, version, nooch, suite, dataset, criteria, licenses, sets,
    skipped``.

    A set has ``criterion, task, split``, ascending ids ``hard_positive`` and ``hard_negative``, and
    all of its counts and thresholds under the names they have in ``suite.json``.
    """
    path = local_path(out).absolute()
    check_replaceable(path, _HEAD, f"{FORMAT} file", overwrite=overwrite)
    sets = [
        msgspec.to_builtins(SetRecord.from_set(challenge))
        | {subset: challenge.ids(subset) for subset in HARD_SUBSETS}
        for challenge in content.sets()
    ]
    document = {
        "format": FORMAT,
        "version": 1,
        **about(content),
        "sets": sets,
        "skipped": content.suite.header.skipped,
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(
            f"cannot make the folder: {error.strerror}", where=path.parent, remedy=NO_ROOM
        ) from error
    replace_file(path, msgspec.json.encode(document) + b"\n")
    return Exported(
        "ids", str(out), len(content.keys), [path.name], content.licenses, content.notes
    )


def export_npy(content: Content, out: str | Path, *, overwrite: bool = False) -> Exported:
    """Write a folder of ``.npy`` files, int64 ids ascending, as the authors published theirs.

    The criterion ``ce`` is called CE there; characters of other names that are not safe in file
    names are escaped (see ``safe_name``). ``cocostuff_split_image_ids.npz`` has ``{split}_ids``:
    all images of the dataset if it is there, else the images of the exported sets.
    """
    return write_folder(content, "npy", out, partial(_fill, content), overwrite=overwrite)


def _fill(content: Content, folder: Path) -> list[str]:
    names = Names()
    splits: dict[str, list[NDArray[np.int64]]] = {}
    for challenge in content.sets():
        need_integers(challenge, "names of the authors' layout")
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
            "the dataset is not there: the ids of a split are only the exported sets', without"
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


def export_csv(content: Content, out: str | Path, *, overwrite: bool = False) -> Exported:
    """Write ``{criterion}/{task}.csv`` with ``split,filename,y,a`` and then
    ``image_id,subset,support``.

    ``y`` is 1 where the task's class is present; ``a`` is 1 where the context suggests that it is:
    1 for easy positives and hard negatives, 0 for hard positives and easy negatives. So y = a
    holds where context helps, and the groups (y, a) are as in group robustness methods.
    ``filename`` is relative to the dataset's folder of images.
    """

    def fill(folder: Path) -> list[str]:
        data = content.need_data("a CSV with file names")
        names = Names()
        tables: dict[tuple[str, str], list[pl.DataFrame]] = {}
        for challenge in content.sets():
            tables.setdefault((challenge.criterion, challenge.task), []).append(
                _rows(challenge, data)
            )
        for (criterion, task), frames in tables.items():
            name = f"{safe_name(criterion)}/{safe_name(task)}.csv"
            file = folder / names.take(name, f"{criterion} {task}")
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(csv_bytes(pl.concat(frames)))
        return []

    return write_folder(content, "csv", out, fill, overwrite=overwrite)


def _rows(challenge: ChallengeSet, data: Dataset) -> pl.DataFrame:
    hard = pl.col("subset") != "easy"
    names = data.images.select("image_id", filename="file_name")
    rows = table_of(challenge).join(names, on="image_id", how="left", maintain_order="left")
    if len(nameless := rows.filter(pl.col("filename").is_null())["image_id"]):
        problem = f"{len(nameless)} images of split {challenge.split} have no file name"
        raise InputError(f"{problem}: {some_of(nameless)}", remedy="export with `to` ids or hf")
    return rows.select(
        pl.lit(challenge.split).alias("split"),
        "filename",
        pl.col("label").alias("y"),
        (pl.col("label") ^ hard.cast(pl.Int8)).alias("a"),
        "image_id",
        "subset",
        "support",
    )
