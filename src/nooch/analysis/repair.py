"""Features of a user's model and a suite -> new heads, their predictions, and what they change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import polars as pl
from msgspec import Meta
from numpy.typing import NDArray

from nooch.base.calls import Progress, checked, no_progress
from nooch.base.display import DisplayTable, TabularResult
from nooch.base.errors import Command, InputError, ParameterError, UndefinedError, some_of
from nooch.base.files import write_folder
from nooch.data import Dataset, parquet_bytes
from nooch.data.table_schema import check_split
from nooch.evaluation import AVERAGE, Predictions, Scores, evaluate, read_predictions
from nooch.evaluation.metrics.proportions import SIGNIFICANT
from nooch.evaluation.scores import Resamples
from nooch.evaluation.thresholds import AnswerThreshold
from nooch.inference.predict import save_predictions
from nooch.models.caches.features import given_features
from nooch.models.devices import choose_device
from nooch.models.saved_networks import save_head
from nooch.suites import CELLS, Suite, as_suite
from nooch.suites.summary import suite_by
from nooch.training.bench.config import BenchConfig, read_config
from nooch.training.bench.plan import identity_of, plan_bench, rows_of_splits
from nooch.training.head_pass import HeadPass, head_outputs
from nooch.training.jobs import Job
from nooch.training.selection import select

CONTROL = "erm"
CANDIDATES: dict[str, dict[str, list[float]]] = {
    CONTROL: {},
    "environment-reweight": {"alpha": [0.5, 1.0]},
    "environment-undersample": {"alpha": [0.5, 1.0]},
    "dfr-train": {},
    "afr": {"gamma": [4.0, 8.0], "lambda_": [0.1]},
}
"""Method -> hyperparameter -> values that are tried."""
Heads = NDArray[np.float32]
"""Weights and bias of each task for features as they are, float32 (n_tasks, d + 1)."""


def choose_heads(
    data: Dataset,
    suite: Suite,
    features: Any,
    config: BenchConfig,
    criterion: str,
    progress: Progress,
) -> tuple[pl.DataFrame, Heads, Heads]:
    """Train all candidates on train, and choose by ``worst-hard`` on valid; test is not read.

    Returns ``task, method, setting``, a row for each task that has hard images of both sides on
    valid, in the order of the suite; the heads of these tasks; and the heads of ``CONTROL``.
    """
    plan = plan_bench(data, suite, features, config, device=choose_device("auto"))
    ids = data.images["image_id"].gather(plan.training.rows["valid"])
    heads: dict[tuple[str, str], tuple[Job, NDArray[np.float32]]] = {}
    outputs: dict[str, dict[str, NDArray[np.float32]]] = {}
    for names in plan.header.passes:
        trained = plan.begin([plan.jobs[name] for name in names])
        assert isinstance(trained, HeadPass)  # noqa: S101 - planned so
        while not trained.finished:
            trained.step()
            progress(f"training heads, epoch {trained.epoch}", trained.n_stopped, len(names))
        trained.refit(progress)
        logits = trained.logits("valid")
        for number in np.flatnonzero(trained.best_epochs).tolist():
            job = trained.jobs[number]
            heads[job.task, job.run] = job, trained.head(number)
            outputs.setdefault(job.run, {})[job.task] = logits[number]
    runs = [
        Predictions.from_arrays(
            np.array([*output.values()]).T, ids, [*output], scale="logit", run=run
        )
        for run, output in outputs.items()
    ]
    scores = evaluate(
        suite,
        runs,
        split="valid",
        criteria=[criterion],
        metrics=["nll"],
        reading={"ignore_unknown": True},
    )
    # one method, so that one setting is chosen among all methods
    rows = [(run, task, "repair", run, job.seed, None) for (task, run), (job, _) in heads.items()]
    columns = ("run", "task", "method", "setting", "seed", "environment")
    selected = select(scores.table, pl.DataFrame(rows, columns, orient="row"))
    control = {job.task: head for job, head in heads.values() if job.method == CONTROL}
    of_task = dict(selected.select("task", "setting").rows())
    tasks = [task for task in suite.tasks if task in of_task and task in control]
    if not tasks:
        raise UndefinedError(
            "no task has both hard positives and hard negatives on valid",
            where=f"criterion {criterion}",
            remedy="find with other thresholds, or with more validation images",
        )
    picked = [heads[task, of_task[task]] for task in tasks]
    facts = [(job.task, job.method, job.setting) for job, _ in picked]
    table = pl.DataFrame(facts, ["task", "method", "setting"], orient="row")
    return table, np.array([head for _, head in picked]), np.array([control[t] for t in tasks])


BEFORE, AFTER = "before", "after"
_FEWEST = 20
"""Images, or groups, of a side or cue below which nothing is concluded."""
_KEYS = ["criterion", "task", "split", "subset", "cue", "metric"]
_HARD = list(CELLS[:2])


@dataclass(frozen=True, eq=False, repr=False)
class Repaired(TabularResult):
    """New heads, and what they change on test.

    Attributes:
        table: ``task, verdict, reason, worst_hard_before, worst_hard_after`` (error on hard
            positives or negatives, the larger one), ``auc_hard_before, auc_hard_after, method,
            setting, threshold``. Verdicts are ``better``: fewer errors on hard images of a side or
            cue, and nowhere more; ``worse``: more errors somewhere, and on no hard images fewer;
            ``traded``: both; else ``inconclusive``. Changes within their intervals do not count.
        changes: before, after, and the difference with its 95% interval and exact ``p``, by
            ``task`` (and their ``average``), ``subset``, ``cue`` and ``metric``; ``change`` is
            ``better``, ``worse`` or ``inconclusive`` where verdicts are made of it, else null.
        heads: weights and bias of each task for features as they are, float32 (n_tasks, d + 1).
        notes: the choices that were made, and what the intervals mean.
        out: the folder that was written.
    """

    table: pl.DataFrame
    changes: pl.DataFrame
    heads: Heads
    notes: list[str]
    out: Path

    @property
    def display(self) -> DisplayTable:
        """A row for each task."""
        verdicts = self.table["verdict"].value_counts(sort=True).rows()
        title = f"Repaired({', '.join(f'{n:,} {verdict}' for verdict, n in verdicts)})"
        names = [name for name in self.table.columns if name not in {"reason", "threshold"}]
        rows = self.table.select(*names, "reason").rows()
        return DisplayTable(title, [*names, "reason"], rows, left=2, notes=self.notes)


def changes_of(scores: Scores) -> pl.DataFrame:
    """``Repaired.changes`` of scores of the runs ``before`` and ``after``.

    Verdicts are made of the error rates of the four sides, and of the hard images of each single
    cue, where both the interval excludes 0 and McNemar's exact p is at most .05.
    """
    values = scores.table.pivot("run", index=_KEYS, values="value", maintain_order=True)
    columns = ("difference", "low", "high", "p", "n", "^n_groups$", "reason")
    gaps = scores.differences.select(*_KEYS, *columns)
    sides = pl.when(pl.col("cue").is_null()).then(pl.lit(list(CELLS))).otherwise(pl.lit(_HARD))
    counts = (pl.col("metric") == "error") & (pl.col("task") != AVERAGE)
    counts &= pl.coalesce(pl.col("^n_groups$", "n")) >= _FEWEST
    change, sure = pl.lit("inconclusive"), pl.col("p") <= SIGNIFICANT
    for kind, beyond in (("worse", pl.col("low") > 0), ("better", pl.col("high") < 0)):
        change = pl.when(beyond & sure).then(pl.lit(kind)).otherwise(change)
    table = values.join(gaps, on=_KEYS, nulls_equal=True, maintain_order="left")
    return table.with_columns(change=pl.when(counts & pl.col("subset").is_in(sides)).then(change))


def verdict_of(changes: pl.DataFrame, task: str) -> dict[str, Any]:
    """``task, verdict, reason``, and errors and AUC on hard images: a row of ``Repaired.table``."""
    mine = changes.filter(task=task)
    parts = {}
    for kind, where in (("better", _HARD), ("worse", CELLS)):
        rows = mine.filter(pl.col("subset").is_in(where), change=kind).with_columns(
            at=pl.col("subset").str.replace("_", " ") + pl.format("s of {}", "cue").fill_null("s")
        )
        changed = rows.select("at", BEFORE, AFTER).rows()
        parts[kind] = ", ".join(f"{place} ({old:.3f} to {new:.3f})" for place, old, new in changed)
    shown = [kind for kind, text in parts.items() if text]
    verdict = "traded" if len(shown) > 1 else "".join(shown) or "inconclusive"
    reason = "; ".join(f"{kind} on {parts[kind]}" for kind in shown)
    whole = mine.filter(pl.col("cue").is_null())
    hard = whole.filter(pl.col("subset").is_in(_HARD), metric="error").drop_nulls(BEFORE)
    auc, both = whole.filter(subset="hard", metric="auc"), len(hard) == len(_HARD)
    worst = {f"worst_hard_{when}": hard[when].max() if both else None for when in (BEFORE, AFTER)}
    aucs = {f"auc_hard_{when}": auc[when].item() for when in (BEFORE, AFTER)}
    none = "no error rate changes by more than its interval"
    return {"task": task, "verdict": verdict, "reason": reason or none, **worst, **aucs}


_MARKER = "repair.json"
_METRICS = ("error", "auc", "nll")


@checked
def repair(
    suite: Suite | str | Path,
    features: Any,
    out: str | Path,
    *,
    predictions: Any = None,
    dataset: Dataset | str | Path | None = None,
    tasks: Sequence[str] | None = None,
    criterion: str | None = None,
    phi: str | None = None,
    methods: Sequence[Annotated[str, CANDIDATES]] = tuple(CANDIDATES),
    threshold: AnswerThreshold = "worst-side",
    bootstrap: Annotated[Resamples, Meta(ge=1)] = 1000,
    group: str | None = None,
    seed: int = 0,
    overwrite: bool = False,
    reading: Mapping[str, Any] | None = None,
    progress: Progress = no_progress,
) -> Repaired:
    """Train new last layers on frozen features, and compare them on test with the model before.

    Heads are trained on train; for each task one is chosen on valid by the smallest worst-hard
    loss, and its threshold there. The test split is only read for the comparison.

    Args:
        suite: with sets on valid and test.
        features: folder of ``nooch.models.extract_features``; a file of vectors by image, as for
            ``nooch.embed``; or an array (n_images, d) in the order of the dataset's images.
        out: folder to write: ``head.safetensors``, ``head.json``, ``head.onnx`` (with the package
            onnx), ``predictions.parquet``, ``changes.parquet``, ``repair.json``.
        predictions: one run: the answers of the model before the repair; by default a head trained
            by ERM on the features.
        dataset: if it is no longer where the suite was found.
        tasks: names of tasks; by default all that have sets on valid and test (and predictions, if
            these are given).
        criterion: criterion whose sets decide; by default the suite's first.
        phi: condition on images, in place of a criterion: those where it is true are hard. Some
            must show the class and some not, as for ``present(road) != y``.
        methods: methods to try besides ERM, out of ``CANDIDATES``; all but ``afr`` need
            environments.
        threshold: threshold of the answers before and after the repair, as for ``nooch.evaluate``.
        bootstrap: resamples for intervals, at least 1.
        group: column, or pattern of file names, of images that count as one in intervals and tests,
            such as ``scene``; by default the suite's.
        seed: seed of heads, draws and resamples.
        overwrite: replace an earlier repair.
        reading: how files of predictions are read: keywords of ``nooch.load_predictions``; ``ids``
            also name the rows of features in an ``.npy`` or ``.npz``.
        progress: called with what is being done, and how much of how much is done.

    Raises:
        InputError: features that are missing or not finite, several runs of predictions, or what
            ``nooch.evaluate`` refuses.
        ParameterError: no dataset, unknown tasks, methods or criteria.
        UndefinedError: no task has hard images of both sides on valid, or one has no environments.
        OutputError: ``out`` exists (and ``overwrite`` is false) or cannot be written.
    """
    suite = as_suite(suite, group, dataset)
    data = suite.require_dataset(dataset)
    needed = [check_split(name, data.splits) for name in ("valid", "test")]
    read = list[str]()
    ids = (reading or {}).get("ids")
    if isinstance(features, str | Path) and Path(features).suffix == ".npy" and ids is None:
        raise InputError("does not name the image of each row", where=features,
                         allowed="an .npz, a table, or image ids of the rows",
                         give={"reading": {"ids": ...}})  # fmt: skip
    inputs = given_features(features, data, ids, read)
    suite, criterion = suite_by(suite, data, criterion, phi)
    if missing := [name for name in needed if name not in suite.splits]:
        problem = f"the suite has no challenge set of the split {missing[0]}"
        allowed = "one of valid, by which heads are chosen, and of test, as of nooch find"
        raise ParameterError(problem, allowed=allowed, remedy="{} first",
                             give=Command("find", splits=needed))  # fmt: skip
    tasks = [key[1] for key in suite.select_keys([criterion], tasks or (), ["valid"])]
    score = partial(
        evaluate, suite, split="test", criteria=[criterion], metrics=_METRICS,
        threshold=threshold, seed=seed, reading={"ignore_unknown": True},
    )  # fmt: skip
    old = None
    if predictions is not None:
        old = one_run(read_predictions(predictions, suite, data, reading))
        tasks = [task for task in tasks if task in old.tasks]
        # what is wrong with it is refused before anything is trained
        score(old, tasks=tasks)
    with write_folder(out, overwrite=overwrite, marker=_MARKER) as folder:
        grid = {name: CANDIDATES[name] for name in CANDIDATES if name in {CONTROL, *methods}}
        config = read_config({"tasks": tasks, "methods": grid, "seeds": [seed]})
        selected, heads, control = choose_heads(data, suite, inputs, config, criterion, progress)
        lacking, tasks = sorted(set(tasks) - set(selected["task"])), selected["task"].to_list()
        before = old or _predicted(control, tasks, inputs, data)
        after = replace(_predicted(heads, tasks, inputs, data), run=AFTER)
        runs, k = [replace(before, run=BEFORE), after], bootstrap
        scores = score(runs, tasks=tasks, bootstrap=k, baseline=BEFORE, progress=progress)
        source = "ERM on the same features" if old is None else old.run
        repaired = _repaired(scores, selected, heads, source, Path(out))
        repaired.notes.extend([*read, *suite.unit_notes])
        if lacking:
            repaired.notes.append(
                f"valid lacks hard positives or hard negatives: {some_of(lacking)}"
            )
        about = {"suite": identity_of(suite), "dataset": data.fingerprint, "criterion": criterion}
        save_predictions(after, folder / "predictions.parquet")
        _write(repaired, about, folder)
    return repaired


def one_run(runs: Sequence[Predictions]) -> Predictions:
    """The only run. Raises InputError if there are several."""
    if len(runs) > 1:
        names = some_of(run.run for run in runs)
        raise InputError(f"several runs: {names}", where="predictions", allowed="one run")
    return runs[0]


def _repaired(
    scores: Scores, selected: pl.DataFrame, heads: Heads, source: str, out: Path
) -> Repaired:
    """Verdicts of scores before, from ``source``, and after."""
    changes = changes_of(scores)
    thresholds = scores.settings.get("thresholds", {}).get(AFTER, {})
    tasks = selected["task"].to_list()
    table = pl.DataFrame([verdict_of(changes, task) for task in tasks]).with_columns(
        selected.select("method", "setting"),
        threshold=pl.Series([thresholds.get(task, 0.5) for task in tasks]),
    )
    n = changes["change"].count()
    compared = (
        f"{n:,} error rates compared, each by an exact test at 5%; by chance up to"
        f" {0.025 * n:.1f} would be better, and as many worse"
    )
    return Repaired(table, changes, heads, [f"before: {source}", compared], out)


def _predicted(heads: Heads, tasks: Sequence[str], inputs: Any, data: Dataset) -> Predictions:
    """Logits of heads on the images of valid and test."""
    of_split = rows_of_splits(data)
    rows = np.concatenate([of_split["valid"], of_split["test"]])
    logits = head_outputs(heads.astype(np.float64), inputs.__getitem__, rows)
    return Predictions.from_arrays(
        logits.T, data.images["image_id"].gather(rows), tasks, scale="logit"
    )


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
