"""A rule turns the text of an answer into yes, no, or neither.

The default is ``tolerant`` and reads what a person would. The other rules copy the rules of tools
exactly; their scores of the same answers differ.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from types import MappingProxyType

from nooch.evaluation.answer_words import AskedQuestion, answer_words

_NAMES = (
    r"(?:\w{1,20}:)?(?:think|thinking|thought|thoughts|reasoning|reflection|analysis|summary"
    r"|caption)"
)
_CHANNEL = r"<\|?channel\|?>\s*"
_OPEN = re.compile(
    rf"<{_NAMES}>|\[THINK\]|◁think▷|{_CHANNEL}(?:analysis|thought)\b|<unused94>|"
    r"<\|(?:(?:begin|start)_of_thought|thought_(?:begin|start))\|>|^\s*analysis(?=[A-Z])",
    re.IGNORECASE,
)
_CLOSE = re.compile(
    rf"</{_NAMES}>|\[/THINK\]|◁/think▷|{_CHANNEL}final(?:[^<]*<\|message\|>)?|<unused95>|"
    r"<\|(?:end_of_thought|thought_end)\|>|assistantfinal(?=\W|[A-Z]|$)",
    re.IGNORECASE,
)
# what a model puts around its answer: the last one counts, and one that is cut off is none
_MARKS = re.compile(
    r"(?P<box>\\boxed\{)"
    r"|<(?P<tag>(?:final_)?answer|conclusion|output|response|solution)>(?P<inner>.*?)"
    r"(?:</(?P=tag)>|$)"
    r"|<\|begin_of_box\|>(?P<glm>.*?)(?:<\|end_of_box\|>|$)",
    re.IGNORECASE | re.DOTALL,
)
_NUMBER = r"-?\d+(?:\.\d+)?(?:e-?\d+)?"
_BOX = rf"\[{_NUMBER}(?:,\s*{_NUMBER}){{3}}\]"
BOXES = re.compile(rf"{_BOX}|\[{_BOX}(?:,\s*{_BOX})*\]")
"""An answer that is a box or several: where an object is."""
_BRACES = re.compile("[{}]")


def opens_reasoning(text: str) -> bool:
    """True if a text ends within a block of reasoning that it opens."""
    start = 0
    for match in _CLOSE.finditer(text):
        start = match.end()
    return _OPEN.search(text, start) is not None


def template_opens(texts: Sequence[str]) -> bool:
    """True if the template of a model opens its reasoning: most texts end reasoning, and some end
    what they did not open. A single stray end decides nothing about the others.
    """
    ends = [(text, match.start()) for text in texts if (match := _CLOSE.search(text))]
    return 2 * len(ends) > len(texts) and any(not _OPEN.search(t, 0, at) for t, at in ends)


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
    marks = [] if span is None else [*_MARKS.finditer(text, span[0])]
    if not marks:
        return span
    last = marks[-1]
    if last["box"] is None:
        return last.span("inner" if last["inner"] is not None else "glm")
    depth = 1
    for brace in _BRACES.finditer(text, last.end()):
        depth += 1 if brace[0] == "{" else -1
        if not depth:
            return last.end(), brace.start()
    return None


TOLERANT = "tolerant"

Rule = Callable[[str], bool | None]
"""Text of an answer -> yes (True), no (False), or neither (None)."""

_WORDS = re.compile(r"[a-z]+")
_SEPARATORS = str.maketrans(dict.fromkeys(".()[],:;!*#{}", " "))
_REJECTED = (
    "Sorry, I can't help with images of people yet.", "I can't process this file.",
    "I'm sorry, but without the image provided", "Cannot determine the answer",
)  # fmt: skip
_IS_LETTER = re.compile(r"answer\s+is\s+\**([ABCD])\**", re.IGNORECASE)
_LETTERS = {"A": True, "B": False}
_PUNCTUATION = ';/[]"{}()=+\\_-><@`,?!'


def pope(text: str) -> bool | None:
    """No if the first sentence, without commas, has the word No, not or no; else yes.

    The rule of POPE's own evaluation (Li et al., EMNLP 2023). Never neither: an answer in another
    language counts as yes.
    """
    words = text.partition(".")[0].replace(",", "").split(" ")
    return not {"No", "not", "no"} & set(words)


def vlmevalkit(text: str) -> bool | None:
    """The letter of one of the options ``A. Yes`` and ``B. No``, else the one that is named.

    VLMEvalKit's rule for multiple-choice files without a judge model (``can_infer``). A letter
    counts if only one is there, first among the last four words; else the one of an answer that
    "is B"; else, in texts of up to ten characters, the one of "yes" and "no" that they contain,
    even within a word.
    """
    refused = any(part in text for part in _REJECTED)
    if not refused and "Failed to obtain answer via API" not in text:
        tokens = text.translate(_SEPARATORS).split()
        letters = [letter for letter in _LETTERS if letter in tokens]
        if len(letters) == 1 and tokens.index(letters[0]) > len(tokens) - 5:
            return letters[0] == "A"
        if not letters and "Z" in tokens:
            return None
        said = _IS_LETTER.search(text)
        if said and said[1].upper() in _LETTERS:
            return _LETTERS[said[1].upper()]
    lower = text.lower()
    if refused or len(lower) > 10 or ("yes" in lower) == ("no" in lower):
        return None
    return "yes" in lower


def vlmevalkit_yesno(text: str) -> bool | None:
    """The one of yes and no that is among the words; neither where both are.

    VLMEvalKit's rule for yes-or-no files (``YOrN_Extraction``), with its treatment of punctuation:
    a sign next to a blank, or any where digits have a comma, joins what it separates.
    """
    whole = words = text.lower()
    grouped = re.search(r"\d,\d", whole) is not None
    for sign in _PUNCTUATION:
        joins = grouped or f"{sign} " in whole or f" {sign}" in whole
        words = words.replace(sign, "" if joins else " ")
    # the tool passes a flag where the most substitutions belong: 32
    found = {"yes", "no"} & set(re.sub(r"(?<!\d)\.(?!\d)", "", words, count=32).split())
    return found == {"yes"} if len(found) == 1 else None


def lmms_eval(text: str) -> bool | None:
    """Yes or no where the answer is just that word, in any case; lmms-eval's exact match."""
    return {"yes": True, "no": False}.get(text.strip().lower())


def first_word(text: str) -> bool | None:
    """Yes or no if it is the first word, in upper or lower case."""
    match = _WORDS.search(text.lower())
    return {"yes": True, "no": False}.get(match.group()) if match else None


EXACT: MappingProxyType[str, Rule] = MappingProxyType(
    {
        "pope": pope,
        "vlmevalkit": vlmevalkit,
        "vlmevalkit-yesno": vlmevalkit_yesno,
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

    A rule of a tool reads the whole text, as the tool does. The tolerant rule begins after the
    reasoning; what is cut off within it is neither, as is, if the model's template opens the
    reasoning (``template_opens``), an answer that does not end it.
    """
    if rule != TOLERANT:
        return [EXACT[rule](text) for text in answers]
    opened, words = template_opens(answers), answer_words(language)
    verdicts: list[bool | None] = []
    for text, about in zip(answers, questions, strict=True):
        span = answer_span(text)
        if span is None or (opened and not ends_reasoning(text)):
            verdicts.append(None)
        elif BOXES.fullmatch(text[slice(*span)].strip()):
            # where the object is
            verdicts.append(True)
        else:
            verdicts.append(words.verdict(text[slice(*span)], about, letters=letters))
    return verdicts
