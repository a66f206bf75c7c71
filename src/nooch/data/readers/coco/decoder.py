"""A COCO document decoded member by member, its arrays slice by slice, in bounded memory.

Arrays are cut if one element seems to end and the next to begin. Such a cut may be wrong: nested
objects and text can look the same. But a slice that starts at an element and decodes as a JSON
array ends at an element, so slices that are checked in order need no guessing, no matter in which
order, or by which process, they were decoded.
"""

from __future__ import annotations

import codecs
import mmap
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, NoReturn, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from nooch.base.errors import InputError, unreadable
from nooch.base.limits import BROKEN_JSON
from nooch.data.readers.coco.structure import decode, is_strict, refused

SLICE = 1 << 24
"""Bytes of an array that are decoded at once."""

Cut = tuple[int, int]
"""Positions where a slice of an array ends, behind an element, and where the next element
begins.
"""

K = TypeVar("K", bound=msgspec.Struct)
R = TypeVar("R")

_ARRAYS = ("images", "annotations")
_SPACE = re.compile(rb"[ \t\r\n]*")
_OBJECTS = re.compile(rb"\[[ \t\r\n]*(?=\{)")
_FIRST_KEY = re.compile(rb'\{[ \t\r\n]*("[^"\\]{0,99}")')
_BETWEEN = rb"\}[ \t\r\n]*,[ \t\r\n]*(?=\{[ \t\r\n]*%b)"
_LAST = re.compile(rb"\}[ \t\r\n]*(?=\])")
_NEAR = 1 << 20
"""Bytes in which a cut is looked for."""

_TRAILING = re.compile(r"JSON is malformed: trailing characters \(byte (\d+)\)")
_TRUNCATED = "Input data was truncated"
_ANY = msgspec.json.Decoder(msgspec.Raw)


