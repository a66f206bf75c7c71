"""A small suite on COCO files that are made up, and a stand-in for FiftyOne that keeps everything
in memory.
"""

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
from PIL import Image

from nooch.challenge import ChallengeSet, CriterionRecord, DatasetRecord, Mark, Suite, save_suite
from nooch.criteria import CE, Combination
from nooch.data import Dataset, save_dataset
from nooch.finding.suite_builder import find
from nooch.importing.dataset_import import with_split
from nooch.plans import SplitPlan
from nooch.readers.coco.coco_reader import read_coco

N = 40


@dataclass(frozen=True)
class Made:
    """Annotation files, images, and what was made of them: in memory, and as folders ``dataset``
    and ``suite``.
    """

    folder: Path
    data: Dataset
    suite: Suite

    @property
    def annotations(self) -> list[Path]:
        return [self.folder / "things.json", self.folder / "stuff.json"]


@pytest.fixture(scope="session")
def made(tmp_path_factory) -> Made:
    """Cars and fire hydrants with and without road, in 40 images of 10 x 10 pixels; three criteria,
    three tasks.
    """
    folder = tmp_path_factory.mktemp("exports")
    images = [
        image(i, 10, 10, license=1, coco_url=f"https://example.org/{i}.jpg")
        for i in range(1, N + 1)
    ]
    things = [_annotation(i, 3, 10) for i in range(1, N + 1) if i % 3 == 0]
    things += [_annotation(i, 11, 5) for i in range(1, N + 1) if i % 5 == 0]
    stuff = [_annotation(i, 149, 8 * (i % 4)) for i in range(1, N + 1) if i % 4]
    write(folder / "things.json", document(images, things))
    write(
        folder / "stuff.json",
        document(images, [{"id": 1000 + n, **a} for n, a in enumerate(stuff)], STUFF),
    )
    (folder / "images").mkdir()
    for i in range(1, N + 1):
        Image.new("L" if i % 2 else "RGB", (10, 10), i).save(folder / "images" / f"{i:012d}.jpg")
    read = read_coco([folder / "things.json"], [folder / "stuff.json"], images=folder / "images")
    data = with_split(read, SplitPlan("40/30/30"))
    cues = {"car": ("road",), "fire_hydrant": ("road", "car")}
    criteria = {"ce": CE(cues=cues), "~ce": Combination("~ce")}
    suite = find(
        data, criteria, tasks=["car", "fire_hydrant"], splits=["valid", "test"], path="../dataset"
    )
    save_dataset(data, folder / "dataset")
    save_suite(suite, folder / "suite")
    return Made(folder, data, suite)


def _annotation(image_id: int, category: int, area: float) -> dict[str, Any]:
    side = float(area)
    shape = [[0.0, 0.0, side, 0.0, side, 1.0, 0.0, 1.0]]
    return {
        "image_id": image_id,
        "category_id": category,
        "area": side,
        "iscrowd": 0,
        "segmentation": shape,
    }


@pytest.fixture
def published(made) -> Suite:
    """The same images as others would publish them: no support, no fitted criterion, no dataset, no
    licence.
    """
    sets = {}
    for key in made.suite.keys:
        if key[0] == "ce":
            sets[key] = replace(made.suite.set(*key), support=None)
    return Suite.of(
        sets,
        dataset=DatasetRecord("published-0", N, {"valid": 12, "test": 12}),
        criteria={"ce": CriterionRecord("ce", {})},
        skipped=[],
        tasks=["car", "fire_hydrant"],
        splits=["valid", "test"],
    )


def suite_of(
    names: dict[str, list[str]], ids: list[int] | list[str], split: str = "test", **record: Any
) -> Suite:
    """A suite by hand: criterion -> tasks; of the images the even ones are positive, the first and
    the last two are hard.
    """
    n = len(ids)
    labels = np.arange(n) % 2 == 0
    codes = np.zeros(n, np.int8)
    codes[[0, n - 2, n - 1]] = 1
    frame = pl.DataFrame({"image_id": ids, "split": [split] * n})
    from scipy.sparse import csr_array

    tasks = list(dict.fromkeys(task for listed in names.values() for task in listed))
    present = csr_array(np.repeat(labels[:, None].astype(float), len(tasks), axis=1))
    data = Dataset.build(frame, tasks, present)
    sets = {
        (criterion, task, split): ChallengeSet.from_mark(
            criterion, task, split, Mark(codes), data.images["image_id"], data.labels(task)
        )
        for criterion, listed in names.items()
        for task in listed
    }
    return Suite.of(
        sets,
        dataset=DatasetRecord(data.fingerprint, n, data.splits, **record),
        criteria={name: CriterionRecord("attribute", {}) for name in names},
        skipped=[],
        tasks=tasks,
        splits=[split],
    )


@pytest.fixture
def make_suite():
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
        self.samples = [
            {"id": f"s{n}", "tags": set(), **sample} for n, sample in enumerate(samples)
        ]
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
        return {
            tag: len(self.match_tags(tag).values("id")) for s in self.samples for tag in s["tags"]
        }

    def has_saved_view(self, name):
        return name in self.views

    def save_view(self, name, view):
        # as FiftyOne: what is no letter or digit does not tell views apart
        if re.sub("[^a-z0-9]+", "-", name.lower()) in {
            re.sub("[^a-z0-9]+", "-", v.lower()) for v in self.views
        }:
            raise ValueError("there is a view of that name")
        self.views[name] = view

    def delete_saved_view(self, name):
        del self.views[name]

    def save(self):
        self.saved += 1

    @property
    def state(self):
        """Everything that an export may change."""
        return [sorted(s["tags"]) for s in self.samples], sorted(self.views), dict(self.info)


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
    """FiftyOne's stand-in, with a dataset ``photos`` of all images and a sample that is none of
    them.
    """
    fake = FakeFiftyOne()
    paths = [f"/photos/{name}" for name in made.data.images["file_name"]]
    fake.datasets["photos"] = FakeDataset(
        [{"filepath": path} for path in [*paths, "/photos/other.jpg"]]
    )
    monkeypatch.setitem(sys.modules, "fiftyone", fake)
    return fake
