"""Words that stand for classes in free text, and which classes a text mentions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Self

import msgspec

from nooch.base.errors import InputError
from nooch.base.words import plural
from nooch.base.yaml_files import read_yaml
from nooch.data import class_name

__all__ = ["COCO", "Vocabulary", "first_words", "load_vocabulary", "whole_sentences", "word_count"]

COCO = "coco"
"""Name of the vocabulary that ships with nooch: the 80 things of COCO."""

_WORD = re.compile(r"[^\W_]+")
_TOKEN = re.compile(r"[^\W_]+|[,.;:!?()\n—–]")
_END = re.compile(r"[.!?…]+[\"'”’)\]]*")
_MARKS = frozenset(",.;:!?()\n—–")

_NEGATIONS = tuple(
    tuple(text.split())
    for text in (
        "no", "without", "neither", "nor", "lacking", "not any", "not a", "not an", "t any", "t a",
        "t an", "free of", "absence of", "devoid of", "lack of", "none of",
    )
)  # fmt: skip
"""What denies the objects that follow; "t any" ends "isn't any"."""
_NO_NEGATIONS = {("no", "one"), ("no", "doubt"), ("nor", "is"), ("nor", "are")}
_ENDS = frozenset(
    [
        "on",
        "in",
        "at",
        "near",
        "by",
        "under",
        "behind",
        "along",
        "around",
        "with",
        "through",
        "across",
        "for",
        "to",
        "from",
        "inside",
        "outside",
        "above",
        "below",
        "against",
        "between",
        "but",
        "while",
        "although",
        "though",
        "that",
        "which",
        "who",
        "is",
        "are",
        "was",
        "were",
        "can",
        "as",
        "there",
        "it",
        "he",
        "she",
        "they",
    ]
)
"""Words after which a negation holds no more: "no people on a boat" denies people alone."""
_LIST = frozenset({"or", "nor", "and"})
_NEW = frozenset(["a", "an", "the", "one", "two", "three", "four", "several", "some", "many"])
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
        """How often a text says that each class is there; see ``read``."""
        return self.read(text)[0]

    def read(self, text: str) -> tuple[Counter[str], Counter[str]]:
        """How often a text mentions each class, and how often it denies it; whole words in any
        case.

        The longest phrase at each place counts, and its words are used up: "hot dog" is no dog. A
        mention after "no", "without", "not any", "free of" or "absence of" in the same clause is
        a denial: "a road with no cars or trucks" mentions neither.
        """
        tokens = _TOKEN.findall(text.lower())
        words = [(place, token) for place, token in enumerate(tokens) if token not in _MARKS]
        denied = _denied(tokens)
        at, found, without = 0, Counter[str](), Counter[str]()
        while at < len(words):
            step, (place, word) = 1, words[at]
            for phrase, owner in self.phrases.get(word, ()):
                if tuple(token for _, token in words[at : at + len(phrase)]) == phrase:
                    step = len(phrase)
                    if owner is not None:
                        (without if denied[place] else found)[owner] += 1
                    break
            at += step
        return found, without


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


def whole_sentences(text: str) -> str:
    """The text without a last sentence that has no end; all of it where no sentence ends."""
    ends = [found.end() for found in _END.finditer(text)]
    return text[: ends[-1]] if ends else text


def word_count(text: str) -> int:
    """The number of words of a text."""
    return len(_words(text))


def first_words(text: str, most: int) -> str:
    """The first words of a text, at most so many."""
    for number, found in enumerate(_WORD.finditer(text), 1):
        if number == most:
            return text[: found.end()]
    return text


def _denied(tokens: Sequence[str]) -> list[bool]:
    """Whether each word is denied by one before it in its clause."""
    denied, negated = [], False
    for at, one in enumerate(tokens):
        if any(tuple(tokens[at : at + len(n)]) == n for n in _NEGATIONS):
            negated = tuple(tokens[at : at + 2]) not in _NO_NEGATIONS
        elif one == ",":
            # a list goes on: "no cars, trucks, or buses"
            following = tokens[at + 1 : at + 5]
            negated &= bool(_LIST & {*following[:1]}) or any(
                mark in following[1:] for mark in (",", "or", "nor")
            )
        elif (
            one in _MARKS
            or one in _ENDS
            or (len(one) > 4 and one.endswith("ing"))
            or (one == "and" and _NEW & {*tokens[at + 1 : at + 2]})
        ):
            negated = False
        denied.append(negated)
    return denied


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())
