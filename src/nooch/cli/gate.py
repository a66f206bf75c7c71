"""Conditions of ``--fail-if``: on standard output, in JSON and as JUnit; exit code 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree.ElementTree import Element, SubElement, indent, tostring

import typer

from nooch.base.errors import ParameterError, some_of
from nooch.base.files import check_output_file
from nooch.base.words import counted, printable
from nooch.cli.terminal import note, say

if TYPE_CHECKING:
    from nooch.evaluation.scores import ConditionVerdict

_PLACE = ("run", "criterion", "task", "split")


def conditions_json(verdicts: Sequence[ConditionVerdict], junit: Path | None) -> dict[str, Any]:
    """The number of ``conditions`` on values, those that ``failed``, which end a command with exit
    code 1, and those ``not_judged``; all of them are written as ``junit``.
    """
    if junit is not None:
        junit.write_bytes(junit_report(verdicts))
    failed, skipped = (
        [
            {
                "condition": v.condition.text,
                **{name: getattr(v, name) or None for name in _PLACE},
                "value": v.value,
                "reason": v.reason,
            }
            for v in verdicts
            if v.fired == fired and (fired or v.value is None)
        ]
        for fired in (True, False)
    )
    judged = len(verdicts) - len(skipped)
    return {"conditions": judged, "failed": failed, "not_judged": skipped}


def end_if_met(conditions: Mapping[str, Any]) -> None:
    """State the conditions that are met, and end with exit code 1 if there are any."""
    for one in conditions["failed"]:
        where = ", ".join(one[name] for name in _PLACE if one[name])
        say(f"failed: {one['condition']}: {where}: {one['reason']}")
    skipped = dict[tuple[str, str], list[str]]()
    for one in conditions["not_judged"]:
        skipped.setdefault((one["condition"], one["reason"]), []).append(one["task"])
    note(*(f"not judged: {text}: {some_of(dict.fromkeys(tasks), 12)}: {why}"
           for (text, why), tasks in skipped.items()))  # fmt: skip
    if conditions["failed"]:
        raise typer.Exit(1)
    if n := conditions["conditions"]:
        note(f"none of {counted(n, 'value')} fires --fail-if")


def check_junit(junit: Path | None, settings: Mapping[str, Any]) -> None:
    """Refuse a report that cannot be written, or that would have no test."""
    if junit is None:
        return
    check_output_file(junit, overwrite=settings.get("overwrite", False))
    if not settings.get("fail_if"):
        problem = "a report of conditions needs at least one"
        raise ParameterError(problem, where="`junit`", give={"fail_if": ...})


def junit_report(verdicts: Sequence[ConditionVerdict]) -> bytes:
    """Conditions as JUnit XML: a test case for each condition, run and set, or task."""
    failures = str(sum(v.fired for v in verdicts))
    skipped = str(sum(v.value is None and not v.fired for v in verdicts))
    counts = {"tests": str(len(verdicts)), "failures": failures, "errors": "0"}
    suites = Element("testsuites", {"name": "nooch", **counts})
    suite = SubElement(suites, "testsuite", {**suites.attrib, "skipped": skipped, "time": "0"})
    for v in verdicts:
        place = ", ".join(name for name in (v.criterion, v.task, v.split) if name)
        name = printable(f"{v.condition.text}: {place}")
        case = SubElement(suite, "testcase", classname=printable(v.run), name=name, time="0")
        reason = printable(v.reason)
        if v.fired:
            SubElement(case, "failure", message=reason, type="condition").text = reason
        elif v.value is None:
            SubElement(case, "skipped", message=reason)
    indent(suites)
    return bytes(tostring(suites, encoding="utf-8", xml_declaration=True))
