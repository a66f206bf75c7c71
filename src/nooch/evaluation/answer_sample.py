"""Answers as predictions (yes is 1, no is 0), and the part of a suite that they are about."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.base.errors import InputError, ParameterError, check_one_of, some_of
from nooch.evaluation.answers import Answers
from nooch.evaluation.context_rates import ContextRates, answer_rates
from nooch.evaluation.prediction_format import UNKNOWN
from nooch.evaluation.predictions import Predictions, positions
from nooch.suites import ChallengeSet, Suite
from nooch.suites.suite import SetRecord

Key = tuple[str, str, str]
_PAIR = ("image_id", "task")


def answers_as_predictions(answers: Answers, unknown: str = "wrong") -> Predictions:
    """Predictions of the images and tasks that a model was asked about.

    Where every answer has a probability of yes that counts, these are the values; else they are 1
    for yes and 0 for no. Phrasings that disagree evenly are neither. ``said`` has all that was
    asked, with ``value``, and ``unknown`` (neither yes nor no, or no answer) and ``skipped``
    (Boolean).
    """
    check_one_of("way to count unknown answers", unknown, UNKNOWN)
    share, probability = pl.col("yes"), pl.col("probability")
    decided = pl.when(share != 0.5).then(share > 0.5).otherwise(probability > 0.5)
    said = answers.frame.with_columns(unknown=decided.is_null())
    said = said.with_columns(skipped=pl.col("unknown") & pl.lit(unknown == "skip"))
    frame = said.filter(~pl.col("skipped"))
    if not frame.height:
        problem = "no answer is yes or no"
        raise ParameterError(problem, where="`unknown`", give=({"unknown": "wrong"}, {"rule": ...}))
    in_words = bool(frame["probability"].has_nulls())
    said = said.with_columns(value=decided.cast(pl.Float64) if in_words else probability)
    kind = f"answers in words ({answers.rule}" if in_words else "answers with probabilities ("
    read = f"{kind}{', ' if in_words else ''}column {answers.column})"
    run = said_as_predictions(answers.run, said, in_words=in_words, read=read)
    notes = (*answers.notes, *_unknown_notes(said))
    return replace(run, notes=notes, listed=answers.listed)


def _unknown_notes(said: pl.DataFrame) -> list[str]:
    """A note on the share of unknown answers, if there are any."""
    done = "are left out" if said["skipped"].any() else "count as wrong"
    share = said["unknown"].sum() / max(said.height, 1)
    return [f"{100 * share:.1f}% of the answers are unknown and {done}"] if share else []


def said_as_predictions(
    run: str, said: pl.DataFrame, *, in_words: bool, read: str = ""
) -> Predictions:
    """Predictions with the ``value`` of what was said, NaN where it is null, of those not skipped.

    ``said``: ``image_id, task, value, weight, skipped, unknown``; each image and task once.
    """
    frame = said.filter(~pl.col("skipped"))
    ids, tasks = frame["image_id"].unique().sort(), frame["task"].unique().sort()
    values = np.full((len(tasks), len(ids)), np.nan)
    weights = np.zeros_like(values)
    places = positions(frame["task"], tasks), positions(frame["image_id"], ids)
    values[places] = frame["value"].to_numpy()
    weights[places] = frame["weight"].to_numpy()
    return Predictions(
        run, ids, tuple(tasks), values, "probability",
        weights=weights, in_words=in_words, read=read, said=said,
    )  # fmt: skip


def fill_unanswered(runs: Sequence[Predictions], unknown: str = "wrong") -> list[Predictions]:
    """Runs of answers or captions ``with_unanswered``. A run without a list of questions
    was asked what any run answered that answered some of the same.
    """
    pairs = [run.said.select(*_PAIR, "weight") for run in runs if run.said is not None]

    def filled(run: Predictions) -> Predictions:
        if run.said is None or run.listed or len(pairs) < 2:
            return run
        own = run.said.select(_PAIR)
        ids = pl.col("image_id").cast(own["image_id"].dtype, strict=False)
        others = [other.with_columns(ids) for other in pairs]
        same = pl.concat(o for o in others if o.join(own, on=_PAIR, how="semi").height)
        return with_unanswered(run, same.unique(_PAIR, maintain_order=True), unknown)

    return [filled(run) for run in runs]


def with_unanswered(run: Predictions, asked: pl.DataFrame, unknown: str = "wrong") -> Predictions:
    """A run with all that it was asked, ``image_id, task, weight``. What has no answer is unknown,
    so that an answer that is left out counts like one that cannot be read.
    """
    said = run.said
    assert said is not None  # noqa: S101 - the caller looked
    ids = pl.col("image_id").cast(said["image_id"].dtype, strict=False)
    rest = asked.select(*_PAIR, "weight").with_columns(ids)
    rest = rest.join(said, on=_PAIR, how="anti", maintain_order="left")
    if not rest.height:
        return run
    rest = rest.with_columns(unknown=True, skipped=unknown == UNKNOWN[1], missing=1.0)
    whole = pl.concat([said, rest], how="diagonal_relaxed")
    in_words = run.in_words or unknown != UNKNOWN[1]
    filled = said_as_predictions(run.run, whole, in_words=in_words)
    part = f"{rest.height:,} of {whole.height:,} images and tasks that were asked about"
    return replace(
        run, said=whole, image_ids=filled.image_ids, tasks=filled.tasks, values=filled.values,
        weights=filled.weights, in_words=in_words, notes=(*run.notes, f"{part} have no answer"),
    )  # fmt: skip


def readings(
    runs: Sequence[Predictions], suite: Suite, keys: Sequence[Key]
) -> Iterator[list[Predictions]]:
    """Runs with unknown answers as yes, as no, as right and as wrong. Had all been readable, every
    metric would be between the least and the largest of these four.
    """
    unread: list[NDArray[np.bool_]] = []
    truths: list[NDArray[np.bool_]] = []
    for run in runs:
        truth = np.zeros(run.values.shape, np.bool_)
        unread.append(np.isnan(run.values) if run.said is not None else truth.copy())
        for key in keys if unread[-1].any() else ():
            if key[1] in run.tasks:
                challenge = suite.set(*key)
                own = run.image_ids.cast(challenge.image_ids.dtype, strict=False)
                truth[run.tasks.index(key[1]), positions(challenge.image_ids, own)] = (
                    challenge.labels
                )
        truths.append(truth)
    for flip, by_label in ((True, False), (False, False), (False, True), (True, True)):
        yield [
            replace(run, values=np.where(where, (truth & by_label) ^ flip, run.values), said=None)
            for run, where, truth in zip(runs, unread, truths, strict=True)
        ]


def weighted_as_sample(run: Predictions, sample: pl.DataFrame) -> Predictions:
    """A run on a suite that is a sample, with the weights ``image_id, task, weight`` of its pairs,
    unless it has weights of its own, as answers to drawn questions do.
    """
    if run.weights is not None and not np.isin(run.weights, (0, 1)).all():
        return run
    ids = pl.col("image_id").cast(run.image_ids.dtype, strict=False)
    sample = sample.with_columns(ids).filter(
        pl.col("task").is_in(run.tasks), pl.col("image_id").is_in(run.image_ids.implode())
    )
    weights = np.zeros(run.values.shape)
    tasks = positions(sample["task"], pl.Series(run.tasks, dtype=pl.String))
    weights[tasks, positions(sample["image_id"], run.image_ids)] = sample["weight"].to_numpy()
    if run.weights is not None:
        weights *= run.weights
    said = run.said
    if said is not None:
        kept = said.drop("weight", strict=False)
        said = kept.join(sample, on=["image_id", "task"], maintain_order="left")
    return replace(run, weights=weights, said=said)


CATEGORY = "category"
"""The column of ``by`` that has the list of the suite's questions that asks."""
WITHOUT = ", without suspects"
"""Ending of a run's name where its rates leave out labels that are suspect."""


