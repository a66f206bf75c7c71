"""Parquet files of exports: writing, and their descriptions in a Hugging Face folder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq

PAPER = (
    "Madras and Zemel, Identifying and Benchmarking Natural Out-of-Context Prediction Problems,"
    " NeurIPS 2021"
)

COLUMNS = {
    "image_id": "id of the image in its dataset",
    "file_name": (
        "name of the image file, relative to the folder of images, which is not part of this export"
    ),
    "task": "the class that is asked for",
    "label": "1 where the class is present in the image",
    "subset": (
        "hard_positive: present without its usual context; hard_negative: absent in spite of it;"
        " easy: neither"
    ),
    "support": (
        "context support of the image for the task, larger for a more usual context; null where"
        " there is none"
    ),
}
"""What the columns mean."""


@dataclass(frozen=True)
class ParquetPart:
    """The rows of a criterion and a split.

    Attributes:
        criterion: its name in the suite, ``split`` likewise.
        config: the criterion's name made safe: configuration and folder; ``name`` is what the split
            is called there.
        path: relative to the export's folder; ``rows`` and names of ``columns`` are the file's.
    """

    criterion: str
    split: str
    config: str
    name: str
    path: str
    rows: int
    columns: list[str]


def written(frames: Iterable[pl.DataFrame], path: Path) -> Iterator[pl.DataFrame]:
    """Write frames to a Parquet file, a row group each, and yield each one that was written."""
    writer: pq.ParquetWriter | None = None
    try:
        for frame in frames:
            table = frame.to_arrow(compat_level=pl.CompatLevel.oldest())
            writer = writer or pq.ParquetWriter(path, table.schema, compression="zstd")
            writer.write_table(table, row_group_size=max(1, table.num_rows))
            yield frame
    finally:
        if writer is not None:
            writer.close()
