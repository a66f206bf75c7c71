"""Verdicts on conditions as JUnit XML, which pipelines show."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from nooch.evaluation import ConditionVerdict

__all__ = ["junit_xml"]

# what XML 1.0 has no way to say
_FORBIDDEN = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_xml(verdicts: Sequence[ConditionVerdict]) -> bytes:
    """A test suite for each condition, a test case for each (run, criterion, task, split).

    A case fails where the condition fired.
    """
    root = Element("testsuites", _counts(verdicts), name="nooch evaluate")
    for condition, group in groupby(verdicts, key=lambda v: v.condition):
        listed = list(group)
        suite = SubElement(root, "testsuite", _counts(listed), name=_text(condition.text))
        for verdict in listed:
            name = f"{verdict.criterion}/{verdict.task}/{verdict.split}"
            case = SubElement(suite, "testcase", classname=_text(verdict.run), name=_text(name))
            if verdict.fired:
                words = {"message": _text(verdict.reason), "type": _text(condition.text)}
                failure = SubElement(case, "failure", words)
                failure.text = _text(f"{verdict.run}, {name}: {verdict.reason}")
    indent(root)
    text: str = tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'.encode()


def _counts(verdicts: Sequence[ConditionVerdict]) -> dict[str, str]:
    fired = sum(verdict.fired for verdict in verdicts)
    return {"tests": str(len(verdicts)), "failures": str(fired), "errors": "0"}


def _text(text: str) -> str:
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)
