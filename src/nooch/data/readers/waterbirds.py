"""Waterbirds: its standard folder as a dataset, and its table of scores (paper, Table 5)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl

from nooch.base.errors import InputError, check_one_of, some_of
from nooch.data.dataset import Dataset
from nooch.data.readers.contract import read
from nooch.data.readers.table_layouts import Columns, TableOfImages
from nooch.data.readers.tables import TableReading

METADATA = "metadata.csv"
TASK = "waterbird"
"""The task: 1 for a water bird, 0 for a land bird."""
SPLIT_VALUES = {"0": "train", "1": "valid", "2": "test"}
"""Meaning of the numbers in the column ``split``."""

_PLACES = ("land", "water")
_BIRDS = ("landbird", "waterbird")
GROUP = "group"


def read_waterbirds(folder: str | Path) -> Dataset:
    """The standard folder: images and a ``metadata.csv`` that names them.

    Its columns are ``img_id, img_filename, y, split, place, place_filename``.

    Returns:
        A dataset of one class, ``waterbird`` (y = 1), with splits, and attributes ``place`` (0
        land, 1 water), ``group`` (one of four, ``landbird on land`` to ``waterbird on water``) and
        other columns. Areas are unknown. Missing images are counted in the notes: the table
        suffices to find sets and to score predictions.

    Raises:
        InputError: no such file or columns, labels or places that are not 0 or 1, unknown splits,
            repeated ids.
    """
    path = Path(folder) / METADATA
    if not path.is_file():
        allowed = f"a folder with {METADATA} and the images that it names"
        raise InputError("no such file", where=path, allowed=allowed)
    columns = Columns("img_id", "img_filename", "split", SPLIT_VALUES)
    data = read(TableReading(path, columns, TableOfImages(["y"])), images=folder)
    check_one_of("column", "place", data.attributes, owner=str(path))
    if data.classes != ("y",):
        problem = f"y has the values {some_of(data.classes)}"
        raise InputError(problem, where=path, allowed="0 (land bird) and 1 (water bird)")
    places = data.images["place"]
    if not places.dtype.is_integer() or not places.is_in([0, 1]).fill_null(value=False).all():
        problem = f"place has the values {some_of(places.unique().sort())}"
        raise InputError(problem, where=path, allowed="0 (land) and 1 (water)")
    pairs = zip(data.labels("y").astype(int).tolist(), places.to_list(), strict=True)
    names = [f"{_BIRDS[bird]} on {_PLACES[place]}" for bird, place in pairs]
    images = data.images.drop("img_filename").with_columns(pl.Series(GROUP, names))
    provenance = {**data.provenance, "reader": "waterbirds"}
    return replace(data, images=images, classes=(TASK,), provenance=provenance)
