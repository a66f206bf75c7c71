"""Class names in one spelling."""

from __future__ import annotations

from nooch.errors import InputError

__all__ = ["class_name"]


def class_name(text: str, where: object = None) -> str:
    """A class name as COCO-Stuff's list spells it, with spaces as underscores ("fire hydrant" -> "fire_hydrant")."""
    name = "_".join(text.split())
    if not name:
        raise InputError("a class has an empty name", where=where)
    return name
