"""Which image does a name mean? One rule for predictions, answers, captions and corrected labels.

A column of names contains ids or file names: that is decided for the whole column. Numbers at the
end of file names count as ids only where every known file name ends in its own id, as COCO's do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import polars as pl

from nooch.base.errors import InputError, some_of
from nooch.base.words import counted

IMAGE_ENDINGS = (
    ".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff", ".gif", ".ppm", ".jfif", ".jpe",
)  # fmt: skip
UNREAD_ENDINGS = (
    ".avif", ".heic", ".heif", ".pgm", ".pbm", ".pnm", ".jp2", ".jxl", ".svg", ".tga", ".exr",
    ".hdr", ".psd", ".dcm", ".raw", ".dng", ".cr2", ".nef", ".arw", ".ico", ".eps",
)  # fmt: skip
"""Endings of images in formats that are not read."""
MAP_ENDINGS = (".png", ".bmp", ".tif", ".tiff")
"""For label maps: formats that keep every value."""
IMAGE_ENDING = rf"(?i)({'|'.join(map(re.escape, IMAGE_ENDINGS))})$"
FILE_COLUMNS = (
    "file_name", "filename", "img_filename", "image", "img", "path", "image_path", "img_path",
    "image_name", "img_name", "image_source", "file_path", "filepath", "file", "image_file",
    "photo",
)  # fmt: skip
ID_COLUMNS = ("image_id", "id", "img_id", "imageid")
IMAGE_COLUMNS = (*ID_COLUMNS, *FILE_COLUMNS)
"""Columns and fields that names of images are in: ids, or names of files."""


def is_junk(name: str) -> bool:
    """True for what macOS adds to archives and disks: no images, though called like them."""
    return name.startswith("._") or name == "__MACOSX"


def is_image(name: str) -> bool:
    """True if a file is an image by its name."""
    return name.lower().endswith(IMAGE_ENDINGS) and not is_junk(name)


BY_ID, BY_FILE, BY_DIGITS = "by id", "by file name", "by the number at the end of file names"
UNTYPED = (".csv", ".tsv")
"""Endings of tables whose cells have no type: 12 may be a number or the name of a file."""


@dataclass(frozen=True, eq=False)
class MatchedNames:
    """The images that names mean.

    Attributes:
        ids: Int64 or String (n,), null for a name that means no known image.
        rule: how they were matched; ``BY_ID`` where the names are ids.
        note: how many different names were matched by that rule, such as "288 of 288 images by file
            name"; empty where all are known ids.
    """

    ids: pl.Series
    rule: str
    note: str = ""


@dataclass(frozen=True, eq=False)
class ImageNames:
    """Images that names can refer to.

    Attributes:
        ids: Int64 or String, unique, shape (n,).
        files: file name of each, String (n,), null unknown; None where none are known.
        digits: whether every known file name ends in the id of its image; then ``files`` may be
            None all the same.
        of_coco: whether the images are COCO's, so that a number is of ``COCO_val2014_000000000139``
            or ``139``, and not of ``AMBER_139``.
    """

    ids: pl.Series
    files: pl.Series | None = None
    digits: bool = False
    of_coco: bool = False

    @classmethod
    def from_images(cls, images: pl.DataFrame) -> Self:
        """From a table with ``image_id`` and ``file_name``, such as a dataset's images."""
        ids, files = images["image_id"], images["file_name"]
        has_file = files.is_not_null()
        if not has_file.any():
            return cls(ids)
        same = _numbers(files) == ids if ids.dtype.is_integer() else has_file.new_from_index(0, 0)
        return cls(ids, files, len(same) > 0 and bool(same.filter(has_file).eq_missing(True).all()))

    @cached_property
    def rule(self) -> str:
        """The shortest record that matches the same: ``digits``; ``ids`` where text ids are the
        file names, with or without ending and folders; ``table``; or nothing without file names.
        """
        if self.digits or self.files is None:
            return "digits" if self.digits else ""
        if self.ids.dtype.is_integer():
            return "table"
        stems = _stems(self.files)
        forms = (self.files, stems, stems.str.replace(r"^.*/", ""))
        alike = [((form == self.ids) | form.is_null()) for form in forms]
        return "ids" if (alike[0] | alike[1] | alike[2]).all() else "table"

    def match(self, names: pl.Series, where: object, *, strict: bool = False) -> MatchedNames:
        """The images of a column of names.

        ``names``: Int64, which are ids, or String: ids as text, or file names, with or without
        folders and endings; null stays null.
        """
        if names.dtype.is_integer():
            return MatchedNames(self._known(names).alias("image_id"), BY_ID)
        texts = names.drop_nulls().unique(maintain_order=True).alias("name")
        ids_matched, rule = self._decided(texts, where)
        if len(twice := texts.filter(ids_matched.is_duplicated() & ids_matched.is_not_null())):
            problem = f"image names mean the same image: {some_of(twice.sort())}"
            raise InputError(problem, where=where, allowed="one name for each image")
        unknown = texts.filter(ids_matched.is_null())
        if strict and rule == BY_FILE and len(unknown):
            raise InputError(
                f"{len(unknown):,} of {len(texts):,} names match no image: {some_of(unknown)}",
                where=where,
                allowed="ids, or file names of the dataset",
                remedy="correct them, or leave them out",
            )
        unnamed = self.files is None and not self.digits and self.ids.dtype.is_integer()
        words = unknown.filter(unknown.cast(pl.Int64, strict=False).is_null())
        if strict and unnamed and len(words) == len(texts) > 0:
            problem = f"{some_of(texts, 2)} are not image ids, and the file names are unknown"
            allowed = f"ids such as {some_of(self.ids, 3)}"
            remedy = "use ids, or find the suite in a dataset with file names"
            raise InputError(problem, where=where, allowed=allowed, remedy=remedy)
        table = pl.DataFrame([texts, ids_matched.alias("image_id")])
        rows = names.alias("name").to_frame()
        ids = rows.join(table, on="name", how="left", maintain_order="left")["image_id"]
        note = f"{ids_matched.count():,} of {counted(len(texts), 'image')} {rule}"
        return MatchedNames(ids, rule, "" if rule == BY_ID and not len(unknown) else note)

    def agreed(self, columns: Mapping[str, pl.Series], where: object) -> tuple[str, str]:
        """The column that counts of several that name the images of the same rows, and a note where
        another names others, or none: file names before ids, which can be the numbers in these; and
        ``id``, which can be of the row, only where names of files are not known. Empty if none
        names a known image. Raises InputError where no column decides.
        """
        matched: dict[str, pl.Series] = {}
        has_names = self.digits or self.files is not None or not self.ids.dtype.is_integer()
        rank = {name: (name.lower() in ID_COLUMNS) + (name.lower() == "id") for name in columns}
        for name in sorted(rank if len(rank) > 1 else (), key=rank.__getitem__):
            as_names = columns[name] if rank[name] else columns[name].cast(pl.String)
            with suppress(InputError):
                ids = self.match(as_names, where).ids
                if ids.count() and not (rank[name] == 2 and (matched or has_names)):
                    matched[name] = ids
        if not matched:
            return "", ""
        best, notes = max(matched, key=lambda name: matched[name].count()), []
        if has_names and rank[best] and (files := [name for name in rank if not rank[name]]):
            lost = some_of(name for name in files if name not in matched)
            notes += [f"{lost} names no known image: {best} counts"] if lost else []
        for name, ids in matched.items():
            differ = (ids != matched[best]).fill_null(value=False)
            if differ.any():
                row = int(differ.arg_max() or 0)
                problem = (
                    f"{name} and {best} name different images in {int(differ.sum()):,} of"
                    f" {len(ids):,} rows: {columns[name][row]} is image {ids[row]}, and"
                    f" {columns[best][row]} is image {matched[best][row]}"
                )
                if rank[best] >= rank[name]:
                    remedy = f"remove {name} or {best}"
                    raise InputError(problem, where=where, remedy=remedy)
                notes.append(f"{problem}: {best} counts")
        return best, "; ".join(notes)

    def _decided(self, texts: pl.Series, where: object) -> tuple[pl.Series, str]:
        """Images of different texts by the rule that fits the whole column, and that rule."""
        by_id = self._known(_unified(texts))
        if self.digits:
            numbers = _coco_numbers(texts) if self.of_coco else _numbers(texts)
            by_number = self._known(numbers)
            return by_number, BY_ID if by_id.count() == by_number.count() else BY_DIGITS
        if self.files is None and self.ids.dtype.is_integer():
            return by_id, BY_ID
        by_file, several = self._by_file(texts)
        n, n_id, n_file = len(texts), by_id.count(), by_file.count() + len(several)
        if (n_id == n) == (n_file == n):
            self._check_readings(texts, by_id, by_file, where)
        if n_file == n_id == 0 and (by_number := self._by_bare_number(texts)).count() == n:
            return by_number, BY_DIGITS
        if n_file <= n_id:
            return by_id, BY_ID
        for name, (first, other) in several.items():
            more = f" ({len(several):,} names have several)" if len(several) > 1 else ""
            problem = f"{name} names several images: {first} and {other}{more}"
            allowed = "file names with enough of their folders, or ids"
            raise InputError(problem, where=where, allowed=allowed)
        return by_file, BY_FILE

    def _by_bare_number(self, texts: pl.Series) -> pl.Series:
        """The image whose file's name is nothing but the number, which lost its zeros as programs
        read it: 000012.jpg for 12; empty where some name is more, or two have one number.
        """
        stems = _stems(self._names).str.replace(r"^.*/", "")
        known = stems.str.contains(r"^\d{1,18}$").all() and texts.str.contains(r"^\d{1,18}$").all()
        numbers = stems.cast(pl.Int64, strict=False)
        if not known or numbers.is_duplicated().any():
            return self.ids.clear()
        table = pl.DataFrame({"number": numbers, "image_id": self.ids})
        return texts.cast(pl.Int64).alias("number").to_frame().join(
            table, on="number", how="left", maintain_order="left"
        )["image_id"]  # fmt: skip

    def _known(self, ids: pl.Series) -> pl.Series:
        """Ids in the type of the known ones, null if they are none of these."""
        own = ids.cast(self.ids.dtype, strict=False)
        keys = self.ids if own.dtype.is_integer() else _unified(self.ids)
        table = pl.DataFrame({"key": keys, "image_id": self.ids})
        return (
            own.alias("key")
            .to_frame()
            .join(table, on="key", how="left", maintain_order="left")["image_id"]
        )

    @property
    def _names(self) -> pl.Series:
        """File names, for a text id without one the id."""
        if self.ids.dtype.is_integer():
            return pl.Series([], dtype=pl.String) if self.files is None else self.files
        return self.ids if self.files is None else self.files.fill_null(self.ids)

    def _by_file(self, texts: pl.Series) -> tuple[pl.Series, dict[str, tuple[str, str]]]:
        """The image of the file with the longest common end, null for none; and the texts that are
        the name of several images, with two of these.
        """
        row = pl.int_range(len(self.ids), eager=True)
        first, last = pl.col("row").min(), pl.col("row").max().alias("last")
        by_end = _ends(self._names, row).group_by("end").agg(first, last)
        requested = _ends(texts, pl.int_range(len(texts), eager=True)).rename({"row": "text"})
        best = requested.join(by_end, on="end").sort("text", "order").unique("text", keep="first")
        clear = best.filter(pl.col("row") == pl.col("last")).sort("text")
        rows = texts.to_frame().with_row_index("text").join(
            clear.select(pl.col("text").cast(pl.UInt32), "row"), on="text", how="left",
            maintain_order="left",
        )["row"]  # fmt: skip
        several = best.filter(pl.col("row") != pl.col("last")).sort("text")
        both = several.select(
            texts.gather(several["text"]),
            self._names.gather(several["row"]).alias("one"),
            self._names.gather(several["last"]).alias("other"),
        )
        return self.ids.gather(rows), {
            name: (first_name, other) for name, first_name, other in both.iter_rows()
        }

    def _check_readings(
        self, texts: pl.Series, by_id: pl.Series, by_file: pl.Series, where: object
    ) -> None:
        differ = (by_id != by_file).fill_null(value=False)
        if differ.any():
            number = int(differ.arg_max() or 0)
            of_file = self.ids.index_of(by_file[number])
            raise InputError(
                f"{int(differ.sum()):,} of {len(texts):,} names mean one image as an id and"
                f" another as a file name: {texts[number]} is the id {by_id[number]}, and the file"
                f" {self._names[of_file or 0]} belongs to image {by_file[number]}",
                where=where,
                allowed="ids, or file names",
                remedy="write file names with their endings, or ids as integers in a typed file"
                " (Parquet, JSON)",
            )


