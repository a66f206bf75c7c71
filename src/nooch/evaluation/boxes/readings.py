"""Meaning of the numbers of detections, classes, images and boxes, by the annotated objects.

The classes of a detector's file are numbered as the categories of a dataset, by COCO's ids (1 to
90), or in an order of names, from 0 or 1. Boxes that overlap objects of other classes, or none,
betray a wrong reading.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from nooch.base.errors import Give, InputError, some_of
from nooch.base.words import counted
from nooch.data import Dataset
from nooch.data.objects import BOX
from nooch.data.readers.cocostuff import COCO_THINGS
from nooch.evaluation.boxes.matching import Boxes, Floats, Integers, match_boxes
from nooch.evaluation.prediction_format import FileFormat
from nooch.evaluation.predictions import KnownImages, positions

_MOST = 50_000
"""Boxes of the largest scores that are checked."""
_FEWEST = 3
"""Boxes more, and twice as many, and half of all: a reading fits far better than another."""
_MANY = 20
"""Boxes of which some overlap an object, as a rule."""
_SAME = 0.8
"""Share of a number's boxes on objects of one class from which this is what the number means."""


_FITTING = "numbers whose boxes overlap objects of their class"


@dataclass(frozen=True)
class Numbering:
    """A meaning of class numbers.

    Attributes:
        words: for readers, "counted from 1 in the order of data.yaml".
        names: number -> class.
        give: parameters that choose it.
        is_stated: whether numbers stand next to the names; else it is one of several.
    """

    words: str
    names: Mapping[int, str]
    give: Give
    is_stated: bool = False

    def names_of(self, numbers: Sequence[int]) -> list[str]:
        """Names of some numbers."""
        return [self.names[number] for number in numbers]


def _counted(names: Sequence[str], owner: str, more: Give, *, stated: int = -1) -> list[Numbering]:
    return [
        Numbering(f"counted from {first} in the order of {owner}",
                dict(enumerate(names, first)), {**more, "first_class": first}, first == stated)
        for first in (0, 1)
    ]  # fmt: skip


def readings_of(
    how: FileFormat, images: KnownImages, own: Mapping[int, str] | None, *, of_yolo: bool
) -> list[Numbering]:
    """Readings of the numbers of classes, the most likely first.

    Args:
        how: with the classes that are given, if any.
        images: known ones, and the classes and recorded categories of their dataset.
        own: number -> name as the file of the detections itself has it.
        of_yolo: whether numbers count from 0 by definition.
    """
    recorded = {} if images.data is None else images.data.categories
    # of a number that a thing and stuff share, the thing: it comes first
    of_data = {number: name for name, (number, _) in reversed(recorded.items())}
    names: Mapping[int, str] | None = how.named()
    owner, give = "`classes`", dict[str, object]()
    if isinstance(how.classes, str | Path):
        owner = "COCO" if names is COCO_THINGS else Path(how.classes).name
    is_stated = names is not None and how.is_numbered()
    if names is None and (own or of_data):
        names, is_stated = own or of_data, not of_yolo
        owner = "the file itself" if own else "the dataset"
    things = [*COCO_THINGS.values()]
    of_coco = {*things} & {*images.classes}
    if names is None and len(of_coco) == len(things):
        names, owner, give = COCO_THINGS, "COCO", {"classes": "coco"}
    if names is None:
        return []
    order = [names[number] for number in sorted(names)]
    by_definition = of_yolo and (how.classes is not None or len(of_coco) == len(things))
    counted = _counted(order, owner, give, stated=0 if by_definition else -1)
    if how.first_class is not None:
        return [counted[how.first_class]]
    coco: Give = {"classes": "coco"}
    by_coco = [Numbering("as COCO numbers them", COCO_THINGS, coco)] if of_coco else []
    if not is_stated and how.classes is not None:
        # ultralytics writes COCO's ids for COCO itself
        recorded_too = Numbering("as the dataset numbers them", of_data, {"classes": None})
        others = [recorded_too, *by_coco]
        own_names = {*order}
        return [*counted, *(one for one in others if not by_definition
                            and {*one.names.values()} <= own_names)]  # fmt: skip
    listed = Numbering(f"as {owner} numbers them", names, give, is_stated)
    found = [*counted, listed] if of_yolo and not is_stated else [listed, *counted]
    if how.classes is None and names is not COCO_THINGS and of_coco:
        found += [*by_coco, *_counted(things, "COCO", coco)]
    return found


