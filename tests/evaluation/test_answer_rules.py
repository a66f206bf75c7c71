"""How each tool reads yes or no from an answer."""

import re

import pytest
from hypothesis import given, strategies as st

from nooch.evaluation.answer_rules import EXACT as RULES

YES, NO, NEITHER = True, False, None
RULE_NAMES = ["pope", "vlmevalkit", "vlmevalkit-yesno", "lmms-eval", "word"]


@pytest.mark.parametrize(
    ("text", "verdicts"),
    [
        ("Yes", [YES, YES, YES, YES, YES]),
        ("no", [NO, NO, NO, NO, NO]),
        (" No ", [NO, NO, NO, NO, NO]),
        ("No.", [NO, NO, NO, NEITHER, NO]),
        ("Yes, there is a car. No dog.", [YES, NEITHER, NEITHER, NEITHER, YES]),
        ("No, there is not. Yes it is odd.", [NO, NEITHER, NEITHER, NEITHER, NO]),
        ("There is no car in the image.", [NO, NO, NO, NEITHER, NEITHER]),
        ("There is not a car", [NO, NEITHER, NEITHER, NEITHER, NEITHER]),
        ("The image shows a street. No car.", [YES, NO, NO, NEITHER, NEITHER]),
        ("A", [YES, YES, NEITHER, NEITHER, NEITHER]),
        ("B. No", [YES, NO, NO, NEITHER, NEITHER]),
        ("(A)", [YES, YES, NEITHER, NEITHER, NEITHER]),
        ("A car is there, yes", [YES, YES, YES, NEITHER, NEITHER]),
        ("Option B", [YES, NO, NEITHER, NEITHER, NEITHER]),
        ("A or B", [YES, NEITHER, NEITHER, NEITHER, NEITHER]),
        ("I do not know", [NO, NEITHER, NEITHER, NEITHER, NEITHER]),
        ("", [YES, NEITHER, NEITHER, NEITHER, NEITHER]),
        ("Oui", [YES, NEITHER, NEITHER, NEITHER, NEITHER]),
    ],
)
def test_verdicts(text, verdicts):
    assert [RULES[name](text) for name in RULE_NAMES] == verdicts
    assert set(RULE_NAMES) == set(RULES)


@given(st.text(st.sampled_from("yes no.,NoYnot") | st.characters(), max_size=30))
def test_rules_are_as_described_in_words(text):
    words = re.split("[^a-z]+", text.lower())
    kinds = {word for word in words if word in {"yes", "no"}}
    assert RULES["vlmevalkit-yesno"](text) == {("yes",): YES, ("no",): NO}.get(tuple(kinds))
    first = next((word for word in words if word), "")
    assert RULES["word"](text) == {"yes": YES, "no": NO}.get(first)
    sentence = "".join(text.split(".")[:1]).replace(",", "")
    assert RULES["pope"](text) == (not re.search(r"(^| )(No|not|no)( |$)", sentence))
