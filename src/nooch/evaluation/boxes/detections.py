"""Detections that a file has: checked, named, and attached to runs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from nooch.base.errors import Give, InputError, some_of
from nooch.base.words import counted
from nooch.data import Dataset, class_name, id_column
from nooch.data.box_columns import FORMATS, NUMBERS, are_fractions, as_boxes, check_inside
from nooch.data.image_names import UNTYPED
from nooch.evaluation.boxes.matching import (
    Boxes,
    Detections,
    Floats,
    Integers,
    check_scores,
    checked_boxes,
)
from nooch.evaluation.boxes.readings import (
    Seen,
    best_boxes,
    check_boxes,
    class_of_numbers,
    readings_of,
)
from nooch.evaluation.prediction_format import FileFormat
from nooch.evaluation.predictions import KnownImages, Predictions, as_known, positions

RUN_KEYS = ("run", "method", "seed")
"""Columns of a table that distinguish runs."""


@dataclass(frozen=True, eq=False)
class Found:
    """Detections as a file has them.

    Attributes:
        where: the file.
        layout: in words, such as "COCO results".
        rows: ``image_id``, ``category`` (number or name), ``score``, and any of run, method, seed.
        written: float64 (n, 4), the numbers of the boxes; None without boxes.
        box_format: order of these numbers; empty if the layout leaves it open.
        unit: what a row is in the file, such as "element".
        images: all images that the file lists, also those without a box.
        in_fractions: whether boxes are fractions by definition; else the numbers decide.
        of_yolo: whether classes are numbered from 0 by definition.
        named: member -> its name of the image of each row, or of each of ``images``; ``image_id``
            is the first.
        classes: number -> class, as the file itself has it.
    """

    where: Path | str
    layout: str
    rows: pl.DataFrame
    written: Floats | None
    box_format: str = "xyxy"
    unit: str = "element"
    images: pl.Series | None = None
    in_fractions: bool = False
    of_yolo: bool = False
    named: Mapping[str, pl.Series] = field(default_factory=dict)
    classes: Mapping[int, str] | None = None

    def place(self, row: int) -> str:
        """The file, unit and image of a detection, for errors."""
        return f"{self.where}, {self.unit} {row + 1}, image {self.rows['image_id'][row]}"

    def with_one_name(self, images: KnownImages) -> tuple[Found, str]:
        """With the member that counts as ``image_id``, and a note; see ``ImageNames.agreed``."""
        several = len(self.named) > 1
        best, note = images.names.agreed(self.named, self.where) if several else ("", "")
        if not best:
            return self, ""
        names, listed = self.named[best], self.images
        if listed is not None:
            listed, names = names, names.gather(positions(self.rows["image_id"], listed))
        rows = self.rows.with_columns(names.alias("image_id"))
        return replace(self, rows=rows, images=listed), note

    def resolved(self, tasks: Sequence[str], images: KnownImages, how: FileFormat) -> DetectedBoxes:
        """The boxes of tasks, checked; of all classes if no task is given. Raises InputError."""
        for name in ("image_id", "category"):
            if self.rows[name].null_count():
                row = int(self.rows[name].is_null().arg_max() or 0)
                what = "image" if name == "image_id" else "class"
                raise InputError(f"has no {what}", where=f"{self.where}, {self.unit} {row + 1}",
                                 allowed="an image and a class for every box")  # fmt: skip
        scores = self.rows["score"].to_numpy() / (100 if how.percent else 1)
        notes = [*check_scores(scores, self.place), self._repeated()]
        written, box_format = self.written, how.box_format or self.box_format
        rows = self.rows.with_columns(id_column(self.rows["image_id"], self.where), score=scores)
        fractions, places = self.in_fractions, self._places(rows["image_id"], images)
        if written is not None:
            if not box_format:
                raise InputError(
                    "columns x and y can be a corner or the center of the box", where=self.where,
                    remedy="{} (left, top, width, height) or {} (center)",
                    give=({"box_format": "xywh"}, {"box_format": "cxcywh"}),
                )  # fmt: skip
            boxes = checked_boxes(written, box_format, self.place)
            fractions = fractions or are_fractions(written)
            if fractions or images.data is not None:
                data = None if fractions else images.data
                extent = np.ones((1, 2)) if data is None else self._extent(places, data)
                notes.append(check_inside(written, box_format, extent, self.where))
            written = boxes
        layout, known = self.layout, [*tasks, *images.classes]
        categories, seen = _as_numbers(rows["category"], known), None
        numbers = categories.unique().sort()
        few = best_boxes(places, scores)
        if images.data is not None and len(few):
            raw = None if self.written is None else self.written[few]
            seen = Seen.of(
                categories.gather(few), numbers, places[few], scores[few], images.data,
                self._in_units(None if raw is None else as_boxes(raw, box_format), fractions,
                               places[few], images.data),
            )  # fmt: skip
            others = self._others(raw, rows["image_id"].gather(few), box_format, fractions,
                                  places[few], images.data)  # fmt: skip
            notes.append(check_boxes(seen, others, scores[few], images.data, self.where))
        if categories.dtype != pl.String and len(categories):
            readings = readings_of(how, images, self.classes, of_yolo=self.of_yolo)
            reading = class_of_numbers(numbers.to_list(), readings, seen, how, self.where)
            names = {number: reading.names[number] for number in numbers}
            layout = f"{layout}, classes {reading.words}"
        else:
            names = {name: class_name(str(name), self.where) for name in numbers}
            meant = seen and seen.meant(as_known([*names.values()], known))
            notes += [f"warning: boxes under another number overlap {meant[1]}"] if meant else []
        names = dict(zip(names, as_known([*names.values()], known), strict=True))
        rows = rows.with_columns(_named(categories, names).alias("task")).drop("category")
        if tasks:
            wanted = rows["task"].is_in(list(tasks))
            notes.append(self._unknown(rows["task"], known, is_named=categories.dtype == pl.String))
            rows, written = rows.filter(wanted), _kept(written, wanted)
        listed = self.images
        if not rows.height:
            rows, listed = self._empty(rows, listed, tasks, images, how)
        return DetectedBoxes(
            str(self.where), layout, rows, written, fractions, listed, tuple(filter(None, notes))
        )

    def _repeated(self) -> str:
        """A note on boxes that are there twice."""
        if self.written is None or not len(self.written):
            return ""
        table = self.rows.hstack(pl.DataFrame(self.written))
        if not (n := len(table) - table.hash_rows().n_unique()):
            return ""
        what = "repeat the image, class, score and position of another box"
        return f"{counted(n, 'box')} {what}: each counts, as in pycocotools"

    def _unknown(self, tasks: pl.Series, known: Sequence[str], *, is_named: bool) -> str:
        """A note on names of classes that are not known. Raises InputError if all are unknown."""
        unknown = tasks.filter(~tasks.is_in(known))
        if len(unknown) and len(unknown) == len(tasks):
            problem = f"no box has a known class; classes are {some_of(tasks.unique().sort())}"
            raise InputError(problem, where=self.where, allowed=some_of(dict.fromkeys(known), 12))
        if not len(unknown) or not is_named:
            return ""
        names = some_of(unknown.unique().sort())
        return f"{counted(len(unknown), 'box')} of unknown classes are left out: {names}"

    def _places(self, ids: pl.Series, images: KnownImages) -> Integers:
        """Row of each box's image in the dataset, int64 (n,), -1 for none."""
        if images.data is None:
            return np.full(len(ids), -1)
        typed = Path(self.where).suffix.lower() not in UNTYPED
        names = ids.unique()
        matched, _ = images.ids_of(names, str(self.where), typed=typed)
        known = images.data.images["image_id"]
        rows = positions(matched.cast(known.dtype, strict=False), known)
        return np.asarray(rows[positions(ids, names)])

    @staticmethod
    def _extent(places: Integers, data: Dataset) -> Floats:
        """Width and height of each box's image in pixels, NaN unknown: float64 (n, 2)."""
        sizes = data.images.select(pl.col("width", "height").cast(pl.Float64)).to_numpy()
        # position -1, no image, is the last element
        return np.asarray(np.vstack([sizes, [[np.nan, np.nan]]])[places])

    @classmethod
    def _in_units(
        cls, boxes: Floats | None, fractions: bool, places: Integers, data: Dataset
    ) -> Floats | None:
        """Boxes in the units of the objects: pixels where the image's size is known, NaN where
        pixels are not known.
        """
        if boxes is None:
            return None
        extent = np.tile(cls._extent(places, data), (1, 2))
        return boxes * np.nan_to_num(extent, nan=1.0) if fractions else boxes + 0 * extent

    def _others(
        self, written: Floats | None, ids: pl.Series, box_format: str, fractions: bool,
        places: Integers, data: Dataset,
    ) -> Iterator[tuple[str, Integers, Floats, Give]]:  # fmt: skip
        """Other readings of the boxes, see ``check_boxes``: of each order of numbers, and of the
        images before and behind.
        """
        if written is None:
            return
        of_form = {form: self._in_units(as_boxes(written, form), fractions, places, data)
                   for form in FORMATS}  # fmt: skip
        for form, boxes in of_form.items():
            if boxes is not None and form != box_format:
                is_sane = (boxes[:, 2:] >= 0).all(axis=1, keepdims=True)
                give = {"box_format": form}
                yield f"{NUMBERS[form]} ({form})", places, np.where(is_sane, boxes, np.nan), give
        known, own = data.images["image_id"], of_form[box_format]
        if own is not None and ids.dtype == known.dtype == pl.Int64:
            for step in (1, -1):
                yield f"of the image with the id {step:+}", positions(ids + step, known), own, {}

    def _empty(
        self,
        rows: pl.DataFrame,
        listed: pl.Series | None,
        tasks: Sequence[str],
        images: KnownImages,
        how: FileFormat,
    ) -> tuple[pl.DataFrame, pl.Series]:
        """Without a detection: the images that the detector was run on, of the file or else given
        or known.
        """
        listed = how.listed() if listed is None else listed
        listed = images.table["image_id"] if listed is None else listed
        if not len(listed) or not tasks:
            raise InputError(
                "contains no detection, and the images that the detector was run on are unknown",
                where=self.where,
                remedy="{}, all its images, and a suite or dataset with its classes",
                give={"ids": ...},
            )
        return rows.clear().with_columns(pl.Series("image_id", [], listed.dtype)), listed


