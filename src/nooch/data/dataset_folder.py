"""Dataset folders, written with any number of parts (see ``part_files``).

``areas.parquet`` has one row for each present class of an image: ``image_id, class, area``.
``exceptions.parquet`` is optional, with one row for each pair that differs from the image's
``annotated_*`` columns: ``image_id, class, known``. ``confidences.parquet`` is also optional:
``image_id, class, confidence`` of what a model predicted; ``objects.parquet`` (see ``objects``) has
a row for each annotated box. Everything is hashed in ``dataset.json``, which is written last; a
folder without it is not a dataset.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from nooch.base.disk import locked, make_folder
from nooch.base.errors import InputError, ParameterError
from nooch.base.files import DATASET_MARKER, replace_file, replacing, write_folder
from nooch.base.version import __version__
from nooch.data.arrays import save_embedding
from nooch.data.coverage import areas_table, exceptions_table
from nooch.data.dataset import Dataset
from nooch.data.fingerprint import fingerprint_of
from nooch.data.part_files import FORMAT_VERSION, FileRecord, Header, file_record, open_parts
from nooch.data.table_files import parquet_bytes, sealed_header
from nooch.data.table_schema import ALL, SPLITS, is_ascending


class PartRecord(msgspec.Struct):
    """Description of a part whose files are written.

    Attributes:
        splits: number of images in each split that has any.
        sizes: number of classes of each image, as the bytes of an array of ``size_kind``.
        captions: rows of captions, or None if there is no such table.
        files: file name in the folder -> its size and hash.
        kinds: class -> thing or stuff.
    """

    splits: dict[str, int]
    sizes: bytes
    size_kind: str
    captions: int | None
    files: dict[str, FileRecord]
    kinds: dict[str, str]

    @property
    def per_image(self) -> NDArray[Any]:
        """Number of classes of each image: unsigned integers (n_images,)."""
        return np.frombuffer(self.sizes, self.size_kind)


def save_dataset(
    data: Dataset | Iterable[Dataset],
    folder: str | Path,
    *,
    overwrite: bool = False,
    progress: Callable[[int], None] = lambda _done: None,
) -> Path:
    """Write a dataset folder atomically, and return its path.

    Args:
        data: a dataset, written with as many parts as it has; or its parts, of which two are in
            memory at a time: with the same classes, columns and embeddings, and with ascending
            image ids from part to part.
        folder: where to write.
        overwrite: replace an existing dataset folder.
        progress: called with the number of parts written.

    Raises:
        InputError: no part, or parts that do not fit together.
        OutputError: the folder exists (and ``overwrite`` is false) or cannot be written.

    Examples:
        >>> data = nooch.load_dataset("data").select("test")
        >>> nooch.save_dataset(data, "test-images").name
        'test-images'
    """
    with write_folder(folder, overwrite=overwrite, marker=DATASET_MARKER) as partial:
        parts = map(data.part, range(data.n_parts)) if isinstance(data, Dataset) else iter(data)
        first, second = next(parts, None), next(parts, None)
        if first is None:
            raise InputError("a dataset needs one part at least")
        if second is None:
            about = first.classes, first.image_root, first.provenance
            seal_dataset(partial, [write_part(first, partial)], *about, first.fingerprint)
            progress(1)
            return Path(folder)
        last: Any = None
        records: list[PartRecord] = []
        for number, part in enumerate(chain((first, second), parts)):
            last = _check_part(first, part, last, number)
            # the second is not kept in memory while the others come
            second = None
            records.append(write_part(part, partial, number, n_parts=2))
            progress(number + 1)
        seal_dataset(partial, records, first.classes, first.image_root, first.provenance)
    return Path(folder)


def divide(data: Dataset, parts: int) -> Iterator[Dataset]:
    """Divide a dataset into ``parts`` of about equal size, in the order of image ids.

    Raises:
        ParameterError: fewer than one part, or more parts than images.
    """
    if not 1 <= parts <= max(1, len(data)):
        raise ParameterError(
            f"{parts} parts of {len(data)} images", allowed=f"1 to {max(1, len(data))}"
        )
    edges = np.linspace(0, len(data), parts + 1).astype(np.int64)
    return (data.select(rows=np.arange(a, b)) for a, b in pairwise(edges.tolist()))


def write_part(part: Dataset, folder: Path, number: int = 0, n_parts: int = 1) -> PartRecord:
    """Write the files of part ``number`` of ``n_parts``, in any process, for ``seal_dataset``."""
    ids = part.images["image_id"]
    if not is_ascending(ids) or not part.areas.has_canonical_format:
        problem = "ids of images, or classes of an image, do not ascend"
        remedy = "make the dataset with Dataset.build, or select its rows in ascending order"
        raise InputError(problem, allowed="each once, in ascending order", remedy=remedy)
    tables = {"images": part.images, "areas": areas_table(part.areas, ids, part.classes)}
    if part.captions is not None:
        tables["captions"] = part.captions
    # several parts have the same tables, even if one of them is empty
    if part.exceptions is not None and (n_parts > 1 or part.exceptions.nnz):
        tables["exceptions"] = exceptions_table(part.exceptions, ids, part.classes)
    if part.confidences is not None:
        more = part.confidences, ids, part.classes
        tables["confidences"] = areas_table(*more, "confidence")
    if part.objects is not None:
        tables["objects"] = part.objects
    written = [write_table(table, folder, name, number, n_parts) for name, table in tables.items()]
    for name, values in part.embeddings.items():
        written.append(save_embedding(folder, name, values, _name(number) if n_parts > 1 else ""))
    per_image = np.diff(part.areas.indptr)
    sizes = per_image.astype(np.min_scalar_type(int(per_image.max(initial=0))))
    return PartRecord(
        part.splits,
        sizes.tobytes(),
        sizes.dtype.str,
        None if part.captions is None else part.captions.height,
        {file.relative_to(folder).as_posix(): file_record(file) for file in written},
        dict(part.kinds),
    )


def write_table(table: pl.DataFrame, folder: Path, kind: str, number: int, n_parts: int) -> Path:
    """Write a table of part ``number`` of ``n_parts``, and return its file."""
    file = folder / (f"{kind}/{_name(number)}.parquet" if n_parts > 1 else f"{kind}.parquet")
    make_folder(file.parent)
    # as a new file: a dataset that was just imported may share the one that is here
    with replacing(file) as partial:
        # not by polars, whose error on a full disk does not always have the reason
        packed = "zstd" if kind == "captions" and n_parts == 1 else "lz4"
        partial.write_bytes(parquet_bytes(table, packed))
    return file


def seal_dataset(
    folder: Path,
    records: Sequence[PartRecord],
    classes: Sequence[str],
    image_root: str | None,
    provenance: Mapping[str, Any],
    fingerprint: str | None = None,
) -> Header:
    """Write ``dataset.json`` of a folder whose parts are all written, and return its contents.

    Without a fingerprint, the files are read again for it, one column of one part at a time.
    """
    splits: Counter[str] = Counter()
    for record in records:
        splits.update(record.splits)
    if ALL in splits and len(splits) > 1:
        raise InputError(
            f"some parts have splits, others {ALL}",
            allowed=f"{', '.join(SPLITS)}, or {ALL} in every part",
        )
    files = {name: file for record in records for name, file in record.files.items()}
    header = Header(
        format="nooch-dataset",
        version=FORMAT_VERSION if _files_of("objects", files) else _WITHOUT_OBJECTS,
        nooch=__version__,
        fingerprint=fingerprint or _fingerprint(folder, classes, records),
        n_images=splits.total(),
        splits={name: splits[name] for name in (*SPLITS, ALL) if name in splits},
        classes=list(classes),
        image_root=image_root,
        provenance=dict(provenance),
        files={name: files[name] for name in sorted(files, key=Path)},
        kinds=records[0].kinds,
    )
    replace_file(folder / DATASET_MARKER, sealed_header(header))
    return header


def _files_of(table: str, files: Iterable[str]) -> list[str]:
    """The files of a table, one or several parts."""
    return [name for name in files if re.fullmatch(rf"{table}(/part-\d+)?\.parquet", name)]


_WITHOUT_OBJECTS = 2
"""The format version of a dataset without objects, which earlier versions of nooch read."""


def _check_part(first: Dataset, part: Dataset, last: Any, number: int) -> Any:
    """The part's largest id; InputError if it does not continue the parts before."""
    where = f"part {number}"
    if not len(part):
        raise InputError("has no image", where=where, allowed="one image at least")
    mine, others = _layout(part), _layout(first)
    for what, value in mine.items():
        if value != others[what]:
            raise InputError(
                f"has other {what} than part 0", where=where, allowed="the same in every part"
            )
    ids = part.images["image_id"]
    if last is not None and not last < ids[0]:
        problem = f"begins with image {ids[0]!r}, and the part before ends with {last!r}"
        raise InputError(problem, where=where, allowed="ids that ascend from part to part")
    return ids[-1]


