"""What helps a model that context misleads: weights, repair, or new images, and which ones?

    python benchmarks/repair_study.py OUT --backbone FOLDER [--backbone package.module:Name]
    [--msrc FOLDER] [--images 4000] [--seeds 10] [--resamples 500]

Worlds: generated scenes at three strengths of context, and MSRC's photographs (label maps). Of each
world, valid and test are fixed; a seed draws which training images are labeled (a third) and which
are the pool that new images come from, initial weights and order. On frozen features: ERM; weights
of ``nooch.sample_weights`` in a plain loop; ``nooch.repair``; and both losses with images added
from the pool: at random, uncertain ones, and those of rare environments. Finished seeds are kept in
OUT, which holds predictions, ``differences.csv`` and ``repair-study.svg`` at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import polars as pl
import torch
from measuring import parser
from numpy.typing import NDArray

import nooch
from nooch.criteria import FittedCE
from nooch.data import Dataset
from nooch.evaluation.method_differences import paired
from nooch.published import NOOCH_TASKS, paper_tasks
from nooch.scenes import ScenesPlan, generate

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
STRENGTHS = (0.5, 0.75, 0.9)
BUDGETS = (50, 100, 200, 500)
MSRC_BUDGETS = (25, 50, 100)
MSRC_CUES = {
    "car": ["road"], "cow": ["grass"], "boat": ["water"], "aeroplane": ["sky"],
    "bicycle": ["road"], "bird": ["water"],
}  # fmt: skip
SIZE = 128
EPOCHS, BATCH, RATE, DECAY = 40, 64, 3e-4, 1e-3


@dataclass(frozen=True)
class World:
    """Images with labels, the cues of their tasks, and frozen features."""

    name: str
    data: Dataset
    cues: Mapping[str, list[str]]
    features: NDArray[np.float32]
    budgets: tuple[int, ...]

    @cached_property
    def fitted(self) -> FittedCE:
        """CE with the given cues."""
        return nooch.CE(cues=self.cues).fit(self.data.select("train"), self.tasks)

    @property
    def tasks(self) -> list[str]:
        """Its tasks, those of the columns of every matrix."""
        return list(self.cues)

    def rows(self, split: str) -> Ints:
        """Positions of a split's images."""
        return np.flatnonzero((self.data.images["split"] == split).to_numpy())


def scenes(folder: Path, strength: float, images: int) -> Dataset:
    """Generated scenes, imported."""
    if not folder.exists():
        generate(ScenesPlan(images, context_strength=strength), folder)
    of = {n: [folder / f"annotations/{f}_scenes.json"] for n, f in _COCO.items()}
    return nooch.read_coco(**of, images=folder / "images")


_COCO = {"things": "instances", "stuff": "stuff"}


def msrc(folder: Path) -> Dataset:
    """MSRC's photographs, with areas from label maps."""
    classes, images = folder / "classes.txt", folder / "images"
    return nooch.read_label_maps(folder / "labels", classes, void=[0], images=images)


def worlds(out: Path, asked: object) -> Iterator[World]:
    """Every world with every backbone; features are computed once."""
    plan = nooch.SplitPlan("45/15/40", seed=0)
    paper = {name: [task.top_context] for name, task in paper_tasks().items()}
    paper = {name: paper[name] for name in NOOCH_TASKS}
    sources = {f"scenes-{s:g}": (paper, BUDGETS, s) for s in STRENGTHS}
    if asked.msrc is not None:
        sources["msrc"] = (MSRC_CUES, MSRC_BUDGETS, None)
    for name, (cues, budgets, strength) in sources.items():
        if strength is None:
            data = msrc(asked.msrc)
        else:
            data = scenes(out / name, strength, asked.images)
        data = nooch.with_split(data, plan)
        for backbone in asked.backbone:
            called = Path(backbone).name.rpartition(":")[2]
            folder = out / f"features-{name}-{called}"
            if not folder.exists():
                network = nooch.load_backbone(backbone, size=SIZE, device="cpu")
                nooch.extract_features(data, network, folder)
            features = np.array(nooch.load_features(folder, data).matrix(), np.float32)
            yield World(f"{name}-{called}", data, cues, features, budgets)


