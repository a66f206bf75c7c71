"""Arrays on disk with a row for each image, made once: pixels and frozen features."""