def part_of(run: str) -> str:
    """The ending of a run's name where its rates are of a part of its answers; else empty."""
    found = re.search(rf"(?:{WITHOUT}|, {CATEGORY}=\w+)$", run)
    return found[0] if found else ""


def suspect_notes(
    suite: Suite, keys: Sequence[Key], rates: Mapping[tuple[str, str], ContextRates]
) -> list[str]:
    """A note on labels that rates leave out."""
    if suite.suspects is None or not any(run.endswith(WITHOUT) for run, _ in rates):
        return []
    places = dict.fromkeys(key[1:] for key in keys)
    frames = [suite.set(*next(k for k in keys if k[1:] == place)).cell_frame for place in places]
    pairs = pl.concat(frames)
    n = pairs.join(suite.suspects, on=["image_id", "task"], how="semi").height
    left = f"{n:,} of {pairs.height:,} labels are left out"
    return [f"{WITHOUT[2:]}: {left}, {suite.suspects_are}"]


def answers_of_runs(
    runs: Sequence[Predictions],
    suite: Suite,
    keys: Sequence[Key],
    thresholds: Mapping[str, Mapping[str, float]],
    by: Sequence[str] = (),
) -> dict[tuple[str, str], pl.DataFrame]:
    """(run, criterion) -> ``answers_in`` its sets, of answers and captions, and of a suite with
    suspect labels (``RUN, without suspects``, criterion), and with ``category`` in ``by``
    (``RUN, category=NAME``, criterion); none without a row.
    """
    answered = [(run.run, run.said) for run in runs if run.said is not None]
    cells = {
        criterion: suite.cells(key for key in keys if key[0] == criterion)
        for criterion in (dict.fromkeys(key[0] for key in keys) if answered else ())
    }
    found = {}
    for run, said in answered:
        for criterion, frame in cells.items():
            rows = answers_in(said, frame, thresholds.get(run))
            found[run, criterion] = rows
            plain = rows.drop(CATEGORY, strict=False)
            for category in lists_of(rows) if CATEGORY in by else ():
                found[f"{run}, {CATEGORY}={category}", criterion] = plain.filter(
                    in_list(rows, category)
                )
            found |= without_suspects((run, criterion), plain, suite)
    return {key: rows for key, rows in found.items() if rows.height}


