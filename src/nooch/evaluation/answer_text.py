"""Where the answer begins in what a model wrote: after its reasoning, inside its own marks."""

from __future__ import annotations

import re

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
    """Whether a text ends within a block of reasoning that it opens."""
    start = 0
    for found in _CLOSE.finditer(text):
        start = found.end()
    return _OPEN.search(text, start) is not None


def closes_reasoning(text: str) -> bool:
    """Whether a text ends a block of reasoning that it did not open: its template opened it."""
    found = _CLOSE.search(text)
    return found is not None and _OPEN.search(text, 0, found.start()) is None


def ends_reasoning(text: str) -> bool:
    """Whether a text ends a block of reasoning."""
    return _CLOSE.search(text) is not None


def without_reasoning(text: str) -> tuple[int, int] | None:
    """Start and end of what follows the last block of reasoning; None where that is cut off."""
    if opens_reasoning(text):
        return None
    ends = [found.end() for found in _CLOSE.finditer(text)]
    return (ends[-1] if ends else 0), len(text)


def answer_span(text: str) -> tuple[int, int] | None:
    r"""Start and end of the answer in a model's text: after the last block of reasoning, and within
    the last ``\boxed{}``, ``<answer>`` or ``<conclusion>``; None where it is cut off.
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
