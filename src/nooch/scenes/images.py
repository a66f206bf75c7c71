"""One image of a world: sampled, then painted, from a random stream of only (seed, image).

Each of its pixels has one owner, what it shows, so that masks never overlap.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from nooch.scenes.pen import Sprite
from nooch.scenes.sprites import CROWDS, POSES, THINGS
from nooch.scenes.textures import STUFF, Ground, edge_of, noise
from nooch.scenes.world import Scene, World

Random = np.random.Generator
Box = tuple[float, float, float, float]

_GROUND = {
    "road",
    "pavement",
    "grass",
    "playingfield",
    "sand",
    "snow",
    "sea",
    "floor-wood",
    "table",
}
_FLOATING = {"sea"}
# (pose of the front, class) -> where the class is on it: middle, top, size, in heights of the front
_WORN = {("bust", "tie"): (0.5, 0.505, 0.40), ("back", "backpack"): (0.5, 0.2, 0.28)}
_TRIES = 10


@dataclass(frozen=True)
class Item:
    """An object or stuff that was drawn: class, color word for captions, whether it is a crowd."""

    name: str
    color: str = ""
    crowd: bool = False


@dataclass
class Canvas:
    """Layers painted over each other, the farthest first: ``paint`` is float32 (size, size, 3), 0
    to 255, ``owner`` int16 (size, size), position in ``items`` of the last layer that covers
    half of a pixel.
    """

    size: int
    paint: NDArray[np.float32] = field(init=False)
    owner: NDArray[np.int16] = field(init=False)
    items: list[Item] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.paint = np.zeros((self.size, self.size, 3), dtype=np.float32)
        self.owner = np.full((self.size, self.size), -1, dtype=np.int16)

    def band(
        self, name: str, texture: NDArray[np.float32], edge: NDArray[np.float32], top: int
    ) -> None:
        """Lay a stretch of stuff from its upper edge, float32 (size,) in pixels for each column, to
        the bottom; several bands of one class are one item. The texture is float32 (size - top,
        size, 3): no edge lies above ``top``.
        """
        rows = np.arange(top, self.size, dtype=np.float32)[:, None]
        cover = np.clip(rows + np.float32(0.5) - edge[None, :], 0, 1)
        item_numbers = [number for number, item in enumerate(self.items) if item.name == name]
        number = item_numbers[0] if item_numbers else self._add(Item(name))
        self._lay(number, texture * cover[:, :, None], cover, (slice(top, None), slice(None)))

    def put(self, item: Item, sprite: Sprite, left: int, top: int) -> None:
        """Lay an object; parts outside of the picture are cut off."""
        number = self._add(item)
        y, x = max(top, 0), max(left, 0)
        bottom, right = min(top + sprite.height, self.size), min(left + sprite.width, self.size)
        if bottom > y and right > x:
            inner = (slice(y - top, bottom - top), slice(x - left, right - left))
            outer = (slice(y, bottom), slice(x, right))
            self._lay(number, sprite.paint[inner], sprite.cover[inner], outer)

    def shade(self, x: float, y: float, wide: float, tall: float) -> None:
        """Draw a soft shadow around (x, y), half axes in pixels. It changes colors, not owners."""
        x0, x1 = max(0, int(x - wide)), min(self.size, int(x + wide) + 1)
        y0, y1 = max(0, int(y - tall)), min(self.size, int(y + tall) + 1)
        if x1 > x0 and y1 > y0:
            across = (np.arange(x0, x1, dtype=np.float32) - np.float32(x)) / np.float32(wide)
            down = (np.arange(y0, y1, dtype=np.float32) - np.float32(y)) / np.float32(tall)
            depth = np.clip(1 - across[None, :] ** 2 - down[:, None] ** 2, 0, 1)
            self.paint[y0:y1, x0:x1] *= (1 - np.float32(0.5) * depth)[:, :, None]

    def _add(self, item: Item) -> int:
        self.items.append(item)
        return len(self.items) - 1

    def _lay(
        self,
        number: int,
        paint: NDArray[np.float32],
        cover: NDArray[np.float32],
        box: tuple[slice, slice],
    ) -> None:
        self.paint[box] *= (1 - cover)[:, :, None]
        self.paint[box] += paint
        self.owner[box][cover >= 0.5] = number


@dataclass(frozen=True)
class Picture:
    """A finished image of a type of scene: uint8 (size, size, 3), and of each pixel the position in
    ``items`` of what it shows, int16 (size, size). Some items may be hidden.
    """

    scene: str
    pixels: NDArray[np.uint8]
    owner: NDArray[np.int16]
    items: list[Item]


def draw_presence(
    world: World, context_strength: float, random: Random
) -> tuple[str, dict[str, bool]]:
    """The scene, and presence of each task: independent draws with P = s e + (1 - s) stray."""
    names = list(world.scenes)
    scene = names[int(random.choice(len(names), p=world.weights()))]
    chances = [world.probability(scene, task, context_strength) for task in world.tasks]
    lots = random.random(len(world.tasks)) < np.array(chances)
    return scene, dict(zip(world.tasks, lots.tolist(), strict=True))


def draw_image(world: World, size: int, context_strength: float, seed: int, image: int) -> Picture:
    """Draw and paint one image, number ``image`` of a collection, of ``size`` pixels a side."""
    random = np.random.default_rng([seed, image])
    name, presence = draw_presence(world, context_strength, random)
    scene = world.scenes[name]
    others = [thing for thing in scene.things if thing not in presence]
    present = [task for task, is_present in presence.items() if is_present]
    present += [thing for thing in others if random.random() < scene.things[thing]]
    painter = _Painter(world, scene, size, random)
    painter.bands()
    painter.front(present)
    painter.objects(present)
    return Picture(name, painter.developed(), painter.canvas.owner, painter.canvas.items)


class _Painter:
    """Lays one image's layers, the farthest first."""

    def __init__(self, world: World, scene: Scene, size: int, random: Random) -> None:
        self.world, self.scene, self.size, self.random = world, scene, size, random
        self.canvas = Canvas(size)
        self.horizon = 0.45
        self.floor = ""
        self.taken: list[Box] = []

    def bands(self) -> None:
        """Stuff from the top down."""
        random = self.random
        bands = self.scene.bands
        shown = [band for band in bands if band.chance >= 1 or random.random() < band.chance]
        shares = np.array([random.uniform(*band.share) for band in shown])
        tops = np.concatenate([[0.0], np.cumsum(shares / shares.sum())[:-1]])
        stuff_names = [band.stuff[int(random.integers(len(band.stuff)))] for band in shown]
        for name, top in zip(stuff_names, tops.tolist(), strict=True):
            if name in _GROUND:
                self.horizon, self.floor = max(top, 0.03), name
                break
        for name, top in zip(stuff_names, tops.tolist(), strict=True):
            self._band(name, top)

    def _band(self, name: str, top: float) -> None:
        size, fields = self.size, noise(self.size)
        ground = Ground(size, 0, top * size, fields, self.random)
        edge = np.full(size, -1, dtype=np.float32)
        if top > 0:
            edge = (np.float32(top) + edge_of(name, ground)) * size
        first = max(0, int(edge.min()))
        vanishing = (min(self.horizon, top) - 0.12) * size
        texture = STUFF[name](Ground(size, first, vanishing, fields, self.random))
        self.canvas.band(name, texture, edge, first)

    def front(self, present: list[str]) -> None:
        """The scene's own large object, and tasks worn on it, which leave ``present``."""
        front = self.scene.front
        if front is None:
            return
        share = self.random.uniform(*front.size) * self.size
        if front.pose == "top":
            sprite, color = POSES["top"](round(1.3 * self.size), self.random)
            # the part below the picture is cut off
            middle = (self.size - sprite.width) // 2
            self.canvas.put(Item(front.thing, color), sprite, middle, round(self.size - share))
            self.horizon, self.floor = 1 - share / self.size, "table"
            return
        sprite, color = POSES[front.pose](round(share), self.random)
        x = self.size * self.random.uniform(0.4, 0.6)
        top = max(self.size - sprite.height * self.random.uniform(0.93, 1.0), 0.03 * self.size)
        self.canvas.put(Item(front.thing, color), sprite, round(x - sprite.width / 2), round(top))
        self.horizon = max(self.horizon, 0.5)
        for task in list(present):
            if (front.pose, task) in _WORN:
                across, down, part = _WORN[front.pose, task]
                longest = round(part * share * self.random.uniform(0.9, 1.1))
                worn, color = THINGS[task](longest, self.random)
                left = x + (across - 0.5) * sprite.width - worn.width / 2
                upper = top + down * sprite.height
                self.canvas.put(Item(task, color), worn, round(left), round(upper))
                self.taken.append((left, upper, left + worn.width, upper + worn.height))
                present.remove(task)

    def objects(self, present: list[str]) -> None:
        """All other things, those that stand nearer over those that stand farther away."""
        placed: list[tuple[float, Item, Sprite, float, float, bool]] = []
        for name in present:
            more = int(self.random.binomial(self.world.objects[name].most - 1, 0.3))
            placed += [self._placed(name) for _ in range(1 + more)]
        for name, chance in self.scene.crowds.items():
            if self.random.random() < chance:
                placed.append(self._placed(name, crowd=True))
        for _, item, sprite, left, top, standing in sorted(placed, key=lambda p: p[0]):
            if standing and self.floor not in _FLOATING:
                x, y = left + sprite.width / 2, top + sprite.height
                self.canvas.shade(x, y, 0.5 * sprite.width, 0.07 * sprite.height + 1)
            self.canvas.put(item, sprite, round(left), round(top))

    def _placed(
        self, name: str, *, crowd: bool = False
    ) -> tuple[float, Item, Sprite, float, float, bool]:
        """(depth, item, sprite, left, top, whether it stands), if it hides others least."""
        spec, random, size = self.world.objects[name], self.random, self.size
        aloft = spec.place == "sky" and self.horizon >= 0.4
        best = (np.inf, 0.0, 0.0, 0.0)
        longest = random.uniform(*spec.size) * size * (1.3 if crowd else 1)
        nearness = random.uniform(0.1, 1.0)
        base = (self.horizon + (1 - self.horizon) * (0.25 + 0.75 * nearness)) * size
        draw = (CROWDS if crowd else THINGS)[name]
        sprite, color = draw(round(longest * (0.8 + 0.25 * nearness)), random)
        for _ in range(_TRIES):
            x = random.uniform(0.05, 0.95) * size
            left = min(max(x - sprite.width / 2, -0.15 * sprite.width), size - 0.85 * sprite.width)
            low = base
            if aloft:
                room = max(self.horizon * size - sprite.height, 1)
                low = random.uniform(0, 1) * room + sprite.height
            top = max(min(low, size + 0.06 * sprite.height) - sprite.height, 0)
            cost = self._overlap((left, top, left + sprite.width, top + sprite.height))
            if cost < best[0]:
                best = (cost, left, top, low)
            if cost == 0:
                break
        _, left, top, low = best
        self.taken.append((left, top, left + sprite.width, top + sprite.height))
        return low, Item(name, color, crowd), sprite, left, top, not aloft

    def _overlap(self, box: Box) -> float:
        """The largest overlap of a box with one of those taken, as a share of the smaller."""
        worst = 0.0
        for other in self.taken:
            wide = min(box[2], other[2]) - max(box[0], other[0])
            tall = min(box[3], other[3]) - max(box[1], other[1])
            if wide > 0 and tall > 0:
                smaller = min((b[2] - b[0]) * (b[3] - b[1]) for b in (box, other))
                worst = max(worst, wide * tall / smaller)
        return worst

    def developed(self) -> NDArray[np.uint8]:
        """The picture under its own light, with the grain of a sensor."""
        random, paint = self.random, self.canvas.paint
        gain = random.uniform(0.88, 1.1) * (1 + random.normal(0, 0.03, 3))
        middle, contrast = np.float32(124), np.float32(random.uniform(0.88, 1.1))
        fine = noise(self.size).crop("fine", random)[:, :, None]
        grain = fine * np.float32(random.uniform(1.0, 3.5))
        shown = (paint * gain.astype(np.float32) - middle) * contrast + middle + grain
        return np.clip(shown + 0.5, 0, 255).astype(np.uint8)
