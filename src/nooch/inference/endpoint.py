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
from functools import partial
from http.client import responses
from itertools import count
from pathlib import Path
from threading import Event, Lock
from types import MappingProxyType
from typing import Annotated, Any
from urllib.parse import quote, urlsplit

import msgspec
from msgspec import Meta

from nooch.base.calls import Count, Options
from nooch.base.errors import InputError, NoochError, ParameterError, some_of, unreadable
from nooch.base.http import BUSY, Client, MirrorError, Patience, RetryError
from nooch.base.words import printable
from nooch.base.work_folder import Journal
from nooch.data.readers.image_files import UNREADABLE, is_plain, opened_image, thumbnail
from nooch.evaluation.answer_rules import ends_reasoning, first_word, opens_reasoning
from nooch.inference.completions import NO_COMPLETION, Completion, decoded_json, read_completion
from nooch.inference.requests import (
    CAPTION_TOKENS,
    YES_NO_TOKENS,
    Answering,
    Asking,
    Reply,
    Request,
)

_HOPELESS = {401, 402, 404, 405}
"""HTTP statuses that no retry can fix."""
_MOST_FAILURES = 8
"""In a row, after which a server is given up; more if it is asked more at a time."""
_SECRET = 8
"""Characters of a key, or its start, that is masked; fewer may be a word, such as EMPTY."""
_CHUNK = 1000
"""Requests that wait for a thread."""
_LOGPROBS = ("logprobs", "top_logprobs")
_OPTIONAL = ("max_tokens", "temperature", "seed", *_LOGPROBS)
"""Fields that are left out where a server refuses them."""
THINKING_TOKENS = 16384
"""Length with which a question is asked again, whose reasoning left no room for an answer."""
_SECRETS = re.compile(
    r'"(?:x-)?(?:api[-_]?key|authorization|password|secret|(?:access|auth)[-_]?token)"\s*:',
    re.IGNORECASE,
)
_INVALID = re.compile(r"validation|invalid|unsupported|not supported|bad.?request", re.IGNORECASE)
_MESSAGE = re.compile(rb'"(?:message|detail|error)"\s*:\s*("(?:[^"\\]|\\.)*")')


