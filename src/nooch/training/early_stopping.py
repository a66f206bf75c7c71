"""The validation value that decides when to stop, for heads and for whole networks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nooch.errors import check_one_of
from nooch.objectives import Objective, losses

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["STOP_ON", "stop_rule", "validation_value"]

STOP_ON = ("objective", "batches", "nll")
"""Rules of early stopping, see ``validation_value``."""


def stop_rule(stop_on: str | None, variant: str) -> str:
    """The rule that is asked for; by default ``batches`` for ``released``, else ``objective``."""
    if stop_on is None:
        return "batches" if variant == "released" else "objective"
    return check_one_of("stop_on", stop_on, STOP_ON, owner="training")


def validation_value(
    rule: str,
    objective: Objective,
    outputs: tuple[Tensor, Tensor, Tensor],
    expected: Tensor | None,
    batch: int,
) -> Tensor:
    """The validation value of each head, (H,); training stops when it no longer falls.

    - ``objective``: the method's objective on all images at once; for a method that draws rows, the
      mean loss with each image weighted by how often it would be drawn.
    - ``batches``: the authors' released code: the objective on minibatches of ``batch`` images in
      their order, averaged by the number of images; the plain mean loss for a method that draws
      rows, whose sampler is for training only.
    - ``nll``: the plain mean loss.

    Args:
        rule: out of ``STOP_ON``.
        objective: of the heads.
        outputs: logits, labels and environments of the m images, (m, H) each.
        expected: float (m, H) or (m, 1), how often rows would be drawn, for a method that draws.
        batch: images in a minibatch.
    """
    logits, labels, environments = outputs
    if rule == "nll" or (rule == "batches" and expected is not None):
        return losses(logits, labels).mean(dim=0)
    if expected is not None:
        return (expected * losses(logits, labels)).mean(dim=0)
    if rule == "objective":
        return objective.measure(logits, labels, environments)
    total = logits.new_zeros(logits.shape[1])
    for start in range(0, len(logits), batch):
        part = slice(start, start + batch)
        value = objective.measure(logits[part], labels[part], environments[part])
        total += value * len(logits[part])
    return total / len(logits)