def _as_numbers(categories: pl.Series, known: Collection[str]) -> pl.Series:
    """Text of integers, such as "3" or "3.0", as numbers, unless classes are called so."""
    if categories.dtype != pl.String or categories.is_in(list(known)).any():
        return categories
    if not categories.str.contains(r"^[0-9]{1,18}(\.0+)?$").all():
        return categories
    return categories.str.replace(r"\.0+$", "").cast(pl.Int64)


def _named(categories: pl.Series, names: Mapping[Any, str]) -> pl.Series:
    named = categories.replace_strict(names, return_dtype=pl.String) if names else categories
    return named.cast(pl.String)


def _kept(values: Floats | None, kept: pl.Series) -> Floats | None:
    return values if values is None or kept.all() else values[kept.to_numpy()]


@dataclass(frozen=True, eq=False)
class DetectedBoxes:
    """Detections of known classes, checked.

    Attributes:
        where, layout, in_fractions, images: as of ``Found``.
        rows: ``image_id, task, score``, and any of run, method, seed.
        boxes: float64 (n, 4): left, top, width, height; None for presence only.
        notes: for readers of the run's scores.
    """

    where: str
    layout: str
    rows: pl.DataFrame
    boxes: Floats | None
    in_fractions: bool
    images: pl.Series | None
    notes: tuple[str, ...]

    def largest(self, tasks: Sequence[str]) -> pl.DataFrame:
        """``image_id, task, value`` and the keys of runs: the largest score of each image and
        class; 0 of the first class, or of all ``tasks`` if there are none, where an image that is
        listed has no box.
        """
        keys = [key for key in RUN_KEYS if key in self.rows.columns]
        table = self.rows.group_by("image_id", "task", *keys, maintain_order=True)
        largest = table.agg(value=pl.col("score").max())
        if self.images is None:
            return largest
        listed = self.images.cast(largest["image_id"].dtype).alias("image_id")
        bare = listed.filter(~listed.is_in(largest["image_id"].implode())).unique()
        names = [largest["task"][0]] if largest.height else list(tasks)
        added = bare.to_frame().join(pl.DataFrame({"task": names}), how="cross")
        return pl.concat([largest, added.with_columns(value=0.0)], how="diagonal")

    def attached(self, runs: Sequence[Predictions]) -> list[Predictions]:
        """The runs of ``largest``, in its order, with their boxes."""
        keys = [key for key in RUN_KEYS if key in self.rows.columns]
        parts = [self.rows.with_row_index("row")]
        if keys:
            parts = parts[0].partition_by(keys, maintain_order=True) or parts
        return [self._with(run, part) for run, part in zip(runs, parts, strict=True)]

    def _with(self, run: Predictions, part: pl.DataFrame) -> Predictions:
        n = part.height
        what = (
            counted(n, "box")
            if self.boxes is not None
            else (f"{counted(n, 'detection')} without boxes")
        )
        unit = ", as fractions of the image" if self.in_fractions else ""
        boxes = None
        if self.boxes is not None:
            ids = part["image_id"].cast(run.image_ids.dtype)
            tasks = pl.Series(run.tasks, dtype=pl.String)
            boxes = Detections(
                Boxes(
                    positions(ids, run.image_ids),
                    positions(part["task"], tasks),
                    self.boxes if n == len(self.boxes) else self.boxes[part["row"].to_numpy()],
                ),
                part["score"].to_numpy(),
                self.in_fractions,
            )
        read = f"{what} ({self.layout}{unit})"
        return replace(run, boxes=boxes, read=read, notes=(*run.notes, *self.notes))


