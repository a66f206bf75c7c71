"""A suite summarized: counts, cues, thresholds, overlap of criteria, also as tables, and one image
in words.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import combinations
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from scipy.special import expit

from nooch.base.display import DisplayTable
from nooch.base.errors import Command, FormatError, ParameterError
from nooch.base.files import DATASET_MARKER, SUITE_MARKER
from nooch.criteria import Attribute, FittedContext
from nooch.criteria.cue_stability import CueStability
from nooch.data import ANNOTATED, Dataset, load_dataset
from nooch.suites.challenge_set import SUBSETS, ChallengeSet
from nooch.suites.find import find
from nooch.suites.search import left_out
from nooch.suites.suite import Suite
from nooch.suites.suite_folder import as_suite, load_suite, with_suite


def summary(suite: Suite | str | Path, *, with_overlap: bool = True) -> dict[str, Any]:
    """Content of ``nooch show``, JSON-like: dataset, criteria with cues, sets, overlap.

    Examples:
        >>> nooch.summary("suite")["criteria"]["ce"]["cues"]
        {'car': [{'cue': 'road', 'A': 0.1533360655737705}]}
    """
    suite = as_suite(suite)
    header = suite.header
    criteria = {
        name: {
            "kind": record.kind,
            "parameters": record.parameters,
            "match": record.match,
            "expression": record.expression,
            "cues": {t: [{"cue": c, "A": a} for c, a in cues] for t, cues in record.cues.items()},
            **({"stability": _stability(record.stability)} if record.stability else {}),
            "notes": fit_notes(suite, name),
            "left_out": {
                task: {"positives": missing, "of": positives}
                for task, (missing, positives) in fit_left_out(suite, name).items()
            },
        }
        for name, record in header.criteria.items()
    }
    facts = ("dataset", "tasks", "splits", "hard_only")
    return {
        **{name: msgspec.to_builtins(getattr(header, name)) for name in facts},
        "criteria": criteria,
        "sets": msgspec.to_builtins(header.sets),
        "skipped": msgspec.to_builtins(header.skipped),
        "thresholds": threshold_facts(suite),
        "overlap": overlaps(suite) if with_overlap else [],
    }


def threshold_facts(suite: Suite) -> list[dict[str, Any]]:
    """Thresholds of each set by side: on support, and the images with exactly this support where
    counts were matched between them; of a context criterion also as a probability and how many
    times the base rate that is.
    """
    fitted = {name: record.restored() for name, record in suite.header.criteria.items()}
    rows: list[dict[str, Any]] = []
    for record in suite.header.sets:
        key, criterion = (record.criterion, record.task, record.split), fitted[record.criterion]
        row: dict[str, Any] = dict(zip(("criterion", "task", "split"), key, strict=True))
        for label, name in enumerate(("negative", "positive")):
            threshold = getattr(record, f"threshold_{name}")
            if threshold is None:
                continue
            row[name] = {"threshold": threshold}
            if getattr(record, f"tied_{name}"):
                challenge = suite.set(*key)
                row[name]["tied"] = int(
                    ((challenge.labels == label) & (challenge.support == threshold)).sum()
                )
            if isinstance(criterion, FittedContext):
                p = float(expit(threshold))
                times = p / criterion.regressions[record.task].rate
                row[name] |= {"probability": p, "times_base_rate": times}
        rows += [row] if len(row) > 3 else []
    return rows


def _stability(of_tasks: dict[str, list[CueStability]]) -> dict[str, list[dict[str, Any]]]:
    return {
        task: [{**asdict(cue), "near_alpha": cue.near_alpha} for cue in listed]
        for task, listed in of_tasks.items()
    }


def fit_notes(suite: Suite, criterion: str) -> list[str]:
    """Notes on a criterion's fit, and on its hard negatives' labels."""
    fitted = suite.header.criteria[criterion].restored()
    if fitted is None:
        return []
    notes = fitted.notes(suite.tasks)
    if isinstance(fitted, FittedContext) and not fitted.criterion.columns:
        sets = [suite.set(*key) for key in suite.keys if key[0] == criterion]
        counts = (
            np.sum([_among_expected(challenge) for challenge in sets], axis=0) if sets else [0, 0]
        )
        if counts[0]:
            notes.append(
                f"{counts[0]:,} of {counts[1]:,} hard negatives are in the sixth of negatives whose"
                " context suggests the class most, where labels are missing most often:"
                f" `audit` with `criterion` {criterion} lists them"
            )
    return notes


def _among_expected(challenge: ChallengeSet) -> tuple[int, int]:
    """Hard negatives in the sixth of negatives with the largest support, and all of them."""
    assert challenge.support is not None  # noqa: S101 - of a criterion that has it
    negative = np.flatnonzero(~challenge.labels)
    order = negative[np.argsort(-challenge.support[negative], kind="stable")]
    hard = challenge.subset == SUBSETS.index("hard_negative")
    return int(hard[order[: math.ceil(len(order) / 6)]].sum()), int(hard.sum())


def fit_left_out(suite: Suite, criterion: str) -> dict[str, tuple[int, int]]:
    """Task -> (training positives left out of the fit as unannotated, of how many), where any."""
    fitted = suite.header.criteria[criterion].restored()
    return {} if fitted is None else left_out(fitted, suite.tasks)


def annotation_facts(data: Dataset) -> dict[str, Any]:
    """Annotation coverage, JSON-like: images by kind, if recorded, and pairs stated one by one."""
    stated = np.zeros(0) if data.exceptions is None else data.exceptions.data
    return {
        "images": {
            name.removeprefix("annotated_"): int(data.images[name].sum())
            for name in ANNOTATED
            if name in data.images.columns
        },
        "unknown_pairs": int((stated < 0).sum()),
        "verified_pairs": int((stated > 0).sum()),
    }


def overlaps(suite: Suite | str | Path) -> list[dict[str, Any]]:
    """Shared hard images and Jaccard index of each task, split, side and pair of criteria.

    Examples:
        >>> len(nooch.paper.overlaps("nooch-coco"))
        48
    """
    suite = as_suite(suite)
    rows = []
    for task in suite.tasks:
        for split in suite.splits:
            present = [c for c in suite.criteria if (c, task, split) in suite.keys]
            for a, b in combinations(present, 2):
                pair = suite.set(a, task, split), suite.set(b, task, split)
                rows += [_overlap(*pair, side) for side in ("hard_positive", "hard_negative")]
    return rows


def _overlap(a: ChallengeSet, b: ChallengeSet, side: str) -> dict[str, Any]:
    first, second = set(a.ids(side)), set(b.ids(side))
    both, union = len(first & second), len(first | second)
    return {
        "task": a.task,
        "split": a.split,
        "side": side,
        "criteria": [a.criterion, b.criterion],
        "both": both,
        "only": [len(first) - both, len(second) - both],
        "jaccard": both / union if union else None,
    }


def suite_with_dataset(
    folder: str | Path, place: str | Path | None
) -> tuple[Suite, Dataset | None]:
    """A suite, and its dataset: the one at ``place`` or, without it, the one that it records."""
    suite = load_suite(folder)
    return suite, suite.source_dataset() if place is None else suite.with_tasks(load_dataset(place))


def suite_or_dataset(
    folder: str | Path, place: str | Path | None
) -> tuple[Suite | None, Dataset | None]:
    """A suite and its dataset, as ``suite_with_dataset``; or no suite if it is a dataset. Raises
    FormatError: it is there, and neither.
    """
    path = Path(folder)
    if not (path / DATASET_MARKER).is_file():
        if path.exists() and not (with_suite(path) / SUITE_MARKER).exists():
            raise FormatError(
                "is neither a suite nor a dataset",
                where=folder,
                allowed="a folder that nooch find, check or import wrote; nooch-coco",
                remedy="import annotations or a folder of images first: {}",
                give=Command("import auto"),
            )
        return suite_with_dataset(folder, place)
    if place is not None:
        raise ParameterError(f"two datasets are given: {folder}, {place}", give={"dataset": None})
    return None, load_dataset(folder)


def suite_by(
    suite: Suite, data: Dataset, criterion: str | None, phi: str | None
) -> tuple[Suite, str]:
    """A suite and the criterion that decides which images are hard: the one named, by default the
    first; with a condition a suite found by it, of the same tasks. Raises ParameterError for both.
    """
    if phi is None:
        return suite, criterion or suite.criteria[0]
    if criterion is not None:
        problem = "two conditions of what is hard"
        raise ParameterError(problem, where="`criterion` and `phi`", allowed="one of them")
    splits = {*suite.splits, *data.splits} & {"valid", "test", *suite.splits}
    options: Any = {"tasks": suite.tasks, "splits": sorted(splits), "group": suite.header.group}
    suite = find(data, Attribute(phi), **options)
    return suite, suite.criteria[0]


_CUES = (
    "A(C, Y): how much more of the image C covers than Y, on average over training images of Y. A"
    " class is a cue if A is above alpha, or if it was given by hand."
)
_STABLE = "Near alpha: a cue in 5% to 95% of resamples of the training images."
_THRESHOLDS = (
    "Hard positives lie below the first threshold, hard negatives above the second. * marks a"
    " threshold between images of equal support."
)
_PROBABILITY = "P: probability of the class given its context; times: its ratio to the base rate."


def suite_tables(suite: Suite, overlap: Sequence[Mapping[str, Any]]) -> list[DisplayTable]:
    """All tables except counts and tasks without a set; ``overlap`` as ``overlaps`` gives it."""
    return [
        *_cue_tables(suite),
        *_left_out_tables(suite),
        *_threshold_tables(suite),
        *_overlap_tables(overlap),
    ]


def count_tables(suite: Suite, tasks: Sequence[str], least: int = 0) -> list[DisplayTable]:
    """Counts of sets by split, as the paper's Table 2; a star marks fewer than ``least``."""
    tables = []
    few = f"; * fewer than {least} images" if least else ""
    context = [record.cues for record in suite.header.criteria.values()]
    names = [f"{c} hard {side}" for c in suite.criteria for side in ("pos", "neg")]
    for split in suite.splits:
        rows = []
        for task in tasks:
            keys = {c: (c, task, split) for c in suite.criteria}
            records = {c: suite.record(*key) for c, key in keys.items() if key in suite.keys}
            if not records:
                continue
            hard = [
                (r.hard_positives, r.hard_negatives) if (r := records.get(c)) else (None, None)
                for c in suite.criteria
            ]
            marked = [n if n is None or n >= least else f"{n:,}*" for pair in hard for n in pair]
            # every criterion sees the same images, less those that it has no verdict on
            first_record = next(iter(records.values()))
            positives = first_record.positives + first_record.excluded_positives
            negatives = first_record.negatives + first_record.excluded_negatives
            sizes = (None, None) if suite.header.hard_only else (positives, negatives)
            cues = next((c[task] for c in context if c.get(task)), [])
            rows.append([task, ", ".join(cue for cue, _ in cues) or "–", *marked, *sizes])
        columns = ["task", "context", *names, "positives", "negatives"]
        tables.append(DisplayTable(f"Challenge sets ({split}{few})", columns, rows, 2))
    return tables


