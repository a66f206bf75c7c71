"""An HTTP server on this machine that does what servers should not, and counts what it sends."""

from __future__ import annotations

import contextlib
import hashlib
import io
import random
import socket
import threading
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from local_server import running

from nooch.base.download import Downloaded, Remote

SIZE = 3_000_000
BODY = random.Random(0).randbytes(SIZE)
PARTIAL = ".file.bin.partial"
UNKNOWN = {"size": None, "checksum": None}

Act = Callable[["Handler", "File"], None]


@dataclass
class File:
    """A served file; ``acts`` are for the first requests, ``always`` is for later ones."""

    body: bytes
    acts: list[Act] = field(default_factory=list)
    always: Act | None = None


class Server(ThreadingHTTPServer):
    """``files`` maps paths to files; ``requests`` lists (path, headers), ``sent`` counts bytes."""

    daemon_threads = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, File] = {}
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.sent = 0
        self.over = threading.Event()

    def put(self, path: str, body: bytes, *acts: Act, **more: object) -> str:
        self.files[path] = File(body, acts=list(acts), **more)  # type: ignore[arg-type]
        return self.url(path)

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server_port}{path}"

    def ranges(self) -> list[str | None]:
        return [headers.get("range") for _, headers in self.requests]

    def handle_error(self, *_: object) -> None:
        """Clients go away, that is part of it."""


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    timeout = 20

    def do_GET(self) -> None:
        self.server.requests.append((self.path, {k.lower(): v for k, v in self.headers.items()}))
        file = self.server.files.get(self.path)
        if file is None:
            status(404)(self, File(b""))
            return
        act = file.acts.pop(0) if file.acts else file.always or good
        act(self, file)

    def log_message(self, *_: object) -> None:
        pass

    def head(self, code: int, **headers: object) -> None:
        self.send_response(code)
        for name, value in headers.items():
            if value is not None:
                self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()

    def offset(self) -> int:
        """Where the client wants to resume."""
        wanted = self.headers.get("Range")
        return int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted else 0

    def begin(self, file: File) -> bytes:
        """Right headers; returns the body that they announce."""
        start, size = self.offset(), len(file.body)
        known = {"Content_Length": size - start}
        if start >= size:
            self.head(416, Content_Range=f"bytes */{size}", Content_Length=0)
        elif start:
            self.head(206, Content_Range=f"bytes {start}-{size - 1}/{size}", **known)
        else:
            self.head(200, **known)
        return file.body[start:]

    def send(self, data: bytes, piece: int = 1 << 16) -> None:
        for i in range(0, len(data), piece):
            # counted before it is written: whoever has received it may read the count
            self.server.sent += len(data[i : i + piece])
            self.wfile.write(data[i : i + piece])

    def hang_up(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)


def good(handler: Handler, file: File) -> None:
    handler.send(handler.begin(file))


def cut(after: int, wait: float = 0) -> Act:
    """Announce everything, send a part, wait."""

    def act(handler: Handler, file: File) -> None:
        handler.send(handler.begin(file)[:after])
        handler.server.over.wait(wait)
        handler.hang_up()

    return act


def trickle(seconds: float) -> Act:
    """A byte now and then."""

    def act(handler: Handler, file: File) -> None:
        for byte in handler.begin(file):
            if handler.server.over.wait(seconds):
                break
            handler.send(bytes([byte]))
        handler.hang_up()

    return act


def slowly(piece: int, seconds: float) -> Act:
    """Everything, but with time to interrupt it."""

    def act(handler: Handler, file: File) -> None:
        body = handler.begin(file)
        for i in range(0, len(body), piece):
            handler.send(body[i : i + piece])
            time.sleep(seconds)

    return act


def status(code: int, body: bytes = b"no", **headers: object) -> Act:
    def act(handler: Handler, file: File) -> None:
        handler.head(code, Content_Length=len(body), **headers)
        handler.wfile.write(body)

    return act


def says(code: int, body: bytes, *, length: int | None = None, **headers: object) -> Act:
    """These very headers and bytes, then the end of the connection."""

    def act(handler: Handler, file: File) -> None:
        handler.head(code, Content_Length=length, Connection="close", **headers)
        handler.send(body)
        handler.hang_up()

    return act


def endless(handler: Handler, file: File) -> None:
    handler.head(200, Connection="close")
    while not handler.server.over.is_set():
        handler.send(bytes(1 << 16))


def ignore_range(handler: Handler, file: File) -> None:
    handler.head(200, Content_Length=len(file.body))
    handler.send(file.body)


def raw(data: bytes) -> Act:
    """No HTTP at all."""

    def act(handler: Handler, file: File) -> None:
        handler.wfile.write(data)
        handler.hang_up()

    return act


def serving() -> contextlib.AbstractContextManager[Server]:
    return running(Server())


def remote(*urls: str, body: bytes = BODY, **more: Any) -> Remote:
    """A file whose size and hash are known, unless ``more`` says otherwise."""
    checksum = f"sha256:{hashlib.sha256(body).hexdigest()}"
    facts: dict[str, Any] = {"size": len(body), "checksum": checksum}
    return Remote(urls=urls, **({"name": "file.bin"} | facts | more))


def left(folder: Path) -> list[str]:
    """Names in a folder but for the lock."""
    return sorted(p.name for p in folder.iterdir() if p.name != ".nooch-download.lock")


def zipped(files: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    """A zip of these files."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", compression) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return content.getvalue()


FILES = {"annotations/a.json": b"a" * 1000, "annotations/b.json": b"b" * 99}
ZIP = zipped(FILES)
MARK = ".some.zip.unpacked.json"


def remote_zip(*urls: str, body: bytes = ZIP, **more: Any) -> Remote:
    """A zip that is unpacked to ``annotations``."""
    facts = {"name": "some.zip", "into": "annotations", "unpacked_at_most": 10**6}
    return remote(*urls, body=body, **(facts | more))


def hows(result: Downloaded) -> list[str]:
    """How each file was obtained."""
    return [file.how for file in result.files]
