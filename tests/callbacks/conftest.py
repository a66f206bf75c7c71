"""Scenes that the tests share."""

from drawn_scenes import data, scenes

__all__ = ["data", "scenes"]
