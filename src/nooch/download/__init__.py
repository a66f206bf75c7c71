"""A collection of files is fetched whole and checked, carried on where it stopped, and unpacked safely, or not at all."""

from nooch.download.catalogue import COLLECTIONS, Collection, Remote, collection
from nooch.download.downloading import Downloaded, Obtained, download
from nooch.download.transport import Patience
from nooch.download.unpacking import unpack

__all__ = [
    "COLLECTIONS",
    "Collection",
    "Downloaded",
    "Obtained",
    "Patience",
    "Remote",
    "collection",
    "download",
    "unpack",
]
