"""Unpacking: what a hostile zip could do is refused before anything has a final name."""

import contextlib
import os
import shutil
import stat
import struct
import sys
import zipfile
import zlib

import pytest
from download_server import left, zipped
from refusals import fails

from nooch.base.errors import InputError, OutputError
from nooch.base.zips import unpack

FILES = {
    "annotations/a.json": b"a" * 1000,
    "annotations/b/c.json": b"",
    "annotations/d.json": os.urandom(3000),
}
UNPACKED = {name.partition("/")[2]: content for name, content in FILES.items()}


@pytest.fixture
def folder(tmp_path):
    """Holds the zip; ``target`` in it is what to unpack to."""
    (tmp_path / "folder").mkdir()
    return tmp_path / "folder"


def _put(folder, content):
    path = folder / "some.zip"
    path.write_bytes(content)
    return path


def _info(name, mode=0, **more):
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    for key, value in more.items():
        setattr(info, key, value)
    return info


def _made(folder, *members):
    """A zip of (ZipInfo or name, content) in their order, duplicates too."""
    path = folder / "some.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for member, content in members:
            archive.writestr(member, content)
    return path


def _refused(path, *parts, at_most=10**7):
    fails(lambda: unpack(path, path.parent / "target", at_most), str(path), *parts)
    assert left(path.parent) == ["some.zip"]


def _contents(target):
    return {str(p.relative_to(target)): p.read_bytes() for p in target.rglob("*") if p.is_file()}


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_the_only_folder_becomes_the_target(folder, compression):
    path = _put(folder, zipped(FILES, compression))
    calls = []
    sizes = unpack(path, folder / "below" / "target", 4000, tell=lambda *what: calls.append(what))
    assert sizes == {"a.json": 1000, "b/c.json": 0, "d.json": 3000}
    assert _contents(folder / "below" / "target") == UNPACKED
    assert calls[-1] == (4000, 4000)
    assert left(folder) == ["below", "some.zip"]
    assert left(folder / "below") == ["target"]


def test_members_that_are_in_no_common_folder_stay_where_they_are(folder):
    files = {"a.json": b"1", "b/c.json": b"2", "__MACOSX/._a.json": b"3"}
    sizes = unpack(_put(folder, zipped(files)), folder / "target", 10)
    assert sizes == {"a.json": 1, "b/c.json": 1}
    assert _contents(folder / "target") == {"a.json": b"1", "b/c.json": b"2"}


def test_folders_may_be_listed(folder):
    inner = _info("top/in/", stat.S_IFDIR | 0o755)
    path = _made(folder, ("top/", b""), (inner, b""), ("top/in/a", b"1"))
    assert unpack(path, folder / "target", 10) == {"in/a": 1}


def test_what_is_there_stays(folder):
    target = folder / "target"
    (target / "b").mkdir(parents=True)
    (target / "a.json").write_bytes(FILES["annotations/a.json"])
    (target / "mine.txt").write_text("mine")
    before = (target / "a.json").stat().st_ino
    unpack(_put(folder, zipped(FILES)), target, 10**6)
    assert _contents(target) == UNPACKED | {"mine.txt": b"mine"}
    assert (target / "a.json").stat().st_ino == before
    # and again
    unpack(folder / "some.zip", target, 10**6)
    assert left(target) == ["a.json", "b", "d.json", "mine.txt"]


@pytest.mark.parametrize("content", [b"mine", b"b" * 1000], ids=["another size", "the same size"])
def test_other_contents_are_never_replaced(folder, content):
    (folder / "target").mkdir()
    (folder / "target" / "d.json").write_bytes(FILES["annotations/d.json"])
    (folder / "target" / "a.json").write_bytes(content)
    path = _put(folder, zipped(FILES))
    parts = ("is there already, with other contents", "a.json")
    fails(lambda: unpack(path, folder / "target", 10**6), *parts, kind=OutputError)
    assert left(folder / "target") == ["a.json", "d.json"]
    assert (folder / "target" / "a.json").read_bytes() == content


