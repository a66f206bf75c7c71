"""One file from servers that misbehave: it ends right, or with one error and nothing under the
final name.
"""

import gzip
import hashlib
import socket
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest
from download_server import (
    BODY,
    SIZE,
    cut,
    endless,
    good,
    ignore_range,
    left,
    raw,
    remote,
    says,
    stall,
    status,
    trickle,
    zipped,
)  # fmt: skip
from refusals import fails

from nooch.download import download
from nooch.errors import DownloadError, OutputError

PARTIAL = ".file.bin.partial"
SIDECAR = ".file.bin.partial.json"


def _right(root):
    assert (root / "file.bin").read_bytes() == BODY
    assert left(root) == ["file.bin"]


def _refused(fetched, root, files, *parts):
    """One error, which names every mirror, and nothing under the final name."""
    text = fails(
        lambda: fetched(files), "cannot be downloaded", *files.urls, *parts, kind=DownloadError
    )
    assert "`source`" in text
    assert not (root / "file.bin").exists()
    return text


def test_a_good_server_is_asked_once(server, fetched, root, waits):
    result = fetched(remote(server.put("/file.bin", BODY)))
    _right(root)
    assert [(f.name, f.how, f.size, f.source) for f in result.files] == [
        ("file.bin", "downloaded", SIZE, server.url("/file.bin"))
    ]
    assert (len(server.requests), server.sent, waits) == (1, SIZE, [])
    assert server.requests[0][1]["accept-encoding"] == "identity"
    assert server.requests[0][1]["user-agent"].startswith("nooch/")
    assert result.next == f"go on with {root}"


def test_what_is_there_is_not_fetched_again(server, fetched, root):
    files = remote(server.put("/file.bin", BODY))
    fetched(files)
    result = fetched(files)
    assert [f.how for f in result.files] == ["there"]
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


# cut and stalled


@pytest.mark.parametrize("etag", ['"v1"', 'W/"v1"', None])
@pytest.mark.parametrize("modified", ["Wed, 21 Oct 2015 07:28:00 GMT", None])
def test_a_cut_is_carried_on_by_range(server, fetched, root, waits, etag, modified):
    url = server.put("/file.bin", BODY, cut(2_000_000), cut(500_000), etag=etag, modified=modified)
    fetched(remote(url))
    _right(root)
    assert server.ranges() == [None, "bytes=2000000-", "bytes=2500000-"]
    validator = etag if etag == '"v1"' else modified
    assert [headers.get("if-range") for _, headers in server.requests] == [
        None,
        validator,
        validator,
    ]
    assert server.sent == SIZE
    assert waits == [1, 1]


@pytest.mark.parametrize("act", [stall(2_000_000), trickle(0.05)], ids=["stalls", "trickles"])
def test_a_stall_is_not_waited_for(server, fetched, root, act, hasty):
    fetched(remote(server.put("/file.bin", BODY, act)), patience=hasty)
    _right(root)
    # on a busy machine a good answer may seem to stall, too
    assert len(server.requests) >= 2


def test_a_server_that_stalls_before_it_answers(server, fetched, root, hasty):
    def silent(handler, file):
        handler.server.over.wait(20)

    fetched(remote(server.put("/file.bin", BODY, silent)), patience=hasty)
    _right(root)


def test_cuts_that_gain_something_are_not_counted_as_failures(server, fetched, root):
    # 12 of them, where 3 are allowed in a row
    body = BODY * 5
    fetched(remote(server.put("/file.bin", body, *[cut(1_200_000)] * 12), body=body))
    assert (root / "file.bin").read_bytes() == body
    assert server.sent == len(body)


def test_cuts_that_gain_nothing_new_come_to_an_end(server, fetched, root):
    # each time from the beginning: bytes come, but no end
    def act(handler, file):
        handler.head(200, Content_Length=SIZE)
        handler.send(BODY[:2_000_000])
        handler.hang_up()

    _refused(
        fetched,
        root,
        remote(server.put("/file.bin", BODY, always=act)),
        "(tried 3 times)",
        "Connection broken",
    )
    assert len(server.requests) == 4


