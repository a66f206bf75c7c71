"""The part of a suite that models were asked about, and the images each question stands for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.answers import LabelOverlay
from nooch.challenge import ChallengeSet, Suite
from nooch.data import ImageId
from nooch.english import counted
from nooch.errors import InputError, some_of
from nooch.evaluation.predictions import Predictions, positions

__all__ = ["AskedSample"]

Key = tuple[str, str, str]


@dataclass(frozen=True, eq=False)
class AskedSample:
    """A suite as far as predictions are for it.

    Attributes:
        suite: with the images that were asked about alone; the whole suite where all were.
        whole: the suite.
        weights: task -> ``image_id, weight`` of the images that were asked about; empty where all
            images of the suite have predictions.
        notes: how many images were asked about.
    """

    suite: Suite
    whole: Suite
    weights: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        suite: Suite,
        runs: Sequence[Predictions],
        keys: Sequence[Key],
        overlay: LabelOverlay | None = None,
    ) -> AskedSample:
        """The sample that runs with ``weights`` are about; other runs are scored on it, too.

        Args:
            suite: the suite.
            runs: the predictions.
            keys: (criterion, task, split) of the sets that are scored.
            overlay: corrected labels; images whose label differs from it are left out of sets.

        Raises:
            InputError: runs that were asked other questions, or nothing about these sets.
        """
        samples = [run for run in runs if run.weights is not None]
        if not samples and overlay is None:
            return cls(suite, suite)
        tasks = dict.fromkeys(task for _, task, _ in keys)
        asked = {task: _asked_alike(samples, task) for task in tasks}
        weights = {task: frame for task, frame in asked.items() if frame is not None}
        sets, wrong = {}, set[tuple[str, ImageId]]()
        for key in keys:
            challenge = suite.set(*key)
            if key[1] in weights:
                ids = weights[key[1]]["image_id"].cast(challenge.image_ids.dtype, strict=False)
                challenge = challenge.only(challenge.image_ids.is_in(ids.implode()).to_numpy())
            if overlay is not None:
                right = _agrees(challenge, overlay)
                left = challenge.image_ids.filter(pl.Series(~right))
                wrong |= {(key[1], image) for image in left}
                challenge = challenge.only(right)
            if len(challenge):
                sets[key] = challenge
        if not sets:
            raise InputError(
                "none of the images asked about is in the sets that are scored",
                allowed=f"answers about {some_of(dict.fromkeys(split for _, _, split in keys))}",
            )
        notes = _about(weights)
        if overlay is not None:
            number = counted(len(wrong), "corrected label")
            notes.append(f"{number}: these images are left out of the sets of their task")
        return cls(_with_sets(suite, sets), suite, weights, notes)

    def weights_of(self, challenge: ChallengeSet) -> NDArray[np.float64] | None:
        """Weights of a set's images with mean 1, float64 (n,), or None where all count alike."""
        asked = self.weights.get(challenge.task)
        if asked is None:
            return None
        at = positions(challenge.image_ids, asked["image_id"].cast(challenge.image_ids.dtype))
        weights = asked["weight"].to_numpy()[at]
        return np.asarray(weights / weights.mean())


def _agrees(challenge: ChallengeSet, overlay: LabelOverlay) -> NDArray[np.bool_]:
    """Where corrected labels do not contradict a set's, bool (n,)."""
    pairs = zip(challenge.image_ids, challenge.labels.tolist(), strict=True)
    task = challenge.task
    return np.array([overlay.get((task, image), label) is label for image, label in pairs], bool)


def _about(weights: Mapping[str, pl.DataFrame]) -> list[str]:
    if not weights:
        return []
    number = sum(frame.height for frame in weights.values())
    unequal = any((frame["weight"] != 1).any() for frame in weights.values())
    whole = ", weighted to the challenge sets" if unequal else ""
    return [f"{number:,} images and tasks were asked about; scores are of these{whole}"]


def _with_sets(suite: Suite, sets: Mapping[Key, ChallengeSet]) -> Suite:
    """The suite with other sets."""
    h = suite.header
    return Suite.of(
        sets,
        dataset=h.dataset,
        criteria=h.criteria,
        skipped=h.skipped,
        tasks=h.tasks,
        splits=h.splits,
        hard_only=h.hard_only,
    )


def _asked_alike(runs: Sequence[Predictions], task: str) -> pl.DataFrame | None:
    """``image_id, weight`` of the images that runs were asked about; None: about none."""
    asked = {run.run: _asked(run, task) for run in runs if task in run.tasks}
    for name, frame in asked.items():
        first = next(iter(asked))
        if not frame.equals(asked[first]):
            raise InputError(
                f"runs {first} and {name} were asked about different images",
                where=f"task {task}",
                allowed="runs with the same questions",
                remedy="evaluate them separately",
            )
    return next(iter(asked.values()), None)


def _asked(run: Predictions, task: str) -> pl.DataFrame:
    """``image_id, weight`` of the images that a run was asked about, ascending."""
    assert run.weights is not None  # noqa: S101 - the caller looked
    of_task = run.weights[run.tasks.index(task)]
    frame = pl.DataFrame({"image_id": run.image_ids, "weight": of_task})
    return frame.filter(pl.col("weight") > 0).sort("image_id")
