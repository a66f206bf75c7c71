"""Objectives over environments: GDRO in both forms, IRM, VREx (paper, section 4.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from nooch.objectives.objective_contract import Known, Objective, TrainingCounts

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["GDRO", "IRM", "OnlineGDRO", "VREx"]

_INFINITY = float("inf")


class GDRO(Objective):
    """The largest of the environments' mean losses plus K / sqrt(n_c), over those in the batch (Eq.
    5; Sagawa et al.).
    """

    name = "gdro"
    needs_environments = True
    ranges: ClassVar[Mapping[str, tuple[float, float]]] = {"K": (0.0, _INFINITY)}

    def __init__(self, counts: TrainingCounts, **options: Any) -> None:
        super().__init__(counts, **options)
        self._margin = self.parameters["K"] / self.counts.environments.clamp(min=1).sqrt()

    def _worst(self, means: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
        """The largest, (H,), and which it is, int64 (H,)."""
        return (means + self._margin).masked_fill(counts == 0, -_INFINITY).max(dim=0)

    def __call__(self, logits: Tensor, labels: Tensor, environments: Tensor) -> Tensor:
        """The worst environment's mean loss and adjustment."""
        means, counts, _ = self.known(logits, labels, environments).by_environment
        return self._worst(means, counts)[0]

    def gradient(
        self, logits: Tensor, labels: Tensor, environments: Tensor, known: Known | None = None
    ) -> tuple[Tensor, Tensor]:
        """Residuals of the worst environment's rows over their number."""
        known = known or self.known(logits, labels, environments)
        means, counts, _ = known.by_environment
        worst, which = self._worst(means, counts)
        chosen = (environments == which).to(logits.dtype)
        return worst, known.residuals * chosen / counts.gather(0, which[None])


class OnlineGDRO(Objective):
    """Mean losses weighted by q, where each step multiplies q_c by exp(eta x loss_c) (Sagawa et
    al.).

    q is then normalized to sum 1. loss_c is adjusted by K / sqrt(n_c) also for an environment that
    the batch lacks, as the authors' code (kohpangwei/group_DRO, loss.py) has it. There an
    environment without training images has an infinite adjustment; here it has none. Each call is a
    step; the weights are part of the state of a training.
    """

    name = "online-gdro"
    needs_environments = True
    ranges: ClassVar[Mapping[str, tuple[float, float]]] = {
        "eta": (0.0, _INFINITY),
        "K": (0.0, _INFINITY),
    }

    def __init__(self, counts: TrainingCounts, **options: Any) -> None:
        super().__init__(counts, **{"K": 0.0, **options})
        known = self.counts.environments > 0
        self._margin = known * self.parameters["K"] / self.counts.environments.clamp(min=1).sqrt()
        self.q = self.counts.environments.new_full(
            self.counts.environments.shape, 1 / len(self.counts.environments)
        )

    def measure(self, logits: Tensor, labels: Tensor, environments: Tensor) -> Tensor:
        """Mean losses weighted by q as it is."""
        means = self.known(logits, labels, environments).by_environment[0]
        return (self.q.to(logits.dtype) * (means + self._margin)).sum(dim=0)

    def _step(self, known: Known) -> tuple[Tensor, Tensor, Tensor]:
        means, counts, inside = known.by_environment
        # as in the authors' code, what is not in the batch has loss 0, and its adjustment all the
        # same
        adjusted = means + self._margin
        q = self.q.to(means.dtype) * (self.parameters["eta"] * adjusted.detach()).exp()
        self.q = q / q.sum(dim=0)
        return (self.q * adjusted).sum(dim=0), counts, inside

    def __call__(self, logits: Tensor, labels: Tensor, environments: Tensor) -> Tensor:
        """A step of the weights, then the weighted mean loss."""
        return self._step(self.known(logits, labels, environments))[0]

    def gradient(
        self, logits: Tensor, labels: Tensor, environments: Tensor, known: Known | None = None
    ) -> tuple[Tensor, Tensor]:
        """A step of the weights, then residuals times each row's weight q_c / count_c."""
        known = known or self.known(logits, labels, environments)
        value, counts, inside = self._step(known)
        rows = (inside * (self.q / counts.clamp(min=1))[:, None]).sum(dim=0)
        return value, known.residuals * rows


