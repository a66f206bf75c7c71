"""Image files below a folder; links out of it are followed if a user named it."""

from __future__ import annotations

import os
import re
import stat
import unicodedata
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from nooch.base.errors import Command, InputError, ParameterError, no_such, some_of, unreadable
from nooch.base.limits import usable_cpus
from nooch.base.words import counted
from nooch.data.dataset import Dataset, ImageId
from nooch.data.image_names import IMAGE_ENDINGS, UNREAD_ENDINGS, is_junk

_COCO_PREFIXES = ("", "COCO_val2014_", "COCO_train2014_", "COCO_test2014_")


class ImageIndex:
    """Image files below a folder by relative path, by name and by name without ending.

    Args:
        root: the folder.
        paths: of the files, relative to it, if they are listed already, or those that may be
            asked for.
        follow: whether links that lead out of the folder are followed: yes if a user named the
            folder, no if it came with data.

    Raises:
        InputError: no such folder, or one that cannot be listed.
    """

    def __init__(
        self, root: str | Path, paths: Iterable[str] | None = None, *, follow: bool = True
    ) -> None:
        self.root, self.walk = Path(root), FolderWalk(follow)
        self.paths = set(list_images(root, self.walk) if paths is None else paths)
        self._called: dict[int, dict[str, list[str]]] = {}

    @classmethod
    def from_dataset(cls, data: Dataset, images: str | Path | None, option: str) -> Self:
        """The files below ``images``, or the dataset's folder; ``option`` is how users name it.
        Raises InputError: neither, or no such folder.
        """
        root = images or data.image_root
        if root is None:
            problem = "the dataset records no folder of images"
            raise InputError(problem, give=({option: ...}, Command("import auto", images=...)))
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
            linked = "" if self.walk.follow else "; no links out of it"
            raise InputError(
                f"{len(missing)} of {len(names)} images were not found: {some_of(missing)}{left}",
                where=self.root,
                allowed=f"image files below this folder, under the dataset's file names{linked}",
                remedy="{}, the folder that the dataset's file names are relative to",
                give={option: ...},
            )
        return [self.root / str(name) for name in names]

    def by_file_name(self, name: str) -> str | None:
        """Relative path of a file of this name: as given, below another folder, or without the
        first folders of the name; never one in another folder than the name's, except that an
        absolute name, of another machine, or one with ``..`` belongs to the file with the longest
        common end. Names may differ in their separators, else in Unicode form, else in small and
        capital letters, else in zeros before a number.
        """
        return name if name in self.paths else self._found(name, written)

    def _found(self, name: str, form_of: Callable[[str, int], str]) -> str | None:
        is_away = re.match(r"[/\\]|[A-Za-z]:[/\\]|[a-z]+://", name) or re.search(_UP, name)
        asked = re.sub(rf".*{_UP}|^\./", "", name.replace("\\", "/"))
        for form in range(len(_FORMS)):
            end = form_of(asked, form)
            ends = [(path, form_of(path, form)) for path in self._files(asked, form)]
            ends = [(path, other) for path, other in ends if _base(other) == _base(end)]
            alike = [
                p for p, o in ends if f"/{o}".endswith(f"/{end}") or f"/{end}".endswith(f"/{o}")
            ]
            alike = [p for p, o in ends if o == end] or alike
            if not alike and is_away:
                common = [_n_common(other, end) for _, other in ends]
                alike = [p for (p, _), n in zip(ends, common, strict=True) if n == max(common)]
            if alike:
                return _only(alike, name)
        return None

    def _files(self, name: str, form: int) -> list[str]:
        """The files whose names without ending are the same in a form of ``written``."""
        if form not in self._called:
            called = self._called[form] = defaultdict(list)
            for path in sorted(self.paths):
                called[stem_of(path, form)].append(path)
        return self._called[form].get(stem_of(name, form), [])

    def by_file_names(self, names: Sequence[str | None]) -> list[str | None]:
        """The path of each name, by ``by_file_name``. Raises InputError if two names that differ
        have one file.
        """
        paths = [None if name is None else self.by_file_name(name) for name in names]
        names_of: dict[str | None, str | None] = {}
        for path, name in zip(paths, names, strict=True):
            if path is not None and names_of.setdefault(path, name) != name:
                problem = f"matches both {names_of[path]} and {name}"
                remedy = "give the folder to which these names are relative"
                raise InputError(problem, where=self.root / path, remedy=remedy)
        return paths

    def by_stem(self, stem: str) -> str | None:
        """Relative path of the image with this name and any ending, as ``by_file_name``."""
        return self._found(f"{stem}.", lambda path, form: written(path, form).rsplit(".", 1)[0])

    def by_id(self, image_id: ImageId) -> str | None:
        """Relative path of the file called after an id, also by COCO's names of 2014 and 2017."""
        if isinstance(image_id, int):
            for prefix in _COCO_PREFIXES:
                if paths := self._files(f"{prefix}{image_id:012d}.", 0):
                    return _only(paths, paths[0])
        return self.by_stem(str(image_id))


