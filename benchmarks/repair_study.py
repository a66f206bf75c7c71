"""What helps a model that context misleads: weights, repair, or new images, and which ones?

    python benchmarks/repair_study.py OUT --backbone FOLDER [--backbone package.module:Name]
    --msrc FOLDER [--images 4000] [--seeds 10] [--resamples 200] [--worlds msrc,scenes-0.9]

Worlds: generated scenes at three strengths of context, and MSRC's photographs (label maps). Of each
world, valid and test are fixed; a seed draws which training images are labeled (a third) and which
are the pool that new images come from, initial weights and order. On frozen features: ERM; weights
of ``nooch.training.sample_weights`` in a plain loop; ``nooch.repair``; and both losses with images
added from the pool: at random, by ``nooch.collect_next`` with known areas, with areas that a head
on the features predicts (of the cues, or of the cues and the objects), and those that ERM is least
sure of. Finished seeds are kept in OUT; ``differences.csv`` comes last.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import polars as pl
import torch
from measuring import parser
from numpy.typing import NDArray
from scipy.sparse import csr_array

import nooch
from nooch.criteria import FittedCE
from nooch.data import Dataset
from nooch.evaluation import AVERAGE
from nooch.evaluation.differences import paired
from nooch.scenes import ScenesPlan, generate
from nooch.suites.published_counts import NOOCH_TASKS, paper_tasks

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
BUDGETS = (50, 150, 500)
MSRC_BUDGETS = (25, 50, 100)
MSRC_CUES = {
    "car": ["road"], "cow": ["grass"], "boat": ["water"], "aeroplane": ["sky"],
    "bicycle": ["road"], "bird": ["water"],
}  # fmt: skip
SIZE, EPOCHS, BATCH, RATE, DECAY = 128, 40, 128, 5e-4, 1e-3


@dataclass(frozen=True)
class World:
    """Images with labels, the cues of their tasks, and frozen features."""

    name: str
    data: Dataset
    cues: Mapping[str, list[str]]
    features: NDArray[np.float32]
    budgets: tuple[int, ...]

    @cached_property
    def criterion(self) -> nooch.CE:
        """CE with the given cues; MSRC has too few hard positives by a smaller area."""
        return nooch.CE(beta=0.3 if "msrc" in self.name else 0.1, cues=self.cues)

    @cached_property
    def fitted(self) -> FittedCE:
        """Fitted on all training images; the cues are given in any case."""
        return self.criterion.fit(self.data.select("train"), self.tasks)

    def suite(self, rows: Ints) -> nooch.Suite:
        """The challenge sets of some of the images."""
        data = self.data.select(rows=np.sort(rows))
        return nooch.find(data, {"ce": self.criterion}, tasks=self.tasks)

    @property
    def tasks(self) -> list[str]:
        """Its tasks, the columns of every matrix."""
        return list(self.cues)

    def rows(self, split: str) -> Ints:
        """Positions of a split's images."""
        return np.flatnonzero((self.data.images["split"] == split).to_numpy())


def images_of(name: str, arguments: argparse.Namespace) -> Dataset:
    """Photographs with areas from label maps, or generated scenes."""
    if name == "msrc":
        classes, images = arguments.msrc / "classes.txt", arguments.msrc / "images"
        reading = nooch.io.MapReading(arguments.msrc / "labels", classes, void=[0])
        return nooch.io.read(reading, images=images)
    folder, strength = arguments.out / name, float(name.partition("-")[2])
    if not folder.exists():
        generate(ScenesPlan(arguments.images, context_strength=strength), folder)
    things, stuff = (
        [folder / f"annotations/{kind}_scenes.json"] for kind in ("instances", "stuff")
    )
    return nooch.io.read(nooch.io.CocoReading(things, stuff), images=folder / "images")


def worlds(arguments: argparse.Namespace) -> Iterator[World]:
    """Every world with every backbone; features are computed once."""
    paper = {task: [paper_tasks()[task].top_context] for task in NOOCH_TASKS}
    for name in arguments.worlds.split(","):
        data = nooch.io.with_split(
            images_of(name, arguments), nooch.io.SplitPlan("45/15/40", seed=0)
        )
        cues, budgets = (MSRC_CUES, MSRC_BUDGETS) if name == "msrc" else (paper, BUDGETS)
        for backbone in arguments.backbone:
            called = f"{name}-{Path(backbone).name.rpartition(':')[2]}"
            folder = arguments.out / f"features-{called}"
            if not folder.exists():
                network = nooch.models.load_backbone(backbone, size=SIZE, device="cpu")
                nooch.models.extract_features(data, network, folder)
            features = np.array(nooch.models.load_features(folder, data).matrix(), np.float32)
            yield World(called, data, cues, features, budgets)


