"""A server, and patience that does not wait."""

import pytest
from download_server import BODY, ZIP, left, remote, remote_zip, serving
from refusals import fails
from waiting import HANGS

from nooch.base.download import Collection, download
from nooch.base.errors import DownloadError
from nooch.base.http import Patience


@pytest.fixture
def server(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    with serving() as running:
        yield running


@pytest.fixture
def waits():
    """Seconds that would have been waited."""
    return []


@pytest.fixture
def patience(waits):
    # so long that a good server is never too slow, whatever else this machine does
    wait = waits.append
    return Patience(connect=HANGS, read=HANGS, attempts=3, slowest=1, window=HANGS, wait=wait)


@pytest.fixture
def hasty(waits):
    """Patience that a stall soon exhausts, tried again as often as it takes."""
    wait = waits.append
    return Patience(connect=HANGS, read=0.3, attempts=1000, slowest=1000, window=0.4, wait=wait)


@pytest.fixture
def root(tmp_path):
    return tmp_path / "root"


@pytest.fixture
def fetched(root, patience):
    """Download files into ``root`` and give the result."""

    def run(*remotes, **more):
        made_up = {"name": "made-up", "licenses": ("none",), "next": "go on with {root}"}
        wanted = Collection(files=remotes, **made_up)
        return download(wanted, root, **{"patience": patience} | more)

    return run


@pytest.fixture
def served(server):
    """Serve ``BODY`` by these acts; its description."""

    def put(*acts, always=None, body=BODY, **facts):
        return remote(server.put("/file.bin", body, *acts, always=always), **facts)

    return put


@pytest.fixture
def arrives(fetched, root):
    """Fetch a file: it has the right bytes, and nothing is next to it."""

    def run(files, **more):
        result = fetched(files, **more)
        assert (root / "file.bin").read_bytes() == BODY
        assert left(root) == ["file.bin"]
        return result

    return run


@pytest.fixture
def refused(fetched, root):
    """Fetch a file: one error, which names every mirror, and nothing under the final name."""

    def run(files, *parts):
        parts = ("cannot be downloaded", *files.urls, *parts)
        text = fails(lambda: fetched(files), *parts, kind=DownloadError)
        assert "download the file there" in text
        assert not (root / "file.bin").exists()
        return text

    return run


@pytest.fixture
def served_zip(server):
    """Serve a zip by these acts; its description."""

    def put(body=ZIP, *acts, always=None, **more):
        return remote_zip(server.put("/some.zip", body, *acts, always=always), body=body, **more)

    return put
