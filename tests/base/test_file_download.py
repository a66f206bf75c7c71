"""One file from servers that misbehave: it arrives whole, or there is one error and no file."""

import hashlib
import shutil
import socket
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import download_server as acts
import msgspec
import pytest
from download_server import (
    BODY,
    PARTIAL,
    SIZE,
    UNKNOWN,
    cut,
    good,
    left,
    remote,
    says,
    status,
)
from refusals import fails, refused

from nooch.base.download import download
from nooch.base.errors import OutputError


def test_a_good_server_is_asked_once(server, served, arrives, root, waits):
    files = served()
    result = arrives(files)
    (file,) = result.files
    source = server.url("/file.bin")
    assert (file.name, file.how, file.size, file.source) == ("file.bin", "downloaded", SIZE, source)
    assert (len(server.requests), server.sent, waits) == (1, SIZE, [])
    assert server.requests[0][1]["accept-encoding"] == "identity"
    assert server.requests[0][1]["user-agent"].startswith("nooch/")
    assert (result.next, result.notes) == (f"go on with {root}", [])
    # what is there is not fetched again
    assert [f.how for f in arrives(files).files] == ["there"]
    assert server.sent == SIZE


def test_connections_are_kept(server, fetched, root):
    ports = set()

    def act(handler, file):
        ports.add(handler.client_address)
        good(handler, file)

    names = [f"{i}.bin" for i in range(5)]
    fetched(*(remote(server.put(f"/{n}", n.encode(), act), name=n, body=n.encode()) for n in names))
    assert left(root) == names
    assert len(ports) == 1


# cut and stalled: the same server is asked for the rest


def silent(handler, file):
    handler.server.over.wait(20)


def chunks(handler, file):
    handler.head(200, Transfer_Encoding="chunked")
    handler.wfile.write(b"%x\r\n" % SIZE + BODY[:1_500_000])
    handler.hang_up()


def lie(by):
    def act(handler, file):
        start = handler.offset()
        span = f"bytes {start}-{SIZE - 1}/{SIZE}"
        handler.head(206, Content_Range=span, Content_Length=SIZE - start + by)
        handler.send(BODY[start:])
        handler.hang_up()

    return act


def ranged(content_range, body=BODY):
    return says(206, body, length=len(body), Content_Range=content_range)


_OTHER = ranged(f"bytes 1000000-{SIZE - 1}/{SIZE}", bytes(SIZE - 1_000_000))
RESUMED = {
    "two cuts": ([cut(2_000_000), cut(500_000)], ["bytes=2000000-", "bytes=2500000-"]),
    "no length": ([says(200, BODY[:1_500_000])], ["bytes=1500000-"]),
    "chunks": ([chunks], ["bytes=1500000-"]),
    "the rest is short": ([cut(1_000_000), lie(1000)], ["bytes=1000000-"]),
    "redirected": ([cut(1_000_000)], ["bytes=1000000-"]),
    "ranges are ignored": ([cut(1_000_000), acts.ignore_range], ["bytes=1000000-"]),
    "416": ([cut(1_000_000), status(416)], ["bytes=1000000-", None]),
    "the rest of another file": ([cut(1_000_000), _OTHER], ["bytes=1000000-", None]),
}
WRONG_RANGES = [
    f"bytes 0-{SIZE - 1}/{SIZE}", f"bytes 1000001-{SIZE - 1}/{SIZE}", "bytes 1000000-5/*", "",
    "pages 1-2/3", "bytes */9",
]  # fmt: skip
RESUMED |= {
    f"range {text!r}": ([cut(1_000_000), ranged(text)], ["bytes=1000000-", None])
    for text in WRONG_RANGES
}


@pytest.mark.parametrize("case", RESUMED)
def test_a_cut_is_resumed_by_range_and_never_stitched_wrongly(server, served, arrives, case):
    acts_of_server, ranges = RESUMED[case]
    arrives(served(*acts_of_server))
    assert server.ranges() == [None, *ranges]


STALLS = {"stalls": cut(2_000_000, wait=20), "trickles": acts.trickle(0.05), "no answer": silent}


@pytest.mark.parametrize("act", STALLS)
def test_a_stall_is_not_waited_for(server, served, arrives, act, hasty):
    arrives(served(STALLS[act]), patience=hasty)
    # on a busy machine a good answer may seem to stall, too
    assert len(server.requests) >= 2


def test_cuts_that_gain_something_are_not_counted_as_failures(server, fetched, root):
    # 12 of them, where 3 are allowed in a row
    body = BODY * 5
    fetched(remote(server.put("/file.bin", body, *[cut(1_200_000)] * 12), body=body))
    assert (root / "file.bin").read_bytes() == body
    assert server.sent == len(body)


