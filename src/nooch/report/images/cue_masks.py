"""Annotation files -> where the cues of a task lie in the images of the report."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from nooch.base.errors import InputError
from nooch.data import Dataset, class_name
from nooch.data.readers.coco.decoder import mask_area
from nooch.data.readers.coco.structure import Annotation
from nooch.data.readers.image_files import LABEL_MAPS, UNREADABLE, opened_image
from nooch.data.readers.label_maps import class_list
from nooch.report.answer import Answer
from nooch.report.exports.coco import read_annotations
from nooch.report.images.thumbnails import SplitImages, Wanted
from nooch.suites import Suite

Masks = Callable[[str, int], Sequence[tuple[str, NDArray[np.bool_]]]]
"""(split, row) -> the classes to shade in an image, each with where it is, bool (height, width)."""

COLORS = ((230, 159, 0), (204, 121, 167), (86, 180, 233), (0, 158, 115))
"""Of Okabe and Ito's palette; the style sheet has the same."""


class _Shape(Annotation):
    segmentation: Any = None
    bbox: list[float] | None = None


def cue_masks(
    suite: Suite,
    data: Dataset,
    images: Mapping[str, SplitImages],
    annotations: Sequence[str | Path],
    pictures: Sequence[Wanted],
    tasks: Sequence[str] = (),
) -> Masks:
    """Masks of the suite's context cues in the images with pictures, decoded image by image."""
    listed = [pairs for record in suite.header.criteria.values() for pairs in record.cues.values()]
    cues = dict.fromkeys([*(cue for pairs in listed for cue, _ in pairs), *tasks])
    if len(annotations) == 1 and Path(annotations[0]).is_dir():
        return _map_masks(Path(annotations[0]), list(cues), images)
    ids = {
        (picture.split, picture.row): images[picture.split].ids[picture.row] for picture in pictures
    }
    if any(not isinstance(image_id, int) for image_id in ids.values()):
        problem = "image ids are text, but integers in `annotations`"
        remedy = "give a folder of label maps there"
        raise InputError(problem, remedy=remedy, give={"annotations": None})
    of_image = object_masks(data, annotations, set(ids.values()), cues)
    order = {cue: place for place, cue in enumerate(cues)}

    def masks(split: str, row: int) -> list[tuple[str, NDArray[np.bool_]]]:
        by_cue: dict[str, NDArray[np.bool_]] = {}
        for name, _, mask in of_image(ids[split, row]):
            by_cue[name] = by_cue[name] | mask if name in by_cue else mask
        return sorted(by_cue.items(), key=lambda item: order[item[0]])

    return masks


ObjectMasks = Callable[[int], Iterator[tuple[str, list[float] | None, NDArray[np.bool_]]]]
"""Id of an image -> its annotations: class, COCO's ``bbox``, and mask, bool (height, width)."""


def object_masks(
    data: Dataset,
    annotations: Sequence[str | Path],
    ids: Collection[int],
    classes: Collection[str],
    *,
    with_boxes: bool = True,
) -> ObjectMasks:
    """The annotations of classes in COCO files, decoded image by image. Unless ``with_boxes``, one
    that has only a box is left out; else its mask is the box.
    """
    paths, recorded = [Path(path) for path in annotations], data.provenance.get("sources", [])
    content = read_annotations(paths, ids, list(recorded))
    names = {number: class_name(name) for number, (name, _) in content.categories.items()}

    def masks(image_id: int) -> Iterator[tuple[str, list[float] | None, NDArray[np.bool_]]]:
        height, width = (int(content.images[image_id][side]) for side in ("height", "width"))
        for _, raw in content.annotations.get(image_id, []):
            annotation = msgspec.json.decode(raw, type=_Shape)
            name = names.get(annotation.category_id)
            if name is None or name not in classes or not (annotation.segmentation or with_boxes):
                continue
            if (mask := _mask(annotation, height, width)) is not None:
                yield name, annotation.bbox, mask

    return masks


def recorded_annotations(data: Dataset, root: Path) -> list[Path]:
    """The annotation files that a dataset records, if they are near its images: COCO files, or a
    folder of label maps.
    """
    folders = (root / ".." / "annotations", root / "..", root)
    files = []
    for source in data.provenance.get("sources", []):
        if source.get("role") in {"things", "stuff", "instances"}:
            # a name from a file never leads out of these folders
            name = Path(str(source.get("file"))).name
            files += [next((f / name for f in folders if (f / name).is_file()), None)]
    if data.provenance.get("reader") == "label-maps":
        names = [Path(name).with_suffix(".png") for name in data.images["file_name"].drop_nulls()]
        places = [root, *sorted(place for place in (root / "..").iterdir() if place.is_dir())]
        files += [next((f for f in places if names and (f / names[0]).is_file()), None)]
    return [file for file in files if file is not None]


