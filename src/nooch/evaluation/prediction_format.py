"""What files of predictions leave open: scale, decimal sign, names of columns, ids of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
import polars as pl

from nooch.base.calls import Options
from nooch.base.text_encoding import text_lines
from nooch.data import class_name, id_column
from nooch.data.readers.coco.structure import Category, categories_of, decode
from nooch.data.readers.label_maps import class_list
from nooch.data.table_files import checked_read
from nooch.evaluation.answer_rules import RULES
from nooch.evaluation.answer_words import answer_words
from nooch.evaluation.metrics import SCALES

UNKNOWN = ("wrong", "skip")
"""What an answer that is neither yes nor no counts as: wrong, or not asked."""


@dataclass(frozen=True, kw_only=True)
class PredictionFormat(Options):
    """What files of predictions leave open.

    Attributes:
        scale: ``logit`` or ``probability``, where columns and values do not decide.
        decimal: decimal separator of text tables: ``.`` or ``,``.
        percent: values are percentages.
        classes: class names of an array's columns or of detections' categories: names, or a file
            with one per line, ``NUMBER NAME`` per line, or a COCO file with ``categories``.
        ids: image ids of an array's rows, or of all images that a detector was run on: ids, or a
            file with one per line.
        ignore_unknown: leave out predictions of unknown images and tasks.
        questions: file of the questions that answers in words refer to, see ``read_answers``.
        rule: how answers become yes or no: ``tolerant`` by default, or the rule of a tool, such as
            ``pope`` or ``lmms-eval``.
        language: of the answers: ``en``, ``de``, ``fr``, ``es``, ``pl``, or a YAML file of words.
        unknown: how to count answers that are neither yes nor no: ``wrong`` or ``skip``.
    """

    scale: Annotated[str, SCALES] | None = None
    decimal: Annotated[str, (".", ",")] = "."
    percent: bool = False
    classes: str | Path | Sequence[str] | None = None
    ids: object = None
    ignore_unknown: bool = False
    questions: str | Path | None = None
    rule: Annotated[str, RULES] | None = None
    language: str = "en"
    unknown: Annotated[str, UNKNOWN] = "wrong"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.language != "en":
            answer_words(self.language)

    def named(self) -> dict[int, str] | None:
        """Number -> name of the given classes, or None."""
        if self.classes is None:
            return None
        if not isinstance(self.classes, str | Path):
            return dict(enumerate(map(class_name, self.classes)))
        path = Path(self.classes)
        if path.suffix.lower() != ".json":
            return class_list(path)
        file = decode(checked_read(path, path.read_bytes), _Categories, path)
        return {
            k: class_name(name, path) for k, name in categories_of(file.categories, path).items()
        }

    def listed(self) -> pl.Series | None:
        """The given image ids, or None."""
        ids: Any = self.ids
        if isinstance(ids, str | Path):
            ids = [line.strip() for line in text_lines(Path(ids)) if line.strip()]
        return None if ids is None else id_column(pl.Series(ids), "`ids`")


class _Categories(msgspec.Struct):
    categories: list[Category]