def test_an_error_keeps_what_has_come_for_the_next_time(server, served, arrives, refused, root):
    files = served(cut(1_000_000), always=status(503))
    refused(files, "answers 503 Service Unavailable (tried 3 times)")
    page = says(200, b"<html>log in", Content_Type="text/html; charset=utf-8")
    refused(served(always=page), "sends a web page")
    assert left(root) == [PARTIAL]
    arrives(served())
    assert server.sent == SIZE + len(b"<html>log in")


LEFT = {
    "other bytes": (bytes(2_000_000), ["bytes=2000000-", None]),
    "too many bytes": (BODY + b"!", [f"bytes={SIZE + 1}-", None]),
    # killed after the last byte, before the check
    "all bytes": (BODY, []),
}


@pytest.mark.parametrize("case", LEFT)
def test_a_partial_file_of_an_earlier_run(server, served, arrives, root, case):
    content, ranges = LEFT[case]
    root.mkdir()
    (root / PARTIAL).write_bytes(content)
    arrives(served())
    assert server.ranges() == ranges


# refused: each mirror is named with its reason, and the next one is asked

ALGORITHMS = [f"{name}:{hashlib.new(name, BODY).hexdigest()}" for name in ("md5", "sha1", "sha256")]
_WRONG = {"body": BODY, "always": says(200, BODY[:-1] + b"?", length=SIZE)}
_SPAN = f"bytes 1000000-{SIZE - 1}/{SIZE + 5}"
_FAR = says(206, BODY[1_000_000:], length=SIZE - 1_000_000, Content_Range=_SPAN)
REFUSED = {
    "shorter": (says(200, BODY, length=SIZE - 9), f"offers {SIZE - 9:,} bytes instead of {SIZE:,}"),
    "longer": (says(200, BODY, length=SIZE + 9), f"offers {SIZE + 9:,} bytes instead of {SIZE:,}"),
    "endless": (acts.endless, f"sends more than {SIZE:,} bytes"),
    "wrong bytes": (says(200, BODY[:-1] + b"?", length=SIZE), "gives a file that has sha256"),
    "starts again": (says(200, BODY[:2_000_000], length=SIZE), "(tried 3 times)"),
    "a range unasked": (ranged(f"bytes 0-{SIZE - 1}/{SIZE}"), "instead of bytes 0 onwards"),
    "416": (status(416), "answers 416"),
    "a web page": (says(200, b"<html>", Content_Type="text/html"), "sends a web page"),
    "to itself": (status(302, Location="/bad"), "redirects more than 10 times"),
    "to a file": (status(302, Location="file:///etc/passwd"), "redirects from http to file addr"),
    "to ftp": (status(302, Location="ftp://127.0.0.1/x"), "redirects from http to ftp address"),
    "to no address": (status(302, Location="http://["), "which is not an address"),
    "to no host": (status(302, Location="http:///x"), ""),
    "to nowhere": (status(302), "redirects to nowhere"),
    "a status line": (acts.raw(b"HTTP/1.1 404 \x1b[2J\r\nContent-Length: 0\r\n\r\n"), "404 Not"),
    "no reply": (acts.raw(b""), "(tried 3 times)"),
    "no HTTP": (acts.raw(b"SSH-2.0\r\n"), ""),
    "two lengths": (acts.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 5, 6\r\n\r\nhello"), ""),
    **{f"{n}": (status(n, b""), f"answers {n}") for n in (400, 403, 404, 410, 418, 204, 304, 501)},
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_goes_to_the_next_mirror(server, arrives, refused, root, case):
    act, reason = REFUSED[case]
    bad = server.put("/bad", BODY, always=act)
    text = refused(remote(bad), reason)
    assert "\x1b" not in text
    assert left(root) in ([], [PARTIAL])
    assert len(server.requests) <= 11
    result = arrives(remote(bad, server.put("/good", BODY)))
    assert result.files[0].source == server.url("/good")


def test_a_mirror_is_not_blamed_for_the_beginning_of_another(server, arrives):
    # the first gives wrong bytes and breaks off, the second never sent the beginning
    bad = server.put("/bad", bytes(SIZE), cut(1_000_000), always=status(404))
    arrives(remote(bad, server.put("/good", BODY)))


def test_nobody_answers(refused, root, waits):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    files = remote(f"http://127.0.0.1:{port}/file.bin")
    refused(files, "Connection refused", "(tried 3 times)")
    assert (waits, left(root)) == ([1, 2], [])
    refused(remote("http://no.such.host.invalid/file.bin"), "cannot be resolved")


@pytest.mark.parametrize("checksum", ALGORITHMS)
def test_every_checksum_counts(served, fetched, refused, checksum):
    algorithm, _, right = checksum.partition(":")
    wrong = "0" * len(right)
    problem = f"has {algorithm} {right} instead of {wrong}"
    refused(served(checksum=f"{algorithm}:{wrong}"), problem)
    assert fetched(served(checksum=checksum)).files[0].checksum == checksum


def test_an_image_of_unknown_size_and_checksum(served, fetched, refused, root):
    refused(served(always=acts.endless, about=500_000, **UNKNOWN), "sends more than 2,000,000")
    refused(served(about=700_000, **UNKNOWN), f"offers {SIZE:,} bytes instead of 2,800,000")
    refused(served(about=SIZE, **UNKNOWN), "is not a JPEG image")
    assert left(root) == []
    jpeg = b"\xff\xd8\xff" + BODY
    (note,) = fetched(served(cut(1000), body=jpeg, about=SIZE, **UNKNOWN)).notes
    assert "no checksum is published for 1 images" in note
    assert (root / "file.bin").read_bytes() == jpeg


RETRY_AFTER = [("7", 7), ("0", 0), ("99999999999999999999", 60), ("soon", 1), (None, 1)]


def test_busy_for_a_while(served, arrives, root, waits):
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    past = format_datetime(datetime.now(UTC) - timedelta(days=1), usegmt=True)
    for after, expected in (*RETRY_AFTER, (past, 0)):
        waits.clear()
        arrives(served(status(503, Retry_After=after)))
        assert waits == [expected]
        (root / "file.bin").unlink()
    waits.clear()
    arrives(served(status(429, Retry_After=date)))
    assert 20 < waits[0] <= 30


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_redirects_are_followed(server, served, arrives, code):
    server.put("/there", BODY, cut(1_000_000))
    arrives(served(always=status(code, Location="/there")))
    assert [path for path, _ in server.requests] == ["/file.bin", "/there"] * 2
    assert server.ranges()[-1] == "bytes=1000000-"
    assert server.sent == SIZE


def test_a_redirect_from_https_to_http_is_refused():
    from nooch.base.http import MirrorError, redirected

    assert redirected("http://a/x", "https://b/y") == "https://b/y"
    with pytest.raises(MirrorError, match="from https to http"):
        redirected("https://a/x", "http://b/y")


def test_a_proxy_is_used_as_the_environment_says(server, served, arrives, root, monkeypatch):
    seen = []

    def act(handler, file):
        seen.append(handler.headers.get("Proxy-Authorization"))
        good(handler, file)

    # what a proxy is asked for is a whole address
    server.put("http://example.invalid/file.bin", BODY, act)
    monkeypatch.setenv("http_proxy", server.url("").replace("//", "//me:secret@"))
    monkeypatch.setenv("no_proxy", "localhost")
    arrives(remote("http://example.invalid/file.bin"))
    assert seen == ["Basic bWU6c2VjcmV0"]
    (root / "file.bin").unlink()
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    arrives(served())


# the folder


def test_another_file_of_that_name_is_never_replaced(server, served, fetched, root):
    root.mkdir()
    file, files = root / "file.bin", served()

    def stays(*parts):
        fails(lambda: fetched(files), *parts, kind=OutputError)

    file.write_text("mine")
    stays(f"is there already, but has 4 bytes instead of {SIZE:,}", "file.bin")
    file.write_bytes(bytes(SIZE))
    stays("is there already, but has sha256")
    assert file.read_bytes() == bytes(SIZE)
    file.unlink()
    file.mkdir()
    stays("is there already, but is not a file")
    assert server.requests == []


def test_room_is_checked_before(server, served, fetched, arrives, root, monkeypatch):
    root.mkdir()
    (root / PARTIAL).write_bytes(BODY[:1_000_000])
    usage, files = shutil.disk_usage(root), served()

    def free(size):
        monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=size))

    free(2 * SIZE - 1_000_001)
    zipped = msgspec.structs.replace(files, into="unpacked")
    fails(lambda: fetched(zipped), "unpacking needs 5.0 MB", str(root), kind=OutputError)
    assert server.requests == []
    free(SIZE - 1_000_000)
    arrives(files)


def test_a_disk_that_is_full_after_all(served, fetched, arrives, root):
    files = served()
    root.mkdir()
    (root / PARTIAL).symlink_to("/dev/full")
    fails(lambda: fetched(files), "No space left on device", PARTIAL, kind=OutputError)
    (root / PARTIAL).unlink()
    arrives(files)


def test_a_folder_that_cannot_be_made(served, fetched, root, tmp_path):
    (tmp_path / "file").write_text("")
    root.symlink_to(tmp_path / "file" / "below")
    fails(lambda: fetched(served()), "cannot write: File exists", kind=OutputError)


def test_progress_counts_bytes_and_files(served, fetched, monkeypatch):
    monkeypatch.setattr("nooch.base.download.LARGE", 1000)
    calls = []
    fetched(served(cut(2_000_000)), progress=lambda *what: calls.append(what))
    assert calls[0] == ("files", 0, 1)
    assert calls[-1] == ("files", 1, 1)
    steps = [done for what, done, total in calls if (what, total) == ("downloading file.bin", SIZE)]
    assert steps == sorted(steps)
    assert steps[-1] == SIZE


def test_an_unknown_collection(root):
    refused(lambda: download("coco-stuf", root), "did you mean coco-stuff?")
    assert not root.exists()
