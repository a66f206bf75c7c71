"""COCO-JSON of the hard and of the easy images of each criterion, for engines that compute AP."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from nooch.base.errors import Command, InputError, some_of
from nooch.data import Dataset, ImageId
from nooch.data.objects import BOX, needed_objects
from nooch.evaluation.boxes.matched import MatchedRun
from nooch.evaluation.prediction_files import PredictionSource
from nooch.report.exports.contract import (
    Categories,
    Content,
    Exported,
    Names,
    about,
    categories_of,
    runs_of,
    safe_name,
    write_export,
)

SIDES = ("hard", "easy")


def export_coco_slices(
    content: Content,
    out: str | Path,
    *,
    overwrite: bool = False,
    predictions: PredictionSource = (),
    reading: Mapping[str, Any] | None = None,
) -> Exported:
    """Write ``{criterion}-{split}-hard.json`` and ``-easy.json``; ``tasks/{task}.json``, which has
    the images of all chosen sets and the boxes of one task, with ``tasks/{task}-slices.json``,
    which names lists of their ids; and ``detections-{run}.json``, COCO results, for each run of the
    predictions.

    A file of a side has the images that are on it for any of the tasks. Where an image is not on it
    for a task, a region of that class with ``ignore`` and ``iscrowd`` covers it, so that nothing
    counts there: the AP of a class is over its own set. Objects that the dataset ignores also get
    both marks, since pycocotools reads only ``iscrowd``. ``categories_of`` gives the ids and names
    of categories.

    Raises:
        InputError: objects of images whose size is not known, predictions without boxes.
        ParameterError: a dataset without objects.
    """
    data = content.need_data("COCO-JSON with boxes")
    tasks = [name for name in data.classes if name in {task for _, task, _ in content.keys}]
    objects = needed_objects(data.objects).filter(pl.col("class").cast(pl.String).is_in(tasks))
    _check_sizes(data, objects)
    categories, note = categories_of(data, tasks)
    runs = runs_of(content, predictions, reading or {})

    def fill(folder: Path) -> list[str]:
        names, of_sides = Names(), _images_of_sides(content)
        annotations = _Annotations(data, objects, categories, about(content))
        slices: dict[str, dict[str, list[ImageId]]] = {task: {} for task in tasks}
        for (criterion, split, side), by_task in of_sides.items():
            name = f"{criterion} {split} {side}"
            file = names.take(f"{safe_name(criterion)}-{split}-{side}.json", name)
            annotations.write(folder / file, _union(by_task.values()), by_task)
            for task, ids in by_task.items():
                slices[task][f"{criterion} {categories[task][1]} {split} {side}"] = ids
        every = _union(ids for lists in slices.values() for ids in lists.values())
        (folder / "tasks").mkdir()
        for task, lists in slices.items():
            file = names.take(f"tasks/{safe_name(task)}.json", task)
            annotations.write(folder / file, every, {task: every})
            file = names.take(f"tasks/{safe_name(task)}-slices.json", f"the slices of {task}")
            (folder / file).write_bytes(msgspec.json.encode(lists) + b"\n")
        for run in runs:
            file = names.take(f"detections-{safe_name(run.run)}.json", run.run)
            results = _results(MatchedRun.match(run, data, recall=False), categories)
            kept = {*every}
            listed = [result for result in results if result["image_id"] in kept]
            (folder / file).write_bytes(msgspec.json.encode(listed) + b"\n")
        return [] if runs else note

    return write_export(content, "coco-slices", out, fill, overwrite=overwrite)


def _check_sizes(data: Dataset, objects: pl.DataFrame) -> None:
    """Raise InputError where boxes are fractions, which no engine reads."""
    unsized = data.images.filter(pl.col("width").is_null() | pl.col("height").is_null())["image_id"]
    ids = objects["image_id"].unique().sort()
    if len(lost := ids.filter(ids.is_in(unsized.implode()))):
        problem = f"{len(lost)} images with boxes have no known size: {some_of(lost)}"
        raise InputError(problem, give=Command("import auto", images=...))


def _images_of_sides(content: Content) -> dict[tuple[str, str, str], dict[str, list[ImageId]]]:
    """(Criterion, split, side) -> task -> ids of its images there."""
    found: dict[tuple[str, str, str], dict[str, list[ImageId]]] = {}
    for challenge in content.sets():
        for side in SIDES:
            mask = challenge.hard if side == "hard" else ~challenge.hard
            ids = challenge.image_ids.filter(pl.Series(mask)).to_list()
            key = challenge.criterion, challenge.split, side
            found.setdefault(key, {})[challenge.task] = ids
    return found


def _union(lists: Iterable[Sequence[ImageId]]) -> list[ImageId]:
    ids: set[Any] = set().union(*lists)
    return sorted(ids)


class _Annotations:
    """Content that the annotation files share: images, objects, categories."""

    def __init__(
        self, data: Dataset, objects: pl.DataFrame, categories: Categories, facts: Mapping[str, Any]
    ) -> None:
        columns = data.images.select(pl.col("image_id").alias("id"), "file_name", "width", "height")
        self._images = {row["id"]: row for row in columns.iter_rows(named=True)}
        self._objects: dict[ImageId, list[dict[str, Any]]] = {}
        names = [*BOX, "area", "crowd", "ignore"]
        for image_id, name, *box, area, crowd, ignore in objects.select(
            "image_id", "class", *names
        ).iter_rows():
            record = _annotation(image_id, categories[name][0], box, area, crowd, ignore)
            self._objects.setdefault(image_id, []).append(record)
        self._categories = categories
        self._facts = facts

    def write(
        self, path: Path, ids: Sequence[ImageId], by_task: Mapping[str, Sequence[ImageId]]
    ) -> None:
        """A file of images, where each of these tasks counts on its own ones."""
        kept = {self._categories[task][0]: {*of_task} for task, of_task in by_task.items()}
        records = (record for image_id in ids for record in self._of_image(image_id, kept))
        document = {
            "info": {"description": "slices of nooch"},
            "nooch": self._facts,
            "images": [
                {name: value for name, value in self._images[image_id].items() if value is not None}
                for image_id in ids
            ],
            "categories": [
                {"id": number, "name": name} for number, name in sorted(self._categories.values())
            ],
            "annotations": [{"id": n, **record} for n, record in enumerate(records, 1)],
        }
        path.write_bytes(msgspec.json.encode(document) + b"\n")

    def _of_image(
        self, image_id: ImageId, kept: Mapping[int, set[ImageId]]
    ) -> Iterator[dict[str, Any]]:
        for record in self._objects.get(image_id, ()):
            if image_id in kept.get(record["category_id"], ()):
                yield record
        width, height = (self._images[image_id][side] or 1 for side in ("width", "height"))
        for category, ids in kept.items():
            if image_id not in ids:
                # larger than the image, so that it also has all of a box that leaves it
                region = [-width, -height, 3 * width, 3 * height]
                area = 9 * width * height
                yield _annotation(image_id, category, region, area, crowd=True, ignore=True)


def _annotation(
    image_id: ImageId, category: int, box: Sequence[float], area: float, crowd: bool, ignore: bool
) -> dict[str, Any]:
    return {
        "image_id": image_id, "category_id": category, "bbox": box, "area": area,
        "iscrowd": int(crowd or ignore), "ignore": int(ignore),
    }  # fmt: skip


def _results(matched: MatchedRun, categories: Categories) -> Iterator[dict[str, Any]]:
    """The boxes of a run as COCO results, of tasks that are exported."""
    found, scores = matched.detections.boxes, matched.detections.scores
    ids, tasks = matched.run.image_ids, matched.run.tasks
    for image_id, label, box, score in zip(
        ids.gather(found.image), found.label.tolist(), found.box.tolist(), scores.tolist(),
        strict=True,
    ):  # fmt: skip
        if tasks[label] in categories:
            number = categories[tasks[label]][0]
            yield {"image_id": image_id, "category_id": number, "bbox": box, "score": score}
