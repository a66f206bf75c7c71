"""Requests to a model on a server, several at a time; each reply is kept as soon as it came."""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.client import responses
from itertools import count
from pathlib import Path
from threading import Event, Lock
from typing import Any, BinaryIO
from urllib.parse import urlsplit

import msgspec

from nooch.asking.asked_requests import Reply, Request
from nooch.asking.chat_completions import (
    accepted_fields,
    completion_body,
    read_completion,
    server_message,
)
from nooch.download.http_requests import Client, MirrorError, Patience, RetryError
from nooch.errors import FormatError, InputError, NoochError, ParameterError, some_of
from nooch.files import replace_file

__all__ = ["EndpointOptions", "RateLimit", "endpoint_replies"]

_HOPELESS = {401, 402, 404, 405}
"""Statuses that all requests would get."""
_MOST_FAILURES = 20
"""In a row, after which a server is given up."""
_CHUNK = 1000
"""Requests that wait for a thread."""
_AGAIN = "give the same command again: it asks only what has no reply yet"


@dataclass(frozen=True)
class EndpointOptions:
    """A server that speaks OpenAI's protocol, and how it is asked.

    Attributes:
        url: its address, perhaps up to ``/v1`` or ``/chat/completions``.
        api_key_env: environment variable with the key; without it no key is sent.
        concurrency: requests at a time.
        rate_limit: requests per minute; None for no limit.
        timeout: seconds for one answer.
        attempts: how often a busy or broken server is asked the same.
        max_side: longest side in pixels, to which larger images are reduced; None for none. Other
            JPEG and PNG files are sent unchanged, other formats as JPEG.
        allow_unanswered: continue without replies to requests that failed.

    Raises:
        ParameterError: an address or a number that is not allowed.
    """

    url: str
    api_key_env: str = "OPENAI_API_KEY"
    concurrency: int = 8
    rate_limit: float | None = None
    timeout: float = 60.0
    attempts: int = 5
    max_side: int | None = None
    allow_unanswered: bool = False

    def __post_init__(self) -> None:
        for name in ("concurrency", "rate_limit", "timeout", "attempts", "max_side"):
            number = getattr(self, name)
            if number is not None and not 0 < number < math.inf:
                raise ParameterError(f"is {number}", where=f"`{name}`", allowed="more than 0")
        # a password or a query may be a secret, and the address is recorded
        if re.fullmatch(r"https?://[^/@?#\s]+(/[^?#\s]*)?", self.url) is None:
            raise ParameterError(
                "is no address of a server",
                where="`endpoint`",
                allowed="http:// or https://, host and path, such as http://localhost:8000/v1;"
                " no password and no query",
                remedy="put a key into the environment variable that `api_key_env` names",
            )

    @property
    def host(self) -> str:
        """Host and port that images are sent to."""
        return urlsplit(self.url).netloc

    @property
    def address(self) -> str:
        """Where requests are sent."""
        base = self.url.rstrip("/").removesuffix("/chat/completions")
        return f"{base}{'' if urlsplit(base).path else '/v1'}/chat/completions"

    @property
    def key(self) -> str | None:
        """The key, or None. Raises ParameterError for what cannot be one."""
        key = os.environ.get(self.api_key_env, "").strip()
        if re.search(r"[^!-~]", key):
            raise ParameterError(
                f"the environment variable {self.api_key_env} holds no key",
                allowed="ASCII characters without spaces",
            )
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


def endpoint_replies(
    requests: Sequence[Request],
    fields: Mapping[str, Any],
    endpoint: EndpointOptions,
    folder: Path,
    patience: Patience | None = None,
) -> Iterator[Reply]:
    """Replies of a model on a server, those of an earlier call first.

    Args:
        requests: what is asked.
        fields: of each request next to its messages: ``model``, ``max_tokens`` and so on.
        endpoint: the server.
        folder: for ``replies.jsonl``, to which each reply is appended; what is there is not asked
            again. It belongs to these requests and fields.
        patience: times and attempts, by default those of ``endpoint``.

    Raises:
        NoochError: a server that refuses the key, does not know the model or only fails; at the
            end, requests without a reply.
        FormatError: a damaged journal.
    """
    journal = folder / "replies.jsonl"
    stopped, replies = Event(), _kept(journal)
    if patience is None:
        patience = Patience(
            read=endpoint.timeout,
            attempts=endpoint.attempts,
            longest=600,
            jitter=0.5,
            wait=stopped.wait,
        )
    known = {reply.key for reply in replies}
    missing = [request for request in requests if request.key not in known]
    yield from replies
    with journal.open("ab", buffering=0) as file, Client(patience) as client:
        rate = RateLimit(60 / (endpoint.rate_limit or math.inf), patience.wait)
        run = _EndpointRun(
            endpoint, endpoint.key, client, fields, rate, file, stopped, bool(replies)
        )
        with ThreadPoolExecutor(endpoint.concurrency) as pool:
            try:
                for at in range(0, len(missing), _CHUNK):
                    yield from filter(None, pool.map(run.ask, missing[at : at + _CHUNK]))
            finally:
                # an interrupt, too, waits for what was sent, and keeps the replies
                stopped.set()
    if run.failures and not endpoint.allow_unanswered:
        reasons = some_of(f"{key} ({reason})" for key, reason in sorted(run.failures.items()))
        raise NoochError(
            f"{len(run.failures):,} of {len(requests):,} requests failed: {reasons}",
            where=endpoint.url,
            remedy=f"{_AGAIN}; or give `allow_unanswered`, too, to continue without them",
        )


