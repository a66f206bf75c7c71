"""Predictions x subsets x metrics -> scores."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.base.calls import Progress, no_progress, options_from
from nooch.base.errors import ParameterError, check_one_of, some_of
from nooch.base.limits import usable_cpus
from nooch.base.words import counted
from nooch.evaluation.answer_sample import AskedSample, rates_of_answers, readings
from nooch.evaluation.averages import Averages, averaged_tasks, left_out
from nooch.evaluation.bootstrap import BootstrapDraws
from nooch.evaluation.metrics import ANSWER_METRICS, METRICS
from nooch.evaluation.prediction_files import PredictionSource, load_predictions, run_notes
from nooch.evaluation.prediction_format import PredictionFormat
from nooch.evaluation.predictions import (
    Aligned,
    KnownImages,
    Predictions,
    predicted_tasks,
    task_notes,
)
from nooch.evaluation.scores import (
    Condition,
    Metric,
    Resamples,
    Scores,
    check_names,
    differences_table,
    judge,
    parse_condition,
    scores_table,
    with_bounds,
    without_easy,
)
from nooch.evaluation.subsets import (
    Distribution,
    DividedSet,
    Groups,
    ScoreScope,
    divide,
    effective_sizes,
    groups_of,
    parse_distribution,
)
from nooch.evaluation.task_scores import Block, ScoredTask, score_task
from nooch.evaluation.thresholds import AnswerThreshold, RunThresholds, answer_thresholds
from nooch.suites import HARD, SUBSETS, ChallengeSet, SetRecord, Suite, as_suite, mark_by_threshold
from nooch.suites.challenge_set import subset_codes
from nooch.suites.hard_easy import Side
from nooch.suites.label_overlay import LabelOverlay, OverlaySource, read_label_overlay


def corrected_suite(suite: Suite, overlay: LabelOverlay) -> tuple[Suite, str]:
    """The suite with other labels, and a note that says how many these are."""
    records, moved, gone = [], set[tuple[Any, str]](), set[tuple[Any, str]]()
    for key in suite.keys:
        challenge, changed, left_out = _corrected(suite, overlay, *key)
        moved |= {(image, key[1]) for image in changed}
        gone |= {(image, key[1]) for image in left_out}
        records += [SetRecord.of(challenge)] if len(challenge) else []
    header = msgspec.structs.replace(suite.header, sets=records)
    note = (
        f"{counted(len(moved), 'label')} corrected, {counted(len(gone), 'image')} left out of the"
        " sets of a task (ambiguous, or not known to be hard or easy with the other label)"
    )
    return suite.with_header(header, lambda *key: _corrected(suite, overlay, *key)[0]), note


def _corrected(
    suite: Suite, overlay: LabelOverlay, *key: str
) -> tuple[ChallengeSet, pl.Series, pl.Series]:
    """The set with other labels; ids of images with another label now, and of those left out.

    The thresholds stand: an image is hard by those of its new side. Without support, a mark phi
    stands, which knows no label. Where neither is known, as for combinations and published sets,
    and where each side has its betas, the image is left out. Ambiguous images are left out, too. By
    a single cue (area above or below beta) an image with another label is hard where it was easy.
    """
    challenge, criterion = suite.set(*key), suite.header.criteria[key[0]]
    labels, _, ambiguous = overlay.applied(challenge.task, challenge.image_ids, challenge.labels)
    other = labels != challenge.labels
    support, hard = challenge.support, challenge.subset != SUBSETS.index("easy")
    keep = ~ambiguous
    if support is not None and not criterion.parameters.get("betas"):
        bounds = _bound(challenge.positive, -np.inf), _bound(challenge.negative, np.inf)
        hard = np.where(other, mark_by_threshold(support, labels, *bounds).codes == HARD, hard)
    elif support is not None or criterion.fitted is None:
        keep &= ~other
    by_cue = challenge.by_cue
    if by_cue is not None:
        by_cue = np.where(other, ~by_cue, by_cue)
    corrected = replace(
        challenge, labels=labels, subset=subset_codes(labels, hard), by_cue=by_cue
    ).only(keep)
    ids = challenge.image_ids
    return corrected, ids.filter(pl.Series(other & keep)), ids.filter(pl.Series(~keep))


def _bound(side: Side, nothing: float) -> float:
    return nothing if side.threshold is None else side.threshold


_Key = tuple[str, str, str]


@dataclass(frozen=True, eq=False)
class EvaluateOptions(PredictionFormat):
    """What ``nooch.evaluate`` scores, and how; also the fields of ``PredictionFormat``.

    Attributes:
        split: one or several; by default ``test``, or the only one.
        criteria: names; all of the suite's by default.
        tasks: names; by default those that have predictions.
        metrics: out of ``auc, auprc, error, nll, ece, ece_top, ece_paper``, which are the default,
            and ``accuracy, balanced_accuracy, precision, recall, fpr, f1, brier``, and for answers
            ``yes_rate, dprime, response_criterion``. Answers in words have those that need no
            probability, by default all of them.
        threshold: probability above which an answer is positive, for error, accuracy, precision,
            recall, FPR and F1: a number; task -> number, or a file of these; or ``valid``: for each
            run and task the one of the largest balanced accuracy on the validation split; or
            ``worst-side``: of the smallest error there on the worst of the sides.
        fail_if: conditions such as ``auc@hard[ce,car]<0.85``; ``Scores.verdicts`` says which hold.
            Their metrics are computed too.
        bootstrap: number of resamples for intervals; 0 for none but Wilson's of shares. Images
            of the split are resampled, the same ones for all.
        seed: of the resamples.
        baseline: run that the others are compared with; the first by default.
        differences: whether they are; of thousands of runs, half the time.
        averages: distributions over hard and easy positives and negatives for averages:
            ``uniform``, a split of the suite, or ``NAME:hard_positive=0.1,...``.
        by: columns of ``attributes`` by whose values the scores are also given.
        attributes: frame with ``image_id`` and those columns, such as ``dataset.images``.
        overlay: files of corrected labels, see ``read_label_overlay``: each run is
            scored with the suite's labels and, as ``RUN, corrected``, with these; ambiguous images
            are left out of the sets of that task. Conditions are judged on the latter.
        strict: no average over tasks of a value that is undefined for a task. By default averages
            are over the tasks that have hard and easy positives and negatives, as far as any task
            has them; ``averaged_tasks`` and a note name them.
        min_hard: averages leave out tasks with fewer hard images on a side; a note names them.
    """

    split: str | Sequence[str] | None = None
    criteria: Sequence[str] | None = None
    tasks: Sequence[str] | None = None
    metrics: Sequence[Metric] = METRICS
    threshold: AnswerThreshold = 0.5
    fail_if: Sequence[str] = ()
    bootstrap: Resamples = 0
    seed: int = 0
    baseline: str | None = None
    differences: bool = True
    averages: Sequence[str | Distribution] = ()
    by: Sequence[str] = ()
    attributes: pl.DataFrame | None = None
    overlay: OverlaySource = ()
    strict: bool = False
    min_hard: int = 0


def evaluate(
    suite: Suite | str | Path,
    predictions: PredictionSource,
    *,
    options: EvaluateOptions | None = None,
    progress: Progress = no_progress,
    **named: Any,
) -> Scores:
    """Score predictions on a suite.

    Args:
        suite: the suite.
        predictions: a path or frame (see ``nooch.load_predictions``, whose result is accepted
            too), ``Predictions.of(...)`` from arrays or tensors, a mapping from run names to these,
            or a sequence of them. A suite of only hard images leaves out other images.
        options: see ``EvaluateOptions``.
        progress: called with what is being done, and how many of how many tasks are done.
        named: fields of ``EvaluateOptions``, such as ``split`` and ``bootstrap``.

    Raises:
        InputError: predictions with missing, repeated or unknown ids, of no task, values that
            are not finite, probabilities outside [0, 1], labels that disagree with the suite.
        ParameterError: unknown criteria, tasks, splits, metrics, distributions, runs, options.
    """
    suite = as_suite(suite)
    asked = options_from(EvaluateOptions, options, named)
    conditions = [parse_condition(text) for text in asked.fail_if]
    for condition in conditions:
        check_names(condition, suite)
    runs = load_predictions(predictions, suite, options=asked)
    if asked.overlay:
        return _side_by_side(suite, runs, asked, progress)
    asked = _resolved(asked, suite, runs, conditions)
    tasks = predicted_tasks(runs, suite.tasks, asked.tasks, owner="the suite")
    splits, notes = suite.splits_to_score(asked.split), _notes(suite, runs, tasks, asked.tasks)
    wanted = suite.select_keys(asked.criteria or (), tasks)
    sample = AskedSample.of(suite, runs, [key for key in wanted if key[2] in splits])
    wanted_sets = [key for key in wanted if key in sample.suite.keys]
    for run in () if asked.ignore_unknown or suite.header.hard_only else runs:
        KnownImages(suite).check(run)
    thresholds: RunThresholds = {}
    stated: list[str] = []
    if str(asked.threshold) != "0.5":
        scored = list(dict.fromkeys(task for _, task, _ in wanted))
        thresholds, stated = answer_thresholds(asked.threshold, suite, runs, scored)
    contexts = rates_of_answers(
        runs,
        suite,
        [key for key in wanted if key[2] in splits],
        thresholds,
        asked.bootstrap,
        asked.seed,
    )
    notes += [*sample.notes, *run_notes(runs), *stated]
    blocks: list[Block] = []
    for split in splits:
        keys = [key for key in wanted_sets if key[2] == split]
        if keys:
            part = _SplitScores(sample, keys, runs, asked, thresholds)
            blocks += part.blocks(progress)
            notes += left_out(sample.suite, keys, part.averaged, asked.min_hard)
    about = {run.run: (run.method, run.seed) for run in runs}
    table = scores_table(blocks, asked.metrics, about, asked.bootstrap)
    differences = differences_table(blocks, asked.metrics, asked.bootstrap)
    counted = {run.run for run in runs if run.said is not None and not run.said["skipped"].any()}
    unread = [of for of, rates in contexts.items() if rates.has_bounds_alone and of[0] in counted]
    if unread:
        plain = replace(asked, fail_if=(), differences=False)
        read = readings(runs, sample.suite, wanted_sets)
        tables = [evaluate(suite, of, options=plain, progress=progress).table for of in read]
        table, differences = with_bounds(table, differences, unread, tables)
    if suite.header.hard_only:
        table, differences = without_easy(table), without_easy(differences)
    settings = {name: getattr(asked, name) for name in ("bootstrap", "seed", "baseline")}
    settings["dataset"] = suite.header.dataset.fingerprint
    settings |= {"thresholds": thresholds} if thresholds else {}
    verdicts = judge(table, conditions, suite) if conditions else []
    return Scores(table, differences, notes, settings, verdicts, contexts)


def _side_by_side(
    suite: Suite, runs: Sequence[Predictions], asked: EvaluateOptions, progress: Progress
) -> Scores:
    """Scores with the suite's labels, and with corrected ones: of a task next to each other."""
    overlay = read_label_overlay(asked.overlay, suite)
    before = evaluate(
        suite, runs, options=replace(asked, overlay=(), fail_if=()), progress=progress
    )
    names = {run.run: f"{run.run}, corrected" for run in runs}
    # labels that predictions have are the suite's; ambiguous images are in no set
    other = [replace(run, run=names[run.run], labels=None) for run in runs]
    baseline = None if asked.baseline is None else names[asked.baseline]
    options = replace(asked, overlay=(), baseline=baseline, ignore_unknown=True)
    corrected, note = corrected_suite(suite, overlay)
    after = evaluate(corrected, other, options=options, progress=progress)
    notes = dict.fromkeys([*before.notes, *overlay.record.notes, note, *after.notes])
    settings = {**before.settings, "overlay": overlay.record.files}
    # the rows of a criterion, task and split next to each other
    first = pl.col("row").min().over(pl.struct("criterion", "task", "split"))
    table, differences = (
        pl.concat(tables).with_row_index("row").sort(first, maintain_order=True).drop("row")
        for tables in ([before.table, after.table], [before.differences, after.differences])
    )
    contexts = {**before.contexts, **after.contexts}
    return Scores(table, differences, list(notes), settings, after.verdicts, contexts)


