"""Detections as people have them: JSON, folders of text files, tables -> boxes of runs.

The layouts: COCO results; what ultralytics, torchvision and Hugging Face document as their outputs;
tables with a row for each box.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import polars as pl
import polars.selectors as cs

from nooch.base.errors import InputError, reason_of, some_of, unreadable
from nooch.base.limits import BROKEN_JSON
from nooch.base.text_encoding import text_lines
from nooch.base.words import counted
from nooch.data import Dataset, class_name, id_column, read_table
from nooch.data.any_class import with_any_class
from nooch.data.arrays import box_arrays
from nooch.data.box_columns import box_columns, box_numbers
from nooch.data.image_names import FILE_COLUMNS, IMAGE_COLUMNS
from nooch.data.readers.coco.decoder import Listing, first_element, opened
from nooch.data.table_files import HUGGING_FACE
from nooch.data.table_schema import CLASS_COLUMNS, CLASS_NUMBERS, OF_ANY_CLASS
from nooch.evaluation.boxes.detections import RUN_KEYS, Found
from nooch.evaluation.boxes.matching import Boxes, Floats, FoundObjects, Integers
from nooch.evaluation.prediction_format import FileFormat
from nooch.evaluation.predictions import Predictions

_CLASSES = ("task", *CLASS_COLUMNS, "name", *CLASS_NUMBERS)
_SCORES = ("probability", "score", "confidence", "conf", "prob")
LAYOUTS = (
    "COCO results [{image_id, category_id, bbox [left, top, width, height], score}]; records with"
    " image, label, score, box {xmin, ymin, xmax, ymax}; a mapping from image to such"
    " records, or to {boxes [[x1, y1, x2, y2]], labels, scores}; any of these as annotations,"
    " results, predictions or detections of an object; or a folder with a file for each image"
)
"""Content of JSON files, for errors."""
_NO_IMAGE = (
    "write which image each box is of: a column image, or JSON {image: its detections}, such as"
    " {result.path: result.summary() for result in results} of ultralytics"
)
_INNER = ("annotations", "results", "predictions", "detections")
"""Members of an object that detections are in."""
_ARRAYS = (("boxes", "bboxes", "xyxy"), ("labels", "class_id", "class_ids", "classes"),
           ("scores", "confidence", "confidences"))  # fmt: skip
"""Members of an image's arrays: corners, classes, scores, as torchvision, mmdetection and
supervision call them.
"""
_Integer = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


@dataclass(frozen=True)
class _Columns:
    """Names of the columns of a table of boxes, or of the members of a record.

    ``images``: members that name the image, ``image`` first; ``box``: four names, or one of lists
    or structures, or none; ``box_format``: empty if the names leave it open.
    """

    images: tuple[str, ...]
    category: str
    score: str
    box: tuple[str, ...]
    box_format: str

    @property
    def image(self) -> str | None:
        return next(iter(self.images), None)

    @classmethod
    def of(cls, names: Iterable[str], texts: Collection[str]) -> _Columns | None:
        """None where no column is a class, or none a score; ``texts`` are columns of text."""
        listed = reversed(list(names))
        given = {name.strip().lower().replace(" ", "_"): name for name in listed}
        images = _images(given, texts)
        classes = [given[name] for name in _CLASSES if name in given and given[name] not in images]
        score = next((given[name] for name in _SCORES if name in given), None)
        if not classes or score is None:
            return None
        category = next((name for name in classes if name in texts), classes[0])
        box, box_format = box_columns(given)
        return cls(images, category, score, box, box_format)


def _images(given: Mapping[str, str], texts: Collection[str]) -> tuple[str, ...]:
    """See ``_Columns.images``; ``given``: name in lower case -> name."""
    listed = [given[name] for name in IMAGE_COLUMNS if name in given]
    files = [given[name] for name in FILE_COLUMNS if given.get(name) in texts]
    return tuple(dict.fromkeys([*listed[:1], *files]))


def table_detections(frame: pl.DataFrame, where: Path | str) -> Found | None:
    """The boxes of a table with a row for each; None where its columns hold other things."""
    texts = frame.select(cs.string() | cs.categorical() | cs.enum()).columns
    columns = _Columns.of(frame.columns, texts)
    if columns is None or not columns.box:
        return _yolov5(frame, where)
    if columns.image is None:
        raise InputError(f"names no images: columns {some_of(frame.columns, 8)}", where=where,
                         remedy=_NO_IMAGE)  # fmt: skip
    box, box_format = box_numbers(frame, columns.box, columns.box_format, where)
    errors = (pl.exceptions.PolarsError,)
    with unreadable(where, "numbers", errors, problem="scores are not numbers"):
        score = frame[columns.score].cast(pl.Float64).fill_null(float("nan"))
    names = columns.box if len(columns.box) == 4 else (*columns.box, "of", *box.columns)
    category = frame[columns.category]
    kind = pl.Int64 if category.dtype.is_numeric() else pl.String
    if category.dtype.is_float() and not (category == category.floor()).fill_null(True).all():
        raise InputError(f"column {columns.category} has fractions", where=where,
                         allowed="names or whole numbers of classes")  # fmt: skip
    rows = frame.select(
        pl.col(columns.image).alias("image_id"),
        category.cast(kind).alias("category"),
        score.alias("score"),
        *(pl.col(key) for key in RUN_KEYS if key in frame.columns),
    )
    layout = f"a table with {' '.join(names)}" if box_format else "a table"
    return Found(where, layout, rows, box.to_numpy(), box_format, unit="row")


def _yolov5(frame: pl.DataFrame, where: Path | str) -> Found | None:
    """Detections of ``detect.py --save-csv`` of yolov5, which have no boxes; else None."""
    given = {name.strip().lower().replace(" ", "_"): name for name in frame.columns}
    names = ("image_name", "prediction", "confidence")
    if {*names} != given.keys():
        return None
    with unreadable(where, "numbers", (pl.exceptions.PolarsError,), problem="Confidence is not"):
        rows = frame.select(image_id=given[names[0]], category=given[names[1]],
                            score=pl.col(given[names[2]]).cast(pl.Float64))  # fmt: skip
    return Found(where, "a table of yolov5", rows, None, unit="row")


def json_detections(path: Path, how: FileFormat) -> Found | tuple[pl.DataFrame, str]:
    """The detections of a JSON file, see ``LAYOUTS``; or the table of scores of classes that it is,
    and a note, see ``_class_scores``. Raises InputError.

    An array of records is decoded slice by slice, so that 10 million boxes take little memory.
    """
    with opened(path) as whole:
        content, about = _unwrapped(whole, path)
        try:
            first = msgspec.json.decode(first_element(content) or b"null")
        except BROKEN_JSON:
            first = None
        columns = None
        if isinstance(first, dict):
            texts = [name for name, value in first.items() if isinstance(value, str)]
            columns = _Columns.of(first, texts)
            if columns is not None and columns.image is None:
                raise InputError(f"names no images: members {some_of(first, 8)}", where=path,
                                 allowed=LAYOUTS, remedy=_NO_IMAGE)  # fmt: skip
            if columns is not None:
                return replace(_streamed(content, path, columns, first), **about)
        if "images" in about and columns is None:
            raise _no_layout(path, "has COCO annotations, not detections: none has a score")
        with unreadable(path, LAYOUTS, BROKEN_JSON, problem="cannot be read as detections"):
            try:
                document = msgspec.json.decode(content)
            except BROKEN_JSON:
                if _is_object(bytes(content[: 1 << 20]).strip().partition(b"\n")[0]):
                    return read_table(path), ""
                raise
    return _by_image(document, path, how)


def _is_object(line: bytes) -> bool:
    """True if a line is an object of its own, as in JSON lines, and not the start of one."""
    try:
        return isinstance(msgspec.json.decode(line), dict)
    except BROKEN_JSON:
        return False


class _Image(msgspec.Struct):
    id: int | str
    file_name: str | None = None


class _Class(msgspec.Struct):
    id: int
    name: str


def _unwrapped(content: Any, path: Path) -> tuple[Any, dict[str, Any]]:
    """JSON of the detections that are a member of an object; and the images and classes of the
    object, as in COCO's files, as attributes of ``Found``.
    """
    if not content[: 1 << 10].lstrip().startswith(b"{"):
        return content, {}
    try:
        members = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
    except BROKEN_JSON:
        return content, {}
    inner = next((name for name in _INNER if bytes(members.get(name, b""))[:1] == b"["), None)
    if inner is None:
        return content, {}
    about: dict[str, Any] = {}
    with unreadable(path, "images [{id, file_name}], categories [{id, name}]", BROKEN_JSON):
        if "categories" in members:
            classes = msgspec.json.decode(members["categories"], type=list[_Class])
            about["classes"] = {one.id: class_name(one.name, path) for one in classes}
        if "images" in members:
            images = msgspec.json.decode(members["images"], type=list[_Image])
            about["images"] = _ids_or_names(image.id for image in images)
            about["named"] = {"image_id": about["images"]}
            if all(image.file_name for image in images):
                about["named"]["file_name"] = _ids_or_names(image.file_name for image in images)
    return bytes(members[inner]), about


def _streamed(content: Any, path: Path, columns: _Columns, first: Mapping[str, Any]) -> Found:
    kind: Any = tuple[float, float, float, float]
    box, box_format = columns.box, columns.box_format
    members: list[Any] = []
    is_nested = len(box) == 1 and isinstance(first[box[0]], dict)
    if is_nested:
        inner, box_format = box_columns({name.lower(): name for name in first[box[0]]})
        if len(inner) != 4:
            raise _no_layout(path, f"{box[0]} has members {some_of(first[box[0]])}")
        kind = _struct("_Box", [(name, float) for name in inner])
    members = [(name, kind if len(box) == 1 else float) for name in box]
    record = _struct(
        "_Record",
        [(columns.category, _Integer | str | float), (columns.score, float),
         (columns.image, _Integer | str | float),
         *((name, str | None) for name in columns.images[1:]), *members],
    )  # fmt: skip
    category, score, *others = map(attrgetter, record.__struct_fields__)
    images, numbers = others[: len(columns.images)], others[len(columns.images) :]
    ids: list[list[pl.Series]] = [[] for _ in images]
    categories = list[pl.Series]()
    scores, boxes = list[Floats](), list[Floats]()
    for records in Listing(content, path, record).slices():
        n = len(records)
        for image, parts in zip(images, ids, strict=True):
            parts.append(_ids_or_names(map(image, records)))
        categories.append(_ids_or_names(map(category, records)))
        scores.append(np.fromiter(map(score, records), np.float64, n))
        if len(numbers) == 1:
            whole = map(numbers[0], records)
            whole = map(msgspec.structs.astuple, whole) if is_nested else whole
            boxes.append(np.fromiter(chain.from_iterable(whole), np.float64, 4 * n).reshape(n, 4))
        elif numbers:
            boxes.append(np.stack([np.fromiter(map(one, records), np.float64, n)
                                   for one in numbers], axis=1))  # fmt: skip
    named = dict(zip(columns.images, map(_joined, ids), strict=True))
    rows = pl.DataFrame({"image_id": named[columns.images[0]], "category": _joined(categories),
                         "score": np.concatenate(scores)})  # fmt: skip
    is_coco = (columns.image, columns.category) == ("image_id", "category_id") and not is_nested
    layout = "COCO results" if is_coco else f"records with {', '.join(box) or 'no box'}"
    written = np.concatenate(boxes) if numbers else None
    return Found(path, layout, rows, written, box_format, named=named)


def _struct(name: str, members: Sequence[tuple[str | None, Any]]) -> type[Any]:
    """A structure with these members of JSON, in order, for any names."""
    fields = [(f"m{i}", kind, msgspec.field(name=key)) for i, (key, kind) in enumerate(members)]
    return msgspec.defstruct(name, fields, gc=False)


def _ids_or_names(values: Iterable[int | str | float | None]) -> pl.Series:
    """Int64 where all are integers, also as 3.0, else String."""
    listed = list(values)
    if any(type(value) is float for value in listed):
        listed = [int(value) if isinstance(value, float) and value.is_integer() else value
                  for value in listed]  # fmt: skip
    if all(type(value) is int for value in listed):
        return pl.Series(listed, dtype=pl.Int64)
    texts = [None if value is None else str(value) for value in listed]
    return pl.Series(texts, dtype=pl.String)


def _joined(parts: Sequence[pl.Series]) -> pl.Series:
    kind = pl.String if any(part.dtype == pl.String for part in parts) else pl.Int64
    return pl.concat([part.cast(kind) for part in parts])


def _by_image(document: Any, path: Path, how: FileFormat) -> Found | tuple[pl.DataFrame, str]:
    """Detections in a mapping from images, or in an array with an element for each image."""
    named: dict[str, pl.Series] = {}
    if isinstance(document, dict):
        images: list[Any] | None = list(document)
        entries: list[Any] = list(document.values())
    elif isinstance(document, list):
        images, entries = None, document
        if entries and all(isinstance(entry, dict) for entry in entries):
            texts = [key for key, value in entries[0].items() if isinstance(value, str)]
            keys = _images({key: key for key in entries[0]}, texts)
            named = {key: _ids_or_names(entry.get(key) for entry in entries) for key in keys}
            images = [entry.get(keys[0]) for entry in entries] if keys else None
    else:
        raise _no_layout(path, f"is a {type(document).__name__}")
    listed = how.listed()
    if images is None and entries:
        if listed is None or len(listed) != len(entries):
            given = "" if listed is None else f", and {len(listed)} `ids` are given"
            problem = f"names no images for its {len(entries)} elements{given}"
            remedy = f"{_NO_IMAGE}; or {{}}, the image of each element"
            raise InputError(problem, where=path, allowed=LAYOUTS, remedy=remedy, give={"ids": ...})
        images = listed.to_list()
    names = _ids_or_names(images or [])
    if (table := _class_scores(names, entries, path)) is not None:
        return table
    parts = [
        _entry(entry, f"{path}, image {image}") for image, entry in zip(names, entries, strict=True)
    ]
    formats = {part[3] for part in parts if len(part[1])}
    if len(formats) > 1:
        raise _no_layout(path, f"has boxes {' and '.join(sorted(formats))}")
    counts = [len(part[1]) for part in parts]
    rows = pl.DataFrame(
        {
            "image_id": names.gather(np.repeat(np.arange(len(counts)), counts)),
            "category": _joined([pl.Series([], dtype=pl.Int64), *(part[0] for part in parts)]),
            "score": np.concatenate([np.zeros(0), *(part[1] for part in parts)]),
        }
    )
    written = np.concatenate([np.zeros((0, 4)), *(part[2] for part in parts)])
    box_format = formats.pop() if formats else "xyxy"
    listed = names if entries else None
    layout = "boxes of each image"
    return Found(path, layout, rows, written, box_format, "box", listed, named=named)


def _class_scores(
    images: pl.Series, entries: Sequence[Any], where: Path
) -> tuple[pl.DataFrame, str] | None:
    """A table of images: of numbers by class, or of the lists of label and score that a classifier
    gives, in which a class that is not listed is 0, with a note; None of other entries.
    """
    rows = [_by_class(entry) for entry in entries]
    if not any(rows) or None in rows:
        return None
    table = pl.from_dicts([row or {} for row in rows], infer_schema_length=None)
    if not isinstance(entries[0], list):
        own = {name.strip().lower() for name in table.columns} & {*IMAGE_COLUMNS}
        return table if own else table.with_columns(images.alias("image_id")), ""
    gaps = table.null_count().transpose().to_series().sum()
    if gaps and all(len(entry) == 1 for entry in entries):
        best = [next(iter(row.items())) for row in rows if row]
        pairs = pl.DataFrame(best, ["label", "score"], orient="row")
        return pairs.with_columns(images.alias("image_id")), ""
    if gaps and not table.select(pl.all().is_between(0, 1).all().all()).to_numpy().all():
        problem = f"lists scores outside of 0 to 1, and {gaps:,} classes of images are not listed"
        raise InputError(problem, where=where, allowed="the score of every class in every image",
                         remedy="write all classes: pipeline(..., top_k=None)")  # fmt: skip
    note = f"classes that are not listed count as 0: {gaps:,} times" if gaps else ""
    return table.fill_null(0).with_columns(images.alias("image_id")), note


def _by_class(entry: Any) -> dict[str, Any] | None:
    """Class -> score of one image, empty for an empty list; None where an entry is not that."""
    if isinstance(entry, list):
        records = [{name.strip().lower(): one for name, one in record.items()}
                   if isinstance(record, dict) else {} for record in entry]  # fmt: skip
        pairs = [
            [next((record[name] for name in names if name in record), None)
             for names in (_CLASSES, _SCORES)]
            for record in records if len(record) == 2
        ]  # fmt: skip
        scores = {name: score for name, score in pairs if isinstance(name, str)}
        is_list = len(scores) == len(entry) and all(map(_is_number, scores.values()))
        return scores if is_list else None
    if not isinstance(entry, dict) or any(isinstance(one, list | dict) for one in entry.values()):
        return None
    columns = {name.strip().lower() for name in entry}
    numbers = [one for name, one in entry.items() if name.strip().lower() not in IMAGE_COLUMNS]
    is_wide = any(map(_is_number, numbers)) and not columns & {*_CLASSES, *_SCORES}
    return entry if is_wide else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _entry(entry: Any, where: str) -> tuple[pl.Series, Floats, Floats, str]:
    """Classes, scores, boxes of one image, and the order of a box's numbers."""
    if isinstance(entry, dict):
        inner_one = next(
            (name for name in _INNER if isinstance(entry.get(name), list | dict)), None
        )
        if inner_one is not None:
            return _entry(entry[inner_one], where)
        arrays = [next((entry[name] for name in names if name in entry), None) for names in _ARRAYS]
        if all(array is not None for array in arrays):
            boxes, labels, scores = arrays
            return *box_arrays(boxes, labels, scores, where), "xyxy"
    if not isinstance(entry, list) or not all(isinstance(record, dict) for record in entry):
        raise _no_layout(where, f"is a {type(entry).__name__} without boxes, labels and scores")
    if not entry:
        return pl.Series([], dtype=pl.Int64), np.zeros(0), np.zeros((0, 4)), ""
    texts = [name for name, value in entry[0].items() if isinstance(value, str)]
    columns = _Columns.of(entry[0], texts)
    if columns is None or not columns.box:
        raise _no_layout(where, f"has members {some_of(entry[0], 8)}")
    box, box_format = columns.box, columns.box_format
    inner: tuple[str, ...] = ()
    if len(box) == 1 and isinstance(entry[0][box[0]], dict):
        inner, box_format = box_columns({name.lower(): name for name in entry[0][box[0]]})
    try:
        written = [
            [record[name] for name in box]
            if len(box) == 4
            else [record[box[0]][name] for name in inner]
            if inner
            else record[box[0]]
            for record in entry
        ]
        labels, scores = ([record[name] for record in entry]
                          for name in (columns.category, columns.score))  # fmt: skip
    except (KeyError, TypeError) as error:
        raise _no_layout(where, f"has a record without {reason_of(error)}") from error
    return *box_arrays(written, labels, scores, where), box_format


