"""How predictions are read: options declared once for all commands that read them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer import Option

from nooch.cli.terminal_output import note

if TYPE_CHECKING:
    from nooch.challenge import Suite
    from nooch.data import Dataset
    from nooch.evaluation import PredictionFormat, Predictions

__all__ = ["read_predictions", "with_reading"]

_OPTIONS: dict[str, Any] = {
    "scale": Option(None, help="logit or probability, where columns and values leave it open."),
    "decimal": Option(".", help="Decimal sign of text tables: a point, or a comma."),
    "percent": Option(False, "--percent", help="Values are percentages."),
    "classes": Option(None, help="Class names of arrays or detections: lines, or a COCO file."),
    "ids": Option(None, help="Image ids of arrays or detections, one per line."),
    "questions": Option(None, help="Questions that answers in words are to; see nooch export."),
    "rule": Option(None, help="How answers are read: pope, vlmevalkit, lmms-eval, word, ..."),
    "unknown": Option("wrong", help="Answers that are neither yes nor no: wrong, or skip."),
    "ignore_unknown": Option(False, "--ignore-unknown", help="Leave out unknown images and tasks."),
}
_KINDS: dict[str, type] = {"percent": bool, "ignore_unknown": bool}
_KINDS |= dict.fromkeys(("classes", "ids", "questions"), Path)


def with_reading(command: Callable[..., None]) -> Callable[..., None]:
    """The command with these options, which it gets as one parameter ``reading``.

    One that the command has itself under the same name means something else there.
    """
    own = [p for p in inspect.signature(command).parameters.values() if p.name != "reading"]
    names = [name for name in _OPTIONS if name not in {p.name for p in own}]

    @wraps(command)
    def run(**values: Any) -> None:
        from nooch.evaluation import PredictionFormat

        reading = PredictionFormat(**{name: values.pop(name) for name in names})
        command(**values, reading=reading)

    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=_OPTIONS[name])
        for name in names
    ]
    run.__dict__["__signature__"] = inspect.Signature([*own, *added])
    run.__annotations__ = {name: _KINDS.get(name, str) for name in names}
    run.__annotations__ |= {p.name: command.__annotations__[p.name] for p in own}
    return run


def read_predictions(
    files: Sequence[Path],
    reading: PredictionFormat,
    suite: Suite | None = None,
    data: Dataset | None = None,
) -> list[Predictions]:
    """The runs of files; a note says what was recognized."""
    from nooch.evaluation import described, load_predictions

    if not files:
        return []
    runs = load_predictions(files, suite, data, options=reading)
    note(described(runs))
    return runs
