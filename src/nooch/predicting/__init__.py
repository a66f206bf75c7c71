"""Predicting: a suite, its images and a trained network -> predictions."""
