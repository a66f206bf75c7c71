"""Training: pixels and features that are made once, backbones, and the loops over them. Torch is imported where it is used."""

__all__: list[str] = []
