"""A small suite on generated COCO files, and a stand-in for FiftyOne in memory."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from coco_files import STUFF, document, image, write
from drawn_scenes import data, scenes
from in_memory import read_coco
from PIL import Image
from scipy.sparse import csr_array
from sites import report_of, site_data, site_suite

from nooch.base.split_plan import SplitPlan
from nooch.criteria import CE, Combination
from nooch.data import Dataset, save_dataset
from nooch.data.importing.import_dataset import with_split
from nooch.suites import ChallengeSet, CriterionRecord, DatasetRecord, Mark, Suite, save_suite
from nooch.suites.find import find

__all__ = ["data", "scenes"]

N = 40


@dataclass(frozen=True)
class Made:
    """Annotation files and images, their dataset and suite, also as folders of these names."""

    folder: Path
    data: Dataset
    suite: Suite

    @property
    def annotations(self) -> list[Path]:
        return [self.folder / "things.json", self.folder / "stuff.json"]


@pytest.fixture(scope="session")
def made(tmp_path_factory) -> Made:
    """Cars and fire hydrants with and without road, in 40 images of 10 x 10 pixels."""
    folder = tmp_path_factory.mktemp("exports")
    images = [
        image(i, 10, 10, license=1, coco_url=f"https://example.org/{i}.jpg")
        for i in range(1, N + 1)
    ]
    things = [_annotation(i, 3, 10) for i in range(1, N + 1) if i % 3 == 0]
    things += [_annotation(i, 11, 5) for i in range(1, N + 1) if i % 5 == 0]
    stuff = [_annotation(i, 149, 8 * (i % 4)) for i in range(1, N + 1) if i % 4]
    write(folder / "things.json", document(images, things))
    stuff = [{"id": 1000 + n, **annotation} for n, annotation in enumerate(stuff)]
    write(folder / "stuff.json", document(images, stuff, STUFF))
    (folder / "images").mkdir()
    for i in range(1, N + 1):
        Image.new("L" if i % 2 else "RGB", (10, 10), i).save(folder / "images" / f"{i:012d}.jpg")
    read = read_coco([folder / "things.json"], [folder / "stuff.json"], images=folder / "images")
    data = with_split(read, SplitPlan("40/30/30"))
    cues = {"car": ("road",), "fire_hydrant": ("road", "car")}
    criteria = {"ce": CE(cues=cues), "~ce": Combination("~ce")}
    splits = ["valid", "test"]
    suite = find(data, criteria, tasks=["car", "fire_hydrant"], splits=splits, path="../dataset")
    save_dataset(data, folder / "dataset")
    save_suite(suite, folder / "suite")
    return Made(folder, data, suite)


@pytest.fixture(scope="session")
def bare(tmp_path_factory):
    """(data, suite) of the small collection of sites, without pictures."""
    data = site_data(tmp_path_factory.mktemp("bare"), pictures=False)
    return data, site_suite(data)


@pytest.fixture
def report(bare, tmp_path):
    """A function that writes a report of it, without resamples unless asked for."""

    def write(predictions=None, name="site", **options):
        given = {"data": bare[0], "predictions": predictions, "bootstrap": 0, **options}
        return report_of(bare[1], tmp_path / name, **given)

    return write


def _annotation(image_id: int, category: int, area: float) -> dict[str, Any]:
    side = float(area)
    shape = [[0.0, 0.0, side, 0.0, side, 1.0, 0.0, 1.0]]
    about = {"image_id": image_id, "category_id": category, "area": side}
    about["bbox"] = [0.0, 0.0, side, 1.0]
    return {**about, "iscrowd": 0, "segmentation": shape}


@pytest.fixture
def published(made) -> Suite:
    """The same images without support, fitted criterion, dataset or license."""
    keys = [key for key in made.suite.keys if key[0] == "ce"]
    return Suite.from_sets(
        {key: replace(made.suite.set(*key), support=None) for key in keys},
        dataset=DatasetRecord("published-0", N, {"valid": 12, "test": 12}),
        criteria={"ce": CriterionRecord("ce", {})},
        skipped=[],
        tasks=["car", "fire_hydrant"],
        splits=["valid", "test"],
    )


def suite_of(
    names: dict[str, list[str]], ids: list[int] | list[str], split: str = "test", **record: Any
) -> Suite:
    """Criterion -> tasks; of the images the even ones are positive, the first and last two hard."""
    n = len(ids)
    labels = np.arange(n) % 2 == 0
    codes = np.zeros(n, np.int8)
    codes[[0, n - 2, n - 1]] = 1
    frame = pl.DataFrame({"image_id": ids, "split": [split] * n})
    tasks = list(dict.fromkeys(task for listed in names.values() for task in listed))
    present = csr_array(np.repeat(labels[:, None].astype(float), len(tasks), axis=1))
    data = Dataset.build(frame, tasks, present)
    keys = [(criterion, task, split) for criterion, listed in names.items() for task in listed]
    rows = data.images["image_id"]
    sets = {k: ChallengeSet.from_mark(*k, Mark(codes), rows, data.labels(k[1])) for k in keys}
    return Suite.from_sets(
        sets,
        dataset=DatasetRecord(data.fingerprint, n, data.splits, **record),
        criteria={name: CriterionRecord("attribute", {}) for name in names},
        skipped=[],
        tasks=tasks,
        splits=[split],
    )


@pytest.fixture
def make_suite():
    """A function that makes a suite by hand."""
    return suite_of


class FakeView:
    """Some samples of a FakeDataset."""

    def __init__(self, dataset: FakeDataset, ids: list[str]) -> None:
        self._dataset, self._ids = dataset, ids

    def values(self, field):
        if isinstance(field, list):
            return [self.values(one) for one in field]
        return [sample[field] for sample in self._dataset.samples if sample["id"] in self._ids]

    def _tags(self):
        return [sample["tags"] for sample in self._dataset.samples if sample["id"] in self._ids]

    def tag_samples(self, tag):
        for tags in self._tags():
            tags.add(tag)

    def untag_samples(self, tag):
        for tags in self._tags():
            tags.discard(tag)


class FakeDataset(FakeView):
    """What the export uses of FiftyOne's datasets."""

    def __init__(self, samples: list[dict[str, Any]]) -> None:
        self.samples = [{"id": f"s{n}", "tags": set(), **s} for n, s in enumerate(samples)]
        self.views: dict[str, FakeView] = {}
        self.info: dict[str, Any] = {}
        self.saved = 0
        super().__init__(self, [sample["id"] for sample in self.samples])

    def get_field_schema(self):
        return dict.fromkeys(self.samples[0])

    def select(self, ids):
        return FakeView(self, list(ids))

    def match_tags(self, tag):
        return FakeView(self, [s["id"] for s in self.samples if tag in s["tags"]])

    def count_sample_tags(self):
        tags = {tag for sample in self.samples for tag in sample["tags"]}
        return {tag: len(self.match_tags(tag).values("id")) for tag in tags}

    def has_saved_view(self, name):
        return name in self.views

    def save_view(self, name, view):
        # as FiftyOne: views are distinguished by letters and digits alone
        if _slug(name) in map(_slug, self.views):
            raise ValueError("there is a view of that name")
        self.views[name] = view

    def save(self):
        self.saved += 1

    @property
    def state(self):
        """Everything that an export may change."""
        return [sorted(s["tags"]) for s in self.samples], sorted(self.views), dict(self.info)


def _slug(name: str) -> str:
    return re.sub("[^a-z0-9]+", "-", name.lower())


class FakeFiftyOne:
    """The module."""

    def __init__(self) -> None:
        self.datasets: dict[str, FakeDataset] = {}

    def dataset_exists(self, name):
        return name in self.datasets

    def list_datasets(self):
        return sorted(self.datasets)

    def load_dataset(self, name):
        return self.datasets[name]


@pytest.fixture
def fiftyone(monkeypatch, made) -> FakeFiftyOne:
    """FiftyOne's stand-in, with a dataset ``photos`` of all images and of another one."""
    fake = FakeFiftyOne()
    names = [*made.data.images["file_name"], "other.jpg"]
    root = made.data.image_root
    fake.datasets["photos"] = FakeDataset([{"filepath": f"{root}/{name}"} for name in names])
    monkeypatch.setitem(sys.modules, "fiftyone", fake)
    return fake