def trained(
    world: World, train: Ints, labels: Floats, weights: Sequence[Floats], seed: int
) -> list[Floats]:
    """Logits (n_images, T) of linear heads for each of several weights (n_images, T).

    A plain loop over frozen features; every head is taken at its best epoch on valid.
    """
    torch.manual_seed(seed)
    order, valid = np.random.default_rng([seed, 1]), world.rows("valid")
    x = torch.from_numpy(world.features)
    x = (x - x[train].mean(0)) / (x[train].std(0) + 1e-6)
    y = torch.from_numpy(np.hstack([labels] * len(weights))).float()
    w = torch.from_numpy(np.hstack(weights)).float()
    model = torch.nn.Linear(x.shape[1], y.shape[1])
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=DECAY)
    loss_of = torch.nn.BCEWithLogitsLoss(reduction="none")
    least, best = torch.full((y.shape[1],), torch.inf), torch.nn.Linear(x.shape[1], y.shape[1])
    for _ in range(EPOCHS):
        rows = order.permutation(train)
        for batch in np.array_split(rows, max(1, len(rows) // BATCH)):
            loss = (w[batch] * loss_of(model(x[batch]), y[batch])).mean(0).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            value = (w[valid] * loss_of(model(x[valid]), y[valid])).mean(0)
            better = value < least
            least = torch.where(better, value, least)
            best.weight[better], best.bias[better] = model.weight[better], model.bias[better]
    with torch.no_grad():
        logits = best(x).double().numpy()
    return np.split(logits, len(weights), axis=1)


def balanced(world: World, train: Ints) -> Floats:
    """Weights (n_images, T) by environment, of train and valid; elsewhere 1."""
    rows = np.sort(np.concatenate([train, world.rows("valid")]))
    data = world.data.select(rows=rows)
    weights = np.ones((len(world.data), len(world.tasks)))
    for column, task in enumerate(world.tasks):
        frame = nooch.training.sample_weights(
            data, task, "environment-reweight", criterion=world.fitted
        )
        weights[rows, column] = frame["weight"]
    return weights


def with_areas(data: Dataset, world: World, cues: Floats, labels: Floats | None) -> Dataset:
    """The images as a model would annotate them: cues, and objects if given, cover 1 or nothing.

    Args:
        data: images of the world.
        world: whose cues.
        cues: logits (n_images, T) of the presence of large enough cues.
        labels: of objects; None: they are known.
    """
    areas = data.areas.tolil(copy=True)
    given = [(world.cues[task][0], cues[:, t]) for t, task in enumerate(world.tasks)]
    if labels is not None:
        given += [(task, labels[:, t]) for t, task in enumerate(world.tasks)]
    for name, logits in given:
        areas[:, data.column(name)] = (logits > 0).astype(float)[:, None]
    return replace(data, areas=csr_array(areas))


def predictions(world: World, seed: int, folder: Path) -> dict[str, Floats]:
    """Method -> logits (n_images, T). A task without hard validation images keeps ERM's head."""
    labels: Floats = np.stack(
        [world.data.labels(task) for task in world.tasks], axis=1, dtype=np.float64
    )
    areas = np.stack([world.data.area(world.cues[task][0]) for task in world.tasks], axis=1)
    ones, large = np.ones(labels.shape), (areas > world.criterion.beta).astype(np.float64)
    rows = np.random.default_rng([seed, 0]).permutation(world.rows("train"))
    train, pool = np.split(rows, [len(rows) // 3])
    kept = np.setdiff1d(np.arange(len(world.data)), pool)
    outputs: dict[str, Floats] = {}

    def both(name: str, rows: Ints) -> None:
        weights = [ones, balanced(world, rows)]
        erm, weighted = trained(world, rows, labels, weights, seed)
        outputs.update({f"erm{name}": erm, f"weights{name}": weighted})

    both("", train)
    row_numbers = {image: row for row, image in enumerate(world.data.image_ids)}
    suite, pool, most = world.suite(kept), np.sort(pool), world.budgets[-1]
    nooch.repair(suite, world.features[kept], folder, bootstrap=1, seed=seed, overwrite=True)
    outputs["repair"] = outputs["erm"].copy()
    answers = pl.read_parquet(folder / "predictions.parquet")
    for (task,), task_rows in answers.partition_by("task", as_dict=True).items():
        outputs["repair"][
            [row_numbers[i] for i in task_rows["image_id"]], world.tasks.index(task)
        ] = task_rows["logit"]
    (context,) = trained(world, train, large, [ones], seed)
    true = world.data.select(rows=pool)
    of_context = with_areas(true, world, context[pool], None)
    of_all = with_areas(true, world, context[pool], outputs["erm"][pool])

    def collected(data: Dataset) -> Ints:
        table = nooch.collect_next(suite, data, budget=most).table
        return np.array([row_numbers[image] for image in table["image_id"]])

    unsure = np.argsort(np.abs(outputs["erm"][pool]).mean(axis=1), kind="stable")
    ways = {
        "random": np.random.default_rng([seed, 2]).permutation(pool),
        "unsure": pool[unsure],
        "collect": collected(true),
        "collect, predicted context": collected(of_context),
        "collect, all predicted": collected(of_all),
    }
    for way, order in ways.items():
        for budget in world.budgets:
            both(f" +{budget} {way}", np.concatenate([train, order[:budget]]))
    both(" +pool", rows)
    return outputs


def compared(world: World, out: Path, seeds: int, resamples: int) -> pl.DataFrame:
    """Differences of methods: from ERM, and of ways to collect from random at the same budget."""
    test, ids = world.rows("test"), world.data.images["image_id"]
    runs: dict[str, list[nooch.Predictions]] = {}
    for seed in range(seeds):
        folder = out / "runs" / world.name / str(seed)
        if not (folder / "logits.npz").exists():
            repaired = predictions(world, seed, folder / "repair")
            stored = {method: logits[test] for method, logits in repaired.items()}
            np.savez(folder / "logits.npz", allow_pickle=False, **stored)
            print(world.name, "seed", seed, flush=True)
        for method, logits in np.load(folder / "logits.npz").items():
            name = f"{method}/{seed}"
            asking_run = nooch.Predictions.from_arrays(
                logits, ids[test], world.tasks, scale="logit", run=name
            )
            runs.setdefault(method, []).append(asking_run)
    suite = world.suite(np.arange(len(world.data)))
    every = [run for runs_of_seeds in runs.values() for run in runs_of_seeds]
    single = nooch.evaluate(suite, every, split="test", metrics=["auc"]).table
    means = single.filter(task=AVERAGE, subset="hard").select("run", "value")
    by_run = dict(means.iter_rows())
    tables = []
    groups = [("erm", [m for m in runs if m != "erm"])]
    for loss in ("erm", "weights"):
        for budget in world.budgets:
            start = f"{loss} +{budget} "
            others = [m for m in runs if m.startswith(start) and not m.endswith("random")]
            groups.append((start + "random", others))
    for base, methods in groups:
        members = {name: runs[name] for name in [base, *methods]}
        scores = paired(
            suite, "ce", members, baselines=[base], metrics=("auc", "nll"), bootstrap=resamples
        )
        columns = ["run", "baseline", "task", "subset", "metric", "difference", "low", "high"]
        wins = {
            m: sum(by_run[f"{m}/{s}"] > by_run[f"{base}/{s}"] for s in range(seeds))
            for m in methods
        }
        values = scores.table.select("run", "task", "subset", "metric", "value")
        tables.append(
            scores.differences.select(columns)
            .join(values, on=["run", "task", "subset", "metric"])
            .with_columns(wins=pl.col("run").replace_strict(wins), world=pl.lit(world.name))
        )
    return pl.concat(tables)


def printed(table: pl.DataFrame, baseline: str, over: str) -> None:
    """Means over tasks as Markdown: value, difference with its interval, seeds won; and how many
    tasks, each of one cue, are better and worse beyond their interval.
    """
    print(f"\n| {over} | method | AUC hard | seeds won | cues +/- | NLL hard | AUC easy |")
    print("|---|---|---|---|---|---|---|")
    mine = table.filter(pl.col("baseline").str.contains(baseline))
    for (world, run), rows in mine.group_by("world", "run", maintain_order=True):
        cells: dict[str, str] = {}
        for metric, subset in (("auc", "hard"), ("nll", "hard"), ("auc", "easy")):
            values = rows.filter(metric=metric, subset=subset)
            (mean,) = values.filter(task=AVERAGE).iter_rows(named=True)
            gap = "{difference:+.3f} [{low:+.3f}, {high:+.3f}]".format(**mean)
            cells[metric + subset] = f"{mean['value']:.3f}: {gap}"
        single = rows.filter(pl.col("task") != AVERAGE, metric="auc", subset="hard")
        better, worse = (single["low"] > 0).sum(), (single["high"] < 0).sum()
        wins = f"{rows['wins'][0]} | {better}/{worse}"
        first, *others = cells.values()
        print("", world, run, first, wins, *others, "", sep=" | ")


def main() -> None:
    """Every seed that is not there yet, then tables."""
    options = parser(__doc__, images=4000, seeds=10, resamples=200)
    options.add_argument("out", type=Path)
    options.add_argument("--backbone", action="append", required=True)
    options.add_argument("--msrc", type=Path)
    options.add_argument("--worlds", default="scenes-0.5,scenes-0.75,scenes-0.9,msrc")
    arguments = options.parse_args()
    torch.set_num_threads(1)
    tables = [
        compared(world, arguments.out, arguments.seeds, arguments.resamples)
        for world in worlds(arguments)
    ]
    table = pl.concat(tables)
    table.write_csv(arguments.out / "differences.csv")
    printed(table, "^erm$", "against ERM")
    printed(table, "random$", "against random")


if __name__ == "__main__":
    main()
