"""Features of a user's model and a suite -> new heads, their predictions, and what they change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.benching.bench_plan import identity_of, rows_of_splits
from nooch.caches.features import Features, load_features
from nooch.challenge import Suite, as_suite
from nooch.data import Dataset, parquet_bytes
from nooch.encoders import load_embedding
from nooch.errors import InputError, ParameterError, check_one_of, some_of
from nooch.evaluation import PredictionFormat, Predictions, evaluate, load_predictions
from nooch.evaluation.answer_thresholds import AnswerThreshold
from nooch.evaluation.predictions import float_array
from nooch.evaluation.scores import check_scoring
from nooch.files import Place, atomic_folder
from nooch.models.devices import choose_device
from nooch.predicting.network_predictions import save_predictions
from nooch.repairing.head_choice import CANDIDATES, choose_heads
from nooch.repairing.head_files import save_heads
from nooch.repairing.repair_verdicts import (
    AFTER,
    BEFORE,
    Repaired,
    changes_of,
    comparisons_note,
    verdict_of,
)
from nooch.shared_types import Progress, no_progress, options_from
from nooch.training.head_pass import head_outputs

__all__ = ["RepairOptions", "repair"]

_MARKER = "repair.json"
_METRICS = ("error", "auc", "nll")


@dataclass(frozen=True)
class RepairOptions(PredictionFormat):
    """How heads are trained, chosen and compared; also the fields of ``PredictionFormat``.

    Attributes:
        tasks: names; by default those with sets on valid and test, and with predictions if given.
        criterion: whose sets decide; the suite's first by default.
        methods: what is tried besides ``erm``, out of ``environment-reweight``,
            ``environment-undersample``, ``dfr-train`` and ``afr``; all by default.
        threshold: as for ``nooch.evaluate``, of both runs: ``valid``, a number, or by task.
        bootstrap: resamples for intervals, 1 and more.
        min_images: images of a side or cue that its error rates are compared on, at least.
        seed: of heads, draws and resamples.
        device: ``auto``, ``cpu`` or ``cuda``.
    """

    tasks: Sequence[str] | None = None
    criterion: str | None = None
    methods: Sequence[str] = tuple(CANDIDATES)
    threshold: AnswerThreshold = "valid"
    bootstrap: int = 1000
    min_images: int = 20
    seed: int = 0
    device: str = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_scoring(_METRICS, self.bootstrap, least=1)
        for method in self.methods:
            check_one_of("method", method, CANDIDATES, owner="a repair")


def repair(
    suite: Suite | str | Path,
    features: Any,
    out: str | Path,
    *,
    predictions: Any = None,
    dataset: Dataset | Place | str | None = None,
    options: RepairOptions | None = None,
    overwrite: bool = False,
    progress: Progress = no_progress,
    **named: Any,
) -> Repaired:
    """Train new last layers on frozen features, and compare them on test with what was before.

    Heads are trained on train, one for each task is chosen on valid by the smallest worst-hard
    loss, and its threshold there; test is read for the comparison alone.

    Args:
        suite: with sets on valid and test.
        features: folder of ``nooch.extract_features``; or a file of vectors by image, as for
            ``nooch embed``; or an array (n_images, d) in the order of the dataset's images.
        out: folder to write: ``head.safetensors``, ``head.json``, ``head.onnx`` (with the package
            onnx), ``predictions.parquet``, ``changes.parquet``, ``repair.json``.
        predictions: one run, what the model answers now; by default a head by ERM on the features.
        dataset: where it is no longer where the suite was found.
        options: see ``RepairOptions``.
        overwrite: replace an earlier repair.
        progress: called with what is being done, and how much of how much is done.
        named: fields of ``RepairOptions``, such as ``tasks``.

    Raises:
        InputError: features that are missing or not finite, no or several runs of predictions, or
            what ``nooch.evaluate`` refuses.
        ParameterError: no dataset, unknown tasks, methods or criteria.
        UndefinedError: no task has hard images of both sides on valid.
        OutputError: ``out`` exists (and ``overwrite`` is false) or cannot be written.
    """
    asked = options_from(RepairOptions, options, named)
    suite = as_suite(suite)
    found = suite.found_in() if dataset is None else suite.require_dataset(dataset)
    if found is None:
        problem = "a repair needs the dataset, which is not where it was"
        raise ParameterError(problem, remedy="give `dataset`")
    inputs = _features(features, found)
    old = None if predictions is None else _one_run(predictions, suite, found, asked)
    criterion = check_one_of("criterion", asked.criterion or suite.criteria[0], suite.criteria)
    tasks = _tasks(suite, criterion, asked.tasks, old)
    score = partial(
        evaluate, suite, split="test", criteria=[criterion], metrics=_METRICS,
        threshold=asked.threshold, seed=asked.seed, ignore_unknown=True,
    )  # fmt: skip
    if old is not None:
        # what is wrong with it is refused before anything is trained
        score(old, tasks=tasks)
    with atomic_folder(out, overwrite=overwrite, marker=_MARKER) as folder:
        chosen = choose_heads(
            found, suite.only(tasks), inputs, criterion=criterion, methods=asked.methods,
            seed=asked.seed, device=choose_device(asked.device), progress=progress,
        )  # fmt: skip
        tasks = chosen.table["task"].to_list()
        before = old or _predicted(BEFORE, chosen.control, tasks, inputs, found)
        after = _predicted(AFTER, chosen.heads, tasks, inputs, found)
        runs, draws = [replace(before, run=BEFORE), after], asked.bootstrap
        scores = score(runs, tasks=tasks, bootstrap=draws, baseline=BEFORE, progress=progress)
        thresholds = scores.settings.get("thresholds", {}).get(AFTER, {})
        changes = changes_of(scores, asked.min_images)
        table = pl.DataFrame([verdict_of(changes, task) for task in tasks]).with_columns(
            chosen.table.select("method", "setting"),
            threshold=pl.Series([thresholds.get(task, 0.5) for task in tasks]),
        )
        source = "ERM on the same features" if old is None else f"predictions of {old.run}"
        notes = [f"before: {source}", *chosen.notes, comparisons_note(changes, draws)]
        about = {
            "suite": identity_of(suite), "dataset": found.fingerprint, "criterion": criterion,
            "features": getattr(inputs, "identity", None), "seed": asked.seed,
        }  # fmt: skip
        repaired = Repaired(table, changes, chosen.heads, notes, Path(out))
        _write(repaired, after, about, folder)
    return repaired


def _features(source: Any, data: Dataset) -> Any:
    """Rows in the order of the dataset's images, as ``plan_bench`` takes them, all finite."""
    if isinstance(source, Features):
        return source
    if isinstance(source, str | Path):
        if Path(source).is_dir():
            return load_features(source, data)
        values = load_embedding(source, data)
    else:
        values = float_array(source)
    if values.ndim != 2 or len(values) != len(data):
        allowed = f"({len(data)}, d): a row for each image of the dataset"
        raise InputError(f"features have shape {values.shape}", allowed=allowed)
    missing = data.images["image_id"].filter(pl.Series(~np.isfinite(values).all(axis=1)))
    if len(missing):
        problem = f"{len(missing)} images have no features, or such that are not finite"
        raise InputError(f"{problem}: {some_of(missing)}", allowed="finite numbers for every image")
    return values


