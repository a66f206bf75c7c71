"""A suite and a pool of images -> which of them to collect next, and what they would add."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import polars as pl
from msgspec import Meta
from numpy.typing import NDArray
from scipy.sparse import csr_array

from nooch.base.calls import Count, Share, checked
from nooch.base.display import DisplayTable, TabularResult
from nooch.base.errors import InputError, ParameterError, UndefinedError, check_one_of, some_of
from nooch.base.words import counted
from nooch.criteria import Fitted
from nooch.data import Dataset, as_dataset
from nooch.evaluation import load_predictions
from nooch.evaluation.boxes.matched import annotated_by
from nooch.evaluation.rate_words import phi_words
from nooch.models.caches.features import Features, given_features
from nooch.suites import CELLS, Suite, as_suite
from nooch.suites.find import find
from nooch.suites.summary import suite_by

Floats = NDArray[np.float64]
_SIDES = CELLS[:2]


@dataclass(frozen=True, eq=False, repr=False)
class NextImages(TabularResult):
    """Images to label or to add to training, the most valuable first.

    Attributes:
        table: a row for each image: ``image_id, file_name, task, subset`` (``hard_positive`` or
            ``hard_negative`` of the task that it adds most to), ``reason`` (every task that it is
            hard for) and ``gain``, the growth of the effective numbers, summed over tasks, for
            which a side without images counts as half an image.
        tasks: a row for each task: ``task``, hard ``positives`` and ``negatives`` of training and
            their ``effective`` number 4 / (1 / positives + 1 / negatives), 0 without either; of the
            chosen images ``new_positives`` and ``new_negatives``, and the ``new_effective`` number
            with them.
        notes: what was left out.
    """

    table: pl.DataFrame
    tasks: pl.DataFrame
    notes: list[str]

    @property
    def display(self) -> DisplayTable:
        """A row for each task."""
        columns = [name.replace("_", " ") for name in self.tasks.columns]
        title = f"NextImages({counted(len(self.table), 'image')})"
        return DisplayTable(title, columns, self.tasks.rows(), notes=self.notes)


@checked
def collect_next(
    suite: Suite | str | Path,
    pool: Dataset | str | Path,
    *,
    features: Any = None,
    pool_features: Any = None,
    dataset: Dataset | str | Path | None = None,
    budget: Count = 500,
    tasks: Sequence[str] = (),
    criterion: str | None = None,
    phi: str | None = None,
    similarity: Annotated[float, Meta(gt=0, le=1)] = 0.95,
    detections: Any = None,
    threshold: Share = 0.5,
    reading: Mapping[str, Any] | None = None,
) -> NextImages:
    """Choose images of a pool whose context misleads in ways that are rare in training.

    Greedily by the relative growth of the effective number of hard training images, (sum w)^2 /
    sum w^2 with both sides of equal weight, summed over tasks.

    Args:
        suite: its criterion decides what is hard; its dataset has the training images.
        pool: dataset of the images to choose from, with true or predicted areas.
        features: features of the suite's dataset: a folder of ``nooch train features`` or a file of
            vectors by image (in Python also an array). With them, near-duplicates of the dataset's
            images and of images already chosen are left out.
        pool_features: features of the pool, from the same backbone.
        dataset: the suite's dataset, if it has moved.
        budget: largest number of images.
        tasks: names of tasks; by default all that have sets under the criterion.
        criterion: criterion of the suite with its own thresholds; by default the first.
        phi: condition on the images to collect, in place of a criterion, such as the ``phi`` of a
            slice or of a finding (see ``nooch.Attribute``).
        similarity: cosine of features above which two images are near-duplicates.
        detections: boxes of a detector in the pool's images (see ``nooch.load_predictions``), which
            take the place of its annotations.
        threshold: score above which a box of ``detections`` counts.
        reading: how files of detections are read: keywords of ``nooch.load_predictions``.

    Raises:
        ParameterError: no dataset, no split ``train``, the pool is that dataset, unknown names, one
            kind of features without the other, a criterion and ``phi``.
        UndefinedError: a criterion without statistics; no hard image in the pool.
        InputError: features of other images, of another width, or missing.
    """
    suite, pool = as_suite(suite), as_dataset(pool)
    data = suite.require_dataset(dataset)
    if pool.fingerprint == data.fingerprint:
        problem = "the pool is the dataset that the suite was found in"
        raise ParameterError(problem, allowed="other images")
    if detections is not None:
        pool = _detected(pool, detections, data, threshold, reading or {})
    vectors = _vectors(features, pool_features, data, pool)
    suite, name = suite_by(suite, data, criterion, phi)
    tasks = list(dict.fromkeys(key[1] for key in suite.select_keys([name], tasks)))
    fitted = suite.header.criteria[name].restored()
    if fitted is None:
        problem = f"the suite has no statistics of {name}"
        raise UndefinedError(problem, allowed="neither combinations nor custom criteria")
    for task in tasks:
        check_one_of("class", task, pool.classes, owner="the pool")
    training = _hard_marks(data, ["train"], fitted, tasks)
    in_dataset = _known(pool, data)
    marks = csr_array(
        _hard_marks(pool, [*pool.splits], fitted, tasks).multiply(~in_dataset[:, None])
    )
    before = np.asarray(training.sum(axis=0), dtype=np.float64).reshape(-1, 2)
    picked, duplicates = _chosen(marks, before, tasks, budget, similarity, vectors)
    notes = [f"{counted(duplicates, 'image')} left out as near-duplicates"] if vectors else []
    if phi is not None:
        n, new = int(np.count_nonzero(np.diff(training.indptr))), len(picked)
        notes.insert(
            0, f"images {phi_words(phi)}: {counted(n, 'image')} in training, {new:,} added"
        )
    if in_dataset.any():
        theirs = counted(int(in_dataset.sum()), "image")
        notes.append(
            f"{theirs} left out, because the suite's dataset has them (same id and file name)"
        )
    if not picked:
        problem = "; ".join(["the pool has no new image that is hard for a task", *notes])
        remedy = "give a larger pool, or other tasks"
        if in_dataset.any():
            remedy += "; if those are other images, give them other ids or file names"
        raise UndefinedError(problem, remedy=remedy)
    if len(picked) < budget:
        notes.append(f"no more than {counted(len(picked), 'image')} of the pool are new and hard")
    frame = pl.DataFrame(picked)
    images = pool.images[frame["row"]].select("image_id", "file_name")
    table = pl.concat([images, frame.drop("row")], how="horizontal")
    added = marks[frame["row"].to_numpy()].sum(axis=0).reshape(-1, 2)
    return NextImages(table, _counted(tasks, before, added), notes)


def _detected(
    pool: Dataset, detections: Any, data: Dataset, threshold: float, reading: Mapping[str, Any]
) -> Dataset:
    """The pool with a detector's boxes as annotations; without classes of its own it takes the
    dataset's names and numbers.
    """
    if not pool.classes:
        numbers = {"categories": data.provenance.get("categories", {})}
        pool = Dataset.build(
            pool.images, data.classes, csr_array((len(pool), len(data.classes))), pool.captions,
            image_root=pool.image_root, provenance={**pool.provenance, **numbers},
        )  # fmt: skip
    runs = load_predictions(detections, data=pool, tasks=data.classes, **reading)
    if len(runs) > 1:
        names = some_of([run.run for run in runs])
        raise InputError(f"the detections have several runs: {names}", allowed="one run")
    return annotated_by(runs[0], pool, data.classes, threshold)


def _counted(tasks: Sequence[str], before: NDArray[Any], added: NDArray[Any]) -> pl.DataFrame:
    """The table of tasks, from hard images of each (n_tasks, 2)."""
    columns: dict[str, Any] = {"task": tasks}
    for prefix, group, counts in (("", before, before), ("new_", added, before + added)):
        columns |= {f"{prefix}positives": group[:, 0], f"{prefix}negatives": group[:, 1]}
        columns[f"{prefix}effective"] = _effective(counts) * (counts > 0).all(axis=1)
    return pl.DataFrame(columns)


def _known(pool: Dataset, data: Dataset) -> NDArray[np.bool_]:
    """Mask of pool images that the dataset has, by id and file name; without names, none."""
    theirs, ours = (dataset.images.select("image_id", "file_name") for dataset in (pool, data))
    if theirs.schema != ours.schema:
        return np.zeros(len(pool), dtype=bool)
    both = theirs.join(
        ours.with_columns(known=True), on=ours.columns, how="left", maintain_order="left"
    )
    return both["known"].fill_null(value=False).to_numpy()


def _hard_marks(
    data: Dataset, splits: Sequence[str], fitted: Fitted, tasks: Sequence[str]
) -> csr_array:
    """Ones for hard images of some splits, (n_images, 2 T): in column 2 t hard positives of task t,
    in column 2 t + 1 hard negatives.
    """
    suite = find(data, fitted, tasks=tasks, splits=splits)
    every = data.images.select("image_id", row=pl.int_range(pl.len()))
    rows, columns = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for key in suite.keys:
        for number, side in enumerate(_SIDES):
            hard = every.filter(pl.col("image_id").is_in(suite.set(*key).ids(side)))
            rows.append(hard["row"].to_numpy())
            columns.append(np.full(len(hard), 2 * tasks.index(key[1]) + number))
    places = np.concatenate(rows), np.concatenate(columns)
    return csr_array((np.ones(len(places[0])), places), shape=(len(data), 2 * len(tasks)))


def _vectors(features: Any, pool_features: Any, data: Dataset, pool: Dataset) -> list[Any]:
    """Unit vectors of the dataset's and of the pool's images; empty without features."""
    if (features is None) != (pool_features is None):
        problem = "near-duplicates need features of the pool and of the suite's dataset"
        raise ParameterError(problem, allowed="`features` and `pool_features`, or neither")
    if features is None:
        return []
    vectors = [
        inputs.matrix() if isinstance(inputs, Features) else inputs
        for inputs in (given_features(features, data), given_features(pool_features, pool))
    ]
    if vectors[0].shape[1] != vectors[1].shape[1]:
        problem = f"features have {vectors[0].shape[1]} and {vectors[1].shape[1]} columns"
        raise InputError(problem, allowed="features from one backbone")
    return [v / np.maximum(np.linalg.norm(v, axis=1, keepdims=True), 1e-30) for v in vectors]


def _effective(counts: Floats) -> Floats:
    """4 / (1 / a + 1 / b) of a hard positives and b hard negatives (T, 2); no image counts half."""
    return np.asarray(4 / (1 / np.maximum(counts, 0.5)).sum(axis=1))


def _chosen(
    marks: csr_array,
    counts: Floats,
    tasks: Sequence[str],
    budget: int,
    similarity: float,
    vectors: Sequence[Any],
) -> tuple[list[dict[str, Any]], int]:
    """Images in the order of choice, ``row`` and the columns of ``NextImages.table``, and the
    number of near-duplicates passed over.
    """
    names = [f"{side.replace('_', ' ')} of {task}" for task in tasks for side in _SIDES]
    left = np.ones(marks.shape[0], dtype=bool)
    picks: list[dict[str, Any]] = []
    while len(picks) < budget:
        now = _effective(counts)
        grown = np.stack([_effective(counts + side) / now - 1 for side in np.eye(2)], axis=1)
        scores = np.where(left, marks @ grown.ravel(), 0)
        row = int(scores.argmax())
        if scores[row] <= 0:
            break
        left[row] = False
        if vectors:
            in_dataset, pool = vectors
            others = np.concatenate(
                [in_dataset @ pool[row], pool[[c["row"] for c in picks]] @ pool[row]]
            )
            if others.max() > similarity:
                continue
        mark = marks[[row]].toarray().reshape(-1, 2)
        best = int((mark * grown).argmax())
        picks.append({
            "row": row,
            "task": tasks[best // 2],
            "subset": _SIDES[best % 2],
            "reason": some_of(names[place] for place in np.flatnonzero(mark)),
            "gain": float((_effective(counts + mark) - now).sum()),
        })  # fmt: skip
        counts = counts + mark
    return picks, int((~left).sum()) - len(picks)
