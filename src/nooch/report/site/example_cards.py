"""Cards of the examples, and which images need pictures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import numpy as np
import polars as pl

from nooch.data.readers.image_files import ImageIndex
from nooch.report.images.example_choice import Chosen, smallest
from nooch.report.images.split_images import SplitImages
from nooch.report.images.task_views import TaskView
from nooch.report.images.thumbnails import Wanted
from nooch.report.site.content import Card, ExampleGroup, FindingSection
from nooch.suites import Suite

__all__ = ["cards_of", "gallery_rows", "image_card", "pictures_wanted", "with_cards"]


def cards_of(view: TaskView, images: SplitImages, groups: Sequence[Chosen]) -> list[ExampleGroup]:
    """Groups of examples with the lines below each image."""
    return [
        ExampleGroup(
            view.task,
            group.kind,
            group.criterion,
            group.title,
            [image_card(view, images, group.criterion, int(row)) for row in group.rows],
        )
        for group in groups
    ]


def image_card(view: TaskView, images: SplitImages, criterion: str, row: int) -> Card:
    """The card of an image with its support and losses."""
    losses = {m: values[row] for m, values in view.losses.get(criterion, {}).items()}
    supports = {c: values[row] for c, values in view.support.items()}
    lines = [(f"{c} support", f"{s:.3g}") for c, s in supports.items() if not np.isnan(s)]
    lines += [(method, f"{loss:.2f}") for method, loss in losses.items() if not np.isnan(loss)]
    image_id = images.ids[row]
    link = {"task": view.task, "split": images.split, "criterion": criterion, "image": image_id}
    return Card(images.split, row, str(image_id), lines, urlencode(link))


def with_cards(
    sections: Sequence[FindingSection], images: SplitImages, suite: Suite
) -> list[FindingSection]:
    """Sections of findings with cards in the place of ids."""
    rows = {image: row for row, image in enumerate(images.ids.cast(pl.String).to_list())}

    def card(task: str, image: str) -> Card:
        known = {"task": task} if task in suite.tasks else {}
        link = urlencode({**known, "split": images.split, "image": image})
        return Card(images.split, rows[image], image, (), link)

    return [
        replace(one, sentences=[(task, words, [card(task, image) for image in ids])
                                for task, words, ids in one.sentences])
        for one in sections
    ]  # fmt: skip


def gallery_rows(view: TaskView, most: int) -> list[int]:
    """The first rows of the galleries, by criterion and subset in turn, by support and by loss."""
    orders = [iter(order) for order in _orders(view, most)]
    chosen: dict[int, None] = {}
    while orders and len(chosen) < most:
        for order in list(orders):
            row = next((int(r) for r in order if int(r) not in chosen), None)
            if row is None:
                orders.remove(order)
            elif len(chosen) < most:
                chosen[row] = None
    return list(chosen)


def _orders(view: TaskView, most: int) -> Iterator[Any]:
    for criterion, marks in view.marks.items():
        support = view.support.get(criterion)
        losses = list(view.losses.get(criterion, {}).values())
        for code, sign in ((0, 1), (1, -1), (2, -1)):
            rows = np.flatnonzero(marks == code)
            keys = [] if support is None else [sign * support[rows]]
            keys += [-losses[0][rows]] if losses else []
            # without either, by id
            for key in keys or [np.zeros(len(rows))]:
                yield smallest(rows, key, most)


def pictures_wanted(
    images: Mapping[str, SplitImages], index: ImageIndex | None, rows: Mapping[str, Sequence[int]]
) -> tuple[list[Wanted], int]:
    """Images to draw, each once, and how many have no file below the folder."""
    wanted, missing = [], 0
    for split, chosen in rows.items():
        names = images[split].file_names
        for row in dict.fromkeys(chosen):
            name = names[row]
            if images[split].data is None and index is not None:
                name = index.by_id(images[split].ids[row])
            # nothing else is ever opened
            if index is None or name is None or name not in index.paths:
                missing += 1
            else:
                wanted.append(Wanted(split, row, index.root / name))
    return wanted, missing