def _tables(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], left: int, *notes: str
) -> list[DisplayTable]:
    """A table, if it has a row."""
    return [DisplayTable(title, columns, rows, left, notes)] if rows else []


def skipped_tables(suite: Suite) -> list[DisplayTable]:
    """Tasks without a set, and why."""
    rows = [[s.criterion, s.task, s.reason] for s in suite.header.skipped]
    return _tables(f"Without a set: {len(rows)}", ["criterion", "task", "reason"], rows, 3)


def _cue_tables(suite: Suite) -> list[DisplayTable]:
    """Context cues of each task with A(C, Y), or odds ratios."""
    tables = []
    for name, record in suite.header.criteria.items():
        notes = [] if record.kind == "context" else [_CUES]
        columns = ["task", "cue", "odds ratio" if record.kind == "context" else "A(cue, task)"]
        rows = [[task, *cue] for task, cues in record.cues.items() for cue in cues]
        if record.stability:
            notes.append(_STABLE)
            columns += ["95% interval", "cue in"]
            rows = []
            for task, s in (
                (task, s) for task, entries in record.stability.items() for s in entries
            ):
                share = f"{s.share:.0%}{' near alpha' if s.near_alpha else ''}"
                interval = None if s.low is None else f"[{s.low:.3g}, {s.high:.3g}]"
                rows.append([task, s.cue, s.strength, interval, share])
        tables += _tables(f"Context cues ({name})", columns, rows, 2, *notes)
    return tables


