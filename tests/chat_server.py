"""A server of chat completions on this machine, with vLLM's reply format and scripted faults."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from local_server import running
from PIL import Image

Act = Callable[["ChatHandler"], None]


def size_of(content: bytes) -> tuple[int, int]:
    """Width and height of an image."""
    with Image.open(io.BytesIO(content)) as image:
        return image.size


class ChatServer(ThreadingHTTPServer):
    """``acts`` are for the first requests, ``always`` is for the others.

    ``asked`` lists their bodies, ``keys`` their authorization; ``most`` is how many came at once.
    """

    daemon_threads = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), ChatHandler)
        self.acts: list[Act] = []
        self.always: Act = says("Yes")
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.paths: list[str] = []
        self.models: list[dict[str, Any]] = []
        self.here = self.most = 0
        self.lock = threading.Lock()
        self.over = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def questions(self) -> list[str]:
        return [body["messages"][0]["content"][1]["text"] for body in self.asked]

    def image(self, number: int) -> tuple[str, bytes]:
        """Type and bytes of the image of a request."""
        url = self.asked[number]["messages"][0]["content"][0]["image_url"]["url"]
        kind, _, data = url.partition(";base64,")
        return kind.removeprefix("data:"), base64.b64decode(data, validate=True)

    def size_sent(self, number: int) -> int:
        """Characters of the image of a request, as they were sent."""
        url = self.asked[number]["messages"][0]["content"][0]["image_url"]["url"]
        return len(url.partition(";base64,")[2])

    def handle_error(self, *_: object) -> None:
        """Clients go away, that is part of it."""


class ChatHandler(BaseHTTPRequestHandler):
    server: ChatServer
    protocol_version = "HTTP/1.1"
    timeout = 20
    # in one packet: a second one would wait for the first one's confirmation
    wbufsize = -1

    def do_POST(self) -> None:
        server = self.server
        self.body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with server.lock:
            server.asked.append(self.body)
            server.keys.append(self.headers["Authorization"])
            server.paths.append(self.path)
            act = server.acts.pop(0) if server.acts else server.always
            server.here += 1
            server.most = max(server.most, server.here)
        try:
            act(self)
        finally:
            with server.lock:
                server.here -= 1

    def do_GET(self) -> None:
        """The list of models."""
        listed = self.path == "/v1/models" and self.server.models
        self.send_response(200 if listed else 404)
        content = json.dumps({"object": "list", "data": self.server.models}).encode()
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass

    def send(self, code: int, content: bytes, **headers: object) -> None:
        with self.server.lock:
            # a client that has the reply may send the next request at once
            self.server.here -= 1
        self.send_response(code)
        for name, value in {"Content_Length": len(content), **headers}.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        self.wfile.write(content)
        self.wfile.flush()
        with self.server.lock:
            self.server.here += 1


def reply(text: Any, logprobs: Any = None, *, finish: str = "stop", **message: Any) -> bytes:
    """A completion as vLLM 0.6 writes it; ``text`` may be a list of parts."""
    message = {"role": "assistant", "content": text, "tool_calls": [], **message}
    choice = {"index": 0, "message": message, "logprobs": logprobs, "finish_reason": finish}
    usage = {"prompt_tokens": 9, "total_tokens": 11, "completion_tokens": 2}
    made = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m"}
    whole = {**made, "choices": [choice], "usage": usage, "prompt_logprobs": None}
    return json.dumps(whole, ensure_ascii=False).encode()


def token(text: str, *alternatives: tuple[str, float]) -> dict[str, Any]:
    """A token of ``logprobs.content`` with its alternatives."""
    listed = [{"token": word, "logprob": p, "bytes": [*word.encode()]} for word, p in alternatives]
    return {"token": text, "logprob": -0.1, "bytes": [*text.encode()], "top_logprobs": listed}


def stream(pieces: list[dict[str, Any]], *, ends: bool = True, line: str = "\n") -> bytes:
    """A completion as events, though none was asked for; each piece is a ``delta``, its key
    ``logprobs`` next to it.
    """
    written = [": a comment"]
    for piece in [{"role": "assistant", "content": ""}, *pieces]:
        delta = {name: value for name, value in piece.items() if name != "logprobs"}
        choice = {"index": 0, "delta": delta, "logprobs": piece.get("logprobs")}
        written.append(f"data: {json.dumps({'choices': [{**choice, 'finish_reason': None}]})}")
    if ends:
        last = [{"index": 0, "delta": {}, "finish_reason": "stop"}]
        written += [f"data: {json.dumps({'choices': last})}", 'data: {"choices": []}']
        written.append("data: [DONE]")
    return "".join(f"{event}{line}{line}" for event in written).encode()


def says(text: Any, *tokens: dict[str, Any], **message: Any) -> Act:
    logprobs = {"content": list(tokens)} if tokens else None
    return lambda handler: handler.send(200, reply(text, logprobs, **message))


def sends(content: bytes, code: int = 200, **headers: object) -> Act:
    return lambda handler: handler.send(code, content, **headers)


def refuses(code: int, message: str = "no", **headers: object) -> Act:
    error = {"object": "error", "message": message, "type": "X", "param": None, "code": code}
    return sends(json.dumps(error).encode(), code, **headers)


def hangs(handler: ChatHandler) -> None:
    """No reply, until the test is over."""
    handler.server.over.wait()
    hangs_up(handler)


def hangs_up(handler: ChatHandler) -> None:
    handler.close_connection = True
    with contextlib.suppress(OSError):
        handler.connection.shutdown(socket.SHUT_RDWR)


def cuts(handler: ChatHandler) -> None:
    """Less than announced."""
    handler.send(200, b'{"choices"', Content_Length=100)
    hangs_up(handler)


def refuses_field(name: str, message: str, otherwise: Act, code: int = 400) -> Act:
    """An error where a request has the field."""
    return lambda handler: (refuses(code, message) if name in handler.body else otherwise)(handler)


def thinks(thought: int, *, apart: bool = True) -> Act:
    """A model that says Yes after so many tokens of reasoning, if it may be so long."""

    def act(handler: ChatHandler) -> None:
        most = handler.body.get("max_tokens", 10**6)
        text = "No, wait. " * (min(most, thought) // 3)
        ends = most > thought
        if apart:
            content, more = "Yes" if ends else None, {"reasoning_content": text}
        else:
            content, more = f"<think>{text}{'</think>Yes' if ends else ''}", {}
        handler.send(200, reply(content, finish="stop" if ends else "length", **more))

    return act


def chatting() -> contextlib.AbstractContextManager[ChatServer]:
    return running(ChatServer())


@contextlib.contextmanager
def chatting_alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    """A server in an environment without proxies and keys."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    with chatting() as server:
        yield server
