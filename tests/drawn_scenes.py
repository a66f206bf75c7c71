"""A small collection of scenes, drawn once for all tests: fixtures that packages import."""

from __future__ import annotations

from pathlib import Path

import pytest
from in_memory import read_coco

from nooch.base.split_plan import SplitPlan
from nooch.data import Dataset
from nooch.data.importing.import_dataset import with_split
from nooch.scenes import ScenesPlan, generate

PLAN = ScenesPlan(images=240, size=64, seed=3)


def read(folder: Path) -> Dataset:
    kinds = ("instances", "stuff", "captions")
    files = ([folder / "annotations" / f"{kind}_scenes.json"] for kind in kinds)
    return read_coco(*files, images=folder / "images")


@pytest.fixture(scope="session")
def scenes(tmp_path_factory) -> Path:
    return generate(PLAN, tmp_path_factory.mktemp("scenes") / "out")


@pytest.fixture(scope="session")
def data(scenes) -> Dataset:
    return with_split(read(scenes), SplitPlan("50/10/40"))
