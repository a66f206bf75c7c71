"""Small pictures in memory that networks can learn, and tiny networks to learn them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from image_folders import save_model, tiny_resnet

from nooch.training.objectives import OBJECTIVES, TrainingCounts


@dataclass(frozen=True, eq=False)
class Pictures:
    """Reads like a ``PixelCache``."""

    array: np.ndarray

    @property
    def size(self):
        return self.array.shape[1:3]

    def __len__(self):
        return len(self.array)

    def batch(self, rows, out=None):
        return np.take(self.array, rows, axis=0, out=out, mode="clip")


def squares(count=90, size=32, seed=0):
    """Noise with a red square for y and a green one for the cue: pictures, y, environments."""
    random = np.random.default_rng(seed)
    y = random.random(count) < 0.4
    cue = random.random(count) < np.where(y, 0.8, 0.2)
    array = random.integers(0, 150, (count, size, size, 3), dtype=np.uint8)
    array[y, 8:20, 8:20, 0] += 90
    array[cue, 20:30, 20:30, 1] += 90
    return Pictures(array), y, (2 * y + cue).astype(np.uint8)


def tiny_vit(folder: Path, dropout=0.2, seed=0):
    """A vision transformer of two layers that drops out."""
    import torch
    from transformers import ViTConfig, ViTModel

    torch.manual_seed(seed)
    config = ViTConfig(
        hidden_size=12, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16,
        image_size=32, patch_size=8, hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )  # fmt: skip
    return save_model(ViTModel(config), folder)


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Tiny operations are faster on one thread, much faster on busy CPUs."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


TINY = {"resnet": tiny_resnet, "vit": tiny_vit}


def objective(name, labels, environments=None, variant="paper", **parameters):
    """Of one head for each column of labels, by the counts of these rows."""
    import torch

    labels = np.asarray(labels).reshape(len(labels), -1)
    if environments is None:
        environments = np.zeros_like(labels)

    def counts(values, kinds):
        columns = np.asarray(values).reshape(labels.shape).astype(int).T
        per_column = np.array([np.bincount(column, minlength=kinds) for column in columns])
        return torch.tensor(per_column.T).float()

    sizes = TrainingCounts(counts(labels, 2), counts(environments, 4))
    return OBJECTIVES[name](sizes, variant=variant, **parameters)


def fit(*args):
    """A ``NetworkPass`` of these arguments, trained until all networks have stopped."""
    from nooch.training.network_pass import NetworkPass

    trained = NetworkPass(*args)
    while not trained.finished:
        trained.step()
    return trained


def derived(objective, logits, labels, environments):
    """The loss of each head and its derivative by the logits."""
    return objective.derivative(objective.terms(logits, labels, environments))


def trained(source, pixels, y, n_train, *, cue=None, size=None, **changes):
    """A network of one pass for ``car``, and its logits of the rows after ``n_train``."""
    from nooch.models.networks import backbones
    from nooch.training.network_pass import Target
    from nooch.training.network_settings import TuneSettings

    settings = TuneSettings(**{"lr": 0.05, "batch": 16, "epochs": 1, **changes})
    rows = {"train": np.arange(n_train), "valid": np.arange(n_train, len(y))}
    labels = y[:, None].astype(np.float32)
    target = Target("car", labels, objective("erm", y[:n_train]), auxiliary=cue)
    make = backbones(source, settings.network, size=size, device="cpu")
    found = fit(make, pixels, rows, [target], settings)
    return found.network(0), found.logits("valid")[0]
