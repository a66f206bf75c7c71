"""AUC of 171 tasks x 24,657 images x 3 seeds x 4 subsets against scikit-learn and torchmetrics.

The subsets are all, hard, easy and hard by the single strongest cue. ``roc_auc_score`` gives the
same values, which is checked to 1e-12; torchmetrics, whose results are float32, to 1e-6. Of nooch's
six metrics, torchmetrics' loop takes AUC, AUPRC and ECE. Then the whole of ``nooch.evaluate``
(aligning, checks, counts, the table; sets and predictions in memory) against a loop over every AUC
in its table. Then the bootstrap: 1,000 resamples of a run, all metrics of 171 tasks x 4 subsets, in
one thread, against ``roc_auc_score`` of resampled images, which is timed on only 2 resamples (the
same AUC, to 1e-12) and multiplied by 500; and ``nooch.evaluate`` with all its subsets.

    python benchmarks/bench_metrics.py [--images 123287] [--runs 5] [--json FILE]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from bench_criteria import dataset, timed
from measuring import Spread, machine, parser, ratios, write_json
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

import nooch
from nooch.criteria import FittedCE
from nooch.evaluation.bootstrap import BootstrapDraws
from nooch.evaluation.metrics import METRICS, Graded, Parts, Resampler
from nooch.suites import SUBSETS

SEEDS = 3
RESAMPLES, FEW = 1000, 2
Work = list[tuple[list[NDArray[np.bool_]], Parts, NDArray[np.float64]]]


def suite_of_all_tasks(data: nooch.Dataset) -> nooch.Suite:
    """CE with the cues that alpha finds, and the strongest class as cue of tasks without any."""
    fitted: FittedCE = nooch.CE(0.05, 0.1).fit(data.select("train"))
    alone = {}
    for y, task in enumerate(data.classes):
        if not fitted.cues(task):
            others = np.where(np.arange(len(data.classes)) == y, -np.inf, fitted.A[y])
            alone[task] = (data.classes[int(np.nanargmax(others))],)
    return nooch.find(data, {"ce": nooch.CE(0.05, 0.1, alone)}, splits=["test"])


def predictions(suite: nooch.Suite) -> list[nooch.Predictions]:
    """Logits of three seeds, float32: noise, the label, and the effect of context."""
    random, runs = np.random.default_rng(0), []
    sets = [suite.set("ce", task, "test") for task in suite.tasks]
    for seed in range(SEEDS):
        columns = []
        for challenge in sets:
            effect = np.array([-1.0, 1.0, 0.0])[challenge.subset]
            noise = random.normal(size=len(challenge))
            columns.append((noise + 2 * challenge.labels + effect - 2).astype(np.float32))
        about: dict[str, Any] = {"scale": "logit", "run": str(seed), "seed": seed}
        values, ids = np.column_stack(columns), sets[0].image_ids
        runs.append(nooch.Predictions.from_arrays(values, ids, suite.tasks, **about))
    return runs


def parts_of(suite: nooch.Suite, task: str) -> tuple[list[NDArray[np.bool_]], Parts]:
    """Four subsets of a task's images: as masks for the loop, and as nooch has them."""
    challenge = suite.set("ce", task, "test")
    hard = challenge.subset != SUBSETS.index("easy")
    assert challenge.by_cue is not None
    cue = (challenge.by_cue & np.uint64(1)).astype(bool)
    masks = [np.ones_like(hard), hard, ~hard, cue]
    firsts, atoms = np.unique(hard * 2 + cue, return_index=True, return_inverse=True)[1:]
    members = np.array([mask[firsts] for mask in masks])
    strata = np.zeros(len(firsts), dtype=np.intp)
    return masks, Parts(challenge.labels, atoms, members, strata, np.empty((0, 1)))


def loop(
    labels: NDArray[np.bool_], values: NDArray[np.float64], masks: list[NDArray[np.bool_]]
) -> list[float]:
    """scikit-learn, one subset after another; NaN where a subset has one class."""
    aucs = []
    for mask in masks:
        y = labels[mask]
        aucs.append(float(roc_auc_score(y, values[mask])) if y.any() and not y.all() else np.nan)
    return aucs


