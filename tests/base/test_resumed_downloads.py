"""Downloads that are cut off and resumed: by ranges, from the right bytes, or not at all."""

import socket

import download_server as acts
import pytest
from download_server import (
    BODY,
    PARTIAL,
    SIZE,
    UNKNOWN,
    cut,
    left,
    remote,
    says,
    status,
    zipped,
)

# cut and stalled


def test_a_cut_is_resumed_by_range(server, arrives, waits):
    url = server.put("/file.bin", BODY, cut(2_000_000), cut(500_000))
    arrives(remote(url))
    assert server.ranges() == [None, "bytes=2000000-", "bytes=2500000-"]
    assert server.sent == SIZE
    assert waits == [1, 1]


def silent(handler, file):
    handler.server.over.wait(20)


STALLS = {"stalls": cut(2_000_000, wait=20), "trickles": acts.trickle(0.05), "no answer": silent}


@pytest.mark.parametrize("act", STALLS)
def test_a_stall_is_not_waited_for(server, served, arrives, act, hasty):
    arrives(served(STALLS[act]), patience=hasty)
    # on a busy machine a good answer may seem to stall, too
    assert len(server.requests) >= 2


def test_cuts_that_gain_something_are_not_counted_as_failures(server, served, fetched, root):
    # 12 of them, where 3 are allowed in a row
    body = BODY * 5
    fetched(remote(server.put("/file.bin", body, *[cut(1_200_000)] * 12), body=body))
    assert (root / "file.bin").read_bytes() == body
    assert server.sent == len(body)


def test_cuts_that_gain_nothing_new_come_to_an_end(server, served, refused):
    # each time from the first byte: bytes come, but no end
    act = says(200, BODY[:2_000_000], length=SIZE)
    refused(served(always=act), "(tried 3 times)", "Connection broken")
    assert len(server.requests) == 4


def test_an_error_keeps_what_has_come_for_the_next_time(server, served, arrives, refused, root):
    files = served(cut(1_000_000), always=status(503))
    refused(files, "answers 503 Service Unavailable (tried 3 times)")
    assert left(root) == [PARTIAL]
    arrives(served())
    assert server.sent == SIZE


def test_nobody_answers(refused, root, waits):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    files = remote(f"http://127.0.0.1:{port}/file.bin")
    refused(files, "Connection refused", "(tried 3 times)")
    assert waits == [1, 2]
    assert left(root) == []


def test_no_such_host(refused):
    refused(remote("http://no.such.host.invalid/file.bin"), "cannot be resolved")


# ranges


def test_a_server_that_ignores_ranges_starts_again(server, served, arrives):
    arrives(served(cut(1_000_000), acts.ignore_range))
    assert server.ranges() == [None, "bytes=1000000-"]
    assert server.sent == SIZE + 1_000_000


WRONG_RANGES = [
    f"bytes 0-{SIZE - 1}/{SIZE}", f"bytes 1000001-{SIZE - 1}/{SIZE}", "bytes 1000000-5/6", "",
    "pages 1-2/3", "bytes */9",
]  # fmt: skip


@pytest.mark.parametrize("content_range", WRONG_RANGES)
def test_a_wrong_range_is_never_stitched(server, served, arrives, content_range):
    act = says(206, BODY, length=SIZE, Content_Range=content_range)
    arrives(served(cut(1_000_000), act))
    assert server.ranges() == [None, "bytes=1000000-", None]


def test_a_mirror_that_knows_ranges_is_preferred_to_a_restart(server, arrives):
    first = server.put("/first", BODY, cut(2_000_000), always=says(206, BODY, length=SIZE))
    arrives(remote(first, server.put("/second", BODY)))
    assert server.sent <= 2_000_000 + SIZE + 1_000_000
    assert server.ranges() == [None, "bytes=2000000-", "bytes=2000000-"]


def test_a_range_of_another_size(served, refused, root):
    span = f"bytes 1000000-{SIZE - 1}/{SIZE + 5}"
    act = says(206, BODY[1_000_000:], length=SIZE - 1_000_000, Content_Range=span)
    refused(served(cut(1_000_000), act), f"offers {SIZE + 5:,} bytes")
    assert (root / PARTIAL).stat().st_size == 1_000_000


def test_a_range_that_was_not_asked_for(served, refused):
    act = says(206, BODY, length=SIZE, Content_Range=f"bytes 0-{SIZE - 1}/{SIZE}")
    refused(served(always=act), "instead of bytes 0 onwards")


def test_416_starts_again(server, served, arrives):
    arrives(served(cut(1_000_000), status(416)))
    assert server.ranges() == [None, "bytes=1000000-", None]


def test_416_forever(server, served, refused):
    refused(served(always=status(416)), "answers 416")
    assert len(server.requests) == 2


@pytest.mark.parametrize("known", [True, False], ids=["with checksum", "without"])
def test_a_file_that_changed_is_not_stitched_together(server, fetched, refused, root, known):
    old, new = zipped({"a": b"old" * 9000}), zipped({"a": b"new" * 9000})
    facts = {} if known else {**UNKNOWN, "about": 10**6, "unpacked_at_most": 10**6}
    url = server.put("/file.bin", old, cut(20_000), always=status(403))
    files = remote(url, body=new, **facts)
    refused(files, "answers 403 Forbidden")
    server.put("/file.bin", new)
    fetched(files)
    assert (root / "file.bin").read_bytes() == new
    # a request more: the rest of the new file after the beginning of the old one is refused
    assert server.ranges()[2:] == ["bytes=20000-", None]


def test_the_rest_of_another_file_is_found_out(server, served, arrives):
    rest = bytes(SIZE - 1_000_000)
    span = f"bytes 1000000-{SIZE - 1}/{SIZE}"
    other = says(206, rest, length=len(rest), Content_Range=span)
    arrives(served(cut(1_000_000), other))
    assert server.ranges() == [None, "bytes=1000000-", None]
