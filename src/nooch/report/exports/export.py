"""Suite + dataset + format -> an export."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from nooch.base.calls import Count, Seed, checked
from nooch.base.errors import ParameterError, check_one_of, some_of
from nooch.data import Dataset, as_dataset
from nooch.evaluation.numbered import numbered_finding
from nooch.report.exports import exporter
from nooch.report.exports.contract import Content, Exported
from nooch.suites import ChallengeSet, Suite, as_suite
from nooch.suites.challenge_set import subset_codes
from nooch.suites.questions import PER_SET, TEMPLATE, Draw
from nooch.suites.suite import CriterionRecord

_SHARED = {"content", "out", "overwrite"}
"""Parameters of every export; all others are a format's own."""


@checked
def export(
    suite: Suite | str | Path,
    to: str,
    out: str | Path,
    *,
    finding: Count | None = None,
    data: Dataset | str | Path | None = None,
    criteria: Sequence[str] = (),
    tasks: Sequence[str] = (),
    splits: Sequence[str] = (),
    licenses: Sequence[str] = (),
    annotations: Sequence[str | Path] = (),
    no_annotations: bool = False,
    subsets: Sequence[str] | None = None,
    id_field: str | None = None,
    predictions: Any = None,
    reading: Mapping[str, Any] | None = None,
    images: str | Path | None = None,
    images_as: str | None = None,
    per_set: Count | None = PER_SET,
    template: str = TEMPLATE,
    seed: Seed = 0,
    settings: Mapping[str, Any] | None = None,
    overwrite: bool = False,
) -> Exported:
    """Write challenge sets in another tool's format, with the licenses of the data.

    Args:
        suite: the suite.
        to: ``ids``, ``coco``, ``coco-slices``, ``csv``, ``hf``, ``fiftyone``, ``pope``, ``images``
            (the files that the questions need), ``lmms-eval``, ``vlmevalkit``, or a custom
            ``package.module:function``.
        out: file, folder or FiftyOne dataset to write to.
        finding: number of a check's finding, whose images become the hard images of one set; the
            suite is the check's folder or suite.
        data: the dataset that the suite was found in; some formats need its file names.
        criteria: names of criteria; by default all.
        tasks: names of tasks; by default all.
        splits: names of splits; by default all, or for questions the splits that ``nooch.evaluate``
            scores.
        licenses: licenses of the data that are not recorded; recorded ones are always written.
        annotations: annotation files that the dataset was imported from, for coco.
        no_annotations: write images and categories, without annotation files, for coco.
        subsets: names of subsets such as ``hard_positive`` or ``easy``, for coco and fiftyone; by
            default the hard subsets.
        id_field: field of image ids, for fiftyone; by default ``image_id`` or ``coco_id``, else the
            files' paths.
        predictions: predictions, as for ``nooch.evaluate``: csv gets their losses, coco-slices
            their boxes.
        reading: how files of predictions are read: keywords of ``nooch.load_predictions``.
        images: folder of the images, for pope, lmms-eval and vlmevalkit, if not the one that the
            dataset records; for hf, which then also writes ``eval.yaml`` and its questions with
            their images.
        images_as: ``paths`` (the default) or ``bytes``, which also writes the images; for lmms-eval
            and vlmevalkit.
        per_set: images drawn for each task and combination of label and subsets, for pope,
            images, lmms-eval, vlmevalkit and hf with images, at least 1; all (in Python None)
            for all of them, as by default of ``nooch-pope``.
        template: their question, with ``{a}`` for the article and ``{task}``.
        seed: seed of the draw of questions, at least 0.
        settings: keywords of a custom format.
        overwrite: replace an earlier export.

    Raises:
        ParameterError: a name that the suite does not have, a selection without a set, an option
            that the format does not have, or another dataset than the suite's.
        InputError: what a format needs is missing; see the format; a ``finding`` without a check.
        OutputError: ``out`` exists (and ``overwrite`` is false) or cannot be written.

    Examples:
        >>> done = nooch.export("suite", "ids", "car.json", tasks=["car"], splits=["test"])
        >>> done.sets, done.files
        (1, ['car.json'])
    """
    suite = as_suite(suite)
    if finding is not None:
        suite = _of_finding(suite, finding)
    data = None if data is None else as_dataset(data)
    write, draw = exporter(to), Draw(per_set, template, seed)
    own_options = set(inspect.signature(write).parameters) - _SHARED
    own: dict[str, Any] = {
        "annotations": annotations, "no_annotations": no_annotations, "subsets": subsets,
        "id_field": id_field, "predictions": predictions, "reading": reading, "images": images,
        "images_as": images_as,
    }  # fmt: skip
    given = {name: value for name, value in own.items() if _is_given(value)}
    given |= settings or {}
    # an export of sets asks only where it is given images
    own_options -= {"image_questions"} if images is None else set()
    if asks := own_options & {"questions", "image_questions"}:
        given[asks.pop()] = draw
        splits = splits or suite.splits_to_score()
    else:
        usual = Draw()._asdict()
        given |= {n: v for n, v in draw._asdict().items() if v != usual[n]}
    for name in given:
        check_one_of("option", name, own_options, owner=f"the export {to}")
    if any(not text.strip() for text in licenses):
        raise ParameterError(
            "a license is empty", allowed="its name, such as CC BY 4.0, or its address"
        )
    keys = suite.select_keys(criteria, tasks, splits)
    content = Content(suite, keys, data, tuple(licenses))
    if data is not None:
        _check_dataset(content, data)
    return write(content, out, overwrite=overwrite, **given)


def _of_finding(suite: Suite, number: int) -> Suite:
    """The images of a finding as a set of one side."""
    row = numbered_finding(suite, number)
    key = f"finding-{number}", row["task"], row["split"]
    ids = pl.Series("image_id", [*row["wrong"], *row["right"]]).sort()
    labels = np.full(len(ids), row["side"] == "positive")
    challenge = ChallengeSet(*key, ids, labels, subset_codes(labels, np.ones_like(labels)))
    about = {name: row[name] for name in ("sentence", "run", "phi") if row[name]}
    made = Suite.from_sets(
        {key: challenge}, dataset=suite.header.dataset,
        criteria={key[0]: CriterionRecord("finding", about)},
        skipped=[], tasks=[key[1]], splits=[key[2]], hard_only=True,
    )  # fmt: skip
    made.dataset = suite.dataset
    return made


def _is_given(value: Any) -> bool:
    """True if a value is not a default; an empty list counts as given, and formats refuse it."""
    return not (value is None or value is False or (isinstance(value, tuple) and not value))


def _check_dataset(content: Content, data: Dataset) -> None:
    """Raise ParameterError for another dataset than the suite's, or than the one of published
    sets.
    """
    header = content.suite.header
    if any(record.fitted is not None for record in header.criteria.values()):
        content.suite.require_dataset(data)
        return
    known = set(data.images["image_id"])
    ids = dict.fromkeys(i for challenge in content.sets() for i in challenge.image_ids)
    if stray := [image_id for image_id in ids if image_id not in known]:
        problem = f"the dataset lacks images of the suite: {some_of(stray)}"
        raise ParameterError(problem, remedy="give the dataset that the sets belong to")
