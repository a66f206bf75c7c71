"""People and animals: functions of the longest side in pixels that return sprite and color."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nooch.scenes.colors import CLOTHES, HAIR, SKIN, choice, pick
from nooch.scenes.sprite_pen import ColoredSprite, Pen, Sprite, darker

__all__ = ["back", "bust", "cow", "crowd", "flock", "person", "sheep"]

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