@dataclass(frozen=True, eq=False)
class Seen:
    """Annotations at the boxes.

    Attributes:
        numbers: of the boxes, ascending.
        classes: of the dataset.
        counts: int64 (n_numbers, n_classes), boxes of a number with this class.
        total: boxes that were counted.
        words: what they are, "boxes that overlap an object".
        by_objects: whether classes are of the objects; else of the whole images.
        most: the largest ``total`` that is possible.
    """

    numbers: Sequence[int]
    classes: Sequence[str]
    counts: Integers
    total: int
    words: str
    by_objects: bool
    most: int

    @classmethod
    def of(
        cls, categories: pl.Series, numbers: pl.Series, rows: Integers, scores: Floats,
        data: Dataset, boxes: Floats | None,
    ) -> Seen:  # fmt: skip
        """Count boxes by number and by the class of the object that they overlap; without objects,
        or boxes in their units, the box of the largest score of each image, by its classes.

        Args:
            categories: numbers or names (n,).
            numbers: all that there are, ascending.
            rows: of the images in the dataset (n,), -1 for none.
            scores: (n,), descending.
            data: the dataset.
            boxes: in the units of the objects (n, 4), NaN where these are not known; or None.
        """
        number = positions(categories, numbers)
        counts = np.zeros((len(numbers), len(data.classes)), np.int64)
        objects = None if boxes is None else nearest_objects(rows, boxes, scores, data)
        if objects is not None:
            box, label, most = objects
            np.add.at(counts, (number[box], label), 1)
            return cls([*numbers], data.classes, counts, len(box),
                       "boxes that overlap an object", True, most)  # fmt: skip
        images, first = np.unique(rows, return_index=True)
        images, first = images[images >= 0], first[images >= 0]
        present = data.areas[images].tocoo()
        np.add.at(counts, (number[first][present.row], present.col), 1)
        words = "images' boxes with the largest score"
        return cls([*numbers], data.classes, counts, len(first), words, False, len(first))

    def own(self, names: Sequence[str]) -> int:
        """Boxes of the class that is annotated, with these names of the numbers."""
        places = {name: place for place, name in enumerate(self.classes)}
        at = [(row, places[name]) for row, name in enumerate(names) if name in places]
        return int(sum(self.counts[row, column] for row, column in at))

    def is_far_better(self, many: int, few: int) -> bool:
        """True if a reading with many boxes of their class fits far better than one with few."""
        return many - few >= _FEWEST and many >= 2 * few and 2 * many >= self.total

    def told(self, reading: Numbering) -> str:
        """The number of boxes that are of their class, and the reading."""
        return f"{self.own(reading.names_of(self.numbers))} {reading.words}"

    def meant(self, names: Sequence[str]) -> tuple[int, str, str] | None:
        """Classes that numbers certainly mean instead of these ``names``: the boxes that then have
        their class, NUMBER NAME of these, and of all; None unless at least two are permuted, or far
        more boxes have their class.
        """
        if not self.classes:
            return None
        of_number = self.counts.sum(axis=1)
        most, at = self.counts.max(axis=1, initial=0), self.counts.argmax(axis=1)
        is_sure = (of_number >= _FEWEST) & (most >= _SAME * of_number)
        meant = {row: self.classes[int(at[row])] for row in np.flatnonzero(is_sure).tolist()}
        wrong = {row: name for row, name in meant.items() if name != names[row]}
        if not self.by_objects or len(wrong) < 2 or len({*wrong.values()}) < len(wrong):
            return None
        permuted = {*wrong.values()} == {names[row] for row in wrong}
        right = int(most[[*meant]].sum())
        if not permuted and not self.is_far_better(right, self.own(names)):
            return None
        pairs = [(number, meant.get(row, names[row])) for row, number in enumerate(self.numbers)]
        told = some_of((f"{self.numbers[row]} {name}" for row, name in wrong.items()), 12)
        return right, told, some_of((f"{n} {name}" for n, name in pairs if name), len(pairs))


def best_boxes(rows: Integers, scores: Floats) -> Integers:
    """Positions of at most ``_MOST`` boxes in known images, the largest scores first."""
    kept = np.flatnonzero(rows >= 0)
    return np.asarray(kept[np.argsort(-scores[kept], kind="stable")][:_MOST])


def nearest_objects(
    rows: Integers, boxes: Floats, scores: Floats, data: Dataset
) -> tuple[Integers, Integers, int] | None:
    """Boxes that overlap an object of any class, and the column of its class, (n,) each, one to one
    and the largest scores first, and how many there can be; None without objects. Arguments as of
    ``Seen.of``.
    """
    table = data.objects
    if table is None or not table.height:
        return None
    best = np.flatnonzero((rows >= 0) & np.isfinite(boxes).all(axis=1))
    image = positions(table["image_id"], data.images["image_id"])
    counts = ~(table["crowd"] | table["ignore"]).to_numpy() & np.isin(image, rows[best])
    table, image = table.filter(pl.Series(counts)), image[counts]
    none, nothing = np.zeros(len(image), np.int64), np.zeros(len(image), bool)
    objects = Boxes(image, none, table.select(BOX).to_numpy().astype(np.float64))
    found = Boxes(rows[best], np.zeros(len(best), np.int64), boxes[best])
    matched = match_boxes(found, scores[best], objects, nothing, nothing).matched[0]
    label = positions(table["class"].cast(pl.String), pl.Series(data.classes, dtype=pl.String))
    hits = np.flatnonzero((matched >= 0) & (label[matched] >= 0 if len(label) else False))
    return best[hits], label[matched[hits]], min(len(best), len(objects))


