"""Objectives that look for the hardest rows themselves: CVaR and focal loss (paper, section 4.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from nooch.objectives.objective_contract import Known, Objective, losses

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["CVaR", "Focal"]


class CVaR(Objective):
    """Mean of the worst fraction p of the batch, the last row by its part; released: of the worst
    ceil(p m) rows.
    """

    name = "cvar"
    ranges: ClassVar[Mapping[str, tuple[float, float]]] = {"p": (1e-6, 1.0)}

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

    def gradient(
        self, logits: Tensor, labels: Tensor, environments: Tensor, known: Known | None = None
    ) -> tuple[Tensor, Tensor]:
        """Residuals of the worst rows."""
        known = known or self.known(logits, labels, environments)
        weights = self._weights(known.losses)
        return (weights * known.losses).sum(dim=0), weights * known.residuals


class Focal(Objective):
    """Mean of (1 - q)^gamma x loss, q the probability of the right answer (Eq. 7); released: times
    1 - frequency of the label.
    """

    name = "focal"
    ranges: ClassVar[Mapping[str, tuple[float, float]]] = {"gamma": (0.0, float("inf"))}

    def _weights(self, labels: Tensor) -> Tensor | float:
        if self.variant == "paper":
            return 1.0
        frequencies = self.counts.classes / self.counts.classes.sum(dim=0)
        return 1 - (frequencies[0] + labels * (frequencies[1] - frequencies[0]))

    def __call__(self, logits: Tensor, labels: Tensor, environments: Tensor) -> Tensor:
        """Mean of the damped losses."""
        del environments
        # 1 - q is the probability of the wrong answer: no difference of numbers that are nearly
        # equal
        wrong = ((1 - 2 * labels) * logits).sigmoid()
        return (
            self._weights(labels) * wrong ** self.parameters["gamma"] * losses(logits, labels)
        ).mean(dim=0)

    def gradient(
        self, logits: Tensor, labels: Tensor, environments: Tensor, known: Known | None = None
    ) -> tuple[Tensor, Tensor]:
        """Closed form: by the margin t it is (1 - q)^gamma (gamma q log q - (1 - q))."""
        known = known or self.known(logits, labels, environments)
        # 1 - q is how far the probability is from the label
        values, sign, wrong = known.losses, 2 * labels - 1, known.residuals.abs()
        damping = self._weights(labels) * wrong ** self.parameters["gamma"]
        slope = damping * (-self.parameters["gamma"] * (1 - wrong) * values - wrong)
        return (damping * values).mean(dim=0), sign * slope / len(logits)
