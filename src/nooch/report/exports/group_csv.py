"""Tables ``split,filename,y,a`` for loaders of group robustness methods, as for Waterbirds."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from nooch.base.errors import InputError, some_of
from nooch.data import Dataset, csv_bytes
from nooch.report.exports.export_contract import Content, Exported, table_of, write_folder
from nooch.report.exports.file_names import Names, safe_name
from nooch.suites import ChallengeSet

__all__ = ["export_csv"]


def export_csv(content: Content, out: str | Path, *, overwrite: bool = False) -> Exported:
    """Write ``{criterion}/{task}.csv`` with ``split,filename,y,a`` and then
    ``image_id,subset,support``.

    ``y`` is 1 where the task's class is present; ``a`` is 1 where the context suggests that it is:
    1 for easy positives and hard negatives, 0 for hard positives and easy negatives. So y = a holds
    where context helps, and the groups (y, a) are those of group robustness methods. ``filename``
    is relative to the dataset's folder of images.

    Raises:
        InputError: the dataset is not there, or has no file names.
        ParameterError: two tables would have the same file name.
        OutputError: the folder exists (and ``overwrite`` is false) or cannot be written.
    """

    def fill(folder: Path) -> list[str]:
        data = content.need_data("a CSV with file names")
        names = Names()
        tables: dict[tuple[str, str], list[pl.DataFrame]] = {}
        for one in content.sets():
            tables.setdefault((one.criterion, one.task), []).append(_rows(one, data))
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
        raise InputError(
            f"{len(nameless)} images of the {challenge.split} split have no file name:"
            f" {some_of(nameless)}",
            remedy="import the dataset again with `images` DIR, or export with `to` ids or hf",
        )
    return rows.select(
        pl.lit(challenge.split).alias("split"),
        "filename",
        pl.col("label").alias("y"),
        (pl.col("label") ^ hard.cast(pl.Int8)).alias("a"),
        "image_id",
        "subset",
        "support",
    )