@dataclass(frozen=True, eq=False)
class _SplitScores:
    """What all tasks of a split share.

    Attributes:
        sample: the suite as far as it was asked about.
        keys: (criterion, task, split) of the sets, of one split.
        runs: the predictions.
        options: with a baseline, and averages as distributions.
        thresholds: of answers; empty: 0.5.
    """

    sample: AskedSample
    keys: Sequence[_Key]
    runs: Sequence[Predictions]
    options: EvaluateOptions
    thresholds: RunThresholds

    @cached_property
    def ids(self) -> pl.Series:
        """The images of a set that leaves none of the split's out, else of all sets, ascending."""
        suite = self.sample.suite
        for key in self.keys:
            record = suite.record(*key)
            if record.positives + record.negatives == suite.header.dataset.splits.get(key[2]):
                return suite.set(*key).image_ids
        return suite.image_ids(self.keys)

    @property
    def baseline(self) -> str | None:
        """The run that others are compared with, if they are."""
        return self.options.baseline if self.options.differences else None

    @cached_property
    def groups(self) -> Groups:
        """The groups of the images by each attribute."""
        return groups_of(self.ids, self.options.by, self.options.attributes)

    @cached_property
    def averaged(self) -> dict[str, list[str]]:
        """Criterion -> the tasks that averages are over; empty: all."""
        if self.options.strict:
            return {}
        predicted = [run.tasks for run in self.runs]
        return averaged_tasks(self.sample.suite, self.keys, predicted, self.options.min_hard)

    def blocks(self, progress: Progress) -> list[Block]:
        """Blocks of all tasks in order, then their averages."""
        blocks: list[Block] = []
        averages = Averages(self.averaged, self.options.strict)
        tasks = list(dict.fromkeys(task for _, task, _ in self.keys))
        for done, of_task in enumerate(self._results(tasks), 1):
            for block, rows in of_task:
                blocks.append(block)
                averages.add(block, rows)
            progress("scoring tasks", done, len(tasks))
        return blocks + averages.blocks(self.options.metrics)

    def _results(self, tasks: Sequence[str]) -> Iterator[list[ScoredTask]]:
        """Results in the order of tasks; sets are read a few tasks ahead of those being scored."""
        asked, resamples = self.options, self.options.bootstrap
        threads = usable_cpus() if resamples else 1
        draws = BootstrapDraws(len(self.ids), resamples, asked.seed) if resamples else None
        score = partial(
            score_task,
            metrics=asked.metrics,
            draws=draws,
            baseline=self.baseline,
            thresholds=self.thresholds,
        )
        aligned = [(run, Aligned(run, self.ids, self.keys[0][2])) for run in self.runs]
        with ThreadPoolExecutor(threads) as pool:
            waiting: deque[Future[list[ScoredTask]]] = deque()
            try:
                for task in tasks:
                    sets = [self._divided(key) for key in self.keys if key[1] == task]
                    runs = {r.run: (a, r.scale) for r, a in aligned if task in r.tasks}
                    waiting.append(pool.submit(score, sets, runs))
                    if len(waiting) > 2 * threads:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            except BaseException:
                # an interrupt, too, must not wait for running threads
                pool.shutdown(wait=False, cancel_futures=True)
                if draws is not None:
                    draws.cancel()
                raise

    def _divided(self, key: _Key) -> DividedSet:
        challenge, suite = self.sample.suite.set(*key), self.sample.whole
        rows: NDArray[np.intp] | slice = slice(None)
        if not challenge.image_ids.equals(self.ids):
            rows = np.flatnonzero(self.ids.is_in(challenge.image_ids.implode()).to_numpy())
        cues = suite.header.criteria[challenge.criterion].cues.get(challenge.task, [])
        averages = [d for d in self.options.averages if isinstance(d, Distribution)]
        shares = {d.name: d.of(suite, challenge) for d in averages}
        groups = {name: (codes[rows], levels) for name, (codes, levels) in self.groups.items()}
        subsets, parts = divide(challenge, [cue for cue, _ in cues], groups, shares)
        if suite.header.hard_only:
            # not one of them is all of the split's images
            whole = np.array([subset.name == "all" for subset in subsets[: len(parts.members)]])
            parts = replace(parts, members=parts.members & ~whole[:, None])
        # an average under a distribution is over all images, as the first subset is
        n, n_positive = (np.append(sizes, [sizes[0]] * len(shares)) for sizes in parts.sizes)
        scope = ScoreScope(*key, subsets, n, n_positive)
        if challenge.task not in self.sample.weights:
            return DividedSet(challenge, rows, scope, parts)
        weights = self.sample.weights_of(challenge)
        sizes = effective_sizes(parts, weights)
        sizes = np.append(sizes, sizes[:, :1].repeat(len(shares), axis=1), axis=1)
        return DividedSet(challenge, rows, replace(scope, effective=sizes), parts, weights)


