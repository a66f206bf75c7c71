"""Intervening: a suite, its images, masks and a network -> answers before and after an edit."""
