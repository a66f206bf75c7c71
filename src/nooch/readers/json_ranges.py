"""A JSON document of any size, walked in pieces: what workers do at once is put together only where it provably fits.

A walk begins in a state and ends in one: before a member of the document, or before an element of one of its arrays. What
lies between two states is decoded by its grammar, so that walks which follow one another, each from the state in which
the one before ended, give what one walk gives. A walk may also begin where an element seems to begin. That is a guess, and
it counts only if the walk before ended in just that state.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import Any

import msgspec

__all__ = ["BEGIN", "Begun", "Broken", "Elements", "State", "Value", "Walk", "drop", "guess"]

_BETWEEN = re.compile(rb"\}[ \t\r\n]*,[ \t\r\n]*\{")
# a quote alone is one that nothing closes
_TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*+"|["\[\]{}]', re.DOTALL)
_SPACE = re.compile(rb"[ \t\r\n]*")
_SCALAR = re.compile(rb"[^ \t\r\n,\]}]*")
_TRIES, _GUESSES, _BACK, _FAR = 4, 8, 256, 1 << 20
_CHECK = 1 << 24
"""Bytes after which it is looked whether brackets are read that mean anything."""

_TRUNCATED = "Input data was truncated"
_ANY = msgspec.json.Decoder(msgspec.Raw)
_ANYTHING = msgspec.json.Decoder(list[msgspec.Raw])


class State(msgspec.Struct, frozen=True):
    """Where a walk is.

    Attributes:
        place: ``begin`` of the document; ``first`` member or none; ``after`` a member's value; ``element`` of the
            array under ``key``; ``end`` of the document.
        position: byte from which to go on; of an element, its first.
        key: of the array.
    """

    place: str
    position: int
    key: str = ""


BEGIN = State("begin", 0)


class Begun(msgspec.Struct, frozen=True):
    """An array of objects begins."""

    key: str


class Elements(msgspec.Struct, frozen=True):
    """Some elements of an array, in order, and the text that they were decoded from (an array by itself)."""

    key: str
    records: list[Any]
    text: bytes


class Value(msgspec.Struct, frozen=True):
    """The value of a member that is wanted whole, or no array of objects where one is wanted."""

    key: str
    text: bytes


class Broken(Exception):  # noqa: N818 - what it says is told as an InputError, once it is known that it counts
    """The document is no JSON, or of another structure.

    Attributes:
        text: what is wrong; ``is_json`` says which of the two.
        key: of the array in which it was found, or empty; ``element`` is the element's number in its slice, or None.
    """

    def __init__(self, text: str, *, is_json: bool, key: str = "", element: int | None = None) -> None:
        super().__init__(text)
        self.text, self.is_json, self.key, self.element = text, is_json, key, element


class Walk:
    """A walk through a document; ``state`` says how far it is.

    Args:
        content: the document, bytes or a mapped file.
        state: where to begin.
        arrays: key -> structure of the elements of the arrays that are wanted.
        values: keys of the members that are wanted whole. Others are checked and passed over.
        size: bytes of a slice of an array, decoded at once.
    """

    def __init__(
        self, content: Any, state: State, arrays: Mapping[str, type], values: Collection[str], size: int = 1 << 20
    ) -> None:
        self.state = state
        self._content, self._values, self._size = content, values, size
        self._arrays: dict[str, msgspec.json.Decoder[list[Any]]] = {
            key: msgspec.json.Decoder(list[kind])  # type: ignore[valid-type]
            for key, kind in arrays.items()
        }

    def until(self, stop: int) -> Iterator[Begun | Elements | Value]:
        """What is found up to the first state at byte ``stop`` or behind it. Raises Broken.

        A stop behind the last byte asks for all that is left, and for nothing to be missing.
        """
        while self.state.place != "end" and self.state.position < stop:
            yield from self._elements(stop) if self.state.place == "element" else self._member()

    def _elements(self, stop: int) -> Iterator[Elements]:
        key, position, more = self.state.key, self.state.position, True
        decoder = self._arrays.get(key, _ANYTHING)
        while more and position < stop:
            text, records, after, more = self.slice(decoder, position, min(position + self._size, stop))
            self.state = State("element", after, key) if more else State("after", after)
            if key in self._arrays:
                yield Elements(key, records, text)
            drop(self._content, position, after)
            position = after

    def slice(
        self, decoder: msgspec.json.Decoder[list[Any]], position: int, target: int
    ) -> tuple[bytes, list[Any], int, bool]:
        """Elements from the first byte of one up to the first that begins at ``target`` or behind it.

        Returns:
            Their text; they themselves; where the next begins, or what follows the array; whether there is a next.
        """
        for found in islice(_between(self._content, position, target), _TRIES):
            # only whole elements decode: a text or an inner object that is cut leaves something open
            text = b"[" + self._content[position : found.start() + 1] + b"]"
            try:
                return text, decoder.decode(text), found.end() - 1, True
            except msgspec.ValidationError as error:
                raise self._broken(error, position - 1) from error
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue
        close, after, more = self._boundary(position, target)
        text = b"[" + self._content[position:close] + b"]"
        try:
            return text, decoder.decode(text), after, more
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._broken(error, position - 1) from error

    def _boundary(self, position: int, target: int) -> tuple[int, int, bool]:
        """End of the last whole element, where the next begins or what follows the array, and whether there is a next."""
        depth = 0
        for token in self._tokens(position):
            character = self._content[token.start()]
            if character in b"[{":
                depth += 1
            elif character == ord('"'):
                continue
            elif depth:
                depth -= 1
                after = None if depth else self._next_element(token.end(), target)
                if after is not None:
                    return token.end(), after, True
            elif character == ord("]"):
                return token.start(), token.end(), False
            else:
                # an error before it, or the brace itself
                self._check(position, token.end())
        raise Broken(_TRUNCATED, is_json=True)

    def _tokens(self, position: int) -> Iterator[re.Match[bytes]]:
        """Strings and brackets from an element or value on. Raises Broken where they do not make sense, before long."""
        check = position + _CHECK
        for token in _TOKENS.finditer(self._content, position):
            if token.start() >= check:
                self._check(position, check)
                check += check - position
            if token.group() == b'"':
                break
            yield token
        self._check(position, len(self._content))

    def _check(self, position: int, end: int) -> None:
        """Raise Broken where the bytes up to ``end`` are not the beginning of anything."""
        try:
            _ANYTHING.decode(b"[" + self._content[position:end])
        except msgspec.DecodeError as error:
            if str(error) != _TRUNCATED:
                raise self._broken(error, position - 1) from error

    def _next_element(self, close: int, target: int) -> int | None:
        """First byte of the element that follows, if it begins at ``target`` or behind it."""
        comma, at = self._next(close)
        if comma != b",":
            return None
        begin, at = self._next(at + 1)
        # a comma before the end of an array is an error, which decoding it tells
        return at if at >= target and begin != b"]" else None

    def _member(self) -> Iterator[Begun | Value]:
        place = self.state.place
        character, at = self._next(self.state.position)
        if place == "begin":
            self._begin(character, at)
            return
        if character == b"}":
            end = _after_space(self._content, at + 1)
            if end < len(self._content):
                # counted as the decoder counts it
                raise Broken(f"JSON is malformed: trailing characters (byte {end + 1})", is_json=True)
            self.state = State("end", end)
            return
        if place == "after":
            self._expect(b",", character, at)
            character, at = self._next(at + 1)
        if character != b'"':
            raise Broken(f"JSON is malformed: object keys must be strings (byte {at})", is_json=True)
        key, at = self._key(at)
        character, at = self._next(at)
        self._expect(b":", character, at)
        yield from self._value(key, *self._next(at + 1))

    def _begin(self, character: bytes, at: int) -> None:
        if character != b"{":
            try:
                msgspec.json.decode(self._content[at : at + 64], type=dict[str, msgspec.Raw])
            except msgspec.DecodeError as error:
                raise self._broken(error, at) from error
        self.state = State("first", at + 1)

    def _key(self, at: int) -> tuple[str, int]:
        end = self._end_of_value(at)
        try:
            return msgspec.json.decode(self._content[at:end], type=str), end
        except UnicodeDecodeError:
            # texts that are not wanted may be of any bytes, keys among them
            return "", end
        except msgspec.DecodeError as error:
            raise self._broken(error, at) from error

    def _value(self, key: str, character: bytes, at: int) -> Iterator[Begun | Value]:
        if character == b"[" and key not in self._values:
            inner, begin = self._next(at + 1)
            if inner == b"{":
                self.state = State("element", begin, key)
                if key in self._arrays:
                    yield Begun(key)
                return
        end = self._end_of_value(at)
        text = bytes(self._content[at:end])
        try:
            _ANY.decode(text)
        except msgspec.DecodeError as error:
            if str(error) == _TRUNCATED and end < len(self._content):
                # a word that is cut short by what follows it
                raise Broken(f"JSON is malformed: invalid character (byte {end})", is_json=True) from error
            raise self._broken(error, at) from error
        self.state = State("after", end)
        if key in self._arrays or key in self._values:
            yield Value(key, text)

    def _end_of_value(self, at: int) -> int:
        if self._content[at] not in b'"[{':
            scalar = _SCALAR.match(self._content, at)
            return scalar.end() if scalar else at
        depth = 0
        for token in self._tokens(at):
            character = self._content[token.start()]
            depth += (character in b"[{") - (character in b"]}")
            if not depth:
                return token.end()
        raise Broken(_TRUNCATED, is_json=True)

    def _next(self, position: int) -> tuple[bytes, int]:
        """The next character that is no space, and where it is."""
        at = _after_space(self._content, position)
        if at >= len(self._content):
            raise Broken(_TRUNCATED, is_json=True)
        return self._content[at : at + 1], at

    @staticmethod
    def _expect(wanted: bytes, character: bytes, at: int) -> None:
        if character != wanted:
            raise Broken(f"JSON is malformed: expected '{wanted.decode()}' (byte {at})", is_json=True)

    def _broken(self, error: Exception, offset: int) -> Broken:
        """What a decoder says of a piece that begins at byte ``offset``, said of the document."""
        text = re.sub(r"\(byte (\d+)\)", lambda found: f"(byte {int(found[1]) + offset})", str(error))
        place = re.search(r"`\$\[(\d+)\]", text)
        return Broken(
            text,
            is_json=not isinstance(error, msgspec.ValidationError),
            key=self.state.key,
            element=int(place[1]) if place else None,
        )


def guess(content: Any, position: int, arrays: Mapping[str, type]) -> State | None:
    """Where the first element at a byte or behind it seems to begin, and of which array; None where nothing seems so.

    Args:
        content: the document.
        position: byte from which on to look.
        arrays: as of a walk; of the first whose structure fits, it seems to be an element.
    """
    for key, kind in arrays.items():
        decoder: msgspec.json.Decoder[list[Any]] = msgspec.json.Decoder(list[kind])  # type: ignore[valid-type]
        for found in islice(_between(content, 0, position), _GUESSES):
            state = State("element", found.end() - 1, key)
            try:
                Walk(content, state, {}, ()).slice(decoder, state.position, state.position + 1)
            except (Broken, RecursionError):
                continue
            return state
    return None


def _between(content: Any, position: int, target: int) -> Iterator[re.Match[bytes]]:
    """Places that look like those between two elements, the second beginning at ``target`` or behind it."""
    last = min(len(content), target + _FAR)
    for found in _BETWEEN.finditer(content, max(position, target - _BACK), last):
        if found.end() - 1 >= target:
            yield found


def _after_space(content: Any, position: int) -> int:
    found = _SPACE.match(content, position)
    return found.end() if found else position


def drop(content: Any, start: int, end: int) -> None:
    """Give pages that were read back to the system, as far as it can be told so."""
    page = mmap.ALLOCATIONGRANULARITY
    first, last = -(-start // page) * page, end // page * page
    if last > first and hasattr(content, "madvise"):
        content.madvise(mmap.MADV_DONTNEED, first, last - first)
