"""Last layers that are fitted on fixed features after training: DFR, AFR, logistic regression."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from nooch.training.objectives import Ranges
from nooch.training.samplers import Balance, FixedShare, Parameters, RandomStreams

Head = NDArray[np.float32]
"""Weights and bias, float32 (d + 1,)."""


@dataclass(frozen=True, eq=False)
class Trained:
    """Data that a last layer is fitted on: features float32 (m, d), labels bool (m,), environments
    uint8 (m,) or None where the task has none, and the head that training ended with;
    ``of_split`` gives the same of all images of another split.
    """

    features: NDArray[np.float32]
    labels: NDArray[np.bool_]
    environments: NDArray[np.uint8] | None
    head: Head
    of_split: Callable[[str], Trained] | None = None

    def split(self, name: str) -> Trained:
        """All images of a split."""
        assert self.of_split is not None  # noqa: S101 - a trained job has it
        return self.of_split(name)


class Refit(ABC):
    """A new last layer."""

    split: ClassVar[str] = "train"
    """Split whose images it is fitted on."""
    even: ClassVar[str | None] = None
    """Labels or environments that it weighs evenly, or None where images are."""
    ranges: ClassVar[Ranges] = {}

    def places(self, n: int, streams: RandomStreams) -> NDArray[np.intp]:
        """Indices of the split's n images that it is fitted on."""
        del streams
        return np.arange(n)

    def of(self, variant: str) -> Self:
        """Itself as the variant has it: ``released`` is what its authors' code does."""
        del variant
        return self

    @abstractmethod
    def __call__(self, trained: Trained, parameters: Parameters, streams: RandomStreams) -> Head:
        """The new last layer."""


@dataclass(frozen=True)
class LogisticRegression(Refit):
    """L2-regularized logistic regression on training images (Appendix A); C is scikit-learn's."""

    ranges: ClassVar[Ranges] = {"C": (1e-9, 1e9)}

    def __call__(self, trained: Trained, parameters: Parameters, streams: RandomStreams) -> Head:
        """On standardized features."""
        del streams
        return logistic_head(trained.features, trained.labels, penalty="l2", C=parameters["C"])


