"""Layouts that Datumaro reads (Cityscapes, KITTI, DOTA, ...) -> Dataset, by Datumaro's importers.

Datumaro pins packages of its own, so that it belongs in an environment of its own.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import polars as pl

from nooch.base.calls import Map, StepProgress
from nooch.base.errors import InputError, MissingExtraError, as_input_error, check_one_of, some_of
from nooch.base.split_plan import SplitPlan
from nooch.base.words import counted
from nooch.data.readers.image_files import list_images
from nooch.data.readers.image_rows import ScannedRows, files_below, listed_digest, write_rows
from nooch.data.splits import SPLIT_NAMES
from nooch.data.table_schema import class_name, means_void

FORMATS = (
    "ade20k2017", "ade20k2020", "align_celeba", "celeba", "cityscapes", "cvat", "dota",
    "kitti_detection", "kitti_segmentation", "mapillary_vistas_instances",
    "mapillary_vistas_panoptic", "mot_seq", "mvtec_classification", "mvtec_detection",
    "mvtec_segmentation", "wider_face",
)  # fmt: skip
"""Formats whose detection is asked; generic ones would accept any folder of images."""
_BOXES = frozenset({"Bbox", "RotatedBbox", "Ellipse"})
_MASKS = frozenset({"Mask", "ExtractedMask", "RleMask"})
_SHAPES = _BOXES | _MASKS | {"Polygon"}
_SCHEMA: dict[str, Any] = {
    "image_id": pl.String, "file_name": pl.String, "width": pl.Int64, "height": pl.Int64,
    "split": pl.String, "keys": pl.List(pl.String), "areas": pl.List(pl.Float64),
    "boxes": pl.List(pl.Float64), "crowd": pl.List(pl.Boolean),
    "ignore": pl.List(pl.Boolean),
}  # fmt: skip


@dataclass(frozen=True)
class DatumaroReading:
    """The reading of a folder by an importer of Datumaro.

    Boxes, rotated boxes, polygons and masks of instances are objects; each shape adds its area to
    its class, and a label without a shape is present with unknown area. Datumaro's attributes
    ``is_crowd`` and ``is_group_of`` mark crowds, ``difficult`` and ``difficulty`` ignored objects.

    Args:
        source: the folder.
        format: name of an importer, such as ``cityscapes``; empty: Datumaro detects it among
            ``FORMATS``.
    """

    source: str | Path
    format: str = ""

    def files(self) -> list[tuple[str, Path]]:
        """The folder."""
        return [("annotations", Path(self.source))]

    def check(self, plan: SplitPlan | None) -> None:
        """Raises InputError if there is no such folder, MissingExtraError without Datumaro."""
        del plan
        if not Path(self.source).is_dir():
            raise InputError("no such folder", where=self.source)
        _environment()

    def dependencies(self) -> list[Any]:
        """All files below the folder, by name, size and time."""
        listed = pl.DataFrame({"file": files_below(Path(self.source), lambda _: True)})
        return [self.format, listed_digest(listed)]

    def scan(
        self, folder: Path, map: Map, progress: StepProgress, part_size: int | None = None
    ) -> ScannedRows:
        """Rows of all images. Raises InputError: Datumaro cannot read the folder, or what it reads
        has no annotations or leaves out photographs.
        """
        del map, part_size
        from datumaro.components.dataset import Dataset as Imported

        importer = self.format or self._detected()
        check_one_of("format of Datumaro", importer, sorted(_environment().importers))
        with _by_datumaro(f"Datumaro cannot read it as {importer}", self.source):
            imported = Imported.import_from(str(self.source), importer)
            labels = [label.name for label in imported.categories()[_label_type()].items]
            items, rows, kinds = [*imported], [], Counter[str]()
            for number, item in enumerate(items):
                rows.append(self._row(item, labels, kinds))
                progress(number + 1, len(items))
        frame = pl.DataFrame(_unique(rows), schema=_SCHEMA, orient="row")
        self._check_complete(importer, frame)
        has_splits = frame["split"].null_count() == 0
        about: dict[str, Any] = {
            "reader": f"datumaro/{importer}",
            "area": _area_kind(kinds),
            "sources": [{"role": "annotations", "file": Path(self.source).name,
                         "images": frame.height, "sha256": _digest(frame)}],
            "notes": _notes(kinds, importer, has_splits=has_splits),
        }  # fmt: skip
        used = frame["keys"].explode().drop_nulls().unique()
        # a list of classes is Datumaro's where the folder has none: only those that occur
        classes = {name: class_name(name) for name in labels if name in used}
        has_objects = bool(frame["crowd"].list.len().sum())
        if has_objects and (frame["crowd"].list.len() != frame["keys"].list.len()).any():
            has_objects = False
            about["notes"].append("no objects are recorded: labels or regions without instances")
        frame = frame if has_objects else frame.drop("boxes", "crowd", "ignore")
        frame = frame if has_splits else frame.drop("split")
        return ScannedRows(
            write_rows(frame, folder), classes, about, self.source,
            root=self.source, has_objects=has_objects,
        )  # fmt: skip

    def _detected(self) -> str:
        environment = _environment()
        with _by_datumaro("Datumaro cannot inspect it", self.source):
            detected = environment.detect_dataset(str(self.source), depth=3)
        named: list[str] = [name for name in detected if name in FORMATS]
        if len(named) == 1:
            return named[0]
        if not named:
            raise InputError(
                "Datumaro recognizes none of its formats here", where=self.source,
                allowed=f"a dataset folder in one of {some_of(FORMATS, len(FORMATS))}",
                remedy="name the format: {}", give={"reader": "datumaro/FORMAT"},
            )  # fmt: skip
        raise InputError(
            f"matches several formats of Datumaro: {', '.join(named)}", where=self.source,
            give=[{"reader": f"datumaro/{name}"} for name in named],
        )  # fmt: skip

    def _row(self, item: Any, labels: list[str], kinds: Counter[str]) -> dict[str, Any]:
        """One image, and counts of its annotations by kind."""
        size = getattr(item.media, "size", None)
        height, width = size or (None, None)
        row: dict[str, Any] = {
            "image_id": item.id, "width": width, "height": height,
            "file_name": self._file_name(item), "split": SPLIT_NAMES.get(item.subset.lower()),
            "keys": [], "areas": [], "boxes": [], "crowd": [], "ignore": [],
        }  # fmt: skip
        shaped = set()
        for shape in item.annotations:
            kind, number = type(shape).__name__, getattr(shape, "label", None)
            kinds[
                kind if kind not in _SHAPES or number is not None else f"{kind} without label"
            ] += 1
            if kind not in _SHAPES or number is None or means_void(labels[number]):
                continue
            mask = np.asarray(shape.image) if kind in _MASKS else None
            area = float(shape.get_area() if mask is None else np.count_nonzero(mask))
            if size is None and mask is not None:
                height, width = mask.shape
            if not area:
                continue
            shaped.add(number)
            row["keys"].append(labels[number])
            row["areas"].append(area / (width * height) if width and height else np.nan)
            marks = shape.attributes
            is_instance = mask is None or bool(shape.group) or "is_crowd" in marks
            if is_instance:
                row["boxes"] += map(float, shape.get_bbox())
                row["crowd"].append(bool(marks.get("is_crowd") or marks.get("is_group_of")))
                row["ignore"].append(bool(marks.get("difficult") or marks.get("difficulty")))
        for label in item.annotations:
            if type(label).__name__ == "Label" and label.label not in shaped:
                row["keys"].append(labels[label.label])
                row["areas"].append(np.nan)
        return row

    def _file_name(self, item: Any) -> str | None:
        path = getattr(item.media, "path", None)
        if not path:
            return None
        root = Path(self.source).resolve()
        return Path(path).resolve().relative_to(root).as_posix()

    def _check_complete(self, importer: str, frame: pl.DataFrame) -> None:
        """Raise InputError for a reading that has no annotations, or not all photographs."""
        problem, files = "", {*frame["file_name"].drop_nulls()}
        if not frame["keys"].list.len().sum():
            problem = "without an annotation"
        folders = {PurePath(name).parent for name in files}
        # a photograph's maps may lie next to it: x.jpg, x_seg.png
        stems = {PurePath(name).stem for name in files}
        others = [
            name for name in list_images(self.source)
            if PurePath(name).parent in folders and name not in files
            and stems.isdisjoint(_beginnings(PurePath(name).stem))
        ]  # fmt: skip
        if others:
            problem = f"without {counted(len(others), 'photograph')} next to them, such as"
            problem += f" {some_of(sorted(others), 2)}"
        if problem:
            raise InputError(
                f"Datumaro reads {counted(frame.height, 'image')} as {importer}, {problem}",
                where=self.source,
                remedy="import the folder that has this layout's files, or name another format: {}",
                give={"reader": "datumaro/FORMAT"},
            )


@contextmanager
def _by_datumaro(problem: str, where: object) -> Iterator[None]:
    """Turn an error of Datumaro into an InputError with its cause, which its own text hides."""
    with as_input_error(problem, where=where):
        try:
            yield
        except Exception as error:
            raise (error.__cause__ or error) from error


def _environment() -> Any:
    try:
        from datumaro.components.environment import Environment
    except ImportError as error:
        raise MissingExtraError("datumaro", "datumaro", "this layout") from error
    return Environment()


def _label_type() -> Any:
    from datumaro.components.annotation import AnnotationType

    return AnnotationType.label


def _beginnings(stem: str) -> set[str]:
    """The part of a name before each of its underscores."""
    return {stem[:end] for end, mark in enumerate(stem) if mark == "_"}


def _unique(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows, whose ids have the split in front where they repeat."""
    times = Counter(row["image_id"] for row in rows)
    for row in rows:
        if times[row["image_id"]] > 1:
            row["image_id"] = f"{row['split']}/{row['image_id']}"
    return rows


def _area_kind(shapes: Iterable[str]) -> str:
    kinds = {*shapes} & _SHAPES
    return "unknown" if not kinds else "boxes" if kinds <= _BOXES else "segments"


def _notes(kinds: Mapping[str, int], importer: str, *, has_splits: bool) -> list[str]:
    notes = [f"read by Datumaro's importer {importer}"]
    boxes = sum(n for kind, n in kinds.items() if kind in _BOXES)
    if boxes:
        notes.append("areas are of bounding boxes, which are larger than their objects")
    unused = {kind: n for kind, n in kinds.items() if kind not in _SHAPES | {"Label"}}
    notes += [f"not used: {counted(n, 'annotation')} of kind {kind}" for kind, n in unused.items()]
    return notes if has_splits else [*notes, "names of subsets that are not splits are ignored"]


def _digest(frame: pl.DataFrame) -> str:
    return hashlib.sha256(
        frame.select("image_id", "keys", "areas").write_json().encode()
    ).hexdigest()
