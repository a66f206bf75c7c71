"""The attribute criterion (paper, section 2): out of context is where a condition holds."""

from __future__ import annotations

import difflib
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Self

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.base.errors import FormatError, InputError, ParameterError, some_of
from nooch.criteria.contract import MarkFitted
from nooch.criteria.phi import Phi, column, identifier, is_storable, json_values, parse
from nooch.data import Dataset

LABELS = ("y", "label")
"""Names of the task's label in phi; the task's own name is a third."""
HIDDEN = ("file_name", "split")
"""Columns that phi may not use, for they say nothing about an image's context."""


@dataclass(frozen=True)
class AttributeState:
    """What a part of so many images adds to ``unseen``: column -> its values, ascending."""

    seen: Mapping[str, Sequence[Any]]
    images: int


@dataclass(frozen=True)
class Attribute:
    """Parameters of the attribute criterion.

    Attributes:
        phi: a condition over attribute columns, ``y`` (the task's label, 0 or 1), class names
            (presence, 0 or 1), ``present(class)`` (true or false) and ``area(class)`` (a fraction
            of the image, 0 where it is absent), such as ``place != y``, ``unseen(camera) AND year
            >= 2013`` or ``present(sky) AND area(road) > 0.1``; ``presets`` has those of Table 1.
    """

    phi: str

    kind = "attribute"
    state = AttributeState
    reads = ()

    def __post_init__(self) -> None:
        parse(self.phi)

    def partial(self, shard: Dataset, tasks: Sequence[str] = ()) -> AttributeState:
        """The values of a part for each ``unseen(column)``; phi's types are checked for every task.

        Raises:
            ParameterError: a name that the dataset lacks, or types that do not match.
        """
        language = parse(self.phi)
        seen = {name: _values_seen(shard, name) for name in language.unseen}
        for task in tasks:
            _expression(language, _values(shard, task, language), seen)
        return AttributeState(seen, len(shard))

    def merge(self, states: Iterable[AttributeState]) -> AttributeState:
        """The values of all parts; their order and number do not matter."""
        return reduce(_united, states)

    def finish(
        self, state: AttributeState, classes: Sequence[str] = (), tasks: Sequence[str] = ()
    ) -> FittedAttribute:
        """The fitted criterion. Raises InputError where a column in ``unseen`` has no value."""
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


def _united(a: AttributeState, b: AttributeState) -> AttributeState:
    # ISO texts of dates and times ascend as these do
    seen = {name: sorted({*values, *b.seen[name]}) for name, values in a.seen.items()}
    return AttributeState(seen, a.images + b.images)


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
    reads = ()

    def __post_init__(self) -> None:
        seen = {name: tuple(values) for name, values in self.seen.items()}
        object.__setattr__(self, "seen", seen)

    def parameters(self) -> dict[str, Any]:
        """The condition, as text."""
        return {"phi": self.criterion.phi}

    def undefined(self, task: str) -> str | None:
        """None: phi has a value for every task of a dataset that has the names it uses."""
        del task
        return None

    def phi(self, data: Dataset, task: str) -> NDArray[np.bool_]:
        """Where phi holds, shape (n_images,), bool (paper, section 2: phi = 1 is out of context).

        Raises:
            ParameterError: the dataset lacks the task or a name, or types do not match.
            InputError: phi has no value for some images: an attribute is missing, or a number
                undefined.
        """
        language = parse(self.criterion.phi)
        values = _values(data, task, language)
        # columns go by number, for polars takes names such as "*" and "^a$" for patterns
        numbered = pl.DataFrame([series.alias(str(i)) for i, series in enumerate(values.values())])
        marks = numbered.select(phi=_expression(language, values, self.seen)).to_series()
        unknown = data.unknown_labels(task)
        if unknown is not None:
            # these images are in no set of the task, whatever phi says
            marks = marks.set(pl.Series(unknown), value=False)
        if marks.null_count():
            raise _no_value(language, values, marks.is_null(), data.images["image_id"])
        return marks.to_numpy().astype(np.bool_)

    def explain(self, image: Dataset, task: str) -> str:
        """The values that phi reads in one image, and whether it holds.

        For example ``place = 1 and y = 0, so place != y holds: out of context``.
        """
        if len(image) != 1:
            problem = f"explain was given {len(image)} images"
            raise ParameterError(problem, allowed="a dataset of one image")
        values = _values(image, task, parse(self.criterion.phi))
        *first, last = [f"{name} = {_shown(series[0])}" for name, series in values.items()]
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
        try:
            saved = msgspec.convert(content, _SavedAttribute)
            language = parse(saved.phi)
        except (msgspec.ValidationError, ParameterError) as error:
            raise FormatError(f"is no fitted attribute criterion: {error}") from error
        problem = None
        if set(saved.seen) != set(language.unseen):
            problem = "its values are not those of phi's unseen columns"
        for name, values in saved.seen.items():
            kinds = {float if type(value) is int else type(value) for value in values}
            if len(kinds) != 1 or not all(map(is_storable, values)):
                problem = problem or f"the values of {name} are not of one type"
        if problem:
            raise FormatError(f"is no fitted attribute criterion: {problem}")
        return cls(Attribute(saved.phi), saved.seen)


