"""A small collection with all that the report shows, and readers of a site's files."""

from __future__ import annotations

import base64
import json
from dataclasses import fields
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import polars as pl
from made_runs import made_runs
from oracles import dataset_of
from PIL import Image

from nooch.criteria import CE, Combination, Context, Gist
from nooch.data import Dataset
from nooch.evaluation.answer_sample import answers_as_predictions
from nooch.evaluation.answers import Answers
from nooch.paper.sheet import report_tables
from nooch.report.images.sources import Sources
from nooch.report.site.site import write_report
from nooch.suites import Suite
from nooch.suites.find import find

HOSTILE = "<script>window.hacked = 1</script>\"'&</script><img src=x onerror=hacked=1>\u2028"
HOSTILE += "\u202eright-to-left \u05d0\u05d1"
MARKUP = "ro|ad *of* `a` [b](c) ~~d~~ <i>e"
"""A class whose name has what Markdown and HTML read."""
LONG = "word " * 2000
CLASSES = ["car", "cow", "lamp", "road", "person", "grass", "tree"]
TASKS = ["car", "cow", "lamp"]
PAGES = ("index", "explore", "results", "criteria", "examples")
_DTYPES = {"u1": "<u1", "u4": "<u4", "f4": "<f4", "f8": "<f8"}


