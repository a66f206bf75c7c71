"""English for readers: class names as words, plurals, and values as text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from itertools import pairwise

_IRREGULAR = {
    "person": "people",
    "man": "men",
    "woman": "women",
    "child": "children",
    "mouse": "mice",
    "goose": "geese",
    "foot": "feet",
    "tooth": "teeth",
    "knife": "knives",
    "leaf": "leaves",
    "shelf": "shelves",
    "loaf": "loaves",
    "wolf": "wolves",
    "scarf": "scarves",
    "epoch": "epochs",
    "stomach": "stomachs",
}
_PLURAL = re.compile("[^aisu]s$")
_SINGULAR = {"chaos", "lens", "news", "rhinoceros", "series", "species", "triceratops"}
_ONLY_PLURAL = {"pajamas", "skis"}
"""Plurals that do not look like one."""
_UNCOUNTED = {
    "broccoli", "food", "furniture", "grass", "water", "sea", "sky", "snow", "sand", "mud", "dirt",
    "gravel", "fog", "moss", "straw", "wood", "metal", "plastic", "paper", "cardboard", "cloth",
    "earth", "pavement", "ground", "salad", "vegetation",
}  # fmt: skip
_UNCHANGED = {"sheep", "fish", "deer", "aircraft"}
"""Words that are their own plural."""
_VOWEL_SOUND = re.compile(r"(?!(?:u[bcfhjkqrstn][aeiou]|eu|one\b|ouija))[aeiou]|hour|honest|heir")

UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Characters that move a cursor, end a line or turn the direction of text, and non-characters.
"""


_MARKS = "".join(c for c in map(chr, range(0x300, 0x1E00)) if unicodedata.category(c)[0] == "M")
"""Vowels, accents and points that follow a letter, as in Hindi, Hebrew and Arabic."""
_UNDIVIDED = "\u3041-\u3096\u30a1-\u30fa\u30fc-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
"""Characters of Chinese and Japanese, which no blanks divide into words: each is one."""
WORD = re.compile(rf"[{_UNDIVIDED}]|(?:[^\W_{_UNDIVIDED}][{_MARKS}]*)+")
"""A word, also with accents; a character of Chinese or Japanese."""
_CHARACTER = re.compile(f"[{_UNDIVIDED}]")


def words_of(text: str) -> list[str]:
    """The words of a text, in small letters; of Chinese and Japanese the characters."""
    # a capital I with a dot becomes two characters
    return WORD.findall(text.casefold().replace("i\u0307", "i"))


def character_pairs(words: Sequence[str]) -> list[str]:
    """Neighbors among words that are single characters of Chinese or Japanese."""
    return [a + b for a, b in pairwise(words) if _CHARACTER.match(a) and _CHARACTER.match(b)]


def padded_words(text: str) -> str:
    """The words of a text in small letters, with a blank before and after each."""
    return f" {' '.join(words_of(unicodedata.normalize('NFKC', text)))} "


def readable(name: str) -> str:
    """A class name as words: ``fire_hydrant`` is a fire hydrant, ``wall-brick`` a brick wall,
    ``sky-other`` the sky.
    """
    words = " ".join(name.replace("_", " ").split())
    head, dash, kind = words.partition("-")
    if not dash:
        return words
    return head if kind in {"other", "stuff"} else f"{kind} {head}"


def is_plural(name: str) -> bool:
    """True if a readable name takes "are": skis, hills."""
    word = _last_word(name)
    return word in _ONLY_PLURAL or (word not in _SINGULAR and bool(_PLURAL.search(word)))


def with_article(name: str) -> str:
    """A readable name with "a" or "an", or without where the word takes none."""
    words = readable(name)
    if _last_word(name) in _UNCOUNTED or is_plural(name):
        return words
    return f"{'an' if _VOWEL_SOUND.match(words.lower()) else 'a'} {words}"


