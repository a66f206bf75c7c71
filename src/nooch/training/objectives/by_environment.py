"""Objectives over environments: GDRO in both forms, IRM, VREx (paper, section 4.3)."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from nooch.training.objectives.contract import BatchTerms, Objective, Ranges, TrainingCounts

if TYPE_CHECKING:
    from torch import Tensor


_INFINITY = float("inf")


class _EnvironmentObjective(Objective):
    """A value that follows from the environments' mean losses."""

    needs_environments = True

    def __call__(self, logits: Tensor, labels: Tensor, environments: Tensor) -> Tensor:
        """Over the environments in the batch."""
        return self._risk(self.terms(logits, labels, environments))[0]

    @abstractmethod
    def _risk(self, terms: BatchTerms) -> tuple[Tensor, Tensor]:
        """Value (H,), and what the closed form of its derivative starts from."""


class GDRO(_EnvironmentObjective):
    """The largest of the environments' mean losses plus K / sqrt(n_c) (Eq. 5; Sagawa et al.)."""

    name = "gdro"
    ranges: ClassVar[Ranges] = {"K": (0.0, _INFINITY)}

    def __init__(self, counts: TrainingCounts, **options: Any) -> None:
        super().__init__(counts, **options)
        self._margin = self.parameters["K"] / self.counts.environments.clamp(min=1).sqrt()

    def _risk(self, terms: BatchTerms) -> tuple[Tensor, Tensor]:
        """The largest, (H,), and which it is, int64 (H,)."""
        means, counts, _ = terms.by_environment
        return (means + self._margin).masked_fill(counts == 0, -_INFINITY).max(dim=0)

    def derivative(self, terms: BatchTerms) -> tuple[Tensor, Tensor]:
        """Residuals of the worst environment's rows over their number."""
        worst, which = self._risk(terms)
        members = (terms.environments == which).to(terms.logits.dtype)
        return worst, terms.residuals * members / terms.by_environment[1].gather(0, which[None])


class OnlineGDRO(_EnvironmentObjective):
    """Mean losses weighted by q; each step multiplies q_c by exp(eta x loss_c) (Sagawa et al.).

    q is then normalized to sum 1. loss_c is adjusted by K / sqrt(n_c) also for an environment that
    the batch lacks, as the authors' code (kohpangwei/group_DRO, loss.py) has it. There an
    environment without training images has an infinite adjustment; here it has none. Each call is a
    step; the weights are part of the state of a training.
    """

    name = "online-gdro"
    ranges: ClassVar[Ranges] = {"eta": (0.0, _INFINITY), "K": (0.0, _INFINITY)}

    def __init__(self, counts: TrainingCounts, **options: Any) -> None:
        super().__init__(counts, **{"K": 0.0, **options})
        sizes = self.counts.environments
        self._margin = (sizes > 0) * self.parameters["K"] / sizes.clamp(min=1).sqrt()
        self.q = sizes.new_full(sizes.shape, 1 / len(sizes))

    def measure(self, logits: Tensor, labels: Tensor, environments: Tensor) -> Tensor:
        """Mean losses weighted by q as it is."""
        means = self.terms(logits, labels, environments).by_environment[0]
        return (self.q.to(logits.dtype) * (means + self._margin)).sum(dim=0)

    def _risk(self, terms: BatchTerms) -> tuple[Tensor, Tensor]:
        """A step of the weights, then the weighted mean loss, (H,), and the weights, (C, H)."""
        # as in the authors' code, an absent environment has loss 0 plus its adjustment
        adjusted = terms.by_environment[0] + self._margin
        q = self.q.to(adjusted.dtype) * (self.parameters["eta"] * adjusted.detach()).exp()
        self.q = q / q.sum(dim=0)
        return (self.q * adjusted).sum(dim=0), self.q

    def derivative(self, terms: BatchTerms) -> tuple[Tensor, Tensor]:
        """A step of the weights, then residuals times each row's weight q_c / count_c."""
        value, q = self._risk(terms)
        _, counts, inside = terms.by_environment
        return value, terms.residuals * (inside * (q / counts.clamp(min=1))[:, None]).sum(dim=0)


class IRM(_EnvironmentObjective):
    """Sum over environments of mean loss + lambda x |derivative by a factor on the logits| (Eq. 6).

    Released: the derivative squared, and all divided by lambda where that is above 1.
    """

    name = "irm"
    ranges: ClassVar[Ranges] = {"lambda_": (0.0, _INFINITY)}

    def step_size(self) -> Tensor:
        """A mean for each environment of training, with a penalty of lambda times its size."""
        present = (self.counts.environments > 0).sum(dim=0)
        return present * (1 + self.parameters["lambda_"]) * self._scale()

    def _scale(self) -> Tensor | float:
        return 1 / self.parameters["lambda_"].clamp(min=1) if self.variant == "released" else 1.0

    def _risk(self, terms: BatchTerms) -> tuple[Tensor, Tensor]:
        """Losses and penalties, and each mean loss of w z derived by w at w = 1: (C, H)."""
        means, counts, inside = terms.by_environment
        slopes = (inside * (terms.residuals * terms.logits)).sum(dim=1) / counts.clamp(min=1)
        penalty = slopes**2 if self.variant == "released" else slopes.abs()
        return self._scale() * (means + self.parameters["lambda_"] * penalty).sum(dim=0), slopes

    def derivative(self, terms: BatchTerms) -> tuple[Tensor, Tensor]:
        """Closed form: a slope's derivative is ((s - y) + z s (1 - s)) / count."""
        (_, counts, inside), residual = terms.by_environment, terms.residuals
        value, slopes = self._risk(terms)
        of_penalty = 2 * slopes if self.variant == "released" else slopes.sign()
        rate = self._scale() * self.parameters["lambda_"] * of_penalty / counts.clamp(min=1)
        probability = residual + terms.labels
        bend = residual + terms.logits * probability * (1 - probability)
        per_row = (inside * (self._scale() / counts.clamp(min=1))[:, None]).sum(dim=0)
        return value, residual * per_row + bend * (inside * rate[:, None]).sum(dim=0)


class VREx(_EnvironmentObjective):
    """Mean of the environments' mean losses + beta x their variance (Krueger et al., 2021)."""

    name = "vrex"
    ranges: ClassVar[Ranges] = {"beta": (0.0, _INFINITY)}

    def step_size(self) -> Tensor:
        """The variance's part grows with beta."""
        return 1 + self.parameters["beta"]

    def _risk(self, terms: BatchTerms) -> tuple[Tensor, Tensor]:
        """Value (H,), and its derivative by each mean, (C, H)."""
        means, counts, _ = terms.by_environment
        present = (counts > 0).to(means.dtype)
        n = present.sum(dim=0)
        center = (means * present).sum(dim=0) / n
        away = (means - center) * present
        value = center + self.parameters["beta"] * (away**2).sum(dim=0) / n
        return value, present / n + 2 * self.parameters["beta"] * away / n

    def derivative(self, terms: BatchTerms) -> tuple[Tensor, Tensor]:
        """Residuals times each row's share in the value."""
        value, rate = self._risk(terms)
        _, counts, inside = terms.by_environment
        return value, terms.residuals * (inside * (rate / counts.clamp(min=1))[:, None]).sum(dim=0)
