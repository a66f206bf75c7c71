"""Predictions x subsets x metrics -> scores."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import polars as pl
from msgspec import Meta
from numpy.typing import NDArray

from nooch.base.calls import Progress, Seed, checked, no_progress
from nooch.base.errors import ParameterError, giving, some_of
from nooch.base.limits import usable_cpus
from nooch.base.words import counted
from nooch.data import Dataset
from nooch.evaluation.answer_sample import (
    CATEGORY,
    AskedSample,
    answers_of_runs,
    in_list,
    lists_of,
    rates_of_answers,
    readings,
    suspect_notes,
    weighted_as_sample,
)
from nooch.evaluation.averages import Averages, averaged_tasks, left_out
from nooch.evaluation.bootstrap import BootstrapDraws
from nooch.evaluation.boxes.matched import IOU, box_effects
from nooch.evaluation.comparison import compare_runs
from nooch.evaluation.context_changes import context_changes, with_baseline
from nooch.evaluation.findings import compare_contexts, judged_contexts
from nooch.evaluation.judged import JudgedRuns, as_judged, with_thresholds
from nooch.evaluation.metrics import ANSWER_METRICS, BOX_METRICS, METRIC_NAMES, METRICS
from nooch.evaluation.prediction_files import PredictionSource, read_predictions, run_notes
from nooch.evaluation.predictions import (
    Aligned,
    KnownImages,
    Predictions,
    predicted_tasks,
    task_notes,
)
from nooch.evaluation.scores import (
    CONTEXT,
    WORSE,
    Condition,
    Metric,
    Resamples,
    Scores,
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
    groups_of,
    parse_distribution,
    with_effective,
)
from nooch.evaluation.task_scores import Block, ScoredTask, score_task
from nooch.evaluation.thresholds import AnswerThreshold, RunThresholds
from nooch.suites import HARD, ChallengeSet, SetRecord, Suite, as_suite, mark_by_threshold
from nooch.suites.challenge_set import subset_codes
from nooch.suites.hard_easy import Side
from nooch.suites.label_overlay import LabelOverlay, OverlaySource, read_label_overlay


def corrected_suite(suite: Suite, overlay: LabelOverlay) -> tuple[Suite, str]:
    """The suite with other labels, and a note with their number."""
    records, moved, gone = [], set[tuple[Any, str]](), set[tuple[Any, str]]()
    for key in suite.keys:
        challenge, changed, left_out = _corrected(suite, overlay, *key)
        moved |= {(image, key[1]) for image in changed}
        gone |= {(image, key[1]) for image in left_out}
        records += [SetRecord.from_set(challenge)] if len(challenge) else []
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

    The thresholds stand: an image is hard by the thresholds of its new side. Without support, a
    mark phi stands, which knows no label. Where neither is known, as for combinations and published
    sets, the image is left out. Ambiguous images are also left out. By a single cue (area above or
    below beta) an image with another label is hard where it was easy.
    """
    challenge = suite.set(*key)
    labels, _, ambiguous = overlay.applied(challenge.task, challenge.image_ids, challenge.labels)
    other = labels != challenge.labels
    support, hard = challenge.support, challenge.hard
    keep = ~ambiguous
    if support is not None:
        bounds = _bound(challenge.positive, -np.inf), _bound(challenge.negative, np.inf)
        hard = np.where(other, mark_by_threshold(support, labels, *bounds).codes == HARD, hard)
    elif suite.header.criteria[key[0]].fitted is None:
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


