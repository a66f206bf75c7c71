"""One file from its mirrors: resumed, retried, checked, and only then given its name."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

import msgspec
from urllib3.response import BaseHTTPResponse

from nooch.base.calls import StepProgress
from nooch.base.download import http
from nooch.base.download.http import Client, MirrorError, RangeError, RetryError
from nooch.base.download.zips import damage
from nooch.base.errors import DownloadError, unreadable
from nooch.base.files import replace_file, sha256_of, writing
from nooch.base.limits import BROKEN_JSON


class Remote(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file of a collection.

    Attributes:
        name: its name in the folder of downloads.
        urls: its addresses, tried in turn; http or https.
        size: bytes, or null if they are not published.
        md5: checksum in hexadecimal, as are ``sha1`` and ``sha256``. md5 and sha1 detect damage,
            not malice. Without any, the first download is recorded.
        about: estimate in bytes if ``size`` is null; a server that sends four times that is cut
            off.
        into: folder below the downloads to which it is unpacked, if it is a zip.
        unpacked_at_most: bytes beyond which the zip's contents are refused.
        recorded_in: file that size and checksum were taken from, if not the catalog.
        mirror: another file with the same contents, used if it exists already or this one cannot
            be downloaded.
    """

    name: str
    urls: tuple[str, ...]
    size: int | None = None
    md5: str | None = None
    sha1: str | None = None
    sha256: str | None = None
    about: int = 0
    into: str | None = None
    unpacked_at_most: int = 0
    recorded_in: str | None = None
    mirror: Remote | None = None

    @property
    def authority(self) -> str:
        """Origin of size and checksum, to add to a message, if it is not the catalog."""
        if self.recorded_in is None:
            return ""
        recorded = f"recorded in {self.recorded_in} at the first download"
        return f" ({recorded}; delete that to accept another version)"

    @property
    def checksum(self) -> str | None:
        """Such as ``md5:442b...``, or None if it is not known."""
        checksums = (("sha256", self.sha256), ("sha1", self.sha1), ("md5", self.md5))
        return next((f"{algorithm}:{value}" for algorithm, value in checksums if value), None)

    @property
    def choices(self) -> tuple[Remote, ...]:
        """The file and its mirrors, in the order in which they are tried."""
        return (self, *(self.mirror.choices if self.mirror else ()))

    @property
    def at_most(self) -> int:
        """Bytes beyond which a server is cut off."""
        return 4 * self.about if self.size is None else self.size

    @property
    def expected_size(self) -> int:
        """Bytes to expect."""
        return self.about if self.size is None else self.size


_OFTEN = 50
RECORD = "nooch_downloads.json"
"""Sizes and hashes, at the first download, of files without published ones."""


def fault(path: Path, remote: Remote) -> str | None:
    """Describe what is wrong with a file, or return None. Reads all of it.

    Without a known checksum, every member of a zip is tested instead, and the start of an image.
    """
    if not path.is_file():
        return "is not a file"
    size = path.stat().st_size
    if remote.size is not None and size != remote.size:
        return f"has {size:,} bytes instead of {remote.size:,}{remote.authority}"
    if remote.checksum is None and remote.name.endswith(".jpg"):
        with path.open("rb") as file:
            return None if file.read(3) == b"\xff\xd8\xff" else "is not a JPEG image"
    if remote.checksum is None:
        return damage(path, remote.unpacked_at_most)
    algorithm, _, expected = remote.checksum.partition(":")
    with path.open("rb") as file:
        # md5 and sha1 are what COCO's own server and others publish: against damage
        digest = hashlib.file_digest(file, lambda: hashlib.new(algorithm, usedforsecurity=False))
    actual = digest.hexdigest()
    if actual == expected:
        return None
    return f"has {algorithm} {actual} instead of {expected}{remote.authority}"


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
        entry = self._entries.get(remote.name)
        if entry is None or remote.checksum is not None:
            return remote
        return msgspec.structs.replace(
            remote, size=entry.size, sha256=entry.sha256, recorded_in=RECORD
        )

    def add(self, remote: Remote, path: Path, source: str) -> Remote:
        """Record a file that has just been obtained, if no checksum of it is known. Of thousands,
        the record is written now and then, and by ``write`` at the end.
        """
        if remote.checksum is not None:
            return remote
        self._entries[remote.name] = _Entry(path.stat().st_size, sha256_of(path), source)
        if len(self._entries) < _OFTEN or len(self._entries) % _OFTEN == 0:
            self.write()
        return self.complete(remote)

    def write(self) -> None:
        """Write the record, if there is anything to record."""
        if self._entries:
            text = msgspec.json.format(msgspec.json.encode(self._entries), indent=1)
            replace_file(self.path, text + b"\n")


_GAIN = 1 << 20
_CONTENT_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)")


def partial_of(final: Path) -> Path:
    """The file of the bytes that have come so far."""
    return final.with_name(f".{final.name}.partial")


