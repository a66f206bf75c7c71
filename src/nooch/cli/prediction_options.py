"""Options for reading predictions, declared once for all commands that read them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nooch.base.errors import ParameterError, some_of
from nooch.cli.declared import settings_of, takes
from nooch.cli.terminal import note, show_progress

if TYPE_CHECKING:
    from nooch.data import Dataset
    from nooch.evaluation import Predictions
    from nooch.suites import Suite


_READS = "nooch.evaluation.prediction_files:load_predictions"
with_reading = takes(
    _READS,
    "reading",
    leave=["tasks"],
    group="How predictions are read",
    classes={"type": Path},
    ids={"type": Path},
)
"""A command that reads predictions gets what was typed of their format as ``reading``."""


def read_predictions(
    files: Sequence[Path],
    reading: Mapping[str, Any],
    suite: Suite | None = None,
    data: Dataset | Callable[[], Dataset | None] | None = None,
) -> list[Predictions]:
    """The runs of files; a note lists what was recognized."""
    from nooch.evaluation import described, load_predictions

    if not files:
        return []
    runs = load_predictions(files, suite, data, progress=show_progress, **reading)
    _refuse_idle(runs, reading)
    note(described(runs))
    return runs


_TABLES = {"scale", "decimal", "percent", "ids", "classes"}
_TAKEN = {
    "tables and arrays": _TABLES,
    "detections": _TABLES | {"first_class", "box_format"},
    "answers in words": {"answers", "questions", "rule", "language", "unknown"},
}
"""Kind of predictions -> the options for what its files leave open."""


def _refuse_idle(runs: Sequence[Predictions], reading: Mapping[str, Any]) -> None:
    """Raise ParameterError for an option of how files are read that none of the runs takes."""
    kinds = {
        "answers in words" if run.said is not None
        else "tables and arrays" if run.boxes is None else "detections"
        for run in runs if run.objects is None
    }  # fmt: skip
    taken = {name for kind in kinds for name in _TAKEN[kind]}
    every = {name for names in _TAKEN.values() for name in names}
    usual = settings_of(_READS)
    given = {name for name, value in reading.items() if value != usual[name].default}
    if kinds and (idle := sorted((every - taken) & given)):
        problem = f"`{idle[0]}` has no effect on {some_of(sorted(kinds))}"
        raise ParameterError(problem, where="predictions", give=dict.fromkeys(idle))
