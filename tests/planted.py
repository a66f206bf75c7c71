"""Images of cars, roads and trees, and predictions that err where the context misleads."""

from __future__ import annotations

import numpy as np
import polars as pl
from oracles import dataset_of

from nooch.data import Dataset


def planted_data(n: int = 1200, seed: int = 0) -> Dataset:
    """Cars mostly on roads, covering 0.05 to 0.45 of the image; trees in half of the images."""
    random = np.random.default_rng(seed)
    images = []
    for _ in range(n):
        image: dict[str, float] = {}
        if random.random() < 0.4:
            image["car"] = round(random.uniform(0.05, 0.45), 3)
        if random.random() < (0.7 if "car" in image else 0.3):
            image["road"] = 0.6
        if random.random() < 0.5:
            image["tree"] = 0.2
        images.append(image)
    splits = ["train" if i % 2 else "test" for i in range(n)]
    data = dataset_of(images, ["car", "road", "tree"], splits)
    place = pl.Series("place", [("north", "south")[i % 4 // 2] for i in range(n)])
    return Dataset.build(data.images.with_columns(place), data.classes, data.areas)


def planted_predictions(
    data: Dataset, *, missed: float = 0.5, claimed: float = 0.4, usual: float = 0.1, seed: int = 1
) -> pl.DataFrame:
    """Answers about cars that err in ``missed`` of the cars without a road, in ``claimed`` of the
    roads without a car, and in ``usual`` of the others.
    """
    random = np.random.default_rng(seed)
    car, road = data.labels("car"), data.labels("road")
    rate = np.where(car & ~road, missed, np.where(~car & road, claimed, usual))
    wrong = random.random(len(data)) < rate
    return pl.DataFrame(
        {
            "image_id": data.images["image_id"],
            "task": "car",
            "logit": np.where(car ^ wrong, 2.0, -2.0),
        }
    )
