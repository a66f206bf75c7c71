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

import msgspec
import polars as pl
import pyarrow as pa

from nooch.challenge import ChallengeSet
from nooch.challenge.set_rows import rows_of, set_of
from nooch.challenge.suite import SetRecord
from nooch.criteria import reads_of
from nooch.data import ALL, SPLITS, Dataset
from nooch.files import RESUME, partial_of, replace_file, writing
from nooch.finding.image_measures import Measures, measured, measures_schema
from nooch.finding.task_sets import Marked, Search

__all__ = ["MeasureFiles"]

_LZ4 = pa.ipc.IpcWriteOptions(compression="lz4")


@dataclass(frozen=True)
class MeasureFiles:
    """A search whose intermediate results lie in a folder; it travels to workers with each job.

    Attributes:
        data: the dataset.
        folder: where files lie.
        search: what is searched for.
    """

    data: Dataset
    folder: Path
    search: Search

    def measure(self, number: int) -> None:
        """Measure the images of one part, unless done: a record batch per task, in their order."""
        done = self._part_file(number, "images")
        if done.is_file():
            return
        splits, fitted = self.search.splits, self.search.fitted
        data = self.data.part(number, reads=reads_of(fitted.values()))
        codes = data.images["split"].replace_strict(
            {name: splits.index(name) if name in splits else None for name in (*SPLITS, ALL)},
            return_dtype=pl.UInt8,
        )
        searched = codes.is_not_null()
        images, schema = data.select(rows=searched.to_numpy()), measures_schema(fitted)
        frames = (one.to_frame(schema) for one in measured(fitted, images, self.search.tasks))
        _write(self._part_file(number, "measures"), frames)
        # written last: its existence means that the part is done
        columns = {"image_id": images.images["image_id"], "split": codes.filter(searched)}
        _write(done, [pl.DataFrame(columns)])

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
                    yield rows_of(outcome)

        _write(path, sets())
        replace_file(record, msgspec.json.encode(marked))
        return marked

    def read(self, record: SetRecord, number: int) -> ChallengeSet:
        """The set of a record that ``mark`` has written: the ``number``-th of its task."""
        rows = _batch(self._marked_file(record.task), number)
        ids = self._ids[record.split]
        own = ids if len(rows) == len(ids) else ids.gather(rows["image_id"])
        return set_of(record, rows.with_columns(own.alias("image_id")))

    def _measures(self, task: str) -> dict[str, Measures]:
        """Measures of the images of every split, all parts together."""
        splits, number = self.search.splits, list(self.search.tasks).index(task)
        table = pl.concat(
            _batch(self._part_file(part, "measures"), number) for part in range(self.data.n_parts)
        )
        if table.is_empty():
            return dict.fromkeys(splits, Measures())
        codes = self._images["split"]
        return {s: Measures.from_frame(table.filter(codes == c)) for c, s in enumerate(splits)}

    @cached_property
    def _images(self) -> pl.DataFrame:
        """Id, and position of the split, of every image that is searched."""
        return pl.concat(
            _batch(self._part_file(part, "images"), 0) for part in range(self.data.n_parts)
        )

    @cached_property
    def _ids(self) -> dict[str, pl.Series]:
        """Ids of the images of every split, ascending."""
        images, splits = self._images, self.search.splits
        return {name: images.filter(split=code)["image_id"] for code, name in enumerate(splits)}

    def _part_file(self, part: int, what: str) -> Path:
        return self.folder / f"shard-{part:07d}.{what}.arrow"

    def _marked_file(self, task: str) -> Path:
        return self.folder / f"marked-{list(self.search.tasks).index(task)}.arrow"


def _write(path: Path, frames: Iterable[pl.DataFrame]) -> None:
    """Frames as record batches, under a temporary name first; without a frame there is no file."""
    partial = partial_of(path)
    with contextlib.ExitStack() as stack:
        stack.enter_context(writing(path, RESUME))
        writer = None
        for frame in frames:
            table = frame.rechunk().to_arrow()
            if writer is None:
                writer = stack.enter_context(pa.ipc.new_file(partial, table.schema, options=_LZ4))
            # an empty table has no batch: a row of nulls, cut off, has the same categories
            whole = table if table.num_rows else frame.clear(1).to_arrow()
            writer.write_batch(whole.to_batches()[0].slice(0, table.num_rows))
    if writer is not None:
        partial.replace(path)


def _batch(path: Path, number: int) -> pl.DataFrame:
    with pa.memory_map(str(path)) as source:
        frame = pl.from_arrow(pa.ipc.open_file(source).get_batch(number))
    assert isinstance(frame, pl.DataFrame)  # noqa: S101 - for the type checker
    return frame
