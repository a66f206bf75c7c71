"""The images that predictions can be of, looked up by id, file name or COCO's digits."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import polars as pl

from nooch.challenge import Suite
from nooch.data import Dataset
from nooch.errors import InputError, some_of
from nooch.evaluation.predictions import Predictions, one_each
from nooch.readers.image_files import ENDING_PATTERN, numbers_in_names

__all__ = ["KnownImages"]


@dataclass(frozen=True, eq=False)
class KnownImages:
    """The images of a suite's sets and of a dataset.

    Attributes:
        suite: the suite, or None.
        source: the dataset, or what gives it where images are in no set; or None.
    """

    suite: Suite | None = None
    source: Dataset | Callable[[], Dataset | None] | None = None

    @cached_property
    def data(self) -> Dataset | None:
        """The dataset, if there is one."""
        return self.source() if callable(self.source) else self.source

    @cached_property
    def _scored(self) -> list[pl.Series]:
        """Ids of the first set of each split: of all its images, as a rule."""
        if self.suite is None:
            return []
        first = {key[2]: key for key in reversed(list(self.suite.keys))}
        return [self.suite.set(*key).image_ids for key in first.values()]

    @property
    def classes(self) -> Sequence[str]:
        """Classes of the dataset, else tasks of the suite."""
        if self.data is not None:
            return self.data.classes
        return () if self.suite is None else self.suite.tasks

    @cached_property
    def table(self) -> pl.DataFrame:
        """``image_id, split, name``: the file name, else the id as text."""
        images = pl.DataFrame(schema=["image_id", "split", "file_name"])
        if self.data is not None:
            images = self.data.images
        elif self.suite is not None and self.suite.keys:
            parts = []
            for split in dict.fromkeys(key[2] for key in self.suite.keys):
                ids = self.suite.image_ids(key for key in self.suite.keys if key[2] == split)
                parts.append(ids.to_frame().with_columns(split=pl.lit(split)))
            images = pl.concat(parts).with_columns(file_name=pl.lit(None, pl.String))
        name = pl.coalesce("file_name", pl.col("image_id").cast(pl.String))
        return images.select("image_id", "split", name=name)

    @property
    def _dataset(self) -> str:
        """Fingerprint of the dataset, also where only a suite that was found in it is known."""
        if self.suite is not None:
            return self.suite.header.dataset.fingerprint
        return "" if self.data is None else self.data.fingerprint

    def match(self, run: Predictions, *, ignore_unknown: bool) -> Predictions:
        """A run with ids in place of file names. Without a dataset, ids may be unknown.

        Raises:
            InputError: unknown images, a name of several images, two names of one image.
        """
        if run.images_of == self._dataset:
            return run
        ids, notes, of = run.image_ids, [run.read], ""
        if ids.dtype == pl.String and _absent(ids, self._known()).all():
            named = self._named(ids)
            if named.null_count() < len(named):
                one_each(ids, named, run.run)
                ids, notes = named, [run.read, "images by file name"]
        if _absent(ids, self._scored).any() and (self.data is not None or len(notes) > 1):
            of = "" if self.data is None else self._dataset
            if not ignore_unknown:
                self.check(run, ids)
            if self.data is not None and self.suite is not None:
                outside = self.table.filter(~pl.col("split").is_in(self.suite.splits))["image_id"]
                count = outside.is_in(ids.cast(outside.dtype, strict=False).implode()).sum()
                notes += [f"{count:,} images of the dataset are not in the suite"] if count else []
        run = run.only(images=ids.is_not_null()) if ids.null_count() else run
        read = "; ".join(filter(None, notes))
        return replace(run, image_ids=ids.drop_nulls(), read=read, images_of=of)

    def check(self, run: Predictions, ids: pl.Series | None = None) -> None:
        """Raise InputError for images of a run, or by these ids of them, that are not known."""
        if run.images_of == self._dataset:
            return
        unknown = run.image_ids.filter(
            _absent(run.image_ids if ids is None else ids, self._known())
        )
        if len(unknown):
            owner = "dataset" if self.suite is None else "suite"
            of = f" of {', '.join(self.suite.splits)}" if self.suite is not None else ""
            raise InputError(
                f"{len(unknown)} of {len(run.image_ids)} images are not in the {owner}:"
                f" {some_of(unknown.sort())}",
                where=f"run {run.run}",
                allowed=f"images{of}: their ids, or file names of the `dataset`",
                remedy="leave them out, or give `ignore_unknown`",
            )

    def _known(self) -> Iterator[pl.Series]:
        """Ids of the sets and the dataset, read as far as they are asked for."""
        yield from self._scored
        if self.data is not None:
            yield self.data.images["image_id"]
        if self.suite is not None:
            yield from (self.suite.set(*key).image_ids for key in self.suite.keys)

    def _named(self, names: pl.Series) -> pl.Series:
        """Ids of the images with these file names, null where there is none.

        Where no name is known, and all numbers at the end of names are ids, these are the ids, as
        in COCO_val2014_000000000285.jpg.
        """
        known, files = self.table["image_id"], self.table["name"]
        ids = pl.Series("image_id", _by_name(names, known, files), known.dtype)
        if ids.null_count() == len(ids) and known.equals(numbers_in_names(files)):
            digits = numbers_in_names(names)
            return digits if digits.is_in(known.implode()).all(ignore_nulls=False) else ids
        return ids


def _absent(ids: pl.Series, known: Iterable[pl.Series]) -> pl.Series:
    """Which ids are in none of the columns, bool; these are read as far as needed."""
    absent = pl.Series([True]).new_from_index(0, len(ids))
    for column in known:
        inside = ids.cast(column.dtype, strict=False).is_in(column.implode())
        absent &= ~inside.fill_null(value=False)
        if not absent.any():
            break
    return absent


def _by_name(names: pl.Series, ids: pl.Series, files: pl.Series) -> list[Any]:
    """The image of the file with the longest common end, None for an unknown file."""
    images: dict[str, list[int]] = {}
    for row, file in enumerate(files):
        for end in _ends(file):
            images.setdefault(end, []).append(row)
    found = []
    for name in names:
        rows = next((images[end] for end in _ends(name) if end in images), [])
        if len(rows) > 1:
            raise InputError(
                f"{name} is the name of several images: {files[rows[0]]} and {files[rows[1]]}",
                allowed="file names with enough of their folders, or ids",
            )
        found.append(ids[rows[0]] if rows else None)
    return found


def _ends(path: str) -> list[str]:
    """A path, then with fewer and fewer folders; after these, the same without its ending."""
    parts = path.replace("\\", "/").split("/")
    ends = ["/".join(parts[start:]) for start in range(len(parts))]
    return list(dict.fromkeys([*ends, *(re.sub(ENDING_PATTERN, "", end) for end in ends)]))