_UP = r"(?:^|[/\\])\.\.[/\\]"
_FORMS: tuple[Callable[[str], str], ...] = (
    lambda path: path.replace("\\", "/"),
    partial(unicodedata.normalize, "NFC"),
    str.lower,
    lambda path: re.sub(r"(?<![^/])0+(?=\d+(\.[^./]*)?$)", "", path),
)
"""Forms of names, each applied to the one before: as written, in one Unicode form, in small
letters, a number without the zeros before it.
"""


def written(path: str, form: int) -> str:
    """A path in one of ``_FORMS``."""
    for change in _FORMS[: form + 1]:
        path = change(path)
    return path


def _base(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def stem_of(path: str, form: int = len(_FORMS) - 1) -> str:
    """The name of a file without its ending in one of ``_FORMS``; by default in the last, in which
    all names that may mean one file are equal.
    """
    return _base(written(path, form)).rsplit(".", 1)[0]


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
        problem = "the dataset does not record the folder of its images"
        raise ParameterError(problem, give={"images": ...})
    file_names = (
        {} if data is None else dict(data.images.select("image_id", "file_name").iter_rows())
    )
    index, file_names = ImageIndex(root, follow=images is not None), file_names | dict(names)
    by_name = index.by_file_names([file_names.get(i) for i in ids])
    paths = [path or index.by_id(i) for path, i in zip(by_name, ids, strict=True)]
    path_names = [path or file_names.get(i) for path, i in zip(paths, ids, strict=True)]
    return index.all_of(ids, path_names, "images")


@dataclass
class FolderWalk:
    """Rules for listing a folder, and notes on what was met there.

    Attributes:
        follow: whether links that lead out of the folder are followed.
        wanted: whether a file of this name is listed; image files by default.
        left_out: entries that were left out, each with the reason.
        unread: ending -> number of the images in formats that are not read.
        led_out: links that led out of the folder and were followed.
    """

    follow: bool = True
    wanted: Callable[[str], bool] = lambda name: name.lower().endswith(IMAGE_ENDINGS)
    left_out: list[str] = field(default_factory=list)
    unread: Counter[str] = field(default_factory=Counter)
    led_out: list[str] = field(default_factory=list)

    def left_notes(self) -> list[str]:
        """A note on what was left out, if anything was."""
        # a folder's entries come in any order
        left = sorted(self.left_out)
        notes = [f"left out of the folder of images: {len(left)}: {some_of(left)}"] if left else []
        if self.unread:
            kinds = ", ".join(f"{ending} {count}" for ending, count in sorted(self.unread.items()))
            files = counted(sum(self.unread.values()), "file")
            notes.append(f"left out {files} in formats that nooch does not read: {kinds}")
        return notes

    def notes(self) -> list[str]:
        """Notes on what was left out, and on links that were followed."""
        more = "; later commands that read them need the folder as `images`"
        led = f"followed {counted(len(self.led_out), 'link')} out of the folder of images:"
        led += f" {some_of(sorted(self.led_out))}"
        return [*self.left_notes(), *([led + more] if self.led_out else [])]

    def below(self, root: Path, folder: str, seen: list[Path]) -> Iterator[str]:
        """Paths of image files below a folder of ``root``; ``seen`` are the real folders."""
        # a Path for each file is slow
        real = root
        with os.scandir(root / folder) as entries:
            for entry in entries:
                if is_junk(entry.name) or _of_page(entry):
                    continue
                path = f"{folder}/{entry.name}" if folder else entry.name
                link, matches = entry.is_symlink(), self.wanted(entry.name)
                place = _target(entry.path) if link else real
                is_folder = place is not None and (place.is_dir() if link else entry.is_dir())
                # what leads nowhere may have been a folder
                if not (matches or is_folder or (place is None and "." not in entry.name)):
                    ending = os.path.splitext(entry.name)[1].lower()  # noqa: PTH122 - fast
                    self.unread.update([ending] if ending in UNREAD_ENDINGS else [])
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
        """Why an entry is not an image file and no folder of them, if so."""
        if place is None:
            return "a link that leads nowhere"
        try:
            path.encode()
        except UnicodeEncodeError:
            return "its name is not UTF-8"
        link = entry.is_symlink()
        if link and not self.follow and not place.is_relative_to(seen[0]):
            return AWAY
        if not is_folder:
            return None if entry.is_file() else "not a regular file"
        if link and any(place.is_relative_to(s) or s.is_relative_to(place) for s in seen):
            return "a link to a folder that is listed without it"
        return None


def _of_page(entry: os.DirEntry[str]) -> bool:
    """True for the folder of the pictures of a page, which are copies of images."""
    records = (Path(entry.path).with_name(name) for name in ("report.json", "audit.parquet"))
    return entry.name == "pictures" and any(record.is_file() for record in records)


AWAY = "a link that leads out of the folder"
"""Why a link is not followed."""


def list_images(root: str | Path, walk: FolderWalk | None = None) -> Iterator[str]:
    """Paths of the image files below a folder, relative to it; ``walk`` has the rules, and notes
    what it meets. Raises as ``ImageIndex``.
    """
    if not Path(root).is_dir():
        raise no_such(root, "folder of images")
    try:
        real = Path(root).resolve()
        yield from (walk or FolderWalk()).below(real, "", [real])
    except OSError as error:
        where = error.filename or root
        raise InputError(f"cannot be listed: {error.strerror}", where=where) from error


def _n_common(path: str, name: str) -> int:
    """Number of folders and names at the end that two paths share."""
    pairs = zip(reversed(path.split("/")), reversed(name.split("/")), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _only(paths: list[str], name: str) -> str | None:
    if len(paths) > 1:
        raise InputError(
            f"several files are called {name}: {some_of(paths)}",
            remedy="give the folder below which names are unique",
        )
    return paths[0] if paths else None


def _target(link: str) -> Path | None:
    """Target of a link; None if it leads nowhere or in a circle."""
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
    return ImageIndex.from_dataset(data, images, "images").all_of(ids, names, "images")


PHOTOGRAPHS = ("JPEG", "PNG", "BMP", "WEBP", "TIFF", "GIF", "PPM")
"""Pillow's names of the image formats of ``IMAGE_ENDINGS``."""

LABEL_MAPS = ("PNG", "BMP", "TIFF")
"""Formats of label maps."""

UNREADABLE = (OSError, SyntaxError, ValueError, Image.DecompressionBombError)
"""Errors of a file that is not such an image, or is damaged."""

UPRIGHT = "upright"
"""Recorded in caches: the EXIF orientation is applied."""

_ORIENTATION = 0x0112
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT, 3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM, 5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270, 7: Image.Transpose.TRANSVERSE, 8: Image.Transpose.ROTATE_90,
}  # fmt: skip
"""EXIF's orientation -> what makes the picture upright; 1 is upright."""


def regular_file(path: str | Path, *, buffering: int = -1) -> BinaryIO:
    """A file opened for reading, with the ``buffering`` of ``open``. Raises OSError for a pipe,
    socket or device, which could wait for ever.
    """
    file: Any = open(path, "rb", buffering, opener=_without_waiting)  # noqa: SIM115 - Path has no opener
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError("is not a regular file")
    return cast(BinaryIO, file)


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


@contextmanager
def opened_image(
    source: Path | BinaryIO, formats: tuple[str, ...] = PHOTOGRAPHS
) -> Iterator[Image.Image]:
    """Open an image as one of some formats, regardless of its name's ending.

    Without ``formats`` Pillow would try all that it knows, some by starting another program (EPS:
    Ghostscript).
    """
    if isinstance(source, Path):
        with regular_file(source) as file, opened_image(file, formats) as image:
            yield image
        return
    with warnings.catch_warnings():
        # a bomb is an error here, below; damaged metadata do not matter
        warnings.simplefilter("ignore")
        try:
            opened = Image.open(source, formats=formats)
        except UnidentifiedImageError as error:
            raise UnidentifiedImageError(
                f"cannot identify image file as {', '.join(formats)}"
            ) from error
    with opened:
        most = Image.MAX_IMAGE_PIXELS
        if most is not None and opened.width * opened.height > most:
            raise Image.DecompressionBombError(
                f"has {opened.width} x {opened.height} pixels, more than the limit of {most:,}"
            )
        yield opened


def rgb_image(
    source: Path | BinaryIO,
    value_range: tuple[float, float] | None = None,
    longest: int | None = None,
) -> Image.Image:
    """``rgb_of`` a file."""
    with opened_image(source) as opened:
        return rgb_of(opened, value_range, longest)


def rgb_of(
    opened: Image.Image,
    value_range: tuple[float, float] | None = None,
    longest: int | None = None,
) -> Image.Image:
    """The picture of an opened file in RGB, upright by its EXIF orientation.

    16 bits become 8 by their high byte, in each image alike: 65535 is 255, and a picture of 8 bits
    times 257 is itself again. A transparent pixel has the color that is stored for it.
    """
    turn = _TURNS.get(orientation(opened))
    if longest is not None:
        opened.draft("RGB", (longest, longest))
    # Pillow turns a TIFF while it loads it
    turn = None if opened.format == "TIFF" else turn
    picture = _rgb(opened, value_range)
    return picture if turn is None else picture.transpose(turn)


def _rgb(opened: Image.Image, value_range: tuple[float, float] | None) -> Image.Image:
    values = stored_values(opened)
    if values is None:
        if opened.mode == "P" and "transparency" in opened.info:
            # Pillow asks for this detour and warns without it
            return opened.convert("RGBA").convert("RGB")
        return opened.convert("RGB")
    if value_range is not None:
        low, high = value_range
        if np.isnan(values).any():
            raise ValueError("has pixels that are NaN")
        shares = (np.clip(values.astype(np.float64), low, high) - low) / (high - low)
        return Image.fromarray(np.rint(255 * shares).astype(np.uint8)).convert("RGB")
    if values.dtype != np.uint16:
        kind = "floating-point numbers" if opened.mode == "F" else "integers of 32 bits"
        raise ValueError(
            f"contains {kind} (mode {opened.mode}), without a fixed range: give `range` LOW,HIGH,"
            " the values of black and white, or convert it to 8 bits"
        )
    return Image.fromarray((values >> 8).astype(np.uint8)).convert("RGB")


def stored_values(opened: Image.Image) -> NDArray[Any] | None:
    """Values (height, width) of a single channel of more than 8 bits, uint16 where the scale goes
    to 65535; None for other images.
    """
    if not is_wide(opened):
        return None
    values = np.asarray(opened)
    # Pillow scales a PGM by the maximum that it states
    whole = opened.mode.startswith("I;16") or (opened.format == "PPM" and opened.mode == "I")
    return values.astype(np.uint16) if whole else values


def is_wide(opened: Image.Image) -> bool:
    """True of a single channel of more than 8 bits."""
    return opened.mode in {"I", "F"} or opened.mode.startswith("I;16")


_SAMPLE, _VALUES = 32, 100_000
_PERCENTILES = (0.5, 99.5)
ValueRange = tuple[float, float]
"""Values of black and white."""


def check_range(value_range: ValueRange | None) -> None:
    """Raise ParameterError for a range that is not two ascending numbers."""
    if value_range is not None and not -np.inf < value_range[0] < value_range[1] < np.inf:
        problem = f"is {value_range[0]:g},{value_range[1]:g}"
        raise ParameterError(problem, where="`range`", allowed="LOW,HIGH with LOW below HIGH")


def sampled_values(paths: Sequence[str | Path]) -> Iterator[tuple[str | Path, NDArray[Any]]]:
    """The wide ones among 32 of the files, evenly spaced, each with its values; what cannot be read
    is left out.
    """
    for path in paths[:: -(-len(paths) // _SAMPLE) or 1]:
        try:
            with opened_image(Path(path)) as opened:
                values = stored_values(opened)
        except UNREADABLE:
            continue
        if values is not None:
            yield path, values


def display_range(paths: Sequence[str | Path]) -> ValueRange | None:
    """Range that shows what wide images contain: percentiles .5 and 99.5 of a sample's values, the
    same for all; None if no image is wide.
    """
    samples = [values.ravel() for _, values in sampled_values(paths)]
    samples = [values[:: -(-len(values) // _VALUES)].astype(np.float64) for values in samples]
    values = np.concatenate([np.zeros(0), *samples])
    values = values[np.isfinite(values)]
    if not len(values):
        return None
    low, high = map(float, np.percentile(values, _PERCENTILES, method="nearest"))
    return (low, high) if low < high else (low, low + 1)


def range_text(value_range: ValueRange) -> str:
    """The range as words below a picture."""
    low, high = value_range
    return f"values {low:,.6g} (black) to {high:,.6g} (white)"


def orientation(opened: Image.Image) -> int:
    """EXIF's orientation, 1 to 8; 1, upright, if there is none that can be read."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            value = opened.getexif().get(_ORIENTATION, 1)
        except Exception:  # noqa: BLE001 - damaged metadata, on which Pillow fails in many ways
            return 1
    return value if value in _TURNS else 1


def upright_size(opened: Image.Image) -> tuple[int, int]:
    """Width and height of the picture that ``rgb_image`` gives, of an image that is not loaded."""
    width, height = opened.size
    return (height, width) if orientation(opened) >= 5 else (width, height)


def stored_size(path: str) -> tuple[int, int]:
    """Width and height of an image file as it is stored, before it is turned upright."""
    with opened_image(Path(path)) as opened:
        return opened.size


def sizes_of(paths: Sequence[str | None]) -> list[tuple[int | None, int | None]]:
    """Width and height of each upright picture; None, None of a file that is not one, and of
    None.
    """

    def of(path: str | None) -> tuple[int | None, int | None]:
        try:
            if path is not None:
                with opened_image(Path(path)) as opened:
                    return upright_size(opened)
        except UNREADABLE:
            pass
        return None, None

    return in_threads(of, paths)


_BATCH = 256
Of = TypeVar("Of")
Result = TypeVar("Result")


def in_threads(function: Callable[[Of], Result], items: Sequence[Of]) -> list[Result]:
    """The result for each item, in threads: file systems other than a local disk make each file
    wait.
    """

    def of(first: int) -> list[Result]:
        return [*map(function, items[first : first + _BATCH])]

    with ThreadPoolExecutor(max(4, usable_cpus())) as threads:
        return [result for some in threads.map(of, range(0, len(items), _BATCH)) for result in some]


def is_plain(opened: Image.Image) -> bool:
    """True if any program shows the picture that ``rgb_image`` gives: upright, 8 bits a channel."""
    return not is_wide(opened) and orientation(opened) == 1


def thumbnail(
    path: Path, longest: int, value_range: tuple[float, float] | None = None
) -> Image.Image:
    """The image in RGB, upright, with sides of at most ``longest`` pixels."""
    with unreadable(path, errors=UNREADABLE, problem="is not an image that can be read"):
        picture = rgb_image(path, value_range, longest)
    picture.thumbnail((longest, longest), Image.Resampling.LANCZOS)
    return picture