def test_an_error_keeps_what_has_come_for_the_next_time(server, fetched, root):
    url = server.put("/file.bin", BODY, cut(1_000_000), always=status(503))
    _refused(fetched, root, remote(url), "answers 503 Service Unavailable (tried 3 times)")
    assert left(root) == [PARTIAL, SIDECAR]
    server.put("/file.bin", BODY)
    fetched(remote(url))
    _right(root)
    assert server.sent == SIZE


def test_nobody_answers(fetched, root, waits):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    _refused(
        fetched,
        root,
        remote(f"http://127.0.0.1:{port}/file.bin"),
        "Connection refused",
        "(tried 3 times)",
    )
    assert waits == [1, 2]
    assert left(root) == []


def test_no_such_host(fetched, root):
    _refused(fetched, root, remote("http://no.such.host.invalid/file.bin"), "cannot be resolved")


# lies about length


@pytest.mark.parametrize("by", [-1000, 1000])
def test_a_wrong_length_is_another_file(server, fetched, root, by):
    lie = says(200, BODY, length=SIZE + by)
    url = server.put("/file.bin", BODY, always=lie)
    _refused(fetched, root, remote(url), f"offers {SIZE + by:,} bytes instead of {SIZE:,}")
    assert left(root) == []
    fetched(remote(url, server.put("/mirror", BODY)))
    _right(root)


@pytest.mark.parametrize("by", [-1000, 1000])
def test_a_wrong_length_of_the_rest(server, fetched, root, by):
    def lie(handler, file):
        start = handler.offset(file)
        handler.head(
            206, Content_Range=f"bytes {start}-{SIZE - 1}/{SIZE}", Content_Length=SIZE - start + by
        )
        handler.send(BODY[start:])
        handler.hang_up()

    fetched(remote(server.put("/file.bin", BODY, cut(1_000_000), lie)))
    _right(root)


def test_without_a_length_the_size_decides(server, fetched, root):
    half = says(200, BODY[:1_500_000])
    fetched(remote(server.put("/file.bin", BODY, half)))
    _right(root)
    assert server.ranges() == [None, "bytes=1500000-"]


def test_chunks_that_are_cut(server, fetched, root):
    def chunks(handler, file):
        handler.head(200, Transfer_Encoding="chunked")
        handler.wfile.write(b"%x\r\n" % SIZE + BODY[:2_000_000])
        handler.hang_up()

    fetched(remote(server.put("/file.bin", BODY, chunks)))
    _right(root)
    assert server.ranges() == [None, "bytes=2000000-"]


def test_more_than_there_should_be(server, fetched, root):
    _refused(
        fetched,
        root,
        remote(server.put("/file.bin", BODY, always=endless)),
        f"sends more than {SIZE:,} bytes",
    )
    assert left(root) == []
    assert server.sent < 5 * SIZE + 20_000_000


def test_an_endless_file_of_unknown_size_is_cut_off(server, fetched, root):
    url = server.put("/file.bin", BODY, always=endless)
    _refused(
        fetched,
        root,
        remote(url, size=None, sha256=None, about=500_000),
        "sends more than 2,000,000 bytes",
    )
    assert left(root) == []


def test_a_file_of_unknown_size_that_is_far_too_large(server, fetched, root):
    url = server.put("/file.bin", BODY)
    _refused(
        fetched, root, remote(url, size=None, sha256=None, about=700_000), "2,800,000 is the most"
    )


# wrong bytes