def site_data(folder: Path, *, classes=CLASSES, captions=True, pictures=True, seed=0) -> Dataset:
    """Cars on roads with persons, cows on grass, lamps without context.

    Areas are on a grid, so that many are equal to thresholds. The first test image is large, the
    second is no image, the third is missing, the fourth has a hostile file name.
    """
    random, n = np.random.default_rng(seed), 240
    car, cow, lamp, road, person, grass, tree = classes
    images = []
    for _ in range(n):
        image = {}
        kind = random.integers(3)
        if kind == 0 and random.random() < 0.7:
            image |= {road: random.integers(1, 12) / 20, person: random.integers(0, 8) / 20}
        if kind == 1 and random.random() < 0.7:
            image |= {grass: random.integers(1, 14) / 20}
        if random.random() < (0.7 if kind == 0 else 0.1):
            image[car] = random.integers(1, 4) / 40
        if random.random() < (0.7 if kind == 1 else 0.1):
            image[cow] = random.integers(1, 4) / 40
        if random.random() < 0.2:
            image[lamp] = 0.9
        if random.random() < 0.3:
            image[tree] = random.integers(1, 8) / 20
        images.append(image)
    splits = [("train", "valid", "test")[0 if i < n // 2 else 1 + (i % 4 > 0)] for i in range(n)]
    plain = dataset_of(images, list(classes), splits)
    files = [f"im{i:03d}.jpg" for i in range(n)]
    test = [i for i in range(n) if splits[i] == "test"]
    files[test[3]] = 'a"><script>hacked=1<script>.jpg'.replace("/", "")
    if pictures:
        for i, name in enumerate(files):
            size = (300, 200) if i == test[0] else (24, 18)
            pixels = random.integers(0, 255, (size[1], size[0], 3)).astype(np.uint8)
            Image.fromarray(pixels).save(folder / name)
        (folder / files[test[1]]).write_bytes(b"no image")
        (folder / files[test[2]]).unlink()
    size = {"width": pl.lit(24), "height": pl.lit(18)}
    frame = plain.images.with_columns(file_name=pl.Series(files), **size)
    texts = [HOSTILE, LONG, "a plain caption", " spaced "]
    image_ids = [i for i in frame["image_id"] for _ in range(2)]
    captioned = {"image_id": image_ids, "caption": [texts[k % 4] for k in range(2 * n)]}
    # a few directions only, so that supports tie; some images have no embedding
    directions = random.normal(size=(30, 5))
    embedding = directions[random.integers(0, 30, n)]
    embedding[::17] = np.nan
    return Dataset.build(
        frame, plain.classes, plain.areas, pl.DataFrame(captioned) if captions else None,
        embeddings={"words": embedding}, image_root=str(folder) if pictures else None,
        provenance={"area": "segments", "reader": "made up"},
    )  # fmt: skip


def site_suite(data: Dataset, *, alpha=0.05, beta=0.1, tau=None, tasks=TASKS, context=False):
    """CE, gist (matched, or by tau), both together, and if wanted what labels tell."""
    gist = Gist("words", tau)
    criteria = {"ce": CE(alpha, beta), "gist": gist, "both": Combination("ce & gist")}
    if context:
        criteria["labels"] = Context()
    return find(data, criteria, tasks=tasks, match=None if tau is not None else "ce")


def made_site(folder: Path, *, runs=True, **options):
    """A report of the small collection: (site, suite, data, folder of runs)."""
    pictures = folder / "images"
    pictures.mkdir()
    data = site_data(pictures)
    suite = site_suite(data)
    trained = made_runs(folder / "runs", suite, tasks=("car", "cow")) if runs else None
    options |= {"data": data, "runs": [trained.path] if trained else (), "bootstrap": 20}
    done = report_of(suite, folder / "site", tables=report_tables, **options)
    return done, suite, data, trained


def report_of(suite: Suite, out: Path, **given):
    """A report of a suite from what is given: sources, or how the report is."""
    named = {field.name for field in fields(Sources)}
    sources = Sources(suite=suite, **{key: given.pop(key) for key in named & set(given)})
    return write_report(sources, out, **given)


def yes_to_all(suite: Suite, tasks, run: str):
    """What a model says to all questions of tasks: yes, at length."""
    ids = suite.set(suite.criteria[0], tasks[0], "test").image_ids
    frame = pl.DataFrame({"image_id": ids}).join(pl.DataFrame({"task": tasks}), how="cross")
    texts = {"question": "Is there one in the image? " * 4, "answer": f"{run} yes. " * 9}
    numbers = {"yes": 1.0, "weight": 1.0, "probability": None}
    columns = {name: pl.lit(value) for name, value in (texts | numbers).items()}
    frame = frame.with_columns(**columns).cast({"probability": pl.Float64})
    return answers_as_predictions(Answers(f"{run}_in_words", frame, "word"))


def page_text(done, page="index") -> str:
    """A page of a report that was written."""
    return (done.path / f"{page}.html").read_text(encoding="utf-8")


def read_script(path: Path):
    """(name, content) of a data file."""
    text = path.read_text(encoding="utf-8")
    assert text.startswith("nooch.put.apply(null, ")
    assert text.endswith(");\n")
    return json.loads(text.removeprefix("nooch.put.apply(null, ").removesuffix(");\n"))


def numbers(packed):
    """An array as it arrives."""
    ((kind, text),) = packed.items()
    return np.frombuffer(base64.b64decode(text), dtype=_DTYPES[kind])


class _TableParser(HTMLParser):
    """Rows of the tables of a page by caption or label."""

    def __init__(self):
        super().__init__()
        self.tables, self._row, self._cell, self._label = [], None, None, ""

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if attributes.get("role") == "region":
            self._label = attributes["aria-label"]
        if tag == "table":
            self.tables.append((self._label, []))
        if tag == "tr":
            self.tables[-1][1].append([])
        if tag in {"td", "th"}:
            self._cell = ""

    def handle_data(self, data):
        if self._cell is not None:
            self._cell += data

    def handle_endtag(self, tag):
        if tag in {"td", "th"}:
            self.tables[-1][1][-1].append(self._cell.strip())
            self._cell = None


def tables_of_page(path: Path) -> dict:
    """Tables of a page by caption or label, each a list of rows of texts."""
    parser = _TableParser()
    parser.feed(path.read_text(encoding="utf-8"))
    # the first of a name: tables next to the paper come later
    return dict(reversed(parser.tables))