@checked
def evaluate(
    suite: Suite | str | Path,
    predictions: PredictionSource,
    *,
    split: str | Sequence[str] | None = None,
    criteria: Sequence[str] | None = None,
    tasks: Sequence[str] | None = None,
    metrics: Sequence[Metric] = METRICS,
    threshold: AnswerThreshold = 0.5,
    fail_if: Sequence[str] = (),
    bootstrap: Resamples = 0,
    seed: Seed = 0,
    baseline: str | Path | None = None,
    differences: bool = True,
    averages: Sequence[str | Distribution] = (),
    by: Sequence[str] = (),
    attributes: pl.DataFrame | None = None,
    overlay: OverlaySource = (),
    strict: bool = False,
    min_hard: Annotated[int, Meta(ge=0)] = 0,
    boxes: bool = False,
    dataset: Dataset | str | Path | None = None,
    group: str | None = None,
    iou: Annotated[float, Meta(gt=0, le=1)] = IOU,
    reading: Mapping[str, Any] | None = None,
    progress: Progress = no_progress,
) -> Scores:
    """Score predictions on a suite.

    Args:
        suite: the suite.
        predictions: a path or frame (see ``nooch.load_predictions``, whose result is accepted
            too), ``Predictions.from_arrays(...)``, a mapping from run names to these, or a sequence
            of them. A suite of only hard images leaves out other images.
        split: one or several splits; by default ``test``, or the only one.
        criteria: names of criteria; by default all of the suite.
        tasks: names of tasks; by default all that have predictions.
        metrics: names of metrics. ``auc, auprc, error, nll, ece, ece_top, ece_paper`` are the
            default; others are ``accuracy, balanced_accuracy, precision, recall, fpr, f1, brier``,
            and for answers ``yes_rate, dprime, response_criterion``. Answers in words have the
            metrics that need no probability, by default all of them. With ``boxes`` also ``missed``
            (share of objects that are missed), ``false_boxes, misplaced, duplicates`` (boxes per
            1,000 images that overlap no object of their class, overlap one too little, or repeat
            one) and ``average_recall`` (COCO's: at most 100 boxes per class, regardless of
            ``threshold``).
        threshold: probability above which an answer is positive, for error, accuracy, precision,
            recall, FPR and F1: a number; task -> number, or a file of these; or ``valid``: for each
            run and task the one of the largest balanced accuracy on the validation split; or
            ``worst-side``: of the smallest error there on the worst of the sides; or ``f1``: the
            score of ``boxes`` with the largest F1 there.
        fail_if: conditions such as ``auc@hard[ce,car]<0.85``; their metrics are computed as well. A
            condition on a difference, ``new error@hard > old + 0.02``, is met if the interval of
            the difference lies beyond the margin; ``worse``: errors in misleading contexts are more
            frequent than in the ``baseline``, as ``nooch.check`` finds; ``context``: any error is
            more frequent in a misleading context. In Python, the scores' ``verdicts`` list which
            are met.
        bootstrap: number of resamples for intervals; 0 for none but Wilson's of shares. Images
            of the split are resampled, the same ones for all.
        seed: seed of the resamples.
        baseline: run that the others are compared with, or its file; the first by default. One that
            is given is judged only by conditions that name it.
        differences: compare the runs; without, thousands of them take half the time.
        averages: distributions over hard and easy positives and negatives for averages:
            ``uniform``, a split of the suite, or ``NAME:hard_positive=0.1,...``.
        by: columns of the images, such as ``scene``: also give the scores for each value. On
            ``nooch-pope``, ``category`` is the POPE file of the question.
        attributes: frame with ``image_id`` and the columns of ``by``, such as ``dataset.images``.
        overlay: files of corrected labels, such as the verdicts of ``nooch.audit``: each run is
            scored with the suite's labels and, as ``RUN, corrected``, with these; ambiguous images
            are left out of the sets of that task. Conditions are judged on the latter.
        strict: no average over tasks of a value that is undefined for a task. By default averages
            are over the tasks that have hard and easy positives and negatives, if any task has
            them; a note names them.
        min_hard: averages leave out tasks with fewer hard images on a side; a note names them.
        boxes: match the boxes of detections to the objects of the dataset, and count every object.
        dataset: the one that the suite was found in, for ``boxes`` and ``group``; by default the
            one that the suite records.
        group: column, or pattern of file names, of images that count as one in intervals and tests,
            such as ``scene``; by default the suite's.
        iou: the least overlap (intersection over union) of a box and the object it finds.
        reading: how predictions are read: keywords of ``nooch.load_predictions``, such as
            ``{"ignore_unknown": True}``.
        progress: called with what is being done, and how many of how many tasks are done.

    Raises:
        InputError: predictions with missing, repeated or unknown ids, of no task, values that
            are not finite, probabilities outside [0, 1], labels that disagree with the suite.
        ParameterError: unknown criteria, tasks, splits, metrics, distributions, runs, options.

    Examples:
        >>> scores = nooch.evaluate("suite", "model.csv", metrics=["error"], bootstrap=100)
        >>> round(scores.value("error", "hard_positive"), 3)
        0.538
        >>> round(scores.value("error", "easy_positive"), 3)
        0.06
    """
    judged = predictions if isinstance(predictions, JudgedRuns) else None
    if judged is not None:
        dataset, boxes = judged.data, judged.limit is not None
    suite = as_suite(suite, group, dataset)
    conditions = [parse_condition(text, suite) for text in fail_if]
    known = suite.source_dataset if dataset is None else partial(suite.require_dataset, dataset)
    runs = _loaded(suite, predictions, known, reading)
    given = None
    if baseline is not None:
        runs, given = with_baseline(
            runs, baseline, lambda file: _loaded(suite, file, known, reading)
        )
    conditions = [c.of_runs([run.run for run in runs], given) for c in conditions]
    sides = [c.against for c in conditions if c.against is not None]
    first = given or next(iter(sides), runs[0].run)
    plan = _Plan(
        judged,
        known,
        suite.header.hard_only or bool(judged or (reading or {}).get("ignore_unknown")),
        suite.splits_to_score(split),
        criteria or (),
        tasks,
        _with_conditions(metrics, conditions, runs, boxes=boxes),
        threshold,
        conditions,
        bootstrap,
        seed,
        first,
        given is not None,
        differences or bool(sides),
        _distributions(averages, suite),
        by,
        attributes,
        strict,
        min_hard,
        suite.require_dataset(dataset) if boxes else None,
        iou,
        progress,
    )
    if overlay:
        return _side_by_side(suite, runs, read_label_overlay(overlay, suite), plan)
    return _scored(suite, runs, plan)


