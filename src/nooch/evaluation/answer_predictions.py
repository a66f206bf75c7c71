"""Answers in words as predictions: yes is 1, no is 0, and which images were asked about."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from nooch.answers import Answers
from nooch.challenge import Suite
from nooch.errors import ParameterError, check_one_of
from nooch.evaluation.context_rates import context_rates, headline
from nooch.evaluation.prediction_format import UNKNOWN
from nooch.evaluation.predictions import Predictions, positions
from nooch.evaluation.subsets import CELLS

__all__ = ["answers_as_predictions", "context_lines"]


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
    in_words = bool(frame["probability"].has_nulls())
    if in_words:
        share = pl.col("yes")
        said = pl.when(share == 0.5).then(None).otherwise((share > 0.5).cast(pl.Float64))
        frame = frame.with_columns(value=said)
        if unknown == "skip":
            frame = frame.drop_nulls("value")
        if not frame.height:
            raise ParameterError(
                "no answer is left without those that are neither yes nor no",
                where="`unknown`",
                allowed="wrong, or another `rule`",
            )
    else:
        frame = frame.with_columns(value=pl.col("probability"))
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
        for cell in CELLS:
            ids = pl.Series("image_id", challenge.ids(cell), dtype=challenge.image_ids.dtype)
            part = said.join(ids.to_frame(), on="image_id", how="semi")
            part = part.with_columns(task=pl.lit(key[1]), cell=pl.lit(cell))
            parts.setdefault(key[0], []).append(part)
    lines = []
    for criterion, frames in parts.items():
        rows = pl.concat(frames)
        if rows.height:
            rates = context_rates(rows, bootstrap=bootstrap, seed=seed)
            if line := headline(rates, "yes to"):
                lines.append(f"{run.run}, {criterion}: {line}")
    return lines
