"""Rates of errors in two contexts in words: who misses or claims what, how much more often."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nooch.base.words import plural, printable, readable, with_article

_LARGEST_RATIO = 20
_LEAST_RATIO = 1.1
"""Ratios of rates above and below which a sentence has only the rates."""
_UNNAMED = {
    "answers", "logits", "model", "output", "outputs", "prediction", "predictions", "preds",
    "probabilities", "results", "scores",
}  # fmt: skip
"""Names of files of predictions that do not name a model."""


def model_name(run: str) -> str:
    """The run's name, or "the model" where it only names a file of predictions."""
    return "the model" if run.lower() in _UNNAMED else printable(run)


def started(text: str) -> str:
    """A sentence that starts with a capital; a model's name stays as it is."""
    return f"The{text[3:]}" if text.startswith("the ") else text


def percent(rate: float) -> str:
    """A rate for sentences, with a decimal below a tenth."""
    return f"{100 * rate:.0f}%" if rate in {0, 1} or rate >= 0.1 else f"{100 * rate:.1f}%"


@dataclass(frozen=True)
class Rate:
    """A share of images with errors, or of what ``of`` names: in which images, of how many, and
    its interval. A share ``of`` images is in thousandths: boxes of absent objects are rare.
    """

    where: str
    value: float
    n: int | None = None
    low: float | None = None
    high: float | None = None
    of: str = ""

    @property
    def numbers(self) -> str:
        """``54% [47, 61] of 312``; interval and number are optional."""
        ends = [] if self.low is None or self.high is None else [self.low, self.high]
        thousandths = self.of == "images"
        value = f"{1000 * self.value:.1f}" if thousandths else percent(self.value)
        times = 1000 if thousandths else 100
        interval = f" [{', '.join(f'{times * end:.0f}' for end in ends)}]" if ends else ""
        unit = " per 1,000 images" if thousandths else ""
        what = "" if thousandths or not self.of else f" {self.of}"
        return f"{value}{interval}{unit}{'' if self.n is None else f' of {self.n:,}{what}'}"


def error_words(run: str, side: str, what: str) -> str:
    """Errors in words: "MobileNet misses cars without a road"."""
    verb = "misses" if side == "positive" else "claims"
    return f"{started(model_name(run))} {verb} {what}"


def compared(errors: str, rates: Sequence[Rate], points: float | None, task: str) -> str:
    """A comparison of two rates in a sentence: "MobileNet misses cars without a road 3.2 times as
    often (54% against 17%)". ``points``: the difference for objects of the same size, if known;
    where sizes differ so much that the rates of all sizes show another picture, it leads.
    """
    first, second = (rate.value for rate in rates)
    both = f"{percent(first)} against {percent(second)}"
    often, otherwise = f"{percent(first)} of the time", percent(second)
    if rates[0].of == "images":
        both = f"{1000 * first:.1f} against {1000 * second:.1f} per 1,000 images"
        often, otherwise = f"{1000 * first:.1f} times in 1,000 images", f"{1000 * second:.1f}"
    ratio = first / second if second else np.inf
    shown = points is None or points * (first - second) > 0
    if points is not None and not (shown and (points < 0 or ratio > _LEAST_RATIO)):
        more = f"{abs(100 * points):.0f} points {'more' if points > 0 else 'less'} often"
        same = f"among {plural(task)} of the same size"
        return f"{errors} {more} {same} (of all sizes {both})"
    if ratio > _LARGEST_RATIO:
        return f"{errors} {often} (otherwise {otherwise})"
    return f"{errors} {ratio:.1f} times as often ({both})"


def context_words(criterion: str, task: str, cue: str | None, side: str) -> tuple[str, str, str]:
    """Words for errors by context: what is missed or claimed, the misleading and the usual context.

    ``cue`` is None for the criterion as a whole.
    """
    objects, a_task, missed = plural(task), with_article(task), side == "positive"
    if cue is not None:
        present, absent = (f"{word} {with_article(cue)}" for word in ("with", "without"))
        if missed:
            return f"{objects} {absent}", absent, present
        return f"{objects} in images {present} but no {readable(task)}", present, absent
    told = {"context": "the other labels", "gist": "the captions"}.get(criterion)
    if told:
        suggest, do_not = f"where {told} suggest {a_task}", f"where {told} do not suggest {a_task}"
        if missed:
            return f"{objects} {do_not}", do_not, suggest
        return f"{objects} {suggest} but there is none", suggest, do_not
    usual = "their usual context" if criterion == "ce" else f"the context {criterion} expects"
    inside, outside = f"in {usual}", f"outside {usual}"
    if missed:
        return f"{objects} {outside}", outside, inside
    return f"{objects} in images of {usual} but no {readable(task)}", inside, outside


def in_full(sentence: str, rates: Sequence[Rate], detail: str) -> str:
    """A sentence, its rates with intervals and numbers of images, and the detail."""
    numbers = " against ".join(rate.numbers for rate in rates)
    return "; ".join(text for text in (sentence, numbers, detail) if text)
