"""One question in OpenAI's protocol for chats, and what a server replies to it."""

from __future__ import annotations

import base64
import io
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from nooch.asking.asked_requests import AskOptions, Reply, Request
from nooch.display import printable
from nooch.errors import InputError
from nooch.readers.image_opening import UNREADABLE, opened_image, thumbnail

__all__ = [
    "accepted_fields", "completion_body", "completion_fields", "image_url", "read_completion",
    "server_message",
]  # fmt: skip

_WORDS = 16
"""Tokens of an answer to yes or no: some servers give no probabilities, and need words."""
_ALTERNATIVES = 20
"""The most that OpenAI and vLLM give for a token."""
_UNCHANGED = ("JPEG", "PNG")
_QUALITY = 95
_SPACES = " \t\r\n▁Ġ"
"""White space, also as tokenizers write it."""
_MESSAGE = re.compile(rb'"(?:message|detail)"\s*:\s*("(?:[^"\\]|\\.)*")')


def completion_fields(model: str, options: AskOptions) -> dict[str, Any]:
    """The fields of each request next to its messages."""
    if options.describe:
        return {"model": model, "max_tokens": options.most_tokens, "temperature": 0}
    most = {"max_tokens": options.max_tokens or _WORDS, "temperature": 0}
    return {"model": model, **most, "logprobs": True, "top_logprobs": _ALTERNATIVES}


def completion_body(request: Request, fields: Mapping[str, Any], max_side: int | None) -> bytes:
    """What is sent: the image, then the text. Raises as ``image_url``."""
    picture = {"type": "image_url", "image_url": {"url": image_url(request.image, max_side)}}
    content = [picture, {"type": "text", "text": request.text}]
    return msgspec.json.encode({**fields, "messages": [{"role": "user", "content": content}]})


def read_completion(key: str, content: bytes) -> Reply:
    """The reply in the server's words, a refusal and an empty one too.

    Raises:
        ValueError: the content is no chat completion.
    """
    try:
        choice = msgspec.json.decode(content)["choices"][0]
        message = choice["message"]
        answer = message.get("content") or message.get("refusal") or ""
        tokens = (choice.get("logprobs") or {}).get("content") or []
        probability, mass = _probability_of_yes(tokens)
    except (LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError("no chat completion") from error
    if not isinstance(answer, str):
        raise ValueError("no text")  # noqa: TRY004 - of what came, not of an argument
    return Reply(key, answer, probability, mass)


def server_message(content: bytes, secret: str | None) -> str:
    """What a server says about an error, without the secret, which it may quote."""
    found = _MESSAGE.search(content)
    try:
        text = msgspec.json.decode(found[1], type=str) if found else content.decode()
    except ValueError:
        return ""
    return printable(text.replace(secret or "\0", "***"))[:300]


def accepted_fields(fields: Mapping[str, Any], message: str) -> dict[str, Any]:
    """The fields without one that a server refuses, as its message says or may mean."""
    fewer = dict(fields)
    if "max_completion_tokens" in message and "max_tokens" in fewer:
        fewer["max_completion_tokens"] = fewer.pop("max_tokens")
    elif "temperature" in message and "temperature" in fewer:
        del fewer["temperature"]
    elif "logprobs" in fewer:
        del fewer["logprobs"], fewer["top_logprobs"]
    return fewer


def _probability_of_yes(tokens: Sequence[Any]) -> tuple[float | None, float | None]:
    """P(yes) / (P(yes) + P(no)), and P(yes) + P(no), of the first token that is no white space.

    All spellings among the token's alternatives count; a word that is not among them counts 0.
    """
    worded = [token for token in tokens if token["token"].strip(_SPACES)]
    alternatives = worded[0].get("top_logprobs") if worded else None
    if not alternatives:
        return None, None
    sums = {"yes": 0.0, "no": 0.0}
    for other in alternatives:
        word = other["token"].strip(_SPACES).lower()
        if word in sums:
            sums[word] += math.exp(min(other["logprob"], 0.0))
    mass = sums["yes"] + sums["no"]
    return (sums["yes"] / mass if mass else None), mass


def image_url(path: Path, max_side: int | None) -> str:
    """An image as data URL: JPEG and PNG files unchanged, others as JPEG.

    Args:
        path: the file.
        max_side: longest side in pixels, to which larger images are reduced; None for none.

    Raises:
        InputError: no image that can be read.
    """
    try:
        with opened_image(path) as image:
            kind, longest = str(image.format), max(image.size)
        most = min(longest, max_side or longest)
        if kind in _UNCHANGED and most == longest:
            content = path.read_bytes()
        else:
            kind, file = "JPEG", io.BytesIO()
            thumbnail(path, most).save(file, kind, quality=_QUALITY)
            content = file.getvalue()
    except UNREADABLE as error:
        raise InputError(f"is no image that can be read: {error}", where=path) from error
    return f"data:image/{kind.lower()};base64,{base64.b64encode(content).decode()}"
