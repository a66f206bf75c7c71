"""COCO files of any size -> rows on disk by image id, a job per file; and back, by id range."""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from nooch.base.calls import Map, StepProgress
from nooch.base.disk import sync
from nooch.base.errors import InputError, some_of
from nooch.base.limits import BROKEN_JSON
from nooch.data.readers.coco.decoder import Document, extent, mask_area, opened, slice_text
from nooch.data.readers.coco.structure import (
    LISTED,
    LOOSE,
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
    contradictions,
    id_texts,
    image_columns,
    index_of,
    integers,
    is_outside,
    licenses_of,
    listed_columns,
    listed_twice,
    look_up,
    object_columns,
    records_of,
    twins_of,
    without_nan,
)
from nooch.data.readers.jobs import NumberedJob, map_for, results_of

if TYPE_CHECKING:
    from nooch.data.readers.contract import ImageListing

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


_TEXT = np.dtype([("id", "<i8")])
_NO_MASK = {"null", "[]", "[[]]", '""', "{}"}
_OUTSIDE = -np.inf
"""Area of an annotation whose polygons lie outside of their image."""
_PROBED = 5
"""Images whose files are looked for next to an annotation file."""

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
    annotations, how many have a usable box; of images, how many rows their lists have. ``named``:
    ids of images are numbers of texts.
    """

    stem: str
    first: int
    more: int = 0
    named: bool = False

    @property
    def lists(self) -> Path:
        """Rows of the lists of images."""
        return Path(f"{self.stem}-lists")

    @property
    def texts(self) -> Path:
        """Rows of the ids of images as texts."""
        return Path(f"{self.stem}-ids")


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
        counts: of the whole file, ``NOTES`` says of what.
        dropped: names of categories that no annotation uses, and that another one has too.
    """

    role: str
    given: str
    images: list[SliceRows]
    annotations: list[SliceRows]
    categories: dict[int, str]
    licenses: list[dict[str, Any]]
    source: dict[str, Any]
    counts: dict[str, int]
    dropped: list[str]

    @property
    def path(self) -> Path:
        """As it was given."""
        return Path(self.given)

    @property
    def name(self) -> str:
        """Path of the file, for messages."""
        return self.path.name

    @property
    def is_contradictory(self) -> bool:
        """True if most areas contradict their boxes, or without one are of whole images."""
        wrong, looked = (
            sum(self.counts.get(name, 0) for name in names)
            for names in (("larger", "zero", "whole"), ("compared", "unboxed"))
        )
        return 2 * wrong > looked

    def ids(self) -> NDArray[np.int64]:
        """Ids of all images: int64 (n_images,)."""
        return np.concatenate([read_ids(Path(part.stem), _IMAGE) for part in self.images])

    def texts(self) -> list[str]:
        """The ids as texts, in the same order."""
        parts = [
            read_rows(part.texts, _TEXT, None, None)[1]
            if part.named
            else [*map(str, read_ids(Path(part.stem), _IMAGE).tolist())]
            for part in self.images
        ]
        return [str(text) for text in chain.from_iterable(parts)]

    def file_names(self) -> list[str | None]:
        """Names of the image files, in the same order; next to the file, where they lie there."""
        names = [*chain.from_iterable(read_rows(Path(part.stem), _IMAGE, None, None)[1]
                                      for part in self.images)]  # fmt: skip
        folder = self.path.parent
        is_next = any((folder / name).is_file() for name in names[:_PROBED] if name)
        return [f"{folder}/{name}" if name and is_next else name for name in names]

    def keyed(self, numbers: NDArray[np.int64]) -> ScannedFile:
        """The file with other ids: the numbers of ``ids()``, in this order. Raises InputError:
        annotations of an image that is not listed.
        """
        ids = self.ids()

        def rows_of(part: SliceRows, stem: Path, kind: np.dtype[Any], new: Path) -> None:
            rows, texts = read_rows(stem, kind, None, None)
            order = rows["number"] + part.first if "number" in (kind.names or ()) else rows["id"]
            place = index_of(rows["id"], ids, "image", self.path, order)
            columns = [numbers[place], *(rows[name] for name in (kind.names or ())[1:])]
            write_rows(new, kind, columns, texts or None)

        def all_of(parts: list[SliceRows], kind: np.dtype[Any]) -> list[SliceRows]:
            for part in parts:
                new = replace(part, stem=f"{part.stem}-keyed")
                rows_of(part, Path(part.stem), kind, Path(new.stem))
                if kind == _IMAGE and part.more:
                    rows_of(part, part.lists, _LISTED, new.lists)
            return [replace(part, stem=f"{part.stem}-keyed", named=False) for part in parts]

        return replace(
            self,
            images=all_of(self.images, _IMAGE),
            annotations=all_of(self.annotations, self._kind),
        )

    def read(
        self,
        low: int | None,
        high: int | None,
        listing: ImageListing | None = None,
        *,
        bare: bool = False,
        texts: Sequence[str] | None = None,
    ) -> ParsedFile:
        """The content for images with ``low <= id < high``, whose ids are positions in ``texts``,
        if there are any; of ``bare`` files, which have no annotation, with boxes of none. Raises
        InputError for bad values.
        """
        images = self._images(low, high, listing, texts)
        counts = Counter[str]()
        slices = [self._annotations(part, images, low, high, counts) for part in self.annotations]
        rows = np.concatenate([np.empty(0, self._kind), *(rows for rows, _ in slices)])
        rows = self._without_bad(rows, images, counts) if self.role == "things" else rows
        columns = {k: np.ascontiguousarray(rows[k]) for k in self._kind.names or ()}
        ids, numbers = columns["id"], columns["number"]
        index = index_of(ids, images["image_ids"], "image", self.path, numbers)
        if self.role == "captions":
            none, captions = np.empty(0, np.int32), chain.from_iterable(some for _, some in slices)
            return ParsedFile(
                self.name,
                **images,
                categories={},
                image_index=index,
                category_index=none,
                areas=none.astype(np.float64),
                captions=[*captions],
            )
        category_ids = integers(self.categories, len(self.categories), self.path)
        category_index = index_of(columns["category"], category_ids, "category", self.path, numbers)
        areas = columns["area"]
        check_areas(areas, index, images, self.path, numbers)
        if self.is_contradictory:
            areas = np.full(len(areas), np.nan)
        has_boxes = bare or any(part.more for part in self.annotations)
        return ParsedFile(
            self.name,
            **images,
            categories=self.categories,
            image_index=index,
            category_index=category_index,
            areas=areas,
            counts=dict(counts),
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
            problem = f"images {some_of(np.unique(rows['id'][unknown]))} list unknown categories"
            raise InputError(
                f"{problem}: {some_of(np.unique(rows['category'][unknown]))}",
                where=self.path,
                allowed="neg_category_ids and not_exhaustive_category_ids of the file's own list of"
                " categories",
            )
        return np.stack([look_up(rows["id"], image_ids), category, rows["kind"]], axis=1)

    @property
    def _kind(self) -> np.dtype[Any]:
        return _KINDS[self.role]

    def _without_bad(
        self, rows: NDArray[Any], images: dict[str, Any], counts: Counter[str]
    ) -> NDArray[Any]:
        """Annotations of objects without those outside of their image, which have no area, and
        without all but the first of those with the same class, box and area in an image.
        """
        import polars as pl

        from nooch.data.readers.box_formats import LEFT_OUT, ONCE, bad_line
        from nooch.data.readers.contract import BAD

        place = look_up(rows["id"], images["image_ids"])
        sizes = np.stack([images[side][place] for side in ("widths", "heights")], axis=1)
        lost = (place >= 0) & (is_outside(rows["box"], sizes) | (rows["area"] == _OUTSIDE))
        columns = {
            name: np.ascontiguousarray(rows[name]) for name in ("id", "category", "area", "box")
        }
        repeated = (
            ~pl.DataFrame(columns).select(pl.struct(pl.all()).is_first_distinct()).to_series()
        )
        twice = repeated.to_numpy() & ~np.isnan(columns["box"][:, 0]) & ~lost
        for mask, problem, rule in (
            (lost, "lies outside its image", LEFT_OUT),
            (twice, "is listed twice, with the same box and area", ONCE),
        ):
            for number in rows["number"][mask].tolist():
                place_of = f"annotation {number} (counted from 0)"
                counts[BAD + bad_line(self.given, place_of, problem, rule)] = 1
        counts["annotations"], counts["lost"] = len(rows), int(lost.sum())
        return rows[~(lost | twice)] if (lost | twice).any() else rows

    def _images(
        self,
        low: int | None,
        high: int | None,
        listing: ImageListing | None,
        texts: Sequence[str] | None,
    ) -> dict[str, Any]:
        parts = [read_rows(Path(part.stem), _IMAGE, low, high) for part in self.images]
        rows = np.concatenate([rows for rows, _ in parts])
        names = [*chain.from_iterable(texts for _, texts in parts)]
        order = np.argsort(rows["id"], kind="stable")
        ids, widths, heights = (rows[name][order] for name in ("id", "width", "height"))
        ordered = [names[k] for k in order.tolist()] if names else []
        folder = self.path.absolute().parent
        if listing is not None and listing.root in folder.parents:
            # images of several folders may be called alike
            below = folder.relative_to(listing.root).as_posix()
            if any((folder / name).is_file() for name in ordered[:_PROBED] if name):
                ordered = [name and f"{below}/{name}" for name in ordered]
        unsized = np.flatnonzero(~((widths > 0) & (heights > 0)))
        if len(unsized) and ordered and listing is not None:
            from nooch.data.readers.image_files import sizes_of
            from nooch.data.readers.image_rows import files_named

            paths = files_named([ordered[k] for k in unsized.tolist()], listing)
            sizes = sizes_of([path and f"{listing.root}/{path}" for path in paths])
            widths[unsized], heights[unsized] = np.array(sizes, np.float64).reshape(-1, 2).T
        located = listing is not None
        return checked_images(ids, widths, heights, ordered, self.path, located, texts)

    def _annotations(
        self,
        part: SliceRows,
        images: dict[str, Any],
        low: int | None,
        high: int | None,
        counts: Counter[str],
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
        boxes = rows["box"] if self.role == "things" else np.zeros((len(rows), 4))
        bare = np.flatnonzero((np.isnan(areas) | np.isnan(boxes[:, 0])) & (index >= 0))
        bare = bare[np.argsort(numbers[bare])]
        sizes = np.stack([images[side][index[bare]] for side in ("widths", "heights")], axis=1)
        is_unknown, lost = np.isnan(areas[bare]), is_outside(boxes[bare], sizes)
        # areas of boxes within their images
        begin, end = boxes[bare, :2], boxes[bare, :2] + boxes[bare, 2:]
        sides = np.minimum(end, sizes) - np.maximum(begin, 0)
        is_boxed = (sides > 0).all(axis=1)
        areas[bare[is_unknown & is_boxed]] = sides.prod(axis=1)[is_unknown & is_boxed]
        for place, row in enumerate(bare.tolist()):
            mask, (width, height) = texts[row] or "null", sizes[place].tolist()
            if self.role == "things" and mask in _NO_MASK:
                if is_unknown[place] and not lost[place]:
                    counts["proxies" if is_boxed[place] else "unsized"] += 1
                continue
            shape = msgspec.json.decode(mask)
            is_lost = is_outside(extent(shape), sizes[[place]]).item() and not is_boxed[place]
            if is_lost and self.role == "things":
                areas[row] = _OUTSIDE
            elif is_unknown[place]:
                try:
                    area = mask_area(shape, height, width)
                except (TypeError, ValueError, KeyError, IndexError, NotImplementedError) as error:
                    problem = f"annotation {numbers[row]} (counted from 0) has no area and its"
                    problem += f" segmentation cannot be decoded: {error}"
                    allowed = "polygons, or a run-length encoding {counts, size}; or a box"
                    if not is_boxed[place]:
                        raise InputError(problem, where=self.path, allowed=allowed) from error
                    area = 0.0
                if area or not is_boxed[place]:
                    areas[row] = area
                else:
                    counts["unmasked"] += 1
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
        # slower, and only where it is needed: what other programs write
        try:
            return self._scanned(loose=False)
        except InputError:
            return self._scanned(loose=True)

    def _scanned(self, *, loose: bool) -> ScannedFile:
        where = Path(self.given)
        kind: type[Any] = Captions if self.role == "captions" else Instances
        slices: dict[str, list[SliceRows]] = {}
        counts = Counter[str]()
        with ThreadPoolExecutor(1) as pool, opened(self.path, self.given) as content:
            source = pool.submit(source_of, self.path)
            text: Any = content
            if loose:
                kind, (text, counts["nan"]) = LOOSE[kind], without_nan(content)
            document = Document[Any](text, where, kind, self.size)
            for key in document.arrays():
                slices[key], first = [], 0
                write = partial(self._write, text, key, loose)
                for _start, (part, n_rows, of_slice) in document.elements(key, write):
                    slices[key].append(replace(part, first=first))
                    counts.update(of_slice)
                    first += n_rows
            rest = document.rest()
        if not slices.get("images"):
            raise InputError("lists no image", where=where, allowed=STRUCTURE)
        if counts["unboxed"]:
            counts["whole"] = self._n_whole(slices)
        categories = categories_of(getattr(rest, "categories", []), where)
        twins = twins_of(categories)
        if twins:
            stems = [Path(part.stem) for part in slices["annotations"]]
            used = {*chain.from_iterable(np.unique(_categories(stem, _KINDS[self.role])).tolist()
                                         for stem in stems)}  # fmt: skip
            twins = [i for i in twins_of(categories, used) if i not in used]
        return ScannedFile(
            self.role,
            self.given,
            slices["images"],
            slices["annotations"],
            {i: name for i, name in categories.items() if i not in twins},
            licenses_of(rest),
            {"role": self.role, **source.result()},
            dict(counts),
            [categories[i] for i in twins],
        )

    def _n_whole(self, slices: dict[str, list[SliceRows]]) -> int:
        """Number of areas without a box that equal their images."""
        images, rows = (
            np.concatenate(
                [read_rows(Path(part.stem), kind, None, None)[0] for part in slices[key]]
            )
            for key, kind in (("images", _IMAGE), ("annotations", _THING))
        )
        rows = rows[np.isnan(rows["box"][:, 0])]
        place = look_up(rows["id"], images["id"])
        sizes = (images["width"] * images["height"])[place]
        return int(((place >= 0) & (rows["area"] == sizes)).sum())

    def _stem(self, key: str, start: int) -> Path:
        return self.folder / f"file-{self.number}-{key}-{start:x}"

    def _write(
        self, content: Any, key: str, loose: bool, start: int, stop: int
    ) -> tuple[SliceRows, int, dict[str, int]] | None:
        """Write the rows of a slice, and give how many rows it has, and what was counted; None if
        it does not decode. Raises InputError for refused values.
        """
        text, stem, more, named = slice_text(content, start, stop), self._stem(key, start), 0, False
        counts: dict[str, int] = {}
        try:
            kind, columns, texts = self._columns(key, text, loose)
            ids = id_texts(text) if loose and key == "images" else None
        except BROKEN_JSON:
            return None
        if ids is not None:
            named = True
            write_rows(SliceRows(str(stem), 0).texts, _TEXT, columns[:1], ids)
        if kind == _IMAGE and len(columns) > 3:
            lists, columns = columns[3:], columns[:3]
            more = len(lists[0])
            if more:
                write_rows(SliceRows(str(stem), 0).lists, _LISTED, lists)
        elif kind == _THING:
            more, counts = contradictions(columns[3], columns[4])
        write_rows(stem, kind, columns, texts)
        return SliceRows(str(stem), 0, more, named), len(columns[0]), counts

    def _columns(
        self, key: str, text: bytes, loose: bool
    ) -> tuple[np.dtype[Any], Sequence[NDArray[Any]], Sequence[str | None] | None]:
        """The type of rows, their columns and their texts; columns of images of things are followed
        by the ones of their lists.
        """
        where = Path(self.given)

        def decoded(kind: type[Any]) -> list[Any]:
            return records_of(text, LOOSE[kind] if loose else kind)

        if key == "images":
            images = decoded(Image)
            *columns, names = image_columns(images, where)
            if self.role == "things":
                columns += listed_columns(images, where)
            # names of images that only captions list are not used
            return _IMAGE, columns, None if self.role == "captions" else names
        if self.role == "captions":
            ids, captions = caption_columns(decoded(Caption), where)
            return _CAPTION, (ids, np.arange(len(ids))), captions
        more: Sequence[NDArray[Any]] = ()
        if self.role == "things":
            annotations, *more = object_columns(text)
        else:
            annotations = decoded(Annotation)
        ids, categories, areas = annotation_columns(annotations, where)
        masks = None
        bare = np.isnan(areas) | (np.isnan(more[0][:, 0]) if more else False)
        if bare.any():
            segmentations = msgspec.json.decode(text, type=list[_Mask])
            masks = [
                bytes(mask.segmentation).decode() if b else None
                for mask, b in zip(segmentations, bare, strict=True)
            ]
        return _KINDS[self.role], (ids, np.arange(len(ids)), categories, areas, *more), masks


def _categories(stem: Path, kind: np.dtype[Any]) -> NDArray[np.int64]:
    return np.memmap(stem.with_suffix(".rows"), kind, mode="r")["category"]


def keyed(files: list[ScannedFile]) -> tuple[list[ScannedFile], list[str] | None]:
    """Files whose ids of images are positions in a list of texts, and this list, ascending, where
    ids are texts, or files give one id to different images: then the text begins with what their
    paths do not share. Else the files, and None.
    """
    things = [file for file in files if file.role == "things"]
    prefixes = ["" for _ in files]
    if len(things) == len(files) > 1 and _collide(files):
        prefixes = [f"{label}/" for label in _labels([file.path for file in files])]
        named = Counter(chain.from_iterable({*file.file_names()} - {None} for file in files))
        if twice := sorted(str(name) for name, times in named.items() if times > 1):
            raise listed_twice("things", [file.name for file in files], some_of(twice))
    elif not any(part.named for file in files for part in file.images):
        return files, None
    texts = [
        [f"{prefix}{text}" for text in file.texts()]
        for prefix, file in zip(prefixes, files, strict=True)
    ]
    listed = sorted({*chain.from_iterable(texts)})
    place = {text: number for number, text in enumerate(listed)}
    numbers = [np.array([place[text] for text in of_file], np.int64) for of_file in texts]
    return [file.keyed(of_file) for file, of_file in zip(files, numbers, strict=True)], listed


def _collide(files: Sequence[ScannedFile]) -> bool:
    """True if an id is of images with different names."""
    ids = np.concatenate([file.ids() for file in files])
    if len(np.unique(ids)) == len(ids):
        return False
    names: dict[int, str | None] = {}
    listed = chain.from_iterable(file.file_names() for file in files)
    return any(
        names.setdefault(i, name) != name for i, name in zip(ids.tolist(), listed, strict=True)
    )


def _labels(paths: Sequence[Path]) -> list[str]:
    """Parts of paths, without endings, that differ: without a common begin and end."""
    parts = [path.absolute().with_suffix("").parts for path in paths]
    while len({of[0] for of in parts}) == 1 and min(map(len, parts)) > 1:
        parts = [of[1:] for of in parts]
    while len({of[-1] for of in parts}) == 1 and min(map(len, parts)) > 1:
        parts = [of[:-1] for of in parts]
    return ["/".join(of) for of in parts]


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
