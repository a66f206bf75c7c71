"""Coverage of 95% intervals: the table of docs/intervals.md.

    python benchmarks/coverage.py [DRAWS]

Answers and scores are drawn from known rates, nooch gives its interval, and the share of intervals
that contain the truth is counted. Each row has draws of its own seed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zlib import crc32

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import expit, logit, ndtr, ndtri
from scipy.stats import rankdata

import nooch
from nooch.base.split_plan import SplitPlan
from nooch.data.importing.import_dataset import with_split
from nooch.data.objects import BOX, needed_objects
from nooch.evaluation.boxes.matched import KINDS, MatchedRun, box_effects
from nooch.evaluation.boxes.matching import Boxes, Detections
from nooch.evaluation.context_rates import context_rates
from nooch.evaluation.differences import paired
from nooch.evaluation.metrics.paired_changes import PairedAnswers
from nooch.evaluation.metrics.proportions import wilson_of_groups
from nooch.evaluation.predictions import positions
from nooch.scenes import ScenesPlan, generate
from nooch.suites import ChallengeSet, CriterionRecord, DatasetRecord, Mark, Suite
from nooch.suites.questions import Draw, draw_questions

Floats = NDArray[np.float64]
RESAMPLES = 300


@dataclass(frozen=True)
class Covered:
    """Coverage of one kind of interval.

    Attributes:
        what: the value; ``where``: of how many images, at which rates.
        events: images with the event, or changed images, to be expected; NaN if it has no sense.
        draws: those in which there was an interval, of ``of``.
        coverage: the share of these that contain the truth; of several tasks the least and the
            most.
        width: mean width, of ratios the median.
    """

    what: str
    where: str
    events: float
    draws: int
    of: int
    coverage: tuple[float, float]
    width: float

    @property
    def cells(self) -> list[str]:
        """As a row of the table."""
        shown = dict.fromkeys(f"{share:.3f}".lstrip("0") for share in self.coverage)
        events = "" if np.isnan(self.events) else f"{self.events:.1f}"
        given = f"{100 * self.draws / self.of:.0f}%"
        return [self.what, self.where, events, given, " to ".join(shown), f"{self.width:.3f}"]


def _covered(
    about: tuple[str, str, float], bounds: Floats, truth: float | Floats, draws: int
) -> Covered:
    """From bounds (draws, 2) or (draws, n_tasks, 2), NaN if there is none."""
    is_defined = ~np.isnan(bounds).any(axis=-1)
    held = (bounds[..., 0] <= truth + 1e-12) & (truth - 1e-12 <= bounds[..., 1])
    with np.errstate(invalid="ignore"):
        shares = np.atleast_1d((held & is_defined).sum(axis=0) / is_defined.sum(axis=0))
    middle = np.median if "ratio" in about[0] else np.mean
    width = middle(np.diff(bounds, axis=-1)[is_defined])
    share = float(np.nanmin(shares)), float(np.nanmax(shares))
    return Covered(*about, int(is_defined.sum() / shares.size), draws, share, float(width))


def _random(*seed: object) -> np.random.Generator:
    return np.random.default_rng(crc32(repr(seed).encode()))


def question_samples(draws: int, per_set: int, rate: float, more: float) -> Iterator[Covered]:
    """``nooch export nooch-coco --to pope``: yes to absent objects, by task and pooled.

    Args:
        draws: how many.
        per_set: questions of each stratum of a task.
        rate: of yes where the object is absent and no criterion calls the image hard.
        more: times this rate on images that one calls hard.
    """
    suite = nooch.load_suite("nooch-coco")
    keys = [key for key in suite.keys if key[2] == "test"]
    rows = draw_questions(suite, keys, Draw(per_set=per_set)).frame.filter(label=0)
    hard = pl.any_horizontal(pl.col("ce", "gist") == "hard_negative")
    rates = rows.select(pl.when(hard).then(rate * more).otherwise(rate)).to_series().to_numpy()
    rows = rows.select("image_id", "task", "weight", cell="ce")
    tasks, random = rows["task"].unique(maintain_order=True), _random(per_set, rate, more)
    names = [("rate", "hard_negative"), ("rate", "easy_negative"), ("ratio", "negative")]
    bounds = np.full((len(names), draws, 1 + len(tasks), 2), np.nan)
    for draw in range(draws):
        said = rows.with_columns(yes=pl.Series(random.random(len(rates)) < rates))
        for place, part in enumerate([said, *(said.filter(task=task) for task in tasks)]):
            estimates = context_rates(part, bootstrap=0).estimates
            for number, name in enumerate(names):
                estimate = estimates[name]
                if estimate.low is not None:
                    bounds[number, draw, place] = estimate.low, estimate.high
    frame = rows.with_columns(rate=rates)
    mean = (pl.col("weight") * pl.col("rate")).sum() / pl.col("weight").sum()
    parts = [frame, *(frame.filter(task=task) for task in tasks)]
    truth = np.array([[p.filter(cell=c).select(mean).item() for p in parts] for _, c in names[:2]])
    truth = np.concatenate([truth, truth[:1] / truth[1:]])
    sizes = [float(frame.filter(cell=cell)["rate"].sum()) for _, cell in names[:2]]
    where = f"{per_set} per set, {100 * rate:g}%" + (f", hard {more:g} times" if more > 1 else "")
    for number, label in enumerate(("yes to absent, hard", "yes to absent, easy", "ratio")):
        events = min(sizes) if number == 2 else sizes[number]
        interval = bounds[number]
        yield _covered((f"{label}, pooled", where, events), interval[:, 0], truth[number, 0], draws)
        about = f"{label}, each task", where, events / len(tasks)
        yield _covered(about, interval[:, 1:], truth[number, 1:], draws)


def _suite(
    labels: NDArray[np.bool_], sizes: Sequence[int], hard: NDArray[np.bool_] | None = None
) -> Suite:
    """A task for each size, of so many of the first images; all of them hard, or these."""
    marks = (np.ones(len(labels), bool) if hard is None else hard).astype(np.int8)
    sets, tasks = {}, [f"t{number}" for number in range(len(sizes))]
    for task, size in zip(tasks, sizes, strict=True):
        mark, ids = Mark(marks[:size]), pl.Series("image_id", np.arange(size))
        key = ("ce", task, "test")
        sets[key] = ChallengeSet.from_mark(*key, mark, ids, labels[:size])
    return Suite.from_sets(
        sets,
        dataset=DatasetRecord("draws", len(labels), {"test": len(labels)}),
        criteria={"ce": CriterionRecord("attribute", {})},
        skipped=[],
        tasks=tasks,
        splits=["test"],
    )


def _runs(suite: Suite, values: Sequence[Floats], scale: str) -> list[nooch.Predictions]:
    """Runs of outputs (n_images, n_tasks)."""
    ids = np.arange(len(values[0]))
    return [
        nooch.Predictions.from_arrays(
            run_values, ids, suite.tasks, scale=scale, run=f"run {number}"
        )
        for number, run_values in enumerate(values)
    ]


def _bounds(
    table: pl.DataFrame, metric: str, *, average: bool = False, subset: str = "hard"
) -> Floats:
    """Bounds of each task, or of their average, (n, 2)."""
    rows = table.filter((pl.col("task") == "average") == average, metric=metric, subset=subset)
    return rows.select("low", "high").to_numpy().astype(np.float64)


def _answers(wrong: NDArray[np.bool_], labels: NDArray[np.bool_]) -> Floats:
    return (wrong ^ labels[:, None]).astype(np.float64)


def _changes(
    random: np.random.Generator, size: tuple[int, int], up: Floats | float, down: Floats | float
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Errors before and after, (n, k): a fifth both times, ``up`` only after, ``down`` only
    before.
    """
    draw = random.random(size)
    before, after = draw < 0.2 + down, (draw < 0.2) | (draw >= 1 - up)
    return before, after


