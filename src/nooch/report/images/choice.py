"""Examples of a task: hardest, easiest, where methods or criteria differ, likely label errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.evaluation import AVERAGE, Predictions
from nooch.evaluation.metrics.pointwise import losses
from nooch.evaluation.predictions import positions
from nooch.report.images.thumbnails import SplitImages
from nooch.report.results.cells import in_order
from nooch.report.results.run_results import Results, roles_of
from nooch.suites import Suite
from nooch.training.records import RunsFolder

_Outputs = tuple[str, Sequence[pl.DataFrame], str]
"""A method's outputs for one task: a key that distinguishes two settings of a method, a frame
``image_id, value`` for each seed, and the scale of values.
"""


class ImageLosses:
    """Losses of images by criterion, task and method, each method with the setting that was chosen
    under the criterion.

    Args:
        suite: the suite.
        runs: folders of runs of the suite, each with its results.
        predictions: outputs of other models; seeds of a method count as one, and they are the same
            under all criteria. Answers in words have no losses.
    """

    def __init__(
        self,
        suite: Suite,
        runs: Sequence[tuple[RunsFolder, Results]],
        predictions: Sequence[Predictions] = (),
    ) -> None:
        self._criteria = suite.criteria
        self._predictions = [run for run in predictions if not run.in_words]
        self._chosen: dict[tuple[str, str], dict[str, tuple[RunsFolder, str]]] = {}
        self._jobs: dict[tuple[Path, str, str, str], list[str]] = {}
        listed = [key[0] for key in suite.keys]
        names = {role: name for name, role in roles_of(listed, [suite], {}).items()}
        keys = ["criterion", "task", "method", "setting"]
        for folder, results in runs:
            for name in folder.done():
                job = folder.header.jobs[name]
                key = folder.path, job.task, job.method, job.setting
                self._jobs.setdefault(key, []).append(name)
            of_tasks = results.cells.filter(pl.col("task") != AVERAGE).drop_nulls("setting")
            settings = of_tasks.select(keys).unique(maintain_order=True)
            for role, task, method, setting in settings.rows():
                of_set = self._chosen.setdefault((names.get(role, role), task), {})
                of_set[method] = folder, setting

    @property
    def methods(self) -> list[str]:
        """All methods with losses of some image."""
        names = [method for by_method in self._chosen.values() for method in by_method]
        return in_order([*names, *(run.method or run.run for run in self._predictions)])

    def for_task(
        self, task: str, images: SplitImages, labels: NDArray[np.bool_]
    ) -> dict[str, dict[str, tuple[str, Floats]]]:
        """Criterion -> method -> (key, NLL of each image of a split, float64 (n,)); equal keys mean
        equal losses.
        """
        losses: dict[str, Floats] = {}
        by_criterion: dict[str, dict[str, tuple[str, Floats]]] = {}
        for criterion in self._criteria:
            for method, (key, frames, scale) in self._outputs(criterion, task).items():
                if frames and key not in losses:
                    losses[key] = _mean_losses(frames, scale, images, labels)
                if frames and not np.isnan(losses[key]).all():
                    by_criterion.setdefault(criterion, {})[method] = key, losses[key]
        return by_criterion

    def outputs_of(self, method: str, tasks: Sequence[str]) -> pl.DataFrame:
        """Mean logits of a method's runs, as chosen under the suite's first criterion with any:
        ``image_id, task, logit, run``.
        """
        every = []
        for task in tasks:
            found = (self._outputs(name, task).get(method) for name in self._criteria)
            frames = next((one[1] for one in found if one is not None), [])
            every += [frame.with_columns(task=pl.lit(task)) for frame in frames]
        if not every:
            return pl.DataFrame()
        mean = pl.concat(every).group_by("image_id", "task", maintain_order=True)
        return mean.agg(logit=pl.col("value").mean()).with_columns(run=pl.lit(method))

    def _outputs(self, criterion: str, task: str) -> dict[str, _Outputs]:
        """Method -> its outputs, predictions before runs."""
        outputs: dict[str, _Outputs] = {}
        for method, (folder, setting) in self._chosen.get((criterion, task), {}).items():
            names = self._jobs.get((folder.path, task, method, setting), [])
            frames = [
                folder.predictions(name).select("image_id", value="logit")
                for name in names
                if not folder.read_job(name).diverged
            ]
            outputs[method] = f"{folder.path}/{method}/{setting}", frames, "logit"
        of_methods: dict[str, list[Predictions]] = {}
        for run in self._predictions:
            if task in run.tasks:
                of_methods.setdefault(run.method or run.run, []).append(run)
        for method, runs in of_methods.items():
            frames = [
                pl.DataFrame({"image_id": r.image_ids, "value": r.values[r.tasks.index(task)]})
                for r in runs
            ]
            outputs[method] = method, frames, runs[0].scale
        return {method: outputs[method] for method in in_order(outputs)}


def _mean_losses(
    frames: Sequence[pl.DataFrame], scale: str, images: SplitImages, labels: NDArray[np.bool_]
) -> Floats:
    """Mean over seeds of the NLL (natural logarithm) of each image, float64 (n,); NaN where a seed
    has no output.
    """
    ids, of_seeds = pl.DataFrame({"image_id": images.ids}), []
    for frame in frames:
        values = ids.join(frame, on="image_id", how="left", maintain_order="left")["value"]
        values = values.cast(pl.Float64).fill_null(np.nan)
        of_seeds.append(losses(labels, values.to_numpy(), scale))
    return np.asarray(np.mean(of_seeds, axis=0), dtype=np.float64)


UNKNOWN = 255
"""Label of an image that no set of the task has, or in which the class was not annotated; mark of
one without a verdict."""


@dataclass(frozen=True, eq=False)
class TaskView:
    """Data of a task's images in one split, rows shared by all arrays.

    Attributes:
        task: its name.
        labels: int8 (n,), 1 present, 0 absent, -1 unknown.
        marks: criterion -> uint8 (n,): 0 hard positive, 1 hard negative, 2 easy, 255 no verdict.
        support: criterion -> float64 (n,), NaN if there is none; criteria without support are
            missing.
        losses: criterion -> method -> float64 (n,).
        area: float64 (n,), area of the task's class, NaN where it was not annotated, or None where
            areas are unknown.
    """

    task: str
    labels: NDArray[np.int8]
    marks: Mapping[str, NDArray[np.uint8]]
    support: Mapping[str, Floats] = field(default_factory=dict)
    losses: Mapping[str, Mapping[str, Floats]] = field(default_factory=dict)
    area: Floats | None = None


def labels_of(suite: Suite, task: str, images: SplitImages) -> NDArray[np.uint8]:
    """1 where the class is present, 0 if it is absent, UNKNOWN elsewhere; shape (n,)."""
    if images.data is not None:
        labels = images.data.labels(task, unknown=False).astype(np.uint8)
        unknown = images.data.unknown_labels(task)
        return labels if unknown is None else np.where(unknown, np.uint8(UNKNOWN), labels)
    labels = np.full(len(images), UNKNOWN, dtype=np.uint8)
    for key in suite.keys:
        if key[1:] == (task, images.split):
            challenge = suite.set(*key)
            labels[positions(challenge.image_ids, images.ids)] = challenge.labels
    return labels


def task_view(suite: Suite, task: str, images: SplitImages, losses: ImageLosses) -> TaskView:
    """Data of a task in one split."""
    labels, data = labels_of(suite, task, images), images.data
    marks, support = {}, {}
    for criterion in suite.criteria:
        if (criterion, task, images.split) in suite.keys:
            challenge = suite.set(criterion, task, images.split)
            marks[criterion] = images.spread(challenge, challenge.subset, UNKNOWN)
            if challenge.support is not None:
                support[criterion] = images.spread(challenge, challenge.support, np.nan)
    return TaskView(
        task,
        # UNKNOWN is -1
        labels.view(np.int8),
        marks,
        support,
        {
            criterion: {method: values for method, (_, values) in of_methods.items()}
            for criterion, of_methods in losses.for_task(task, images, labels == 1).items()
        },
        data.area(task, unknown=np.nan) if data is not None and data.has_areas else None,
    )


Floats = NDArray[np.float64]

CONFIDENT = 0.9
"""Least probability of a class that is not annotated, for a suspected label error."""
_HARD_POSITIVE, _HARD_NEGATIVE, _EASY = 0, 1, 2


@dataclass(frozen=True, eq=False)
class Chosen:
    """A group of examples.

    Attributes:
        kind: what kind of group.
        title: what it shows, in words.
        criterion: under which criterion.
        rows: intp (n,), in order.
        method: second method of a comparison, or empty.
        subset: ``hard_positive``, ``hard_negative`` or ``easy_positive``.
        better: of a comparison of methods, the one with the lower loss; of criteria, the one by
            which images are easy.
    """

    kind: str
    title: str
    criterion: str
    rows: NDArray[np.intp]
    method: str = ""
    subset: str = ""
    better: str = ""


def chosen_examples(
    view: TaskView, criteria: Sequence[str], baseline: str | None, rivals: Mapping[str, str], n: int
) -> list[Chosen]:
    """Groups of examples of a task."""
    groups: list[Chosen] = []
    for criterion in criteria:
        if criterion in view.marks:
            groups += _extremes(view, criterion, baseline, n)
            groups += _gaps(view, criterion, baseline, rivals.get(criterion), n)
            groups += _suspected(view, criterion, n)
    with_support = [c for c in criteria if c in view.marks and c in view.support]
    for first, other in permutations(with_support, 2):
        groups += _disagreeing(view, first, other, n)
    return groups


def _extremes(view: TaskView, criterion: str, baseline: str | None, n: int) -> list[Chosen]:
    """Figs. 15 to 25; without losses, support decides which images are the clearest."""
    marks = view.marks[criterion]
    losses = view.losses.get(criterion, {}).get(baseline or "")
    support = view.support.get(criterion)
    # without losses and support: the first by id
    orders, words = (np.zeros(len(marks)),) * 3, ["the smallest ids"] * 3
    if losses is not None:
        orders = -losses, -losses, losses
        words = [f"the {rank} loss ({baseline})" for rank in ("highest", "highest", "lowest")]
    elif support is not None:
        orders = support, -support, -support
        words = ["the least support", "the most support", "the most support"]
    larger, size = _larger(view, marks == _HARD_POSITIVE)
    sides = (
        ("hardest", "Hard positives", larger, size),
        ("hardest", "Hard negatives", marks == _HARD_NEGATIVE, ""),
        ("easiest", "Easy positives", (marks == _EASY) & (view.labels == 1), ""),
    )
    return [
        Chosen(
            kind,
            f"{title} with {which}{more}",
            criterion,
            _first(inside, order, n),
            subset=title.lower().replace(" ", "_")[:-1],
        )
        for (kind, title, inside, more), order, which in zip(sides, orders, words, strict=True)
    ]


def _larger(view: TaskView, mask: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], str]:
    """Hard positives whose target is larger than the split's average (Appendix D.1), or all."""
    positive = view.labels == 1
    if view.area is None or np.isnan(view.area[positive]).all():
        return mask, ""
    larger = mask & (view.area > np.nanmean(view.area[positive]))
    return (larger, f", {view.task} larger than on average") if larger.any() else (mask, "")


