"""Reading ``nooch_ids_{CE,gist}_{task}_hard_{positive,negative}_{test,valid}.npy``."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.base.errors import InputError, lacking, some_of
from nooch.data import class_name, id_column, read_arrays
from nooch.data.arrays import read_array
from nooch.suites.challenge_set import SUBSETS, ChallengeSet
from nooch.suites.published_counts import paper_tasks
from nooch.suites.suite import CriterionRecord, DatasetRecord, Suite

SPLIT_FILE = "cocostuff_split_image_ids.npz"

_NAME = re.compile(r"nooch_ids_(CE|gist)_(.+)_hard_(positive|negative)_(test|valid)\.npy")


@dataclass(frozen=True)
class PublishedSet:
    """One file: criterion ``ce`` or ``gist``, side ``positive`` or ``negative``, ids int64 (n,)
    ascending.
    """

    criterion: str
    task: str
    split: str
    side: str
    ids: NDArray[np.int64]


@dataclass(frozen=True)
class Published:
    """The files of a folder.

    ``splits`` maps split -> ids (int64, ascending); it is empty where its file is missing.
    """

    sets: list[PublishedSet]
    splits: dict[str, NDArray[np.int64]]


def read_published(folder: str | Path) -> Published:
    """All published files of a folder, by criterion, task, split and side.

    Raises:
        InputError: no such folder, no file of that name in it, or a file that contains no integer
            ids.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError("no such folder of published sets", where=folder)
    matches = [(file, _NAME.fullmatch(file.name)) for file in sorted(folder.iterdir())]
    sets = [_read(file, match) for file, match in matches if match]
    if not sets:
        raise InputError(
            "contains no published set",
            where=folder,
            allowed="files nooch_ids_{CE,gist}_{task}_hard_{positive,negative}_{test,valid}.npy",
        )
    splits, file = {}, folder / SPLIT_FILE
    if file.is_file():
        arrays = read_arrays(file, "train_ids, valid_ids and test_ids")
        ids = {name: np.unique(ids) for name, ids in arrays.items() if name.endswith("_ids")}
        splits = {name.removesuffix("_ids"): unique for name, unique in ids.items()}
    return Published(sets, splits)


def _read(file: Path, match: re.Match[str]) -> PublishedSet:
    criterion, task, side, split = match.groups()
    ids = read_array(file)
    if ids.ndim != 1 or not np.issubdtype(ids.dtype, np.integer):
        problem = f"contains {ids.dtype} of shape {ids.shape}"
        raise InputError(problem, where=file, allowed="one row of integer image ids")
    unique, counts = np.unique(ids.astype(np.int64), return_counts=True)
    if (counts > 1).any():
        raise InputError(f"ids occur more than once: {some_of(unique[counts > 1])}", where=file)
    return PublishedSet(criterion.lower(), task, split, side, unique)


_LICENSE = {
    "name": "BSD-3-Clause (the published challenge sets)",
    "url": "https://github.com/dmadras/nooch",
}

_ARRAYS = "image_ids (n,), labels (n, k) of 0 and 1, and category_names (k,)"


@dataclass(frozen=True, eq=False)
class Labels:
    """Presence of k classes, bool (n, k), in images int64 (n,), ascending; ``source`` is their
    origin.
    """

    image_ids: NDArray[np.int64]
    present: NDArray[np.bool_]
    classes: tuple[str, ...]
    source: str


def read_labels(path: str | Path) -> Labels:
    """Labels from an ``.npz`` of ``image_ids``, ``labels`` and ``category_names``.

    Raises:
        InputError: not such a file, ids that are not integers or occur twice, labels of another
            shape or other than 0 and 1.
    """
    arrays = read_arrays(path, _ARRAYS)
    missing = [name for name in ("image_ids", "labels", "category_names") if name not in arrays]
    if missing:
        raise lacking("array", missing, arrays, path, _ARRAYS)
    names = tuple(class_name(str(name), path) for name in np.atleast_1d(arrays["category_names"]))
    values = arrays["labels"]
    if values.dtype.kind not in "biuf" or not np.isin(values, (0, 1)).all():
        raise InputError("labels contain more than 0 and 1", where=path, allowed=_ARRAYS)
    ids = id_column(arrays["image_ids"], f"{path}, image_ids")
    return _labels(ids, values.astype(bool), names, path)


def _labels(
    ids: pl.Series, present: NDArray[np.bool_], classes: Sequence[str], path: str | Path
) -> Labels:
    def refuse(problem: str, allowed: str) -> NoReturn:
        raise InputError(problem, where=path, allowed=allowed)

    # digits as text stand for the number, as in predictions
    numbers = ids.cast(pl.Int64, strict=False)
    if numbers.null_count():
        text = some_of(ids.filter(numbers.is_null()))
        refuse(f"image ids are text: {text}", "integers, as published")
    if len(set(classes)) != len(classes):
        twice = sorted(name for name, n in Counter(classes).items() if n > 1)
        refuse(f"classes occur more than once: {some_of(twice)}", "each class once")
    if present.shape != (len(ids), len(classes)):
        shape = f"labels have shape {present.shape}"
        refuse(f"{shape} for {len(ids)} images and {len(classes)} classes", _ARRAYS)
    if numbers.n_unique() != len(ids):
        twice = numbers.filter(numbers.is_duplicated()).unique().sort().to_list()
        refuse(f"image ids occur more than once: {some_of(twice)}", "each image once")
    order = numbers.arg_sort().to_numpy()
    return Labels(numbers.to_numpy()[order], present[order], tuple(classes), str(path))


