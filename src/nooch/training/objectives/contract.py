"""The contract of objectives: ``(logits, labels, environments) -> loss``, heads last."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

from nooch.base.errors import ParameterError, check_one_of

if TYPE_CHECKING:
    from torch import Tensor


VARIANTS = ("paper", "released")
Ranges = Mapping[str, tuple[float, float]]
"""Hyperparameter -> smallest and largest value (both allowed)."""


@dataclass(frozen=True, eq=False)
class TrainingCounts:
    """Number of training images each head has of y = 0 and 1, float tensor (2, H), and of each
    environment, float tensor (C, H).
    """

    classes: Tensor
    environments: Tensor

    @classmethod
    def from_numbers(
        cls, classes: Sequence[float], environments: Sequence[float] = (1.0,)
    ) -> TrainingCounts:
        """Counts of one task for one head, from plain numbers."""
        import torch

        return cls(
            torch.tensor(classes, dtype=torch.float64)[:, None],
            torch.tensor(environments, dtype=torch.float64)[:, None],
        )


@dataclass(frozen=True, eq=False)
class BatchTerms:
    """Quantities shared by objectives on a batch of m rows and H heads.

    Attributes:
        logits: (m, H).
        labels: (m, H), 0 to 1.
        environments: int64 (m, H).
        losses: (m, H), negative log-likelihoods.
        residuals: (m, H), probability minus label.
        inside: (C, m, H), 1 where a row is in an environment, else 0; or None where no head needs
            it.
        counts: (C, H), rows of each environment; or None.
        means: (C, H), mean losses of the environments, 0 if there is no row; or None.
    """

    logits: Tensor
    labels: Tensor
    environments: Tensor
    losses: Tensor
    residuals: Tensor
    inside: Tensor | None = None
    counts: Tensor | None = None
    means: Tensor | None = None

    @classmethod
    def from_logits(
        cls, logits: Tensor, labels: Tensor, environments: Tensor, inside: Tensor | None
    ) -> BatchTerms:
        """Terms of all heads, with environment terms if membership (C, m, H) is given."""
        values = losses(logits, labels)
        plain = logits, labels, environments, values, residuals(logits, labels)
        if inside is None:
            return cls(*plain)
        counts = inside.sum(dim=1)
        means = (inside * values[None]).sum(dim=1) / counts.clamp(min=1)
        return cls(*plain, inside, counts, means)

    def heads(self, which: slice) -> BatchTerms:
        """The part of some heads."""
        parts = [getattr(self, field.name) for field in fields(self)]
        return BatchTerms(*(None if part is None else part[..., which] for part in parts))  # type: ignore[arg-type]

    @property
    def by_environment(self) -> tuple[Tensor, Tensor, Tensor]:
        """Means, counts and membership, which are there for objectives that need environments."""
        assert self.means is not None and self.counts is not None and self.inside is not None  # noqa: S101, PT018
        return self.means, self.counts, self.inside


class Objective(ABC):
    """Quantity that training minimizes: one number for each head.

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
    """Its name."""
    ranges: ClassVar[Ranges] = {}
    needs_environments: ClassVar[bool] = False
    """True if it looks at environments."""

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
            problem = f"hyperparameter {name} is missing"
            raise ParameterError(problem, where=self.name, allowed="a number for each head")
        like = self.counts.classes
        value = torch.as_tensor(parameters[name], dtype=like.dtype, device=like.device)
        value = value.expand(like.shape[1])
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
        """The loss of validation images, (H,): as a call, but without an effect on any state."""
        return self(logits, labels, environments)

    def step_size(self) -> Tensor:
        """About how many times as large as ERM's the gradient is, (H,) or (1,); 1 by default.

        What heads on standardized features divide their steps by, so that one learning rate suits
        all objectives; the value of the objective has nothing to do with it.
        """
        return self.counts.classes.new_ones(1)

    def derivative(self, terms: BatchTerms) -> tuple[Tensor, Tensor]:
        """Loss (H,) and its derivative by the logits (m, H), from terms that objectives share.

        By automatic differentiation, unless an objective knows a closed form.
        """
        import torch

        with torch.enable_grad():
            # heads do not depend on each other, so that the sum's derivative is each one's own
            leaf = terms.logits.detach().requires_grad_()
            values = self(leaf, terms.labels, terms.environments)
            (derivative,) = torch.autograd.grad(values.sum(), leaf)
        return values.detach(), derivative

    def terms(self, logits: Tensor, labels: Tensor, environments: Tensor) -> BatchTerms:
        """Building blocks of the loss and its derivative."""
        n = len(self.counts.environments)
        inside = indicators(environments, n, logits) if self.needs_environments else None
        return BatchTerms.from_logits(logits, labels, environments, inside)


def check_objective(kind: type[Objective], parameters: Mapping[str, float]) -> None:
    """Try an objective on 12 made-up rows of two heads. Raises ParameterError unless it gives each
    head a loss of its own, which torch can differentiate.
    """
    import torch

    classes, environments = torch.full((2, 2), 20.0), torch.full((4, 2), 10.0)
    rows = torch.arange(12)[:, None].expand(12, 2)
    logits = torch.sin(torch.arange(24.0)).reshape(12, 2).requires_grad_()
    with torch.enable_grad():
        objective = kind(TrainingCounts(classes, environments), **dict[str, Any](parameters))
        terms = objective(logits, (rows % 2).float(), rows % 4)
    problem = ""
    if not isinstance(terms, torch.Tensor) or terms.shape != (2,):
        shape = tuple(getattr(terms, "shape", ()))
        problem = f"gives a {type(terms).__name__} of shape {shape} for two heads"
    elif not terms.requires_grad:
        problem = "gives a loss that does not depend on the logits, or is detached from them"
    elif torch.autograd.grad(terms[0], logits)[0][:, 1].any():
        problem = "gives a head a loss that depends on the outputs of another head"
    if problem:
        where = f"objective {getattr(kind, 'name', kind.__name__)}"
        allowed = "a tensor (H,): the loss of each head, of its own column of the logits"
        raise ParameterError(problem, where=where, allowed=allowed)


def losses(logits: Tensor, labels: Tensor) -> Tensor:
    """Negative log-likelihoods, natural logarithm, (m, H); labels may be fractions."""
    from torch.nn.functional import binary_cross_entropy_with_logits

    return binary_cross_entropy_with_logits(logits, labels, reduction="none")


def residuals(logits: Tensor, labels: Tensor) -> Tensor:
    """Derivative of ``losses`` by the logits: probability minus label, (m, H)."""
    return logits.sigmoid() - labels


def indicators(environments: Tensor, n_environments: int, like: Tensor) -> Tensor:
    """Membership of rows in environments, (C, m, H), in the type of ``like``."""
    import torch

    numbers = torch.arange(n_environments, device=environments.device)
    return (environments[None] == numbers[:, None, None]).to(like.dtype)
