"""Settings that files of predictions leave open: scale, decimal sign, names of columns, ids of
rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from nooch.base.limits import BROKEN_JSON
from nooch.base.text_encoding import utf8_bytes
from nooch.data import class_name
from nooch.data.readers.coco.structure import Category, categories_of, decode
from nooch.data.readers.cocostuff import COCO_THINGS
from nooch.data.readers.label_maps import class_list, is_numbered
from nooch.data.readers.yolo import YAML_ENDINGS, read_yolo_data
from nooch.data.table_files import checked_read, listed_ids

UNKNOWN = ("wrong", "skip")
"""Treatment of an answer that is neither yes nor no: wrong, or not asked."""


@dataclass(frozen=True)
class FileFormat:
    """Settings that files of predictions leave open, as in ``load_predictions``."""

    scale: str | None
    decimal: str
    percent: bool
    classes: str | Path | Sequence[str] | None
    ids: object
    box_format: str | None = None
    first_class: int | None = None
    tasks: Sequence[str] = ()

    def named(self) -> dict[int, str] | None:
        """Number -> name of the given classes, or None."""
        if self.classes is None:
            return None
        if not isinstance(self.classes, str | Path):
            return dict(enumerate(map(class_name, self.classes)))
        if str(self.classes) == "coco":
            return COCO_THINGS
        path = Path(self.classes)
        if path.suffix.lower() in YAML_ENDINGS:
            return {int(number): name for number, name in read_yolo_data(path).names.items()}
        if path.suffix.lower() != ".json" or not _has_categories(path):
            return class_list(path)
        file = decode(utf8_bytes(checked_read(path, path.read_bytes), path), _Categories, path)
        return {
            k: class_name(name, path) for k, name in categories_of(file.categories, path).items()
        }

    def is_numbered(self) -> bool:
        """True if a number of a detector's file stands next to each name of the given classes; a
        ``data.yaml`` has numbers of labels, which begin at 0.
        """
        if not isinstance(self.classes, str | Path):
            return False
        path = Path(self.classes)
        if path.suffix.lower() in YAML_ENDINGS:
            return False
        return path.suffix.lower() == ".json" or str(path) == "coco" or is_numbered(path)

    def listed(self) -> pl.Series | None:
        """The given image ids, or None."""
        return listed_ids(self.ids)


def _has_categories(path: Path) -> bool:
    """True if JSON has COCO's categories, or else is a list of names."""
    try:
        return bool(msgspec.json.decode(path.read_bytes(), type=_Member).categories)
    except (OSError, *BROKEN_JSON):
        return False


class _Member(msgspec.Struct):
    categories: Any = None


class _Categories(msgspec.Struct):
    categories: list[Category]
