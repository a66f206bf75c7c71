"""The former name of ``nooch.readers.reading``; it goes when nothing imports it."""

from nooch.readers.reading import Counter, ImageListing, Job, Reading, Scanned, as_given, in_range

__all__ = ["Counter", "ImageListing", "Job", "Reading", "Scanned", "as_given", "in_range"]
