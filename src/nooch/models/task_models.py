"""Kinds of models that answer tasks, and loading one by its source."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nooch.base.errors import InputError, ParameterError, check_one_of
from nooch.models.classifiers import is_classifier, load_classifier
from nooch.models.devices import choose_device
from nooch.models.saved_networks import NETWORK_MARKER, load_network
from nooch.models.task_contract import Asked, TaskModel, tried
from nooch.models.task_maps import TaskWords
from nooch.models.zero_shot import is_zero_shot, load_zero_shot

if TYPE_CHECKING:
    from torch import Tensor


def is_trained(asked: Asked) -> bool:
    """Whether the source is a folder of ``save_network``."""
    return (asked.folder / NETWORK_MARKER).is_file()


def load_trained(asked: Asked) -> TaskModel:
    """The network, with the outputs that are asked for."""
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


@dataclass(frozen=True)
class ModelKind:
    """A kind of model: whether a source is of this kind, and how it is loaded."""

    fits: Callable[[Asked], bool]
    load: Callable[[Asked], TaskModel]


KINDS: dict[str, ModelKind] = {
    # before the others: its folder is one of transformers too
    "trained": ModelKind(is_trained, load_trained),
    "classifier": ModelKind(is_classifier, load_classifier),
    "zero-shot": ModelKind(is_zero_shot, load_zero_shot),
}
"""Name -> kind; the first that fits is taken."""


def load_task_model(
    source: str | Path,
    tasks: Sequence[str],
    words: Mapping[str, TaskWords] | None = None,
    *,
    size: int | tuple[int, int] | None = None,
    device: str = "auto",
    skip_unmapped: bool = False,
    backbone: str | None = None,
) -> TaskModel:
    """Load a trained network as one that gives a logit for each task; no code of the model is run.

    Args:
        source: a hub id ``owner/model``, or a folder with weights as safetensors: an image
            classifier, a model of texts and images, or a network that nooch trained and kept.
        tasks: names.
        words: labels (classifier) or prompts (texts and images) of the tasks, from
            ``read_task_map``; by default those that the tasks' names give.
        size: of the input in pixels, or (height, width); by default the one in
            ``preprocessor_config.json``.
        device: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.
        skip_unmapped: leave out tasks without words or label, as long as some task has them.
        backbone: the custom one, ``package.module:Name``, of a network that was trained on it.

    Raises:
        InputError: no such model, one that cannot answer the tasks, or takes no such images.
        ParameterError: no such device or size; a `backbone` of another model.
        MissingExtraError: torch or transformers is not installed.
    """
    if skip_unmapped and words is not None:
        tasks = [task for task in tasks if task in words] or tasks
    device = choose_device(device)
    asked = Asked(str(source), tuple(tasks), words, size, device, skip_unmapped, backbone)
    if backbone is not None and not is_trained(asked):
        problem, allowed = "`backbone` is for networks that nooch trained", "their folder"
        raise ParameterError(problem, where=asked.source, allowed=allowed)
    for kind in KINDS.values():
        if kind.fits(asked):
            return tried(kind.load(asked))
    raise InputError(
        f"a model of type {asked.resolved.config['model_type']} answers no tasks by itself",
        where=asked.resolved.name,
        allowed="an image classifier, or a model of texts and images such as CLIP",
        remedy="train heads on its features: nooch features, then nooch bench",
    )
