"""Clauses of a text, and what each word of them is: stated, denied, or left open.

One reading of denials and hedges for answers and captions, by the words of a language.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache, cached_property
from pathlib import Path

import msgspec

from nooch.base.errors import ParameterError, unreadable
from nooch.base.words import words_of
from nooch.base.yaml_files import read_yaml

_FOLDER = Path(__file__).parent / "languages"
LANGUAGES = tuple(sorted(path.stem for path in _FOLDER.glob("*.yaml")))
"""The languages that ship with nooch."""

_SENTENCE = re.compile(r"(?<=[.!?;:\n。！？])")
_QUESTION_MARKS = ("?", "？")
_BREAK = re.compile(r"([.,;:!?…()\[\]{}<>\"“”«»\n。，！？、|/=\\]+|\s[-–]\s|—)")
_NOT = re.compile(
    r"\b(can(?=['’]?t\b)|(?:is|are|was|were|do|does|did|has|have|had|could|would|should|wo|ai)(?=n['’]?t\b))"
    r"n?['’]?t\b"
)
_SPECIAL = re.compile(
    r"<?\|[^\s<>|]{1,40}\|>?|</?(?!(?:yes|no)>)[^\s<>]{1,40}>|\[/?[A-Z_]{2,20}\]|\\[nrt](?![a-z])|[▁ĠĊ]"
)
"""Special tokens, tags, and the blanks and ends of lines of tokenizers."""
_LIKE = re.compile(r"\b-(?=(?:like|shaped|themed|sized)\b)")
_LATEX = re.compile(r"\\[a-zA-Z]+")
_NO_VERBS = {"thing", "nothing", "anything", "something", "dining", "parking"}
_MOST_LISTED = 5
_LONGEST = 200
"""Words of a clause; a longer one is cut, so that time is linear in the length of a text."""


class WordLists(msgspec.Struct, forbid_unknown_fields=True):
    """Words and phrases of a language; see the comments of ``languages/en.yaml``."""

    affirmative: list[str]
    negative: list[str]
    words: list[str] = []
    shared: list[str] = []
    after_affirmative: list[str] = []
    after_negative: list[str] = []
    alone_affirmative: list[str] = []
    alone_negative: list[str] = []
    lead: list[str] = []
    negation: list[str] = []
    nobody: list[str] = []
    absent: list[str] = []
    visible: list[str] = []
    present: list[str] = []
    pronoun: list[str] = []
    generic: list[str] = []
    short_affirmative: list[str] = []
    short_negative: list[str] = []
    ignored: list[str] = []
    uncertain: list[str] = []
    alike: list[str] = []
    views: list[str] = []
    concord: bool = False
    alternatives: list[str] = []
    joins: list[str] = []
    relatives: list[str] = []
    that: list[str] = []
    breaks: list[str] = []
    ends: list[str] = []
    new: list[str] = []
    endings: list[str] = []


class Stance(Enum):
    """Stance of a text on a word: it is there, it is not, that is open (after "may", or in a
    clause about what is not there), or it is next to what is denied ("no people on a boat").
    """

    STATED = "stated"
    DENIED = "denied"
    OPEN = "open"
    NEXT_TO = "next to"


@dataclass(frozen=True)
class Clause:
    """A clause: its words, the stance of each, whether a question contains it, whether a colon
    follows, and whether it is hedged.
    """

    words: Sequence[str]
    stances: Sequence[Stance]
    asked: bool = False
    label: bool = False
    hedged: bool = False


@dataclass(frozen=True, eq=False)
class Language:
    """The words of a language.

    Attributes:
        name: ``en``, or the stem of a file.
        lists: what the file lists.
    """

    name: str
    lists: WordLists

    @cached_property
    def known(self) -> frozenset[str]:
        """All words of the file."""
        lists = (value for value in msgspec.structs.astuple(self.lists) if isinstance(value, list))
        return frozenset(word for some in lists for text in some for word in words_of(text))

    @cached_property
    def _phrases(self) -> dict[str, dict[str, list[tuple[str, ...]]]]:
        """List of the file -> first word -> the phrases that begin with it, longest first."""
        table: dict[str, dict[str, list[tuple[str, ...]]]] = {}
        for name, some in msgspec.structs.asdict(self.lists).items():
            firsts = table.setdefault(name, {})
            for phrase in sorted(map(words_of, some if isinstance(some, list) else ()), key=len):
                firsts.setdefault(phrase[0], []).insert(0, tuple(phrase))
        return table

    def length(self, name: str, words: Sequence[str], at: int) -> int:
        """Words of the longest phrase of a list that is at a position; 0 if there is none."""
        phrases = self._phrases[name].get(words[at], ()) if at < len(words) else ()
        return next((len(p) for p in phrases if tuple(words[at : at + len(p)]) == p), 0)

    def holds(self, name: str, words: Sequence[str]) -> bool:
        """True if words contain a phrase of a list."""
        return any(self.length(name, words, at) for at in range(len(words)))

    def denies(self, words: Sequence[str]) -> bool:
        """True if words say no, and nothing else: "no", "0", "not present"."""
        for name in ("negative", "negation", "absent", "short_negative"):
            if words and self.length(name, words, 0) == len(words):
                return True
        first = self.length("negation", words, 0)
        return bool(first) and self._seen(words, first) == len(words)

    def clauses(self, text: str) -> list[Clause]:
        """The clauses of a text, as ``plain_text`` gives it.

        A list that is denied goes on over commas: "no cars, trucks, or buses".
        """
        made: list[Clause] = []
        for sentence in _SENTENCE.split(text):
            asked, goes_on = sentence.rstrip().endswith(_QUESTION_MARKS), False
            pieces = _BREAK.split(sentence)
            for part, mark in zip(pieces[::2], [*pieces[1::2], ""], strict=True):
                words = words_of(part)
                if not words:
                    continue
                listed = goes_on and self._is_listed(words, mark)
                noun, stances = False, list[Stance]()
                for number, some in enumerate(filter(None, self._between_breaks(words))):
                    stances, noun, hedged = self._stances(some, listed and not number)
                    label = bool({":", "="} & {*mark})
                    made.append(Clause(some, stances, asked, label, hedged))
                goes_on = mark == "," and noun and stances[-1:] == [Stance.DENIED]
        return made

    def _is_listed(self, words: Sequence[str], mark: str) -> bool:
        """True if words after a comma may go on with a list."""
        joined = {*self.lists.alternatives, *self.lists.joins}
        if self.holds("present", words):
            return False
        short = len(words) < _MOST_LISTED and mark == ","
        others = {*self.lists.alternatives} & {*words[1:_MOST_LISTED]}
        return words[0] in joined or bool(others) or short

    def _between_breaks(self, words: Sequence[str]) -> Iterator[Sequence[str]]:
        start = at = 0
        while at < len(words):
            # "instead of" is a negation
            size = 0 if self.length("negation", words, at) else self.length("breaks", words, at)
            if size or at - start == _LONGEST:
                yield words[start:at]
                start = at + size
            at += size or 1
        yield words[start:]

    def _stances(self, words: Sequence[str], denied: bool) -> tuple[list[Stance], bool, bool]:
        """The stance of each word of a clause, whether the last negation has its noun, and whether
        there is a hedge.
        """
        stance, out = (Stance.DENIED if denied else Stance.STATED), list[Stance]()
        noun, hedged, at = denied, False, 0
        while at < len(words):
            size = 1
            if skipped := self.length("ignored", words, at):
                size = skipped
            elif hedge := self._hedge(words, at):
                size, stance, hedged = hedge, Stance.OPEN, True
            elif like := self.length("alike", words, at):
                # "nothing that looks like a dog" denies it
                size, hedged = like, hedged or stance is not Stance.DENIED
                stance = stance if stance is Stance.DENIED else Stance.OPEN
            elif end := self._end_of_denial(words, at):
                if self._of_subject(words, at, end, out):
                    size, stance = end - at, Stance.NEXT_TO
                elif size := self.length("negation", words, at):
                    stance = self._denied(words, at, stance)
                    noun = bool(self.length("nobody", words, at))
                else:
                    size = 1
            elif stance is not Stance.OPEN:
                stance, noun = self._next(words, at, stance, noun)
            out += [stance] * size
            at += size
        return out, noun, hedged

    def _hedge(self, words: Sequence[str], at: int) -> int:
        """Words of a hedge at a position, which is none within a longer negation: "unable to tell",
        but not "unable to see".
        """
        size = self.length("uncertain", words, at)
        return size if size >= self.length("negation", words, at) else 0

    def _end_of_denial(self, words: Sequence[str], at: int) -> int:
        """End of a denial at a position: of a negation, with "visible" and the like if that
        follows, or of "missing"; 0 if there is none.
        """
        if size := self.length("negation", words, at):
            return self._seen(words, at + size) or at + size
        size = self.length("absent", words, at)
        return at + size if size else 0

    def _denied(self, words: Sequence[str], at: int, stance: Stance) -> Stance:
        """Stance after a negation: denied, or left open by a second one in a row."""
        if stance is Stance.OPEN:
            return stance
        joined = {*self.lists.alternatives, *self.lists.joins} & {*words[max(at - 1, 0) : at + 1]}
        again = stance is Stance.DENIED and not self.lists.concord and not joined
        return Stance.OPEN if again else Stance.DENIED

    def _next(
        self, words: Sequence[str], at: int, stance: Stance, noun: bool
    ) -> tuple[Stance, bool]:
        """Stance of the next word, and whether the negation before it has its noun."""
        word, lists = words[at], self.lists
        if word in lists.joins and self._is_new(words, at + 1):
            stance, noun = Stance.STATED, False
        elif word in lists.joins:
            noun = False
            # "no cats and dogs", where the words that begin a noun are not listed
            stance = Stance.OPEN if stance is Stance.DENIED and not lists.new else stance
        elif stance is not Stance.DENIED or word in lists.alternatives:
            noun = noun and stance is not Stance.DENIED
        elif self.length("relatives", words, at):
            stance = stance if word in lists.that and not noun else Stance.OPEN
        elif noun and self._ends(word):
            stance = Stance.NEXT_TO
        elif word not in self.known or self._is_one(words, at):
            # an adjective is not told from a noun without the words that end it
            stance, noun = (Stance.OPEN if noun and not lists.ends else stance), True
        return stance, noun

    def _is_new(self, words: Sequence[str], at: int) -> bool:
        return at < len(words) and bool(
            words[at] in self.lists.new or self.length("present", words, at)
        )

    def _is_one(self, words: Sequence[str], at: int) -> bool:
        """True for a pronoun in place of a noun: "not one is", but "not one dog"."""
        after = words[at + 1] if at + 1 < len(words) else ""
        return words[at] in self.lists.pronoun and (not after or after in self.known)

    def _ends(self, word: str) -> bool:
        verb = self.name == "en" and word.endswith("ing") and word not in _NO_VERBS
        return word in self.lists.ends or verb

    def _seen(self, words: Sequence[str], at: int) -> int:
        """End of "visible" and the like at a position, after adverbs; 0 if it is not there."""
        while at < len(words) and (words[at].endswith("ly") or words[at] in {"be", "been"}):
            at += 1
        size = self.length("visible", words, at)
        return at + size if size else 0

    def _of_subject(self, words: Sequence[str], at: int, end: int, out: list[Stance]) -> bool:
        """True if a denial from ``at`` to ``end`` is of what is before it, which is then denied:
        "Cars are not visible on the road".
        """
        lists, bare = self.lists, end - at == self.length("negation", words, at)
        if bare or not at:
            return False
        if not (
            end >= len(words)
            or words[end] in {*lists.ends, *lists.joins}
            or {*words[end:]} <= self.known
        ):
            return False
        start = 0
        for place in range(at):
            if self.length("relatives", words, place) or (
                words[place] in lists.joins and self._is_new(words, place + 1)
            ):
                start = place + 1
        own = {*words[start:at]}
        if own <= self.known - {*lists.pronoun, *lists.generic} or words[at - 1] in lists.new:
            return False
        if Stance.STATED not in out[start:at]:
            return False
        out[start:at] = [Stance.DENIED] * (at - start)
        return True


def language_words(name: str) -> Language:
    """The words of a language that ships with nooch, or of a YAML file."""
    if name in LANGUAGES:
        return _shipped(name)
    if Path(name).suffix not in {".yaml", ".yml"}:
        problem = f"there are no words for {name!r}"
        raise ParameterError(
            problem, where="`language`", allowed=f"{', '.join(LANGUAGES)}, or a YAML file of words"
        )
    return _loaded(Path(name))


@cache
def _shipped(name: str) -> Language:
    return _loaded(_FOLDER / f"{name}.yaml")


def _loaded(path: Path) -> Language:
    content = read_yaml(path)
    allowed = f"lists: affirmative, negative, any of {', '.join(WordLists.__struct_fields__[2:])}"
    remedy = 'put "yes", "no", "on" and "off" in quotes, which YAML takes for true and false'
    with unreadable(path, allowed, problem="is not a file of words", remedy=remedy):
        return Language(path.stem, msgspec.convert(content, WordLists))


def plain_text(text: str) -> str:
    """Small letters without special tokens, LaTeX and Markdown; contractions spelled out, and
    "bench-like" one word, which names no bench.
    """
    plain = unicodedata.normalize("NFKC", _SPECIAL.sub("\n", text)).casefold()
    plain = _LATEX.sub(" ", _LIKE.sub("", plain))
    plain = re.sub(r"[*_`#~]", " ", plain).replace("cannot", "can not")
    return _NOT.sub(r"\1 not", plain)
