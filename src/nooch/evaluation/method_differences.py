"""Methods against each other on the same images: the paired bootstrap, seeds averaged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from nooch.challenge import Suite
from nooch.errors import InputError, ParameterError, check_one_of
from nooch.evaluation.aligned_predictions import Aligned, union_of
from nooch.evaluation.bootstrap import Draws
from nooch.evaluation.predictions import Predictions
from nooch.evaluation.score_summaries import WORST_HARD
from nooch.evaluation.scores import Scores, differences_table, scores_table
from nooch.evaluation.subsets import Subset, divide
from nooch.evaluation.task_averages import averaged_tasks, left_out
from nooch.evaluation.task_scores import (
    AVERAGE,
    Averages,
    Block,
    Floats,
    Part,
    Place,
    block_of,
    with_replicates,
)
from nooch.metrics import METRICS, Graded
from nooch.shared_types import Progress, no_progress

__all__ = ["paired"]

_WORST = ("error", "nll")


def paired(
    suite: Suite,
    criterion: str,
    methods: Mapping[str, Sequence[Predictions]],
    *,
    baselines: Sequence[str],
    metrics: Sequence[str] = METRICS,
    split: str = "test",
    bootstrap: int = 1000,
    seed: int = 0,
    strict: bool = False,
    progress: Progress = no_progress,
) -> Scores:
    """Means over seeds of methods, and differences from baselines with 95 % intervals.

    Images of the split are resampled with replacement, the same draws for all methods, seeds and
    tasks. A replicate of a method is the mean over its seeds of the metric in that resample, so
    that intervals say what other images would give; what other seeds would give, they do not.

    Args:
        suite: the suite.
        criterion: whose sets.
        methods: name -> predictions, one for each seed; all of a method's have the same tasks.
        baselines: methods that all others are compared with; a pair is given once, with the earlier
            method as the baseline.
        metrics: out of ``METRICS``.
        split: whose images.
        bootstrap: number of resamples.
        seed: of the resamples.
        strict: as for ``nooch.evaluate``.
        progress: called with what is being done, and how many of how many tasks are done.

    Returns:
        Scores with methods as runs. Subsets are those of ``nooch.evaluate``, and ``worst_hard`` of
        error and NLL. Task ``average`` is the mean over tasks; differences of averages are there
        for methods that have the same tasks.

    Raises:
        ParameterError: no resample, an unknown method or metric, fewer than two methods.
        InputError: seeds of a method with different tasks, or what ``nooch.evaluate`` refuses.
    """
    _check(methods, baselines, metrics, bootstrap)
    known = {task for runs in methods.values() for task in runs[0].tasks}
    keys = [
        key for key in suite.keys if key[0] == criterion and key[1] in known and key[2] == split
    ]
    ids = union_of(suite.set(*key) for key in keys)
    aligned = {
        m: [(Aligned(run, ids, split), run.scale) for run in runs] for m, runs in methods.items()
    }
    draws = Draws(len(ids), bootstrap, seed)
    blocks: list[Block] = []
    over = (
        {} if strict else averaged_tasks(suite, keys, [runs[0].tasks for runs in methods.values()])
    )
    averages = Averages(over, strict)
    for done, key in enumerate(keys, 1):
        part = _part(suite, key, ids)
        of_task = {m: runs for m, runs in aligned.items() if key[1] in methods[m][0].tasks}
        rows = {m: _mean(part, runs, metrics, draws) for m, runs in of_task.items()}
        place = _with_worst(part.place)
        widened = Part(part.challenge, part.rows, place, part.parts)
        for method, values in rows.items():
            averages.add(method, widened, values)
            blocks.append(block_of(method, place, metrics, values))
        for method, baseline in _pairs(rows, baselines):
            blocks.append(
                block_of(method, place, metrics, rows[method] - rows[baseline], baseline=baseline)
            )
        progress("comparing methods, tasks", done, len(keys))
    pairs = set(_pairs(methods, baselines))
    for number, baseline in enumerate(baselines):
        found = averages.blocks(metrics, baseline)
        blocks += [
            b
            for b in found
            if (number == 0 if b.baseline is None else (b.run, b.baseline) in pairs)
        ]
    about: dict[str, tuple[str | None, int | None]] = {method: (method, None) for method in methods}
    settings = {
        "bootstrap": bootstrap,
        "seed": seed,
        "baselines": list(baselines),
        "criterion": criterion,
    }
    return Scores(
        _plain(scores_table(blocks, metrics, about, bootstrap)),
        _plain(differences_table(blocks, metrics, bootstrap)),
        left_out(suite, keys, over),
        settings,
    )


def _check(
    methods: Mapping[str, Sequence[Predictions]],
    baselines: Sequence[str],
    metrics: Sequence[str],
    bootstrap: int,
) -> None:
    if bootstrap < 1:
        raise ParameterError(f"{bootstrap} resamples", where="bootstrap", allowed="1 and more")
    if len(methods) < 2:
        raise ParameterError("one method alone cannot be compared", allowed="two methods and more")
    for name in baselines:
        check_one_of("method", name, methods, owner="the results")
    for name in metrics:
        check_one_of("metric", name, METRICS)
    for method, runs in methods.items():
        if len({frozenset(run.tasks) for run in runs}) != 1:
            raise InputError(
                "its seeds have different tasks", where=f"method {method}", allowed="the same tasks"
            )


def _pairs(methods: Mapping[str, object], baselines: Sequence[str]) -> list[tuple[str, str]]:
    """(method, baseline), each pair once."""
    here = [name for name in baselines if name in methods]
    return [(m, b) for n, b in enumerate(here) for m in methods if m != b and m not in here[:n]]


def _part(suite: Suite, key: tuple[str, str, str], ids: pl.Series) -> Part:
    challenge = suite.set(*key)
    rows = np.flatnonzero(ids.is_in(challenge.image_ids.implode()).to_numpy())
    subsets, parts = divide(challenge, [], {}, {})
    return Part(challenge, rows, Place(*key, subsets, *parts.sizes), parts)


def _mean(
    part: Part, runs: Sequence[tuple[Aligned, str]], metrics: Sequence[str], draws: Draws
) -> Floats:
    """Mean over seeds, float64 (n_subsets + 1, n_metrics, 1 + resamples): values, then replicates;
    the last subset is worst_hard.
    """
    challenge = part.challenge
    graded = {
        str(n): Graded(
            challenge.labels, run.values(challenge.task, part.rows, challenge), scale, metrics
        )
        for n, (run, scale) in enumerate(runs)
    }
    names = [subset.name for subset in part.place.subsets]
    sides = [names.index("hard_positive"), names.index("hard_negative")]
    total: Floats | None = None
    for rows in with_replicates(graded, part, draws).values():
        # NaN stays NaN: a side without an image has no worse one
        worst = np.maximum(*rows[sides])
        worst[[metric not in _WORST for metric in metrics]] = np.nan
        both = np.concatenate([rows, worst[None]])
        total = both if total is None else total + both
    assert total is not None  # noqa: S101 - a method has a seed
    return np.asarray(total / len(runs))


def _with_worst(place: Place) -> Place:
    at = [subset.name for subset in place.subsets].index("hard")
    n, n_positive = (np.append(sizes, sizes[at]) for sizes in (place.n, place.n_positive))
    return Place(
        place.criterion,
        place.task,
        place.split,
        [*place.subsets, Subset(WORST_HARD)],
        n,
        n_positive,
    )


def _plain(table: pl.DataFrame) -> pl.DataFrame:
    """Without the rows of metrics that worst_hard is not taken of, and with the reason where a side
    has no image.
    """
    wanted = (pl.col("subset") != WORST_HARD) | pl.col("metric").is_in(_WORST)
    value = "difference" if "difference" in table.columns else "value"
    unknown = (
        (pl.col("task") != AVERAGE)
        & (pl.col("subset") == WORST_HARD)
        & pl.col(value).is_null()
        & (pl.col("n") > 0)
    )
    return table.filter(wanted).with_columns(
        reason=pl.when(unknown).then(pl.lit("no image on one side")).otherwise("reason")
    )
