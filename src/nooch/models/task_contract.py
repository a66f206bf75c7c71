"""Networks of any kind that give a logit for each task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nooch.base.errors import InputError
from nooch.models.images import Inputs, black_image
from nooch.models.sources import ModelSource, find_source
from nooch.models.task_maps import TaskWords

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, eq=False)
class Asked:
    """What is asked of a model: a hub id or a folder, and the tasks in order.

    ``words``, labels or prompts of tasks, are by default those that their names give, ``size``
    (height and width in pixels) is the model's own; ``device`` is from ``choose_device``;
    ``skip_unmapped`` leaves out tasks of which a classifier has no label; ``backbone`` is a custom
    one that a network was trained on.
    """

    source: str
    tasks: tuple[str, ...]
    words: Mapping[str, TaskWords] | None = None
    size: int | tuple[int, int] | None = None
    device: str = "cpu"
    skip_unmapped: bool = False
    backbone: str | None = None

    @property
    def folder(self) -> Path:
        """The source as a folder, which need not be there."""
        return Path(self.source).expanduser()

    @cached_property
    def resolved(self) -> ModelSource:
        """The source as a model of transformers. Raises InputError where it is none."""
        return find_source(self.source)


@dataclass(frozen=True, eq=False)
class TaskModel:
    """A network that answers tasks.

    Attributes:
        name: hub id, or the folder's name.
        identity: hash of weights and configuration.
        kind: one of ``nooch.models.task_models.KINDS``.
        tasks: in the order of the logits.
        inputs: how pixels are made ready.
        outputs: float32 (m, 3, height, width) -> logits, float64 (m, n_tasks), on the device.
        meaning: what stands for each task, as text.
    """

    name: str
    identity: str
    kind: str
    tasks: tuple[str, ...]
    inputs: Inputs
    outputs: Callable[[Tensor], Tensor]
    meaning: Mapping[str, Any] = field(default_factory=dict)

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of its input in pixels."""
        return self.inputs.preprocessing.size

    @property
    def device(self) -> str:
        """Where it computes."""
        return self.inputs.device

    def logits(self, pixels: NDArray[np.uint8]) -> Tensor:
        """Logits of the tasks: uint8 (m, height, width, 3) -> float64 (m, n_tasks)."""
        return self.outputs(self.inputs.prepare(pixels))


def tried(model: TaskModel) -> TaskModel:
    """The model, after it has taken one black image. Raises InputError: it takes no images of this
    size, or has not an output for each task.
    """
    with black_image("answers", model.size, where=model.name) as black:
        shape = tuple(model.logits(black).shape)
    if shape != (1, len(model.tasks)):
        allowed = f"(1, {len(model.tasks)})"
        raise InputError(f"gives outputs of shape {shape}", where=model.name, allowed=allowed)
    return model
