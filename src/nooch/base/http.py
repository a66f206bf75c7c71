"""Requests to servers that may stall, lie or redirect; an error's class tells what may help."""

from __future__ import annotations

import random
import socket
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http.client import responses
from threading import Event, Thread, local
from typing import Any, Self

import urllib3
from urllib3 import exceptions
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError
from urllib3.response import BaseHTTPResponse

from nooch.base.version import __version__

_REDIRECTS = {301, 302, 303, 307, 308}
_MOST_REDIRECTS = 10
BUSY = {408, 425, 429, 500, 502, 503, 504}
_BLOCK = 1 << 20
_MOST_REPLY = 1 << 24
_LAST_SECONDS = 1.0
"""For replies that are on their way when a program is stopped."""
_KEPT = 64
"""Connections to a host that are kept open."""
_HOPELESS = (
    exceptions.SSLError,
    exceptions.LocationParseError,
    exceptions.URLSchemeUnknown,
    exceptions.InvalidHeader,
)


class MirrorError(Exception):
    """This mirror does not have the file; another may."""


class RangeError(MirrorError):
    """The existing bytes do not fit what the server sends; a restart may help."""


class RetryError(Exception):
    """The same request may succeed later, ``after`` that many seconds if the server names a
    delay.
    """

    def __init__(self, reason: str, after: float | None = None) -> None:
        super().__init__(reason)
        self.after = after


@dataclass(frozen=True)
class Patience:
    """Timeouts and retries.

    Attributes:
        connect: seconds until a connection must exist; ``read`` until the next bytes must come.
        attempts: failures in a row, without a MiB gained, after which a mirror is given up.
        backoff: seconds before the second attempt, doubled each time; ``longest`` caps it and a
            server's Retry-After.
        slowest: bytes in ``window`` seconds below which a connection counts as stalled.
        jitter: part of a wait that is added at random, at most.
        wait: called with seconds to wait.
    """

    connect: float = 15.0
    read: float = 60.0
    attempts: int = 5
    backoff: float = 1.0
    longest: float = 60.0
    slowest: int = 1 << 16
    window: float = 60.0
    jitter: float = 0.0
    wait: Callable[[float], object] = time.sleep

    def before_attempt(self, failures: int, after: float | None) -> None:
        """Wait after so many failures in a row."""
        seconds = self.backoff * 2 ** max(0, failures - 1) if after is None else after
        spread = random.uniform(1, 1 + self.jitter)  # noqa: S311 - no secret
        self.wait(min(self.longest, seconds) * spread)


