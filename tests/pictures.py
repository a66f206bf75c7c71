"""Small pictures with an object and a context, as pixels for training, and a network for them."""

import numpy as np
import polars as pl
from PIL import Image
from pixel_arrays import Pictures
from scipy.sparse import csr_array

from nooch.data import Dataset
from nooch.training.training_data import TrainingData

CONFIG = {
    "model_type": "resnet",
    "layer_type": "basic",
    "embedding_size": 8,
    "hidden_sizes": [8, 16],
    "depths": [1, 1],
}
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
    rows = {
        "train": np.arange(n_train),
        "valid": np.arange(n_train, n_train + n_other),
        "test": np.arange(n_train + n_other, n),
    }
    environments = {"car": (2 * y + cue).astype(np.uint8)}
    return TrainingData(
        Pictures(array.clip(0, 255).astype(np.uint8)), rows, {"car": y}, environments
    )


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
    frame = pl.DataFrame(
        {"image_id": range(len(names)), "file_name": names, "split": splits.tolist()}
    )
    areas = csr_array(np.stack([0.1 * y, 0.9 * cue], axis=1))
    return Dataset.build(frame, ["car", "road"], areas, image_root=str(folder / "images"))
