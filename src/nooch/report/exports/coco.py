"""COCO-JSON that pycocotools loads: of the images of challenge sets, one file for each split; and
of the hard and of the easy images of each criterion, for engines that compute AP.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from nooch.base.errors import Command, InputError, ParameterError, some_of
from nooch.base.files import check_output
from nooch.data import Dataset, ImageId, check_file_names
from nooch.data.objects import BOX, needed_objects
from nooch.data.readers.coco.decoder import Document, opened
from nooch.data.readers.coco.rows import source_of
from nooch.data.readers.coco.structure import Instances, decode
from nooch.evaluation.boxes.matched import MatchedRun
from nooch.evaluation.prediction_files import PredictionSource
from nooch.report.exports.contract import (
    HARD_SUBSETS,
    MARKER,
    Categories,
    Content,
    Exported,
    Names,
    about,
    categories_of,
    check_subsets,
    need_integers,
    runs_of,
    safe_name,
    write_export,
)

Annotations = list[tuple[int | None, bytes]]
"""(annotation id or None, the annotation's JSON)."""


@dataclass
class CocoContent:
    """Entries of annotation files for the wanted images: ``info`` of the first file, licenses as
    they have them, categories with name and JSON, records of images as in the first file that lists
    them, and their annotations in the files' order; ``notes`` are for the user.
    """

    info: Any = field(default_factory=dict)
    licenses: dict[str, dict[str, Any]] = field(default_factory=dict)
    categories: dict[int, tuple[str, bytes]] = field(default_factory=dict)
    images: dict[int, dict[str, Any]] = field(default_factory=dict)
    annotations: dict[int, Annotations] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


class _Document(Instances, gc=False):
    info: Any = None


class _Identified(msgspec.Struct, gc=False):
    id: int | None = None


def read_annotations(
    paths: Sequence[Path], image_ids: Collection[int], recorded: Sequence[Mapping[str, Any]]
) -> CocoContent:
    """Images, categories, licenses and annotations of the wanted images, from instances and stuff
    files; ``recorded`` has ``file`` and ``blake3`` of those that the dataset was imported from.
    """
    merged, image_ids = CocoContent(), set(image_ids)
    hashes: set[str] = set()
    for path in paths:
        own = source_of(path)["blake3"]
        if own in hashes:
            raise InputError("is given twice", where=path, allowed="each annotation file once")
        hashes.add(own)
        merged.notes += _origin_notes(path, own, recorded)
        with opened(path) as content:
            _add(merged, Document(content, path, _Document), path, image_ids)
    if missing := sorted(image_ids - set(merged.images)):
        files = some_of(source["file"] for source in recorded)
        suffix = f": {files}" if files else ""
        problem = f"{len(missing)} images of the sets are in none of the annotation files"
        remedy = f"give all files that the dataset was imported from{suffix}"
        raise InputError(f"{problem}: {some_of(missing)}", where=some_of(paths), remedy=remedy)
    return merged


def _origin_notes(path: Path, own: str, recorded: Sequence[Mapping[str, Any]]) -> list[str]:
    """Raise InputError for a file that was altered; note one that the dataset does not know."""
    hashes = [source.get("blake3") for source in recorded if source["file"] == path.name]
    if hashes and own not in hashes:
        problem = "is not the file that the dataset was imported from: its BLAKE3 differs"
        remedy = "give the original file, or rename this one if it differs on purpose"
        raise InputError(problem, where=path, remedy=remedy)
    unknown = f"{path.name} is not a file that the dataset was imported from"
    return [unknown] if recorded and not hashes else []


def _add(
    merged: CocoContent, document: Document[_Document], path: Path, image_ids: Collection[int]
) -> None:
    images: dict[int, dict[str, Any]] = {}
    annotations: dict[int, Annotations] = {}
    for key in document.arrays():
        if key == "images":
            images = {
                image.id: msgspec.json.decode(raw)
                for image, raw in document.records(key)
                if image.id in image_ids
            }
            continue
        annotations = {}
        for annotation, raw in document.records(key):
            if annotation.image_id in image_ids:
                entry = (decode(raw, _Identified, path).id, bytes(raw))
                annotations.setdefault(annotation.image_id, []).append(entry)
    rest = document.rest()
    merged.info = merged.info or rest.info or {}
    for terms in rest.licenses or []:
        if merged.licenses.setdefault(str(terms.get("id", terms)), terms) != terms:
            raise _conflict("license", terms.get("id"), path)
    texts = msgspec.json.decode(document.members["categories"], type=list[msgspec.Raw])
    for category, text in zip(rest.categories, texts, strict=True):
        name, _ = merged.categories.setdefault(category.id, (category.name, bytes(text)))
        if name != category.name:
            raise _conflict("category", category.id, path)
    merged.images = images | merged.images
    for image_id, entries in annotations.items():
        merged.annotations.setdefault(image_id, []).extend(entries)


def _conflict(what: str, number: object, path: Path) -> InputError:
    return InputError(
        f"{what} {number} differs in an earlier file",
        where=path,
        allowed=f"the same {what} under one id in all files",
        remedy="export the files apart",
    )


Marks = dict[int, dict[str, dict[str, str]]]
"""Image id -> criterion -> task -> subset."""


def export_coco(
    content: Content,
    out: str | Path,
    *,
    overwrite: bool = False,
    annotations: Sequence[str | Path] = (),
    no_annotations: bool = False,
    subsets: Sequence[str] = HARD_SUBSETS,
) -> Exported:
    """Write ``{split}.json``: the images of the chosen subsets, and their unchanged annotations.

    Each image has ``"nooch": {criterion: {task: subset}}``; everything else about it, including its
    terms, is taken from the annotation files. Annotation ids are kept if they are unique, else
    counted from 1.
    """
    subset_names = check_subsets(subsets)
    if no_annotations and annotations:
        problem = "`annotations` and `no_annotations` exclude each other"
        raise ParameterError(problem, give=({"annotations": None}, {"no_annotations": None}))
    sources = [] if content.data is None else content.data.provenance.get("sources") or []
    recorded = [s for s in sources if s.get("role") in {"things", "stuff"} and "file" in s]
    if not no_annotations and not annotations:
        names = some_of(source["file"] for source in recorded)
        files = f"for each of them ({names})" if recorded else "for each of them"
        problem = "the annotation files are not known: a dataset keeps only their names and hashes"
        ways = ({"annotations": ...}, {"no_annotations": True})
        raise ParameterError(problem, allowed=f"a file {files}, or none", give=ways)

    # the annotation files are large: quick checks come first
    check_output(out, overwrite=overwrite, marker=MARKER)
    marks = _marks(content, subset_names)
    ids = {image_id for images in marks.values() for image_id in images}
    if no_annotations:
        coco = _bare(content.need_data("COCO-JSON without annotation files"), content, ids)
    else:
        coco = read_annotations([Path(path) for path in annotations], ids, recorded)
        content = replace(content, found=list(coco.licenses.values()))

    def fill(folder: Path) -> list[str]:
        notes = list(coco.notes)
        for split, images in marks.items():
            notes += _write(folder / f"{split}.json", images, coco, content)
        return notes

    return write_export(content, "coco", out, fill, overwrite=overwrite)


def _marks(content: Content, subsets: Iterable[str]) -> dict[str, Marks]:
    marks: dict[str, Marks] = {split: {} for split in content.splits}
    for challenge in content.sets():
        need_integers(challenge, "COCO's")
        images = marks[challenge.split]
        for subset in subsets:
            for image_id in challenge.ids(subset):
                of_tasks = images.setdefault(image_id, {}).setdefault(challenge.criterion, {})
                of_tasks[challenge.task] = subset
    return marks


def _bare(data: Dataset, content: Content, ids: set[int]) -> CocoContent:
    """Images, categories and licenses from the dataset; no annotation."""
    rows = data.images.filter(pl.col("image_id").is_in(sorted(ids)))
    columns = rows.select(pl.col("image_id").alias("id"), "file_name", "width", "height")
    images = {
        row["id"]: {key: value for key, value in row.items() if value is not None}
        for row in columns.iter_rows(named=True)
    }
    licenses = {
        str(number): {"id": number, **{k: terms[k] for k in ("name", "url") if k in terms}}
        for number, terms in enumerate(content.licenses, 1)
    }
    numbered, notes = categories_of(data, data.classes)
    categories = {
        number: (name, msgspec.json.encode({"id": number, "name": name}))
        for number, name in sorted(numbered.values())
    }
    return CocoContent(licenses=licenses, categories=categories, images=images, notes=notes)


def _write(path: Path, marks: Marks, coco: CocoContent, content: Content) -> list[str]:
    images = [{**coco.images[image_id], "nooch": marks[image_id]} for image_id in sorted(marks)]
    names = pl.Series([image.get("file_name") for image in images], dtype=pl.String)
    check_file_names(names, path.name)
    groups = [coco.annotations[i] for i in sorted(marks) if i in coco.annotations]
    annotations, notes = _numbered(groups, path.name)
    head = {
        "info": coco.info,
        "licenses": list(coco.licenses.values()),
        "nooch": about(content),
        "images": images,
        "categories": [msgspec.Raw(text) for _, text in coco.categories.values()],
    }
    with path.open("wb") as file:
        # annotations are most of it: written one by one
        file.write(msgspec.json.encode(head)[:-1] + b',"annotations":[')
        for number, annotation in enumerate(annotations):
            file.write(b"," * (number > 0) + annotation)
        file.write(b"]}\n")
    return notes


def _numbered(groups: Iterable[Annotations], name: str) -> tuple[list[bytes], list[str]]:
    """Annotations with unique ids, and a note where theirs could not be kept."""
    pairs = [pair for group in groups for pair in group]
    ids = {number for number, _ in pairs}
    if len(ids) == len(pairs) and None not in ids:
        return [text for _, text in pairs], []
    numbered = [
        msgspec.json.encode({**msgspec.json.decode(text), "id": number})
        for number, (_, text) in enumerate(pairs, 1)
    ]
    return numbered, [f"{name}: annotation ids were missing or not unique, and are counted from 1"]


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
        self,
        data: Dataset,
        objects: pl.DataFrame,
        categories: Categories,
        facts: Mapping[str, Any],
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
