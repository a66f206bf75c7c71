"""One image in words: the verdict of each criterion, and the models' answers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nooch.base.calls import is_named
from nooch.base.errors import ParameterError, check_one_of, some_of
from nooch.base.words import counted
from nooch.criteria import Fitted, FittedGist
from nooch.criteria.by_name import custom_criterion, custom_fitted
from nooch.data import Dataset, ImageId, position_of
from nooch.evaluation.metrics.pointwise import probabilities, said_positive
from nooch.evaluation.numbered import check_of, findings_of_image
from nooch.suites.challenge_set import SUBSETS, ChallengeSet
from nooch.suites.suite import Suite
from nooch.suites.suite_folder import as_suite

if TYPE_CHECKING:
    from nooch.evaluation import Predictions
    from nooch.evaluation.prediction_files import PredictionSource


def explain(
    suite: Suite | str | Path,
    task: str,
    image_id: ImageId,
    data: Dataset | str | Path | None = None,
    criteria: Sequence[str] = (),
    predictions: PredictionSource = (),
) -> dict[str, Any]:
    """Explain why an image is hard, easy or neither for a task, per criterion, with the models'
    answers.

    Args:
        suite: the suite.
        task: one of its tasks.
        image_id: id of an image in one of its splits.
        data: the dataset, for cue areas and captions; without it, only the support is given.
        criteria: names of criteria; by default all of the suite. A custom criterion explains itself
            only if it is named here as ``package.module:Name``, which is imported.
        predictions: as for ``nooch.evaluate``; none by default.

    Returns:
        ``image_id, task, split, label, verdicts`` (criterion, subset, support, threshold, text)
        and, with predictions, ``answers`` (run, probability, answer, error), null where unknown;
        of a check's suite also ``findings`` that the image is in (number, kind, sentence, task,
        run, wrong).

    Raises:
        ParameterError: the suite has no such task, image or criterion, or the dataset is another
            one; or a custom criterion cannot be imported or does not name its ``fitted``.
        InputError: predictions that cannot be read.

    Examples:
        >>> nooch.explain("suite", "car", 41)["verdicts"][0]["text"]
        'easy negative: context support 0 < 0.1 (hard negatives lie above)'
    """
    suite = as_suite(suite)
    data = None if data is None else suite.require_dataset(data)
    verdicts, place = [], None
    for name in criteria or suite.criteria:
        criterion, fitted = _fitted(suite, name, imports=bool(criteria))
        located = _locate(suite, criterion, task, image_id)
        if located is not None:
            challenge, row = located
            place = (challenge.split, bool(challenge.labels[row]), challenge.image_ids[row])
        verdicts.append(_verdict(suite, criterion, fitted, task, located, data, image_id))
    in_suite = data is not None and data.images["split"][data.row(image_id)] in suite.splits
    if place is None and not in_suite:
        problem = f"image {image_id} is in none of the suite's {task} sets"
        reasons = [s.reason for s in suite.header.skipped if s.task == task]
        if reasons and all(of_task != task for _, of_task, _ in suite.keys):
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
        **({"findings": findings_of_image(suite, known_id)} if check_of(suite) else {}),
    }


def _label(data: Dataset | None, task: str, image_id: ImageId) -> bool | None:
    """True if the image is known to have the task's class."""
    if data is None:
        return None
    image = data.select(rows=np.array([data.row(image_id)]))
    return None if image.unknown_labels(task) is not None else bool(image.labels(task)[0])


def _answer(run: Predictions, task: str, image_id: ImageId, label: bool | None) -> dict[str, Any]:
    """A run's answer, and whether it is an error."""
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


def _fitted(suite: Suite, name: str, *, imports: bool) -> tuple[str, Fitted | None]:
    """The suite's name of a criterion, and the criterion if it is known or may be imported."""
    criteria = suite.header.criteria
    custom = imports and is_named(name)
    if custom and name not in criteria:
        kind = getattr(custom_criterion(name), "kind", None)
        called = next((own for own, record in criteria.items() if record.kind == kind), name)
    else:
        called = name
    check_one_of("criterion", called, criteria, owner="the suite")
    record = criteria[called]
    return called, custom_fitted(name, record.fitted) if custom else record.restored()


def _verdict(
    suite: Suite,
    criterion: str,
    fitted: Fitted | None,
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
        text = _rule(label, subset, support, threshold)
        combined = suite.header.criteria[criterion].expression is not None
        if support is None and fitted is None and not combined:
            text += f"; {_set_alone(suite, challenge, label)}"
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


def _set_alone(suite: Suite, challenge: ChallengeSet, label: bool) -> str:
    """The entry of an image in a set whose criterion is not known here."""
    if suite.header.criteria[challenge.criterion].fitted is not None:
        return "name the custom criterion (package.module:Name) for its own explanation"
    side = "hard positive" if label else "hard negative"
    count = len(challenge.ids(side.replace(" ", "_")))
    return (
        f"{challenge.split} lists {counted(count, side)} of {challenge.task}, without support or"
        " cues: this suite was imported"
    )


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
            return f"no verdict: {task} was not annotated"
        cues = [cue for cue, _ in suite.header.criteria[criterion].cues.get(task, [])]
        # a condition on columns is not a class
        cues = [cue for cue in cues if cue in image.classes]
        if missing := [cue for cue in cues if image.unknown(cue) is not None]:
            return f"no verdict: the area of {some_of(missing)} was not annotated"
    if suite.header.hard_only:
        return "no verdict: the image is not hard, and the suite contains only hard images"
    return "no verdict: the criterion cannot judge this image's context"


def _rule(label: bool, subset: str, support: float | None, threshold: float | None) -> str:
    """The outcome, and the rule."""
    name = (
        subset.replace("_", " ")
        if subset != "easy"
        else f"easy {'positive' if label else 'negative'}"
    )
    if support is None or threshold is None:
        return name
    sign = "<" if support < threshold else ">" if support > threshold else "="
    usual = "hard positives lie below" if label else "hard negatives lie above"
    return f"{name}: context support {support:.3g} {sign} {threshold:.3g} ({usual})"