def _resolved(
    asked: EvaluateOptions,
    suite: Suite,
    runs: Sequence[Predictions],
    conditions: Sequence[Condition],
) -> EvaluateOptions:
    """With a baseline, averages as distributions, and the metrics of the conditions."""
    names = [run.run for run in runs]
    in_words = [run.run for run in runs if run.in_words]
    default = ANSWER_METRICS if in_words and tuple(asked.metrics) == METRICS else asked.metrics
    metrics = list(dict.fromkeys([*default, *(c.metric for c in conditions)]))
    wrong = [name for name in metrics if name not in ANSWER_METRICS]
    if in_words and wrong:
        problem = f"there is no {some_of(wrong)} without probabilities, which {in_words[0]} has not"
        raise ParameterError(problem, where="`metrics`", allowed=", ".join(ANSWER_METRICS))
    baseline = check_one_of("run", asked.baseline or names[0], names, owner="the predictions")
    shares = [parse_distribution(d, suite) if isinstance(d, str) else d for d in asked.averages]
    if len({d.name for d in shares}) < len(shares):
        raise ParameterError(
            "two averages have one name", where="averages", allowed="each name once"
        )
    return replace(asked, baseline=baseline, averages=shares, metrics=metrics)


def _notes(
    suite: Suite, runs: Sequence[Predictions], wanted: Sequence[str], asked: Sequence[str] | None
) -> list[str]:
    notes = []
    if suite.header.hard_only:
        notes.append(
            "the suite holds hard images alone: nothing is known of all or easy images, and other"
            " images are left out"
        )
    notes += task_notes(runs, suite.tasks, "suite", asked)
    for run in runs:
        missing = [task for task in wanted if task not in run.tasks]
        if missing:
            notes.append(f"run {run.run} has no predictions for {some_of(missing)}")
    return notes