def paired_errors(draws: int, n: int, up: float, down: float) -> Covered:
    """The difference of the errors of two runs on the same images: a task is a draw."""
    random, labels = _random(n, up, down), np.arange(n) % 2 == 0
    suite = _suite(labels, [n] * draws)
    wrong = _changes(random, (n, draws), up, down)
    runs = _runs(suite, [_answers(answers, labels) for answers in wrong], "probability")
    differences = nooch.evaluate(suite, runs, metrics=["error"]).differences
    about = "difference of errors", f"{n} images, {100 * up:g}% worse, {100 * down:g}% better"
    return _covered((*about, n * (up + down)), _bounds(differences, "error"), up - down, draws)


def seed_errors(draws: int, n: int, up: float, down: float) -> Covered:
    """The same of means over three seeds, by the bootstrap."""
    random, labels = _random("seeds", n, up, down), np.arange(n) % 2 == 0
    suite, methods = _suite(labels, [n] * draws), {}
    seeds = [_changes(random, (n, draws), up, down) for _ in range(3)]
    for number, method in enumerate(("before", "after")):
        runs = _runs(suite, [_answers(pair[number], labels) for pair in seeds], "probability")
        methods[method] = runs
    differences = paired(
        suite, "ce", methods, baselines=["before"], metrics=["error"], bootstrap=RESAMPLES
    )
    about = "difference, mean of 3 seeds", f"{n} images, {100 * up:g}%, {100 * down:g}%"
    bounds = _bounds(differences.differences, "error")
    return _covered((*about, n * (up + down)), bounds, up - down, draws)


