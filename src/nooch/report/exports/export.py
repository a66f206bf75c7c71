"""Suite + dataset + format -> an export."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from nooch.base.calls import Options, options_from
from nooch.base.errors import ParameterError, check_one_of, some_of
from nooch.data import Dataset, as_dataset
from nooch.report.exports import exporter
from nooch.report.exports.contract import Content, Exported
from nooch.suites import Suite, as_suite
from nooch.suites.questions import QuestionOptions

_SHARED = {"content", "out", "overwrite"}
"""Parameters of every export; all others are a format's own options."""


@dataclass(frozen=True)
class ExportSelection(Options):
    """Which sets are exported, and under which licenses.

    Attributes:
        criteria: names; all by default, as are ``tasks`` and ``splits``.
        tasks: see ``criteria``.
        splits: see ``criteria``; questions are about the split that ``nooch.evaluate`` scores.
        licences: licenses of the data that are not recorded; recorded ones are always written.
    """

    criteria: Sequence[str] = ()
    tasks: Sequence[str] = ()
    splits: Sequence[str] = ()
    licences: Sequence[str] = ()


def export(
    suite: Suite | str | Path,
    to: str,
    out: str | Path,
    *,
    data: Dataset | str | Path | None = None,
    selection: ExportSelection | None = None,
    overwrite: bool = False,
    **options: Any,
) -> Exported:
    """Write challenge sets in another tool's format, with the licenses of the data.

    Args:
        suite: the suite.
        to: ``ids``, ``npy``, ``coco``, ``csv``, ``hf``, ``table``, ``fiftyone``, ``pope``,
            ``lmms-eval``, ``vlmevalkit``, or a custom ``package.module:function``.
        out: file, folder or FiftyOne dataset to write to.
        data: the dataset that the suite was found in; some formats need its file names.
        selection: which sets, all by default, and further licenses.
        overwrite: replace an earlier export.
        options: fields of ``selection``, and the format's own: ``annotations, no_annotations,
            subsets`` (coco), ``subsets, id_field`` (fiftyone), ``predictions, scale, images``
            (table), ``images`` and fields of ``QuestionOptions`` (pope, lmms-eval, vlmevalkit),
            ``images_as`` (lmms-eval, vlmevalkit).

    Raises:
        ParameterError: a name that the suite does not have, a selection without a set, an option
            that the format does not have, or another dataset than the suite's.
        InputError: what a format needs is missing; see the format.
        OutputError: ``out`` exists (and ``overwrite`` is false) or cannot be written.
    """
    suite = as_suite(suite)
    data = None if data is None else as_dataset(data)
    selection = options_from(ExportSelection, selection, _taken(ExportSelection, options))
    write = exporter(to)
    known = set(inspect.signature(write).parameters) - _SHARED
    if "questions" in known:
        named = _taken(QuestionOptions, options)
        options["questions"] = options_from(QuestionOptions, options.get("questions"), named)
        splits = selection.splits or suite.splits_to_score()
        selection = replace(selection, splits=splits)
        known |= {field.name for field in fields(QuestionOptions)}
    for name in options:
        check_one_of("option", name, known, owner=f"the export {to}")
    if any(not text.strip() for text in selection.licences):
        raise ParameterError(
            "a licence is empty", allowed="its name, such as CC BY 4.0, or its address"
        )
    keys = suite.select_keys(selection.criteria, selection.tasks, selection.splits)
    content = Content(suite, keys, data, tuple(selection.licences))
    if data is not None:
        _check_dataset(content, data)
    return write(content, out, overwrite=overwrite, **options)


def _taken(kind: type[Any], options: dict[str, Any]) -> dict[str, Any]:
    """The fields of a dataclass that are among the options, which lose them."""
    return {field.name: options.pop(field.name) for field in fields(kind) if field.name in options}


def _check_dataset(content: Content, data: Dataset) -> None:
    """Raise ParameterError for another dataset than the suite's, or than that of published sets."""
    header = content.suite.header
    if any(record.fitted is not None for record in header.criteria.values()):
        content.suite.require_dataset(data)
        return
    known = set(data.images["image_id"])
    ids = dict.fromkeys(i for challenge in content.sets() for i in challenge.image_ids)
    if stray := [image_id for image_id in ids if image_id not in known]:
        problem = f"the dataset lacks images of the suite: {some_of(stray)}"
        raise ParameterError(problem, remedy="give the dataset that the sets belong to")
