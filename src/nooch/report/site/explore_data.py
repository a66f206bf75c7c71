"""Data of the pages Explore, to apply a criterion again, and Criteria, Figs. 3 and 10 to 14."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.base.words import unbroken
from nooch.criteria import FittedCE, FittedContext, FittedGist
from nooch.data import Dataset
from nooch.report.answer import ErrorFinding
from nooch.report.images.choice import UNKNOWN, TaskView, labels_of
from nooch.report.images.drawn_boxes import DrawnBoxes
from nooch.report.images.thumbnails import SplitImages
from nooch.suites import ChallengeSet, Suite
from nooch.suites.challenge_set import NO_CONTEXT
from nooch.suites.sweep import ALPHAS, BETAS, POOLED, TAUS, area_sums, hard_sums, sweep_thresholds

# what ends a script element or a line of a script in the middle of a text
_UNSAFE = {c.encode(): b"\\u%04x" % ord(c) for c in "<>&\u2028\u2029"}


def script(name: str, content: Any) -> bytes:
    """A script that gives the page JSON-like ``content``; no text in it can end the script."""
    text = msgspec.json.encode([name, content])
    for unsafe, escaped in _UNSAFE.items():
        text = text.replace(unsafe, escaped)
    return b"nooch.put.apply(null, %b);\n" % text


def packed(values: NDArray[Any] | Sequence[Any], kind: str) -> dict[str, str]:
    """Numbers (n,) as the little-endian bytes of an array of kind ``u1``, ``u4``, ``f4`` or ``f8``
    in base64, so that float64 stays exact.
    """
    array = np.ascontiguousarray(values, dtype=f"<{kind}")
    return {kind: b64encode(array.tobytes()).decode()}


def sparse(rows: NDArray[np.intp], values: NDArray[np.float64]) -> dict[str, dict[str, str]]:
    """Rows and float64 values; all others are 0."""
    return {"rows": packed(rows, "u4"), "values": packed(values, "f8")}


def finding_data(finding: ErrorFinding) -> dict[str, Any]:
    """Data of a finding for Explore: its sentence, it as Markdown, and rows of its images, errors
    first.
    """
    words = {"sentence": unbroken(finding.sentence), "markdown": finding.markdown}
    return {**words, "rows": packed(finding.rows, "u4"), "wrong": finding.n_wrong,
            "run": finding.run}  # fmt: skip


T = TypeVar("T")
UnsetSupports = Mapping[str, NDArray[np.float64]]
"""Criterion -> float64 (n,)."""

MOST_CUES = 8
"""Classes of largest A whose areas the page gets, unless the suite's alpha takes more."""
_BY_HAND = "the cues of this task were given by hand"


@dataclass(frozen=True)
class PageCues:
    """Classes whose areas the page gets, strongest first, with A(C, Y) of each (None where
    unknown). Cues are complete for every alpha of at least ``bound``; ``fixed`` explains why alpha
    chooses none.
    """

    names: tuple[str, ...]
    strengths: tuple[float | None, ...]
    bound: float = 0.0
    fixed: str | None = None


def page_cues(fitted: FittedCE, task: str) -> PageCues:
    """Areas that a task needs: of the classes that could be cues, in the criterion's order,
    strongest first.
    """
    if task in fitted.criterion.cues:
        names = fitted.cues(task)
        strengths = [fitted.strength(name, task) for name in names]
        values = tuple(value if np.isfinite(value) else None for value in strengths)
        return PageCues(names, values, 0.0, _BY_HAND)
    row = {name: fitted.strength(name, task) for name in fitted.classes if name != task}
    # alpha is at least 0, so that what has no A above 0 is never a cue; sorting is stable, ties
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
    in the suite, and what they follow from: ``cues``, or ``support``; or the ``reason`` for a
    missing set. ``unset`` are the supports of tasks without one.
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
            regression = context.regressions[task]
            weights = packed(regression.table().ravel(), "f8")
            part["regression"] = {
                "rate": regression.rate,
                "names": regression.context,
                "weights": weights,
            }
            part["regression"]["means"] = packed(regression.means, "f8")
            if context.criterion.columns:
                part["regression"]["words"] = [
                    [context.words(name, images.data, present=there) for there in (False, True)]
                    for name in regression.context
                ]
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
    entries: dict[str, Any] = {}
    for name in suite.criteria:
        fitted = fitted_of(suite, name, FittedContext)
        if fitted is not None and images.data is not None:
            table = fitted.presences(images.data)
            starts, columns = (packed(part, "u4") for part in table.present)
            fold = packed(fitted.fold_of(images.data), "u1")
            entries[name] = {
                "names": table.names, "starts": starts, "columns": columns, "fold": fold,
            }  # fmt: skip
    return entries


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
    if not set(fitted.classes) <= set(data.classes):
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
    return bool(np.array_equal(challenge.hard, hard))


