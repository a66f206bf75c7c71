"""Run a model on images: predictions, annotations, and answers in words."""
