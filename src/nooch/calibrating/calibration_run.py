"""Predicted areas next to true ones: betas that reach a precision, chosen and cross-validated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.calibrating.calibration_file import Calibration
from nooch.criteria import CE
from nooch.data import Dataset, as_dataset, encode_header
from nooch.data.splits import group_names
from nooch.errors import InputError, ParameterError, check_fraction, check_one_of, some_of
from nooch.evaluation.bootstrap import wilson
from nooch.files import Place, check_output_file, replace_file
from nooch.finding.suite_builder import training_part
from nooch.metrics import auc
from nooch.shared_types import Progress, no_progress, options_from, tracked

__all__ = ["CalibrateOptions", "best_beta", "calibrate"]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
_FEWEST = 10
"""Truly hard images of a side below which its betas stay: they would fit single images."""


@dataclass(frozen=True)
class CalibrateOptions:
    """How predicted areas are calibrated.

    Attributes:
        criterion: its alpha or cues say which cues a task has, its beta what is truly hard.
        precision: of hard images, to be reached with the highest recall.
        tasks: true classes; by default all that have cues, and a predicted class.
        match: true class -> predicted class, where their names differ.
        folds: of the images in common; ``seed`` draws them.
        group: column or regular expression on file names: images of one group share a fold, as
            near-duplicates should.
    """

    criterion: CE = field(default_factory=CE)
    precision: float = 0.9
    tasks: Sequence[str] | None = None
    match: Mapping[str, str] = field(default_factory=dict)
    folds: int = 5
    seed: int = 0
    group: str | None = None

    def __post_init__(self) -> None:
        check_fraction("precision", self.precision, "calibrate")
        if self.folds < 2:
            raise ParameterError(f"`folds` is {self.folds}", allowed="2 and more")


def calibrate(
    predicted: Dataset | Place | str,
    true: Dataset | Place | str,
    *,
    out: str | Path | None = None,
    overwrite: bool = False,
    options: CalibrateOptions | None = None,
    progress: Progress = no_progress,
    **named: Any,
) -> Calibration:
    """Choose a beta for each cue and side on predicted areas, so that hard images are truly hard.

    See ``best_beta`` for the choice. Betas are chosen on all images in common; how well they do is
    measured out of fold: images of a fold are judged by betas that the other folds chose.

    Args:
        predicted: a dataset with predicted areas, or its folder.
        true: an annotated one with images (by id) in common; cues are fitted on its training split.
        out: JSON file to write.
        overwrite: replace that file.
        options: see ``CalibrateOptions``.
        progress: called with what is being done, and how many of how many are done.
        named: its fields.

    Raises:
        InputError: fewer images in common than folds, or no task with cues in both datasets.
        ParameterError: an unknown class, or options out of range.
    """
    asked = options_from(CalibrateOptions, options, named)
    target = None if out is None else check_output_file(out, overwrite=overwrite)
    p, t = as_dataset(predicted), as_dataset(true)
    ce, names = asked.criterion.fit(training_part(t, "ce")), _names(p, t, asked.match)
    settings = {**asdict(asked), "predicted": p.fingerprint, "true": t.fingerprint}
    p, t = _in_common(p, t, asked.folds)
    folds, verdicts, skipped = _folds(p.images, asked), [], []
    cues_of: dict[str, list[str]] = {}
    betas: dict[str, dict[str, Any]] = {}
    wanted = t.classes if asked.tasks is None else asked.tasks
    for task in tracked(wanted, len(wanted), "choosing betas, tasks", progress):
        # those with a predicted class first
        cues = sorted(ce.cues(task), key=lambda cue: cue not in names)
        if task in names and cues and cues[0] in names:
            one = _TaskPair.of(p, t, task, cues, names, folds)
            cues_of[one.name] = list(one.cues.values())
            chosen = one.betas(one.folds >= 0, asked).T.tolist()
            betas[one.name] = dict(zip(cues_of[one.name], chosen, strict=True))
            verdicts += one.verdicts(asked)
        if (cues or asked.tasks is not None) and (lost := {task, *cues} - names.keys()):
            skipped.append(f"{', '.join(sorted(lost))} (for {task})")
    if not betas:
        remedy = "name classes that differ with `match`, or give cues by hand"
        raise InputError("no task has a predicted class and a predicted cue", remedy=remedy)
    notes = [f"no predicted class is {some_of(skipped, 12)}"] if skipped else []
    expected, below = _expected(verdicts, names, asked.precision)
    if below:
        notes.append(f"precision out of fold below {asked.precision:g}: {some_of(below, 12)}")
    alpha, beta = asked.criterion.alpha, asked.criterion.beta
    found = Calibration(
        criterion=CE(alpha, beta, cues_of, betas, expected),
        predicted=p.provenance.get("predicted"),
        settings=settings,
        areas=[_areas(p, t, pair, beta) for pair in names.items()],
        verdicts=verdicts,
        notes=notes,
    ).sealed()
    if target is not None:
        replace_file(target, encode_header(found))
    return found


def _in_common(p: Dataset, t: Dataset, folds: int) -> tuple[Dataset, Dataset]:
    """The images that both datasets have."""
    ids = set(p.image_ids) & set(t.image_ids)
    if len(ids) < folds:
        problem = f"{len(ids)} images are in both datasets"
        raise InputError(problem, allowed=f"image ids in common, {folds} (`folds`) and more")
    p, t = (one.select(rows=np.array([i in ids for i in one.image_ids])) for one in (p, t))
    return p, t


def _expected(
    verdicts: Sequence[Mapping[str, Any]], names: Mapping[str, str], precision: float
) -> tuple[dict[str, Any], list[str]]:
    """Predicted task -> set -> precision and recall; and sets that do not reach the precision."""
    expected: dict[str, Any] = {}
    below = []
    for row in (row for row in verdicts if row["cue"] is None):
        of = {metric: row[f"calibrated_{metric}"] for metric in ("precision", "recall")}
        expected.setdefault(names[row["task"]], {})[row["set"]] = of
        reached = of["precision"][0]
        if reached is not None and reached < precision:
            below.append(f"{row['task']} {row['set']} {reached:.3f}")
    return expected, below


def _names(p: Dataset, t: Dataset, match: Mapping[str, str]) -> dict[str, str]:
    """True class -> predicted class, matched by name unless said otherwise."""
    for name, other in match.items():
        check_one_of("class", name, t.classes, owner="the true dataset")
        check_one_of("class", other, p.classes, owner="the predicted dataset")
    if len(set(match.values())) < len(match):
        problem = "one predicted class is matched with several true ones"
        raise ParameterError(problem, where="`match`", allowed="each class once")
    same = {n: n for n in t.classes if n in p.classes and n not in (*match, *match.values())}
    return {**match, **same}


def _folds(images: pl.DataFrame, asked: CalibrateOptions) -> NDArray[np.int64]:
    """The fold of each image, int64 (n_images,); images of a group share one."""
    names = images["image_id"] if asked.group is None else group_names(images, asked.group)
    groups = names.rank("dense").to_numpy() - 1
    order = np.random.default_rng(asked.seed).permutation(groups.max() + 1)
    return np.asarray(order[groups] % asked.folds)


@dataclass(frozen=True)
class _TaskPair:
    """A task in the images where its label and cues are known in both datasets.

    Attributes:
        task: its true class; ``name`` the predicted one.
        cues: true cue -> predicted cue.
        folds: int64 (n,).
        labels: predicted and true, bool (2, n).
        areas: of the predicted cues, float64 (n, n_cues).
        true: of the true cues, those of ``areas`` first, float64 (n, n_cues and more).
    """

    task: str
    name: str
    cues: Mapping[str, str]
    folds: NDArray[np.int64]
    labels: Bools
    areas: Floats
    true: Floats

    @classmethod
    def of(
        cls, p: Dataset, t: Dataset, task: str, cues: Sequence[str], names: Mapping[str, str],
        folds: NDArray[np.int64],
    ) -> Self:  # fmt: skip
        """The arrays of a task; ``cues`` are the true ones, those with a predicted class first."""
        name, here = names[task], {cue: names[cue] for cue in cues if cue in names}
        areas = np.column_stack([p.area(cue, unknown=np.nan) for cue in here.values()])
        true = np.column_stack([t.area(cue, unknown=np.nan) for cue in cues])
        labels = np.stack([p.labels(name, unknown=False), t.labels(task, unknown=False)])
        unknown = np.isnan(areas).any(axis=1) | np.isnan(true).any(axis=1)
        for missing in (p.unknown_labels(name), t.unknown_labels(task)):
            unknown |= False if missing is None else missing
        rows = np.flatnonzero(~unknown)
        return cls(task, name, here, folds[rows], labels[:, rows], areas[rows], true[rows])

    def betas(self, rows: Bools, asked: CalibrateOptions) -> Floats:
        """Betas that these images choose, for positives and negatives, (2, n_cues)."""
        beta, chosen = asked.criterion.beta, np.empty((2, len(self.cues)))
        for side, positive in enumerate((True, False)):
            among = rows & (self.labels[0] == positive)
            for c, (areas, true) in enumerate(zip(self.areas.T, self.true.T, strict=False)):
                hard = (self.labels[1] == positive) & (true < beta if positive else true > beta)
                of_side = areas[among], hard[among], positive
                chosen[side, c] = best_beta(*of_side, beta, asked.precision)
        return chosen

    def verdicts(self, asked: CalibrateOptions) -> list[dict[str, Any]]:
        """Precision and recall of hard images, see ``Calibration``."""
        beta, rows = asked.criterion.beta, []
        plain = np.full((2, *self.areas.shape), beta)
        chosen = plain.copy()
        for fold in range(asked.folds):
            chosen[:, self.folds == fold] = self.betas(self.folds != fold, asked)[:, None]
        parts: dict[str | None, slice] = {None: slice(None)}
        if len(self.cues) > 1:
            parts |= {cue: slice(c, c + 1) for c, cue in enumerate(self.cues)}
        for cue, part in parts.items():
            truly = _hard(self.labels[1], self.true[:, part], (beta, beta))
            found = [
                _hard(self.labels[0], self.areas[:, part], b[..., part]) for b in (plain, chosen)
            ]
            for cell, positive in (("hard_positive", True), ("hard_negative", False)):
                true = truly & (self.labels[1] == positive)
                row: dict[str, Any] = {
                    "task": self.task,
                    "cue": cue,
                    "set": cell,
                    "true": int(true.sum()),
                }
                for prefix, hard in zip(("", "calibrated_"), found, strict=True):
                    of = hard & (self.labels[0] == positive)
                    row[f"{prefix}precision"] = _share(of & true, of)
                    row[f"{prefix}recall"] = _share(of & true, true)
                rows.append(row)
        return rows


def _hard(labels: Bools, areas: Floats, betas: Any) -> Bools:
    """Whether images are hard by betas of positives and of negatives, each one or (n, n_cues)."""
    low, high = (areas < betas[0]).all(axis=1), (areas > betas[1]).any(axis=1)
    return np.asarray(np.where(labels, low, high))


def _share(part: Bools, whole: Bools) -> list[float | None]:
    """The share of images with its 95 % interval; of no image, None."""
    n = np.array([whole.sum()])
    share = np.array([part.sum()]) / np.maximum(n, 1)
    return [float(one[0]) if n else None for one in (share, *wilson(share, n))]


def best_beta(areas: Floats, hard: Bools, positive: bool, beta: float, precision: float) -> float:
    """The threshold on predicted areas by which hard images of a side are found best.

    Of the thresholds that reach the precision, or else of those of the highest precision, it is the
    one of highest recall, then of highest precision, then nearest to ``beta``.

    Args:
        areas: predicted, of the images predicted to be of that side, float64 (n,).
        hard: the images that are truly hard, bool (n,); of fewer than 10, ``beta`` is the result.
        positive: areas below the threshold are hard, not those above.
        beta: the threshold on true areas.
        precision: to be reached.
    """
    if hard.sum() < _FEWEST:
        return beta
    known = np.unique(areas)
    middles = known[:-1] + np.diff(known) / 2
    betas = np.array([beta, *middles[(middles > 0) & (middles <= 1)]])
    sign = 1 if positive else -1
    ordered = (np.sort(sign * of) for of in (areas, areas[hard]))
    found, right = (np.searchsorted(of, sign * betas, "left") for of in ordered)
    share = np.divide(right, found, out=np.zeros(len(betas)), where=found > 0)
    enough = share >= min(precision, share.max())
    order = np.lexsort((np.abs(betas - beta), -share, -right, ~enough))
    return float(betas[order[0]])


def _areas(p: Dataset, t: Dataset, pair: tuple[str, str], beta: float) -> dict[str, Any]:
    """Predicted against true areas of a class, see ``Calibration``."""
    name, other = pair
    areas = np.stack([p.area(other, unknown=np.nan), t.area(name, unknown=np.nan)])
    x, y = areas[:, ~np.isnan(areas).any(axis=0)]
    large, varies = y > beta, len(x) and min(x.std(), y.std()) > 0
    return {
        "name": name,
        "predicted": other,
        "images": len(x),
        "bias": float((x - y).mean()) if len(x) else None,
        "correlation": float(np.corrcoef(x, y)[0, 1]) if varies else None,
        "auc": auc(large, x) if 0 < large.sum() < len(x) else None,
    }
