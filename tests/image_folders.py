"""Image folders as datasets, and tiny backbones with random weights."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
from PIL import Image
from scipy.sparse import csr_array

import nooch
from nooch.data import Dataset, save_dataset

PREPROCESSOR = {
    "do_resize": True, "size": {"height": 32, "width": 32}, "do_rescale": True,
    "rescale_factor": 1 / 255, "do_normalize": True, "image_mean": [0.5, 0.4, 0.3],
    "image_std": [0.5, 0.25, 0.2],
}  # fmt: skip


SMALL_RESNET = {
    "layer_type": "basic", "embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1],
}  # fmt: skip
"""Configuration of a ResNet of two stages."""


def smooth(seed: int, width: int, height: int) -> Image.Image:
    """A picture with soft shapes, as photographs have them."""
    coarse = np.random.default_rng(seed).integers(0, 255, (6, 8, 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)


def image_dataset(
    folder: Path, count: int, *, text_ids: bool = False, size: tuple[int, int] = (64, 48)
) -> Dataset:
    """Pictures ``folder/images/N.jpg`` and the dataset of them."""
    (folder / "images").mkdir(parents=True, exist_ok=True)
    names = [f"{i:03d}.jpg" for i in range(count)]
    for i, name in enumerate(names):
        smooth(i, *size).save(folder / "images" / name, quality=92)
    ids = [f"im-{i:03d}" for i in range(count)] if text_ids else range(count)
    frame = pl.DataFrame({"image_id": ids, "file_name": names})
    return Dataset.build(frame, ["car"], csr_array((count, 1)), image_root=str(folder / "images"))


def street_images(folder: Path) -> Dataset:
    """24 pictures of ``image_dataset`` with areas of cars, water birds and streets."""
    plain = image_dataset(folder, 24)
    areas = np.zeros((24, 3))
    areas[:12, 0], areas[::3, 1], areas[6:18, 2] = 0.2, 0.3, 0.4
    classes = ["car", "water_bird", "street"]
    return Dataset.build(plain.images, classes, csr_array(areas), image_root=plain.image_root)


def street_suite(folder: Path) -> Path:
    """The folder with ``data``, the images, and ``suite``, by the areas of streets."""
    save_dataset(street_images(folder), folder / "data")
    cues = {"car": ["street"], "water_bird": ["street"]}
    suite = nooch.find(folder / "data", {"ce": nooch.CE(cues=cues)}, tasks=[*cues])
    nooch.save_suite(suite, folder / "suite")
    return folder


def save_model(model, folder: Path, preprocessor: dict | None = PREPROCESSOR) -> Path:
    """A folder as ``save_pretrained`` makes it, with an image processor's file."""
    model.save_pretrained(folder)
    if preprocessor is not None:
        (folder / "preprocessor_config.json").write_text(json.dumps(preprocessor))
    return folder


def tiny_resnet(folder: Path, seed: int = 0) -> Path:
    """A ResNet of two stages with random weights: 16 features of 32 x 32 pixels."""
    import torch
    from transformers import ResNetConfig, ResNetModel

    torch.manual_seed(seed)
    return save_model(ResNetModel(ResNetConfig(**SMALL_RESNET)), folder)
