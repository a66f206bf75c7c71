"""Suite + dataset + format -> an export."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nooch.challenge import Suite
from nooch.data import Dataset
from nooch.errors import ParameterError, check_one_of, some_of
from nooch.exports import Content, Exported, Key, exporter

__all__ = ["export"]

_GIVEN = {"content", "out", "overwrite"}
"""What every export takes; all other parameters are a format's own options."""


def export(
    suite: Suite,
    to: str,
    out: str | Path,
    *,
    data: Dataset | None = None,
    criteria: Sequence[str] = (),
    tasks: Sequence[str] = (),
    splits: Sequence[str] = (),
    licences: Sequence[str] = (),
    overwrite: bool = False,
    **options: Any,
) -> Exported:
    """Write challenge sets in another tool's format, with the licences of the data.

    Args:
        suite: the suite.
        to: ``ids``, ``npy``, ``coco``, ``csv``, ``hf``, ``table``, ``fiftyone``, or your own
            ``package.module:function``.
        out: file, folder or FiftyOne dataset to write to.
        data: the dataset that the suite was found in; some formats need its file names.
        criteria: names; all by default, as are ``tasks`` and ``splits``.
        tasks: see ``criteria``.
        splits: see ``criteria``.
        licences: licences of the data that are not recorded; recorded ones are always written.
        overwrite: replace an earlier export.
        options: the format's own: ``annotations, no_annotations, subsets`` (coco), ``subsets,
            id_field`` (fiftyone), ``predictions, scale, images`` (table).

    Raises:
        ParameterError: a name that the suite does not have, a selection without a set, an option
            that the format does not have, or another dataset than the suite's.
        InputError: what a format needs is not there; see the format.
        OutputError: ``out`` exists (and ``overwrite`` is false) or cannot be written.
    """
    write = exporter(to)
    known = set(inspect.signature(write).parameters) - _GIVEN
    for name in options:
        check_one_of("option", name, known, owner=f"the export {to}")
    if any(not text.strip() for text in licences):
        raise ParameterError(
            "a licence is empty", allowed="its name, such as CC BY 4.0, or its address"
        )
    keys = _keys(suite, criteria, tasks, splits)
    content = Content(suite, keys, data, tuple(licences))
    if data is not None:
        _check_dataset(content, data)
    return write(content, out, overwrite=overwrite, **options)


def _keys(
    suite: Suite, criteria: Sequence[str], tasks: Sequence[str], splits: Sequence[str]
) -> tuple[Key, ...]:
    """The chosen sets."""
    kinds = (
        ("criterion", criteria, suite.criteria),
        ("task", tasks, suite.tasks),
        ("split", splits, suite.splits),
    )
    for kind, names, known in kinds:
        for name in names:
            check_one_of(kind, name, known, owner="the suite")
    chosen = tuple(
        key
        for key in suite.keys
        if all(
            not names or part in names
            for part, names in zip(key, (criteria, tasks, splits), strict=True)
        )
    )
    if not chosen:
        reasons = [f"{s.criterion} {s.task}: {s.reason}" for s in suite.header.skipped]
        raise ParameterError(
            "there is no such challenge set in the suite" + (f" ({reasons[0]})" if reasons else ""),
            remedy="nooch show SUITE lists the sets",
        )
    return chosen


def _check_dataset(content: Content, data: Dataset) -> None:
    """Raise ParameterError for another dataset than the suite's. Sets that others published are of
    none: it must have their images.
    """
    header = content.suite.header
    if any(record.fitted is not None for record in header.criteria.values()):
        if data.fingerprint != header.dataset.fingerprint:
            raise ParameterError(
                "the dataset is not the one that the suite was found in: their fingerprints differ",
                remedy="give the dataset as it was, or find the suite again",
            )
        return
    known = set(data.images["image_id"])
    stray = {
        image_id: None
        for challenge in content.sets()
        for image_id in challenge.image_ids
        if image_id not in known
    }
    if stray:
        raise ParameterError(
            f"the dataset lacks images of the suite: {some_of(stray)}",
            remedy="give the dataset that the sets belong to",
        )
