"""The objects that can be drawn: class -> (longest side, random) -> (sprite, color word)."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

import numpy as np

from nooch.scenes import animal_sprites as living
from nooch.scenes import household_sprites as goods
from nooch.scenes import vehicle_sprites as vehicles
from nooch.scenes.sprite_pen import ColoredSprite

__all__ = ["CROWDS", "POSES", "THINGS", "Draw"]

Draw = Callable[[int, np.random.Generator], ColoredSprite]

THINGS: MappingProxyType[str, Draw] = MappingProxyType(
    {
        "airplane": vehicles.airplane,
        "backpack": goods.backpack,
        "boat": vehicles.boat,
        "bottle": goods.bottle,
        "bowl": goods.bowl,
        "bus": vehicles.bus,
        "car": vehicles.car,
        "chair": goods.chair,
        "cow": living.cow,
        "cup": goods.cup,
        "dining_table": goods.dining_table,
        "fire_hydrant": goods.fire_hydrant,
        "kite": goods.kite,
        "laptop": goods.laptop,
        "person": living.person,
        "sheep": living.sheep,
        "sports_ball": goods.sports_ball,
        "surfboard": goods.surfboard,
        "tie": goods.tie,
        "umbrella": goods.umbrella,
    }
)

CROWDS: MappingProxyType[str, Draw] = MappingProxyType(
    {"person": living.crowd, "sheep": living.flock}
)
"""Classes that also come as crowds."""

POSES: MappingProxyType[str, Draw] = MappingProxyType(
    {"bust": living.bust, "back": living.back, "top": goods.dining_table}
)
"""How a scene's own large object (its ``front``) is drawn."""
