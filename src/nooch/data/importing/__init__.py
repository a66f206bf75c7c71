"""Importing: annotation files of any format and size -> a dataset folder."""
