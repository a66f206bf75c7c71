"""The mean loss of each task on all images, each side, and its hard images (paper, Fig. 3); and on
hard images for many thresholds at once (Figs. 13 and 14).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.base.calls import Progress, no_progress, options_from
from nooch.base.errors import InputError, ParameterError, check_one_of, some_of
from nooch.base.files import Place
from nooch.base.split_plan import LOSS_SPLIT
from nooch.criteria import CE, FittedCE, Gist
from nooch.data import Dataset, as_dataset
from nooch.evaluation.metrics.pointwise import losses
from nooch.evaluation.prediction_files import load_predictions
from nooch.evaluation.predictions import Aligned, Predictions
from nooch.suites import EASY, POOLED, SUBSETS, ChallengeSet, Mark, Suite
from nooch.suites.coverage import check_fit
from nooch.suites.find import training_part
from nooch.suites.search import resolve_tasks
from nooch.suites.sweep import SweepOptions, point_columns

Floats = NDArray[np.float64]

PARTS = ("all", "positive", "negative", "hard", "hard_positive", "hard_negative")
"""Columns of mean losses."""


def class_losses(
    suite: Suite, runs: Sequence[Predictions], *, split: str = LOSS_SPLIT
) -> pl.DataFrame:
    """Mean losses by criterion and task, over several runs (seeds) their mean.

    Returns ``criterion, task``, the mean NLL (natural logarithm) on each of ``PARTS``, null where
    there is no image, then the counts ``n, positives, negatives, hard_positives, hard_negatives``
    and ``runs``. Tasks without predictions are missing; other predicted classes are ignored.
    """
    check_one_of("split", split, suite.splits, owner="the suite")
    suite.require_easy("the loss of a class")
    rows = []
    for criterion, task, of in suite.keys:
        asked = [run for run in runs if task in run.tasks]
        if of == split and asked:
            rows.append(_row(suite.set(criterion, task, split), asked))
    if not rows:
        raise InputError(
            f"no task has both predictions and a set of split {split}",
            allowed=", ".join(sorted(suite.tasks)),
        )
    return pl.DataFrame(rows)


def _row(challenge: ChallengeSet, runs: Sequence[Predictions]) -> dict[str, Any]:
    of_subset = {name: challenge.subset == code for code, name in enumerate(SUBSETS)}
    inside: dict[str, NDArray[np.bool_]] = {
        "all": np.ones(len(challenge), dtype=bool),
        "positive": challenge.labels,
        "negative": ~challenge.labels,
        "hard": ~of_subset.pop("easy"),
        **of_subset,
    }
    by_run = []
    for run in runs:
        aligned = Aligned(run, challenge.image_ids, challenge.split)
        values = aligned.values(challenge.task, slice(None), challenge)
        by_run.append(losses(challenge.labels, values, run.scale))
    loss = np.mean(by_run, axis=0)
    sides = ("positive", "negative", "hard_positive", "hard_negative")
    return {
        "criterion": challenge.criterion,
        "task": challenge.task,
        **{name: float(loss[mask].mean()) if mask.any() else None for name, mask in inside.items()},
        "n": len(challenge),
        **{f"{side}s": int(inside[side].sum()) for side in sides},
        "runs": len(runs),
    }


@dataclass(frozen=True, eq=False)
class LossSweep:
    """Mean losses of hard images over thresholds.

    Attributes:
        grid: ``task, split, alpha, beta, hard_positives, hard_negatives, loss_positive,
            loss_negative``: how many images are hard by CE with these thresholds, and their mean
            NLL (natural logarithm), null where there is none. The task ``all tasks`` pools all hard
            pairs of image and task.
        tau: ``task, split, tau``, then the same columns, for the gist criterion.
    """

    grid: pl.DataFrame
    tau: pl.DataFrame

    def __repr__(self) -> str:
        return f"LossSweep({self.grid.height} points, {self.tau.height} of tau)"


def hard_sums(
    support: Floats, labels: NDArray[np.bool_], losses: Floats, thresholds: Floats
) -> Floats:
    """For each threshold the number of hard positives and negatives and the sums of their losses.

    ``support``: float64 (n,); images where it is NaN have no verdict; ``labels``: bool (n,);
    ``losses``: float64 (n,); ``thresholds``: float64 (t,): hard positives lie strictly below, hard
    negatives strictly above. Returns float64 (t, 4): hard positives, hard negatives, and the sums
    of the losses of either.
    """
    known = ~np.isnan(support)
    n_low, below = _below(support[labels & known], losses[labels & known], thresholds)
    n_high, above = _below(-support[~labels & known], losses[~labels & known], -thresholds)
    return np.stack([n_low, n_high, below, above], axis=1).astype(np.float64)


def _below(values: Floats, losses: Floats, thresholds: Floats) -> tuple[NDArray[np.intp], Floats]:
    """How many values lie strictly below each threshold, and the sums of their losses."""
    order = np.argsort(values, kind="stable")
    sums = np.concatenate([[0.0], np.cumsum(losses[order])])
    n = np.searchsorted(values[order], thresholds, "left")
    return n, sums[n]


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
