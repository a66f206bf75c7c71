"""The context criterion: how strongly the other labels of an image let expect the class Y.

c(x) are the presences of the other classes in an image x, each 0 or 1, and

    s(x) = log odds of P(y = 1 | c(x)) = b + sum over C of w_C c_C(x)       the support

is a logistic regression of y on c(x) over the training images: b and w minimize

    sum over x of log(1 + exp(-(2y - 1) s(x))) + |w|^2 / 2          (L2 with C = 1; b is free)

With the base rate r, the share of training images that have Y, and a lift L (3 by default):

    hard negative: y = 0 and s(x) > logit(r) + log(L)        the odds are above L times the usual
    hard positive: y = 1 and s(x) < logit(r)                 the odds are below the usual

Images that were fitted get s from a regression on the others (``folds``). ``presences`` reads c,
``context_fit`` chooses it, ``row_regressions`` minimizes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from nooch.base.errors import ParameterError, UndefinedError, check_one_of, some_of
from nooch.base.words import value_words
from nooch.criteria.conditions import BEYOND
from nooch.criteria.context_fit import Names, Regression, SavedContext, Table, check_size
from nooch.criteria.contract import (
    SupportFitted,
    TaskThresholds,
    Tau,
    Thresholds,
    checked_tau,
    saved_as,
    thresholds_of,
)
from nooch.criteria.presences import Presences, asked_of, columns_of, fold_numbers
from nooch.data import ALL, Dataset
from nooch.data.splits import unit_names


def log_odds(c: Any, b: NDArray[np.float64], w: NDArray[np.float64]) -> NDArray[np.float64]:
    """s(x) for many tasks: c (n_images, n_classes), b (n_tasks,), w (n_classes, n_tasks)."""
    s: NDArray[np.float64] = c @ w + b
    return s


def usual_log_odds(r: float) -> float:
    """The log odds of a class regardless of context, logit(r) = log(r / (1 - r))."""
    return float(logit(r))


def thresholds_by_lift(r: float, lift: float) -> Thresholds:
    """Hard positives are below the usual odds, hard negatives above ``lift`` times them."""
    return Thresholds(usual_log_odds(r), usual_log_odds(r) + math.log(lift))


FOLDS = 5
MOST_IMAGES = 200_000
"""Maximum number of images that regressions are fitted on: the ones with the smallest id hashes."""
_LARGEST, _FITTED = 700.0, ("train", "all")


@dataclass(frozen=True)
class Context:
    """Parameters of the context criterion.

    Attributes:
        lift: hard negatives have more than this many times (by default 3) the usual odds of the
            class; hard positives less than the usual odds. With ``tau`` or the counts of another
            criterion there is none (in Python, give None).
        tau: threshold on the log odds instead: of hard positives (below) and negatives (above); or
            by task a pair (None for a task without a challenge set).
        columns: attribute columns to use as context instead of the other classes, such as
            ``scanner,site``, or ``all``: each value, or the lowest and highest quarter of more than
            20 numbers.
        exclude: classes that are not context, for all tasks or by task, such as a parent class.
        include: classes that are context although they imply the task's class.
        folds: of images, by a hash of their ids, each given support by a regression on the others;
            0 where no image is searched that was fitted. ``nooch.find`` chooses it, and
        group: column, or pattern of file names, of images that share a fold; empty: each has its
            own.

    Examples:
        >>> train = nooch.load_dataset("data").select("train")
        >>> nooch.Context(lift=5, exclude=["tree"]).fit(train, ["car"]).cues("car")
        ('road',)
    """

    lift: float | None = 3.0
    tau: Tau | None = None
    exclude: Names = ()
    include: Names = ()
    folds: int = 0
    group: str = ""
    columns: Names = ()

    kind = "context"
    state = Presences
    reads = ()

    def __post_init__(self) -> None:
        tau = checked_tau(self.tau, "context", -_LARGEST, _LARGEST, "log odds, such as 0 for 1:1")
        object.__setattr__(self, "tau", tau)
        if tau is not None:
            object.__setattr__(self, "lift", None)
        if self.lift is not None and not 0 < self.lift < math.inf:
            problem, allowed = f"lift is {self.lift}", "a positive number, such as 3"
            raise ParameterError(problem, where="context", allowed=allowed)
        for name in ("exclude", "include", "columns"):
            given = getattr(self, name)
            kept = (
                {task: tuple(names) for task, names in given.items()}
                if isinstance(given, Mapping)
                else tuple(given)
            )
            object.__setattr__(self, name, kept)

    def completed(self, data: Dataset) -> Self:
        """The criterion with the conditions of each column, the same for all parts. Raises
        ParameterError as ``Dataset.with_context``.
        """
        if not self.columns or isinstance(self.columns, Mapping):
            return self
        images, split = data.images, data.fitting_split
        fitted = images.filter(split=split) if split in data.splits else images
        columns = data.with_context(self.columns).context_columns
        return replace(self, columns={name: asked_of(fitted[name]) for name in columns})

    def partial(self, shard: Dataset, tasks: Sequence[str] = ()) -> Presences:
        """Presences in the training images of a part."""
        del tasks
        columns = self.completed(shard).columns
        asked = columns if isinstance(columns, Mapping) else {}
        return Presences.from_dataset(shard, self.group, asked)

    def merge(self, states: Iterable[Presences]) -> Presences:
        """All images; of more than ``MOST_IMAGES``, a sample that is the same for any parts."""
        return Presences.joined(states, MOST_IMAGES)

    def finish(
        self, state: Presences, classes: Sequence[str], tasks: Sequence[str] | None = None
    ) -> FittedContext:
        """The fitted criterion, with a regression for each task.

        Raises:
            InputError: there is one class, or labels exclude each other: they contain no context;
                or tasks and classes do not fit into memory.
            ParameterError: excluded or included names that are not classes.
        """
        tasks = list(classes if tasks is None else tasks)
        for given in (self.exclude, self.include):
            pairs = given.items() if isinstance(given, Mapping) else [(tasks[0], given)]
            for task, names in pairs:
                check_one_of("class", task, classes, owner="the dataset")
                for name in names:
                    check_one_of("class", name, state.names, owner="the dataset")
        check_size(len(tasks), len(state.names), self.folds)
        # in an order that does not depend on how images are divided into parts
        extra = sorted(set(state.names) - set(classes))
        images = self.merge([state]).with_names([*classes, *extra])
        table = Table(
            images,
            len(classes),
            of_columns=bool(self.columns),
            exclude=self.exclude,
            include=self.include,
            folds=self.folds,
        )
        return FittedContext(self, table.unknown, table.regressions(tasks))

    def fit(self, train: Dataset, tasks: Sequence[str] | None = None) -> FittedContext:
        """Fit on training images; raises as ``finish``."""
        own = self.completed(train)
        return own.finish(own.partial(train), train.classes, tasks)


class FittedContext(SupportFitted):
    """The context criterion with a regression per task. Support = log odds of the class."""

    kind = "context"
    reads = ()

    def __init__(
        self, criterion: Context, unknown: Sequence[str], regressions: Mapping[str, Regression]
    ) -> None:
        self.criterion, self.unknown, self.regressions = criterion, list(unknown), dict(regressions)
        self.thresholds = self._thresholds()

    def _thresholds(self) -> TaskThresholds:
        lift = self.criterion.lift
        if lift is None:
            return thresholds_of(self.criterion.tau)
        limits: dict[str, Thresholds | None] = {}
        for task, regression in self.regressions.items():
            limits[task] = None if regression.problem else thresholds_by_lift(regression.rate, lift)
        return limits

    def usual(self, task: str) -> float:
        """The log odds of a class regardless of context."""
        return usual_log_odds(self._of(task).rate)

    def _of(self, task: str) -> Regression:
        return self.regressions[
            check_one_of("task", task, self.regressions, owner="the fitted context criterion")
        ]

    def parameters(self) -> dict[str, Any]:
        """Lift, tau, the columns and what was excluded or included."""
        own = self.criterion
        settings = {"exclude": own.exclude, "include": own.include, "columns": tuple(own.columns)}
        given = {name: msgspec.to_builtins(value) for name, value in settings.items() if value}
        folds = {name: getattr(own, name) for name in ("folds", "group") if getattr(own, name)}
        return {"lift": own.lift, "tau": own.tau, **folds, **given}

    def cues(self, task: str) -> tuple[str, ...]:
        """Classes that come with the task's more than others do, the most common first."""
        return tuple(self._of(task).cues)

    def strength(self, cue: str, task: str) -> float:
        """The odds ratio of a cue and the task's class."""
        return self._of(task).cues.get(cue, math.nan)

    def with_cue(
        self, data: Dataset, cue: str
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_] | None]:
        """Presence of a cue, bool (n_images,), and where it is unknown, the same, or None."""
        if not self.criterion.columns:
            return data.labels(cue, unknown=False), data.unknown_labels(cue)
        table, (column,) = self.presences(data), columns_of([cue], self._columns(data))
        present = table.matrix[:, [table.names.index(cue)]].toarray().ravel() > 0
        return present, table.is_unknown(table.names.index(f"{column}="))

    def hard_by_cue(
        self, data: Dataset, task: str, labels: NDArray[np.bool_]
    ) -> NDArray[np.uint64] | None:
        """Bit i: hard by the i-th cue, a positive without it or a negative with it."""
        if self.criterion.columns or not self.cues(task):
            return None
        bits = np.zeros(len(data), np.uint64)
        for position, cue in enumerate(self.cues(task)):
            present = data.labels(cue, unknown=False)
            bits |= (present != labels).astype(np.uint64) << np.uint64(position)
        return bits

    def notes(self, tasks: Sequence[str]) -> list[str]:
        """Classes that are not context, and possible parents of a task's class."""
        regressions = {task: self._of(task) for task in tasks}
        left = [
            f"{name} ({why})"
            for regression in regressions.values()
            for name, why in regression.left_out.items()
        ]
        parents = [
            f"{', '.join(regression.parents)} of {t}"
            for t, regression in regressions.items()
            if regression.parents
        ]
        texts = []
        if self.unknown:
            texts.append(f"unknown in most training images, so no context: {some_of(self.unknown)}")
        if left:
            texts.append(f"no context: {some_of(left)}; `include` puts classes back")
        if parents:
            texts.append(
                f"in nearly all images of a class: {some_of(parents)}; a parent class? `exclude`"
            )
        return texts

    def undefined(self, task: str) -> str | None:
        """A class that all or no training images have, or that has no context."""
        return self._of(task).problem

    def undefined_in(self, task: str, split: str) -> str | None:
        """A fold of the fitted images that the others cannot judge: they have only one label."""
        return self._of(task).unfitted if split in _FITTED else None

    def with_tau(self, tau: Tau) -> FittedContext:
        """The same regressions with other thresholds."""
        return FittedContext(replace(self.criterion, tau=tau), self.unknown, self.regressions)

    def support(self, data: Dataset, task: str) -> NDArray[np.float64]:
        """Log odds of the class, float64 (n_images,); NaN where its context is unknown."""
        return self.supports(data, [task])[:, 0]

    def supports(self, data: Dataset, tasks: Sequence[str]) -> NDArray[np.float64]:
        """Log odds for many tasks at once, float64 (n_images, n_tasks), independent of the batch.

        Raises UndefinedError: a task without a regression.
        """
        for task in tasks:
            if reason := self.undefined(task):
                raise UndefinedError(f"task {task} has no context support: {reason}")
        table = self.presences(data)
        place = {name: column for column, name in enumerate(table.names)}
        folds = self.fold_of(data)
        weights = np.zeros((1 + self.criterion.folds, len(table.names), len(tasks)))
        intercepts = np.zeros((len(weights), len(tasks)))
        odds = np.empty((len(data), len(tasks)))
        for number, task in enumerate(tasks):
            regression = self._of(task)
            columns = np.array([place[name] for name in regression.context], np.intp)
            of_folds = regression.table()
            intercepts[:, number], weights[:, columns, number] = of_folds[:, 0], of_folds[:, 1:]
        for fold in np.unique(folds):
            rows = np.flatnonzero(folds == fold)
            odds[rows] = log_odds(table.matrix[rows], intercepts[fold], weights[fold])
        for number, task in enumerate(tasks):
            columns = np.array([place[name] for name in self._of(task).context], np.intp)
            odds[table.unknowns(columns) > 0, number] = np.nan
        return odds

    def presences(self, data: Dataset) -> Presences:
        """Presences that the regressions use. Raises ParameterError for a class that the data
        lack.
        """
        names = [*dict.fromkeys(n for one in self.regressions.values() for n in one.context)]
        if self.criterion.columns:
            # of few images a column may look like ids: what was fitted is read
            asked = columns_of(names, self._columns(data))
            return Presences.from_dataset(data, columns=asked).with_names(names)
        for name in names:
            check_one_of("class", name, data.classes, owner="the dataset")
        return Presences.from_dataset(data).with_names(names)

    def fold_of(self, data: Dataset) -> NDArray[np.int64]:
        """Index of each image's regression, int64 (n_images,): 0, or 1 + its fold if fitted."""
        numbers = np.zeros(len(data), np.int64)
        if self.criterion.folds:
            images, fitted = data.images, data.images["split"].is_in(_FITTED)
            names = unit_names(images.filter(fitted), self.criterion.group)
            numbers[fitted] = 1 + fold_numbers(names, self.criterion.folds)
        return numbers

    def contributions(self, image: Dataset, task: str) -> list[tuple[str, bool, float]]:
        """Why one image is expected to have the class: context, whether it is there, log odds.

        Each is the weight times (present - share of the training images that have it), so that they
        add up to the difference from an average image; the largest in size, of either sign, is
        first.
        """
        regression = self._of(task)
        weights = regression.table()[self.fold_of(image)[0], 1:].tolist()
        matrix = self.presences(image)
        present = dict.fromkeys(matrix.names[column] for column in matrix.present[1])
        parts = [
            (name, name in present, weight * ((name in present) - mean))
            for name, weight, mean in zip(
                regression.context, weights, regression.means, strict=True
            )
        ]
        return sorted(parts, key=lambda part: -abs(part[2]))

    def because(self, image: Dataset, task: str, sign: int) -> list[tuple[str, float]]:
        """At most three pieces of one image's context that speak most for the class (``sign`` 1)
        or against it (-1), in words such as ``no road``, and their log odds.
        """
        return [
            (self.words(name, image, present=is_present), value)
            for name, is_present, value in self.contributions(image, task)
            if value * sign > 0.05
        ][:3]

    def _columns(self, data: Dataset) -> list[str]:
        """Columns that conditions may be of: of an older suite all, which are not recorded."""
        own = [*self.criterion.columns]
        return [name for name in data.attributes if name in own or own == [ALL]]

    def words(self, name: str, image: Dataset, *, present: bool) -> str:
        """A piece of context in words: "road", "no road"; of a column "from GE scanners"."""
        if self.criterion.columns:
            [(column, [test])] = columns_of([name], self._columns(image)).items()
            sign = test[:2] if test[:2] in BEYOND else "="
            return value_words(column, test.removeprefix(sign), sign, present=present)
        return f"{'' if present else 'no '}{name}"

    def explain(self, image: Dataset, task: str) -> str:
        """P, its multiple of the base rate, and what speaks for it (or against it) most."""
        odds, rate = float(self.support(image, task)[0]), self._of(task).rate
        if math.isnan(odds) and self._of(task).weights[self.fold_of(image)[0]] is None:
            return str(self._of(task).unfitted)
        if math.isnan(odds):
            return f"the image's other classes were not annotated, so {task} has no context"
        p, sign = float(expit(odds)), 1 if odds > usual_log_odds(rate) else -1
        parts = [f"{text} ({value:+.1f})" for text, value in self.because(image, task, sign)]
        verb = "is expected" if sign > 0 else "is not expected"
        because = f": {', '.join(parts)}" if parts else ""
        return f"{task} {verb}: P = {_short(p)}, {_short(p / rate)} times the base rate{because}"

    def to_json(self) -> dict[str, Any]:
        """Parameters, and the regression of each task."""
        regressions = msgspec.to_builtins(self.regressions)
        return {**self.parameters(), "unknown": self.unknown, "regressions": regressions}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Read back what ``to_json`` gave."""
        with saved_as(cls.kind):
            saved = msgspec.convert(content, SavedContext)
            for task, regression in saved.regressions.items():
                shape = (
                    [] if regression.problem else [1 + len(regression.context)] * (1 + saved.folds)
                )
                sizes = [len(row) for row in regression.weights if row is not None]
                lacks = len(regression.weights) - len(sizes)
                if (
                    sizes != shape[lacks:]
                    or len(regression.weights) != len(shape)
                    or bool(lacks) != bool(regression.unfitted)
                    or len(regression.means) != len(regression.context)
                ):
                    raise ValueError(f"weights of {task} do not fit")
            own = Context(
                saved.lift, saved.tau, saved.exclude, saved.include, saved.folds, saved.group,
                saved.columns or ([ALL] if saved.source == "columns" else []),
            )  # fmt: skip
            return cls(own, saved.unknown, saved.regressions)


def _short(number: float) -> str:
    """Two digits, such as .71, 6 or .03."""
    return f"{number:.2g}".removeprefix("0") or "0"
