"""COCO files of any size -> rows on disk by image id, a job per file; and back, by id range."""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from nooch.base.calls import Map, StepProgress
from nooch.base.disk import sync
from nooch.base.errors import InputError, some_of
from nooch.base.limits import BROKEN_JSON
from nooch.data.readers.coco.decoder import Document, opened, slice_text
from nooch.data.readers.coco.masks import mask_area
from nooch.data.readers.coco.structure import (
    LISTED,
    STRUCTURE,
    Annotation,
    Caption,
    Captions,
    Image,
    Instances,
    ParsedFile,
    annotation_columns,
    caption_columns,
    categories_of,
    check_areas,
    checked_images,
    image_columns,
    index_of,
    integers,
    listed_columns,
    look_up,
    object_columns,
)
from nooch.data.readers.jobs import NumberedJob, map_for, results_of

_BLOCK = 1024
"""Texts that are decoded at once."""

_TEXTS = msgspec.msgpack.Decoder(list[str | None])


def write_rows(
    stem: Path,
    kind: np.dtype[Any],
    columns: Sequence[NDArray[Any]],
    texts: Sequence[str | None] | None = None,
) -> None:
    """Write rows of columns (n,), first ``id``, as ``stem`` with endings, and sync them; rows with
    the same id keep their order. Texts are one for each row, or None; without any there are none.
    """
    order = np.argsort(columns[0], kind="stable")
    rows = np.empty(len(order), kind)
    for name, values in zip(kind.names or (), columns, strict=True):
        rows[name] = values[order]
    stem.with_suffix(".rows").write_bytes(rows.data)
    sync(stem.with_suffix(".rows"))
    if texts is not None:
        ordered = [texts[row] for row in order.tolist()]
        blocks = [
            msgspec.msgpack.encode(ordered[k : k + _BLOCK]) for k in range(0, len(ordered), _BLOCK)
        ]
        ends = np.cumsum([0, *map(len, blocks)])
        stem.with_suffix(".texts").write_bytes(b"".join((ends.tobytes(), *blocks)))
        sync(stem.with_suffix(".texts"))


def read_ids(stem: Path, kind: np.dtype[Any]) -> NDArray[np.int64]:
    """The ids of all rows, ascending: int64 (n,)."""
    return np.array(np.memmap(stem.with_suffix(".rows"), kind, mode="r")["id"])


def read_rows(
    stem: Path, kind: np.dtype[Any], low: int | None, high: int | None
) -> tuple[NDArray[Any], list[str | None]]:
    """Rows with ``low <= id < high`` (None: no end), by id; and their texts, if any."""
    mapped = np.memmap(stem.with_suffix(".rows"), kind, mode="r")
    ids = mapped["id"]
    first = 0 if low is None else bisect_left(ids, low)
    rows = np.array(mapped[first : len(ids) if high is None else bisect_left(ids, high, first)])
    texts = stem.with_suffix(".texts")
    return rows, _texts(texts, len(ids), first, len(rows)) if len(rows) and texts.is_file() else []


