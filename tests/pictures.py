"""Small pictures with an object and a context, as pixels for training, and a network for them."""

import numpy as np
import polars as pl
from image_folders import SMALL_RESNET
from PIL import Image
from pixel_arrays import Pictures
from scipy.sparse import csr_array

from nooch.data import Dataset
from nooch.training.training_data import TrainingData

CONFIG = {"model_type": "resnet", **SMALL_RESNET}
"""A small ResNet, for ``config:FILE.json``."""


def pictures(n_train=160, n_other=80, size=16, seed=0, agrees=0.95, strength=80, noise=150):
    """The context colors the whole picture, the object a corner; in training they go together."""
    random = np.random.default_rng(seed)
    n = n_train + 2 * n_other
    y = random.random(n) < 0.4
    together = random.random(n) < np.where(np.arange(n) < n_train, agrees, 0.5)
    cue = np.where(together, y, ~y)
    array = random.integers(0, noise, (n, size, size, 3))
    array[..., 1] += 60 * cue[:, None, None]
    quarter = size // 4
    for row in np.flatnonzero(y):
        top, left = random.integers(0, size - quarter, 2)
        array[row, top : top + quarter, left : left + quarter, 0] += strength
    splits = np.split(np.arange(n), [n_train, n_train + n_other])
    rows = dict(zip(("train", "valid", "test"), splits, strict=True))
    inputs = Pictures(array.clip(0, 255).astype(np.uint8))
    return TrainingData(inputs, rows, {"car": y}, {"car": (2 * y + cue).astype(np.uint8)})


def picture_dataset(folder, **options):
    """The same pictures as files, and a dataset of them with the classes car and road."""
    data = pictures(**options)
    (folder / "images").mkdir(parents=True)
    names = [f"{number:04d}.png" for number in range(len(data.inputs))]
    for name, array in zip(names, data.inputs.array, strict=True):
        Image.fromarray(array).save(folder / "images" / name)
    y, cue = data.labels["car"], data.environments["car"] % 2 == 1
    splits = np.empty(len(names), dtype=object)
    for split, rows in data.rows.items():
        splits[rows] = split
    columns = {"image_id": range(len(names)), "file_name": names, "split": splits.tolist()}
    frame = pl.DataFrame(columns)
    areas = csr_array(np.stack([0.1 * y, 0.9 * cue], axis=1))
    return Dataset.build(frame, ["car", "road"], areas, image_root=str(folder / "images"))
