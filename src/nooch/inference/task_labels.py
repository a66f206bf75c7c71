"""Labels that are known, over what a model predicted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
from scipy.sparse import csr_array

from nooch.base.errors import InputError
from nooch.base.files import DATASET_MARKER, Place, is_address
from nooch.data import Dataset, ImageId, as_dataset, replaced_columns
from nooch.data.coverage import KNOWN, UNKNOWN
from nooch.data.importing.recognition import recognize
from nooch.data.readers.contract import read
from nooch.data.readers.image_files import ImageIndex

__all__ = ["task_labels", "with_labels"]


def task_labels(
    source: Dataset | Place | str,
    tasks: Sequence[str] | None,
    index: ImageIndex,
    ids: Mapping[ImageId, str],
) -> Dataset:
    """Labels of some classes, by default of all, for the images that are there; file names become
    those of the index. Images are found by file name, else by id; ``ids`` are of the files.

    Raises:
        InputError: what ``nooch import auto`` does not recognize, or names none of the images.
        ParameterError: a task that is no class.
    """
    local = isinstance(source, str | Path) and not is_address(source)
    if local and not (Path(str(source)) / DATASET_MARKER).is_file():
        data = read(recognize(str(source)).reading)
    else:
        data = as_dataset(source).in_memory()
    columns = np.array([data.column(task) for task in tasks or data.classes])
    pairs = data.images.select("image_id", "file_name").iter_rows()
    files = [
        index.by_file_name(str(name or own)) or ids.get(own) or index.by_id(own)
        for own, name in pairs
    ]
    names = pl.Series("file_name", files, dtype=pl.String)
    if names.null_count() == len(names):
        raise InputError(
            f"names none of the images below {index.root}, such as {data.image_ids[0]}",
            where="`labels`",
            allowed="the images' file names, or their names without ending as ids",
        )
    classes = [data.classes[column] for column in columns]
    chosen = replace(
        data,
        images=data.images.with_columns(names),
        classes=tuple(classes),
        areas=csr_array(data.areas[:, columns]),
        kinds={name: kind for name, kind in data.kinds.items() if name in classes},
        exceptions=None if data.exceptions is None else csr_array(data.exceptions[:, columns]),
        confidences=None if data.confidences is None else csr_array(data.confidences[:, columns]),
    )
    return chosen.select(rows=names.is_not_null().to_numpy())


def with_labels(predicted: Dataset, labels: Dataset) -> Dataset:
    """The dataset with the labels of the same images, which count alone for their classes, all of
    which it has. A labeled class has the area that the labels give, else the predicted one, else 0.
    """
    places = np.array([predicted.column(name) for name in labels.classes])
    shape = predicted.areas.shape
    stated = labels.areas.tocoo()
    nearest = np.asarray(predicted.areas[stated.row, places[stated.col]]).ravel()
    if not predicted.has_areas:
        nearest[nearest == 0] = np.nan
    areas = labels.areas.copy()
    areas.data = np.where(np.isnan(areas.data), nearest, areas.data)
    confidences, pairs = predicted.confidences, {}
    if confidences is not None and labels.confidences is not None:
        confidences = replaced_columns(confidences, labels.confidences, places)
    if labels.exceptions is not None:
        known = labels.exceptions.tocoo()
        for name, value in (("unknown", UNKNOWN), ("verified", KNOWN)):
            at = (known.row, places[known.col])
            pairs[name] = csr_array((known.data == value, at), shape=shape)
    return Dataset.build(
        labels.images.with_columns(predicted.images.select("width", "height")),
        predicted.classes,
        replaced_columns(predicted.areas, areas, places),
        labels.captions,
        embeddings={**labels.embeddings, **predicted.embeddings},
        image_root=predicted.image_root,
        kinds=dict(labels.kinds),
        confidences=confidences,
        **pairs,
    )
