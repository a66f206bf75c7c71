"""Image classifiers of transformers: a task's logit from the classes that stand for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from nooch.base.errors import InputError, unreadable
from nooch.models.images import Inputs
from nooch.models.sources import ModelSource, complete, preprocessing_of
from nooch.models.task_contract import Asked, TaskModel
from nooch.models.task_maps import find_labels

if TYPE_CHECKING:
    from torch import Tensor


def one_class(outputs: Tensor, inside: Sequence[int]) -> Tensor:
    """For a softmax: the classes exclude each other, p = sum of their probabilities.

    log p - log(1 - p) = logsumexp over these - logsumexp over the others, exact near 0 and 1. From
    outputs before the softmax (m, n_classes): float64 (m,).
    """
    import torch

    values = outputs.double()
    chosen = torch.zeros(values.shape[1], dtype=torch.bool, device=values.device)
    chosen[list(inside)] = True
    return torch.logsumexp(values[:, chosen], 1) - torch.logsumexp(values[:, ~chosen], 1)


def any_class(outputs: Tensor, inside: Sequence[int]) -> Tensor:
    """For several sigmoids: p = 1 - product of (1 - probability), classes taken as independent.

    With S = sum of softplus(output), 1 - p is exp(-S), so that the logit is S + log(1 - exp(-S)).
    From outputs before the sigmoids (m, n_classes): float64 (m,).
    """
    import torch

    chosen = outputs.double()[:, list(inside)]
    if chosen.shape[1] == 1:
        return chosen[:, 0]
    total = torch.nn.functional.softplus(chosen).sum(1)
    return total + torch.log(-torch.expm1(-total))


ANSWERS: dict[str, Callable[[Tensor, Sequence[int]], Tensor]] = {
    "single_label_classification": one_class,
    "multi_label_classification": any_class,
}
"""``problem_type`` of a configuration -> what its outputs mean; the first where it has none."""


def is_classifier(asked: Asked) -> bool:
    """Whether the configuration is that of an image classifier."""
    listed = asked.resolved.config.get("architectures") or []
    return any(str(name).endswith("ForImageClassification") for name in listed)


def load_classifier(asked: Asked) -> TaskModel:
    """A classifier that gives the tasks' logits. Raises InputError: tasks without labels, missing
    weights, a ``problem_type`` of no classification.
    """
    resolved, labels = asked.resolved, labels_of(asked.resolved)
    kind = resolved.config.get("problem_type") or "single_label_classification"
    if kind not in ANSWERS:
        allowed = ", ".join(ANSWERS)
        raise InputError(f"has the problem_type {kind}", where=resolved.name, allowed=allowed)
    inside = find_labels(
        labels, asked.tasks, asked.words, resolved.name, skip_unmapped=asked.skip_unmapped
    )
    inputs = Inputs(preprocessing_of(resolved, asked.size), asked.device, channels_last=True)
    from transformers import AutoModelForImageClassification

    module = complete(AutoModelForImageClassification, resolved, asked.device)
    answer = ANSWERS[kind]

    def outputs(batch: Tensor) -> Tensor:
        import torch

        values = module(batch).logits
        if values.shape[1] != len(labels):
            allowed = f"{len(labels)}, one for each label"
            raise InputError(
                f"gives {values.shape[1]} outputs", where=resolved.name, allowed=allowed
            )
        return torch.stack([answer(values, places) for places in inside.values()], 1)

    meaning = {task: [labels[place] for place in places] for task, places in inside.items()}
    name, identity = resolved.name, resolved.identity
    return TaskModel(name, identity, "classifier", tuple(inside), inputs, outputs, meaning)


def labels_of(resolved: ModelSource) -> list[str]:
    """Labels in the order of the outputs. Raises InputError for an ``id2label`` that has not one
    for each.
    """
    config, name = resolved.config, resolved.name
    broken, problem = (TypeError, ValueError), "id2label cannot be read"
    with unreadable(name, "numbers and labels", broken, problem=problem):
        named = dict(config.get("id2label") or {})
        numbered = {int(number): str(label) for number, label in named.items()}
    if sorted(numbered) != list(range(len(numbered))) or not numbered:
        raise InputError(
            f"id2label of its config.json has {len(numbered)} labels that are not numbered from 0",
            where=name,
            allowed="a label for each output",
            remedy="write id2label into config.json: it gives the outputs their meaning",
        )
    return [numbered[number] for number in range(len(numbered))]