@dataclass(frozen=True)
class DFR(Refit):
    """Deep feature reweighting (Kirichenko et al., 2023).

    L1-regularized logistic regression on subsets that have as many images of each environment: the
    strength is chosen on one half of the split's images by the worst environment's accuracy on the
    other, then ``subsets`` fits are averaged. Features are standardized on each subset, halves have
    as much of each environment, and of equals the strongest regularization is chosen.

    Attributes:
        split: whose images: ``valid`` or ``train``.
        subsets: random balanced subsets.
        strengths: values of scikit-learn's C, descending.
        released: features are standardized on the training split; halves are drawn without regard
            to environments (of ``train`` the validation split is the other half), and of equals the
            weakest regularization is chosen.
    """

    split: str = "valid"  # type: ignore[misc]
    even = "environments"
    subsets: int = 10
    strengths: tuple[float, ...] = (1.0, 0.7, 0.3, 0.1, 0.07, 0.03, 0.01)
    released: bool = False

    def of(self, variant: str) -> Self:
        """The authors' code averages 20 fits of validation images, 10 of training images."""
        if variant != "released":
            return self
        return replace(self, released=True, subsets=20 if self.split == "valid" else 10)

    def __call__(self, trained: Trained, parameters: Parameters, streams: RandomStreams) -> Head:
        """The mean of the fits."""
        del parameters
        random = streams.fixed()
        scaling = _scaling(trained.split("train").features) if self.released else None
        strength, rows = self._strength(trained, random, scaling), np.arange(len(trained.labels))
        fits = [self._fit(trained, rows, strength, random, scaling) for _ in range(self.subsets)]
        return np.asarray(np.mean(fits, axis=0), dtype=np.float32)

    def _strength(
        self, trained: Trained, random: np.random.Generator, scaling: _Scaling | None
    ) -> float:
        """C with the best worst environment."""
        judge, groups = trained, _environments(trained)
        if not self.released:
            first, second = _halves(groups, random)
        elif self.split == "train":
            first, judge = np.arange(len(groups)), trained.split("valid")
            second = np.arange(len(judge.labels))
        else:
            scaling, order = None, random.permutation(len(groups))
            first, second = order[len(order) // 2 :], order[: len(order) // 2]
        if len(np.unique(trained.labels[first])) < 2 or not len(second):
            return self.strengths[-1]
        worst, others = {}, _environments(judge)[second]
        for strength in self.strengths:
            head = self._fit(trained, first, strength, np.random.default_rng(0), scaling)
            right = (judge.features[second] @ head[:-1] + head[-1] > 0) == judge.labels[second]
            worst[strength] = min(right[others == group].mean() for group in np.unique(others))
        return max(worst, key=lambda c: (worst[c], c if self.released else -c))

    def _fit(
        self,
        trained: Trained,
        rows: NDArray[np.intp],
        strength: float,
        random: np.random.Generator,
        scaling: _Scaling | None,
    ) -> Head:
        groups = _environments(trained)[rows]
        streams = RandomStreams(int(random.integers(1 << 31)), "balanced")
        taken = rows[np.flatnonzero(Balance("environments").counts(groups, {}, streams))]
        features, labels = trained.features[taken], trained.labels[taken]
        return logistic_head(features, labels, scaling, penalty="l1", C=strength)


@dataclass(frozen=True)
class AFR(Refit):
    """Automatic feature reweighting (Qiu et al., 2023) on images left out of the first stage.

    Images weigh exp(-gamma q), q the probability that the first stage gives their label, as much in
    all for each label; the squared distance to the first stage's layer costs ``lambda_``. The
    ``sampler`` is taken from the first stage.

    ``released``: exp(-gamma q) is divided by the number of images with the label, so that the
    labels' totals differ; and the distance is of two outputs, half the distance of their
    difference.
    """

    sampler: FixedShare = FixedShare()  # noqa: RUF009 - frozen
    even = "labels"
    released: bool = False

    def of(self, variant: str) -> Self:
        """As in the authors' code, or with labels of equal weight."""
        return replace(self, released=variant == "released")

    def places(self, n: int, streams: RandomStreams) -> NDArray[np.intp]:
        """Those that the sampler leaves."""
        return np.flatnonzero(self.sampler.counts(np.zeros(n, np.uint8), {}, streams) == 0)

    def weights(
        self, logits: NDArray[np.float64], labels: NDArray[np.bool_], gamma: float
    ) -> NDArray[np.float64]:
        """Weights of images that sum to 1, float64 (m,), by the first stage's logits (m,)."""
        from scipy.special import expit

        weights = np.exp(-gamma * expit(np.where(labels, logits, -logits)))
        for label in (False, True):
            of_label = labels == label
            if of_label.any():
                total = of_label.sum() if self.released else weights[of_label].sum()
                weights[of_label] /= total
        return np.asarray(weights / weights.sum())

    def __call__(self, trained: Trained, parameters: Parameters, streams: RandomStreams) -> Head:
        """The minimum, by L-BFGS."""
        del streams
        from scipy.optimize import minimize
        from scipy.special import expit

        x = np.column_stack([trained.features, np.ones(len(trained.features))]).astype(np.float64)
        y, start = trained.labels.astype(np.float64), trained.head.astype(np.float64)
        weights = self.weights(x @ start, trained.labels, parameters["gamma"])
        pull = parameters["lambda_"] / (1 + self.released)

        def cost(head: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            z, apart = x @ head, head - start
            value = weights @ (np.logaddexp(0, z) - y * z) + pull * apart @ apart
            return float(value), x.T @ (weights * (expit(z) - y)) + 2 * pull * apart

        solution = minimize(cost, start, jac=True, method="L-BFGS-B", options={"maxiter": 500})
        return np.asarray(solution.x, dtype=np.float32)


def _environments(trained: Trained) -> NDArray[np.uint8]:
    assert trained.environments is not None  # noqa: S101 - checked when the grid was planned
    return trained.environments


def _halves(
    groups: NDArray[np.uint8], random: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Two halves with each group on both sides, if it has two rows."""
    halves = [
        np.array_split(random.permutation(np.flatnonzero(groups == group)), 2)
        for group in np.unique(groups)
    ]
    first, second = (np.concatenate(side) for side in zip(*halves, strict=True))
    return first, second


_Scaling = tuple[NDArray[np.float64], NDArray[np.float64]]


def _scaling(features: NDArray[np.float32]) -> _Scaling:
    """Mean and deviation of each column, float64 (d,); 1 of a constant one."""
    mean, std = features.mean(axis=0, dtype=np.float64), features.std(axis=0, dtype=np.float64)
    return mean, np.where(std > 0, std, 1.0)


def logistic_head(
    features: NDArray[np.float32],
    labels: NDArray[np.bool_],
    scaling: _Scaling | None = None,
    *,
    penalty: str,
    **options: Any,
) -> Head:
    """Logistic regression on features standardized by ``scaling``, by default their own; weights
    and bias are for the raw features.
    """
    from sklearn.linear_model import LogisticRegression as Fitting

    mean, scale = scaling or _scaling(features)
    standard = ((features - mean) / scale).astype(np.float32)
    ratio, solver = (1.0, "liblinear") if penalty == "l1" else (0.0, "lbfgs")
    fitting = Fitting(l1_ratio=ratio, solver=solver, max_iter=1000, random_state=0, **options)
    fitting.fit(standard, labels)
    weights = fitting.coef_[0] / scale
    return np.append(weights, fitting.intercept_[0] - mean @ weights).astype(np.float32)
