"""The mean loss of hard images over alpha and beta, or tau (the data of Figs. 13 and 14)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.base.errors import InputError, ParameterError, check_one_of, some_of
from nooch.base.files import Place
from nooch.base.shared_types import Progress, no_progress, options_from
from nooch.criteria import CE, FittedCE, Gist
from nooch.data import Dataset, as_dataset
from nooch.evaluation import Predictions, load_predictions
from nooch.evaluation.metrics.pointwise import losses
from nooch.evaluation.predictions import Aligned
from nooch.evaluation.task_losses import LossSweep, hard_sums
from nooch.suites import EASY, POOLED, ChallengeSet, Mark
from nooch.suites.coverage import check_fit
from nooch.suites.search import resolve_tasks
from nooch.suites.suite_builder import training_part
from nooch.suites.sweep import SweepOptions, point_columns

__all__ = ["sweep_losses"]

Floats = NDArray[np.float64]


def sweep_losses(
    data: Dataset | Place | str,
    predictions: Any,
    *,
    options: SweepOptions | None = None,
    split: str = "test",
    scale: str | None = None,
    progress: Progress = no_progress,
    **named: Any,
) -> LossSweep:
    """Mean losses of hard images over thresholds; criteria are fitted once, on the training split.

    Args:
        data: the dataset.
        predictions: as for ``nooch.evaluate``; losses are averaged over runs (seeds).
        options: see ``SweepOptions``.
        split: whose images.
        scale: ``logit`` or ``probability``, needed for wide tables.
        progress: called with what is being done, and how many of how many tasks are done.
        named: fields of ``SweepOptions``, such as ``alpha`` and ``beta``.

    Raises:
        ParameterError: nothing to sweep, thresholds out of range, an unknown task, split or
            embedding, tau without an embedding.
        InputError: no predicted class, missing predictions, unknown areas, no training images.
    """
    data = as_dataset(data)
    asked = options_from(SweepOptions, options, named)
    alphas, betas, taus, lifts = asked.grids(data)
    if len(lifts):
        raise ParameterError("lift is swept for counts alone", remedy="`sweep_thresholds`")
    check_one_of("split", split, data.splits, owner="the dataset")
    runs = load_predictions(predictions, data=data, scale=scale)
    names = _tasks(data, runs, asked.tasks)
    part, train = data.select(split), training_part(data, "the criteria")
    ce = CE().fit(train) if len(alphas) else None
    if ce is not None and not asked.allow_unannotated:
        check_fit({"ce": FittedCE(CE(float(alphas[0])), ce.classes, ce.state)}, {}, names)
    gist = Gist(str(asked.embedding)).fit(train, names) if len(taus) else None
    aligned = {run.run: Aligned(run, part.images["image_id"], split) for run in runs}
    grids: dict[str, Floats] = {}
    lines: dict[str, Floats] = {}
    for done, task in enumerate(names):
        progress("losses by threshold", done, len(names))
        labels, unknown = part.labels(task, unknown=False), part.unknown_labels(task)
        known = slice(None) if unknown is None else np.flatnonzero(~unknown)
        # a set of all images, none of them hard: it states what the predictions must have
        easy = Mark(np.full(len(part), EASY, np.int8))
        whole = ChallengeSet.from_mark(
            "all images", task, split, easy, part.images["image_id"], labels, unknown
        )
        values = [
            losses(labels[known], aligned[run.run].values(task, known, whole), run.scale)
            for run in runs
            if task in run.tasks
        ]
        loss = np.mean(values, axis=0)
        # images of unknown label count nowhere
        seen = part if unknown is None else part.select(rows=~unknown)
        if ce is not None:
            grids[task] = _of_areas(ce, seen, task, loss, alphas, betas)
        if gist is not None and gist.undefined(task) is None:
            lines[task] = hard_sums(gist.support(seen, task), labels[known], loss, taus)
    points = {"alpha": np.repeat(alphas, len(betas)), "beta": np.tile(betas, len(alphas))}
    return LossSweep(_table(grids, split, points), _table(lines, split, {"tau": taus}))


def _tasks(
    data: Dataset, runs: Sequence[Predictions], tasks: str | Sequence[str] | None
) -> list[str]:
    predicted = {task for run in runs for task in run.tasks}
    if tasks is None and not predicted & set(data.classes):
        raise InputError(
            f"no class of the dataset is predicted, but {some_of(sorted(predicted))}",
            allowed=some_of(data.classes),
        )
    if tasks is None:
        return [name for name in data.classes if name in predicted]
    names = resolve_tasks(data.classes, tasks)
    if missing := [name for name in names if name not in predicted]:
        raise InputError(
            f"there are no predictions for {some_of(missing)}", allowed=some_of(sorted(predicted))
        )
    return names


def _of_areas(
    ce: FittedCE, part: Dataset, task: str, loss: Floats, alphas: Floats, betas: Floats
) -> Floats:
    """Counts and sums, float64 (n_alphas * n_betas, 4); without a cue nothing is hard."""
    labels = part.labels(task)
    known: dict[tuple[str, ...], Floats] = {(): np.zeros((len(betas), 4))}
    sums = []
    for alpha in alphas:
        fitted = FittedCE(CE(float(alpha)), ce.classes, ce.state)
        cues = fitted.cues(task)
        if cues not in known:
            known[cues] = hard_sums(fitted.support(part, task), labels, loss, betas)
        sums.append(known[cues])
    return np.concatenate(sums)


def _table(sums: dict[str, Floats], split: str, points: dict[str, Floats]) -> pl.DataFrame:
    """Counts and means by task, those of all tasks together last; without a task no row."""
    if sums:
        sums = {**sums, POOLED: np.sum(list(sums.values()), axis=0)}
    stacked = np.concatenate([*sums.values(), np.empty((0, 4))])
    sides = ("positive", "negative")
    return pl.DataFrame(
        {
            **point_columns(list(sums), split, points),
            **{f"hard_{side}s": stacked[:, i].astype(np.int64) for i, side in enumerate(sides)},
            **{f"loss_{side}": stacked[:, 2 + i] for i, side in enumerate(sides)},
        }
    ).with_columns(
        pl.when(pl.col(f"hard_{side}s") > 0)
        .then(pl.col(f"loss_{side}") / pl.col(f"hard_{side}s"))
        .alias(f"loss_{side}")
        for side in sides
    )