def test_wrong_bytes_go_and_the_next_mirror_is_asked(server, fetched, root):
    wrong = BODY[:-1] + b"?"
    bad = server.put("/bad", wrong)
    text = _refused(fetched, root, remote(bad), "gives a file that has sha256")
    assert remote().sha256 in text
    assert left(root) == []
    result = fetched(remote(bad, server.put("/good", BODY)))
    _right(root)
    assert result.files[0].source == server.url("/good")
    assert server.ranges() == [None, None, None]


@pytest.mark.parametrize("algorithm", ["md5", "sha1"])
def test_other_checksums_count_too(server, fetched, root, algorithm):
    url = server.put("/file.bin", BODY)
    right = hashlib.new(algorithm, BODY).hexdigest()
    wrong = "0" * len(right)
    _refused(
        fetched,
        root,
        remote(url, sha256=None, **{algorithm: wrong}),
        f"has {algorithm} {right} instead of {wrong}",
    )
    assert (
        fetched(remote(url, sha256=None, **{algorithm: right})).files[0].checksum
        == f"{algorithm}:{right}"
    )


def test_a_wrong_beginning_is_dropped_and_fetched_anew(server, fetched, root):
    # 2 MB of something else lie there, and no server said that they belong to the file
    root.mkdir()
    (root / PARTIAL).write_bytes(bytes(2_000_000))
    fetched(remote(server.put("/file.bin", BODY)))
    _right(root)
    assert server.ranges() == ["bytes=2000000-", None]


def test_a_mirror_is_not_blamed_for_the_beginning_of_another(server, fetched, root):
    # the first gives wrong bytes and breaks off, the second is right but never asked for the
    # beginning
    bad = server.put("/bad", bytes(SIZE), cut(1_000_000), always=status(404))
    fetched(remote(bad, server.put("/good", BODY)))
    _right(root)
    # ... also where the first does the same again
    (root / "file.bin").unlink()
    bad = server.put(
        "/bad", bytes(SIZE), cut(1_000_000), status(404), cut(1_000_000), always=status(404)
    )
    fetched(remote(bad, server.url("/good")))
    _right(root)


def test_more_bytes_than_the_file_has_are_dropped(server, fetched, root):
    root.mkdir()
    (root / PARTIAL).write_bytes(BODY + b"!")
    fetched(remote(server.put("/file.bin", BODY)))
    _right(root)
    assert server.ranges() == [None]


def test_a_whole_file_needs_only_its_name(server, fetched, root):
    # killed after the last byte, before the check
    root.mkdir()
    (root / PARTIAL).write_bytes(BODY)
    fetched(remote(server.put("/file.bin", BODY)))
    _right(root)
    assert server.requests == []


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff", b'{"url": 3}'])
def test_a_broken_sidecar_is_no_sidecar(server, fetched, root, content):
    root.mkdir()
    (root / PARTIAL).write_bytes(BODY[:1_000_000])
    (root / SIDECAR).write_bytes(content)
    fetched(remote(server.put("/file.bin", BODY)))
    _right(root)
    assert server.sent == SIZE - 1_000_000


def test_an_encoded_body_is_refused(server, fetched, root):
    packed = gzip.compress(b"0" * 100)
    act = says(200, packed, length=len(packed), Content_Encoding="gzip")
    _refused(fetched, root, remote(server.put("/file.bin", b"", always=act)), "encoded as 'gzip'")


# ranges


def test_a_server_that_ignores_ranges_starts_anew(server, fetched, root):
    fetched(remote(server.put("/file.bin", BODY, cut(1_000_000), ignore_range)))
    _right(root)
    assert server.ranges() == [None, "bytes=1000000-"]
    assert server.sent == SIZE + 1_000_000


@pytest.mark.parametrize(
    "content_range",
    [
        f"bytes 0-{SIZE - 1}/{SIZE}",
        f"bytes 1000001-{SIZE - 1}/{SIZE}",
        "bytes 1000000-5/6",
        "",
        "pages 1-2/3",
        "bytes */9",
    ],
)
def test_a_wrong_range_is_never_stitched(server, fetched, root, content_range):
    act = says(206, BODY, length=SIZE, Content_Range=content_range)
    fetched(remote(server.put("/file.bin", BODY, cut(1_000_000), act)))
    _right(root)
    assert server.ranges() == [None, "bytes=1000000-", None]


