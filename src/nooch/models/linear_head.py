"""A linear layer on a network's features: how it starts, and the file that keeps it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor


HEAD_FILE = "head.safetensors"


def initial_heads(seeds: Sequence[int], d: int) -> Tensor:
    """Weights and biases of a head for each seed, float32 (d + 1, n_seeds).

    Uniform in +-1 / sqrt(d), as in ``torch.nn.Linear``; a column depends on its seed and d alone.
    """
    import torch

    columns = []
    for seed in seeds:
        random = torch.Generator().manual_seed(seed)
        columns.append((torch.rand(d + 1, generator=random) * 2 - 1) / d**0.5)
    return torch.stack(columns, dim=1)


def save_head(head: NDArray[np.float32], folder: Path) -> None:
    """Write a head, float32 (d + 1,), or several, (n, d + 1), as ``head.safetensors``.

    The file has ``weight`` (n, d) and ``bias`` (n,), float32; a folder that is missing is made.
    """
    from safetensors.numpy import save_file

    heads = np.atleast_2d(head)
    folder.mkdir(exist_ok=True)
    save_file({"weight": heads[:, :-1].copy(), "bias": heads[:, -1].copy()}, folder / HEAD_FILE)
