"""A dataset in parts and criteria -> suite folder: what ``find`` gives in one piece, bit by bit, in bounded memory.

Three steps, each spread over workers by an engine's ``map``: sums of every shard, added up as they come; supports of every
shard; marks of every task. What is done is kept beside the suite until that is written, so that an interrupted find goes
on where it was.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import msgspec
from blake3 import blake3

from nooch.challenge import CriterionRecord, DatasetRecord, Skipped, Suite, load_suite, save_suite
from nooch.challenge.suite import SuiteHeader
from nooch.criteria import Combination, Criterion, Fitted, Summable, reads_of
from nooch.data import Dataset
from nooch.data.shards import ShardedDataset, open_shards
from nooch.files import SUITE_MARKER, Place, check_output
from nooch.shared_types import Map, Progress, no_progress
from nooch.study.finding import (
    check_match,
    check_thresholds,
    criterion_record,
    resolve_tasks,
    splits_to_search,
    thresholds_in,
)
from nooch.study.holding import held, remove_leftovers
from nooch.study.shard_measures import Marked, Work, gather_task, measure_shard
from nooch.study.shard_sums import check_embeddings, code_of, fit_in_shards
from nooch.study.unannotated import check_fit, check_sets
from nooch.version import __version__

__all__ = ["Summable", "find_in_shards"]


def find_in_shards(
    dataset: str | Place | ShardedDataset,
    criteria: Mapping[str, Criterion | Fitted | Combination],
    out: str | Path,
    *,
    tasks: str | Sequence[str] = "all",
    match: str | None = None,
    splits: Sequence[str] | None = None,
    path: str | None = None,
    allow_unannotated: bool = False,
    overwrite: bool = False,
    map: Map = builtins.map,
    progress: Progress = no_progress,
) -> Suite:
    """Find the challenge sets of a dataset in parts and write them as a suite folder, the same bytes as ``find`` gives.

    Args:
        dataset: its folder or its address, in one piece or in parts.
        criteria: name -> criterion, fitted criterion (used as it is), or combination of the others by name.
        out: suite folder to write. Intermediate files lie beside it, where all workers must be able to write.
        tasks: as for ``find``.
        match: as for ``find``.
        splits: as for ``find``.
        path: as for ``find``.
        allow_unannotated: as for ``find``.
        overwrite: replace a suite folder that exists.
        map: where the work is done, such as an engine's.
        progress: called with what is being done, and how much of how much is done.

    Returns:
        The suite, its rows read from the folder when they are asked for.

    Raises:
        ParameterError: as ``find``; also a criterion that cannot be fitted shard by shard.
        InputError: as ``find``.
        OutputError: the folder exists, or another process is finding this suite.
    """
    target = check_output(out, overwrite=overwrite, marker=SUITE_MARKER)
    data = dataset if isinstance(dataset, ShardedDataset) else open_shards(dataset)
    # names and splits are all that is asked of it
    described = cast("Dataset", data)
    names, found_in = resolve_tasks(described, tasks), splits_to_search(described, splits)
    check_thresholds(thresholds_in(criteria), names, data.classes)
    base = {name: c for name, c in criteria.items() if not isinstance(c, Combination)}
    fitted = fit_in_shards(data, base, names, target, map, progress)
    check_match(fitted, match, criteria)
    if not allow_unannotated:
        check_fit(fitted, base, names)
    check_embeddings(data, reads_of(fitted.values()))
    work = Work(
        data, _folder(target, data, fitted, criteria, names, found_in, match), fitted, criteria, names, found_in, match
    )
    with held(work.folder, "finding this suite"):
        _all(map(partial(measure_shard, work), range(len(data))), len(data), "measuring shards", progress)
        pairs = [(name, task) for name in criteria for task in names]
        marked = _all(map(partial(gather_task, work), pairs), len(pairs), "marking tasks", progress)
        progress("writing", 0, 1)
        header = _header(data, work, dict(zip(pairs, marked, strict=True)), path)
        if not allow_unannotated:
            check_sets(header.sets, fitted)
        records = {(r.criterion, r.task, r.split): r for r in header.sets}
        save_suite(Suite(header, lambda *key: work.read_set(records[key])), out, overwrite=overwrite)
    # what a find with other words left is of no use now, either
    for what in ("finding", "summing"):
        remove_leftovers(target, what, "finding this suite")
    progress("writing", 1, 1)
    return load_suite(out)


def _header(
    data: ShardedDataset, work: Work, marked: Mapping[tuple[str, str], Marked], path: str | None
) -> SuiteHeader:
    known = data.header.provenance
    return SuiteHeader(
        DatasetRecord(
            data.header.fingerprint,
            data.header.n_images,
            data.splits,
            known.get("area"),
            path,
            known.get("licenses", []),
        ),
        list(work.tasks),
        list(work.splits),
        _records(work),
        [record for one in marked.values() for record in one.records],
        [Skipped(*key, one.reason) for key, one in marked.items() if one.reason is not None],
    )


def _records(work: Work) -> dict[str, CriterionRecord]:
    tasks = list(work.tasks)
    return {name: criterion_record(c, work.fitted.get(name), tasks, work.match) for name, c in work.criteria.items()}


def _folder(
    target: Path,
    data: ShardedDataset,
    fitted: Mapping[str, Fitted],
    criteria: Mapping[str, Any],
    tasks: Sequence[str],
    splits: Sequence[str],
    match: str | None,
) -> Path:
    """Where intermediate files lie, named by everything that they depend on: another find never takes them for its own."""
    content = {
        "version": __version__,
        "fingerprint": data.header.fingerprint,
        "parts": [dict(part) for part in data.parts],
        "embeddings": {name: one.sha256 for name, one in data.header.files.items() if name.startswith("embeddings/")},
        "fitted": {name: [*code_of(one), one.kind, one.to_json()] for name, one in fitted.items()},
        "criteria": [[name, getattr(c, "expression", None)] for name, c in criteria.items()],
        "asked": [list(tasks), list(splits), match],
    }
    key = blake3(msgspec.json.encode(content)).hexdigest()[:16]
    return target.with_name(f".{target.name}.finding-{key}")


def _all(results: Iterable[Any], total: int, what: str, progress: Progress) -> list[Any]:
    listed = []
    progress(what, 0, total)
    for result in results:
        listed.append(result)
        progress(what, len(listed), total)
    return listed
