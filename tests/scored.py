"""A small suite made by hand, predictions for it, and formats of prediction files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from oracles import dataset_of

from nooch.criteria import CE
from nooch.data import Dataset
from nooch.suites import Suite
from nooch.suites.find import find

N = 60
TASKS = ("car", "fire_hydrant")
"""Tasks with challenge sets; the suite has a third one, ``cow``, without."""


def small_data(ids: Sequence[Any] | None = None) -> Dataset:
    """60 images with and without cars, hydrants, road, person: 20 train, 16 valid, 24 test."""
    images = []
    for i in range(N):
        image: dict[str, float] = {}
        if i % 2:
            image["car"] = 0.2
        if i % 5 in {0, 2}:
            image["fire_hydrant"] = 0.05
        if i % 3:
            image["road"] = 0.08 * (i % 3)
        if i % 4 == 1:
            image["person"] = 0.3
        if i % 7 == 0:
            image["cow"] = 0.1
        images.append(image)
    splits = [("train", "valid", "test")[int(i >= 20) + int(i >= 36)] for i in range(N)]
    data = dataset_of(images, ["car", "fire_hydrant", "road", "person", "cow"], splits, ids)
    place = pl.Series("place", [("street", "field", None)[i % 3] for i in range(N)])
    return Dataset.build(data.images.with_columns(place), data.classes, data.areas)


def small_suite(data: Dataset | None = None, path: str | None = None) -> Suite:
    """Criteria ce and ~ce on valid and test; car has two cues, fire hydrant one, cow none."""
    cues = {"car": ("road", "person"), "fire_hydrant": ("road",)}
    data = small_data() if data is None else data
    return find(data, {"ce": CE(cues=cues), "~ce": "~ce"}, tasks=[*TASKS, "cow"], path=path)


def logits(
    suite: Suite,
    split: str | Sequence[str] = "test",
    *,
    seed: int = 0,
    tasks: Sequence[str] = TASKS,
    **columns: Any,
) -> pl.DataFrame:
    """Random outputs as a long table ``image_id, task, logit`` with ties, and constant columns."""
    random = np.random.default_rng(seed)
    frames = []
    for name, task in product([split] if isinstance(split, str) else split, tasks):
        challenge = suite.set("ce", task, name)
        values = np.round(random.normal(size=len(challenge)) + challenge.labels, 1)
        of_set = {"image_id": challenge.image_ids, "task": task, "logit": values}
        frames.append(pl.DataFrame(of_set))
    return pl.concat(frames).with_columns(**{name: pl.lit(columns[name]) for name in columns})


def wide(frame: pl.DataFrame) -> pl.DataFrame:
    """A long table as ``image_id`` and a column for each task."""
    return frame.pivot(on="task", index="image_id", values="logit")


def arrays_of(frame: pl.DataFrame) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """A long table as values (n, tasks), ids and tasks."""
    table = wide(frame)
    tasks = [name for name in table.columns if name != "image_id"]
    return table.select(tasks).to_numpy(), np.array(table["image_id"].to_list()), tasks


def _npz(frame: pl.DataFrame, path: Path) -> None:
    values, ids, tasks = arrays_of(frame)
    np.savez(path, image_ids=ids, tasks=np.array(tasks), logits=values)


@dataclass(frozen=True)
class Form:
    """A format of predictions: how it is written, and with which ending."""

    ending: str
    write: Callable[[pl.DataFrame, Path], object]
    options: tuple[str, ...] = ()


FORMS = {
    "long-csv": Form(".csv", lambda frame, path: frame.write_csv(path)),
    "long-tsv": Form(".tsv", lambda frame, path: frame.write_csv(path, separator="\t")),
    "long-parquet": Form(".parquet", lambda frame, path: frame.write_parquet(path)),
    "wide-csv": Form(".csv", lambda frame, path: wide(frame).write_csv(path), ("--scale", "logit")),
    "wide-parquet": Form(
        ".parquet", lambda frame, path: wide(frame).write_parquet(path), ("--scale", "logit")
    ),
    "npz": Form(".npz", _npz),
}
