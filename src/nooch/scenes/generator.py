"""A whole collection: images drawn in blocks by a map, with five sentences about each as people
write them, and written in bounded memory.
"""

from __future__ import annotations

import builtins
import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import PIL
import polars as pl
import yaml
from msgspec import Meta
from numpy.typing import NDArray
from PIL import Image, features
from pycocotools import mask as coco_mask

from nooch.base.calls import Map, Options, Progress, Seed, Share, no_progress
from nooch.base.files import write_folder
from nooch.base.version import __version__
from nooch.data import encode_header, parquet_bytes
from nooch.data.readers.cocostuff import COCOSTUFF, COCOSTUFF_IDS
from nooch.scenes.images import Item, Picture, draw_image
from nooch.scenes.world import World, load_world

SCENES_MARKER = "scenes.json"
"""The file that marks a folder of scenes; it is written last."""

_BLOCK = 32
_QUALITY = 90
_KINDS = ("instances", "stuff", "captions")
_CC0 = "https://creativecommons.org/publicdomain/zero/1.0/"


@dataclass(frozen=True)
class ScenesPlan(Options):
    """Settings of a drawing, checked before anything is drawn.

    Attributes:
        images: number of images.
        size: side of an image in pixels.
        seed: another seed gives other images, the same one the same bytes.
        context_strength: 0: objects are in any scene; 1: only in the scenes where they belong.
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

    The folder contains ``images/``, ``annotations/instances_scenes.json``, ``stuff_scenes.json``
    and ``captions_scenes.json``, ``truth.parquet`` (image_id, scene, task, present, strength,
    expected, against), ``world.yaml``, and ``scenes.json`` with the settings. Each image has a
    random stream of its own, so that the bytes do not depend on where it is drawn.
    """
    with write_folder(out, overwrite=overwrite, marker=SCENES_MARKER) as folder:
        (folder / "images").mkdir()
        (folder / "annotations").mkdir()
        ids = range(1, plan.images + 1)
        parts = [ids[first : first + _BLOCK] for first in range(0, plan.images, _BLOCK)]
        blocks: list[_Block] = []
        progress("drawing scenes", 0, plan.images)
        for block in map(partial(draw_block, plan, str(folder / "images")), parts):
            blocks.append(block)
            progress("drawing scenes", min(len(blocks) * _BLOCK, plan.images), plan.images)
        for kind in _KINDS:
            records = b",\n".join(filter(None, (text[kind] for text, _ in blocks)))
            with (folder / "annotations" / f"{kind}_scenes.json").open("wb") as file:
                file.writelines([_head(plan, kind), records, b"\n]}\n"])
        truth = pl.concat([truth for _, truth in blocks])
        (folder / "truth.parquet").write_bytes(parquet_bytes(truth))
        text = yaml.safe_dump(msgspec.to_builtins(plan.world), sort_keys=False, width=120)
        (folder / "world.yaml").write_text(text, encoding="utf-8")
        header = {"format": "nooch-scenes", "version": 1, **plan.settings()}
        (folder / SCENES_MARKER).write_bytes(encode_header(header))
    return Path(out)


_Block = tuple[dict[str, bytes], pl.DataFrame]
"""Records of some images as JSON text, by kind, and their truth."""


def draw_block(plan: ScenesPlan, folder: str, images: range) -> _Block:
    """Draw some images and write their files. It runs in a worker process."""
    records: dict[str, list[Any]] = {kind: [] for kind in _KINDS}
    truth: list[tuple[Any, ...]] = []
    for image in images:
        picture = draw_image(plan.world, plan.size, plan.context_strength, plan.seed, image)
        path = Path(folder) / _file_name(image)
        Image.fromarray(picture.pixels).save(path, "JPEG", quality=_QUALITY, subsampling=0)
        seen = visible(picture)
        things, stuff = annotated(seen, plan.size, image)
        records["instances"] += things
        records["stuff"] += stuff
        records["captions"] += _captions(plan, picture.scene, seen, image)
        truth += _truth(plan.world, picture.scene, {part.item.name for part in seen}, image)
    text = {kind: msgspec.json.encode(listed)[1:-1] for kind, listed in records.items()}
    return text, pl.DataFrame(truth, _TRUTH, orient="row")


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


