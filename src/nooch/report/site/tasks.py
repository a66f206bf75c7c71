"""One task in one split as the page Explore needs it: labels, criteria, losses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nooch.challenge import Suite
from nooch.report.site.rows import SplitImages
from nooch.report.site.scripts import packed, script
from nooch.report.site.supports import criterion_parts

__all__ = ["UNKNOWN", "labels_of", "task_file"]

UNKNOWN = 255
"""Label of an image that no set of the task has, or in which the class was not annotated."""


def labels_of(suite: Suite, task: str, images: SplitImages) -> NDArray[np.uint8]:
    """1 where the class is present, 0 where it is absent, UNKNOWN where nothing says; shape (n,)."""
    if images.data is not None:
        given, unknown = images.data.labels(task, unknown=False).astype(np.uint8), images.data.unknown_labels(task)
        return given if unknown is None else np.where(unknown, UNKNOWN, given).astype(np.uint8)
    labels = np.full(len(images), UNKNOWN, dtype=np.uint8)
    for key in suite.keys:
        if key[1:] == (task, images.split):
            challenge = suite.set(*key)
            labels[images.rows(challenge.image_ids)] = challenge.labels
    return labels


def task_file(
    suite: Suite,
    task: str,
    images: SplitImages,
    losses: Mapping[str, Mapping[str, tuple[str, NDArray[np.float64]]]],
) -> bytes:
    """The script of a task and split."""
    criteria, areas = criterion_parts(suite, task, images)
    content: dict[str, Any] = {
        "task": task,
        "split": images.split,
        "n": len(images),
        "labels": packed(labels_of(suite, task, images), "u1"),
        "criteria": criteria,
        "areas": areas,
        **_losses(losses),
    }
    return script(f"task-{suite.tasks.index(task)}-{images.split}", content)


def _losses(losses: Mapping[str, Mapping[str, tuple[str, NDArray[np.float64]]]]) -> dict[str, Any]:
    """Each array once, however many criteria chose the same setting."""
    arrays: dict[str, NDArray[np.float64]] = {}
    for of_methods in losses.values():
        arrays |= dict(of_methods.values())
    place = {key: number for number, key in enumerate(arrays)}
    return {
        "losses": [packed(values, "f4") for values in arrays.values()],
        "methods": {c: {m: place[key] for m, (key, _) in of.items()} for c, of in losses.items()},
    }
