"""Content that a server of OpenAI's protocol sends -> answer, reasoning, P(yes) at the answer."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from nooch.evaluation.answer_rules import answer_span

NO_COMPLETION = (
    ArithmeticError, ValueError, LookupError, TypeError, AttributeError, RecursionError,
)  # fmt: skip
"""Errors of ``read_completion``: the content is not a chat completion."""
_SPACES = " \t\r\n▁Ġ"
"""White space, also as tokenizers write it."""
_SPECIAL = re.compile(r"\s*(?:<[^<>]*>|\[[a-z_]+\])?\s*", re.IGNORECASE)
"""An empty token, or one such as ``<|im_end|>`` or ``[EOS]``, which no text has."""
_THOUGHTS = ("thinking", "reasoning", "thought")
"""Beginnings of the types of parts that are not the answer."""


class Completion(NamedTuple):
    """A model's reply: the answer in its words; at the answer's first word P(yes) / (P(yes) +
    P(no)) and P(yes) + P(no), None where that is not known; its reasoning, where the server sends
    that apart; and whether the reply was cut off at its longest length.
    """

    answer: str
    probability: float | None
    mass: float | None
    reasoning: str | None
    cut: bool


def read_completion(content: bytes | Mapping[str, Any]) -> Completion:
    """A chat completion, also one as events (SSE), or with a list of parts as its content.

    The answer begins after the last block of reasoning, within marks such as bold type. All
    spellings among the alternatives of its first token count; a word that is not among them counts
    0. Probabilities that cannot be read are None, and the answer counts. Raises one of
    ``NO_COMPLETION``.
    """
    if isinstance(content, Mapping):
        choice = content["choices"][0]
    elif content.lstrip()[:6].startswith((b"data:", b"event:", b"id:", b":")):
        choice = _streamed(content)
    else:
        choice = decoded_json(content)["choices"][0]
    answer, refusal, reasoning = _said(choice["message"])
    answer, finish = answer or refusal, choice.get("finish_reason")
    if finish == "error" and not answer:
        raise ValueError("ends with an error")
    try:
        probability, mass = _probability(choice["logprobs"]["content"], answer)
    except NO_COMPLETION:
        probability = mass = None
    return Completion(answer, probability, mass, reasoning or None, finish == "length")


def decoded_json(content: bytes) -> Any:
    """JSON, also with the NaN and Infinity that Python servers write. Raises ValueError."""
    try:
        return msgspec.json.decode(content)
    except msgspec.DecodeError:
        return json.loads(content)


def _probability(
    tokens: Sequence[Mapping[str, Any]], answer: str
) -> tuple[float | None, float | None]:
    """P(yes) / (P(yes) + P(no)) and P(yes) + P(no) at the answer, None where not known.

    Raises one of ``NO_COMPLETION`` for tokens that cannot be read.
    """
    alternatives = _at_answer(tokens, answer)
    if not alternatives:
        return None, None
    sums = {"yes": 0.0, "no": 0.0}
    for other in alternatives:
        word, logprob = other["token"].strip(_SPACES).lower(), other["logprob"]
        # null is how JSON says the logarithm of 0
        if word in sums and logprob is not None:
            # a server may write a number of hundreds of digits
            sums[word] += math.exp(max(min(logprob, 0.0), -1e4))
    mass = sums["yes"] + sums["no"]
    if math.isnan(mass):
        raise ValueError("not a number")
    return (sums["yes"] / mass if mass else None), mass


def _said(message: Mapping[str, Any]) -> tuple[str, str, str]:
    """Answer, refusal and reasoning of a message, or of a piece of one."""
    content, refusal = message.get("content"), message.get("refusal")
    apart = message.get("reasoning_content") or message.get("reasoning")
    thought = _text(content, thought=True) if isinstance(content, list) else ""
    reasoning = _text(apart) if isinstance(apart, str | list) else ""
    return _text(content), refusal if isinstance(refusal, str) else "", reasoning + thought


def _text(content: Any, *, thought: bool = False) -> str:
    """The text of a content: a text, or a list of parts; with ``thought`` its parts of reasoning.

    Raises TypeError or AttributeError for anything else.
    """
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise TypeError(content)
    texts = []
    for part in content:
        kind, inner = "text", part
        if not isinstance(part, str):
            kind = part.get("type") or "text"
            inner = part.get(kind) or part.get("text")
        if kind.startswith(_THOUGHTS) == thought:
            texts.append(_text(inner))
    return "".join(texts)


def _streamed(content: bytes) -> dict[str, Any]:
    """The choice that a stream of events adds up to. Raises ValueError for one that ends early."""
    said, tokens, finish, ended = ["", "", ""], list[Any](), None, False
    for line in content.splitlines():
        data = line.removeprefix(b"data:").strip() if line.startswith(b"data:") else b""
        ended = ended or data == b"[DONE]"
        if not data or ended:
            continue
        for choice in decoded_json(data)["choices"]:
            if choice.get("index", 0) == 0:
                piece = _said(choice.get("delta") or choice.get("message") or {})
                said = [before + more for before, more in zip(said, piece, strict=True)]
                logprobs = choice.get("logprobs")
                own = logprobs.get("content") if isinstance(logprobs, dict) else logprobs
                tokens += own if isinstance(own, list) else [own] if own else []
                finish = choice.get("finish_reason") or finish
    if not ended and finish is None:
        raise ValueError("ends early")
    message = dict(zip(("content", "refusal", "reasoning"), said, strict=True))
    return {"message": message, "logprobs": {"content": tokens}, "finish_reason": finish}


def _at_answer(tokens: Sequence[Mapping[str, Any]], answer: str) -> Any:
    """Alternatives of the first token of the answer that has a letter; tokens may begin with
    reasoning that the answer lacks, and may be cut off. None if it is not among them.
    """
    span, texts = answer_span(answer), [_written(token["token"]) for token in tokens]
    whole = answer.rstrip().lower()
    while texts and _SPECIAL.fullmatch(texts[-1]):
        if (last := texts[-1].strip()) and whole.endswith(last):
            break
        # an end token, which the answer lacks
        texts.pop()
    written = "".join(texts).rstrip()
    if span is None or not (said := answer[span[0] :].strip().lower()):
        return None
    if written.endswith(said):
        start = len(written) - len(said)
    elif not span[0] and said.startswith(written.strip()):
        start = 0
    else:
        return None
    end = 0
    for text, token in zip(texts, tokens, strict=False):
        end += len(text)
        if end > start and any(map(str.isalpha, text[max(0, start - end) :])):
            return token.get("top_logprobs")
    return None


def _written(token: str) -> str:
    """A token as text in small letters; tokenizers have signs for blanks and ends of lines."""
    return token.replace("▁", " ").replace("Ġ", " ").replace("Ċ", "\n").lower()
