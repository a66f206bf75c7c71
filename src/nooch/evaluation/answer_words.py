"""The tolerant rule: what a person takes an answer in words to mean, one language at a time.

An answer is cut into clauses. A clause means yes or no by that word, or by stating that the object
of the question is there or not; clauses that disagree, hedge or name no object decide nothing.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import msgspec

from nooch.base.errors import ParameterError, unreadable
from nooch.base.words import plural, readable
from nooch.base.yaml_files import read_yaml

_FOLDER = Path(__file__).parent / "languages"
LANGUAGES = tuple(sorted(path.stem for path in _FOLDER.glob("*.yaml")))
"""The languages that ship with nooch."""

_SENTENCE = re.compile(r"(?<=[.!?;:\n。！？])")
_QUESTION_MARKS = ("?", "？")
_LONGEST = 1000
"""Maximum characters of a clause that is read as about an object."""
_VOWELS = "aeo"
_CLAUSE = re.compile(r"[.,;:!?…()\[\]{}<>\"“”«»\n。，！？、|/=]+|\s[-–]\s|—")
_TOKEN = re.compile(r"[^\W_]+")
_NOT = re.compile(
    r"\b(can(?=['’]?t\b)|(?:is|are|was|were|do|does|did|has|have|had|could|would|should|wo|ai)(?=n['’]?t\b))"
    r"n?['’]?t\b"
)


class _WordFile(msgspec.Struct, forbid_unknown_fields=True):
    affirmative: list[str]
    negative: list[str]
    words: list[str] = []
    shared: list[str] = []
    after_affirmative: list[str] = []
    after_negative: list[str] = []
    lead: list[str] = []
    negation: list[str] = []
    present: list[str] = []
    pronoun: list[str] = []
    short_affirmative: list[str] = []
    short_negative: list[str] = []
    ignored: list[str] = []
    uncertain: list[str] = []
    concord: bool = False
    joins: list[str] = []
    relatives: list[str] = []
    that: list[str] = []
    breaks: list[str] = []
    endings: list[str] = []


@dataclass(frozen=True)
class AskedQuestion:
    """Subject of an answer: the text of the question, and the task; either may be unknown."""

    question: str = ""
    task: str = ""


@dataclass(frozen=True, eq=False)
class AnswerWords:
    """The words of a language.

    Attributes:
        language: its name, ``en``, or the stem of a file.
        file: what the file lists.
    """

    language: str
    file: _WordFile

    @cached_property
    def known(self) -> frozenset[str]:
        """All words of the file."""
        lists = (value for value in msgspec.structs.astuple(self.file) if isinstance(value, list))
        return frozenset(word for some in lists for text in some for word in _spaced(text).split())

    @cached_property
    def _phrases(self) -> Mapping[str, re.Pattern[str]]:
        """List of the file -> what finds its phrases, the longest first, in words with blanks."""
        return {
            name: re.compile(
                rf"(?<= )(?:{'|'.join(sorted(map(_spaced, some), key=len, reverse=True))})(?= )"
            )
            for name, some in msgspec.structs.asdict(self.file).items()
            if isinstance(some, list) and some
        }

    def _all(self, word: str, words: str) -> list[re.Match[str]]:
        """Positions of a list's phrases in words."""
        return list(self._phrases[word].finditer(words)) if word in self._phrases else []

    def verdict(self, text: str, question: AskedQuestion, *, letters: bool = False) -> bool | None:
        """Yes, no, or neither."""
        plain, objects = _plain(text), self._objects(question)
        verdicts: set[bool | None] = {
            said
            # a question may be repeated
            for sentence in _SENTENCE.split(plain)
            if not sentence.endswith(_QUESTION_MARKS)
            for part in _CLAUSE.split(sentence)
            for clause in self._parts("breaks", f" {_spaced(part)} ")
            for said in (self._stated(clause, letters), self._of_object(clause, objects))
        }
        verdicts.discard(None)
        if len(verdicts) != 1 or not self._is_language(_TOKEN.findall(plain), objects):
            return None
        return verdicts.pop()

    def _parts(self, word: str, words: str) -> list[str]:
        return self._phrases[word].split(words) if word in self._phrases else [words]

    def _stated(self, clause: str, letters: bool) -> bool | None:
        """Meaning of a clause by a word for yes or no at its start; it may lead up to that."""
        words = clause.strip()
        if self._all("uncertain", clause):
            return None
        while lead := next((m for m in self._all("lead", f" {words} ") if m.start() == 1), None):
            words = f" {words} "[lead.end() :].strip()
        if letters and words in {"a", "b"}:
            return words == "a"
        for says, kind in ((True, "affirmative"), (False, "negative")):
            first = next((m for m in self._all(kind, f" {words} ") if m.start() == 1), None)
            if first:
                after = f" {words} "[first.end() :].split()
                if not after or after[0] in getattr(self.file, f"after_{kind}"):
                    return says
        return None

    def _of_object(self, clause: str, objects: Sequence[Sequence[str]]) -> bool | None:
        """True if a clause states that the object is there."""
        words = self._phrases["ignored"].sub("", clause) if self.file.ignored else clause
        for says, short in ((True, self.file.short_affirmative), (False, self.file.short_negative)):
            if words.split() in [_spaced(phrase).split() for phrase in short]:
                return says
        position = self._place(words, objects) if len(words) <= _LONGEST else None
        if position is None or self._all("uncertain", words):
            return None
        negated, part = False, words
        for negation in self._all("negation", words):
            before = negation.start() < position[0]
            first, last = (
                (negation.end(), position[0]) if before else (position[1], negation.start())
            )
            between = words[first:last]
            joins = self._all("joins", between)
            if joins and before:
                # "no people and one car": the object is in the other part
                part = words[first + joins[-1].end() :]
            elif before and len(self._all("relatives", between)) > len(self._all("that", between)):
                return None
            elif joins or (not before and self._all("relatives", between)):
                part = words[:last]
            elif (negated and not self.file.concord) or set(between.split()) - self.known:
                return None
            elif before or self._all("present", words):
                negated = True
            else:
                return None
        return not negated if negated or self._all("present", part) else None

    def _objects(self, about: AskedQuestion) -> list[list[str]]:
        """Words of the object, as the task names it and as the question does."""
        sentences = _SENTENCE.split(_plain(about.question))
        question = next((s for s in sentences if s.endswith(_QUESTION_MARKS)), "")
        own = [word for word in _TOKEN.findall(question) if word not in self.known]
        task = _TOKEN.findall(_plain(readable(about.task)))
        return [some for some in (task, own) if some]

    def _place(self, words: str, objects: Sequence[Sequence[str]]) -> tuple[int, int] | None:
        """Start and end of the object in a clause, or of a pronoun that may stand for it."""
        tokens = list(_TOKEN.finditer(words))
        for some in objects:
            places = [next((t for t in tokens if self._is_form(t[0], word)), None) for word in some]
            spans = [token.span() for token in places if token]
            if len(spans) == len(some):
                return min(spans)[0], max(spans)[1]
        pronouns = self._all("pronoun", words)
        if pronouns and not set(words.split()) - self.known and self._all("present", words):
            return pronouns[0].span()
        return None

    def _is_form(self, word: str, noun: str) -> bool:
        """True if a word is another form of a noun."""
        if word == noun or (self.language == "en" and word == plural(noun)):
            return True
        word, noun = _unaccented(word), _unaccented(noun)
        stems = {noun, noun[:-1]} if len(noun) > 4 and noun[-1] in _VOWELS else {noun}
        return any(
            word == stem + ending
            for ending in map(_unaccented, ("", *self.file.endings))
            for stem in (stems if ending[:1] in {*_VOWELS} else {noun})
        )

    def _is_language(self, tokens: Sequence[str], objects: Sequence[Sequence[str]]) -> bool:
        """True if words shared with other languages belong to this one, judged by all other
        words.
        """
        nouns = {word for some in objects for word in some}
        others = {token for token in tokens if not any(self._is_form(token, n) for n in nouns)}
        # an option, such as "B. No"
        others -= {*self.file.shared, "b"}
        if not {*self.file.shared} & {*tokens} or not others:
            return True
        own = len(others & self.known)
        foreign = (answer_words(name) for name in LANGUAGES if name != self.language)
        return own > 0 and own >= max(len(others & language.known) for language in foreign)


