"""Answers as models write them: what a person takes them to say, and what the rules do."""

import re
import sys
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from refusals import fails, refused

from nooch.base.words import with_article
from nooch.base.yaml_files import read_yaml
from nooch.evaluation.answer_rules import RULES, answer_span, opens_reasoning, read_verdicts
from nooch.evaluation.answer_words import AskedQuestion, answer_words
from nooch.evaluation.clauses import LANGUAGES
from nooch.evaluation.vocabulary import COCO, load_vocabulary

TABLE = read_yaml(Path(__file__).with_name("written_answers.yaml"))
ROWS = [(family, *row) for family, rows in TABLE["families"].items() for row in rows]
# a person reads a No, and the rule nothing
MISSED = {"Na zdjęciu nie ma psa."}


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
        "pope": (171, 0),
        "vlmevalkit": (8, 246),
        "vlmevalkit-yesno": (22, 161),
        "lmms-eval": (2, 260),
        "word": (16, 196),
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
    # marks and labels are of no language
    plain = [row for row in foreign if not re.search(r"[<◁[{:]|boxed|final", row[4])]
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


WORDS = {"en": "Yes No", "de": "Ja Nein", "fr": "Oui Non", "es": "Sí No", "pl": "Tak Nie"}
OBJECTS = {"en": "car", "de": "ein Auto", "fr": "une voiture", "es": "un coche", "pl": "samochód"}
TAILS = [
    "<|im_end|>", "<|eot_id|>", "<|endoftext|>", "</s>", "<eos>", "<end_of_turn>",
    "<0x0A>", "[EOS]", "▁", "\\n", "\\t0.97", " (97%)", ", 97%", " - 97%",
    ". Confidence: 0.97", "\nConfidence: high", ". 1", " [12, 40, 200, 310]", "<box>",
    "<loc_12>", " 😀", " :-)", "!!!", "...", "。", ", zebra.", ", only zebras",
    ". Zebra, lamp, bottle.", " (zebra)", ", lamp and zebra", ", 3 lamps", ". Garage.",
    "\n\nExplanation: zebra behind lamp.", ". Lamp: none", " | lamp", "\n\nUser:",
    "\nQ: Is there a lamp?\nA: Yes", "\nHuman: Is there a zebra?\nAssistant: no",
    ". Thanks!", ". Hope that helps!", ". Zebra. Zebra. Zebra.",
]  # fmt: skip


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_tail_changes_neither_word(language):
    """Special tokens, marks, numbers, nouns and a next turn, behind both words alike."""
    noun, words = OBJECTS[language], WORDS[language].split()
    question = TABLE["questions"][language].replace("{a} {object}", with_article(noun))
    asked = [AskedQuestion(question.replace("{object}", noun), "car")]
    for tail in ["", *TAILS]:
        for form in ("{}{}", "**{}**{}", "<think>Hm. No, yes.</think>\n{}{}"):
            texts = [form.format(word, tail) for word in words]
            said = [read_verdicts([text], asked, language=language)[0] for text in texts]
            assert said == [True, False], texts


@given(
    st.sampled_from(["yes", "no"]),
    st.sampled_from(["{}", "**{}**", "{}.", " {}\n", "{}!", "\\boxed{{{}}}", "Answer: {}",
                     "<answer>{}</answer>", "The answer is {}.", "<answer>\\boxed{{{}}}</answer>",
                     "\\boxed{{\\textbf{{{}}}}}", "[[{}]]", "<response>{}</response>",
                     "The answer to your question is {}.", "▁{}", "{}\\n", "`{}`",
                     '{{"answer": "{}"}}']),
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


def _steps(act):
    """Lines that are run."""
    lines = 0

    def trace(*_):
        nonlocal lines
        lines += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(before)
    return lines


PARTS = ["no ", "a ", "Is it? ", "<answer>", "\\boxed{", "<think>", "yes, ", "The answer is ", "{}"]
PARTS += [
    "not visible ",
    "car ",
    "no car or ",
    "Answer: ",
    "\n",
    "and a ",
    "cars, ",
    "</think>",
    "|x|",
]


@given(st.lists(st.sampled_from(PARTS), min_size=1, max_size=3))
def test_twice_the_length_takes_twice_the_steps(parts):
    """An answer may be a book: no rule does more than linear work."""
    asked, words = [AskedQuestion("Is there a car?", "car")], load_vocabulary(COCO)
    short, long = ("".join(parts) * n for n in (100, 200))
    for rule in (*RULES, "captions"):
        # once for what is kept
        counts = [
            _steps(partial(words.read, text))
            if rule == "captions"
            else _steps(partial(read_verdicts, [text], asked, rule=rule))
            for text in (short, short, long)
        ]
        assert counts[2] <= 2.2 * counts[1] + 200, rule