def _no_layout(where: object, problem: str) -> InputError:
    return InputError(f"cannot be read as detections: it {problem}", where=where, allowed=LAYOUTS)


def json_folder(path: Path) -> Path | None:
    """The folder of a JSON file for each image that a path is, or that it has as ``preds``."""
    is_saved = any((path / name).exists() for name in HUGGING_FACE)
    folders = [path, path / "preds"] if path.is_dir() and not is_saved else []
    return next((one for one in folders if one.is_dir() and any(one.glob("*.json"))), None)


def json_folder_detections(folder: Path, how: FileFormat) -> Found | tuple[pl.DataFrame, str]:
    """The detections of a folder of ``IMAGE.json``, as mmdetection writes ``preds``: what a mapping
    from images has. Raises InputError.
    """
    document = {}
    for file in sorted(folder.glob("*.json")):
        if not file.resolve().is_relative_to(folder.resolve()):
            raise InputError("leads out of the folder", where=file, remedy="copy the file there")
        with unreadable(file, LAYOUTS, (OSError, *BROKEN_JSON)):
            entry = document[file.stem] = msgspec.json.decode(file.read_bytes())
        records = entry if isinstance(entry, list) else []
        own = [name for record in records[:1] if isinstance(record, dict) for name in record]
        if _images({name: name for name in own}, own):
            raise InputError("names images itself", where=file,
                             remedy="give one file with the array of all records")  # fmt: skip
    found = _by_image(document, folder, how)
    return (
        replace(found, layout="a JSON file for each image") if isinstance(found, Found) else found
    )