@dataclass(frozen=True, eq=False)
class _Plan:
    """Options of ``evaluate``, checked: the sets, the scores, and how they are computed.

    Attributes:
        judged: the runs, if they came so.
        dataset: what gives the dataset that the suite was found in, or None.
        ignore_unknown: whether runs may have other images.
        splits: those that are scored.
        metrics: also the metrics of the conditions.
        is_given: a baseline was asked for.
        objects: the dataset whose objects boxes are matched to, or None.

    The others are as ``evaluate`` has them.
    """

    judged: JudgedRuns | None
    dataset: Callable[[], Dataset | None]
    ignore_unknown: bool
    splits: Sequence[str]
    criteria: Sequence[str]
    tasks: Sequence[str] | None
    metrics: Sequence[str]
    threshold: AnswerThreshold
    conditions: Sequence[Condition]
    bootstrap: int
    seed: int
    baseline: str
    is_given: bool
    differences: bool
    averages: Sequence[Distribution]
    by: Sequence[str]
    attributes: pl.DataFrame | None
    strict: bool
    min_hard: int
    objects: Dataset | None
    iou: float
    progress: Progress


def _scored(suite: Suite, runs: list[Predictions], plan: _Plan) -> Scores:
    predicted = predicted_tasks(runs, suite.tasks, plan.tasks, owner="the suite")
    notes = _notes(suite, runs, predicted, plan.tasks)
    every_set = suite.select_keys(plan.criteria, predicted)
    asked = [key for key in every_set if key[2] in plan.splits]
    sample = AskedSample.from_runs(suite, runs, asked)
    keys = [key for key in asked if key in sample.suite.keys]
    images = KnownImages(suite, plan.dataset)
    for run in () if plan.ignore_unknown else runs:
        with giving("reading", ["ignore_unknown"]):
            images.check(run)
    matched, thresholds, stated = with_thresholds(
        runs,
        plan.judged,
        plan.objects,
        plan.threshold,
        plan.iou,
        suite,
        list(dict.fromkeys(task for _, task, _ in every_set)),
        recall="average_recall" in plan.metrics,
    )
    with_counts = {run.run.run: run.run for run in matched}
    runs = [with_counts.get(run.run, run) for run in runs]
    answers = answers_of_runs(runs, suite, asked, thresholds, plan.by)
    contexts = rates_of_answers(answers, suite, plan.bootstrap, plan.seed)
    changes = context_changes(answers, plan.baseline) if answers and plan.differences else []
    notes += [
        *sample.notes,
        *run_notes(runs),
        *stated,
        *suspect_notes(sample.suite, keys, contexts),
    ]
    parts = [
        _SplitScores(plan, sample, [key for key in keys if key[2] == split], runs, thresholds)
        for split in plan.splits
    ]
    parts = [part for part in parts if part.keys]
    notes += [
        note
        for part in parts
        for note in left_out(sample.suite, part.keys, part.averaged, plan.min_hard)
    ]
    about = {run.run: (run.method, run.seed) for run in runs}
    blocks = [block for part in parts for block in part.blocks()]
    table = scores_table(blocks, plan.metrics, about, plan.bootstrap)
    compared = differences_table(blocks, plan.metrics, plan.bootstrap)
    counted = {run.run for run in runs if run.said is not None and not run.said["skipped"].any()}
    unread = [
        run_key
        for run_key, rates in contexts.items()
        if rates.has_bounds_alone and run_key[0] in counted
    ]
    if unread:
        alone = replace(plan, differences=False)
        tables = []
        for read in readings(runs, sample.suite, keys):
            of_reading = [replace(part, plan=alone, runs=read) for part in parts]
            blocks = [block for part in of_reading for block in part.blocks()]
            tables.append(scores_table(blocks, plan.metrics, about, plan.bootstrap))
        table, compared = with_bounds(table, compared, unread, tables)
    if suite.header.hard_only:
        table, compared = without_easy(table), without_easy(compared)
    facts = {
        "bootstrap": plan.bootstrap,
        "seed": plan.seed,
        "baseline": plan.baseline,
        "dataset": suite.header.dataset.fingerprint,
        **({"thresholds": thresholds} if thresholds else {}),
    }
    baseline = plan.baseline if plan.is_given else None
    verdicts = judge(table, plan.conditions, suite, compared, baseline=baseline)
    for c in (c for c in plan.conditions if c in (WORSE, CONTEXT)):
        claims = as_judged(runs, matched, thresholds)
        judged = JudgedRuns(claims, plan.dataset(), "", baseline=baseline)
        if c == WORSE:
            of_runs = compare_runs(suite, judged, keys, plan.baseline, plan.progress)
            verdicts += of_runs.judged()
            notes += of_runs.notes
        else:
            new = judged.without_baseline
            verdicts += judged_contexts(
                [
                    compare_contexts(suite, new, [k for k in keys if k[2] == split], plan.progress)
                    for split in dict.fromkeys(key[2] for key in keys)
                ],
                new.runs,
            )
    effects = box_effects(matched, thresholds, sample.suite, keys)
    return Scores(table, compared, notes, facts, verdicts, contexts, effects, changes)


