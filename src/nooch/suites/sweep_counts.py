"""What sweeping thresholds finds: counts of cues and of hard images over alpha, beta, tau, lift."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

POOLED = "all tasks"
"""The task that stands for all pairs of image and task together."""


@dataclass(frozen=True, eq=False)
class Sweep:
    """Results of sweeping thresholds.

    Attributes:
        cues: ``task, alpha, n_cues`` (Fig. 10).
        grid: ``task, split, alpha, beta, hard_positives, hard_negatives, positives, negatives,
            share_positive, share_negative`` (Fig. 12): share_positive is P(hard | y = 1),
            share_negative P(hard | y = 0). Without a cue at an alpha there is no hard image. The
            task ``all tasks`` pools all pairs of image and task.
        tau: ``task, split, tau``, then the same columns, for the gist criterion (Fig. 11); empty
            where it was not swept.
        equal: for each task and split the (alpha, beta) whose shares are most alike: the smallest
            |p - q| / (p + q), then the larger shares; without tasks where no point has images on
            both sides.
        lift: as ``tau`` for the context criterion; its hard positives are the same at each lift.
    """

    cues: pl.DataFrame
    grid: pl.DataFrame
    tau: pl.DataFrame
    equal: pl.DataFrame
    lift: pl.DataFrame

    def __repr__(self) -> str:
        return (
            f"Sweep({self.cues['task'].n_unique()} tasks, {self.grid.height} points,"
            f" {self.tau.height} of tau, {self.lift.height} of lift)"
        )
