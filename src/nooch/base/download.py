"""Download collections: mirrors in order, resumed by range, checked, and only then named."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec
from urllib3.response import BaseHTTPResponse

from nooch.base.calls import Progress, StepProgress, no_progress
from nooch.base.disk import locked
from nooch.base.errors import DownloadError, InputError, OutputError, check_one_of, some_of
from nooch.base.files import replace_file, writing
from nooch.base.http import Client, MirrorError, Patience, RangeError, RetryError, read_block
from nooch.base.limits import BROKEN_JSON
from nooch.base.work_folder import check_space
from nooch.base.zips import unpack

COLLECTIONS = ("coco-stuff", "nooch-published")
"""Names of the collections."""
LARGE = 10**7
"""Bytes of a file whose progress is worth telling."""
_GAIN = 1 << 20
_COCO_NAME = re.compile(r"(?:COCO_((?:train|val|test)2014)_)?[0-9]{12}\.jpg")
_RANGE = re.compile(r"bytes (\d{1,18})-\d{1,18}/(\d{1,18})")


class Remote(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file of a collection.

    Attributes:
        name: its name in the folder of downloads.
        urls: its addresses, tried in turn; http or https.
        size: bytes, or null if they are not published.
        about: estimate in bytes if ``size`` is null; four times that is the most accepted.
        checksum: such as ``md5:442b...``; md5 and sha1 detect damage, not malice. Only JPEG images
            may have none.
        into: folder below the downloads to which it is unpacked, if it is a zip.
        unpacked_at_most: bytes beyond which the zip's contents are refused.
    """

    name: str
    urls: tuple[str, ...]
    size: int | None = None
    about: int = 0
    checksum: str | None = None
    into: str | None = None
    unpacked_at_most: int = 0

    @property
    def expected_size(self) -> int:
        """Bytes to expect."""
        return self.about if self.size is None else self.size


class Collection(msgspec.Struct, frozen=True, kw_only=True):
    """Files, their licenses, and the command to run next (``{root}`` is the folder)."""

    name: str
    files: tuple[Remote, ...]
    licenses: tuple[str, ...] = ()
    next: str = ""


@dataclass(frozen=True)
class Obtained:
    """A file that was ``downloaded``, ``there`` already, or ``unpacked`` earlier."""

    name: str
    how: str
    size: int
    checksum: str | None
    source: str | None = None
    unpacked_to: str | None = None


@dataclass(frozen=True)
class Downloaded:
    """The result of ``download``; ``next`` is the command to run after it."""

    collection: str
    root: str
    files: list[Obtained]
    licenses: list[str]
    next: str
    notes: list[str]


def _catalog() -> Any:
    content = resources.files("nooch.base").joinpath("catalog.json").read_bytes()
    return msgspec.json.decode(content)


def collection(name: str, *, images: bool = False) -> Collection:
    """A collection of the catalog, with its images if asked. ParameterError for an unknown name."""
    check_one_of("collection", name, COLLECTIONS)
    catalog = _catalog()
    entry, files = catalog["collections"][name], []
    for facts in entry["files"]:
        path, mirrors = facts.pop("path"), catalog["mirrors"][facts.pop("mirrors")]
        if images >= facts.pop("images", False):
            urls = [base + path for base in mirrors]
            files.append({**facts, "name": path.rsplit("/", 1)[-1], "urls": urls})
    licenses = [*entry["licenses"], *(entry["image_licenses"] if images else ())]
    made = {"name": name, "files": files, "licenses": licenses, "next": entry["next"]}
    return msgspec.convert(made, Collection)


def coco_images(names: Sequence[str], where: object = None) -> Collection:
    """COCO's images of these names, of 2014 or 2017, from COCO's own server, one by one. Raises
    InputError for a name that is not COCO's; ``where`` is what errors call the list.
    """
    matches = {name: _COCO_NAME.fullmatch(name) for name in names}
    if (wrong := [name for name in matches if not matches[name]]) or not names:
        problem = f"{len(wrong)} names are not of COCO's images: {some_of(wrong)}"
        allowed = "one per line, 000000000285.jpg or COCO_val2014_000000000285.jpg"
        raise InputError(problem if wrong else "lists no image", where=where, allowed=allowed)
    catalog, files = _catalog(), []
    for name, match in matches.items():
        # a name of 2017 does not tell which of its two folders it is in
        folders = [match[1]] if match and match[1] else ["train2017", "val2017"]
        urls = [f"{base}{part}/{name}" for base in catalog["mirrors"]["coco"] for part in folders]
        files.append({"name": name, "urls": urls, "about": 500_000})
    made = catalog["collections"]["nooch-coco-images"]
    return msgspec.convert({**made, "name": "nooch-coco-images", "files": files}, Collection)