def without_suspects(
    key: tuple[str, str], rows: pl.DataFrame, suite: Suite
) -> dict[tuple[str, str], pl.DataFrame]:
    """(``RUN, without suspects``, criterion) -> rows without these, of a suite that has some."""
    if suite.suspects is None:
        return {}
    sure = rows.join(suite.suspects, on=list(_PAIR), how="anti")
    return {(f"{key[0]}{WITHOUT}", key[1]): sure}


def rates_of_answers(
    answers: Mapping[tuple[str, str], pl.DataFrame], suite: Suite, bootstrap: int, seed: int
) -> dict[tuple[str, str], ContextRates]:
    """(run, criterion) -> how often the run answers yes, by context; captions, a share of yes.

    ``answers``: see ``answers_of_runs``.
    """
    rates = {}
    for key, rows in answers.items():
        rates[key] = replace(
            answer_rates(rows, bootstrap=bootstrap, seed=seed),
            of_tenths=suite.is_of_tenths,
            states_recall=suite.is_of_pairs,
            recognized=_recognized(rows),
        )
    return rates


def lists_of(said: pl.DataFrame) -> list[str]:
    """Names of the suite's lists of questions that answers are to; empty without any."""
    if CATEGORY not in said.columns:
        return []
    return said[CATEGORY].drop_nulls().str.split(",").explode().unique().sort().to_list()


def in_list(said: pl.DataFrame, name: str) -> pl.Series:
    """Mask of the answers to the questions of a list."""
    return said[CATEGORY].str.split(",").list.contains(name).fill_null(value=False)


def _recognized(rows: pl.DataFrame) -> list[str]:
    """POPE's own figures of each of its files: accuracy, precision, recall, F1 and the share of
    yes, as the least and the most that unknown answers leave open.
    """
    lines: list[str] = []
    if (rows["weight"] != 1).any():
        return lines
    for category in lists_of(rows):
        own = rows.filter(in_list(rows, category))
        truth = own["cell"].str.ends_with("positive").to_numpy()
        unknown, yes = own["unknown"].to_numpy(), own["yes"].to_numpy()
        ends = [_figures(np.where(unknown, truth == right, yes), truth) for right in (False, True)]
        shown = [
            f"{name} {_between(a, b)}"
            for (name, a), b in zip(ends[0].items(), ends[1].values(), strict=True)
        ]
        lines.append(f"POPE, {category}: {', '.join(shown)} ({len(own):,} questions)")
    return lines


def _figures(yes: NDArray[np.bool_], truth: NDArray[np.bool_]) -> dict[str, float]:
    hits, n_yes, n_true = (yes & truth).sum(), yes.sum(), truth.sum()
    return {
        "accuracy": (yes == truth).mean(),
        "precision": hits / max(n_yes, 1),
        "recall": hits / max(n_true, 1),
        "F1": 2 * hits / max(n_yes + n_true, 1),
        "yes": yes.mean(),
    }


def _between(least: float, most: float) -> str:
    ends = [f"{100 * end:.1f}" for end in sorted((least, most))]
    return f"{' to '.join(dict.fromkeys(ends))}%"


