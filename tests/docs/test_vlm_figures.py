"""The figures of real models in the README and in docs/hallucinations.md are what the example, and
the commands, give.
"""

import re
from pathlib import Path

import pytest

from nooch.evaluation import evaluate
from nooch.evaluation.captions import score_captions
from nooch.suites import load_suite

ROOT = Path(__file__).parents[2]
EXAMPLES, SPLITS = ROOT / "examples", ["valid", "test"]
PLACES = [("rate", "hard_negative"), ("rate", "easy_negative")]
PLACES += [("ratio", "negative"), ("odds_ratio", "negative")]
PAGE = (ROOT / "docs" / "hallucinations.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def report(shared_data):
    """File name -> content."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLES)
        import hallucinations
    return hallucinations.report(shared_data)


def test_the_tables_of_the_page(report):
    tables = report["tables.md"].decode().strip().split("\n\n")
    assert len(tables) == PAGE.count("|---|\n") == 5
    for table in tables:
        assert f"\n\n{table}\n\n" in PAGE


@pytest.mark.parametrize("name", ["hallucination-rates.svg", "hallucination-curve.svg"])
def test_a_figure_of_the_page(report, name):
    """Its words, numbers at the axes and number of marks; paths may differ in last digits."""
    assert f"]({name})" in PAGE
    kept = (ROOT / "docs" / name).read_text(encoding="utf-8")
    for pattern in (r"<text[^>]*>([^<]*)", r"<(use|path)\b"):
        found = re.findall(pattern, report[name].decode())
        assert found == re.findall(pattern, kept)
        assert len(found) > 20


def test_the_ranges_of_the_summary():
    """They are of the tables, least and largest values rounded."""
    rates, tenths, lengths = (
        [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]
        for table in re.findall(r"(?:^\|.*\n)+", PAGE, re.MULTILINE)[1:4]
    )
    ranges = [
        (rates, 4, "{} to {} times as often where"),
        (rates, 7, "suspect, {} to {} times"),
        (tenths[:6], 3, "six files, {} to {}% are in the tenth"),
        (lengths, 5, "captions make up {} to {} times as much with it"),
    ]
    page = " ".join(PAGE.split())
    for rows, column, text in ranges:
        values = [float(re.match(r"[\d.]+", row[column])[0]) for row in rows]
        assert text.format(round(min(values)), round(max(values))) in page


def _percents(rates):
    """Both rates and the ratio, as the page writes them."""
    hard, easy, ratio = (rates[place].value for place in PLACES[:3])
    return f"{100 * hard:.2f}", f"{100 * easy:.2f}", f"{ratio:.1f}"


def test_the_command_for_captions_gives_the_same(shared_data):
    names = ["Instruction1_minigpt-4", "Instruction2_llava"]
    files = [shared_data / "vlm" / "captions" / f"{name}.json" for name in names]
    suite, words = load_suite("nooch-coco"), EXAMPLES / "paper_words.yaml"
    scored = {"split": SPLITS, "synonyms": words}
    # LLaVA's file names only questions, whose images another file of the instruction has
    others = shared_data / "vlm" / "captions" / "Instruction2_minigpt-4.json"
    scores = score_captions(suite, files[0], **scored)
    for criterion in ("ce", "gist"):
        rates = scores.contexts[names[0], criterion].estimates
        cells = []
        for place in PLACES:
            one, (scale, digits) = rates[place], (100, 2) if place[0] == "rate" else (1, 1)
            bounds = [f"{scale * bound:.{digits}f}" for bound in (one.value, one.low, one.high)]
            cells.append("{} [{}, {}]".format(*bounds))
        assert f"| MiniGPT-4, 1 | {criterion} | {' | '.join(cells)} |" in PAGE
    denied = scores.table.filter(metric="denied", criterion="ce")["value"].item()
    page = " ".join(PAGE.split())
    assert f"MiniGPT-4's first file denies {100 * denied:.1f}% of what it names" in page
    written = score_captions(suite, [*files, others], as_written=True, bootstrap=0, **scored)
    ce, gist = (
        [_percents(written.contexts[name, criterion].estimates) for name in names]
        for criterion in ("ce", "gist")
    )
    first = "{} and {} ({} times) under ce, {} and {} ({}) under gist".format(*ce[0], *gist[0])
    second = "LLaVA's second {} and {} ({}), and {} and {} ({})".format(*ce[1], *gist[1])
    assert f"MiniGPT-4's first file has {first}; {second}." in page


def test_the_ratio_of_the_readme(shared_data):
    vlm, suite = shared_data / "vlm", load_suite("nooch-coco")
    reading = {"questions": vlm / "pope" / "llava_pope_test.jsonl"}
    scores = evaluate(suite, vlm / "answers" / "llava-1.5-7b.jsonl", reading=reading, split=SPLITS)
    one = scores.contexts["llava-1.5-7b", "ce"].estimates["ratio", "negative"]
    ratio = f"{one.value:.1f} [{one.low:.1f}, {one.high:.1f}]"
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert f"LLaVA 1.5 says yes to an absent object {one.value:.1f} times as often" in text
    assert f"| {ratio} |" in PAGE
