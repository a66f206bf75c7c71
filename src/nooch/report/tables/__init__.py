"""Scores as tables: for the terminal, for papers and as files."""
