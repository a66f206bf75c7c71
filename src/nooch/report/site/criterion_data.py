"""What the page needs to apply a criterion again when its thresholds are moved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from nooch.criteria import FittedCE, FittedContext, FittedGist
from nooch.data import Dataset
from nooch.report.images.split_images import SplitImages
from nooch.report.images.task_views import UNKNOWN
from nooch.report.site.data_scripts import packed, sparse
from nooch.suites import SUBSETS, ChallengeSet, Suite

__all__ = [
    "MOST_CUES", "PageCues", "UnsetSupports", "context_presences", "criterion_parts", "fitted_of",
    "page_cues", "shown_criteria", "unset_supports",
]  # fmt: skip

T = TypeVar("T")
UnsetSupports = Mapping[str, NDArray[np.float64]]
"""Criterion -> float64 (n,)."""

MOST_CUES = 8
"""Classes of largest A whose areas the page gets, unless the suite's alpha takes more."""
_BY_HAND = "the cues of this task were given by hand"


@dataclass(frozen=True)
class PageCues:
    """Classes whose areas the page gets, strongest first, with A(C, Y) of each (None where
    unknown). Cues are complete for every alpha of at least ``bound``; ``fixed`` says why alpha
    chooses none.
    """

    names: tuple[str, ...]
    strengths: tuple[float | None, ...]
    bound: float = 0.0
    fixed: str | None = None


def page_cues(fitted: FittedCE, task: str) -> PageCues:
    """Which areas a task needs: those of the classes that could be cues, the strongest first as the
    criterion orders them.
    """
    if task in fitted.criterion.cues:
        names = fitted.cues(task)
        strengths = [fitted.strength(name, task) for name in names]
        known = tuple(value if np.isfinite(value) else None for value in strengths)
        return PageCues(names, known, 0.0, _BY_HAND)
    row = {name: fitted.strength(name, task) for name in fitted.classes if name != task}
    # alpha is 0 and more, so that what has no A above 0 is never a cue; sorting is stable, ties
    # keep the order of classes
    ordered = sorted((name for name, a in row.items() if a > 0), key=lambda name: -row[name])
    most = max(MOST_CUES, len(fitted.cues(task)))
    bound = row[ordered[most]] if len(ordered) > most else 0.0
    return PageCues(tuple(ordered[:most]), tuple(row[name] for name in ordered[:most]), bound)


def fitted_of(suite: Suite, criterion: str, kind: type[T]) -> T | None:
    """A criterion of the suite with its statistics, if it is of this kind and has them."""
    fitted = suite.header.criteria[criterion].restored()
    return fitted if isinstance(fitted, kind) else None


def shown_criteria(suite: Suite, data: Dataset | None) -> list[dict[str, Any]]:
    """For each criterion: name, kind, its parameters, what it matches or combines, and whether
    images are explained by it.
    """
    criteria = []
    for name, record in suite.header.criteria.items():
        shown: dict[str, Any] = {"name": name, "kind": record.kind}
        # counts of another suite do not move with what is on the page
        shown["match"] = record.match if record.match in suite.criteria else None
        shown["expression"] = record.expression
        keys = ("alpha", "beta", "tau", "embedding", "phi")
        shown |= {key: record.parameters.get(key) for key in keys}
        if isinstance(shown["tau"], Mapping):
            # by task: each task's thresholds are with its marks
            shown["tau"] = None
        embeddings = {} if data is None or record.fitted is None else data.embeddings
        shown["explained"] = shown["embedding"] in embeddings
        criteria.append(shown)
    return criteria