@dataclass(frozen=True)
class Endpoint(Options):
    """A model on a server that speaks OpenAI's protocol, and how to call it.

    Attributes:
        url: its address, optionally up to ``/v1`` or ``/chat/completions``; images are sent there.
        model: its name there.
        api_key_env: environment variable with the key; without it no key is sent.
        concurrency: requests at a time.
        rate_limit: requests per minute; by default without limit.
        timeout: seconds for one answer.
        max_side: longest side in pixels, to which larger images are reduced; by default none are.
            Other JPEG and PNG files are sent unchanged, other formats as JPEG.
        allow_unanswered: continue without replies to requests that failed.
        logprobs: ask for the probabilities of tokens, which some servers refuse.
        extra_body: further fields of each request as JSON (in Python also a mapping), such as
            ``{"chat_template_kwargs": {"enable_thinking": false}}`` or a budget for thinking. They
            replace nooch's own except ``messages`` and ``model``; null leaves a field out. They
            are recorded in the answers, so keys do not belong here.

    Raises:
        ParameterError: an address, a number or a body that is not allowed.
    """

    url: str
    model: str
    api_key_env: str = "OPENAI_API_KEY"
    concurrency: Count = 8
    rate_limit: Annotated[float, Meta(gt=0)] | None = None
    timeout: Annotated[float, Meta(gt=0)] = 300.0
    max_side: Count | None = None
    allow_unanswered: bool = False
    logprobs: bool = True
    extra_body: str | Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        # a password or a query may be a secret, and the address is recorded
        if re.fullmatch(r"https?://[^/@?#\s]+(/[^?#\s]*)?", self.url) is None:
            allowed = "such as http://localhost:8000/v1, without a password or a query"
            remedy = "put a key into the environment variable that `api_key_env` names"
            problem = "is not the address of a server"
            raise ParameterError(problem, where="`endpoint`", allowed=allowed, remedy=remedy)
        _ = self.extra_fields

    @property
    def extra_fields(self) -> dict[str, Any]:
        """The fields of ``extra_body``. Raises ParameterError for what they may not be."""
        body, where = self.extra_body or {}, "`extra_body`"
        try:
            text = body if isinstance(body, str) else msgspec.json.encode(body).decode()
            fields = msgspec.json.decode(text, type=dict[str, Any])
        except (ValueError, TypeError, RecursionError) as error:
            allowed = 'fields of a request, such as {"reasoning_effort": "low"}'
            raise ParameterError(
                f"is not a JSON object: {error}", where=where, allowed=allowed
            ) from error
        if own := sorted(fields.keys() & {"messages", "model"}):
            remedy = "`prompts` and `model` are separate parameters"
            raise ParameterError(f"may not replace {own[0]}", where=where, remedy=remedy)
        if _SECRETS.search(text) or (self.key and len(self.key) >= _SECRET and self.key in text):
            remedy = "put it into the environment variable that `api_key_env` names"
            problem = "contains a key or a password, and is recorded in the answers"
            raise ParameterError(problem, where=where, remedy=remedy)
        return fields

    def answering(self, asking: Asking) -> Answering:
        """Replies of the model; see ``Answerer``."""
        sent = self.fields(asking, asking.max_tokens)
        lengths = {"max_tokens", "max_completion_tokens"}
        given = asking.max_tokens or lengths & self.extra_fields.keys()
        more = None if given else THINKING_TOKENS
        about = {"endpoint": self.url, "max_side": self.max_side, "more_tokens": more}
        how: dict[str, Any] = {"more_tokens": more, "describe": asking.describe}
        replies = partial(endpoint_replies, asking.requests, sent, self, **how)
        return Answering({**sent, **about}, replies)

    def fields(self, asking: Asking, max_tokens: int | None) -> dict[str, Any]:
        """The fields of each request next to its messages."""
        settings: dict[str, Any] = {"describe": asking.describe, "temperature": asking.temperature}
        settings |= {"logprobs": self.logprobs, "extra": self.extra_fields}
        return request_fields(self.model, max_tokens, **settings)

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
    model: str,
    max_tokens: int | None = None,
    *,
    describe: bool = False,
    logprobs: bool = True,
    extra: Mapping[str, Any] = MappingProxyType({}),
    temperature: float | None = None,
) -> dict[str, Any]:
    """The fields of each request next to its messages; ``extra`` as ``Endpoint.extra_body``. With
    a temperature, replies are sampled, and their words count.

    Yes or no may have 16 tokens: a server that gives no probabilities is understood by its words.
    """
    most = max_tokens or (CAPTION_TOKENS if describe else YES_NO_TOKENS)
    chosen: dict[str, Any] = {"temperature": 0} if temperature is None else {"seed": 0}
    if temperature is not None:
        chosen["temperature"] = temperature
    elif logprobs and not describe:
        # 20 is the most that OpenAI and vLLM give
        chosen |= {"logprobs": True, "top_logprobs": 20}
    length = {} if "max_completion_tokens" in extra else {"max_tokens": most}
    fields = {"model": model, **length, **chosen, **extra}
    return {name: value for name, value in fields.items() if value is not None}


