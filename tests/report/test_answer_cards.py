"""A report of answers in words: lines, bars and tables recounted from the answers, and the model's
own words on the cards.
"""

import html
import json
import re

import numpy as np
import polars as pl
import pytest
from PIL import Image
from sites import HOSTILE, page_text, read_script, tables_of_page

from nooch.evaluation import Predictions, evaluate, load_predictions
from nooch.suites import load_suite

TASKS = ["car", "cow"]


def _rows(suite, seed=0, *, share=1.0, wrong=0.4, split="test", unknown=0.1):
    """Answers about a share of the images of a split; some are neither yes nor no."""
    random, rows = np.random.default_rng(seed), []
    for task in TASKS:
        one = suite.set("ce", task, split)
        for image, label in zip(one.image_ids.to_list(), one.labels.tolist(), strict=True):
            yes = label ^ (random.random() < wrong)
            answer = "Yes, there is." if yes else "No."
            if random.random() < share:
                text = f"Is there a {task} in\n the image?"
                answer = "Hard to say" if random.random() < unknown else answer
                rows.append({"image_id": image, "task": task, "text": text, "answer": answer})
    return rows


def _runs(suite, folder, **answers):
    files = []
    for name, rows in answers.items():
        files.append(folder / f"{name}.jsonl")
        files[-1].write_text("\n".join(map(json.dumps, rows)))
    return load_predictions(files, suite)


def _yes(rows, task, ids):
    said = [row["answer"].startswith("Yes") for row in rows
            if row["task"] == task and row["image_id"] in ids]  # fmt: skip
    return sum(said), len(said)


@pytest.mark.parametrize("share", [1.0, 0.6])
def test_bars_and_lines_are_those_of_the_answers(bare, report, tmp_path, share):
    suite = bare[1]
    rows = _rows(suite, share=share, unknown=0.0)
    runs = _runs(suite, tmp_path, model=rows)
    page = page_text(report(runs, bootstrap=30))
    lines = evaluate(suite, runs, bootstrap=30).headlines
    for criterion in ("ce", "gist", "both"):
        (line,) = [text for text in lines if text.startswith(f"model, {criterion}: yes to")]
        assert html.escape(line) in page
    bars = re.search(r'<table class="rates">.*?</table>', page, re.DOTALL)[0]
    shown = [re.sub(r"<[^>]*>", " ", row).split() for row in re.findall("<tr>(.*?)</tr>", bars)[1:]]
    assert shown[0][:2] == ["all", "tasks"]
    assert {row[0] for row in shown[1:]} == set(TASKS)
    cues = suite.header.criteria["ce"].cues
    for task, *_ in shown[1:]:
        one = suite.set("ce", task, "test")
        listed = [cue for cue, _ in cues[task]]
        for bit, cue in enumerate(listed):
            by_cue = (one.by_cue >> np.uint64(bit)) & np.uint64(1) == 1
            expected = [task, cue]
            for mask in (by_cue & ~one.labels, ~by_cue & ~one.labels):
                yes, n = _yes(rows, task, one.image_ids.filter(pl.Series(mask)).to_list())
                expected.append(f"{100 * yes / n:.1f}% of {n}")
            (found,) = [row for row in shown[1:] if row[:2] == [task, cue]]
            kept = re.sub(r"\[[^]]*\] ", "", " ".join(found[2:]))
            assert [task, cue, *re.findall(r"[\d.]+% of \d+", kept)] == expected
    sizes = [
        sum(_yes(rows, task, suite.set("ce", task, "test").ids(cell))[1] for task in TASKS)
        for cell in ("hard_negative", "easy_negative")
    ]
    records = [suite.record("ce", task, "test") for task in TASKS]
    of = [sum(r.hard_negatives for r in records), sum(r.negatives for r in records)]
    of[1] -= of[0]
    text = f"Asked about {sizes[0]} of {of[0]} hard and {sizes[1]} of {of[1]} easy negatives of"
    assert f"{text} split test" in page


def test_bars_of_many_unknown_answers_are_bounds(bare, report, tmp_path):
    suite = bare[1]
    runs = _runs(suite, tmp_path, model=_rows(suite, unknown=0.3))
    page = page_text(report(runs))
    rates = evaluate(suite, runs).contexts["model", "ce"].bounded()
    (hard,) = (row for row in rates if row["subset"] == "hard_negative")
    assert hard["rate"] is None
    low, high = 100 * hard["bound_low"], 100 * hard["bound_high"]
    text = f"{low:.1f} to {high:.1f}% <small>of {hard['n']}, by how"
    assert text in page


