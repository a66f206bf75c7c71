"""Tests of slices: conditions on all images, pairs on the half that did not find them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nooch.analysis.slice_conditions import Booleans, Floats, SliceCondition, pair_counts
from nooch.evaluation.metrics.proportions import wilson
from nooch.evaluation.metrics.rate_gaps import RateGap, p_of_groups, rate_gap

LEAST_DROP = 0.1
"""How much larger a slice's error rate is at least; of pairs, on the half that is searched."""
MOST = 10
"""Pairs that each half finds, and unconfirmed slices listed, of each run, task and side."""
_ERROR = 0.05
"""Chance that any slice is confirmed where none errs more often."""
_OF_PAIRS = 0.1
"""Of that, the share of pairs that a half finds; the rest is for conditions, which have as much
power then as Fisher's test of them alone.
"""
_FEWER = 0.6
"""Of the error of a condition and its opposite, the share of the one with fewer images."""
_ALIKE = 0.8
"""Share of images (Jaccard) above which two slices are the same one."""


@dataclass
class SliceFamily:
    """Tests that share a chance of any false confirmation, over all runs, tasks and sides.

    Attributes:
        name: what it tests.
        error: that chance.
        tested: how many tests there are, with those whose row was not kept; a condition and its
            opposite are one.
        found: the slice of each row, and what the row says besides.
    """

    name: str
    error: float
    tested: int = 0
    found: list[tuple[FoundSlice, dict[str, Any]]] = field(default_factory=list)

    def judged(self) -> Iterator[dict[str, Any]]:
        """The rows with intervals and p-values corrected step by step (Holm, with weights). Tests
        without a row count as those of p = 1.
        """
        adjusted, left = 0.0, float(self.tested)
        for one, row in sorted(self.found, key=lambda found: _order(found[0])):
            gap, share = one.gap, one.weight / left
            low, high = gap.interval(1 - 2 * self.error * share)
            adjusted = max(adjusted, min(1.0, one.p / share * _ERROR / self.error))
            left -= one.weight
            yield row | {
                "n_test": gap.n_with, "errors_test": gap.errors_with, "effect": gap.effect,
                "low": low, "high": high, "p": one.p, "p_adjusted": adjusted,
                "confirmed": low > 0 and adjusted <= _ERROR,
            }  # fmt: skip


def slice_families() -> tuple[SliceFamily, SliceFamily, SliceFamily]:
    """Of conditions, and of pairs that the first and the second half find."""
    half = "pairs of the {} half"
    return (
        SliceFamily("conditions", _ERROR * (1 - 2 * _OF_PAIRS)),
        SliceFamily(half.format("first"), _ERROR * _OF_PAIRS),
        SliceFamily(half.format("second"), _ERROR * _OF_PAIRS),
    )


@dataclass(frozen=True, eq=False)
class FoundSlice:
    """A slice and its test.

    Attributes:
        family: what it is tested with.
        conditions: one, or two.
        inside: bool (n,), images of the side in which they hold.
        other: bool (n,), those compared with.
        gap: the comparison of the images that test it.
        p: one-sided, 1 where there is nothing to compare.
        weight: of the test, 1 at most.
    """

    family: SliceFamily
    conditions: tuple[SliceCondition, ...]
    inside: Booleans
    other: Booleans
    gap: RateGap
    p: float
    weight: float


