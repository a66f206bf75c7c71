"""Whole collections: zips, records, kills, concurrent processes."""

import hashlib
import json
import shutil

import msgspec
import pytest
from download_server import FILES, MARK, ZIP, cut, hows, left, remote_zip, status, zipped
from refusals import fails

from nooch.base.download import COLLECTIONS, collection, download
from nooch.base.download.one_file import RECORD
from nooch.base.errors import DownloadError, OutputError


@pytest.fixture
def set_free(root, monkeypatch):
    """Let the disk have so many bytes free."""
    usage = shutil.disk_usage(root.parent)

    def free(size):
        monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=size))

    return free


# the catalog


@pytest.mark.parametrize("name", COLLECTIONS)
def test_the_catalog_is_whole(name):
    for images in (False, True):
        listed = collection(name, images=images).files
        files = [choice for file in listed for choice in file.choices]
        assert len({file.name for file in files}) == len(files)
        for file in files:
            assert file.urls
            assert all(url.startswith(("http://", "https://")) for url in file.urls)
            assert all(url.endswith("/" + file.name) for url in file.urls)
            assert file.checksum or file.about
            assert file.checksum is None or len(file.checksum.partition(":")[2]) in {32, 40, 64}
            is_zip = file.name.endswith(".zip")
            assert (file.into is not None) == is_zip == (file.unpacked_at_most > 0)
            assert file.into is None or file.unpacked_at_most > file.expected_size


def test_coco_stuff_in_the_catalog():
    things, stuff = collection("coco-stuff").files
    assert (things.name, things.size) == ("annotations_trainval2017.zip", 252907541)
    assert (stuff.name, stuff.size) == ("stuff_annotations_trainval2017.zip", None)
    stuff, mirror = collection("coco-stuff").files[1].choices
    assert stuff.checksum == "sha1:e7aa0f7515c07e23873a9f71d9095b06bcea3e12"
    assert (mirror.name, mirror.checksum) == ("stuff_trainval2017.zip", None)
    assert stuff.into == mirror.into == "stuff_trainval2017"
    with_images = collection("coco-stuff", images=True)
    assert {f.name: (f.size, f.into) for f in with_images.files[2:]} == {
        "val2017.zip": (815585330, "images/val2017"),
        "train2017.zip": (19336861798, "images/train2017"),
    }
    assert any("Flickr" in text for text in with_images.licenses)
    assert not any("Flickr" in text for text in collection("coco-stuff").licenses)


def test_the_published_files_in_the_catalog_are_the_genuine_ones(shared_data, tmp_path):
    from nooch.suites.published import read_published

    # by their hashes, without a network
    for file in collection("nooch-published").files:
        shutil.copyfile(next(shared_data.rglob(file.name)), tmp_path / file.name)
    assert hows(download("nooch-published", tmp_path)) == ["there"] * 98
    published = read_published(tmp_path)
    assert len(published.sets) == 96
    sizes = {name: len(ids) for name, ids in published.splits.items()}
    assert sizes == {"train": 86302, "valid": 12328, "test": 24657}
    assert left(tmp_path) == sorted(file.name for file in collection("nooch-published").files)


# zips


def test_a_zip_is_fetched_unpacked_and_recognized(server, served_zip, fetched, root):
    files = served_zip()
    assert hows(fetched(files)) == ["downloaded"]
    assert left(root) == [MARK, "annotations", "some.zip"]
    assert (root / "annotations" / "a.json").read_bytes() == b"a" * 1000
    before = (root / "annotations" / "a.json").stat().st_ino
    assert hows(fetched(files)) == ["unpacked"]
    # nor is the zip needed any more
    (root / "some.zip").unlink()
    assert hows(fetched(files)) == ["unpacked"]
    assert (root / "annotations" / "a.json").stat().st_ino == before
    assert len(server.requests) == 1


def test_without_its_zip(server, served_zip, fetched, root):
    files = served_zip()
    fetched(files, keep_zips=False)
    assert left(root) == [MARK, "annotations"]
    assert hows(fetched(files, keep_zips=False)) == ["unpacked"]
    assert len(server.requests) == 1
    # a zip that was kept goes later
    shutil.rmtree(root)
    fetched(files)
    fetched(files, keep_zips=False)
    assert left(root) == [MARK, "annotations"]


