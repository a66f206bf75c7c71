"""Objectives that weight rows by class or environment (paper, sections 4.1 to 4.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from nooch.training.objectives.contract import (
    BatchTerms,
    Objective,
    Ranges,
    TrainingCounts,
    losses,
    residuals,
)

if TYPE_CHECKING:
    from torch import Tensor


class ERM(Objective):
    """The mean loss (Eq. 1)."""

    name = "erm"

    def weights(self, labels: Tensor, environments: Tensor) -> Tensor:
        """Weight of each row and head, (m, H), or (m, 1) where all heads have the same."""
        del environments
        return labels.new_ones(len(labels), 1)

    def __call__(self, logits: Tensor, labels: Tensor, environments: Tensor) -> Tensor:
        """Mean of the weighted losses."""
        return (self.weights(labels, environments) * losses(logits, labels)).mean(dim=0)

    def derivative(self, terms: BatchTerms) -> tuple[Tensor, Tensor]:
        """Weighted residuals over the number of rows."""
        weights = self.weights(terms.labels, terms.environments)
        return (weights * terms.losses).mean(dim=0), weights * terms.residuals / len(terms.losses)


class LabelReweight(ERM):
    """Rows weighted by (1 / w)^alpha, w the label's frequency (Eq. 2); released: (1 - w)^alpha."""

    name = "label-reweight"
    ranges: ClassVar[Ranges] = {"alpha": (0.0, float("inf"))}

    def __init__(self, counts: TrainingCounts, **options: Any) -> None:
        super().__init__(counts, **options)
        # of each label and head: only two values a head, looked up by row
        self._frequencies = self._counted() / self._counted().sum(dim=0)
        self._table = self._of(self._frequencies)

    def _counted(self) -> Tensor:
        return self.counts.classes

    def step_size(self) -> Tensor:
        """The mean weight of a training row."""
        return (self._frequencies * self._table).sum(dim=0)

    def _of(self, frequencies: Tensor) -> Tensor:
        if self.variant == "released":
            return (1 - frequencies) ** self.parameters["alpha"]
        # groups absent from training get weight 0 in validation, as with samplers
        weights = frequencies.clamp(min=1e-30) ** -self.parameters["alpha"]
        return weights.masked_fill(frequencies == 0, 0.0)

    def weights(self, labels: Tensor, environments: Tensor) -> Tensor:
        """By label; between the two for labels that are fractions."""
        del environments
        return self._table[0] + labels * (self._table[1] - self._table[0])


class EnvironmentReweight(LabelReweight):
    """Rows weighted by (1 / w)^alpha, w the environment's frequency; released: (1 - w)^alpha."""

    name = "environment-reweight"
    needs_environments = True

    def _counted(self) -> Tensor:
        return self.counts.environments

    def weights(self, labels: Tensor, environments: Tensor) -> Tensor:
        """By environment."""
        del labels
        return self._table.gather(0, environments)


class BalancedSoftmax(Objective):
    """The loss of logits plus the training labels' log odds (Ren et al., 2020); not predictions."""

    name = "balanced-softmax"

    def _shifted(self, logits: Tensor) -> Tensor:
        counts = self.counts.classes.clamp(min=0.5)
        return logits + (counts[1] / counts[0]).log()

    def __call__(self, logits: Tensor, labels: Tensor, environments: Tensor) -> Tensor:
        """Mean loss of the shifted logits."""
        del environments
        return losses(self._shifted(logits), labels).mean(dim=0)

    def derivative(self, terms: BatchTerms) -> tuple[Tensor, Tensor]:
        """Residuals of the shifted logits over the number of rows."""
        shifted, labels = self._shifted(terms.logits), terms.labels
        return losses(shifted, labels).mean(dim=0), residuals(shifted, labels) / len(shifted)


class CVaR(Objective):
    """Mean loss of the worst p m rows, the last by its part; released: of ceil(p m) rows."""

    name = "cvar"
    ranges: ClassVar[Ranges] = {"p": (1e-6, 1.0)}

    def _weights(self, values: Tensor) -> Tensor:
        """Weight of each row in its head's mean, (m, H)."""
        import torch

        target = self.parameters["p"].to(values.dtype) * len(values)
        if self.variant == "released":
            # 0.3 x 10 is a little more than 3 in floating point
            target = (target - 1e-4).ceil()
        order = values.argsort(dim=0, descending=True, stable=True)
        places = torch.arange(len(values), dtype=values.dtype, device=values.device)[:, None]
        shares = (target - places).clamp(min=0, max=1) / target
        return torch.zeros_like(values).scatter_(0, order, shares)

    def __call__(self, logits: Tensor, labels: Tensor, environments: Tensor) -> Tensor:
        """Mean of the worst rows' losses."""
        del environments
        values = losses(logits, labels)
        return (self._weights(values.detach()) * values).sum(dim=0)

    def derivative(self, terms: BatchTerms) -> tuple[Tensor, Tensor]:
        """Residuals of the worst rows."""
        weights = self._weights(terms.losses)
        return (weights * terms.losses).sum(dim=0), weights * terms.residuals


class Focal(Objective):
    """Mean of (1 - q)^gamma x loss, q of the label (Eq. 7); released: times 1 - its frequency."""

    name = "focal"
    ranges: ClassVar[Ranges] = {"gamma": (0.0, float("inf"))}

    def _damping(self, labels: Tensor, wrong: Tensor) -> Tensor:
        damped: Tensor = wrong ** self.parameters["gamma"]
        if self.variant == "paper":
            return damped
        frequencies = self.counts.classes / self.counts.classes.sum(dim=0)
        return (1 - (frequencies[0] + labels * (frequencies[1] - frequencies[0]))) * damped

    def __call__(self, logits: Tensor, labels: Tensor, environments: Tensor) -> Tensor:
        """Mean of the damped losses."""
        del environments
        # 1 - q as the wrong answer's probability: avoids cancellation
        wrong = ((1 - 2 * labels) * logits).sigmoid()
        return (self._damping(labels, wrong) * losses(logits, labels)).mean(dim=0)

    def derivative(self, terms: BatchTerms) -> tuple[Tensor, Tensor]:
        """Closed form: by the margin t it is (1 - q)^gamma (gamma q log q - (1 - q))."""
        # 1 - q is how far the probability is from the label
        values, sign, wrong = terms.losses, 2 * terms.labels - 1, terms.residuals.abs()
        damping = self._damping(terms.labels, wrong)
        slope = damping * (-self.parameters["gamma"] * (1 - wrong) * values - wrong)
        return (damping * values).mean(dim=0), sign * slope / len(values)