@dataclass(frozen=True, eq=False)
class SliceSide:
    """The images of one side of a task, and where a run is wrong.

    Attributes:
        task: a class.
        conditions: those to test, chosen without a look at errors.
        images: bool (n,), those of the side.
        wrong: bool (n,), errors among them.
        halves: bool (n,) each.
        n: images of the side in which any two conditions hold, of either half, float64 (k, k).
        sizes: of the target, intp (n,), to compare within; None for claims.
        groups: integers (n,), of images that are alike; None where each is one.
    """

    task: str
    conditions: Sequence[SliceCondition]
    images: Booleans
    wrong: Booleans
    halves: tuple[Booleans, Booleans]
    n: Sequence[Floats]
    sizes: NDArray[np.intp] | None
    groups: NDArray[np.integer[Any]] | None

    def tested(self, least: int, families: Sequence[SliceFamily]) -> Iterator[FoundSlice]:
        """Slices of one and two conditions, each family's most significant first, without those
        of nearly the same images as an earlier one. All are counted as tests. ``least``: images of
        a slice.
        """
        errors = [pair_counts(self.conditions, half & self.wrong) for half in self.halves]
        families[0].tested += self._partitions()
        found = [self._found(families[0], (one,)) for one in self._far(errors)]
        kept: list[FoundSlice] = []
        for one in sorted(found, key=_order):
            if (len(kept) < MOST or one.p <= _ERROR) and _unlike(one, kept):
                kept.append(one)
        found = []
        for half, family in enumerate(families[1:]):
            pairs = [*self._pairs(half, errors[half], least)]
            family.tested += len(pairs)
            found += [self._found(family, pair, self.halves[1 - half]) for pair in pairs]
        for one in sorted(found, key=_order):
            if _unlike(one, kept):
                kept.append(one)
        yield from kept

    def strata(self, conditions: Sequence[SliceCondition]) -> NDArray[np.intp] | None:
        """The sizes to compare within, None for a slice that is about the size alone."""
        return None if all(one.name == self.task for one in conditions) else self.sizes

    def _partitions(self) -> int:
        """How many conditions there are, where one and its opposite are one."""
        rows = [one.holds[self.images] for one in self.conditions]
        return len({np.packbits(row ^ row[0]).tobytes() for row in rows})

    def _found(
        self,
        family: SliceFamily,
        conditions: tuple[SliceCondition, ...],
        test: Booleans | None = None,
    ) -> FoundSlice:
        """The slice, compared with the rest of the images that test."""
        inside = np.logical_and.reduce([self.images, *(one.holds for one in conditions)])
        other = self.images & ~inside
        used = self.images & (True if test is None else test)
        strata, of = self.strata(conditions), (self.wrong[used], inside[used])
        strata = None if strata is None else strata[used]
        gap = rate_gap(*of, strata)
        p = 1.0 if np.isnan(gap.p_more) else gap.p_more
        if self.groups is not None:
            p = max(p, p_of_groups(*of, self.groups[used], strata))
        fewer = inside.sum() <= other.sum()
        weight = 1.0 if len(conditions) > 1 else _FEWER if fewer else 1 - _FEWER
        return FoundSlice(family, conditions, inside, other, gap, p, weight)

    def _far(self, errors: Sequence[Floats]) -> Iterator[SliceCondition]:
        """Conditions whose error rate is far enough above that of the other images."""
        support, hits = (np.diag(first) + np.diag(second) for first, second in (self.n, errors))
        rest = (self.wrong.sum() - hits) / (self.images.sum() - support)
        for at in np.flatnonzero(hits / support - rest >= LEAST_DROP).tolist():
            yield self.conditions[at]

    def _pairs(
        self, half: int, errors: Floats, least: int
    ) -> Iterator[tuple[SliceCondition, SliceCondition]]:
        """Pairs for testing that a half finds."""
        n, conditions = self.n[half], self.conditions
        here, bad = (self.halves[half] & of for of in (self.images, self.wrong))
        first, second = np.triu_indices(len(conditions), 1)
        names = np.unique([condition.name for condition in conditions], return_inverse=True)[1]
        allowed = (names[first] != names[second]) & (n[first, second] >= least / 2)
        allowed &= (self.n[0] + self.n[1])[first, second] >= least
        first, second = first[allowed], second[allowed]
        support, hits = n[first, second], errors[first, second]
        rest = (bad.sum() - hits) / np.maximum(here.sum() - support, 1)
        rates = hits / np.maximum(support, 1)
        alone = np.diag(errors) / np.maximum(np.diag(n), 1)
        parents = np.maximum(alone[first], alone[second])
        good = np.flatnonzero(rates - rest >= LEAST_DROP)
        low = wilson(rates[good], support[good].astype(np.int64))[0]
        # a second condition has to add something beyond chance
        adds = low > parents[good]
        good, lower = good[adds], (low - rest[good])[adds]
        chosen: list[Booleans] = []
        for at in good[np.argsort(-lower, kind="stable")]:
            one, two = conditions[first[at]], conditions[second[at]]
            inside = one.holds & two.holds & self.images
            if any(_alike(inside, other) for other in chosen):
                continue
            chosen.append(inside)
            yield one, two
            if len(chosen) == MOST:
                return


def _order(one: FoundSlice) -> float:
    return one.p / one.weight


def _alike(one: Booleans, other: Booleans) -> bool:
    return bool((one & other).sum() / (one | other).sum() > _ALIKE)


def _unlike(one: FoundSlice, others: Sequence[FoundSlice]) -> bool:
    return not any(_alike(one.inside, other.inside) for other in others)
