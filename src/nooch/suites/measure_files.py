"""Measures and marks as Arrow files that all workers can read: a job per part, then one per task.

Files hold supports bit by bit, so that marks do not depend on how a dataset is divided, ties by
image id and counts to match included. A file that exists is complete: an interrupted find resumes
where it stopped.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from nooch.base.files import RESUME, replace_file, replacing, writing
from nooch.base.version import __version__
from nooch.base.work_folder import work_folder
from nooch.criteria import MarkFitted, SupportFitted
from nooch.data.part_files import Header
from nooch.suites import ChallengeSet
from nooch.suites.search import Marked, Measures, Search
from nooch.suites.suite import SetRecord

__all__ = ["MeasureFiles", "intermediate_folder"]

_LZ4 = pa.ipc.IpcWriteOptions(compression="lz4")
_TYPES = {"support": pl.Float64, "by_cue": pl.UInt64, "between": pl.Boolean, "phi": pl.Boolean}


@dataclass(frozen=True)
class MeasureFiles:
    """The intermediate files of a search; it travels to workers with each job.

    Attributes:
        folder: where files lie.
        n_parts: of the dataset.
        search: what is searched for.
    """

    folder: Path
    n_parts: int
    search: Search

    def has_part(self, number: int) -> bool:
        """Whether a part is measured."""
        return self._part_file(number, "images").is_file()

    def write_part(self, number: int, images: pl.DataFrame, measures: Iterable[Measures]) -> None:
        """Store the measures of a part: a record batch per task, in their order.

        Args:
            number: of the part.
            images: ``image_id`` and ``split`` of the images that are searched, ascending.
            measures: of these images, for each task.
        """
        _write(self._part_file(number, "measures"), (self._frame(one) for one in measures))
        # written last: its existence means that the part is done
        codes = {name: code for code, name in enumerate(self.search.splits)}
        split = pl.col("split").replace_strict(codes, return_dtype=pl.UInt8)
        _write(self._part_file(number, "images"), [images.select("image_id", split)])

    def mark(self, task: str) -> Marked:
        """Mark all images for one task, write its sets, a record batch each; return the records."""
        path = self._marked_file(task)
        record = path.with_suffix(".json")
        if record.is_file():
            return msgspec.json.decode(record.read_bytes(), type=Marked)
        measures = self._measures(task)
        numbers = {
            split: pl.int_range(len(one.labels), dtype=pl.UInt32, eager=True)
            for split, one in measures.items()
        }
        marked = Marked()

        def sets() -> Iterator[pl.DataFrame]:
            for outcome in self.search.sets(task, numbers, measures):
                marked.add(outcome)
                if isinstance(outcome, ChallengeSet):
                    yield outcome.rows

        _write(path, sets())
        replace_file(record, msgspec.json.encode(marked))
        return marked

    def read(self, record: SetRecord, number: int) -> ChallengeSet:
        """The set of a record that ``mark`` has written: the ``number``-th of its task."""
        rows = _batch(self._marked_file(record.task), number)
        ids = self._ids[record.split]
        own = ids if len(rows) == len(ids) else ids.gather(rows["image_id"])
        return record.of_table(rows.with_columns(own.alias("image_id")))

    def _frame(self, measures: Measures) -> pl.DataFrame:
        """A row per image, with ``label``, ``support/NAME`` and so on: null where unknown."""
        labels = pl.Series("label", measures.labels)
        if measures.unknown is not None:
            labels = labels.set(pl.Series(measures.unknown), value=None)
        columns = [
            pl.Series(f"{kind}/{name}", values, _TYPES[kind])
            for kind in _TYPES
            for name, values in getattr(measures, kind).items()
        ]
        return pl.concat(
            [pl.DataFrame(schema=self._schema), pl.DataFrame([labels, *columns])], how="diagonal"
        )

    @cached_property
    def _schema(self) -> dict[str, Any]:
        """Column of a table of measures -> its type."""
        schema: dict[str, Any] = {"label": pl.Boolean}
        for name, one in self.search.fitted.items():
            if isinstance(one, MarkFitted):
                schema[f"phi/{name}"] = _TYPES["phi"]
            elif isinstance(one, SupportFitted):
                kinds = ["support"] + ([] if one.thresholds is None else ["by_cue", "between"])
                schema |= {f"{kind}/{name}": _TYPES[kind] for kind in kinds}
        return schema

    def _measures(self, task: str) -> dict[str, Measures]:
        """Measures of the images of every split, all parts together."""
        splits, number = self.search.splits, list(self.search.tasks).index(task)
        table = pl.concat(
            _batch(self._part_file(part, "measures"), number) for part in range(self.n_parts)
        )
        if table.is_empty():
            return dict.fromkeys(splits, Measures())
        codes = self._images["split"]
        return {split: _measures_of(table.filter(codes == c)) for c, split in enumerate(splits)}

    @cached_property
    def _images(self) -> pl.DataFrame:
        """Id, and position of the split, of every image that is searched."""
        return pl.concat(_batch(self._part_file(part, "images"), 0) for part in range(self.n_parts))

    @cached_property
    def _ids(self) -> dict[str, pl.Series]:
        """Ids of the images of every split, ascending."""
        images, splits = self._images, self.search.splits
        return {name: images.filter(split=code)["image_id"] for code, name in enumerate(splits)}

    def _part_file(self, part: int, what: str) -> Path:
        return self.folder / f"shard-{part:07d}.{what}.arrow"

    def _marked_file(self, task: str) -> Path:
        return self.folder / f"marked-{list(self.search.tasks).index(task)}.arrow"


def _measures_of(frame: pl.DataFrame) -> Measures:
    """The measures of a frame of ``MeasureFiles``."""
    values: dict[str, dict[str, NDArray[Any]]] = {kind: {} for kind in _TYPES}
    for column in frame.drop("label"):
        kind, _, name = column.name.partition("/")
        if not column.null_count():
            values[kind][name] = column.to_numpy()
    unknown = frame["label"].is_null()
    labels = frame["label"].fill_null(value=False).to_numpy()
    return Measures(labels, unknown.to_numpy() if unknown.any() else None, **values)


def _write(path: Path, frames: Iterable[pl.DataFrame]) -> None:
    """Frames as record batches, under a temporary name first; without a frame there is no file."""
    with writing(path, RESUME), contextlib.ExitStack() as stack:
        writer = None
        for frame in frames:
            table = frame.rechunk().to_arrow()
            if writer is None:
                partial = stack.enter_context(replacing(path))
                writer = stack.enter_context(pa.ipc.new_file(partial, table.schema, options=_LZ4))
            # an empty table has no batch: a row of nulls, cut off, has the same categories
            whole = table if table.num_rows else frame.clear(1).to_arrow()
            writer.write_batch(whole.to_batches()[0].slice(0, table.num_rows))


def _batch(path: Path, number: int) -> pl.DataFrame:
    with pa.memory_map(str(path)) as source:
        frame = pl.from_arrow(pa.ipc.open_file(source).get_batch(number))
    assert isinstance(frame, pl.DataFrame)  # noqa: S101 - for the type checker
    return frame


def intermediate_folder(target: Path, what: str, header: Header | None, content: Any) -> Path:
    """The folder of intermediate files, named by all inputs: no other find uses them."""
    assert header is not None  # noqa: S101 - only datasets in folders have intermediate files
    hashes = {name: one.sha256 for name, one in header.files.items()}
    of_data = {"fingerprint": header.fingerprint, "files": hashes}
    return work_folder(target, what, {"version": __version__, "data": of_data, **content})