def criterion_parts(
    suite: Suite, task: str, images: SplitImages, unset: UnsetSupports
) -> tuple[dict[str, Any], dict[str, Any]]:
    """For each criterion what a task's page needs, and areas of classes by name.

    A criterion has ``marks`` (uint8, 0 hard positive, 1 hard negative, 2 easy, 255 no verdict) as
    in the suite, and what they follow from: ``cues``, or ``support``; or the ``reason`` why there
    is no set. ``unset`` are the supports of tasks without one.
    """
    parts: dict[str, Any] = {}
    areas: dict[str, Any] = {}
    for name in suite.criteria:
        cues = _cues(suite, name, task, images)
        part: dict[str, Any] = {"reason": None}
        if (name, task, images.split) in suite.keys:
            challenge = suite.set(name, task, images.split)
            part["marks"] = packed(images.spread(challenge, challenge.subset, UNKNOWN), "u1")
            part["thresholds"] = [challenge.positive.threshold, challenge.negative.threshold]
            if cues is None and challenge.support is not None:
                part["support"] = packed(images.spread(challenge, challenge.support, np.nan), "f8")
        else:
            skipped = [s for s in suite.header.skipped if (s.criterion, s.task) == (name, task)]
            part["reason"] = "; ".join(s.reason for s in skipped) or "it was not found"
            if name in unset:
                part["support"] = packed(unset[name], "f8")
        context = fitted_of(suite, name, FittedContext)
        if context is not None and images.data is not None and part["reason"] is None:
            one = context.regressions[task]
            weights = packed(np.ravel(one.weights), "f8")
            part["regression"] = {"rate": one.rate, "names": one.context, "weights": weights}
            part["regression"]["means"] = packed(one.means, "f8")
        if cues is not None and images.data is not None:
            listed = zip(cues.names, cues.strengths, strict=True)
            part["cues"] = [{"name": cue, "A": strength} for cue, strength in listed]
            part |= {"bound": cues.bound, "fixed": cues.fixed}
            areas |= {c: sparse(*images.data.rows_of(c)) for c in cues.names if c not in areas}
        parts[name] = part
    return parts, areas


def context_presences(suite: Suite, images: SplitImages) -> dict[str, Any]:
    """For each context criterion what is present in a split's images, for explanations: ``names``,
    and for each image where its ``columns`` start, and which regression is for it (``fold``).
    """
    found: dict[str, Any] = {}
    for name in suite.criteria:
        fitted = fitted_of(suite, name, FittedContext)
        if fitted is not None and images.data is not None:
            table = fitted.presences(images.data)
            starts, columns = (packed(one, "u4") for one in table.present)
            fold = packed(fitted.fold_of(images.data), "u1")
            one = {"names": table.names, "starts": starts, "columns": columns, "fold": fold}
            found[name] = one
    return found


def unset_supports(suite: Suite, images: SplitImages) -> Iterator[UnsetSupports]:
    """For each task its gist supports under criteria without a set of it, because the criterion
    that they match has none: with another alpha it has.
    """
    unset: dict[str, list[str]] = {}
    supports: dict[str, Iterator[NDArray[np.float64]]] = {}
    data = images.data
    for name in suite.criteria:
        fitted = fitted_of(suite, name, FittedGist)
        if fitted is None or data is None or fitted.criterion.embedding not in data.embeddings:
            continue
        tasks = [task for task in suite.tasks if (name, task, images.split) not in suite.keys]
        unset[name] = [task for task in tasks if fitted.undefined(task) is None]
        supports[name] = fitted.each_support(data, unset[name])
    for task in suite.tasks:
        yield {name: next(supports[name]) for name, tasks in unset.items() if task in tasks}


def _cues(suite: Suite, criterion: str, task: str, images: SplitImages) -> PageCues | None:
    """The page's cues, if the areas give exactly the supports of the suite."""
    fitted, data = fitted_of(suite, criterion, FittedCE), images.data
    # where areas are unknown (gaps), the supports themselves are sent
    if fitted is None or data is None or data.gaps is not None or not data.has_areas:
        return None
    # so they are where cues have their own betas
    if task in fitted.criterion.betas or not set(fitted.classes) <= set(data.classes):
        return None
    if (criterion, task, images.split) in suite.keys:
        challenge = suite.set(criterion, task, images.split)
        if not _agrees(challenge, fitted.support(data, task), images):
            return None
    return page_cues(fitted, task)


def _agrees(challenge: ChallengeSet, support: NDArray[np.float64], images: SplitImages) -> bool:
    if challenge.support is None or len(challenge) != len(images):
        return False
    low, high = challenge.positive.threshold, challenge.negative.threshold
    if low is None or high is None or not np.array_equal(challenge.support, support):
        return False
    hard = np.where(challenge.labels, support < low, support > high)
    return bool(np.array_equal(challenge.subset != SUBSETS.index("easy"), hard))
