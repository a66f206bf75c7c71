"""One file from its mirrors: resumed, retried, checked, and only then given its name."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec
from urllib3.response import BaseHTTPResponse

from nooch.base.calls import StepProgress
from nooch.base.download import http
from nooch.base.download.catalogue import Remote
from nooch.base.download.http import Client, MirrorError, RangeError, RetryError
from nooch.base.download.zips import damage
from nooch.base.errors import DownloadError, OutputError, unreadable
from nooch.base.files import replace_file, sha256_of
from nooch.base.limits import BROKEN_JSON


class Origin(msgspec.Struct, frozen=True):
    """Where the bytes come from (as asked for, before redirects), and what shows that the file
    there is still the same: a strong ETag or a Last-Modified date, or null; ``total`` may be
    null, too.
    """

    url: str
    validator: str | None = None
    total: int | None = None


class PartialFile:
    """``.NAME.partial`` with ``.NAME.partial.json``.

    If ``distrusted``, existing bytes do not count, but stay until a server really sends the file.
    """

    def __init__(self, final: Path) -> None:
        self.final = final
        self.distrusted = False
        self.path = final.with_name(f".{final.name}.partial")
        self._sidecar = final.with_name(f".{final.name}.partial.json")

    @property
    def size(self) -> int:
        """Bytes that exist and count."""
        return self.path.stat().st_size if self.path.is_file() and not self.distrusted else 0

    @property
    def origin(self) -> Origin | None:
        """The recorded origin, or None if there is none that can be read."""
        try:
            return msgspec.json.decode(self._sidecar.read_bytes(), type=Origin)
        except (FileNotFoundError, *BROKEN_JSON):
            return None

    def note(self, origin: Origin) -> None:
        """Record where the bytes come from, before any of them is written."""
        replace_file(self._sidecar, msgspec.json.encode(origin))

    def open(self) -> BinaryIO:
        """The file to append to; unbuffered, so that a kill loses nothing."""
        return self.path.open("ab", buffering=0)

    def clear(self) -> None:
        """Delete the bytes and their origin."""
        self.distrusted = False
        # the bytes first: without their origin they would be resumed from any server
        self.path.unlink(missing_ok=True)
        self._sidecar.unlink(missing_ok=True)

    def install(self) -> None:
        """Give the checked file its final name."""
        with self.path.open("rb") as file:
            os.fsync(file.fileno())
        self.path.replace(self.final)
        self._sidecar.unlink(missing_ok=True)


RECORD = "nooch_downloads.json"
"""Sizes and hashes, at the first download, of files without published ones."""


def fault(path: Path, remote: Remote) -> str | None:
    """What is wrong with a file, or None. Reads all of it.

    Without a known checksum, every member of the zip is tested instead.
    """
    if not path.is_file():
        return "is no file"
    size = path.stat().st_size
    if remote.size is not None and size != remote.size:
        return f"has {size:,} bytes instead of {remote.size:,}{remote.authority}"
    if remote.checksum is None:
        return damage(path, remote.unpacked_at_most)
    algorithm, _, wanted = remote.checksum.partition(":")
    with path.open("rb") as file:
        # md5 and sha1 are what COCO's own server and others publish: against damage
        digest = hashlib.file_digest(file, lambda: hashlib.new(algorithm, usedforsecurity=False))
    actual = digest.hexdigest()
    if actual == wanted:
        return None
    return f"has {algorithm} {actual} instead of {wanted}{remote.authority}"


class _Entry(msgspec.Struct, frozen=True):
    size: int
    sha256: str
    source: str


class DownloadRecord:
    """The record of a folder of downloads."""

    def __init__(self, root: Path) -> None:
        self.path = root / RECORD
        self._entries: dict[str, _Entry] = {}
        if self.path.exists():
            problem = "the record of earlier downloads cannot be read"
            remedy = "delete it; what is there is then recorded again"
            broken = (*BROKEN_JSON, OSError)
            with unreadable(self.path, errors=broken, problem=problem, remedy=remedy):
                self._entries = msgspec.json.decode(self.path.read_bytes(), type=dict[str, _Entry])

    def complete(self, remote: Remote) -> Remote:
        """The file with its recorded size and hash, if the catalog has none."""
        known = self._entries.get(remote.name)
        if known is None or remote.checksum is not None:
            return remote
        return msgspec.structs.replace(
            remote, size=known.size, sha256=known.sha256, recorded_in=RECORD
        )

    def add(self, remote: Remote, path: Path, source: str) -> Remote:
        """Record a file that has just been obtained, if no checksum of it is known."""
        if remote.checksum is not None:
            return remote
        self._entries[remote.name] = _Entry(path.stat().st_size, sha256_of(path), source)
        text = msgspec.json.format(msgspec.json.encode(self._entries), indent=1)
        replace_file(self.path, text + b"\n")
        return self.complete(remote)


_GAIN = 1 << 20
_CONTENT_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)")


def fetch(remote: Remote, partial: PartialFile, client: Client, tell: StepProgress) -> str:
    """Download a file under its final name; returns the URL that gave it.

    Existing bytes are kept if the server, or a checksum, proves that they belong to the same file.
    Otherwise every mirror is asked once more for all of it. ``tell`` is called with the bytes so
    far, and all of them (an estimate if unknown).
    """
    reasons: dict[str, str] = {}
    with _writing(partial):
        for fresh in (False, True):
            restart = False
            for url in remote.urls:
                partial.distrusted = fresh
                try:
                    _from_mirror(url, remote, partial, client, tell)
                except MirrorError as error:
                    reasons[url] = str(error)
                    restart = restart or isinstance(error, RangeError)
                else:
                    return url
            if not restart:
                break
    raise DownloadError(
        "cannot be downloaded:" + "".join(f"\n  {url} {reason}" for url, reason in reasons.items()),
        where=remote.name,
        remedy=(
            "run the same command again later, it resumes where it stopped; or put the file there"
            " yourself"
        ),
    )


@contextlib.contextmanager
def _writing(partial: PartialFile) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if isinstance(error, OutputError):
            raise
        raise OutputError(
            f"cannot be written: {error.strerror or error}",
            where=partial.path,
            remedy="make room or choose another folder; the same command then resumes",
        ) from error


def _from_mirror(
    url: str, remote: Remote, partial: PartialFile, client: Client, tell: StepProgress
) -> None:
    """Ask one mirror until it has given everything, or is given up."""
    resumed = partial.size > 0
    best, failures = partial.size, 0
    while not _is_whole(partial, remote):
        try:
            _transfer(url, remote, partial, client, tell)
            break
        except RetryError as error:
            failures += 1
            # only what was never reached before counts as a gain: a server may restart each time
            if partial.size - best >= _GAIN:
                best, failures = partial.size, 0
            if failures >= client.patience.attempts:
                raise MirrorError(f"{error} (tried {failures} times)") from error
            client.patience.before_attempt(failures, error.after)
    _finish(remote, partial, resumed=resumed)


def _is_whole(partial: PartialFile, remote: Remote) -> bool:
    """Whether all bytes exist, as after a kill between the last one and the check."""
    origin = partial.origin
    total = remote.size if remote.size is not None else origin.total if origin else None
    return total is not None and total > 0 and partial.size == total


def _finish(remote: Remote, partial: PartialFile, *, resumed: bool) -> None:
    reason = fault(partial.path, remote)
    if reason is None:
        partial.install()
        return
    partial.clear()
    # of a resumed file the first bytes may have been wrong, and not this mirror
    raise (RangeError if resumed else MirrorError)(f"gives a file that {reason}")


def _transfer(
    url: str, remote: Remote, partial: PartialFile, client: Client, tell: StepProgress
) -> None:
    """One request and its body."""
    offset = _keep(url, remote, partial)
    origin = partial.origin
    headers = {"Range": f"bytes={offset}-"} if offset else {}
    same = origin if offset and origin is not None and origin.url == url else None
    if same is not None and same.validator:
        headers["If-Range"] = same.validator
    with client.get(url, headers) as response:
        start, total = _span(response, offset)
        _check_offer(response, remote, total)
        validator = _validator(response)
        known = same.validator if same and start else None
        if known and validator and validator != known:
            raise RangeError("has another version of the file than at the beginning")
        if offset and not start and total is None:
            raise RangeError("answers a range with something of unknown length")
        if not start:
            partial.clear()
        partial.note(Origin(url, validator or known, total))
        _write(response, remote, partial, start, total, client, tell)


def _keep(url: str, remote: Remote, partial: PartialFile) -> int:
    """Bytes to resume from; what cannot belong to the file is dropped."""
    size, origin = partial.size, partial.origin
    proven = origin is not None and origin.url == url and bool(origin.validator)
    if size and (size > remote.at_most or (remote.checksum is None and not proven)):
        partial.clear()
        return 0
    return size


def _span(response: BaseHTTPResponse, offset: int) -> tuple[int, int | None]:
    """First byte of the body, and size of the whole file if the server reports it."""
    if response.status == 200:
        length = response.headers.get("Content-Length", "")
        known = length.isdecimal() and not response.headers.get("Transfer-Encoding")
        return 0, int(length[:18]) if known else None
    text = response.headers.get("Content-Range", "")
    match = _CONTENT_RANGE.fullmatch(text.strip())
    if not offset or match is None or int(match[1]) != offset or int(match[2]) < offset:
        raise RangeError(f"answers with the range {text[:80]!r} instead of bytes {offset} onwards")
    return offset, None if match[3] == "*" else int(match[3])


def _check_offer(response: BaseHTTPResponse, remote: Remote, total: int | None) -> None:
    if response.headers.get("Content-Type", "").strip().lower().startswith("text/html"):
        # a portal or an error page that says 200: what is there must not be dropped for it
        raise MirrorError("sends a web page")
    encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding not in {"", "identity"}:
        raise MirrorError(f"sends it encoded as {encoding[:40]!r}, which was not asked for")
    if total is not None and remote.size is not None and total != remote.size:
        raise MirrorError(f"offers {total:,} bytes instead of {remote.size:,}{remote.authority}")
    if total is not None and total > remote.at_most:
        most = f"{remote.at_most:,} is the most that is accepted"
        raise MirrorError(f"offers {total:,} bytes, where {most}")


def _validator(response: BaseHTTPResponse) -> str | None:
    """What If-Range takes: a weak ETag does not prove that the bytes are the same."""
    etag = response.headers.get("ETag", "")
    return etag if etag.startswith('"') else response.headers.get("Last-Modified")


def _write(
    response: BaseHTTPResponse,
    remote: Remote,
    partial: PartialFile,
    start: int,
    total: int | None,
    client: Client,
    tell: StepProgress,
) -> None:
    done, pace = start, http.Pace(client.patience)
    wanted = total if total is not None else remote.size
    with partial.open() as file:
        while block := http.read_block(response):
            if done + len(block) > remote.at_most:
                break
            file.write(block)
            done += len(block)
            tell(done, wanted or remote.expected_size)
            pace.count(len(block))
    if block:
        partial.clear()
        raise MirrorError(f"sends more than {remote.at_most:,} bytes")
    if wanted is not None and done < wanted:
        raise RetryError(f"ended after {done:,} of {wanted:,} bytes")
