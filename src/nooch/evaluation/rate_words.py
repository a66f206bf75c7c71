"""Rates of errors in two contexts in words: who misses or claims what, how much more often."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nooch.base.words import CAPTIONED, plural, printable, readable, with_article
from nooch.criteria.phi import condition_texts
from nooch.data.any_class import FALSE_BOX
from nooch.data.table_schema import OF_ANY_CLASS
from nooch.suites.challenge_set import NO_CONTEXT

_LARGEST_RATIO = 20
_LEAST_RATIO = 1.1
"""Ratios of rates above and below which a sentence has only the rates."""
_UNNAMED = {
    "answers", "image_metrics", "logits", "model", "output", "outputs", "prediction", "predictions",
    "preds", "probabilities", "results", "scores",
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


def objects_of(row: Mapping[str, Any]) -> str:
    """Words for what is missed: "cars"; "malignant images" if an image has one label."""
    if row["one_label"]:
        return f"{readable(row['task'])} images"
    return plural(row["task"]) + (" in images" if row["task"] in OF_ANY_CLASS else "")


def claims_in(row: Mapping[str, Any], where: str) -> str:
    """Words for what is claimed: "cars in images with a road but no car"; if an image has one
    label "malignant in images from GE scanners that are not malignant". ``where``: "" for all.
    """
    task, images = readable(row["task"]), f"images {where}".rstrip()
    if row["one_label"]:
        return f"{task} in {images} that are not {task}"
    if task == FALSE_BOX:
        return f"{plural(task)} in {images}"
    without = f"but no {task}" if where else f"without {with_article(task)}"
    return f"{plural(task)} in {images} {without}"


def false_box_words(row: Mapping[str, Any]) -> str:
    """The boxes of no object of a row of slices: "31 false cars per 1,000 images, 2 elsewhere"; ""
    of other rows.
    """
    here, elsewhere = row["false_boxes"], row["false_boxes_rest"]
    if here is None:
        return ""
    what = plural(row["task"]) if row["task"] == FALSE_BOX else f"false {plural(row['task'])}"
    times, unit = (1, "image") if here >= 1 else (1000, "1,000 images")
    rest = "" if elsewhere is None else f", {times * elsewhere:.{int(here >= 1)}f} elsewhere"
    return f"{times * here:.{int(here >= 1)}f} {what} per {unit}{rest}"


def condition_words(conditions: Sequence[str]) -> str:
    """Conditions of a slice in words: "with a road and sky", "with 'a' and 'b' in the caption"."""
    if all(text.endswith(CAPTIONED) for text in conditions):
        conditions = [*(text.removesuffix(CAPTIONED) for text in conditions[:-1]), conditions[-1]]
    first, *more = conditions
    short = first.startswith("with ")
    return first + "".join(f" and {text.removeprefix('with ') if short else text}" for text in more)


def phi_words(phi: str) -> str:
    """An expression in words: "with a road and age at most 47.3"; else "where place != y"."""
    texts = condition_texts(phi)
    return condition_words(texts) if texts else f"where {phi}"


def context_words(row: Mapping[str, Any]) -> tuple[str, str, str]:
    """Words for errors by context: what is missed or claimed, the misleading and the usual context.

    ``row``: its criterion, task, cue (None for the criterion as a whole), side and ``one_label``;
    the ``phi`` of an attribute criterion.
    """
    criterion, cue, missed = row["criterion"], row["cue"], row["side"] == "positive"
    if cue is not None:
        usual, other = (f"{word} {with_article(cue)}" for word in ("with", "without"))
    elif row.get("phi"):
        where = phi_words(row["phi"])
        usual, other = ("elsewhere", where) if missed else (where, "elsewhere")
    elif criterion == NO_CONTEXT:
        usual = other = ""
    elif criterion == "gist":
        usual, other = "whose captions suggest it", "whose captions do not suggest it"
    elif criterion in ("ce", "context"):
        its = "its" if row["one_label"] and not missed else "their"
        usual, other = f"with {its} usual context", f"outside {its} usual context"
    else:
        usual, other = (f"{word} the context {criterion} expects" for word in ("in", "outside"))
    if not missed:
        return claims_in(row, usual), usual, other
    return f"{objects_of(row)} {other}".rstrip(), other, usual


def in_full(sentence: str, rates: Sequence[Rate], detail: str) -> str:
    """A sentence, its rates with intervals and numbers of images, and the detail."""
    numbers = " against ".join(rate.numbers for rate in rates)
    return "; ".join(text for text in (sentence, numbers, detail) if text)
