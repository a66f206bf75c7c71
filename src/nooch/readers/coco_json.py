"""One COCO annotation file as arrays: only ids, sizes, categories and areas are decoded; polygons are skipped.

Runs in a worker process for each file, so it returns plain arrays and raises errors that pickle.
"""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from nooch.errors import InputError, some_of

__all__ = ["ParsedFile", "parse_captions", "parse_file", "parse_instances"]

T = TypeVar("T")


class _Image(msgspec.Struct, gc=False):
    id: int
    width: int | None = None
    height: int | None = None
    file_name: str | None = None
    coco_url: str | None = None


class _Category(msgspec.Struct, gc=False):
    id: int
    name: str


class _Annotation(msgspec.Struct, gc=False):
    image_id: int
    category_id: int
    area: float | None = None


class _Instances(msgspec.Struct, gc=False):
    images: list[_Image]
    annotations: list[_Annotation]
    categories: list[_Category]
    licenses: list[dict[str, Any]] = []


class _Masked(msgspec.Struct, gc=False):
    image_id: int
    area: float | None = None
    segmentation: Any = None


class _Masks(msgspec.Struct, gc=False):
    annotations: list[_Masked]


class _Caption(msgspec.Struct, gc=False):
    image_id: int
    caption: str


class _Captions(msgspec.Struct, gc=False):
    images: list[_Image]
    annotations: list[_Caption]


@dataclass(frozen=True)
class ParsedFile:
    """What one annotation file says.

    Attributes:
        source: file, bytes and SHA-256, for the provenance.
        image_ids: int64 (n_images,), with ``widths`` and ``heights`` (int64 pixels) and ``file_names``.
        categories: id -> name as the file spells it, in the file's order.
        image_index: int64 (n_annotations,), position in ``image_ids``; ``category_ids`` alike, or empty for captions.
        areas: float64 (n_annotations,) in square pixels.
        captions: the texts, for a caption file.
        licenses: what the file says of them.
    """

    source: dict[str, Any]
    image_ids: NDArray[np.int64]
    widths: NDArray[np.int64]
    heights: NDArray[np.int64]
    file_names: list[str | None]
    categories: dict[int, str]
    image_index: NDArray[np.int64]
    category_ids: NDArray[np.int64]
    areas: NDArray[np.float64]
    captions: list[str]
    licenses: list[dict[str, Any]]


def parse_file(job: tuple[str, Path]) -> ParsedFile:
    """Read one (role, file), the role being ``things``, ``stuff`` or ``captions``. What a worker process is sent."""
    role, path = job
    return parse_captions(path) if role == "captions" else parse_instances(path)


def parse_instances(path: Path) -> ParsedFile:
    """Read an ``instances_*.json`` or ``stuff_*.json``.

    Raises:
        InputError: a file that is truncated, of another structure, or holds ids or areas that are not allowed.
    """
    with _opened(path) as (content, digest):
        found = _decode(content, _Instances, path)
        n = len(found.annotations)
        # numpy takes None for NaN: no area
        areas = np.fromiter(map(attrgetter("area"), found.annotations), np.float64, n)
        masks = _decode(content, _Masks, path).annotations if np.isnan(areas).any() else []
        source = _source(path, digest)
    images = _images(found.images, path)
    categories = _categories(found.categories, path)
    category_ids = _integers(map(attrgetter("category_id"), found.annotations), n, path)
    image_ids = _integers(map(attrgetter("image_id"), found.annotations), n, path)
    index = _index(image_ids, images["image_ids"], "image", path)
    _index(category_ids, np.array(list(categories), dtype=np.int64), "category", path)
    if masks:
        areas = _fill_areas(masks, areas, index, images, path)
    if len(bad := np.flatnonzero(~(areas >= 0) | np.isinf(areas))):
        raise InputError(
            f"annotation {bad[0]} (counted from 0) has area {areas[bad[0]]}"
            + (f", and {len(bad) - 1} more are not allowed either" if len(bad) > 1 else ""),
            where=path,
            allowed="square pixels, 0 and more, or no area but a segmentation",
        )
    return ParsedFile(
        source,
        **images,
        categories=categories,
        image_index=index,
        category_ids=category_ids,
        areas=areas,
        captions=[],
        licenses=found.licenses,
    )