class IRM(Objective):
    """Sum over environments of mean loss and lambda x |derivative by a factor on the logits, at 1|
    (Eq. 6).

    Released: the derivative squared, and all divided by lambda where that is above 1.
    """

    name = "irm"
    needs_environments = True
    ranges: ClassVar[Mapping[str, tuple[float, float]]] = {"lambda_": (0.0, _INFINITY)}

    @staticmethod
    def _slopes(logits: Tensor, known: Known) -> Tensor:
        """The derivative of each environment's mean loss of w z by w, at w = 1: (C, H)."""
        _, counts, inside = known.by_environment
        return (inside * (known.residuals * logits)).sum(dim=1) / counts.clamp(min=1)

    def step_size(self) -> Tensor:
        """A mean for each environment that training has, with a penalty of lambda times its size."""
        present = (self.counts.environments > 0).sum(dim=0)
        return present * (1 + self.parameters["lambda_"]) * self._scale()

    def _scale(self) -> Tensor | float:
        return 1 / self.parameters["lambda_"].clamp(min=1) if self.variant == "released" else 1.0

    def _penalty(self, slopes: Tensor) -> Tensor:
        return slopes**2 if self.variant == "released" else slopes.abs()

    def __call__(self, logits: Tensor, labels: Tensor, environments: Tensor) -> Tensor:
        """Losses and penalties of the environments in the batch."""
        known = self.known(logits, labels, environments)
        means, slopes = known.by_environment[0], self._slopes(logits, known)
        return self._scale() * (means + self.parameters["lambda_"] * self._penalty(slopes)).sum(
            dim=0
        )

    def gradient(
        self, logits: Tensor, labels: Tensor, environments: Tensor, known: Known | None = None
    ) -> tuple[Tensor, Tensor]:
        """Closed form: the slope's own derivative by a logit is (s - y) + z s (1 - s), over the
        environment's count.
        """
        known = known or self.known(logits, labels, environments)
        (means, counts, inside), residual = known.by_environment, known.residuals
        slopes = self._slopes(logits, known)
        value = self._scale() * (means + self.parameters["lambda_"] * self._penalty(slopes)).sum(
            dim=0
        )
        of_penalty = 2 * slopes if self.variant == "released" else slopes.sign()
        rate = self._scale() * self.parameters["lambda_"] * of_penalty / counts.clamp(min=1)
        probability = residual + labels
        bend = residual + logits * probability * (1 - probability)
        per_row = (inside * (self._scale() / counts.clamp(min=1))[:, None]).sum(dim=0)
        return value, residual * per_row + bend * (inside * rate[:, None]).sum(dim=0)


class VREx(Objective):
    """Mean over environments of their mean losses, plus beta x the variance of these (Krueger et
    al., 2021).
    """

    name = "vrex"
    needs_environments = True
    ranges: ClassVar[Mapping[str, tuple[float, float]]] = {"beta": (0.0, _INFINITY)}

    def step_size(self) -> Tensor:
        """The variance's part grows with beta."""
        return 1 + self.parameters["beta"]

    def _risk(self, means: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
        """Value (H,), and its derivative by each mean, (C, H)."""
        present = (counts > 0).to(means.dtype)
        n = present.sum(dim=0)
        centre = (means * present).sum(dim=0) / n
        away = (means - centre) * present
        value = centre + self.parameters["beta"] * (away**2).sum(dim=0) / n
        return value, present / n + 2 * self.parameters["beta"] * away / n

    def __call__(self, logits: Tensor, labels: Tensor, environments: Tensor) -> Tensor:
        """Over the environments in the batch."""
        means, counts, _ = self.known(logits, labels, environments).by_environment
        return self._risk(means, counts)[0]

    def gradient(
        self, logits: Tensor, labels: Tensor, environments: Tensor, known: Known | None = None
    ) -> tuple[Tensor, Tensor]:
        """Residuals times each row's share in the value."""
        known = known or self.known(logits, labels, environments)
        means, counts, inside = known.by_environment
        value, rate = self._risk(means, counts)
        return value, known.residuals * (inside * (rate / counts.clamp(min=1))[:, None]).sum(dim=0)