class Client:
    """Requests over http and https with connection pools, which threads may share; proxy
    variables are respected.
    """

    def __init__(self, patience: Patience, stopped: Event | None = None) -> None:
        """With ``stopped``, posts end within a second once it is set."""
        self.patience, self.stopped = patience, stopped or Event()
        self._pools: dict[str | None, urllib3.PoolManager] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for manager in self._pools.values():
            # clear() would leave closing them to the garbage collector
            for key in manager.pools.keys():  # noqa: SIM118 - not iterable itself
                if (pool := manager.pools.get(key)) is not None:
                    pool.close()
            manager.clear()

    @contextmanager
    def get(self, url: str, headers: Mapping[str, str]) -> Iterator[BaseHTTPResponse]:
        """Yield the response, status 200 or 206, its body not yet read. Raises RetryError,
        RangeError, MirrorError: by what may help.
        """
        for _ in range(_MOST_REDIRECTS + 1):
            with self._response("GET", url, headers) as response:
                if response.status in {200, 206}:
                    yield response
                    return
                if response.status not in _REDIRECTS:
                    raise _refusal(response)
                url = redirected(url, response.headers.get("Location"))
        raise MirrorError(f"redirects more than {_MOST_REDIRECTS} times")

    def post(self, url: str, headers: Mapping[str, str], body: bytes | None) -> tuple[int, bytes]:
        """Status and content of the response to a POST, or to a GET if there is no body, whole
        within ``patience.read`` seconds, even if the server keeps sending.

        Raises RetryError if the server is busy or breaks off. MirrorError: no such server, or a
        redirect, which is not followed: headers may contain a key.
        """
        done, outcome, connections = Event(), list[tuple[int, bytes] | Exception](), list[Any]()

        def act() -> None:
            _sending.connections = connections
            try:
                outcome.append(self._posted(url, headers, body))
            except Exception as error:  # noqa: BLE001 - raised where the result is waited for
                outcome.append(error)
            done.set()

        # a thread of its own: nothing else ends a read of headers that never end
        Thread(target=act, daemon=True).start()
        until, stopping = time.monotonic() + self.patience.read, False
        while not done.wait(min(0.1, max(0.0, until - time.monotonic()))):
            if self.stopped.is_set() and not stopping:
                until, stopping = min(until, time.monotonic() + _LAST_SECONDS), True
            if time.monotonic() >= until:
                for connection in connections:
                    _shut(connection)
                raise RetryError(f"sent no complete reply within {self.patience.read:g} s")
        (result,) = outcome
        if isinstance(result, Exception):
            raise result
        return result

    def _posted(
        self, url: str, headers: Mapping[str, str], body: bytes | None
    ) -> tuple[int, bytes]:
        with self._response("GET" if body is None else "POST", url, headers, body) as response:
            if response.status in _REDIRECTS:
                target = redirected(url, response.headers.get("Location"))
                raise MirrorError(f"redirects to {target[:200]!r}, which is not followed")
            if response.status in BUSY:
                raise _refusal(response)
            content = b""
            while block := read_block(response):
                content += block
                if len(content) > _MOST_REPLY:
                    raise RetryError(f"sends {len(content):,} bytes, and no end")
            return response.status, content

    @contextmanager
    def _response(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> Iterator[BaseHTTPResponse]:
        sent = {"User-Agent": f"nooch/{__version__}", "Accept-Encoding": "identity", **headers}
        connect = min(self.patience.connect, self.patience.read)
        # the wait for a whole reply ends before the wait for its next bytes
        read = self.patience.read + (body is not None)
        timeout = urllib3.Timeout(connect=connect, read=read)
        try:
            plain: dict[str, Any] = {"retries": False, "redirect": False, "preload_content": False}
            sending: dict[str, Any] = {"headers": sent, "body": body, "timeout": timeout}
            response = self._pool(url).request(method, url, **sending, **plain)
        except (*_HOPELESS, ValueError) as error:
            raise MirrorError(_words(error)) from error
        except HTTPError as error:
            raise RetryError(_words(error)) from error
        try:
            yield response
        finally:
            # ends the connection unless the body was read to its end; then it is kept
            response.close()
            response.release_conn()

    def _pool(self, url: str) -> urllib3.PoolManager:
        parts = urllib.parse.urlsplit(url)
        proxy = urllib.request.getproxies().get(parts.scheme)
        if proxy and (urllib.request.proxy_bypass(parts.hostname or "") or parts.hostname is None):
            proxy = None
        if proxy not in self._pools:
            manager = _proxied(proxy) if proxy else urllib3.PoolManager(maxsize=_KEPT)
            manager.pool_classes_by_scheme = {"http": _HttpPool, "https": _HttpsPool}
            self._pools[proxy] = manager
        return self._pools[proxy]


_sending = local()
"""``connections``: open for the request that a thread sends."""


class _Noted:
    """A connection that is known to the request that uses it."""

    def request(self, *args: Any, **named: Any) -> None:
        getattr(_sending, "connections", []).append(self)
        super().request(*args, **named)  # type: ignore[misc]


class _Http(_Noted, HTTPConnection):
    pass


class _Https(_Noted, HTTPSConnection):
    pass


class _HttpPool(urllib3.HTTPConnectionPool):
    ConnectionCls = _Http


class _HttpsPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _Https


def _shut(connection: HTTPConnection) -> None:
    """End what another thread reads from a connection."""
    with suppress(OSError, AttributeError):
        connection.sock.shutdown(socket.SHUT_RDWR)


def read_block(response: BaseHTTPResponse) -> bytes:
    """The next bytes of a body, at most a MiB, none at its end. RetryError if it breaks off."""
    try:
        return response.read1(_BLOCK, decode_content=False) or b""
    except HTTPError as error:
        raise RetryError(_words(error)) from error


def _proxied(proxy: str) -> urllib3.ProxyManager:
    address = proxy if "://" in proxy else f"http://{proxy}"
    user, sign, _ = urllib.parse.urlsplit(address).netloc.rpartition("@")
    headers = urllib3.make_headers(proxy_basic_auth=urllib.parse.unquote(user)) if sign else None
    return urllib3.ProxyManager(address, proxy_headers=headers, maxsize=_KEPT)


def redirected(url: str, location: str | None) -> str:
    """The address of a redirect. Raises MirrorError for none, or one that is not safe."""
    if not location:
        raise MirrorError("redirects to nowhere")
    try:
        target = urllib.parse.urljoin(url, location)
        scheme, before = urllib.parse.urlsplit(target).scheme, urllib.parse.urlsplit(url).scheme
    except ValueError as error:
        raise MirrorError(f"redirects to {location[:200]!r}, which is not an address") from error
    if scheme not in {"http", "https"} or (before == "https" and scheme == "http"):
        kinds = f"from {before} to {scheme or 'no'} address"
        raise MirrorError(f"redirects {kinds} {target[:200]!r}, which is refused")
    return target


def _refusal(response: BaseHTTPResponse) -> Exception:
    # without the server's own words, which may contain anything
    text = f"answers {response.status} {responses.get(response.status, '')}".rstrip()
    if response.status == 416:
        return RangeError(text)
    if response.status in BUSY:
        return RetryError(text, _retry_after(response.headers.get("Retry-After")))
    return MirrorError(text)


def _retry_after(text: str | None) -> float | None:
    """Seconds from now; the header contains seconds or a date."""
    if not text:
        return None
    if text.strip().isdecimal():
        return float(text.strip()[:9])
    try:
        date = parsedate_to_datetime(text)
        seconds = (date.replace(tzinfo=date.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
    except (ValueError, TypeError, OverflowError):
        # a year or a zone that there is not
        return None
    return max(0.0, seconds)


def _words(error: Exception) -> str:
    if isinstance(error, exceptions.NameResolutionError):
        return "its address cannot be resolved: no network, or no such host"
    # urllib3 begins some messages with the connection's repr
    return str(error).rpartition(">: ")[2] or type(error).__name__
