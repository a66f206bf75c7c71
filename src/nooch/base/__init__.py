"""Foundations of every other package: files, folders, errors, words, engines and downloads."""
