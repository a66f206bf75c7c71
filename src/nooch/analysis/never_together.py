"""Classes that training never shows in one image, and test does: how often each is missed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from nooch.base.errors import some_of
from nooch.base.words import counted, plural, readable
from nooch.criteria.exact_sums import presence_of
from nooch.data import Dataset
from nooch.evaluation.findings import SIDES, outcomes_of
from nooch.evaluation.judged import JudgedRuns
from nooch.evaluation.rate_words import percent

_EXPECTED = 3
"""Training images with both classes that chance would give: none is then a chance of 5%."""
_NAMED = 3
_PAIRS: dict[str, Any] = {
    "task": pl.String, "other": pl.String, "n_test": pl.Int64, "expected_train": pl.Float64,
}  # fmt: skip
UNSEEN: dict[str, Any] = {
    "run": pl.String, **_PAIRS, "n": pl.Int64, "missed": pl.Int64, "rate": pl.Float64,
    "n_elsewhere": pl.Int64, "rate_elsewhere": pl.Float64,
}  # fmt: skip
"""Columns of ``never_together``. ``n_test``: images of the split with both classes;
``expected_train``: training images with both, if classes were independent; of ``n`` objects
(without boxes: images) of the task in the former, ``missed`` are missed; ``rate_elsewhere`` is the
rate of the others.
"""


def unseen_pairs(data: Dataset, split: str) -> pl.DataFrame:
    """Pairs of classes that images of a split show together and training images never do, though
    chance would give some of these; both orders of each, the most images first.

    A class with labels that are unknown in training is in none. Without training images, or on
    them, there is no pair.
    """
    empty = pl.DataFrame(schema=_PAIRS)
    if "train" not in data.splits or split == "train":
        return empty
    train = data.select("train")
    before, now = (presence_of(part.areas) for part in (train, data.select(split)))
    present = np.asarray(before.sum(axis=0)).ravel()
    unknown = [task for task in data.classes if train.unknown_labels(task) is not None]
    present[[data.classes.index(task) for task in unknown]] = 0
    tests = (now.T @ now).tocoo()
    first, second = (np.asarray(of) for of in tests.coords)
    expected = present[first] * present[second] / max(len(train), 1)
    kept = (first != second) & (expected >= _EXPECTED)
    first, second, n = first[kept], second[kept], tests.data[kept]
    seen = (before.T @ before).tocsr()
    unseen = np.array([not seen[a, b] for a, b in zip(first, second, strict=True)], dtype=bool)
    names = np.array(data.classes, dtype=object)
    pairs = pl.DataFrame(
        {
            "task": names[first[unseen]].tolist(), "other": names[second[unseen]].tolist(),
            "n_test": n[unseen].astype(np.int64), "expected_train": expected[kept][unseen],
        },
        schema=_PAIRS,
    )  # fmt: skip
    return pairs.sort("n_test", "task", "other", descending=[True, False, False])


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
            inside = both[outcomes.row]
            here, elsewhere = outcomes.wrong[inside], outcomes.wrong[~inside]
            rates = (float(of.mean()) if len(of) else None for of in (here, elsewhere))
            counts = len(here), int(here.sum()), len(elsewhere)
            row = dict(zip(("n", "missed", "n_elsewhere"), counts, strict=True))
            rows.append({"run": run.run, **pair, **row,
                         **dict(zip(("rate", "rate_elsewhere"), rates, strict=True))})  # fmt: skip
    return pl.DataFrame(rows, schema=UNSEEN)


def unseen_note(pairs: pl.DataFrame) -> list[str]:
    """A line with the first pairs, each once; none without pairs. ``pairs``: of either function."""
    texts: dict[frozenset[str], str] = {}
    for row in pairs.iter_rows(named=True):
        key = frozenset((row["task"], row["other"]))
        text = f"{readable(row['task'])} and {readable(row['other'])}"
        text += f" ({counted(row['n_test'], 'image')}"
        if row.get("rate") is not None and row["rate_elsewhere"] is not None:
            rates = f"{percent(row['rate'])}, elsewhere {percent(row['rate_elsewhere'])}"
            text += f"; {plural(row['task'])} missed: {rates}"
        texts.setdefault(key, f"{text})")
    what = "never together in training, though chance would give some: "
    return [what + some_of([*texts.values()], _NAMED)] if texts else []
