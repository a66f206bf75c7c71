"""Figures: the paper's figures and image sheets, as tables of their data and as drawings."""
