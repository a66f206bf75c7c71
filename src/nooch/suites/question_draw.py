"""A suite -> one yes/no question for each drawn image and task, with sampling weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.base.errors import ParameterError, UndefinedError, check_one_of
from nooch.suites import ChallengeSet, Suite
from nooch.suites.question_table import Questions
from nooch.suites.question_wording import TEMPLATE, check_template, question_text

__all__ = ["BALANCES", "QuestionOptions", "draw_questions"]

BALANCES = ("none", "yes-no")


@dataclass(frozen=True)
class QuestionOptions:
    """Which questions are asked, and their wording.

    Attributes:
        per_set: images drawn for each task and combination of label and subsets; None for all.
        balance: ``yes-no`` for as many questions on present as on absent objects in each task.
        template: the question, with ``{a}`` for the article and ``{task}``.
        seed: of the draw; a task's draw depends on no other task.
    """

    per_set: int | None = 50
    balance: str = "none"
    template: str = TEMPLATE
    seed: int = 0

    def __post_init__(self) -> None:
        check_one_of("balance", self.balance, BALANCES)
        check_template(self.template)
        if self.per_set is not None and self.per_set < 1:
            raise ParameterError(
                f"is {self.per_set}", where="`per_set`", allowed="1 and more, or all"
            )


def draw_questions(
    suite: Suite, keys: Sequence[tuple[str, str, str]], options: QuestionOptions
) -> Questions:
    """Ask each drawn image and task once, whatever criteria the image belongs to.

    The strata of a task and split are the combinations of the label and the subset under each
    criterion. ``per_set`` images are drawn from each without replacement, so each question stands
    for ``weight`` = images / drawn images of its stratum, and weighted rates are unbiased for the
    challenge sets.

    Args:
        suite: the suite.
        keys: (criterion, task, split) of its sets to ask about.
        options: how many, which wording, which seed.

    Returns:
        Questions in the order of splits, image ids and tasks, numbered from 1.

    Raises:
        UndefinedError: no question can be asked: the sets are empty.
    """
    criteria = list(dict.fromkeys(criterion for criterion, _, _ in keys))
    tasks = list(dict.fromkeys(task for _, task, _ in keys))
    parts = []
    for split in dict.fromkeys(split for _, _, split in keys):
        for number, task in enumerate(tasks):
            sets = {c: suite.set(*k) for k in keys for c in k[:1] if k[1:] == (task, split)}
            if not sets:
                continue
            pool = _pool(sets, criteria)
            if suite.header.hard_only:
                pool = pool.filter(pl.any_horizontal(pl.col(criteria).is_not_null()))
            drawn = _drawn(pool, criteria, options, f"{split}/{task}")
            parts.append(
                drawn.with_columns(
                    task=pl.lit(task),
                    split=pl.lit(split),
                    text=pl.lit(question_text(options.template, task)),
                    place=pl.lit(number),
                )
            )
    frame = pl.concat(parts) if parts else pl.DataFrame()
    if not frame.height:
        raise UndefinedError("the chosen challenge sets hold no image to ask about")
    order = pl.col("split").replace_strict(
        {name: n for n, name in enumerate(suite.splits)}, return_dtype=pl.Int64
    )
    frame = frame.sort(order, "image_id", "place").with_columns(
        question_id=pl.int_range(1, pl.len() + 1, dtype=pl.Int64)
    )
    columns = ["question_id", "image_id", "task", "split", "text", "label", "weight"]
    return Questions(frame.select(*columns, *criteria))


def _pool(sets: Mapping[str, ChallengeSet], criteria: Sequence[str]) -> pl.DataFrame:
    """``image_id, label``, and the subset under each criterion, null where it has no verdict."""
    frames = []
    for criterion, challenge in sets.items():
        labels = pl.Series("label", challenge.labels.astype(np.int8))
        cells = challenge.cell_frame.select("image_id", labels, pl.col("cell").alias(criterion))
        frames.append(cells)
    pool = frames[0]
    for frame in frames[1:]:
        pool = pool.join(frame, on=["image_id", "label"], how="full", coalesce=True)
    missing = [pl.lit(None, pl.String).alias(name) for name in criteria if name not in sets]
    return pool.with_columns(*missing).select("image_id", "label", *criteria).sort("image_id")


def _drawn(
    pool: pl.DataFrame, criteria: Sequence[str], options: QuestionOptions, name: str
) -> pl.DataFrame:
    """The drawn rows of a task's images in one split, with ``weight``."""
    random = np.random.default_rng([options.seed, crc32(name.encode())])
    rank = pl.Series("rank", random.permutation(pool.height))
    strata = ["label", *criteria]
    pool = pool.with_columns(rank).with_columns(
        size=pl.len().over(strata), rank=pl.col("rank").rank("ordinal").over(strata)
    )
    groups = pool.group_by(strata).agg(pl.col("size").first()).sort(strata)
    take = groups["size"].to_numpy().astype(np.int64)
    if options.per_set is not None:
        take = np.minimum(take, options.per_set)
    if options.balance == "yes-no":
        take = _balanced(take, groups["label"].to_numpy() == 1)
    groups = groups.select(strata).with_columns(take=pl.Series(take))
    pool = pool.join(groups, on=strata, nulls_equal=True, maintain_order="left")
    drawn = pool.filter(pl.col("rank") <= pl.col("take"))
    return drawn.with_columns(weight=pl.col("size") / pl.col("take")).drop("size", "rank", "take")


def _balanced(take: NDArray[np.int64], positive: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Fewer from the larger side's largest strata, until both sides have the same number.

    Every stratum keeps one image, so that rates of all subsets stay known; a side of more strata
    than the other has images stays larger.
    """
    take = take.copy()
    target = min(take[positive].sum(), take[~positive].sum())
    for side in (positive, ~positive):
        if take[side].sum() > target and take[side].max() > 1:
            sums = [np.minimum(take[side], most).sum() for most in range(take[side].max() + 1)]
            most = max(1, int(np.searchsorted(sums, target, "right")) - 1)
            # what is left for one more image goes to the last strata
            more = np.flatnonzero(side & (take > most))[sums[most + 1] - target :]
            take[side] = np.minimum(take[side], most)
            take[more] += 1
    return take
