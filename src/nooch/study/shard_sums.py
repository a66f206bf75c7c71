"""Criteria are fitted on a dataset in parts: every shard's statistics, kept on disk, and added up as they come."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast, get_origin

import msgspec
import numpy as np
from blake3 import blake3

from nooch.criteria import Criterion, Fitted, Summable, reads_of
from nooch.data import Dataset
from nooch.data.shards import ShardedDataset
from nooch.errors import ParameterError, check_one_of
from nooch.files import replace_file
from nooch.shared_types import Map, Progress
from nooch.study.finding import training_part
from nooch.study.holding import held
from nooch.version import __version__

__all__ = ["check_embeddings", "code_of", "fit_in_shards", "sums_folder"]


def fit_in_shards(
    data: ShardedDataset,
    base: Mapping[str, Criterion | Fitted],
    tasks: Sequence[str],
    target: Path,
    map: Map,
    progress: Progress,
) -> dict[str, Fitted]:
    """Fitted criteria by name, in the order given: sums of all shards, or those that were fitted before.

    What a shard says lies beside ``target``, in ``sums_folder``, so that no shard is summed twice; that goes for criteria that say
    what their statistics are (``state``). The folder stays, for it is of use until the suite is written.

    Raises:
        ParameterError: a criterion that cannot be fitted shard by shard, or an embedding that the dataset lacks.
        OutputError: another process is finding this suite.
    """
    wanted = {name: c for name, c in base.items() if not isinstance(c, Fitted)}
    for name, criterion in wanted.items():
        _check(data, name, criterion, tasks)
    check_embeddings(data, reads_of(wanted.values()))
    if not wanted:
        return {name: c for name, c in base.items() if isinstance(c, Fitted)}
    sums = _Sums(data, wanted, tuple(tasks), sums_folder(target, data, wanted, tasks))
    summed: dict[str, Any] = {}
    with held(sums.folder, "finding this suite"):
        progress("summing shards", 0, len(data))
        for done, states in enumerate(map(partial(_sum_shard, sums), range(len(data))), 1):
            # added up at once: memory does not grow with the number of shards
            for name, state in states.items():
                summed[name] = wanted[name].merge([summed[name], state]) if name in summed else state  # type: ignore[attr-defined]
            progress("summing shards", done, len(data))
    return {
        name: c if isinstance(c, Fitted) else cast("Any", c).finish(summed[name], data.classes, tasks)
        for name, c in base.items()
    }


def sums_folder(target: Path, data: ShardedDataset, criteria: Mapping[str, Any], tasks: Sequence[str]) -> Path:
    """Where shards' statistics lie, named by everything that they depend on; criteria are named by their parameters."""
    content = {
        "version": __version__,
        "parts": [dict(part) for part in data.parts],
        "files": {name: one.sha256 for name, one in data.header.files.items()},
        "criteria": {name: [*code_of(c), repr(c)] for name, c in criteria.items()},
        "tasks": list(tasks),
    }
    return target.with_name(f".{target.name}.summing-{blake3(msgspec.json.encode(content)).hexdigest()[:16]}")


def code_of(criterion: object) -> list[str]:
    """Which class a criterion is of and, for one that is not nooch's own, what its file says now: it may be edited meanwhile."""
    kind = type(criterion)
    named = [kind.__module__, kind.__qualname__]
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    if file is None or kind.__module__.startswith("nooch."):
        return named
    return [*named, blake3(Path(file).read_bytes()).hexdigest()]


def check_embeddings(data: ShardedDataset, reads: Collection[str] | None) -> None:
    """Raise a ParameterError for an embedding that criteria read and the dataset lacks."""
    for kind in reads or ():
        if kind.startswith("embeddings/"):
            check_one_of("embedding", kind.partition("/")[2], data.embeddings, owner="the dataset")


def _check(data: ShardedDataset, name: str, criterion: Criterion, tasks: Sequence[str]) -> None:
    if not isinstance(criterion, Summable):
        raise ParameterError(
            f"{name} cannot be fitted on a dataset in parts: it has no partial, merge and finish",
            allowed="ce, gist, attribute, scores, a criterion with these three methods, or one fitted before",
            remedy="fit it on a dataset in one piece, and give that suite with --fitted",
        )
    given = getattr(criterion, "cues", {})
    if data.fitting_split not in data.splits and not all(task in given for task in tasks):
        training_part(cast("Dataset", data), name)


@dataclass(frozen=True)
class _Sums:
    """What workers need."""

    data: ShardedDataset
    criteria: Mapping[str, Any]
    tasks: Sequence[str]
    folder: Path

    def file(self, shard: int, name: str) -> Path:
        return self.folder / f"shard-{shard:07d}.{list(self.criteria).index(name)}.msgpack"


def _sum_shard(sums: _Sums, shard: int) -> dict[str, Any]:
    """Every criterion's statistics of the training images of a shard; those that are there already are read."""
    found: dict[str, Any] = {}
    for name, criterion in sums.criteria.items():
        path = sums.file(shard, name)
        if _kept(criterion) and path.is_file():
            found[name] = msgspec.msgpack.decode(path.read_bytes(), type=criterion.state, dec_hook=_array)
    missing = {name: criterion for name, criterion in sums.criteria.items() if name not in found}
    if missing:
        whole = sums.data.load(shard, reads=reads_of(missing.values()))
        part = whole.select(rows=(whole.images["split"] == sums.data.fitting_split).to_numpy())
    for name, criterion in missing.items():
        found[name] = criterion.partial(part, sums.tasks)
        if _kept(criterion):
            replace_file(sums.file(shard, name), msgspec.msgpack.encode(found[name], enc_hook=_plain))
    return found


def _kept(criterion: Any) -> bool:
    """Whether statistics can be read back, and the criterion's name for itself says all of its parameters."""
    return hasattr(criterion, "state") and is_dataclass(criterion) and type(criterion).__repr__ is not object.__repr__


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return value.dtype.str, value.shape, value.tobytes()
    raise NotImplementedError(f"statistics hold {type(value)}")


def _array(kind: Any, value: Any) -> Any:
    if (get_origin(kind) or kind) is np.ndarray:
        dtype, shape, content = value
        return np.frombuffer(content, np.dtype(dtype)).reshape(shape)
    raise NotImplementedError(f"statistics hold {kind}")
