"""A reader turns files of a format into a Dataset without splits; it knows nothing of criteria."""

from nooch.base.calls import Map

"""Applies a reader's jobs: Python's ``map``, or an engine's, which spreads them over processes."""

READERS = {
    "coco": "nooch.data.readers.coco.reader:read_coco",
    "label-maps": "nooch.data.readers.label_maps:read_label_maps",
    "boxes": "nooch.data.readers.boxes:read_boxes",
    "image-folder": "nooch.data.readers.image_folder:read_image_folder",
    "table": "nooch.data.readers.tables:read_table_of_images",
    "long-table": "nooch.data.readers.tables:read_long_table",
}
"""Name -> where the reader is; imported when it is used."""

__all__ = ["READERS", "Map"]