HARMS = ["a file is gone", "a file is short", "another zip", "another folder", "no mark"]


@pytest.mark.parametrize("harm", HARMS)
def test_what_is_no_longer_whole_is_unpacked_again(server, served_zip, fetched, root, harm):
    files = served_zip()
    fetched(files)
    file = root / "annotations" / "b.json"
    if harm == "a file is gone":
        file.unlink()
    elif harm == "a file is short":
        # what a power cut may leave; the next run reports it
        file.write_bytes(b"")
        parts = ("is there already, with other contents", "b.json")
        fails(lambda: fetched(files), *parts, kind=OutputError)
        file.unlink()
    elif harm == "another zip":
        content = msgspec.json.decode((root / MARK).read_bytes())
        (root / MARK).write_bytes(msgspec.json.encode(content | {"checksum": "md5:0"}))
    elif harm == "another folder":
        files = msgspec.structs.replace(files, into="other")
    else:
        (root / MARK).write_bytes(b"\xff")
    assert hows(fetched(files)) == ["there"]
    assert sorted(p.name for p in (root / files.into).iterdir()) == ["a.json", "b.json"]
    assert hows(fetched(files)) == ["unpacked"]
    assert len(server.requests) == 1


def test_a_folder_unpacked_by_hand_is_taken_over(served_zip, fetched, root):
    (root / "annotations").mkdir(parents=True)
    (root / "annotations" / "a.json").write_bytes(b"a" * 1000)
    (root / "annotations" / "mine.json").write_text("mine")
    fetched(served_zip())
    assert left(root / "annotations") == ["a.json", "b.json", "mine.json"]


def test_a_hostile_zip_is_refused_even_with_the_right_checksum(served_zip, fetched, root):
    files = served_zip(zipped({"../evil": b"1"}))
    fails(lambda: fetched(files), "has an unsafe name", "some.zip")
    assert left(root) == ["some.zip"]
    assert left(root.parent) == ["root"]


def test_room_counts_zips_twice(server, served_zip, fetched, set_free):
    files = served_zip()
    set_free(2 * len(ZIP) - 1)
    fails(lambda: fetched(files), "downloading and unpacking needs 2.7 kB", kind=OutputError)
    assert server.requests == []
    set_free(2 * len(ZIP))
    fetched(files)


def test_room_is_less_without_zips(server, fetched, set_free):
    files = [
        remote_zip(server.put(f"/{i}.zip", ZIP), name=f"{i}.zip", into=f"{i}") for i in range(2)
    ]
    set_free(3 * len(ZIP))
    fails(lambda: fetched(*files), "needs", kind=OutputError)
    fetched(*files, keep_zips=False)
    # what is unpacked needs no room
    set_free(0)
    assert hows(fetched(*files)) == ["unpacked", "unpacked"]


# a file that nobody has published a hash of


def _with_mirror(server, first, second):
    """A file with a checksum, and a mirror of another name that has none."""
    mirror = remote_zip(server.put("/other.zip", second), known=False, name="other.zip")
    sha1 = hashlib.sha1(ZIP).hexdigest()
    return remote_zip(server.put("/some.zip", first), sha256=None, sha1=sha1, mirror=mirror)


def test_the_mirror_is_asked_only_where_the_first_source_fails(server, fetched):
    result = fetched(_with_mirror(server, ZIP, ZIP))
    assert [(f.name, f.published) for f in result.files] == [("some.zip", True)]
    assert result.files[0].checksum.startswith("sha1:")
    assert (result.notes, [path for path, _ in server.requests]) == ([], ["/some.zip"])


def test_the_mirror_that_has_no_checksum_says_so(server, fetched, root):
    files = _with_mirror(server, b"?" * len(ZIP), ZIP)
    result = fetched(files)
    (file,) = result.files
    assert (file.name, file.how, file.published) == ("other.zip", "downloaded", False)
    tried, unknown = result.notes
    parts = ("cannot be downloaded", "gives a file that has sha1", "trying other.zip instead")
    assert all(part in tried for part in ("some.zip", *parts))
    assert "other.zip: nobody has published a checksum" in unknown
    assert (root / "annotations" / "a.json").read_bytes() == FILES["annotations/a.json"]
    # what is unpacked is used from then on, and nothing is asked for
    before = len(server.requests)
    assert hows(fetched(files)) == ["unpacked"]
    assert len(server.requests) == before


