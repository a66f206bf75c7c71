"""Cards of the examples, and which images need pictures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from typing import Any
from urllib.parse import urlencode

import numpy as np
import polars as pl

from nooch.base.display import MOST_ROWS
from nooch.data.readers.image_files import ImageIndex
from nooch.evaluation import AVERAGE, Predictions, Scores
from nooch.evaluation.context_rates import headline
from nooch.report.images.choice import Chosen, TaskView, smallest
from nooch.report.images.drawn_boxes import DrawnBoxes, drawn_boxes
from nooch.report.images.thumbnails import SplitImages, Wanted, cut_text
from nooch.suites import Suite


@dataclass(frozen=True)
class Card:
    """An image among the examples: its place, the lines below it, its link and boxes; of answers
    the question, and for each run its name, ``yes``, ``no`` or ``neither``, and its words in two
    parts.
    """

    split: str
    row: int
    image_id: str
    lines: Sequence[tuple[str, str]]
    link: str
    question: str = ""
    answers: Sequence[tuple[str, str, str, str]] = ()
    boxes: DrawnBoxes | None = None


@dataclass(frozen=True)
class ExampleGroup:
    """Examples that belong together."""

    task: str
    kind: str
    criterion: str
    title: str
    cards: Sequence[Card]


@dataclass(frozen=True)
class AnswerSection:
    """Answers in words on the overview: a title, rates, sentences each with images that show it.

    Attributes:
        title: of the section.
        sentences: each with images.
        hint: text below the title.
        rates: of yes to absent objects, shown as bars: rows of ``run, task, cue``, with ``value,
            low, high, n`` in the context, and without it (``value_easy``, ...).
    """

    title: str
    sentences: Sequence[tuple[str, Sequence[Card]]] = ()
    hint: str = ""
    rates: Sequence[Mapping[str, Any]] = ()


def cards_of(
    view: TaskView, images: SplitImages, groups: Sequence[Chosen], detected: Predictions | None
) -> list[ExampleGroup]:
    """Groups of examples with the lines below each image, and the boxes of a detector over it."""
    return [
        ExampleGroup(
            view.task,
            group.kind,
            group.criterion,
            group.title,
            [image_card(view, images, group.criterion, int(row), detected) for row in group.rows],
        )
        for group in groups
    ]


def image_card(
    view: TaskView,
    images: SplitImages,
    criterion: str,
    row: int,
    detected: Predictions | None = None,
) -> Card:
    """The card of an image with its support and losses, and the boxes of a detector."""
    losses = {m: values[row] for m, values in view.losses.get(criterion, {}).items()}
    supports = {c: values[row] for c, values in view.support.items()}
    lines = [(f"{c} support", f"{s:.3g}") for c, s in supports.items() if not np.isnan(s)]
    lines += [(method, f"{loss:.2f}") for method, loss in losses.items() if not np.isnan(loss)]
    image_id = images.ids[row]
    link = {"task": view.task, "split": images.split, "criterion": criterion, "image": image_id}
    boxes = None
    if detected is not None and images.data is not None:
        boxes = drawn_boxes(detected, view.task, images.data.images, row)
        lines += [] if boxes is None else boxes.counts
    return Card(images.split, row, str(image_id), lines, urlencode(link), boxes=boxes)


def gallery_rows(view: TaskView, most: int) -> list[int]:
    """The first rows of the galleries, by criterion and subset in turn, by support and by loss."""
    orders = [iter(order) for order in _orders(view, most)]
    rows: dict[int, None] = {}
    while orders and len(rows) < most:
        for order in list(orders):
            row = next((int(r) for r in order if int(r) not in rows), None)
            if row is None:
                orders.remove(order)
            elif len(rows) < most:
                rows[row] = None
    return list(rows)


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


def pictures_of(
    images: Mapping[str, SplitImages], index: ImageIndex | None, rows: Mapping[str, Sequence[int]]
) -> tuple[list[Wanted], int]:
    """Images to draw, each once, and how many have no file below the folder."""
    pictures, missing = [], 0
    for split, split_rows in rows.items():
        names = images[split].file_names
        for row in dict.fromkeys(split_rows):
            name = names[row]
            if images[split].data is None and index is not None:
                name = index.by_id(images[split].ids[row])
            # nothing else is ever opened
            if index is None or name is None or name not in index.paths:
                missing += 1
            else:
                pictures.append(Wanted(split, row, index.root / name))
    return pictures, missing


_ALL, _WORDS = "all tasks", ("no", "yes")
_FALSE_YES = "false_yes"
_SIDES = (
    (_FALSE_YES, 1, "Hard negatives with a yes"),
    ("no_yes", 0, "Hard positives without a yes"),
)
_SHORT = 160
"""Characters of an answer that are shown at once."""


def answer_groups(
    view: TaskView, images: SplitImages, runs: Sequence[Predictions], n: int
) -> list[ExampleGroup]:
    """Hard images that answers are wrong about, in groups of at most n: first those that most runs
    are wrong about, then the surest answers, then by support.
    """
    frames = [
        run.said.filter(~pl.col("skipped"), task=view.task).with_columns(run=pl.lit(run.run))
        for run in runs
        if run.said is not None
    ]
    if not frames:
        return []
    rows = pl.DataFrame({"image_id": images.ids, "row": np.arange(len(images))})
    said = pl.concat(frames).with_columns(pl.col("image_id").cast(images.ids.dtype, strict=False))
    said = said.join(rows, on="image_id", maintain_order="left")
    groups = []
    # what is neither yes nor no has no value
    yes = (pl.col("value") > 0.5).fill_null(value=False)
    for criterion, marks in view.marks.items() if said.height else ():
        support = view.support.get(criterion, np.zeros(len(images)))
        for kind, code, side in _SIDES:
            sign = 1 - 2 * code
            inside = said.filter(marks[said["row"]] == code)
            wrong = inside.filter(yes if code else ~yes)
            ranked = wrong.group_by("row").agg(pl.len(), value=sign * pl.col("value").sum())
            ranked = ranked.with_columns(support=sign * support[ranked["row"]])
            order = ["len", "value", "support", "row"]
            first = ranked.sort(order, descending=[True, False, False, False])["row"].head(n)
            cards = [
                _said(image_card(view, images, criterion, row), inside.filter(row=row), 1 - code)
                for row in first
            ]
            title = f"{side}, {wrong.height:,} of {inside.height:,} answers"
            groups.append(ExampleGroup(view.task, kind, criterion, title, cards))
    return groups


def _said(card: Card, answers: pl.DataFrame, label: int) -> Card:
    said = []
    for run, answer, value in answers.select("run", "answer", "value").rows():
        words = cut_text(" ".join((answer or "").split()) or "(no words)")
        verdict = "neither" if value is None else _WORDS[value > 0.5]
        said.append((run, verdict, words[:_SHORT], words[_SHORT:]))
    question = cut_text(" ".join((answers["question"][0] or "").split()))
    lines = [("label", _WORDS[label]), *card.lines]
    return replace(card, lines=lines, question=question, answers=said)


def answer_sections(
    every: Sequence[Scores], suite: Suite, split: str, groups: Sequence[ExampleGroup], n: int
) -> list[AnswerSection]:
    """For each criterion how often models answer yes for absent objects: in a line, by task and
    context cue, and n images of the tasks if they do so most often.
    """
    sections = []
    keys = dict.fromkeys((scores, name) for scores in every for _, name in scores.contexts)
    for scores, criterion in keys:
        title, *lines = [
            f"{run}, {name}: {line}"
            for (run, name), rates in scores.contexts.items()
            if name == criterion and (line := headline(rates, "yes to"))
        ] or [f"Yes to absent objects, {criterion}"]
        rates = _rates(scores, suite, criterion)
        mine = [g for g in groups if (g.kind, g.criterion) == (_FALSE_YES, criterion)]
        cards = {group.task: group.cards for group in mine}
        tasks = rates["task"].unique(maintain_order=True)
        # the worst image of each task, then the second ones
        turns = chain.from_iterable(zip_longest(*(cards.get(task, ()) for task in tasks)))
        worst = [card for card in turns if card is not None][:n]
        shown: list[tuple[str, Sequence[Card]]] = [(line, ()) for line in lines]
        shown += [("The context without the object, and a yes:", worst)] if worst else []
        records = [suite.record(*key) for key in suite.keys if key[::2] == (criterion, split)]
        hard = sum(record.hard_negatives for record in records)
        easy = sum(record.negatives for record in records) - hard
        n_hard, n_easy = rates.select("n", "n_easy").row(0)
        hint = f"Asked about {n_hard:,} of {hard:,} hard and {n_easy:,} of {easy:,} easy negatives"
        hint += f" of split {split}"
        hint += f"; {MOST_ROWS} of {rates.height:,} rates" if rates.height > MOST_ROWS else ""
        sections.append(AnswerSection(title, shown, hint, rates.head(MOST_ROWS).to_dicts()))
    return sections


def _rates(scores: Scores, suite: Suite, criterion: str) -> pl.DataFrame:
    """Rates of yes on hard negatives, and on easy ones with the ending ``_easy``: ``run, task, cue,
    value, low, high, n``; of all tasks, then by task and cue, the surely largest first.
    """
    columns = ("subset", "value", "low", "high", "n")
    of_all = {"task": pl.lit(_ALL), "cue": pl.lit(None, pl.String)}
    pooled = [
        rates.frame().filter(measure="rate").select(*columns, run=pl.lit(run), **of_all)
        for (run, name), rates in scores.contexts.items()
        if name == criterion
    ]
    of_task = (pl.col("task") != AVERAGE) & pl.col("group").is_null()
    fpr = scores.table.filter(of_task, criterion=criterion, metric="fpr")
    rows = pl.concat([*pooled, fpr.select(pooled[0].columns)])
    hard, easy = (rows.filter(subset=f"{kind}_negative") for kind in ("hard", "easy"))
    keys = ["run", "task", "cue"]
    rows = hard.join(easy, on=keys, nulls_equal=True, suffix="_easy", maintain_order="left")
    # a task with several cues is shown by cue, and one with a single cue is named after it
    cues = suite.header.criteria[criterion].cues
    only = {task: listed[0][0] for task, listed in cues.items() if len(listed) == 1}
    task_named = pl.col("task").replace_strict(only, default=None, return_dtype=pl.String)
    alone = pl.col("cue").is_null().all().over("run", "task")
    some = (pl.col("n") > 0) | (pl.col("task") == _ALL)
    rows = rows.filter(some, alone | pl.col("cue").is_not_null())
    rows = rows.with_columns(cue=pl.coalesce("cue", task_named, pl.lit("")))
    order = [pl.col("task") == _ALL, "low", "value"]
    return rows.sort(order, descending=True, nulls_last=True, maintain_order=True)
