"""A rule turns the text of an answer into yes, no, or neither.

The default is ``tolerant`` and reads what a person would. The other rules copy the rules of tools
exactly; their scores of the same answers differ.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from types import MappingProxyType

from nooch.evaluation.answer_words import AskedQuestion, answer_words

_NAMES = "think|thinking|thought|thoughts|reasoning|reflection|analysis|summary|caption"
_OPEN = re.compile(
    rf"<(?:{_NAMES})>|\[THINK\]|◁think▷|<\|channel\|>\s*analysis\b|^\s*analysis(?=[A-Z])",
    re.IGNORECASE,
)
_CLOSE = re.compile(
    rf"</(?:{_NAMES})>|\[/THINK\]|◁/think▷|<\|channel\|>\s*final[^<]*<\|message\|>|"
    r"assistantfinal(?=\W|[A-Z]|$)",
    re.IGNORECASE,
)
# what a model puts around its answer: the last one counts, and one that is cut off is none
_MARKS = re.compile(
    r"\\boxed\{(?:\s*\\text\{)?(?P<box>[^{}]*)(?P<box_end>\}?)"
    r"|<(?P<tag>answer|conclusion)>(?P<inner>.*?)(?:</(?P=tag)>|$)"
    r"|<\|begin_of_box\|>(?P<glm>.*?)(?P<glm_end><\|end_of_box\|>|$)",
    re.IGNORECASE | re.DOTALL,
)


def opens_reasoning(text: str) -> bool:
    """True if a text ends within a block of reasoning that it opens."""
    start = 0
    for match in _CLOSE.finditer(text):
        start = match.end()
    return _OPEN.search(text, start) is not None


def closes_reasoning(text: str) -> bool:
    """True if a text ends a block of reasoning that it did not open: its template opened it."""
    match = _CLOSE.search(text)
    return match is not None and _OPEN.search(text, 0, match.start()) is None


def ends_reasoning(text: str) -> bool:
    """True if a text ends a block of reasoning."""
    return _CLOSE.search(text) is not None


def without_reasoning(text: str) -> tuple[int, int] | None:
    """Start and end of what follows the last block of reasoning; None where that is cut off."""
    if opens_reasoning(text):
        return None
    ends = [match.end() for match in _CLOSE.finditer(text)]
    return (ends[-1] if ends else 0), len(text)


def answer_span(text: str) -> tuple[int, int] | None:
    r"""Start and end of the answer in a model's text: after the last block of reasoning, and within
    the last ``\boxed{}``, ``<answer>`` or ``<conclusion>``; None if it is cut off.
    """
    span = without_reasoning(text)
    marks = [] if span is None else list(_MARKS.finditer(text, span[0]))
    if not marks:
        return span
    last = marks[-1]
    for name in ("box", "inner", "glm"):
        if last[name] is not None:
            cut = name == "box" and not last["box_end"]
            return None if cut else last.span(name)
    return span


TOLERANT = "tolerant"

Rule = Callable[[str], bool | None]
"""Text of an answer -> yes (True), no (False), or neither (None)."""

_WORDS = re.compile(r"[a-z]+")
_SEPARATORS = str.maketrans(dict.fromkeys(".()[],:;!*#{}", " "))


def pope(text: str) -> bool | None:
    """No if the first sentence, without commas, has the word No, not or no; else yes.

    The rule of POPE's own evaluation (Li et al., EMNLP 2023). Never neither: an answer in another
    language counts as yes.
    """
    words = text.partition(".")[0].replace(",", "").split(" ")
    return not {"No", "not", "no"} & set(words)


def vlmevalkit(text: str) -> bool | None:
    """The letter of one of the options ``A. Yes`` and ``B. No``, else the one that is named.

    VLMEvalKit's rule for multiple-choice files without a judge model. A letter counts if it is
    the only one; "A" may also be an article, so it counts in answers of up to three words.
    """
    tokens = text.translate(_SEPARATORS).split()
    letters = [letter for letter in ("A", "B") if letter in tokens]
    if len(letters) == 1 and not (letters == ["A"] and len(tokens) > 3):
        return letters == ["A"]
    return word_among(text)


def lmms_eval(text: str) -> bool | None:
    """Yes or no where the answer is just that word, in any case; lmms-eval's exact match."""
    return {"yes": True, "no": False}.get(text.strip().lower())


def first_word(text: str) -> bool | None:
    """Yes or no if it is the first word, in upper or lower case."""
    match = _WORDS.search(text.lower())
    return {"yes": True, "no": False}.get(match.group()) if match else None


def word_among(text: str) -> bool | None:
    """The one of yes and no that is among the words, in any case; neither where both are."""
    words = set(_WORDS.findall(text.lower())) & {"yes", "no"}
    return words == {"yes"} if len(words) == 1 else None


EXACT: MappingProxyType[str, Rule] = MappingProxyType(
    {
        "pope": pope,
        "vlmevalkit": vlmevalkit,
        "vlmevalkit-yesno": word_among,
        "lmms-eval": lmms_eval,
        "word": first_word,
    }
)
"""Name -> a tool's own rule."""
RULES = (TOLERANT, *EXACT)
"""Names of all rules."""


def read_verdicts(
    answers: Sequence[str],
    questions: Sequence[AskedQuestion],
    *,
    rule: str = TOLERANT,
    language: str = "en",
    letters: bool = False,
) -> list[bool | None]:
    """Yes, no, or neither for each answer of one model.

    An answer begins after its reasoning; one that is cut off within it is neither. Where any answer
    ends reasoning that it did not open, the model's template opens it, and an answer that does not
    end it is cut off.
    """
    opened, words = any(map(closes_reasoning, answers)), answer_words(language)
    verdicts: list[bool | None] = []
    for text, about in zip(answers, questions, strict=True):
        span = (answer_span if rule == TOLERANT else without_reasoning)(text)
        if span is None or (opened and not ends_reasoning(text)):
            verdicts.append(None)
        elif rule == TOLERANT:
            verdicts.append(words.verdict(text[slice(*span)], about, letters=letters))
        else:
            verdicts.append(EXACT[rule](text[slice(*span)]))
    return verdicts