def test_a_mirror_that_knows_ranges_is_preferred_to_starting_anew(server, fetched, root):
    first = server.put("/first", BODY, cut(2_000_000), always=says(206, BODY, length=SIZE))
    fetched(remote(first, server.put("/second", BODY)))
    _right(root)
    assert server.sent <= 2_000_000 + SIZE + 1_000_000
    assert server.ranges() == [None, "bytes=2000000-", "bytes=2000000-"]
    # the second never said what the first's version is
    assert "if-range" not in server.requests[2][1]


def test_a_range_of_another_size(server, fetched, root):
    act = says(
        206,
        BODY[1_000_000:],
        length=SIZE - 1_000_000,
        Content_Range=f"bytes 1000000-{SIZE - 1}/{SIZE + 5}",
    )
    _refused(
        fetched,
        root,
        remote(server.put("/file.bin", BODY, cut(1_000_000), act)),
        f"offers {SIZE + 5:,} bytes",
    )
    assert (root / PARTIAL).stat().st_size == 1_000_000


def test_a_range_that_was_not_asked_for(server, fetched, root):
    act = says(206, BODY, length=SIZE, Content_Range=f"bytes 0-{SIZE - 1}/{SIZE}")
    _refused(
        fetched,
        root,
        remote(server.put("/file.bin", BODY, always=act)),
        "instead of bytes 0 onwards",
    )


def test_416_starts_anew(server, fetched, root):
    fetched(remote(server.put("/file.bin", BODY, cut(1_000_000), status(416))))
    _right(root)
    assert server.ranges() == [None, "bytes=1000000-", None]


def test_416_for_ever(server, fetched, root):
    _refused(
        fetched, root, remote(server.put("/file.bin", BODY, always=status(416))), "answers 416"
    )
    assert len(server.requests) == 2


@pytest.mark.parametrize("known", [True, False], ids=["with checksum", "without"])
def test_a_file_that_changed_is_not_stitched_together(server, fetched, root, known):
    old, new = zipped({"a": b"old" * 9000}), zipped({"a": b"new" * 9000})
    facts = (
        {} if known else {"size": None, "sha256": None, "about": 10**6, "unpacked_at_most": 10**6}
    )
    url = server.put("/file.bin", old, cut(20_000), always=status(403))
    files = remote(url, body=new, **facts)
    _refused(fetched, root, files, "answers 403 Forbidden")
    server.put("/file.bin", new, etag='"v2"')
    fetched(files)
    assert (root / "file.bin").read_bytes() == new
    assert server.requests[-1][1]["if-range"] == '"v1"'
    assert len(server.requests) == 3


def test_a_server_that_ignores_if_range_is_found_out_by_its_etag(server, fetched, root):
    def other(handler, file):
        handler.head(
            206,
            Content_Range=f"bytes 1000000-{SIZE - 1}/{SIZE}",
            Content_Length=SIZE - 1_000_000,
            ETag='"v2"',
        )
        handler.send(bytes(SIZE - 1_000_000))

    fetched(remote(server.put("/file.bin", BODY, cut(1_000_000), other)))
    _right(root)
    assert server.ranges() == [None, "bytes=1000000-", None]


def test_without_checksum_and_validator_nothing_is_carried_on(server, fetched, root):
    body = zipped({"a": b"new" * 9000})
    facts = {"size": None, "sha256": None, "about": 10**6, "unpacked_at_most": 10**6}
    fetched(remote(server.put("/file.bin", body, cut(20_000), etag=None), body=body, **facts))
    assert (root / "file.bin").read_bytes() == body
    assert server.ranges() == [None, None]


# refusals, redirects, waiting