BLOCK = 500
"""Images whose names and captions are in one file."""
_EXACT = 2**53 - 1
"""Larger integers are not numbers to a browser."""


def split_file(suite: Suite, images: SplitImages, pictures: NDArray[np.uint8]) -> bytes:
    """Ids of a split's images, which pictures of each there are, and what is their context."""
    ids: Sequence[Any] = images.ids.to_list()
    if any(isinstance(i, int) and abs(i) > _EXACT for i in ids):
        ids = [str(i) for i in ids]
    content = {"ids": ids, "pictures": packed(pictures, "u1"), "block": BLOCK}
    content["context"] = context_presences(suite, images)
    return script(f"split-{images.split}", content)


def about_images(images: SplitImages, block: int, shades: Mapping[int, Sequence[str]]) -> bytes:
    """File names, sizes and captions of a block of images, and their classes with shades."""
    part = slice(block * BLOCK, (block + 1) * BLOCK)
    content: dict[str, Any] = {"names": images.file_names[part], "captions": images.captions[part]}
    rows = range(part.start, part.stop)
    content["shades"] = {str(row): shades[row] for row in rows if row in shades}
    if images.data is not None:
        sizes = images.data.images.select("width", "height")[part]
        content |= {"widths": sizes["width"].to_list(), "heights": sizes["height"].to_list()}
    return script(f"images-{images.split}-{block}", content)


def task_file(
    suite: Suite,
    task: str,
    images: SplitImages,
    unset: UnsetSupports,
    losses: Mapping[str, Mapping[str, tuple[str, NDArray[np.float64]]]],
    boxes: Mapping[str, Mapping[int, DrawnBoxes]],
) -> bytes:
    """The script of a task and split; ``unset`` as ``unset_supports`` gives them, ``boxes`` of runs
    by row.
    """
    criteria, areas = criterion_parts(suite, task, images, unset)
    # each array once, however many criteria chose the same setting
    arrays: dict[str, NDArray[np.float64]] = {}
    for of_methods in losses.values():
        arrays |= dict(of_methods.values())
    place = {key: number for number, key in enumerate(arrays)}
    content: dict[str, Any] = {
        "task": task,
        "split": images.split,
        "n": len(images),
        "labels": packed(labels_of(suite, task, images), "u1"),
        "criteria": criteria,
        "areas": areas,
        "boxes": [
            {"run": run, "rows": {row: {**asdict(one), "words": one.words} for row, one in of}}
            for run, of in ((run, rows.items()) for run, rows in boxes.items())
        ],
        "losses": [packed(values, "f4") for values in arrays.values()],
        "methods": {
            c: {m: place[key] for m, (key, _) in by_method.items()}
            for c, by_method in losses.items()
        },
    }
    return script(f"task-{suite.tasks.index(task)}-{images.split}", content)


Floats = NDArray[np.float64]


def swept(suite: Suite, data: Dataset, embedding: str | None) -> dict[str, Any]:
    """Figs. 10 to 12: tasks by number of cues, shares over alpha and beta, counts over tau (of the
    gist criterion's embedding, if there is one), for the suite's tasks and splits.
    """
    grids: dict[str, Any] = {}
    if data.has_areas:
        grids |= {"alpha": ALPHAS, "beta": BETAS}
    if embedding is not None and embedding in data.embeddings:
        grids |= {"tau": TAUS, "embedding": embedding}
    if not grids or data.fitting_split not in data.splits or NO_CONTEXT in suite.criteria:
        return {}
    # a suite that was found although few images are annotated is shown with all of them
    sweep = sweep_thresholds(
        data, **grids, tasks=list(suite.tasks), splits=list(suite.splits), allow_unannotated=True
    )
    tables = {
        "cues": sweep.cues,
        "grid": sweep.grid.filter(task=POOLED),
        "tau": sweep.tau.filter(pl.col("task") != POOLED),
        "equal": sweep.equal,
    }
    return {name: table.to_dict(as_series=False) for name, table in tables.items()}