def average_errors(draws: int, sizes: Sequence[int], rates: Sequence[float]) -> Iterator[Covered]:
    """The mean over tasks of an error, and of a difference of errors, of a fifth of the rates."""
    random, n = _random(sizes, rates), max(sizes)
    labels, rate_array = np.arange(n) % 2 == 0, np.array(rates)
    suite, bounds = _suite(labels, sizes), np.full((2, draws, 2), np.nan)
    for draw in range(draws):
        before = random.random((n, len(sizes))) < rate_array
        # a fifth of the right answers change at the same rate, the other way none
        after = before | (random.random(before.shape) < rate_array / 5)
        runs = _runs(suite, [_answers(wrong, labels) for wrong in (before, after)], "probability")
        scores = nooch.evaluate(suite, runs, metrics=["error"], bootstrap=RESAMPLES)
        first = scores.table.filter(run="run 0")
        for number, table in enumerate((first, scores.differences)):
            bounds[number, draw] = _bounds(table, "error", average=True)[0]
    counts = ", ".join(map(str, sizes)) if len({*sizes}) > 1 else f"{len(sizes)} times {n}"
    shown = f"{counts} images, {100 * min(rates):g} to {100 * max(rates):g}%"
    gaps = (1 - rate_array) * rate_array / 5
    for number, (what, truth) in enumerate((("mean error", rate_array), ("mean difference", gaps))):
        events = float((truth * sizes).sum())
        yield _covered((what, shown, events), bounds[number], truth.mean(), draws)


def sensitivity(draws: int, n: int, recall: float, fpr: float) -> Iterator[Covered]:
    """Sensitivity (d') of n positives and n negatives, and the difference of two runs alike."""
    random, labels = _random("d", n, recall, fpr), np.arange(2 * n) < n
    suite, rates = _suite(labels, [2 * n] * draws), np.where(labels, recall, fpr)[:, None]
    shared = random.random((2 * n, draws))
    # half of the answers of the second run are copied from the first
    own = np.where(random.random(shared.shape) < 0.5, shared, random.random(shared.shape))
    values = [(draw < rates).astype(np.float64) for draw in (shared, own)]
    scores = nooch.evaluate(
        suite, _runs(suite, values, "probability"), metrics=["dprime"], bootstrap=RESAMPLES
    )
    where, truth = f"{n} of a label, {recall:g}, {fpr:g}", float(ndtri(recall) - ndtri(fpr))
    events = n * (1 - recall + fpr)
    bounds = _bounds(scores.table.filter(run="run 0"), "dprime")
    yield _covered(("d'", where, events), bounds, truth, draws)
    bounds = _bounds(scores.differences, "dprime")
    yield _covered(("difference of d'", where, events), bounds, 0.0, draws)


