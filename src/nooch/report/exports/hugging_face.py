"""A folder that ``datasets.load_dataset`` reads: Parquet files and a card."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import polars as pl

from nooch.data import ALL
from nooch.report.exports.dataset_card import card
from nooch.report.exports.export_contract import Content, Exported, Key, table_of, write_folder
from nooch.report.exports.file_names import Names, safe_name
from nooch.report.exports.parquet_parts import ParquetPart, written

__all__ = ["export_hf"]


def export_hf(content: Content, out: str | Path, *, overwrite: bool = False) -> Exported:
    """Write ``data/{criterion}/{split}.parquet`` and ``README.md`` (the card).

    A table has ``image_id, file_name, task, label, subset, support``, a row for each image of each
    task; ``file_name`` only where the dataset is there and names files. Each criterion is a
    configuration of its own: ``load_dataset(OUT, "ce", split="test")``. The split ``all`` is called
    ``full``, since ``all`` is taken there.

    Raises:
        ParameterError: two criteria would have the same folder.
        OutputError: the folder exists (and ``overwrite`` is false) or cannot be written.
    """
    return write_folder(content, "hf", out, partial(_fill, content), overwrite=overwrite)


def _fill(content: Content, folder: Path) -> list[str]:
    names = Names()
    parts = []
    for criterion in content.criteria:
        config = names.take(safe_name(criterion), criterion)
        (folder / "data" / config).mkdir(parents=True)
        for split in content.splits:
            keys = [key for key in content.keys if (key[0], key[2]) == (criterion, split)]
            parts += [_part(content, folder, config, keys)] if keys else []
    (folder / "README.md").write_text(card(content, parts), encoding="utf-8")
    return []


def _part(content: Content, folder: Path, config: str, keys: Sequence[Key]) -> ParquetPart:
    """One file of a criterion and split, so that one set is in memory at a time."""
    criterion, _, split = keys[0]
    name = "full" if split == ALL else split
    path = f"data/{config}/{name}.parquet"
    rows, columns = 0, list[str]()
    for frame in written(_frames(content, keys), folder / path):
        rows += frame.height
        columns = frame.columns
    return ParquetPart(criterion, split, config, name, path, rows, columns)


def _frames(content: Content, keys: Sequence[Key]) -> Iterator[pl.DataFrame]:
    data = content.data
    named = data is not None and data.images["file_name"].null_count() < len(data)
    for challenge in (content.suite.set(*key) for key in keys):
        rows = table_of(challenge)
        if data is not None and named:
            names = data.images.select("image_id", "file_name")
            rows = rows.join(names, on="image_id", how="left", maintain_order="left")
            rows = rows.select("image_id", "file_name", pl.exclude("image_id", "file_name"))
        yield rows
