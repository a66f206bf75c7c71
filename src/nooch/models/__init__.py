"""Networks: loading and running backbones, classifiers and models of texts and images; no training. Torch is imported where used."""

__all__: list[str] = []
