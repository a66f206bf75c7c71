"""Splits: published files, tables, or seeded fractions that keep groups of images together."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.base.errors import InputError, ParameterError, some_of
from nooch.base.split_plan import SplitPlan
from nooch.data.arrays import read_arrays
from nooch.data.table_files import id_column, read_table
from nooch.data.table_schema import SPLITS

SPLIT_NAMES = {
    "train": "train", "training": "train", "trn": "train",
    "valid": "valid", "val": "valid", "validation": "valid", "dev": "valid",
    "test": "test", "testing": "test", "tst": "test",
}  # fmt: skip
"""Usual names of splits, in small letters -> the split."""


def split_of(name: str) -> str | None:
    """The split in a file's or folder's name, such as valid of ``instances_val2017.json``."""
    words = re.findall("[a-z]+", name.lower())
    return next((SPLIT_NAMES[word] for word in words if word in SPLIT_NAMES), None)


_TRAIN, _VALID, _TEST = range(3)


def apply_split(images: pl.DataFrame, plan: SplitPlan | None) -> pl.DataFrame:
    """``images`` with its ``split`` column filled in by the plan; unchanged where the plan is
    None.
    """
    if plan is None:
        return images
    order = images["image_id"].arg_sort()
    group = plan.group
    if plan.shares is not None and group is None and "file_name" in images.columns:
        # ids of one photograph stay together
        repeated = images["file_name"].drop_nulls().is_duplicated().any()
        group = "file_name" if repeated else None
    groups = None if group is None else group_names(images, group)[order]
    codes = np.empty(images.height, dtype=np.int8)
    codes[order] = split_codes(images["image_id"][order], plan, groups)
    return images.with_columns(split=pl.Series(SPLITS, dtype=pl.String).gather(codes))


def named_splits(
    column: pl.Series, values: Mapping[str, str], where: object = None, keyword: str = "values"
) -> pl.Series:
    """A column of split names of any spelling as train, valid and test; ``keyword`` is how errors
    call ``values``.
    """
    if column.dtype.is_nested() or column.dtype == pl.Binary:
        problem = f"column {column.name} contains {column.dtype}"
        raise InputError(problem, where=where, allowed="names of splits, as text or numbers")
    text = column.cast(pl.String)
    unknown = [
        v for v in text.unique().to_list() if v not in values and _usual(v) not in SPLIT_NAMES
    ]
    if text.null_count():
        problem = f"column {column.name} is blank in some rows"
        remedy = "fill in the cells, or leave these rows out"
        raise InputError(problem, where=where, allowed=", ".join(SPLITS), remedy=remedy)
    if unknown:
        problem = f"split values {some_of(sorted(unknown))} are not known"
        likely = {2: ("train", "test"), 3: SPLITS}.get(len(unknown), SPLITS)
        pairs = dict(zip(sorted(unknown), likely, strict=False))
        remedy = "name the split of each value; for example {}"
        give = {keyword: pairs}
        raise InputError(problem, where=where, allowed=", ".join(SPLITS), remedy=remedy, give=give)
    wrong = [v for v in values.values() if v not in SPLITS]
    if wrong:
        raise ParameterError(f"{some_of(wrong)} is not a split", allowed=", ".join(SPLITS))
    meaning = {v: values.get(v) or SPLIT_NAMES[_usual(v)] for v in text.unique().to_list()}
    return text.replace_strict(meaning, return_dtype=pl.String).alias("split")


def _usual(name: str | None) -> str:
    return str(name).strip().lower()


def split_codes(
    ids: pl.Series, plan: SplitPlan, groups: pl.Series | None = None
) -> NDArray[np.int8]:
    """Positions in SPLITS of images by a plan, in a few dozen bytes an image: (n,).

    ``groups``: (n,), name or rank of each image's group; only with percentages.
    """
    if plan.shares is None:
        return _from_file(ids, plan)
    return _random(len(ids), plan.seed, plan.shares, groups)


def _random(
    n: int, seed: int, shares: tuple[float, ...], groups: pl.Series | None
) -> NDArray[np.int8]:
    """A random division; valid and test are rounded down, train takes the rest."""
    random = np.random.default_rng(seed)
    n_valid, n_test = (int(np.floor(n * share / 100 + 1e-9)) for share in shares[1:])
    codes = np.full(n, _TRAIN, dtype=np.int8)
    if groups is None:
        shuffled = random.permutation(n)
        codes[shuffled[:n_valid]] = _VALID
        codes[shuffled[n_valid : n_valid + n_test]] = _TEST
        return codes
    member = unit_numbers(groups)
    sizes = np.bincount(member)
    room = {_VALID: n_valid, _TEST: n_test}
    side = np.full(len(sizes), _TRAIN, dtype=np.int8)
    # whole groups, in random order, to the side with most room; the others stay in train
    for group in random.permutation(len(sizes)):
        roomiest = max(room, key=lambda split: room[split])
        if sizes[group] <= room[roomiest]:
            side[group] = roomiest
            room[roomiest] -= int(sizes[group])
    codes[:] = side[member]
    return codes


def group_names(images: pl.DataFrame, group: str) -> pl.Series:
    """Names of the images' groups, (n_images,): values of a column, null where an image is one of
    its own, or matches in file names.
    """
    if group in images.columns:
        return images[group].cast(pl.String).alias("group")
    try:
        pattern = re.compile(group)
    except re.error as error:
        raise ParameterError(
            f"`group` {group!r} is neither a column nor a pattern: {error}",
            allowed=f"columns: {', '.join(images.columns)}",
        ) from error
    names = images["file_name"].fill_null(images["image_id"].cast(pl.String)).to_list()
    # a first group that took no part in the match names no group of images
    parts = [match and match[min(1, pattern.groups)] for match in map(pattern.search, names)]
    missed = [name for name, part in zip(names, parts, strict=True) if part is None]
    if missed:
        problem = f"`group` {group!r} is not a column and matches no part of {some_of(missed, 3)}"
        allowed = f"a column ({', '.join(images.columns)}) or a regular expression on the file name"
        raise ParameterError(problem, allowed=allowed)
    return pl.Series("group", parts, dtype=pl.String)


def unit_names(images: pl.DataFrame, group: str | None) -> pl.Series:
    """Name of the unit of each image, (n_images,): its id, or its group."""
    ids = images["image_id"]
    if not group:
        return ids
    names = group_names(images, group)
    return names.zip_with(names.is_not_null(), ids.cast(pl.String))


def unit_numbers(names: pl.Series) -> NDArray[np.int64]:
    """Numbers of the groups of images from 0 on, int64 (n_images,); where the name is null, an
    image has a number of its own.
    """
    ranks, alone = names.rank("dense").cast(pl.Int64), names.is_null()
    own = alone.cum_sum().cast(pl.Int64) + names.drop_nulls().n_unique()
    return np.asarray(ranks.zip_with(~alone, own).to_numpy() - 1)


def _from_file(ids: pl.Series, plan: SplitPlan) -> NDArray[np.int8]:
    path = Path(plan.source)
    table = _read_npz(path) if path.suffix == ".npz" else _read_split_table(path, plan.values)
    image_id = pl.col("image_id").cast(ids.dtype, strict=False)
    table = table.select(image_id, pl.col("split").cast(pl.Enum(SPLITS))).drop_nulls()
    table = table.sort("image_id")
    listed, codes = table["image_id"], table["split"].to_physical()
    if len(twice := listed.filter((listed == listed.shift()) & (codes != codes.shift()))):
        problem = f"images are in two splits: {some_of(twice.unique(maintain_order=True))}"
        raise InputError(problem, where=path, allowed="each image in one")
    place = listed.search_sorted(ids).clip(upper_bound=max(len(listed) - 1, 0))
    missing = ids if listed.is_empty() else ids.filter(listed[place] != ids)
    if len(missing):
        problem = f"the split leaves out {len(missing)} of {len(ids)} images: {some_of(missing)}"
        remedy = "give a split that names every image, or percentages such as 70/10/20"
        raise InputError(problem, where=path, remedy=remedy)
    return codes[place].to_numpy().astype(np.int8, copy=False)


def _read_npz(path: Path) -> pl.DataFrame:
    arrays = read_arrays(path, _NPZ)
    of_split = {name: arrays[f"{name}_ids"] for name in SPLITS if f"{name}_ids" in arrays}
    if not of_split:
        raise InputError(
            f"contains {some_of(arrays) or 'no named array'}", where=path, allowed=_NPZ
        )
    columns = {name: id_column(ids, f"{path}, {name}_ids") for name, ids in of_split.items()}
    text = any(column.dtype == pl.String for column in columns.values())
    return pl.concat(
        column.cast(pl.String if text else pl.Int64).to_frame().with_columns(split=pl.lit(name))
        for name, column in columns.items()
    )


_NPZ = "an .npz with train_ids, valid_ids, test_ids"


def _read_split_table(path: Path, values: Mapping[str, str]) -> pl.DataFrame:
    table = read_table(path)
    if not {"image_id", "split"} <= set(table.columns):
        raise InputError(
            f"has columns {', '.join(table.columns)}", where=path, allowed="image_id and split"
        )
    return table.select(
        id_column(table["image_id"], path), named_splits(table["split"], values, path)
    )