def published_suite(published: Published, labels: Labels | None = None) -> Suite:
    """The authors' sets as a suite: support is null, easy is the labeled rest of the split.

    Args:
        published: the files, with the split.
        labels: of the images; images in no split are left out, and hard images without labels are
            kept, because being a hard positive means that the class is present. Without them the
            suite contains only hard images: nothing is known of the others, and ``evaluate`` gives
            no score that needs them.

    Raises:
        InputError: no split among the files, a task without labels, a side without its other, hard
            positives (negatives) that are labeled negative (positive), or that are not in their
            split.
    """
    if labels is not None and not published.splits:
        problem = f"the folder has no {SPLIT_FILE}, so it is not known which images are easy"
        raise InputError(problem)
    sides: dict[tuple[str, str, str], dict[str, NDArray[np.int64]]] = {}
    for hard in published.sets:
        sides.setdefault((hard.criterion, hard.task, hard.split), {})[hard.side] = hard.ids
    order = {task: number for number, task in enumerate(paper_tasks())}
    tasks = sorted({task for _, task, _ in sides}, key=lambda t: (order.get(t, len(order)), t))
    keys = sorted(sides, key=lambda key: (key[0], tasks.index(key[1]), key[2] != "valid"))
    sets = {key: _set(key, sides[key], published, labels) for key in keys}
    parameters: dict[str, dict[str, Any]] = {
        "ce": {"source": "published", "alpha": 0.05, "beta": 0.1},
        "gist": {"source": "published"},
    }
    names = dict.fromkeys(criterion for criterion, _, _ in keys)
    splits = [split for split in ("valid", "test") if any(key[2] == split for key in keys)]
    # images of each split that have a label, of any task
    counts = {}
    for name in published.splits or splits:
        listed = [
            challenge.image_ids.to_numpy() for key, challenge in sets.items() if key[2] == name
        ]
        if labels is not None:
            split_ids = published.splits[name]
            listed.append(np.intersect1d(split_ids, labels.image_ids, assume_unique=True))
        counts[name] = len(np.unique(np.concatenate(listed))) if listed else 0
    fingerprint, total = _fingerprint(sets.values()), sum(counts.values())
    return Suite.from_sets(
        sets,
        dataset=DatasetRecord(fingerprint, total, counts, licenses=[_LICENSE]),
        criteria={name: CriterionRecord(name, parameters[name]) for name in names},
        skipped=[],
        tasks=tasks,
        splits=splits,
        hard_only=labels is None,
    )


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
        class_names = some_of(sorted(labels.classes), 12)
        raise InputError(f"there are no labels of {task}", where=labels.source, allowed=class_names)
    if len(sides) < 2:
        problem = f"has only the {', '.join(sides)} side"
        raise InputError(problem, where=where, allowed="both sides, one file each")
    if published.splits and split not in published.splits:
        class_names = some_of(f"{name}_ids" for name in published.splits)
        raise InputError(f"{SPLIT_FILE} has no {split}_ids", where=where, allowed=class_names)
    # the ids of a side, a split and of labels are unique each; NumPy would look again
    hard_ids = np.concatenate(list(sides.values()))
    # without labels the file of splits may be missing: then the split is taken from the files
    universe = published.splits[split] if published.splits else np.unique(hard_ids)
    ids, present = np.empty(0, np.int64), np.empty(0, np.bool_)
    if labels is not None:
        inside = np.isin(labels.image_ids, universe, assume_unique=True)
        ids, present = labels.image_ids[inside], labels.present[inside, labels.classes.index(task)]
    for side, hard in sides.items():
        stray = np.setdiff1d(hard, universe, assume_unique=True)
        if len(stray):
            problem = f"hard {side}s are not in the split: {some_of(stray)}"
            raise InputError(problem, where=where, allowed="images of the split")
        of_other_label = ids[present != (side == "positive")]
        wrong = np.intersect1d(hard, of_other_label, assume_unique=True)
        if len(wrong):
            raise InputError(
                f"{len(wrong)} hard {side}s have the other label: {some_of(wrong)}",
                where=where,
                allowed="labels that agree with the published sets",
                remedy="give the labels of COCO 2017 (train2017 and val2017 together)",
            )
    both = np.intersect1d(sides["positive"], sides["negative"], assume_unique=True)
    if len(both):
        problem = f"images are on both sides: {some_of(both)}"
        raise InputError(problem, where=where, allowed="one side for each image")
    every = np.union1d(ids, hard_ids)
    y = np.isin(every, sides["positive"], assume_unique=True)
    y[np.searchsorted(every, ids)] = present
    sided = np.where(y, SUBSETS.index("hard_positive"), SUBSETS.index("hard_negative"))
    is_hard = np.isin(every, hard_ids, assume_unique=True)
    subset = np.where(is_hard, sided, SUBSETS.index("easy")).astype(np.uint8)
    return ChallengeSet(criterion, task, split, pl.Series("image_id", every), y, subset)
