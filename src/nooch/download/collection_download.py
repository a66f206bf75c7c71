"""A whole collection: what is there is kept, what a folder has is taken, the rest is fetched; zips
are unpacked.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from pathlib import Path

from nooch.download.catalogue import Collection, Remote, collection
from nooch.download.download_folder import only_process, prepared
from nooch.download.file_checks import Record, fault
from nooch.download.file_download import fetch
from nooch.download.http_requests import Client, Patience
from nooch.download.local_files import Found, files_below, is_linkable, take
from nooch.download.partial_files import Partial
from nooch.download.unpacked_record import is_unpacked, note_unpacked
from nooch.download.zip_extraction import unpack
from nooch.errors import DownloadError, OutputError
from nooch.shared_types import Progress, StepProgress, no_progress
from nooch.work_folder import check_space

__all__ = ["Downloaded", "Obtained", "download"]


_LARGE = 10**7


@dataclass(frozen=True)
class Obtained:
    """How a file came: ``downloaded``, ``taken`` from a folder, ``there`` already, or ``unpacked``
    earlier.

    ``published`` says whether somebody has published the checksum; otherwise it is the one recorded
    at the first download.
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
    """What ``download`` did; ``next`` is the command that goes on from here."""

    collection: str
    root: str
    files: list[Obtained]
    licences: list[str]
    next: str
    notes: list[str] = field(default_factory=list)


def download(
    wanted: str | Collection,
    root: str | Path,
    *,
    images: bool = False,
    source: str | Path | None = None,
    keep_zips: bool = True,
    progress: Progress = no_progress,
    patience: Patience | None = None,
) -> Downloaded:
    """Bring a collection's files into a folder, checked, and unpack its zips. Run again, it carries
    on where it stopped.

    Args:
        wanted: ``coco-stuff``, ``nooch-published``, or a collection of your own.
        root: folder of downloads; made where it is missing.
        images: also the images (coco-stuff: 20 GB).
        source: folder that has some of the files, anywhere below it; it is read, never changed.
        keep_zips: keep zips when they are unpacked.
        progress: called with (what, done, total): ``files`` counts them, anything else counts
            bytes, an estimate where nobody knows.
        patience: timeouts and attempts.

    Raises:
        DownloadError: no mirror gives a file.
        InputError: a zip is damaged or holds what is refused, no such ``source``.
        OutputError: the folder cannot be written, its disk is full, another process is at work
            there, or it holds other files of these names.
    """
    chosen = collection(wanted, images=images) if isinstance(wanted, str) else wanted
    folder = prepared(Path(root).absolute())
    names = {choice.name for remote in chosen.files for choice in remote.choices}
    found = files_below(source, folder, names)
    with only_process(folder), Client(patience or Patience()) as client:
        work = _Work(folder, Record(folder), found, client, keep_zips, progress)
        check_space(folder, work.needs(chosen.files), "downloading and unpacking")
        files = []
        for number, remote in enumerate(chosen.files):
            progress("files", number, len(chosen.files))
            files.append(work.obtain(remote))
        progress("files", len(files), len(files))
    following = chosen.next.replace("{root}", shlex.quote(str(root)))
    return Downloaded(chosen.name, str(root), files, list(chosen.licences), following, work.notes)


@dataclass(frozen=True)
class _Work:
    """One run: the folder, what is known of it, and how to get what is missing."""

    root: Path
    record: Record
    found: Found
    client: Client
    keep_zips: bool
    progress: Progress
    notes: list[str] = field(default_factory=list)

    def needs(self, remotes: tuple[Remote, ...]) -> int:
        """Bytes that the disk must have free, at the worst moment; zips count twice, since they are
        unpacked.
        """
        used = peak = 0
        for remote in map(self.record.complete, map(self._choice, remotes)):
            if is_unpacked(self.root, remote):
                continue
            final = self.root / remote.name
            here = remote.expected_size if final.exists() else Partial(final).size
            used += (
                0
                if is_linkable(self.found, remote.name, self.root)
                else max(0, remote.expected_size - here)
            )
            unpacked = remote.expected_size if remote.into else 0
            peak = max(peak, used + unpacked)
            used += unpacked - (remote.expected_size if remote.into and not self.keep_zips else 0)
        return max(peak, used)

    def obtain(self, remote: Remote) -> Obtained:
        """One file, or its mirror, and what it is unpacked to."""
        chosen = self._choice(remote)
        try:
            return self._obtain(chosen)
        except DownloadError as error:
            if chosen.mirror is None:
                raise
            self.notes.append(f"{chosen.name} {error.problem}; trying {chosen.mirror.name} instead")
            return self.obtain(chosen.mirror)

    def _choice(self, remote: Remote) -> Remote:
        """The file, or that of its mirrors which is there already, whole or unpacked, or in the
        folder to take from.
        """
        for choice in remote.choices:
            there = (self.root / choice.name).exists() or choice.name in self.found
            if there or is_unpacked(self.root, self.record.complete(choice)):
                return choice
        return remote

    def _obtain(self, remote: Remote) -> Obtained:
        if remote.checksum is None:
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
        """The file under its final name: how, and from where."""
        if final.exists():
            self._check_there(remote, final)
            return "there", None
        if taken := take(remote, self.found, final, self.notes.append):
            return "taken", str(taken)
        title = f"downloading {remote.name}"
        return "downloaded", fetch(remote, Partial(final), self.client, self._teller(remote, title))

    def _check_there(self, remote: Remote, final: Path) -> None:
        self._teller(remote, f"checking {remote.name}")(0, remote.expected_size)
        if reason := fault(final, remote):
            raise OutputError(
                f"is there already, but {reason}",
                where=final,
                remedy="move it away, or choose another folder",
            )
        self._teller(remote, f"checking {remote.name}")(remote.expected_size, remote.expected_size)

    def _teller(self, remote: Remote, what: str) -> StepProgress:
        """Progress of a file that is large enough to wait for."""
        if remote.expected_size < _LARGE:
            return no_progress
        return lambda done, total: self.progress(what, done, total)

    def _unpack(self, remote: Remote, final: Path) -> None:
        into = str(remote.into)
        tell = self._teller(remote, f"unpacking {remote.name}")
        files = unpack(final, self.root / into, remote.unpacked_at_most, tell=tell)
        note_unpacked(self.root, remote, files)