class _SavedAttribute(msgspec.Struct):
    phi: str
    seen: dict[str, list[bool | int | float | str]]


def _values(data: Dataset, task: str, language: Phi) -> dict[str, pl.Series]:
    data.column(task)  # raises for an unknown task, even if phi does not use its label
    named = {name: _named(data, task, name) for name in language.names}
    for text, (function, name) in language.calls.items():
        if function == "present":
            named[text] = _present(data, name).cast(pl.Boolean)
        else:
            named[text] = pl.Series(data.area(name, unknown=np.nan))
    return named


def _expression(
    language: Phi, values: Mapping[str, pl.Series], seen: Mapping[str, Sequence[Any]]
) -> pl.Expr:
    """The expression over columns "0", "1", ..., one for each name and call of phi."""
    terms = {
        name: column(pl.col(str(i)), name, series.dtype)
        for i, (name, series) in enumerate(values.items())
    }
    return language.expression(terms, seen)


def _named(data: Dataset, task: str, name: str) -> pl.Series:
    """Values of a name in phi: the task's label, else an attribute, else a class's presence."""
    if name in (*LABELS, task):
        return _label(data, task, name)
    if name in _columns(data):
        return data.images[name]
    if name in data.classes:
        return _present(data, name)
    columns = _columns(data)
    near = difflib.get_close_matches(name, [*columns, *data.classes, *LABELS], n=3)
    meant = f"did you mean {' or '.join(map(identifier, near))}? " if near else ""
    raise ParameterError(
        f"knows no {name!r}",
        where="phi",
        allowed=f"columns: {some_of(columns, 12)}; classes: {some_of(data.classes)}; y or label",
        remedy=f"{meant}text has single quotes: '{name}'",
    )


def _columns(data: Dataset) -> list[str]:
    return [name for name in data.images.columns if name not in HIDDEN]


def _label(data: Dataset, task: str, name: str) -> pl.Series:
    label = _present(data, task)
    clash = "a class" if name in data.classes and name != task else ""
    if name in data.images.columns:
        values = data.images[name]
        equal = values.dtype.is_numeric() or values.dtype == pl.Boolean
        if equal:
            same = (values.cast(pl.Float64) == label).filter(label.is_not_null())
            equal = same.fill_null(value=False).all()
        if not equal:
            clash = "a column of the images with other values"
    if clash:
        raise ParameterError(
            f"the name {name} is ambiguous: it is the label of {task} and {clash}",
            where="phi",
            remedy=f"rename the column or class {name}",
        )
    return label


def _present(data: Dataset, name: str) -> pl.Series:
    """1 where a class is present, 0 where it is not, null where that is unknown."""
    unknown = data.unknown_labels(name)
    labels = pl.Series(data.labels(name, unknown=False).astype(np.int64))
    return labels if unknown is None else labels.set(pl.Series(unknown), value=None)


def _values_seen(train: Dataset, name: str) -> list[Any]:
    if name not in _columns(train):
        allowed = some_of(_columns(train), 12)
        raise ParameterError(
            f"unseen({name}) takes a column, and {name} is none", where="phi", allowed=allowed
        )
    # the two zeros are one value, whichever comes first
    values = json_values(train.images[name])
    return [value + 0.0 if type(value) is float else value for value in values]


def _no_value(
    language: Phi, values: Mapping[str, pl.Series], missing: pl.Series, ids: pl.Series
) -> InputError:
    """Which images phi has no value for, and why: a missing attribute, or undefined arithmetic."""
    reason = "0/0, x % 0 or ln of a negative number"
    remedy = "guard it, as in x > 0 AND ln(x) > 1"
    absent = {
        n: missing & (s.is_null() | s.is_nan() if s.dtype.is_float() else s.is_null())
        for n, s in values.items()
    }
    holes = [name for name, gap in absent.items() if gap.any()]
    if holes:
        missing = reduce(operator.or_, (absent[name] for name in holes))
        reason = f"{', '.join(holes)} is null or NaN"
        words = [name if name in language.calls else identifier(name) for name in holes]
        guard = " AND ".join(f"{word} IS NOT NULL" for word in words)
        remedy = f"fill the table, or count them as in context: {guard} AND ({language.text})"
    examples = some_of(ids.filter(missing))
    problem = f"has no value for {missing.sum()} of {len(ids)} images, such as {examples}: {reason}"
    return InputError(problem, where="phi", remedy=remedy)


def _shown(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).upper()
    return f"'{value}'" if isinstance(value, str) else str(value)