def _loaded(
    suite: Suite,
    predictions: PredictionSource,
    known: Callable[[], Dataset | None],
    reading: Mapping[str, Any] | None,
) -> list[Predictions]:
    """The runs; on a suite that is a sample, with its weights."""
    if isinstance(predictions, JudgedRuns):
        runs = predictions.outputs
    else:
        runs = read_predictions(predictions, suite, known, reading)
    sample = suite.sample_weights
    return runs if sample is None else [weighted_as_sample(run, sample) for run in runs]


def _side_by_side(
    suite: Suite, runs: list[Predictions], overlay: LabelOverlay, plan: _Plan
) -> Scores:
    """Scores with the suite's labels, and with corrected ones: of a task next to each other."""
    if plan.objects is not None:
        problem = "an overlay corrects image labels, not objects"
        raise ParameterError(problem, give=({"boxes": None}, {"overlay": None}))
    before = _scored(suite, runs, replace(plan, conditions=()))
    names = {run.run: f"{run.run}, corrected" for run in runs}
    # labels that predictions have are the suite's; ambiguous images are in no set
    other = [replace(run, run=names[run.run], labels=None) for run in runs]
    corrected, note = corrected_suite(suite, overlay)
    after = _scored(
        corrected,
        other,
        replace(
            plan,
            ignore_unknown=True,
            baseline=names[plan.baseline],
            conditions=[
                replace(c, run=names.get(c.run or ""), against=names.get(c.against or ""))
                for c in plan.conditions
            ],
        ),
    )
    notes = dict.fromkeys([*before.notes, *overlay.record.notes, note, *after.notes])
    facts = {**before.settings, "overlay": overlay.record.files}
    # the rows of a criterion, task and split next to each other
    first = pl.col("row").min().over(pl.struct("criterion", "task", "split"))
    table, differences = (
        pl.concat(tables).with_row_index("row").sort(first, maintain_order=True).drop("row")
        for tables in ([before.table, after.table], [before.differences, after.differences])
    )
    contexts = {**before.contexts, **after.contexts}
    changes = [*before.changes, *after.changes]
    return Scores(table, differences, list(notes), facts, after.verdicts, contexts, changes=changes)


