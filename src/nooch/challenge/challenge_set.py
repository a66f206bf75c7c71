"""One challenge set: the images of a split that have a verdict, and which of them are hard."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.challenge.hard_easy import HARD, NONE, UNKNOWN, Mark, Side

__all__ = ["SUBSETS", "ChallengeSet", "Counts", "subset_codes"]

SUBSETS = ("hard_positive", "hard_negative", "easy")


def subset_codes(labels: NDArray[np.bool_], hard: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """Index into ``SUBSETS`` of each image, uint8 (n,)."""
    return np.where(hard, np.where(labels, 0, 1), SUBSETS.index("easy")).astype(np.uint8)


class Counts(msgspec.Struct, frozen=True, omit_defaults=True):
    """Numbers of images of a set; ``excluded_*`` have no verdict and are in none of the others.

    The label of ``excluded_unknown`` is unknown: the class was not annotated there.
    """

    positives: int
    negatives: int
    hard_positives: int
    hard_negatives: int
    excluded_positives: int
    excluded_negatives: int
    excluded_unknown: int = 0

    @property
    def cells(self) -> tuple[int, int, int, int]:
        """Hard positives, hard negatives, easy positives, easy negatives."""
        hard = self.hard_positives, self.hard_negatives
        return *hard, self.positives - hard[0], self.negatives - hard[1]


@dataclass(frozen=True, eq=False)
class ChallengeSet:
    """The images of a split that a criterion has a verdict on, for one task.

    Attributes:
        criterion: its name in the suite; ``task`` and ``split`` likewise.
        image_ids: Int64 or String, ascending, shape (n,).
        labels: bool (n,), presence of the task's class.
        subset: uint8 (n,), index into ``SUBSETS``.
        support: float64 (n,), or None for criteria without support.
        positive: threshold of the positives; ``negative`` that of the negatives.
        excluded: positives, negatives, and images of unknown label, without a verdict.
        by_cue: uint64 (n,), bit i where the image is hard by the task's i-th cue alone, or None for
            criteria without cues.
    """

    criterion: str
    task: str
    split: str
    image_ids: pl.Series
    labels: NDArray[np.bool_]
    subset: NDArray[np.uint8]
    support: NDArray[np.float64] | None = None
    positive: Side = UNKNOWN
    negative: Side = UNKNOWN
    excluded: tuple[int, int, int] = (0, 0, 0)
    by_cue: NDArray[np.uint64] | None = None

    @classmethod
    def from_mark(
        cls,
        criterion: str,
        task: str,
        split: str,
        mark: Mark,
        image_ids: pl.Series,
        labels: NDArray[np.bool_],
        unknown: NDArray[np.bool_] | None = None,
    ) -> ChallengeSet:
        """The set of a mark.

        Args:
            criterion: its name in the suite.
            task: a class.
            split: name of the split.
            mark: the verdict on the images of the split.
            image_ids: of these images, ascending, shape (n_images,).
            labels: bool (n_images,).
            unknown: images of unknown label, which have no verdict, bool (n_images,); or None.
        """
        codes, support, by_cue = mark.codes, mark.support, mark.by_cue
        if unknown is not None:
            codes = np.where(unknown, NONE, codes)
        excluded = (0, 0, 0)
        if (codes == NONE).any():
            known = codes != NONE
            n_unknown = 0 if unknown is None else int(unknown.sum())
            n_positive = int((labels & ~known).sum())
            excluded = n_positive, int((~known).sum()) - n_positive - n_unknown, n_unknown
            image_ids, labels, codes = image_ids.filter(known), labels[known], codes[known]
            support = None if support is None else support[known]
            by_cue = None if by_cue is None else by_cue[known]
        subset = subset_codes(labels, codes == HARD)
        sides = mark.positive, mark.negative
        return cls(
            criterion, task, split, image_ids, labels, subset, support, *sides, excluded, by_cue
        )

    def __len__(self) -> int:
        return len(self.image_ids)

    def __repr__(self) -> str:
        c = self.counts
        return (
            f"ChallengeSet({self.criterion}, {self.task}, {self.split}: {c.hard_positives} of"
            f" {c.positives} positives and {c.hard_negatives} of {c.negatives} negatives are hard)"
        )

    @property
    def counts(self) -> Counts:
        """Positives, negatives, hard ones, and those without a verdict."""
        positives = int(self.labels.sum())
        hard = np.bincount(self.subset, minlength=3)
        return Counts(positives, len(self) - positives, int(hard[0]), int(hard[1]), *self.excluded)

    def only(self, mask: NDArray[np.bool_]) -> ChallengeSet:
        """The set of some of its images; ``mask`` is bool (n,)."""
        return replace(
            self,
            image_ids=self.image_ids.filter(pl.Series(mask)),
            labels=self.labels[mask],
            subset=self.subset[mask],
            support=None if self.support is None else self.support[mask],
            by_cue=None if self.by_cue is None else self.by_cue[mask],
        )

    def ids(self, subset: str) -> list[Any]:
        """Image ids of ``hard_positive``, ``hard_negative``, ``easy``, its sides ``easy_positive``
        and ``easy_negative``, or ``hard`` (both), ascending.
        """
        easy = self.subset == SUBSETS.index("easy")
        masks = {"hard": ~easy, "easy": easy}
        masks |= {"easy_positive": easy & self.labels, "easy_negative": easy & ~self.labels}
        mask = masks[subset] if subset in masks else self.subset == SUBSETS.index(subset)
        return self.image_ids.filter(mask).to_list()
