"""The report as a site: one folder that opens from disk, asks no other host for anything, and
escapes all that comes from data.
"""
