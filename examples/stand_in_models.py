"""Predictions of two stand-ins for models, fitted on a dataset's training images: no picture is looked at.

``context`` answers from the areas of all other classes, as a model does that has learned the road and not the car. ``object``
answers from a noisy view of the object's own area, smaller ones being harder to see, with a weaker look at the context.

    python examples/stand_in_models.py DATASET OUT --tasks car,bowl
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import nooch


def main() -> None:
    """Write OUT/context.parquet and OUT/object.csv."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--tasks", default="car,bowl")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    data = nooch.load_dataset(arguments.dataset)
    random = np.random.default_rng(arguments.seed)
    context, seen = [], []
    for task in arguments.tasks.split(","):
        logits = context_logits(data, task)
        context.append(table(data, task, logits))
        seen.append(table(data, task, object_logits(data, task, random) + 0.3 * logits))
    arguments.out.mkdir(parents=True, exist_ok=True)
    pl.concat(context).write_parquet(arguments.out / "context.parquet")
    pl.concat(seen).write_csv(arguments.out / "object.csv")


def context_logits(data: nooch.Dataset, task: str) -> NDArray[np.float64]:
    """Log odds of the task's class from the areas of all other classes."""
    areas, labels = data.areas.toarray(), data.labels(task)
    areas[:, data.column(task)] = 0
    train = (data.images["split"] == "train").to_numpy()
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=1000)).fit(areas[train], labels[train])
    logits: NDArray[np.float64] = model.decision_function(areas)
    return logits


def object_logits(data: nooch.Dataset, task: str, random: np.random.Generator) -> NDArray[np.float64]:
    """A noisy view of the object's own area: 2 logits of noise, and 4 between absent and 3 % of the image."""
    sight = np.log10(data.area(task) + 1e-3) + 3
    return np.asarray(2.7 * sight - 3 + random.normal(scale=2, size=len(data)))


def table(data: nooch.Dataset, task: str, logits: NDArray[np.float64]) -> pl.DataFrame:
    """Predictions for the images that are not trained on."""
    frame = pl.DataFrame({"image_id": data.images["image_id"], "task": task, "logit": logits.astype(np.float32)})
    return frame.filter(data.images["split"] != "train")


if __name__ == "__main__":
    main()
