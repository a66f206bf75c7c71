"""Fit criteria on the training images of all parts: the statistics of the parts, added up."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from blake3 import blake3

from nooch.criteria import Criterion, Fitted, Summable, reads_of
from nooch.data import Dataset
from nooch.errors import InputError, ParameterError, check_one_of
from nooch.shared_types import Map, Progress
from nooch.version import __version__
from nooch.work_folder import held, kept, work_folder

__all__ = ["check_embeddings", "code_of", "content_of", "fit_criteria", "training_part"]


def fit_criteria(
    data: Dataset,
    criteria: Mapping[str, Criterion | Fitted],
    tasks: Sequence[str],
    target: Path | None,
    map: Map,
    progress: Progress,
) -> dict[str, Fitted]:
    """Fitted criteria by name, in the order given; those that are fitted already stay as they are.

    Args:
        data: the dataset.
        criteria: by name; one that is not ``Summable`` needs a dataset of one part.
        tasks: names.
        target: suite folder. Parts' statistics are stored next to it until it is written (criteria
            with ``state``), so that no part is summed twice; None stores nothing.
        map: where parts are summed.
        progress: called with what is being done, and how many of how many parts are done.

    Raises:
        ParameterError: a criterion that cannot be fitted on several parts; a missing embedding.
        InputError: no training images.
        OutputError: another process is finding this suite.
    """
    wanted = {name: c for name, c in criteria.items() if not isinstance(c, Fitted)}
    for name, criterion in wanted.items():
        _check(data, name, criterion, tasks)
    check_embeddings(data, reads_of(wanted.values()))
    fitted = {name: c for name, c in criteria.items() if isinstance(c, Fitted)}
    summable = {name: c for name, c in wanted.items() if isinstance(c, Summable)}
    if summable:
        folder = None if target is None else _folder(target, data, summable, tasks)
        sums = _summed(_Sums(data, summable, tuple(tasks), folder), map, progress)
        fitted |= {
            name: one.finish(sums[name], data.classes, tasks) for name, one in summable.items()
        }
    for name in wanted.keys() - summable.keys():
        part = data.part(0, reads=reads_of([wanted[name]]))
        fitted[name] = wanted[name].fit(_training_images(part, data.fitting_split), tasks)
    return {name: fitted[name] for name in criteria}


def training_part(data: Dataset, name: str) -> Dataset:
    """The images that criteria are fitted on. Raises InputError, for ``name``, without any."""
    if data.fitting_split in data.splits:
        return data.select(data.fitting_split)
    raise InputError(
        f"the split train is empty, so {name} cannot be fitted",
        allowed=f"splits: {', '.join(f'{s} {n}' for s, n in data.splits.items())}",
        remedy="give cues by hand for every task, or a criterion fitted elsewhere (`fitted` SUITE)",
    )


def code_of(criterion: object) -> list[str]:
    """A criterion's class and, for a custom one, the hash of its source file, which may change."""
    kind = type(criterion)
    named = [kind.__module__, kind.__qualname__]
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    if file is None or kind.__module__.startswith("nooch."):
        return named
    return [*named, blake3(Path(file).read_bytes()).hexdigest()]


def content_of(data: Dataset) -> dict[str, Any]:
    """The content of a dataset folder, JSON-like: hashes of all files, embeddings included."""
    header = data.header
    assert header is not None  # noqa: S101 - only datasets in folders have intermediate files
    return {
        "fingerprint": header.fingerprint,
        "files": {name: one.sha256 for name, one in header.files.items()},
    }


def check_embeddings(data: Dataset, reads: Collection[str] | None) -> None:
    """Raise a ParameterError for an embedding that criteria read and the dataset lacks."""
    for kind in reads or ():
        if kind.startswith("embeddings/"):
            name = kind.partition("/")[2]
            check_one_of("embedding", name, data.embedding_names, owner="the dataset")


def _check(data: Dataset, name: str, criterion: Criterion, tasks: Sequence[str]) -> None:
    if data.n_parts > 1 and not isinstance(criterion, Summable):
        raise ParameterError(
            f"{name} cannot be fitted on several parts: it has no partial, merge and finish",
            allowed="ce, gist, attribute, scores, a fitted criterion, one with these three methods",
            remedy="fit it on a dataset of one part, and give that suite with `fitted`",
        )
    cues = getattr(criterion, "cues", {})
    # cues by hand need no training image; A(C, Y) is then unknown
    if data.fitting_split not in data.splits and not all(task in cues for task in tasks):
        training_part(data, name)


def _training_images(part: Dataset, split: str) -> Dataset:
    return part.select(rows=(part.images["split"] == split).to_numpy())


def _folder(target: Path, data: Dataset, criteria: Mapping[str, Any], tasks: Sequence[str]) -> Path:
    """The folder of parts' statistics, named by all inputs and the criteria's parameters."""
    content = {
        "version": __version__,
        "data": content_of(data),
        "criteria": {name: [*code_of(c), repr(c)] for name, c in criteria.items()},
        "tasks": list(tasks),
    }
    return work_folder(target, "summing", content)


def _summed(sums: _Sums, map: Map, progress: Progress) -> dict[str, Any]:
    """Statistics of all parts, by criterion."""
    total: dict[str, Any] = {}
    n_parts = sums.data.n_parts
    doing = "finding this suite"
    with contextlib.nullcontext() if sums.folder is None else held(sums.folder, doing):
        progress("summing parts", 0, n_parts)
        for done, states in enumerate(map(sums.of_part, range(n_parts)), 1):
            # added up at once: memory does not grow with the number of parts
            for name, state in states.items():
                before = [total[name]] if name in total else []
                total[name] = sums.criteria[name].merge([*before, state]) if before else state
            progress("summing parts", done, n_parts)
    return total


@dataclass(frozen=True)
class _Sums:
    """Statistics of parts, computed by workers and stored in ``folder`` unless it is None."""

    data: Dataset
    criteria: Mapping[str, Any]
    tasks: Sequence[str]
    folder: Path | None

    def of_part(self, number: int) -> dict[str, Any]:
        """Every criterion's statistics of the training images of a part; stored ones are read."""

        @cache
        def images() -> Dataset:
            part = self.data.part(number, reads=reads_of(self.criteria.values()))
            return _training_images(part, self.data.fitting_split)

        def summed(criterion: Summable) -> Any:
            return criterion.partial(images(), self.tasks)

        states = {}
        for place, (name, criterion) in enumerate(self.criteria.items()):
            if self.folder is None or not _can_be_stored(criterion):
                states[name] = summed(criterion)
            else:
                file = self.folder / f"shard-{number:07d}.{place}.msgpack"
                states[name] = kept(file, criterion.state, partial(summed, criterion))
        return states


def _can_be_stored(criterion: Any) -> bool:
    """Whether statistics can be read back, and the criterion's repr has all of its parameters."""
    return (
        hasattr(criterion, "state")
        and is_dataclass(criterion)
        and type(criterion).__repr__ is not object.__repr__
    )