def name_column(values: Sequence[Any], path: str | Path, *, typed: bool = False) -> pl.Series:
    """The names of images in a file's records: Int64, which are ids, where all are integers and the
    file has types, or is known to contain ids (``typed``); else String.
    """
    typed = typed or Path(path).suffix.lower() not in UNTYPED
    if typed and all(type(value) is int and abs(value) < 2**63 for value in values):
        return pl.Series("image", values, pl.Int64)
    texts = [None if value is None else str(value) for value in values]
    return pl.Series("image", texts, pl.String)


def _unified(names: pl.Series) -> pl.Series:
    """Text in one Unicode form, with slashes between folders."""
    if names.dtype != pl.String:
        return names
    return names.str.replace_all("\\", "/", literal=True).str.normalize("NFC")


def _stems(names: pl.Series) -> pl.Series:
    return _unified(names).str.replace(IMAGE_ENDING, "")


def _numbers(names: pl.Series) -> pl.Series:
    """The number at the end of names without their endings, Int64: 285 of ``COCO_000285.jpg``."""
    return _stems(names).str.extract(r"(\d+)$").cast(pl.Int64, strict=False)


_COCO_IDS = 1_000_000
"""Above all ids of COCO; most names of other collections that are only digits are longer."""


def _coco_numbers(names: pl.Series) -> pl.Series:
    """As ``_numbers`` for names as COCO's files have them, of 12 digits, and for plain numbers,
    unless most of these are none of COCO's; null for others.
    """
    numbers, stems = _numbers(names), _stems(names)
    plain = stems.str.contains(r"^(?:.*/)?\d+$") & ~stems.str.contains(r"(?:^|\D)\d{12}$")
    foreign = 2 * int((plain & (numbers >= _COCO_IDS)).sum()) > int(plain.sum())
    own = stems.str.contains(r"(?:^|\D)\d{12}$") | (plain & (not foreign))
    return numbers.set(~own, None)


def _ends(names: pl.Series, rows: pl.Series) -> pl.DataFrame:
    """``row, end, order``: each name, then with fewer and fewer folders, then these without ending,
    in this order.
    """
    order, parts = 0, []
    for form in (_unified(names), _stems(names)):
        table = pl.DataFrame({"row": rows, "end": form}).drop_nulls()
        while table.height:
            parts.append(table.with_columns(order=pl.lit(order, pl.Int32)))
            deeper = table.filter(pl.col("end").str.contains("/", literal=True))
            table = deeper.with_columns(pl.col("end").str.replace(r"^[^/]*/", ""))
            order += 1
    schema = {"row": pl.Int64, "end": pl.String, "order": pl.Int32}
    return pl.concat(parts) if parts else pl.DataFrame(schema=schema)
