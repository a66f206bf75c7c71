"""The content of a check: a verdict, findings with their images, what was left out and why.

Decided once (``nooch.analysis.answer``); the page, ``findings.md``, notebooks and the terminal
render it.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nooch.base.display import DisplayTable
from nooch.base.errors import some_of
from nooch.base.words import counted, printable, readable, unbroken
from nooch.evaluation.comparison import CHANGES
from nooch.evaluation.rate_words import Rate, in_full
from nooch.report.images.drawn_boxes import DrawnBoxes
from nooch.report.images.thumbnails import picture_name

PICTURED = 3
"""Findings of a kind that have pictures."""
LISTED = 12
"""Findings of a kind that are listed."""
IMAGES = 6
"""Images of a finding that are shown."""
_LINKED_PICTURES = 60
"""Images of each finding that have pictures on the page Explore."""
_, _, UNCHANGED = CHANGES
_OF_CHANGES = ("Worse than {}", "Better than {}", "No difference from {} shown")
"""Kinds of findings about a run and its baseline, which are also listed if there is none."""
KINDS = {
    **dict(zip(CHANGES, _OF_CHANGES, strict=True)),
    "context": "Context",
    "confusion": "Classes taken for others",
    "object": "Size and position of the object",
}
"""Kind of finding -> its title, in the order in which they are shown."""
_COMMENT = 65_536
_MOST_ITEMS = (100_000, 200, 100, 50, 20, 5, 0)
"""Findings of a kind without images that Markdown lists, as many as fit."""


@dataclass(frozen=True)
class ShownImage:
    """An image of a finding, or of its usual context for comparison (``where``): its row in the
    split, its id and file, what it was labeled and what the model answered; boxes to draw, and what
    its context is due to, such as ``no road``.
    """

    row: int
    image_id: str
    file: str
    labeled: str
    answered: str
    wrong: bool
    where: str = ""
    boxes: DrawnBoxes | None = None
    context: Sequence[str] = ()


@dataclass(frozen=True, eq=False)
class ErrorFinding:
    """Images in which a model errs more often.

    Attributes:
        kind: ``context``, ``confusion`` or ``object``; of a run and its baseline ``worse``,
            ``better`` or ``unchanged``.
        task: a class.
        run: name of the run that errs; ``side``: ``positive`` or ``negative``.
        errors: the model and what it misses or claims, as the sentence starts.
        sentence: the finding.
        detail: the effect for objects of one size, or the opposite direction of a confusion.
        low: lower end of the interval of its effect, by which findings are ranked.
        rates: the two rates that are compared; of a confusion none.
        outlined: classes to outline in pictures.
        rows: of all its images in the split, those with an error first, intp (n,).
        n_wrong: number of images with an error.
        shown: some of the images, and some of the usual context.
        also: what else was found about the same class and cue.
        composite: the context is a criterion as a whole, not one cue or group.
        phi: its images as an expression, see ``nooch.Attribute``, if there is one.
        number: by which it is named everywhere, from 1; 0 of what is ``unchanged``.
    """

    kind: str
    task: str
    run: str
    side: str
    errors: str
    sentence: str
    detail: str
    low: float
    rates: Sequence[Rate] = ()
    outlined: Sequence[str] = ()
    rows: NDArray[np.intp] = field(default_factory=lambda: np.empty(0, np.intp))
    n_wrong: int = 0
    shown: Sequence[ShownImage] = ()
    also: Sequence[str] = ()
    composite: bool = False
    phi: str | None = None
    number: int = 0

    @property
    def full(self) -> str:
        """The sentence with all numbers."""
        return in_full(self.sentence, self.rates, self.detail)

    @property
    def line(self) -> str:
        """The number, and the sentence with all numbers."""
        return f"{self.number}. {self.full}" if self.number else self.full

    @property
    def facts(self) -> dict[str, Any]:
        """The finding in JSON; the images are in ``numbered_findings.parquet``."""
        names = ("number", "kind", "sentence", "task", "side", "run", "phi")
        counts = {"n": len(self.rows), "n_wrong": self.n_wrong}
        return {name: getattr(self, name) for name in names} | counts

    @property
    def linked(self) -> list[int]:
        """Rows that have pictures on the page Explore, those with an error first."""
        return [int(row) for row in self.rows[:_LINKED_PICTURES]]

    @property
    def markdown(self) -> str:
        """The finding and its shown images as an item of a list, by number; every name is
        escaped.
        """
        lines = [self.item, *(f"    - also: {_markdown(one)}" for one in self.also)]
        images = ((_code(image.file), _markdown(_answer(image))) for image in self.shown)
        return "\n".join([*lines, *(f"    - {file}: {words}" for file, words in images)])

    @property
    def item(self) -> str:
        """The finding as an item of a list in Markdown, by number."""
        return f"{f'{self.number}.' if self.number else '-'} {_markdown(self.full)}"

    @property
    def groups(self) -> list[tuple[str, str, list[ShownImage]]]:
        """Shown images by context and by whether the model is wrong: a title; the label and answer
        of all images, or nothing where they differ; the images.
        """
        groups = []
        for (where, wrong), of_group in groupby(self.shown, lambda one: (one.where, one.wrong)):
            images = list(of_group)
            title = f"{'wrong' if wrong else 'right'} ({len(images)})"
            title = f"{where.partition(' (')[0]}, {title}" if where else title
            said = {_words(image) for image in images}
            groups.append((title, said.pop() if len(said) == 1 else "", images))
        return groups


@dataclass(frozen=True, eq=False)
class Answer:
    """Content of a check, in the order in which it is shown.

    Attributes:
        verdict: one sentence.
        split: of the images.
        findings: in the order of their numbers, of each kind the worst first; only what is beyond
            chance, and what is unchanged.
        hints: groups of images with more errors, which may be chance.
        errors: number of errors by task.
        left_out: (reason, tasks).
        notes: choices that were made, and warnings.
        settings: name -> value.
        baseline: name of the run that others are compared with, or None.
    """

    verdict: str
    split: str
    findings: Sequence[ErrorFinding]
    hints: Sequence[str] = ()
    errors: DisplayTable | None = None
    left_out: Sequence[tuple[str, Sequence[str]]] = ()
    notes: Sequence[str] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    baseline: str | None = None

    @property
    def numbered(self) -> list[ErrorFinding]:
        """The findings that have a number."""
        return [one for one in self.findings if one.number]

    def parts(self) -> Iterator[tuple[str, list[ErrorFinding], list[ErrorFinding]]]:
        """A title for each kind, its worst findings, which have pictures, and the others."""
        for kind, title in KINDS.items():
            of_kind = [one for one in self.findings if one.kind == kind]
            worst = [] if kind == UNCHANGED else of_kind[:PICTURED]
            others = of_kind[len(worst) :]
            if kind in CHANGES and self.baseline is not None:
                which = counted(len(of_kind), "comparison") if of_kind else "none"
                yield f"{title.format(self.baseline)}: {which}", worst, others
            elif of_kind:
                which = counted(len(of_kind), "finding")
                which = f"the {len(worst)} worst of {which}" if others else which
                yield f"{title}: {which}", worst, others

    @property
    def left_out_line(self) -> str:
        """The reasons for which classes are left out, each with its class or their number."""
        each = (
            f"{tasks[0] if len(tasks) == 1 else counted(len(tasks), 'class')}: {reason}"
            for reason, tasks in self.left_out
        )
        return f"Left out: {'; '.join(each)}"

    def is_verdict(self, finding: ErrorFinding) -> bool:
        """True if the verdict is a finding's sentence, or ends with it."""
        return self.verdict[-len(finding.sentence) + 1 :] == finding.sentence[1:]

    @property
    def pictured(self) -> list[int]:
        """Rows of images that are shown, the worst findings' first."""
        parts = [*self.parts()]
        worst = [image.row for _, of_kind, _ in parts for one in of_kind for image in one.shown]
        # then those that a link to all images of a finding leads to
        linked = [row for one in self.findings for row in one.linked]
        return [*worst, *linked]

    def text(self) -> str:
        """Lines for a terminal."""
        lines = [self.verdict]
        for title, worst, others in self.parts():
            lines += ["", title, *(f"  {one.line}" for one in worst)]
            more = " more" if worst else ""
            lines += [f"  and {len(others)}{more}, on the page"] if others else []
        if self.hints:
            lines += ["", "May be chance", *(f"  {text}" for text in self.hints)]
        if self.left_out:
            lines += ["", f"{self.left_out_line}; all on the page"]
        return "\n".join(printable(line) for line in lines)

    def markdown(self, page: str) -> str:
        """The content for a pull request; every name is escaped. ``page``: where the page is.

        A comment on GitHub has at most 65,536 characters: each kind has as many findings as fit.
        What is unchanged is its number, with the classes behind it.
        """
        text = ""
        for most in _MOST_ITEMS:
            text = self._shortened(page, most)
            if len(text) <= _COMMENT:
                break
        return text

    def _shortened(self, page: str, most: int) -> str:
        """Markdown with at most so many findings of a kind without images; of 0, none has some."""
        lines = [f"## {_markdown(self.verdict)}", ""]
        for title, worst, others in self.parts():
            lines += [f"### {_markdown(title)}", ""]
            if others and others[0].kind == UNCHANGED:
                names = ", ".join(dict.fromkeys(readable(one.task) for one in others))
                lines += _folded("Their classes", [_markdown(names)])
                continue
            lines += [one.markdown if most else one.item for one in worst]
            lines += [one.item for one in others[:most]]
            rest = len(others[most:])
            lines += [*([f"- and {rest:,} more, on the page"] if rest else ()), ""]
        sections = {
            "May be chance": [_markdown(text) for text in self.hints],
            "Left out": [_markdown(_left_out(*one)) for one in self.left_out],
            "Notes and settings": [
                *map(_markdown, self.notes),
                *(_markdown(f"{name}: {value}") for name, value in self.settings.items()),
            ],
        }
        for title, texts in sections.items():
            lines += _folded(title, [f"- {text}" for text in texts])
        return "\n".join([*lines, f"All images: {_code(page)}", ""])


