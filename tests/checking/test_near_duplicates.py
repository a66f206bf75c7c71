"""Near-duplicates: brighter, smaller and cropped copies are found, other images are not."""

import numpy as np
import polars as pl
from PIL import Image
from planted import planted_data, planted_predictions
from scipy.sparse import csr_array

from nooch.checking.near_duplicates import near_duplicates
from nooch.checking.slice_search import find_slices
from nooch.data import Dataset
from nooch.readers.image_files import ImageIndex


def photograph(seed):
    """Large shapes of any brightness, with noise."""
    random = np.random.default_rng(seed)
    coarse = Image.fromarray(random.integers(0, 256, (6, 8), np.uint8))
    smooth = np.asarray(coarse.resize((320, 240), Image.Resampling.BICUBIC), float)
    return np.clip(smooth + random.normal(0, 4, smooth.shape), 0, 255).astype(np.uint8)


def dataset(folder, pictures):
    for name, pixels in pictures.items():
        Image.fromarray(pixels).save(folder / name)
    images = pl.DataFrame({"image_id": range(len(pictures)), "file_name": list(pictures)})
    return Dataset.build(images, ["car"], csr_array((len(pictures), 1)))


def test_copies_are_grouped_with_their_original(tmp_path):
    originals = {f"{seed}.png": photograph(seed) for seed in range(300)}
    first = originals["0.png"]
    copies = {
        "brighter.png": np.clip(first * 0.8 + 40, 0, 255).astype(np.uint8),
        "smaller.jpg": np.asarray(Image.fromarray(first).resize((160, 120))),
        "cropped.png": first[4:-4, 4:-4],
    }
    data = dataset(tmp_path, {**originals, **copies})
    (tmp_path / "7.png").write_bytes(b"no image")
    (tmp_path / "8.png").unlink()
    groups = near_duplicates(data, ImageIndex(tmp_path))
    assert groups.shape == (303,)
    assert set(groups[300:]) == {groups[0]}
    assert len(np.unique(groups)) == 300


def test_without_readable_images_all_are_apart(tmp_path):
    data = dataset(tmp_path, {"a.png": photograph(0), "b.png": photograph(0)})
    for file in tmp_path.iterdir():
        file.write_bytes(b"")
    assert sorted(near_duplicates(data, ImageIndex(tmp_path))) == [0, 1]


def test_slices_say_how_many_there_are(tmp_path):
    data = planted_data(60)
    for number in range(60):
        Image.fromarray(photograph(number // 2)).save(tmp_path / f"{number}.png")
    names = pl.Series("file_name", [f"{number}.png" for number in range(60)])
    data = Dataset.build(
        data.images.with_columns(names, split=pl.lit("test")), data.classes, data.areas
    )
    found = find_slices(data, planted_predictions(data), images=tmp_path)
    assert found.settings["halves"].startswith("near-duplicates (30) are in the half")
    assert found.settings["options"]["images"] == str(tmp_path)