def check_boxes(
    seen: Seen,
    others: Iterable[tuple[str, Integers, Floats, Give]],
    scores: Floats,
    data: Dataset,
    where: object,
) -> str:
    """A warning where next to no box overlaps an object of any class, else nothing.

    Args:
        seen: what is annotated where the boxes are.
        others: other readings: in words, images and boxes as of ``Seen.of``, and parameters,
            empty if it has none.
        scores: (n,).
        data: the dataset.
        where: the file, for errors.

    Raises:
        InputError: far more boxes overlap an object in another reading.
    """
    if not seen.by_objects or 2 * seen.total >= seen.most or seen.most < _FEWEST:
        return ""
    told = f"{counted(seen.total, 'box')} of {seen.most:,} that could"
    for words, rows, boxes, give in others:
        objects = nearest_objects(rows, boxes, scores, data)
        many, most = (0, 0) if objects is None else (len(objects[0]), objects[2])
        if many >= 2 * seen.total + _FEWEST and 2 * many >= most:
            remedy = None if give else f"write them as {words}, like all others"
            raise InputError(
                f"{told} overlap an object of any class, and {many:,} if they are {words}",
                where=where, allowed="boxes that overlap objects",
                remedy=remedy, give=[give] if give else [],
            )  # fmt: skip
    if seen.most >= _MANY and seen.total * 10 <= seen.most:
        return f"warning: {told} overlap an object: are they of these images, at their full size?"
    return ""


def _named_by_file(how: FileFormat) -> Give:
    """The parameters with which a file of numbers and names counts."""
    return {"classes": ...} | ({} if how.first_class is None else {"first_class": None})


def class_of_numbers(
    found: Sequence[int],
    readings: Sequence[Numbering],
    seen: Seen | None,
    how: FileFormat,
    where: object,
) -> Numbering:
    """The meaning of the numbers that were ``found``. Raises InputError: no reading names all of
    them, several do and nothing decides, or what is annotated fits another one far better.
    """
    distinct: dict[tuple[str, ...], Numbering] = {}
    for reading in readings:
        if all(number in reading.names for number in found):
            distinct.setdefault(tuple(reading.names_of(found)), reading)
    fitting = [*distinct.values()]
    first = fitting[0] if fitting else None
    given = how.classes is not None or how.first_class is not None
    if first is None or (given and readings[0].is_stated and first is not readings[0]):
        unnamed = [n for n in found if not readings or n not in readings[0].names]
        meant = None if seen is None else seen.meant([""] * len(found))
        lines = "" if meant is None else f"; by the objects that boxes overlap they are {meant[2]}"
        raise InputError(
            f"there are no class names for category ids {some_of(unnamed)}{lines}",
            where=where,
            remedy="{}: a COCO file with categories, a data.yaml, or NUMBER NAME per line",
            give=_named_by_file(how),
        )
    if seen is not None and seen.total:
        own = [seen.own(reading.names_of(found)) for reading in fitting]
        best = max(range(len(own)), key=own.__getitem__)
        others = max((n for at, n in enumerate(own) if at != best), default=0)
        chosen = fitting[best]
        if chosen is not first and seen.is_far_better(own[best], own[0]) and first.is_stated:
            raise InputError(
                f"{seen.told(first)}, and {seen.told(chosen)}, of {seen.total} {seen.words} are"
                " of its class: the class numbers have another meaning",
                where=where, allowed=_FITTING, give=chosen.give,
            )  # fmt: skip
        if not first.is_stated and seen.is_far_better(own[best], others):
            first, fitting = chosen, [chosen]
        if (meant := seen.meant(first.names_of(found))) is not None:
            right, told, lines = meant
            raise InputError(
                f"{seen.told(first)}, and {right} if {told} are meant, of {seen.total}"
                f" {seen.words} are of its class", where=where, allowed=_FITTING,
                remedy=f"write NUMBER NAME per line into a file ({lines}), and {{}}",
                give=_named_by_file(how),
            )  # fmt: skip
    if len(fitting) > 1 and not first.is_stated:
        counts = ""
        if seen is not None and seen.total:
            told = " or ".join(map(seen.told, fitting))
            counts = f": {told} of {seen.total} {seen.words} are of its class"
        raise InputError(
            f"category ids {some_of(found)} can be numbers {' or '.join(r.words for r in fitting)}"
            f"{counts}",
            where=where,
            remedy=" or ".join(f"{{}} if {reading.words}" for reading in fitting),
            give=[reading.give for reading in fitting],
        )  # fmt: skip
    return first