def _texts(file: Path, n_rows: int, first: int, count: int) -> list[str | None]:
    block, last = first // _BLOCK, (first + count - 1) // _BLOCK + 1
    ends = np.memmap(file, np.int64, mode="r", shape=(-(-n_rows // _BLOCK) + 1,))
    begins = (ends[block : last + 1] + ends.nbytes).tolist()
    with file.open("rb") as content:
        content.seek(begins[0])
        sizes = (end - begin for begin, end in pairwise(begins))
        decoded = [*chain.from_iterable(_TEXTS.decode(content.read(size)) for size in sizes)]
    skipped = first - block * _BLOCK
    return decoded[skipped : skipped + count]


_IMAGE = np.dtype([("id", "<i8"), ("width", "<f8"), ("height", "<f8")])
_LISTED = np.dtype([("id", "<i8"), ("category", "<i8"), ("kind", "<i8")])
_CAPTION = np.dtype([("id", "<i8"), ("number", "<i8")])
_ANNOTATION = np.dtype([("id", "<i8"), ("number", "<i8"), ("category", "<i8"), ("area", "<f8")])
_THING = np.dtype([*_ANNOTATION.descr, ("box", "<f8", (4,)), ("flags", "u1")])
"""Texts are names of images, captions, and the segmentations of annotations without area."""


_KINDS = {"things": _THING, "stuff": _ANNOTATION, "captions": _CAPTION}


class _Mask(msgspec.Struct, gc=False):
    segmentation: msgspec.Raw = msgspec.Raw(b"null")


def source_of(path: Path) -> dict[str, Any]:
    """Name, size and hash of a file, for the provenance."""
    # BLAKE3, because SHA-256 of a gigabyte would be a quarter of an import's work
    with opened(path) as content, path.open("rb") as file:
        digest = hashlib.file_digest(file, blake3)  # type: ignore[arg-type]
        return {"file": path.name, "bytes": len(content), "blake3": digest.hexdigest()}


@dataclass(frozen=True)
class SliceRows:
    """Rows of one slice on disk; the first is number ``first`` of the array. ``more``: of
    annotations, how many have a usable box; of images, how many rows their lists have.
    """

    stem: str
    first: int
    more: int = 0

    @property
    def lists(self) -> Path:
        """Rows of the lists of images."""
        return Path(f"{self.stem}-lists")


@dataclass(frozen=True)
class ScannedFile:
    """A file's rows on disk, and its other content.

    Attributes:
        role: things, stuff or captions.
        given: the path, as it was given.
        images: rows of images.
        annotations: rows of annotations, in the order of the file.
        categories: id -> name as the file spells it.
        licenses: the file's entry for them.
        source: its name, size and hash.
    """

    role: str
    given: str
    images: list[SliceRows]
    annotations: list[SliceRows]
    categories: dict[int, str]
    licenses: list[dict[str, Any]]
    source: dict[str, Any]

    @property
    def path(self) -> Path:
        """As it was given."""
        return Path(self.given)

    @property
    def name(self) -> str:
        """Path of the file, for messages."""
        return self.path.name

    def ids(self) -> NDArray[np.int64]:
        """Ids of all images: int64 (n_images,)."""
        return np.concatenate([read_ids(Path(part.stem), _IMAGE) for part in self.images])

    def read(self, low: int | None, high: int | None, *, bare: bool = False) -> ParsedFile:
        """The content for images with ``low <= id < high``; of ``bare`` files, which have no
        annotation, with boxes of none. Raises InputError for bad values.
        """
        images = self._images(low, high)
        slices = [self._annotations(part, images, low, high) for part in self.annotations]
        rows = [np.empty(0, self._kind), *(rows for rows, _ in slices)]
        columns = {k: np.concatenate([some[k] for some in rows]) for k in self._kind.names or ()}
        ids, numbers = columns["id"], columns["number"]
        index = index_of(ids, images["image_ids"], "image", self.path, numbers)
        if self.role == "captions":
            none, texts = np.empty(0, np.int32), chain.from_iterable(texts for _, texts in slices)
            return ParsedFile(
                self.name,
                **images,
                categories={},
                image_index=index,
                category_index=none,
                areas=none.astype(np.float64),
                captions=[*texts],
            )
        category_ids = integers(self.categories, len(self.categories), self.path)
        category_index = index_of(columns["category"], category_ids, "category", self.path, numbers)
        check_areas(columns["area"], index, images, self.path, numbers)
        has_boxes = bare or any(part.more for part in self.annotations)
        return ParsedFile(
            self.name,
            **images,
            categories=self.categories,
            image_index=index,
            category_index=category_index,
            areas=columns["area"],
            boxes=columns["box"] if has_boxes else None,
            flags=columns["flags"] if has_boxes else None,
            lists=self._lists(images["image_ids"], category_ids, low, high),
        )

    def _lists(
        self,
        image_ids: NDArray[np.int64],
        category_ids: NDArray[np.int64],
        low: int | None,
        high: int | None,
    ) -> NDArray[np.int64] | None:
        parts = [part.lists for part in self.images if part.more]
        if not parts:
            return None
        rows = np.concatenate([read_rows(part, _LISTED, low, high)[0] for part in parts])
        category = look_up(rows["category"], category_ids)
        if (unknown := (category < 0) & (rows["kind"] != LISTED)).any():
            problem = f"images {some_of(np.unique(rows['id'][unknown]))} list categories that are"
            raise InputError(
                f"{problem} not known: {some_of(np.unique(rows['category'][unknown]))}",
                where=self.path,
                allowed="neg_category_ids and not_exhaustive_category_ids of the file's own list of"
                " categories",
            )
        return np.stack([look_up(rows["id"], image_ids), category, rows["kind"]], axis=1)

    @property
    def _kind(self) -> np.dtype[Any]:
        return _KINDS[self.role]

    def _images(self, low: int | None, high: int | None) -> dict[str, Any]:
        parts = [read_rows(Path(part.stem), _IMAGE, low, high) for part in self.images]
        rows = np.concatenate([rows for rows, _ in parts])
        names = [*chain.from_iterable(texts for _, texts in parts)]
        order = np.argsort(rows["id"], kind="stable")
        ids, widths, heights = (rows[name][order] for name in ("id", "width", "height"))
        ordered = [names[k] for k in order.tolist()] if names else []
        return checked_images(ids, widths, heights, ordered, self.path)

    def _annotations(
        self, part: SliceRows, images: dict[str, Any], low: int | None, high: int | None
    ) -> tuple[NDArray[Any], list[Any]]:
        """Rows of one slice, an image's in the order of the file; and the captions."""
        rows, texts = read_rows(Path(part.stem), self._kind, low, high)
        rows["number"] += part.first
        if not texts or self.role == "captions":
            return rows, texts
        numbers, areas, index = (
            rows["number"],
            rows["area"],
            look_up(rows["id"], images["image_ids"]),
        )
        # an image that is not listed has no size: ``index_of`` raises for it later
        bare = np.flatnonzero(np.isnan(areas) & (index >= 0))
        for row in bare[np.argsort(numbers[bare])].tolist():
            height, width = (int(images[side][index[row]]) for side in ("heights", "widths"))
            try:
                areas[row] = mask_area(msgspec.json.decode(texts[row] or "null"), height, width)
            except (TypeError, ValueError, KeyError, IndexError, NotImplementedError) as error:
                problem = f"annotation {numbers[row]} (counted from 0) has no area and its"
                problem += f" segmentation cannot be decoded: {error}"
                allowed = "polygons, or a run-length encoding {counts, size}"
                raise InputError(problem, where=self.path, allowed=allowed) from error
        return rows, texts


@dataclass(frozen=True)
class FileJob(NumberedJob):
    """Decode the images and annotations of a file slice by slice, write these as rows, and hash the
    file meanwhile. The ``role`` is things, stuff or captions; errors call the file as ``given``.
    """

    name: ClassVar[str] = "file"
    result_type: ClassVar[Any] = ScannedFile
    role: str
    path: Path
    given: str
    size: int

    def make(self) -> ScannedFile:
        """Raises InputError: a file that cannot be read, is truncated or of another structure, or
        lists no image.
        """
        where = Path(self.given)
        kind: type[Instances | Captions] = Captions if self.role == "captions" else Instances
        slices: dict[str, list[SliceRows]] = {}
        with ThreadPoolExecutor(1) as pool, opened(self.path, self.given) as content:
            source = pool.submit(source_of, self.path)
            document = Document[Any](content, where, kind, self.size)
            for key in document.arrays():
                slices[key], first = [], 0
                write = partial(self._write, content, key)
                for start, (n_rows, more) in document.elements(key, write):
                    slices[key].append(SliceRows(str(self._stem(key, start)), first, more))
                    first += n_rows
            rest = document.rest()
        if not slices.get("images"):
            raise InputError("lists no image", where=where, allowed=STRUCTURE)
        # as text: a number may be larger than any that can be stored
        licenses = [
            {name: str(entry[name]) for name in ("name", "url") if name in entry}
            for entry in getattr(rest, "licenses", None) or []
        ]
        return ScannedFile(
            self.role,
            self.given,
            slices["images"],
            slices["annotations"],
            categories_of(getattr(rest, "categories", []), where),
            licenses,
            {"role": self.role, **source.result()},
        )

    def _stem(self, key: str, start: int) -> Path:
        return self.folder / f"file-{self.number}-{key}-{start:x}"

    def _write(self, content: Any, key: str, start: int, stop: int) -> tuple[int, int] | None:
        """Write the rows of a slice, and give how many rows it has, and ``SliceRows.more``; None if
        it does not decode. Raises InputError for refused values.
        """
        try:
            kind, columns, texts = self._columns(key, slice_text(content, start, stop))
        except BROKEN_JSON:
            return None
        more = 0
        if kind == _IMAGE and len(columns) > 3:
            lists, columns = columns[3:], columns[:3]
            more = len(lists[0])
            if more:
                write_rows(SliceRows(str(self._stem(key, start)), 0).lists, _LISTED, lists)
        elif kind == _THING:
            more = int(np.count_nonzero(~np.isnan(columns[4][:, 0])))
        write_rows(self._stem(key, start), kind, columns, texts)
        return len(columns[0]), more

    def _columns(
        self, key: str, text: bytes
    ) -> tuple[np.dtype[Any], Sequence[NDArray[Any]], Sequence[str | None] | None]:
        """The type of rows, their columns and their texts; columns of images of things are followed
        by the ones of their lists.
        """
        where = Path(self.given)
        if key == "images":
            images = msgspec.json.decode(text, type=list[Image])
            *columns, names = image_columns(images, where)
            if self.role == "things":
                columns += listed_columns(images, where)
            # names of images that only captions list are not used
            return _IMAGE, columns, None if self.role == "captions" else names
        if self.role == "captions":
            records = msgspec.json.decode(text, type=list[Caption])
            ids, captions = caption_columns(records, where)
            return _CAPTION, (ids, np.arange(len(ids))), captions
        more: Sequence[NDArray[Any]] = ()
        if self.role == "things":
            annotations, *more = object_columns(text)
        else:
            annotations = msgspec.json.decode(text, type=list[Annotation])
        ids, categories, areas = annotation_columns(annotations, where)
        masks = None
        if (bare := np.isnan(areas)).any():
            segmentations = msgspec.json.decode(text, type=list[_Mask])
            masks = [
                bytes(mask.segmentation).decode() if b else None
                for mask, b in zip(segmentations, bare, strict=True)
            ]
        return _KINDS[self.role], (ids, np.arange(len(ids)), categories, areas, *more), masks


def scan_files(
    files: Sequence[tuple[str, Path]],
    folder: Path,
    slice_size: int,
    map: Map,
    progress: StepProgress,
) -> list[ScannedFile]:
    """Scan files, each given with its role; those that are done in ``folder`` are not repeated.
    Raises InputError as ``FileJob``.
    """
    for _, path in files:
        with opened(path):
            # a file that is not JSON is refused before jobs start
            pass
    jobs = [
        FileJob(folder, number, role, path.absolute(), str(path), slice_size)
        for number, (role, path) in enumerate(files)
    ]

    def importing(function: Callable[[Any], Any], items: Iterable[Any]) -> Iterable[Any]:
        # the module that merges rows takes a while to import: meanwhile workers start
        results = map(function, items)
        import nooch.data.readers.coco.merge  # noqa: F401

        return results

    return results_of(jobs, map_for([path for _, path in files], slice_size, importing), progress)
