"""Words and phrases that name classes, and what a text says of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Self

import msgspec
from msgspec import Meta

from nooch.base.errors import InputError, unreadable
from nooch.base.words import plural, readable, words_of
from nooch.base.yaml_files import read_yaml
from nooch.data import class_name
from nooch.evaluation.clauses import Stance, language_words, plain_text

COCO, NAMES = "coco", "names"
"""Names of vocabularies that need no file: of the 80 things of COCO, and the names of tasks."""

_VERBS = ("ing", "ed", "s", "ly")
"""Endings of words that a noun does not make a modifier: "a dog sits", but "a dog house"."""
_VOCABULARY = (
    "class: [words, ...]; or mentions: {class: [words, ...]} and any of other, whole, alone,"
    " plurals"
)


@dataclass(frozen=True)
class Vocabulary:
    """Phrases of classes.

    Attributes:
        classes: names of the classes, as a dataset has them.
        phrases: first word -> (all words of a phrase, its class or None), longest first.
        whole: phrases for all of a class: "no humans" denies persons, "no women" does not.
        alone: phrases that count only where no noun follows: "an orange", not "an orange cat".
        of_chair: whether it was read from CHAIR's layout.
    """

    classes: tuple[str, ...]
    phrases: Mapping[str, Sequence[tuple[tuple[str, ...], str | None]]]
    whole: frozenset[tuple[str, ...]] = frozenset()
    alone: frozenset[tuple[str, ...]] = frozenset()
    of_chair: bool = False

    @classmethod
    def from_phrases(
        cls,
        mentions: Mapping[str, Sequence[str]],
        other: Sequence[str] = (),
        whole: Sequence[str] = (),
        alone: Sequence[str] = (),
        *,
        plurals: bool = False,
    ) -> Self:
        """A vocabulary from the phrases of each class."""
        listed = [(phrase, class_name(name)) for name, some in mentions.items() for phrase in some]
        all_phrases: list[tuple[str, str | None]] = [*listed, *((phrase, None) for phrase in other)]
        owners: dict[tuple[str, ...], str | None] = {}
        for phrase, owner in all_phrases:
            for form in (phrase, plural(phrase)) if plurals else (phrase,):
                words = tuple(words_of(form))
                if not words or owners.setdefault(words, owner) != owner:
                    problem = f"{form!r} means both {owner} and {owners.get(words)}"
                    problem = problem if words else f"{phrase!r} has no word"
                    raise InputError(problem, where="synonyms", allowed="words, each of one class")
        phrases: dict[str, list[tuple[tuple[str, ...], str | None]]] = {}
        for words, owner in sorted(owners.items(), key=lambda item: -len(item[0])):
            phrases.setdefault(words[0], []).append((words, owner))
        every = [*whole, *(name.replace("_", " ") for name in mentions)]
        forms = frozenset(tuple(words_of(f)) for name in every for f in (name, plural(name)))
        names, single = dict.fromkeys(name for _, name in listed), map(words_of, alone)
        return cls(tuple(names), phrases, forms, frozenset(map(tuple, single)))

    def mentions(self, text: str) -> Counter[str]:
        """Number of times a text states that each class is there; see ``read``."""
        return self.read(text)[0]

    def named(self, text: str) -> Counter[str]:
        """Number of times a text names each class, denied ones included."""
        names = (owner for _, _, owner in self.places(words_of(text)))
        return Counter(owner for owner in names if owner is not None)

    def read(self, text: str) -> tuple[Counter[str], Counter[str]]:
        """Number of times a text mentions each class, and of times it denies it; whole words in any
        case.

        The longest phrase at each place counts, and its words are used up: "hot dog" is not a dog.
        What a clause denies is not a mention ("a road with no cars or trucks", "cars are not
        visible", "dogs: 0"), and what it leaves open ("there may be a dog") is neither.
        """
        language, mentioned, without = language_words("en"), Counter[str](), Counter[str]()
        clauses = language.clauses(plain_text(text))
        for number, clause in enumerate(clauses, 1):
            after = clauses[number].words if number < len(clauses) else ()
            denied = clause.label and language.denies(after)
            for at, _, owner in self.places(clause.words):
                stance = Stance.DENIED if denied else clause.stances[at]
                if owner is not None and stance is not Stance.OPEN:
                    (without if stance is Stance.DENIED else mentioned)[owner] += 1
        return mentioned, without

    def places(self, words: Sequence[str]) -> Iterator[tuple[int, int, str | None]]:
        """Start, end and class of each phrase in words: the longest at each place."""
        at = 0
        while at < len(words):
            fitting = (
                (len(phrase), owner)
                for phrase, owner in self.phrases.get(words[at], ())
                if tuple(words[at : at + len(phrase)]) == phrase
                and not (phrase in self.alone and is_modifier(words, at + len(phrase)))
            )
            size, owner = next(fitting, (0, None))
            if size:
                yield at, at + size, owner
            at += size or 1


def is_modifier(words: Sequence[str], end: int) -> bool:
    """True if an English singular noun is part of another: "dog house", "train car"."""
    after, last = (words[end] if end < len(words) else "s"), words[end - 1]
    plurals = plural(last) == last or last.endswith("s")
    verb = after.endswith(_VERBS) and not after.endswith(("us", "ss"))
    return not (plurals or verb or after in language_words("en").known)


def load_vocabulary(source: str | Path, tasks: Sequence[str] = ()) -> Vocabulary:
    """The vocabulary ``coco``; ``names``, the names of ``tasks`` and their plurals; or a file's.

    A YAML file maps classes to lists of phrases, or has them below ``mentions``, with ``other``
    (phrases to pass over), ``whole`` (phrases that stand for all of their class), ``alone``
    (phrases that count only where no noun follows) and ``plurals`` (true: plural forms are added)
    next to it. A ``.txt`` has the layout of CHAIR's ``synonyms.txt``: the class and its other
    words, separated by commas, a line for each class; plural forms are added, and what CHAIR reads
    as one word.
    """
    if str(source) == COCO:
        return _coco()
    if str(source) == NAMES:
        names = {task: [readable(task)] for task in tasks}
        return Vocabulary.from_phrases(names, plurals=True)
    path = Path(source)
    return _chair_vocabulary(path) if path.suffix.lower() == ".txt" else _loaded(path)


KINDS = {
    "animal": [
        "bird",
        "cat",
        "dog",
        "horse",
        "sheep",
        "cow",
        "elephant",
        "bear",
        "zebra",
        "giraffe",
    ],
    "vehicle": ["bicycle", "car", "motorcycle", "airplane", "bus", "train", "truck", "boat"],
}
"""Words for things of COCO of one kind, which exclude each other in "the animal is a cat"."""
_CHAIR_OTHER = ("baby animal", "adult animal", "baby cub", "adult cub", "home plate", "train track")


def _chair_vocabulary(path: Path) -> Vocabulary:
    """With CHAIR's rules for two words: "baby bird" is a bird, "toilet seat" a toilet."""
    allowed = "a line for each class: CLASS, WORD, WORD, ..."
    with unreadable(path, allowed):
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    listed = [[word.strip() for word in line.split(",") if word.strip()] for line in lines]
    if not any(listed) or any(":" in line for line in lines):
        problem = "is not a list of synonyms: a line has a colon, or no line has a word"
        remedy = "name a YAML file with the ending .yaml"
        raise InputError(problem, where=path, allowed=allowed, remedy=remedy)
    mentions = {words[0]: words for words in listed if words}
    owner = {word: name for name, words in mentions.items() for word in words}
    pairs = [f"{age} {word}" for age in ("baby", "adult") for word in sorted(KINDS["animal"])]
    for phrase in (*pairs, "passenger jet", "passenger train", "toilet seat"):
        first, _, word = phrase.partition(" ")
        if name := owner.get("toilet" if first == "toilet" else word):
            mentions[name] = [*mentions[name], phrase]
    other = [phrase for phrase in _CHAIR_OTHER if phrase not in owner]
    return replace(Vocabulary.from_phrases(mentions, other, plurals=True), of_chair=True)


@cache
def _coco() -> Vocabulary:
    return _loaded(Path(__file__).parent / "coco_mentions.yaml")


def _loaded(path: Path) -> Vocabulary:
    content = read_yaml(path)
    content = content if "mentions" in content else {"mentions": content}
    with unreadable(path, _VOCABULARY, problem="is not a list of synonyms"):
        some = msgspec.convert(content, _Synonyms, str_keys=True)
    lists = some.mentions, some.other, some.whole, some.alone
    return Vocabulary.from_phrases(*lists, plurals=some.plurals)


class _Synonyms(msgspec.Struct, forbid_unknown_fields=True):
    mentions: Annotated[dict[str, list[str]], Meta(min_length=1)]
    other: list[str] = []
    whole: list[str] = []
    alone: list[str] = []
    plurals: bool = False
