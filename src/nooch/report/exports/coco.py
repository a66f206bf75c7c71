"""COCO-JSON of the images of challenge sets, one file for each split, that pycocotools loads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import polars as pl

from nooch.base.errors import ParameterError, some_of
from nooch.base.files import check_output
from nooch.data import Dataset, check_file_names
from nooch.report.exports.coco_source import Annotations, CocoContent, read_annotations
from nooch.report.exports.contract import (
    HARD_SUBSETS,
    MARKER,
    Content,
    Exported,
    about,
    categories_of,
    check_subsets,
    need_integers,
    write_export,
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
