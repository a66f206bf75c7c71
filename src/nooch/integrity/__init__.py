"""Whether a folder that nooch wrote is whole: all of its files as they were written."""

from nooch.integrity.folder_check import Damage, FolderCheck, fsck

__all__ = ["Damage", "FolderCheck", "fsck"]