def trained(
    world: World, train: Ints, labels: Floats, weights: Sequence[Floats], seed: int
) -> list[Floats]:
    """Logits (n_images, T) of linear heads for each of several weights (n_images, T).

    A plain loop over frozen features; every head is that of its best epoch on valid.
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
        frame = nooch.sample_weights(data, task, "environment-reweight", criterion=world.fitted)
        weights[rows, column] = frame["weight"]
    return weights


def effective(counts: Floats) -> Floats:
    """Effective sample size (sum w)^2 / sum w^2 with environments of equal weight, (T,)."""
    return 16 / (1 / (counts + 0.5)).sum(axis=1)


def of_rare_environments(chances: Floats, train: Floats, budget: int) -> list[int]:
    """Positions of images of a pool, greedily by the gain in effective sample size.

    Args:
        chances: of the environments of each image and task, (n_pool, T, 4), known ones are 0 or 1.
        train: counts of environments in training, (T, 4).
        budget: how many.
    """
    counts, left, chosen = train.copy(), np.ones(len(chances), bool), []
    flat = chances.reshape(len(chances), -1)
    for _ in range(budget):
        more = [effective(counts + np.eye(4)[g]) - effective(counts) for g in range(4)]
        gains = flat @ (np.stack(more, axis=1) / effective(counts)[:, None]).ravel()
        best = int(np.argmax(np.where(left, gains, -np.inf)))
        chosen.append(best)
        left[best] = False
        counts += chances[best]
    return chosen


def pools(world: World, seed: int) -> tuple[Ints, Ints]:
    """Labeled training images, a third, and the pool."""
    rows = np.random.default_rng([seed, 0]).permutation(world.rows("train"))
    return np.split(rows, [len(rows) // 3])


def one_hot(world: World) -> Floats:
    """Known environments, (n_images, T, 4)."""
    of = [nooch.environments(world.data, t, criterion=world.fitted) for t in world.tasks]
    return np.eye(4)[np.stack(of, axis=1)]


def predicted(logits: Floats, cue_logits: Floats) -> Floats:
    """Chances of environments, (n_images, T, 4), of objects and cues as if independent."""
    positive, there = (1 / (1 + np.exp(-z)) for z in (logits, cue_logits))
    label, cue = (np.stack([1 - p, p], axis=-1) for p in (positive, there))
    return np.einsum("ntl,ntc->ntlc", label, cue).reshape(*label.shape[:2], 4)


def predictions(world: World, seed: int) -> dict[str, Floats]:
    """Method -> logits (n_images, T)."""
    labels = np.stack([world.data.labels(task) for task in world.tasks], axis=1)
    cues = np.stack([world.data.labels(world.cues[t][0]) for t in world.tasks], axis=1)
    ones, known = np.ones(labels.shape), one_hot(world)
    train, pool = pools(world, seed)

    def both(name: str, rows: Ints) -> dict[str, Floats]:
        weights = [ones, balanced(world, rows)]
        erm, weighted = trained(world, rows, labels, weights, seed)
        return {f"erm{name}": erm, f"weights{name}": weighted}

    logits = both("", train)
    guessed = predicted(logits["erm"], trained(world, train, cues, [ones], seed)[0])
    counts, largest = known[train].sum(axis=0), world.budgets[-1]
    orders = {
        "random": np.arange(largest),
        "uncertain": np.argsort(np.abs(logits["erm"][pool]).mean(axis=1), kind="stable"),
        "known": of_rare_environments(known[pool], counts, largest),
        "predicted": of_rare_environments(guessed[pool], counts, largest),
    }
    for way, order in orders.items():
        for budget in world.budgets:
            rows = np.concatenate([train, pool[order[:budget]]])
            logits |= both(f" +{budget} {way}", rows)
    return logits | both(" +pool", np.concatenate([train, pool]))
