"""Methods compared on the same images: the paired bootstrap, seeds averaged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import numpy as np
import polars as pl
from msgspec import Meta
from numpy.typing import NDArray

from nooch.base.calls import Progress, Seed, checked, no_progress
from nooch.base.errors import InputError, ParameterError, check_one_of
from nooch.evaluation.averages import AVERAGE, WORST_HARD, Averages, averaged_tasks, left_out
from nooch.evaluation.bootstrap import RESAMPLES, BootstrapDraws
from nooch.evaluation.metrics import METRICS, Graded
from nooch.evaluation.predictions import Aligned, Predictions
from nooch.evaluation.scores import Metric, Resamples, Scores, differences_table, scores_table
from nooch.evaluation.subsets import DividedSet, ScoreScope, Subset, divide, with_effective
from nooch.evaluation.task_scores import Block, Floats, compared, graded, with_replicates
from nooch.suites import Suite

_WORST = ("error", "nll")


@checked
def paired(
    suite: Suite,
    criterion: str,
    methods: Mapping[str, Sequence[Predictions]],
    *,
    baselines: Sequence[str],
    metrics: Sequence[Metric] = METRICS,
    split: str = "test",
    bootstrap: Annotated[Resamples, Meta(ge=1)] = RESAMPLES,
    seed: Seed = 0,
    strict: bool = False,
    progress: Progress = no_progress,
) -> Scores:
    """Means over seeds of methods, and differences from baselines with 95% intervals.

    Images of the split are resampled with replacement, the same draws for all methods, seeds and
    tasks. A replicate of a method is the mean over its seeds of the metric in that resample: the
    intervals cover the choice of images (or of the suite's groups), not of seeds.

    Args:
        suite: the suite.
        criterion: a name of the suite's.
        methods: method -> runs, one for each seed, with the same tasks.
        baselines: methods that all later ones are compared with.
        metrics: names from ``nooch.evaluation.metrics.ALL_METRICS``.
        split: split of the images.
        bootstrap: number of resamples.
        seed: seed of the resamples.
        strict: as for ``nooch.evaluate``.
        progress: called with what is being done, and how many of how many tasks are done.
    """
    _check(methods, baselines)
    common = {task for runs in methods.values() for task in runs[0].tasks}
    keys = [k for k in suite.keys if k[0] == criterion and k[1] in common and k[2] == split]
    ids = suite.image_ids(keys)
    aligned = {
        m: [(Aligned(run, ids, split), run.scale) for run in runs] for m, runs in methods.items()
    }
    units = suite.units(ids)
    draws = BootstrapDraws(len(ids), bootstrap, seed, units)
    predicted = [runs[0].tasks for runs in methods.values()]
    over = {} if strict else averaged_tasks(suite, keys, predicted)
    blocks: list[Block] = []
    averages = Averages(over, strict)
    for done, key in enumerate(keys, 1):
        part = _divided(suite, key, ids, units)
        models = {
            m: [*graded(part, dict(enumerate(runs)), metrics).values()]
            for m, runs in aligned.items()
            if key[1] in methods[m][0].tasks
        }
        rows = {m: _mean(part, seeds, metrics, draws) for m, seeds in models.items()}
        for block, values in compared(part, models, rows, metrics, baselines):
            blocks.append(block)
            averages.add(block, values)
        progress("comparing methods, tasks", done, len(keys))
    blocks += averages.blocks(metrics)
    settings = {"bootstrap": bootstrap, "seed": seed, "baselines": list(baselines)}
    return Scores(
        _plain(scores_table(blocks, metrics, {m: (m, None) for m in methods}, bootstrap)),
        _plain(differences_table(blocks, metrics, bootstrap)),
        left_out(suite, keys, over),
        {**settings, "criterion": criterion},
    )


def _check(methods: Mapping[str, Sequence[Predictions]], baselines: Sequence[str]) -> None:
    if len(methods) < 2:
        raise ParameterError("one method cannot be compared", allowed="at least two methods")
    for name in baselines:
        check_one_of("method", name, methods, owner="the results")
    for method, runs in methods.items():
        if len({frozenset(run.tasks) for run in runs}) != 1:
            raise InputError(
                "its seeds have different tasks", where=f"method {method}", allowed="the same tasks"
            )


def _divided(
    suite: Suite, key: tuple[str, str, str], ids: pl.Series, units: NDArray[np.int64] | None
) -> DividedSet:
    challenge = suite.set(*key)
    rows = np.flatnonzero(ids.is_in(challenge.image_ids.implode()).to_numpy())
    subsets, parts = divide(challenge, [], {}, {})
    hard = [subset.name for subset in subsets].index("hard")
    n, n_positive = (np.append(sizes, sizes[hard]) for sizes in parts.sizes)
    scope = ScoreScope(*key, [*subsets, Subset(WORST_HARD)], n, n_positive)
    units = None if units is None else units[rows]
    scope = with_effective(scope, parts, None, units, rest=hard)
    return DividedSet(challenge, rows, scope, parts, units=units)


def _mean(
    part: DividedSet, seeds: Sequence[Graded], metrics: Sequence[str], draws: BootstrapDraws
) -> Floats:
    """Means over seeds, float64 (n_subsets + 1, n_metrics, 1 + resamples): values, then replicates.

    The last subset is worst_hard.
    """
    names = [subset.name for subset in part.scope.subsets]
    sides = [names.index("hard_positive"), names.index("hard_negative")]
    total: Floats = np.zeros(())
    for rows in with_replicates(dict(enumerate(seeds)), part, draws).values():
        # NaN stays NaN: a side without an image has no worse one
        worst = np.maximum(*rows[sides])
        worst[[metric not in _WORST for metric in metrics]] = np.nan
        total = total + np.concatenate([rows, worst[None]])
    return np.asarray(total / len(seeds))


def _plain(table: pl.DataFrame) -> pl.DataFrame:
    """Only error and NLL of worst_hard, with the reason where a side has no image."""
    worst = pl.col("subset") == WORST_HARD
    value = "difference" if "difference" in table.columns else "value"
    unknown = worst & (pl.col("task") != AVERAGE) & pl.col(value).is_null() & (pl.col("n") > 0)
    return table.filter(~worst | pl.col("metric").is_in(_WORST)).with_columns(
        reason=pl.when(unknown).then(pl.lit("one side has no image")).otherwise("reason")
    )
