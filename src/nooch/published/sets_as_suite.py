"""The published sets as a suite, so that any model can be scored on the official benchmark without
annotations.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.challenge import SUBSETS, ChallengeSet, CriterionRecord, DatasetRecord, Suite
from nooch.data import Dataset, class_name, id_column, load_dataset, read_arrays
from nooch.errors import InputError, ParameterError, some_of
from nooch.files import DATASET_MARKER
from nooch.published.paper_numbers import paper_tasks
from nooch.published.published_sets import SPLIT_FILE, Published
from nooch.readers.coco.coco_reader import read_coco

__all__ = ["Labels", "published_suite", "read_labels"]

LICENCE = {
    "name": "BSD-3-Clause (the published challenge sets)",
    "url": "https://github.com/dmadras/nooch",
}

_ARRAYS = "image_ids (n,), labels (n, k) of 0 and 1, and category_names (k,)"


@dataclass(frozen=True, eq=False)
class Labels:
    """Which classes are present in which images.

    Attributes:
        image_ids: int64 (n,), ascending, each once.
        present: bool (n, k).
        classes: the k names.
        source: where they come from.
    """

    image_ids: NDArray[np.int64]
    present: NDArray[np.bool_]
    classes: tuple[str, ...]
    source: str


def read_labels(source: str | Path | Sequence[str | Path]) -> Labels:
    """Labels from a dataset folder, COCO JSON files, or an ``.npz`` with ``image_ids``, ``labels``
    and ``category_names``.

    Args:
        source: one of them; of ``instances_*.json`` files also several, such as those of train2017
            and val2017.

    Raises:
        InputError: none of these, ids that are no integers or occur twice, labels of another shape
            or other than 0 and 1.
        ParameterError: several that are not all COCO JSON files.
    """
    paths = [Path(path) for path in ([source] if isinstance(source, str | Path) else source)]
    if paths and all(path.suffix == ".json" for path in paths):
        return _of_dataset(read_coco(things=paths), ", ".join(str(path) for path in paths))
    if len(paths) != 1:
        raise ParameterError(
            f"labels are {', '.join(str(path) for path in paths) or 'none'}",
            allowed="a dataset folder, an .npz, or one or several COCO JSON files",
        )
    (path,) = paths
    if path.is_dir():
        if not (path / DATASET_MARKER).is_file():
            raise InputError(
                "is no dataset folder",
                where=path,
                allowed=f"a dataset folder, or an .npz with {_ARRAYS}",
            )
        return _of_dataset(load_dataset(path), path)
    arrays = read_arrays(path, _ARRAYS)
    missing = [name for name in ("image_ids", "labels", "category_names") if name not in arrays]
    if missing:
        raise InputError(f"has no array {some_of(missing)}", where=path, allowed=_ARRAYS)
    names = tuple(class_name(str(name), path) for name in np.atleast_1d(arrays["category_names"]))
    values = arrays["labels"]
    if values.dtype.kind not in "biuf" or not np.isin(values, (0, 1)).all():
        raise InputError("labels hold more than 0 and 1", where=path, allowed=_ARRAYS)
    return _labels(
        id_column(arrays["image_ids"], f"{path}, image_ids"), values.astype(bool), names, path
    )


def _of_dataset(data: Dataset, source: str | Path) -> Labels:
    # only ids and classes: an explicit area of 0 is a presence too
    present = np.zeros(data.areas.shape, dtype=bool)
    rows = np.repeat(np.arange(len(data)), np.diff(data.areas.indptr))
    present[rows, data.areas.indices] = True
    # of a class that was not annotated everywhere there are no labels
    known = [
        column for column, name in enumerate(data.classes) if data.unknown_labels(name) is None
    ]
    classes = [data.classes[column] for column in known]
    return _labels(pl.Series(data.images["image_id"]), present[:, known], classes, source)


def _labels(
    ids: pl.Series, present: NDArray[np.bool_], classes: Sequence[str], path: str | Path
) -> Labels:
    # digits as text stand for the number, as in predictions
    numbers = ids.cast(pl.Int64, strict=False)
    if numbers.null_count():
        raise InputError(
            f"image ids are text: {some_of(ids.filter(numbers.is_null()))}",
            where=path,
            allowed="integers, as published",
        )
    ids = numbers
    if len(set(classes)) != len(classes):
        twice = sorted({name for name in classes if list(classes).count(name) > 1})
        raise InputError(
            f"classes occur more than once: {some_of(twice)}", where=path, allowed="each class once"
        )
    if present.shape != (len(ids), len(classes)):
        raise InputError(
            f"labels have shape {present.shape} for {len(ids)} images and {len(classes)} classes",
            where=path,
            allowed=_ARRAYS,
        )
    if ids.n_unique() != len(ids):
        raise InputError(
            "image ids occur more than once:"
            f" {some_of(ids.filter(ids.is_duplicated()).unique().sort())}",
            where=path,
            allowed="each image once",
        )
    order = ids.arg_sort().to_numpy()
    return Labels(ids.to_numpy()[order], present[order], tuple(classes), str(path))


def published_suite(published: Published, labels: Labels | None = None) -> Suite:
    """The authors' sets as a suite: support is null, easy is the labelled rest of the split.

    Args:
        published: the files, with the split.
        labels: of the images; those of no split are left out, and hard images without labels are
            kept, because being a hard positive says that the class is present. Without them the
            suite holds hard images alone: nothing is known of the others, and ``evaluate`` gives no
            score that needs them.

    Raises:
        InputError: no split among the files, a task without labels, a side without its other, hard
            positives (negatives) that are labelled negative (positive), or that are not in their
            split.
    """
    if labels is not None and not published.splits:
        raise InputError(
            f"the folder has no {SPLIT_FILE}, so it is not known which images are easy"
        )
    sides: dict[tuple[str, str, str], dict[str, NDArray[np.int64]]] = {}
    for one in published.sets:
        sides.setdefault((one.criterion, one.task, one.split), {})[one.side] = one.ids
    order = {task: number for number, task in enumerate(paper_tasks())}
    keys = sorted(sides, key=lambda k: (k[0], order.get(k[1], len(order)), k[1], k[2] != "valid"))
    sets = {key: _set(key, sides[key], published, labels) for key in keys}
    tasks = list(
        dict.fromkeys(sorted((k[1] for k in keys), key=lambda t: (order.get(t, len(order)), t)))
    )
    parameters: dict[str, dict[str, Any]] = {
        "ce": {"source": "published", "alpha": 0.05, "beta": 0.1},
        "gist": {"source": "published"},
    }
    criteria = {
        name: CriterionRecord(name, parameters[name]) for name in dict.fromkeys(k[0] for k in keys)
    }
    splits = [split for split in ("valid", "test") if any(k[2] == split for k in keys)]
    counts = {name: _size(published, labels, sets, name) for name in published.splits or splits}
    record = DatasetRecord(
        _fingerprint(sets.values()), sum(counts.values()), counts, licenses=[LICENCE]
    )
    return Suite.of(
        sets,
        dataset=record,
        criteria=criteria,
        skipped=[],
        tasks=tasks,
        splits=splits,
        hard_only=labels is None,
    )


def _size(
    published: Published,
    labels: Labels | None,
    sets: Mapping[tuple[str, str, str], ChallengeSet],
    split: str,
) -> int:
    """Images of a split that have a label, of any task."""
    listed = [challenge.image_ids.to_numpy() for key, challenge in sets.items() if key[2] == split]
    if labels is not None:
        listed.append(np.intersect1d(published.splits[split], labels.image_ids))
    return len(np.unique(np.concatenate(listed))) if listed else 0


def _fingerprint(sets: Iterable[ChallengeSet]) -> str:
    digest = hashlib.sha256()
    for challenge in sets:
        for part in (challenge.image_ids.to_numpy(), challenge.labels, challenge.subset):
            digest.update(np.ascontiguousarray(part).tobytes())
    return f"published-{digest.hexdigest()[:32]}"


def _set(
    key: tuple[str, str, str],
    sides: Mapping[str, NDArray[np.int64]],
    published: Published,
    labels: Labels | None,
) -> ChallengeSet:
    criterion, task, split = key
    where = f"{criterion}, {task}, {split}"
    if labels is not None and task not in labels.classes:
        raise InputError(
            f"there are no labels of {task}",
            where=labels.source,
            allowed=some_of(sorted(labels.classes), 12),
        )
    if len(sides) < 2:
        raise InputError(
            f"has only the {', '.join(sides)} side", where=where, allowed="both sides, a file each"
        )
    if published.splits and split not in published.splits:
        raise InputError(
            f"{SPLIT_FILE} has no {split}_ids",
            where=where,
            allowed=some_of(f"{name}_ids" for name in published.splits),
        )
    # without labels the file of splits may be missing: then the split is what the files say
    universe = published.splits.get(split, np.concatenate(list(sides.values())))
    ids, present = np.empty(0, np.int64), np.empty(0, np.bool_)
    if labels is not None:
        known = np.isin(labels.image_ids, universe)
        ids, present = labels.image_ids[known], labels.present[known, labels.classes.index(task)]
    for side, hard in sides.items():
        _check_side(where, side, hard, universe, ids, present)
    both = np.intersect1d(sides["positive"], sides["negative"])
    if len(both):
        raise InputError(
            f"images are on both sides: {some_of(both)}",
            where=where,
            allowed="one side for each image",
        )
    hard_ids = np.concatenate(list(sides.values()))
    every = np.union1d(ids, hard_ids)
    y = np.isin(every, sides["positive"])
    y[np.searchsorted(every, ids)] = present
    subset = np.where(np.isin(every, hard_ids), np.where(y, 0, 1), SUBSETS.index("easy")).astype(
        np.uint8
    )
    return ChallengeSet(criterion, task, split, pl.Series("image_id", every), y, subset)


def _check_side(
    where: str,
    side: str,
    hard: NDArray[np.int64],
    universe: NDArray[np.int64],
    ids: NDArray[np.int64],
    present: NDArray[np.bool_],
) -> None:
    stray = hard[~np.isin(hard, universe)]
    if len(stray):
        raise InputError(
            f"hard {side}s are not in the split: {some_of(stray)}",
            where=where,
            allowed="images of the split",
        )
    wrong = np.intersect1d(hard, ids[present != (side == "positive")])
    if len(wrong):
        raise InputError(
            f"{len(wrong)} hard {side}s have the other label: {some_of(wrong)}",
            where=where,
            allowed="labels that agree with the published sets",
            remedy="give the labels of COCO 2017 (train2017 and val2017 together)",
        )