class Document(Generic[K]):
    """A walk through a JSON object; everything before its position has been decoded.

    Args:
        content: the file, as ``opened`` gives it.
        path: of the file, for messages.
        kind: structure of the document, of which members are decoded; others are only checked to be
            JSON.
        size: bytes of a slice.

    Attributes:
        members: key -> the JSON of members that were decoded, without elements of ``images`` and
            ``annotations``.
    """

    def __init__(self, content: Any, path: Path, kind: type[K], size: int = SLICE) -> None:
        self._content, self._path, self._kind, self._size = content, path, kind, size
        self._at = 0
        self._decoders = {
            f.encode_name: msgspec.json.Decoder(f.type, strict=is_strict(kind))
            for f in msgspec.structs.fields(kind)
        }
        self.members: dict[str, bytes] = {}

    def arrays(self) -> Iterator[str]:
        """Stop at each ``images`` and ``annotations``, whose value ``elements`` has to read.

        A key that occurs again replaces what was read before. Raises InputError.
        """
        while (key := self._key()) is not None:
            if key in _ARRAYS:
                yield key
            elif key in self._decoders:
                self.members[key] = self._value(key)
            else:
                self._skip()

    def rest(self) -> K:
        """The document without ``images`` and ``annotations``, at its end. Raises InputError."""
        text = b",".join(
            b"%b:%b" % (msgspec.json.encode(key), value) for key, value in self.members.items()
        )
        document = decode(b"{%b}" % text, self._kind, self._path)
        if self._peek():
            self._refuse()
        return document

    def cuts(self) -> list[Cut]:
        """Probable boundaries of the elements of the array that begins here, about a slice apart;
        the last one is the end of the array, or of a later one.
        """
        array = _OBJECTS.match(self._content, self._at)
        if not array:
            return []
        # elements mostly begin with the same key, and objects within them with another one
        first = _FIRST_KEY.match(self._content, array.end())
        patterns = [
            re.compile(_BETWEEN % re.escape(text)) for text in ([first[1]] if first else []) + [b""]
        ]
        cuts, behind, most = list[Cut](), array.end(), len(self._content)
        for target in range(behind + self._size, most, self._size):
            near = (self._content, max(target, behind), min(target + _NEAR, most))
            if cut := next(filter(None, (pattern.search(*near) for pattern in patterns)), None):
                behind = cut.end()
                cuts.append((cut.start() + 1, behind))
        # the end is looked for behind an element that is near it
        near_end = patterns[0].search(self._content, max(behind, most - _NEAR), most)
        if last := _LAST.search(self._content, near_end.end() if near_end else behind, most):
            cuts.append((last.start() + 1, last.end()))
        return cuts

    def records(self, key: str) -> Iterator[tuple[Any, msgspec.Raw]]:
        """The elements of the array that begins here, each with its JSON. Raises InputError."""
        decoder = self._decoders[key]

        def pairs(start: int, stop: int) -> list[tuple[Any, msgspec.Raw]] | None:
            text = slice_text(self._content, start, stop)
            try:
                raw = msgspec.json.decode(text, type=list[msgspec.Raw])
                return [*zip(decoder.decode(text), raw, strict=True)]
            except BROKEN_JSON:
                return None

        for _, records in self.elements(key, pairs):
            yield from records

    def elements(
        self, key: str, attempt: Callable[[int, int], R | None]
    ) -> Iterator[tuple[int, R]]:
        """Go through the array that begins here in slices that are certain to be whole elements:
        where each begins, and what ``attempt`` made of it, which is None if it does not decode.
        """
        array = _OBJECTS.match(self._content, self._at)
        if not array:
            self.members[key] = self._value(key)
            return
        self.members[key] = b"[]"
        ends = [*self.cuts(), (len(self._content), len(self._content))]
        start, turn, step = array.end(), 0, 1
        while self._content[start] != ord("]"):
            stop, after = ends[min(turn, len(ends) - 1)]
            result = None if stop == len(self._content) else attempt(start, stop)
            if result is None:
                end = self._array_end(self._decoders[key], start, stop)
                if end is None:
                    # the cut is within an element; skipping twice as many each time is linear
                    turn, step = turn + step, 2 * step
                    continue
                stop = after = self._content.rfind(b"]", start, end)
                result = attempt(start, stop)
            if result is None:
                self._refuse()
            else:
                yield start, result
            start, turn, step = after, turn + 1, 1
        self._at = start + 1

    def _array_end(self, decoder: Any, start: int, stop: int) -> int | None:
        """Position where an array ends before ``stop``, or None; an element is at ``start``."""
        try:
            decoder.decode(memoryview(slice_text(self._content, start, stop))[:-1])
        except BROKEN_JSON as error:
            if trailing := _TRAILING.fullmatch(str(error)):
                return start + int(trailing[1]) - 2
            if str(error) == _TRUNCATED and stop < len(self._content):
                return None
            self._refuse(error)
        return stop

    def _key(self) -> str | None:
        """Go to the value of the next member, and give its key; None behind the last."""
        before = self._take(b",}" if self._at else b"{")
        if before == b"{" and self._peek() == b"}":
            before = self._take(b"}")
        if before == b"}":
            return None
        if self._peek() != b'"':
            self._refuse()
        start, key = self._at, ""
        try:
            self._skip()
            key = msgspec.json.decode(self._content[start : self._at], type=str)
        except UnicodeDecodeError:
            # members that are skipped may contain any bytes
            pass
        self._take(b":")
        self._peek()
        return key

    def _value(self, key: str) -> bytes:
        start = self._at
        self._skip(self._decoders[key])
        return bytes(self._content[start : self._at])

    def _skip(self, decoder: Any = _ANY) -> None:
        """Check the value here, and go to its end."""
        start = self._at
        try:
            with memoryview(self._content) as content, content[start:] as rest:
                decoder.decode(rest)
            self._at = len(self._content)
        except BROKEN_JSON as error:
            trailing = _TRAILING.fullmatch(str(error))
            if trailing is None:
                self._refuse()
            self._at = start + int(trailing[1]) - 1
        drop(self._content, start, self._at)

    def _peek(self) -> bytes:
        """The next character that is not a space; empty at the end."""
        space = _SPACE.match(self._content, self._at)
        self._at = space.end() if space else self._at
        return bytes(self._content[self._at : self._at + 1])

    def _take(self, allowed: bytes) -> bytes:
        character = self._peek()
        if not character or character not in allowed:
            self._refuse()
        self._at += 1
        return character

    def _refuse(self, error: Exception | None = None) -> NoReturn:
        """Raise the error of the whole document, which is correct up to here; ``error`` is what the
        elements here gave.
        """
        del error
        decode(self._content, self._kind, self._path)
        # it is JSON, but a value in it that is decoded by itself is not
        text = "contains a value that is not JSON in UTF-8"
        raise refused(ValueError(text), text, self._path)


