"""A dataset with only images for training: what commands say, and that they take it."""

import numpy as np
import polars as pl
import pytest
from coco_files import PHOTO, write
from planted import planted_data, planted_predictions


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A data.yaml of YOLO that has only ``train``, and predictions."""
    root, data = tmp_path_factory.mktemp("yolo"), planted_data(300)
    write(root / "data.yaml", "train: images/train\nnames: [car, road, tree]\n")
    for image, *present in zip(data.image_ids, *map(data.labels, data.classes), strict=True):
        rows = [f"{number} .5 .5 .6 .6" for number in np.flatnonzero(present)]
        write(root / f"images/train/{image}.jpg", PHOTO)
        write(root / f"labels/train/{image}.txt", "\n".join(rows))
    planted_predictions(data).write_csv(root / "p.csv")
    return root


@pytest.fixture
def run(run_cli, folder, monkeypatch, tmp_path):
    monkeypatch.chdir(folder)
    return lambda words: run_cli(words.replace("OUT", str(tmp_path)))


DIVIDE = "or nooch import auto PATH DATASET --split 60/20/20 first"
TRAIN = ("allowed: train", f"give --split train; {DIVIDE}")


def test_every_command_names_the_split_and_takes_it(run):
    run("check data.yaml p.csv --out OUT/c").refused("neither a test nor a valid split", *TRAIN)
    run("check data.yaml p.csv --out OUT/c --split train --bootstrap 0").ok()
    run("import auto data.yaml OUT/data").ok()
    usual = (
        "check OUT/data p.csv --out OUT/d", "find OUT/data --out OUT/s", "slices OUT/data p.csv",
        "sweep OUT/data --alpha 0.05 --beta 0.1 --out OUT/w",
    )  # fmt: skip
    for words in usual:
        run(words).refused("neither a test nor a valid split", *TRAIN)
        run(f"{words} --split test").refused("'test' is not a split of the dataset", *TRAIN)
        run(f"{words} --split train").ok()
    run("predict OUT/data --model a:B --out OUT/p.csv --split test").refused("'test' is", *TRAIN)
    again = "give --split train; or nooch find DATASET --out OUT --split test first"
    for words in (
        "evaluate OUT/s p.csv", "validity OUT/s p.csv --out OUT/v.csv",
        "audit OUT/s --predictions p.csv --out OUT/a", "export OUT/s OUT/e --to ids",
        "report OUT/s --out OUT/r", "gallery OUT/s --task car --out OUT/g.png",
    ):  # fmt: skip
        run(f"{words} --split test").refused("'test' is not a split of the suite", again)


def test_images_are_divided_at_import(run, tmp_path):
    run("import auto data.yaml OUT/data --split 60/20/20").ok()
    counts = pl.read_parquet(tmp_path / "data/images.parquet")["split"].value_counts()
    assert dict(counts.rows()) == {"train": 180, "valid": 60, "test": 60}
    run("check OUT/data p.csv --out OUT/c --min-hard 1 --bootstrap 0").ok()
