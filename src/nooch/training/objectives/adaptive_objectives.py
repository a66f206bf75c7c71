"""Objectives that look for the hardest rows: CVaR and focal loss (paper, section 4.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from nooch.training.objectives.contract import BatchTerms, Objective, Ranges, losses

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["CVaR", "Focal"]


class CVaR(Objective):
    """Mean loss of the worst p m rows, the last by its part; released: of ceil(p m) rows."""

    name = "cvar"
    ranges: ClassVar[Ranges] = {"p": (1e-6, 1.0)}

    def _weights(self, values: Tensor) -> Tensor:
        """What each row counts in its head's mean, (m, H)."""
        import torch

        wanted = self.parameters["p"].to(values.dtype) * len(values)
        if self.variant == "released":
            # 0.3 x 10 is a little more than 3 in floating point
            wanted = (wanted - 1e-4).ceil()
        order = values.argsort(dim=0, descending=True, stable=True)
        places = torch.arange(len(values), dtype=values.dtype, device=values.device)[:, None]
        shares = (wanted - places).clamp(min=0, max=1) / wanted
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
        # 1 - q as the wrong answer's probability: no difference of nearly equal numbers
        wrong = ((1 - 2 * labels) * logits).sigmoid()
        return (self._damping(labels, wrong) * losses(logits, labels)).mean(dim=0)

    def derivative(self, terms: BatchTerms) -> tuple[Tensor, Tensor]:
        """Closed form: by the margin t it is (1 - q)^gamma (gamma q log q - (1 - q))."""
        # 1 - q is how far the probability is from the label
        values, sign, wrong = terms.losses, 2 * terms.labels - 1, terms.residuals.abs()
        damping = self._damping(terms.labels, wrong)
        slope = damping * (-self.parameters["gamma"] * (1 - wrong) * values - wrong)
        return (damping * values).mean(dim=0), sign * slope / len(values)