def scores(draws: int, n: int, gap: float, negatives: int | None = None) -> Iterator[Covered]:
    """AUC and NLL of normal scores ``gap`` apart, and differences of two alike."""
    random, labels = _random("auc", n, gap, negatives), np.arange(n + (negatives or n)) < n
    suite = _suite(labels, [len(labels)] * draws)
    mean, size = np.where(labels, gap / 2, -gap / 2)[:, None], (len(labels), draws)
    common = random.normal(size=size)
    values = [mean + 0.8 * common + 0.6 * random.normal(size=size) for _ in range(2)]
    run_scores = nooch.evaluate(
        suite, _runs(suite, [2 * each for each in values], "logit"), metrics=["auc", "nll"],
        bootstrap=RESAMPLES,
    )  # fmt: skip
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    loss = float(weights @ np.logaddexp(0, -2 * (gap / 2 + nodes)) / weights.sum())
    first = run_scores.table.filter(run="run 0")
    for metric, truth in (("auc", float(ndtr(gap / np.sqrt(2)))), ("nll", loss)):
        where = f"{n} and {negatives or n} images, AUC {ndtr(gap / np.sqrt(2)):.2f}"
        bounds = _bounds(first, metric)
        if np.isnan(bounds).all():
            # fewer images than the stated limit
            continue
        yield _covered((metric.upper(), where, np.nan), bounds, truth, draws)
        of_pair = _bounds(run_scores.differences, metric)
        name = f"difference of {metric.upper()}"
        yield _covered((name, where, np.nan), of_pair, 0.0, draws)


def distributions(draws: int, hard: int, easy: int) -> Iterator[Covered]:
    """``avg:uniform`` of so many hard and easy images of each label, of normal scores."""
    labels, is_hard = np.repeat([True, False], hard + easy), np.arange(hard + easy) < hard
    is_hard = np.tile(is_hard, 2)
    random, n = _random("avg", hard, easy), len(labels)
    suite = _suite(labels, [n] * draws, is_hard)
    mean = np.where(labels, 1, -1) * np.where(is_hard, 0.4, 1.2)
    values = 2 * (mean[:, None] + random.normal(size=(n, draws)))
    table = nooch.evaluate(
        suite, _runs(suite, [values], "logit"), metrics=["error", "auc", "nll"],
        bootstrap=RESAMPLES, averages=["uniform"],
    ).table  # fmt: skip
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    kinds = np.array([0.4, 1.2])
    truths = {
        "error": ndtr(-kinds).mean(),
        "auc": ndtr(np.add.outer(kinds, kinds) / np.sqrt(2)).mean(),
        "nll": (np.logaddexp(0, -2 * np.add.outer(kinds, nodes)) @ weights).mean() / weights.sum(),
    }
    for metric, truth in truths.items():
        about = f"avg:uniform, {metric}", f"{hard} hard, {easy} easy of a label", np.nan
        yield _covered(about, _bounds(table, metric, subset="avg:uniform"), float(truth), draws)