def endpoint_replies(
    requests: Sequence[Request],
    fields: Mapping[str, Any],
    endpoint: Endpoint,
    folder: Path,
    patience: Patience | None = None,
    *,
    more_tokens: int | None = None,
    describe: bool = False,
) -> Iterator[Reply]:
    """Replies of a model on a server; the replies of an earlier call come first.

    A request whose reply is cut off before its answer is sent again with ``more_tokens``.
    """
    journal, stopped = Journal(folder / "replies.jsonl", Reply), Event()
    if patience is None:
        patience = Patience(read=endpoint.timeout, longest=600, jitter=0.5, wait=stopped.wait)
    replies_kept = {reply.key: reply for reply in journal.entries()}
    yield from replies_kept.values()
    missing = [request for request in requests if request.key not in replies_kept]
    rate = RateLimit(60 / (endpoint.rate_limit or math.inf), patience.wait)
    with Client(patience, stopped) as client:
        run = _EndpointRun(
            endpoint, endpoint.key, fields, client, rate, journal, stopped, not replies_kept,
            more_tokens, describe,
        )  # fmt: skip
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
    more_tokens: int | None
    describe: bool
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
                # the error that it is because of may quote the key
                raise self.error(reason) from None

    def error(self, problem: str) -> NoochError:
        """The error that ends the run; it lists the server's models where one may be meant."""
        models = self._models() if re.search(r"\b(?:model|404)\b", problem) else ()
        return NoochError(
            self._hidden(problem),
            where=self.endpoint.url,
            allowed=self._hidden(f"models of this server: {some_of(models, 8)}")
            if models
            else None,
            remedy=f"check `endpoint`, `model` and the key in {self.endpoint.api_key_env}; repeat"
            " the command to ask only what has no reply, or {} to go on without",
            give={"allow_unanswered": True},
        )

    def _models(self) -> list[str]:
        """Ids, and names where they differ, of the models that a server lists; none if it does
        not.
        """
        address = f"{self.endpoint.address.removesuffix('/chat/completions')}/models"
        try:
            listed = decoded_json(self.client.post(address, self._headers(), None)[1])["data"]
            pairs = [(str(model["id"]), model.get("name")) for model in listed]
        except (RetryError, MirrorError, *NO_COMPLETION):
            return []
        return [printable(f"{i} ({name})" if name and name != i else i) for i, name in pairs]

    def _headers(self) -> dict[str, str]:
        own = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        return {"Content-Type": "application/json", **own}

    def _reply(self, request: Request) -> Reply:
        """The server's reply. Fields that it refuses are left out, and from then on if that
        helps.
        """
        headers = self._headers()
        fields = chat_body(self.fields, request, self.endpoint.max_side)
        while True:
            body = msgspec.json.encode(fields)
            status, content = self.client.post(self.endpoint.address, headers, body)
            message = self._message(content)
            status = error_status(content) if status == 200 else status
            if status == 200:
                try:
                    made = read_completion(content)
                except NO_COMPLETION as error:
                    raise RetryError(f"sends no chat completion: {message}") from error
                if not self._unanswered(made, fields):
                    break
                fewer = {**fields, "max_tokens": self.more_tokens}
            else:
                refused = {name for name in _OPTIONAL if name in message.lower()}
                if refused & {*_LOGPROBS} or (status in {400, 422} and not refused):
                    refused |= {*_LOGPROBS}
                fewer = {name: value for name, value in fields.items() if name not in refused}
                if fewer == fields:
                    if status in BUSY:
                        raise RetryError(f"sends no chat completion: {message}")
                    kind = MirrorError if status in _HOPELESS else InputError
                    raise kind(f"answers {status} {responses.get(status, '')}: {message}")
            fields = fewer
            self.rate.take()
        left = {name: value for name, value in self.fields.items() if name in fields}
        if made.reasoning or ends_reasoning(made.answer):
            # a model that thinks needs the length for the other requests as well
            left |= {name: fields[name] for name in left.keys() & {"max_tokens"}}
        self.fields = left
        reasoning = made.reasoning and self._hidden(made.reasoning)
        answer = self._hidden(made.answer)
        return Reply(request.key, answer, made.probability, made.mass, reasoning)

    def _hidden(self, text: str) -> str:
        """A text of the server's without the key, which it may quote, as it is or as part of an
        address, and cut off.
        """
        for key in (self.key or "", quote(self.key or "", safe="")):
            for n in range(len(key), _SECRET - 1, -1):
                text = text.replace(key[:n], "***")
        return text

    def _unanswered(self, made: Completion, fields: Mapping[str, Any]) -> bool:
        """True if a reply was cut off before its answer, and may be longer."""
        if not made.cut or fields.get("max_tokens") in {None, self.more_tokens}:
            return False
        undecided = (made.mass or 0) < 0.5 and first_word(made.answer) is None
        nothing = not made.answer.strip() or opens_reasoning(made.answer)
        return self.more_tokens is not None and (nothing or (undecided and not self.describe))

    def _message(self, content: bytes) -> str:
        """A server's message about an error."""
        match = _MESSAGE.search(content)
        try:
            text = msgspec.json.decode(match[1], type=str) if match else content.decode()
        except ValueError:
            return ""
        return printable(text)[:300]


def error_status(content: bytes) -> int:
    """The status that a body says it has: its own code, 422 for what it calls invalid, 500 for
    another error, and 200 without one.
    """
    try:
        body = decoded_json(content)
    except (ValueError, RecursionError):
        return 200
    error = (body.get("error") or body.get("object") == "error") if isinstance(body, dict) else None
    if not error:
        return 200
    fields = {**body, **error} if isinstance(error, dict) else body
    code = fields.get("code")
    if isinstance(code, int | str) and re.fullmatch("[45][0-9]{2}", str(code)):
        return int(code)
    said = " ".join(value for value in (*fields.values(), error) if isinstance(value, str))
    return 422 if _INVALID.search(said) else 500


def chat_body(fields: Mapping[str, Any], request: Request, max_side: int | None) -> dict[str, Any]:
    """The whole body of a request; a sample's seed is its number. Raises as ``image_url``."""
    picture = {"url": image_url(request.image, max_side, request.range)}
    parts = [{"type": "image_url", "image_url": picture}, {"type": "text", "text": request.text}]
    sampled = {"seed": request.sample} if "seed" in fields and request.sample is not None else {}
    return {**fields, **sampled, "messages": [{"role": "user", "content": parts}]}


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