@pytest.mark.parametrize("code", [400, 401, 403, 404, 410, 418, 204, 304, 501])
def test_a_refusal_goes_to_the_next_mirror_at_once(server, fetched, root, waits, code):
    bad = server.put("/bad", b"", always=status(code, b""))
    _refused(fetched, root, remote(bad), f"answers {code}")
    fetched(remote(bad, server.put("/good", BODY)))
    _right(root)
    assert waits == []


def test_busy_for_a_while(server, fetched, root, waits):
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    past = format_datetime(datetime.now(UTC) - timedelta(days=1), usegmt=True)
    for after, expected in (
        ("7", 7),
        ("0", 0),
        ("99999999999999999999", 60),
        ("soon", 1),
        (None, 1),
        (past, 0),
    ):
        waits.clear()
        fetched(remote(server.put("/file.bin", BODY, status(503, Retry_After=after))))
        _right(root)
        assert waits == [expected]
        (root / "file.bin").unlink()
    waits.clear()
    fetched(remote(server.put("/file.bin", BODY, status(429, Retry_After=date))))
    assert 20 < waits[0] <= 30


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_redirects_are_followed(server, fetched, root, code):
    server.put("/there", BODY, cut(1_000_000))
    url = server.put("/file.bin", b"", always=status(code, Location="/there"))
    fetched(remote(url))
    _right(root)
    assert [path for path, _ in server.requests] == ["/file.bin", "/there"] * 2
    assert server.ranges()[-1] == "bytes=1000000-"
    assert server.sent == SIZE


@pytest.mark.parametrize(
    ("location", "words"),
    [
        ("/file.bin", "redirects more than 10 times"),
        ("file:///etc/passwd", "redirects from http to file address"),
        ("ftp://127.0.0.1/x", "redirects from http to ftp address"),
        ("http://[", "which is no address"),
        ("http:///x", ""),
        (None, "redirects to nowhere"),
    ],
)
def test_redirects_that_are_refused(server, fetched, root, location, words):
    _refused(
        fetched,
        root,
        remote(server.put("/file.bin", b"", always=status(302, Location=location))),
        words,
    )
    assert len(server.requests) <= 11


def test_a_redirect_from_https_to_http_is_refused():
    from nooch.download.http_requests import MirrorError, _redirected

    assert _redirected("http://a/x", "https://b/y") == "https://b/y"
    with pytest.raises(MirrorError, match="from https to http"):
        _redirected("https://a/x", "http://b/y")


def test_a_web_page_does_not_replace_what_has_come(server, fetched, root):
    page = says(200, b"<html>log in", Content_Type="text/html; charset=utf-8")
    _refused(
        fetched,
        root,
        remote(server.put("/file.bin", BODY, cut(1_000_000), always=page)),
        "sends a web page",
    )
    assert (root / PARTIAL).stat().st_size == 1_000_000
    unknown = says(200, b"who knows")
    _refused(
        fetched,
        root,
        remote(server.put("/file.bin", BODY, unknown, always=status(404))),
        "answers 404",
    )
    assert (root / PARTIAL).stat().st_size == 1_000_000


@pytest.mark.parametrize(
    "data",
    [b"", b"SSH-2.0\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 5, 6\r\n\r\nhello", b"\xff" * 99],
)
def test_no_http_at_all(server, fetched, root, data):
    _refused(fetched, root, remote(server.put("/file.bin", b"", always=raw(data))))


def test_control_characters_of_a_server_are_not_printed(server, fetched, root):
    answer = b"HTTP/1.1 404 \x1b[2Jgone\r\nContent-Length: 0\r\n\r\n"
    text = _refused(
        fetched,
        root,
        remote(server.put("/file.bin", b"", always=raw(answer))),
        "answers 404 Not Found",
    )
    assert "\x1b" not in text