def _one_run(source: Any, suite: Suite, data: Dataset, asked: RepairOptions) -> Predictions:
    """The one run of the predictions; the options of their format are the repair's."""
    how = {field.name: getattr(asked, field.name) for field in fields(PredictionFormat)}
    runs = load_predictions(source, suite, data, options=PredictionFormat(**how))
    if len(runs) != 1:
        names = some_of(run.run for run in runs)
        raise InputError(f"{len(runs)} runs: {names}", where="predictions", allowed="one run")
    return runs[0]


def _tasks(
    suite: Suite, criterion: str, asked: Sequence[str] | None, old: Predictions | None
) -> list[str]:
    """The tasks asked for, else those with sets on valid and test and with predictions."""
    valid, test = (
        [task for _, task, _ in suite.select_keys([criterion], asked or (), [split])]
        for split in ("valid", "test")
    )
    tasks = [task for task in asked or valid if task in valid and task in test]
    known = [task for task in tasks if old is None or task in old.tasks]
    if not known or (asked and len(known) < len(asked)):
        lacking = [task for task in asked or valid if task not in known]
        raise InputError(
            f"no {criterion} sets on valid and test, or no predictions: {some_of(lacking)}",
            allowed="tasks with both",
        )
    return known


def _predicted(
    name: str, heads: NDArray[np.float32], tasks: Sequence[str], inputs: Any, data: Dataset
) -> Predictions:
    """Logits of heads on the images of valid and test."""
    of_split = rows_of_splits(data)
    rows = np.concatenate([of_split["valid"], of_split["test"]])
    logits = head_outputs(heads.astype(np.float64), inputs.__getitem__, rows)
    ids = data.images["image_id"].gather(rows)
    return Predictions.of(logits.T, ids, tasks, scale="logit", run=name)


def _write(repaired: Repaired, after: Predictions, about: dict[str, Any], folder: Path) -> None:
    columns = {name: repaired.table[name].to_list() for name in ("method", "setting", "threshold")}
    head = {
        "format": "nooch-head", "version": 1, "tasks": list(after.tasks), **columns,
        "n_features": repaired.heads.shape[1] - 1, **about,
    }  # fmt: skip
    repaired.notes.extend(save_heads(repaired.heads, head, folder))
    save_predictions(after, folder / "predictions.parquet")
    (folder / "changes.parquet").write_bytes(parquet_bytes(repaired.changes))
    content = {**about, "notes": repaired.notes, "tasks": repaired.table.to_dicts()}
    (folder / _MARKER).write_bytes(msgspec.json.format(msgspec.json.encode(content)))