def _left_out_tables(suite: Suite) -> list[DisplayTable]:
    """Images without a verdict, and training positives that fits leave out: not annotated."""
    tables = []
    columns = ["criterion", "task", "positives", "negatives", "unknown which"]
    for split in suite.splits:
        rows = []
        for r in suite.header.sets:
            excluded = r.excluded_positives, r.excluded_negatives, r.excluded_unknown
            if r.split == split and any(excluded):
                rows.append([r.criterion, r.task, *excluded])
        tables += _tables(f"Images without a verdict ({split})", columns, rows, 2)
    for name in suite.criteria:
        rows = [[task, *pair] for task, pair in fit_left_out(suite, name).items()]
        title = f"Not annotated, left out of the fit ({name})"
        tables += _tables(title, ["task", "training positives", "of"], rows, 1)
    return tables


def _threshold_tables(suite: Suite) -> list[DisplayTable]:
    """Thresholds on support, as Tables 6 and 7; a star marks a cut between equal supports."""
    facts, tables = threshold_facts(suite), []
    sides = [fact.get(side, {}) for fact in facts for side in ("positive", "negative")]
    notes = [_THRESHOLDS] + [_PROBABILITY] * any("probability" in side for side in sides)
    columns = ["criterion", "task", "positives below", "negatives above", "* tied there", "too few"]
    for split in suite.splits:
        rows = []
        for fact in facts:
            if fact["split"] == split:
                record = suite.record(fact["criterion"], fact["task"], split)
                sides = [fact.get(name, {}) for name in ("positive", "negative")]
                missing = record.missing_positives + record.missing_negatives
                tied = sum(side.get("tied", 0) for side in sides)
                pair = map(_threshold, sides, (record.tied_positive, record.tied_negative))
                rows.append([record.criterion, record.task, *pair, tied or None, missing or None])
        tables += _tables(f"Thresholds on support ({split})", columns, rows, 2, *notes)
    return tables


def _threshold(side: dict[str, Any], tied: bool) -> str | None:
    if not side:
        return None
    value = f"{side['threshold']:.3g}{'*' if tied else ''}"
    if "probability" not in side:
        return value
    return f"{value} (P {side['probability']:.2g}, {side['times_base_rate']:.2g} times)"


def _overlap_tables(overlap: Sequence[Mapping[str, Any]]) -> list[DisplayTable]:
    """Numbers of hard images that two criteria share."""
    sides = ["task", "split", "side"]
    rows = [
        [*(o[s] for s in sides), " / ".join(o["criteria"]), o["both"], *o["only"], o["jaccard"]]
        for o in overlap
    ]
    columns = [*sides, "criteria", "both", "only first", "only second", "Jaccard"]
    return _tables("Overlap of criteria", columns, rows, 4)
