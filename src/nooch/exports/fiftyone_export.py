"""Tags on the samples of a FiftyOne dataset, and a saved view for each of them."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nooch.data import ImageId
from nooch.errors import (
    InputError,
    MissingExtraError,
    NoochError,
    OutputError,
    check_one_of,
    some_of,
)
from nooch.exports.export_contract import HARD_SUBSETS, Content, Exported, about, check_subsets
from nooch.exports.file_names import safe_name

__all__ = ["Tag", "export_fiftyone", "match_samples", "plan_tags"]

_INFO = "nooch"
_ID_FIELDS = ("image_id", "coco_id")
"""Fields that are looked for: the first is nooch's own name, the second that of FiftyOne's COCO
importer.
"""


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
    by the end of their file path, which is the dataset's ``file_name``. Where and of which licences
    the suite is goes into the FiftyOne dataset's ``info["nooch"]``. Where anything fails, the tags
    are as they were.

    Args:
        content: what is exported.
        out: name of a FiftyOne dataset that exists.
        overwrite: replace tags of the same names.
        subsets: of ``hard_positive``, ``hard_negative`` and ``easy``, or its sides
            ``easy_positive`` and ``easy_negative``.
        id_field: field of the samples that holds image ids.

    Raises:
        MissingExtraError: FiftyOne is not installed.
        InputError: no such FiftyOne dataset or field, no sample that matches, or several for one
            image.
        OutputError: the tags are there already, or cannot be written.
    """
    wanted = check_subsets(subsets)
    fiftyone = _fiftyone()
    plan = plan_tags(content, wanted)
    try:
        dataset = _load(fiftyone, str(out))
        notes = _apply(dataset, content, plan, id_field, overwrite)
    except NoochError:
        raise
    except Exception as error:
        # its errors have no common root, and those of its database are others again
        raise OutputError(
            f"FiftyOne failed: {str(error).strip() or type(error).__name__}", where=str(out)
        ) from error
    return Exported(
        "fiftyone", str(out), len(content.keys), [], content.licences, [*notes, *content.notes]
    )


def plan_tags(content: Content, subsets: Sequence[str]) -> list[Tag]:
    """The tags of the chosen sets, each with its images of all chosen splits; none without an
    image.
    """
    found: dict[tuple[str, str, str], list[ImageId]] = {}
    for challenge in content.sets():
        for subset in subsets:
            found.setdefault((challenge.criterion, challenge.task, subset), []).extend(
                challenge.ids(subset)
            )
    return [
        # FiftyOne tells views apart by their letters and digits alone: "~ce" would be "ce" there
        Tag(
            f"nooch:{criterion}:{task}:{subset}",
            f"nooch {safe_name(criterion)} {safe_name(task)} {subset}",
            ids,
        )
        for (criterion, task, subset), ids in found.items()
        if ids
    ]


def match_samples(
    names: Mapping[str, ImageId], samples: Sequence[tuple[str, str]]
) -> dict[ImageId, str]:
    """Image id -> sample id, where a sample's path ends with the image's file name.

    Args:
        names: file name -> image id.
        samples: (sample id, file path).

    Raises:
        InputError: the paths of two samples end with the same name.
    """
    lengths = sorted({name.count("/") + 1 for name in names})
    found: dict[ImageId, str] = {}
    for sample, path in samples:
        steps = path.replace("\\", "/").split("/")
        # the longest end that is a name: "a/1.jpg" is not "1.jpg"
        ends = ["/".join(steps[-length:]) for length in reversed(lengths)]
        name = next((end for end in ends if end in names), None)
        if name is not None and found.setdefault(names[name], sample) != sample:
            raise InputError(
                f"the paths of several samples end with {name}",
                remedy="name the field of image ids with `id_field`",
            )
    return found


def _fiftyone() -> Any:
    try:
        return importlib.import_module("fiftyone")
    except ModuleNotFoundError as error:
        raise MissingExtraError("fiftyone", "fiftyone", "tagging a FiftyOne dataset") from error


