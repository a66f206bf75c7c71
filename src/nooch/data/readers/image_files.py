"""Where the image files lie below a folder; links out of it are followed where a user names it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Self

from nooch.base.errors import InputError, ParameterError, some_of
from nooch.data import IMAGE_ENDINGS, Dataset, ImageId

__all__ = [
    "IMAGE_ENDINGS", "FolderWalk", "ImageIndex", "files_of", "image_paths", "list_images",
]  # fmt: skip

_COCO_PREFIXES = ("", "COCO_val2014_", "COCO_train2014_", "COCO_test2014_")


class ImageIndex:
    """Image files below a folder by relative path, by name and by name without ending.

    Args:
        root: the folder.
        paths: of the files, relative to it, where they are listed already, or those that may be
            asked for.
        follow: whether links that lead out of the folder are followed: where a user names it, and
            not where it came with data.

    Raises:
        InputError: no such folder, or one that cannot be listed.
    """

    def __init__(
        self, root: str | Path, paths: Iterable[str] | None = None, *, follow: bool = True
    ) -> None:
        self.root, self.walk = Path(root), FolderWalk(follow)
        self.paths = set(list_images(root, self.walk) if paths is None else paths)
        self._by_name: dict[str, list[str]] = {}
        self._by_stem: dict[str, list[str]] = {}
        for path in sorted(self.paths):
            name = path.rsplit("/", 1)[-1]
            self._by_name.setdefault(name, []).append(path)
            self._by_stem.setdefault(name.rsplit(".", 1)[0], []).append(path)

    @classmethod
    def of(cls, data: Dataset, images: str | Path | None, option: str) -> Self:
        """The files below ``images``, or the dataset's folder; ``option`` is how users name it.
        Raises InputError: neither, or no such folder.
        """
        root = images or data.image_root
        if root is None:
            remedy = f"import it with `images`, or give {option}"
            raise InputError("the dataset records no folder of images", remedy=remedy)
        return cls(root, follow=images is not None)

    def all_of(
        self, ids: Sequence[ImageId], names: Sequence[str | None], option: str
    ) -> list[Path]:
        """Paths of images by id and file name; what was left out of the folder is missing.
        Raises InputError: images that are not below the folder; several are named at once.
        """
        missing = [
            f"{image_id} ({name or 'no file name'})"
            for image_id, name in zip(ids, names, strict=True)
            if name not in self.paths
        ]
        if missing:
            left = "".join(f"; {text}" for text in self.walk.left_notes())
            linked = "" if self.walk.follow else "; no links that lead out of it"
            raise InputError(
                f"{len(missing)} of {len(names)} images are not there: {some_of(missing)}{left}",
                where=self.root,
                allowed=f"image files below this folder, under the dataset's file names{linked}",
                remedy=f"give the folder that the dataset's file names are relative to as {option}",
            )
        return [self.root / str(name) for name in names]

    def by_file_name(self, name: str) -> str | None:
        """Relative path of a file of this name: as given, below another folder, or without the
        first folders of the name; never one in another folder than the name says.
        """
        if name in self.paths:
            return name
        paths = self._by_name.get(name.rsplit("/", 1)[-1], [])
        alike = [p for p in paths if f"/{p}".endswith(f"/{name}") or f"/{name}".endswith(f"/{p}")]
        return _only(alike, name)

    def by_file_names(self, names: Sequence[str | None]) -> list[str | None]:
        """Of each name the path by ``by_file_name``. Raises InputError where two names that differ
        have one file.
        """
        paths = [None if name is None else self.by_file_name(name) for name in names]
        names_of: dict[str | None, str | None] = {}
        for path, name in zip(paths, names, strict=True):
            if path is not None and names_of.setdefault(path, name) != name:
                raise InputError(
                    f"is the only file called both {names_of[path]} and {name}",
                    where=self.root / path,
                    remedy="give the folder that these names are relative to",
                )
        return paths

    def by_stem(self, stem: str) -> str | None:
        """Relative path of the image with this name, whatever its ending."""
        return _only(self._by_stem.get(stem, []), stem)

    def by_id(self, image_id: ImageId) -> str | None:
        """Relative path of the file called after an id, also by COCO's names of 2014 and 2017."""
        stems = [str(image_id)]
        if isinstance(image_id, int):
            stems += [f"{prefix}{image_id:012d}" for prefix in _COCO_PREFIXES]
        return next((path for stem in stems if (path := self.by_stem(stem))), None)