class Listing(Document[Any]):
    """A document that is an array of objects, all of one structure.

    Args:
        content: the file, as ``opened`` gives it.
        path: of the file, for messages.
        kind: structure of the elements.
        size: bytes of a slice.
    """

    def __init__(self, content: Any, path: Path, kind: type, size: int = SLICE) -> None:
        whole = msgspec.defstruct("_Whole", [("elements", list[kind])])  # type: ignore[valid-type]
        super().__init__(content, path, whole, size)
        self._count = 0

    def slices(self) -> Iterator[list[Any]]:
        """The elements, some at a time. Raises InputError, with the number of the element."""
        self._peek()
        for _, records in self.elements("elements", self._decoded):
            yield records
            self._count += len(records)
        if self._peek():
            self._refuse()

    def _decoded(self, start: int, stop: int) -> list[Any] | None:
        records: list[Any] | None = None
        try:
            records = self._decoders["elements"].decode(slice_text(self._content, start, stop))
        except msgspec.ValidationError as error:
            self._refuse_element(error)
        except BROKEN_JSON:
            pass
        return records

    def _refuse_element(self, error: msgspec.ValidationError) -> NoReturn:
        at = _ELEMENT.search(str(error))
        number = f", element {self._count + int(at[1]) + 1}" if at else ""
        text = _ELEMENT.sub(r"`\2`", str(error)).removesuffix(" - at ``")
        raise InputError(
            f"cannot be read: {text}",
            where=f"{self._path}{number}",
            allowed="an array of objects with the same members",
        ) from error

    def _refuse(self, error: Exception | None = None) -> NoReturn:
        if isinstance(error, msgspec.ValidationError):
            self._refuse_element(error)
        # without its structure, all of a large file can be checked in little memory
        decode(self._content, msgspec.Raw, self._path)
        try:
            self._decoders["elements"].decode(self._content)
        except msgspec.ValidationError as wrong:
            self._refuse_element(wrong)
        except BROKEN_JSON as wrong:
            raise refused(wrong, str(wrong), self._path) from wrong
        super()._refuse()


_ELEMENT = re.compile(r"`\$\[(\d+)\]\.?([^`]*)`")


def first_element(content: Any) -> bytes:
    """The JSON of the first element of a file that is an array; empty if it has none, or is not an
    array, or no JSON up to there.
    """
    array = _ARRAY.match(content)
    if not array:
        return b""
    try:
        with memoryview(content) as whole, whole[array.end() :] as rest:
            _ANY.decode(rest)
    except BROKEN_JSON as error:
        if trailing := _TRAILING.fullmatch(str(error)):
            return bytes(content[array.end() : array.end() + int(trailing[1]) - 1])
    return b""


_ARRAY = re.compile(rb"[ \t\r\n]*\[[ \t\r\n]*")


@contextmanager
def opened(path: Path, given: object = None) -> Iterator[Any]:
    """A file's bytes, mapped; errors call it as ``given``. Raises InputError for a file that is
    empty, packed or unreadable.
    """
    where = given or path
    with unreadable(where):
        if not path.stat().st_size:
            raise InputError("is empty", where=where)
        with path.open("rb") as file:
            marked = file.read(3) == codecs.BOM_UTF8
            access = mmap.ACCESS_COPY if marked else mmap.ACCESS_READ
            mapped = mmap.mmap(file.fileno(), 0, access=access)
            if marked:
                # in a copy of that page; positions in the file stay the same
                mapped[:3] = b"   "
    # errors of the with block are not errors of this file
    with mapped as content:
        for begin, what, remedy in _NO_JSON:
            if content[: len(begin)] == begin:
                raise InputError(
                    f"is not JSON, but {what}", where=where, allowed="JSON in UTF-8", remedy=remedy
                )
        yield content


