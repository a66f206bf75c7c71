"""English for class names: readable names, articles and plurals."""

from __future__ import annotations

import re

__all__ = ["plural", "readable", "with_article"]

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
}
_SAME = {
    "sheep", "fish", "deer", "aircraft", "skis", "scissors", "broccoli", "food", "furniture",
    "stairs", "clothes", "leaves", "clouds", "waterdrops", "glasses", "pants", "jeans", "shorts",
    "binoculars",
}  # fmt: skip
"""Words that are their own plural, or have none."""
_NO_ARTICLE = _SAME - {"sheep", "fish", "deer", "aircraft"} | {
    "grass", "water", "sea", "sky", "snow", "sand", "mud", "dirt", "gravel", "fog", "moss", "straw",
    "wood", "metal", "plastic", "paper", "cardboard", "cloth", "pavement", "ground", "salad",
    "vegetation",
}  # fmt: skip
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


def with_article(name: str) -> str:
    """A readable name with "a" or "an", or without where the word takes none."""
    words = readable(name)
    if words.rpartition(" ")[2].lower() in _NO_ARTICLE:
        return words
    return f"{'an' if _VOWEL_SOUND.match(words.lower()) else 'a'} {words}"


def plural(name: str) -> str:
    """The plural of a readable name."""
    rest, space, word = readable(name).rpartition(" ")
    return f"{rest}{space}{_plural_of(word)}"


def _plural_of(word: str) -> str:
    lower = word.lower()
    if lower in _SAME or lower in _NO_ARTICLE:
        return word
    if lower in _IRREGULAR:
        return _IRREGULAR[lower]
    if re.search(r"(s|x|z|ch|sh)$", lower):
        return f"{word}es"
    if re.search(r"[^aeiou]y$", lower):
        return f"{word[:-1]}ies"
    return f"{word}s"
