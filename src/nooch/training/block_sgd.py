"""Many linear heads on frozen features in one pass: one read and one matrix product for all.

Heads that share an order of rows train together by the very steps that each would take on its own
(SGD with momentum and weight decay, as PyTorch has it). Instead of updating the weights after each
small batch, a block of consecutive batches is computed at once: the logits of batch t come from the
weights at the start of the block, minus what the steps before t have changed, and that is

    X_t W_t = a_t X_t W_0 + b_t X_t V_0 + sum over s < t of c_(t-s) (X_t X_s') G_s,

where G_s are the derivatives of the losses by the logits of batch s, V the momentum, and a, b, c
numbers that follow only from learning rate, momentum and weight decay. So a block needs four large
products and small ones, and the weights are written once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from nooch.base.calls import Options
from nooch.models.networks import initial_heads

if TYPE_CHECKING:
    from torch import Tensor


_GRAM_PARTS = 4
"""Steps whose products with earlier ones are computed together."""

Gradient = Callable[["Tensor", slice], "tuple[Tensor, Tensor]"]
"""(logits (m, H), rows of the batch in the block) -> losses (H,), derivatives (m, H)."""


@dataclass(frozen=True)
class Descent(Options):
    """Stochastic gradient descent with momentum and weight decay, as in ``torch.optim.SGD``.

    Attributes:
        lr: learning rate, above 0.
        momentum: 0 up to 1, without 1.
        weight_decay: at least 0.
    """

    lr: Annotated[float, Meta(gt=0)] = 1e-4
    momentum: Annotated[float, Meta(ge=0, lt=1)] = 0.9
    weight_decay: Annotated[float, Meta(ge=0)] = 1e-4


@dataclass
class HeadState:
    """Weights of H heads, then their momenta, float tensor (d, 2 H); the same for biases (2 H,)."""

    weights: Tensor
    biases: Tensor

    @classmethod
    def initial(cls, seeds: Sequence[int], d: int, device: str = "cpu") -> HeadState:
        """Heads as they start, see ``initial_heads``, without momentum."""
        import torch

        start = initial_heads(seeds, d)
        start = torch.cat([start, torch.zeros_like(start)], dim=1).to(device)
        return cls(start[:-1].contiguous(), start[-1].contiguous())

    @property
    def n_heads(self) -> int:
        """H."""
        return self.biases.shape[0] // 2

    def logits(self, features: Tensor) -> Tensor:
        """Outputs (n, H) for features (n, d)."""
        n = self.n_heads
        return features @ self.weights[:, :n] + self.biases[:n]

    def keep(self, heads: NDArray[np.intp]) -> HeadState:
        """The state of only some heads."""
        import torch

        both = torch.from_numpy(np.append(heads, heads + self.n_heads)).to(self.biases.device)
        return HeadState(self.weights[:, both].contiguous(), self.biases[both].contiguous())


class Coefficients:
    """The numbers a, b and c of the block rule for one descent and a largest number of steps.

    With the state (W, V) a step is M (W, V) + (-lr, 1) A, where A is the batch's gradient and
    M = [[1 - lr wd, -lr momentum], [wd, momentum]]: so t steps are powers of M.
    """

    def __init__(self, descent: Descent, steps: int) -> None:
        lr, mu, decay = descent.lr, descent.momentum, descent.weight_decay
        step = np.array([[1 - lr * decay, -lr * mu], [decay, mu]])
        powers = [np.eye(2)]
        for _ in range(steps):
            powers.append(step @ powers[-1])
        self.powers = np.array(powers)
        """float64 (steps + 1, 2, 2)."""
        self.pushes = self.powers[:-1] @ np.array([-lr, 1.0])
        """float64 (steps, 2): what a gradient adds to (W, V), by the number of steps after it."""

    def lags(self, steps: int, batch: int) -> NDArray[np.float64]:
        """The numbers c for each pair of rows of a block (rows, rows): what an earlier row's
        derivative does to a later row's logit; else 0.
        """
        number = np.arange(steps).repeat(batch)
        lag = number[:, None] - number[None, :] - 1
        return np.where(lag >= 0, self.pushes[np.maximum(lag, 0), 0], 0.0)


def run_epoch(
    state: HeadState,
    features: Any,
    order: NDArray[np.intp],
    gradient: Callable[[NDArray[np.intp]], Gradient],
    descent: Descent,
    batch: int = 32,
    block: int = 16,
) -> Tensor:
    """Train all heads for an epoch; changes ``state`` and returns mean losses, (H,).

    ``features``: float (n, d), array or memory map; rows are read once, block by block; ``order``:
    int (m,), rows in the order in which they are taken; the last batch may be smaller.
    """
    import torch

    device, kind, n = state.biases.device, state.weights.dtype, state.n_heads
    coefficients = Coefficients(descent, block)
    lags = torch.from_numpy(coefficients.lags(block, batch)).to(device, kind)
    total = torch.zeros(n, device=device, dtype=torch.float64)
    n_steps = 0
    for start in range(0, len(order), batch * block):
        rows = order[start : start + batch * block]
        x = torch.from_numpy(np.asarray(features[rows], dtype=np.float32)).to(device, kind)
        begin = torch.addmm(state.biases, x, state.weights)
        gram = _gram(x, lags, _GRAM_PARTS * batch)
        derivatives = torch.empty(len(rows), n, device=device, dtype=kind)
        of_batch, steps = gradient(rows), -(-len(rows) // batch)
        with _one_thread():
            for step in range(steps):
                part = slice(step * batch, min((step + 1) * batch, len(rows)))
                a, b = coefficients.powers[step][0].tolist()
                logits = torch.add(begin[part, :n] * a, begin[part, n:], alpha=b)
                if step:
                    logits.addmm_(gram[part, : part.start], derivatives[: part.start])
                losses, derivatives[part] = of_batch(logits, part)
                total += losses
        later = coefficients.pushes[steps - 1 - np.arange(len(x)) // batch]
        pushes = torch.from_numpy(later).to(device, kind)
        _advance(state, x, derivatives, pushes, coefficients.powers[steps].tolist())
        n_steps += steps
    return total / max(n_steps, 1)


def _gram(x: Tensor, lags: Tensor, rows: int) -> Tensor:
    """Products of each row with those before it, times what a step does by then."""
    gram = x.new_zeros(len(x), len(x))
    for start in range(0, len(x), rows):
        stop = min(start + rows, len(x))
        # the bias is a feature that is always 1
        gram[start:stop, :stop] = (x[start:stop] @ x[:stop].T + 1) * lags[start:stop, :stop]
    return gram


@contextmanager
def _one_thread() -> Iterator[None]:
    """Use one thread for small operations: to wake others takes longer than the work."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _advance(
    state: HeadState, x: Tensor, derivatives: Tensor, pushes: Tensor, powers: list[list[float]]
) -> None:
    """Weights and momenta after a block; ``pushes`` (rows, 2) are what steps after a row's do."""
    import torch

    moved = torch.cat([derivatives * pushes[:, :1], derivatives * pushes[:, 1:]], dim=1)
    state.weights = _moved(x.T @ moved, state.weights, powers)
    state.biases = _moved(moved.sum(dim=0), state.biases, powers)


def _moved(change: Tensor, before: Tensor, powers: Sequence[Sequence[float]]) -> Tensor:
    """M (W, V) + change, in the memory of ``change``; (..., 2 H) each."""
    n = before.shape[-1] // 2
    parts = change[..., :n], change[..., n:]
    for part, (of_weights, of_momenta) in zip(parts, powers, strict=True):
        part.add_(before[..., :n], alpha=of_weights).add_(before[..., n:], alpha=of_momenta)
    return change
