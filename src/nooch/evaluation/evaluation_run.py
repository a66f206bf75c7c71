"""Predictions x subsets x metrics -> scores."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.challenge import ChallengeSet, Suite
from nooch.errors import InputError, ParameterError, check_one_of, some_of
from nooch.evaluation.aligned_predictions import Aligned, check_known, check_tasks, union_of
from nooch.evaluation.bootstrap import Draws
from nooch.evaluation.prediction_files import Source, as_runs
from nooch.evaluation.predictions import Predictions
from nooch.evaluation.scores import Scores, differences_table, scores_table, without_easy
from nooch.evaluation.subsets import Distribution, divide, parse_distribution
from nooch.evaluation.task_averages import averaged_tasks, left_out
from nooch.evaluation.task_scores import Averages, Block, Floats, Part, Place, score_task
from nooch.metrics import METRICS
from nooch.resources import processors
from nooch.shared_types import Progress, no_progress

__all__ = ["evaluate"]

_Scored = tuple[list[Block], list[tuple[str, Part, Floats]]]
_MOST_GROUPS = 100


def evaluate(
    suite: Suite,
    predictions: Source,
    *,
    split: str | Sequence[str] | None = None,
    criteria: Sequence[str] | None = None,
    tasks: Sequence[str] | None = None,
    metrics: Sequence[str] = METRICS,
    bootstrap: int = 0,
    seed: int = 0,
    baseline: str | None = None,
    averages: Sequence[str | Distribution] = (),
    by: Sequence[str] = (),
    attributes: pl.DataFrame | None = None,
    scale: str | None = None,
    ignore_unknown: bool = False,
    strict: bool = False,
    threads: int | None = None,
    progress: Progress = no_progress,
) -> Scores:
    """Score predictions on a suite.

    Args:
        suite: the suite.
        predictions: a path or frame (long: ``image_id, task, logit`` or ``probability``, and any of
            ``run, method, seed, label``; wide: ``image_id`` and a column for each task),
            ``Predictions.of(...)`` from arrays or tensors, a mapping from run names to these, or a
            sequence of them.
        split: one or several; by default ``test``, or the only one.
        criteria: names; all of the suite's by default.
        tasks: names; by default those that have predictions.
        metrics: out of ``auc, auprc, error, nll, ece, ece_top, ece_paper``.
        bootstrap: number of resamples for intervals; 0 for none but Wilson's of the error. Images
            of the split are resampled, the same ones for all.
        seed: of the resamples.
        baseline: run that the others are compared with; the first by default.
        averages: distributions over hard and easy positives and negatives for averages:
            ``uniform``, a split of the suite, or ``NAME:hard_positive=0.1,...``.
        by: columns of ``attributes`` by whose values the scores are also given.
        attributes: frame with ``image_id`` and those columns, such as ``dataset.images``.
        scale: ``logit`` or ``probability``, for wide tables, which do not say.
        ignore_unknown: leave out predictions of images and tasks that the suite does not have.
            Images are left out in any case where the suite holds hard images alone.
        strict: no average over tasks of a value that is undefined for a task. By default averages
            are over the tasks that have hard and easy positives and negatives, as far as any task
            has them; ``averaged_tasks`` and a note name them.
        threads: how many tasks are scored at once; by default as many as there are processors for a
            bootstrap, and 1 without, where one thread is faster than several that wait for one
            another.
        progress: called with what is being done, and how many of how many tasks are done.

    Raises:
        InputError: predictions with missing, repeated or unknown ids, unknown tasks, values that
            are not finite, probabilities outside [0, 1], labels that disagree with the suite.
        ParameterError: unknown criteria, tasks, splits, metrics, distributions or runs; a negative
            number of resamples.
    """
    if bootstrap < 0:
        raise ParameterError(f"{bootstrap} resamples", where="bootstrap", allowed="0 and more")
    for metric in metrics:
        check_one_of("metric", metric, METRICS)
    runs = as_runs(predictions, suite.tasks, scale)
    for run in () if ignore_unknown else runs:
        check_tasks(run, suite)
    first = check_one_of(
        "run", baseline or runs[0].run, [run.run for run in runs], owner="the predictions"
    )
    names = _names("criterion", criteria, suite.criteria)
    wanted = [t for t in _names("task", tasks, suite.tasks) if any(t in run.tasks for run in runs)]
    if not wanted:
        raise InputError(
            f"there are no predictions for {some_of(tasks or suite.tasks)}",
            allowed="at least one task",
        )
    shares = [parse_distribution(d, suite) if isinstance(d, str) else d for d in averages]
    if len({d.name for d in shares}) < len(shares):
        raise ParameterError(
            "two averages have one name", where="averages", allowed="each name once"
        )
    blocks: list[Block] = []
    notes = _notes(suite, runs, wanted, tasks)
    if not any(key[0] in names and key[1] in wanted for key in suite.keys):
        suite.record(names[0], wanted[0], _splits(split, suite)[0])
    for of in _splits(split, suite):
        keys = [key for key in suite.keys if key[0] in names and key[1] in wanted and key[2] == of]
        if not keys:
            continue
        ids = _images(suite, keys, of)
        if not (ignore_unknown or suite.header.hard_only):
            check_known(runs, ids, suite, wanted)
        over = {} if strict else averaged_tasks(suite, keys, [run.tasks for run in runs])
        notes += left_out(suite, keys, over)
        job = _Split(
            suite,
            of,
            ids,
            runs,
            metrics,
            first,
            shares,
            _groups(ids, by, attributes),
            bootstrap,
            seed,
        )
        workers = threads or (processors() if bootstrap else 1)
        blocks += job.score(keys, Averages(over, strict), workers, progress)
    about = {run.run: (run.method, run.seed) for run in runs}
    known: Callable[[pl.DataFrame], pl.DataFrame] = (
        without_easy if suite.header.hard_only else lambda table: table
    )
    return Scores(
        known(scores_table(blocks, metrics, about, bootstrap)),
        known(differences_table(blocks, metrics, bootstrap)),
        notes,
        {
            "bootstrap": bootstrap,
            "seed": seed,
            "baseline": first,
            "dataset": suite.header.dataset.fingerprint,
        },
    )


class _Split:
    """What all tasks of a split share."""

    def __init__(
        self,
        suite: Suite,
        split: str,
        ids: pl.Series,
        runs: Sequence[Predictions],
        metrics: Sequence[str],
        baseline: str,
        shares: Sequence[Distribution],
        groups: Mapping[str, tuple[NDArray[np.intp], Sequence[str]]],
        bootstrap: int,
        seed: int,
    ) -> None:
        self._suite, self._ids, self._metrics, self._baseline = suite, ids, metrics, baseline
        self._shares, self._groups = shares, groups
        self._runs = {run.run: (Aligned(run, ids, split), run.scale) for run in runs}
        self._tasks = {run.run: set(run.tasks) for run in runs}
        self._draws = Draws(len(ids), bootstrap, seed) if bootstrap else None

    def score(
        self,
        keys: Sequence[tuple[str, str, str]],
        averages: Averages,
        threads: int,
        progress: Progress,
    ) -> list[Block]:
        """Blocks of all tasks in order, then their averages."""
        blocks: list[Block] = []
        tasks = list(dict.fromkeys(task for _, task, _ in keys))
        for done, (found, rows) in enumerate(self._results(keys, tasks, threads), 1):
            blocks += found
            for run, part, values in rows:
                averages.add(run, part, values)
            progress("scoring tasks", done, len(tasks))
        return blocks + averages.blocks(self._metrics, self._baseline)

    def _results(
        self, keys: Sequence[tuple[str, str, str]], tasks: Sequence[str], threads: int
    ) -> Iterator[_Scored]:
        """Results in the order of tasks; sets are read here, a few tasks ahead of those being
        scored.
        """
        with ThreadPoolExecutor(threads) as pool:
            waiting: deque[Future[_Scored]] = deque()
            try:
                for task in tasks:
                    parts = [self._part(self._suite.set(*key)) for key in keys if key[1] == task]
                    runs = {
                        name: run for name, run in self._runs.items() if task in self._tasks[name]
                    }
                    waiting.append(
                        pool.submit(
                            score_task, parts, runs, self._metrics, self._draws, self._baseline
                        )
                    )
                    if len(waiting) > 2 * threads:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            except BaseException:
                # an interrupt, too, must not wait for what runs
                pool.shutdown(wait=False, cancel_futures=True)
                if self._draws is not None:
                    self._draws.cancel()
                raise

    def _part(self, challenge: ChallengeSet) -> Part:
        rows: NDArray[np.intp] | slice = slice(None)
        if not challenge.image_ids.equals(self._ids):
            rows = np.flatnonzero(self._ids.is_in(challenge.image_ids.implode()).to_numpy())
        cues = self._suite.header.criteria[challenge.criterion].cues.get(challenge.task, [])
        shares = {d.name: d.of(self._suite, challenge) for d in self._shares}
        groups = {name: (codes[rows], levels) for name, (codes, levels) in self._groups.items()}
        subsets, parts = divide(challenge, [cue for cue, _ in cues], groups, shares)
        if self._suite.header.hard_only:
            # not one of them is all of the split's images
            whole = np.array([subset.name == "all" for subset in subsets[: len(parts.members)]])
            parts = replace(parts, members=parts.members & ~whole[:, None])
        n, n_positive = parts.sizes
        # an average under a distribution is over all images, as the first subset is
        n, n_positive = (
            np.concatenate([sizes, np.full(len(shares), sizes[0])]) for sizes in (n, n_positive)
        )
        place = Place(challenge.criterion, challenge.task, challenge.split, subsets, n, n_positive)
        return Part(challenge, rows, place, parts)


def _names(kind: str, given: Sequence[str] | None, known: Sequence[str]) -> list[str]:
    for name in given or ():
        check_one_of(kind, name, known, owner="the suite")
    return list(known) if given is None else [name for name in known if name in given]


def _splits(split: str | Sequence[str] | None, suite: Suite) -> list[str]:
    if split is None:
        split = (
            "test"
            if "test" in suite.splits
            else list(suite.splits)[:1]
            if len(suite.splits) == 1
            else None
        )
        if split is None:
            raise ParameterError(
                "which split is to be scored?",
                allowed=", ".join(suite.splits),
                remedy="`split` NAME",
            )
    names = [split] if isinstance(split, str) else list(dict.fromkeys(split))
    for name in names:
        check_one_of("split", name, suite.splits, owner="the suite")
    return names


def _images(suite: Suite, keys: Sequence[tuple[str, str, str]], split: str) -> pl.Series:
    """All images of a split that the sets have: those of one set that leaves none out, else of all
    sets together.
    """
    whole = suite.header.dataset.splits.get(split)
    for key in keys:
        record = suite.record(*key)
        if record.positives + record.negatives == whole:
            return suite.set(*key).image_ids
    return union_of(suite.set(*key) for key in keys)


def _groups(
    ids: pl.Series, by: Sequence[str], attributes: pl.DataFrame | None
) -> dict[str, tuple[NDArray[np.intp], Sequence[str]]]:
    if not by:
        return {}
    if attributes is None or "image_id" not in attributes.columns:
        raise ParameterError(
            "groups need a frame of attributes with image_id",
            remedy="give `dataset` (attributes=dataset.images)",
        )
    frame = attributes.with_columns(pl.col("image_id").cast(ids.dtype, strict=False)).drop_nulls(
        "image_id"
    )
    if frame["image_id"].n_unique() != len(frame):
        twice = frame["image_id"].filter(frame["image_id"].is_duplicated()).unique().sort()
        raise InputError(
            f"image ids occur more than once: {some_of(twice)}",
            where="attributes",
            allowed="each image once",
        )
    known = pl.DataFrame({"image_id": ids}).join(
        frame, on="image_id", how="left", maintain_order="left"
    )
    groups: dict[str, tuple[NDArray[np.intp], Sequence[str]]] = {}
    for column in by:
        check_one_of("attribute", column, [c for c in attributes.columns if c != "image_id"])
        levels = known[column].unique().sort(nulls_last=True)
        if len(levels) > _MOST_GROUPS:
            raise ParameterError(
                f"attribute {column} has {len(levels)} values", allowed=f"up to {_MOST_GROUPS}",
                remedy="make a column of fewer values, such as intervals",
            )  # fmt: skip
        place = pl.DataFrame({column: levels, "code": np.arange(len(levels))})
        codes = known.select(column).join(
            place, on=column, how="left", nulls_equal=True, maintain_order="left"
        )["code"]
        groups[column] = (
            codes.to_numpy().astype(np.intp),
            [f"{column}={level}" for level in levels.to_list()],
        )
    return groups


def _notes(
    suite: Suite, runs: Sequence[Predictions], wanted: Sequence[str], asked: Sequence[str] | None
) -> list[str]:
    notes = []
    if suite.header.hard_only:
        notes.append(
            "the suite holds hard images alone: nothing is known of all or easy images, and other"
            " images are left out"
        )
    if asked is None and len(wanted) < len(suite.tasks):
        notes.append(f"the predictions have {len(wanted)} of the suite's {len(suite.tasks)} tasks")
    for run in runs:
        missing = [task for task in wanted if task not in run.tasks]
        if missing:
            notes.append(f"run {run.run} has no predictions for {some_of(missing)}")
    return notes
