"""One long table for other viewers: image path, task, subset, support, and losses of runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from nooch.data import csv_bytes
from nooch.evaluation import Predictions
from nooch.evaluation.metrics.pointwise import losses
from nooch.evaluation.prediction_files import PredictionSource
from nooch.evaluation.predictions import Aligned
from nooch.report.exports.contract import (
    Content,
    Exported,
    runs_of,
    table_of,
    write_folder,
    written,
)
from nooch.suites import ChallengeSet


def export_table(
    content: Content,
    out: str | Path,
    *,
    overwrite: bool = False,
    predictions: PredictionSource = (),
    reading: Mapping[str, Any] | None = None,
    images: str | Path | None = None,
) -> Exported:
    """Write ``table.csv`` and ``table.parquet``: a row for each image of each chosen set.

    Columns are ``image_path`` (null where the dataset names no file, or is not there), ``image_id,
    criterion, task, split, label, subset, support`` and, for each run of the predictions,
    ``nll:RUN``: the negative log-likelihood of the image (natural logarithm), null for tasks that
    the run does not predict.
    """
    runs = runs_of(content, predictions, reading or {})
    paths = _paths(content, images)

    def fill(folder: Path) -> list[str]:
        with (folder / "table.csv").open("wb") as text:
            frames = written(_frames(content, paths, runs), folder / "table.parquet")
            for number, frame in enumerate(frames):
                text.write(csv_bytes(frame, header=number == 0))
        none = "the dataset is not there or names no files, so there are no image paths"
        return [] if paths.height else [none]

    return write_folder(content, "table", out, fill, overwrite=overwrite)


def _paths(content: Content, images: str | Path | None) -> pl.DataFrame:
    """``image_id, image_path`` of the images that have a file."""
    if content.data is None:
        return pl.DataFrame(schema={"image_id": pl.Int64, "image_path": pl.String})
    paths_known = content.data.images.drop_nulls("file_name").select(
        "image_id", image_path="file_name"
    )
    if images is None:
        return paths_known
    folder = Path(images).as_posix().rstrip("/")
    return paths_known.with_columns(
        pl.concat_str(pl.lit(f"{folder}/"), "image_path").alias("image_path")
    )


def _frames(
    content: Content, paths: pl.DataFrame, runs: Sequence[Predictions]
) -> Iterator[pl.DataFrame]:
    for challenge in content.sets():
        rows = table_of(challenge).with_columns(
            criterion=pl.lit(challenge.criterion), split=pl.lit(challenge.split)
        )
        paths_cast = paths if paths.height else paths.cast({"image_id": rows["image_id"].dtype})
        yield rows.join(paths_cast, on="image_id", how="left", maintain_order="left").select(
            "image_path", "image_id", "criterion", "task", "split", "label", "subset", "support",
            *(_losses(run, challenge) for run in runs),
        )  # fmt: skip


def _losses(run: Predictions, challenge: ChallengeSet) -> pl.Series:
    name = f"nll:{run.run}"
    if challenge.task not in run.tasks:
        return pl.Series(name, [None] * len(challenge), dtype=pl.Float64)
    aligned = Aligned(run, challenge.image_ids, challenge.split)
    values = aligned.values(challenge.task, slice(None), challenge)
    return pl.Series(name, losses(challenge.labels, values, run.scale))