def _kept(journal: Path) -> list[Reply]:
    """The replies of a journal; a line that a kill cut off is removed."""
    content = journal.read_bytes() if journal.exists() else b""
    whole = content[: content.rfind(b"\n") + 1]
    try:
        replies = msgspec.json.Decoder(Reply).decode_lines(whole)
    except ValueError as error:
        raise FormatError(f"is damaged: {error}", where=journal, remedy="remove it") from error
    if whole != content:
        replace_file(journal, whole)
    return replies


@dataclass(repr=False)
class _EndpointRun:
    """What the threads share that ask one server; ``answers`` is whether it ever did."""

    endpoint: EndpointOptions
    key: str | None
    client: Client
    fields: Mapping[str, Any]
    rate: RateLimit
    file: BinaryIO
    stopped: Event
    answers: bool
    in_row: int = 0
    failures: dict[str, str] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    def ask(self, request: Request) -> Reply | None:
        """Keep the reply to a request, or the reason why it has none, and return it.

        Raises:
            NoochError: others would fail, too.
        """
        patience = self.client.patience
        for tried in count(1):
            self.rate.take()
            if self.stopped.is_set():
                break
            try:
                reply = self._reply(request)
            except RetryError as error:
                if tried == patience.attempts:
                    self._fail(request, f"{error} (tried {tried} times)", single=False)
                    break
                if error.after is None:
                    patience.before_attempt(tried, None)
                else:
                    self.rate.pause(min(error.after, patience.longest))
            except InputError as error:
                self._fail(request, str(error), single=True)
                break
            except MirrorError as error:
                raise self._given_up(error) from error
            else:
                with self.lock:
                    self.file.write(msgspec.json.encode(reply) + b"\n")
                    self.answers, self.in_row = True, 0
                return reply
        return None

    def _reply(self, request: Request) -> Reply:
        """The server's reply. Fields that it refuses are left out, and from then on if that helps.

        Raises:
            InputError: an image that cannot be read, or that the server refuses.
            MirrorError, RetryError: see ``Client.post``; a key or model that the server refuses.
        """
        headers = {"Content-Type": "application/json"}
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        fields = self.fields
        while True:
            body = completion_body(request, fields, self.endpoint.max_side)
            status, content = self.client.post(self.endpoint.address, headers, body)
            message = server_message(content, self.key)
            if status == 200:
                break
            fewer = accepted_fields(fields, message) if status in {400, 422} else fields
            if fewer == fields:
                kind = MirrorError if status in _HOPELESS else InputError
                raise kind(f"answers {status} {responses.get(status, '')}: {message}")
            fields = fewer
        self.fields = fields
        try:
            return read_completion(request.key, content)
        except ValueError as error:
            raise RetryError(f"sends no chat completion: {message}") from error

    def _fail(self, request: Request, reason: str, *, single: bool) -> None:
        """Note a failure. A server that answers others may refuse a single request."""
        with self.lock:
            self.failures[request.key] = reason
            self.in_row += 1
            most = _MOST_FAILURES if single or self.answers else 1
            if self.in_row >= most and not (single and self.answers):
                raise self._given_up(reason)

    def _given_up(self, reason: object) -> NoochError:
        self.stopped.set()
        return NoochError(
            str(reason),
            where=self.endpoint.url,
            allowed="an OpenAI-compatible server that has the model and accepts the key",
            remedy=f"check `endpoint`, `model` and the environment variable"
            f" {self.endpoint.api_key_env}; then {_AGAIN}",
        )
