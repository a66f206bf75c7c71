"""Objects and boxes of any class: two classes of a dataset for counts that have none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.sparse import csr_array, hstack

from nooch.data.dataset import Dataset
from nooch.data.table_schema import OF_ANY_CLASS

OBJECT, FALSE_BOX = OF_ANY_CLASS


def with_any_class(data: Dataset) -> Dataset:
    """The dataset with ``OF_ANY_CLASS`` as classes: an object is present where any class is, with
    the sum of their areas; a false box nowhere.
    """
    if OBJECT in data.classes:
        return data
    n, k = data.areas.shape
    rows = np.flatnonzero(np.diff(data.areas.indptr))
    ends = np.cumsum(np.append(0, np.diff(data.areas.indptr) > 0))
    whole = csr_array((data.areas.sum(axis=1)[rows], np.zeros_like(rows), ends), shape=(n, 1))
    exceptions, confidences = (
        None if of is None else csr_array((of.data, of.indices, of.indptr), shape=(n, k + 2))
        for of in (data.exceptions, data.confidences)
    )
    areas = csr_array(hstack([data.areas, whole, csr_array((n, 1))]))
    view = replace(data, classes=(*data.classes, *OF_ANY_CLASS), areas=areas,
                   exceptions=exceptions, confidences=confidences)  # fmt: skip
    # the same images and annotations: suites found in it belong to the dataset
    vars(view)["fingerprint"] = data.fingerprint
    return view
