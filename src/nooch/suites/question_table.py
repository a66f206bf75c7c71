"""Questions as a table: which image, which task, what text, and what the answer should be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from nooch.base.errors import FormatError, InputError, some_of
from nooch.data import Dataset, ImageId
from nooch.data.data_files import read_table
from nooch.data.readers.image_files import files_of
from nooch.data.table_schema import Column, check_columns
from nooch.suites import CELLS

__all__ = ["Questions", "image_names", "load_questions"]

_QUESTIONS = {
    "question_id": Column((pl.Int64,), "Int64, each once", wrong=lambda ids: ids.is_duplicated()),
    "image_id": Column((pl.Int64, pl.String), "Int64 or String, never null"),
    "task": Column((pl.String,), "names of tasks"),
    "split": Column((pl.String,), "names of splits"),
    "text": Column((pl.String,), "String, never null"),
    "label": Column((pl.Int8,), "0 or 1", wrong=lambda label: ~label.is_in([0, 1])),
    "weight": Column(
        (pl.Float64,), "1 and more", wrong=lambda weight: ~((weight >= 1) & weight.is_finite())
    ),
}
_IMAGE = "image"


@dataclass(frozen=True, eq=False)
class Questions:
    """Yes/no questions about a suite's images.

    Attributes:
        frame: ``question_id`` (Int64), ``image_id, task, split, text``, ``label`` (Int8, 1 = yes),
            ``weight`` (Float64: the images of the challenge sets that a question stands for), one
            column for each criterion (one of ``CELLS``, null where it has no verdict), and
            ``image`` (file name) once files are known.
    """

    frame: pl.DataFrame

    @property
    def criteria(self) -> tuple[str, ...]:
        """Names of the criteria."""
        names = self.frame.columns
        return tuple(name for name in names if name not in _QUESTIONS and name != _IMAGE)

    def __len__(self) -> int:
        return self.frame.height

    def __repr__(self) -> str:
        images, tasks = (self.frame[name].n_unique() for name in ("image_id", "task"))
        return f"Questions({len(self)} on {images} images, {tasks} tasks)"

    def with_images(self, names: dict[ImageId, str]) -> Questions:
        """The same questions with ``image``, the file of each; ``names`` has all image ids."""
        files = pl.col("image_id").replace_strict(names, return_dtype=pl.String)
        return Questions(self.frame.with_columns(files.alias(_IMAGE)))


def load_questions(path: str | Path) -> Questions:
    """Questions that an export wrote as Parquet.

    Raises:
        FormatError: a column is missing or has values that are not allowed.
    """
    remedy = "export the questions again"
    frame = read_table(path)
    questions = Questions(frame)
    subset = Column((pl.String,), f"{', '.join(CELLS)}, or null", nulls=True, among=CELLS)
    schema = {**_QUESTIONS, **dict.fromkeys(questions.criteria, subset)}
    check_columns(frame, schema, path, remedy)
    if frame.select(pl.struct("image_id", "task").is_duplicated().any()).item():
        raise FormatError(
            "asks about an image and task twice", where=path, allowed="once", remedy=remedy
        )
    return questions


def image_names(
    ids: Sequence[ImageId], data: Dataset | None, images: str | Path | None
) -> dict[ImageId, str]:
    """File name of each image, relative to the folder of images.

    Args:
        ids: of the images.
        data: the dataset, whose file names are used; or None.
        images: folder in which files are matched by the dataset's names, else by the id in their
            name (``285.jpg``, ``000000000285.jpg``, ``COCO_val2014_000000000285.jpg``).

    Raises:
        InputError: no dataset with file names and no folder, or images that the folder lacks.
    """
    if images is not None:
        files = files_of(ids, data, images)
        return {i: file.relative_to(images).as_posix() for i, file in zip(ids, files, strict=True)}
    known = {} if data is None else dict(data.images.select("image_id", "file_name").iter_rows())
    names = {image_id: known.get(image_id) for image_id in ids}
    if missing := [image_id for image_id, name in names.items() if name is None]:
        raise InputError(
            f"no file is known for {len(missing):,} of {len(names):,} images: {some_of(missing)}",
            allowed="files called by the dataset's names or by image ids",
            remedy="give the folder of images as `images`",
        )
    return {image_id: str(name) for image_id, name in names.items()}