_NO_JSON = (
    (b"\x1f\x8b", "packed with gzip", "unpack it first: gunzip FILE"),
    (b"PK\3\4", "a zip archive", "unpack it first: unzip FILE"),
    (b"\xff\xfe", "text in UTF-16", "save it in UTF-8: iconv -f UTF-16 -t UTF-8 FILE > NEW"),
    (b"\xfe\xff", "text in UTF-16", "save it in UTF-8: iconv -f UTF-16 -t UTF-8 FILE > NEW"),
)
"""Start of files that are often given by mistake, what they are, and the remedy."""


def slice_text(content: Any, start: int, stop: int) -> bytes:
    """Elements of an array as an array."""
    with memoryview(content) as whole, whole[start:stop] as part:
        text = b"".join((b"[", part, b"]"))
    drop(content, start, stop)
    return text


def drop(content: Any, start: int, end: int) -> None:
    """Give pages that were read back to the system: a mapped file counts as memory."""
    page = mmap.ALLOCATIONGRANULARITY
    first, last = -(-start // page) * page, end // page * page
    if last > first and hasattr(content, "madvise"):
        content.madvise(mmap.MADV_DONTNEED, first, last - first)


def mask_area(segmentation: Any, height: int, width: int) -> float:
    """Pixels of polygons or of a run-length encoding, compressed or not."""
    if isinstance(segmentation, list):
        from pycocotools import mask

        if segmentation and all(isinstance(x, int | float) for x in segmentation):
            # one polygon, not in a list
            segmentation = [segmentation]
        if not segmentation or not all(
            isinstance(p, list) and len(p) >= 6 and len(p) % 2 == 0 for p in segmentation
        ):
            raise ValueError("a polygon needs at least three points")
        # coordinates far outside would make pycocotools use all memory
        far = 1000 + 10 * (height + width)
        if not all(
            isinstance(x, int | float) and abs(x) <= far
            for polygon in segmentation
            for x in polygon
        ):
            raise ValueError("a coordinate is not a number, or far outside the image")
        return float(mask.area(mask.merge(mask.frPyObjects(segmentation, height, width))))
    if not isinstance(segmentation, dict):
        raise TypeError("it is missing")
    if list(segmentation["size"]) != [height, width]:
        raise ValueError(f"size {segmentation['size']} is not the image's {[height, width]}")
    counts = segmentation["counts"]
    runs = run_lengths(counts) if isinstance(counts, str) else list(counts)
    if not all(isinstance(run, int) and run >= 0 for run in runs) or sum(runs) != height * width:
        raise ValueError("run lengths do not add up to the image")
    return float(sum(runs[1::2]))


def extent(segmentation: Any) -> NDArray[np.float64]:
    """Box around polygons, float64 (1, 4): left, top, width, height; NaN of anything else."""
    flat = segmentation if isinstance(segmentation, list) else []
    flat = [x for part in flat for x in (part if isinstance(part, list) else [part])]
    if len(flat) < 2 or len(flat) % 2 or not all(isinstance(x, int | float) for x in flat):
        return np.full((1, 4), np.nan)
    points = np.array(flat, np.float64).reshape(-1, 2)
    least = points.min(axis=0)
    return np.concatenate([least, points.max(axis=0) - least])[None]


def run_lengths(counts: str) -> list[int]:
    """Run lengths of COCO's compressed encoding, background first.

    Five bits of a number in each character, lowest first; 32 means that more follow, 16 in the last
    that the number is negative. From the fourth run on, the number is the difference to the run
    before the last.
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
