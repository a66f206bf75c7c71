"""Find the images whose context misleads a vision model."""

from nooch.version import __version__

__all__ = ["__version__"]