@cache
def answer_words(language: str) -> AnswerWords:
    """The words of a language."""
    path = _FOLDER / f"{language}.yaml" if language in LANGUAGES else Path(language)
    if language not in LANGUAGES and path.suffix not in {".yaml", ".yml"}:
        problem = f"there are no words for {language!r}"
        raise ParameterError(
            problem, where="`language`", allowed=f"{', '.join(LANGUAGES)}, or a YAML file of words"
        )
    content = read_yaml(path)
    allowed = f"lists: affirmative, negative, any of {', '.join(_WordFile.__struct_fields__[2:])}"
    remedy = 'put "yes", "no", "on" and "off" in quotes, which YAML takes for true and false'
    with unreadable(path, allowed, problem="is not a file of words", remedy=remedy):
        words = msgspec.convert(content, _WordFile)
    return AnswerWords(path.stem, words)


def _plain(text: str) -> str:
    """Small letters without Markdown, contractions spelled out."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    plain = re.sub(r"[*_`#~]", " ", plain).replace("cannot", "can not")
    return _NOT.sub(r"\1 not", plain)


def _spaced(text: str) -> str:
    return " ".join(_TOKEN.findall(text.casefold()))


def _unaccented(word: str) -> str:
    letters = unicodedata.normalize("NFKD", word.replace("ł", "l"))
    return "".join(letter for letter in letters if not unicodedata.combining(letter))
