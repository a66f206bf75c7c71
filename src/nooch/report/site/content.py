"""What the site is made of: plain data, put together by nooch.report.site.site."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nooch.base.display import DisplayTable
from nooch.report.images.cue_masks import Masks
from nooch.report.images.thumbnails import SplitImages, Wanted
from nooch.suites import Suite

LossesOf = Callable[[str, str], Mapping[str, Mapping[str, tuple[str, NDArray[np.float64]]]]]
"""(task, split) -> criterion -> method -> (key, float64 (n,)); equal keys mean equal losses."""


@dataclass(frozen=True)
class Card:
    """An image among the examples: its place, the lines below it, and its link; of answers the
    question, and for each run its name, ``yes``, ``no`` or ``neither``, and its words in two parts.
    """

    split: str
    row: int
    image_id: str
    lines: Sequence[tuple[str, str]]
    link: str
    question: str = ""
    answers: Sequence[tuple[str, str, str, str]] = ()


@dataclass(frozen=True)
class ExampleGroup:
    """Examples that belong together."""

    task: str
    kind: str
    criterion: str
    title: str
    cards: Sequence[Card]


@dataclass(frozen=True)
class FindingSection:
    """What the overview begins with: a title, a table, sentences each with images that show it.

    Attributes:
        title: of the section.
        sentences: (task, words, ids of images as text).
        table: or None.
        hint: text below the title.
        rates: of yes to absent objects, shown as bars: rows of ``run, task, cue``, with ``value,
            low, high, n`` in the context, and without it (``value_easy``, ...).
    """

    title: str
    sentences: Sequence[tuple[str, str, Sequence[Any]]] = ()
    table: DisplayTable | None = None
    hint: str = ""
    rates: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, eq=False)
class Site:
    """Everything that is written.

    Attributes:
        suite: the suite.
        images: split -> its images, in one order.
        losses: losses of images, where there are runs.
        methods: methods with losses, in order.
        overview: what the page Overview shows; ``results``, ``criteria`` and ``examples`` likewise
            for theirs.
        data: name -> data of a page's charts.
        wanted: images to draw pictures of, the most important first.
        missing: page -> what is not there, in words.
        masks: where cues lie in the images with pictures, or None.
    """

    suite: Suite
    images: Mapping[str, SplitImages]
    losses: LossesOf
    methods: Sequence[str]
    overview: Mapping[str, Any]
    results: Any
    criteria: Mapping[str, Any]
    examples: Sequence[ExampleGroup]
    data: Mapping[str, Any]
    wanted: Sequence[Wanted] = ()
    missing: Mapping[str, Sequence[str]] = field(default_factory=dict)
    masks: Masks | None = None
