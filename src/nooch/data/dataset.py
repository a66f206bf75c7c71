"""The Dataset: images, classes, areas, captions and embeddings, immutable and in one order."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.sparse import csr_array

from nooch.base.display import Displayed, DisplayTable
from nooch.base.errors import (
    Command,
    InputError,
    ParameterError,
    WrongTypeError,
    check_one_of,
    some_of,
    wrong_type,
)
from nooch.base.words import counted, padded_words
from nooch.data.coverage import (
    Gaps,
    check_kinds,
    exceptions_of,
    exceptions_table,
    gaps_of,
    unannotated,
)
from nooch.data.fingerprint import fingerprint_of
from nooch.data.objects import check_objects
from nooch.data.part_files import Header, PartFiles, open_parts
from nooch.data.splits import group_names
from nooch.data.table_schema import (
    ALL,
    ANNOTATED,
    COLUMN_OF_KIND,
    CORE_COLUMNS,
    SPLITS,
    check_areas,
    check_captions,
    check_classes,
    check_images,
    check_split,
    complete_columns,
    is_id,
)

_STORED = ("images", "areas", "captions", "embeddings", "exceptions", "confidences", "objects")
"""Fields that a stored dataset reads when they are first used."""


def replaced_columns(table: csr_array, by: csr_array, columns: NDArray[np.int64]) -> csr_array:
    """The entries of a table, with these columns taken from another, (n_images, len(columns))."""
    old, new = table.tocoo(), by.tocoo()
    kept = ~np.isin(old.col, columns)
    rows = np.concatenate([old.row[kept], new.row])
    all_columns = np.concatenate([old.col[kept], columns[new.col]])
    values = np.concatenate([old.data[kept], new.data])
    return csr_array((values, (rows, all_columns)), shape=table.shape)


ImageId = int | str


@dataclass(frozen=True, eq=False, repr=False)
class Dataset(Displayed):
    """An annotated image collection.

    Rows of ``images``, ``areas`` and every embedding are the same images in the same order, sorted
    by id, so that nothing depends on the order in which a file listed them.

    Attributes:
        images: frame with ``image_id`` (Int64 or String, unique, ascending), ``file_name`` (String,
            null where unknown, relative to ``image_root``), ``width`` and ``height`` (Int64 pixels,
            null where unknown), ``split`` (one of train, valid, test, all), then attribute columns.
            The Boolean columns ``annotated_things``, ``annotated_stuff`` and ``annotated_captions``
            mark where that kind was annotated; without a column, everywhere.
        classes: names in the order of the columns of ``areas``.
        areas: CSR float64, n_images x n_classes, fractions of the image. A stored entry means that
            the class is present, even where its area is 0; NaN means present with unknown area.
        captions: frame ``image_id, caption`` with any number of rows for each image, or None.
        embeddings: name -> float array (n_images, d); a row of NaN is an image without one.
        image_root: the folder that ``file_name`` is relative to, or None.
        provenance: how the dataset was made (JSON-like).
        kinds: class -> ``thing`` or ``stuff``; a class without a kind was annotated in every image.
        exceptions: CSR int8, n_images x n_classes: -1 where a pair is unknown although its kind was
            annotated in the image, 1 if it is known although its kind was not; or None. A pair
            that is unknown and has an area is present, but its area is not complete.
        confidences: CSR float64, n_images x n_classes, from 0 to 1: how sure a model was of what
            it predicted, also where that was too little for presence; or None.
        objects: frame with a row for each annotated box, sorted by ``image_id``, in the order of
            the annotations within an image; or None. ``class`` is an enumeration of ``classes``;
            ``left``, ``top``, ``width`` and ``height`` are Float64 pixels, and ``area`` square
            pixels, where the image's width and height are known, else fractions of the image;
            ``crowd`` and ``ignore`` are Boolean. Boxes are as annotated, never clipped.
    """

    images: pl.DataFrame
    classes: tuple[str, ...]
    areas: csr_array
    captions: pl.DataFrame | None = field(default_factory=lambda: None)
    embeddings: Mapping[str, NDArray[np.floating[Any]]] = field(default_factory=dict)
    image_root: str | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)
    kinds: Mapping[str, str] = field(default_factory=dict)
    exceptions: csr_array | None = field(default_factory=lambda: None)
    confidences: csr_array | None = field(default_factory=lambda: None)
    objects: pl.DataFrame | None = field(default_factory=lambda: None)
    _files: ClassVar[PartFiles | None] = None

    def __post_init__(self) -> None:
        names = ("areas", "embeddings", "provenance", "kinds")
        self._set(**{name: getattr(self, name) for name in names})

    def _set(self, **values: Any) -> None:
        """Give fields their values, which are read-only from then on."""
        for name, value in values.items():
            if isinstance(value, csr_array):
                for array in (value.data, value.indices, value.indptr):
                    array.flags.writeable = False
            self.__dict__[name] = (
                MappingProxyType(dict(value)) if isinstance(value, Mapping) else value
            )

    @classmethod
    def stored(cls, files: PartFiles) -> Self:
        """The dataset of a folder. Each table is read, checked and joined when it is first used."""
        data, header = object.__new__(cls), files.header
        data._set(_files=files, classes=tuple(header.classes), image_root=header.image_root)
        data._set(provenance=header.provenance, kinds=header.kinds)
        return data

    # hidden from mypy, which would then accept any attribute
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """A table of a stored dataset that was not used before."""
            if self._files is None or name not in _STORED:
                raise AttributeError(f"a Dataset has no attribute {name!r}")
            read = getattr(self._files, name)
            self._set(**{name: read() if name == "images" else read(self.images)})
            return self.__dict__[name]

    def __reduce__(self) -> tuple[Any, ...]:
        # a stored dataset travels to workers without its tables
        if self._files is not None:
            return type(self).stored, (self._files,)
        values = (getattr(self, item.name) for item in fields(self))
        plain = (dict(value) if isinstance(value, Mapping) else value for value in values)
        return type(self), tuple(plain)

    def in_memory(self, reads: Collection[str] | None = None) -> Self:
        """The dataset with everything read and checked now; itself if it is in memory."""
        if self._files is None:
            return self
        if reads is None:
            self._files.check_others()
        images = self._files.images()
        data = type(self)(
            images,
            self.classes,
            self._files.areas(images),
            self._files.captions(images) if reads is None or "captions" in reads else None,
            self._files.embeddings(images, reads),
            self.image_root,
            self.provenance,
            self.kinds,
            self._files.exceptions(images),
            self._files.confidences(images) if reads is None or "confidences" in reads else None,
            self._files.objects(images) if reads is None or "objects" in reads else None,
        )
        if self._files.whole:
            # the files are those that it was computed of: they are checked by their hashes
            vars(data)["fingerprint"] = self._files.header.fingerprint
        return data

    @property
    def value_range(self) -> tuple[float, float] | None:
        """Values of black and white of wide images, as the import recorded them."""
        low_high = self.provenance.get("range")
        return None if low_high is None else (float(low_high[0]), float(low_high[1]))

    @property
    def categories(self) -> dict[str, tuple[int, str]]:
        """Class -> id and name of its category in the file that the dataset was read from, empty
        where that had none.
        """
        listed = self.provenance.get("categories", {})
        return {name: (of["id"], of["name"]) for name, of in listed.items()}

    @property
    def n_parts(self) -> int:
        """Number of parts, 1 in memory."""
        return 1 if self._files is None else len(self._files.parts)

    def part(self, number: int, reads: Collection[str] | None = None) -> Self:
        """One part, in memory; arguments and errors as for ``in_memory``."""
        if self._files is None:
            return self
        return self.stored(self._files.only(number)).in_memory(reads)

    def image_parts(self) -> Iterator[pl.DataFrame]:
        """``images`` of one part after the other; of a stored dataset nothing else is read."""
        if self._files is None:
            yield self.images
            return
        for number in range(self.n_parts):
            yield self._files.only(number).images()

    @property
    def folder(self) -> str | Path | None:
        """Path or address of a stored dataset; None in memory."""
        return None if self._files is None else self._files.folder

    @property
    def header(self) -> Header | None:
        """Contents of ``dataset.json`` of a stored dataset; None in memory."""
        return None if self._files is None else self._files.header

    @property
    def embedding_names(self) -> tuple[str, ...]:
        """Names of the embeddings."""
        return tuple(self.embeddings) if self._files is None else self._files.embedding_names

    @property
    def has_captions(self) -> bool:
        """True if there is a table of captions."""
        return self.captions is not None if self._files is None else self._files.has("captions")

    @classmethod
    def build(
        cls,
        images: pl.DataFrame,
        classes: Sequence[str],
        areas: csr_array,
        captions: pl.DataFrame | None = None,
        **rest: Any,
    ) -> Dataset:
        """Check the parts, put them into canonical order, and make a Dataset.

        Args:
            images: needs ``image_id``; the other core columns are filled with null, and ``split``
                with "all".
            classes: unique, non-empty names.
            areas: n_images x n_classes, rows in the order of ``images``.
            captions: frame ``image_id, caption``.
            rest: ``embeddings``, ``image_root``, ``provenance``; ``kinds``; ``unknown`` and
                ``verified``: sparse or dense, n_images x n_classes, rows in the order of
                ``images``, not zero if it is unknown (known) whether, and how large, the class is
                in the image, regardless of the image's ``annotated_*`` columns; ``confidences``;
                ``objects``, whose classes may be text.

        Raises:
            InputError: duplicate ids or classes, areas that are negative or more than ``MOST_AREA``
                times the image, ids that are not whole numbers or text, sizes that are not
                positive, a split name that is not allowed, captions or objects of unknown images,
                objects of unknown classes or of no size, unsafe file names, ``annotated_*``
                columns with nulls.
            ParameterError: kinds that are none, ``unknown`` or ``verified`` of another shape or
                with the same pairs.
        """
        images = complete_columns(images)
        check_images(images)
        check_classes(classes)
        if areas.shape != (images.height, len(classes)):
            raise InputError(
                f"areas have shape {areas.shape}, expected {(images.height, len(classes))}"
            )
        check_areas(areas, images["image_id"], classes)
        order = images["image_id"].arg_sort().to_numpy()
        unknown, verified = rest.pop("unknown", None), rest.pop("verified", None)
        rest["kinds"] = check_kinds(rest.pop("kinds", {}), classes)
        rest["exceptions"] = exceptions_of(unknown, verified, areas.shape, order)
        embeddings = {k: v[order] for k, v in rest.pop("embeddings", {}).items()}
        ordered = areas[order].astype(np.float64)
        ordered.sort_indices()
        if rest.get("confidences") is not None:
            rest["confidences"] = rest["confidences"][order].sorted_indices()
        if rest.get("objects") is not None:
            rest["objects"] = check_objects(rest["objects"], images, classes)
        return cls(
            images[order],
            tuple(classes),
            ordered,
            None if captions is None else check_captions(captions, images),
            embeddings,
            **rest,
        )

    @property
    def display(self) -> DisplayTable:
        """Images of each split, and what is known of them; no table of a folder is read for it."""
        rows = list(self.splits.items())
        notes = [f"classes: {some_of(self.classes, 12)}"]
        notes += [f"captions: {'yes' if self.has_captions else 'no'}"]
        notes += [f"embeddings: {some_of(self.embedding_names) or 'none'}"]
        if "images" in self.__dict__ and self.attributes:
            notes.append(f"attributes: {some_of(self.attributes, 12)}")
        title = f"Dataset({counted(len(self), 'image')}, {counted(len(self.classes), 'class')})"
        return DisplayTable(title, ["split", "images"], rows, notes=notes)

    def __len__(self) -> int:
        return self.images.height if self.header is None else self.header.n_images

    @property
    def image_ids(self) -> NDArray[Any]:
        """Ids, ascending: int64 or an object array of str, shape (n_images,)."""
        return self.images["image_id"].to_numpy()

    @cached_property
    def splits(self) -> dict[str, int]:
        """Number of images in each split that has any, in the order train, valid, test, all."""
        own = None if self.header is None else self.header.splits
        counts = own or dict(self.images["split"].value_counts().iter_rows())
        return {name: counts[name] for name in (*SPLITS, ALL) if name in counts}

    @property
    def attributes(self) -> tuple[str, ...]:
        """Names of the attribute columns of ``images``."""
        return tuple(c for c in self.images.columns if c not in (*CORE_COLUMNS, *ANNOTATED))

    @property
    def group(self) -> str | None:
        """The column, or pattern of file names, by which images are grouped: declared for the
        dataset, or by its split; None where images are not grouped.
        """
        split = self.provenance.get("split") or {}
        group: str | None = self.provenance.get("group") or split.get("group")
        return group

    @cached_property
    def groups(self) -> pl.Series | None:
        """The name of each image's group, (n_images,), null for one of its own; None: each is."""
        return None if self.group is None else group_names(self.images, self.group)

    def grouped(self, group: str | None) -> Self:
        """The dataset with images grouped by a column, or pattern of file names; None: unchanged.

        Groups, such as the photographs of a scene, count as one in every interval and test.
        Raises ParameterError if it is neither a column nor a pattern that fits all names.
        """
        if group in (None, self.group):
            return self
        data = self.declaring(group=group)
        # refuses a name that is wrong
        _ = data.groups
        return data

    def declaring(self, **facts: Any) -> Self:
        """The dataset with ``group`` or ``context`` as they were recorded, unchecked."""
        data = object.__new__(type(self))
        vars(data).update({k: v for k, v in vars(self).items() if k != "groups"})
        data._set(provenance={**self.provenance, **facts})
        return data

    @property
    def context(self) -> tuple[str, ...]:
        """Attribute columns declared as the context; without any, every one that can be."""
        return tuple(self.provenance.get("context", ()))

    def with_context(self, columns: Sequence[str]) -> Self:
        """The dataset with these attribute columns as the context: unchanged without any; with only
        ``all``, every one that can be.

        Raises ParameterError for a name that is not an attribute column, or of one that cannot be
        context: it has the groups, one value, or values like ids; and for ``all`` if there is such
        a column.
        """
        if not columns:
            return self
        able = [n for n in self.attributes if self._no_context(n) is None]
        allowed = f"columns that can be context: {some_of(able, 12) or 'none'}"
        names = [*dict.fromkeys(columns)]
        if [*columns] == [ALL] and able != [ALL]:
            if ALL in able:
                readings = {"context": able}, {"context": [ALL, ALL]}
                problem = "all is a column, and the word for every column"
                raise ParameterError(problem, where="`context`", allowed=allowed, give=readings)
            names = able
        if not names:
            like = f" but {some_of(self.attributes)}" if self.attributes else ""
            problem = f"the images have no attribute column{like} that can be context"
            raise ParameterError(problem, where="`context`", remedy="{}, or leave it out",
                                 give=Command("add-attributes"))  # fmt: skip
        for name in names:
            is_class = name in self.classes and name not in self.attributes
            why = "is a class, not a column" if is_class else self._no_context(name)
            if why is not None:
                kept = [n for n in names if n in able]
                raise ParameterError(f"{name} {why}", where="`context`", allowed=allowed,
                                     give={"context": kept or None})  # fmt: skip
        return self.declaring(context=names)

    def _no_context(self, name: str) -> str | None:
        """Why a column cannot be context, or None. Raises ParameterError if there is none."""
        column = self.images[check_one_of("column", name, self.attributes, owner="the dataset")]
        if name == self.group:
            return "has the groups of images"
        if column.dtype.is_nested() or column.dtype in (pl.Binary, pl.Duration, pl.Time):
            return f"has the type {column.dtype}"
        values = column.drop_nulls().n_unique()
        if values < 2:
            return "has one value" if values else "has no value"
        few = f"has {values:,} values for {counted(column.count(), 'image')}, like ids"
        return few if is_id(column) else None

    @property
    def context_columns(self) -> tuple[str, ...]:
        """Attribute columns that conditions are made of, the context: declared, or all but the
        groups', columns of one value and columns like ids, which have more than 20 values: texts of
        fewer than 10 images each, or whole numbers of fewer than 3.
        """
        names = self.context or [n for n in self.attributes if self._no_context(n) is None]
        return tuple(n for n in names if n != self.group)

    @property
    def id_notes(self) -> list[str]:
        """A note on the columns that are like ids, if there are any."""
        others = [] if self.context else [n for n in self.attributes if n != self.group]
        like = [n for n in others if is_id(self.images[n])]
        return [f"no context, since its values are like ids: {some_of(like)}"] if like else []

    @property
    def fitting_split(self) -> str:
        """The split that criteria are fitted on: train, or all in a dataset without splits."""
        return ALL if set(self.splits) == {ALL} else "train"

    @cached_property
    def has_areas(self) -> bool:
        """True if every present class has a known area."""
        return not bool(np.isnan(self.areas.data).any())

    @cached_property
    def gaps(self) -> Gaps | None:
        """Unannotated (image, class) pairs; None if all were annotated."""
        return gaps_of(self.images, self.classes, self.kinds, self.exceptions)

    @cached_property
    def caption_words(self) -> pl.DataFrame:
        """``row`` of the image and ``words`` of each caption: in small letters, a blank before and
        after each. Without captions, no row.
        """
        if self.captions is None:
            return pl.DataFrame(schema={"row": pl.Int64, "words": pl.String})
        places = self.images.select("image_id", row=pl.int_range(pl.len(), dtype=pl.Int64))
        rows = self.captions.join(places, on="image_id", how="left", maintain_order="left")["row"]
        texts = (padded_words(text) for text in self.captions["caption"])
        return pl.DataFrame([rows, pl.Series("words", texts, pl.String)])

    @cached_property
    def _columns(self) -> dict[str, int]:
        return {name: column for column, name in enumerate(self.classes)}

    @cached_property
    def _by_class(self) -> Any:
        # explicit zeros must survive: they mean presence
        return self.areas.tocsc()

    def column(self, name: str) -> int:
        """Column of a class. Raises ParameterError with the nearest names if there is none."""
        if name not in self._columns:
            check_one_of("class", name, self._columns, owner="the dataset")
        return self._columns[name]

    def rows_of(self, name: str) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Rows of the images where a class is present, ascending, and its area in them."""
        column, by_class = self.column(name), self._by_class
        part = slice(by_class.indptr[column], by_class.indptr[column + 1])
        return by_class.indices[part], by_class.data[part]

    def unannotated(self, kind: str) -> NDArray[np.bool_] | None:
        """Mask of images in which things, stuff or captions were not annotated, bool (n_images,);
        or None.
        """
        columns = {**COLUMN_OF_KIND, "captions": "annotated_captions"}
        return unannotated(self.images, columns[check_one_of("kind", kind, columns)])

    def unknown(self, name: str) -> NDArray[np.bool_] | None:
        """Images where the area of a class is unknown, bool (n_images,); None: nowhere."""
        column, gaps = self.column(name), self.gaps
        if gaps is None:
            return None
        mask = gaps.at(np.arange(len(self)), np.full(len(self), column))
        return mask if mask.any() else None

    def unknown_labels(self, task: str) -> NDArray[np.bool_] | None:
        """Images where Y is neither annotated nor stated as present, bool (n_images,), or None."""
        mask = self.unknown(task)
        if mask is None:
            return None
        mask[self.rows_of(task)[0]] = False
        return mask if mask.any() else None

    def labels(self, task: str, *, unknown: bool | None = None) -> NDArray[np.bool_]:
        """Y of the task "is this class present?", shape (n_images,).

        Args:
            task: a class.
            unknown: the value where Y is unknown (see ``unknown_labels``).

        Raises:
            InputError: Y is unknown somewhere, and ``unknown`` is not given.
        """
        y = np.zeros(len(self), dtype=bool)
        y[self.rows_of(task)[0]] = True
        missing = self.unknown_labels(task)
        if missing is not None:
            if unknown is None:
                raise self._unannotated(f"whether {task} is present is unknown", missing)
            y[missing] = unknown
        return y

    def area(self, name: str, *, unknown: float | None = None) -> NDArray[np.float64]:
        """Area of a class in every image as a fraction, 0 if it is absent, shape (n_images,).

        Args:
            name: a class.
            unknown: the area where the class was not annotated.

        Raises:
            InputError: it was not annotated somewhere, and ``unknown`` is not given.
        """
        dense = np.zeros(len(self))
        rows, values = self.rows_of(name)
        dense[rows] = values
        missing = self.unknown(name)
        if missing is not None:
            if unknown is None:
                raise self._unannotated(f"the area of {name} is unknown", missing)
            dense[missing] = unknown
        return dense

    def _unannotated(self, problem: str, missing: NDArray[np.bool_]) -> InputError:
        ids = self.images["image_id"].filter(pl.Series(missing))
        return InputError(
            f"{problem} in {missing.sum()} of {len(self)} images, where it was not annotated:"
            f" {some_of(ids.head(3))}",
            remedy="leave these images out: data.select(rows=~data.unknown_labels(task))",
        )

    def row(self, image_id: ImageId | str) -> int:
        """Row of an image by its id; text is taken for an integer id where ids are integers."""
        ids = self.images["image_id"]
        position = position_of(image_id, ids)
        if position is None:
            raise ParameterError(
                f"there is no image with id {image_id!r}",
                allowed=f"one of {len(self)} ids, such as {some_of(ids.head(3))}",
            )
        return position

    def select(
        self,
        split: str | None = None,
        *,
        rows: NDArray[Any] | None = None,
        image_ids: Sequence[ImageId] | None = None,
    ) -> Dataset:
        """The images of a split, these rows (mask or positions) or these ids; classes stay."""
        if split is not None:
            check_split(split, self.splits)
            rows = (self.images["split"] == split).to_numpy()
        elif image_ids is not None:
            rows = np.sort(np.array([self.row(i) for i in image_ids], dtype=np.int64))
        if rows is None:
            return self
        rows = np.flatnonzero(rows) if rows.dtype == bool else rows
        images = self.images[rows]

        def kept(table: pl.DataFrame | None) -> pl.DataFrame | None:
            if table is None:
                return None
            return table.join(images, on="image_id", how="semi", maintain_order="left")

        return replace(
            self,
            images=images,
            areas=self.areas[rows],
            captions=kept(self.captions),
            objects=kept(self.objects),
            embeddings={name: values[rows] for name, values in self.embeddings.items()},
            exceptions=None if self.exceptions is None else self.exceptions[rows],
            confidences=None if self.confidences is None else self.confidences[rows],
        )

    def with_embedding(self, name: str, values: NDArray[np.floating[Any]]) -> Dataset:
        """The dataset with one more embedding, float array (n_images, d)."""
        if values.ndim != 2 or len(values) != len(self):
            problem = f"embedding {name} has shape {values.shape}, expected ({len(self)}, d)"
            raise InputError(problem)
        return replace(self, embeddings={**self.embeddings, name: values})

    @cached_property
    def fingerprint(self) -> str:
        """BLAKE3 of the contents (ids, sizes, splits, attributes, classes, areas, captions,
        objects), as ``dataset.json`` records it.

        It does not depend on compression, nor on embeddings; see ``fingerprint_of``.
        """
        if self.header is not None:
            return self.header.fingerprint
        areas = pl.DataFrame({"class": self.areas.indices, "area": self.areas.data})
        tables = {"images": self.images, "areas": areas}
        if self.captions is not None:
            tables["captions"] = self.captions
        if self.objects is not None:
            tables["objects"] = self.objects
        if self.exceptions is not None:
            ids = self.images["image_id"]
            tables["exceptions"] = exceptions_table(self.exceptions, ids, self.classes)
        return fingerprint_of(
            self.images.schema,
            () if self.captions is None else self.captions.columns,
            self.classes,
            self.kinds,
            [np.diff(self.areas.indptr)],
            lambda table, name: [tables[table][name]] if table in tables else [],
        )


def open_dataset(folder: str | Path) -> Dataset:
    """The dataset of a folder. Only ``dataset.json`` is read; tables are read when they are used.

    It travels to workers without its tables, and ``Dataset.part`` gives any part in memory.

    Args:
        folder: a local folder, or an address such as ``s3://bucket/data`` (``files.place``).

    Raises:
        FormatError: no dataset, a newer version, or parts that do not belong together.
        InputError: an address that cannot be fetched.
        ParameterError, MissingExtraError: an address that cannot be used.

    Examples:
        >>> data = nooch.open_dataset("data")
        >>> len(data), data.splits
        (1200, {'train': 600, 'test': 600})
    """
    return Dataset.stored(open_parts(folder))


def as_dataset(data: Dataset | str | Path) -> Dataset:
    """A dataset as it is, or the one of a folder or address (``open_dataset``)."""
    if isinstance(data, Dataset):
        return data
    if not isinstance(data, str | Path):
        raise no_dataset("data", data)
    return open_dataset(data)


def no_dataset(parameter: str, given: object) -> WrongTypeError:
    """The error for something that is neither a dataset nor a path, such as a frame."""
    allowed = "a Dataset, or the path or address of its folder"
    example = "nooch.dataset(frame)" if hasattr(given, "columns") else '"my-dataset"'
    return wrong_type(parameter, given, allowed, f"{parameter}={example}")


def load_dataset(folder: str | Path, *, reads: Collection[str] | None = None) -> Dataset:
    """A dataset folder in memory, its files checked by size and hash; embeddings are mapped.

    Args:
        folder: a local folder, or an address such as ``s3://bucket/data`` (``files.place``).
            From an address every file is read whole.
        reads: read in addition to images and areas: ``captions``, ``objects`` and
            ``embeddings/NAME``; everything by default.

    Raises:
        FormatError: no dataset, a newer version, or files that are missing or altered.
        InputError: a file at an address that cannot be fetched.
        ParameterError, MissingExtraError: an address that cannot be used.

    Examples:
        >>> nooch.load_dataset("data").classes
        ('car', 'road', 'tree')
    """
    if not isinstance(folder, str | Path):
        raise no_dataset("folder", folder)
    return open_dataset(folder).in_memory(reads)


def position_of(image_id: ImageId, ids: pl.Series) -> int | None:
    """Position of an id in a column; text is read as an integer where ids are. None: not found."""
    image: Any = image_id
    if ids.dtype == pl.Int64:
        # 18 digits fit into 64 bits
        image = int(image_id) if re.fullmatch(r"-?[0-9]{1,18}", str(image_id)) else None
    return None if image is None else ids.index_of(image)