_MARKUP = re.compile(r"[\\`*_\[\]|~$]|^(?:[-+#=:]|\d+(?=[.)]))")
_LINKED = re.compile(
    r"(?<=[@#])(?=\w)|(?<=:)(?=//|\w+:)|(?<=www)(?=\.)|(?<=gh)(?=-\d)", re.IGNORECASE
)


def _markdown(text: str) -> str:
    """Text that Markdown shows as it is: no markup and HTML, and by an invisible character no
    links, mentions and numbers of issues.
    """
    text = _MARKUP.sub(lambda match: f"\\{match[0]}", escape(printable(text), quote=False))
    return _LINKED.sub("\u2060", text)


def _folded(title: str, lines: Sequence[str]) -> list[str]:
    """Lines of Markdown that are shown on a click; none without lines."""
    if not lines:
        return []
    return [f"<details><summary>{title}</summary>", "", *lines, "", "</details>", ""]


def _left_out(reason: str, tasks: Sequence[str]) -> str:
    return f"{some_of(tasks, LISTED)}: {reason}"


def _code(text: str) -> str:
    """Text as code, within more backticks than it has."""
    text = printable(text)
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence} {text} {fence}" if "`" in text else f"{fence}{text}{fence}"


def _words(image: ShownImage) -> str:
    return f"labeled {image.labeled}, answered {image.answered}"


def _answer(image: ShownImage) -> str:
    due = f" ({', '.join(image.context)})" if image.context else ""
    return f"{image.where}{due}: {_words(image)}" if image.where else _words(image)


def notebook_html(answer: Answer, page: Path) -> str:
    """The verdict, six pictures of its finding and a link to the page, for notebooks: one element
    without scripts. Pictures are read from the page's folder, where they are small JPEGs.
    """
    boxes = []
    for one in answer.findings[:1]:
        if one.number:
            boxes.append(f"<div>Finding {one.number} of {len(answer.numbered)}</div>")
        for image in one.shown[:IMAGES]:
            file = page.parent / picture_name(answer.split, image.row)
            color = "#d55e00" if image.wrong else "transparent"
            style = f"width: 150px; outline: 3px solid {color}; outline-offset: -3px"
            drawn = ""
            if file.is_file():
                content = base64.b64encode(file.read_bytes()).decode()
                drawn = f'<img src="data:image/jpeg;base64,{content}" alt="" style="{style}">'
                over = "position: absolute; inset: 0; width: 100%; height: 100%"
                boxed = (
                    image.boxes.svg.replace("<svg", f'<svg style="{over}"') if image.boxes else ""
                )
                drawn = f'<div style="position: relative; line-height: 0">{drawn}{boxed}</div>'
            words = f"{_html(image.file)}<br>{_html(_answer(image))}"
            place = "display: inline-block; width: 150px; margin: 0 8px 8px 0; font-size: 12px"
            boxes.append(f'<div style="{place}; vertical-align: top">{drawn}{words}</div>')
    link = f'<a href="{escape(page.absolute().as_uri())}">{_html(str(page))}</a>'
    tables = "tables: <code>.findings</code>, <code>.scores</code>, <code>.slices</code>"
    rest = f"<div>All findings: {link}; {tables}</div>"
    return f"<div><p><b>{_html(answer.verdict)}</b></p><div>{''.join(boxes)}</div>{rest}</div>"


def _html(text: str) -> str:
    # an element of its own direction: marks that turn text end with it
    return f"<bdi>{escape(unbroken(printable(text)))}</bdi>"
