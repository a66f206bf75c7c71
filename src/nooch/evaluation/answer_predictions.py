"""Answers in words as predictions: yes is 1, no is 0, and which images were asked about."""

from __future__ import annotations

import numpy as np
import polars as pl

from nooch.answers import Answers
from nooch.errors import ParameterError, check_one_of
from nooch.evaluation.predictions import Predictions, positions

__all__ = ["UNKNOWN", "answers_as_predictions"]

UNKNOWN = ("wrong", "skip")
"""What an answer that is neither yes nor no counts as: wrong, or not asked."""


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
        answers.run, ids, tuple(tasks), values, "probability", weights=weights, in_words=in_words
    )
