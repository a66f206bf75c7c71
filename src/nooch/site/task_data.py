"""One task in one split as the page Explore needs it: labels, criteria, losses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nooch.challenge import Suite
from nooch.examples.split_images import SplitImages
from nooch.examples.task_views import labels_of
from nooch.site.criterion_data import criterion_parts
from nooch.site.data_scripts import packed, script

__all__ = ["task_file"]


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
