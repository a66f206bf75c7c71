"""A whole collection: use files that exist, fetch the rest, unpack zips."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from nooch.base.calls import Progress, StepProgress, no_progress
from nooch.base.disk import locked
from nooch.base.download.http import Client, Patience
from nooch.base.download.one_file import DownloadRecord, Remote, fault, fetch, partial_of, size_of
from nooch.base.download.zips import unpack
from nooch.base.errors import DownloadError, InputError, OutputError, check_one_of, some_of
from nooch.base.files import replace_file, writing
from nooch.base.limits import BROKEN_JSON
from nooch.base.work_folder import check_space


class Collection(msgspec.Struct, frozen=True, kw_only=True):
    """Files, their licenses, and the command to run next (``{root}`` is the folder)."""

    name: str
    files: tuple[Remote, ...]
    licenses: tuple[str, ...] = ()
    next: str = ""


COLLECTIONS = ("coco-stuff", "nooch-published")
"""Names of the collections."""


def collection(name: str, *, images: bool = False) -> Collection:
    """A collection of the catalog, with its images if asked. ParameterError for an unknown name."""
    check_one_of("collection", name, COLLECTIONS)
    manifest = _catalog()
    entry, mirrors = manifest["collections"][name], manifest["mirrors"]
    files = [_facts(file, mirrors) for file in entry["files"] if images or not file.get("images")]
    licenses = [*entry["licenses"], *(entry["image_licenses"] if images else ())]
    made = {"name": name, "files": files, "licenses": licenses, "next": entry["next"]}
    return msgspec.convert(made, Collection)


def _catalog() -> Any:
    content = resources.files("nooch.base.download").joinpath("catalog.json").read_bytes()
    return msgspec.json.decode(content)


_COCO_NAME = re.compile(r"(?:COCO_((?:train|val|test)2014)_)?[0-9]{12}\.jpg")
_MOST_IMAGE = 500_000
"""Bytes of an image of COCO; a server that sends four times that is cut off."""


def coco_images(names: Sequence[str], where: object = None) -> Collection:
    """COCO's images of these names, of 2014 or 2017, from COCO's own server, one by one. Raises
    InputError for a name that is not COCO's; ``where`` is what errors call the list.
    """
    wrong = [name for name in names if not _COCO_NAME.fullmatch(name)]
    if wrong or not names:
        problem = f"{len(wrong)} names are not of COCO's images: {some_of(wrong)}" if wrong else (
            "lists no image"
        )  # fmt: skip
        allowed = "one per line, 000000000285.jpg or COCO_val2014_000000000285.jpg"
        raise InputError(problem, where=where, allowed=allowed)
    manifest, files = _catalog(), []
    for name in dict.fromkeys(names):
        match = _COCO_NAME.fullmatch(name)
        # a name of 2017 does not tell which of its two folders it is in
        folders = [match[1]] if match and match[1] else ["train2017", "val2017"]
        urls = [f"{base}{folder}/{name}" for base in manifest["mirrors"]["coco"]
                for folder in folders]  # fmt: skip
        files.append(Remote(name=name, urls=tuple(urls), about=_MOST_IMAGE))
    about = manifest["collections"]["nooch-coco-images"]
    facts = {"licenses": tuple(about["licenses"]), "next": about["next"]}
    return Collection(name="nooch-coco-images", files=tuple(files), **facts)


def _facts(file: dict[str, Any], mirrors: dict[str, list[str]]) -> dict[str, Any]:
    """A file of the catalog, which has the beginnings of its addresses once, as a ``Remote``."""
    path, begin = file["path"], mirrors[file["mirrors"]]
    facts = {name: file[name] for name in file.keys() - {"path", "mirrors", "images"}}
    if "mirror" in file:
        facts["mirror"] = _facts(file["mirror"], mirrors)
    return {**facts, "name": path.rsplit("/", 1)[-1], "urls": [base + path for base in begin]}


_LOCK = ".nooch-download.lock"


def prepared(root: Path) -> Path:
    """Make the folder if it is missing; OutputError if it cannot be made or written."""
    with writing(root, "choose another folder"):
        root.mkdir(parents=True, exist_ok=True)
    if not os.access(root, os.W_OK | os.X_OK):
        raise OutputError("no permission to write here", where=root, remedy="choose another folder")
    return root


@contextlib.contextmanager
def only_process(root: Path) -> Iterator[None]:
    """Lock a folder of downloads; OutputError if another process has it. A kill unlocks it."""
    remedy = "wait until it has ended, or choose another folder"
    with locked(root / _LOCK, "downloading into this folder", root, remedy=remedy):
        yield


class _Manifest(msgspec.Struct, frozen=True):
    checksum: str | None
    into: str
    files: dict[str, int]


def note_unpacked(root: Path, remote: Remote, files: dict[str, int]) -> None:
    """Record the files that a zip was unpacked to (path in its target -> bytes); written last."""
    manifest = _Manifest(remote.checksum, str(remote.into), files)
    replace_file(_manifest_file(root, remote), msgspec.json.encode(manifest))


def is_unpacked(root: Path, remote: Remote) -> bool:
    """True if this very zip was unpacked, and every file exists with its size."""
    if remote.into is None:
        return False
    try:
        manifest = msgspec.json.decode(_manifest_file(root, remote).read_bytes(), type=_Manifest)
    except (OSError, *BROKEN_JSON):
        return False
    if manifest.into != remote.into or remote.checksum not in {None, manifest.checksum}:
        return False
    target = root / remote.into
    with contextlib.suppress(OSError):
        return all((target / path).stat().st_size == size for path, size in manifest.files.items())
    return False


def _manifest_file(root: Path, remote: Remote) -> Path:
    return root / f".{remote.name}.unpacked.json"


LARGE = 10**7


@dataclass(frozen=True)
class Obtained:
    """The way a file was obtained: ``downloaded``, ``there`` already, ``unpacked`` earlier.

    ``published`` tells a published checksum from one that was recorded at the first download.
    """

    name: str
    how: str
    size: int
    checksum: str | None
    source: str | None = None
    unpacked_to: str | None = None
    published: bool = True


@dataclass(frozen=True)
class Downloaded:
    """The result of ``download``; ``next`` is the command to run after it."""

    collection: str
    root: str
    files: list[Obtained]
    licenses: list[str]
    next: str
    notes: list[str] = field(default_factory=list)


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
    sources = collection(source, images=images) if isinstance(source, str) else source
    folder = prepared(Path(root).absolute())
    with only_process(folder), Client(patience or Patience()) as client:
        run = _DownloadRun(folder, DownloadRecord(folder), client, keep_zips, progress)
        check_space(folder, run.needs(sources.files), "downloading and unpacking")
        files = []
        try:
            for number, remote in enumerate(sources.files):
                progress("files", number, len(sources.files))
                files.append(run.obtain(remote))
        finally:
            run.record.write()
        progress("files", len(files), len(files))
    if recorded := sum(not file.published and file.unpacked_to is None for file in files):
        run.notes.append(
            f"{recorded:,} images: nobody has published a checksum; the SHA-256 of each is recorded"
            f" in {run.record.path} at the first download, and protects only later ones"
        )
    following = sources.next.replace("{root}", shlex.quote(str(root)))
    return Downloaded(sources.name, str(root), files, list(sources.licenses), following, run.notes)


@dataclass(frozen=True)
class _DownloadRun:
    """One run: the folder, its record, and where to get missing files."""

    root: Path
    record: DownloadRecord
    client: Client
    keep_zips: bool
    progress: Progress
    notes: list[str] = field(default_factory=list)

    def needs(self, remotes: tuple[Remote, ...]) -> int:
        """Most bytes of disk space needed at any time; zips count twice: they are unpacked."""
        used = peak = 0
        for remote in map(self.record.complete, map(self._choice, remotes)):
            if is_unpacked(self.root, remote):
                continue
            final = self.root / remote.name
            here = remote.expected_size if final.exists() else size_of(partial_of(final))
            used += max(0, remote.expected_size - here)
            unpacked = remote.expected_size if remote.into else 0
            peak = max(peak, used + unpacked)
            used += unpacked - (remote.expected_size if remote.into and not self.keep_zips else 0)
        return max(peak, used)

    def obtain(self, remote: Remote) -> Obtained:
        """Obtain one file, or its mirror, and unpack it."""
        action = self._choice(remote)
        try:
            return self._obtain(action)
        except DownloadError as error:
            if action.mirror is None:
                raise
            self.notes.append(f"{action.name} {error.problem}; trying {action.mirror.name} instead")
            return self.obtain(action.mirror)

    def _choice(self, remote: Remote) -> Remote:
        """The file or mirror that is in the folder or unpacked; else the file."""
        for choice in remote.choices:
            exists = (self.root / choice.name).exists()
            if exists or is_unpacked(self.root, self.record.complete(choice)):
                return choice
        return remote

    def _obtain(self, remote: Remote) -> Obtained:
        if remote.checksum is None and remote.into is not None:
            self.notes.append(
                f"{remote.name}: nobody has published a checksum; its members are tested against"
                f" their CRC-32, and its SHA-256 is recorded in {self.record.path} at the first"
                " download"
            )
        remote = self.record.complete(remote)
        final = self.root / remote.name
        if is_unpacked(self.root, remote):
            return self._done(remote, "unpacked")
        how, origin = self._bring(remote, final)
        remote = self.record.add(remote, final, origin or "there already")
        if remote.into is not None:
            self._unpack(remote, final)
        return self._done(remote, how, origin)

    def _done(self, remote: Remote, how: str, origin: str | None = None) -> Obtained:
        final = self.root / remote.name
        size = final.stat().st_size if final.exists() else remote.expected_size
        if remote.into is not None and not self.keep_zips:
            final.unlink(missing_ok=True)
        published = remote.recorded_in is None
        return Obtained(remote.name, how, size, remote.checksum, origin, remote.into, published)

    def _bring(self, remote: Remote, final: Path) -> tuple[str, str | None]:
        """Put the file under its final name; returns how, and from where."""
        if final.exists():
            self._check_there(remote, final)
            return "there", None
        title = f"downloading {remote.name}"
        return "downloaded", fetch(remote, final, self.client, self._teller(remote, title))

    def _check_there(self, remote: Remote, final: Path) -> None:
        progress = self._teller(remote, f"checking {remote.name}")
        progress(0, remote.expected_size)
        if reason := fault(final, remote):
            problem = f"is there already, but {reason}"
            raise OutputError(problem, where=final, remedy="move it away, or choose another folder")
        progress(remote.expected_size, remote.expected_size)

    def _teller(self, remote: Remote, what: str) -> StepProgress:
        """Progress of a file that is large enough to wait for."""
        if remote.expected_size < LARGE:
            return no_progress
        return lambda done, total: self.progress(what, done, total)

    def _unpack(self, remote: Remote, final: Path) -> None:
        into = str(remote.into)
        tell = self._teller(remote, f"unpacking {remote.name}")
        files = unpack(final, self.root / into, remote.unpacked_at_most, tell=tell)
        note_unpacked(self.root, remote, files)
