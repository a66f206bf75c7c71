"""A world: scenes, what they contain and how often; read from YAML and checked."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from importlib import resources
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from nooch.base.errors import InputError, ParameterError, check_one_of
from nooch.base.yaml_files import read_yaml, yaml_value
from nooch.scenes.sprites import CROWDS, POSES, THINGS
from nooch.scenes.textures import STUFF

Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Positive = Annotated[float, msgspec.Meta(gt=0, le=1e6)]


class ObjectSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Drawing of an object: longest side as a fraction of the picture's, place, instances."""

    size: tuple[Positive, Positive]
    place: Literal["ground", "sky"] = "ground"
    most: Annotated[int, msgspec.Meta(ge=1, le=6)] = 1


class Band(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A band of stuff: one class of a list, share of the height (lowest, highest), probability."""

    stuff: Annotated[list[str], msgspec.Meta(min_length=1)]
    share: tuple[Positive, Positive]
    chance: Share = 1.0


class Front(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The one large object that belongs to a scene."""

    thing: str
    pose: str
    size: tuple[Positive, Positive]


class Scene(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A type of scene; ``things``: class -> the probability e that the scene contains it."""

    captions: Annotated[list[str], msgspec.Meta(min_length=1)]
    bands: Annotated[list[Band], msgspec.Meta(min_length=1, max_length=12)]
    weight: Positive = 1.0
    front: Front | None = None
    things: dict[str, Share] = {}
    crowds: dict[str, Share] = {}


class World(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All parameters of the generator but the seed, the size and the strength of context.

    Attributes:
        tasks: classes with a truth, whose presence is drawn with or without regard to the scene.
        stray: probability of such a class if it is drawn without regard to the scene.
        expected: a scene with e of at least this suggests the class.
        objects: how things are drawn.
        scenes: name -> scene.
    """

    tasks: Annotated[list[str], msgspec.Meta(min_length=1)]
    scenes: Annotated[dict[str, Scene], msgspec.Meta(min_length=1)]
    objects: dict[str, ObjectSpec]
    stray: Share = 0.2
    expected: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.5

    def strength(self, scene: str, task: str) -> float:
        """e: the probability of a task's object if only the scene decides."""
        return self.scenes[scene].things.get(task, 0.0)

    def probability(self, scene: str, task: str, context_strength: float) -> float:
        """The probability s e + (1 - s) stray with which a task's object is drawn in a scene."""
        return context_strength * self.strength(scene, task) + (1 - context_strength) * self.stray

    def against(self, scene: str, task: str, *, present: bool) -> bool:
        """True if presence or absence contradicts context: e is 0, or at least ``expected``."""
        strength = self.strength(scene, task)
        return strength == 0 if present else strength >= self.expected

    def weights(self) -> NDArray[np.float64]:
        """Probabilities of the scenes, in their order."""
        weights = np.array([scene.weight for scene in self.scenes.values()])
        return np.asarray(weights / weights.sum())

    def classes(self) -> list[str]:
        """Every class that may appear, things before stuff, each group by name."""
        things = {*self.tasks, *(t for _, _, t in _things(self))}
        bands = [band for scene in self.scenes.values() for band in scene.bands]
        return [*sorted(things), *sorted({name for band in bands for name in band.stuff})]


def default_text() -> str:
    """The default world as YAML, with its comments."""
    return resources.files("nooch.scenes").joinpath("world.yaml").read_text(encoding="utf-8")


def load_world(path: str | Path | None = None) -> World:
    """A world from a YAML file; the default one without a path."""
    where = "world.yaml" if path is None else Path(path)
    content = yaml_value(default_text(), where) if path is None else read_yaml(Path(path))
    try:
        world = msgspec.convert(content, World)
    except msgspec.ValidationError as error:
        remedy = "start from the output of nooch tools scenes `print_config`"
        raise InputError(f"is not a valid world: {error}", where=where, remedy=remedy) from error
    _check(world, where)
    return world


def _check(world: World, where: object) -> None:
    for place, scene in world.scenes.items():
        _check_scene(place, scene, world, where)
    for task in world.tasks:
        _known("thing", task, THINGS, where, "tasks")
    drawn = [(place, name) for place, kind, name in _things(world) if kind != "front"]
    for place, name in [*drawn, *(("tasks", task) for task in world.tasks)]:
        if name not in world.objects:
            problem = f"{place}: {name} has no entry under objects"
            raise ParameterError(problem, where=where, remedy="give its size there")
    if len(set(world.tasks)) != len(world.tasks):
        raise ParameterError("tasks: a task is named twice", where=where, allowed="each task once")
    for name in world.objects:
        _known("thing", name, THINGS, where, "objects")
    ranges = [(f"objects: {name}", spec.size) for name, spec in world.objects.items()]
    ranges += [(place, band.share) for place, scene in world.scenes.items() for band in scene.bands]
    ranges += [(place, scene.front.size) for place, scene in world.scenes.items() if scene.front]
    for place, (low, high) in ranges:
        if low > high or high > _LARGEST:
            allowed = f"the lower number first, both at most {_LARGEST} of the picture"
            problem = f"{place}: from {low} to {high} is not a range"
            raise ParameterError(problem, where=where, allowed=allowed)


_LARGEST = 1.5


def _check_scene(place: str, scene: Scene, world: World, where: object) -> None:
    for band in scene.bands:
        for name in band.stuff:
            _known("stuff", name, STUFF, where, place)
    if scene.bands[-1].chance < 1 and all(band.chance < 1 for band in scene.bands):
        problem = f"{place}: every band may be missing"
        raise ParameterError(problem, where=where, allowed="at least one band with chance 1")
    for name in scene.things:
        _known("thing", name, THINGS, where, place)
    for name in scene.crowds:
        _known("crowd", name, CROWDS, where, place)
        if name in world.tasks:
            problem = f"{place}: {name} is a task, so it cannot be a crowd"
            raise ParameterError(problem, where=where, remedy="leave it out")
    if scene.front is not None:
        _known("thing", scene.front.thing, THINGS, where, place)
        _known("pose", scene.front.pose, POSES, where, place)
        if scene.front.thing in world.tasks:
            problem = f"{place}: {scene.front.thing} is a task, so it cannot be the front"
            raise ParameterError(problem, where=where, remedy="list it under things")


def _known(kind: str, name: str, options: Collection[str], where: object, place: str) -> None:
    check_one_of(kind, name, options, owner=f"what can be drawn ({where}: {place})")


def _things(world: World) -> Iterator[tuple[str, str, str]]:
    """(scene, under which key, class) of every thing that scenes name."""
    for place, scene in world.scenes.items():
        for name in scene.things:
            yield place, "things", name
        for name in scene.crowds:
            yield place, "crowds", name
        if scene.front is not None:
            yield place, "front", scene.front.thing
