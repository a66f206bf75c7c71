"""The part of a suite that models were asked about, and the images each question stands for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.challenge import ChallengeSet, Suite
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
    def of(cls, suite: Suite, runs: Sequence[Predictions], keys: Sequence[Key]) -> AskedSample:
        """The sample that runs with ``weights`` are about; other runs are scored on it, too.

        Args:
            suite: the suite.
            runs: the predictions.
            keys: (criterion, task, split) of the sets that are scored.

        Raises:
            InputError: runs that were asked other questions, or nothing about these sets.
        """
        samples = [run for run in runs if run.weights is not None]
        if not samples:
            return cls(suite, suite)
        tasks = dict.fromkeys(task for _, task, _ in keys)
        asked = {task: _asked_alike(samples, task) for task in tasks}
        weights = {task: frame for task, frame in asked.items() if frame is not None}
        sets = {}
        for key in keys:
            challenge = suite.set(*key)
            if key[1] in weights:
                ids = weights[key[1]]["image_id"].cast(challenge.image_ids.dtype, strict=False)
                challenge = challenge.only(challenge.image_ids.is_in(ids.implode()).to_numpy())
            if len(challenge):
                sets[key] = challenge
        if not sets:
            raise InputError(
                "none of the images asked about is in the sets that are scored",
                allowed=f"answers about {some_of(dict.fromkeys(split for _, _, split in keys))}",
            )
        h = suite.header
        part = Suite.of(
            sets,
            dataset=h.dataset,
            criteria=h.criteria,
            skipped=h.skipped,
            tasks=h.tasks,
            splits=h.splits,
            hard_only=h.hard_only,
        )
        asked_about = sum(frame.height for frame in weights.values())
        notes = [f"{asked_about:,} images and tasks were asked about; scores are of these"]
        if any((frame["weight"] != 1).any() for frame in weights.values()):
            notes[0] += ", weighted to the challenge sets"
        return cls(part, suite, weights, notes)

    def weights_of(self, challenge: ChallengeSet) -> NDArray[np.float64] | None:
        """Weights of a set's images with mean 1, float64 (n,), or None where all count alike."""
        asked = self.weights.get(challenge.task)
        if asked is None:
            return None
        at = positions(challenge.image_ids, asked["image_id"].cast(challenge.image_ids.dtype))
        weights = asked["weight"].to_numpy()[at]
        return np.asarray(weights / weights.mean())


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