def odds_ratios(draws: int, rate: float) -> Iterator[Covered]:
    """Captions of 600 images, 12 tasks: mentions of absent objects, hard three times as often."""
    random, n, tasks = _random("odds", rate), 600, 12
    hard = random.random((n, tasks)) < 0.15
    rates = np.where(hard, 3 * rate, rate)
    rows = pl.DataFrame({
        "image_id": np.arange(n).repeat(tasks),
        "task": [f"t{number}" for number in range(tasks)] * n,
        "cell": np.where(hard, "hard_negative", "easy_negative").ravel(),
    })  # fmt: skip
    odds = 3 * rate * (1 - rate) / (rate * (1 - 3 * rate))
    names = {("ratio", "negative"): 3.0, ("odds_ratio", "negative"): odds}
    names |= {("rate", "easy_negative"): rate}
    bounds = np.full((len(names), draws, 2), np.nan)
    for draw in range(draws):
        # an image where the model is talkative has more of all
        lively = random.choice([0.25, 1.75], (n, 1))
        said = rows.with_columns(
            yes=pl.Series((random.random(rates.shape) < lively * rates).ravel())
        )
        estimates = context_rates(said, bootstrap=RESAMPLES).estimates
        for number, name in enumerate(names):
            if estimates[name].low is not None:
                bounds[number, draw] = estimates[name].low, estimates[name].high
    where, events = f"captions of 600 images, {100 * rate:g}%", float(rates[~hard].sum())
    for number, (name, truth) in enumerate(names.items()):
        label = "mentions, easy" if name[0] == "rate" else name[0].replace("_", " ")
        yield _covered((f"{label}, pooled", where, events), bounds[number], truth, draws)


def context_changes(
    draws: int, images: int, rates: Sequence[float], times: Sequence[float], alike: float
) -> Iterator[Covered]:
    """Changes of a run against a baseline: of the ratio of false yes with the context to without,
    d' and the criterion.

    Args:
        draws: how many.
        images: each has 0 to 6 positives, 0 to 4 absent objects with their context, and 0 to 80
            without; a talkative one has seven times as many false yes as another.
        rates: of yes of the baseline, of these three kinds.
        times: the other run's rates over these.
        alike: the share of its answers that depend on the same chance as the baseline's.
    """
    random, most = _random("changes", images, rates, times, alike), np.array([6, 4, 80])
    bounds, before = np.full((3, draws, 2), np.nan), np.array(rates)
    after = before * times
    for draw in range(draws):
        n = random.integers(0, most + 1, (images, 3)).ravel()
        kind = np.repeat(np.tile(np.arange(3), images), n)
        unit = np.repeat(np.arange(images).repeat(3), n)
        lively = np.where(kind == 0, 1, random.choice([0.25, 1.75], images)[unit])
        chance = random.random(len(kind))
        own = np.where(random.random(len(kind)) < alike, chance, random.random(len(kind)))
        yes = np.stack([chance < lively * before[kind], own < lively * after[kind]])
        answers = PairedAnswers(yes.astype(np.float64), np.ones(len(kind)), unit)
        absent = kind > 0
        ratio = answers.of(absent).ratio((kind == 1)[absent])
        for number, one in enumerate((ratio, *answers.sensitivity(kind == 0))):
            if one.low is not None and one.high is not None:
                bounds[number, draw] = one.low, one.high
    z = [ndtri([side[0], side[1:] @ most[1:] / most[1:].sum()]) for side in (before, after)]
    gaps = [float((z[1] - z[0]) @ signs) for signs in ([1, -1], [-0.5, -0.5])]
    shown = ", ".join(f"{100 * rate:g}%" for rate in rates[1:])
    how = "times " + ", ".join(f"{each:g}" for each in times[1:]) if min(times) < 1 else "the same"
    where = f"{images} images, {shown}, {how}, {100 * alike:g}% alike"
    events = images * float((np.minimum(before, after) * most)[1:].min()) / 2
    truths = [times[1] / times[2], *gaps]
    for number, name in enumerate(("change of ratio", "change of d'", "change of criterion")):
        yield _covered((name, where, events), bounds[number], truths[number], draws)