def _truth(world: World, scene: str, shown: set[str], image: int) -> Iterator[tuple[Any, ...]]:
    for task in world.tasks:
        present, strength = task in shown, world.strength(scene, task)
        against = world.against(scene, task, present=present)
        yield image, scene, task, present, strength, strength >= world.expected, against


_TRUTH = {
    "image_id": pl.Int64,
    "scene": pl.String,
    "task": pl.String,
    "present": pl.Boolean,
    "strength": pl.Float64,
    "expected": pl.Boolean,
    "against": pl.Boolean,
}


def _file_name(image: int) -> str:
    return f"{image:012d}.jpg"


def _head(plan: ScenesPlan, kind: str) -> bytes:
    """An annotation file up to its first annotation."""
    head: dict[str, Any] = {
        "info": {"description": "Scenes drawn by nooch; their context is known", **plan.settings()},
        "licenses": [{"id": 1, "name": "CC0 1.0", "url": _CC0}],
    }
    if kind != "captions":
        head["categories"] = _categories(plan.world, "stuff" if kind == "stuff" else "thing")
    about = {"width": plan.size, "height": plan.size, "license": 1}
    lines = b",\n".join(
        msgspec.json.encode({"id": image, "file_name": _file_name(image), **about})
        for image in range(1, plan.images + 1)
    )
    start = msgspec.json.encode(head)[:-1]
    return start + b',"images":[\n' + lines + b'\n],"annotations":[\n'


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


ID_STEP = 1000
"""Annotation ids are the image's id times this plus a number from 1: unique in a collection."""


@dataclass(frozen=True)
class Visible:
    """The visible part of one item: how many pixels show it, their first and last row and column as
    slices, and its mask within that box, bool.
    """

    item: Item
    pixels: int
    box: tuple[slice, slice]
    mask: NDArray[np.bool_]

    @property
    def is_stuff(self) -> bool:
        """True if its class is stuff."""
        return COCOSTUFF[self.item.name] == "stuff"


def visible(picture: Picture) -> list[Visible]:
    """All items that at least one pixel shows, in the order in which they were laid."""
    parts = []
    for number, item in enumerate(picture.items):
        mask = picture.owner == number
        rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
        if len(rows):
            box = _span(rows), _span(columns)
            parts.append(Visible(item, int(mask.sum()), box, mask[box]))
    return parts


def _span(positions: NDArray[np.intp]) -> slice:
    return slice(int(positions[0]), int(positions[-1]) + 1)


