"""English for class names: readable names, articles and plurals."""

from __future__ import annotations

import re

__all__ = ["counted", "is_plural", "plural", "readable", "with_article"]

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
_ONLY_PLURAL = {
    "skis", "scissors", "stairs", "clothes", "leaves", "clouds", "waterdrops", "glasses", "pants",
    "jeans", "shorts", "binoculars",
}  # fmt: skip
_UNCOUNTED = {
    "broccoli", "food", "furniture", "grass", "water", "sea", "sky", "snow", "sand", "mud", "dirt",
    "gravel", "fog", "moss", "straw", "wood", "metal", "plastic", "paper", "cardboard", "cloth",
    "pavement", "ground", "salad", "vegetation",
}  # fmt: skip
_NO_ARTICLE = _ONLY_PLURAL | _UNCOUNTED
_UNCHANGED = {"sheep", "fish", "deer", "aircraft"} | _NO_ARTICLE
"""Words that are their own plural, or have none."""
_VOWEL_SOUND = re.compile(r"(?!(?:u[bcfhjkqrstn][aeiou]|eu|one\b|ouija))[aeiou]|hour|honest|heir")


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
    """Whether a readable name takes "are": skis, scissors."""
    return _last_word(name) in _ONLY_PLURAL


def with_article(name: str) -> str:
    """A readable name with "a" or "an", or without where the word takes none."""
    words = readable(name)
    if _last_word(name) in _NO_ARTICLE:
        return words
    return f"{'an' if _VOWEL_SOUND.match(words.lower()) else 'a'} {words}"


def _last_word(name: str) -> str:
    return readable(name).rpartition(" ")[2].lower()


def plural(name: str) -> str:
    """The plural of a readable name."""
    rest, space, word = readable(name).rpartition(" ")
    return f"{rest}{space}{_plural_of(word)}"


def counted(number: int, what: str) -> str:
    """``1 job``, ``1,024 jobs``; the last word of ``what`` gets the plural."""
    return f"{number:,} {what if number == 1 else plural(what)}"


def _plural_of(word: str) -> str:
    lower = word.lower()
    if lower in _UNCHANGED:
        return word
    if lower in _IRREGULAR:
        return _IRREGULAR[lower]
    if re.search(r"(s|x|z|ch|sh)$", lower):
        return f"{word}es"
    if re.search(r"[^aeiou]y$", lower):
        return f"{word[:-1]}ies"
    return f"{word}s"
