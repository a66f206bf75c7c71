"""COCO-JSON of the images of challenge sets, one file for each split, that pycocotools loads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from nooch.data import Dataset, check_file_names
from nooch.errors import InputError, ParameterError, some_of
from nooch.exports.coco_source import Annotations, Source, read_annotations
from nooch.exports.export_contract import (
    HARD_SUBSETS,
    MARKER,
    Content,
    Exported,
    about,
    check_subsets,
    write_folder,
)
from nooch.files import check_output

__all__ = ["export_coco"]

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
    """Write ``{split}.json`` with the images of the chosen subsets, their annotations as they were,
    and why they are there.

    Each image has ``"nooch": {criterion: {task: subset}}``; everything else about it, its licence
    too, is what the annotation files say. Annotation ids are kept where they are unique, else
    counted from 1.

    Args:
        content: what is exported.
        out: the folder to write.
        overwrite: replace a folder that an export wrote.
        annotations: the instances and stuff files to take images and annotations from. One that has
            the name of a file that the dataset was imported from must be that file.
        no_annotations: write images and categories alone, from the dataset.
        subsets: of ``hard_positive``, ``hard_negative`` and ``easy``, or its sides
            ``easy_positive`` and ``easy_negative``.

    Raises:
        ParameterError: neither or both of ``annotations`` and ``no_annotations``; an unknown
            subset.
        InputError: image ids that are text; annotation files that do not parse, were altered,
            disagree with each other, or lack images of the sets; no dataset where it is needed.
        OutputError: the folder exists (and ``overwrite`` is false) or cannot be written.
    """
    wanted = check_subsets(subsets)
    if no_annotations and annotations:
        raise ParameterError("`annotations` and `no_annotations` exclude each other")
    if not no_annotations and not annotations:
        raise ParameterError(
            "the annotation files are not known: a dataset keeps their names and hashes, not where"
            " they are",
            allowed=(
                f"`annotations` FILE for each of them{_recorded_names(content)}, or"
                " `no_annotations`"
            ),
        )

    # the annotation files are large: first what can be said at once
    check_output(out, overwrite=overwrite, marker=MARKER)
    marks = _marks(content, wanted)
    ids = {image_id for images in marks.values() for image_id in images}
    if no_annotations:
        source = _bare(content.need_data("COCO-JSON without annotation files"), content, ids)
    else:
        source = read_annotations([Path(path) for path in annotations], ids, _recorded(content))
        content = replace(content, found=source.licenses)
    return write_folder(
        content,
        "coco",
        out,
        lambda folder: _fill(folder, marks, source, content),
        overwrite=overwrite,
    )


def _fill(folder: Path, marks: dict[str, Marks], source: Source, content: Content) -> list[str]:
    notes = list(source.notes)
    for split, images in marks.items():
        notes += _write(folder / f"{split}.json", images, source, content)
    return notes


def _recorded(content: Content) -> list[dict[str, Any]]:
    """What the dataset says of the annotation files that it was imported from."""
    sources = [] if content.data is None else content.data.provenance.get("sources") or []
    return [
        source
        for source in sources
        if source.get("role") in {"things", "stuff"} and "file" in source
    ]


def _recorded_names(content: Content) -> str:
    names = [source["file"] for source in _recorded(content)]
    return f" ({some_of(names)})" if names else ""


def _marks(content: Content, subsets: Iterable[str]) -> dict[str, Marks]:
    marks: dict[str, Marks] = {split: {} for split in content.splits}
    for challenge in content.sets():
        if challenge.image_ids.dtype != pl.Int64:
            raise InputError(
                "image ids are text, and COCO's are integers",
                remedy="export with `to` ids, csv or hf",
            )
        images = marks[challenge.split]
        for subset in subsets:
            for image_id in challenge.ids(subset):
                images.setdefault(image_id, {}).setdefault(challenge.criterion, {})[
                    challenge.task
                ] = subset
    return marks


def _bare(data: Dataset, content: Content, wanted: set[int]) -> Source:
    """Images, categories and licences from the dataset; no annotation."""
    rows = data.images.filter(pl.col("image_id").is_in(sorted(wanted)))
    columns = rows.select(id="image_id", file_name="file_name", width="width", height="height")
    images = {
        row["id"]: {k: v for k, v in row.items() if v is not None}
        for row in columns.iter_rows(named=True)
    }
    licences = [
        {"id": number, **{k: licence[k] for k in ("name", "url") if k in licence}}
        for number, licence in enumerate(content.licences, 1)
    ]
    names = dict(enumerate(data.classes, 1))
    categories = [
        msgspec.Raw(msgspec.json.encode({"id": number, "name": name}))
        for number, name in names.items()
    ]
    return Source({}, licences, categories, names, images, {}, [])


def _write(path: Path, marks: Marks, source: Source, content: Content) -> list[str]:
    images = [{**source.images[image_id], "nooch": marks[image_id]} for image_id in sorted(marks)]
    check_file_names(
        pl.Series([image.get("file_name") for image in images], dtype=pl.String), path.name
    )
    annotations, notes = _numbered(
        [source.annotations[i] for i in sorted(marks) if i in source.annotations], path.name
    )
    head = {
        "info": source.info,
        "licenses": source.licenses,
        "nooch": about(content),
        "images": images,
        "categories": source.categories,
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
    found = [pair for group in groups for pair in group]
    ids = {number for number, _ in found}
    if len(ids) == len(found) and None not in ids:
        return [text for _, text in found], []
    numbered = [
        msgspec.json.encode({**msgspec.json.decode(text), "id": number})
        for number, (_, text) in enumerate(found, 1)
    ]
    return numbered, [f"{name}: annotation ids were missing or not unique, and are counted from 1"]