def download(
    source: str | Collection,
    root: str | Path,
    *,
    images: bool = False,
    keep_zips: bool = True,
    progress: Progress = no_progress,
    patience: Patience | None = None,
) -> Downloaded:
    """Download a collection's files into a folder, check them, unpack zips; resume if
    interrupted.
    """
    listed = collection(source, images=images) if isinstance(source, str) else source
    folder, remedy = Path(root).absolute(), "wait until it has ended, or choose another folder"
    with writing(folder, "choose another folder"):
        folder.mkdir(parents=True, exist_ok=True)
    lock = folder / ".nooch-download.lock"
    with (
        locked(lock, "downloading into this folder", folder, remedy=remedy),
        Client(patience or Patience()) as client,
    ):
        needed = sum(_needs(remote, folder) for remote in listed.files)
        check_space(folder, needed, "downloading and unpacking")
        files = []
        for number, remote in enumerate(listed.files):
            progress("files", number, len(listed.files))
            files.append(_obtain(remote, folder, client, progress))
            if remote.into is not None and not keep_zips:
                (folder / remote.name).unlink(missing_ok=True)
        progress("files", len(files), len(files))
    unknown = sum(file.checksum is None for file in files)
    note = (
        f"no checksum is published for {unknown:,} images: only their first bytes are checked, and"
        " the length of a download"
    )
    following = listed.next.replace("{root}", shlex.quote(str(root)))
    notes = [note] if unknown else []
    return Downloaded(listed.name, str(root), files, list(listed.licenses), following, notes)


def _needs(remote: Remote, folder: Path) -> int:
    """Bytes of disk space that a file still needs; a zip counts twice: it is unpacked."""
    final, size = folder / remote.name, remote.expected_size
    if _is_unpacked(remote, folder):
        return 0
    here = size if final.exists() else _size_of(_partial_of(final))
    return max(0, size - here) + size * (remote.into is not None)


def _obtain(remote: Remote, folder: Path, client: Client, progress: Progress) -> Obtained:
    """Use a file that is there, or download it; unpack it if it is a zip."""

    def tell(doing: str) -> StepProgress:
        large = remote.expected_size >= LARGE
        return partial(progress, f"{doing} {remote.name}") if large else no_progress

    final, how, url = folder / remote.name, "unpacked", None
    if not _is_unpacked(remote, folder):
        if final.exists():
            how = "there"
            tell("checking")(0, remote.expected_size)
            if reason := _fault(final, remote):
                remedy = "move it away, or choose another folder"
                raise OutputError(f"is there already, but {reason}", where=final, remedy=remedy)
        else:
            how, url = "downloaded", _fetch(remote, final, client, tell("downloading"))
        if remote.into is not None:
            most, target = remote.unpacked_at_most, folder / remote.into
            files = unpack(final, target, most, tell=tell("unpacking"))
            made = _Unpacked(remote.checksum, remote.into, files)
            # last: what it lists is whole
            replace_file(_mark_of(final), msgspec.json.encode(made))
    size = final.stat().st_size if final.exists() else remote.expected_size
    return Obtained(remote.name, how, size, remote.checksum, url, remote.into)


class _Unpacked(msgspec.Struct, frozen=True):
    """The files that a zip was unpacked to: path in its target -> bytes."""

    checksum: str | None
    into: str
    files: dict[str, int]


def _is_unpacked(remote: Remote, folder: Path) -> bool:
    """True if this very zip was unpacked, and every file exists with its size."""
    with contextlib.suppress(OSError, *BROKEN_JSON):
        content = _mark_of(folder / remote.name).read_bytes()
        made = msgspec.json.decode(content, type=_Unpacked)
        sizes = {folder / made.into / path: size for path, size in made.files.items()}
        return (made.checksum, made.into) == (remote.checksum, remote.into) and all(
            path.stat().st_size == size for path, size in sizes.items()
        )
    return False


def _mark_of(final: Path) -> Path:
    return final.with_name(f".{final.name}.unpacked.json")


def _partial_of(final: Path) -> Path:
    """The file of the bytes that have come so far."""
    return final.with_name(f".{final.name}.partial")