def outlines(
    suite: Suite,
    data: Dataset,
    images: Mapping[str, SplitImages],
    root: Path,
    pictures: Sequence[Wanted],
    answer: Answer,
) -> Masks | None:
    """Masks of the classes that findings are about in their pictures, from annotations near the
    images; None if there are none that can be read.
    """
    classes: dict[tuple[str, int], dict[str, None]] = {}
    for _, worst, _ in answer.parts():
        for one in worst:
            for row in (*(image.row for image in one.shown), *one.linked):
                classes.setdefault((answer.split, row), {}).update(dict.fromkeys(one.outlined))
    drawn = [picture for picture in pictures if (picture.split, picture.row) in classes]
    every = list(dict.fromkeys(name for names in classes.values() for name in names))
    try:
        files = recorded_annotations(data, root)
        masks = cue_masks(suite, data, images, files, drawn, every) if files and drawn else None
    except InputError:
        # they have changed, or are of other images: pictures stay without outlines
        return None
    if masks is None:
        return None

    def of_findings(split: str, row: int) -> list[tuple[str, NDArray[np.bool_]]]:
        wanted = classes.get((split, row), {})
        try:
            found = dict(masks(split, row)) if wanted else {}
        except InputError:
            return []
        part = images[split].data
        # maps of something else cover another area
        return [
            (name, found[name])
            for name in wanted
            if name in found
            and (part is None or not files[0].is_dir() or _covers(part, name, row, found[name]))
        ]

    return of_findings


def _covers(part: Dataset, name: str, row: int, mask: NDArray[np.bool_]) -> bool:
    area = part.area(name, unknown=np.nan)[row]
    return bool(np.isnan(area) or abs(area - mask.mean()) < 0.05)


def _map_masks(folder: Path, cues: Sequence[str], images: Mapping[str, SplitImages]) -> Masks:
    """Masks of cues in label maps; an image without a file name or a map has none."""
    listed = [place / "classes.txt" for place in (folder, folder.parent)]
    classes = class_list(next(filter(Path.is_file, listed), listed[0]))
    values = {name: value for value, name in classes.items()}

    def masks(split: str, row: int) -> list[tuple[str, NDArray[np.bool_]]]:
        name = images[split].file_names[row]
        file = folder / Path(name or "").with_suffix(".png")
        if name is None or not file.is_file():
            return []
        try:
            with opened_image(file, LABEL_MAPS) as image:
                pixels = np.asarray(image)
        except UNREADABLE as error:
            raise InputError(f"cannot be read as an image: {error}", where=file) from error
        shapes = [(cue, pixels == values[cue]) for cue in cues if cue in values]
        return [(cue, mask) for cue, mask in shapes if mask.any()]

    return masks


def _mask(annotation: _Shape, height: int, width: int) -> NDArray[np.bool_] | None:
    """Mask of an annotation, or its box; None where its shape cannot be decoded."""
    from pycocotools import mask as coco

    shape = annotation.segmentation
    if not shape and annotation.bbox is not None:
        x, y, w, h = annotation.bbox
        shape = [[x, y, x + w, y, x + w, y + h, x, y + h]]
    if not shape:
        return None
    try:
        # refuses what would not fit the image before anything of its size is made
        mask_area(shape, height, width)
        if isinstance(shape, dict) and isinstance(shape["counts"], str):
            encoded = {**shape, "counts": shape["counts"].encode()}
        else:
            encoded = coco.frPyObjects(shape, height, width)
        runs = coco.merge(encoded) if isinstance(encoded, list) else encoded
        with warnings.catch_warnings():
            # pycocotools builds its arrays in a way that NumPy 2 gives up
            warnings.simplefilter("ignore", DeprecationWarning)
            mask = np.asarray(coco.decode(runs), dtype=bool)
    except (ValueError, TypeError, KeyError):
        return None
    return mask if mask.shape == (height, width) else None


def inner(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """A mask without its outline, bool (height, width)."""
    padded = np.pad(mask, 1)
    across = padded[1:-1, :-2] & padded[1:-1, 2:]
    return mask & padded[:-2, 1:-1] & padded[2:, 1:-1] & across
