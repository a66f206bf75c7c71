"""Changes from one run to another on the same answers: of rates, their ratio, d', the criterion.

A change has a 95% interval by units (images, or groups of these), whose answers may be alike. Of a
share it is Tango's, for the effective number of answers. Of a ratio of rates R = r1 / r2 and of
sensitivity it is linear in the units: with sums Y of the weights of yes, g = d(value) / dY, and
rates p, unit u adds e_u = sum of g (y_u - p w_u) over both runs (with opposite signs) and both
kinds of answers, and

    variance = m / (m - 1) * sum of e_u^2 + sum of (g c)^2 / 2,    interval = change +- q * root

for m units, Student's quantile q of ``student``, and the mean weight c of an answer. The last sum
is of half an answer more that changes in each direction, for each kind, as Agresti and Min (2005)
add them to paired proportions: without any change the interval has a width. g is taken with these
halves in Y, and of log R so is the middle, as Gart and Zweifel (1967) add them to the logarithm of
a rate. docs/intervals.md has how often the intervals cover.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from nooch.evaluation.metrics.proportions import (
    effective_number,
    exact_mcnemar,
    paired_interval,
    student,
)

Floats = NDArray[np.float64]
_HALF = 0.5
"""Answers that are added to each kind that changes, and to the counts of d' (Hautus 1995)."""


@dataclass(frozen=True)
class Change:
    """A value of a baseline and of another run on the same answers.

    Attributes:
        before: the baseline's; ``after`` the other run's; None where undefined.
        low: end of the 95% interval of after - before, of a ratio of after / before (``none`` is
            then 1); ``high`` the other end; None where undefined.
        n: answers that both are about.
        p: McNemar's exact, of shares.
        none: what no change is.
    """

    before: float | None
    after: float | None
    low: float | None
    high: float | None
    n: int
    p: float | None = None
    none: float = 0.0

    @property
    def change(self) -> float | None:
        """After - before, of a ratio after / before."""
        if self.before is None or self.after is None:
            return None
        return self.after / self.before if self.none else self.after - self.before

    @property
    def fell(self) -> bool:
        """True if the interval is below no change."""
        return self.high is not None and self.high < self.none

    @property
    def rose(self) -> bool:
        """True if it is above."""
        return self.low is not None and self.low > self.none


