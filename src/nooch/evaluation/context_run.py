"""The context as if it were a model: P(class | the image's other labels) as predictions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nooch.criteria import Context
from nooch.criteria.context import FOLDS
from nooch.data import Dataset
from nooch.evaluation.predictions import Predictions


def context_run(
    data: Dataset, tasks: Sequence[str], splits: Sequence[str], name: str = "context"
) -> Predictions:
    """Log odds of tasks in the images of splits, by the regressions of ``nooch.Context``.

    They are fitted on the training images or, where these are asked about themselves, on the other
    four fifths of the images. Tasks without a regression are left out. Areas are no evidence here:
    those of a map add up to 1, so that they tell the area of the class itself.
    """
    folds = FOLDS if data.fitting_split in splits else 0
    fitted = Context(lift=None, folds=folds).fit(data.select(data.fitting_split), tasks)
    part = data.select(rows=data.images["split"].is_in(list(splits)).to_numpy())
    known = [task for task in tasks if fitted.undefined(task) is None]
    odds = np.ascontiguousarray(fitted.supports(part, known).T)
    return Predictions(name, part.images["image_id"], tuple(known), odds, "logit")
