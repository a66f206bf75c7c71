"""The report as a site: one folder that opens from disk, works offline, and escapes all data."""
