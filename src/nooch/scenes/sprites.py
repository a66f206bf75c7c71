"""The objects that can be drawn: class -> (longest side, random) -> (sprite, color word)."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

import numpy as np

from nooch.scenes.pen import (
    BRIGHT,
    CLOTHES,
    HAIR,
    SKIN,
    Color,
    ColoredSprite,
    Pen,
    Sprite,
    choice,
    darker,
    mixed,
    pick,
)
from nooch.scenes.textures import noise

Random = np.random.Generator


def person(long: int, random: Random) -> ColoredSprite:
    """A person who stands or walks."""
    pen = Pen(round(long * 0.44), long)
    name = _figure(pen, random, step=random.uniform(0.02, 0.16), lift=random.uniform(-0.08, 0.2))
    return pen.sprite(random, flip=random.random() < 0.5), name


def _figure(pen: Pen, random: Random, *, step: float, lift: float) -> str:
    name, shirt = pick(random, CLOTHES)
    skin, hair = choice(random, SKIN), choice(random, HAIR)
    trousers = darker(pick(random, ("blue", "black", "brown", "gray"))[1], 0.8)
    for x, way in ((0.42, -1), (0.58, 1)):
        foot = x + way * step
        pen.line(((x, 0.54), (foot, 0.96)), trousers, 0.19)
        pen.box(foot - 0.12, 0.945, foot + 0.13, 1.0, (40, 34, 32), 0.03)
    arm = ((0.32, 0.24), (0.14, 0.42 - lift), (0.12, 0.55 - 1.6 * lift))
    pen.line(arm, darker(shirt, 0.82), 0.12)
    pen.line(((0.68, 0.24), (0.84, 0.4), (0.86, 0.54)), darker(shirt, 0.82), 0.12)
    pen.box(0.28, 0.19, 0.72, 0.58, shirt, 0.12)
    pen.box(0.43, 0.14, 0.57, 0.22, darker(skin, 0.88))
    pen.ellipse(0.32, 0.0, 0.68, 0.175, skin)
    pen.pie(0.3, -0.01, 0.7, 0.17, 180, 360, hair)
    return name


def bust(long: int, random: Random) -> ColoredSprite:
    """Head and shoulders from the front, in a jacket; the shirt shows where a tie would be."""
    name, jacket = pick(random, ("black", "blue", "gray", "brown", "green", "red"))
    skin, hair = choice(random, SKIN), choice(random, HAIR)
    jacket = darker(jacket, 0.72)
    pen = Pen(round(long * 0.86), long)
    left = ((0.0, 1.0), (0.03, 0.68), (0.14, 0.56), (0.38, 0.48))
    right = ((0.62, 0.48), (0.86, 0.56), (0.97, 0.68), (1.0, 1.0))
    pen.polygon((*left, *right), jacket)
    pen.polygon(((0.36, 0.49), (0.64, 0.49), (0.5, 0.98)), (236, 238, 242))
    pen.box(0.4, 0.36, 0.6, 0.53, darker(skin, 0.86))
    pen.polygon(((0.36, 0.48), (0.46, 0.53), (0.36, 0.66)), darker(jacket, 1.35))
    pen.polygon(((0.64, 0.48), (0.54, 0.53), (0.64, 0.66)), darker(jacket, 1.35))
    if random.random() < 0.5:
        pen.ellipse(0.24, 0.0, 0.76, 0.5, hair)
    pen.ellipse(0.3, 0.06, 0.7, 0.46, skin)
    pen.pie(0.28, 0.0, 0.72, 0.4, 180, 360, hair)
    for x in (0.42, 0.58):
        pen.ellipse(x - 0.035, 0.235, x + 0.035, 0.27, (250, 250, 250))
        pen.ellipse(x - 0.018, 0.237, x + 0.018, 0.268, (50, 40, 36))
        pen.line(((x - 0.045, 0.215), (x + 0.045, 0.21)), hair, 0.018)
    pen.line(((0.5, 0.26), (0.485, 0.325), (0.51, 0.33)), darker(skin, 0.78), 0.018)
    pen.arc(0.42, 0.31, 0.58, 0.4, 20, 160, (170, 70, 66), 0.022)
    return pen.sprite(random, flip=random.random() < 0.5), name


def back(long: int, random: Random) -> ColoredSprite:
    """A walker seen from behind, large."""
    name, shirt = pick(random, CLOTHES)
    skin, hair = choice(random, SKIN), choice(random, HAIR)
    trousers = darker(pick(random, ("brown", "black", "gray", "blue"))[1], 0.75)
    pen = Pen(round(long * 0.46), long)
    for x, way in ((0.4, -1), (0.6, 1)):
        foot = x + way * random.uniform(0.01, 0.1)
        pen.line(((x, 0.52), (foot, 0.95)), trousers, 0.22)
        pen.box(foot - 0.12, 0.93, foot + 0.12, 1.0, (52, 40, 32), 0.04)
    pen.line(((0.28, 0.24), (0.1, 0.42), (0.14, 0.56)), darker(shirt, 0.8), 0.14)
    pen.line(((0.72, 0.24), (0.9, 0.42), (0.86, 0.56)), darker(shirt, 0.8), 0.14)
    pen.box(0.22, 0.18, 0.78, 0.56, shirt, 0.16)
    pen.box(0.42, 0.13, 0.58, 0.22, darker(skin, 0.86))
    pen.ellipse(0.33, 0.0, 0.67, 0.17, hair)
    return pen.sprite(random), name


def cow(long: int, random: Random) -> ColoredSprite:
    """A cow from the side, black and white or brown, its head up or grazing."""
    name, coat, spots, eye = "black and white", (240, 238, 232), (40, 36, 36), (250, 250, 250)
    if random.random() < 0.35:
        name, coat, spots, eye = "brown", (142, 88, 50), (168, 112, 70), (30, 24, 20)
    pen = Pen(long, round(long * random.uniform(0.6, 0.68)))
    for x in (0.12, 0.22, 0.58, 0.67):
        pen.box(x, 0.55, x + 0.075, 0.97, darker(coat, 0.82))
        pen.box(x, 0.92, x + 0.075, 1.0, (52, 44, 40))
    pen.box(0.08, 0.18, 0.78, 0.7, coat, 0.11)
    patches = ((0.14, 0.18, 0.34, 0.5), (0.42, 0.3, 0.62, 0.66), (0.62, 0.16, 0.77, 0.4))
    for left, top, right, bottom in patches:
        dx, dy = random.uniform(-0.04, 0.04, 2).tolist()
        pen.ellipse(left + dx, max(top + dy, 0.19), min(right + dx, 0.77), bottom + dy, spots)
    pen.ellipse(0.5, 0.64, 0.6, 0.78, (232, 168, 160))
    pen.line(((0.09, 0.24), (0.03, 0.36), (0.04, 0.6)), darker(coat, 0.7), 0.025)
    head = random.choice((0.0, 0.0, 0.34))
    pen.polygon(((0.7, 0.22), (0.82, 0.12 + head), (0.86, 0.34 + head), (0.74, 0.56)), coat)
    pen.box(0.78, 0.06 + head, 0.94, 0.34 + head, spots, 0.04)
    pen.box(0.86, 0.2 + head, 1.0, 0.4 + head, (236, 186, 176), 0.04)
    pen.polygon(((0.74, 0.06 + head), (0.82, 0.12 + head), (0.76, 0.17 + head)), darker(spots, 0.9))
    pen.line(((0.82, 0.08 + head), (0.84, 0.0 + head)), (226, 214, 180), 0.025)
    pen.ellipse(0.865, 0.13 + head, 0.895, 0.18 + head, eye)
    return pen.sprite(random, flip=random.random() < 0.5), name


def sheep(long: int, random: Random) -> ColoredSprite:
    """A woolly sheep from the side."""
    wool = darker((236, 230, 216), random.uniform(0.88, 1.04))
    pen = Pen(long, round(long * 0.72))
    for x in (0.22, 0.32, 0.56, 0.66):
        pen.box(x, 0.62, x + 0.06, 1.0, (58, 52, 48))
    for x in np.linspace(0.16, 0.68, 5).tolist():
        pen.ellipse(x - 0.13, 0.06 + 0.06 * random.random(), x + 0.15, 0.5, wool)
        pen.ellipse(x - 0.13, 0.36, x + 0.15, 0.78, darker(wool, 0.93))
    pen.ellipse(0.74, 0.16, 0.98, 0.5, (66, 58, 54))
    pen.ellipse(0.7, 0.08, 0.86, 0.28, wool)
    return pen.sprite(random, flip=random.random() < 0.5), "white"


def crowd(long: int, random: Random) -> ColoredSprite:
    """Several people side by side, as one crowd."""
    return _several(person, long, 0.62, random), ""


def flock(long: int, random: Random) -> ColoredSprite:
    """Several sheep as one crowd."""
    return _several(sheep, long, 0.4, random), ""


def _several(
    draw: Callable[[int, Random], ColoredSprite], long: int, share: float, random: Random
) -> Sprite:
    count, size = int(random.integers(4, 7)), max(8, round(long * share))
    members = [draw(size, random)[0] for _ in range(count)]
    tall = round(1.25 * max(m.height for m in members))
    wide = max(long, *(m.width for m in members))
    paint = np.zeros((tall, wide, 3), dtype=np.float32)
    cover = np.zeros((tall, wide), dtype=np.float32)
    places = np.clip(np.linspace(0, 1, count) + random.uniform(-0.05, 0.05, count), 0, 1)
    for member, place in zip(members, places.tolist(), strict=True):
        left = round(place * (wide - member.width))
        top = int(random.integers(tall - member.height + 1))
        rows, columns = slice(top, top + member.height), slice(left, left + member.width)
        paint[rows, columns] = paint[rows, columns] * (1 - member.cover)[:, :, None] + member.paint
        cover[rows, columns] = np.maximum(cover[rows, columns], member.cover)
    return Sprite(paint, cover)


_WHITE: Color = (255, 255, 255)


def bowl(long: int, random: Random) -> ColoredSprite:
    """A bowl, seen from a little above, with or without food."""
    name, paint = pick(random, ("white", "blue", "red", "green", "orange", "brown", "pink"))
    pen = Pen(long, round(long * random.uniform(0.56, 0.66)))
    pen.box(0.34, 0.86, 0.66, 1.0, darker(paint, 0.66), 0.02)
    pen.pie(0.0, -0.46, 1.0, 0.96, 0, 180, paint)
    pen.pie(0.1, -0.2, 0.9, 0.96, 20, 90, darker(paint, 0.84))
    pen.ellipse(0.0, 0.0, 1.0, 0.5, mixed(paint, _WHITE, 0.35))
    food = darker(paint, 0.68)
    if random.random() < 0.65:
        food = pick(random, ("orange", "green", "yellow", "brown"))[1]
    pen.ellipse(0.08, 0.05, 0.92, 0.44, food)
    return pen.sprite(random), name


def cup(long: int, random: Random) -> ColoredSprite:
    """A mug with a handle at its side."""
    name, paint = pick(random, ("white", "red", "blue", "yellow", "green", "black", "orange"))
    pen = Pen(round(long * 0.92), long)
    pen.arc(0.5, 0.26, 1.0, 0.78, 0, 360, darker(paint, 0.84), 0.1)
    pen.polygon(((0.02, 0.12), (0.74, 0.12), (0.68, 0.96), (0.08, 0.96)), paint)
    pen.ellipse(0.08, 0.88, 0.68, 1.0, paint)
    pen.polygon(((0.52, 0.14), (0.74, 0.12), (0.68, 0.94), (0.52, 0.97)), darker(paint, 0.8))
    pen.ellipse(0.02, 0.0, 0.74, 0.24, mixed(paint, _WHITE, 0.45))
    pen.ellipse(0.08, 0.035, 0.68, 0.2, (84, 52, 34))
    if random.random() < 0.4:
        pen.box(0.06, 0.46, 0.7, 0.6, pick(random, BRIGHT)[1])
    return pen.sprite(random, flip=random.random() < 0.5), name


def bottle(long: int, random: Random) -> ColoredSprite:
    """A bottle with a label."""
    name, paint = pick(random, ("green", "brown", "blue"))
    pen = Pen(round(long * 0.34), long)
    pen.box(0.36, 0.0, 0.64, 0.36, paint, 0.06)
    pen.box(0.34, 0.0, 0.66, 0.07, (200, 180, 60))
    pen.polygon(((0.36, 0.26), (0.64, 0.26), (0.96, 0.44), (0.04, 0.44)), paint)
    pen.box(0.04, 0.4, 0.96, 1.0, paint, 0.12)
    pen.box(0.04, 0.56, 0.96, 0.8, (236, 230, 212))
    pen.line(((0.24, 0.44), (0.24, 0.54)), mixed(paint, _WHITE, 0.5), 0.1)
    return pen.sprite(random), name


def dining_table(long: int, random: Random) -> ColoredSprite:
    """The top of a large table in perspective, of wood or under a cloth, without anything on it."""
    cloth = random.random() < 0.4
    if cloth:
        name, paint = pick(random, ("white", "red", "blue", "green"))
        paint = mixed(paint, (245, 240, 230), random.uniform(0.25, 0.45))
    else:
        name, paint = "wooden", darker((150, 96, 56), random.uniform(0.8, 1.15))
    pen = Pen(long, round(long * 0.8))
    in_by = random.uniform(0.02, 0.1)
    pen.polygon(((in_by, 0.0), (1 - in_by, 0.0), (1.0, 1.0), (0.0, 1.0)), paint)
    if cloth:
        for x in np.linspace(0.06, 0.94, 7).tolist():
            pen.line(((in_by + (1 - 2 * in_by) * x, 0.0), (x, 1.0)), darker(paint, 0.9), 0.03)
    pen.line(((in_by, 0.006), (1 - in_by, 0.006)), darker(paint, 0.7), 0.012)
    sprite = pen.sprite(random)
    fields = noise(max(sprite.height, sprite.width))
    grain = fields.crop("ripples", random, sprite.height)[:, : sprite.width]
    light = np.float32(1) + np.float32(0.02 if cloth else 0.07) * grain
    return Sprite(np.minimum(sprite.paint * light[:, :, None], 255), sprite.cover), name


def fire_hydrant(long: int, random: Random) -> ColoredSprite:
    """A hydrant: a column with a dome and two arms."""
    name, paint = pick(random, ("red", "red", "yellow", "orange", "blue"))
    dark, light = darker(paint, 0.72), mixed(paint, _WHITE, 0.4)
    pen = Pen(round(long * 0.62), long)
    pen.box(0.08, 0.4, 0.92, 0.56, dark, 0.05)
    for x in (0.0, 0.86):
        pen.box(x, 0.37, x + 0.14, 0.59, light, 0.03)
    pen.box(0.24, 0.22, 0.76, 0.94, paint, 0.03)
    pen.pie(0.18, 0.04, 0.82, 0.42, 180, 360, paint)
    pen.box(0.42, 0.0, 0.58, 0.08, dark, 0.02)
    pen.box(0.14, 0.21, 0.86, 0.28, dark, 0.02)
    pen.box(0.6, 0.28, 0.76, 0.9, darker(paint, 0.84))
    pen.ellipse(0.34, 0.38, 0.66, 0.6, light)
    pen.ellipse(0.43, 0.44, 0.57, 0.54, dark)
    pen.box(0.1, 0.9, 0.9, 1.0, dark, 0.03)
    return pen.sprite(random, turn=random.uniform(-3, 3)), name


def kite(long: int, random: Random) -> ColoredSprite:
    """A diamond of two colors with a tail of bows."""
    name, first = pick(random, BRIGHT)
    second = pick(random, BRIGHT)[1]
    pen = Pen(round(long * 0.66), long)
    top, left, low, right, middle = (0.5, 0.0), (0.0, 0.26), (0.5, 0.66), (1.0, 0.26), (0.5, 0.26)
    pen.polygon((top, left, middle), first)
    pen.polygon((top, right, middle), second)
    pen.polygon((left, low, middle), second)
    pen.polygon((right, low, middle), first)
    pen.line((top, low), (70, 60, 60), 0.03)
    pen.line((left, right), (70, 60, 60), 0.03)
    pen.line(((0.5, 0.66), (0.62, 0.76), (0.4, 0.86), (0.56, 1.0)), (60, 56, 60), 0.05)
    for x, y in ((0.6, 0.76), (0.42, 0.86), (0.54, 0.96)):
        x0, x1, y0, y1 = x - 0.16, x + 0.16, y - 0.035, y + 0.035
        pen.polygon(((x0, y0), (x1, y1), (x1, y0), (x0, y1)), first)
    return pen.sprite(random, turn=random.uniform(-50, 50)), name


def sports_ball(long: int, random: Random) -> ColoredSprite:
    """A football, a basketball or a tennis ball."""
    pen = Pen(long, long)
    kind = int(random.integers(3))
    if kind == 0:
        pen.ellipse(0.0, 0.0, 1.0, 1.0, (246, 246, 246))
        turn = random.uniform(0, 2 * np.pi)
        for angle in np.linspace(0, 2 * np.pi, 6)[:-1] + turn:
            x, y = 0.5 + 0.4 * float(np.cos(angle)), 0.5 + 0.4 * float(np.sin(angle))
            pen.ellipse(x - 0.12, y - 0.12, x + 0.12, y + 0.12, (34, 34, 38))
        pen.ellipse(0.36, 0.36, 0.64, 0.64, (34, 34, 38))
        return pen.sprite(random), "white"
    if kind == 1:
        paint: Color = (226, 116, 40)
        pen.ellipse(0.0, 0.0, 1.0, 1.0, paint)
        pen.line(((0.5, 0.0), (0.5, 1.0)), (70, 36, 20), 0.06)
        pen.line(((0.0, 0.5), (1.0, 0.5)), (70, 36, 20), 0.06)
        pen.arc(-0.5, 0.1, 0.3, 0.9, 270, 90, (70, 36, 20), 0.05)
        pen.arc(0.7, 0.1, 1.5, 0.9, 90, 270, (70, 36, 20), 0.05)
        return pen.sprite(random), "orange"
    pen.ellipse(0.0, 0.0, 1.0, 1.0, (212, 232, 60))
    pen.arc(-0.55, 0.0, 0.35, 1.0, 290, 70, (250, 250, 240), 0.08)
    pen.arc(0.65, 0.0, 1.55, 1.0, 110, 250, (250, 250, 240), 0.08)
    return pen.sprite(random), "yellow"


def surfboard(long: int, random: Random) -> ColoredSprite:
    """A long board with a stripe, lying or leaning."""
    name, paint = pick(random, ("yellow", "red", "white", "orange", "pink", "blue"))
    stripe = pick(random, BRIGHT)[1]
    pen = Pen(long, round(long * random.uniform(0.24, 0.3)))
    pen.polygon(_leaf(1.0), paint)
    pen.polygon(_leaf(0.3), stripe)
    for x in (0.24, 0.74):
        pen.box(x, 0.12, x + 0.05, 0.88, darker(paint, 0.7))
    turn = random.uniform(-28, 28) if random.random() < 0.7 else random.uniform(55, 80)
    return pen.sprite(random, turn=turn, flip=random.random() < 0.5), name


def _leaf(wide: float) -> list[tuple[float, float]]:
    along = np.linspace(0, 1, 14)
    half = 0.5 * wide * np.sin(np.pi * along**0.8) ** 0.6
    upper = list(zip(along.tolist(), (0.5 - half).tolist(), strict=True))
    return upper + list(zip(along[::-1].tolist(), (0.5 + half[::-1]).tolist(), strict=True))


def tie(long: int, random: Random) -> ColoredSprite:
    """A tie with its knot; plain or striped."""
    name, paint = pick(random, ("red", "blue", "green", "purple", "yellow", "orange"))
    pen = Pen(round(long * 0.34), long)
    pen.polygon(((0.34, 0.14), (0.66, 0.14), (0.98, 0.84), (0.5, 1.0), (0.02, 0.84)), paint)
    if random.random() < 0.6:
        for y in (0.32, 0.5, 0.68):
            pen.line(((0.28, y + 0.07), (0.74, y - 0.05)), mixed(paint, _WHITE, 0.6), 0.12)
    pen.polygon(((0.2, 0.0), (0.8, 0.0), (0.66, 0.16), (0.34, 0.16)), darker(paint, 0.72))
    return pen.sprite(random), name


def backpack(long: int, random: Random) -> ColoredSprite:
    """A backpack with a pocket, straps and a handle."""
    name, paint = pick(random, ("red", "blue", "green", "orange", "purple", "yellow"))
    dark = darker(paint, 0.66)
    pen = Pen(round(long * 0.78), long)
    pen.arc(0.34, 0.0, 0.66, 0.18, 180, 360, (44, 42, 46), 0.06)
    for x in (0.0, 0.86):
        pen.box(x, 0.44, x + 0.14, 0.86, dark, 0.05)
    pen.box(0.06, 0.08, 0.94, 1.0, paint, 0.2)
    pen.box(0.06, 0.32, 0.94, 0.37, dark)
    pen.box(0.18, 0.54, 0.82, 0.92, darker(paint, 0.84), 0.08)
    pen.box(0.18, 0.62, 0.82, 0.66, (56, 52, 54))
    for x in (0.28, 0.64):
        pen.box(x, 0.3, x + 0.08, 0.58, (56, 52, 54))
        pen.box(x - 0.01, 0.44, x + 0.09, 0.5, (220, 216, 200))
    return pen.sprite(random, turn=random.uniform(-5, 5)), name


def umbrella(long: int, random: Random) -> ColoredSprite:
    """An open umbrella of two colors."""
    name, first = pick(random, BRIGHT)
    second = mixed(first, _WHITE, 0.7)
    pen = Pen(long, round(long * 0.9))
    pen.line(((0.5, 0.1), (0.5, 1.0)), (80, 64, 52), 0.04)
    for part, start in enumerate(range(180, 360, 36)):
        pen.pie(0.0, 0.02, 1.0, 1.0, start, start + 36, second if part % 2 else first)
    return pen.sprite(random, turn=random.uniform(-12, 12)), name


def chair(long: int, random: Random) -> ColoredSprite:
    """A chair with a back of slats."""
    name, paint = pick(random, ("brown", "white", "black", "red", "green"))
    pen = Pen(round(long * 0.56), long)
    for x in (0.06, 0.82):
        pen.box(x, 0.0, x + 0.1, 0.62, paint)
    for y in (0.04, 0.22):
        pen.box(0.06, y, 0.92, y + 0.1, darker(paint, 0.9))
    for x in (0.04, 0.86):
        pen.box(x, 0.56, x + 0.1, 1.0, darker(paint, 0.78))
    for x in (0.2, 0.7):
        pen.box(x, 0.56, x + 0.08, 0.9, darker(paint, 0.62))
    pen.polygon(((0.1, 0.5), (0.9, 0.5), (1.0, 0.62), (0.0, 0.62)), darker(paint, 1.1))
    return pen.sprite(random, flip=random.random() < 0.5), name


def laptop(long: int, random: Random) -> ColoredSprite:
    """An open laptop."""
    case = darker((188, 192, 198), random.uniform(0.6, 1.05))
    pen = Pen(long, round(long * 0.74))
    pen.box(0.13, 0.0, 0.87, 0.66, darker(case, 0.7), 0.02)
    pen.box(0.16, 0.04, 0.84, 0.6, pick(random, ("blue", "white", "black", "green"))[1])
    pen.polygon(((0.13, 0.66), (0.87, 0.66), (1.0, 0.95), (0.0, 0.95)), case)
    pen.polygon(((0.2, 0.7), (0.8, 0.7), (0.86, 0.84), (0.14, 0.84)), (60, 62, 68))
    pen.box(0.0, 0.94, 1.0, 1.0, darker(case, 0.75))
    return pen.sprite(random), "gray"


_TYRE: Color = (30, 30, 34)
_RIM: Color = (170, 172, 178)
_GLASS: Color = (150, 186, 208)


def car(long: int, random: np.random.Generator) -> ColoredSprite:
    """A car from the side, or from the front."""
    names = ("red", "blue", "white", "black", "silver", "yellow", "green", "gray")
    name, paint = pick(random, names)
    if random.random() < 0.25:
        return _car_front(long, random, paint), name
    pen = Pen(long, round(long * random.uniform(0.4, 0.48)))
    roof, hood = random.uniform(0.02, 0.1), random.uniform(0.42, 0.5)
    cabin = ((0.2, hood), (0.32, roof), (0.66, roof), (0.84, hood))
    pen.polygon(cabin, darker(paint, 0.9))
    pen.polygon(((0.25, hood), (0.345, roof + 0.08), (0.47, roof + 0.08), (0.47, hood)), _GLASS)
    side = ((0.51, hood), (0.51, roof + 0.08), (0.64, roof + 0.08), (0.77, hood))
    pen.polygon(side, darker(_GLASS, 0.9))
    pen.box(0.01, hood - 0.03, 0.99, 0.82, paint, 0.06)
    pen.box(0.01, 0.66, 0.99, 0.82, darker(paint, 0.72), 0.03)
    pen.box(0.93, hood + 0.08, 0.99, hood + 0.2, (250, 236, 170), 0.01)
    pen.box(0.01, hood + 0.08, 0.06, hood + 0.2, (180, 30, 30), 0.01)
    for x in (0.22, 0.77):
        pen.ellipse(x - 0.105, 0.58, x + 0.105, 1.0, _TYRE)
        pen.ellipse(x - 0.05, 0.69, x + 0.05, 0.89, _RIM)
    return pen.sprite(random, flip=random.random() < 0.5), name


def _car_front(long: int, random: np.random.Generator, paint: Color) -> Sprite:
    wide = round(long * 0.72)
    pen = Pen(wide, round(wide * 0.84))
    for x in (0.06, 0.74):
        pen.box(x, 0.72, x + 0.2, 1.0, _TYRE, 0.04)
    pen.polygon(((0.16, 0.42), (0.26, 0.04), (0.74, 0.04), (0.84, 0.42)), darker(paint, 0.88))
    pen.polygon(((0.22, 0.4), (0.3, 0.1), (0.7, 0.1), (0.78, 0.4)), _GLASS)
    pen.box(0.02, 0.38, 0.98, 0.88, paint, 0.1)
    pen.box(0.3, 0.56, 0.7, 0.72, (40, 42, 48), 0.03)
    pen.box(0.02, 0.76, 0.98, 0.88, darker(paint, 0.66), 0.04)
    for x in (0.16, 0.84):
        pen.ellipse(x - 0.1, 0.5, x + 0.1, 0.7, (252, 244, 206))
    return pen.sprite(random)


def bus(long: int, random: np.random.Generator) -> ColoredSprite:
    """A bus from the side: a long box with a row of windows."""
    name, paint = pick(random, ("red", "yellow", "blue", "green", "white", "orange"))
    pen = Pen(long, round(long * random.uniform(0.44, 0.52)))
    pen.box(0.0, 0.02, 1.0, 0.88, paint, 0.05)
    pen.box(0.0, 0.62, 1.0, 0.88, darker(paint, 0.76), 0.03)
    for x in np.linspace(0.04, 0.72, 5).tolist():
        pen.box(x, 0.14, x + 0.13, 0.48, darker(_GLASS, 0.75), 0.01)
    pen.box(0.87, 0.12, 0.97, 0.8, darker(_GLASS, 0.8), 0.01)
    for x in (0.2, 0.76):
        pen.ellipse(x - 0.075, 0.7, x + 0.075, 1.0, _TYRE)
        pen.ellipse(x - 0.03, 0.79, x + 0.03, 0.91, _RIM)
    return pen.sprite(random, flip=random.random() < 0.5), name


def boat(long: int, random: np.random.Generator) -> ColoredSprite:
    """A sailing boat, or a motor boat with a cabin."""
    name, hull = pick(random, ("white", "blue", "red", "brown", "black", "green"))
    flip = random.random() < 0.5
    if random.random() < 0.6:
        pen = Pen(round(long * 0.86), long)
        sail: Color = (246, 244, 236)
        if random.random() >= 0.7:
            sail = pick(random, ("red", "blue", "orange", "yellow"))[1]
        pen.line(((0.5, 0.0), (0.5, 0.82)), (96, 72, 52), 0.035)
        pen.polygon(((0.53, 0.03), (0.53, 0.7), (0.97, 0.7)), sail)
        pen.polygon(((0.47, 0.1), (0.47, 0.7), (0.08, 0.7)), darker(sail, 0.88))
        _hull(pen, hull, 0.78)
        return pen.sprite(random, turn=random.uniform(-5, 5), flip=flip), name
    pen = Pen(long, round(long * 0.5))
    pen.box(0.3, 0.12, 0.64, 0.6, (240, 240, 238), 0.03)
    pen.box(0.34, 0.2, 0.44, 0.38, (60, 84, 110), 0.01)
    pen.box(0.48, 0.2, 0.58, 0.38, (60, 84, 110), 0.01)
    pen.line(((0.7, 0.02), (0.7, 0.6)), (90, 90, 96), 0.02)
    _hull(pen, hull, 0.52)
    return pen.sprite(random, turn=random.uniform(-4, 4), flip=flip), name


def _hull(pen: Pen, paint: Color, top: float) -> None:
    middle = top + 0.3 * (1 - top)
    pen.polygon(((0.0, top), (1.0, top), (0.84, 1.0), (0.16, 1.0)), paint)
    band = ((0.0, top), (1.0, top), (0.97, middle), (0.04, middle))
    pen.polygon(band, mixed(paint, (255, 255, 255), 0.55))


def airplane(long: int, random: np.random.Generator) -> ColoredSprite:
    """An airliner from the side, climbing or sinking."""
    name, stripe = pick(random, ("red", "blue", "green", "orange", "purple"))
    body: Color = (236, 238, 242) if random.random() < 0.75 else (186, 192, 202)
    pen = Pen(long, round(long * 0.46))
    pen.polygon(((0.44, 0.52), (0.58, 0.5), (0.44, 0.04), (0.36, 0.04)), darker(body, 0.78))
    pen.polygon(((0.02, 0.02), (0.11, 0.02), (0.26, 0.46), (0.07, 0.5)), stripe)
    pen.ellipse(0.0, 0.4, 0.3, 0.64, body)
    pen.box(0.1, 0.38, 0.86, 0.66, body, 0.06)
    pen.ellipse(0.72, 0.38, 1.0, 0.66, body)
    pen.line(((0.05, 0.58), (0.96, 0.58)), stripe, 0.022)
    for x in np.linspace(0.22, 0.8, 9).tolist():
        pen.box(x, 0.45, x + 0.028, 0.5, (70, 86, 108))
    pen.polygon(((0.9, 0.42), (0.95, 0.45), (0.97, 0.5), (0.89, 0.5)), (60, 76, 96))
    pen.polygon(((0.4, 0.58), (0.6, 0.58), (0.42, 0.99), (0.3, 0.99)), darker(body, 0.84))
    pen.box(0.42, 0.72, 0.54, 0.84, (110, 114, 122), 0.02)
    pen.polygon(((0.04, 0.5), (0.16, 0.5), (0.07, 0.68), (0.0, 0.68)), darker(body, 0.8))
    turn = random.uniform(-4, 16)
    return pen.sprite(random, turn=turn, flip=random.random() < 0.5), name


Draw = Callable[[int, np.random.Generator], ColoredSprite]

THINGS: MappingProxyType[str, Draw] = MappingProxyType(
    {
        "airplane": airplane,
        "backpack": backpack,
        "boat": boat,
        "bottle": bottle,
        "bowl": bowl,
        "bus": bus,
        "car": car,
        "chair": chair,
        "cow": cow,
        "cup": cup,
        "dining_table": dining_table,
        "fire_hydrant": fire_hydrant,
        "kite": kite,
        "laptop": laptop,
        "person": person,
        "sheep": sheep,
        "sports_ball": sports_ball,
        "surfboard": surfboard,
        "tie": tie,
        "umbrella": umbrella,
    }
)

CROWDS: MappingProxyType[str, Draw] = MappingProxyType({"person": crowd, "sheep": flock})
"""Classes that also come as crowds."""

POSES: MappingProxyType[str, Draw] = MappingProxyType(
    {"bust": bust, "back": back, "top": dining_table}
)
"""Drawing of a scene's own large object (its ``front``)."""
