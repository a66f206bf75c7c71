"""Frames of polars, pandas or Arrow as annotations: a reading of one, a dataset in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

from nooch.base.calls import checked
from nooch.base.errors import NoochError, ParameterError, giving
from nooch.base.files import writing
from nooch.data.box_columns import FORMATS
from nooch.data.dataset import Dataset
from nooch.data.importing.recognition import Recognized, recognize
from nooch.data.importing.table_roles import Hints, table_roles
from nooch.data.readers.contract import read
from nooch.data.readers.tables import TableReading
from nooch.data.table_files import as_polars, parquet_bytes

_FRAME = "the frame"


@contextmanager
def recognized_frame(
    frame: Any, hints: Hints | None = None, images: str | Path | None = None
) -> Iterator[Recognized]:
    """The reading of a frame of polars, pandas or Arrow, meanwhile. Raises ParameterError for
    another object, and as ``recognize``.
    """
    table = as_polars(frame, _FRAME, "columns with different names and one type each")
    if table is None:
        raise ParameterError(
            f"a {type(frame).__name__} cannot be imported",
            allowed="a frame of polars, pandas or Arrow",
            remedy="files are imported with `nooch.import_dataset(nooch.io.CocoReading(...))`"
            " and the like, or read with `nooch.dataset(path)`",
        )
    with TemporaryDirectory(prefix="nooch-") as folder:
        file = Path(folder) / "frame.parquet"
        pictures = None if images is None else Path(images)
        columns, layout, why, _ = table_roles(table, _FRAME, hints or Hints(), pictures)
        found = Recognized("table", TableReading(file, columns, layout), why)
        with writing(file):
            file.write_bytes(parquet_bytes(table))
        try:
            yield found
        except NoochError as error:
            # the file is not the user's
            error.problem = error.problem.replace(str(file), _FRAME)
            error.where = _FRAME if str(error.where) == str(file) else error.where
            raise


@checked
def dataset(
    frame: Any,
    *,
    id: str | None = None,
    labels: Sequence[str] = (),
    class_column: str | None = None,
    area_column: str | None = None,
    present_column: str | None = None,
    positive: Mapping[str, str] | None = None,
    blank_is_no: bool = False,
    label_separator: str | None = None,
    file_name: str | None = None,
    split_column: str | None = None,
    split_values: Mapping[str, str] | None = None,
    attributes: Sequence[str] = (),
    box_format: Annotated[str, FORMATS] | None = None,
    one_class: str | None = None,
    images: str | Path | None = None,
) -> Dataset:
    """A dataset in memory from a frame of labels, or from files of annotations.

    The frame has a row for each image with a column for each class or a cell of class names, or a
    row for each (image, class) or box. Columns are recognized as in ``nooch import auto``; what was
    recognized is in ``provenance["notes"]``.

    Args:
        frame: of polars, pandas or Arrow; or the path of annotations that ``nooch import auto``
            recognizes.
        id: column of image ids or file names; by default recognized.
        labels: columns of 0/1, yes/no and the like, each a class; columns that have no other part
            are attributes.
        class_column: instead of ``labels``, the column of class names.
        area_column: column of areas in such a table, as fractions of the image.
        present_column: column of such a table with 1 (class present) and 0 (absent); a class
            without a row is unknown. ``none``: each row is a class that is present.
        positive: label column -> the text that means present; ``*`` makes each value a class.
        blank_is_no: a blank cell of a label column means that the class is absent.
        label_separator: separator of several classes in one cell: a character, ``comma``,
            ``semicolon``, ``bar``, ``space``, ``tab`` or ``json``; ``none`` if a cell is one class.
        file_name: column of the images' file names, if not ``id``.
        split_column: column of split names.
        split_values: meaning of the values in the column of splits, such as ``{"0": "train"}``.
        attributes: columns to keep as attributes; by default all without another role.
        box_format: order of the numbers of boxes, where their columns leave it open: ``xyxy``
            (corners), ``xywh`` (left, top, width, height) or ``cxcywh`` (center).
        one_class: name of the class of all boxes, where no column has classes.
        images: folder below which the image files lie.

    Returns:
        A dataset with splits if the frame has a column of them, else all in ``all``;
        ``nooch.io.with_split`` divides it.

    Raises:
        ParameterError: neither a frame nor a path, or a column that is not there.
        InputError: no column of images or labels, or labels that can be read in several ways; the
            message has each reading, and the keyword for it (``label`` is ``labels``).

    Examples:
        >>> import polars as pl
        >>> frame = pl.DataFrame({"file": ["a.jpg", "b.jpg"], "sky": [1, 0], "year": [2019, 2021]})
        >>> data = nooch.dataset(frame, id="file", labels=["sky"])
        >>> data.classes, data.labels("sky").tolist(), data.attributes
        (('sky',), [True, False], ('year',))
    """
    hints = Hints(
        id=id, label=labels, class_column=class_column, area_column=area_column,
        present_column=present_column,
        positive=positive or {}, blank_is_no=blank_is_no, label_separator=label_separator,
        file_name=file_name, split_column=split_column, split_values=split_values or {},
        attributes=attributes, box_format=box_format, one_class=one_class,
    )  # fmt: skip
    with giving("", {"label": "labels"}):
        if isinstance(frame, str | Path):
            return _read(recognize(frame, hints, images), images)
        with recognized_frame(frame, hints, images) as found:
            return _read(found, images)


def _read(found: Recognized, images: str | Path | None) -> Dataset:
    data = read(found.reading, images=images or found.images)
    data.provenance["notes"].insert(0, f"recognized {found.kind}: {found.why}")
    return data
