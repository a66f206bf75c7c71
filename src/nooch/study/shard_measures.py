"""What workers do for a sharded find: measure one shard for every task; gather one task of every shard and mark it.

Between the two lie Arrow files in a folder that all workers see. They carry supports bit by bit, so that marks are those of
a dataset in one piece, ties by image id and counts to match included.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import msgspec
import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray
from scipy.sparse import csr_array

from nooch.challenge import ChallengeSet, Mark
from nooch.challenge.marks import Side
from nooch.challenge.suite import SetRecord
from nooch.criteria import Combination, Criterion, Fitted, MarkFitted, SupportFitted, reads_of
from nooch.data import ALL, SPLITS, Dataset
from nooch.data.shards import ShardedDataset
from nooch.errors import UndefinedError
from nooch.files import partial_of, replace_file
from nooch.study.finding import TASKS_AT_ONCE, Finding

__all__ = ["Marked", "Work", "gather_task", "measure_shard"]

_LZ4 = pa.ipc.IpcWriteOptions(compression="lz4")


class Marked(msgspec.Struct, frozen=True):
    """What came of one criterion and task: the records of its sets, or why there are none."""

    records: list[SetRecord] = []
    reason: str | None = None


@dataclass(frozen=True)
class Work:
    """Everything that workers need; it travels to them with each item.

    Attributes:
        data: the dataset in parts.
        folder: where intermediate files lie.
        fitted: base criteria by name; ``criteria`` those and combinations.
        tasks: names, with ``splits`` to find in, and ``match``, the criterion whose counts are matched.
    """

    data: ShardedDataset
    folder: Path
    fitted: Mapping[str, Fitted]
    criteria: Mapping[str, Criterion | Fitted | Combination]
    tasks: Sequence[str]
    splits: Sequence[str]
    match: str | None

    def shard_file(self, shard: int, what: str) -> Path:
        """A file of one shard: ``images``, ``labels``, or the number of a base criterion."""
        return self.folder / f"shard-{shard:07d}.{what}.arrow"

    def marked_file(self, name: str, task: str) -> Path:
        """The sets of one criterion and task, a record batch each; the last record lies beside it as JSON."""
        return self.folder / f"marked-{list(self.criteria).index(name)}-{self.tasks.index(task)}.arrow"

    @cached_property
    def split_codes(self) -> NDArray[np.uint8]:
        """Position in ``splits`` of every image that is searched, uint8 (n,), in the order of image ids."""
        parts = [table["split"].to_numpy() for table in self._images()]
        return np.concatenate(parts) if parts else np.empty(0, np.uint8)

    @cached_property
    def ids(self) -> Mapping[str, pl.Series]:
        """Ids of the images of every split that is searched, ascending."""
        tables = pl.concat(self._images())
        return {split: tables.filter(pl.col("split") == code)["image_id"] for code, split in enumerate(self.splits)}

    def _images(self) -> Iterator[pl.DataFrame]:
        return (_batch(self.shard_file(shard, "images"), 0) for shard in range(len(self.data)))

    def read_set(self, record: SetRecord) -> ChallengeSet:
        """A set that ``gather_task`` has written."""
        frame = _batch(self.marked_file(record.criterion, record.task), self.splits.index(record.split))
        ids = self.ids[record.split]
        rows = frame["row"]
        return ChallengeSet(
            record.criterion,
            record.task,
            record.split,
            ids if len(rows) == len(ids) else ids.gather(rows),
            frame["label"].to_numpy(),
            frame["subset"].to_numpy(),
            frame["support"].to_numpy() if "support" in frame.columns else None,
            Side(record.threshold_positive, record.tied_positive, record.missing_positives),
            Side(record.threshold_negative, record.tied_negative, record.missing_negatives),
            (record.excluded_positives, record.excluded_negatives, record.excluded_unknown),
            frame["by_cue"].to_numpy() if "by_cue" in frame.columns else None,
        )


def measure_shard(work: Work, shard: int) -> None:
    """Write labels, and support or phi under every base criterion, of a shard's images; what is there already stays.

    One record batch for each task, in their order; it is empty where the task has no set under the criterion.
    """
    done = work.shard_file(shard, "images")
    if done.is_file():
        return
    data = work.data.load(shard, reads=reads_of(work.fitted.values()))
    codes = data.images["split"].replace_strict(
        {name: work.splits.index(name) if name in work.splits else len(work.splits) for name in (*SPLITS, ALL)},
        return_dtype=pl.UInt8,
    )
    chosen = (codes < len(work.splits)).to_numpy()
    part = data.select(rows=chosen)
    _write(work.shard_file(shard, "labels"), ({"label": _labels(part, task)} for task in work.tasks))
    for number, fitted in enumerate(work.fitted.values()):
        _write(work.shard_file(shard, str(number)), _measures(fitted, part, work.tasks))
    # written last: it says that the shard is done
    _write(done, [{"image_id": part.images["image_id"], "split": codes.filter(pl.Series(chosen))}])


def _labels(part: Dataset, task: str) -> pl.Series:
    """Labels, null where they are unknown."""
    labels, unknown = pl.Series(part.labels(task, unknown=False)), part.unknown_labels(task)
    return labels if unknown is None else labels.set(pl.Series(unknown), value=None)


def _measures(fitted: Fitted, part: Dataset, tasks: Sequence[str]) -> Iterator[dict[str, Any]]:
    if isinstance(fitted, MarkFitted):
        for task in tasks:
            yield {"phi": np.empty(0, bool) if fitted.undefined(task) else fitted.phi(part, task)}
    if not isinstance(fitted, SupportFitted):
        return
    for start in range(0, len(tasks), TASKS_AT_ONCE):
        block = tasks[start : start + TASKS_AT_ONCE]
        defined = [task for task in block if fitted.undefined(task) is None]
        supports = dict(zip(defined, fitted.supports(part, defined).T, strict=True)) if defined else {}
        for task in block:
            columns: dict[str, Any] = {"support": supports.get(task, np.empty(0))}
            if fitted.thresholds is not None:
                labels = part.labels(task, unknown=False)
                bits = fitted.hard_by_cue(part, task, labels) if task in supports else None
                none = [None] * len(columns["support"])
                columns["by_cue"] = pl.Series(none if bits is None else bits, dtype=pl.UInt64)
            yield columns


def gather_task(work: Work, item: tuple[str, str]) -> Marked:
    """Mark all images for one (criterion, task), write the sets, and return their records."""
    name, task = item
    path = work.marked_file(name, task)
    record = path.with_suffix(".json")
    if record.is_file():
        return msgspec.json.decode(record.read_bytes(), type=Marked)
    marked = _gather(work, name, task, path)
    replace_file(record, msgspec.json.encode(marked))
    return marked


def _gather(work: Work, name: str, task: str, path: Path) -> Marked:
    criterion = work.criteria[name]
    needed = set(criterion.names) if isinstance(criterion, Combination) else {name}
    for part in list(needed):
        fitted = work.fitted[part]
        if isinstance(fitted, SupportFitted) and fitted.thresholds is None and work.match is not None:
            needed.add(work.match)
    measured = {part: _measured(part, work.fitted[part]) for part in work.fitted if part in needed}
    parts = _parts(work, task, [part for part, fitted in measured.items() if fitted.undefined(task) is None])
    finding = Finding([task], measured, work.match, parts)
    try:
        marks = {split: finding.mark(name, criterion, task, split) for split in work.splits}
    except UndefinedError as error:
        return Marked(reason=error.problem)
    sets = [_set(name, task, split, parts[split], mark) for split, mark in marks.items()]
    _write(path, (columns for columns, _ in sets))
    return Marked([record for _, record in sets])


def _set(name: str, task: str, split: str, part: Dataset, mark: Mark) -> tuple[dict[str, Any], SetRecord]:
    found = ChallengeSet.from_mark(name, task, split, part, mark)
    columns = {
        "row": found.image_ids.cast(pl.UInt32),
        "label": found.labels,
        "subset": found.subset,
        "support": found.support,
        "by_cue": found.by_cue,
    }
    return {key: values for key, values in columns.items() if values is not None}, SetRecord.of(found)


def _parts(work: Work, task: str, names: Sequence[str]) -> dict[str, Dataset]:
    """For each split, a Dataset of what was measured for one task: rows for ids, one class, measures as columns."""
    number, order = work.tasks.index(task), list(work.fitted)
    columns = [_gathered(work, "labels", number)["label"]]
    for name in names:
        found = _gathered(work, str(order.index(name)), number)
        columns += [column.rename(f"{name}/{column.name}") for column in found]
    table = pl.DataFrame(columns)
    parts = {}
    for code, split in enumerate(work.splits):
        mine = table.filter(pl.Series(work.split_codes == code)).with_row_index("image_id")
        labels = mine["label"]
        areas, unknown = (_column(rows) for rows in (labels.fill_null(value=False), labels.is_null()))
        exceptions = csr_array(-unknown.astype(np.int8)) if unknown.nnz else None
        parts[split] = Dataset(mine.drop("label"), (task,), areas, exceptions=exceptions)
    return parts


def _column(rows: pl.Series) -> csr_array:
    """CSR float64 (n, 1) with an entry where a Boolean column is true."""
    ends = np.concatenate([[0], np.cumsum(rows.to_numpy())])
    return csr_array((np.ones(ends[-1]), np.zeros(ends[-1], np.int64), ends), shape=(len(rows), 1))


def _gathered(work: Work, what: str, number: int) -> pl.DataFrame:
    return pl.concat([_batch(work.shard_file(shard, what), number) for shard in range(len(work.data))])


def _measured(name: str, fitted: Fitted) -> Fitted:
    if isinstance(fitted, SupportFitted):
        return _MeasuredSupport(name, fitted)
    return _MeasuredMark(name, fitted)


class _Measured(Fitted):
    """A fitted criterion whose measures are columns of the dataset that it is given."""

    def __init__(self, name: str, fitted: Fitted) -> None:
        self.name, self.fitted = name, fitted

    def parameters(self) -> dict[str, Any]:
        return self.fitted.parameters()

    def undefined(self, task: str) -> str | None:
        return self.fitted.undefined(task)

    def explain(self, image: Dataset, task: str) -> str:
        return self.fitted.explain(image, task)

    def to_json(self) -> dict[str, Any]:
        return self.fitted.to_json()

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        # it stands in for a fitted criterion while one suite is found, and is in no file
        raise NotImplementedError


class _MeasuredMark(_Measured, MarkFitted):
    def phi(self, data: Dataset, task: str) -> NDArray[np.bool_]:
        del task
        return data.images[f"{self.name}/phi"].to_numpy()


class _MeasuredSupport(_Measured, SupportFitted):
    def __init__(self, name: str, fitted: SupportFitted) -> None:
        super().__init__(name, fitted)
        self.thresholds = fitted.thresholds

    def support(self, data: Dataset, task: str) -> NDArray[np.float64]:
        del task
        return data.images[f"{self.name}/support"].to_numpy()

    def hard_by_cue(self, data: Dataset, task: str, labels: NDArray[np.bool_]) -> NDArray[np.uint64] | None:
        del task, labels
        bits = data.images[f"{self.name}/by_cue"]
        return None if bits.null_count() else bits.to_numpy()


def _write(path: Path, batches: Any) -> None:
    """Arrow record batches under a temporary name, then under their own: a file that is there is whole."""
    partial = partial_of(path)
    writer = None
    try:
        for columns in batches:
            table = pl.DataFrame(columns).rechunk().to_arrow()
            if writer is None:
                writer = pa.ipc.new_file(partial, table.schema, options=_LZ4)
            # an empty table would write no batch
            writer.write_batch(table.to_batches()[0] if table.num_rows else _empty(table.schema))
    finally:
        if writer is not None:
            writer.close()
    partial.replace(path)


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema=schema)


def _batch(path: Path, number: int) -> pl.DataFrame:
    with pa.memory_map(str(path)) as source:
        found = pl.from_arrow(pa.ipc.open_file(source).get_batch(number))
    assert isinstance(found, pl.DataFrame)  # noqa: S101 - tells the type checker that a batch gives a frame
    return found
