"""How each tool reads yes or no from an answer."""

import re

import pytest
from hypothesis import given, strategies as st

from nooch.evaluation.answer_rules import EXACT as RULES, answer_span

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
        ("There is no car in the image.", [NO, NEITHER, NO, NEITHER, NEITHER]),
        ("There is not a car", [NO, NEITHER, NEITHER, NEITHER, NEITHER]),
        ("The image shows a street. No car.", [YES, NEITHER, NO, NEITHER, NEITHER]),
        ("A", [YES, YES, NEITHER, NEITHER, NEITHER]),
        ("B. No", [YES, NO, NO, NEITHER, NEITHER]),
        ("(A)", [YES, YES, NEITHER, NEITHER, NEITHER]),
        ("A car is there, yes", [YES, NEITHER, YES, NEITHER, NEITHER]),
        ("Option B", [YES, NO, NEITHER, NEITHER, NEITHER]),
        ("A or B", [YES, NEITHER, NEITHER, NEITHER, NEITHER]),
        ("I do not know", [NO, NEITHER, NEITHER, NEITHER, NEITHER]),
        ("", [YES, NEITHER, NEITHER, NEITHER, NEITHER]),
        ("Oui", [YES, NEITHER, NEITHER, NEITHER, NEITHER]),
        # what VLMEvalKit's own functions give
        ("unknown", [YES, NO, NEITHER, NEITHER, NEITHER]),
        ("Z", [YES, NEITHER, NEITHER, NEITHER, NEITHER]),
        ("The answer is **B**, for A is wrong", [YES, NO, NEITHER, NEITHER, NEITHER]),
        ("A red car, and there are many more", [YES, NEITHER, NEITHER, NEITHER, NEITHER]),
        ("There is a car, so A", [YES, YES, NEITHER, NEITHER, NEITHER]),
        ("yes-no, 1,000 of them", [YES, NEITHER, NEITHER, NEITHER, YES]),
        ("no/", [YES, NO, NO, NEITHER, NO]),
        ("no- yes", [YES, NEITHER, NEITHER, NEITHER, NO]),
        ("**no**", [YES, NO, NEITHER, NEITHER, NO]),
        ("I see a/no", [YES, NO, NO, NEITHER, NEITHER]),
        ("Cannot determine the answer: A", [YES, NEITHER, NEITHER, NEITHER, NEITHER]),
        ("[[0.12, 0.3, 0.51, 0.9]]", [YES, NEITHER, NEITHER, NEITHER, NEITHER]),
        ("no" + ". yes." * 40, [NO, NEITHER, NEITHER, NEITHER, NO]),
    ],
)
def test_verdicts(text, verdicts):
    assert [RULES[name](text) for name in RULE_NAMES] == verdicts
    assert set(RULE_NAMES) == set(RULES)


@given(st.text(st.sampled_from("yes no.,NoYnot") | st.characters(), max_size=30))
def test_rules_are_as_described_in_words(text):
    words = re.split("[^a-z]+", text.lower())
    first = next((word for word in words if word), "")
    assert RULES["word"](text) == {"yes": YES, "no": NO}.get(first)
    sentence = "".join(text.split(".")[:1]).replace(",", "")
    assert RULES["pope"](text) == (not re.search(r"(^| )(No|not|no)( |$)", sentence))


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("so \\boxed{Yes}", "Yes"),
        ("so \\boxed{Yes", None),
        ("\\boxed{No} or \\boxed{\\text{Ye", None),
        ("<answer>No</answer> and", "No"),
        ("<answer>No", "No"),
        ("<|begin_of_box|>No<|end_of_box|>.", "No"),
        ("<|begin_of_box|>No", "No"),
    ],
)
def test_an_answer_that_is_cut_off_in_a_box_is_none(text, answer):
    span = answer_span(text)
    assert (None if span is None else text[slice(*span)]) == answer
