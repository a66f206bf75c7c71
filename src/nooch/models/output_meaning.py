"""Independent or exclusive outputs of a network: by its description, the labels, or asked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import numpy as np

from nooch.base.errors import InputError, ParameterError, check_one_of, some_of
from nooch.models.task_maps import is_imagenet

if TYPE_CHECKING:
    from nooch.data import Dataset

_INDEPENDENT, _EXCLUSIVE = "independent", "exclusive"
_READINGS = {
    _INDEPENDENT: "each output is a yes or no by itself (sigmoid, binary cross-entropy)",
    _EXCLUSIVE: "outputs exclude each other (softmax, cross-entropy)",
}
OUTPUTS = tuple(_READINGS)
Outputs = Annotated[str, OUTPUTS]

_OPERATORS = {"Sigmoid": _INDEPENDENT, "Softmax": _EXCLUSIVE, "LogSoftmax": _EXCLUSIVE}
_PROBLEM_TYPES = {
    "multi_label_classification": _INDEPENDENT,
    "single_label_classification": _EXCLUSIVE,
}
_ONE_LABEL = 0.99
"""Share of images with exactly one label from which labels exclude each other."""


@dataclass(frozen=True)
class OutputMeaning:
    """``kind``, one of ``OUTPUTS``, of a network's outputs, and ``why``, as text. ``firm``: the
    network's own description, which no option contradicts.
    """

    kind: str
    why: str
    firm: bool = False

    @property
    def exclusive(self) -> bool:
        """True if the outputs exclude each other."""
        return self.kind == _EXCLUSIVE

    @property
    def text(self) -> str:
        """A sentence for readers."""
        return f"outputs are read as {self.kind}: {self.why}"

    @property
    def other(self) -> str | None:
        """The other reading, if an option can choose it."""
        return None if self.firm else next(kind for kind in OUTPUTS if kind != self.kind)


def described(
    name: str, operator: str = "", problem_type: str | None = None
) -> OutputMeaning | None:
    """Meaning that a network states by its last operator and the ``problem_type`` of its
    configuration; None if it states none. Raises InputError: it contradicts
    itself, or is not of classification.
    """
    if problem_type is not None and problem_type not in _PROBLEM_TYPES:
        problem = f"has the problem_type {problem_type}"
        raise InputError(problem, where=name, allowed=", ".join(_PROBLEM_TYPES))
    by_operator, by_type = _OPERATORS.get(operator), _PROBLEM_TYPES.get(problem_type or "")
    if by_operator and by_type and by_operator != by_type:
        problem = f"ends with {operator}, and its config.json has problem_type {problem_type}"
        raise InputError(problem, where=name, remedy="correct the problem_type, or leave it out")
    if by_operator:
        return OutputMeaning(by_operator, f"{name} ends with {operator}", firm=True)
    return OutputMeaning(by_type, f"problem_type {problem_type}", firm=True) if by_type else None


def output_meaning(
    labels: Sequence[str],
    name: str,
    own: OutputMeaning | None = None,
    *,
    outputs: str | None = None,
    data: Dataset | None = None,
    of_classes: bool = False,
) -> OutputMeaning:
    """Meaning of the outputs of the network ``name``, one for each label.

    ``own`` is its own description, which counts first, then ``outputs``; then what ``own`` says if
    it is not firm, heads with ImageNet's classes, and the labels of ``data``, if each image has
    one. ``of_classes``: the labels are the dataset's classes.

    Raises ParameterError: ``outputs`` contradicts the description. InputError: nothing tells.
    """
    if outputs is not None:
        check_one_of("value of `outputs`", outputs, OUTPUTS)
    if own is not None and own.firm:
        if outputs not in {None, own.kind}:
            problem = f"its outputs are {own.kind}: {own.why}"
            raise ParameterError(problem, where=name, give={"outputs": None})
        return own
    if outputs is not None:
        return OutputMeaning(outputs, "as `outputs` says")
    if len(labels) == 1:
        return OutputMeaning(_INDEPENDENT, "there is only one", firm=True)
    if own is not None:
        return own
    if is_imagenet(labels):
        return OutputMeaning(_EXCLUSIVE, "they are ImageNet's classes")
    if data is not None and has_one_label(data):
        return OutputMeaning(_EXCLUSIVE, "each image of the dataset has one label")
    ways = OUTPUTS if of_classes else OUTPUTS[::-1]
    coexist = "" if data is None else ", nor do the dataset's labels"
    raise InputError(
        f"does not say whether its outputs exclude each other{coexist}",
        where=name,
        remedy="; ".join(f"{{}} if {_READINGS[kind]}" for kind in ways),
        give=[{"outputs": kind} for kind in ways],
    )


def has_one_label(data: Dataset) -> bool:
    """True if images have exactly one of several classes each, and nothing is unknown."""
    counts = np.diff(data.areas.indptr)
    is_known = len(data.classes) > 1 and len(counts) > 0 and data.gaps is None
    return is_known and bool((counts == 1).mean() >= _ONE_LABEL)


_FAR = 10
"""Factor between the odds of yes and of the labels from which a class is warned of."""


def share_notes(
    meaning: OutputMeaning, counts: Mapping[str, tuple[int, int, int | None]]
) -> list[str]:
    """Notes: the meaning taken, with the share of yes of each class next to the labels', and a
    warning where these are far apart. ``counts``: class -> images, how many are yes, and
    how many the labels say are (None: unknown). Classes far from their labels come first.
    """
    shown, far = list[tuple[float, str]](), list[str]()
    for name, (n, yes, labels) in counts.items():
        text = f"{name} {yes / max(n, 1):.1%}"
        apart = 0.0
        if labels is not None:
            text += f" ({labels / max(n, 1):.1%})"
            # a half more of each: of few images, none is not far from some
            of_yes, of_labels = ((k + 0.5) / (n - k + 0.5) for k in (yes, labels))
            apart = abs(math.log(of_yes / of_labels))
        shown.append((apart, text))
        far += [text] if apart > math.log(_FAR) else []
    shown.sort(key=lambda pair: -pair[0])
    listed = some_of((text for _, text in shown), 100)
    notes = [f"{meaning.text}; yes (labeled yes): {listed}"]
    if far:
        other = meaning.other
        remedy = "check the labels and the preprocessing"
        remedy += f"; or are they {other}? then give `outputs` {other}" if other else ""
        notes.append(f"warning: far more or fewer yes than labeled: {some_of(far)}: {remedy}")
    return notes