def files_of(
    ids: Sequence[ImageId],
    data: Dataset | None,
    images: str | Path | None,
    names: Mapping[ImageId, str | None] = MappingProxyType({}),
) -> list[Path]:
    """Files of images below ``images`` or the dataset's folder, by the dataset's or other known
    names, else by their ids. Raises ParameterError: no folder. InputError: images that it lacks.
    """
    root = images or (None if data is None else data.image_root)
    if root is None:
        allowed = "`images` DIR, or a dataset that records their folder"
        raise ParameterError("where are the images?", allowed=allowed)
    known = {} if data is None else dict(data.images.select("image_id", "file_name").iter_rows())
    index, known = ImageIndex(root, follow=images is not None), known | dict(names)
    named = index.by_file_names([known.get(i) for i in ids])
    found = [path or index.by_id(i) for path, i in zip(named, ids, strict=True)]
    wanted = [path or known.get(i) for path, i in zip(found, ids, strict=True)]
    return index.all_of(ids, wanted, "`images`")


@dataclass
class FolderWalk:
    """How a folder is listed, and what was met there.

    Attributes:
        follow: whether links that lead out of the folder are followed.
        wanted: whether a file of this name is listed; image files by default.
        left_out: entries that were left out, each with the reason.
        led_out: links that led out of the folder and were followed.
    """

    follow: bool = True
    wanted: Callable[[str], bool] = lambda name: name.lower().endswith(IMAGE_ENDINGS)
    left_out: list[str] = field(default_factory=list)
    led_out: list[str] = field(default_factory=list)

    def left_notes(self) -> list[str]:
        """A note on what was left out, if anything was."""
        # a folder's entries come in any order
        left = sorted(self.left_out)
        return [f"left out of the folder of images: {len(left)}: {some_of(left)}"] if left else []

    def notes(self) -> list[str]:
        """Notes on what was left out, and on links that were followed."""
        more = "; commands that read them later need the folder as `images`, too"
        led = f"followed out of the folder of images: {len(self.led_out)}:"
        led += f" {some_of(sorted(self.led_out))}"
        return [*self.left_notes(), *([led + more] if self.led_out else [])]

    def below(self, root: Path, folder: str, seen: list[Path]) -> Iterator[str]:
        """Paths of image files below a folder of ``root``; ``seen`` are the real folders."""
        with os.scandir(root / folder) as entries:
            for entry in entries:
                path = f"{folder}/{entry.name}" if folder else entry.name
                link, wanted = entry.is_symlink(), self.wanted(entry.name)
                place = _target(entry.path) if link else Path()
                is_folder = place is not None and (place.is_dir() if link else entry.is_dir())
                # what leads nowhere may have been a folder
                if not (wanted or is_folder or (place is None and "." not in entry.name)):
                    continue
                if why := self._why_left_out(path, entry, place, is_folder, seen):
                    shown = path.encode("utf-8", "backslashreplace").decode()
                    self.left_out.append(f"{shown} ({why})")
                    continue
                if link and place is not None and not place.is_relative_to(root):
                    self.led_out.append(path)
                if is_folder:
                    yield from self.below(root, path, [*seen, place] if link and place else seen)
                else:
                    yield path

    def _why_left_out(
        self,
        path: str,
        entry: os.DirEntry[str],
        place: Path | None,
        is_folder: bool,
        seen: list[Path],
    ) -> str | None:
        """Why an entry is no image file and no folder of them, if so."""
        if place is None:
            return "a link that leads nowhere"
        try:
            path.encode()
        except UnicodeEncodeError:
            return "its name is not UTF-8"
        link = entry.is_symlink()
        if link and not self.follow and not place.is_relative_to(seen[0]):
            return "a link that leads out of the folder"
        if not is_folder:
            return None if entry.is_file() else "not a regular file"
        if link and any(place.is_relative_to(s) or s.is_relative_to(place) for s in seen):
            return "a link to a folder that is listed without it"
        return None


def list_images(root: str | Path, walk: FolderWalk | None = None) -> Iterator[str]:
    """Paths of the image files below a folder, relative to it; ``walk`` says how, and notes what it
    meets. Raises as ``ImageIndex``.
    """
    if not Path(root).is_dir():
        raise InputError("no such folder of images", where=root)
    try:
        real = Path(root).resolve()
        yield from (walk or FolderWalk()).below(real, "", [real])
    except OSError as error:
        where = error.filename or root
        raise InputError(f"cannot be listed: {error.strerror}", where=where) from error


def _only(paths: list[str], name: str) -> str | None:
    if len(paths) > 1:
        raise InputError(
            f"several files are called {name}: {some_of(paths)}",
            remedy="give the folder below which names are unique",
        )
    return paths[0] if paths else None


def _target(link: str) -> Path | None:
    """Where a link leads; None where that is nowhere, or in a circle."""
    try:
        return Path(link).resolve(strict=True)
    except (OSError, RuntimeError):
        return None


def image_paths(data: Dataset, images: str | Path | None = None) -> list[Path]:
    """The image files of a dataset's rows, below ``images`` or the folder that it records.

    Raises InputError for no image or folder, and as ``ImageIndex.all_of``.
    """
    if not len(data):
        raise InputError("the dataset has no images")
    ids, names = (data.images[name].to_list() for name in ("image_id", "file_name"))
    return ImageIndex.of(data, images, "`images`").all_of(ids, names, "`images`")