def torch_loop(
    labels: NDArray[np.bool_],
    values: NDArray[np.float64],
    masks: list[NDArray[np.bool_]],
    names: tuple[str, ...],
) -> list[list[float]]:
    """torchmetrics, one subset and metric after another; NaN where a subset has one class."""
    import torch
    from torchmetrics.functional import classification as peer

    ways: dict[str, Callable[..., Any]] = {
        "auc": partial(peer.binary_auroc, validate_args=False),
        "auprc": partial(peer.binary_average_precision, validate_args=False),
        "ece": partial(peer.binary_calibration_error, n_bins=15, validate_args=False),
    }
    aucs = []
    for mask in masks:
        y, logits = torch.from_numpy(labels[mask].astype(np.int64)), torch.from_numpy(values[mask])
        both = bool(y.any()) and not bool(y.all())
        aucs.append([float(ways[name](logits, y)) if both else np.nan for name in names])
    return aucs


def nooch_scores(work: Work, metrics: tuple[str, ...]) -> NDArray[np.float64]:
    """All tasks and runs, from outputs to values: float64 (n_tasks x n_runs, 4, n_metrics)."""
    return np.array([Graded(p.labels, v, "logit", metrics).scores(p) for _, p, v in work])


def evaluated_by_loop(
    suite: nooch.Suite, runs: list[nooch.Predictions]
) -> dict[tuple[Any, ...], float]:
    """Every AUC of the table of ``nooch.evaluate``: all, hard, easy; the latter two by cue too."""
    values: dict[tuple[Any, ...], float] = {}
    for row, task in enumerate(suite.tasks):
        challenge = suite.set("ce", task, "test")
        assert challenge.by_cue is not None
        hard = challenge.subset != SUBSETS.index("easy")
        masks: dict[tuple[str, str | None], NDArray[np.bool_]] = {}
        masks |= {("all", None): np.ones_like(hard), ("hard", None): hard, ("easy", None): ~hard}
        cues = suite.header.criteria["ce"].cues[task]
        for bit, (cue, _) in enumerate(cues if len(cues) > 1 else []):
            alone = (challenge.by_cue >> np.uint64(bit) & np.uint64(1)).astype(bool)
            masks |= {("hard", cue): alone, ("easy", cue): ~alone}
        for run in runs:
            aucs = loop(challenge.labels, run.values[row], list(masks.values()))
            for name, value in zip(masks, aucs, strict=True):
                values[run.run, task, *name] = value
    return values


def bootstrap_seconds(work: Work) -> dict[str, float]:
    """Seconds of 1,000 resamples of all tasks; the loop's are measured on two and multiplied."""
    draws = BootstrapDraws(len(work[0][2]), RESAMPLES, seed=0)
    first: NDArray[np.int64] = next(draws.weights(slice(None)))[1][:, :FEW].astype(np.int64)
    images = [np.repeat(np.arange(len(counts)), counts) for counts in first.T]

    def looped() -> NDArray[np.float64]:
        return np.array(
            [[loop(p.labels[i], v[i], [m[i] for m in ms]) for i in images] for ms, p, v in work]
        )

    def resampled() -> NDArray[np.float64]:
        kept = []
        for _, parts, values in work:
            resampler = Resampler(Graded(parts.labels, values, "logit", METRICS), parts)
            blocks = [resampler(w, w.astype(float)) for _, w in draws.weights(slice(None))]
            kept.append(blocks[0][:, METRICS.index("auc"), :FEW].T)
        return np.array(kept)

    (ours, values), (theirs, expected) = timed(resampled), timed(looped)
    if not np.allclose(values, expected, rtol=0, atol=1e-12, equal_nan=True):
        sys.exit("error: the bootstraps disagree")
    loops = f"scikit-learn, AUC, {RESAMPLES:,} resamples, {RESAMPLES // FEW} times {FEW}"
    ours_name = f"nooch, all six metrics, {RESAMPLES:,} resamples, 171 x 4 subsets, one thread"
    return {ours_name: ours, loops: theirs * RESAMPLES / FEW}