def parse_captions(path: Path) -> ParsedFile:
    """Read a ``captions_*.json``. Raises InputError as ``parse_instances`` does."""
    with _opened(path) as (content, digest):
        found = _decode(content, _Captions, path)
        source = _source(path, digest)
    images = _images(found.images, path)
    image_ids = _integers((a.image_id for a in found.annotations), len(found.annotations), path)
    index = _index(image_ids, images["image_ids"], "image", path)
    none = np.empty(0, np.int64)
    texts = [a.caption for a in found.annotations]
    return ParsedFile(
        source,
        **images,
        categories={},
        image_index=index,
        category_ids=none,
        areas=none.astype(np.float64),
        captions=texts,
        licenses=[],
    )


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Any, Future[str]]]:
    """A file's bytes, mapped and not copied, and its SHA-256, taken in a thread while the bytes are decoded."""
    try:
        with (
            path.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
            ThreadPoolExecutor(1) as hasher,
        ):
            yield content, hasher.submit(lambda: hashlib.sha256(content).hexdigest())
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=path) from error
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        # what mmap says of a file without a byte
        raise InputError("is empty", where=path) from error


def _source(path: Path, digest: Future[str]) -> dict[str, Any]:
    return {"file": path.name, "bytes": path.stat().st_size, "sha256": digest.result()}


def _decode(content: Any, kind: type[T], path: Path) -> T:
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.ValidationError as error:
        raise InputError(f"is not COCO's structure: {error}", where=path, allowed=_STRUCTURE) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(
            f"is no valid JSON: {error}",
            where=path,
            remedy="fetch or export the file again; JSON has no NaN or Infinity",
        ) from error


_STRUCTURE = (
    "an object with images [{id, width, height, file_name}], categories [{id, name}] and annotations "
    "[{image_id, category_id, area or segmentation}], or [{image_id, caption}] for captions; ids are integers"
)


def _images(images: list[_Image], path: Path) -> dict[str, Any]:
    n = len(images)
    if not n:
        raise InputError("lists no image", where=path, allowed=_STRUCTURE)
    ids = _integers((i.id for i in images), n, path)
    if len(np.unique(ids)) != n:
        values, counts = np.unique(ids, return_counts=True)
        raise InputError(f"image ids occur more than once: {some_of(values[counts > 1])}", where=path)
    widths = _integers((i.width or 0 for i in images), n, path)
    heights = _integers((i.height or 0 for i in images), n, path)
    if len(flat := np.flatnonzero((widths < 1) | (heights < 1))):
        raise InputError(
            f"images without extent: ids {some_of(ids[flat])}",
            where=path,
            allowed="width and height of 1 pixel and more",
        )
    return {"image_ids": ids, "widths": widths, "heights": heights, "file_names": [_file_name(i) for i in images]}


def _integers(values: Iterable[int], n: int, path: Path) -> NDArray[np.int64]:
    try:
        return np.fromiter(values, np.int64, n)
    except OverflowError as error:
        raise InputError(
            "an id or a size does not fit into 64 bits", where=path, allowed="integers of 64 bits"
        ) from error


def _file_name(image: _Image) -> str | None:
    # LVIS gives an address instead of a name; its last part is COCO's file name
    if image.file_name is None and image.coco_url:
        return image.coco_url.rsplit("/", 1)[-1]
    return image.file_name


