"""Images edited where their masks are, predicted again: what the answers depend on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from PIL import Image, ImageFilter

from nooch.analysis.hide_background import compared_ways, objects_of, shown_objects
from nooch.base.calls import Count, Progress, checked, no_progress
from nooch.base.display import DisplayTable, TabularResult
from nooch.base.errors import InputError, ParameterError, some_of
from nooch.base.files import check_output, write_folder
from nooch.base.limits import spread
from nooch.base.words import counted
from nooch.data import Dataset
from nooch.data.table_files import csv_bytes, parquet_bytes
from nooch.evaluation import Predictions, Scores, evaluate
from nooch.evaluation.context_rates import Estimate, context_rates
from nooch.evaluation.metrics.pointwise import probabilities
from nooch.evaluation.predictions import positions
from nooch.evaluation.scores import Resamples
from nooch.evaluation.thresholds import RULES, AnswerThreshold, answer_thresholds
from nooch.inference.predict import (
    answer_notes,
    find_images,
    predict,
    read_logits,
    save_predictions,
    tasks_to_predict,
)
from nooch.models.images import Decoding, decode_images
from nooch.models.task_models import TaskModel
from nooch.report.figures.style import encoded
from nooch.report.images.cue_masks import cue_masks
from nooch.report.images.sheets import SheetLayout, SheetPanel, Tile, draw_sheet
from nooch.report.images.thumbnails import SplitImages, Wanted
from nooch.suites import CELLS, Suite, as_suite

Pixels = NDArray[np.uint8]
Mask = NDArray[np.bool_]

_BLUR = 0.05
"""Standard deviation of the Gaussian, as a share of the longer side."""


def mask_of_size(mask: Mask, size: tuple[int, int]) -> Mask:
    """The mask resized: a pixel is inside where any of it is."""
    whole = Image.fromarray(mask.astype(np.uint8) * 255)
    return np.asarray(whole.resize(size[::-1], Image.Resampling.BOX)) > 0


def hidden(pixels: Pixels, mask: Mask) -> Pixels:
    """The mask filled with the mean color of the pixels outside, of which there must be one."""
    color = pixels[~mask].mean(axis=0).round().astype(np.uint8)
    return np.where(mask[:, :, None], color, pixels)


def blurred(pixels: Pixels, mask: Mask) -> Pixels:
    """The image with a Gaussian blur inside of the mask."""
    blur = ImageFilter.GaussianBlur(_BLUR * max(mask.shape))
    return np.where(mask[:, :, None], np.asarray(Image.fromarray(pixels).filter(blur)), pixels)


def control_patch(mask: Mask, free: Mask, random: np.random.Generator) -> Mask | None:
    """As many free pixels as the mask has, those nearest to a random one; None: there are fewer."""
    places, n = np.argwhere(free), int(mask.sum())
    if len(places) < n:
        return None
    distance = ((places - random.choice(places)) ** 2).sum(axis=1)
    patch = np.zeros_like(mask)
    patch[tuple(places[np.argsort(distance, kind="stable")[:n]].T)] = True
    return patch


_BACKGROUND = "hide-background"
EDITS = ("hide-object", "hide-cue", "blur-cue", "swap-background", _BACKGROUND)
_OF_OBJECTS = ("hide-object", "swap-background")

Masks = Callable[[int], Sequence[tuple[str, NDArray[np.bool_]]]]


@dataclass(frozen=True, eq=False)
class TaskEdits:
    """Images of a task, each to be edited in one way and, as a control, in another.

    Attributes:
        edit: one of ``EDITS``.
        task: its name; ``cues`` are its context cues.
        images: ``image_id``, ``row`` in the split, and ``path``: those with the object or a cue.
        backgrounds: files of images without the object: those without a cue, those with one.
        masks: row of an image -> masks of classes; see ``nooch.report.images.cue_masks``.
        size: height and width of the network's input.
        decoding: how image files become pixels.
        seed: of the places of control patches, and of backgrounds.
        has_control: number of an image -> whether it has a control; filled while images are read,
            without those that cannot be edited.
    """

    edit: str
    task: str
    cues: Sequence[str]
    images: pl.DataFrame
    backgrounds: tuple[Sequence[str], Sequence[str]]
    masks: Masks
    size: tuple[int, int]
    decoding: Decoding
    seed: int
    has_control: dict[int, bool] = field(default_factory=dict)

    @classmethod
    def plan(
        cls, suite: Suite, key: tuple[str, str], data: Dataset, files: pl.DataFrame, **how: Any
    ) -> TaskEdits:
        """Plan the edits of a task and split, ``key``; ``files`` are all images of the split, whose
        dataset is ``data``; ``how`` has the other attributes.
        """
        keys = [set_key for set_key in suite.keys if set_key[1:] == key]
        listed = [record.cues.get(key[0], []) for record in suite.header.criteria.values()]
        cues = list(dict.fromkeys(cue for pairs in listed for cue, _ in pairs))
        own = files.filter(pl.col("image_id").is_in(suite.image_ids(keys).implode()))
        labels = [data.labels(name, unknown=False)[own["row"]] for name in (key[0], *cues)]
        thing, context = labels[0], np.any([np.zeros(len(own), bool), *labels[1:]], axis=0)
        inside = thing if how["edit"] in _OF_OBJECTS else context
        hard = [image for set_key in keys for image in suite.set(*set_key).ids("hard_negative")]
        sides = ~thing & ~context, ~thing & context & own["image_id"].is_in(hard).to_numpy()
        without, with_cue = (own["path"].filter(side).to_list() for side in sides)
        possible = how["edit"] != "swap-background" or bool(without and with_cue)
        return cls(
            task=key[0],
            cues=cues,
            images=own.filter(inside & possible),
            backgrounds=(without, with_cue),
            **how,
        )

    def read(self, items: range) -> tuple[NDArray[np.uint8], list[str]]:
        """Items 2 i and 2 i + 1 are image i with its edit and with its control; what cannot be
        edited is unchanged. Returns as ``decode_images``.
        """
        numbers = range(items.start // 2, items.stop // 2)
        paths = self.images["path"][list(numbers)].to_list()
        pixels, broken = decode_images(paths, self.size, self.decoding)
        pixels = pixels.repeat(2, axis=0)
        for number, start in zip(numbers, range(0, len(pixels), 2), strict=True):
            broken += self._edit(number, pixels[start : start + 2])
        return pixels, broken

    def _edit(self, number: int, pair: NDArray[np.uint8]) -> list[str]:
        """Edit an image and its copy in place; return which files cannot be read."""
        row = self.images["row"][number]
        random, nothing = np.random.default_rng([self.seed, row]), np.zeros(self.size, bool)
        shapes = [(name, mask) for name, mask in self.masks(row) if name in {self.task, *self.cues}]
        masks = {name: mask_of_size(mask, self.size) for name, mask in shapes}
        thing = masks.get(self.task, nothing)
        context = np.any([nothing, *(masks.get(c, nothing) for c in self.cues)], axis=0) & ~thing
        if self.edit == "swap-background":
            if not thing.any():
                return []
            background_files = [
                files[int(random.integers(len(files)))] for files in self.backgrounds
            ]
            backgrounds, broken = decode_images(background_files, self.size, self.decoding)
            pair[:] = np.where(thing[:, :, None], pair, backgrounds)
            self.has_control[number] = True
            return broken
        mask = thing if self.edit == "hide-object" else context
        if mask.any() and not mask.all():
            patch = control_patch(mask, ~(thing | context), random)
            change = blurred if self.edit == "blur-cue" else hidden
            pair[0] = change(pair[0], mask)
            if patch is not None:
                pair[1] = change(pair[1], patch)
            self.has_control[number] = patch is not None
        return []


_MOST = 6
"""Examples of a subset."""


def draw_examples(
    file: Path, suite: Suite, rows: pl.DataFrame, planned: Sequence[TaskEdits]
) -> None:
    """Draw the edits of each subset (of the task's first criterion) that change the probability
    most; rows are as in ``edited.parquet``.
    """
    plans = {plan.task: plan for plan in planned}
    cells = suite.cells(suite.keys)
    cells = cells.unique(["image_id", "task"], keep="first", maintain_order=True)
    change = (pl.col("edit") - pl.col("before")).abs()
    rows = rows.join(cells, on=["image_id", "task"]).sort(change, descending=True)
    panels: list[SheetPanel] = []
    with TemporaryDirectory() as folder:
        for row in pl.concat(rows.filter(cell=cell).head(_MOST) for cell in CELLS).to_dicts():
            plan, tiles = plans[row["task"]], []
            position = plan.images["image_id"].to_list().index(row["image_id"])
            unedited, _ = decode_images([plan.images["path"][position]], plan.size, plan.decoding)
            pixels = [*unedited, *plan.read(range(2 * position, 2 * position + 2))[0]]
            for name, version in zip(("before", "edit", "control"), pixels, strict=True):
                if row[name] is not None:
                    path = Path(folder) / f"{len(panels)}-{name}.png"
                    Image.fromarray(version).save(path)
                    answer = "yes" if row[f"yes_{name}"] else "no"
                    tiles.append(Tile(path, [f"{name}: {answer} ({row[name]:.2f})"]))
            title = f"{row['task']}, image {row['image_id']}"
            panels.append(SheetPanel(title, tiles, row["cell"].replace("_", " ")))
        if panels:
            file.write_bytes(encoded(draw_sheet(panels, SheetLayout(3, 3, 1.2)), "png"))


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


@dataclass(frozen=True, eq=False, repr=False)
class Intervention(TabularResult):
    """Changes of answers with an edit.

    Attributes:
        table: differences of scores as ``nooch.evaluate`` gives them, with paired intervals: of the
            edit from before, and on the images that have a control, of the edit and the control
            from before and from each other. Of objects whose background is hidden, recall and its
            changes, see ``nooch.analysis.hide_background.compared_ways``.
        scores: before and with the edit, of only the edited images; None for objects.
        sentences: the main results.
        notes: what a reader should know.
    """

    table: pl.DataFrame
    scores: Scores | None
    sentences: Sequence[str]
    notes: Sequence[str] = ()

    @property
    def display(self) -> DisplayTable:
        """The scores, and the sentences below."""
        notes = [*self.sentences, *self.notes]
        if self.scores is None:
            title = "objects found, and changes"
            return DisplayTable(title, self.table.columns, self.table.rows(), 5, notes)
        return replace(self.scores.display, notes=notes)


@checked
def intervene(
    suite: Suite | str | Path,
    model: TaskModel,
    out: str | Path,
    *,
    data: Dataset | str | Path | None = None,
    overwrite: bool = False,
    edit: Annotated[str, EDITS] = "hide-cue",
    annotations: Sequence[str | Path] = (),
    split: str | None = None,
    images: str | Path | None = None,
    limit: Count | None = None,
    threshold: AnswerThreshold = 0.5,
    range: tuple[float, float] | None = None,
    batch: Count = 32,
    bootstrap: Resamples = 1000,
    group: str | None = None,
    seed: int = 0,
    progress: Progress = no_progress,
) -> Intervention:
    """Edit images by their masks, predict them again, and compare the answers.

    Pixels are edited in the size of the network's input: filled with the mean color of the others,
    or blurred by a Gaussian of 5% of the longer side. The control is the same for as many pixels
    without object and cue, if there are; of ``swap-background``, a hard negative's background. A
    detector's ``hide-background`` shows each object by itself, by its mask and, as a control, with
    its box and 10% around it, in the size of the image; what is hidden has its mean color.

    Args:
        suite: the suite.
        model: from ``nooch.models.load_task_model``; its tasks are asked about.
        out: folder to write: ``before``, ``edit`` and ``control.parquet``, predictions of all
            images of the split (what is not edited is as before; with `limit` of its images),
            ``edited.parquet``, ``changes.parquet``, ``thresholds.csv`` (above which an answer is
            yes) and ``examples.png``; of objects there are no other images and predictions.
        data: the dataset; by default the one that the suite records, if it is there.
        overwrite: replace an earlier intervention.
        edit: ``hide-object``; ``hide-cue`` or ``blur-cue``, all cues of a task at once; or
            ``swap-background``, the object pasted onto an image without object and cue; or, of a
            detector, ``hide-background``.
        annotations: the COCO files that the dataset was made from, or a folder of label maps.
        split: split of the images; by default ``test``, or the only one.
        images: folder of images; by default the one that the dataset records.
        limit: number of images of each task to edit and predict, evenly spread, for a first try. A
            rule for `threshold` still predicts the whole split valid.
        threshold: the answer is yes above this probability; see ``nooch.evaluate``.
        range: for images of more than 8 bits per channel, the values that become black and white.
        batch: images in a batch.
        bootstrap: resamples of the intervals.
        group: column, or pattern of file names, of images that count as one in intervals and tests,
            such as ``scene``; by default the suite's.
        seed: seed of the positions of control patches, the backgrounds and the resamples.
        progress: called with what is being done, and how much of how much is done.

    Raises:
        InputError: images or annotations that cannot be used; no image that can be edited.
        ParameterError: unknown names, no annotations, another dataset than the suite's.
        OutputError: ``out`` exists (and ``overwrite`` is false) or cannot be written.
    """
    suite = as_suite(suite, group, data)
    check_output(out, overwrite=overwrite, marker=CHANGES)
    if edit == _BACKGROUND and model.detect is None:
        problem = f"{model.name} is not a detector, which this edit needs"
        raise ParameterError(problem, where="`edit`", allowed=", ".join(EDITS[:-1]))
    dataset = suite.source_dataset() if data is None else suite.require_dataset(data)
    if dataset is None or not annotations:
        problem = "an edit needs the suite's dataset, and masks"
        needed = {"data": dataset, "annotations": annotations or None}
        raise ParameterError(
            problem,
            allowed="annotations: the dataset's COCO files, or a folder of label maps",
            give={name: ... for name, value in needed.items() if value is None},
        )
    tasks = tasks_to_predict(suite, model.tasks)
    (split,) = suite.splits_to_score(split)
    splits = {split, "valid"} if threshold in RULES else {split}
    # a number or a file is refused before anything is predicted
    answer_thresholds(0.5 if len(splits) > 1 else threshold, suite, (), tasks)
    ids, paths = find_images(suite, tasks, splits=[*splits], data=dataset, images=images)
    files = pl.DataFrame({"image_id": ids, "path": list(map(str, paths))})
    how: dict[str, Any] = {
        "batch": batch,
        "codec": Decoding.resolve(Decoding(range=range), dataset),
    }
    masks: dict[str, Any] = {"annotations": annotations, "decoding": how["codec"]}
    if edit == _BACKGROUND:
        objects = objects_of(dataset.select(split), files, model.tasks, limit)
        planned, chosen = [], [objects["image_id"]]
    else:
        planned = _planned(model, suite, dataset, split, files, edit=edit, seed=seed, **masks)
        if limit is not None:
            planned = [replace(p, images=p.images[spread(len(p.images), limit)]) for p in planned]
        chosen = [plan.images["image_id"] for plan in planned]
    if limit is not None:
        of_rule = dataset.images.filter(pl.col("split").is_in(splits - {split}))["image_id"]
        files = files.filter(pl.col("image_id").is_in(pl.concat([*chosen, of_rule]).implode()))
    ids, paths = files["image_id"], [*map(Path, files["path"])]
    before = predict(model, ids, paths, progress=partial(progress, "predicting"), **how)
    limits_of, notes = answer_thresholds(threshold, suite, [before], tasks)
    limits = limits_of[before.run]
    if edit == _BACKGROUND:
        objects, bare = shown_objects(model, before, dataset, objects, **masks, progress=progress)
        table, sentences = compared_ways(objects, limits, suite, split, bootstrap, seed)
        with write_folder(out, overwrite=overwrite, marker=CHANGES) as folder:
            _write(folder, {"before": before}, limits, objects, table)
        return Intervention(table, None, sentences, notes + bare)
    versions, edited = _versions(model, planned, before, edit, batch, progress)
    how = {"split": split, "metrics": _METRICS, "threshold": limits}
    how |= {"bootstrap": bootstrap, "seed": seed}
    compared = [
        evaluate(suite, [replace(versions[n], weights=edited[w] * 1.0) for n in pair], **how)
        for *pair, w in (("before", "edit", 0), ("before", "control", 1), ("control", "edit", 1))
        if edited[w].any()
    ]
    rows = _rows(versions, edited, limits)
    sentences = list(_sentences(suite, split, rows, edit, bootstrap, seed))
    table = pl.concat(scores.differences for scores in compared)
    with write_folder(out, overwrite=overwrite, marker=CHANGES) as folder:
        draw_examples(folder / "examples.png", suite, rows, planned)
        _write(folder, versions, limits, rows, table)
    notes = [*answer_notes(model, before, suite), *compared[0].notes, *_left_out(planned)]
    return Intervention(table, compared[0], sentences, notes)


def _write(
    folder: Path,
    versions: Mapping[str, Predictions],
    limits: Mapping[str, float],
    edited: pl.DataFrame,
    changes: pl.DataFrame,
) -> None:
    """Write all but the examples; ``limits`` are what an answer is yes above."""
    for name, run in versions.items():
        save_predictions(run, folder / f"{name}.parquet")
    thresholds = pl.DataFrame({"task": [*limits], "threshold": [*limits.values()]})
    (folder / "thresholds.csv").write_bytes(csv_bytes(thresholds))
    (folder / "edited.parquet").write_bytes(parquet_bytes(edited))
    (folder / CHANGES).write_bytes(parquet_bytes(changes))


def _planned(
    model: TaskModel,
    suite: Suite,
    data: Dataset,
    split: str,
    files: pl.DataFrame,
    *,
    annotations: Sequence[str | Path],
    decoding: Decoding,
    edit: str,
    seed: int,
) -> list[TaskEdits]:
    """The edits of each task; ``files`` are ``image_id`` and ``path``."""
    part = data.select(split)
    ids = part.images.select("image_id")
    files = files.join(ids.with_row_index("row"), on="image_id", maintain_order="left")
    pictures = [Wanted(split, row, Path(path)) for path, row in files.select("path", "row").rows()]
    images = {split: SplitImages(split, ids["image_id"], part)}
    masks = cue_masks(suite, data, images, annotations, pictures, model.tasks)
    how = {"masks": partial(masks, split), "size": model.size, "decoding": decoding}
    return [
        TaskEdits.plan(suite, (task, split), part, files, edit=edit, seed=seed, **how)
        for task in model.tasks
    ]


def _versions(
    model: TaskModel,
    planned: Sequence[TaskEdits],
    before: Predictions,
    edit: str,
    batch: int,
    progress: Progress,
) -> tuple[dict[str, Predictions], NDArray[np.bool_]]:
    """Predictions ``before``, with the ``edit`` and with the ``control``; and which values are of
    edited images, and of those with a control: bool (2, n_tasks, n).
    """
    values, edited = np.stack([before.values] * 2), np.zeros((2, *before.values.shape), bool)
    done, total = 0, 2 * sum(len(edits.images) for edits in planned)

    def step(first: int, read: int, _: int) -> None:
        progress("predicting edits", first + read, total)

    for edits in planned:
        ids, row = edits.images["image_id"], before.tasks.index(edits.task)
        logits = read_logits(
            model,
            ids.gather(np.arange(len(ids)).repeat(2)),
            edits.read,
            # an image's edit and control are in the same batch
            batch=batch + batch % 2,
            readers=None,
            progress=partial(step, done),
        )
        done += len(logits)
        rows = positions(ids, before.image_ids)
        values[:, row, rows] = logits[:, row].reshape(-1, 2).T
        for number, has_control in edits.has_control.items():
            edited[:, row, rows[number]] = True, has_control
    if not edited.any():
        raise InputError(
            f"{edit}: no image has a usable mask (the masks are missing or fill the image)",
            allowed="masks of a task's context cues or, to hide and to paste it, of the object",
        )
    with_edit, control = np.where(edited, values, before.values)
    versions = {
        "before": before,
        "edit": replace(before, values=with_edit, run=f"{before.run}, {edit}"),
        "control": replace(before, values=control, run=f"{before.run}, control"),
    }
    return versions, edited


def _left_out(planned: Sequence[TaskEdits]) -> Iterator[str]:
    """Notes on images and tasks without an edit."""
    if skipped := sum(len(edits.images) - len(edits.has_control) for edits in planned):
        yield (
            f"{counted(skipped, 'image')} left out, because the mask is missing or fills the image"
        )
    if idle := [edits.task for edits in planned if not edits.has_control]:
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
    suite: Suite, split: str, rows: pl.DataFrame, edit: str, bootstrap: int, seed: int
) -> Iterator[str]:
    """Numbers of hard-image errors that the edit removes, and of easy positives that stay right."""
    when, control = _WORDS[edit]
    right = pl.col("yes_before") == pl.col("cell").str.ends_with("positive")
    shown = [("hard_negative", ~right, "wrong"), ("hard_positive", ~right, "wrong")]
    if edit == "hide-object":
        # without the object, yes is not right
        shown = [("hard_positive", right, "right")]
    for criterion in suite.criteria:
        keys = [key for key in suite.keys if (key[0], key[2]) == (criterion, split)]
        if not keys:
            continue
        judged = rows.join(suite.cells(keys), on=_PAIR)
        for cell, inside, was in [*shown, ("easy_positive", right, "right")]:
            answers = judged.filter(inside, cell=cell)
            share, of_control = (
                _share(answers.drop_nulls(name), name, cell, bootstrap, seed) for name in _EDITED
            )
            if share is None:
                continue
            now = "still answered yes" if was == "right" else "right"
            by = f" by {criterion}" if len(suite.criteria) > 1 else ""
            text = f"Of {share.n:,} {cell.replace('_', ' ')}s{by} that the model got {was}, "
            text += f"{share.n * (share.value or 0):,.0f} are {now} {when} ({_percent(share)})"
            if of_control is not None:
                text += f"; {control}: {_percent(of_control)} of {of_control.n:,}"
            yield text


def _share(
    rows: pl.DataFrame, version: str, cell: str, bootstrap: int, seed: int
) -> Estimate | None:
    """The share of right answers of images of one cell, or None without images."""
    if not rows.height:
        return None
    yes = rows.with_columns(yes=pl.col(f"yes_{version}") == cell.endswith("positive"))
    rates = context_rates(yes, bootstrap=bootstrap, seed=seed)
    return rates.estimates["rate", cell]


def _percent(estimate: Estimate) -> str:
    value, low, high = (100 * (v or 0) for v in (estimate.value, estimate.low, estimate.high))
    return f"{value:.0f}% [{low:.0f}, {high:.0f}]"