def test_cards_have_the_question_the_words_and_the_label(bare, report, tmp_path):
    suite = bare[1]
    rows = _rows(suite)
    other = [{**row, "answer": "yes"} for row in rows]
    runs = _runs(suite, tmp_path, model=rows, other=other)
    done = report(runs, examples=4)
    page = page_text(done, "examples")
    groups = {}
    group = r'data-kind="(false_yes|no_yes)">(.*?)(?=<div class="example-group"|</section>)'
    for kind, content in re.findall(group, page, re.DOTALL):
        groups.setdefault(kind, []).append(content)
    # three criteria and two tasks
    assert [len(groups[kind]) for kind in ("false_yes", "no_yes")] == [6, 6]
    first = groups["false_yes"][0]
    one = suite.set("ce", "car", "test")
    said = {row["image_id"]: row for row in rows if row["task"] == "car"}
    hard = one.ids("hard_negative")
    wrong = [image for image in hard if said[image]["answer"].startswith("Yes")]
    count = f"{len(wrong) + len(hard)} of {2 * len(hard)} answers"
    assert f"Hard negatives with a yes, {count}" in first
    support = dict(zip(one.image_ids.to_list(), one.support.tolist(), strict=True))
    # most models first, then most context
    order = sorted(hard, key=lambda image: (image not in wrong, -support[image], image))
    assert re.findall(r'card-id">(\d+)<', first) == [str(image) for image in order[:4]]
    assert first.count("<p>Is there a car in the image?</p>") == 4
    assert first.count("<q>Yes, there is.</q>") == min(4, len(wrong))
    assert first.count('<b>other</b> <span class="badge negative">yes</span> <q>yes</q>') == 4
    assert first.count("<dd>no</dd>") == 4
    missed = groups["no_yes"][0]
    assert missed.count("<dd>yes</dd>") == missed.count("<li>")
    assert 'badge easy">yes</span> <q>yes</q>' in missed
    # the model that says yes to everything misses nothing; what is neither is no yes
    positives = one.ids("hard_positive")
    without = [image for image in positives if not said[image]["answer"].startswith("Yes")]
    assert f"Hard positives without a yes, {len(without)} of {2 * len(positives)}" in missed
    unclear = sum(said[image]["answer"] == "Hard to say" for image in without)
    assert missed.count(">neither<") == unclear
    assert "The context without the object, and a yes:" in page_text(done)


def test_words_are_escaped_and_cut(bare, report, tmp_path):
    hostile = ["Yes <script>window.hacked=1</script>", f"Yes {HOSTILE} \x1b[31mred\x07"]
    hostile += ["Yes " + "x" * 200_000, "Yes \n\n " + "word " * 100]
    rows = [
        {**row, "question": HOSTILE, "answer": hostile[number % 4]}
        for number, row in enumerate(_rows(bare[1]))
    ]
    done = report(_runs(bare[1], tmp_path, **{"<b>bold": rows}))
    for name in ("index", "examples", "results"):
        page = page_text(done, name)
        assert len(page) < 200_000
        assert not {"\x1b", "\x07", "\u202e", "\u2028"} & set(page)
        assert "<b>bold" not in page
        assert not re.search(r"<script(?! defer src=\"[a-z/]+\.js\"></script>)", page)
        assert "onerror=hacked=1>" not in page
    page = page_text(done, "examples")
    assert "&lt;script&gt;window.hacked=1&lt;/script&gt;" in page
    assert "(200,004 characters)" in page
    assert "<summary>more</summary>" in page
    assert "Yes word word" in page


def test_models_that_were_asked_other_questions_are_scored_apart(bare, report, tmp_path):
    data, suite = bare
    answers = {"a": _rows(suite, 1), "b": _rows(suite, 2), "c": _rows(suite, 3, share=0.5)}
    runs = _runs(suite, tmp_path, **answers)
    ids = data.select("test").images["image_id"]
    values = np.random.default_rng(0).normal(size=(len(ids), 2))
    plain = Predictions.from_arrays(values, ids, TASKS, scale="logit", run="plain")
    done = report([*runs, plain], bootstrap=20)
    points = pl.DataFrame(read_script(done.path / "data/results.js")[1])
    words = {"fpr", "recall", "dprime", "response_criterion"}
    metrics = {run: set(points.filter(method=run)["metric"]) for run in ("a", "b", "c", "plain")}
    assert metrics == {**dict.fromkeys("abc", words), "plain": {"auc", "error", "nll", "ece"}}
    titles = "".join(tables_of_page(done.path / "results.html"))
    assert "Differences from a on ce" in titles
    assert "Differences from c" not in titles
    columns = tables_of_page(done.path / "results.html")["Scores on ce challenge sets (test)"][0]
    assert {"accuracy hard pos", "recall easy pos", "yes rate hard neg", "d' hard"} <= set(columns)
    alone = evaluate(suite, runs[2:], bootstrap=20)
    place = {"criterion": "ce", "task": "car"}
    own = points.filter(method="c", metric="fpr", subset="hard_negative", **place)
    assert own["mean"].item() == alone.value("fpr", "hard_negative", **place)
    # losses are those of the predictions alone
    assert read_script(done.path / "data/site.js")[1]["methods"] == ["plain"]
    page = page_text(done)
    for run in "abc":
        assert f"{run}, ce: yes to an absent object" in page
    assert "<td>a</td>" in page
    assert "Answers in words have no probabilities" not in " ".join(done.notes)


