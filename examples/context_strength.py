"""Extra difficulty of hard images, by strength of context: one network for each strength.

    python examples/context_strength.py OUT [--images 6000] [--strengths 0,0.25,0.5,0.75,0.9,0.95]
    [--seeds 2]

Writes ``gaps.csv`` (a row for each strength and seed) and ``gaps.svg``. Cues are given by hand, so
that tasks have challenge sets even without co-occurrence; with a strength of 1 nothing is out of
context, and there is no hard positive. The gap is AUC on easy images minus AUC on hard ones, the
mean over the paper's twelve tasks: losses would also change with the share of positives.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import polars as pl

import nooch
from nooch.base.engines import LocalEngine
from nooch.paper.class_network import train_classes
from nooch.report.figures.style import BLUE, canvas, svg
from nooch.scenes import ScenesPlan, generate, load_world
from nooch.suites.published_counts import NOOCH_TASKS, paper_tasks
from nooch.training.network_settings import TuneSettings

NETWORK = Path(__file__).parent / "small_network.json"
SETTINGS = TuneSettings(optimiser="adam", lr=1e-3, batch=32, epochs=8, channels_last=True)


def main() -> None:
    """Every strength and seed that is not in the table yet."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--images", type=int, default=6000)
    parser.add_argument("--strengths", default="0,0.25,0.5,0.75,0.9,0.95")
    parser.add_argument("--seeds", type=int, default=2)
    arguments = parser.parse_args()
    out: Path = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    table = out / "gaps.csv"
    rows = pl.read_csv(table).to_dicts() if table.exists() else []
    for strength in map(float, arguments.strengths.split(",")):
        for seed in range(arguments.seeds):
            if not any((row["strength"], row["seed"]) == (strength, seed) for row in rows):
                aucs = gap(out, arguments.images, strength, seed)
                rows.append({"strength": strength, "seed": seed, **aucs})
                pl.DataFrame(rows).sort("strength", "seed").write_csv(table)
                print(rows[-1], flush=True)
    draw(pl.read_csv(table), out / "gaps.svg")


def gap(out: Path, images: int, strength: float, seed: int) -> dict[str, float]:
    """Mean AUC over tasks on hard and easy test images, trained on scenes of this strength."""
    world, folder = load_world(None), out / f"{strength:g}-{seed}"
    if not folder.exists():
        generate(ScenesPlan(images, 96, seed, strength, world), folder, map=LocalEngine().map)
    things, stuff = (
        [folder / "annotations" / f"{kind}_scenes.json"] for kind in ("instances", "stuff")
    )
    data = nooch.io.read(nooch.io.CocoReading(things, stuff), images=folder / "images")
    data = nooch.io.with_split(data, nooch.io.SplitPlan("70/10/20", seed=seed))
    cues = {name: [task.top_context] for name, task in paper_tasks().items()}
    suite = nooch.find(data, {"ce": nooch.CE(cues=cues)}, tasks=list(NOOCH_TASKS))
    pixels = nooch.models.build_pixels(data, folder / "pixels", size=64, overwrite=True)
    train_classes(
        data,
        pixels,
        f"config:{NETWORK}",
        folder / "classes",
        settings=SETTINGS,
        seed=seed,
        overwrite=True,
    )
    predictions = pl.read_parquet(folder / "classes" / "predictions.parquet")
    mine = predictions.filter(pl.col("task").is_in(NOOCH_TASKS), split="test")
    scores = nooch.evaluate(suite, mine.select("image_id", "task", "logit"), split="test")
    means = {}
    for subset in ("hard", "easy"):
        aucs = [scores.value("auc", subset, criterion="ce", task=task) for task in NOOCH_TASKS]
        means[subset] = float(np.mean([auc for auc in aucs if auc is not None]))
    return means


def draw(gaps: pl.DataFrame, file: Path) -> None:
    """The gap by strength: the mean over seeds, and each seed."""
    figure, (axes,) = canvas(1)
    shown = gaps.with_columns(gap=pl.col("easy") - pl.col("hard"))
    means = shown.group_by("strength").agg(pl.col("gap").mean()).sort("strength")
    axes.axhline(0, color="0.6", linewidth=1, linestyle="--")
    axes.plot(means["strength"], means["gap"], color=BLUE, marker="o")
    axes.scatter(shown["strength"], shown["gap"], color=BLUE, s=10, alpha=0.5, linewidths=0)
    labels = {"xlabel": "context strength", "ylabel": "AUC easy - AUC hard"}
    axes.set(title="ERM's gap grows with the context", **labels)
    file.write_bytes(svg(figure))


if __name__ == "__main__":
    main()