def text_folder(path: Path) -> Path | None:
    """The folder of ultralytics' text files that a path is, or that it has as ``labels``."""
    if not path.is_dir():
        return None
    for folder in (path, path / "labels"):
        if folder.is_dir() and any(file.suffix == ".txt" for file in folder.iterdir()):
            return folder
    return None


def text_detections(folder: Path) -> Found:
    """The boxes of a folder of ``IMAGE.txt`` with lines ``class x y width height confidence``, as
    ``yolo predict save_txt=True save_conf=True`` writes them. Raises InputError.
    """
    images, parts = list[str](), list[Floats]()
    for file in sorted(folder.glob("*.txt")):
        if not file.resolve().is_relative_to(folder.resolve()):
            raise InputError("leads out of the folder", where=file, remedy="copy the file there")
        images.append(file.stem)
        parts.append(_lines(file))
    rows = np.concatenate(parts)
    counts = [len(part) for part in parts]
    names = pl.Series(images, dtype=pl.String)
    table = pl.DataFrame(
        {
            "image_id": names.gather(np.repeat(np.arange(len(counts)), counts)),
            "category": rows[:, 0].astype(np.int64),
            "score": rows[:, 5],
        }
    )
    return Found(folder, "YOLO text files", table, rows[:, 1:5], "cxcywh", "line of all files",
                 names, in_fractions=True, of_yolo=True)  # fmt: skip


