"""Networks: loading and running backbones, classifiers and vision-language models; no training.

Torch is imported where it is used.
"""
