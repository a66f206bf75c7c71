"""One file from servers that misbehave: it arrives whole, or there is one error and no file."""

import gzip
import hashlib
import shutil
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import download_server as acts
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
    assert result.next == f"go on with {root}"
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


# lies about length


@pytest.mark.parametrize("by", [-1000, 1000])
def test_a_wrong_length_is_another_file(server, served, arrives, refused, root, by):
    files = served(always=says(200, BODY, length=SIZE + by))
    refused(files, f"offers {SIZE + by:,} bytes instead of {SIZE:,}")
    assert left(root) == []
    arrives(remote(*files.urls, server.put("/mirror", BODY)))


@pytest.mark.parametrize("by", [-1000, 1000])
def test_a_wrong_length_of_the_rest(served, arrives, by):
    def lie(handler, file):
        start = handler.offset()
        span = f"bytes {start}-{SIZE - 1}/{SIZE}"
        handler.head(206, Content_Range=span, Content_Length=SIZE - start + by)
        handler.send(BODY[start:])
        handler.hang_up()

    arrives(served(cut(1_000_000), lie))


def chunks(handler, file):
    handler.head(200, Transfer_Encoding="chunked")
    handler.wfile.write(b"%x\r\n" % SIZE + BODY[:1_500_000])
    handler.hang_up()


@pytest.mark.parametrize("act", [says(200, BODY[:1_500_000]), chunks], ids=["no length", "chunks"])
def test_without_a_length_the_size_decides(server, served, arrives, act):
    arrives(served(act))
    assert server.ranges() == [None, "bytes=1500000-"]


def test_more_than_there_should_be(server, served, refused, root):
    refused(served(always=acts.endless), f"sends more than {SIZE:,} bytes")
    assert left(root) == []
    assert server.sent < 5 * SIZE + 20_000_000


def test_a_file_of_unknown_size_that_is_far_too_large(served, refused, root):
    endless = served(always=acts.endless, about=500_000, **UNKNOWN)
    refused(endless, "sends more than 2,000,000 bytes")
    assert left(root) == []
    refused(served(about=700_000, **UNKNOWN), "2,800,000 is the most")


# wrong bytes


def test_wrong_bytes_go_and_the_next_mirror_is_asked(server, arrives, refused, root):
    bad = server.put("/bad", BODY[:-1] + b"?")
    text = refused(remote(bad), "gives a file that has sha256")
    assert remote().sha256 in text
    assert left(root) == []
    result = arrives(remote(bad, server.put("/good", BODY)))
    assert result.files[0].source == server.url("/good")
    assert server.ranges() == [None, None, None]


@pytest.mark.parametrize("algorithm", ["md5", "sha1"])
def test_other_checksums_count_too(served, fetched, refused, algorithm):
    right = hashlib.new(algorithm, BODY).hexdigest()
    wrong = "0" * len(right)
    files = served(sha256=None, **{algorithm: wrong})
    refused(files, f"has {algorithm} {right} instead of {wrong}")
    result = fetched(served(sha256=None, **{algorithm: right}))
    assert result.files[0].checksum == f"{algorithm}:{right}"


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


def test_a_mirror_is_not_blamed_for_the_beginning_of_another(server, arrives, root):
    # the first gives wrong bytes and breaks off, the second is right but never asked for the
    # beginning
    bad = server.put("/bad", bytes(SIZE), cut(1_000_000), always=status(404))
    arrives(remote(bad, server.put("/good", BODY)))
    # ... also where the first does the same again
    (root / "file.bin").unlink()
    again = [cut(1_000_000), status(404), cut(1_000_000)]
    bad = server.put("/bad", bytes(SIZE), *again, always=status(404))
    arrives(remote(bad, server.url("/good")))


def test_an_encoded_body_is_refused(served, refused):
    packed = gzip.compress(b"0" * 100)
    act = says(200, packed, length=len(packed), Content_Encoding="gzip")
    refused(served(always=act), "encoded as 'gzip'")


# refusals, redirects, waiting


@pytest.mark.parametrize("code", [400, 401, 403, 404, 410, 418, 204, 304, 501])
def test_a_refusal_goes_to_the_next_mirror_at_once(server, arrives, refused, waits, code):
    bad = server.put("/bad", b"", always=status(code, b""))
    refused(remote(bad), f"answers {code}")
    arrives(remote(bad, server.put("/good", BODY)))
    assert waits == []


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


LOCATIONS = {
    "/file.bin": "redirects more than 10 times",
    "file:///etc/passwd": "redirects from http to file address",
    "ftp://127.0.0.1/x": "redirects from http to ftp address",
    "http://[": "which is not an address",
    "http:///x": "",
    None: "redirects to nowhere",
}


@pytest.mark.parametrize("location", LOCATIONS)
def test_redirects_that_are_refused(server, served, refused, location):
    refused(served(always=status(302, Location=location)), LOCATIONS[location])
    assert len(server.requests) <= 11


def test_a_redirect_from_https_to_http_is_refused():
    from nooch.base.download.http import MirrorError, redirected

    assert redirected("http://a/x", "https://b/y") == "https://b/y"
    with pytest.raises(MirrorError, match="from https to http"):
        redirected("https://a/x", "http://b/y")


def test_a_web_page_does_not_replace_what_has_come(served, refused, root):
    page = says(200, b"<html>log in", Content_Type="text/html; charset=utf-8")
    refused(served(cut(1_000_000), always=page), "sends a web page")
    assert (root / PARTIAL).stat().st_size == 1_000_000
    refused(served(says(200, b"who knows"), always=status(404)), "answers 404")
    assert (root / PARTIAL).stat().st_size == 1_000_000


NO_HTTP = [b"", b"SSH-2.0\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 5, 6\r\n\r\nhello"]


@pytest.mark.parametrize("data", [*NO_HTTP, b"\xff" * 99])
def test_no_http_at_all(served, refused, data):
    refused(served(always=acts.raw(data)))


def test_control_characters_of_a_server_are_not_printed(served, refused):
    answer = b"HTTP/1.1 404 \x1b[2Jgone\r\nContent-Length: 0\r\n\r\n"
    assert "\x1b" not in refused(served(always=acts.raw(answer)), "answers 404 Not Found")


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

    free(SIZE - 1_000_001)
    needed = "needs 2.0 MB, and 2.0 MB are free"
    fails(lambda: fetched(files), needed, str(root), kind=OutputError)
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


def test_folders_that_cannot_be_used(served, fetched, root, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    root.symlink_to(tmp_path / "file" / "below")
    fails(lambda: fetched(served()), "cannot write: File exists", kind=OutputError)
    root.unlink()
    monkeypatch.setattr("nooch.base.download.downloads.os.access", lambda *_: False)
    fails(lambda: fetched(served()), "no permission to write here", kind=OutputError)


def test_progress_counts_bytes_and_files(served, fetched, monkeypatch):
    monkeypatch.setattr("nooch.base.download.downloads.LARGE", 1000)
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
