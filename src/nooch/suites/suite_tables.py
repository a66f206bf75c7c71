"""A suite as tables: counts, tasks without a set, cues, thresholds, overlap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nooch.base.display import DisplayTable
from nooch.suites.suite import Suite
from nooch.suites.summary import fit_left_out, threshold_facts

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
