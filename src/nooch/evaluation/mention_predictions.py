"""Captions as predictions: the share of an image's captions that mention a task's object."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from nooch.evaluation import Predictions
from nooch.evaluation.caption_files import ModelCaptions
from nooch.evaluation.mention_vocabulary import Vocabulary

__all__ = ["mentions"]


def mentions(run: ModelCaptions, vocabulary: Vocabulary, tasks: Sequence[str]) -> Predictions:
    """The share of an image's captions that mention each task's object, as probabilities."""
    named = [task for task in tasks if task in vocabulary.classes]
    found = [vocabulary.mentions(text) for text in run.captions["caption"]]
    columns = [pl.Series(task, [task in one for one in found]) for task in named]
    said = run.captions.select("image_id", *columns)
    shares = said.group_by("image_id", maintain_order=True).mean()
    values = shares.drop("image_id").to_numpy().T
    return Predictions(run.run, shares["image_id"], tuple(named), values, "probability")
