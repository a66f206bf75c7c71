"""A reader turns files of a format into a Dataset without splits; it knows nothing of criteria."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nooch.base.calls import Map, imported

if TYPE_CHECKING:
    from nooch.data.readers.contract import Reading

READERS = {
    "coco": "nooch.data.readers.coco.reader:CocoReading",
    "label-maps": "nooch.data.readers.label_maps:MapReading",
    "boxes": "nooch.data.readers.boxes:BoxReading",
    "image-folder": "nooch.data.readers.image_folder:FolderReading",
    "table": "nooch.data.readers.tables:TableReading",
}
"""Name -> where the reading is; imported when it is used."""


def reading_of(name: str, *arguments: Any, **named: Any) -> Reading:
    """The reading of that name, with its parameters."""
    reading: Reading = imported(READERS[name], f"reader {name}")(*arguments, **named)
    return reading


__all__ = ["READERS", "Map", "reading_of"]
