"""A whole collection: images drawn in blocks by a map, and written in bounded memory."""

from __future__ import annotations

import builtins
import csv
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Self

import msgspec
import numpy as np
import PIL
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from msgspec import Meta
from PIL import Image, features

from nooch.base.calls import Map, Options, Progress, Seed, Share, no_progress
from nooch.base.files import atomic_folder
from nooch.base.version import __version__
from nooch.data import encode_header
from nooch.data.readers.cocostuff import COCOSTUFF, COCOSTUFF_IDS
from nooch.scenes.annotations import ID_STEP, Visible, annotated, visible
from nooch.scenes.captions import describe
from nooch.scenes.images import draw_image
from nooch.scenes.world import World, load_world

SCENES_MARKER = "scenes.json"
"""The file that marks a folder of scenes; it is written last."""

_BLOCK = 32
_QUALITY = 90
_ROWS = 50_000
_KINDS = ("instances", "stuff", "captions")
_CC0 = "https://creativecommons.org/publicdomain/zero/1.0/"


@dataclass(frozen=True)
class ScenesPlan(Options):
    """What to draw, checked before anything is drawn.

    Attributes:
        images: how many.
        size: side in pixels, 32 to 1024.
        seed: 0 and more.
        context_strength: s, 0 (objects regardless of scenes) to 1 (only where scenes hold them).
        world: the world.

    Raises:
        ParameterError: a number out of range.
    """

    images: Annotated[int, Meta(ge=1, le=1_000_000)] = 6000
    size: Annotated[int, Meta(ge=32, le=1024)] = 128
    seed: Seed = 0
    context_strength: Share = 0.9
    world: World = field(default_factory=load_world)

    def settings(self) -> dict[str, Any]:
        """Everything that the bytes of the collection depend on, besides the world."""
        return {
            "images": self.images,
            "size": self.size,
            "seed": self.seed,
            "context_strength": self.context_strength,
            "nooch": __version__,
            "numpy": np.__version__,
            "pillow": PIL.__version__,
            "jpeg": str(features.version("libjpeg_turbo") or features.version("jpg")),
            "quality": _QUALITY,
        }


def generate(
    plan: ScenesPlan,
    out: str | Path,
    *,
    overwrite: bool = False,
    map: Map = builtins.map,
    progress: Progress = no_progress,
) -> Path:
    """Draw a collection and write it in COCO's format.

    The folder holds ``images/``, ``annotations/instances_scenes.json``, ``stuff_scenes.json`` and
    ``captions_scenes.json``, ``truth.parquet`` (image_id, scene, task, present, strength, expected,
    against), ``world.yaml``, and ``scenes.json`` with the settings. Each image has a random stream
    of its own, so that the bytes do not depend on where it is drawn.
    """
    with atomic_folder(out, overwrite=overwrite, marker=SCENES_MARKER) as folder:
        (folder / "images").mkdir()
        (folder / "annotations").mkdir()
        stop = plan.images + 1
        blocks = [(first, min(first + _BLOCK, stop)) for first in range(1, stop, _BLOCK)]
        jobs = [_BlockJob(plan, str(folder / "images"), *block) for block in blocks]
        done = 0
        with _SceneFiles(plan, folder) as files:
            progress("drawing scenes", 0, plan.images)
            for job, block in zip(jobs, map(draw_block, jobs), strict=True):
                files.add(block)
                done += job.stop - job.first
                progress("drawing scenes", done, plan.images)
        text = yaml.safe_dump(msgspec.to_builtins(plan.world), sort_keys=False, width=120)
        (folder / "world.yaml").write_text(text, encoding="utf-8")
        header = {"format": "nooch-scenes", "version": 1, **plan.settings()}
        (folder / SCENES_MARKER).write_bytes(encode_header(header))
    return Path(out)


@dataclass(frozen=True)
class _BlockJob:
    plan: ScenesPlan
    folder: str
    first: int
    stop: int


@dataclass
class _Block:
    """The result for some images: records as JSON text, and the truth in columns."""

    text: dict[str, bytes]
    truth: dict[str, list[Any]]


def draw_block(job: _BlockJob) -> _Block:
    """Draw the images of a job and write their files. It runs in a worker process."""
    plan = job.plan
    records: dict[str, list[Any]] = {kind: [] for kind in _KINDS}
    truth: dict[str, list[Any]] = {name: [] for name in _TRUTH.names}
    for image in range(job.first, job.stop):
        picture = draw_image(plan.world, plan.size, plan.context_strength, plan.seed, image)
        path = Path(job.folder) / _file_name(image)
        Image.fromarray(picture.pixels).save(path, "JPEG", quality=_QUALITY, subsampling=0)
        seen = visible(picture)
        things, stuff = annotated(seen, plan.size, image)
        records["instances"] += things
        records["stuff"] += stuff
        records["captions"] += _captions(plan, picture.scene, seen, image)
        _add_truth(truth, plan.world, picture.scene, {part.item.name for part in seen}, image)
    text = {kind: msgspec.json.encode(entries)[1:-1] for kind, entries in records.items()}
    return _Block(text, truth)


