"""One challenge set: the images of a split that have a verdict, and which of them are hard."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.base.display import DisplayTable, TabularResult
from nooch.base.words import counted
from nooch.suites.hard_easy import HARD, NONE, UNKNOWN, Mark, Side

SUBSETS = ("hard_positive", "hard_negative", "easy")
ROWS: dict[str, Any] = {
    "label": pl.Int8,
    "support": pl.Float64,
    "subset": pl.Enum(list(SUBSETS)),
    "by_cue": pl.UInt64,
}
"""Columns of a set's table after ``image_id``; ``support`` and ``by_cue`` may be null throughout.
"""


CELLS = ("hard_positive", "hard_negative", "easy_positive", "easy_negative")
"""The four parts of a challenge set, by label and verdict."""
NO_CONTEXT = "no context"
"""Name of the criterion of labels that contain no context: no image is hard."""


def cell_codes(labels: NDArray[np.bool_], hard: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Index into ``CELLS`` of each image, intp (n,)."""
    return np.asarray(np.where(hard, 0, 2) + ~labels, dtype=np.intp)


def subset_codes(labels: NDArray[np.bool_], hard: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """Index into ``SUBSETS`` of each image, uint8 (n,)."""
    # easy 2, less 1 for a hard negative and 2 for a hard positive
    return np.uint8(2) - hard * (labels + np.uint8(1))


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


@dataclass(frozen=True, eq=False, repr=False)
class ChallengeSet(TabularResult):
    """The images of a split that a criterion has a verdict on, for one task.

    Attributes:
        criterion: its name in the suite; ``task`` and ``split`` are names as well.
        image_ids: Int64 or String, ascending, shape (n,).
        labels: bool (n,), presence of the task's class.
        subset: uint8 (n,), index into ``SUBSETS``.
        support: float64 (n,), or None for criteria without support.
        positive: threshold of the positives; ``negative`` of the negatives.
        excluded: positives, negatives, and images of unknown label, without a verdict.
        by_cue: uint64 (n,), bit i where the image is hard by the task's i-th cue, or None for
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
            is_marked = codes != NONE
            n_unknown = 0 if unknown is None else int(unknown.sum())
            n_positive = int((labels & ~is_marked).sum())
            excluded = n_positive, int((~is_marked).sum()) - n_positive - n_unknown, n_unknown
            image_ids, labels, codes = (
                image_ids.filter(is_marked),
                labels[is_marked],
                codes[is_marked],
            )
            support = None if support is None else support[is_marked]
            by_cue = None if by_cue is None else by_cue[is_marked]
        subset = subset_codes(labels, codes == HARD)
        sides = mark.positive, mark.negative
        return cls(
            criterion, task, split, image_ids, labels, subset, support, *sides, excluded, by_cue
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.image_ids)

    @property
    def display(self) -> DisplayTable:
        """Hard and easy images of each side, and the thresholds."""
        c = self.counts
        hard_positives, hard_negatives, *easy = c.cells
        rows = [
            ("positives", hard_positives, easy[0], c.positives, self.positive.threshold),
            ("negatives", hard_negatives, easy[1], c.negatives, self.negative.threshold),
        ]
        columns = ["", "hard", "easy", "all", "threshold"]
        left_out = sum(self.excluded)
        notes = [f"{counted(left_out, 'image')} without a verdict left out"] if left_out else []
        images = counted(len(self), "image")
        title = f"ChallengeSet({self.criterion}, {self.task}, {self.split}: {images})"
        return DisplayTable(title, columns, rows, notes=notes)

    @property
    def table(self) -> pl.DataFrame:
        """``image_id, label, support, subset, by_cue``: a row for each image."""
        columns = {
            "image_id": self.image_ids,
            "label": self.labels.astype(np.int8),
            "support": self.support,
            "subset": pl.Series(SUBSETS, dtype=ROWS["subset"]).gather(self.subset),
            "by_cue": self.by_cue,
        }
        return pl.DataFrame(columns, schema_overrides={"image_id": self.image_ids.dtype, **ROWS})

    @property
    def counts(self) -> Counts:
        """Positives, negatives, hard ones, and those without a verdict."""
        positives = int(np.count_nonzero(self.labels))
        hard = [int(np.count_nonzero(self.subset == code)) for code in (0, 1)]
        sides = positives, len(self) - positives, hard[0], hard[1]
        return Counts(*sides, *self.excluded)

    @property
    def hard(self) -> NDArray[np.bool_]:
        """Images that are hard, bool (n,)."""
        return np.asarray(self.subset != SUBSETS.index("easy"))

    @property
    def cells(self) -> NDArray[np.intp]:
        """Index into ``CELLS`` of each image, intp (n,)."""
        return cell_codes(self.labels, self.hard)

    @property
    def cell_frame(self) -> pl.DataFrame:
        """``image_id, task, cell`` (one of ``CELLS``), a row for each image."""
        names = pl.Series("cell", CELLS, dtype=pl.String).gather(self.cells)
        frame = pl.DataFrame({"image_id": self.image_ids, "cell": names})
        return frame.select("image_id", pl.lit(self.task).alias("task"), "cell")

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
