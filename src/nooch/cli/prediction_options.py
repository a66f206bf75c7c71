"""How predictions are read: options declared once for all commands that read them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer import Option

from nooch.cli.options import with_options
from nooch.cli.terminal import note, progress

if TYPE_CHECKING:
    from nooch.data import Dataset
    from nooch.evaluation import PredictionFormat, Predictions
    from nooch.suites import Suite


@dataclass(frozen=True)
class _Reading:
    """Options of the fields of ``nooch.PredictionFormat``."""

    scale: str = Option(None, help="logit or probability, where columns and values leave it open.")
    decimal: str = Option(".", help="Decimal sign of text tables: a point, or a comma.")
    percent: bool = Option(False, "--percent", help="Values are percentages.")
    classes: Path = Option(None, help="Class names of arrays or detections: lines, or a COCO file.")
    ids: Path = Option(None, help="Image ids of arrays or detections, one per line.")
    questions: Path = Option(None, help="Questions that answers in words are to; see nooch export.")
    rule: str = Option(
        None, help="How answers are read: tolerant, or as a tool does: pope, lmms-eval, ..."
    )
    language: str = Option("en", help="Of answers: en, de, fr, es, pl, or a YAML file of words.")
    unknown: str = Option("wrong", help="Answers that are neither yes nor no: wrong, or skip.")
    ignore_unknown: bool = Option(
        False, "--ignore-unknown", help="Leave out unknown images and tasks."
    )


def _format(**options: Any) -> PredictionFormat:
    from nooch.evaluation import PredictionFormat

    return PredictionFormat(**options)


with_reading = partial(with_options, _Reading, "reading", _format)
"""A command that reads predictions gets the options of their format as ``reading``."""


def read_predictions(
    files: Sequence[Path],
    reading: PredictionFormat,
    suite: Suite | None = None,
    data: Dataset | Callable[[], Dataset | None] | None = None,
) -> list[Predictions]:
    """The runs of files; a note says what was recognized."""
    from nooch.evaluation import described, load_predictions

    if not files:
        return []
    with progress() as update:
        runs = load_predictions(files, suite, data, options=reading, progress=update)
    note(described(runs))
    return runs
