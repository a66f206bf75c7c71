"""Label maps (one single-channel image of class values per photograph) -> Dataset, exact areas."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl

from nooch.base.calls import Map, StepProgress
from nooch.base.errors import Give, InputError, ParameterError, some_of, unreadable
from nooch.base.limits import BROKEN_JSON
from nooch.base.split_plan import SplitPlan
from nooch.base.text_encoding import text_lines
from nooch.data.readers.cocostuff import MAP_VALUES, OTHER, map_values
from nooch.data.readers.image_rows import MISSING, ImageRows, ScannedRows, listed_digest
from nooch.data.readers.map_pixels import FEW, count_maps, list_maps
from nooch.data.table_schema import class_name, means_void

_VOID = {"cocostuff": (255,), "pixelmaps": (0, OTHER)}


@dataclass(frozen=True)
class MapReading:
    """Label maps, in which every class is counted.

    A class's area is its share of the image's pixels: areas and the unlabeled share add up to 1.

    Attributes:
        folder: the maps; a map is called after its image, and has any ending.
        classes: ``cocostuff`` (value = COCO id - 1, 255 unlabeled), ``pixelmaps`` (value = COCO
            id, 183 other), or a text file with a class per line: ``value name`` on all, without
            gaps that are not ``void``, or only names, then counted from 0.
        void: values without a class. Needed for a listed class called void, unknown, unlabeled,
            unannotated or ignore (also ``name (void)``): its pixels were not annotated, which is
            not a class.
        suffix: ending of the maps' names that the images' names lack.
    """

    folder: Path
    classes: str | Path
    void: Sequence[int] = ()
    suffix: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "folder", Path(self.folder))

    def files(self) -> list[tuple[str, Path]]:
        """The folder, and the list of classes if it is a file."""
        listed = Path(self.classes)
        return [("maps", self.folder), *([("classes", listed)] if listed.is_file() else [])]

    def check(self, plan: SplitPlan | None) -> None:
        """Raises InputError without the folder or a list that can be read; ParameterError for a
        class that is called void or the like, whose value ``void`` does not have.
        """
        del plan  # maps have no columns; whether a pattern fits their names is known when listed
        self._classes()

    def dependencies(self) -> list[Any]:
        """The maps by name, size and time, the class list, void and suffix."""
        digest = listed_digest(list_maps(self.folder, self.suffix))
        return [str(self.classes), list(self.void), self.suffix, digest]

    def scan(
        self, folder: Path, map: Map, progress: StepProgress, part_size: int | None = None
    ) -> ScannedRows:
        """Count the pixels of all maps. Raises InputError: see ``map_pixels``, and as ``check``."""
        del part_size
        names, ignored = self._classes()
        listed = list_maps(self.folder, self.suffix)
        rows = count_maps(listed, names, ignored, folder, map, progress)
        about = {
            "reader": "label-maps",
            "area": "pixels",
            "sources": [{"role": "maps", "files": listed.height, "sha256": _digest(rows)}],
            "classes": Path(self.classes).name,
            "void": sorted(ignored),
            "notes": [],
        }
        classes = dict(enumerate(names.values()))
        return ScannedRows(rows, classes, about, self.folder, _notes, is_located=False)

    def _classes(self) -> tuple[dict[int, str], set[int]]:
        """Names of the values of the maps, and values that mean no class."""
        if not self.folder.is_dir():
            raise InputError("no such folder of label maps", where=self.folder)
        return _map_classes(self.classes, self.void)


def _map_classes(classes: str | Path, void: Sequence[int]) -> tuple[dict[int, str], set[int]]:
    is_preset = str(classes) in MAP_VALUES
    names = map_values(str(classes)) if is_preset else class_list(Path(classes))
    ignored = set(void) | set(_VOID.get(str(classes), ()))
    labeled = {value: name for value, name in names.items() if value not in ignored}
    if meant := [value for value, name in labeled.items() if means_void(name)]:
        listed = ", ".join(f"{value} {labeled[value]!r}" for value in meant)
        problem = f"the class list names {listed}, which usually means not annotated"
        allowed = f"void: {some_of(meant, len(meant))}"
        remedy = "{}; or rename the class if it was annotated"
        give = {"void": sorted({*void, *meant})}
        raise ParameterError(problem, where=classes, allowed=allowed, remedy=remedy, give=give)
    values = [] if is_preset else sorted(labeled)
    among = sorted({*values, *(value for value in ignored if value < max(values, default=0))})
    gaps = [(a + 1, b - 1) for a, b in pairwise(among) if b - a > 1 and a >= values[0]]
    if gaps:
        missing = some_of(str(a) if a == b else f"{a} to {b}" for a, b in gaps)
        problem = f"lists values from {values[0]} to {values[-1]}, but not {missing}"
        few = sum(b - a + 1 for a, b in gaps) <= FEW
        between = {value for a, b in gaps for value in range(a, b + 1)} if few else set[int]()
        remedy = "add the missing lines; or, if they are not classes, {}"
        allowed = "every value in between, each once"
        ways: Give = {"void": sorted({*void, *between}) if few else ...}
        raise InputError(problem, where=classes, allowed=allowed, remedy=remedy, give=ways)
    return labeled, ignored


def _notes(counts: Mapping[str, int], n_images: int, images: object) -> list[str]:
    """A note on maps without an image. Raises InputError if none has one."""
    missing = counts["missing"]
    first = [name.removeprefix(MISSING) for name in counts if name.startswith(MISSING)][:5]
    # the others count, but need no names
    listed = [*first, *[""] * (missing - len(first))]
    if missing == n_images:
        problem = f"no image is named like a map, such as {some_of(listed, 2)}"
        raise InputError(problem, where=images)
    note = f"{missing} of {n_images} maps have no image below {images}: {some_of(listed)}"
    return [note] if missing else []


def _digest(rows: ImageRows) -> str:
    """SHA-256 of the counts: re-encoded maps with the same pixels have the same digest."""
    digest = hashlib.sha256()
    for number, batch in enumerate(rows.columns("stem")):
        digest.update(("\0" if number else "").encode() + "\0".join(batch["stem"]).encode())
    for batch in rows.columns("width", "height"):
        digest.update(batch.to_numpy(order="c").tobytes())
    entries = np.zeros(1, np.int64)
    digest.update(entries.tobytes())
    for batch in rows.columns("pixels"):
        ends = entries + batch["pixels"].list.len().cum_sum().cast(pl.Int64).to_numpy()
        digest.update(ends.tobytes())
        entries = ends[-1:]
    for name in ("keys", "pixels"):
        for batch in rows.columns(name):
            digest.update(batch[name].explode().drop_nulls().to_numpy().tobytes())
    return digest.hexdigest()


def class_list(path: Path) -> dict[int, str]:
    """Number -> class name from a text file: ``NUMBER NAME`` on all lines, or names on all, counted
    from 0; or from JSON: ``{"0": NAME}``, also as ``id2label`` or ``names``, or an array of names.
    Raises InputError: neither; a number or name twice.
    """
    if path.suffix.lower() == ".json":
        values, texts = _json_list(path)
        allowed = _JSON_LISTS
    else:
        values, texts = _text_list(path)
        allowed = _TEXT_LISTS
    names = [class_name(text, path) for text in texts]
    twice = [value for value, n in Counter([*values, *names]).items() if n > 1]
    if not values or twice:
        problem = f"names {some_of(twice)} twice" if twice else "names no classes"
        raise InputError(problem, where=path, allowed=allowed)
    return dict(zip(values, names, strict=True))


_JSON_LISTS = (
    'COCO\'s categories, {"0": NAME, "1": NAME}, also as id2label or names, or [NAME, NAME]'
)
_TEXT_LISTS = "'value name' on every line, or names on every line"


def _json_list(path: Path) -> tuple[list[int], list[str]]:
    with unreadable(path, _JSON_LISTS, (OSError, *BROKEN_JSON)):
        listed = msgspec.json.decode(path.read_bytes())
    for member in ("id2label", "names"):
        listed = listed.get(member, listed) if isinstance(listed, dict) else listed
    listed = dict(enumerate(listed)) if isinstance(listed, list) else listed
    is_named = isinstance(listed, dict) and all(isinstance(name, str) for name in listed.values())
    if not is_named or not all(str(number).isdecimal() for number in listed):
        raise InputError("lists no classes", where=path, allowed=_JSON_LISTS)
    return [int(number) for number in listed], [*listed.values()]


def _text_list(path: Path) -> tuple[list[int], list[str]]:
    lines = text_lines(path, allowed=f"a text file of classes, or one of {', '.join(MAP_VALUES)}")
    lines = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    heads = [line.replace(":", " ", 1).replace(",", " ", 1).split(None, 1) for line in lines]
    # superscripts are also digits, and Python refuses numbers of thousands of digits
    numbered = [len(h) == 2 and h[0].isdecimal() and len(h[0]) < 20 for h in heads]
    if any(numbered) and not all(numbered):
        bare = [repr(line) for line, has in zip(lines, numbered, strict=True) if not has]
        problem = f"{sum(numbered)} lines have a value and a name, but not {some_of(bare)}"
        raise InputError(problem, where=path, allowed=_TEXT_LISTS, remedy="fix these lines")
    if any(numbered):
        return [int(head[0]) for head in heads], [head[1] for head in heads]
    return [*range(len(lines))], lines


def is_numbered(path: Path) -> bool:
    """True if a text file of ``class_list`` has a number on each line, next to the name."""
    return _text_list(path)[1] != [line.strip() for line in text_lines(path) if line.strip()]
