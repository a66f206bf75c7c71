"""Waterbirds: its dataset, its table of scores (paper, section 6), and composing its images."""
