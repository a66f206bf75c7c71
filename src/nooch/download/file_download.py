"""One file from its mirrors: carried on where it stopped, tried again, checked, and only then given
its name.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from urllib3.response import BaseHTTPResponse

from nooch.download.catalogue import Remote
from nooch.download.file_checks import fault
from nooch.download.http_requests import (
    Client,
    MirrorError,
    Pace,
    RangeError,
    RetryError,
    read_block,
)
from nooch.download.partial_files import Origin, Partial
from nooch.errors import DownloadError, OutputError
from nooch.shared_types import StepProgress

__all__ = ["fetch"]

_GAIN = 1 << 20
_CONTENT_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)")


def fetch(remote: Remote, partial: Partial, client: Client, tell: StepProgress) -> str:
    """Download a file under its final name; returns the URL that gave it.

    Bytes that are there already are kept where the server proves, or a checksum can, that they
    belong to the same file. Where they turn out not to, every mirror is asked once more for the
    whole.

    Args:
        remote: the file.
        partial: where its beginning lies, or will.
        client: what makes the requests.
        tell: called with the bytes that are there, and all of them (an estimate where nobody
            knows).

    Raises:
        DownloadError: no mirror gives the file; says why, for each of them.
        OutputError: it cannot be written.
    """
    reasons: dict[str, str] = {}
    with _writing(partial):
        for fresh in (False, True):
            anew = False
            for url in remote.urls:
                partial.distrusted = fresh
                try:
                    _from_mirror(url, remote, partial, client, tell)
                except MirrorError as error:
                    reasons[url] = str(error)
                    anew = anew or isinstance(error, RangeError)
                else:
                    return url
            if not anew:
                break
    raise DownloadError(
        "cannot be downloaded:" + "".join(f"\n  {url} {reason}" for url, reason in reasons.items()),
        where=remote.name,
        remedy=(
            "run the same command again later, it carries on where it stopped; or name with"
            " `source` a folder that has the file"
        ),
    )


@contextlib.contextmanager
def _writing(partial: Partial) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if isinstance(error, OutputError):
            raise
        raise OutputError(
            f"cannot be written: {error.strerror or error}",
            where=partial.path,
            remedy="make room or choose another folder; the same command then carries on",
        ) from error


def _from_mirror(
    url: str, remote: Remote, partial: Partial, client: Client, tell: StepProgress
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
            # only what was never reached before counts as a gain: a server may begin anew each time
            if partial.size - best >= _GAIN:
                best, failures = partial.size, 0
            if failures >= client.patience.attempts:
                raise MirrorError(f"{error} (tried {failures} times)") from error
            client.patience.before_attempt(failures, error.after)
    _finish(remote, partial, resumed=resumed)


def _is_whole(partial: Partial, remote: Remote) -> bool:
    """Whether all bytes are there, as after a kill between the last one and the check."""
    origin = partial.origin
    total = remote.size if remote.size is not None else origin.total if origin else None
    return total is not None and total > 0 and partial.size == total


def _finish(remote: Remote, partial: Partial, *, resumed: bool) -> None:
    reason = fault(partial.path, remote)
    if reason is None:
        partial.install()
        return
    partial.clear()
    if resumed:
        # it may be the beginning that was wrong, and not this mirror
        raise RangeError(f"gives a file that {reason}")
    raise MirrorError(f"gives a file that {reason}")


def _transfer(
    url: str, remote: Remote, partial: Partial, client: Client, tell: StepProgress
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
        if (
            start
            and same is not None
            and same.validator
            and validator
            and validator != same.validator
        ):
            raise RangeError("has another version of the file than at the beginning")
        if offset and not start and total is None:
            raise RangeError("answers a range with something of unknown length")
        if not start:
            partial.clear()
        partial.note(Origin(url, validator or (same.validator if same and start else None), total))
        _write(response, remote, partial, start, total, client, tell)


def _keep(url: str, remote: Remote, partial: Partial) -> int:
    """Bytes to carry on from; what cannot belong to the file is dropped."""
    size, origin = partial.size, partial.origin
    proven = origin is not None and origin.url == url and bool(origin.validator)
    if size and (size > remote.at_most or (remote.checksum is None and not proven)):
        partial.clear()
        return 0
    return size


def _span(response: BaseHTTPResponse, offset: int) -> tuple[int, int | None]:
    """First byte of the body, and size of the whole file where the server says it."""
    if response.status == 200:
        length = response.headers.get("Content-Length", "")
        return 0, (
            int(length[:18])
            if length.isdecimal() and not response.headers.get("Transfer-Encoding")
            else None
        )
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
        raise MirrorError(
            f"offers {total:,} bytes, where {remote.at_most:,} is the most that is accepted"
        )


def _validator(response: BaseHTTPResponse) -> str | None:
    """What If-Range takes: a weak ETag does not prove that the bytes are the same."""
    etag = response.headers.get("ETag", "")
    return etag if etag.startswith('"') else response.headers.get("Last-Modified")


def _write(
    response: BaseHTTPResponse,
    remote: Remote,
    partial: Partial,
    start: int,
    total: int | None,
    client: Client,
    tell: StepProgress,
) -> None:
    done, pace = start, Pace(client.patience)
    wanted = total if total is not None else remote.size
    with partial.open() as file:
        while block := read_block(response):
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
