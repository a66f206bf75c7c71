"""Class names in one spelling, and what the name of an embedding says."""

from __future__ import annotations

from nooch.errors import InputError

__all__ = ["class_name", "embedding_precision"]


def class_name(text: str, where: object = None) -> str:
    """A class name as COCO-Stuff spells it: spaces become underscores ("fire_hydrant")."""
    name = "_".join(text.split())
    if not name:
        raise InputError("a class has an empty name", where=where)
    return name


def embedding_precision(name: str) -> str:
    """``float32`` or ``bf16``, in which an embedding was computed, as its name ends; ``unknown``
    for other embeddings.

    Encoders of sentence-transformers name theirs ``...-fp32`` or ``...-bf16``, those of earlier
    versions too.
    """
    return {"fp32": "float32", "bf16": "bf16"}.get(name.rpartition("-")[2], "unknown")
