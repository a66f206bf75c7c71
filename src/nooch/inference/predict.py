"""Suite, images and a network that was trained elsewhere -> predictions, ready to evaluate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.base.calls import Count, StepProgress, checked, no_progress
from nooch.base.errors import Command, InputError, ParameterError, check_one_of
from nooch.base.limits import spread, usable_cpus
from nooch.data import Dataset, as_dataset
from nooch.data.objects import BOX
from nooch.data.readers.image_files import files_of
from nooch.data.table_files import write_result
from nooch.data.table_schema import check_split
from nooch.evaluation import Predictions
from nooch.models.detectors import Detect, ImageBoxes
from nooch.models.devices import memory_limits, reuse_memory
from nooch.models.images import Decoding, decode_images, decode_whole, refuse_broken
from nooch.models.output_meaning import share_notes
from nooch.models.pixel_batches import batches_of, forward, read_in_order
from nooch.models.task_models import TaskModel
from nooch.suites import Suite, as_suite


def tasks_to_predict(suite: Suite | Dataset, tasks: Sequence[str] | None = None) -> list[str]:
    """The tasks that are asked for, or all that have a set (of a dataset: all classes)."""
    if isinstance(suite, Dataset):
        return [suite.classes[suite.column(task)] for task in tasks or suite.classes]
    for task in tasks or ():
        check_one_of("task", task, suite.tasks, owner="the suite")
    with_sets = {task for _, task, _ in suite.keys}
    task_names = tasks or with_sets
    if not task_names:
        problem = "the suite has no challenge set to predict for"
        raise ParameterError(problem, give=Command("find"))
    return [task for task in suite.tasks if task in task_names]


def find_images(
    suite: Suite | Dataset | str | Path,
    tasks: Sequence[str],
    *,
    splits: Sequence[str] | None = None,
    data: Dataset | str | Path | None = None,
    images: str | Path | None = None,
    limit: Count | None = None,
) -> tuple[pl.Series, list[Path]]:
    """The ids of the images to predict, ascending, and their files, which must all exist.

    Args:
        suite: the suite; or a dataset, all of whose images are wanted.
        tasks: whose images are wanted.
        splits: names of splits; by default all.
        data: a dataset; files without known names are found by id: ``17.jpg``, ``00...017.jpg``.
        images: folder of images, if not the one that the dataset records. Links to targets outside
            the folder count as missing.
        limit: number of images, evenly spread, for a first try.

    Raises:
        InputError: no folder of images, or missing images; several are named at once.
        ParameterError: a task or split that the suite does not have, or no set.
    """
    if isinstance(suite, Dataset):
        for split in splits or ():
            check_split(split, suite.splits)
        ids = suite.images.filter(pl.col("split").is_in(splits or [*suite.splits]))["image_id"]
        ids = ids.gather(spread(len(ids), limit))
        return ids, files_of(ids.to_list(), suite, images)
    suite = as_suite(suite)
    data = None if data is None else as_dataset(data)
    ids = suite.image_ids(suite.select_keys(tasks=tasks, splits=splits or ()))
    ids = ids.gather(spread(len(ids), limit))
    return ids, files_of(ids.to_list(), data, images)


@checked
def predict(
    model: TaskModel,
    ids: pl.Series,
    paths: Sequence[Path],
    *,
    batch: Count = 32,
    codec: str | Decoding = "auto",
    readers: Count | None = None,
    run: str | None = None,
    progress: StepProgress = no_progress,
) -> Predictions:
    """Logits of every task for every image; of a detector the boxes, in their images' pixels.

    Images are decoded by threads, a few batches ahead, and resized to the model's input as ``nooch
    train pixels`` does: the whole image, without its aspect (a detector's as its kind demands). On
    a CPU the same batch size and number of threads give the same bytes.

    Args:
        model: from ``load_task_model``.
        ids: of the images, from ``find_images``.
        paths: their files.
        batch: images in a batch.
        codec: ``fast``, ``pil`` or ``auto``, or a ``nooch.models.images.Decoding``.
        readers: threads that decode; by default one for each CPU.
        run: name of the run; the model's by default.
        progress: called with (images done, images).

    Raises:
        InputError: images that cannot be read, or logits that are not finite.
        ParameterError: an empty batch.
        NoochError: out of memory; a smaller batch is suggested.
    """
    decoding = Decoding.resolve(codec)
    if model.detect is not None:
        boxes, labels, scores = [], [], []
        for found in detected(model.detect, paths, batch, decoding, readers, progress):
            boxes.append(found.boxes)
            labels.append(found.labels)
            scores.append(found.scores)
        name = run or model.name
        return Predictions.from_boxes(ids, boxes, labels, scores, classes=model.tasks, run=name)

    def read(rows: range) -> tuple[NDArray[np.uint8], list[str]]:
        return decode_images([paths[row] for row in rows], model.size, decoding)

    values = read_logits(model, ids, read, batch=batch, readers=readers, progress=progress)
    return Predictions.from_arrays(
        values, ids, list(model.tasks), scale="logit", run=run or model.name
    )


def detected(
    detect: Detect,
    paths: Sequence[Path],
    batch: int,
    decoding: Decoding,
    readers: int | None,
    progress: StepProgress,
) -> Iterator[ImageBoxes]:
    """The boxes of each image file, ``batch`` images at a time; errors are as of ``predict``."""
    read = partial(decode_whole, codec=decoding)
    images = read_in_order(read, paths, readers or usable_cpus())
    progress(0, len(paths))
    for rows in batches_of(range(len(paths)), batch):
        with memory_limits(batch, "predicting"):
            yield from detect([*islice(images, len(rows))])
        progress(rows.stop, len(paths))


def read_logits(
    model: TaskModel,
    ids: pl.Series,
    read: Callable[[range], tuple[NDArray[np.uint8], list[str]]],
    *,
    batch: int,
    readers: int | None,
    progress: StepProgress,
) -> NDArray[np.float64]:
    """Logits (n_images, n_tasks) of pixels that ``read`` gives for rows of ``ids``, in threads,
    with a ``path: reason`` for each failure. Other arguments and errors are as in ``predict``.
    """
    if batch < 1:
        raise ParameterError(f"batch of {batch}", allowed="at least 1 image")
    if model.device == "cpu":
        reuse_memory()
    total = len(ids)
    batches = batches_of(range(total), batch)
    values = np.empty((total, len(model.tasks)))
    progress(0, total)
    for rows, (pixels, broken) in zip(
        batches, read_in_order(read, batches, readers or usable_cpus()), strict=True
    ):
        refuse_broken(broken)
        with memory_limits(batch, "predicting"):
            values[rows.start : rows.stop] = forward(model.logits, pixels, model.device)
        progress(rows.stop, total)
    if unusable := np.flatnonzero(~np.isfinite(values).all(axis=1)).tolist():
        first, remedy = ids[unusable[0]], "check the model's weights and the task map"
        problem = f"the logits of {len(unusable)} images are not finite, such as {first}"
        raise InputError(problem, where=model.name, remedy=remedy)
    return values


def answer_notes(model: TaskModel, predictions: Predictions, suite: Suite | Dataset) -> list[str]:
    """Notes on how outputs were read, with shares of yes next to the labels'; see ``share_notes``.
    None for a model whose outputs have one meaning.
    """
    if model.reading is None:
        return []
    counts = dict[str, tuple[int, int, int | None]]()
    for task, values in zip(predictions.tasks, predictions.values, strict=True):
        known = _known_labels(suite, task).rename({"label": "known"})
        answers = pl.DataFrame(
            [predictions.image_ids.alias("image_id"), pl.Series("yes", values > 0)]
        )
        joined = answers.join(known, on="image_id")
        counts[task] = (len(joined), int(joined["yes"].sum()), int(joined["known"].sum()))
    return share_notes(model.reading, counts)


def _known_labels(suite: Suite | Dataset, task: str) -> pl.DataFrame:
    """``image_id, label`` of a task."""
    if isinstance(suite, Dataset):
        ids, labels = suite.images["image_id"], suite.labels(task, unknown=False)
        unknown = suite.unknown_labels(task)
        table = pl.DataFrame({"image_id": ids, "label": labels})
        return table if unknown is None else table.filter(~unknown)
    sets = (suite.set(*key) for key in suite.select_keys(tasks=[task]))
    parts = [pl.DataFrame({"image_id": s.image_ids, "label": s.labels}) for s in sets]
    return pl.concat(parts).unique("image_id")


def save_predictions(
    predictions: Predictions, path: str | Path, *, overwrite: bool = False
) -> Path:
    """Write predictions atomically as ``image_id, task, run, logit`` (or ``probability``); of a
    detector a row for each box, with ``left, top, width, height``.

    Raises:
        ParameterError: another ending than ``.parquet`` and ``.csv``.
        OutputError: the file exists (and ``overwrite`` is false) or cannot be written.
    """
    scale, found = predictions.scale, predictions.boxes
    if found is not None:
        tasks = pl.Series("task", predictions.tasks, dtype=pl.String).gather(found.boxes.label)
        rows = predictions.image_ids.gather(found.boxes.image).alias("image_id")
        scores = pl.Series(scale, found.scores)
        table = pl.DataFrame([rows, tasks, scores]).with_columns(run=pl.lit(predictions.run))
        table = table.hstack(pl.DataFrame(found.boxes.box, schema=list(BOX)))
        return write_result(path, "predictions file", table, overwrite=overwrite)
    columns = dict(zip(predictions.tasks, predictions.values, strict=True))
    wide = pl.DataFrame({"image_id": predictions.image_ids, **columns})
    long = wide.unpivot(index="image_id", variable_name="task", value_name=scale)
    long = long.with_columns(run=pl.lit(predictions.run)).filter(pl.col(scale).is_not_nan())
    return write_result(path, "predictions file", long, overwrite=overwrite)
