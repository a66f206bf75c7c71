"""The contract of an objective: ``(logits, labels, environments) -> loss``, for many heads along
the last axis.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from nooch.errors import ParameterError, check_one_of

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "VARIANTS",
    "Known",
    "Objective",
    "TrainingCounts",
    "indicators",
    "known_of",
    "losses",
    "means_by_environment",
    "residuals",
]

VARIANTS = ("paper", "released")


@dataclass(frozen=True, eq=False)
class TrainingCounts:
    """How many training images each head has of each class and environment.

    Attributes:
        classes: float tensor (2, H): of y = 0 and of y = 1.
        environments: float tensor (C, H).
    """

    classes: Tensor
    environments: Tensor

    @classmethod
    def of(cls, classes: Sequence[float], environments: Sequence[float] = (1.0,)) -> TrainingCounts:
        """Counts of one task for one head, from plain numbers."""
        import torch

        return cls(
            torch.tensor(classes, dtype=torch.float64)[:, None],
            torch.tensor(environments, dtype=torch.float64)[:, None],
        )


@dataclass(frozen=True, eq=False)
class Known:
    """What objectives have in common on a batch of m rows and H heads.

    Attributes:
        losses: (m, H), negative log-likelihoods.
        residuals: (m, H), probability minus label.
        inside: (C, m, H), 1 where a row is in an environment, else 0; or None where no head needs
            it.
        counts: (C, H), rows of each environment; or None.
        means: (C, H), mean losses of the environments, 0 where there is no row; or None.
    """

    losses: Tensor
    residuals: Tensor
    inside: Tensor | None = None
    counts: Tensor | None = None
    means: Tensor | None = None

    def heads(self, which: slice) -> Known:
        """The part of some heads."""
        return Known(*(None if part is None else part[..., which] for part in self._parts()))  # type: ignore[arg-type]

    def _parts(self) -> tuple[Tensor | None, ...]:
        return self.losses, self.residuals, self.inside, self.counts, self.means

    @property
    def by_environment(self) -> tuple[Tensor, Tensor, Tensor]:
        """Means, counts and membership, which are there for objectives that need environments."""
        assert self.means is not None and self.counts is not None and self.inside is not None  # noqa: S101, PT018
        return self.means, self.counts, self.inside


def known_of(logits: Tensor, labels: Tensor, inside: Tensor | None) -> Known:
    """Losses, residuals, and what follows from membership in environments (C, m, H), for all heads
    at once.
    """
    values = losses(logits, labels)
    if inside is None:
        return Known(values, residuals(logits, labels))
    means, counts = means_by_environment(values, inside)
    return Known(values, residuals(logits, labels), inside, counts, means)


class Objective(ABC):
    """What training minimises: one number for each head.

    An objective is made for the counts of its heads and one value of each hyperparameter for each
    head, so that heads of different tasks and hyperparameters train together.

    Args:
        counts: class and environment counts of the training images.
        variant: ``paper``, or ``released`` where the authors' code does otherwise.
        parameters: name -> tensor (H,), or a number for all heads.

    Raises:
        ParameterError: an unknown variant, a parameter that is unknown, missing or out of range.
    """

    name: ClassVar[str]
    """What it is called."""
    ranges: ClassVar[Mapping[str, tuple[float, float]]] = {}
    """Hyperparameter -> smallest and largest value (both allowed)."""
    needs_environments: ClassVar[bool] = False
    """Whether it looks at environments."""

    def __init__(
        self, counts: TrainingCounts, *, variant: str = "paper", **parameters: Any
    ) -> None:
        check_one_of("variant", variant, VARIANTS, owner=self.name)
        self.counts, self.variant = counts, variant
        self.parameters = {name: self._checked(name, parameters) for name in self.ranges}
        for name in parameters:
            check_one_of("hyperparameter", name, self.ranges, owner=self.name)

    def _checked(self, name: str, parameters: Mapping[str, Any]) -> Tensor:
        import torch

        if name not in parameters:
            raise ParameterError(
                f"hyperparameter {name} is missing",
                where=self.name,
                allowed="a number for each head",
            )
        like = self.counts.classes
        value = torch.as_tensor(parameters[name], dtype=like.dtype, device=like.device).expand(
            like.shape[1]
        )
        low, high = self.ranges[name]
        if not bool(((value >= low) & (value <= high)).all()):
            raise ParameterError(
                f"{name} is {parameters[name]}", where=self.name, allowed=f"{low:g} to {high:g}"
            )
        return value

    @abstractmethod
    def __call__(self, logits: Tensor, labels: Tensor, environments: Tensor) -> Tensor:
        """Loss of each head on a batch, shape (H,).

        Args:
            logits: float (m, H).
            labels: float (m, H), 0 or 1.
            environments: int64 (m, H), 0 to C - 1.
        """

    def measure(self, logits: Tensor, labels: Tensor, environments: Tensor) -> Tensor:
        """The loss of validation images, (H,): as a call, but of no effect on any state."""
        return self(logits, labels, environments)

    def step_size(self) -> Tensor:
        """About how many times as large as ERM's the gradient is, (H,) or (1,); 1 by default.

        What heads on standardized features divide their steps by, so that one learning rate suits
        all objectives; the value of the objective has nothing to do with it.
        """
        return self.counts.classes.new_ones(1)

    def gradient(
        self, logits: Tensor, labels: Tensor, environments: Tensor, known: Known | None = None
    ) -> tuple[Tensor, Tensor]:
        """Loss (H,) and its derivative by the logits (m, H): what many heads in one pass train by.

        By automatic differentiation, unless an objective knows a closed form. ``known`` is what
        ``known_of`` gives for these heads, where it has been computed for those of many objectives
        at once.
        """
        import torch

        del known
        with torch.enable_grad():
            # heads do not depend on each other, so that the sum's derivative is each one's own
            leaf = logits.detach().requires_grad_()
            values = self(leaf, labels, environments)
            (derivative,) = torch.autograd.grad(values.sum(), leaf)
        return values.detach(), derivative

    def known(self, logits: Tensor, labels: Tensor, environments: Tensor) -> Known:
        """What the gradient of these heads is made of."""
        inside = (
            indicators(environments, len(self.counts.environments), logits)
            if self.needs_environments
            else None
        )
        return known_of(logits, labels, inside)


def losses(logits: Tensor, labels: Tensor) -> Tensor:
    """Negative log-likelihood of each row and head, natural logarithm, (m, H); labels may be
    fractions.
    """
    from torch.nn.functional import binary_cross_entropy_with_logits

    return binary_cross_entropy_with_logits(logits, labels, reduction="none")


def residuals(logits: Tensor, labels: Tensor) -> Tensor:
    """Derivative of ``losses`` by the logits: probability minus label, (m, H)."""
    return logits.sigmoid() - labels


def indicators(environments: Tensor, n_environments: int, like: Tensor) -> Tensor:
    """Which rows are in which environment, (C, m, H), in the type of ``like``."""
    import torch

    numbers = torch.arange(n_environments, device=environments.device)
    return (environments[None] == numbers[:, None, None]).to(like.dtype)


def means_by_environment(values: Tensor, inside: Tensor) -> tuple[Tensor, Tensor]:
    """Means of values (m, H) over the rows of each environment and their counts, (C, H) each; 0
    where there is no row.
    """
    counts = inside.sum(dim=1)
    return (inside * values[None]).sum(dim=1) / counts.clamp(min=1), counts
