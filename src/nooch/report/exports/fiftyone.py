"""Tags on the samples of a FiftyOne dataset, and a saved view for each of them."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from nooch.base.errors import (
    InputError,
    MissingExtraError,
    NoochError,
    OutputError,
    check_one_of,
    some_of,
)
from nooch.data import ImageId
from nooch.report.exports.contract import (
    HARD_SUBSETS,
    Content,
    Exported,
    about,
    check_subsets,
    safe_name,
)

_ID_FIELDS = ("image_id", "coco_id")
"""Fields that are looked for: nooch's own name, and the name in FiftyOne's COCO importer."""


@dataclass(frozen=True)
class Tag:
    """A tag, the name of its view, and the ids of the images that carry it."""

    name: str
    view: str
    ids: list[ImageId]


def export_fiftyone(
    content: Content,
    out: str | Path,
    *,
    overwrite: bool = False,
    subsets: Sequence[str] = HARD_SUBSETS,
    id_field: str | None = None,
) -> Exported:
    """Tag samples with ``nooch:{criterion}:{task}:{subset}`` and save a view for each tag.

    Samples are found by a field of image ids (``image_id`` or ``coco_id``, or the one named), else
    by their file path, where the dataset records its images. Where and of which licenses
    the suite is goes into the FiftyOne dataset's ``info["nooch"]``. Where its database fails,
    export again with ``overwrite``.
    """
    try:
        fiftyone = importlib.import_module("fiftyone")
    except ModuleNotFoundError as error:
        raise MissingExtraError("fiftyone", "fiftyone", "tagging a FiftyOne dataset") from error
    plan = plan_tags(content, check_subsets(subsets))
    try:
        dataset = _load(fiftyone, str(out))
        notes = _apply(dataset, content, plan, id_field, overwrite)
    except NoochError:
        raise
    except Exception as error:
        # FiftyOne and its database raise unrelated exception types
        raise OutputError(
            f"FiftyOne failed: {str(error).strip() or type(error).__name__}", where=str(out)
        ) from error
    notes += content.notes
    return Exported("fiftyone", str(out), len(content.keys), [], content.licenses, notes)


def plan_tags(content: Content, subsets: Sequence[str]) -> list[Tag]:
    """Tags of the chosen sets with their images of all chosen splits; none without an image."""
    tags: dict[tuple[str, str, str], Tag] = {}
    for challenge in content.sets():
        for subset in subsets:
            key = challenge.criterion, challenge.task, subset
            # FiftyOne distinguishes views only by letters and digits: "~ce" would be "ce" there
            view = f"nooch {safe_name(challenge.criterion)} {safe_name(challenge.task)} {subset}"
            tag = tags.setdefault(key, Tag(f"nooch:{':'.join(key)}", view, []))
            tag.ids.extend(challenge.ids(subset))
    return [tag for tag in tags.values() if tag.ids]


def _load(fiftyone: Any, name: str) -> Any:
    if not fiftyone.dataset_exists(name):
        problem = f"there is no FiftyOne dataset {name!r}"
        datasets = some_of(fiftyone.list_datasets(), 12)
        raise InputError(
            problem, allowed=datasets or "nothing: load the images into FiftyOne first"
        )
    return fiftyone.load_dataset(name)


def _apply(
    dataset: Any, content: Content, plan: list[Tag], id_field: str | None, overwrite: bool
) -> list[str]:
    sample_of = _samples(dataset, content, id_field)
    image_ids = {image_id for tag in plan for image_id in tag.ids}
    missing = sorted(image_ids - set(sample_of), key=str)
    if image_ids and len(missing) == len(image_ids):
        problem = f"no sample is an image of the sets, such as {some_of(missing, 3)}"
        raise InputError(problem, remedy="name the field of image ids: {}", give={"id_field": ...})
    tagged = dataset.count_sample_tags()
    present = [t.name for t in plan if t.name in tagged or dataset.has_saved_view(t.view)]
    if present and not overwrite:
        raise OutputError(
            f"has the tags {some_of(present)} already",
            remedy="{} to replace them",
            give={"overwrite": True},
        )
    samples = [(tag, {sample_of[i] for i in tag.ids if i in sample_of}) for tag in plan]
    _write(dataset, samples, content)
    note = f"{len(missing)} of {len(image_ids)} images are not samples there: {some_of(missing)}"
    return [note] if missing else []


def _samples(dataset: Any, content: Content, id_field: str | None) -> dict[ImageId, str]:
    """Image id -> sample id, by a field of ids or by file path."""
    fields = dataset.get_field_schema()
    if id_field is not None:
        check_one_of("field", id_field, fields, owner="the FiftyOne dataset")
    field = id_field or next((name for name in _ID_FIELDS if name in fields), "filepath")
    integers = any(challenge.image_ids.dtype == pl.Int64 for challenge in content.sets())
    ids = _ids_by_path(content) if field == "filepath" else None
    sample_of: dict[ImageId, str] = {}
    for sample, value in zip(*dataset.values(["id", field]), strict=True):
        image_id = int(value) if integers and str(value).isdecimal() else value
        image_id = image_id if ids is None else ids.get(value)
        if image_id is not None and sample_of.setdefault(image_id, sample) != sample:
            raise InputError(f"several samples have the {field} {value}", allowed="each image once")
    return sample_of


def _ids_by_path(content: Content) -> dict[str, ImageId]:
    """File path -> image id, of the dataset's images."""
    by_path = f"finding samples by their path (they have no field {' or '.join(_ID_FIELDS)})"
    data = content.need_data(by_path)
    images, root = data.images.drop_nulls("file_name"), Path(data.image_root or "").absolute()
    return {str(root / name): i for name, i in images.select("file_name", "image_id").iter_rows()}


def _write(dataset: Any, plan: list[tuple[Tag, set[str]]], content: Content) -> None:
    """Set tags, views and info."""
    for tag, samples in plan:
        _set_tag(dataset, tag.name, samples)
        if not dataset.has_saved_view(tag.view):
            dataset.save_view(tag.view, dataset.match_tags(tag.name))
    # names of criteria and tasks may not be valid keys in its database
    facts = about(content)
    dataset.info["nooch"] = {
        key: facts[key] for key in ("nooch", "suite", "licenses", "licenses_text")
    }
    dataset.save()


def _set_tag(dataset: Any, name: str, image_ids: set[str]) -> None:
    """Exactly these samples carry the tag."""
    present = set(dataset.match_tags(name).values("id"))
    if add := sorted(image_ids - present):
        dataset.select(add).tag_samples(name)
    if drop := sorted(present - image_ids):
        dataset.select(drop).untag_samples(name)
