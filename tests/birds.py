"""Small folders like CUB-200-2011 and Places, with flat colors that show each pixel's origin."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

SPECIES = (
    "001.Black_footed_Albatross",
    "021.Eastern_Towhee",
    "059.California_Gull",
    "070.Green_Violetear",
    "118.House_Sparrow",
)
"""Two sea birds, two land birds, and a towhee, whose name has "tern" in it."""
CATEGORIES = ("b/bamboo_forest", "f/forest/broadleaf", "o/ocean", "l/lake/natural")
SIZE = (60, 40)
BIRD = (250, 40, 40)


def mask_of(number: int) -> np.ndarray:
    """Mask of an image's bird: a rectangle of 255, its lower edge 102."""
    mask = np.zeros((SIZE[1], SIZE[0]), np.uint8)
    left = 5 + number % 20
    mask[10:30, left : left + 20] = 255
    mask[30:34, left : left + 20] = 102
    return mask


def background_of(number: int) -> Image.Image:
    """A place twice as wide as high: green, then blue; white at both ends, which are cut off."""
    pixels = np.zeros((50, 100, 3), np.uint8)
    pixels[:, :50], pixels[:, 50:] = (0, 200, number % 50), (0, 0, 200)
    pixels[:, :10] = pixels[:, 90:] = 255
    return Image.fromarray(pixels)


def cub_folder(root: Path, each: int = 12, *, ending: str = "jpg") -> Path:
    """CUB with so many images of each species, two thirds of them for training."""
    lines, splits = [], []
    number = 0
    for species in SPECIES:
        for folder in ("images", "segmentations"):
            (root / folder / species).mkdir(parents=True)
        for i in range(each):
            number += 1
            name = f"{species}/{species.partition('.')[2]}_{i:04d}"
            Image.new("RGB", SIZE, BIRD).save(root / "images" / f"{name}.{ending}", quality=95)
            Image.fromarray(mask_of(number)).save(root / "segmentations" / f"{name}.png")
            lines.append(f"{number} {name}.{ending}")
            splits.append(f"{number} {int(i % 3 > 0)}")
    (root / "images.txt").write_text("\n".join(lines) + "\n")
    (root / "train_test_split.txt").write_text("\n".join(splits) + "\n")
    return root


def places_folder(root: Path, each: int = 40) -> Path:
    """Places with so many images of each category."""
    for place, category in enumerate(CATEGORIES):
        folder = root / "data_large" / category
        folder.mkdir(parents=True)
        for i in range(each):
            background_of(place * each + i).save(folder / f"{i:08d}.jpg", quality=95)
    return root