def _categories(categories: list[_Category], path: Path) -> dict[int, str]:
    names = {c.id: c.name for c in categories}
    if len(names) != len(categories):
        ids = [c.id for c in categories]
        raise InputError(
            f"category ids occur more than once: {some_of(sorted({i for i in ids if ids.count(i) > 1}))}", where=path
        )
    return names


def _index(used: NDArray[np.int64], known: NDArray[np.int64], what: str, path: Path) -> NDArray[np.int64]:
    """Position of each used id among the file's listed ones. Raises InputError for ids that are not listed."""
    order = np.argsort(known, kind="stable")
    ordered = known[order]
    place = np.searchsorted(ordered, used)
    place[place == len(ordered)] = 0
    found = ordered[place] == used if len(ordered) else np.zeros(len(used), dtype=bool)
    if not found.all():
        first = int(np.flatnonzero(~found)[0])
        raise InputError(
            f"{what} ids of annotations are not listed: {some_of(np.unique(used[~found]))}; "
            f"the first is annotation {first} (counted from 0)",
            where=path,
            allowed=f"ids that the file's own list of {'images' if what == 'image' else 'categories'} holds",
        )
    return order[place]


def _fill_areas(
    masks: list[_Masked], areas: NDArray[np.float64], index: NDArray[np.int64], images: dict[str, Any], path: Path
) -> NDArray[np.float64]:
    """Count the pixels of the masks of those annotations that have no area."""
    filled = areas.copy()
    for position in np.flatnonzero(np.isnan(areas)):
        height, width = (int(images[k][index[position]]) for k in ("heights", "widths"))
        try:
            filled[position] = _mask_area(masks[position].segmentation, height, width)
        except (TypeError, ValueError, KeyError, IndexError, NotImplementedError) as error:
            raise InputError(
                f"annotation {position} (counted from 0) has no area and its segmentation cannot be decoded: {error}",
                where=path,
                allowed="polygons, or a run-length encoding {counts, size}",
            ) from error
    return filled


def _mask_area(segmentation: Any, height: int, width: int) -> float:
    """Pixels of polygons or of a run-length encoding, compressed or not."""
    if isinstance(segmentation, list):
        from pycocotools import mask

        if not segmentation or not all(isinstance(p, list) and len(p) >= 6 and len(p) % 2 == 0 for p in segmentation):
            raise ValueError("a polygon needs at least three points")
        # what is far outside would take pycocotools all the memory there is
        far = 10 * (height + width)
        if not all(isinstance(x, int | float) and abs(x) <= far for polygon in segmentation for x in polygon):
            raise ValueError("a coordinate is no number, or far outside the image")
        return float(mask.area(mask.merge(mask.frPyObjects(segmentation, height, width))))
    if not isinstance(segmentation, dict):
        raise TypeError("it is missing")
    if list(segmentation["size"]) != [height, width]:
        raise ValueError(f"size {segmentation['size']} is not the image's {[height, width]}")
    counts = segmentation["counts"]
    runs = _run_lengths(counts) if isinstance(counts, str) else list(counts)
    if not all(isinstance(run, int) and run >= 0 for run in runs) or sum(runs) != height * width:
        raise ValueError("run lengths do not add up to the image")
    return float(sum(runs[1::2]))


def _run_lengths(counts: str) -> list[int]:
    """Run lengths of COCO's compressed encoding, background first.

    Five bits of a number in each character, lowest first; 32 says that more follow, 16 in the last that the number
    is negative. From the fourth run on, the number is the difference to the run before the last.
    """
    runs: list[int] = []
    number = shift = 0
    for character in counts.encode("ascii"):
        code = character - 48
        if not 0 <= code < 64:
            raise ValueError(f"{chr(character)!r} does not occur in run lengths")
        number |= (code & 31) << shift
        shift += 5
        if not code & 32:
            number -= 1 << shift if code & 16 else 0
            runs.append(number + (runs[-2] if len(runs) > 2 else 0))
            number = shift = 0
    if shift:
        raise ValueError("run lengths end in the middle of one")
    return runs
