"""Answers as predictions (yes is 1, no is 0), and the part of a suite that they are about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.answers import Answers, LabelOverlay
from nooch.challenge import ChallengeSet, Suite
from nooch.challenge.suite import SetRecord
from nooch.data import ImageId
from nooch.english import counted
from nooch.errors import InputError, ParameterError, check_one_of, some_of
from nooch.evaluation.context_rates import context_rates, headline
from nooch.evaluation.corrected_sets import corrected_set
from nooch.evaluation.prediction_format import UNKNOWN
from nooch.evaluation.predictions import Predictions, positions

__all__ = ["AskedSample", "answers_as_predictions", "context_lines"]

Key = tuple[str, str, str]


def answers_as_predictions(answers: Answers, unknown: str = "wrong") -> Predictions:
    """Predictions of the images and tasks that a model was asked about.

    Where every answer has a probability of yes, these are the values; else the words are.
    Phrasings that disagree evenly are neither yes nor no.

    Args:
        answers: of one model.
        unknown: one of ``UNKNOWN``.

    Raises:
        ParameterError: another ``unknown``, or nothing left when unknown answers are skipped.
    """
    check_one_of("way to count unknown answers", unknown, UNKNOWN)
    frame = answers.frame
    in_words, share = bool(frame["probability"].has_nulls()), pl.col("yes")
    said = pl.when(share != 0.5).then((share > 0.5).cast(pl.Float64))
    frame = frame.with_columns(value=said if in_words else pl.col("probability"))
    if in_words and unknown == "skip":
        frame = frame.drop_nulls("value")
    if in_words and not frame.height:
        raise ParameterError(
            "no answer is left without those that are neither yes nor no",
            where="`unknown`",
            allowed="wrong, or another `rule`",
        )
    ids, tasks = frame["image_id"].unique().sort(), frame["task"].unique().sort()
    values = np.full((len(tasks), len(ids)), np.nan)
    weights = np.zeros_like(values)
    at = positions(frame["task"], tasks), positions(frame["image_id"], ids)
    values[at] = frame["value"].to_numpy()
    weights[at] = frame["weight"].to_numpy()
    return Predictions(
        answers.run,
        ids,
        tuple(tasks),
        values,
        "probability",
        weights=weights,
        in_words=in_words,
        read=f"answers in words ({answers.rule})" if in_words else "answers with probabilities",
        notes=tuple(answers.notes),
    )


def context_lines(
    run: Predictions, suite: Suite, keys: Sequence[tuple[str, str, str]], bootstrap: int, seed: int
) -> list[str]:
    """A line per criterion: how often the run says yes to an absent object, by context.

    Args:
        run: with ``weights``.
        suite: the suite, with the images that were asked about alone.
        keys: (criterion, task, split) of its sets that are scored.
        bootstrap: resamples for the intervals; 0 for Wilson's.
        seed: of the resamples.
    """
    parts: dict[str, list[pl.DataFrame]] = {}
    for key in keys:
        if key[1] not in run.tasks or run.weights is None:
            continue
        challenge, row = suite.set(*key), run.tasks.index(key[1])
        said = pl.DataFrame(
            {
                "image_id": run.image_ids.cast(challenge.image_ids.dtype, strict=False),
                "yes": run.values[row] > 0.5,
                "weight": run.weights[row],
            }
        ).filter(pl.col("weight") > 0)
        parts.setdefault(key[0], []).append(said.join(challenge.cell_frame, on="image_id"))
    lines = []
    for criterion, frames in parts.items():
        rows = pl.concat(frames)
        if rows.height:
            rates = context_rates(rows, bootstrap=bootstrap, seed=seed)
            if line := headline(rates, "yes to"):
                lines.append(f"{run.run}, {criterion}: {line}")
    return lines


@dataclass(frozen=True, eq=False)
class AskedSample:
    """A suite as far as predictions are for it.

    Attributes:
        suite: with the images that were asked about alone; the whole suite where all were.
        whole: the suite.
        runs: the predictions; with an overlay, each is named ``RUN, corrected``.
        weights: task -> ``image_id, weight`` of the images that were asked about; empty where all
            images of the suite have predictions.
        notes: how many images were asked about.
        overlay: corrected labels of the suite's sets, or None.
    """

    suite: Suite
    whole: Suite
    runs: Sequence[Predictions]
    weights: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    overlay: LabelOverlay | None = None

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
            overlay: corrected labels, see ``corrected_set``.

        Raises:
            InputError: runs that were asked other questions, or nothing about these sets.
        """
        tasks = dict.fromkeys(task for _, task, _ in keys)
        asked = {task: _asked_alike(runs, task) for task in tasks}
        weights = {task: frame for task, frame in asked.items() if frame is not None}
        sets: dict[tuple[str, ...], ChallengeSet] = {}
        changed, left_out = set[tuple[str, ImageId]](), set[tuple[str, ImageId]]()
        for key in keys:
            challenge = suite.set(*key)
            if key[1] in weights:
                ids = weights[key[1]]["image_id"].cast(challenge.image_ids.dtype, strict=False)
                challenge = challenge.only(challenge.image_ids.is_in(ids.implode()).to_numpy())
            if overlay is not None:
                criterion = suite.header.criteria[key[0]]
                challenge, moved, gone = corrected_set(challenge, overlay, criterion)
                changed |= {(key[1], image) for image in moved}
                left_out |= {(key[1], image) for image in gone}
            if len(challenge):
                sets[key] = challenge
        if not sets:
            raise InputError(
                "none of the images asked about is in the sets that are scored",
                allowed=f"answers about {some_of(dict.fromkeys(split for _, _, split in keys))}",
            )
        header = msgspec.structs.replace(suite.header, sets=[*map(SetRecord.of, sets.values())])
        notes = _about(weights)
        if overlay is not None:
            words = f"{counted(len(changed), 'label')} corrected, {counted(len(left_out), 'image')}"
            reason = "ambiguous, or not known to be hard or easy with the other label"
            notes.append(f"{words} left out of the sets of a task ({reason})")
            notes += overlay.record.notes
        sample = cls(Suite(header, lambda *key: sets[key]), suite, runs, weights, notes, overlay)
        if overlay is None:
            return sample
        # labels given with predictions are those of the suite
        named = [replace(run, run=sample.name_of(run.run), labels=None) for run in runs]
        return replace(sample, runs=named)

    def name_of(self, run: str) -> str:
        """The name of a run in scores of the sample."""
        return run if self.overlay is None else f"{run}, corrected"

    def context(self, keys: Sequence[Key], bootstrap: int, seed: int) -> list[str]:
        """``context_lines`` of all runs; none where all images have predictions."""
        known = [key for key in keys if key in self.suite.keys]
        return [
            line
            for run in (self.runs if self.weights else ())
            for line in context_lines(run, self.suite, known, bootstrap, seed)
        ]

    def weights_of(self, challenge: ChallengeSet) -> NDArray[np.float64]:
        """Weights with mean 1 of the images of a set of ``weights``, float64 (n,)."""
        asked = self.weights[challenge.task]
        at = positions(challenge.image_ids, asked["image_id"].cast(challenge.image_ids.dtype))
        weights = asked["weight"].to_numpy()[at]
        return np.asarray(weights / weights.mean())


def _about(weights: Mapping[str, pl.DataFrame]) -> list[str]:
    if not weights:
        return []
    number = sum(frame.height for frame in weights.values())
    unequal = any((frame["weight"] != 1).any() for frame in weights.values())
    whole = ", weighted to the challenge sets" if unequal else ""
    return [f"{number:,} images and tasks were asked about; scores are of these{whole}"]


def _asked_alike(runs: Sequence[Predictions], task: str) -> pl.DataFrame | None:
    """``image_id, weight`` of the images that runs were asked about; None: about none."""
    first: tuple[str, pl.DataFrame] | None = None
    for run in runs:
        if run.weights is None or task not in run.tasks:
            continue
        of_task = run.weights[run.tasks.index(task)]
        frame = pl.DataFrame({"image_id": run.image_ids, "weight": of_task})
        frame = frame.filter(pl.col("weight") > 0).sort("image_id")
        first = first or (run.run, frame)
        if not frame.equals(first[1]):
            raise InputError(
                f"runs {first[0]} and {run.run} were asked about different images",
                where=f"task {task}",
                allowed="runs with the same questions",
                remedy="evaluate them separately",
            )
    return first[1] if first else None
