"""Suites as tables in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from nooch.base.words import counted
from nooch.cli.runner import Output
from nooch.cli.terminal import hint, note, print_tables
from nooch.suites import Suite

MOST = 20
"""Tasks that are shown where none are named."""
_SKIPPED = 12
"""Tasks without a set that are shown."""


def print_suite(suite: Suite, out: Path, following: str) -> Output:
    """Print a suite that was written, and the next command."""
    from nooch.suites.challenge_set import NO_CONTEXT
    from nooch.suites.summary import fit_notes, summary

    yield lambda: {"suite": str(out), **summary(suite, with_overlap=False)}
    print_counts(suite)
    if NO_CONTEXT in suite.criteria:
        note(f"no image has a class: every image is easy, by the criterion {NO_CONTEXT!r}")
    note(*(suite.header.overlay.notes if suite.header.overlay else ()))
    note(*(text for name in suite.criteria for text in fit_notes(suite, name)))
    number = len(suite.header.sets)
    following = f"{counted(number, 'challenge set')}; next: nooch {following}"
    hint(f"{out}: {following if number else 'no challenge set, for the reasons above'}")


def print_counts(
    suite: Suite, tasks: Sequence[str] = (), most: int = MOST, least: int = 0
) -> Sequence[str]:
    """Counts of sets, as the paper's Table 2, of these tasks, and tasks without a set.

    By default of all in their order; of more than 20, those with the most hard images come first.

    A star marks fewer than ``least`` images.
    """
    from nooch.suites.summary import count_tables, skipped_tables

    shown_suite = suite.only(tasks) if tasks else suite
    shown: Sequence[str] = shown_suite.tasks
    if len(shown) > MOST and not tasks:
        hard = dict.fromkeys(shown, 0)
        for record in suite.header.sets:
            hard[record.task] += record.hard_positives + record.hard_negatives
        shown = sorted(hard, key=hard.__getitem__, reverse=True)[:most]
    print_tables(count_tables(shown_suite, shown, least))
    for table in skipped_tables(shown_suite):
        print_tables([replace(table, rows=table.rows[:_SKIPPED])])
        if len(table.rows) > _SKIPPED:
            hint(f"and {len(table.rows) - _SKIPPED} more (--format json lists all)")
    left = {record.task for record in suite.header.sets}.difference(shown)
    if left:
        hint(f"{counted(len(left), 'task')} with fewer hard images not shown: --all, or --tasks")
    return shown
