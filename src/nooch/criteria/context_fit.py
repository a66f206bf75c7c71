"""A fit of the context criterion: the classes that are context of a task, and its regression."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from nooch.base.errors import Command, InputError, some_of
from nooch.base.limits import limited_threads, usable_cpus
from nooch.criteria.presences import Presences
from nooch.criteria.row_regressions import DistinctRows, distinct_rows
from nooch.data import Dataset

_IMPLIES, _LEAST, _PARENT = 0.99, 20, 0.95
_MOST_TASKS, _MOST_ENTRIES = 48, 1 << 21
"""Tasks fitted at once, and numbers in one of their arrays."""
_MOST_WEIGHTS = 10_000_000
"""Weights of all tasks' regressions: some 0.5 GB in memory, 200 MB in the suite."""
_COMMON, _STRONG, _MOST_CUES = 0.1, 3.0, 5
"""Cues: in a tenth of the images with the class, with an odds ratio of 3; five at most."""

Names = Sequence[str] | Mapping[str, Sequence[str]]
"""Classes for all tasks, or task -> classes."""


class Regression(msgspec.Struct, frozen=True):
    """Context that predicts a class, and how strongly.

    Attributes:
        rate: share of the fitted images that have the class; ``images`` is their number.
        context: classes (or values of attributes) that speak for or against it.
        weights: float64, a row per regression of (intercept, weights of ``context``): of all
            images, then of those outside each fold; None where these have only one label.
        unfitted: why there is a None in ``weights``: no set of images that were fitted.
        means: share of the fitted images that have each of ``context``.
        left_out: class -> why it is not a context, such as ``implies car``.
        parents: classes in nearly all images that have the class.
        cues: classes of ``context`` that come with the class most, with their odds ratios: how many
            times as large the odds of the cue are where the class is present as where it is absent.
        problem: why there is no regression, or None.
        unannotated: images left out since something in them was not annotated.
    """

    rate: float
    images: int
    context: list[str] = []
    weights: list[list[float] | None] = []
    means: list[float] = []
    left_out: dict[str, str] = {}
    parents: list[str] = []
    cues: dict[str, float] = {}
    problem: str | None = None
    unannotated: int = 0
    unfitted: str | None = None

    def table(self) -> NDArray[np.float64]:
        """``weights``, (1 + n_folds, 1 + n_context); NaN in the row of an unfitted fold."""
        none = [np.nan] * (1 + len(self.context))
        return np.array([none if row is None else row for row in self.weights])


def no_context(data: Dataset) -> InputError | None:
    """Why the labels of a dataset's training images are not context of each other; None: they are.

    There is one class, or they exclude each other. Without a label nothing is known of that: of
    each task it is a reason that no training image has the class.
    """
    split = data.fitting_split
    train = data.select(split) if split in data.splits else data
    return _no_context(Presences.from_dataset(train), len(data.classes))


def _no_context(state: Presences, n_classes: int) -> InputError | None:
    per_image = np.diff(state.present[0])
    if not per_image.any():
        return None
    if n_classes == 1:
        problem = f"{state.names[0]} is the only class, so no other label is its context"
    elif (per_image[per_image > 0] <= 1).mean() >= _IMPLIES:
        problem = "labels exclude each other: an image has one, and none is context of another"
    else:
        return None
    return InputError(
        problem,
        where="context",
        allowed="images with several labels",
        remedy="import more labels per image; or take attribute columns as the context: {}; or"
        " predict areas of road, grass or sea: {}",
        give=({"columns": ["all"]}, Command("annotate")),
    )


def check_size(n_tasks: int, n_names: int, folds: int) -> None:
    """Raise InputError if tasks and classes do not fit into memory."""
    weights = n_tasks * n_names * (1 + folds)
    if weights > _MOST_WEIGHTS:
        raise InputError(
            f"{n_tasks:,} tasks with {n_names:,} classes or values as their context"
            f" have {weights:,} weights",
            where="context",
            allowed=f"{_MOST_WEIGHTS:,}",
            remedy="{}, those that matter",
            give={"tasks": ...},
        )


@dataclass
class _Draft:
    """A task's regression without its weights; ``problem`` if there is none.

    Attributes:
        context: columns of ``Table.x`` that are its context.
        used: images that are fitted, bool (n_images,), and ``positive``: those with the class.
        counts: of the used images with each row, float64 (2, n_rows): all, and those positive.
    """

    regression: Regression
    context: NDArray[np.intp]
    used: NDArray[np.bool_]
    positive: NDArray[np.bool_]
    counts: NDArray[np.float64]


