"""The images that predictions can be of, looked up by id or file name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import polars as pl

from nooch.base.errors import InputError, some_of
from nooch.base.words import counted
from nooch.data import Dataset, ImageNames
from nooch.data.image_names import BY_ID
from nooch.evaluation.predictions import Predictions
from nooch.suites import Suite

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

    @property
    def _has_names(self) -> bool:
        """Whether the suite has a table of all the dataset's images."""
        return self.suite is not None and self.suite.name_rule == "table"

    @cached_property
    def names(self) -> ImageNames:
        """What names of images can mean: as the suite records it, else by the dataset."""
        if self.data is not None and not self._has_names:
            return ImageNames.of(self.data.images)
        if self.suite is not None:
            return self.suite.image_names()
        return ImageNames(pl.Series("image_id", [], pl.Int64))

    def match(self, run: Predictions, *, ignore_unknown: bool, typed: bool = True) -> Predictions:
        """A run with ids in place of file names. Without a dataset, ids may be unknown.

        Args:
            run: the predictions.
            ignore_unknown: leave out unknown images.
            typed: integers are ids; otherwise they may be file names without endings.

        Raises:
            InputError: unknown images; see also ``ImageNames.match``.
        """
        if run.images_of == self._dataset:
            return run
        ids, note = self.ids_of(run.image_ids, f"run {run.run}", typed=typed)
        notes, of = [run.read, *([note] if note else [])], ""
        others = _absent(ids, self._scored).any()
        if others and (len(notes) > 1 or self._has_names or self.data is not None):
            of = "" if self.data is None else self._dataset
            if not ignore_unknown:
                self.check(run, ids)
            if count := self._outside(ids):
                verb = "is" if count == 1 else "are"
                notes.append(f"{counted(count, 'image')} of the dataset {verb} not in the suite")
        run = run.only(images=ids.is_not_null()) if ids.null_count() else run
        read = "; ".join(filter(None, notes))
        return replace(run, image_ids=ids.drop_nulls(), read=read, images_of=of)

    def ids_of(self, names: pl.Series, where: str, *, typed: bool = True) -> tuple[pl.Series, str]:
        """The images that names mean, and how they were matched; names that are ids stay as they
        are, also unknown ones. Raises as ``ImageNames.match``.
        """
        fixed = self.suite is not None and self.suite.name_rule in {"digits", "ids"}
        if names.dtype != pl.String and (typed or fixed):
            return names, ""
        matched = self.names.match(names.cast(pl.String), where)
        return (names, "") if matched.rule == BY_ID else (matched.ids, matched.note)

    def _outside(self, ids: pl.Series) -> int:
        """How many images are of the dataset, but not of the suite."""
        if self.suite is None or not (self._has_names or self.data is not None):
            return 0
        if self.data is not None:
            others = self.table.filter(~pl.col("split").is_in(self.suite.splits))["image_id"]
            return int(others.is_in(ids.cast(others.dtype, strict=False).implode()).sum())
        return int(_absent(ids.drop_nulls(), self._sets()).sum())

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
            named = self.names.rule or not unknown.cast(pl.String).str.contains(r"[^0-9-]").any()
            lacks = "" if named else f"; the {owner} does not know the names of files"
            raise InputError(
                f"{len(unknown)} of {len(run.image_ids)} images are not in the {owner}:"
                f" {some_of(unknown.sort())}{lacks}",
                where=f"run {run.run}",
                allowed=f"images{of}: their ids, or file names of the `dataset`",
                remedy="leave them out, or give `ignore_unknown`",
            )

    def _known(self) -> Iterator[pl.Series]:
        """Ids of the sets and the dataset, read as far as they are asked for."""
        yield from self._scored
        if self.data is not None:
            yield self.data.images["image_id"]
        elif self._has_names:
            yield self.names.ids
        yield from self._sets()

    def _sets(self) -> Iterator[pl.Series]:
        if self.suite is not None:
            yield from (self.suite.set(*key).image_ids for key in self.suite.keys)


def _absent(ids: pl.Series, known: Iterable[pl.Series]) -> pl.Series:
    """Which ids are in none of the columns, bool; these are read as far as needed."""
    absent = pl.Series([True]).new_from_index(0, len(ids))
    for column in known:
        inside = ids.cast(column.dtype, strict=False).is_in(column.implode())
        absent &= ~inside.fill_null(value=False)
        if not absent.any():
            break
    return absent