def _correlated(chances: Any, sd: float, seen: Floats) -> Floats:
    """Chances with a normal term of an image, or group, on their logit, of which ``seen`` are
    standard normal draws.
    """
    return np.asarray(expit(logit(chances) + sd * seen))


def _mean_chance(chances: Any, sd: float) -> Floats:
    """The mean of correlated chances over all images, or groups."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    each = _correlated(np.asarray(chances)[..., None], sd, nodes)
    return np.asarray(each @ weights / weights.sum())


def object_rates(draws: int, images: int, rate: float, sd: float) -> Covered:
    """The share of objects that are missed, of one to seven in an image, which err alike."""
    random, bounds = _random("objects", images, rate, sd), np.full((draws, 2), np.nan)
    for draw in range(draws):
        image = np.repeat(np.arange(images), random.integers(1, 8, images))
        chances = _correlated(rate, sd, random.normal(size=images))[image]
        bounds[draw] = wilson_of_groups(random.random(len(image)) < chances, image)
    truth = float(_mean_chance(rate, sd))
    about = "objects missed", f"{images} images, sd {sd:g}, {100 * truth:.0f}%", 4 * images * truth
    return _covered(about, bounds, truth, draws)


def grouped_errors(draws: int, groups: int, sd: float) -> Iterator[Covered]:
    """The error in groups of six images that err alike, and the difference of two runs alike."""
    random, n = _random("groups", groups, sd), 6 * groups
    scene, labels = np.arange(n) // 6, np.arange(n) % 2 == 0
    suite = _suite(labels, [n] * draws)
    suite = suite.with_header(msgspec.structs.replace(suite.header, group="scene"))
    names = pl.DataFrame({"image_id": np.arange(n), "group": scene}).cast({"group": pl.String})
    suite.grouped_images = lambda: names
    chances = [_correlated(0.2, sd, random.normal(size=(groups, draws)))[scene] for _ in range(2)]
    values = [_answers(random.random((n, draws)) < each, labels) for each in chances]
    scored = nooch.evaluate(suite, _runs(suite, values, "probability"), metrics=["error"])
    truth = float(_mean_chance(0.2, sd))
    where = f"{groups} groups of 6 images, sd {sd:g}"
    first = _bounds(scored.table.filter(run="run 0"), "error")
    yield _covered(("error", where, n * truth), first, truth, draws)
    events = 2 * n * truth * (1 - truth)
    gap = _bounds(scored.differences, "error")
    yield _covered(("difference of errors", where, events), gap, 0.0, draws)


Chances = Callable[[NDArray[Any], NDArray[Any]], Floats]
"""Hardness of images, and sizes of objects (0 to 5) or ranks of the support in [0, 1], (n,)
each -> chances (n,).
"""


def boxes_of_scenes(
    draws: int, images: int, missed: Chances, claimed: Chances, where: str, sd: float = 0
) -> Iterator[tuple[Covered, float]]:
    """Objects of generated scenes that are missed by chance, by size, and boxes of absent ones that
    are claimed by chance, by support: effects of the context, each with the share of draws in which
    p is below .05. ``sd``: of what objects and boxes of an image have in common, on the logit.
    """
    data, suite = _scenes(images)
    keys = [key for key in suite.keys if key[2] == "test"]
    run, hard, rank = _every_box(data, suite, keys)
    of_objects, of_boxes = run.objects, run.detections.boxes
    is_false = run.kinds == KINDS.index("false_boxes")
    at = hard[of_objects.label, of_objects.image], hard[of_boxes.label, of_boxes.image][is_false]
    by_size = missed(at[0] == 1, run.sizes)
    by_support = claimed(at[1] == 1, rank[of_boxes.label, of_boxes.image][is_false])
    strata = of_objects.label * 6 + run.sizes, of_boxes.label[is_false]
    random, effects = _random("boxes", where, *([sd] if sd else [])), []
    places = of_objects.image, of_boxes.image[is_false]
    for _ in range(draws):
        scores = np.full(len(of_boxes), 0.9)
        common = random.normal(size=(2, hard.shape[1])) if sd else np.zeros((2, hard.shape[1]))
        of_miss, of_claim = (
            _correlated(each, sd, shift[place])
            for each, shift, place in zip((by_size, by_support), common, places, strict=True)
        )
        scores[is_false] *= random.random(len(by_support)) < of_claim
        found_at = np.where(random.random(len(by_size)) < of_miss, -1, 0.9)
        drawn = replace(run, found_at=found_at, detections=replace(run.detections, scores=scores))
        effects.append(box_effects([drawn], {}, suite, keys))
    table = pl.concat(effects)
    for number, (side, what) in enumerate((("positive", "missed"), ("negative", "claimed"))):
        chances = _mean_chance((by_size, by_support)[number], sd)
        rows, alike = table.filter(side=side), f", sd {sd:g}" if sd else ""
        about = f"effect, boxes {what}", f"{images} scenes, {where}{alike}", float(chances.sum())
        truth = _gap(chances, at[number], strata[number])
        bounds = rows.select("low", "high").to_numpy()
        yield _covered(about, bounds, truth, draws), float((rows["p"].to_numpy() < 0.05).mean())


@cache
def _scenes(images: int) -> tuple[nooch.Dataset, Suite]:
    """Generated scenes, and their sets by the context."""
    with TemporaryDirectory() as folder:
        scenes = generate(ScenesPlan(images=images, size=64, seed=5), Path(folder, "scenes"))
        kinds = ("instances", "stuff")
        things, stuff = ([scenes / "annotations" / f"{kind}_scenes.json"] for kind in kinds)
        data = with_split(nooch.io.read(nooch.io.CocoReading(things, stuff)), SplitPlan("50/10/40"))
    tasks = needed_objects(data.objects)["class"].unique().sort().cast(pl.String).to_list()
    return data, nooch.find(data, criteria="context", tasks=tasks)


def _every_box(
    data: nooch.Dataset, suite: Suite, keys: Sequence[tuple[str, str, str]]
) -> tuple[MatchedRun, Floats, Floats]:
    """A run that finds every object in the images of the sets, and claims one in all images without
    one; hardness and rank of the support, (n_tasks, n_images), NaN outside of a set.
    """
    sets, tasks = [suite.set(*key) for key in keys], [task for _, task, _ in keys]
    ids = pl.concat(some.image_ids for some in sets).unique().sort()
    hard, rank = np.full((2, len(tasks), len(ids)), np.nan)
    for number, some in enumerate(sets):
        own = positions(some.image_ids, ids)
        hard[number, own] = some.hard
        rank[number, own] = rankdata(np.asarray(some.support)) / len(own)
    there = needed_objects(data.objects).filter(pl.col("image_id").is_in(ids.implode()))
    there = there.with_columns(pl.col("class").cast(pl.String)).filter(pl.col("class").is_in(tasks))
    labels = [positions(there["class"], pl.Series(tasks))]
    rows, boxes = [positions(there["image_id"], ids)], [there.select(BOX).to_numpy()]
    for number, some in enumerate(sets):
        rows.append(positions(some.image_ids.filter(pl.Series(~some.labels)), ids))
        labels.append(np.full(len(rows[-1]), number))
        boxes.append(np.tile([0.0, 0.0, 9.0, 9.0], (len(rows[-1]), 1)))
    found = Boxes(np.concatenate(rows), np.concatenate(labels), np.concatenate(boxes))
    detections = Detections(found, np.full(len(found), 0.9))
    values = np.full((len(tasks), len(ids)), 0.5)
    run = nooch.Predictions("drawn", ids, tuple(tasks), values, "probability", boxes=detections)
    return MatchedRun.match(run, data, recall=False), hard, rank


def _gap(chances: Floats, hard: Floats, strata: NDArray[Any]) -> float:
    """The difference of the chances of hard and easy ones, with Mantel and Haenszel's weights."""
    above = below = 0.0
    for stratum in np.unique(strata):
        sides = [chances[(strata == stratum) & (hard == side)] for side in (1, 0)]
        if all(map(len, sides)):
            weight = len(sides[0]) * len(sides[1]) / sum(map(len, sides))
            above, below = above + weight * (sides[0].mean() - sides[1].mean()), below + weight
    return above / below


