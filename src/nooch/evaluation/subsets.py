"""A challenge set -> the subsets to score: all, hard, easy, sides, by cue, by group, averages."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.base.errors import ParameterError, check_one_of
from nooch.evaluation.metrics import Parts
from nooch.evaluation.predictions import check_unique, positions
from nooch.suites import CELLS, ChallengeSet, Suite
from nooch.suites.challenge_set import cell_codes

SCORED = ("all", "hard", "easy", *CELLS)
"""Scored subsets. ``easy`` pools both sides as the paper does: compare each hard and easy side."""

Groups = Mapping[str, tuple[NDArray[np.intp], Sequence[str]]]
"""Attribute -> code of each image, intp (n,), and the name of each code; empty: of no group."""

_MOST_GROUPS = 100
_CELLS_OF: dict[str, tuple[int, ...]] = {"all": (0, 1, 2, 3), "hard": (0, 1), "easy": (2, 3)}
_CELLS_OF |= {cell: (number,) for number, cell in enumerate(CELLS)}


@dataclass(frozen=True)
class Subset:
    """A subset of a challenge set.

    Attributes:
        name: one of ``SCORED``, or ``avg:NAME`` for an average under a distribution.
        cue: the single context cue that decides what is hard, or None.
        group: attribute and value, as ``place=water``, or None.
    """

    name: str
    cue: str | None = None
    group: str | None = None


@dataclass(frozen=True)
class Distribution:
    """Shares of the four cells, by which an average over a whole population is taken.

    Attributes:
        name: how it is called in the scores.
        shares: cell -> share, adding up to 1; or None for the shares of ``split``.
        split: the split of the suite whose own shares are taken, for each task.
    """

    name: str
    shares: Mapping[str, float] | None = None
    split: str | None = None

    def cell_shares(self, suite: Suite, challenge: ChallengeSet) -> NDArray[np.float64]:
        """Shares in the order of ``CELLS``, float64 (4,)."""
        if self.shares is not None:
            return np.array([self.shares.get(cell, 0.0) for cell in CELLS])
        c = suite.record(challenge.criterion, challenge.task, self.split or challenge.split)
        counts = np.array(c.cells, dtype=np.float64)
        return np.asarray(counts / max(counts.sum(), 1.0))


def parse_distribution(text: str, suite: Suite) -> Distribution:
    """``uniform``, a split of the suite, or ``NAME:hard_positive=0.1,easy_positive=0.2,...``."""
    if text == "uniform":
        return Distribution("uniform", dict.fromkeys(CELLS, 0.25))
    name, colon, rest = text.partition(":")
    if not colon:
        check_one_of("distribution", text, ("uniform", *suite.splits), owner="the suite")
        suite.require_easy(f"an average by the shares of split {text}")
        return Distribution(text, split=text)
    shares: dict[str, float] = {}
    for part in rest.split(","):
        cell, _, number = (piece.strip() for piece in part.partition("="))
        if check_one_of("cell", cell, CELLS) in shares or not re.fullmatch(
            r"[0-9]*\.?[0-9]+([eE]-?[0-9]+)?", number
        ):
            raise ParameterError(
                f"{part!r} is not a share",
                where=f"distribution {name}",
                allowed="each cell once, at least 0, such as hard_positive=0.1",
            )
        shares[cell] = float(number)
    if abs(sum(shares.values()) - 1) > 1e-6:
        problem = f"shares add up to {sum(shares.values()):g}"
        raise ParameterError(
            problem, where=f"distribution {name}", allowed="shares that add up to 1"
        )
    return Distribution(name, shares)


@dataclass(frozen=True)
class ScoreScope:
    """The criterion, task, split and subsets of a block of scores.

    Attributes:
        criterion: its name; ``task`` (``average``: the mean over tasks) and ``split`` are names as
            well.
        subsets: the subsets, in the order of the rows of scores.
        n: int64 (n_subsets,), images; ``n_positive`` those that are positive.
        tasks: how many tasks an average is over, else 1.
        effective: of a weighted sample, or of images in groups, float64 (3, n_subsets): the numbers
            of images, positives and negatives that would give intervals of the same width without
            weights, and of groups if they were of one size; or None.
        groups: int64 (3, n_subsets), groups with images, positives and negatives; None: each image
            is one.
    """

    criterion: str
    task: str
    split: str
    subsets: Sequence[Subset]
    n: NDArray[np.int64]
    n_positive: NDArray[np.int64]
    tasks: int = 1
    effective: NDArray[np.float64] | None = None
    groups: NDArray[np.int64] | None = None

    @property
    def units(self) -> NDArray[np.int64]:
        """Groups, or images, with any, positive and negative images, int64 (3, n_subsets)."""
        if self.groups is not None:
            return self.groups
        return np.array([self.n, self.n_positive, self.n - self.n_positive])

    @property
    def images(self) -> NDArray[np.float64]:
        """Images, positives and negatives, as many as intervals count, float64 (3, n_subsets)."""
        return self.units.astype(np.float64) if self.effective is None else self.effective

    @property
    def common(self) -> list[int]:
        """Rows of the subsets that every task has: those that do not depend on its cues."""
        return [row for row, subset in enumerate(self.subsets) if subset.cue is None]


@dataclass(frozen=True)
class DividedSet:
    """A criterion's set of the task, divided.

    Attributes:
        challenge: the set.
        rows: where its images are among the split's: positions, or a slice of all.
        scope: names and sizes of its subsets.
        parts: how they are made up.
        weights: of a sample, float64 (n,) with mean 1; or None.
        units: number of each image's group, int64 (n,); None: each image is one.
    """

    challenge: ChallengeSet
    rows: NDArray[np.intp] | slice
    scope: ScoreScope
    parts: Parts
    weights: NDArray[np.float64] | None = None
    units: NDArray[np.int64] | None = None


def groups_of(ids: pl.Series, by: Sequence[str], attributes: pl.DataFrame | None) -> Groups:
    """The value of each attribute that each image has.

    ``by``: columns of ``attributes``.
    """
    if not by:
        return {}
    if attributes is None or "image_id" not in attributes.columns:
        raise ParameterError(
            "groups need a frame of attributes with image_id",
            remedy="such as the images of a dataset",
            give={"attributes": ...},
        )
    frame = attributes.with_columns(pl.col("image_id").cast(ids.dtype, strict=False)).drop_nulls(
        "image_id"
    )
    check_unique(frame["image_id"], "image ids", "attributes")
    table = pl.DataFrame({"image_id": ids}).join(
        frame, on="image_id", how="left", maintain_order="left"
    )
    groups = {}
    for column in by:
        check_one_of("attribute", column, [c for c in attributes.columns if c != "image_id"])
        levels = table[column].unique().sort(nulls_last=True)
        if len(levels) > _MOST_GROUPS:
            problem = f"attribute {column} has {len(levels)} values"
            raise ParameterError(problem, remedy="make a column of fewer values, such as intervals")
        names = [f"{column}={level}" for level in levels.to_list()]
        groups[column] = positions(table[column], levels), names
    return groups


def divide(
    challenge: ChallengeSet,
    cues: Sequence[str],
    groups: Groups,
    shares: Mapping[str, NDArray[np.float64]],
) -> tuple[list[Subset], Parts]:
    """The subsets of a set, with what is needed to score them.

    Args:
        challenge: the set, n images.
        cues: the task's, by bit of ``challenge.by_cue``; several give subsets by cue.
        groups: attribute -> (code of each image, intp (n,); name of each code).
        shares: distribution -> shares of the cells, float64 (4,).
    """
    labels, cell = challenge.labels, challenge.cells
    by_cue = challenge.by_cue if len(cues) > 1 else None
    # images that agree in all of these are in the same subsets
    parts = [*([] if by_cue is None else [by_cue]), *(codes for codes, _ in groups.values())]
    examples, atoms = _atoms(cell, parts)
    at_cell, at_label = cell[examples], labels[examples]
    subsets = [Subset(name) for name in SCORED]
    members = [np.isin(at_cell, _CELLS_OF[name]) for name in SCORED]
    for bit, cue in enumerate(cues if by_cue is not None else []):
        if by_cue is not None and bit < by_cue.dtype.itemsize * 8:
            alone = cell_codes(at_label, (by_cue[examples] >> np.uint64(bit)) & np.uint64(1) == 1)
            subsets += [Subset(name, cue=cue) for name in SCORED if name != "all"]
            members += [np.isin(alone, _CELLS_OF[name]) for name in SCORED if name != "all"]
    for codes, names in groups.values():
        for code, group in enumerate(names):
            if not group:
                continue
            subsets += [Subset(name, group=group) for name in SCORED]
            members += [
                np.isin(at_cell, _CELLS_OF[name]) & (codes[examples] == code) for name in SCORED
            ]
    subsets += [Subset(f"avg:{name}") for name in shares]
    table = np.array(list(shares.values())).reshape(len(shares), len(CELLS))
    return subsets, Parts(labels, atoms, np.array(members), at_cell, table)


def with_effective(
    scope: ScoreScope,
    parts: Parts,
    weights: NDArray[np.float64] | None,
    units: NDArray[np.int64] | None,
    rest: int = 0,
) -> ScoreScope:
    """The scope with ``effective`` (Kish 1965) and ``groups`` of weighted or grouped images.

    Subsets that ``parts`` lacks have the images of the one in row ``rest``.
    """
    if weights is None and units is None:
        return scope
    n, n_subsets = len(parts.labels), len(parts.members)
    weights = np.ones(n) if weights is None else weights
    effective, counts = np.zeros((3, n_subsets)), np.zeros((3, n_subsets), np.int64)
    for row, member in enumerate(parts.members):
        inside = member[parts.atoms]
        for column, side in enumerate((inside, inside & parts.labels, inside & ~parts.labels)):
            own = weights[side] if units is None else np.bincount(units[side], weights[side])
            counts[column, row] = np.count_nonzero(own)
            if counts[column, row]:
                effective[column, row] = own.sum() ** 2 / (own**2).sum()
    rows = [*range(n_subsets), *[rest] * (len(scope.subsets) - n_subsets)]
    groups = None if units is None else counts[:, rows]
    return replace(scope, effective=effective[:, rows], groups=groups)


def _atoms(
    cell: NDArray[np.intp], parts: Sequence[NDArray[np.generic]]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """An image of each atom, and the atom of each image."""
    number = cell
    for part in parts:
        small = (
            part.dtype.kind in "iu"
            and part.dtype.itemsize * len(part) > 0
            and int(part.max()) < len(part)
        )
        codes = part.astype(np.intp) if small else np.unique(part, return_inverse=True)[1]
        # renumbered each time, so that products of many attributes do not overflow
        number = _renumber(number * (int(codes.max(initial=0)) + 1) + codes)[1]
    return _renumber(number)


def _renumber(number: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The first index of each number, ascending by number; for each index its rank among them."""
    first = np.full(int(number.max(initial=-1)) + 1, -1, dtype=np.intp)
    first[number[::-1]] = np.arange(len(number))[::-1]
    present = first >= 0
    return first[present], (np.cumsum(present) - 1)[number]