def position_words(name: str, function: str, *, holds: bool) -> str:
    """A condition on the position of a class: "with the largest car at the edge of the image"."""
    return f"with the largest {readable(name)} {POSITIONS[function][not holds]}"


def _last_word(name: str) -> str:
    return readable(name).rpartition(" ")[2].lower()


def plural(name: str) -> str:
    """The plural of a readable name."""
    rest, space, word = readable(name).rpartition(" ")
    return f"{rest}{space}{_plural_of(word)}"


def counted(number: int, what: str) -> str:
    """``1 job``, ``1,024 jobs``; the last word of ``what`` gets the plural."""
    return f"{number:,} {what if number == 1 else plural(what)}"


def counted_are(number: int, what: str) -> str:
    """``1 value is``, ``3 values are``."""
    return f"{counted(number, what)} {'is' if number == 1 else 'are'}"


def _plural_of(word: str) -> str:
    lower = word.lower()
    if lower in _UNCHANGED or lower in _UNCOUNTED or is_plural(lower):
        return word
    if lower in _IRREGULAR:
        return _IRREGULAR[lower]
    if re.search(r"(s|x|z|ch|sh)$", lower):
        return f"{word}es"
    if re.search(r"[^aeiou]y$", lower):
        return f"{word[:-1]}ies"
    return f"{word}s"


def cell_text(value: object, longest: int | None = None) -> str:
    """A value as people read it: three digits of a float, thousands grouped, a dash for None."""
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, int):
        return f"{value:,}"
    text = str(value)
    return text if longest is None or len(text) <= longest else f"{text[:longest]}…"


def printable(text: str, keep: str = "") -> str:
    """The text on one line: control characters, which a name may contain, are spelled out, except
    those in ``keep``, such as ends of lines.
    """
    return UNPRINTABLE.sub(
        lambda match: match[0] if match[0] in keep else ascii(match[0])[1:-1], text
    )


def unbroken(text: str) -> str:
    """Text for a page, where a change of a rate, such as 54% -> 74%, stays on one line."""
    return re.sub(r"(?<=%) -> (?=\d)", "\u00a0\u2192\u00a0", text)


def unit_notes(group: str | None) -> list[str]:
    """A note on what counts, of images in groups."""
    return [f"images are in groups by {group}, which count as one each"] if group else []


CAPTIONED = " in the caption"
"""Ending of a condition on a word."""
POSITIONS = {
    "at_edge": ("at the edge of the image", "away from the edge of the image"),
    "off_center": ("off the center of the image", "near the center of the image"),
}
"""Functions of phi on the position of an object, where they are true and where false, in words."""
_DEVICES = ("scanner", "camera", "device", "sensor", "microscope", "phone")
"""Columns of what took the image, whose values are read as names of it."""


_OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_COMPARED = {"<": "less than", "<=": "at most", ">": "more than", ">=": "at least"}


def value_words(column: str, value: object, sign: str = "=", *, present: bool = True) -> str:
    """A condition on a column in words: "from GE scanners", "with place = water", of a Boolean
    "with night", of numbers "with age at most 47.3"; if it does not hold "not from GE scanners",
    "without place = water", "without night", "with age more than 47.3".
    """
    if sign != "=":
        return f"with {column} {compared_words(sign if present else _OPPOSITE[sign], value)}"
    if (text := str(value)).lower() in {"true", "false"}:
        return f"{'with' if present is (text.lower() == 'true') else 'without'} {column}"
    if column.lower() in _DEVICES and text[:1].isalpha():
        return f"{'' if present else 'not '}from {text} {plural(column)}"
    return f"{'with' if present else 'without'} {column} = {text}"


def compared_words(sign: str, value: object, *, share: bool = False) -> str:
    """A comparison in words: "at most 47.3", of a share "more than 10%"."""
    if isinstance(value, int | float):
        number = 100 * value if share else value
        value = f"{number:.4g}" if abs(number) < 10_000 else f"{number:,.0f}"
    return f"{_COMPARED[sign]} {value}{'%' if share else ''}"
