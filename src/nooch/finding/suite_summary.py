"""A suite summarized: counts, cues, thresholds, overlap of criteria, and one image in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from nooch.challenge import SUBSETS, ChallengeSet, Suite, as_suite, load_suite
from nooch.criteria import FittedGist
from nooch.criteria.cue_stability import CueStability
from nooch.data import ANNOTATED, Dataset, ImageId, load_dataset, position_of
from nooch.errors import ParameterError, check_one_of, some_of
from nooch.files import Place
from nooch.finding.annotation_coverage import left_out
from nooch.metrics.pointwise import probabilities, said_positive

if TYPE_CHECKING:
    from nooch.evaluation import Predictions
    from nooch.evaluation.prediction_files import PredictionSource

__all__ = [
    "annotation_facts", "explain", "fit_left_out", "overlaps", "suite_with_dataset", "summary",
]  # fmt: skip


def summary(suite: Suite | str | Path, *, with_overlap: bool = True) -> dict[str, Any]:
    """What ``nooch show`` prints, JSON-like: dataset, criteria with cues, sets, overlap."""
    suite = as_suite(suite)
    header = suite.header
    criteria = {
        name: {
            "kind": record.kind,
            "parameters": record.parameters,
            "match": record.match,
            "expression": record.expression,
            "cues": {t: [{"cue": c, "A": a} for c, a in cues] for t, cues in record.cues.items()},
            **({"stability": _stability(record.stability)} if record.stability else {}),
            "left_out": {
                task: {"positives": missing, "of": positives}
                for task, (missing, positives) in fit_left_out(suite, name).items()
            },
        }
        for name, record in header.criteria.items()
    }
    facts = ("dataset", "tasks", "splits", "hard_only")
    return {
        **{name: msgspec.to_builtins(getattr(header, name)) for name in facts},
        "criteria": criteria,
        "sets": msgspec.to_builtins(header.sets),
        "skipped": msgspec.to_builtins(header.skipped),
        "overlap": overlaps(suite) if with_overlap else [],
    }


def _stability(of_tasks: dict[str, list[CueStability]]) -> dict[str, list[dict[str, Any]]]:
    return {
        task: [{**asdict(one), "near_alpha": one.near_alpha} for one in listed]
        for task, listed in of_tasks.items()
    }


def fit_left_out(suite: Suite, criterion: str) -> dict[str, tuple[int, int]]:
    """Task -> (training positives left out of the fit as unannotated, of how many), where any."""
    fitted = suite.header.criteria[criterion].restored()
    return {} if fitted is None else left_out({criterion: fitted}, suite.tasks)[criterion]


def annotation_facts(data: Dataset) -> dict[str, Any]:
    """What was annotated, JSON-like: images by kind, if recorded, and pairs stated one by one."""
    stated = np.zeros(0) if data.exceptions is None else data.exceptions.data
    return {
        "images": {
            name.removeprefix("annotated_"): int(data.images[name].sum())
            for name in ANNOTATED
            if name in data.images.columns
        },
        "unknown_pairs": int((stated < 0).sum()),
        "verified_pairs": int((stated > 0).sum()),
    }


def overlaps(suite: Suite | str | Path) -> list[dict[str, Any]]:
    """Shared hard images and Jaccard index of each task, split, side and pair of criteria."""
    suite = as_suite(suite)
    rows = []
    for task in suite.tasks:
        for split in suite.splits:
            present = [c for c in suite.criteria if (c, task, split) in suite.keys]
            for a, b in combinations(present, 2):
                pair = suite.set(a, task, split), suite.set(b, task, split)
                rows += [_overlap(*pair, side) for side in ("hard_positive", "hard_negative")]
    return rows


def _overlap(a: ChallengeSet, b: ChallengeSet, side: str) -> dict[str, Any]:
    first, second = set(a.ids(side)), set(b.ids(side))
    both, union = len(first & second), len(first | second)
    return {
        "task": a.task,
        "split": a.split,
        "side": side,
        "criteria": [a.criterion, b.criterion],
        "both": both,
        "only": [len(first) - both, len(second) - both],
        "jaccard": both / union if union else None,
    }


def suite_with_dataset(folder: str | Path, place: Place | None) -> tuple[Suite, Dataset | None]:
    """A suite, and its dataset: the one at ``place`` or, without it, the one that it records."""
    suite = load_suite(folder)
    return suite, suite.found_in() if place is None else load_dataset(place)


def explain(
    suite: Suite | str | Path,
    task: str,
    image_id: ImageId,
    data: Dataset | Place | str | None = None,
    criteria: Sequence[str] = (),
    predictions: PredictionSource = (),
) -> dict[str, Any]:
    """Why an image is hard, easy or neither for a task, criterion by criterion; and answers to it.

    Args:
        suite: the suite.
        task: one of its tasks.
        image_id: id of an image in one of its splits.
        data: the dataset, for cue areas and captions; without it, only the support is given.
        criteria: names; all of the suite's by default.
        predictions: as for ``nooch.evaluate``; none by default.

    Returns:
        ``image_id, task, split, label, verdicts`` (criterion, subset, support, threshold, text)
        and, with predictions, ``answers`` (run, probability, answer, error), null where unknown.

    Raises:
        ParameterError: the suite has no such task or image, or the dataset is another one.
        InputError: predictions that cannot be read.
    """
    suite = as_suite(suite)
    data = None if data is None else suite.require_dataset(data)
    verdicts, place = [], None
    for criterion in criteria or suite.criteria:
        located = _locate(suite, criterion, task, image_id)
        if located is not None:
            challenge, row = located
            place = (challenge.split, bool(challenge.labels[row]), challenge.image_ids[row])
        verdicts.append(_verdict(suite, criterion, task, located, data, image_id))
    known = data is not None and data.images["split"][data.row(image_id)] in suite.splits
    if place is None and not known:
        problem = f"image {image_id} is in none of the suite's {task} sets"
        if reasons := [s.reason for s in suite.header.skipped if s.task == task]:
            problem = f"{task} has no challenge set: {'; '.join(dict.fromkeys(reasons))}"
        raise ParameterError(problem, allowed=f"images of {', '.join(suite.splits)}")
    split, label, known_id = place or (None, _label(data, task, image_id), image_id)
    # only here: find and show print summaries, and start without the readers of predictions
    from nooch.evaluation import load_predictions

    runs = load_predictions(predictions, suite, data) if predictions else []
    answers = [_answer(run, task, image_id, label) for run in runs]
    return {
        "image_id": known_id,
        "task": task,
        "split": split,
        "label": label,
        "verdicts": verdicts,
        **({"answers": answers} if answers else {}),
    }


def _label(data: Dataset | None, task: str, image_id: ImageId) -> bool | None:
    """Whether the image has the task's class, as far as that is known."""
    if data is None:
        return None
    image = data.select(rows=np.array([data.row(image_id)]))
    return None if image.unknown_labels(task) is not None else bool(image.labels(task)[0])