@dataclass(frozen=True, eq=False)
class _SplitScores:
    """Data shared by all tasks of a split.

    Attributes:
        plan: the options.
        sample: the part of the suite that was asked about.
        keys: (criterion, task, split) of the sets, of one split.
        runs: the predictions.
        thresholds: of answers; empty: 0.5.
    """

    plan: _Plan
    sample: AskedSample
    keys: Sequence[_Key]
    runs: Sequence[Predictions]
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

    @cached_property
    def groups(self) -> Groups:
        """The groups of the images by each attribute."""
        by = [name for name in self.plan.by if name != CATEGORY or not self.categories]
        return groups_of(self.ids, by, self.plan.attributes)

    @cached_property
    def categories(self) -> dict[str, pl.DataFrame]:
        """List of questions -> ``image_id, task`` that runs answered of it, if scores are by it."""
        if CATEGORY not in self.plan.by:
            return {}
        said = [run.said for run in self.runs if run.said is not None]
        names = dict.fromkeys(name for frame in said for name in lists_of(frame))
        return {
            name: pl.concat(
                frame.filter(in_list(frame, name)).select("image_id", "task")
                for frame in said
                if CATEGORY in frame.columns
            )
            for name in names
        }

    @cached_property
    def units(self) -> NDArray[np.int64] | None:
        """The number of each image's group, int64 (n,); None: each image is one."""
        return self.sample.whole.units(self.ids)

    @cached_property
    def averaged(self) -> dict[str, list[str]]:
        """Criterion -> the tasks that averages are over; empty: all."""
        if self.plan.strict:
            return {}
        predicted = [run.tasks for run in self.runs]
        return averaged_tasks(self.sample.suite, self.keys, predicted, self.plan.min_hard)

    def blocks(self) -> list[Block]:
        """Blocks of all tasks in order, then their averages."""
        blocks: list[Block] = []
        averages = Averages(self.averaged, self.plan.strict)
        tasks = list(dict.fromkeys(task for _, task, _ in self.keys))
        for done, of_task in enumerate(self._results(tasks), 1):
            for block, rows in of_task:
                blocks.append(block)
                averages.add(block, rows)
            self.plan.progress("scoring tasks", done, len(tasks))
        return blocks + averages.blocks(self.plan.metrics)

    def _results(self, tasks: Sequence[str]) -> Iterator[list[ScoredTask]]:
        """Results in the order of tasks; sets are read a few tasks ahead of those being scored."""
        plan, draws = self.plan, None
        threads = usable_cpus() if plan.bootstrap else 1
        if plan.bootstrap:
            draws = BootstrapDraws(len(self.ids), plan.bootstrap, plan.seed, self.units)
        score = partial(
            score_task,
            metrics=plan.metrics,
            draws=draws,
            baseline=plan.baseline if plan.differences else None,
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
                # an interrupt must also not wait for running threads
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
        shares = {d.name: d.cell_shares(suite, challenge) for d in self.plan.averages}
        groups = {name: (codes[rows], levels) for name, (codes, levels) in self.groups.items()}
        for name, pairs in self.categories.items():
            ids = pairs.filter(task=key[1])["image_id"].cast(challenge.image_ids.dtype)
            inside = challenge.image_ids.is_in(ids.implode()).to_numpy().astype(np.intp)
            groups[f"{CATEGORY}={name}"] = inside, ("", f"{CATEGORY}={name}")
        subsets, parts = divide(challenge, [cue for cue, _ in cues], groups, shares)
        if suite.header.hard_only:
            # none of them covers the whole split
            whole = np.array([subset.name == "all" for subset in subsets[: len(parts.members)]])
            parts = replace(parts, members=parts.members & ~whole[:, None])
        # an average under a distribution is over all images, as the first subset is
        n, n_positive = (np.append(sizes, [sizes[0]] * len(shares)) for sizes in parts.sizes)
        scope = ScoreScope(*key, subsets, n, n_positive)
        weights = self.sample.weights_of(challenge)
        units = None if self.units is None else self.units[rows]
        return DividedSet(
            challenge, rows, with_effective(scope, parts, weights, units), parts, weights, units
        )


def _with_conditions(
    metrics: Sequence[str],
    conditions: Sequence[Condition],
    runs: Sequence[Predictions],
    *,
    boxes: bool,
) -> list[str]:
    """The metrics, by default those that answers or boxes have, and the conditions' metrics."""
    in_words = [run.run for run in runs if run.in_words]
    default = metrics
    if tuple(metrics) == METRICS:
        default = ANSWER_METRICS if in_words else (*METRICS, *(BOX_METRICS if boxes else ()))
    judged = [c.metric for c in conditions if c.metric in METRIC_NAMES]
    names = list(dict.fromkeys([*default, *judged]))
    if of_boxes := [name for name in names if name in BOX_METRICS and not boxes]:
        problem = f"{some_of(of_boxes)} needs objects to match the boxes to"
        raise ParameterError(problem, where="`metrics`", give={"boxes": ...})
    wrong = [name for name in names if name not in ANSWER_METRICS]
    if in_words and wrong:
        problem = f"{some_of(wrong)} needs probabilities, and run {in_words[0]} has none"
        raise ParameterError(problem, where="`metrics`", allowed=", ".join(ANSWER_METRICS))
    return names


def _distributions(averages: Sequence[str | Distribution], suite: Suite) -> list[Distribution]:
    shares = [parse_distribution(d, suite) if isinstance(d, str) else d for d in averages]
    if len({d.name for d in shares}) < len(shares):
        raise ParameterError(
            "two averages have one name", where="averages", allowed="each name once"
        )
    return shares


def _notes(
    suite: Suite,
    runs: Sequence[Predictions],
    task_names: Sequence[str],
    requested: Sequence[str] | None,
) -> list[str]:
    notes = suite.unit_notes
    if suite.header.hard_only:
        notes.append(
            "the suite contains only hard images: scores on all or easy images are undefined, and"
            " other images are left out"
        )
    notes += task_notes(runs, suite.tasks, "suite", requested)
    for run in runs:
        missing = [task for task in task_names if task not in run.tasks]
        if missing:
            notes.append(f"run {run.run} has no predictions for {some_of(missing)}")
    return notes