def size_of(partial: Path) -> int:
    """Bytes that have come so far."""
    return partial.stat().st_size if partial.is_file() else 0


def fetch(remote: Remote, final: Path, client: Client, tell: StepProgress) -> str:
    """Download a file under its final name; returns the URL that gave it.

    Bytes of an earlier attempt are kept; where a checksum, or the members of a zip, show that they
    belong to another file, every mirror is asked once more for all of it. ``tell`` is called with
    the bytes so far, and all of them (an estimate if unknown).
    """
    reasons: dict[str, str] = {}
    partial = partial_of(final)
    with writing(partial, "make room or choose another folder; the same command then resumes"):
        for fresh in (False, True):
            restart = False
            for url in remote.urls:
                try:
                    _from_mirror(url, remote, partial, client, tell, fresh)
                except MirrorError as error:
                    reasons[url] = str(error)
                    restart = restart or isinstance(error, RangeError)
                else:
                    partial.replace(final)
                    return url
            if not restart:
                break
    raise DownloadError(
        "cannot be downloaded:" + "".join(f"\n  {url} {reason}" for url, reason in reasons.items()),
        where=remote.name,
        remedy=("run the same command again later to resume; or put the file there yourself"),
    )


def _from_mirror(
    url: str, remote: Remote, partial: Path, client: Client, tell: StepProgress, fresh: bool
) -> None:
    """Ask one mirror until it has given everything, and that is right, or it is given up.

    If ``fresh``, what has come does not count, but stays until the mirror really sends the file.
    """
    best = first = size_of(partial)
    resumed, failures = first > 0 and not fresh, 0
    while not resumed or size_of(partial) != remote.size:
        try:
            _transfer(url, remote, partial, 0 if fresh else size_of(partial), client, tell)
            break
        except RetryError as error:
            failures += 1
            size = size_of(partial)
            fresh = fresh and size == first
            resumed = size > 0 and not fresh
            # only what was never reached before counts as a gain: a server may restart each time
            if size - best >= _GAIN:
                best, failures = size, 0
            if failures >= client.patience.attempts:
                raise MirrorError(f"{error} (tried {failures} times)") from error
            client.patience.before_attempt(failures, error.after)
    if reason := fault(partial, remote):
        partial.unlink()
        # of a resumed file the first bytes may have been wrong, and not this mirror
        raise (RangeError if resumed else MirrorError)(f"gives a file that {reason}")


def _transfer(
    url: str, remote: Remote, partial: Path, offset: int, client: Client, tell: StepProgress
) -> None:
    """One request and its body; ``offset`` bytes are there."""
    with client.get(url, {"Range": f"bytes={offset}-"} if offset else {}) as response:
        start, total = _span(response, offset)
        _check_offer(response, remote, total)
        if offset and not start and total is None:
            raise RangeError("answers a range with something of unknown length")
        done, pace = start, http.Pace(client.patience)
        n_bytes = total if total is not None else remote.size
        # unbuffered, so that a kill loses nothing
        with partial.open("ab" if start else "wb", buffering=0) as file:
            while block := http.read_block(response):
                if done + len(block) > remote.at_most:
                    break
                file.write(block)
                done += len(block)
                tell(done, n_bytes or remote.expected_size)
                pace.count(len(block))
            os.fsync(file.fileno())
    if block:
        partial.unlink()
        raise MirrorError(f"sends more than {remote.at_most:,} bytes")
    if n_bytes is not None and done < n_bytes:
        raise RetryError(f"ended after {done:,} of {n_bytes:,} bytes")


def _span(response: BaseHTTPResponse, offset: int) -> tuple[int, int | None]:
    """First byte of the body, and size of the whole file if the server reports it."""
    if response.status == 200:
        length = response.headers.get("Content-Length", "")
        has_length = length.isdecimal() and not response.headers.get("Transfer-Encoding")
        return 0, int(length[:18]) if has_length else None
    text = response.headers.get("Content-Range", "")
    match = _CONTENT_RANGE.fullmatch(text.strip())
    if not offset or match is None or int(match[1]) != offset or int(match[2]) < offset:
        raise RangeError(f"answers with the range {text[:80]!r} instead of bytes {offset} onwards")
    return offset, None if match[3] == "*" else int(match[3])


def _check_offer(response: BaseHTTPResponse, remote: Remote, total: int | None) -> None:
    if response.headers.get("Content-Type", "").strip().lower().startswith("text/html"):
        # a portal or an error page with status 200: do not discard the partial file because of it
        raise MirrorError("sends a web page")
    encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding not in {"", "identity"}:
        raise MirrorError(f"sends it encoded as {encoding[:40]!r}, which was not asked for")
    if total is not None and remote.size is not None and total != remote.size:
        raise MirrorError(f"offers {total:,} bytes instead of {remote.size:,}{remote.authority}")
    if total is not None and total > remote.at_most:
        most = f"{remote.at_most:,} is the most that is accepted"
        raise MirrorError(f"offers {total:,} bytes, where {most}")