class Table:
    """The training images' presences, and the regressions of tasks on them."""

    def __init__(
        self,
        state: Presences,
        n_classes: int,
        *,
        of_columns: bool,
        exclude: Names,
        include: Names,
        folds: int,
    ) -> None:
        self.state, self.of_columns, self.folds = state, of_columns, folds
        self.exclude, self.include = exclude, include
        self.by_column = state.matrix.tocsc()
        known = 2 * state.unknown_images() <= len(state)
        self.unknown = [
            name for name, is_known in zip(state.names, known, strict=True) if not is_known
        ]
        if not of_columns and (error := _no_context(state, n_classes)):
            raise error
        # columns from here on may be context: ``x`` has these, and the distinct rows of images
        self.first = n_classes if of_columns else 0
        self.known, self.names = known[self.first :], state.names[self.first :]
        x = state.matrix[:, self.first :]
        rows, self.row_of = distinct_rows(x)
        self.x = x[rows]
        self.rows = DistinctRows(self.x)
        of_fold = state.units % np.uint64(max(1, folds))
        self.images = [np.flatnonzero(of_fold == fold) for fold in range(folds)]

    def regressions(self, tasks: Sequence[str]) -> dict[str, Regression]:
        """The regression of each task, or why there is none."""
        most = max(1, min(_MOST_TASKS, _MOST_ENTRIES // max(self.x.shape[0], self.rows.size**2)))
        size = min(most, -(-len(tasks) // usable_cpus()))
        blocks = [tasks[start : start + size] for start in range(0, len(tasks), size)]
        # blocks take turns with Python code: threads of BLAS would only wait
        with limited_threads(1), ThreadPoolExecutor(usable_cpus()) as pool:
            found = [one for block in pool.map(self._fitted, blocks) for one in block]
        return dict(zip(tasks, found, strict=True))

    def _fitted(self, tasks: Sequence[str]) -> list[Regression]:
        drafts = [self._draft(task) for task in tasks]
        able = [draft for draft in drafts if draft.regression.problem is None]
        if able:
            self._fit(able)
        return [draft.regression for draft in drafts]

    def _fit(self, drafts: Sequence[_Draft]) -> None:
        """Add the weights: of all images, then of those outside each fold."""
        free = np.zeros((len(self.names), len(drafts)), bool)
        for number, draft in enumerate(drafts):
            free[draft.context, number] = True
        n, k = all_images = np.stack([draft.counts for draft in drafts], axis=2)
        whole = self.rows.fit(n, k, free)
        fits, lacks = [whole], [np.zeros(len(drafts), bool)]
        for images in self.images:
            of_fold = [self._counts(draft.used, draft.positive, images) for draft in drafts]
            n, k = all_images - np.stack(of_fold, axis=2)
            positives = k.sum(axis=0)
            both = (positives > 0) & (positives < n.sum(axis=0))
            fits.append(np.full(whole.shape, np.nan))
            lacks.append(~both)
            if both.any():
                fits[-1][:, both] = self.rows.fit(
                    *(np.compress(both, values, axis=1) for values in (n, k, free, whole))
                )
        for number, draft in enumerate(drafts):
            columns = [0, *(1 + draft.context)]
            lack = [bool(of_tasks[number]) for of_tasks in lacks]
            draft.regression = msgspec.structs.replace(
                draft.regression,
                weights=[
                    None if is_lack else of_tasks[columns, number].tolist()
                    for of_tasks, is_lack in zip(fits, lack, strict=True)
                ],
                unfitted=self._one_label(draft, lack.index(True) - 1) if any(lack) else None,
            )

    def _counts(
        self,
        used: NDArray[np.bool_],
        positive: NDArray[np.bool_],
        images: NDArray[np.intp] | slice = slice(None),
    ) -> NDArray[np.float64]:
        """Number of these images with each row, and of the positive ones, float64 (2, n_rows)."""
        rows, used = self.row_of[images], used[images]
        kinds = (rows[used], rows[used & positive[images]])
        return np.array([np.bincount(kind, minlength=self.x.shape[0]) for kind in kinds], float)

    def _draft(self, task: str) -> _Draft:
        column = self.state.names.index(task)
        positive = np.zeros(len(self.state), bool)
        positive[self.by_column.indices[slice(*self.by_column.indptr[column : column + 2])]] = True
        used = ~self.state.is_unknown(column)
        counts = self._counts(used, positive)
        context, left_out, parents = self._context(task, counts)
        # 1 where something that is context is unknown in the image
        complete = self.state.unknowns(self.first + context) == 0
        if not complete.all():
            used &= complete
            counts = self._counts(used, positive)
        n, k = counts.sum(axis=1).tolist()
        fitted = Regression(
            k / n if n else 0.0,
            int(n),
            left_out=left_out,
            parents=parents,
            unannotated=len(self.state) - int(n),
        )
        problem = None
        if k in (0, n):
            problem = f"{'all' if k else 'no'} training images have the class"
        elif not len(context):
            why = some_of([f"{name} ({reason})" for name, reason in left_out.items()], 3)
            problem = f"no other class is context of it{f': {why}' if left_out else ''}"
        if problem is not None:
            fitted = msgspec.structs.replace(fitted, problem=problem)
        else:
            present, with_class = (counts @ self.x)[:, context]
            fitted = msgspec.structs.replace(
                fitted,
                context=[self.names[number] for number in context],
                means=(present / n).tolist(),
                cues=self._cues(context, present, with_class, n, k),
            )
        return _Draft(fitted, context, used, positive, counts)

    def _one_label(self, draft: _Draft, fold: int) -> str:
        """Why there is no regression on the images outside a fold."""
        n, k = draft.counts.sum(axis=1).astype(int).tolist()
        own, positives = self._counts(draft.used, draft.positive, self.images[fold]).sum(axis=1)
        which, count = ("with", k) if positives == k else ("without", n - k)
        return (
            f"one of {self.folds} folds has all training images {which} the class ({count}), so"
            f" that its {int(own):,} images have no regression on the others"
        )

    def _cues(
        self,
        context: NDArray[np.intp],
        present: NDArray[np.float64],
        with_class: NDArray[np.float64],
        n: float,
        k: float,
    ) -> dict[str, float]:
        """Context that is common in images with the class, and of a large odds ratio with it."""
        # half an image more on either side: odds of 0 or 1 have no finite ratio
        counts = np.stack([present - with_class, with_class])
        shares = (counts + 0.5) / (np.array([[n - k], [k]]) + 1)
        odds = shares / (1 - shares)
        ratio = odds[1] / odds[0]
        # what never comes with a class of few images has a share only by that half
        strong = np.flatnonzero((with_class > 0) & (shares[1] >= _COMMON) & (ratio >= _STRONG))
        order = np.argsort((shares[0] - shares[1])[strong], kind="stable")[:_MOST_CUES]
        return {self.names[context[column]]: float(ratio[column]) for column in strong[order]}

    def _context(
        self, task: str, images: NDArray[np.float64]
    ) -> tuple[NDArray[np.intp], dict[str, str], list[str]]:
        """Columns that are context of a task, why others are not, and what may be its parents;
        ``images`` are counts of its labeled ones, as ``_counts`` gives them.
        """
        names, (n, n_positive) = self.names, images.sum(axis=1)
        counts, both = images @ self.x
        candidate = self.known.copy()
        if not self.of_columns:
            candidate[names.index(task)] = False
        # a constant has no information; a column that stands for unknown values is also one
        told = candidate & (counts > 0) & (counts < n)
        with np.errstate(invalid="ignore", divide="ignore"):
            given, without = both / counts, (n_positive - both) / (n - counts)
        labels = told & (not self.of_columns)
        implies = labels & (counts >= _LEAST) & (given >= _IMPLIES)
        opposite = labels & (n - counts >= _LEAST) & (given <= 1 - _IMPLIES) & (without >= _IMPLIES)
        reasons = dict.fromkeys(np.flatnonzero(implies).tolist(), f"implies {task}")
        reasons |= dict.fromkeys(
            np.flatnonzero(opposite).tolist(), f"implies that {task} is absent"
        )
        for name in self._named(self.include, task):
            reasons.pop(names.index(name), None)
        excluded = [names.index(name) for name in self._named(self.exclude, task)]
        reasons |= dict.fromkeys(excluded, "excluded")
        told[[*reasons]] = False
        parents = told & (n_positive >= _LEAST) & (both >= _PARENT * n_positive) & (2 * counts < n)
        # a null value of an attribute makes the whole attribute unknown
        markers = candidate & (counts == 0) & self.of_columns
        context = np.flatnonzero(told | markers)
        left_out = {
            names[number]: reasons[number] for number in sorted(reasons) if candidate[number]
        }
        return context, left_out, [names[number] for number in np.flatnonzero(parents)]

    def _named(self, given: Names, task: str) -> Sequence[str]:
        of_task = given.get(task, ()) if isinstance(given, Mapping) else given
        return [name for name in of_task if name in self.names]


class SavedContext(msgspec.Struct):
    """A fitted context criterion as in a suite's JSON; ``source``: only of older suites."""

    lift: float | None
    tau: float | dict[str, tuple[float, float] | None] | None
    unknown: list[str]
    regressions: dict[str, Regression]
    source: Literal["labels", "columns"] = "labels"
    exclude: list[str] | dict[str, list[str]] = []
    include: list[str] | dict[str, list[str]] = []
    folds: int = 0
    group: str = ""
    columns: list[str] = []