@dataclass(frozen=True, eq=False)
class PairedAnswers:
    """Answers of a baseline and another run about the same questions.

    Attributes:
        yes: float64 (2, n), in [0, 1], the baseline's first.
        weight: float64 (n,), above 0.
        unit: integers (n,), the image or group of each.
    """

    yes: Floats
    weight: Floats
    unit: NDArray[np.integer]

    def of(self, rows: NDArray[np.bool_]) -> PairedAnswers:
        """Some of the answers."""
        return PairedAnswers(self.yes[:, rows], self.weight[rows], self.unit[rows])

    def share(self) -> Change:
        """The change of the share of yes; with McNemar's p, both of the ``effective_number``."""
        n = len(self.weight)
        if not n:
            return Change(None, None, None, None, 0)
        weight = self.weight / self.weight.sum()
        change = self.yes[1] - self.yes[0]
        up, down = (np.array(weight @ np.maximum(sign * change, 0)) for sign in (1, -1))
        number = np.array(effective_number(change, self.unit, weight))
        low, high = paired_interval(up, down, number)
        p = exact_mcnemar(up * number, down * number)
        before, after = self.yes @ weight
        return Change(float(before), float(after), float(low), float(high), n, float(p))

    def ratio(self, first: NDArray[np.bool_]) -> Change:
        """The change of the rate of yes of the first answers over the one of the others, as a
        factor. A ratio of a run without yes among the first is 0, among the others undefined.
        """
        rates = self._rates(first)
        if rates is None:
            return Change(None, None, None, None, len(self.weight), none=1.0)
        yes, weight, mean = rates.yes.sum(axis=-1), rates.weight.sum(axis=-1), rates.mean
        with np.errstate(divide="ignore", invalid="ignore"):
            before, after = (None if of[1] == 0 else float(of[0] / of[1]) for of in yes / weight)
        if not before or after is None:
            return Change(before, after, None, None, len(self.weight), none=1.0)
        more = yes + _HALF * mean
        reach = rates.reach(np.array([1.0, -1.0]) / more)
        factor = np.exp(np.log(more[1] / more[0]) @ [1, -1])
        low = 0.0 if after == 0 else float(factor * np.exp(-reach))
        high = float(factor * np.exp(reach))
        return Change(before, after, low, high, len(self.weight), none=1.0)

    def sensitivity(self, positive: NDArray[np.bool_]) -> tuple[Change, Change]:
        """The changes of d' = z(H) - z(F) and of the criterion -(z(H) + z(F)) / 2, for the rates of
        yes H of positives and F of the others. Each is (Y n / W + 1/2) / (n + 1) of n answers of
        weight W (Hautus 1995), so that 0 and 1 also have a z.
        """
        rates = self._rates(positive)
        if rates is None:
            nothing = Change(None, None, None, None, len(self.weight))
            return nothing, nothing
        n, weight = rates.n, rates.weight.sum(axis=-1)
        z = ndtri((rates.yes.sum(axis=-1) * n / weight + _HALF) / (n + 1))
        slope = n / weight / (n + 1) * np.sqrt(2 * np.pi) * np.exp(z**2 / 2)
        changes = []
        for signs in ([1.0, -1.0], [-0.5, -0.5]):
            before, after = (float(value) for value in z @ signs)
            reach = rates.reach(slope * signs)
            gap = after - before
            changes.append(Change(before, after, gap - reach, gap + reach, len(self.weight)))
        return changes[0], changes[1]

    def _rates(self, first: NDArray[np.bool_]) -> _TwoRates | None:
        """Sums by kind and unit; None without answers of one of the kinds."""
        n = np.array([first.sum(), (~first).sum()])
        if not n.all():
            return None
        unit = np.unique(self.unit, return_inverse=True)[1]
        sizes = np.bincount(unit)

        def sums(values: Floats) -> Floats:
            of = [np.bincount(unit[k], values[k], len(sizes)) for k in (first, ~first)]
            return np.array(of, dtype=np.float64)

        yes = np.stack([sums(run * self.weight) for run in self.yes])
        return _TwoRates(yes, sums(self.weight), n, sizes)


@dataclass(frozen=True, eq=False)
class _TwoRates:
    """Weights of two kinds of answers and of yes: ``yes`` (2 runs, 2 kinds, m units), ``weight``
    (2, m); ``n`` (2,) answers; ``sizes`` (m,) answers of each unit.
    """

    yes: Floats
    weight: Floats
    n: NDArray[np.integer]
    sizes: NDArray[np.integer]

    @property
    def mean(self) -> Floats:
        """The mean weight of an answer, (2,)."""
        return np.asarray(self.weight.sum(axis=-1) / self.n)

    def reach(self, slopes: Floats) -> float:
        """Half the width of the interval of a change with these slopes, (2 runs, 2 kinds); of one
        unit it is infinite.
        """
        rates = self.yes.sum(axis=-1) / self.weight.sum(axis=-1)
        away = self.yes - rates[..., None] * self.weight
        each = np.einsum("rk,rku->ru", slopes, away)
        m = len(self.sizes)
        if m < 2:
            return np.inf
        variance = m / (m - 1) * ((each[1] - each[0]) ** 2).sum()
        variance += _HALF * ((slopes * self.mean) ** 2).sum()
        return float(student(self.sizes) * np.sqrt(variance))


def mean_change(before: Floats, after: Floats, unit: NDArray[np.integer]) -> Change:
    """The change of a mean, such as of words: Student's interval of the units' sums.

    ``before``, ``after``: float64 (n,).
    """
    if not len(before):
        return Change(None, None, None, None, 0)
    group, gap = np.unique(unit, return_inverse=True)[1], after - before
    sizes, m = np.bincount(group), int(group.max()) + 1
    away = np.bincount(group, gap - gap.mean()) / len(gap)
    reach = np.inf if m < 2 else student(sizes) * np.sqrt(m / (m - 1) * (away**2).sum())
    low, high = gap.mean() - reach, gap.mean() + reach
    return Change(float(before.mean()), float(after.mean()), float(low), float(high), len(gap))
