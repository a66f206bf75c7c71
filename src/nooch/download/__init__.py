"""Download collections of files: checked, resumable, and safely unpacked, or not at all."""

from nooch.download.catalogue import COLLECTIONS, Collection, Remote, collection
from nooch.download.collection_download import Downloaded, Obtained, download
from nooch.download.http_requests import Patience
from nooch.download.zip_extraction import unpack

__all__ = [
    "COLLECTIONS", "Collection", "Downloaded", "Obtained", "Patience", "Remote", "collection",
    "download", "unpack",
]  # fmt: skip
