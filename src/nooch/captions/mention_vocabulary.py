"""Words that stand for classes in free text, and which classes a text mentions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Self

import msgspec

from nooch.data import class_name
from nooch.english import plural
from nooch.errors import InputError
from nooch.yaml_files import read_yaml

__all__ = ["COCO", "Vocabulary", "load_vocabulary"]

COCO = "coco"
"""Name of the vocabulary that ships with nooch: the 80 things of COCO."""

_WORD = re.compile(r"[^\W_]+")
_ALLOWED = "class: [words, ...]; or mentions: {class: [words, ...]} and any of other, plurals"


@dataclass(frozen=True)
class Vocabulary:
    """Phrases of classes.

    Attributes:
        classes: names of the classes, as a dataset has them.
        phrases: first word -> (all words of a phrase, its class or None), longest first.
    """

    classes: tuple[str, ...]
    phrases: Mapping[str, Sequence[tuple[tuple[str, ...], str | None]]]

    @classmethod
    def of(
        cls,
        mentions: Mapping[str, Sequence[str]],
        other: Sequence[str] = (),
        *,
        plurals: bool = False,
    ) -> Self:
        """A vocabulary from the phrases of each class.

        Args:
            mentions: class -> phrases.
            other: phrases that are read and passed over, as "tennis court" is no racket's.
            plurals: whether the plural of each phrase counts, too.

        Raises:
            InputError: a phrase without a word, or of two classes.
        """
        listed = [(phrase, class_name(name)) for name, some in mentions.items() for phrase in some]
        named: list[tuple[str, str | None]] = [*listed, *((phrase, None) for phrase in other)]
        owners: dict[tuple[str, ...], str | None] = {}
        for phrase, owner in named:
            for form in (phrase, plural(phrase)) if plurals else (phrase,):
                words = tuple(_words(form))
                if not words or owners.setdefault(words, owner) != owner:
                    problem = f"{form!r} stands for {owner} and {owners.get(words)}"
                    raise InputError(
                        problem if words else f"{phrase!r} has no word",
                        where="synonyms",
                        allowed="words, each of one class",
                    )
        phrases: dict[str, list[tuple[tuple[str, ...], str | None]]] = {}
        for words, owner in sorted(owners.items(), key=lambda item: -len(item[0])):
            phrases.setdefault(words[0], []).append((words, owner))
        return cls(tuple(dict.fromkeys(name for _, name in listed)), phrases)

    def mentions(self, text: str) -> Counter[str]:
        """How often a text mentions each class; whole words in any case.

        The longest phrase at each place counts, and its words are used up: "hot dog" is no dog.
        """
        words, at, found = _words(text), 0, Counter[str]()
        while at < len(words):
            step = 1
            for phrase, owner in self.phrases.get(words[at], ()):
                if tuple(words[at : at + len(phrase)]) == phrase:
                    step = len(phrase)
                    if owner is not None:
                        found[owner] += 1
                    break
            at += step
        return found


def load_vocabulary(source: str | Path) -> Vocabulary:
    """The vocabulary ``coco``, or that of a YAML file.

    A file maps classes to lists of phrases, or has them below ``mentions``, with ``other`` (phrases
    to pass over) and ``plurals`` (true: plural forms are added) next to it.

    Raises:
        InputError: the file cannot be read or has another form.
    """
    path = Path(__file__).parent / "coco_mentions.yaml" if source == COCO else Path(source)
    content = read_yaml(path)
    try:
        listed = msgspec.convert(
            content if "mentions" in content else {"mentions": content}, _Synonyms, str_keys=True
        )
    except msgspec.ValidationError as error:
        problem = f"is no list of synonyms: {error}"
        raise InputError(problem, where=path, allowed=_ALLOWED) from error
    return Vocabulary.of(listed.mentions, listed.other, plurals=listed.plurals)


class _Synonyms(msgspec.Struct, forbid_unknown_fields=True):
    mentions: Annotated[dict[str, list[str]], msgspec.Meta(min_length=1)]
    other: list[str] = []
    plurals: bool = False


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())