def _answer(run: Predictions, task: str, image_id: ImageId, label: bool | None) -> dict[str, Any]:
    """What a run answered, and whether that is an error."""
    column = position_of(image_id, run.image_ids)
    nothing = dict.fromkeys(("probability", "answer", "error")) | {"run": run.run}
    if column is None or task not in run.tasks:
        return nothing
    value = run.values[[run.tasks.index(task)], column]
    if np.isnan(value[0]):
        return nothing
    answer = bool(said_positive(value, run.scale)[0])
    return {
        "run": run.run,
        "probability": float(probabilities(value, run.scale)[0]),
        "answer": answer,
        "error": None if label is None else answer != label,
    }


def _locate(
    suite: Suite, criterion: str, task: str, image_id: ImageId
) -> tuple[ChallengeSet, int] | None:
    """The set that has the image, and its row there."""
    check_one_of("criterion", criterion, suite.criteria, owner="the suite")
    check_one_of("task", task, suite.tasks, owner="the suite")
    for split in suite.splits:
        if (criterion, task, split) in suite.keys:
            challenge = suite.set(criterion, task, split)
            position = position_of(image_id, challenge.image_ids)
            if position is not None:
                return challenge, position
    return None


def _verdict(
    suite: Suite,
    criterion: str,
    task: str,
    located: tuple[ChallengeSet, int] | None,
    data: Dataset | None,
    image_id: ImageId,
) -> dict[str, Any]:
    subset, support, threshold = None, None, None
    if located is None:
        text = _no_verdict(suite, criterion, task, data, image_id)
    else:
        challenge, row = located
        label, subset = bool(challenge.labels[row]), SUBSETS[challenge.subset[row]]
        support = None if challenge.support is None else float(challenge.support[row])
        threshold = (challenge.positive if label else challenge.negative).threshold
        text = _rule(task, label, subset, support, threshold)
        fitted = suite.header.criteria[criterion].restored()
        embedding = fitted.criterion.embedding if isinstance(fitted, FittedGist) else None
        if data is not None and fitted is not None and embedding in (None, *data.embeddings):
            image = data.select(rows=np.array([data.row(image_id)]))
            text += f"; {fitted.explain(image, task)}"
    return {
        "criterion": criterion,
        "subset": subset,
        "support": support,
        "threshold": threshold,
        "text": text,
    }


def _no_verdict(
    suite: Suite, criterion: str, task: str, data: Dataset | None, image_id: ImageId
) -> str:
    """Why a criterion has no verdict on an image, such as what of it was not annotated."""
    for skipped in suite.header.skipped:
        if (skipped.criterion, skipped.task) == (criterion, task):
            return skipped.reason
    if data is not None:
        image = data.select(rows=np.array([data.row(image_id)]))
        if image.unknown_labels(task) is not None:
            return f"no verdict: it was not annotated whether there is {task}"
        cues = [cue for cue, _ in suite.header.criteria[criterion].cues.get(task, [])]
        if missing := [cue for cue in cues if image.unknown(cue) is not None]:
            return f"no verdict: it was not annotated how much {some_of(missing)} there is"
    if suite.header.hard_only:
        return "no verdict: the image is not hard, and the suite holds hard images alone"
    return "no verdict: the criterion has no notion of this image's context"


def _rule(
    task: str, label: bool, subset: str, support: float | None, threshold: float | None
) -> str:
    """The rule and its outcome, in one clause."""
    name = (
        subset.replace("_", " ")
        if subset != "easy"
        else f"easy {'positive' if label else 'negative'}"
    )
    if support is None or threshold is None:
        return name
    sign = "<" if support < threshold else ">" if support > threshold else "="
    usual = "hard positives lie below" if label else "hard negatives lie above"
    return (
        f"{name}: {task} is {'present' if label else 'absent'} and context support {support:.3g}"
        f" {sign} {threshold:.3g} ({usual})"
    )
