"""Requests to a model on a server of OpenAI's protocol; each reply is kept as soon as it came."""

from __future__ import annotations

import base64
import io
import math
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from http.client import responses
from itertools import count
from pathlib import Path
from threading import Event, Lock
from typing import Annotated, Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from nooch.base.calls import Count, Options
from nooch.base.download.http import Client, MirrorError, Patience, RetryError
from nooch.base.errors import InputError, NoochError, ParameterError, some_of, unreadable
from nooch.base.words import printable
from nooch.base.work_folder import Journal
from nooch.data.readers.image_files import UNREADABLE, is_plain, opened_image, thumbnail
from nooch.evaluation.answer_rules import answer_span
from nooch.inference.requests import CAPTION_TOKENS, Reply, Request

_HOPELESS = {401, 402, 404, 405}
"""HTTP statuses that no retry can fix."""
_MOST_FAILURES = 8
"""In a row, after which a server is given up; more if it is asked more at a time."""
_SECRET = 8
"""Characters of a key that is masked in answers; a shorter one may be a word, such as EMPTY."""
_NO_COMPLETION = (
    ArithmeticError, ValueError, LookupError, TypeError, AttributeError, RecursionError,
)  # fmt: skip
_CHUNK = 1000
"""Requests that wait for a thread."""
_OPTIONAL = ("max_tokens", "temperature", "logprobs", "top_logprobs")
_MESSAGE = re.compile(rb'"(?:message|detail|error)"\s*:\s*("(?:[^"\\]|\\.)*")')
_SPACES = " \t\r\n▁Ġ"
"""White space, also as tokenizers write it."""


@dataclass(frozen=True)
class Endpoint(Options):
    """A server that speaks OpenAI's protocol, and how to call it.

    Attributes:
        url: its address, optionally up to ``/v1`` or ``/chat/completions``.
        api_key_env: environment variable with the key; without it no key is sent.
        concurrency: requests at a time.
        rate_limit: requests per minute; by default without limit.
        timeout: seconds for one answer.
        max_side: longest side in pixels, to which larger images are reduced; by default none are.
            Other JPEG and PNG files are sent unchanged, other formats as JPEG.
        allow_unanswered: continue without replies to requests that failed.

    Raises:
        ParameterError: an address or a number that is not allowed.
    """

    url: str
    api_key_env: str = "OPENAI_API_KEY"
    concurrency: Count = 8
    rate_limit: Annotated[float, Meta(gt=0)] | None = None
    timeout: Annotated[float, Meta(gt=0)] = 60.0
    max_side: Count | None = None
    allow_unanswered: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        # a password or a query may be a secret, and the address is recorded
        if re.fullmatch(r"https?://[^/@?#\s]+(/[^?#\s]*)?", self.url) is None:
            allowed = "such as http://localhost:8000/v1; no password and no query"
            remedy = "put a key into the environment variable that `api_key_env` names"
            problem = "is not an address of a server"
            raise ParameterError(problem, where="`endpoint`", allowed=allowed, remedy=remedy)

    @property
    def address(self) -> str:
        """URL that requests are sent to."""
        base = self.url.rstrip("/").removesuffix("/chat/completions")
        return f"{base}{'' if urlsplit(base).path else '/v1'}/chat/completions"

    @property
    def key(self) -> str | None:
        """The key, or None. Raises ParameterError for what cannot be one."""
        key = os.environ.get(self.api_key_env, "").strip()
        if re.search(r"[^!-~]", key):
            problem = f"the environment variable {self.api_key_env} contains no key"
            raise ParameterError(problem, allowed="ASCII characters without spaces")
        return key or None


@dataclass
class RateLimit:
    """Starts of requests: ``every`` so many seconds, and after pauses that a server asks for."""

    every: float
    wait: Callable[[float], object]
    clock: Callable[[], float] = time.monotonic
    _next: float = -math.inf
    _lock: Lock = field(default_factory=Lock)

    def take(self) -> None:
        """Wait until the next request of all threads may start."""
        with self._lock:
            now = self.clock()
            start = max(now, self._next)
            self._next = start + self.every
        if start > now:
            self.wait(start - now)

    def pause(self, seconds: float) -> None:
        """Let no request start within so many seconds."""
        with self._lock:
            self._next = max(self._next, self.clock() + seconds)


