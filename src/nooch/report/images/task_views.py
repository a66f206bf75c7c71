"""One task in one split: labels, marks, support, losses and areas over one order of images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from nooch.evaluation.predictions import positions
from nooch.report.images.image_losses import ImageLosses
from nooch.report.images.split_images import SplitImages
from nooch.suites import Suite

__all__ = ["UNKNOWN", "TaskView", "labels_of", "task_view"]

Floats = NDArray[np.float64]

UNKNOWN = 255
"""Label of an image that no set of the task has, or in which the class was not annotated; mark of
one without a verdict."""


@dataclass(frozen=True, eq=False)
class TaskView:
    """What is known of a task's images in one split, rows shared by all arrays.

    Attributes:
        task: its name.
        labels: int8 (n,), 1 present, 0 absent, -1 unknown.
        marks: criterion -> uint8 (n,): 0 hard positive, 1 hard negative, 2 easy, 255 no verdict.
        support: criterion -> float64 (n,), NaN where there is none; criteria without support are
            missing.
        losses: criterion -> method -> float64 (n,).
        area: float64 (n,), area of the task's class, NaN where it was not annotated, or None where
            areas are unknown.
    """

    task: str
    labels: NDArray[np.int8]
    marks: Mapping[str, NDArray[np.uint8]]
    support: Mapping[str, Floats] = field(default_factory=dict)
    losses: Mapping[str, Mapping[str, Floats]] = field(default_factory=dict)
    area: Floats | None = None


def labels_of(suite: Suite, task: str, images: SplitImages) -> NDArray[np.uint8]:
    """1 where the class is present, 0 where it is absent, UNKNOWN elsewhere; shape (n,)."""
    if images.data is not None:
        labels = images.data.labels(task, unknown=False).astype(np.uint8)
        unknown = images.data.unknown_labels(task)
        return labels if unknown is None else np.where(unknown, np.uint8(UNKNOWN), labels)
    labels = np.full(len(images), UNKNOWN, dtype=np.uint8)
    for key in suite.keys:
        if key[1:] == (task, images.split):
            challenge = suite.set(*key)
            labels[positions(challenge.image_ids, images.ids)] = challenge.labels
    return labels


def task_view(suite: Suite, task: str, images: SplitImages, losses: ImageLosses) -> TaskView:
    """What is known of a task in one split."""
    labels, data = labels_of(suite, task, images), images.data
    marks, support = {}, {}
    for criterion in suite.criteria:
        if (criterion, task, images.split) in suite.keys:
            challenge = suite.set(criterion, task, images.split)
            marks[criterion] = images.spread(challenge, challenge.subset, UNKNOWN)
            if challenge.support is not None:
                support[criterion] = images.spread(challenge, challenge.support, np.nan)
    return TaskView(
        task,
        np.where(labels == UNKNOWN, -1, labels).astype(np.int8),
        marks,
        support,
        {
            criterion: {method: values for method, (_, values) in of_methods.items()}
            for criterion, of_methods in losses.of(task, images, labels == 1).items()
        },
        data.area(task, unknown=np.nan) if data is not None and data.has_areas else None,
    )
