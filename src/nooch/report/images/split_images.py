"""The images of a split in one order, which all tasks and criteria share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.data import Dataset
from nooch.evaluation.predictions import positions
from nooch.suites import ChallengeSet, Suite

__all__ = ["SplitImages", "cut_text"]

_LONGEST = 2000
_MOST_CAPTIONS = 10


@dataclass(frozen=True, eq=False)
class SplitImages:
    """The images of one split.

    Attributes:
        split: its name.
        ids: Int64 or String, ascending, shape (n,).
        data: the dataset of exactly these images, or None.
    """

    split: str
    ids: pl.Series
    data: Dataset | None = None

    @classmethod
    def of(cls, suite: Suite, split: str, data: Dataset | None) -> Self:
        """All images of the split in the dataset; without one, those of any of the suite's sets."""
        if data is not None:
            part = data.select(split)
            return cls(split, part.images["image_id"], part)
        return cls(split, suite.image_ids(key for key in suite.keys if key[2] == split))

    def __len__(self) -> int:
        return len(self.ids)

    def spread(self, challenge: ChallengeSet, values: NDArray[Any], rest: Any) -> NDArray[Any]:
        """Values of a set's images over all images of the split, else ``rest``; shape (n,)."""
        wide = np.full(len(self), rest, dtype=values.dtype)
        wide[positions(challenge.image_ids, self.ids)] = values
        return wide

    @cached_property
    def file_names(self) -> list[str | None]:
        """Names of the image files as far as they are known."""
        if self.data is None:
            return [None] * len(self)
        names: list[str | None] = self.data.images["file_name"].to_list()
        return names

    @cached_property
    def captions(self) -> list[list[str]]:
        """Captions of each image, at most ten, each of at most 2,000 characters."""
        if self.data is None or self.data.captions is None:
            return [[] for _ in self.ids]
        first = pl.col("caption").head(_MOST_CAPTIONS)
        of_images = self.data.captions.group_by("image_id").agg(first)
        ids = pl.DataFrame({"image_id": self.ids})
        listed = ids.join(of_images, on="image_id", how="left", maintain_order="left")["caption"]
        return [[cut_text(text) for text in texts or ()] for texts in listed.to_list()]


def cut_text(text: str) -> str:
    """The first 2,000 characters, and how many there are."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} … ({len(text):,} characters)"