_LINE = "class x y width height confidence, in fractions of the image"


def _lines(file: Path) -> Floats:
    """float64 (n, 6) of a text file; a number of a track behind them is left out."""
    rows = [line.split() for line in text_lines(file)]
    for number, row in enumerate(rows, 1):
        where = f"{file}, line {number}"
        if len(row) == 5:
            raise InputError("has five numbers and no confidence", where=where, allowed=_LINE,
                             remedy="write them with save_conf=True")  # fmt: skip
        if len(row) not in {0, 6, 7}:
            raise InputError(f"has {counted(len(row), 'number')}", where=where, allowed=_LINE,
                             remedy="write boxes, not outlines or keypoints")  # fmt: skip
        try:
            is_number = not row or (float(row[0]).is_integer() and 0 <= float(row[0]) < 1 << 31)
            [float(text) for text in row]
        except ValueError:
            is_number = False
        if not is_number:
            raise InputError(f"is {' '.join(row)[:80]!r}", where=where, allowed=_LINE)
    return np.array([row[:6] for row in rows if row], np.float64).reshape(-1, 6)


METRICS = _RATES, _COUNTS = ("precision", "recall", "f1"), ("tp", "fp", "fn")
"""Columns that a table of ``image_metrics`` has, either three."""
_MANY = 3
"""False boxes for each object, above which the confidence was probably not chosen."""


