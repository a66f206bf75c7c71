"""An engine is one method, ``map``: it applies a function to items, somewhere, and yields results in order."""

from nooch.engines.local import LocalEngine

__all__ = ["LocalEngine"]