def main() -> None:
    """Run and print."""
    arguments = parser(__doc__, images=123_287, runs=5).parse_args()
    suite = suite_of_all_tasks(dataset(arguments.images))
    runs = predictions(suite)
    divided = {task: parts_of(suite, task) for task in suite.tasks}
    pairs = [(row, task, run) for row, task in enumerate(suite.tasks) for run in runs]
    work: Work = [(*divided[task], run.values[row]) for row, task, run in pairs]

    def torch_values(*names: str) -> NDArray[np.float64]:
        return np.array([torch_loop(p.labels, v, masks, names) for masks, p, v in work])

    ways: dict[str, Callable[[], Any]] = {
        "nooch, AUC": lambda: nooch_scores(work, ("auc",)),
        "nooch, all six metrics": lambda: nooch_scores(work, METRICS),
        "scikit-learn, AUC": lambda: np.array([loop(p.labels, v, masks) for masks, p, v in work]),
        "torchmetrics, AUC": lambda: torch_values("auc"),
        "torchmetrics, AUC, AUPRC and ECE": lambda: torch_values("auc", "auprc", "ece"),
        "nooch.evaluate, AUC": lambda: nooch.evaluate(suite, runs, metrics=["auc"]),
        "nooch.evaluate, all six metrics": lambda: nooch.evaluate(suite, runs),
        "scikit-learn, AUC of that table": lambda: evaluated_by_loop(suite, runs),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    results: dict[str, Any] = {}
    nooch.evaluate(suite, runs)  # warm-up
    for _ in range(arguments.runs):
        for name, way in ways.items():
            taken, results[name] = timed(way)
            seconds[name].append(taken)
    check(results)
    print(f"{len(suite.tasks)} tasks, {len(runs[0].image_ids):,} images, {SEEDS} seeds")
    for name, values in seconds.items():
        print(f"{name}: {Spread.from_values(values)} s")
    faster = {}
    scores = ("nooch, AUC", "nooch, all six metrics")
    mine: dict[str, tuple[str, ...]] = {"scikit-learn, AUC": scores, "torchmetrics, AUC": scores}
    mine["torchmetrics, AUC, AUPRC and ECE"] = scores[1:]
    tables = ("nooch.evaluate, AUC", "nooch.evaluate, all six metrics")
    mine["scikit-learn, AUC of that table"] = tables
    for peer, names in mine.items():
        unit = "values" if isinstance(results[peer], dict) else "x 4 subsets"
        for name in names:
            pair = f"{name} against {peer}, {len(results[peer]):,} {unit}"
            faster[pair] = ratios(seconds[peer], seconds[name])
            print(f"{pair}: {faster[pair]} times as fast")
    whole, _ = timed(lambda: nooch.evaluate(suite, runs[:1], bootstrap=RESAMPLES))
    print(
        f"nooch.evaluate, {RESAMPLES:,} resamples, all metrics and subsets, one run: {whole:.1f} s"
    )
    bootstrapped = bootstrap_seconds(work[::SEEDS])
    for name, taken in bootstrapped.items():
        print(f"{name}: {taken:.1f} s")
    figures = {"seconds": seconds, "ratios": faster, "bootstrap": bootstrapped, "evaluate": whole}
    write_json(arguments.json, {"machine": machine(), **figures})


def check(results: dict[str, Any]) -> None:
    """Stop where the two disagree by more than 1e-12."""
    ours, theirs = results["nooch, AUC"][:, :, 0], results["scikit-learn, AUC"]
    if not np.allclose(ours, theirs, rtol=0, atol=1e-12, equal_nan=True):
        sys.exit("error: the two disagree")
    places = [METRICS.index(name) for name in ("auc", "auprc", "ece")]
    torch = results["torchmetrics, AUC, AUPRC and ECE"]
    three = np.where(np.isnan(torch), np.nan, results["nooch, all six metrics"][:, :, places])
    if not np.allclose(three, torch, rtol=0, atol=1e-6, equal_nan=True):
        sys.exit("error: nooch and torchmetrics disagree")
    columns = ("run", "task", "subset", "cue", "value")
    rows = results["nooch.evaluate, AUC"].table.select(columns).rows()
    table = {row[:4]: np.nan if row[4] is None else row[4] for row in rows}
    for key, value in results["scikit-learn, AUC of that table"].items():
        if not np.isclose(table[key], value, rtol=0, atol=1e-12, equal_nan=True):
            sys.exit(f"error: the two disagree on {key}: {table[key]} and {value}")


if __name__ == "__main__":
    main()
