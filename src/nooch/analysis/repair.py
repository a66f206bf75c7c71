"""Features of a user's model and a suite -> new heads, their predictions, and what they change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl

from nooch.analysis.head_choice import CANDIDATES, CONTROL, Heads, choose_heads
from nooch.analysis.repair_verdicts import AFTER, BEFORE, Repaired, changes_of, verdict_of
from nooch.base.errors import InputError, check_one_of, some_of
from nooch.base.files import Place, atomic_folder
from nooch.base.shared_types import Progress, no_progress, options_from
from nooch.data import Dataset, parquet_bytes
from nooch.evaluation import PredictionFormat, Predictions, Scores, evaluate, load_predictions
from nooch.evaluation.scores import check_scoring
from nooch.evaluation.thresholds import AnswerThreshold
from nooch.inference.predict import save_predictions
from nooch.models.caches.features import given_features
from nooch.models.linear_head import save_head
from nooch.suites import Suite, as_suite
from nooch.training.bench.config import read_config
from nooch.training.bench.plan import identity_of, rows_of_splits
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
        methods: tried besides ERM, out of ``CANDIDATES``; all but ``afr`` need environments.
        threshold: of answers before and after, as for ``nooch.evaluate``.
        bootstrap: resamples for intervals, 1 and more.
        seed: of heads, draws and resamples.
    """

    tasks: Sequence[str] | None = None
    criterion: str | None = None
    methods: Sequence[str] = tuple(CANDIDATES)
    threshold: AnswerThreshold = "worst-side"
    bootstrap: int = 1000
    seed: int = 0

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

    Heads are trained on train; for each task one is chosen on valid by the smallest worst-hard
    loss, and its threshold there. Test is read for the comparison alone.

    Args:
        suite: with sets on valid and test.
        features: folder of ``nooch.extract_features``; a file of vectors by image, as for
            ``nooch.embed``; or an array (n_images, d) in the order of the dataset's images.
        out: folder to write: ``head.safetensors``, ``head.json``, ``head.onnx`` (with the package
            onnx), ``predictions.parquet``, ``changes.parquet``, ``repair.json``.
        predictions: one run, what the model answers now; by default a head by ERM on the features.
        dataset: where it is no longer where the suite was found.
        options: see ``RepairOptions``.
        overwrite: replace an earlier repair.
        progress: called with what is being done, and how much of how much is done.
        named: fields of ``RepairOptions``, such as ``tasks``.

    Raises:
        InputError: features that are missing or not finite, several runs of predictions, or what
            ``nooch.evaluate`` refuses.
        ParameterError: no dataset, unknown tasks, methods or criteria.
        UndefinedError: no task has hard images of both sides on valid, or one has no environments.
        OutputError: ``out`` exists (and ``overwrite`` is false) or cannot be written.
    """
    asked = options_from(RepairOptions, options, named)
    suite = as_suite(suite)
    data = suite.require_dataset(dataset)
    inputs = given_features(features, data)
    criterion = asked.criterion or suite.criteria[0]
    tasks = [key[1] for key in suite.select_keys([criterion], asked.tasks or (), ["valid"])]
    score = partial(
        evaluate, suite, split="test", criteria=[criterion], metrics=_METRICS,
        threshold=asked.threshold, seed=asked.seed, ignore_unknown=True,
    )  # fmt: skip
    old = None
    if predictions is not None:
        old = _one_run(load_predictions(predictions, suite, data, options=asked))
        tasks = [task for task in tasks if task in old.tasks]
        # what is wrong with it is refused before anything is trained
        score(old, tasks=tasks)
    with atomic_folder(out, overwrite=overwrite, marker=_MARKER) as folder:
        grid = {name: CANDIDATES[name] for name in CANDIDATES if name in {CONTROL, *asked.methods}}
        config = read_config({"tasks": tasks, "methods": grid, "seeds": [asked.seed]})
        chosen, heads, control = choose_heads(data, suite, inputs, config, criterion, progress)
        lacking, tasks = sorted(set(tasks) - set(chosen["task"])), chosen["task"].to_list()
        before = old or _predicted(control, tasks, inputs, data)
        after = replace(_predicted(heads, tasks, inputs, data), run=AFTER)
        runs, k = [replace(before, run=BEFORE), after], asked.bootstrap
        scores = score(runs, tasks=tasks, bootstrap=k, baseline=BEFORE, progress=progress)
        source = "ERM on the same features" if old is None else old.run
        repaired = _repaired(scores, chosen, heads, source, Path(out))
        if lacking:
            repaired.notes.append(f"no hard images of both sides on valid: {some_of(lacking)}")
        about = {"suite": identity_of(suite), "dataset": data.fingerprint, "criterion": criterion}
        save_predictions(after, folder / "predictions.parquet")
        _write(repaired, about, folder)
    return repaired


def _one_run(runs: Sequence[Predictions]) -> Predictions:
    if len(runs) > 1:
        names = some_of(run.run for run in runs)
        raise InputError(f"several runs: {names}", where="predictions", allowed="one run")
    return runs[0]


def _repaired(
    scores: Scores,
    chosen: pl.DataFrame,
    heads: Heads,
    source: str,
    out: Path,
) -> Repaired:
    """Verdicts of scores before, from ``source``, and after."""
    changes = changes_of(scores)
    thresholds = scores.settings.get("thresholds", {}).get(AFTER, {})
    tasks = chosen["task"].to_list()
    table = pl.DataFrame([verdict_of(changes, task) for task in tasks]).with_columns(
        chosen.select("method", "setting"),
        threshold=pl.Series([thresholds.get(task, 0.5) for task in tasks]),
    )
    n = changes["change"].count()
    compared = (
        f"{n:,} error rates compared, each by its own interval and exact test at 5 %: by chance"
        f" alone up to {0.025 * n:.1f} would be better, and as many worse"
    )
    return Repaired(table, changes, heads, [f"before: {source}", compared], out)


def _predicted(heads: Heads, tasks: Sequence[str], inputs: Any, data: Dataset) -> Predictions:
    """Logits of heads on the images of valid and test."""
    of_split = rows_of_splits(data)
    rows = np.concatenate([of_split["valid"], of_split["test"]])
    logits = head_outputs(heads.astype(np.float64), inputs.__getitem__, rows)
    return Predictions.of(logits.T, data.images["image_id"].gather(rows), tasks, scale="logit")


def _write(repaired: Repaired, about: dict[str, Any], folder: Path) -> None:
    """The head, for features as they are, as safetensors and ONNX; and what changed."""
    heads = repaired.heads
    save_head(heads, folder)
    try:
        from onnx import TensorProto, helper, numpy_helper, save_model
    except ImportError:
        repaired.notes.append("head.onnx was not written: it needs pip install 'nooch[onnx]'")
    else:
        shapes = {"features": ["n", heads.shape[1] - 1], "logits": ["n", len(heads)]}
        ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()]
        node = helper.make_node("Gemm", ["features", "weight", "bias"], ["logits"], transB=1)
        arrays = {"weight": heads[:, :-1], "bias": heads[:, -1]}
        tensors = [numpy_helper.from_array(values.copy(), name) for name, values in arrays.items()]
        graph = helper.make_graph([node], "head", ends[:1], ends[1:], tensors)
        # old enough for any runtime; Gemm has not changed since
        versions = {"opset_imports": [helper.make_opsetid("", 13)], "ir_version": 8}
        save_model(helper.make_model(graph, **versions), folder / "head.onnx")
    (folder / "changes.parquet").write_bytes(parquet_bytes(repaired.changes))
    tasks = repaired.table.select("task", "method", "setting", "threshold").to_dicts()
    contents = {
        "head.json": {**about, "n_features": heads.shape[1] - 1, "tasks": tasks},
        _MARKER: {**about, "notes": repaired.notes, "tasks": repaired.table.to_dicts()},
    }
    for name, content in contents.items():
        (folder / name).write_bytes(msgspec.json.format(msgspec.json.encode(content)))