def _gaps(
    view: TaskView, criterion: str, baseline: str | None, rival: str | None, n: int
) -> list[Chosen]:
    """Figs. 8 and 26: images where two methods differ most, in both directions."""
    losses = view.losses.get(criterion, {})
    if baseline not in losses or rival not in losses or rival is None or baseline is None:
        return []
    gap = losses[baseline] - losses[rival]
    groups = []
    for code, side in ((_HARD_POSITIVE, "positives"), (_HARD_NEGATIVE, "negatives")):
        for sign, better, worse in ((1, rival, baseline), (-1, baseline, rival)):
            title = f"Hard {side} where {better} is furthest ahead of {worse}"
            inside = (view.marks[criterion] == code) & (sign * gap > 0)
            rows = _first(inside, -sign * gap, n)
            groups.append(Chosen("gap", title, criterion, rows, rival, f"hard_{side[:-1]}", better))
    return groups


def _suspected(view: TaskView, criterion: str, n: int) -> list[Chosen]:
    """Hard negatives that most methods, two at least, are sure show the class."""
    losses = view.losses.get(criterion, {})
    if len(losses) < 2:
        return []
    values = np.array(list(losses.values()))
    # a negative's NLL is -log(1 - p): p above CONFIDENT if it is above -log(1 - CONFIDENT)
    sure = (values > -np.log(1 - CONFIDENT)).sum(axis=0)
    inside = (view.marks[criterion] == _HARD_NEGATIVE) & (sure >= max(2, len(losses) // 2 + 1))
    title = (
        f"Suspected label errors: hard negatives where most of {len(losses)} methods give"
        f" {view.task} over {CONFIDENT:.0%}"
    )
    rows = _first(inside, -values.mean(axis=0), n)
    return [Chosen("suspected", title, criterion, rows, subset="hard_negative")]


def _disagreeing(view: TaskView, criterion: str, other: str, n: int) -> list[Chosen]:
    """Figs. 2 and 9: hard by one criterion, easy by the other, there the clearest first."""
    groups = []
    for code, side, sign in ((_HARD_POSITIVE, "positives", -1), (_HARD_NEGATIVE, "negatives", 1)):
        inside = (view.marks[criterion] == code) & (view.marks[other] == _EASY)
        title = f"Hard {side} by {criterion}, easy by {other}"
        rows = _first(inside, sign * view.support[other], n)
        about = {"subset": f"hard_{side[:-1]}", "better": other}
        groups.append(Chosen("criteria", title, criterion, rows, **about))
    return groups


def _first(inside: NDArray[np.bool_], order: Floats, n: int) -> NDArray[np.intp]:
    """The n rows inside with the smallest order, ties by row."""
    rows = np.flatnonzero(inside & ~np.isnan(order))
    return smallest(rows, order[rows], n)


def smallest(rows: NDArray[np.intp], keys: Floats, n: int) -> NDArray[np.intp]:
    """The n rows with the smallest keys, ties in the order given, NaN last."""
    if n < len(rows):
        # far fewer than all need to be sorted
        near = ~(keys > np.partition(keys, n)[n])
        rows, keys = rows[near], keys[near]
    return rows[np.argsort(keys, kind="stable")[:n]]
