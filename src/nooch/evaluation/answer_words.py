"""The tolerant rule: what a person takes an answer in words to mean, one language at a time.

An answer is cut into clauses. A clause means yes or no by that word, or by stating that the object
of the question is there or not; clauses that disagree, hedge or name no object decide nothing.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from nooch.base.words import plural, readable, words_of
from nooch.evaluation.clauses import LANGUAGES, Clause, Language, Stance, language_words, plain_text
from nooch.evaluation.vocabulary import COCO, KINDS, is_modifier, load_vocabulary

_VOWELS = "aeo"
_NEXT_TURN = re.compile(r"\n[ \t]{0,8}[*#]{0,4}(?:question|user|human|q) ?:")
"""Start of another turn, where a model goes on and asks itself."""
_LABEL = re.compile(
    r"(?<![^\W_])(answer|antwort|réponse|respuesta|odpowiedź)"
    r"(?:[\"'*]{0,4} {0,2}[:：]|[ *]{0,4}\n)"
)
_IS_A = re.compile(
    r"(?:it|that|this|(?:the|this|that) (\w+)) (?:is|s|appears to be|seems to be) an? "
)
_BEFORE_LABEL = re.compile(r"(?:^|[\n.!?{,#*>\"])\W{0,8}(?:the )?(?:final |correct )?$")


@dataclass(frozen=True)
class AskedQuestion:
    """Subject of an answer: the text of the question, and the task; either may be unknown."""

    question: str = ""
    task: str = ""


@dataclass(frozen=True, eq=False)
class AnswerWords:
    """The tolerant rule in a language."""

    language: Language

    def verdict(self, text: str, question: AskedQuestion, *, letters: bool = False) -> bool | None:
        """Yes, no, or neither."""
        plain, asked = plain_text(text), _Object(self.language, question)
        turn = _NEXT_TURN.search(plain)
        if turn and words_of(plain[: turn.start()]):
            plain = plain[: turn.start()]
        labeled = self._after_label(plain, letters)
        said = None if labeled is None else self._read(labeled, asked, letters)
        return self._read(plain, asked, letters) if said is None else said

    def _after_label(self, plain: str, letters: bool) -> str | None:
        """Text after the last label such as "Answer:", unless an answer precedes it."""
        labels = [
            match
            for match in _LABEL.finditer(plain)
            if _BEFORE_LABEL.search(plain[max(0, match.start() - 24) : match.start()])
            and match[1] in self.language.known
        ]
        if not labels:
            return None
        first = next(iter(self.language.clauses(plain[: labels[-1].start()])), None)
        leads = first is not None and self._stated(first, letters) is not None
        return None if leads else plain[labels[-1].end() :]

    def _read(self, plain: str, asked: _Object, letters: bool) -> bool | None:
        words, language = words_of(plain), self.language
        for says, kind in ((True, "alone_affirmative"), (False, "alone_negative")):
            if words and language.length(kind, words, 0) == len(words):
                return says
        clauses = [clause for clause in language.clauses(plain) if not clause.asked]
        only = not any(asked.others(clause.words) for clause in clauses)
        verdicts = set[bool | None]()
        for number, clause in enumerate(clauses, 1):
            before = clauses[number - 2] if number > 1 else None
            label = before.words if before is not None and before.label else ()
            # "Cat: no" is not about a dog, "lamp: none" neither, and "dogs: 0" is
            if not asked.is_other(label):
                verdicts.add(self._stated(clause, letters))
            if not asked.others(label):
                verdicts.add(self._short(clause))
            if language.denies(clause.words) and [*asked.places(label)]:
                verdicts.add(False)
            after = clauses[number] if clause.label and number < len(clauses) else None
            # a label such as dog_present states nothing by itself
            if after is None or self._stated(after, letters) is None:
                verdicts |= {*self._of_object(clause, asked, only)}
        verdicts.discard(None)
        if len(verdicts) != 1 or self._is_foreign(clauses, {*words}):
            return None
        # Python writes None for a missing answer
        return None if plain.strip() == "none" else verdicts.pop()

    def _stated(self, clause: Clause, letters: bool) -> bool | None:
        """Meaning of a clause by a word for yes or no at its start; it may lead up to that."""
        language, words, at = self.language, clause.words, 0
        if clause.hedged:
            return None
        while lead := language.length("lead", words, at):
            at += lead
        if letters and words[at:] in (["a"], ["b"]):
            return words[at] == "a"
        for says, kind in ((True, "affirmative"), (False, "negative")):
            if size := language.length(kind, words, at):
                after = words[at + size :]
                may_follow = getattr(language.lists, f"after_{kind}")
                if not after or after[0] in may_follow or all(map(str.isdigit, after)):
                    return says
        return None

    def _short(self, clause: Clause) -> bool | None:
        """Meaning of a whole clause such as "there is none", "present" or "not visible"."""
        language, words = self.language, clause.words
        if clause.label:
            return None
        for says, kind in ((True, "short_affirmative"), (False, "short_negative")):
            if language.length(kind, words, 0) == len(words):
                return says
        whole = [language.length(kind, words, 0) == len(words) for kind in ("visible", "present")]
        if all(whole):
            return True
        return False if len(words) > 1 and language.denies(words) else None

    def _of_object(self, clause: Clause, asked: _Object, only: bool) -> Iterator[bool | None]:
        """True where a clause states that the object is there, False where it denies it; ``only``
        if the answer names nothing else.
        """
        language, words = self.language, clause.words
        if clause.hedged:
            return
        if asked.is_another(words):
            yield False
        stated = _IS_A.match(" ".join(words)) is not None or any(
            language.length("present", words, at)
            for at, stance in enumerate(clause.stances)
            if stance is Stance.STATED
        )
        places = [*asked.places(words)] or self._pronouns(words, only)
        for start, end, whole in places:
            stance = clause.stances[start]
            if stance is Stance.DENIED and whole:
                yield False
            elif stance is Stance.STATED and (stated or self._is_bare(clause, start, end)):
                yield True

    def _pronouns(self, words: Sequence[str], only: bool) -> list[tuple[int, int, bool]]:
        """Places of words that may stand for the object, in a clause that names nothing."""
        lists = self.language.lists
        seen = {*lists.pronoun, *(lists.generic if only else ())}
        # "any" stands for the object, but neither "any image" nor "no one"
        at = next(
            (
                n for n, (word, after) in enumerate(zip(words, [*words[1:], ""], strict=True))
                if word in seen and after not in lists.views
                and not self.language.length("nobody", words, max(n - 1, 0))
            ),
            None,
        )  # fmt: skip
        if at is None or {*words} - self.language.known:
            return []
        told = any(self.language.holds(name, words) for name in ("present", "visible", "absent"))
        return [(at, at + 1, True)] if told else []

    def _is_bare(self, clause: Clause, start: int, end: int) -> bool:
        """True if a clause is an object with its article or number, or begins with it: "Two red
        cars.", "Two cars are waiting", "Cars on a street".
        """
        lists, words = self.language.lists, clause.words
        first = 1 <= start <= 3 and words[0] in lists.new and words[0] != "the"
        goes_on = end < len(words) and words[end] in lists.ends
        if clause.label or not (first or start == 0):
            return False
        return goes_on or (first and end == len(words))

    def _is_foreign(self, clauses: Sequence[Clause], words: set[str]) -> bool:
        """True if a word for yes or no also is one of another language, and the rest is in that:
        a clause with at least two of its words, or one that states that something is there. Nouns,
        names, numbers and signs are of no language.
        """
        shared = {*self.language.lists.shared} & words
        for other in map(language_words, LANGUAGES if shared else ()):
            if other.name == self.language.name or not shared & other.known:
                continue
            for clause in clauses:
                own = {*clause.words} & self.language.known - other.known
                foreign = {*clause.words} & other.known - self.language.known
                says = any(
                    foreign & {*clause.words[at : at + other.length(name, clause.words, at)]}
                    for name in ("present", "lead")
                    for at in range(len(clause.words))
                )
                if len(foreign) > len(own) and (says or len(foreign) > 1):
                    return True
        return False


class _Object:
    """The object of a question, and where words name it."""

    def __init__(self, language: Language, about: AskedQuestion) -> None:
        self.language = language
        sentences = re.split(r"(?<=[.!?;:\n？])", plain_text(about.question))
        question = next((s for s in sentences if s.rstrip().endswith(("?", "？"))), "")
        task, asked = words_of(readable(about.task)), words_of(question)
        nouns = [at for at, word in enumerate(asked) if word not in language.known]
        own = asked[nouns[0] : nouns[-1] + 1] if nouns else []
        # "a dog on the sofa": a noun in order and whole, else the task's
        whole = any(asked[at : at + len(task)] == task for at in range(len(asked))) and task
        self.forms = [task] if whole else [some for some in (task, own) if some]
        self.owner = "_".join(task) if language.name == "en" else None

    def others(self, words: Sequence[str]) -> bool:
        """True if words name something else."""
        own = {at for start, end, _ in self.places(words) for at in range(start, end)}
        return any(w not in self.language.known for at, w in enumerate(words) if at not in own)

    def is_other(self, words: Sequence[str]) -> bool:
        """True if words name an object of the vocabulary, but not this one."""
        owners = {owner for _, _, owner in load_vocabulary(COCO).places(words)} - {None}
        return self.owner is not None and bool(owners) and not [*self.places(words)]

    def is_another(self, words: Sequence[str]) -> bool:
        """True if words name another thing of the object's kind as what is there: "the animal
        is a cat" is not about a dog.
        """
        said = _IS_A.match(" ".join(words))
        if said is None or [*self.places(words)]:
            return False
        owners = {owner for _, _, owner in load_vocabulary(COCO).places(words)}
        return any(
            self.owner in names and said[1] in {None, kind} and owners & {*names}
            for kind, names in KINDS.items()
        )

    def places(self, words: Sequence[str]) -> Iterator[tuple[int, int, bool]]:
        """Start and end of the object in words, in order and adjacent, and whether all of its kind
        is meant; a longer phrase of something else is passed over ("teddy bear").
        """
        vocabulary = load_vocabulary(COCO) if self.owner else None
        taken = {s: (e, o) for s, e, o in vocabulary.places(words)} if vocabulary else {}
        at = 0
        while at < len(words):
            end, owner = taken.get(at, (at, None))
            own = max((self._length(form, words, at) for form in self.forms), default=0)
            stop = max(at + own, end)
            whole = own > 0 and at + own >= end
            same = owner is not None and owner == self.owner
            if (whole or same) and not (self.owner and is_modifier(words, stop)):
                phrase = tuple(words[at:stop])
                yield at, stop, whole or (vocabulary is not None and phrase in vocabulary.whole)
            at = max(stop, at + 1)

    def _length(self, form: Sequence[str], words: Sequence[str], at: int) -> int:
        some = words[at : at + len(form)]
        fits = len(some) == len(form) and all(map(self._is_form, some, form))
        return len(form) if fits else 0

    def _is_form(self, word: str, noun: str) -> bool:
        """True if a word is another form of a noun."""
        return _is_form(self.language, word, noun)


@lru_cache(100_000)
def _is_form(language: Language, word: str, noun: str) -> bool:
    if word == noun or (language.name == "en" and word == plural(noun)):
        return True
    word, noun = _unaccented(word), _unaccented(noun)
    stems = {noun, noun[:-1]} if len(noun) > 4 and noun[-1] in _VOWELS else {noun}
    return any(
        word == stem + ending
        for ending in map(_unaccented, ("", *language.lists.endings))
        for stem in (stems if ending[:1] in {*_VOWELS} else {noun})
    )


@cache
def answer_words(language: str) -> AnswerWords:
    """The tolerant rule in a language that ships with nooch, or of a YAML file of words."""
    return AnswerWords(language_words(language))


def _unaccented(word: str) -> str:
    letters = unicodedata.normalize("NFKD", word.replace("ł", "l"))
    return "".join(letter for letter in letters if not unicodedata.combining(letter))
