"""Household things: functions of the longest side in pixels that return a sprite and its color."""

from __future__ import annotations

import numpy as np

from nooch.scenes.colors import BRIGHT, pick
from nooch.scenes.noise_fields import noise
from nooch.scenes.sprite_pen import Color, ColoredSprite, Pen, Sprite, darker, mixed

__all__ = [
    "backpack", "bottle", "bowl", "chair", "cup", "dining_table", "fire_hydrant",
    "kite", "laptop", "sports_ball", "surfboard", "tie", "umbrella",
]  # fmt: skip

Random = np.random.Generator
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
