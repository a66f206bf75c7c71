"""A reader turns files of a format into a Dataset without splits; it knows nothing of criteria."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nooch.base.calls import Map, imported, is_named
from nooch.base.errors import ParameterError, check_one_of

if TYPE_CHECKING:
    from nooch.data.readers.contract import Reading

READERS = {
    "coco": "nooch.data.readers.coco.reader:CocoReading",
    "label-maps": "nooch.data.readers.label_maps:MapReading",
    "boxes": "nooch.data.readers.boxes:BoxReading",
    "image-folder": "nooch.data.readers.image_folder:FolderReading",
    "table": "nooch.data.readers.tables:TableReading",
    "datumaro": "nooch.data.readers.datumaro:DatumaroReading",
}
"""Name -> where the reading is; imported when it is used."""


def reading_of(name: str, *arguments: Any, **named: Any) -> Reading:
    """The reading of that name, with its parameters."""
    reading: Reading = imported(READERS[name], f"reader {name}")(*arguments, **named)
    return reading


def custom_reading(reader: str, path: Path) -> Reading:
    """The reading of a path by one of ``READERS``, also ``reader/FORMAT``, or by a custom
    ``package.module:Name``, which is called with the path.

    Raises ParameterError: there is no such reader, it needs more than a path, or what it gives is
    not a ``Reading``.
    """
    name, *variant = [reader] if is_named(reader) else reader.split("/", 1)
    target = name if is_named(name) else READERS[check_one_of("reader", name, READERS)]
    kind = imported(target, f"reader {reader!r}")
    if not is_named(reader):
        parameters = inspect.signature(kind).parameters
        needed = [p.name for p in parameters.values() if p.default is p.empty]
        if len({*needed, *["format"][: len(variant)]}) != 1 + len(variant):
            problem = "needs more than a path"
            remedy = f"import it by its own command: nooch import {reader}"
            raise ParameterError(problem, where=f"reader {reader!r}", remedy=remedy)
    reading: Reading = kind(path, *variant)
    missing = [name for name in _METHODS if not callable(getattr(reading, name, None))]
    if missing:
        problem = f"gives a {type(reading).__name__} without {', '.join(missing)}"
        allowed = f"an object with {', '.join(_METHODS)}, as nooch.data.readers.contract.Reading"
        raise ParameterError(problem, where=f"reader {reader!r}", allowed=allowed)
    return reading


_METHODS = ("files", "check", "dependencies", "scan")

__all__ = ["READERS", "Map", "custom_reading", "reading_of"]