def _size_of(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _fault(path: Path, remote: Remote) -> str | None:
    """Describe what is wrong with a file, or return None. Reads all of it."""
    if not path.is_file():
        return "is not a file"
    if remote.size is not None and (size := _size_of(path)) != remote.size:
        return f"has {size:,} bytes instead of {remote.size:,}"
    with path.open("rb") as file:
        if remote.checksum is None:
            return None if file.read(3) == b"\xff\xd8\xff" else "is not a JPEG image"
        algorithm, _, right = remote.checksum.partition(":")
        # md5 and sha1 are what COCO's own server and others publish: against damage
        digest = hashlib.file_digest(file, lambda: hashlib.new(algorithm, usedforsecurity=False))
    wrong = digest.hexdigest()
    return None if wrong == right else f"has {algorithm} {wrong} instead of {right}"


def _fetch(remote: Remote, final: Path, client: Client, tell: StepProgress) -> str:
    """Download a file under its final name; returns the URL that gave it. Bytes of an earlier
    attempt, or of another mirror, are kept; ``tell`` is called with the bytes so far, and all.
    """
    file, reasons = _partial_of(final), ""
    with writing(file, "make room or choose another folder; the same command then resumes"):
        for url in remote.urls:
            try:
                _from_mirror(url, remote, file, client, tell)
            except MirrorError as error:
                reasons += f"\n  {url} {error}"
            else:
                file.replace(final)
                return url
    remedy = "run the same command again later to resume, or download the file there yourself"
    raise DownloadError(f"cannot be downloaded:{reasons}", where=remote.name, remedy=remedy)


def _from_mirror(url: str, remote: Remote, file: Path, client: Client, tell: StepProgress) -> None:
    """Ask a mirror until it has given everything, and that is right. Raises MirrorError. If what
    was there before turns out to be of another file, it is asked once for all of it.
    """
    best = resumed = _size_of(file)
    failures = 0
    while True:
        try:
            _complete(url, remote, file, client, tell)
        except RangeError:
            file.unlink(missing_ok=True)
            if not resumed:
                raise
            resumed = 0
        except RetryError as error:
            resumed, failures = _size_of(file), failures + 1
            # only what was never reached before is a gain: a server may restart each time
            if resumed - best >= _GAIN:
                best, failures = resumed, 0
            if failures >= client.patience.attempts:
                raise MirrorError(f"{error} (tried {failures} times)") from error
            client.patience.before_attempt(failures, error.after)
        else:
            return


def _complete(url: str, remote: Remote, file: Path, client: Client, tell: StepProgress) -> None:
    """One request for the bytes that are missing, if any are, and a check of the file."""
    if _size_of(file) != remote.size:
        _transfer(url, remote, file, client, tell)
    if reason := _fault(file, remote):
        raise RangeError(f"gives a file that {reason}")


def _transfer(url: str, remote: Remote, file: Path, client: Client, tell: StepProgress) -> None:
    """One request for the bytes that are missing, and its body."""
    offset, most = _size_of(file), remote.size or 4 * remote.about
    with client.get(url, {"Range": f"bytes={offset}-"} if offset else {}) as response:
        done, total = _span(response, offset)
        if total not in {None, remote.size or total} or (total or 0) > most:
            raise MirrorError(f"offers {total:,} bytes instead of {most:,}")
        whole, since, gained = total or remote.size, time.monotonic(), 0
        # unbuffered, so that a kill loses nothing
        with file.open("ab" if done else "wb", buffering=0) as opened:
            while block := read_block(response):
                done, gained = done + len(block), gained + len(block)
                if done > most:
                    raise RangeError(f"sends more than {most:,} bytes")
                opened.write(block)
                tell(done, whole or remote.expected_size)
                if (passed := time.monotonic() - since) >= client.patience.window:
                    if gained < client.patience.slowest:
                        raise RetryError(f"sent only {gained:,} bytes in {passed:.0f} s")
                    since, gained = since + passed, 0
            os.fsync(opened.fileno())
    if done < (whole or 0):
        raise RetryError(f"ended after {done:,} of {whole:,} bytes")


def _span(response: BaseHTTPResponse, offset: int) -> tuple[int, int | None]:
    """First byte of the body, and size of the whole file if the server reports it."""
    if response.headers.get("Content-Type", "").strip().lower().startswith("text/html"):
        # a portal or an error page with status 200: what has come is kept
        raise MirrorError("sends a web page")
    if response.status == 200:
        length = response.headers.get("Content-Length", "")
        has_length = length.isdecimal() and not response.headers.get("Transfer-Encoding")
        return 0, int(length[:18]) if has_length else None
    text = response.headers.get("Content-Range", "").strip()
    if not offset or not (match := _RANGE.fullmatch(text)) or int(match[1]) != offset:
        raise RangeError(f"answers with the range {text[:80]!r} instead of bytes {offset} onwards")
    return offset, int(match[2])
