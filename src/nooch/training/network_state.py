"""State of a network as arrays and back, without loss, and its own random numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor


Arrays = dict[str, NDArray[Any]]


@dataclass
class OwnRandom:
    """Inside ``with``, torch draws from this stream; outside, as if nothing had been drawn.

    Attributes:
        device: where the network is.
        states: of the CPU's generator and, for a network on a GPU, of the GPU's; bytes.
    """

    device: str
    states: list[Tensor]
    _before: list[Tensor] = field(default_factory=list)

    @classmethod
    def start(cls, seed: int, device: str) -> OwnRandom:
        """The stream of a seed."""
        import torch

        # apart from the one that the head starts with
        own = int(np.random.SeedSequence([seed, 5]).generate_state(1)[0])
        kinds = ["cpu"] if device == "cpu" else ["cpu", device]
        return cls(device, [torch.Generator(kind).manual_seed(own).get_state() for kind in kinds])

    def __enter__(self) -> None:
        self._before = self._now()
        self._set(self.states)

    def __exit__(self, *_: object) -> None:
        self.states = self._now()
        self._set(self._before)

    def _now(self) -> list[Tensor]:
        import torch

        gpu = [] if self.device == "cpu" else [torch.cuda.get_rng_state(self.device)]
        return [torch.get_rng_state(), *gpu]

    def _set(self, states: list[Tensor]) -> None:
        import torch

        torch.set_rng_state(states[0])
        for state in states[1:]:
            torch.cuda.set_rng_state(state, self.device)


def array_of(value: Tensor) -> NDArray[Any]:
    """A copy; numpy has no bfloat16, and float32 represents all of its values."""
    import torch

    kind = torch.float32 if value.dtype == torch.bfloat16 else value.dtype
    return np.array(value.detach().to("cpu", kind).numpy())


def tensor_of(value: NDArray[Any]) -> Tensor:
    """A tensor of its own."""
    import torch

    return torch.from_numpy(np.array(value))


def restore(tensors: Mapping[str, Tensor], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Put arrays into tensors of the same names; nothing happens if there are no arrays."""
    if arrays:
        for name, value in tensors.items():
            value.copy_(tensor_of(arrays[name]))


def part_of(arrays: Mapping[str, NDArray[Any]], kind: str) -> Arrays:
    """The arrays whose names start with ``kind.``, without that."""
    start = f"{kind}."
    return {name[len(start) :]: arrays[name] for name in arrays if name.startswith(start)}
