"""Requests that the command line checks before anything is read; light to import."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from nooch.base.calls import Options, Seed
from nooch.base.errors import ParameterError

LOSS_SPLIT = "test"
"""Split whose losses choose tasks and are drawn in Fig. 3, unless another is named. The paper does
not name its split; it takes tasks with at least 50 hard positives (section 3.3), and kite has 22 on
valid and 55 on test (Table 2).
"""

_FRACTIONS = re.compile(r"(\d+(?:\.\d+)?)/(\d+(?:\.\d+)?)/(\d+(?:\.\d+)?)")


def _exists(path: str) -> bool:
    try:
        # an empty path would mean the current directory
        return path != "" and Path(path).exists()
    except OSError:
        # a name that is too long, or below a folder that may not be read
        return False


@dataclass(frozen=True)
class SplitPlan(Options):
    """A division of images into train, valid and test.

    Attributes:
        source: percentages such as ``70/10/20`` (train/valid/test), or a file: ``.npz`` with
            ``train_ids``, ``valid_ids`` and ``test_ids``, or a table with columns ``image_id`` and
            ``split``.
        seed: seed of the random division into percentages, at least 0. Ids are ordered first, so
            the order of input has no effect.
        group: as for ``nooch.import_dataset``; a group stays on one side. Only with percentages.
        values: what the file's split names mean, such as ``{"0": "train"}``; the usual names need
            no entry.
    """

    source: str
    seed: Seed = 0
    group: str | None = None
    values: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shares is None and not _exists(self.source):
            problem = f"split {self.source!r} is neither a file nor percentages"
            allowed = "70/10/20, an .npz of train_ids, valid_ids, test_ids, a table image_id, split"
            raise ParameterError(problem, allowed=allowed)
        if self.shares is None and self.group is not None:
            raise ParameterError("a group needs a split by percentages", allowed="`split` 70/10/20")

    @property
    def shares(self) -> tuple[float, ...] | None:
        """Percentages for train, valid and test, or None where the source is a file.

        Raises:
            ParameterError: percentages that do not add up to 100.
        """
        matched = _FRACTIONS.fullmatch(self.source)
        if matched is None:
            return None
        shares = tuple(float(part) for part in matched.groups())
        if abs(sum(shares) - 100) > 1e-9:
            raise ParameterError(
                f"split {self.source} adds up to {sum(shares):g}",
                allowed="three percentages that add up to 100",
            )
        return shares