def test_a_mirror_that_is_there_already_is_used(server, fetched, root):
    root.mkdir()
    (root / "other.zip").write_bytes(ZIP)
    result = fetched(_with_mirror(server, ZIP, b""))
    assert [(f.name, f.how) for f in result.files] == [("other.zip", "there")]
    assert server.requests == []


def test_where_the_mirror_fails_too_it_is_one_error(server, fetched, root):
    files = _with_mirror(server, b"", b"?")
    fails(lambda: fetched(files), "other.zip", "cannot be downloaded", kind=DownloadError)
    assert left(root) == []


def test_the_first_download_is_recorded_and_binds_later_ones(server, served_zip, fetched, root):
    files = served_zip(known=False)
    (file,) = fetched(files).files
    sha256 = hashlib.sha256(ZIP).hexdigest()
    expected = {"size": len(ZIP), "sha256": sha256, "source": files.urls[0]}
    assert json.loads((root / RECORD).read_text()) == {"some.zip": expected}
    assert (file.size, file.checksum) == (len(ZIP), f"sha256:{sha256}")
    # lost, and another one on the server now
    for name in ("some.zip", MARK):
        (root / name).unlink()
    other = zipped({"annotations/a.json": b"other"})
    server.put("/some.zip", other)
    recorded = f"recorded in {RECORD} at the first download"
    parts = ("cannot be downloaded", f"offers {len(other)} bytes instead of {len(ZIP):,}")
    fails(lambda: fetched(files), *parts, recorded, kind=DownloadError)
    # one of the same size
    server.put("/some.zip", ZIP[:100] + b"?" + ZIP[101:])
    parts = ("gives a file that has sha256", recorded)
    fails(lambda: fetched(files), *parts, kind=DownloadError)
    server.put("/some.zip", ZIP)
    fetched(files)
    # changed on the disk
    (root / MARK).unlink()
    (root / "some.zip").write_bytes(other)
    fails(lambda: fetched(files), "is there already, but has", recorded, kind=OutputError)


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b'{"some.zip": {"size": "1"}}', b"\xff"])
def test_a_record_that_cannot_be_read(served_zip, fetched, root, content):
    root.mkdir()
    (root / RECORD).write_bytes(content)
    fails(lambda: fetched(served_zip()), "cannot be read", RECORD)


def test_of_unknown_hash_only_whole_zips_get_a_name(server, served_zip, fetched, root):
    # a server that says that a part is the whole; one that changes a byte; a page
    broken = ZIP.replace(b"b" * 99, b"b" * 98 + b"?")
    problem = "gives a file that is not a zip, or a damaged one"
    for body, words in ((ZIP[:-30], "damaged"), (broken, "Bad CRC-32"), (b"<html>", "damaged")):
        files = remote_zip(server.put("/some.zip", body), known=False)
        fails(lambda files=files: fetched(files), problem, words, kind=DownloadError)
        assert left(root) == []
    files = remote_zip(server.url("/some.zip"), server.put("/mirror", ZIP), known=False)
    fetched(files)
    assert left(root) == [MARK, "annotations", RECORD, "some.zip"]


def test_of_unknown_hash_it_is_resumed(server, served_zip, fetched):
    files = served_zip(ZIP, cut(600), always=status(503), known=False)
    fails(lambda: fetched(files), "503", kind=DownloadError)
    server.put("/some.zip", ZIP)
    fetched(files)
    assert server.sent == len(ZIP)


def test_of_unknown_hash_it_may_be_resumed_from_another_mirror(server, fetched, root):
    first = server.put("/a.zip", ZIP, cut(600), always=status(404))
    fetched(remote_zip(first, server.put("/b.zip", ZIP), known=False))
    assert server.ranges() == [None, "bytes=600-", "bytes=600-"]
    assert (root / "some.zip").read_bytes() == ZIP


def test_of_unknown_hash_what_lies_there_is_recorded(fetched, root):
    root.mkdir()
    (root / "some.zip").write_bytes(ZIP)
    assert hows(fetched(remote_zip("http://127.0.0.1:9/some.zip", known=False))) == ["there"]
    assert json.loads((root / RECORD).read_text())["some.zip"]["size"] == len(ZIP)
