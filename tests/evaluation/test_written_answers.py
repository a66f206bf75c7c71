"""Answers as models write them: what a person takes them to say, and what the rules do."""

import re
import time
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from refusals import fails, refused
from waiting import HANGS

from nooch.base.words import with_article
from nooch.base.yaml_files import read_yaml
from nooch.evaluation.answer_rules import RULES, answer_span, opens_reasoning, read_verdicts
from nooch.evaluation.answer_words import LANGUAGES, AskedQuestion, answer_words

TABLE = read_yaml(Path(__file__).with_name("written_answers.yaml"))
ROWS = [(family, *row) for family, rows in TABLE["families"].items() for row in rows]
# a person reads a No, and the rule nothing
MISSED = {"Neither of the two people carries a surfboard.", "Na zdjęciu nie ma psa."}


def _read(rows, **options):
    """Verdicts of rows, each as the only answer of its model."""
    verdicts = []
    for _, language, noun, _, text in rows:
        question = TABLE["questions"][language].replace("{a} {object}", with_article(noun))
        name = noun if language == "en" else "thing"
        asked = AskedQuestion(question.replace("{object}", noun), name)
        verdicts += read_verdicts([text], [asked], **{"language": language, **options})
    return verdicts


def test_the_tolerant_rule_reads_what_a_person_does():
    families = [family for family in TABLE["families"] if family != "further phrasings"]
    assert len(families) >= 10
    assert len(ROWS) >= 200
    assert {row[1] for row in ROWS} == {*LANGUAGES} == {"de", "en", "es", "fr", "pl"}
    for row, got in zip(ROWS, _read(ROWS), strict=True):
        # YAML takes yes and no for true and false
        expected = None if row[3] == "unknown" or row[4] in MISSED else row[3]
        assert got is expected, row


def test_the_exact_rules_get_many_of_them_wrong():
    """Why none of them is the default: answers that they turn around, and do not read."""
    truth = [None if row[3] == "unknown" else row[3] for row in ROWS]
    counts = {}
    for rule in RULES:
        pairs = list(zip(truth, _read(ROWS, rule=rule), strict=True))
        wrong = sum(got is not None and got is not right for right, got in pairs)
        counts[rule] = wrong, sum(got is None and right is not None for right, got in pairs)
    assert counts == {
        "tolerant": (0, len(MISSED)),
        "pope": (124, 0),
        "vlmevalkit": (6, 186),
        "vlmevalkit-yesno": (21, 107),
        "lmms-eval": (2, 195),
        "word": (17, 137),
    }
    docs = (Path(__file__).parents[2] / "docs" / "vlm.md").read_text(encoding="utf-8")
    assert f"On the {len(ROWS)} answers" in docs
    for rule, (wrong, unread) in counts.items():
        assert re.search(rf"^\| `{rule}` \|.*\| {wrong} \| {unread} \|$", docs, re.MULTILINE)


@pytest.mark.parametrize("language", LANGUAGES)
def test_answers_in_a_language_not_asked_for_are_never_a_no(language):
    """ "No" alone is a word of several languages; whatever follows says which."""
    other = [row for row in ROWS if row[1] != language and row[3] != "unknown"]
    foreign = [(f, language, n, said, text) for f, _, n, said, text in other if len(text) > 12]
    plain = [row for row in foreign if not re.search(r"[<◁[{]|boxed|final", row[4])]
    assert len(plain) >= 50
    read = zip(plain, _read(plain), strict=True)
    assert [row[4] for row, verdict in read if verdict is False] == []


def test_a_template_that_opens_reasoning_is_recognized_where_most_answers_end_it():
    said = ["No wheels, but a hood.</think>Yes", "No wheels at first glance, and", "</think>No"]
    asked = [AskedQuestion("Is there a car in the image?", "car")] * 100
    assert read_verdicts(said, asked[:3]) == [True, None, False]
    # one stray end says nothing about the others
    plain = ["Yes", "No"] * 49
    assert read_verdicts([*said[:1], *plain], asked[:99]) == [True, *[True, False] * 49]
    # a tool reads all of the text
    assert read_verdicts(said, asked[:3], rule="pope") == [False, False, True]


