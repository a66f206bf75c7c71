"""Vehicles: functions of the longest side in pixels that return a sprite and its color."""

from __future__ import annotations

import numpy as np

from nooch.scenes.colors import pick
from nooch.scenes.sprite_pen import Color, ColoredSprite, Pen, Sprite, darker, mixed

__all__ = ["airplane", "boat", "bus", "car"]

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