class ThresholdLosses:
    """Figs. 3, 13 and 14 of a method: its losses on hard images, added up task by task.

    Args:
        method: its name.
        part: the dataset of the split, or None.
        ce: name and statistics of the criterion of Fig. 13, or None.
        gist: the same for Fig. 14.
    """

    def __init__(
        self,
        method: str,
        part: Dataset | None,
        ce: tuple[str, FittedCE] | None,
        gist: tuple[str, FittedGist] | None,
    ) -> None:
        self._method, self._gist = method, gist
        self._part, self._ce = part, None if part is None or not part.has_areas else ce
        self._points: list[dict[str, Any]] = []
        self._by_area = np.zeros((len(ALPHAS) * len(BETAS), 2, 3))
        self._by_tau = np.zeros((len(TAUS), 2, 3))

    def add(self, view: TaskView) -> None:
        """Add the images of a task."""
        of_method = {
            criterion: losses[self._method]
            for criterion, losses in view.losses.items()
            if self._method in losses
        }
        for criterion, marks in view.marks.items():
            if criterion in of_method:
                self._points += _points(view, criterion, marks, of_method[criterion])
        alphas, betas, taus = np.array(ALPHAS), np.array(BETAS), np.array(TAUS)
        if self._ce is not None and self._part is not None and self._ce[0] in of_method:
            losses, fitted = of_method[self._ce[0]], self._ce[1]
            ce = replace(fitted.criterion, alpha=ALPHAS[0])
            least = FittedCE(ce, fitted.classes, fitted.state)
            sides = _sides(view, losses)
            self._by_area += area_sums(least, self._part, view.task, alphas, betas, sides, losses)
        if self._gist is not None and self._gist[0] in of_method and self._gist[0] in view.support:
            losses, support = of_method[self._gist[0]], view.support[self._gist[0]]
            self._by_tau += hard_sums(support, _sides(view, losses), taus, taus, losses)

    def content(self) -> dict[str, Any]:
        """``points`` of tasks: the mean loss on a side and on its hard images; ``by_alpha_beta``:
        for each side the mean loss on hard images of all tasks together, (n_alpha, n_beta), NaN if
        there is none; ``by_tau``: the same, (n_tau,).
        """
        parts: dict[str, Any] = {"points": self._points}
        if self._ce is not None:
            by_area = self._by_area.reshape(len(ALPHAS), len(BETAS), 2, 3)
            parts["by_alpha_beta"] = {"alpha": ALPHAS, "beta": BETAS, **_means(by_area)}
        if self._gist is not None:
            parts["by_tau"] = {"tau": TAUS, **_means(self._by_tau)}
        return parts


def _points(
    view: TaskView, criterion: str, marks: NDArray[np.uint8], losses: Floats
) -> list[dict[str, Any]]:
    points = []
    for side, label, code in (("positive", 1, 0), ("negative", 0, 1)):
        # images without a verdict count nowhere
        is_known = (view.labels == label) & (marks != UNKNOWN) & ~np.isnan(losses)
        hard = is_known & (marks == code)
        if hard.any():
            about = {"criterion": criterion, "task": view.task, "side": side}
            means = {"all": float(losses[is_known].mean()), "hard": float(losses[hard].mean())}
            counts = {"n": int(is_known.sum()), "n_hard": int(hard.sum())}
            points.append({**about, **means, **counts})
    return points


def _sides(view: TaskView, losses: Floats) -> NDArray[np.bool_]:
    """Positives and negatives with a loss, bool (2, n_images)."""
    return np.stack([view.labels == 1, view.labels == 0]) & ~np.isnan(losses)


def _means(total: Floats) -> dict[str, list[Any]]:
    hard, lost = total[..., 0], total[..., 2]
    means = np.divide(lost, hard, out=np.full(hard.shape, np.nan), where=hard > 0)
    return {side: means[..., place].tolist() for place, side in enumerate(("positive", "negative"))}
