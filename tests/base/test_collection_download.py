"""Whole collections: the catalog, and zips that are unpacked."""

import shutil

import msgspec
import pytest
from download_server import MARK, hows, left, zipped
from refusals import fails

from nooch.base.download import COLLECTIONS, collection, download
from nooch.base.errors import OutputError


@pytest.mark.parametrize("name", COLLECTIONS)
def test_the_catalog_is_whole(name):
    for images in (False, True):
        files = collection(name, images=images).files
        assert len({file.name for file in files}) == len(files)
        for file in files:
            assert file.urls
            assert all(url.startswith(("http://", "https://")) for url in file.urls)
            assert all(url.endswith("/" + file.name) for url in file.urls)
            algorithm, _, checksum = file.checksum.partition(":")
            assert len(checksum) == {"md5": 32, "sha1": 40, "sha256": 64}[algorithm]
            assert file.expected_size
            is_zip = file.name.endswith(".zip")
            assert (file.into is not None) == is_zip == (file.unpacked_at_most > 0)
            assert file.into is None or file.unpacked_at_most > file.expected_size


def test_coco_stuff_in_the_catalog():
    things, stuff = collection("coco-stuff").files
    assert (things.name, things.size) == ("annotations_trainval2017.zip", 252907541)
    assert (stuff.name, stuff.size) == ("stuff_annotations_trainval2017.zip", None)
    assert stuff.checksum == "sha1:e7aa0f7515c07e23873a9f71d9095b06bcea3e12"
    assert stuff.into == "stuff_trainval2017"
    with_images = collection("coco-stuff", images=True)
    assert {f.name: (f.size, f.into) for f in with_images.files[2:]} == {
        "val2017.zip": (815585330, "images/val2017"),
        "train2017.zip": (19336861798, "images/train2017"),
    }
    assert any("Flickr" in text for text in with_images.licenses)
    assert not any("Flickr" in text for text in collection("coco-stuff").licenses)


def test_the_published_files_in_the_catalog_are_the_genuine_ones(shared_data, tmp_path):
    from nooch.paper.published_sets import read_published

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
