"""Pictures for notebooks and papers: functions draw on matplotlib axes (``ax=``) and return them.

    import nooch

    nooch.plot.findings(nooch.check("data", "model.csv", "checked"))
    nooch.plot.support(suite.set("ce", "car", "test"))
    nooch.plot.levels(results, "auc")

Functions take what nooch computes: checks, suites' sets, scores, results, sweeps. ``nooch paper
figures`` draws the paper's whole figures from them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nooch.analysis.answer import slice_errors
from nooch.analysis.check import Checked
from nooch.analysis.slices import Slices
from nooch.base.calls import Count, checked
from nooch.base.errors import UndefinedError, wrong_type
from nooch.evaluation.findings import Findings, errors_in, rates_of
from nooch.report.answer import LISTED
from nooch.report.figures.levels import HasCells, compared_rates, levels, losses
from nooch.report.figures.style import SIDE_COLORS, new_axes, worded
from nooch.report.figures.sweeps import (
    cues,
    hard_by_tau,
    losses_by_area,
    losses_by_tau,
    save_sweep,
    shares,
)
from nooch.report.images.galleries import save_gallery
from nooch.suites import ChallengeSet

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "HasCells", "cues", "findings", "hard_by_tau", "levels", "losses", "losses_by_area",
    "losses_by_tau", "save_gallery", "save_sweep", "shares", "slices", "support",
]  # fmt: skip


def support(challenge: ChallengeSet, *, ax: Axes | None = None, bins: int = 40) -> Axes:
    """Histograms of context support of a challenge set, each side as a share of its images.

    Hard positives lie below their line, hard negatives above.
    """
    if challenge.support is None or not len(challenge):
        problem = f"{challenge.criterion} gives no support for {challenge.task}"
        raise UndefinedError(problem, allowed="a set of a criterion with support")
    ax = new_axes(ax)
    edges = np.histogram_bin_edges(challenge.support, bins).tolist()
    sides = (
        ("positive", challenge.labels, challenge.positive, "below", "--"),
        ("negative", ~challenge.labels, challenge.negative, "above", ":"),
    )
    for side, mask, threshold, bound, line in sides:
        values, hard, color = challenge.support[mask], threshold.threshold, SIDE_COLORS[side]
        if len(values):
            weights, label = np.full(len(values), 1 / len(values)), f"{side}s ({len(values):,})"
            ax.hist(values, edges, weights=weights, color=color, alpha=0.45, label=label)
            if hard is not None:
                ax.axvline(hard, color=color, linestyle=line, label=f"hard {side}s {bound}")
    title = f"{worded(challenge.task)} by {worded(challenge.criterion)} ({challenge.split})"
    ax.set(xlabel="context support", ylabel="share of the side's images", title=title)
    ax.legend()
    return ax


@checked
def findings(report: Checked | Findings, *, most: Count = LISTED, ax: Axes | None = None) -> Axes:
    """The worst pairs of class and context: rates of errors there and elsewhere, a row for each.

    Pairs, words and order are the same as on the page of a check. Intervals are Wilson's, of 95%.

    Args:
        report: a check, or findings of ``nooch.cue_findings``, which do not include slices.
        most: maximum number of pairs.
        ax: where to draw; new axes by default, as high as needed.

    Raises:
        UndefinedError: no context is shown to make the model err more often.

    Examples:
        >>> ax = nooch.plot.findings(nooch.cue_findings("suite", "model.csv"))
        >>> [label.get_text().split() for label in ax.get_yticklabels()][0]
        ['The', 'model', 'misses', 'cars', 'without', 'a', 'road']
    """
    if isinstance(report, Findings):
        split, pairs = report.settings["split"], report.pairs[:LISTED]
        rows = [(errors_in(row), [*rates_of(row)], True) for row, *_ in pairs]
    elif isinstance(report, Checked):
        split, kind = report.answer.split, "context"
        rows = [(f.errors, [*f.rates], True) for f in report.answer.findings if f.kind == kind]
    else:
        allowed = "a check, or findings of nooch.cue_findings"
        raise wrong_type("report", report, allowed, "nooch.plot.findings(checked)")
    return compared_rates(rows[:most], f"errors by context ({split})", ax)


@checked
def slices(report: Checked | Slices, *, most: Count = LISTED, ax: Axes | None = None) -> Axes:
    """Slices of images: rates of errors there and elsewhere, a row for each.

    They are ranked as in ``Slices.table``; those that are not confirmed have hollow marks. The
    interval of the rate there is Wilson's, of 95%.

    Args:
        report: slices, or a check that searched them.
        most: maximum number of slices.
        ax: where to draw; new axes by default, as high as needed.

    Raises:
        UndefinedError: no slice was found, or none was searched.
    """
    found = report.slices if isinstance(report, Checked) else report
    if found is None:
        raise UndefinedError("slices were not searched", remedy="check with slices=True")
    if not isinstance(found, Slices):
        allowed = "slices of nooch.find_slices, or a check"
        raise wrong_type("report", report, allowed, "nooch.plot.slices(checked)")
    table = found.table.drop_nulls("rate_rest").head(most)
    rows = [(*slice_errors(row), row["confirmed"]) for row in table.iter_rows(named=True)]
    return compared_rates(rows, f"slices ({found.settings['split']})", ax)
