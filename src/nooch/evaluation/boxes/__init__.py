"""Detections against annotated objects: matching, misses and false boxes by context."""
