"""Images edited where their masks are, predicted again: what the answers depend on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.analysis.edit_examples import draw_examples
from nooch.analysis.task_edits import EDITS, TaskEdits
from nooch.base.display import DisplayTable, TabularResult
from nooch.base.errors import InputError, ParameterError, check_one_of, some_of
from nooch.base.files import Place, atomic_folder, check_output
from nooch.base.shared_types import Progress, no_progress, options_from
from nooch.base.words import counted
from nooch.data import Dataset
from nooch.data.data_files import csv_bytes, parquet_bytes
from nooch.evaluation import Predictions, Scores, evaluate
from nooch.evaluation.context_rates import Estimate, context_rates
from nooch.evaluation.metrics.pointwise import probabilities
from nooch.evaluation.predictions import positions
from nooch.evaluation.scores import check_scoring
from nooch.evaluation.thresholds import RULES, AnswerThreshold, answer_thresholds
from nooch.inference.predict import (
    find_images,
    predict,
    read_logits,
    save_predictions,
    tasks_to_predict,
)
from nooch.models.image_decoding import Decoding
from nooch.models.task_contract import TaskModel
from nooch.report.images.cue_masks import cue_masks
from nooch.report.images.split_images import SplitImages
from nooch.report.images.thumbnails import Wanted
from nooch.suites import Suite, as_suite

__all__ = ["CHANGES", "InterveneOptions", "Intervention", "intervene"]

CHANGES = "changes.parquet"
"""The file that marks a folder of an intervention."""

_METRICS = ("yes_rate", "error", "nll")
_PAIR, _EDITED = ("image_id", "task"), ("edit", "control")
_PATCH = "a control patch of the same size"
_WORDS = {
    "hide-object": ("when the object is hidden", _PATCH),
    "hide-cue": ("when the cue is hidden", _PATCH),
    "blur-cue": ("when the cue is blurred", _PATCH),
    "swap-background": ("on a background without the cue", "one with the cue"),
}


@dataclass(frozen=True)
class InterveneOptions:
    """What is edited, and how it is predicted.

    Attributes:
        edit: ``hide-object``; ``hide-cue`` or ``blur-cue``, all cues of a task at once; or
            ``swap-background``, the object pasted onto an image without object and cue.
        annotations: the COCO files that the dataset was made from, or a folder of label maps.
        split: whose images; ``test`` by default, or the only one.
        images: folder of images; by default the one that the dataset records.
        threshold: the answer is yes above this probability; see ``nooch.EvaluateOptions``.
        range: values that become black and white, of images of more than 8 bits a channel.
        batch: images in a batch.
        bootstrap: resamples of the intervals.
        seed: of the places of control patches, the backgrounds and the resamples.
    """

    edit: str = "hide-cue"
    annotations: Sequence[str | Path] = ()
    split: str | None = None
    images: str | Path | None = None
    threshold: AnswerThreshold = 0.5
    range: tuple[float, float] | None = None
    batch: int = 32
    bootstrap: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        check_one_of("edit", self.edit, EDITS)
        check_scoring((), self.bootstrap, least=0)


@dataclass(frozen=True, eq=False, repr=False)
class Intervention(TabularResult):
    """How answers change with an edit.

    Attributes:
        table: differences of scores as ``nooch.evaluate`` gives them, with paired intervals: of the
            edit from before, and on the images that have a control, of the edit and the control
            from before and from each other.
        scores: before and with the edit, of the edited images alone.
        sentences: the main results.
        notes: what a reader should know.
    """

    table: pl.DataFrame
    scores: Scores
    sentences: Sequence[str]
    notes: Sequence[str] = ()

    @property
    def display(self) -> DisplayTable:
        """The scores, and the sentences below."""
        return replace(self.scores.display, notes=[*self.sentences, *self.notes])


def intervene(
    suite: Suite | str | Path,
    model: TaskModel,
    out: str | Path,
    *,
    data: Dataset | Place | str | None = None,
    overwrite: bool = False,
    options: InterveneOptions | None = None,
    progress: Progress = no_progress,
    **named: Any,
) -> Intervention:
    """Edit images where their masks are, predict them again, and compare the answers.

    Pixels are edited in the size of the network's input: filled with the mean color of the others,
    or blurred by a Gaussian of 5 % of the longer side. The control is the same for as many pixels
    without object and cue, where there are; of ``swap-background``, a hard negative's background.

    Args:
        suite: the suite.
        model: from ``nooch.load_task_model``; its tasks are asked about.
        out: folder to write: ``before``, ``edit`` and ``control.parquet``, predictions of all
            images of the split (what is not edited is as before), ``edited.parquet``,
            ``changes.parquet``, ``thresholds.csv`` (above which an answer is yes) and
            ``examples.png``.
        data: the dataset; by default the one that the suite records, where it is there.
        overwrite: replace an earlier intervention.
        options: see ``InterveneOptions``.
        progress: called with what is being done, and how much of how much is done.
        named: fields of ``InterveneOptions``, such as ``edit`` and ``annotations``.

    Raises:
        InputError: images or annotations that cannot be used; no image that can be edited.
        ParameterError: unknown names, no annotations, another dataset than the suite's.
        OutputError: ``out`` exists (and ``overwrite`` is false) or cannot be written.
    """
    suite, asked = as_suite(suite), options_from(InterveneOptions, options, named)
    check_output(out, overwrite=overwrite, marker=CHANGES)
    found = suite.found_in() if data is None else suite.require_dataset(data)
    if found is None or not asked.annotations:
        raise ParameterError(
            "an edit needs the suite's dataset, and masks",
            allowed="`dataset`; `annotations`: its COCO files, or a folder of label maps",
        )
    tasks = tasks_to_predict(suite, model.tasks)
    (split,) = suite.splits_to_score(asked.split)
    splits = {split, "valid"} if asked.threshold in RULES else {split}
    # a number or a file is refused before anything is predicted
    answer_thresholds(0.5 if len(splits) > 1 else asked.threshold, suite, (), tasks)
    ids, paths = find_images(suite, tasks, splits=[*splits], data=found, images=asked.images)
    files = pl.DataFrame({"image_id": ids, "path": list(map(str, paths))})
    planned = _planned(model, suite, found, split, files, asked)
    how: dict[str, Any] = {"batch": asked.batch, "codec": Decoding(range=asked.range)}
    before = predict(model, ids, paths, progress=partial(progress, "predicting"), **how)
    versions, edited = _versions(model, planned, before, asked, progress)
    limits_of, _ = answer_thresholds(asked.threshold, suite, [before], tasks)
    limits = limits_of[before.run]
    how = {"split": split, "metrics": _METRICS, "threshold": limits}
    how |= {"bootstrap": asked.bootstrap, "seed": asked.seed}
    compared = [
        evaluate(suite, [replace(versions[n], weights=edited[w] * 1.0) for n in pair], **how)
        for *pair, w in (("before", "edit", 0), ("before", "control", 1), ("control", "edit", 1))
        if edited[w].any()
    ]
    rows = _rows(versions, edited, limits)
    sentences = list(_sentences(suite, split, rows, asked))
    table = pl.concat(scores.differences for scores in compared)
    with atomic_folder(out, overwrite=overwrite, marker=CHANGES) as folder:
        _write(folder, versions, limits, rows)
        draw_examples(folder / "examples.png", suite, rows, planned)
        (folder / CHANGES).write_bytes(parquet_bytes(table))
    return Intervention(table, compared[0], sentences, [*compared[0].notes, *_left_out(planned)])


def _write(
    folder: Path,
    versions: Mapping[str, Predictions],
    limits: Mapping[str, float],
    rows: pl.DataFrame,
) -> None:
    """Predictions, the probabilities above which they are yes, and the edited images."""
    for name, run in versions.items():
        save_predictions(run, folder / f"{name}.parquet")
    thresholds = pl.DataFrame({"task": [*limits], "threshold": [*limits.values()]})
    (folder / "thresholds.csv").write_bytes(csv_bytes(thresholds))
    (folder / "edited.parquet").write_bytes(parquet_bytes(rows))


def _planned(
    model: TaskModel,
    suite: Suite,
    data: Dataset,
    split: str,
    files: pl.DataFrame,
    asked: InterveneOptions,
) -> list[TaskEdits]:
    """The edits of each task; ``files`` are ``image_id`` and ``path``."""
    part = data.select(split)
    ids = part.images.select("image_id")
    files = files.join(ids.with_row_index("row"), on="image_id", maintain_order="left")
    wanted = [Wanted(split, row, Path(path)) for path, row in files.select("path", "row").rows()]
    images = {split: SplitImages(split, ids["image_id"], part)}
    masks = cue_masks(suite, data, images, asked.annotations, wanted, model.tasks)
    how = {"masks": partial(masks, split), "size": model.size, "seed": asked.seed}
    how["decoding"] = Decoding(range=asked.range)
    return [
        TaskEdits.of(suite, (task, split), part, files, edit=asked.edit, **how)
        for task in model.tasks
    ]


def _versions(
    model: TaskModel,
    planned: Sequence[TaskEdits],
    before: Predictions,
    asked: InterveneOptions,
    progress: Progress,
) -> tuple[dict[str, Predictions], NDArray[np.bool_]]:
    """Predictions ``before``, with the ``edit`` and with the ``control``; and which values are of
    edited images, and of those with a control: bool (2, n_tasks, n).
    """
    values, edited = np.stack([before.values] * 2), np.zeros((2, *before.values.shape), bool)
    done, total = 0, 2 * sum(len(one.images) for one in planned)

    def step(first: int, read: int, _: int) -> None:
        progress("predicting edits", first + read, total)

    for one in planned:
        ids, row = one.images["image_id"], before.tasks.index(one.task)
        logits = read_logits(
            model,
            ids.gather(np.arange(len(ids)).repeat(2)),
            one.read,
            # an image's edit and control are in the same batch
            batch=asked.batch + asked.batch % 2,
            readers=None,
            progress=partial(step, done),
        )
        done += len(logits)
        at = positions(ids, before.image_ids)
        values[:, row, at] = logits[:, row].reshape(-1, 2).T
        for number, has_control in one.has_control.items():
            edited[:, row, at[number]] = True, has_control
    if not edited.any():
        raise InputError(
            f"{asked.edit}: no image has a mask that leaves some of the image",
            where=some_of(asked.annotations),
            allowed="masks of a task's context cues or, to hide and to paste it, of the object",
        )
    edit, control = np.where(edited, values, before.values)
    versions = {
        "before": before,
        "edit": replace(before, values=edit, run=f"{before.run}, {asked.edit}"),
        "control": replace(before, values=control, run=f"{before.run}, control"),
    }
    return versions, edited


def _left_out(planned: Sequence[TaskEdits]) -> Iterator[str]:
    """Notes on images and tasks without an edit."""
    if skipped := sum(len(one.images) - len(one.has_control) for one in planned):
        yield f"{counted(skipped, 'image')} left out: no mask, or one that fills the image"
    if idle := [one.task for one in planned if not one.has_control]:
        yield f"no image is edited of {some_of(idle)}"


def _rows(
    versions: Mapping[str, Predictions], edited: NDArray[np.bool_], limits: Mapping[str, float]
) -> pl.DataFrame:
    """``image_id, task`` of edited images, and by version probability and answer (``yes_``)."""
    before, (task, image) = versions["before"], np.nonzero(edited[0])
    shown = {n: probabilities(run.values[task, image], "logit") for n, run in versions.items()}
    shown["control"][~edited[1, task, image]] = np.nan
    about = {"image_id": before.image_ids[image], "task": pl.Series(before.tasks)[task]}
    rows = pl.DataFrame({**about, **shown}).with_columns(pl.col("control").fill_nan(None))
    limit = pl.col("task").replace_strict(limits, return_dtype=pl.Float64)
    return rows.with_columns((pl.col(*versions) > limit).name.prefix("yes_"))


def _sentences(
    suite: Suite, split: str, rows: pl.DataFrame, asked: InterveneOptions
) -> Iterator[str]:
    """How many errors on hard images go with the edit, and how many easy positives stay right."""
    when, control = _WORDS[asked.edit]
    right = pl.col("yes_before") == pl.col("cell").str.ends_with("positive")
    shown = [("hard_negative", ~right, "wrong"), ("hard_positive", ~right, "wrong")]
    if asked.edit == "hide-object":
        # without the object, yes is not right
        shown = [("hard_positive", right, "right")]
    for criterion in suite.criteria:
        keys = [key for key in suite.keys if (key[0], key[2]) == (criterion, split)]
        if not keys:
            continue
        known = rows.join(pl.concat(suite.set(*key).cell_frame for key in keys), on=_PAIR)
        for cell, inside, was in [*shown, ("easy_positive", right, "right")]:
            of = known.filter(inside, cell=cell)
            share, of_control = (_share(of.drop_nulls(n), n, cell, asked) for n in _EDITED)
            if share is None:
                continue
            now = "still answered yes" if was == "right" else "right"
            by = f" by {criterion}" if len(suite.criteria) > 1 else ""
            text = f"Of {share.n:,} {cell.replace('_', ' ')}s{by} that the model got {was}, "
            text += f"{share.n * (share.value or 0):,.0f} are {now} {when} ({_percent(share)})"
            if of_control is not None:
                text += f"; {control}: {_percent(of_control)} of {of_control.n:,}"
            yield text


def _share(rows: pl.DataFrame, version: str, cell: str, asked: InterveneOptions) -> Estimate | None:
    """The share of right answers of images of one cell, or None without images."""
    if not rows.height:
        return None
    yes = rows.with_columns(yes=pl.col(f"yes_{version}") == cell.endswith("positive"))
    rates = context_rates(yes, bootstrap=asked.bootstrap, seed=asked.seed)
    return rates.estimates["rate", cell]


def _percent(estimate: Estimate) -> str:
    value, low, high = (100 * (v or 0) for v in (estimate.value, estimate.low, estimate.high))
    return f"{value:.0f} % [{low:.0f}, {high:.0f}]"