def request_fields(
    model: str, max_tokens: int | None = None, *, describe: bool = False
) -> dict[str, Any]:
    """The fields of each request next to its messages.

    Yes or no may have 16 tokens: a server that gives no probabilities is understood by its words.
    """
    most = max_tokens or (CAPTION_TOKENS if describe else 16)
    fields = {"model": model, "max_tokens": most, "temperature": 0}
    # 20 is the most that OpenAI and vLLM give
    return fields if describe else {**fields, "logprobs": True, "top_logprobs": 20}


def endpoint_replies(
    requests: Sequence[Request],
    fields: Mapping[str, Any],
    endpoint: Endpoint,
    folder: Path,
    patience: Patience | None = None,
) -> Iterator[Reply]:
    """Replies of a model on a server; the replies of an earlier call come first."""
    journal, stopped = Journal(folder / "replies.jsonl", Reply), Event()
    if patience is None:
        patience = Patience(read=endpoint.timeout, longest=600, jitter=0.5, wait=stopped.wait)
    replies_kept = {reply.key: reply for reply in journal.entries()}
    yield from replies_kept.values()
    missing = [request for request in requests if request.key not in replies_kept]
    rate = RateLimit(60 / (endpoint.rate_limit or math.inf), patience.wait)
    with Client(patience, stopped) as client:
        run = _EndpointRun(
            endpoint, endpoint.key, fields, client, rate, journal, stopped, not replies_kept
        )
        with ThreadPoolExecutor(endpoint.concurrency) as pool:
            try:
                for start in range(0, len(missing), _CHUNK):
                    for future in [
                        pool.submit(run.ask, r) for r in missing[start : start + _CHUNK]
                    ]:
                        # an interrupt does not end a wait without limit once polars is loaded
                        while not future.done():
                            wait([future], timeout=0.2)
                        if reply := future.result():
                            yield reply
            finally:
                # an interrupt also waits for requests in flight, and keeps the replies
                stopped.set()
    if run.failures and not endpoint.allow_unanswered:
        reasons = some_of(f"{key}: {reason}" for key, reason in sorted(run.failures.items()))
        raise run.error(f"{len(run.failures):,} of {len(requests):,} requests failed: {reasons}")


@dataclass(repr=False)
class _EndpointRun:
    """State shared by the threads that ask one server; ``untried`` until it has replied once."""

    endpoint: Endpoint
    key: str | None
    fields: Mapping[str, Any]
    client: Client
    rate: RateLimit
    journal: Journal
    stopped: Event
    untried: bool
    in_row: float = 0
    failures: dict[str, str] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    def ask(self, request: Request) -> Reply | None:
        """Keep the reply to a request, or the reason why it has none. Raises as ``_fail``."""
        patience = self.client.patience
        for tried in count(1):
            self.rate.take()
            if self.stopped.is_set():
                break
            try:
                reply = self._reply(request)
            except RetryError as error:
                if tried == patience.attempts:
                    self._fail(request, f"{error} (tried {tried} times)", 1)
                    break
                if error.after is None:
                    patience.before_attempt(tried, None)
                else:
                    self.rate.pause(min(error.after, patience.longest))
            except InputError as error:
                # individual refusals are tolerated while other requests succeed
                self._fail(request, str(error), int(self.untried))
                break
            except MirrorError as error:
                self._fail(request, str(error), math.inf)
                break
            else:
                with self.lock:
                    self.journal.add(reply)
                    self.untried, self.in_row = False, 0
                return reply
        return None

    def _fail(self, request: Request, reason: str, weight: float) -> None:
        """Note a failure. Raises NoochError after too many in a row."""
        with self.lock:
            self.failures[request.key] = reason
            self.in_row += weight
            if self.in_row >= max(_MOST_FAILURES, self.endpoint.concurrency):
                self.stopped.set()
                raise self.error(reason)

    def error(self, problem: str) -> NoochError:
        """The error that ends the run."""
        return NoochError(
            problem,
            where=self.endpoint.url,
            remedy=f"check `endpoint`, `model` and the key in {self.endpoint.api_key_env}; the same"
            " command again asks only what has no reply, and `allow_unanswered` does without it",
        )

    def _reply(self, request: Request) -> Reply:
        """The server's reply. Fields that it refuses are left out, and from then on if that
        helps.
        """
        headers = {"Content-Type": "application/json"}
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        picture = {"url": image_url(request.image, self.endpoint.max_side, request.range)}
        parts = [
            {"type": "image_url", "image_url": picture},
            {"type": "text", "text": request.text},
        ]
        fields = {**self.fields, "messages": [{"role": "user", "content": parts}]}
        while True:
            body = msgspec.json.encode(fields)
            status, content = self.client.post(self.endpoint.address, headers, body)
            message = self._message(content)
            if status == 200:
                break
            refused = {name for name in _OPTIONAL if name in message} or set(_OPTIONAL[2:])
            fewer = {name: value for name, value in fields.items() if name not in refused}
            if status not in {400, 422} or fewer == fields:
                kind = MirrorError if status in _HOPELESS else InputError
                raise kind(f"answers {status} {responses.get(status, '')}: {message}")
            fields = fewer
        self.fields = {name: fields[name] for name in self.fields if name in fields}
        try:
            answer, *chances = read_completion(content)
            secret = self.key if len(self.key or "") >= _SECRET else None
            return Reply(request.key, answer.replace(secret or "\0", "***"), *chances)
        except _NO_COMPLETION as error:
            raise RetryError(f"sends no chat completion: {message}") from error

    def _message(self, content: bytes) -> str:
        """A server's message about an error, without the key, which it may quote."""
        match = _MESSAGE.search(content)
        try:
            text = msgspec.json.decode(match[1], type=str) if match else content.decode()
        except ValueError:
            return ""
        return printable(text.replace(self.key or "\0", "***"))[:300]


