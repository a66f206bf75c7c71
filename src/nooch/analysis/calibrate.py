"""Predicted areas next to true ones: betas that reach a precision, chosen and cross-validated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Self

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from nooch.base.calls import Progress, Share, checked, no_progress, tracked
from nooch.base.errors import (
    FormatError,
    InputError,
    ParameterError,
    check_one_of,
    some_of,
)
from nooch.base.files import check_output_file, replace_file
from nooch.base.work_folder import key_of
from nooch.criteria import CE
from nooch.data import Dataset, as_dataset, encode_header, load_header
from nooch.data.splits import unit_numbers
from nooch.evaluation.metrics import auc
from nooch.evaluation.metrics.proportions import wilson
from nooch.suites import CELLS
from nooch.suites.challenge_set import cell_codes
from nooch.suites.find import training_part

_AGAIN = "make it again with nooch calibrate"


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """Result of ``nooch.calibrate``, as saved in its file.

    Attributes:
        criterion: with betas by task and cue, and what to expect of them.
        predicted: the model of the areas, as the dataset's provenance has it.
        settings: options, and fingerprints of the datasets.
        areas: ``name, predicted, images, bias`` (mean predicted minus true area), ``correlation,
            auc`` (of the predicted area for true areas above beta) of each class.
        verdicts: ``task, cue`` (null: all cues together), ``set`` (one of the four cells), ``true``
            (images truly in it); ``precision`` and ``recall``, each with its 95% interval, by beta
            itself and, as ``calibrated_*``, out of fold. A single cue has no row of its own.
        notes: what could not be calibrated, does not reach the precision, or keeps beta; and how
            many images are neither hard nor easy.
        hash: of all that.
    """

    format: str = "nooch-calibration"
    version: int = 1
    criterion: CE
    predicted: Any = None
    settings: dict[str, Any]
    areas: list[dict[str, Any]]
    verdicts: list[dict[str, Any]]
    notes: list[str]
    hash: str = ""

    def sealed(self) -> Self:
        """With the hash of its contents."""
        plain = msgspec.structs.replace(self, hash="")
        return msgspec.structs.replace(self, hash=key_of(plain, None, order="deterministic"))

    def ce(self, data: Dataset) -> CE:
        """The criterion to find with. Raises ParameterError for areas of another model."""
        if (other := data.provenance.get("predicted")) != self.predicted:
            raise ParameterError(
                f"is of areas by {self.predicted}, but the dataset's are by {other}",
                where="calibration",
                allowed="areas by the same model, merged in the same way",
            )
        return self.criterion


def read_calibration(path: str | Path) -> Calibration:
    """Read a file of ``nooch.calibrate``. Raises FormatError if it is none, or was altered."""
    make = "make one with nooch calibrate"
    file = load_header(
        Path(path), Calibration, name="calibration", version=1, make=make, again=_AGAIN
    )
    if file.sealed() != file:
        problem = "was altered: its hash does not match its contents"
        raise FormatError(problem, where=path, remedy=_AGAIN)
    return file


Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
_FEWEST = 10
"""Truly hard images of a side below which its betas stay: they would fit single images."""


@checked
def calibrate(
    predicted: Dataset | str | Path,
    true: Dataset | str | Path,
    *,
    out: str | Path | None = None,
    overwrite: bool = False,
    criterion: CE | None = None,
    precision: Share = 0.9,
    tasks: Sequence[str] | None = None,
    match: Mapping[str, str] | None = None,
    folds: Annotated[int, Meta(ge=2)] = 5,
    seed: int = 0,
    group: str | None = None,
    progress: Progress = no_progress,
) -> Calibration:
    """Choose a beta for each cue and side on predicted areas, so that hard images are truly hard.

    See ``best_beta`` for the choice. Betas are chosen on all images in common; how well they do is
    measured out of fold: images of a fold are judged by betas that the other folds chose. A side of
    a task whose precision that does not raise keeps the criterion's beta. Images between a cue's
    two betas are neither hard nor easy.

    Args:
        predicted: a dataset with predicted areas, or its folder.
        true: an annotated one with images (by id) in common; cues are fitted on its training split,
            which it needs not have if they are given by hand.
        out: JSON file to write.
        overwrite: replace that file.
        criterion: its alpha or cues define the cues of a task, its beta what is truly hard;
            ``CE()`` by default.
        precision: of hard images, to be reached with the highest recall.
        tasks: true classes; by default all that have cues, and a predicted class; without a
            training split, all with cues given by hand.
        match: true class -> predicted class, where their names differ.
        folds: of the images in common.
        seed: of the draw of the folds.
        group: column, or pattern of file names, of images that count as one and share a fold, such
            as near-duplicates; by default the dataset's.
        progress: called with what is being done, and how many of how many are done.

    Raises:
        InputError: fewer images in common than folds, or no task with cues in both datasets.
        ParameterError: an unknown class, or options out of range.

    Examples:
        >>> calibration = nooch.calibrate("data", "data", precision=0.9)
        >>> calibration.criterion.betas["car"]
        {'road': (0.1, 0.1)}
    """
    criterion, match = criterion or CE(), match or {}
    target = None if out is None else check_output_file(out, overwrite=overwrite)
    p, t = as_dataset(predicted).grouped(group), as_dataset(true)
    settings = {
        "criterion": asdict(criterion), "precision": precision, "tasks": tasks, "match": match,
        "folds": folds, "seed": seed, "group": p.group,
        "predicted": p.fingerprint, "true": t.fingerprint,
    }  # fmt: skip
    task_names, train = _wanted(t, criterion, tasks)
    ce, names = criterion.fit(train), _names(p, t, match)
    p, t = _in_common(p, t, folds)
    fold, verdicts, skipped = _folds(p, folds, seed), [], []
    kept: list[str] = []
    between: list[str] = []
    cues_of: dict[str, list[str]] = {}
    betas: dict[str, dict[str, Any]] = {}
    for task in tracked(task_names, len(task_names), "choosing betas, tasks", progress):
        # those with a predicted class first
        cues = sorted(ce.cues(task), key=lambda cue: cue not in names)
        if task in names and cues and cues[0] in names:
            task_pair = _TaskPair.from_datasets(p, t, task, cues, names, fold)
            cues_of[task_pair.name] = list(task_pair.cues.values())
            judged = _Judged.from_pair(task_pair, criterion.beta, precision, folds)
            betas[task_pair.name] = dict(
                zip(cues_of[task_pair.name], judged.betas.T.tolist(), strict=True)
            )
            verdicts += judged.rows(task_pair, criterion.beta)
            kept += [f"{task} {text}" for text in judged.kept(criterion.beta)]
            if n := int((judged.found[1] < 0).sum()):
                between.append(f"{task} {n:,} of {len(task_pair.folds):,}")
        if (cues or tasks is not None) and (lost := {task, *cues} - names.keys()):
            skipped.append(f"{', '.join(sorted(lost))} (for {task})")
    if not betas:
        raise InputError(
            "no task has a predicted class and a predicted cue",
            remedy="{}, the classes that differ, or give cues by hand",
            give={"match": ...},
        )
    texts = [f"no predicted class is {some_of(skipped, 12)}"] if skipped else []
    alpha, beta = criterion.alpha, criterion.beta
    expected, below = _expected(verdicts, names, beta, precision)
    if below:
        texts.append(f"precision out of fold below {precision:g}: {some_of(below, 12)}")
    stays = f"beta stays {beta:g} where another raises no precision out of fold"
    neither = "images between two betas, neither hard nor easy"
    texts += [
        f"{text}: {some_of(entries, 12)}"
        for text, entries in ((stays, kept), (neither, between))
        if entries
    ]
    calibration = Calibration(
        criterion=CE(alpha, beta, cues_of, betas, expected),
        predicted=p.provenance.get("predicted"),
        settings=settings,
        areas=[_areas(p, t, pair, beta) for pair in names.items()],
        verdicts=verdicts,
        notes=texts,
    ).sealed()
    if target is not None:
        replace_file(target, encode_header(calibration))
    return calibration


def _in_common(p: Dataset, t: Dataset, folds: int) -> tuple[Dataset, Dataset]:
    """The images that both datasets have."""
    ids = set(p.image_ids) & set(t.image_ids)
    if len(ids) < folds:
        problem = f"{len(ids)} images are in both datasets"
        raise InputError(problem, allowed=f"image ids in common, {folds} (`folds`) and more")
    p, t = (part.select(rows=np.array([i in ids for i in part.image_ids])) for part in (p, t))
    return p, t


def _wanted(
    t: Dataset, criterion: CE, tasks: Sequence[str] | None
) -> tuple[Sequence[str], Dataset]:
    """The tasks to calibrate, and the images that cues are fitted on: none where all are given."""
    by_hand = criterion.cues
    if t.fitting_split not in t.splits and by_hand and by_hand.keys() >= {*(tasks or ())}:
        return tasks or list(by_hand), t.select(rows=np.zeros(len(t), bool))
    return t.classes if tasks is None else tasks, training_part(t, "ce")


def _expected(
    verdicts: Sequence[Mapping[str, Any]],
    names: Mapping[str, str],
    beta: float,
    precision: float,
) -> tuple[dict[str, Any], list[str]]:
    """Predicted task -> set -> precision and recall; and sets of hard images that do not reach the
    precision, next to that by beta itself.
    """
    expected: dict[str, Any] = {}
    below = []
    for row in (row for row in verdicts if row["cue"] is None):
        measures = {metric: row[f"calibrated_{metric}"] for metric in ("precision", "recall")}
        expected.setdefault(names[row["task"]], {})[row["set"]] = measures
        reached, plain = measures["precision"][0], row["precision"][0]
        if row["set"].startswith("hard") and reached is not None and reached < precision:
            by = "" if plain is None else f" (by beta {beta:g}: {plain:.3f})"
            below.append(f"{row['task']} {row['set']} {reached:.3f}{by}")
    return expected, below


def _names(p: Dataset, t: Dataset, match: Mapping[str, str]) -> dict[str, str]:
    """True class -> predicted class, matched by name unless given."""
    for name, other in match.items():
        check_one_of("class", name, t.classes, owner="the true dataset")
        check_one_of("class", other, p.classes, owner="the predicted dataset")
    if len(set(match.values())) < len(match):
        problem = "one predicted class is matched with several true ones"
        raise ParameterError(problem, where="`match`", allowed="each class once")
    same = {n: n for n in t.classes if n in p.classes and n not in (*match, *match.values())}
    return {**match, **same}


def _folds(data: Dataset, folds: int, seed: int) -> NDArray[np.int64]:
    """The fold of each image, int64 (n_images,); images of a group share one."""
    groups = unit_numbers(data.images["image_id"] if data.groups is None else data.groups)
    order = np.random.default_rng(seed).permutation(groups.max() + 1)
    return np.asarray(order[groups] % folds)


@dataclass(frozen=True)
class _TaskPair:
    """A task in the images where its label and cues are known in both datasets.

    Attributes:
        task: its true class; ``name`` the predicted one.
        cues: true cue -> predicted cue.
        folds: int64 (n,).
        labels: predicted and true, bool (2, n).
        areas: of the predicted cues, float64 (n, n_cues).
        true: of the true cues, the ones in ``areas`` first, float64 (n, at least n_cues).
    """

    task: str
    name: str
    cues: Mapping[str, str]
    folds: NDArray[np.int64]
    labels: Bools
    areas: Floats
    true: Floats

    @classmethod
    def from_datasets(
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

    def betas(self, rows: Bools, beta: float, precision: float) -> Floats:
        """Betas that these images choose, for positives and negatives, (2, n_cues)."""
        betas_chosen = np.empty((2, len(self.cues)))
        for side, positive in enumerate((True, False)):
            among = rows & (self.labels[0] == positive)
            for c, (areas, true) in enumerate(zip(self.areas.T, self.true.T, strict=False)):
                hard = (self.labels[1] == positive) & (true < beta if positive else true > beta)
                of_side = areas[among], hard[among], positive
                betas_chosen[side, c] = best_beta(*of_side, beta, precision)
        return betas_chosen


@dataclass(frozen=True)
class _Judged:
    """Predicted hard images of a task, by beta itself and by the betas that other folds chose.

    Attributes:
        betas: of positives and negatives that all images choose, or beta itself, (2, n_cues).
        used: beta itself, and the betas of each image out of fold, (2, 2, n, n_cues).
        found: cells by each, index into ``CELLS``, -1 for neither hard nor easy, intp (2, n).
        refused: of positives and negatives, where beta stays though another was chosen, the
            precision by beta itself and by the other.
    """

    betas: Floats
    used: Floats
    found: NDArray[np.intp]
    refused: tuple[tuple[float | None, float | None] | None, ...]

    @classmethod
    def from_pair(cls, pair: _TaskPair, beta: float, precision: float, folds: int) -> Self:
        """Chosen betas count for a side if they raise its precision out of fold."""
        used = np.full((2, 2, *pair.areas.shape), beta)
        for fold in range(folds):
            used[1][:, pair.folds == fold] = pair.betas(pair.folds != fold, beta, precision)[
                :, None
            ]
        betas = pair.betas(pair.folds >= 0, beta, precision)
        true = _cells(pair.labels[1], pair.true, np.full(2, beta))
        refused: list[tuple[float | None, float | None] | None] = [None, None]
        cells_found = [_cells(pair.labels[0], pair.areas, side_betas) for side_betas in used]
        for side in range(2):
            by = [
                _share((side_betas == side) & (true == side), side_betas == side)[0]
                for side_betas in cells_found
            ]
            if by[1] is None or (by[0] is not None and by[1] <= by[0]):
                if (used[1, side] != beta).any():
                    refused[side] = by[0], by[1]
                used[1, side], betas[side] = beta, beta
        cells = np.stack([_cells(pair.labels[0], pair.areas, side_betas) for side_betas in used])
        return cls(betas, used, cells, tuple(refused))

    def kept(self, beta: float) -> Iterator[str]:
        """Sides that keep beta though another was chosen."""
        for cell, refused in zip(CELLS, self.refused, strict=False):
            if refused is not None:
                shares = ["none" if share is None else f"{share:.3f}" for share in refused]
                yield f"{cell} ({shares[1]}, by beta {beta:g}: {shares[0]})"

    def rows(self, pair: _TaskPair, beta: float) -> list[dict[str, Any]]:
        """Precision and recall of all sets, see ``Calibration.verdicts``."""
        parts: dict[str | None, slice] = {None: slice(None)}
        if len(pair.cues) > 1:
            parts |= {cue: slice(c, c + 1) for c, cue in enumerate(pair.cues)}
        rows = []
        for cue, part in parts.items():
            true = _cells(pair.labels[1], pair.true[:, part], np.full(2, beta))
            cells = [
                _cells(pair.labels[0], pair.areas[:, part], betas[..., part]) for betas in self.used
            ]
            for cell, name in enumerate(CELLS):
                truly = true == cell
                row: dict[str, Any] = {
                    "task": pair.task,
                    "cue": cue,
                    "set": name,
                    "true": int(truly.sum()),
                }
                for prefix, betas in zip(("", "calibrated_"), cells, strict=True):
                    row[f"{prefix}precision"] = _share((betas == cell) & truly, betas == cell)
                    row[f"{prefix}recall"] = _share((betas == cell) & truly, truly)
                rows.append(row)
        return rows


def _cells(labels: Bools, areas: Floats, betas: Floats) -> NDArray[np.intp]:
    """Index into ``CELLS`` of each image, -1 for neither hard nor easy, by betas of positives and
    of negatives, each one or (n, n_cues); see ``FittedCE.between``.
    """
    first, second = betas
    hard = np.where(labels, (areas < first).all(axis=1), (areas > second).any(axis=1))
    easy = np.where(labels, (areas >= second).any(axis=1), (areas <= first).all(axis=1))
    return np.where(hard | easy, cell_codes(labels, hard), -1)


def _share(part: Bools, whole: Bools) -> list[float | None]:
    """The share of images with its 95% interval; of no image, None."""
    n = np.array([whole.sum()])
    share = np.array([part.sum()]) / np.maximum(n, 1)
    return [float(bounds[0]) if n else None for bounds in (share, *wilson(share, n))]


def best_beta(areas: Floats, hard: Bools, positive: bool, beta: float, precision: float) -> float:
    """The threshold on predicted areas by which hard images of a side are found best.

    Of the thresholds that reach the precision with half the recall of ``beta`` at least, it is the
    one of highest recall, then of highest precision, then nearest to ``beta``. Where none does, it
    is the one of highest F, the harmonic mean of precision and recall, with the same ties.

    ``areas``: predicted, of the images predicted to be of that side, float64 (n,); ``hard``: the
    images that are truly hard, bool (n,); of fewer than 10, ``beta`` is the result.
    """
    if hard.sum() < _FEWEST:
        return beta
    levels = np.unique(areas)
    middles = levels[:-1] + np.diff(levels) / 2
    betas = np.array([beta, *middles[(middles > 0) & (middles <= 1)]])
    sign = 1 if positive else -1
    ordered = (np.sort(sign * values) for values in (areas, areas[hard]))
    n_found, right = (np.searchsorted(values, sign * betas, "left") for values in ordered)
    share = np.divide(right, n_found, out=np.zeros(len(betas)), where=n_found > 0)
    # a precision that a handful of images reaches is out of reach
    enough = (share >= precision) & (2 * right >= right[0])
    best = np.where(enough, right, -1) if enough.any() else 2 * right / (n_found + hard.sum())
    order = np.lexsort((np.abs(betas - beta), -share, -best))
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
