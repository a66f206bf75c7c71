"""Images of cars, roads and trees, and predictions that err where the context misleads."""

from __future__ import annotations

import numpy as np
import polars as pl
from oracles import dataset_of
from scipy.sparse import csr_array

from nooch.data import Dataset
from nooch.evaluation import Predictions
from nooch.evaluation.boxes.matching import Boxes, Detections


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


def planted_detector() -> tuple[Dataset, Predictions, dict[str, list[float]]]:
    """2,000 images with one to three cars each, or none, more with a road; a detector that misses a
    car with probability .1 on a road and .4 without, and claims one on .3 of the empty roads; and
    its rates out of context and in context.
    """
    draw = np.random.default_rng(3)
    present = draw.random(2000) < 0.5
    road = draw.random(2000) < np.where(present, 0.7, 0.3)
    n = np.where(present, draw.integers(1, 4, 2000), 0)
    image = np.repeat(np.arange(2000), n)
    number = np.concatenate([np.arange(count) for count in n])
    side = draw.integers(10, 90, len(image))
    objects = pl.DataFrame({
        "image_id": image, "class": "car", "left": 100.0 * number, "top": 0.0,
        "width": side * 1.0, "height": side * 1.0, "area": (side**2) * 1.0, "crowd": False,
        "ignore": False,
    })  # fmt: skip
    images = pl.DataFrame(
        {"image_id": np.arange(2000), "width": 400, "height": 100, "split": "all"}
    )
    areas = csr_array(np.stack([present * 0.05, road * 0.4], axis=1))
    data = Dataset.build(images, ["car", "road"], areas, objects=objects)
    found = draw.random(len(image)) < np.where(road, 0.9, 0.6)[image]
    claimed = np.flatnonzero(~present & (draw.random(2000) < np.where(road, 0.3, 0.02)))
    rows = np.concatenate([image[found], claimed])
    left = np.concatenate([100.0 * number[found], np.zeros(len(claimed))])
    size = np.concatenate([side[found] * 1.0, np.full(len(claimed), 30.0)])
    boxes = Boxes(rows, np.zeros(len(rows), int), np.stack([left, 0 * left, size, size], axis=1))
    values = np.zeros((1, 2000))
    values[0, rows] = 0.9
    run = Predictions(
        "detector", images["image_id"], ("car",), values, "probability",
        boxes=Detections(boxes, np.full(len(rows), 0.9)),
    )  # fmt: skip
    truth = {
        "missed": [(~found[~road[image]]).mean(), (~found[road[image]]).mean()],
        "false_boxes": [
            1000 * np.isin(np.flatnonzero(~present & side_), claimed).mean()
            for side_ in (road, ~road)
        ],
    }
    return data, run, truth
