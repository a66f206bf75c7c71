"""Work that only one process at a time may do in a folder."""

from nooch.work_folder import held, remove_folder, remove_leftovers

__all__ = ["held", "remove_folder", "remove_leftovers"]
