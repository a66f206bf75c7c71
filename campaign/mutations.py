"""Inputs made from others: bytes, words and JSON values are exchanged, repeated and removed."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from random import Random
from typing import Any

__all__ = ["minimal", "mutated"]

MOST = 20_000
"""Bytes that an input may have."""
_KINDS = (
    "Binary", "Boolean", "Categorical", "Date", "Datetime", "Float32", "Int8", "Null", "Object",
    "String", "Struct", "Time", "UInt64",
)  # fmt: skip
_TEXTS = (
    "", " ", "0", "²", "é", "e\u0301", "\u202egpj", "\x1b[31m", "\0", "nan", "-inf", "1e308",
    "1e400", "../../etc/passwd", "/etc/passwd", "C:\\x", "=1+1", "@x", "<script>", "'", '"',
    "a" * 300,
    "9" * 5000, "2024-99-99", "[" * 3000, "!!python/name:os.system", "*a", "&a [*a]", "\ud800",
)  # fmt: skip
_NUMBERS = (
    0, 1, -1, 2, 255, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 2**64, 10**400,
    0.5, -0.0, 1e-320, 1e308, -1e308, math.nan, math.inf,
)  # fmt: skip
_WORD = re.compile(r"\w+|\s+|.", re.DOTALL)


def mutated(
    data: bytes, others: Sequence[bytes], random: Random, *, is_json: bool = False
) -> bytes:
    """An input like ``data``; parts of it may come from ``others``; with ``is_json`` JSON."""
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        way = random.random()
        if is_json or way < 0.6:
            changed = _as_json(data, random)
            data = changed or (others[0] if is_json else _as_text(data, others, random))
        elif way < 0.8:
            data = _as_text(data, others, random)
        else:
            data = _as_bytes(data, others, random)
    return data[:MOST]


def _odd(random: Random) -> Any:
    """A value that nobody expects."""
    plain: tuple[Any, ...]
    plain = (None, True, False, [], {}, random.choice(_NUMBERS), random.choice(_TEXTS))
    value = random.choice((*plain, *plain[5:], *plain[5:]))
    return value if random.random() < 0.9 else [value] * random.choice((1, 2, 30))


def _as_json(data: bytes, random: Random) -> bytes | None:
    """One value of a JSON document changed; None if it is not one."""
    if data.lstrip()[:1] not in (b"{", b"["):
        return None
    try:
        whole = json.loads(data)
    except (ValueError, RecursionError):
        return None
    places: list[tuple[Any, Any]] = []
    stack = [whole]
    while stack:
        node = stack.pop()
        keys = list(node) if isinstance(node, dict) else range(len(node))
        places += [(node, key) for key in keys]
        stack += [node[key] for key in keys if isinstance(node[key], (dict, list))]
    if not places:
        return json.dumps(_odd(random)).encode()
    _change(*random.choice(places), random)
    if random.random() < 0.02:
        whole = _odd(random)
    return json.dumps(whole).encode()


def _change(node: Any, key: Any, random: Random) -> None:
    value, way = node[key], random.randrange(7)
    if way == 0:
        del node[key]
    elif way == 1 and isinstance(node, dict):
        node[random.choice(_TEXTS)] = node.pop(key)
    elif way == 2 and isinstance(node, list):
        node.insert(key, value)
    elif way == 3 and isinstance(value, list):
        # a column of another type, see fuzz_targets.table_of
        node[key] = {"kind": random.choice(_KINDS), "values": value}
    elif way == 4:
        node[key] = [value]
    elif way == 5 and isinstance(value, str):
        node[key] = value + random.choice(_TEXTS)
    else:
        node[key] = _odd(random)


def _as_text(data: bytes, others: Sequence[bytes], random: Random) -> bytes:
    """Words, white space and signs exchanged with others."""
    words = _WORD.findall(data.decode("utf-8", "surrogateescape"))
    place, way = random.randrange(len(words) + 1), random.randrange(5)
    if way == 0:
        del words[place : place + random.choice((1, 2, 8))]
    elif way == 1:
        words[place:place] = words[place : place + random.choice((1, 3, 20))] * random.choice(
            (1, 9)
        )
    elif way == 2:
        words[place : place + 1] = [str(_odd(random))[:5000]]
    elif way == 3 and words:
        other = random.randrange(len(words))
        words[place : place + 1] = [words[other]]
    else:
        other_words = _WORD.findall(random.choice(others).decode("utf-8", "replace"))
        words[place : place + 1] = [random.choice(other_words or [""])]
    return "".join(words).encode("utf-8", "surrogatepass" if way == 2 else "surrogateescape")


def _as_bytes(data: bytes, others: Sequence[bytes], random: Random) -> bytes:
    """Bytes changed, cut off, repeated, or taken from another input."""
    changed = bytearray(data or b"\0")
    place, way = random.randrange(len(changed)), random.randrange(6)
    if way < 2:
        for _ in range(random.choice((1, 1, 4))):
            changed[random.randrange(len(changed))] = random.randrange(256)
    elif way == 2:
        del changed[place:]
    elif way == 3:
        changed[place:place] = changed[place : place + random.choice((1, 4, 64))]
    elif way == 4:
        end = place + random.choice((1, 2, 4, 8))
        changed[place:end] = random.choice((b"\xff", b"\x7f", b"\0", b"\x80")) * (end - place)
    else:
        other = random.choice(others)
        changed[place:] = other[random.randrange(len(other) or 1) :]
    return bytes(changed)


def minimal(data: bytes, fails: Any, tries: int = 300) -> bytes:
    """A shorter input for which ``fails(input)`` is still true, found by leaving out pieces."""
    size = len(data) // 2
    while size and tries:
        place = 0
        while place < len(data) and tries:
            shorter, tries = data[:place] + data[place + size :], tries - 1
            if fails(shorter):
                data = shorter
            else:
                place += size
        size //= 2
    return data