def answers_in(
    said: pl.DataFrame, cells: pl.DataFrame, thresholds: Mapping[str, float] | None = None
) -> pl.DataFrame:
    """Answers ``said`` of a run about the images and tasks of ``cells``, with their columns and
    ``yes``: Boolean, false where unknown; of captions the share of an image's that mention the
    task.
    """
    limits = pl.col("task").replace_strict(thresholds or {}, default=0.5, return_dtype=pl.Float64)
    mentions = "answer" not in said.columns
    yes = pl.col("value") if mentions else (pl.col("value") > limits).fill_null(value=False)
    ids = pl.col("image_id").cast(cells["image_id"].dtype, strict=False)
    return said.with_columns(ids, yes=yes).join(cells, on=_PAIR)


@dataclass(frozen=True, eq=False)
class AskedSample:
    """The part of a suite that predictions are for.

    Attributes:
        suite: with only the images that were asked about; the whole suite where all were.
        whole: the suite.
        weights: task -> ``image_id, weight`` of the images that were asked about; empty where all
            images of the suite have predictions.
        notes: how many images were asked about.
    """

    suite: Suite
    whole: Suite
    weights: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @classmethod
    def from_runs(cls, suite: Suite, runs: Sequence[Predictions], keys: Sequence[Key]) -> Self:
        """The sample that runs with ``weights`` are about; other runs are also scored on it. The
        whole suite if there is no such run.
        """
        if all(run.weights is None for run in runs):
            return cls(suite, suite)
        tasks = dict.fromkeys(task for _, task, _ in keys)
        of_tasks = {task: _common_sample(runs, task) for task in tasks}
        weights = {task: frame for task, frame in of_tasks.items() if frame is not None}
        sets: dict[tuple[str, ...], ChallengeSet] = {}
        for key in keys:
            challenge = suite.set(*key)
            if key[1] in weights:
                ids = weights[key[1]]["image_id"].cast(challenge.image_ids.dtype, strict=False)
                challenge = challenge.only(challenge.image_ids.is_in(ids.implode()).to_numpy())
            if len(challenge):
                sets[key] = challenge
        if not sets:
            raise InputError(
                "none of the questions is about an image of the sets that are scored",
                allowed=f"answers about {some_of(dict.fromkeys(split for _, _, split in keys))}",
            )
        header = msgspec.structs.replace(
            suite.header, sets=[*map(SetRecord.from_set, sets.values())]
        )
        notes = _about(suite, keys, weights) if weights else []
        return cls(suite.with_header(header, lambda *key: sets[key]), suite, weights, notes)

    def weights_of(self, challenge: ChallengeSet) -> NDArray[np.float64] | None:
        """Weights with mean 1 of the images of a set, float64 (n,); None of a task without."""
        if challenge.task not in self.weights:
            return None
        task_weights = self.weights[challenge.task]
        rows = positions(
            challenge.image_ids, task_weights["image_id"].cast(challenge.image_ids.dtype)
        )
        weights = task_weights["weight"].to_numpy()[rows]
        return np.asarray(weights / weights.mean())


def _about(suite: Suite, keys: Sequence[Key], weights: Mapping[str, pl.DataFrame]) -> list[str]:
    n_asked = n_other = 0
    for place in dict.fromkeys(key[1:] for key in keys if key[1] in weights):
        ids = suite.image_ids(key for key in keys if key[1:] == place)
        image_ids = weights[place[0]]["image_id"].cast(ids.dtype, strict=False)
        n_asked, n_other = n_asked + int(ids.is_in(image_ids.implode()).sum()), n_other + len(ids)
    unequal = any((frame["weight"] != 1).any() for frame in weights.values())
    more = ", weighted to the challenge sets" if unequal else ""
    part = f"all {n_other:,}" if n_asked == n_other else f"a sample of {n_asked:,} of {n_other:,}"
    return [f"asked about {part} images and tasks; only these are scored{more}"]


def _common_sample(runs: Sequence[Predictions], task: str) -> pl.DataFrame | None:
    """``image_id, weight`` of the images that runs were asked about; None: about none."""
    first: tuple[str, pl.DataFrame] | None = None
    for run in runs:
        if run.weights is None or task not in run.tasks:
            continue
        of_task = run.weights[run.tasks.index(task)]
        frame = pl.DataFrame({"image_id": run.image_ids, "weight": of_task})
        frame = frame.filter(pl.col("weight") > 0).sort("image_id")
        first = first or (run.run, frame)
        if not frame.equals(first[1]):
            problem = (
                f"runs {first[0]} and {run.run} were asked about different images, or with"
                " different weights"
            )
            raise InputError(problem, where=f"task {task}", remedy="evaluate them separately")
    return first[1] if first else None
