"""The attribute criterion (paper, section 2): an image is out of context if a condition is true.

C is what is known of an image (attributes, its label y, the classes in it), and phi a condition on
C such as ``place != y``:

    out of context      phi(C) = 1
    hard positive       y = 1 and phi(C) = 1
    hard negative       y = 0 and phi(C) = 1

``phi`` parses the condition, and ``attribute_values`` reads C; ``presets`` has Table 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Self

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.base.errors import InputError, ParameterError
from nooch.base.words import POSITIONS
from nooch.criteria.attribute_values import (
    AttributeState,
    no_value,
    phi_values,
    shown,
    united,
    values_seen,
)
from nooch.criteria.contract import MarkFitted, saved_as
from nooch.criteria.phi import Phi, column, is_storable, parse
from nooch.data import Dataset

Values = Mapping[str, pl.Series]
"""Names in C, each with a value for each image."""
Seen = Mapping[str, Sequence[Any]]
"""Column -> the values in training images, which ``unseen(column)`` compares with."""


def phi_of(phi: Phi, c: Values, seen: Seen) -> pl.Series:
    """The value phi(C) of each image, Boolean; null where a value is missing that decides it."""
    # columns go by number, for polars takes names such as "*" and "^a$" for patterns
    numbered = pl.DataFrame([values.alias(str(i)) for i, values in enumerate(c.values())])
    return numbered.select(phi=condition(phi, c, seen)).to_series()


def condition(phi: Phi, c: Values, seen: Seen) -> pl.Expr:
    """The condition on columns "0", "1", ..., one for each name and call in it; checks types."""
    terms = {
        name: column(pl.col(str(i)), name, values.dtype)
        for i, (name, values) in enumerate(c.items())
    }
    return phi.expression(terms, seen)


@dataclass(frozen=True)
class Attribute:
    """Parameters of the attribute criterion.

    Attributes:
        phi: a condition over attribute columns, ``y`` (the task's label, 0 or 1), class names
            (presence, 0 or 1), ``present(class)`` (true or false), ``area(class)`` (a fraction
            of the image, 0 if it is absent), ``at_edge(class)`` (the box of its largest object
            comes within 1% of the frame), ``off_center(class)`` (that box's center is within 20% of
            an edge) and ``word(text)`` (whether a caption has these words), such as
            ``place != y``, ``unseen(camera) AND year >= 2013`` or ``present(sky) AND
            area(road) > 0.1``; the presets are the conditions of Table 1.

    Examples:
        >>> suite = nooch.find("data", nooch.Attribute("present(tree) AND NOT present(road)"))
        >>> suite.criteria
        ('attribute',)
    """

    phi: str

    kind = "attribute"
    state = AttributeState

    def __post_init__(self) -> None:
        parse(self.phi)

    @property
    def reads(self) -> tuple[str, ...]:
        """Captions, if words are asked for, and objects, if positions are."""
        functions = {function for function, _ in parse(self.phi).calls.values()}
        needs = {"word": "captions", **dict.fromkeys(POSITIONS, "objects")}
        return tuple(sorted({needs[name] for name in functions if name in needs}))

    def partial(self, shard: Dataset, tasks: Sequence[str] = ()) -> AttributeState:
        """The values of a part for each ``unseen(column)``; phi's types are checked for every task.

        Raises:
            ParameterError: a name that the dataset lacks, or types that do not match.
        """
        language = parse(self.phi)
        seen = {name: values_seen(shard, name) for name in language.unseen}
        for task in tasks:
            condition(language, phi_values(shard, task, language), seen)
        return AttributeState(seen, len(shard))

    def merge(self, states: Iterable[AttributeState]) -> AttributeState:
        """The values of all parts; their order and number do not matter."""
        return reduce(united, states)

    def finish(
        self, state: AttributeState, classes: Sequence[str] = (), tasks: Sequence[str] = ()
    ) -> FittedAttribute:
        """The fitted criterion. Raises InputError if a column in ``unseen`` has no value."""
        del classes, tasks
        for name, values in state.seen.items():
            if not values:
                raise InputError(
                    f"the column {name} has no value in {state.images} training images, so that"
                    " every value is unseen",
                    where="phi",
                    remedy="fill the column, or leave unseen out",
                )
        return FittedAttribute(self, state.seen)

    def fit(self, train: Dataset, tasks: Sequence[str] = ()) -> FittedAttribute:
        """Learn the values of each ``unseen(column)``; check phi's types for every task.

        Raises:
            ParameterError: a name that the dataset lacks, or types that do not match.
            InputError: a column in ``unseen`` has no value in training.
        """
        return self.finish(self.partial(train, tasks))


@dataclass(frozen=True)
class FittedAttribute(MarkFitted):
    """Phi, and the values of training images that its ``unseen(column)`` compares with.

    Attributes:
        criterion: the parameters.
        seen: column -> the values that training images have, ascending; dates and times as ISO
            text.
    """

    criterion: Attribute
    seen: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    kind = "attribute"

    def __post_init__(self) -> None:
        seen = {name: tuple(values) for name, values in self.seen.items()}
        object.__setattr__(self, "seen", seen)

    @property
    def reads(self) -> tuple[str, ...]:
        """As the criterion's."""
        return self.criterion.reads

    def parameters(self) -> dict[str, Any]:
        """The condition, as text."""
        return {"phi": self.criterion.phi}

    def phi(self, data: Dataset, task: str) -> NDArray[np.bool_]:
        """Mask of images where phi is true, shape (n_images,), bool (paper, section 2: phi = 1 is
        out of context).
        """
        language = parse(self.criterion.phi)
        values = phi_values(data, task, language)
        marks = phi_of(language, values, self.seen)
        unknown = data.unknown_labels(task)
        if unknown is not None:
            # these images are in no set of the task, for any value of phi
            marks = marks.set(pl.Series(unknown), value=False)
        if marks.null_count():
            raise no_value(language, values, marks.is_null(), data.images["image_id"])
        return marks.to_numpy().astype(np.bool_)

    def explain(self, image: Dataset, task: str) -> str:
        """The values that phi reads in one image, and whether it is true.

        For example ``place = 1 and y = 0, so place != y holds: out of context``.
        """
        if len(image) != 1:
            problem = f"explain was given {len(image)} images"
            raise ParameterError(problem, allowed="a dataset of one image")
        values = phi_values(image, task, parse(self.criterion.phi))
        *first, last = [f"{name} = {shown(series[0])}" for name, series in values.items()]
        listed = f"{', '.join(first)} and {last}" if first else last
        holds = self.phi(image, task)[0]
        verdict = "holds: out of context" if holds else "does not hold: in context"
        return f"{listed}, so {self.criterion.phi} {verdict}"

    def to_json(self) -> dict[str, Any]:
        """Phi, and the values seen in training for each of its ``unseen``."""
        seen = {name: list(values) for name, values in self.seen.items()}
        return {**self.parameters(), "seen": seen}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Read back what ``to_json`` gave; phi is parsed again. Raises FormatError otherwise."""
        with saved_as(cls.kind):
            saved = msgspec.convert(content, _SavedAttribute)
            if set(saved.seen) != set(parse(saved.phi).unseen):
                raise ValueError("its values do not fit phi's unseen columns")
            for name, values in saved.seen.items():
                kinds = {float if type(value) is int else type(value) for value in values}
                if len(kinds) != 1 or not all(map(is_storable, values)):
                    raise ValueError(f"the values of {name} are not of one type")
            return cls(Attribute(saved.phi), saved.seen)


class _SavedAttribute(msgspec.Struct):
    phi: str
    seen: dict[str, list[bool | int | float | str]]
