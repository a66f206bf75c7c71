"""A dataset and predictions -> challenge sets, scores, findings, slices and a page, in one call."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from nooch.challenge import Suite, save_suite
from nooch.checking.baselines import baselines
from nooch.checking.cue_findings import checked_split, cue_findings
from nooch.checking.findings import SMALLEST, Findings
from nooch.checking.slice_search import Slices, find_slices
from nooch.criteria import CE, Gist
from nooch.data import Dataset, load_dataset, parquet_bytes
from nooch.errors import InputError
from nooch.evaluation import Predictions, Scores, evaluate
from nooch.evaluation.prediction_files import as_runs
from nooch.files import Place, check_output, writing
from nooch.finding.suite_builder import find
from nooch.options import options_from
from nooch.report import save_scores
from nooch.shared_types import Progress, no_progress
from nooch.site.report_site import write_report

__all__ = ["CheckOptions", "Checked", "check"]

PAGE = "report/index.html"


@dataclass(frozen=True)
class CheckOptions:
    """How a model is checked.

    Attributes:
        tasks: names; by default those that have predictions.
        split: ``test`` where there is one, else ``valid``, else all images.
        alpha: of the CE criterion; ``beta`` likewise.
        beta: fraction of the image beyond which a cue is present.
        min_hard: hard images of either side that a task must have to be checked.
        scale: ``logit`` or ``probability``, for wide tables.
        bootstrap: resamples of the scores' intervals; 0 for none.
        stability: resamples that say how sure each context cue is; 0 for none.
        with_baselines: score a constant, the prior and the context alone as well.
        slices: search slices.
        images: folder of images for the page, where the dataset records none.
        seed: of resamples and halves.
    """

    tasks: Sequence[str] | None = None
    split: str | None = None
    alpha: float = 0.05
    beta: float = 0.1
    min_hard: int = SMALLEST
    scale: str | None = None
    bootstrap: int = 1000
    stability: int = 200
    with_baselines: bool = True
    slices: bool = True
    images: str | Path | None = None
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Checked:
    """What a check found, and what it wrote.

    Attributes:
        suite: the challenge sets.
        scores: of the runs and of the baselines.
        findings: errors in the misleading and in the usual context.
        slices: where else the model errs; None where they were not searched.
        notes: the choices that were made.
        out: the folder, with ``suite``, ``scores.parquet``, ``findings.parquet`` and ``.json``,
            ``slices.parquet`` and ``report``.
    """

    suite: Suite
    scores: Scores
    findings: Findings
    slices: Slices | None
    notes: Sequence[str]
    out: Path

    @property
    def page(self) -> Path:
        """The page to open."""
        return self.out / PAGE

    def __repr__(self) -> str:
        return "\n".join([repr(self.findings), repr(self.slices), f"page: {self.page}"])


def check(
    dataset: Dataset | Place | str,
    predictions: Any,
    out: str | Path,
    *,
    options: CheckOptions | None = None,
    overwrite: bool = False,
    progress: Progress = no_progress,
    **named: Any,
) -> Checked:
    """Check where a model errs because of the context.

    Finds the challenge sets of the CE criterion (and of gist, where the dataset has an embedding of
    its captions) for the tasks that have predictions, scores all runs beside three baselines,
    compares errors in the misleading with those in the usual context, searches slices, and writes
    everything with a page that opens from disk.

    Args:
        dataset: a dataset, or its folder.
        predictions: of one or several runs; see ``nooch.evaluate``.
        out: folder to write.
        options: the choices; single fields can be given by name (``tasks=["car"]``).
        overwrite: replace an earlier check.
        progress: called with what is being done, and how many of how many are done.
        named: see ``options``.

    Raises:
        InputError: no task has enough hard images; see also ``nooch.find`` and ``nooch.evaluate``.
        ParameterError: an unknown option, task or split.
        OutputError: ``out`` exists (and ``overwrite`` is false) or cannot be written.
    """
    chosen = options_from(CheckOptions, options, named)
    target = check_output(out, overwrite=overwrite, marker="findings.json")
    data = dataset if isinstance(dataset, Dataset) else load_dataset(dataset)
    runs = as_runs(predictions, chosen.tasks or data.classes, chosen.scale)
    split = checked_split(data, chosen.split)
    asked = [
        task
        for task in chosen.tasks or data.classes
        if task in data.classes and any(task in run.tasks for run in runs)
    ]
    if not asked:
        raise InputError(
            "no task of the predictions is a class of the dataset",
            where="predictions",
            allowed=", ".join(data.classes[:12]),
        )
    recorded = (
        None if isinstance(dataset, Dataset) else os.path.relpath(str(dataset), target / "suite")
    )
    found = find(
        data, _criteria(data, chosen), tasks=asked, splits=[split], path=recorded,
        match="ce" if data.embedding_names else None, stability=chosen.stability,
        progress=progress,
    )  # fmt: skip
    suite, notes = _with_enough(found, split, chosen.min_hard)
    scored = [run for run in runs if set(run.tasks) & set(suite.tasks)]
    everyone = [*scored, *_others(suite, data, split, chosen)]
    scores = evaluate(
        suite, everyone, split=split, bootstrap=chosen.bootstrap, seed=chosen.seed,
        ignore_unknown=True, progress=progress,
    )  # fmt: skip
    findings = cue_findings(suite, scored, data=data, split=split)
    slices = (
        find_slices(data, runs, split=split, tasks=asked, seed=chosen.seed)
        if chosen.slices
        else None
    )
    checked = Checked(suite, scores, findings, slices, notes, target)
    _write(checked, data, scored, chosen, overwrite, progress)
    return checked


def _criteria(data: Dataset, chosen: CheckOptions) -> dict[str, Any]:
    criteria: dict[str, Any] = {"ce": CE(alpha=chosen.alpha, beta=chosen.beta)}
    if data.embedding_names:
        criteria["gist"] = Gist(embedding=data.embedding_names[0])
    return criteria


def _with_enough(suite: Suite, split: str, min_hard: int) -> tuple[Suite, list[str]]:
    """The suite of the tasks with enough hard images on a side, and what was chosen."""
    hard = {
        task: max(
            (max(r.hard_positives, r.hard_negatives) for r in suite.header.sets if r.task == task),
            default=0,
        )
        for task in suite.tasks
    }
    kept = [task for task, count in hard.items() if count >= min_hard]
    if not kept:
        largest = max(hard.values(), default=0)
        raise InputError(
            f"no task has {min_hard} hard images on a side; the most is {largest}",
            remedy="give more images, a lower `min_hard`, or a lower `alpha` or `beta`",
        )
    count = f"{len(kept)} of {len(suite.tasks)} tasks"
    note = f"split {split}; {count} have at least {min_hard} hard images of a side"
    return suite.only(kept), [note]


def _others(suite: Suite, data: Dataset, split: str, chosen: CheckOptions) -> list[Predictions]:
    if not chosen.with_baselines or not data.has_areas:
        return []
    return baselines(suite, data, suite.tasks, split, chosen.seed)


def _write(
    checked: Checked,
    data: Dataset,
    runs: Sequence[Predictions],
    chosen: CheckOptions,
    overwrite: bool,
    progress: Progress,
) -> None:
    out = checked.out
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
    save_suite(checked.suite, out / "suite", overwrite=overwrite)
    save_scores(checked.scores, out / "scores.parquet", overwrite=overwrite)
    write_report(
        checked.suite, out / "report", data=data, predictions=runs, images=chosen.images,
        bootstrap=0, overwrite=overwrite, progress=progress,
    )  # fmt: skip
    files: Mapping[str, bytes] = {
        "findings.parquet": parquet_bytes(checked.findings.table),
        "findings.json": _json(checked.findings, checked.notes),
    }
    if checked.slices is not None:
        files = {"slices.parquet": parquet_bytes(checked.slices.table), **files}
    for name, content in files.items():
        with writing(out / name):
            (out / name).write_bytes(content)


def _json(findings: Findings, notes: Sequence[str]) -> bytes:
    content = {
        "settings": dict(findings.settings),
        "notes": list(notes),
        "sentences": findings.sentences(len(findings)),
        "findings": findings.table.to_dicts(),
    }
    return msgspec.json.format(msgspec.json.encode(content))
