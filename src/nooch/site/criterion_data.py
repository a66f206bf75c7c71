"""What the page needs to apply a criterion anew when its thresholds are moved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nooch.challenge import SUBSETS, ChallengeSet, Suite
from nooch.criteria import FittedCE, FittedGist, fitted_from_json
from nooch.data import Dataset
from nooch.examples.split_images import SplitImages
from nooch.site.data_scripts import packed, sparse

__all__ = [
    "MOST_CUES",
    "Travelling",
    "criterion_parts",
    "fitted_ce",
    "shown_criteria",
    "travelling",
]

MOST_CUES = 8
"""Classes of largest A whose areas travel with the site, unless the suite's own alpha takes more.
"""
_NONE = 255
_BY_HAND = "the cues of this task were given by hand"


@dataclass(frozen=True)
class Travelling:
    """Classes whose areas travel, strongest first.

    Attributes:
        names: classes.
        strengths: A(C, Y) of each; None where it is unknown.
        bound: cues are complete for every alpha of at least this.
        fixed: why alpha chooses no cues, or None where it does.
    """

    names: tuple[str, ...]
    strengths: tuple[float | None, ...]
    bound: float = 0.0
    fixed: str | None = None


def travelling(fitted: FittedCE, task: str) -> Travelling:
    """Which areas a task needs: those of the classes that could be cues, the strongest first as the
    criterion orders them.
    """
    given = fitted.criterion.cues.get(task)
    if given is not None:
        names = fitted.cues(task)
        return Travelling(
            names, tuple(_known(fitted.strength(name, task)) for name in names), 0.0, _BY_HAND
        )
    row = {name: fitted.strength(name, task) for name in fitted.classes if name != task}
    # alpha is 0 and more, so that what has no A above 0 is never a cue; sorting is stable, ties
    # keep the order of classes
    ordered = sorted(
        (name for name, value in row.items() if value > 0), key=lambda name: -row[name]
    )
    most = max(MOST_CUES, len(fitted.cues(task)))
    bound = row[ordered[most]] if len(ordered) > most else 0.0
    names = tuple(ordered[:most])
    return Travelling(names, tuple(row[name] for name in names), bound)


def _known(value: float) -> float | None:
    return value if np.isfinite(value) else None


def fitted_ce(suite: Suite, criterion: str) -> FittedCE | None:
    """The fitted CE criterion of that name, or None where it is of another kind or was not kept."""
    record = suite.header.criteria[criterion]
    if record.kind != "ce" or record.fitted is None:
        return None
    fitted = fitted_from_json(record.kind, record.fitted)
    return fitted if isinstance(fitted, FittedCE) else None


def shown_criteria(suite: Suite, data: Dataset | None) -> list[dict[str, Any]]:
    """For each criterion: name, kind, its own parameters, what it matches or combines, and whether
    images are explained by it.
    """
    found = []
    for name, record in suite.header.criteria.items():
        own = {
            key: record.parameters.get(key) for key in ("alpha", "beta", "tau", "embedding", "phi")
        }
        if isinstance(own["tau"], Mapping):
            # by task: each task's thresholds travel with its marks
            own["tau"] = None
        about = {
            "name": name,
            "kind": record.kind,
            "match": record.match,
            "expression": record.expression,
        }
        explained = (
            data is not None and record.fitted is not None and own["embedding"] in data.embeddings
        )
        found.append({**about, **own, "explained": explained})
    return found


def criterion_parts(
    suite: Suite, task: str, images: SplitImages
) -> tuple[dict[str, Any], dict[str, Any]]:
    """For each criterion what a task's page needs, and areas of classes by name.

    A criterion has ``marks`` (uint8, 0 hard positive, 1 hard negative, 2 easy, 255 no verdict) as
    the suite says, and what they follow from: ``cues``, or ``support``; or the ``reason`` why there
    is no set.
    """
    parts: dict[str, Any] = {}
    areas: dict[str, Any] = {}
    for name in suite.criteria:
        cues = _cues(suite, name, task, images)
        part: dict[str, Any] = {"reason": _reason(suite, name, task, images.split)}
        if (name, task, images.split) in suite.keys:
            challenge = suite.set(name, task, images.split)
            part["marks"] = packed(images.spread(challenge, challenge.subset, _NONE), "u1")
            part["thresholds"] = [challenge.positive.threshold, challenge.negative.threshold]
            if cues is None and challenge.support is not None:
                part["support"] = packed(images.spread(challenge, challenge.support, np.nan), "f8")
        elif (support := _gist(suite, name, task, images)) is not None:
            part["support"] = packed(support, "f8")
        if cues is not None:
            part["cues"] = [
                {"name": c, "A": a} for c, a in zip(cues.names, cues.strengths, strict=True)
            ]
            part |= {"bound": cues.bound, "fixed": cues.fixed}
            areas |= {c: _area(images, c) for c in cues.names if c not in areas}
        parts[name] = part
    return parts, areas


def _gist(
    suite: Suite, criterion: str, task: str, images: SplitImages
) -> NDArray[np.float64] | None:
    """Support of a task that has no set only because the criterion that it matches has none: with
    another alpha it has.
    """
    record, data = suite.header.criteria[criterion], images.data
    if (
        record.kind != "gist"
        or record.fitted is None
        or data is None
        or record.fitted["embedding"] not in data.embeddings
    ):
        return None
    fitted = fitted_from_json(record.kind, record.fitted)
    if not isinstance(fitted, FittedGist) or fitted.undefined(task) is not None:
        return None
    return fitted.support(data, task)


def _area(images: SplitImages, name: str) -> dict[str, dict[str, str]]:
    assert images.data is not None  # noqa: S101 - there are no cues without a dataset
    return sparse(*images.data.rows_of(name))


def _reason(suite: Suite, criterion: str, task: str, split: str) -> str | None:
    if (criterion, task, split) in suite.keys:
        return None
    reasons = [s.reason for s in suite.header.skipped if (s.criterion, s.task) == (criterion, task)]
    return "; ".join(reasons) or "it was not found"


def _cues(suite: Suite, criterion: str, task: str, images: SplitImages) -> Travelling | None:
    """What travels, where the areas give exactly the support that the suite has; None otherwise."""
    fitted = fitted_ce(suite, criterion)
    data = images.data
    if (
        fitted is None
        or data is None
        or not data.has_areas
        or any(c not in data.classes for c in fitted.classes)
    ):
        return None
    if data.gaps is not None:
        # areas travel without what is unknown: the supports themselves are sent
        return None
    if (criterion, task, images.split) in suite.keys:
        challenge = suite.set(criterion, task, images.split)
        if not _agrees(challenge, fitted.support(data, task), images):
            return None
    return travelling(fitted, task)


def _agrees(challenge: ChallengeSet, support: NDArray[np.float64], images: SplitImages) -> bool:
    if challenge.support is None or len(challenge) != len(images):
        return False
    low, high = challenge.positive.threshold, challenge.negative.threshold
    if low is None or high is None or not np.array_equal(challenge.support, support):
        return False
    hard = np.where(challenge.labels, support < low, support > high)
    return bool(np.array_equal(challenge.subset != SUBSETS.index("easy"), hard))