def test_a_proxy_is_used_as_the_environment_says(server, fetched, root, monkeypatch):
    seen = []

    def act(handler, file):
        seen.append(handler.headers.get("Proxy-Authorization"))
        good(handler, file)

    # what a proxy is asked for is a whole address
    server.put("http://example.invalid/file.bin", BODY, act)
    monkeypatch.setenv("http_proxy", server.url("").replace("//", "//me:secret@"))
    monkeypatch.setenv("no_proxy", "localhost")
    fetched(remote("http://example.invalid/file.bin"))
    _right(root)
    assert seen == ["Basic bWU6c2VjcmV0"]
    (root / "file.bin").unlink()
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    fetched(remote(server.put("/file.bin", BODY)))
    _right(root)


# the folder


def test_another_file_of_that_name_is_never_replaced(server, fetched, root):
    root.mkdir()
    (root / "file.bin").write_text("mine")
    files = remote(server.put("/file.bin", BODY))
    fails(
        lambda: fetched(files),
        f"is there already, but has 4 bytes instead of {SIZE:,}",
        "file.bin",
        kind=OutputError,
    )
    (root / "file.bin").write_bytes(bytes(SIZE))
    fails(lambda: fetched(files), "is there already, but has sha256", kind=OutputError)
    assert (root / "file.bin").read_bytes() == bytes(SIZE)
    (root / "file.bin").unlink()
    (root / "file.bin").mkdir()
    fails(lambda: fetched(files), "is there already, but is no file", kind=OutputError)
    assert server.requests == []


def test_room_is_checked_before(server, fetched, root, monkeypatch):
    import shutil

    root.mkdir()
    (root / PARTIAL).write_bytes(BODY[:1_000_000])
    usage = shutil.disk_usage(root)
    files = remote(server.put("/file.bin", BODY))
    for free, enough in ((SIZE - 1_000_001, False), (SIZE - 1_000_000, True)):
        monkeypatch.setattr(
            "nooch.work_folder.shutil.disk_usage", lambda _, f=free: usage._replace(free=f)
        )
        if enough:
            fetched(files)
        else:
            fails(
                lambda: fetched(files),
                "needs 2.0 MB, and 2.0 MB are free",
                str(root),
                kind=OutputError,
            )
            assert server.requests == []
    _right(root)


def test_a_disk_that_is_full_after_all(server, fetched, root, monkeypatch):
    from nooch.download.partial_files import Partial

    def full(self):
        return Path("/dev/full").open("r+b", buffering=0)

    with monkeypatch.context() as patch:
        patch.setattr(Partial, "open", full)
        files = remote(server.put("/file.bin", BODY))
        fails(lambda: fetched(files), "No space left on device", PARTIAL, kind=OutputError)
    fetched(files)
    _right(root)


def test_folders_that_cannot_be_used(server, fetched, root, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    files = remote(server.put("/file.bin", BODY))
    root.symlink_to(tmp_path / "file" / "below")
    fails(lambda: fetched(files), "cannot make the folder", kind=OutputError)
    root.unlink()
    monkeypatch.setattr("nooch.download.download_folder.os.access", lambda *_: False)
    fails(lambda: fetched(files), "no permission to write here", kind=OutputError)


def test_progress_counts_bytes_and_files(server, fetched, root, monkeypatch):
    monkeypatch.setattr("nooch.download.collection_download._LARGE", 1000)
    told = []
    fetched(
        remote(server.put("/file.bin", BODY, cut(2_000_000))),
        progress=lambda *what: told.append(what),
    )
    assert told[0] == ("files", 0, 1)
    assert told[-1] == ("files", 1, 1)
    steps = [done for what, done, total in told if (what, total) == ("downloading file.bin", SIZE)]
    assert steps == sorted(steps)
    assert steps[-1] == SIZE


def test_an_unknown_collection(root):
    from nooch.errors import ParameterError

    fails(lambda: download("coco-stuf", root), "did you mean coco-stuff?", kind=ParameterError)
    assert not root.exists()
