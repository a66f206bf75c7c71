"""Annotating: images without annotations and a model -> a dataset of predicted classes."""