def test_a_target_that_is_a_link_stays_one(folder, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (folder / "target").symlink_to(tmp_path / "elsewhere")
    unpack(_put(folder, zipped(FILES)), folder / "target", 10**6)
    assert left(tmp_path / "elsewhere") == ["a.json", "b", "d.json"]


def test_a_target_that_is_a_file(folder):
    (folder / "target").write_text("mine")
    path = _put(folder, zipped(FILES))
    fails(lambda: unpack(path, folder / "target", 10**6), "cannot write", kind=OutputError)
    assert (folder / "target").read_text() == "mine"


UNSAFE = [
    "../a", "a/../../b", "..", "a/..", "/etc/passwd", "//host/a", "C:/a", "c:a", "C:\\a",
    "\\\\host\\a", "..\\a", "a\\b", "a//b", "./a", "a/./b", "a\nb", "a\x1b", "a:stream",
    "nul\x00.txt", "a.", "a /b", "a?", "a|b",
]  # fmt: skip


@pytest.mark.parametrize("name", UNSAFE)
def test_names_that_lead_out_are_refused(folder, tmp_path, name):
    stored = name.replace("\x00", "N").replace("\\", "B")
    path = _made(folder, ("good", b"1"), (stored, b"2"))
    if stored != name:
        # the zip module would correct these while writing
        path.write_bytes(path.read_bytes().replace(stored.encode(), name.encode()))
    _refused(path, "has an unsafe name")
    assert left(tmp_path) == ["folder"]


def _renamed(name, other):
    """A member with a Unicode path field (0x7075), which replaces its name from Python 3.12."""
    text = b"\x01" + struct.pack("<I", zlib.crc32(name.encode())) + other.encode()
    return _info(name, extra=struct.pack("<HH", 0x7075, len(text)) + text)


@pytest.mark.parametrize("other", ["../../evil", "/tmp/evil", "a/../../evil", "evil"])
def test_a_member_of_two_names_is_refused(folder, tmp_path, monkeypatch, other):
    path = _made(folder, ("good", b"1"), (_renamed("plain", other), b"2"))
    real = zipfile.ZipFile.infolist

    def infolist(archive):
        # what Python 3.12 and later make of the field, on any Python
        infos = real(archive)
        infos[1].filename = other
        return infos

    monkeypatch.setattr(zipfile.ZipFile, "infolist", infolist)
    _refused(path, "member 'plain' has an unsafe name")
    assert left(tmp_path) == ["folder"]


def test_a_unicode_path_field_never_leads_out(folder, tmp_path):
    path = _made(folder, ("good", b"1"), (_renamed("plain", "../../evil"), b"2"))
    if sys.version_info >= (3, 12):
        _refused(path, "member 'plain' has an unsafe name")
    else:
        assert unpack(path, folder / "target", 10) == {"good": 1, "plain": 1}
    assert left(tmp_path) == ["folder"]


def test_the_path_that_is_written_never_leads_out(folder, tmp_path, monkeypatch):
    # as if the checks of names had overlooked it
    path = _made(folder, ("good", b"1"), ("../../evil", b"2"))
    monkeypatch.setattr("nooch.base.zips.is_unsafe", lambda _: False)
    unpack(path, folder / "target", 10)
    assert _contents(folder / "target") == {"good": b"1", "evil": b"2"}
    assert left(tmp_path) == ["folder"]


def test_names_that_only_look_odd_are_allowed(folder):
    files = {"..a/b..c": b"1", ".hidden": b"2", "ü ß/日本": b"3", "-rf": b"4"}
    unpack(_put(folder, zipped(files)), folder / "target", 10)
    assert _contents(folder / "target") == files


@pytest.mark.parametrize("kind", ["S_IFLNK", "S_IFIFO", "S_IFCHR", "S_IFSOCK", "S_IFDIR"])
def test_links_and_devices_are_refused(folder, kind):
    info = _info("link", getattr(stat, kind) | 0o777)
    _refused(_made(folder, (info, b"/etc/passwd")), "'link' is a link or a device")


TWICE = [
    ("a", "a"), ("a", "A"), ("é", "e\u0301"), ("x/a", "X/a"), ("a", "a/b"), ("a/b", "a"),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("names", TWICE)
def test_names_that_occur_twice_are_refused(folder, names):
    words = f"member {names[1]!r} has the name of another member, or of its folder"
    _refused(_made(folder, *((name, b"") for name in names)), words)


@pytest.mark.parametrize("bit", [0, 5, 6])
def test_encrypted_members_are_refused(folder, bit):
    path = _put(folder, zipped({"a": b"1"}))
    content = bytearray(path.read_bytes())
    for signature, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        struct.pack_into("<H", content, content.index(signature) + at, 1 << bit)
    words = {0: "is encrypted", 5: "compressed patched data", 6: "strong encryption"}
    _refused(_put(folder, content), words[bit])


@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_compressions_are_refused(folder, compression):
    path = _put(folder, zipped({"a": b"1" * 99}, compression))
    _refused(path, "has an unknown compression")


# bombs


def test_a_total_over_the_limit_is_refused(folder):
    path = _put(folder, zipped({"a": bytes(600), "b": bytes(400)}, zipfile.ZIP_DEFLATED))
    _refused(path, "would unpack to 1,000 bytes", "at most 999", at_most=999)
    unpack(path, folder / "target", 1000)


def test_an_absurd_ratio_is_refused(folder):
    path = _put(folder, zipped({"a": bytes(5_000_000)}, zipfile.ZIP_DEFLATED))
    _refused(path, "'a' would unpack 4,", "to 5,000,000", "200 times")
    # a small file of zeros is no bomb
    path = _put(folder, zipped({"a": bytes(1 << 20)}, zipfile.ZIP_DEFLATED))
    unpack(path, folder / "target", 10**7)


def test_too_many_members_are_refused(folder, monkeypatch):
    monkeypatch.setattr("nooch.base.zips.MOST_MEMBERS", 3)
    unpack(_put(folder, zipped(dict.fromkeys("abc", b""))), folder / "target", 10)
    (folder / "other").mkdir()
    path = folder / "other" / "some.zip"
    path.write_bytes(zipped(dict.fromkeys("abcd", b"")))
    _refused(path, "contains 4 files")


def _declare(content, **fields):
    """Change what a zip of one file says of it, in both of its headers."""
    content = bytearray(content)
    places = {"crc": (14, 16), "packed": (18, 20), "size": (22, 24)}
    for name, value in fields.items():
        for signature, at in zip((b"PK\x03\x04", b"PK\x01\x02"), places[name], strict=True):
            struct.pack_into("<I", content, content.index(signature) + at, value)
    return bytes(content)


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_member_that_gives_another_size_than_it_declares_is_refused(folder, compression):
    # a bomb that says it is small
    body = zipped({"a": bytes(900_000)}, compression)
    _refused(_put(folder, _declare(body, size=10)), "damaged", at_most=10**6)
    # ... or larger than it is
    body = zipped({"a": b"1234567"}, compression)
    _refused(_put(folder, _declare(body, size=70)), "damaged", "does not have the 70")


def test_members_that_share_their_bytes_are_refused(folder):
    path = _put(folder, zipped({f"{i}": bytes(1000) for i in range(2)} | {"end": b""}))
    with zipfile.ZipFile(path) as archive:
        first = archive.getinfo("0").header_offset
        second = archive.getinfo("1").header_offset
    content = path.read_bytes()
    # drop the second copy; its entry points to the first
    directory = content.index(b"PK\x01\x02")
    cut = content[second : second + 1031]
    content = content.replace(cut, b"")
    assert len(content) < len(path.read_bytes()) or first == 0
    entry = content.index(b"PK\x01\x02", directory - len(cut) + 10)
    content = bytearray(content)
    struct.pack_into("<I", content, entry + 42, 0)
    struct.pack_into("<I", content, content.index(b"PK\x05\x06") + 16, directory - len(cut))
    _refused(_put(folder, bytes(content)), "damaged", "'1' and header b'0' differ")


# damage


def test_a_changed_byte_is_found(folder):
    content = zipped({"a": bytes(1000), "b": b"123456789"}).replace(b"123456789", b"123456780")
    _refused(_put(folder, content), "damaged", "Bad CRC-32")


@pytest.mark.parametrize("part", [slice(0), slice(2), slice(-40), slice(200, None), None])
def test_what_is_no_zip(folder, part):
    _refused(_put(folder, b"<html>" if part is None else zipped(FILES)[part]), "damaged")


def test_a_zip_of_nothing(folder):
    _refused(_put(folder, zipped({})), "contains 0 files")
    _refused(_made(folder, ("a/", b"")), "contains 0 files")


def test_every_cut_and_many_changed_bytes_end_in_one_error(folder):
    content = zipped({"a/b": b"abc" * 30, "a/c": b"d"}, zipfile.ZIP_DEFLATED)
    for i in range(len(content)):
        changed = bytearray(content)
        changed[i] ^= 0xFF
        for attempt in (content[:i], bytes(changed)):
            # unpacked or refused, never another exception
            with contextlib.suppress(InputError):
                unpack(_put(folder, attempt), folder / f"target-{i}", 10**6)
            assert not (folder / ".some.zip.unpacking").exists()


def test_room_is_checked_before(folder, monkeypatch):
    usage = shutil.disk_usage(folder)._replace(free=3999)
    path = _put(folder, zipped(FILES))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    needed = "unpacking needs 4.0 kB, and 4.0 kB"
    fails(lambda: unpack(path, folder / "target", 10**6), needed, kind=OutputError)
    assert left(folder) == ["some.zip"]


def test_what_a_killed_process_left_is_cleared(folder):
    (folder / ".some.zip.unpacking" / "a.json").mkdir(parents=True)
    unpack(_put(folder, zipped(FILES)), folder / "target", 10**6)
    assert left(folder) == ["some.zip", "target"]


def test_an_interruption_in_the_middle_leaves_nothing(folder):
    def stop(done, total):
        raise KeyboardInterrupt

    path = _put(folder, zipped(FILES))
    with pytest.raises(KeyboardInterrupt):
        unpack(path, folder / "target", 10**6, tell=stop)
    assert left(folder) == ["some.zip"]