def annotated(
    seen: list[Visible], size: int, image: int
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """COCO's records of things and of stuff: compressed run lengths, ``area`` in pixels."""
    things: list[dict[str, Any]] = []
    stuff: list[dict[str, Any]] = []
    for number, part in enumerate(seen, 1):
        (top, left), (height, width) = [s.start for s in part.box], part.mask.shape
        record = {
            "id": ID_STEP * image + number,
            "image_id": image,
            "category_id": COCOSTUFF_IDS[part.item.name],
            "segmentation": _run_lengths(part, size),
            "area": part.pixels,
            "bbox": [left, top, width, height],
            "iscrowd": int(part.item.crowd),
        }
        (stuff if part.is_stuff else things).append(record)
    return things, stuff


def _run_lengths(part: Visible, size: int) -> dict[str, Any]:
    whole = np.zeros((size, size), dtype=np.uint8, order="F")
    whole[part.box] = part.mask
    return {"counts": coco_mask.encode(whole)["counts"].decode("ascii"), "size": [size, size]}


_FORMS_WITH = (
    "{scene} with {a}.",
    "{a} and {scene}.",
    "There is {a} here: {scene}.",
    "{scene}, and {a} in it.",
    "A picture of {scene} that shows {a}.",
    "{scene}, {a} in the middle of it.",
    "One sees {a}, and behind it {scene}.",
    "{a} in front of {stuff}.",
    "{scene} with {a} and {b}.",
    "{a} next to {b}, {stuff} around them.",
)
_FORMS_WITHOUT = (
    "{scene}.",
    "A picture of {scene}.",
    "{scene} with {stuff}.",
    "This is {scene}.",
    "A view of {scene}, {stuff} and not much else.",
    "{stuff} and {scene}.",
)
# replaces the type of scene in sentences that do not name it
_VAGUE = (
    "a picture taken today", "a nice day", "a place somewhere", "a quiet moment",
    "an ordinary view", "a photo with good light", "a snapshot", "something one sees often",
    "a view from where I stood", "a simple picture",
)  # fmt: skip
_STUFF = {
    "building-other": ("some houses", "tall buildings"),
    "clouds": ("a gray sky", "low clouds"),
    "floor-wood": ("a wooden floor", "brown boards"),
    "grass": ("green grass", "a lawn"),
    "mountain": ("mountains", "a row of hills"),
    "pavement": ("gray tiles", "the pavement"),
    "playingfield": ("the playing field", "a court with white lines"),
    "road": ("the road", "a wide road"),
    "sand": ("yellow sand", "the sand"),
    "sea": ("blue water", "the sea"),
    "sky-other": ("a clear sky", "the blue sky"),
    "snow": ("white snow", "the snow"),
    "table": ("a desk", "a bare table"),
    "tree": ("some trees", "green trees"),
    "wall-other": ("a plain wall", "a light wall"),
}
_WORDS = {
    "sports_ball": "ball",
    "fire_hydrant": "hydrant",
    "airplane": "plane",
    "dining_table": "table",
}
_MANY = {"person": "people", "sheep": "sheep", "bus": "buses"}
_CROWD = {"person": "a group of people", "sheep": "a flock of sheep"}
_NUMBERS = ("", "a", "two", "three", "four", "five", "six")


def describe(
    scene: Sequence[str],
    things: Sequence[Item],
    stuff: Sequence[str],
    random: np.random.Generator,
    many: int = 5,
) -> list[str]:
    """Sentences of different forms.

    As writers differ, a random share of an image's sentences, from none to all, names the
    ``scene``; the others mention a picture or a place. ``things`` are the visible objects, the
    largest first, without the one that the scene is about; the same for ``stuff``.
    """
    objects = _objects(things)
    around = [phrase for name in stuff[:2] for phrase in _STUFF[name]] or ["nothing else"]
    forms = [*_FORMS_WITH, *_FORMS_WITHOUT[:2]] if objects else [*_FORMS_WITHOUT]
    if len(objects) == 1:
        forms = [form for form in forms if "{b}" not in form]
    order = random.permutation(len(forms))[:many].tolist()
    lots = random.integers(1 << 30, size=(many, 4)).tolist()
    by_name = (random.random(many) < random.random()).tolist()
    phrases = [scene if name else _VAGUE for name in by_name]
    return [
        _sentence(forms[form], phrase[lot[0] % len(phrase)], objects, lot[1:], around)
        for form, phrase, lot in zip(order, phrases, lots, strict=True)
    ]


def _sentence(
    form: str, scene: str, objects: list[tuple[str, str]], lots: list[int], around: list[str]
) -> str:
    a = b = ""
    if objects:
        # people name large objects more often
        first = min(lots[0] % len(objects), lots[0] // 7 % len(objects))
        a = objects[first][lots[1] % 2]
        b = objects[(first + 1) % len(objects)][lots[1] // 2 % 2]
    text = form.format(scene=scene, a=a, b=b, stuff=around[lots[2] % len(around)])
    return text[0].upper() + text[1:]


def _objects(things: Sequence[Item]) -> list[tuple[str, str]]:
    """For each class: how many there are, in two wordings, one of them with its color."""
    groups: dict[str, list[Item]] = {}
    for item in things:
        groups.setdefault(f"{item.name} crowd" if item.crowd else item.name, []).append(item)
    phrases = []
    for items in groups.values():
        name, word = items[0].name, _WORDS.get(items[0].name, items[0].name.replace("_", " "))
        if items[0].crowd:
            phrases.append((_CROWD[name], _CROWD[name]))
        elif len(items) > 1:
            number = _NUMBERS[min(len(items), len(_NUMBERS) - 1)]
            plural = _MANY.get(name, word + "s")
            phrases.append((f"{number} {plural}", f"some {plural}"))
        else:
            color = "" if name == "person" else items[0].color
            phrases.append((_with_article(word), _with_article(f"{color} {word}".strip())))
    return phrases


def _with_article(word: str) -> str:
    return f"{'an' if word[0] in 'aeiou' else 'a'} {word}"
