"""A folder that ``datasets.load_dataset`` reads: Parquet by criterion and split, a card, Croissant
metadata.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq

from nooch.challenge import ChallengeSet
from nooch.data import ALL, Dataset
from nooch.exports.croissant import croissant
from nooch.exports.dataset_card import card
from nooch.exports.export_contract import Content, Exported, table_of, write_folder
from nooch.exports.file_names import Names, safe_name
from nooch.exports.parquet_parts import Part
from nooch.files import sha256_of

__all__ = ["export_hf"]


def export_hf(content: Content, out: str | Path, *, overwrite: bool = False) -> Exported:
    """Write ``data/{criterion}/{split}.parquet``, ``README.md`` (the card) and ``croissant.json``.

    A table has ``image_id, file_name, task, label, subset, support``, a row for each image of each
    task; ``file_name`` only where the dataset is there and names files. Each criterion is a
    configuration of its own: ``load_dataset(OUT, "ce", split="test")``. The split ``all`` is called
    ``full``, since ``all`` is taken there.

    Raises:
        ParameterError: two criteria would have the same folder.
        OutputError: the folder exists (and ``overwrite`` is false) or cannot be written.
    """
    return write_folder(
        content, "hf", out, lambda folder: _fill(content, folder), overwrite=overwrite
    )


def _fill(content: Content, folder: Path) -> list[str]:
    names = Names()
    parts = []
    for criterion in content.criteria:
        config = names.take(safe_name(criterion), criterion)
        parts += [_part(content, folder, criterion, config, split) for split in content.splits]
    written = [part for part in parts if part is not None]
    (folder / "README.md").write_text(card(content, written), encoding="utf-8")
    (folder / "croissant.json").write_text(croissant(content, written), encoding="utf-8")
    return []


def _part(content: Content, folder: Path, criterion: str, config: str, split: str) -> Part | None:
    """One file, a row group for each task, so that one set is in memory at a time."""
    name = "full" if split == ALL else split
    path = f"data/{config}/{name}.parquet"
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    writer: pq.ParquetWriter | None = None
    rows = 0
    try:
        for frame in _frames(content, criterion, split):
            table = frame.to_arrow(compat_level=pl.CompatLevel.oldest())
            writer = writer or pq.ParquetWriter(folder / path, table.schema, compression="zstd")
            writer.write_table(table, row_group_size=max(1, table.num_rows))
            rows += table.num_rows
            columns = {column: str(kind) for column, kind in frame.schema.items()}
    finally:
        if writer is not None:
            writer.close()
    if writer is None:
        return None
    file = folder / path
    return Part(
        criterion, split, config, name, path, rows, columns, sha256_of(file), file.stat().st_size
    )


def _frames(content: Content, criterion: str, split: str) -> Iterator[pl.DataFrame]:
    names = _file_names(content.data)
    for key in content.keys:
        if (key[0], key[2]) == (criterion, split):
            yield _named(content.suite.set(*key), names)


def _file_names(data: Dataset | None) -> pl.DataFrame | None:
    if data is None or data.images["file_name"].null_count() == len(data):
        return None
    return data.images.select("image_id", "file_name")


def _named(challenge: ChallengeSet, names: pl.DataFrame | None) -> pl.DataFrame:
    rows = table_of(challenge)
    if names is None:
        return rows
    joined = rows.join(names, on="image_id", how="left", maintain_order="left")
    return joined.select("image_id", "file_name", pl.exclude("image_id", "file_name"))
