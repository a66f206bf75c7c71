"""Where the image files lie below a folder, without ever leaving it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Self

import polars as pl

from nooch.data import Dataset, ImageId
from nooch.errors import InputError, ParameterError, some_of

__all__ = [
    "ENDING_PATTERN", "IMAGE_ENDINGS", "ImageIndex", "files_of", "ids_in_names", "image_paths",
    "list_images", "numbers_in_names",
]  # fmt: skip

IMAGE_ENDINGS = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff", ".gif", ".ppm")
ENDING_PATTERN = rf"(?i)({'|'.join(map(re.escape, IMAGE_ENDINGS))})$"
_COCO_PREFIXES = ("", "COCO_val2014_", "COCO_train2014_", "COCO_test2014_")


class ImageIndex:
    """Image files below a folder by relative path, by name and by name without ending.

    Links that lead out of the folder are left out.

    Args:
        root: the folder.
        paths: of the files, relative to it, where they are listed already, or those that may be
            asked for.

    Raises:
        InputError: no such folder, or one that cannot be listed.
    """

    def __init__(self, root: str | Path, paths: Iterable[str] | None = None) -> None:
        self.root = Path(root)
        self.paths = set(list_images(root) if paths is None else paths)
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
        return cls(root)

    def all_of(
        self, ids: Sequence[ImageId], names: Sequence[str | None], option: str
    ) -> list[Path]:
        """Paths of images by id and file name. Links that lead out of the folder are missing.
        Raises InputError: images that are not below the folder; several are named at once.
        """
        missing = [
            f"{image_id} ({name or 'no file name'})"
            for image_id, name in zip(ids, names, strict=True)
            if name not in self.paths
        ]
        if missing:
            raise InputError(
                f"{len(missing)} of {len(names)} images are not there: {some_of(missing)}",
                where=self.root,
                allowed="image files below this folder, under the dataset's file names; no links"
                " that lead out of it",
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
    index, known = ImageIndex(root), known | dict(names)
    named = index.by_file_names([known.get(i) for i in ids])
    found = [path or index.by_id(i) for path, i in zip(named, ids, strict=True)]
    wanted = [path or known.get(i) for path, i in zip(found, ids, strict=True)]
    return index.all_of(ids, wanted, "`images`")


def list_images(root: str | Path) -> Iterator[str]:
    """Paths of the image files below a folder, relative to it. Raises as ``ImageIndex``."""
    if not Path(root).is_dir():
        raise InputError("no such folder of images", where=root)
    try:
        yield from _walk(Path(root).resolve(), "")
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


def _walk(root: Path, below: str) -> Iterator[str]:
    with os.scandir(root / below) as entries:
        for entry in entries:
            path = f"{below}/{entry.name}" if below else entry.name
            if entry.is_symlink() and not _leads_into(root, entry.path):
                continue
            if entry.is_dir():
                # a link to a folder above would be walked for ever
                if not entry.is_symlink():
                    yield from _walk(root, path)
            elif entry.name.lower().endswith(IMAGE_ENDINGS):
                yield path


def _leads_into(root: Path, link: str) -> bool:
    try:
        return Path(link).resolve().is_relative_to(root)
    except (OSError, RuntimeError):
        # a link to itself
        return False


def image_paths(data: Dataset, images: str | Path | None = None) -> list[Path]:
    """The image files of a dataset's rows, below ``images`` or the folder that it records.

    Raises InputError for no image or folder, and as ``ImageIndex.all_of``.
    """
    if not len(data):
        raise InputError("the dataset has no images")
    ids, names = (data.images[name].to_list() for name in ("image_id", "file_name"))
    return ImageIndex.of(data, images, "`images`").all_of(ids, names, "`images`")


def numbers_in_names(names: pl.Series) -> pl.Series:
    """The number at the end of names without their endings, Int64: 285 of ``COCO_000285.jpg``; null
    where there is none.
    """
    stems = names.str.replace(ENDING_PATTERN, "")
    return stems.str.extract(r"(\d+)$").cast(pl.Int64, strict=False).alias("image_id")


def ids_in_names(names: pl.Series, ids: pl.Series) -> pl.Series:
    """The image whose id a file name, path or text is, or ends with in digits; null where there is
    none.

    Args:
        names: String (n,).
        ids: of the images, Int64 or String.
    """
    stems = names.str.replace(r"^.*[/\\]", "").str.replace(ENDING_PATTERN, "")
    forms = [form.cast(ids.dtype, strict=False) for form in (names, stems, numbers_in_names(stems))]
    known = (pl.when(form.is_in(ids.implode())).then(form) for form in forms)
    return pl.select(pl.coalesce(known).alias("image_id")).to_series()
