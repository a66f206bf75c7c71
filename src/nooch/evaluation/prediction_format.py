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

from nooch.base.text_encoding import text_lines, utf8_bytes
from nooch.data import class_name, id_column
from nooch.data.readers.coco.structure import Category, categories_of, decode
from nooch.data.readers.label_maps import class_list
from nooch.data.readers.yolo import YAML_ENDINGS, read_yolo_data
from nooch.data.table_files import checked_read

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

    def named(self) -> dict[int, str] | None:
        """Number -> name of the given classes, or None."""
        if self.classes is None:
            return None
        if not isinstance(self.classes, str | Path):
            return dict(enumerate(map(class_name, self.classes)))
        path = Path(self.classes)
        if path.suffix.lower() in YAML_ENDINGS:
            return {int(number): name for number, name in read_yolo_data(path).names.items()}
        if path.suffix.lower() != ".json":
            return class_list(path)
        file = decode(utf8_bytes(checked_read(path, path.read_bytes), path), _Categories, path)
        return {
            k: class_name(name, path) for k, name in categories_of(file.categories, path).items()
        }

    def listed(self) -> pl.Series | None:
        """The given image ids, or None."""
        ids: Any = self.ids
        if isinstance(ids, str | Path):
            ids = [line.strip() for line in text_lines(Path(ids)) if line.strip()]
        return None if ids is None else id_column(pl.Series(ids), "`ids`")


class _Categories(msgspec.Struct):
    categories: list[Category]