def _load(fiftyone: Any, name: str) -> Any:
    if not fiftyone.dataset_exists(name):
        raise InputError(
            f"there is no FiftyOne dataset {name!r}",
            allowed=some_of(fiftyone.list_datasets(), 12) or "nothing: there are none",
            remedy="load the images into FiftyOne first, as a persistent dataset of that name",
        )
    return fiftyone.load_dataset(name)


def _apply(
    dataset: Any, content: Content, plan: list[Tag], id_field: str | None, overwrite: bool
) -> list[str]:
    sample_of = _samples(dataset, content, id_field)
    wanted = {image_id for tag in plan for image_id in tag.ids}
    missing = sorted(wanted - set(sample_of), key=str)
    if wanted and len(missing) == len(wanted):
        raise InputError(
            f"no sample is an image of the sets, such as {some_of(missing, 3)}",
            remedy=(
                "choose another FiftyOne dataset, or name the field of image ids with `id_field`"
            ),
        )
    present = [
        tag.name
        for tag in plan
        if tag.name in dataset.count_sample_tags() or dataset.has_saved_view(tag.view)
    ]
    if present and not overwrite:
        raise OutputError(
            f"has the tags {some_of(present)} already", remedy="give `overwrite` to replace them"
        )
    _write(
        dataset, [(tag, {sample_of[i] for i in tag.ids if i in sample_of}) for tag in plan], content
    )
    return (
        [f"{len(missing)} of {len(wanted)} images are no samples there: {some_of(missing)}"]
        if missing
        else []
    )


def _samples(dataset: Any, content: Content, id_field: str | None) -> dict[ImageId, str]:
    """Image id -> sample id, by a field of ids or by file path."""
    fields = dataset.get_field_schema()
    if id_field is not None:
        check_one_of("field", id_field, fields, owner="the FiftyOne dataset")
    field = id_field or next((name for name in _ID_FIELDS if name in fields), "filepath")
    samples = list(zip(*dataset.values(["id", field]), strict=True))
    if field == "filepath":
        images = content.need_data(_BY_PATH).images.drop_nulls("file_name")
        return match_samples(
            dict(zip(images["file_name"], images["image_id"], strict=True)), samples
        )
    whole = any(
        isinstance(i, int) for challenge in content.sets() for i in challenge.image_ids.head(1)
    )
    found: dict[ImageId, str] = {}
    for sample, value in samples:
        image_id = int(value) if whole and str(value).isdecimal() else value
        if value is not None and found.setdefault(image_id, sample) != sample:
            raise InputError(f"several samples have the {field} {value}", allowed="each image once")
    return found


_BY_PATH = f"finding samples by their path (they have no field {' or '.join(_ID_FIELDS)})"


def _write(dataset: Any, plan: list[tuple[Tag, set[str]]], content: Content) -> None:
    """Set tags, views and info; where that fails, put back what was there."""
    with ExitStack() as undo:
        for tag, samples in plan:
            undo.callback(_set_tag, dataset, tag.name, _tagged(dataset, tag.name))
            _set_tag(dataset, tag.name, samples)
            if not dataset.has_saved_view(tag.view):
                dataset.save_view(tag.view, dataset.match_tags(tag.name))
                undo.callback(dataset.delete_saved_view, tag.view)
        undo.callback(setattr, dataset, "info", dict(dataset.info))
        # names of criteria and tasks may be no keys for its database
        dataset.info[_INFO] = {
            key: about(content)[key] for key in ("nooch", "suite", "licences", "licences_text")
        }
        dataset.save()
        undo.pop_all()


def _tagged(dataset: Any, name: str) -> set[str]:
    return set(dataset.match_tags(name).values("id"))


def _set_tag(dataset: Any, name: str, wanted: set[str]) -> None:
    """Exactly these samples carry the tag."""
    present = _tagged(dataset, name)
    if add := sorted(wanted - present):
        dataset.select(add).tag_samples(name)
    if drop := sorted(present - wanted):
        dataset.select(drop).untag_samples(name)
