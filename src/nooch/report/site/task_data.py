"""A split as scripts that the page Explore loads: its images, and labels and losses by task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nooch.report.images.split_images import SplitImages
from nooch.report.images.task_views import labels_of
from nooch.report.site.criterion_data import UnsetSupports, context_presences, criterion_parts
from nooch.report.site.data_scripts import packed, script
from nooch.suites import Suite

__all__ = ["BLOCK", "about_images", "split_file", "task_file"]

BLOCK = 500
"""Images whose names and captions are in one file."""
_EXACT = 2**53 - 1
"""Larger integers are no numbers to a browser."""


def split_file(suite: Suite, images: SplitImages, pictures: NDArray[np.uint8]) -> bytes:
    """Ids of a split's images, which pictures of each there are, and what is their context."""
    ids: Sequence[Any] = images.ids.to_list()
    if any(isinstance(i, int) and abs(i) > _EXACT for i in ids):
        ids = [str(i) for i in ids]
    content = {"ids": ids, "pictures": packed(pictures, "u1"), "block": BLOCK}
    content["context"] = context_presences(suite, images)
    return script(f"split-{images.split}", content)


def about_images(images: SplitImages, block: int, shades: Mapping[int, Sequence[str]]) -> bytes:
    """File names, sizes and captions of a block of images, and their classes with shades."""
    part = slice(block * BLOCK, (block + 1) * BLOCK)
    content: dict[str, Any] = {"names": images.file_names[part], "captions": images.captions[part]}
    rows = range(part.start, part.stop)
    content["shades"] = {str(row): shades[row] for row in rows if row in shades}
    if images.data is not None:
        sizes = images.data.images.select("width", "height")[part]
        content |= {"widths": sizes["width"].to_list(), "heights": sizes["height"].to_list()}
    return script(f"images-{images.split}-{block}", content)


def task_file(
    suite: Suite,
    task: str,
    images: SplitImages,
    unset: UnsetSupports,
    losses: Mapping[str, Mapping[str, tuple[str, NDArray[np.float64]]]],
) -> bytes:
    """The script of a task and split; ``unset`` as ``unset_supports`` gives them."""
    criteria, areas = criterion_parts(suite, task, images, unset)
    # each array once, however many criteria chose the same setting
    arrays: dict[str, NDArray[np.float64]] = {}
    for of_methods in losses.values():
        arrays |= dict(of_methods.values())
    place = {key: number for number, key in enumerate(arrays)}
    content: dict[str, Any] = {
        "task": task,
        "split": images.split,
        "n": len(images),
        "labels": packed(labels_of(suite, task, images), "u1"),
        "criteria": criteria,
        "areas": areas,
        "losses": [packed(values, "f4") for values in arrays.values()],
        "methods": {c: {m: place[key] for m, (key, _) in of.items()} for c, of in losses.items()},
    }
    return script(f"task-{suite.tasks.index(task)}-{images.split}", content)
