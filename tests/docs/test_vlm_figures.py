"""The figures of real models in the README and in docs/vlm.md are what the commands give."""

from pathlib import Path

import pytest

from nooch.evaluation import evaluate
from nooch.evaluation.captions import score_captions
from nooch.suites import load_suite

ROOT = Path(__file__).parents[2]
CAPTIONS = {"instructblip": "InstructBLIP", "llava": "LLaVA", "minigpt-4": "MiniGPT-4"}
MEASURES = [("rate", "hard_negative"), ("rate", "easy_negative")]
MEASURES += [("ratio", "negative"), ("odds_ratio", "negative")]


def _cells(frame, digits):
    """Rates in percent, ratio and odds ratio, each with its interval."""
    cells = []
    for measure, subset in MEASURES:
        row = frame.filter(metric=measure, subset=subset).row(0, named=True)
        rate = measure == "rate"
        text = [f"{row[name] * (100 if rate else 1):.{digits if rate else 1}f}"
                for name in ("value", "low", "high")]  # fmt: skip
        cells.append("{} [{}, {}]".format(*text))
    return cells


@pytest.fixture(scope="module")
def figures(shared_data, tmp_path_factory):
    """(model, criterion) -> the estimates over all tasks."""
    vlm, found = shared_data / "vlm", {}
    text = (ROOT / "docs" / "vlm.md").read_text(encoding="utf-8")
    words = tmp_path_factory.mktemp("words") / "words.yaml"
    words.write_text(text.partition("these words:\n```yaml\n")[2].partition("```")[0])
    suite = load_suite("nooch-coco")
    files, split = sorted((vlm / "captions").glob("*.json")), ["valid", "test"]
    table = score_captions(suite, files, split=split, synonyms=words).table
    pooled = table.filter(task="pooled")
    for (run, criterion), part in pooled.group_by("run", "criterion"):
        number, model = run.removeprefix("Instruction").split("_")
        found[f"{CAPTIONS[model]}, {number}", criterion] = part
    answers, asked = vlm / "answers/llava-1.5-7b.jsonl", vlm / "pope/llava_pope_test.jsonl"
    found["all", "captions"] = pooled
    scores = evaluate(suite, answers, reading={"questions": asked}, split=split, bootstrap=1000)
    for (_, criterion), rates in scores.contexts.items():
        found["LLaVA 1.5, answers", criterion] = rates.frame().rename({"measure": "metric"})
    return found


def test_the_table_of_the_docs(figures):
    text = (ROOT / "docs" / "vlm.md").read_text(encoding="utf-8")
    for (model, criterion), frame in figures.items():
        if criterion == "captions":
            continue
        digits = 1 if "answers" in model else 2
        assert f"| {' | '.join([model, criterion, *_cells(frame, digits)])} |" in text
    rows = figures["LLaVA 1.5, answers", "ce"].filter(metric="rate")
    n = dict(rows.select("subset", "n").iter_rows())
    assert f"{n['hard_negative']} of CE's hard negatives and {n['easy_negative']} easy" in text


def test_the_ratio_of_the_readme(figures):
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    ratio = _cells(figures["LLaVA 1.5, answers", "ce"], 1)[2]
    assert f"LLaVA 1.5 answers yes to an absent object {ratio} times as often" in text


def test_the_table_of_lengths(figures):
    text = (ROOT / "docs" / "vlm.md").read_text(encoding="utf-8")
    for run, part in figures["all", "captions"].filter(criterion="ce").group_by("run"):
        value = dict(part.filter(subset="all").select("metric", "value").iter_rows())
        number, model = run[0].removeprefix("Instruction").split("_")
        chair = (f"{value[name]:.3f}"[1:] for name in ("chair_i", "chair_i_equal"))
        cells = [f"{CAPTIONS[model]}, {number}", f"{value['words']:.1f}", *chair]
        assert f"| {' | '.join(cells)} |" in text
