"""A custom criterion that writes a line for every part of a dataset that it measures."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

from nooch.criteria import CE, FittedCE

LINES = "NOOCH_TEST_LINES"
"""The variable that names the file."""


class FittedCounted(FittedCE):
    def supports(self, data, tasks):
        supports = super().supports(data, tasks)
        time.sleep(0.03)
        with Path(os.environ[LINES]).open("a") as file:
            file.write(f"{data.images['image_id'].min()}\n")
        return supports


@dataclass(frozen=True)
class Counted(CE):
    """CE whose cues need no areas of their own, measured slowly."""

    alpha: float = 0.001

    def finish(self, state, classes, tasks=()):
        fitted = super().finish(state, classes, tasks)
        return FittedCounted(fitted.criterion, fitted.classes, fitted.state)
