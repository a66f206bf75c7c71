"""Verdicts as JUnit XML."""

from xml.etree import ElementTree as ET

import pytest
from scored import logits, small_suite

from nooch.evaluation import ConditionVerdict, evaluate, parse_condition
from nooch.report import junit_xml

NASTY = "<run> & \"q\" 'a' [red]\x1b[31m\x00￾\ud800 ünï\n]]>"


def _verdict(text="auc@hard<1", *, run="r", fired=True, reason="auc is 0.5"):
    return ConditionVerdict(parse_condition(text), run, "ce", "car", "test", 0.5, fired, reason)


def test_counts_agree_with_the_cases():
    suite = small_suite()
    runs = {"a": logits(suite), "b": logits(suite, seed=1)}
    conditions = ["auc@all<0.8", "nll@hard[ce,car]<0", "auc@hard_positive[ce]<0.5"]
    verdicts = evaluate(suite, runs, fail_if=conditions).verdicts
    root = ET.fromstring(junit_xml(verdicts))
    assert root.tag == "testsuites"
    assert [part.get("name") for part in root] == conditions
    groups = [(root, verdicts)]
    groups += [
        (part, [v for v in verdicts if v.condition.text == part.get("name")]) for part in root
    ]
    for part, group in groups:
        fired = sum(verdict.fired for verdict in group)
        assert int(part.get("tests")) == len(group) == len(part.findall(".//testcase"))
        assert int(part.get("failures")) == fired == len(part.findall(".//failure"))
    assert 0 < int(root.get("failures")) < int(root.get("tests"))
    case = root[2].find("testcase")
    assert (case.get("classname"), case.get("name")) == ("a", "ce/car/test")
    assert "undefined: no negative" in case.find("failure").get("message")


def test_no_verdict_is_a_report_of_nothing():
    assert ET.fromstring(junit_xml([])).get("tests") == "0"


def test_any_name_gives_a_file_that_parses():
    content = junit_xml([_verdict(run=NASTY, reason=NASTY), _verdict(run=NASTY, fired=False)])
    root = ET.fromstring(content)
    (failure,) = root.findall(".//failure")
    for text in (root[0][0].get("classname"), failure.get("message")):
        assert text.startswith("<run> & \"q\" 'a' [red]\N{REPLACEMENT CHARACTER}[31m")
        assert text.endswith(" ünï\n]]>")
    assert b"\x1b" not in content
    assert b"\x00" not in content


@pytest.mark.parametrize("fired", [True, False])
def test_the_same_verdicts_give_the_same_bytes(fired):
    assert junit_xml([_verdict(fired=fired)]) == junit_xml([_verdict(fired=fired)])
    assert (b"<failure" in junit_xml([_verdict(fired=fired)])) == fired