def test_answers_alone_say_what_is_missing(bare, report, tmp_path):
    suite = bare[1]
    done = report(_runs(suite, tmp_path, model=_rows(suite), old=_rows(suite, split="valid")))
    assert "Answers in words have no probabilities: there are no losses of images." in done.notes
    assert "No runs were given (`runs`): there are no losses" not in " ".join(done.notes)
    page = page_text(done, "results")
    assert "old is not scored: none of the questions is about an image" in page
    assert "asked about all" in page


def test_answers_about_positives_alone_and_many_rates(bare, report, tmp_path):
    suite = bare[1]
    sets = [suite.set("ce", task, "test") for task in TASKS]
    positives = {(s.task, i) for s in sets for i in s.image_ids.filter(pl.Series(s.labels))}
    rows = [row for row in _rows(suite) if (row["task"], row["image_id"]) in positives]
    done = report(_runs(suite, tmp_path, m=rows))
    assert "Asked about 0 of" in page_text(done)
    assert "Yes to absent objects, ce" in page_text(done)
    assert "Hard positives without a yes" in page_text(done, "examples")
    runs = _runs(suite, tmp_path, **{f"m{k}": _rows(suite, k) for k in range(9)})
    # of each model, of all tasks together and of each task by cue
    cues = [len(suite.header.criteria["ce"].cues[task]) for task in TASKS]
    assert f"; 24 of {9 * (1 + sum(cues))} rates" in page_text(report(runs, "many"))


def test_answers_with_probabilities_have_losses_and_words(bare, report, tmp_path):
    rows = _rows(bare[1])
    for row in rows:
        row["probability"] = 0.9 if row["answer"].startswith("Yes") else 0.2
    done = report(_runs(bare[1], tmp_path, model=rows))
    points = pl.DataFrame(read_script(done.path / "data/results.js")[1])
    assert {"auc", "nll", "fpr", "recall"} <= set(points["metric"])
    assert read_script(done.path / "data/site.js")[1]["methods"] == ["model"]
    assert '<dt title="model">model</dt>' in page_text(done, "examples")
    assert "<q>Yes, there is.</q>" in page_text(done)


def test_the_shipped_suite_with_images_by_id(tmp_path, run_cli):
    ids = load_suite("nooch-coco").set("ce", "boat", "test").ids("hard_negative")[:3]
    rows = [{"image_id": image, "task": "boat", "answer": "Yes"} for image in ids]
    (tmp_path / "model.json").write_text(json.dumps(rows))
    (tmp_path / "val2014").mkdir()
    Image.new("RGB", (40, 30)).save(tmp_path / f"val2014/COCO_val2014_{ids[0]:012d}.jpg")
    command = f"report nooch-coco --predictions {tmp_path}/model.json --bootstrap 0"
    alone = run_cli(f"{command} --out {tmp_path}/alone").ok()
    assert "without the dataset" in " ".join(alone.err.split()).lower()
    page = (tmp_path / "alone/index.html").read_text()
    # there is no easy image to compare with
    assert "Yes to absent objects, ce" in page
    assert "<b>100.0%</b>" in page
    assert '<img src="pictures' not in page
    shown = run_cli(f"{command} --images {tmp_path}/val2014 --out {tmp_path}/shown").ok()
    page = (tmp_path / "shown/index.html").read_text()
    # by CE and by gist
    assert page.count('<img src="pictures') == 2
    assert "images that would be shown have no file" in " ".join(shown.err.split())
    wrong = run_cli(f"{command} --metrics auc --out {tmp_path}/wrong")
    wrong.refused("auc needs probabilities, and run model has none")
    assert not (tmp_path / "wrong").exists()