def with_undetected(
    run: Predictions, images: KnownImages, how: FileFormat, *, ignore_unknown: bool = False
) -> Predictions:
    """Detections with probability 0 for what was not detected, in ``how.ids`` or else in all images
    of the splits in which anything was detected. ``ignore_unknown``: without those in others.
    """
    # 000000000139 is the id 139
    own = run.image_ids.cast(images.table["image_id"].dtype, strict=False)
    if not own.null_count() and own.n_unique() == len(own):
        run = replace(run, image_ids=own)
    ids = how.listed()
    if ids is None:
        table = images.table.with_columns(pl.col("image_id").cast(run.image_ids.dtype))
        seen = table.join(pl.DataFrame(run.image_ids), on="image_id")["split"].unique()
        ids = table.filter(pl.col("split").is_in(seen.implode()))["image_id"]
    else:
        ids, _ = images.ids_of(ids, "`ids`")
    ids = ids.cast(run.image_ids.dtype, strict=False)
    rows = positions(run.image_ids, ids)
    if ignore_unknown and (rows < 0).any():
        run = run.only(pl.Series(rows >= 0))
        if how.ids is not None:
            # unknown images are counted where names are matched
            left_out = f"{counted(int((rows < 0).sum()), 'image')} left out, as not listed"
            run = replace(run, read=f"{run.read}; {left_out}")
        rows = rows[rows >= 0]
    if (rows < 0).any():
        raise InputError(
            f"detections are in images that are not listed:"
            f" {some_of(run.image_ids.filter(pl.Series(rows < 0)))}",
            where=f"run {run.run}",
            remedy="{}, all images, or {}",
            give=({"ids": ...}, {"ignore_unknown": True}),
        )
    values = np.zeros((len(run.tasks), len(ids)))
    values[:, rows] = np.nan_to_num(run.values)
    boxes, detected = run.boxes, int((run.values > 0).any(axis=0).sum())
    if boxes is not None:
        detected = len(np.unique(boxes.boxes.image))
        boxes = boxes.moved(rows, np.arange(len(run.tasks)))
    head, *rest = run.read.split("; ")
    read = "; ".join([f"{head}, {counted(len(ids) - detected, 'image')} without any", *rest])
    return replace(run, image_ids=ids, values=values, boxes=boxes, read=read)
