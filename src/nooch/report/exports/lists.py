"""``ids``: one JSON file of the hard images' ids; ``csv``: a table for each criterion and task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import polars as pl

from nooch.base.errors import InputError, some_of
from nooch.data import Dataset, csv_bytes
from nooch.report.exports.contract import (
    HARD_SUBSETS,
    Content,
    Exported,
    Names,
    about,
    runs_of,
    safe_name,
    table_of,
    write_export,
    write_file,
)
from nooch.suites import ChallengeSet, SetRecord

if TYPE_CHECKING:
    from nooch.evaluation import Predictions
    from nooch.evaluation.prediction_files import PredictionSource

_HEAD = b'{"format":"nooch-ids"'


def export_ids(content: Content, out: str | Path, *, overwrite: bool = False) -> Exported:
    """Write ``OUT`` as JSON: ``format, version, nooch, suite, dataset, criteria, licenses, sets,
    skipped``.

    A set has ``criterion, task, split``, ascending ids ``hard_positive`` and ``hard_negative``, and
    all of its counts and thresholds under the names they have in ``suite.json``.
    """

    def make() -> tuple[bytes, list[str]]:
        sets = [
            msgspec.to_builtins(SetRecord.from_set(challenge))
            | {subset: challenge.ids(subset) for subset in HARD_SUBSETS}
            for challenge in content.sets()
        ]
        skipped = content.suite.header.skipped
        document = {"version": 1, **about(content), "sets": sets, "skipped": skipped}
        return b"," + msgspec.json.encode(document)[1:] + b"\n", []

    kind = "nooch-ids file"
    return write_file(content, "ids", out, make, head=_HEAD, kind=kind, overwrite=overwrite)


def export_csv(
    content: Content,
    out: str | Path,
    *,
    overwrite: bool = False,
    predictions: PredictionSource = (),
    reading: Mapping[str, Any] | None = None,
) -> Exported:
    """Write ``{criterion}/{task}.csv`` with ``split,filename,y,a``, then
    ``image_id,subset,support``, and ``nll:RUN`` for each run of the predictions.

    ``y`` is 1 where the task's class is present; ``a`` is 1 where the context suggests that it is:
    1 for easy positives and hard negatives, 0 for hard positives and easy negatives. So y = a
    holds where context helps, and the groups (y, a) are as in group robustness methods.
    ``filename`` is relative to the dataset's folder of images. ``nll:RUN`` is the negative
    log-likelihood of the image (natural logarithm), null for tasks that the run does not predict.
    """
    runs = runs_of(content, predictions, reading or {})

    def fill(folder: Path) -> list[str]:
        data = content.need_data("a CSV with file names")
        names = Names()
        tables: dict[tuple[str, str], list[pl.DataFrame]] = {}
        for challenge in content.sets():
            tables.setdefault((challenge.criterion, challenge.task), []).append(
                _rows(challenge, data, runs)
            )
        for (criterion, task), frames in tables.items():
            name = f"{safe_name(criterion)}/{safe_name(task)}.csv"
            file = folder / names.take(name, f"{criterion} {task}")
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(csv_bytes(pl.concat(frames)))
        return []

    return write_export(content, "csv", out, fill, overwrite=overwrite)


def _rows(challenge: ChallengeSet, data: Dataset, runs: Sequence[Predictions]) -> pl.DataFrame:
    hard = pl.col("subset") != "easy"
    names = data.images.select("image_id", filename="file_name")
    rows = table_of(challenge).join(names, on="image_id", how="left", maintain_order="left")
    if len(nameless := rows.filter(pl.col("filename").is_null())["image_id"]):
        problem = f"{len(nameless)} images of split {challenge.split} have no file name"
        ways = ({"to": "ids"}, {"to": "hf"})
        raise InputError(f"{problem}: {some_of(nameless)}", give=ways)
    return rows.select(
        pl.lit(challenge.split).alias("split"),
        "filename",
        pl.col("label").alias("y"),
        (pl.col("label") ^ hard.cast(pl.Int8)).alias("a"),
        "image_id",
        "subset",
        "support",
        *(_losses(run, challenge) for run in runs),
    )


def _losses(run: Predictions, challenge: ChallengeSet) -> pl.Series:
    # most exports need no predictions
    from nooch.evaluation.metrics.pointwise import losses
    from nooch.evaluation.predictions import values_of

    name = f"nll:{run.run}"
    if challenge.task not in run.tasks:
        return pl.Series(name, [None] * len(challenge), dtype=pl.Float64)
    return pl.Series(name, losses(challenge.labels, values_of(run, challenge), run.scale))