def test_letters_stand_for_options_where_these_are_asked():
    asked = [AskedQuestion("Is there a car?", "car")]
    said = {"A": True, "B.": False, "B. No": False, "(A)": True, "A car is there, yes": True}
    for text, verdict in {**said, "A or B": None, "A. No": None}.items():
        assert read_verdicts([text], asked, letters=True) == [verdict], text
    assert read_verdicts(["A"], asked) == [None]


@given(
    st.sampled_from(["yes", "no"]),
    st.sampled_from(["{}", "**{}**", "{}.", " {}\n", "{}!", "\\boxed{{{}}}", "Answer: {}",
                     "<answer>{}</answer>", "The answer is {}.", "`{}`", '{{"answer": "{}"}}']),
    st.sampled_from([str.lower, str.upper, str.title]),
    st.sampled_from(["", "<think>No, yes. No.</think>", "Hm, no.</think>\n",
                     "<|channel|>analysis<|message|>no<|end|><|channel|>final<|message|>"]),
)  # fmt: skip
def test_marks_case_and_reasoning_change_no_verdict(word, form, case, before):
    text = before + form.format(case(word))
    assert read_verdicts([text], [AskedQuestion("Is there a car?", "car")]) == [word == "yes"], text


@given(st.text(st.sampled_from("yesno .,<>/think{}\\boxed|channelfinal*") | st.characters()))
def test_no_text_is_too_odd(text):
    span = answer_span(text)
    assert span is None or 0 <= span[0] <= span[1] <= len(text)
    assert span is not None or opens_reasoning(text) or "boxed" in text.lower()
    for language in LANGUAGES:
        read_verdicts([text], [AskedQuestion(text, text)], language=language)


def test_a_file_of_words(tmp_path):
    file = tmp_path / "it.yaml"
    lines = ["affirmative: [sì]", 'negative: ["no"]', 'negation: ["no", non]', "present: [c è]"]
    lines += ["words: [nell, immagine, una, c, è]", 'shared: ["no"]']
    file.write_text("\n".join(lines))
    read = answer_words(str(file)).verdict
    asked = AskedQuestion("C'è una macchina nell'immagine?", "car")
    assert read("Sì, c'è.", asked) is True
    assert read("Nell'immagine non c'è una macchina.", asked) is False
    assert read("No, there is no car.", asked) is None
    refused(lambda: answer_words("it"), "no words for 'it'", "de, en, es, fr, pl, or a YAML file")
    file.write_text("affirmative: [yes]\nnegative: [no]\n")
    answer_words.cache_clear()
    fails(lambda: answer_words(str(file)), "Expected `str`, got `bool`", "in quotes", "it.yaml")
    file.write_text("affirmative: [oui]\n")
    fails(lambda: answer_words(str(file)), "negative", "it.yaml")


@pytest.mark.parametrize(
    "part", ["no ", "a", "Is it? ", "<answer>", "\\\\boxed{", "<think>", "yes, "]
)
def test_long_answers_take_no_time(part):
    """Linear in their length: an answer may be a book, and each rule reads it at once."""
    started = time.monotonic()
    for rule in RULES:
        read_verdicts([part * 40_000], [AskedQuestion("Is there a car?", "car")], rule=rule)
    assert time.monotonic() - started < HANGS


def test_a_clause_of_more_than_1000_characters_is_about_no_object():
    """With the blanks around it; there, words are compared with all forms of the object."""
    asked, start = AskedQuestion("Is there a car in the image?", "car"), "There is a car "
    for length, verdict in ((998, True), (999, None)):
        text = start + "x" * (length - len(start))
        assert answer_words("en").verdict(text, asked) is verdict