def read_completion(content: bytes) -> tuple[str, float | None, float | None]:
    """The answer in the server's words, and at its first word P(yes) / (P(yes) + P(no)) and P(yes)
    + P(no): after the last block of reasoning, within marks such as bold type.

    All spellings among the token's alternatives count; a word that is not among them counts 0.
    """
    choice = msgspec.json.decode(content)["choices"][0]
    answer = choice["message"].get("content") or choice["message"].get("refusal") or ""
    if not isinstance(answer, str):
        raise TypeError(answer)
    alternatives = _at_answer((choice.get("logprobs") or {}).get("content") or [], answer)
    if not alternatives:
        return answer, None, None
    sums = {"yes": 0.0, "no": 0.0}
    for other in alternatives:
        word = other["token"].strip(_SPACES).lower()
        if word in sums:
            # a server may write a number of hundreds of digits
            sums[word] += math.exp(max(min(other["logprob"], 0.0), -1e4))
    mass = sums["yes"] + sums["no"]
    return answer, (sums["yes"] / mass if mass else None), mass


def _at_answer(tokens: Sequence[Mapping[str, Any]], answer: str) -> Any:
    """Alternatives of the first token of the answer that has a letter; tokens may begin with
    reasoning that the answer lacks, and may be cut off. None if it is not among them.
    """
    span, texts = answer_span(answer), [_written(token["token"]) for token in tokens]
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
    for text, token in zip(texts, tokens, strict=True):
        end += len(text)
        if end > start and any(map(str.isalpha, text[max(0, start - end) :])):
            return token.get("top_logprobs")
    return None


def _written(token: str) -> str:
    """A token as text in small letters; tokenizers have signs for blanks and ends of lines."""
    return token.replace("▁", " ").replace("Ġ", " ").replace("Ċ", "\n").lower()


def image_url(
    path: Path, max_side: int | None, value_range: tuple[float, float] | None = None
) -> str:
    """An image as data URL: JPEG and PNG files of at most ``max_side`` pixels unchanged, others,
    and those to be turned or of more than 8 bits a channel, as JPEG. Raises InputError for what is
    not an image.
    """
    with unreadable(path, None, UNREADABLE, problem="is not an image that can be read"):
        with opened_image(path) as image:
            kind, longest = str(image.format) if is_plain(image) else "", max(image.size)
        most = min(longest, max_side or longest)
        if kind in {"JPEG", "PNG"} and most == longest:
            content = path.read_bytes()
        else:
            kind, file = "JPEG", io.BytesIO()
            thumbnail(path, most, value_range).save(file, kind, quality=95)
            content = file.getvalue()
    return f"data:image/{kind.lower()};base64,{base64.b64encode(content).decode()}"