def _layout(part: Dataset) -> dict[str, Any]:
    """Fields that all parts of a dataset must share."""
    return {
        "classes": part.classes,
        "kinds of classes": part.kinds,
        "columns of images": part.images.schema,
        "captions": part.captions is None,
        "exceptions": part.exceptions is None,
        "confidences": part.confidences is None,
        "objects": part.objects is None,
        "embeddings": {name: values.shape[1] for name, values in part.embeddings.items()},
    }


def _name(number: int) -> str:
    return f"part-{number:07d}"


def _fingerprint(folder: Path, classes: Sequence[str], records: Sequence[PartRecord]) -> str:
    """The fingerprint of parts that are written."""
    files = sorted(name for record in records for name in record.files)

    def read(table: str, **columns: Any) -> Iterator[pl.DataFrame]:
        of_table = _files_of(table, files)
        return (pl.read_parquet(folder / name, glob=False, **columns) for name in of_table)

    first = {table: next(read(table, n_rows=0), pl.DataFrame()) for table in ("images", "captions")}
    return fingerprint_of(
        first["images"].schema,
        first["captions"].columns,
        classes,
        records[0].kinds,
        (record.per_image for record in records),
        lambda table, name: (part[name] for part in read(table, columns=[name])),
    )


def add_embedding_files(folder: Path, name: str, files: Mapping[str, FileRecord]) -> None:
    """List an embedding whose files are in the folder; one of that name is replaced.

    Raises OutputError if another process is listing one.
    """
    with locked(folder / f".{DATASET_MARKER}.lock", "changing this dataset", folder):
        # of a process that was killed
        for left in folder.glob(f".{DATASET_MARKER}.partial-*"):
            left.unlink(missing_ok=True)
        kind, opened = f"embeddings/{name}", open_parts(folder)
        before = {part[kind] for part in opened.parts if kind in part}
        others = {file: entry for file, entry in opened.header.files.items() if file not in before}
        listed = dict(sorted({**others, **files}.items()))
        header = msgspec.structs.replace(opened.header, files=listed)
        replace_file(folder / DATASET_MARKER, sealed_header(header))
    for file in before - set(files):
        (folder / file).unlink(missing_ok=True)


def rows_of_parts(folder: Path) -> dict[str, int]:
    """Part -> number of images; the part of a dataset with one file per table is called ''."""
    files = open_parts(folder)
    if files.parts[0]["images"] == "images.parquet":
        return {"": files.header.n_images}
    names = (Path(part["images"]).stem for part in files.parts)
    return dict(zip(names, files.rows, strict=True))
