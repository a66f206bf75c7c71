"""Heads of one objective in a pass: one loss and one gradient for all heads of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nooch.objectives import ERM, Objective, indicators, known_of
from nooch.training.block_sgd import Gradient
from nooch.training.jobs import Job

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["HeadGroup", "alike", "batch_gradient", "weighs"]


@dataclass
class HeadGroup:
    """Neighbouring heads with one objective and one kind of sampler."""

    heads: slice
    objective: Objective
    counts: Tensor | None = None
    """Weights of training rows in this epoch, (n_train, h), where rows are not taken once each."""
    expected: Tensor | None = None
    """How often validation images would be taken on average, (n_valid, h), likewise."""

    @property
    def sizes(self) -> Tensor:
        """About how many times ERM's gradient each head's is, (h,)."""
        return self.objective.step_size().expand(self.heads.stop - self.heads.start)


def batch_gradient(
    groups: Sequence[HeadGroup],
    at: Tensor,
    targets: tuple[Tensor, Tensor],
    n: int,
    sizes: Tensor | None,
) -> Gradient:
    """For the rows of a block: losses and derivatives of its batches, group by group.

    Args:
        groups: of all H heads, in their order.
        at: int64 (b,), the block's rows among the training images.
        targets: labels float (b, H) and environments int64 (b, H) of these rows.
        n: number of environments.
        sizes: what derivatives are divided by, (H,), or None.
    """
    import torch

    labels, environments = targets
    inside = indicators(environments, n, labels) if any(g.objective.needs_environments for g in groups) else None
    # heads whose rows have a fixed weight lie first, and differ in nothing else
    first = [group for group in groups if isinstance(group.objective, ERM)]
    others = groups[len(first) :]
    weights = [
        group.objective.weights(labels[:, group.heads], environments[:, group.heads])
        if group.counts is None
        else group.counts[at]
        for group in first
        if isinstance(group.objective, ERM)
    ]
    fixed = [w.expand(len(at), g.heads.stop - g.heads.start) for w, g in zip(weights, first, strict=True)]
    table = torch.cat(fixed, dim=1) if fixed else labels[:, :0]

    def of_batch(logits: Tensor, place: slice) -> tuple[Tensor, Tensor]:
        # of all heads at once: most of the time of a step is the overhead of small operations
        known = known_of(logits, labels[place], None if inside is None else inside[:, place])
        width, times = table.shape[1], table[place]
        values = [(times * known.losses[:, :width]).mean(dim=0)]
        derivatives = [times * known.residuals[:, :width] / len(logits)]
        for group in others:
            heads = group.heads
            value, derivative = group.objective.gradient(
                logits[:, heads], labels[place, heads], environments[place, heads], known.heads(heads)
            )
            values.append(value)
            derivatives.append(derivative)
        steps = torch.cat(derivatives, dim=1)
        return torch.cat(values), steps if sizes is None else steps.div_(sizes)

    return of_batch


def alike(job: Job) -> tuple[Any, ...]:
    """Heads of one objective and one way of weighting rows are one group; those with fixed weights of rows come first."""
    objective = job.kind.objective_class
    moving = not issubclass(objective, ERM)
    return moving, f"{objective.__module__}.{objective.__qualname__}", weighs(job)


def weighs(job: Job) -> bool:
    """Whether its rows are not taken once each."""
    return job.kind.sampler is not None or job.kind.first is not None
