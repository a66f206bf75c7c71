"""Networks that nooch trained, as models that answer tasks: each output is named after its task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nooch.base.errors import InputError, ParameterError, check_one_of
from nooch.models.saved_networks import NETWORK_MARKER, load_network
from nooch.models.task_contract import Asked, TaskModel

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["is_trained", "load_trained"]


def is_trained(asked: Asked) -> bool:
    """Whether the source is a folder of ``save_network``."""
    return (asked.folder / NETWORK_MARKER).is_file()


def load_trained(asked: Asked) -> TaskModel:
    """The network, with the outputs that are asked for.

    Raises:
        FormatError: the folder is incomplete or altered.
        ParameterError: a task or a size that it was not trained for, words for its tasks.
    """
    network, header = load_network(asked.folder, device=asked.device, backbone=asked.backbone)
    backbone = network.backbone
    for task in asked.tasks:
        check_one_of("task", task, header.outputs, owner=f"the network {asked.folder.name}")
    if asked.words is not None:
        raise ParameterError(
            "its outputs are the tasks themselves",
            where=asked.folder,
            remedy="leave `task_map` out",
        )
    if asked.size not in {None, backbone.size} and (asked.size, asked.size) != backbone.size:
        raise InputError(
            f"was trained on images of {backbone.size[0]} x {backbone.size[1]}",
            where=asked.folder,
            remedy="leave `size` out",
        )
    places = [header.outputs.index(task) for task in asked.tasks]

    def outputs(batch: Tensor) -> Tensor:
        return network.logits(batch)[:, places].double()

    name, meaning = asked.folder.name, dict.fromkeys(asked.tasks, "output")
    return TaskModel(name, header.head, "trained", asked.tasks, backbone.inputs, outputs, meaning)