def _captions(plan: ScenesPlan, name: str, seen: list[Visible], image: int) -> list[dict[str, Any]]:
    scene = plan.world.scenes[name]
    # not the picture's stream: other words do not change the picture
    random = np.random.default_rng([plan.seed, image, 1])
    largest = sorted(seen, key=lambda part: -part.pixels)
    about = scene.front.thing if scene.front else None
    things = [part.item for part in largest if not part.is_stuff and part.item.name != about]
    stuff = [part.item.name for part in largest if part.is_stuff]
    sentences = describe(scene.captions, things, stuff, random)
    return [
        {"id": ID_STEP * image + number, "image_id": image, "caption": text}
        for number, text in enumerate(sentences, 1)
    ]


def _add_truth(
    truth: dict[str, list[Any]], world: World, scene: str, shown: set[str], image: int
) -> None:
    for task in world.tasks:
        present, strength = task in shown, world.strength(scene, task)
        against = world.against(scene, task, present=present)
        row = (image, scene, task, present, strength, strength >= world.expected, against)
        for name, value in zip(_TRUTH.names, row, strict=True):
            truth[name].append(value)


_TRUTH = pa.schema([
    ("image_id", pa.int64()),
    ("scene", pa.dictionary(pa.int32(), pa.string())),
    ("task", pa.dictionary(pa.int32(), pa.string())),
    ("present", pa.bool_()),
    ("strength", pa.float64()),
    ("expected", pa.bool_()),
    ("against", pa.bool_()),
])  # fmt: skip


def _file_name(image: int) -> str:
    return f"{image:012d}.jpg"


class _SceneFiles:
    """The annotation files and the truth, open while images are drawn."""

    def __init__(self, plan: ScenesPlan, folder: Path) -> None:
        self._stack = ExitStack()
        self._files: dict[str, BinaryIO] = {}
        for kind in _KINDS:
            path = folder / "annotations" / f"{kind}_scenes.json"
            file = self._stack.enter_context(path.open("wb"))
            file.writelines(_head(plan, kind))
            self._files[kind] = file
        self._separator = dict.fromkeys(_KINDS, b"\n")
        self._truth = self._stack.enter_context(
            pq.ParquetWriter(folder / "truth.parquet", _TRUTH, compression="zstd")
        )
        self._waiting: dict[str, list[Any]] = {name: [] for name in _TRUTH.names}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, value: object, trace: object) -> None:
        if kind is None:
            self._flush()
            for file in self._files.values():
                file.write(b"\n]}\n")
        self._stack.close()

    def add(self, block: _Block) -> None:
        """Write the result for some images."""
        for kind, text in block.text.items():
            if text:
                self._files[kind].write(self._separator[kind] + text)
                self._separator[kind] = b",\n"
        for name, values in block.truth.items():
            self._waiting[name] += values
        if len(self._waiting["image_id"]) >= _ROWS:
            self._flush()

    def _flush(self) -> None:
        self._truth.write_table(pa.table(self._waiting, schema=_TRUTH))
        self._waiting = {name: [] for name in _TRUTH.names}


def _head(plan: ScenesPlan, kind: str) -> Iterator[bytes]:
    """An annotation file up to its first annotation."""
    head: dict[str, Any] = {
        "info": {"description": "Scenes drawn by nooch; their context is known", **plan.settings()},
        "licenses": [{"id": 1, "name": "CC0 1.0", "url": _CC0}],
    }
    if kind != "captions":
        head["categories"] = _categories(plan.world, "stuff" if kind == "stuff" else "thing")
    yield msgspec.json.encode(head)[:-1] + b',"images":['
    for image in range(1, plan.images + 1):
        size = {"width": plan.size, "height": plan.size}
        record = {"id": image, "file_name": _file_name(image), **size, "license": 1}
        yield (b",\n" if image > 1 else b"\n") + msgspec.json.encode(record)
    yield b'\n],"annotations":['


def _categories(world: World, kind: str) -> list[dict[str, Any]]:
    """COCO's own records of the world's classes, by id."""
    table = resources.files("nooch.data.readers").joinpath("cocostuff_classes.csv")
    lines = table.read_text(encoding="utf-8").splitlines()
    above = {row["name"]: row["supercategory"] for row in csv.DictReader(lines)}
    names = [name for name in world.classes() if COCOSTUFF[name] == kind]
    return [
        {"supercategory": above[name], "id": COCOSTUFF_IDS[name], "name": name.replace("_", " ")}
        for name in sorted(names, key=COCOSTUFF_IDS.__getitem__)
    ]