def image_metrics(frame: pl.DataFrame, run: str, where: str) -> Predictions:
    """The run of a table ``image, tp, fp, fn``. Raises InputError for another one, such as of only
    precision and recall, and for values that are not counts.
    """
    named = {name.strip().lower(): name for name in frame.columns}
    image = next((named[name] for name in IMAGE_COLUMNS if name in named), None)
    if image is None:
        raise InputError("image_metrics without a column image", where=where,
                         allowed="the file name of each image")  # fmt: skip
    if lacking := [name for name in _COUNTS if name not in named]:
        raise InputError(
            f"image_metrics without {some_of(lacking)}: rates do not tell the number of"
            " objects", where=where, allowed="tp, fp and fn of each image",
            remedy="update ultralytics (8.4.190 writes them), and run val again",
        )  # fmt: skip
    counts = frame.select(pl.col(named[name]).alias(name) for name in _COUNTS)
    numbers = counts.select(pl.all().cast(pl.Float64, strict=False)).to_numpy()
    bad = ~((numbers >= 0) & (numbers == np.floor(numbers)) & (numbers < 1 << 31))
    if bad.any():
        row, column = np.argwhere(bad)[0].tolist()
        problem = f"{_COUNTS[column]} of image {frame[image][row]} is {counts.row(row)[column]!r}"
        raise InputError(problem, where=where, allowed="counts: 0, 1, 2, ...")
    tp, fp, fn = numbers.astype(np.int64).T
    at, false = np.arange(len(tp)), int(fp.sum())
    objects = np.concatenate([np.repeat(at, tp), np.repeat(at, fn)])
    n_found = int(tp.sum())
    many = f"warning: {false:,} false boxes for {counted(len(objects), 'object')}: val counts boxes"
    many += " above a confidence of 0.001, if none is given; choose one: model.val(conf=0.25)"
    is_found, sizes = np.arange(len(objects)) < n_found, np.zeros(len(objects), np.int64)
    false_boxes = _placeless(np.repeat(at, fp), 1)
    return Predictions(
        run, id_column(frame[image], where), OF_ANY_CLASS,
        np.stack([tp + fp > 0, fp > 0]).astype(np.float64), "probability",
        read=f"{counted(len(objects), 'object')} of any class (image_metrics of ultralytics),"
        f" {counted(len(objects) - n_found, 'object')} missed, {counted(false, 'false box')}",
        notes=(many,) * (false > _MANY * len(objects)),
        objects=FoundObjects(_placeless(objects, 0), sizes, is_found, false_boxes),
    )  # fmt: skip