SCENES: list[tuple[Chances, Chances, str]] = [
    (lambda hard, _: 0.1 + 0.3 * hard, lambda _, rank: 0.01 + 0.15 * rank**2, "by context"),
    (
        lambda _, size: np.array([0.4, 0.3, 0.2, 0.1, 0.05, 0.05])[size],
        lambda _, rank: np.full(len(rank), 0.04),
        "by size only",
    ),
]
"""Chances that objects are missed and boxes claimed, and the case."""

_SAMPLES = [(0.005, 1.0), (0.015, 1.0), (0.05, 1.0), (0.015, 3.0)]
_CHANGES = [(0.05, 0.0), (0.05, 0.05), (0.15, 0.05), (0.25, 0.0)]
_AVERAGES = [
    ([20] * 12, [0.1] * 12),
    ([50] * 12, [0.02] * 12),
    ([34, 24, 20, 12, 8, 5], [0.1] * 6),
    ([100, 400, 50, 1000, 30, 600], [0.3, 0.05, 0.4, 0.01, 0.6, 0.02]),
]
_ANSWERS = [(0.5, 0.5), (0.8, 0.3), (0.95, 0.05)]
_CONTEXTS = [(0.7, 0.08, 0.008), (0.7, 0.02, 0.002), (0.95, 0.2, 0.06)]
_TIMES = [(1.0, 1.0, 1.0), (1.0, 0.6, 1.0), (0.8, 0.6, 0.6)]
_RANKED = [(10, None), (20, None), (20, 200), (40, None), (80, None)]


