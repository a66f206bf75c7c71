"""``nooch evaluate``: any model's predictions scored on a suite."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree.ElementTree import Element, SubElement, indent, tostring

import typer
from typer import Argument, Option

from nooch.base.errors import ParameterError, check_one_of
from nooch.base.files import check_output_file
from nooch.base.words import counted, printable
from nooch.cli import options as shared
from nooch.cli.declared import takes
from nooch.cli.prediction_options import read_predictions, with_reading
from nooch.cli.terminal import hint, note, print_json, print_shown, print_text, say, show_progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nooch.evaluation import Scores
    from nooch.evaluation.scores import ConditionVerdict


@takes(
    "nooch.evaluation.evaluate:evaluate",
    leave=["attributes", "differences"],
    whole=["averages", "fail_if"],
)
@with_reading
def evaluate_command(
    settings: Any,
    reading: Any,
    suite: Path = shared.SuiteArgument,
    predictions: list[Path] = Argument(
        ..., metavar="PREDICTIONS...", help="Long or wide tables or .npz; several are compared."
    ),
    dataset: str = shared.DatasetOption,
    out: Path = Option(None, help="File of scores: .parquet, .csv, .json, .md or .tex."),
    overwrite: bool = shared.OverwriteOption,
    junit: Path = shared.JunitOption,
    format: shared.Format = shared.FormatOption,
) -> None:
    """Score predictions on a suite: hard against easy. Scores have counts and intervals."""
    _check_out(out, predictions, overwrite=overwrite)
    check_junit(junit, settings.get("fail_if", ()), overwrite=overwrite)
    from nooch.cli.tables import MOST
    from nooch.evaluation import evaluate
    from nooch.report import save_scores
    from nooch.suites import load_suite
    from nooch.suites.summary import suite_with_dataset

    scored, data = load_suite(suite), None
    # a suite knows its lists of questions without its dataset
    lists = {"category"} if scored.question_lists else set()
    by = {*settings.get("by", ())} - lists
    if by or dataset is not None:
        scored, data = suite_with_dataset(suite, dataset)
    if by:
        data = data or scored.require_dataset(None)
    metrics = settings.get("metrics", [])
    of_suite = scored.found_in if data is None else data
    runs = read_predictions(predictions, reading, scored, of_suite)
    scores = evaluate(
        scored, runs, attributes=None if data is None else data.images, dataset=data,
        reading=reading, progress=show_progress, **settings,
    )  # fmt: skip
    if out is not None:
        save_scores(scores, out, metrics=metrics, overwrite=overwrite)
    _print(scores, metrics, format, None if settings.get("tasks") else MOST)
    if out is not None and format is shared.Format.text:
        hint(f"{out}: {counted(len(scores), 'value')}")
    end_if_met(scores, junit, format)


_PLACE = ("run", "criterion", "task", "split")


def conditions_met(scores: Scores) -> list[dict[str, Any]]:
    """The conditions of ``fail_if`` that are met, for JSON."""
    return [
        {
            "condition": v.condition.text,
            **{name: getattr(v, name) or None for name in _PLACE},
            "value": v.value,
            "reason": v.reason,
        }
        for v in scores.verdicts
        if v.fired
    ]


def end_if_met(scores: Scores, junit: Path | None, format: shared.Format) -> None:
    """State the conditions that are met, and end with exit code 1 if there are any. All of them are
    written as ``junit``.
    """
    if junit is not None:
        junit.write_bytes(junit_report(scores.verdicts))
    conditions = conditions_met(scores)
    for one in conditions if format is shared.Format.text else ():
        where = ", ".join(one[name] for name in _PLACE if one[name])
        say(f"failed: {one['condition']}: {where}: {one['reason']}")
    if conditions:
        raise typer.Exit(1)


def check_junit(junit: Path | None, fail_if: Sequence[str], *, overwrite: bool) -> None:
    """Refuse a report that cannot be written, or that would have no test."""
    if junit is None:
        return
    check_output_file(junit, overwrite=overwrite)
    if not fail_if:
        problem = "a report of conditions needs at least one"
        raise ParameterError(problem, where="`junit`", give={"fail_if": ...})


def junit_report(verdicts: Sequence[ConditionVerdict]) -> bytes:
    """Conditions as JUnit XML: a test case for each condition, run and set, or task."""
    failures = str(sum(v.fired for v in verdicts))
    counts = {"tests": str(len(verdicts)), "failures": failures, "errors": "0"}
    suites = Element("testsuites", {"name": "nooch", **counts})
    suite = SubElement(suites, "testsuite", {**suites.attrib, "skipped": "0", "time": "0"})
    for v in verdicts:
        place = ", ".join(name for name in (v.criterion, v.task, v.split) if name)
        name = printable(f"{v.condition.text}: {place}")
        case = SubElement(suite, "testcase", classname=printable(v.run), name=name, time="0")
        reason = printable(v.reason)
        if v.fired:
            SubElement(case, "failure", message=reason, type="condition").text = reason
    indent(suites)
    return bytes(tostring(suites, encoding="utf-8", xml_declaration=True))


def _check_out(out: Path | None, predictions: list[Path], *, overwrite: bool) -> None:
    if out is None:
        return
    check_output_file(out, overwrite=overwrite)
    if out.absolute() in {read.absolute() for read in predictions}:
        problem = "is a file of predictions"
        raise ParameterError(problem, where=out, remedy="name another file")
    from nooch.report import SCORE_FILES

    check_one_of("ending of a scores file", out.suffix, SCORE_FILES)


def _print(scores: Scores, metrics: Sequence[str], format: shared.Format, most: int | None) -> None:
    from nooch.report import as_json, tables_of

    n, failed = len(scores.verdicts), conditions_met(scores)
    if format is shared.Format.json:
        note(*scores.notes)
        print_json({**as_json(scores), "conditions": n, "failed": failed})
        return
    for line in scores.headlines:
        print_text(f"{line}\n")
    note(*scores.notes)
    tables = tables_of(scores, metrics, most)
    print_shown(tables)
    if cut := dict.fromkeys(text for table in tables for text in table.notes):
        more = "all rows: --out FILE.md, --format json; of some tasks: --tasks"
        hint(f"of more than {most} rows: {'; '.join(cut)} ({more})")
    if n and not failed:
        note(f"none of {n} values fires --fail-if")
