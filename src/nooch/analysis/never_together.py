"""Classes that training never shows in one image, and test does: how often each is missed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from nooch.evaluation.findings import SIDES, outcomes_of
from nooch.evaluation.judged import JudgedRuns
from nooch.suites.find import UNSEEN_PAIRS, unseen_pairs

UNSEEN: dict[str, Any] = {
    "run": pl.String, **UNSEEN_PAIRS, "n": pl.Int64, "missed": pl.Int64, "rate": pl.Float64,
    "n_elsewhere": pl.Int64, "rate_elsewhere": pl.Float64,
}  # fmt: skip
"""Columns of ``never_together``. ``n_test``: images of the split with both classes;
``expected_train``: training images with both, if classes were independent; of ``n`` objects
(without boxes: images) of the task in the former, ``missed`` are missed; ``rate`` of these
and ``rate_elsewhere`` of the others count each image by its weight.
"""


def never_together(judged: JudgedRuns, tasks: Sequence[str]) -> pl.DataFrame:
    """``unseen_pairs`` of the runs' split, a row for each run and task with predictions; see
    ``UNSEEN``.
    """
    assert judged.data is not None  # noqa: S101 - without a dataset nobody asks
    rows = []
    for pair in unseen_pairs(judged.data, judged.split).iter_rows(named=True):
        task, other = pair["task"], pair["other"]
        if task not in tasks:
            continue
        part, everything = judged.labeled(task)
        both = part.labels(other, unknown=False)
        for run in (run for run in judged.runs if task in run.tasks):
            outcomes = outcomes_of(run, everything, SIDES[0])
            inside, wrong = both[outcomes.row], outcomes.wrong
            weight = outcomes.weights(judged.weights(run, everything))
            rate, elsewhere = (
                float(wrong[of] @ weight[of] / weight[of].sum()) if weight[of].any() else None
                for of in (inside, ~inside)
            )
            rows.append({
                "run": run.run, **pair, "n": int(inside.sum()), "missed": int(wrong[inside].sum()),
                "rate": rate, "n_elsewhere": int((~inside).sum()), "rate_elsewhere": elsewhere,
            })  # fmt: skip
    return pl.DataFrame(rows, schema=UNSEEN)