def _placeless(image: Integers, label: int) -> Boxes:
    return Boxes(image, np.full(len(image), label), np.full((len(image), 4), np.nan))


def data_of_counts(data: Dataset, runs: Sequence[Predictions]) -> tuple[Dataset, list[str]]:
    """The dataset, ``with_any_class`` if runs are ``image_metrics``; and a note on images whose
    objects are more or fewer than those that were counted.
    """
    counting = [run for run in runs if run.tasks == OF_ANY_CLASS and run.objects is not None]
    if not counting:
        return data, []
    if len(counting) < len(runs):
        others = some_of(run.run for run in runs if run not in counting)
        problem = f"image_metrics have no classes, and other predictions do: {others}"
        raise InputError(problem, where="predictions", allowed="one of both kinds at a time")
    notes = [note for run in counting for note in _other_objects(run, data)]
    return with_any_class(data), notes


def _other_objects(run: Predictions, data: Dataset) -> list[str]:
    """A note if the dataset has other objects than those that were counted."""
    if data.objects is None or run.objects is None:
        return []
    ids = data.objects["image_id"]
    annotated = ids.filter(~data.objects["crowd"]).value_counts()
    known = run.image_ids.cast(ids.dtype, strict=False).to_frame("image_id")
    theirs = known.join(annotated, on="image_id", how="left", maintain_order="left")["count"]
    n = np.bincount(run.objects.boxes.image, minlength=len(run.image_ids))
    if not (differ := int((theirs.fill_null(0).to_numpy() != n).sum())):
        return []
    than = f"than the dataset has in {differ:,} of {counted(len(n), 'image')}"
    return [f"warning: {run.run} counts more or fewer objects {than}; validate on the same labels"]
