"""A fit of the context criterion: the classes that are context of a task, and its regression."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from nooch.base.errors import Command, InputError, some_of
from nooch.criteria.presences import LABELS, Presences
from nooch.data import Dataset

_IMPLIES, _LEAST, _PARENT = 0.99, 20, 0.95
_DENSE = 2000
"""Columns whose Hessian (32 MB) is solved exactly; with more, L-BFGS is used."""
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
        give=({"source": "columns"}, Command("annotate")),
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


class Table:
    """The training images' presences, and the regression of any task on them."""

    def __init__(
        self,
        state: Presences,
        n_classes: int,
        *,
        source: str,
        exclude: Names,
        include: Names,
        folds: int,
    ) -> None:
        self.state, self.n_classes, self.source, self.folds = state, n_classes, source, folds
        self.exclude, self.include = exclude, include
        self.matrix = state.matrix
        self.by_column = self.matrix.tocsc()
        self.known = 2 * state.unknown_images() <= len(state)
        self.unknown = [
            name for name, is_known in zip(state.names, self.known, strict=True) if not is_known
        ]
        if source == LABELS and (error := _no_context(state, n_classes)):
            raise error

    def regression(self, task: str) -> Regression:
        """The regression of a task, or why there is none."""
        column = self.state.names.index(task)
        labeled = np.flatnonzero(~self.state.is_unknown(column))
        positive = np.zeros(len(self.state), bool)
        positive[self.by_column.indices[slice(*self.by_column.indptr[column : column + 2])]] = True
        context, left_out, parents = self._context(column, positive, labeled)
        # 1 where something that is context is unknown in the image
        complete = self.state.unknowns(context)[labeled] == 0
        rows, y = labeled[complete], positive[labeled[complete]]
        fitted = Regression(
            float(y.mean()) if len(y) else 0.0,
            len(y),
            left_out=left_out,
            parents=parents,
            unannotated=len(self.state) - len(y),
        )
        problem = None
        if not len(y) or y.all() or not y.any():
            problem = f"{'all' if len(y) and y.all() else 'no'} training images have the class"
        elif not len(context):
            why = some_of([f"{name} ({reason})" for name, reason in left_out.items()], 3)
            problem = f"no other class is context of it{f': {why}' if left_out else ''}"
        if problem is not None:
            return msgspec.structs.replace(fitted, problem=problem)
        folds = self.state.units[rows] % np.uint64(max(1, self.folds))
        parts = [np.arange(len(y)), *(np.flatnonzero(folds != f) for f in range(self.folds))]
        x, lacks = self.matrix[rows][:, context], [self._one_label(y, part) for part in parts]
        return msgspec.structs.replace(
            fitted,
            context=[self.state.names[number] for number in context],
            weights=[
                None if lack else logistic_regression(x[part], y[part]).tolist()
                for part, lack in zip(parts, lacks, strict=True)
            ],
            unfitted=next(filter(None, lacks), None),
            means=np.asarray(x.mean(axis=0)).ravel().tolist(),
            cues=self._cues(context, x, y),
        )

    def _one_label(self, y: NDArray[np.bool_], others: NDArray[np.intp]) -> str | None:
        """Why there is no regression on the images outside a fold; None where both labels are."""
        positives = int(y[others].sum())
        if 0 < positives < len(others):
            return None
        which = "without" if positives else "with"
        return (
            f"one of {self.folds} folds has all training images {which} the class"
            f" ({int((y != bool(positives)).sum())}), so that its {len(y) - len(others):,} images"
            " have no regression on the others"
        )

    def _cues(
        self, context: NDArray[np.intp], x: csr_array, y: NDArray[np.bool_]
    ) -> dict[str, float]:
        """Context that is common in images with the class, and of a large odds ratio with it."""
        n, counts = np.array([[len(y) - y.sum()], [y.sum()]]), x.sum(axis=0)
        of_y = y.astype(np.float64) @ x
        # half an image more on either side: odds of 0 or 1 have no finite ratio
        shares = (np.stack([counts - of_y, of_y]) + 0.5) / (n + 1)
        odds = shares / (1 - shares)
        ratio = odds[1] / odds[0]
        # what never comes with a class of few images has a share only by that half
        strong = np.flatnonzero((of_y > 0) & (shares[1] >= _COMMON) & (ratio >= _STRONG))
        order = np.argsort((shares[0] - shares[1])[strong], kind="stable")[:_MOST_CUES]
        return {self.state.names[context[column]]: float(ratio[column]) for column in strong[order]}

    def _context(
        self, column: int, positive: NDArray[np.bool_], labeled: NDArray[np.intp]
    ) -> tuple[NDArray[np.intp], dict[str, str], list[str]]:
        """Columns that are context of a task, why others are not, and what may be its parents."""
        names, task = self.state.names, self.state.names[column]
        table, y = self.matrix[labeled], positive[labeled].astype(np.float64)
        counts, both = np.asarray(table.sum(axis=0)).ravel(), table.T @ y
        n, n_positive = len(y), y.sum()
        candidate = self.known.copy()
        if self.source != LABELS:
            candidate[: self.n_classes] = False
        candidate[column] = False
        # a constant has no information; a column that stands for unknown values is also one
        told = candidate & (counts > 0) & (counts < n)
        with np.errstate(invalid="ignore", divide="ignore"):
            given, without = both / counts, (n_positive - both) / (n - counts)
        labels = told & (self.source == LABELS)
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
        markers = candidate & (counts == 0) & (self.source != LABELS)
        context = np.flatnonzero(told | markers)
        left_out = {
            names[number]: reasons[number] for number in sorted(reasons) if candidate[number]
        }
        return context, left_out, [names[number] for number in np.flatnonzero(parents)]

    @staticmethod
    def _named(given: Names, task: str) -> Sequence[str]:
        return given.get(task, ()) if isinstance(given, Mapping) else given


def logistic_regression(c: Any, y: NDArray[np.bool_]) -> NDArray[np.float64]:
    """B and w, float64 (1 + n_columns,), from presences (n_images, n_columns) and labels."""
    # here: it takes longer to import than all of the core
    from sklearn.linear_model import LogisticRegression

    if c.shape[1] <= _DENSE:
        model = LogisticRegression(C=1, solver="newton-cholesky", tol=1e-10, max_iter=100)
    else:
        model = LogisticRegression(C=1, tol=1e-8, max_iter=1000)
    model.fit(c, y)
    return np.concatenate([model.intercept_, model.coef_[0]])


class SavedContext(msgspec.Struct):
    """A fitted context criterion as in a suite's JSON."""

    lift: float | None
    tau: float | dict[str, tuple[float, float] | None] | None
    source: str
    unknown: list[str]
    regressions: dict[str, Regression]
    exclude: list[str] | dict[str, list[str]] = []
    include: list[str] | dict[str, list[str]] = []
    folds: int = 0
    group: str = ""
