"""Options for reading predictions, declared once for all commands that read them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nooch.cli.declared import takes
from nooch.cli.terminal import note, show_progress

if TYPE_CHECKING:
    from nooch.data import Dataset
    from nooch.evaluation import Predictions
    from nooch.suites import Suite


with_reading = takes(
    "nooch.evaluation.prediction_files:load_predictions",
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
    note(described(runs))
    return runs
