"""Draws of the bootstrap: the counts of seeded resamples, in a type that holds their sums."""

import numpy as np
import pytest

from nooch.evaluation.bootstrap import BootstrapDraws


@pytest.mark.parametrize(
    ("n", "resamples", "kind"),
    [(0, 2, np.uint16), (9, 150, np.uint16), (65_535, 2, np.uint16), (65_536, 2, np.float64)],
)
def test_counts_are_those_of_seeded_draws(n, resamples, kind):
    random = np.random.default_rng(5)
    drawn = [np.bincount(random.integers(0, n, n), minlength=n) for _ in range(resamples) if n]
    expected = np.array(drawn, dtype=int).reshape(resamples, n).T
    for rows in (slice(None), np.arange(n)[::3]):
        blocks = list(BootstrapDraws(n, resamples, 5).weights(rows))
        assert {counts.dtype for _, counts in blocks} == {np.dtype(kind)}
        assert [i for block, _ in blocks for i in range(resamples)[block]] == [*range(resamples)]
        assert np.array_equal(np.concatenate([c for _, c in blocks], axis=1), expected[rows])
