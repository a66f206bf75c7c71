"""Environments: label x presence of the strongest cue (paper, section 5), or x an attribute."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nooch.criteria import FittedCE
from nooch.data import Dataset
from nooch.errors import InputError, UndefinedError, check_one_of

__all__ = ["N_ENVIRONMENTS", "Environments"]

N_ENVIRONMENTS = 4
"""Of a task with a cue: absent or present, without or with the cue."""


@dataclass(frozen=True)
class Environments:
    """How training images are grouped.

    Attributes:
        fitted: CE fitted on the training split; its strongest cue serves any criterion; or None.
        attribute: a column of the dataset with two values, used instead; or None.
    """

    fitted: FittedCE | None = None
    attribute: str | None = None

    def undefined(self, task: str) -> str | None:
        """Why a task has no environments, or None where it has."""
        if self.attribute is not None:
            return None
        if self.fitted is None:
            return "its context is unknown"
        if self.fitted.cues(task):
            return None
        return self.fitted.undefined(task) or "it has no context cue"

    def of(self, data: Dataset, task: str) -> NDArray[np.uint8]:
        """2 x label + presence, uint8 (n_images,), 0 to 3; unknown test labels count as absent.

        Raises:
            UndefinedError: no context cue, or one not annotated in all images of train and valid.
            InputError: the attribute is missing somewhere, or has other than two values.
        """
        if reason := self.undefined(task):
            raise UndefinedError(
                f"task {task} has no environments: {reason}",
                remedy="leave the methods out that need them, lower alpha, give cues by hand, or"
                " name an attribute",
            )
        if self.attribute is not None:
            there = _two_values(data, self.attribute)
        else:
            assert self.fitted is not None  # noqa: S101 - else it is undefined
            cue = self.fitted.cues(task)[0]
            seen = data.select(rows=(data.images["split"] != "test").to_numpy())
            if seen.unknown_labels(cue) is not None:
                raise UndefinedError(
                    f"task {task} has no environments: its cue {cue} was not annotated in all"
                    " images of train and valid",
                    remedy="leave the methods out that need them, name an attribute, or train on"
                    " the annotated images alone",
                )
            there = data.labels(cue, unknown=False)
        return np.asarray(2 * data.labels(task, unknown=False) + there, dtype=np.uint8)


def _two_values(data: Dataset, attribute: str) -> NDArray[np.bool_]:
    check_one_of("attribute", attribute, data.attributes, owner="the dataset")
    column = data.images[attribute]
    values = column.drop_nulls().unique().sort()
    if column.null_count() or len(values) > 2:
        raise InputError(
            f"attribute {attribute} has {len(values)} values and is missing in"
            f" {column.null_count()} images",
            allowed="two values, one in every image",
        )
    return np.asarray((column == values[-1]).to_numpy(), dtype=bool) & (len(values) == 2)
