"""Which images stand for a task: the hardest and the easiest, where methods differ most, where
criteria differ, likely label errors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from nooch.examples.task_views import TaskView

__all__ = ["CONFIDENT", "Chosen", "chosen_examples"]

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]

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
        empty: why there is no image, where there is none.
        method: second method of a comparison, or empty.
        subset: ``hard_positive``, ``hard_negative`` or ``easy_positive``.
        better: of a comparison of methods, the one with the lower loss; of criteria, the one by
            which images are easy.
    """

    kind: str
    title: str
    criterion: str
    rows: Rows
    empty: str = ""
    method: str = ""
    subset: str = ""
    better: str = ""


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
    for one, other in permutations(
        [c for c in criteria if c in view.marks and c in view.support], 2
    ):
        groups += _disagreeing(view, one, other, n)
    return groups


def _extremes(view: TaskView, criterion: str, baseline: str | None, n: int) -> list[Chosen]:
    """Figs. 15 to 25; without losses support says which images are the clearest."""
    marks = view.marks[criterion]
    losses = view.losses.get(criterion, {}).get(baseline or "")
    easy = (marks == _EASY) & (view.labels == 1)
    larger, words = _larger(view, marks == _HARD_POSITIVE)
    if losses is not None:
        orders, said = (
            (-losses, -losses, losses),
            [f"the {w} loss ({baseline})" for w in ("highest", "highest", "lowest")],
        )
    elif criterion in view.support:
        support = view.support[criterion]
        orders, said = (
            (support, -support, -support),
            ["the least support", "the most support", "the most support"],
        )
    else:
        # neither losses nor support: the first by id
        orders, said = (np.zeros(len(marks)),) * 3, ["the smallest ids"] * 3
    negative = marks == _HARD_NEGATIVE
    one, two, three = orders
    return [
        _group(
            "hardest",
            f"Hard positives with {said[0]}{words}",
            criterion,
            larger,
            one,
            n,
            subset="hard_positive",
        ),
        _group(
            "hardest",
            f"Hard negatives with {said[1]}",
            criterion,
            negative,
            two,
            n,
            subset="hard_negative",
        ),
        _group(
            "easiest",
            f"Easy positives with {said[2]}",
            criterion,
            easy,
            three,
            n,
            subset="easy_positive",
        ),
    ]


def _larger(view: TaskView, mask: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], str]:
    """Hard positives whose target is larger than the average of the split's positives (Appendix
    D.1); all where none is.
    """
    positive = view.labels == 1
    if view.area is None or np.isnan(view.area[positive]).all():
        return mask, ""
    larger = mask & (view.area > np.nanmean(view.area[positive]))
    return (larger, f", {view.task} larger than on average") if larger.any() else (mask, "")


def _gaps(
    view: TaskView, criterion: str, baseline: str | None, rival: str | None, n: int
) -> list[Chosen]:
    """Figs. 8 and 26: images where two methods differ most, in both directions and on both sides."""
    losses = view.losses.get(criterion, {})
    if baseline not in losses or rival not in losses or rival is None or baseline is None:
        return []
    gap = losses[baseline] - losses[rival]
    groups = []
    for code, side in ((_HARD_POSITIVE, "positives"), (_HARD_NEGATIVE, "negatives")):
        for sign, better, worse in ((1, rival, baseline), (-1, baseline, rival)):
            title = f"Hard {side} where {better} is furthest ahead of {worse}"
            inside = (view.marks[criterion] == code) & (sign * gap > 0)
            about = {"method": rival, "subset": f"hard_{side[:-1]}", "better": better}
            groups.append(_group("gap", title, criterion, inside, -sign * gap, n, **about))
    return groups


def _suspected(view: TaskView, criterion: str, n: int) -> list[Chosen]:
    """Hard negatives that most methods, two at least, are sure show the class: the label may be
    wrong.
    """
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
    return [
        _group(
            "suspected", title, criterion, inside, -values.mean(axis=0), n, subset="hard_negative"
        )
    ]


def _disagreeing(view: TaskView, one: str, other: str, n: int) -> list[Chosen]:
    """Figs. 2 and 9: hard by one criterion and easy by the other, the clearest under the other
    first.
    """
    groups = []
    for code, side, sign in ((_HARD_POSITIVE, "positives", -1), (_HARD_NEGATIVE, "negatives", 1)):
        inside = (view.marks[one] == code) & (view.marks[other] == _EASY)
        title = f"Hard {side} by {one}, easy by {other}"
        about = {"subset": f"hard_{side[:-1]}", "better": other}
        groups.append(
            _group("criteria", title, one, inside, sign * view.support[other], n, **about)
        )
    return groups


def _group(
    kind: str,
    title: str,
    criterion: str,
    inside: NDArray[np.bool_],
    order: Floats,
    n: int,
    **about: str,
) -> Chosen:
    """The n rows inside with the smallest order, ties by row; ``about`` are further attributes."""
    rows = np.flatnonzero(inside & ~np.isnan(order))
    ordered = rows[np.argsort(order[rows], kind="stable")][:n]
    return Chosen(
        kind, title, criterion, ordered, "" if len(ordered) else "There is no such image.", **about
    )
