"""Examples of a task: hardest, easiest, where methods or criteria differ, likely label errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from nooch.report.images.task_views import TaskView

__all__ = ["CONFIDENT", "Chosen", "chosen_examples", "smallest"]

Floats = NDArray[np.float64]

CONFIDENT = 0.9
"""How sure methods must be of a class that is not annotated, for a suspected label error."""
_HARD_POSITIVE, _HARD_NEGATIVE, _EASY = 0, 1, 2


@dataclass(frozen=True, eq=False)
class Chosen:
    """A group of examples.

    Attributes:
        kind: what kind of group.
        title: what it shows, in words.
        criterion: under which criterion.
        rows: intp (n,), in order.
        method: second method of a comparison, or empty.
        subset: ``hard_positive``, ``hard_negative`` or ``easy_positive``.
        better: of a comparison of methods, the one with the lower loss; of criteria, the one by
            which images are easy.
    """

    kind: str
    title: str
    criterion: str
    rows: NDArray[np.intp]
    method: str = ""
    subset: str = ""
    better: str = ""

    @property
    def empty(self) -> str:
        """Why there is no image, where there is none."""
        return "" if len(self.rows) else "There is no such image."


def chosen_examples(
    view: TaskView, criteria: Sequence[str], baseline: str | None, rivals: Mapping[str, str], n: int
) -> list[Chosen]:
    """Groups of examples of a task.

    Args:
        view: the task.
        criteria: those to show, in order.
        baseline: the method whose losses order images (the paper's is ERM), or None.
        rivals: criterion -> the method that is compared with the baseline.
        n: images in a group.
    """
    groups: list[Chosen] = []
    for criterion in criteria:
        if criterion in view.marks:
            groups += _extremes(view, criterion, baseline, n)
            groups += _gaps(view, criterion, baseline, rivals.get(criterion), n)
            groups += _suspected(view, criterion, n)
    with_support = [c for c in criteria if c in view.marks and c in view.support]
    for one, other in permutations(with_support, 2):
        groups += _disagreeing(view, one, other, n)
    return groups


def _extremes(view: TaskView, criterion: str, baseline: str | None, n: int) -> list[Chosen]:
    """Figs. 15 to 25; without losses support says which images are the clearest."""
    marks = view.marks[criterion]
    losses = view.losses.get(criterion, {}).get(baseline or "")
    support = view.support.get(criterion)
    # without losses and support: the first by id
    orders, words = (np.zeros(len(marks)),) * 3, ["the smallest ids"] * 3
    if losses is not None:
        orders = -losses, -losses, losses
        words = [f"the {rank} loss ({baseline})" for rank in ("highest", "highest", "lowest")]
    elif support is not None:
        orders = support, -support, -support
        words = ["the least support", "the most support", "the most support"]
    larger, size = _larger(view, marks == _HARD_POSITIVE)
    sides = (
        ("hardest", "Hard positives", larger, size),
        ("hardest", "Hard negatives", marks == _HARD_NEGATIVE, ""),
        ("easiest", "Easy positives", (marks == _EASY) & (view.labels == 1), ""),
    )
    return [
        Chosen(
            kind,
            f"{title} with {which}{more}",
            criterion,
            _first(inside, order, n),
            subset=title.lower().replace(" ", "_")[:-1],
        )
        for (kind, title, inside, more), order, which in zip(sides, orders, words, strict=True)
    ]


def _larger(view: TaskView, mask: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], str]:
    """Hard positives whose target is larger than the split's average (Appendix D.1), or all."""
    positive = view.labels == 1
    if view.area is None or np.isnan(view.area[positive]).all():
        return mask, ""
    larger = mask & (view.area > np.nanmean(view.area[positive]))
    return (larger, f", {view.task} larger than on average") if larger.any() else (mask, "")


def _gaps(
    view: TaskView, criterion: str, baseline: str | None, rival: str | None, n: int
) -> list[Chosen]:
    """Figs. 8 and 26: images where two methods differ most, in both directions."""
    losses = view.losses.get(criterion, {})
    if baseline not in losses or rival not in losses or rival is None or baseline is None:
        return []
    gap = losses[baseline] - losses[rival]
    groups = []
    for code, side in ((_HARD_POSITIVE, "positives"), (_HARD_NEGATIVE, "negatives")):
        for sign, better, worse in ((1, rival, baseline), (-1, baseline, rival)):
            title = f"Hard {side} where {better} is furthest ahead of {worse}"
            inside = (view.marks[criterion] == code) & (sign * gap > 0)
            rows = _first(inside, -sign * gap, n)
            groups.append(Chosen("gap", title, criterion, rows, rival, f"hard_{side[:-1]}", better))
    return groups


def _suspected(view: TaskView, criterion: str, n: int) -> list[Chosen]:
    """Hard negatives that most methods, two at least, are sure show the class."""
    losses = view.losses.get(criterion, {})
    if len(losses) < 2:
        return []
    values = np.array(list(losses.values()))
    # a negative's NLL is -log(1 - p): p above CONFIDENT where it is above -log(1 - CONFIDENT)
    sure = (values > -np.log(1 - CONFIDENT)).sum(axis=0)
    inside = (view.marks[criterion] == _HARD_NEGATIVE) & (sure >= max(2, len(losses) // 2 + 1))
    title = (
        f"Suspected label errors: hard negatives where most of {len(losses)} methods give"
        f" {view.task} over {CONFIDENT:.0%}"
    )
    rows = _first(inside, -values.mean(axis=0), n)
    return [Chosen("suspected", title, criterion, rows, subset="hard_negative")]


def _disagreeing(view: TaskView, one: str, other: str, n: int) -> list[Chosen]:
    """Figs. 2 and 9: hard by one criterion, easy by the other, there the clearest first."""
    groups = []
    for code, side, sign in ((_HARD_POSITIVE, "positives", -1), (_HARD_NEGATIVE, "negatives", 1)):
        inside = (view.marks[one] == code) & (view.marks[other] == _EASY)
        title = f"Hard {side} by {one}, easy by {other}"
        rows = _first(inside, sign * view.support[other], n)
        about = {"subset": f"hard_{side[:-1]}", "better": other}
        groups.append(Chosen("criteria", title, one, rows, **about))
    return groups


def _first(inside: NDArray[np.bool_], order: Floats, n: int) -> NDArray[np.intp]:
    """The n rows inside with the smallest order, ties by row."""
    rows = np.flatnonzero(inside & ~np.isnan(order))
    return smallest(rows, order[rows], n)


def smallest(rows: NDArray[np.intp], keys: Floats, n: int) -> NDArray[np.intp]:
    """The n rows with the smallest keys, ties in the order given, NaN last."""
    if n < len(rows):
        # far fewer than all need to be sorted
        near = ~(keys > np.partition(keys, n)[n])
        rows, keys = rows[near], keys[near]
    return rows[np.argsort(keys, kind="stable")[:n]]
