"""Suites as tables in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from nooch.analysis.calibrate import Calibration
from nooch.base.words import counted
from nooch.cli.options import Format
from nooch.cli.terminal import hint, note, print_json, print_table
from nooch.suites import Suite

MOST = 20
"""Tasks that are shown where none are named."""


def print_found(suite: Suite, out: Path, format: Format, following: str) -> None:
    """Print a suite that was written, and the next command."""
    from nooch.suites.summary import fit_notes, summary

    if format is Format.json:
        print_json({"suite": str(out), **summary(suite, with_overlap=False)})
        return
    print_counts(suite)
    print_expected(suite)
    note(*(suite.header.overlay.notes if suite.header.overlay else ()))
    note(*(text for name in suite.criteria for text in fit_notes(suite, name)))
    number = len(suite.header.sets)
    following = f"{counted(number, 'challenge set')}; next: nooch {following}"
    hint(f"{out}: {following if number else 'no challenge set, for the reasons above'}")


def print_counts(
    suite: Suite, tasks: Sequence[str] = (), most: int = MOST, least: int = 0
) -> Sequence[str]:
    """Counts of sets, as the paper's Table 2, of these tasks.

    By default of all in their order; of more than 20, those with the most hard images come first.

    A star marks fewer than ``least`` images.
    """
    named = suite.only(tasks) if tasks else suite
    shown = named.tasks if len(named.tasks) <= MOST or tasks else _hardest(suite)[:most]
    _print_sizes(named, shown, least)
    print_skipped(named)
    left = {record.task for record in suite.header.sets}.difference(shown)
    if left:
        hint(f"{counted(len(left), 'task')} with fewer hard images not shown: --all, or --tasks")
    return shown


def _hardest(suite: Suite) -> list[str]:
    """Tasks, those with the most hard images first."""
    hard = dict.fromkeys(suite.tasks, 0)
    for record in suite.header.sets:
        hard[record.task] += record.hard_positives + record.hard_negatives
    return sorted(hard, key=hard.__getitem__, reverse=True)


def _print_sizes(suite: Suite, tasks: Sequence[str], least: int) -> None:
    for split in suite.splits:
        rows = []
        for task in tasks:
            records = {
                c: suite.record(c, task, split)
                for c in suite.criteria
                if (c, task, split) in suite.keys
            }
            if not records:
                continue
            any_record = next(iter(records.values()))
            hard = [
                (r.hard_positives, r.hard_negatives) if (r := records.get(c)) else (None, None)
                for c in suite.criteria
            ]
            marked = [n if n is None or n >= least else f"{n:,}*" for pair in hard for n in pair]
            # every criterion sees the same images, less those that it has no verdict on
            positives = any_record.positives + any_record.excluded_positives
            negatives = any_record.negatives + any_record.excluded_negatives
            sizes = (None, None) if suite.header.hard_only else (positives, negatives)
            rows.append([task, _cues(suite, task), *marked, *sizes])
        names = [f"{c} hard {side}" for c in suite.criteria for side in ("pos", "neg")]
        few = f"; * fewer than {least} images" if least else ""
        title = f"Challenge sets ({split}{few})"
        print_table(title, ["task", "context", *names, "positives", "negatives"], rows, left=2)


def print_skipped(suite: Suite, most: int = 12) -> None:
    """Tasks without a set, and why."""
    skipped = suite.header.skipped
    if skipped:
        rows = [[s.criterion, s.task, s.reason] for s in skipped[:most]]
        print_table(f"Without a set: {len(skipped)}", ["criterion", "task", "reason"], rows, left=3)
        if len(skipped) > most:
            hint(f"and {len(skipped) - most} more (--format json lists all)")


def print_cues(suite: Suite) -> None:
    """Context cues of each task with A(C, Y), or odds ratios."""
    for name, record in suite.header.criteria.items():
        strength = "odds ratio" if record.kind == "context" else "A(cue, task)"
        columns = ["task", "cue", strength]
        rows = [[task, *cue] for task, cues in record.cues.items() for cue in cues]
        if record.stability:
            columns += ["95 % interval", "cue in"]
            rows = [
                [
                    task,
                    s.cue,
                    s.strength,
                    f"[{s.low:.3g}, {s.high:.3g}]",
                    f"{s.share:.0%}{' near alpha' if s.near_alpha else ''}",
                ]
                for task, listed in record.stability.items()
                for s in listed
            ]
        if rows:
            print_table(f"Context cues ({name})", columns, rows, left=2)


def print_left_out(suite: Suite) -> None:
    """Images without a verdict, and training positives that fits leave out: not annotated."""
    from nooch.suites.summary import fit_left_out

    for split in suite.splits:
        rows: list[list[Any]] = [
            [
                r.criterion,
                r.task,
                r.excluded_positives,
                r.excluded_negatives,
                r.excluded_unknown,
                r.between_positives + r.between_negatives,
            ]
            for r in suite.header.sets
            if r.split == split and r.excluded_positives + r.excluded_negatives + r.excluded_unknown
        ]
        if rows:
            columns = ["criterion", "task", "positives", "negatives", "unknown which"]
            columns.append("between two betas")
            print_table(f"Images without a verdict ({split})", columns, rows, left=2)
    for name in suite.criteria:
        rows = [[task, *pair] for task, pair in fit_left_out(suite, name).items()]
        if rows:
            columns = ["task", "training positives", "of"]
            print_table(f"Not annotated, left out of the fit ({name})", columns, rows)


def print_calibration(found: Calibration, format: Format, out: Path) -> None:
    """Areas by class, then verdicts by beta itself and, out of fold, by betas that were chosen."""
    if format is Format.json:
        print_json(msgspec.to_builtins(found))
        return
    areas = [list(row.values()) for row in found.areas]
    print_table("Predicted against true areas", list(found.areas[0]), areas, left=2)
    texts = ["task", "cue", "set", "true"]
    shares = ["precision", "recall", "calibrated_precision", "calibrated_recall"]
    rows = [
        [*(row[name] for name in texts), *(_with_interval(*row[name]) for name in shares)]
        for row in found.verdicts
    ]
    title = "Hard images by predicted areas; calibrated out of fold"
    columns = [*texts, *(name.replace("_", " ") for name in shares)]
    print_table(title, columns, rows, left=3)
    note(*found.notes)
    hint(f"{out}: next: nooch find DATASET --calibration {out} --out SUITE")


def print_expected(suite: Suite) -> None:
    """Precision and recall of sets from predicted areas, as a calibration measured them."""
    for name, record in suite.header.criteria.items():
        rows = [
            [task, cell, *(_with_interval(*of[m]) for m in ("precision", "recall"))]
            for task, cells in record.parameters.get("expected", {}).items()
            for cell, of in cells.items()
            if task in suite.tasks
        ]
        if rows:
            title = f"Expected of predicted areas, with 95 % intervals ({name})"
            print_table(title, ["task", "set", "precision", "recall"], rows, left=2)


def print_thresholds(suite: Suite) -> None:
    """Thresholds on support, as Tables 6 and 7; a star marks a cut between equal supports."""
    from nooch.suites.summary import threshold_facts

    facts = threshold_facts(suite)
    for split in suite.splits:
        rows: list[list[Any]] = []
        for one in facts:
            if one["split"] == split:
                record = suite.record(one["criterion"], one["task"], split)
                sides = [one.get(name, {}) for name in ("positive", "negative")]
                missing = record.missing_positives + record.missing_negatives
                tied = sum(side.get("tied", 0) for side in sides)
                pair = map(_threshold, sides, (record.tied_positive, record.tied_negative))
                rows.append([record.criterion, record.task, *pair, tied or None, missing or None])
        if rows:
            columns = ["criterion", "task", "positives below", "negatives above"]
            columns += ["* tied there", "too few"]
            print_table(f"Thresholds on support ({split})", columns, rows, left=2)
    sides = [one.get(side, {}) for one in facts for side in ("positive", "negative")]
    if any("probability" in side for side in sides):
        note("P: the probability of the class given its context, in base rates of the class")


def _threshold(side: dict[str, Any], tied: bool) -> str | None:
    if not side:
        return None
    value = f"{side['threshold']:.3g}{'*' if tied else ''}"
    if "probability" not in side:
        return value
    return f"{value} (P {side['probability']:.2g}, {side['times_base_rate']:.2g} times)"


def print_agreement(table: pl.DataFrame, format: Format) -> None:
    """How far the sets of two suites agree: a row for each task and set, metrics with intervals."""
    if format is Format.json:
        print_json(table.to_dicts())
        return
    columns = pl.struct("value", "low", "high")
    shown = columns.map_elements(lambda row: _with_interval(**row), return_dtype=pl.String)
    index = ["criterion", "task", "set", "images", "first", "second", "both"]
    wide = table.with_columns(shown=shown).pivot("metric", index=index, values="shown")
    rows = wide.filter(pl.any_horizontal(pl.col("jaccard", "kappa").is_not_null())).rows()
    print_table("Agreement of the suites", wide.columns, rows, left=3)
    note("precision: the share of the first set that is in the second; recall: the reverse")


def print_overlap(overlap: list[dict[str, Any]]) -> None:
    """How many hard images two criteria share."""
    sides = ["task", "split", "side"]
    rows = [
        [*(o[s] for s in sides), " / ".join(o["criteria"]), o["both"], *o["only"], o["jaccard"]]
        for o in overlap
    ]
    if rows:
        columns = [*sides, "criteria", "both", "only first", "only second", "Jaccard"]
        print_table("Overlap of criteria", columns, rows, left=4)


def _cues(suite: Suite, task: str) -> str:
    for record in suite.header.criteria.values():
        if record.cues.get(task):
            return ", ".join(cue for cue, _ in record.cues[task])
    return "–"


def _with_interval(value: float | None, low: float | None, high: float | None) -> str:
    number = "–" if value is None else f"{value:.3g}"
    return number if low is None else f"{number} [{low:.2f}, {high:.2f}]"