def table(draws: int) -> Iterator[Covered]:
    """All rows."""
    for per_set, (rate, more) in product((12, 50), _SAMPLES):
        yield from question_samples(draws, per_set, rate, more)
    yield from (paired_errors(draws, n, *case) for n, case in product((10, 20, 36, 100), _CHANGES))
    yield from (seed_errors(draws, n, 0.15, 0.05) for n in (36, 100))
    for sizes, rates in _AVERAGES:
        yield from average_errors(max(draws // 2, 100), sizes, rates)
    for n, (recall, fpr) in product((3, 5, 20, 50), _ANSWERS):
        yield from sensitivity(draws, n, recall, fpr)
    for (n, negatives), gap in product(_RANKED, (0.5, 2.5)):
        yield from scores(draws, n, gap, negatives)
    for hard, easy in ((10, 100), (20, 200), (40, 160)):
        yield from distributions(draws, hard, easy)
    for rate in (0.001, 0.005, 0.02):
        yield from odds_ratios(max(draws // 4, 100), rate)
    changes = product((60, 500), _CONTEXTS, _TIMES, (0, 0.9))
    yield from chain.from_iterable(context_changes(draws, *case) for case in changes)
    for case, sd in product(SCENES, (0, 1, 2)):
        yield from (row for row, _ in boxes_of_scenes(draws, 1500, *case, sd))
    for images, rate, sd in product((16, 24, 40), (0.05, 0.3), (1, 2)):
        yield object_rates(2 * draws, images, rate, sd)
    for groups, sd in product((16, 40, 100), (1, 2)):
        yield from grouped_errors(draws, groups, sd)


def main() -> None:
    """Print the table."""
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    print("| value | of | events | given | coverage | width |\n|---|---|---|---|---|---|")
    for row in table(draws):
        print("|", " | ".join(row.cells), "|", flush=True)


if __name__ == "__main__":
    main()
