"""The suite nooch-words of the package, and the suspect labels of nooch-coco."""

import importlib.util
import json
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import msgspec
import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
from refusals import fails

import nooch
from nooch.base.errors import FormatError
from nooch.criteria import Context
from nooch.evaluation.answer_sample import weighted_as_sample
from nooch.evaluation.captions import score_captions
from nooch.suites import suite_folder
from nooch.suites.questions import Draw, draw_questions, load_questions, match_tasks

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "src" / "nooch" / "suites" / "shipped"


@pytest.fixture(scope="module")
def words():
    return nooch.load_suite("nooch-words")


def test_it_is_a_small_sample_of_80_things(words):
    assert len(words.tasks) == 80
    assert words.splits == ("all",)
    assert (FOLDER / "nooch-words.parquet").stat().st_size < 200_000
    cells = words.pairs.group_by("task", "label", "tenth").agg(
        pl.len(), pl.col("weight").n_unique()
    )
    assert cells["len"].max() == 6
    assert cells["weight"].max() == 1
    assert cells["len"].sum() == 9541
    hard = words.pairs.filter(pl.col("tenth") >= 8, ~pl.col("label"), task="car")
    assert words.set("context", "car", "all").ids("hard_negative") == sorted(hard["image_id"])
    low = words.pairs.filter(pl.col("tenth") <= 1, "label", task="car")
    assert words.set("context", "car", "all").ids("hard_positive") == sorted(low["image_id"])
    notice = (FOLDER / "nooch-words.NOTICE.txt").read_text(encoding="utf-8")
    assert "Attribution 4.0" in " ".join(notice.split())


def test_the_script_makes_it_and_the_suspects(shared_data, tmp_path, monkeypatch):
    script = ROOT / "scripts" / "make_nooch_words.py"
    spec = importlib.util.spec_from_file_location("make_nooch_words", script)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    # of 80 fits, those of 12: each class has its own, from the presences of all
    few = nooch.load_suite("nooch-coco").tasks

    def fit(train, tasks):
        fitted, columns = Context().fit(train, few), [[*tasks].index(task) for task in few]

        def supports(data, tasks):
            values = np.zeros((len(data), len(tasks)))
            values[:, columns] = fitted.supports(data, few)
            return values

        return SimpleNamespace(supports=supports)

    monkeypatch.setattr(made, "Context", lambda: SimpleNamespace(fit=fit))
    monkeypatch.setattr(sys, "argv", [script.name, str(shared_data), "--out", str(tmp_path)])
    made.main()
    for name in ("nooch-words", "nooch-coco.suspects"):
        new, old = (pl.read_parquet(folder / f"{name}.parquet") for folder in (tmp_path, FOLDER))
        assert new.schema == old.schema
        assert new.filter(pl.col("task").is_in(few)).equals(old.filter(pl.col("task").is_in(few)))
    file = FOLDER / "nooch-words.parquet"
    header = msgspec.json.encode(made.header_of(pl.read_parquet(file), 36_985))
    assert pq.read_metadata(file).metadata[b"nooch"] == header
    # the sample stands for every label of valid and test that is not suspect
    words = nooch.load_suite("nooch-words").pairs
    assert words["weight"].sum() == pytest.approx(36_985 * 80 - 13_575 - 6_824)


def test_labels_are_coco_s(words, shared_data):
    name = "derived_coco_thing_labels_123287x80.npz"
    with np.load(shared_data / "coco-stats" / name) as arrays:
        ids, labels = arrays["image_ids"], arrays["labels"]
        columns = {str(n).replace(" ", "_"): i for i, n in enumerate(arrays["category_names"])}
    row = {int(number): i for i, number in enumerate(ids)}
    for image_id, task, label in words.pairs.select("image_id", "task", "label").iter_rows():
        assert labels[row[image_id], columns[task]] == label


def test_each_pair_is_asked_about_in_three_wordings(words, run_cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_cli("export nooch-words q --to pope --tasks car,skis").ok()
    asked = load_questions(tmp_path / "q" / "questions.parquet").frame
    of_tasks = words.pairs.filter(pl.col("task").is_in(["car", "skis"]))
    assert len(asked) == 3 * len(of_tasks)
    texts = asked.filter(task="skis")["text"].unique(maintain_order=True).to_list()
    assert texts == [
        "Are there skis in the image?",
        "Can you see skis in this image?",
        "Does this image contain skis?",
    ]
    assert match_tasks(asked["text"], words).to_list() == asked["task"].to_list()
    one = asked.unique(["image_id", "task"])
    joined = one.join(of_tasks, on=["image_id", "task"])
    assert joined["weight"].to_list() == joined["weight_right"].to_list()
    # a template of one's own is asked once; fewer images stand for more
    keys = words.select_keys(tasks=["car"])
    few = draw_questions(words, keys, Draw(5, "{task}?")).frame
    assert len(few) == 20
    some = [draw_questions(words, keys, Draw(5, "{task}?", seed)).frame for seed in range(60)]
    total = words.pairs.filter(~pl.col("label"), task="car")["weight"].sum()
    sums = [frame.filter(label=0)["weight"].sum() for frame in some]
    assert np.mean(sums) == pytest.approx(total, rel=0.02)
    # answers to all wordings become one rate, weighted to the images that they stand for
    rows = [
        {"question_id": number, "answer": "yes" if image_id % 4 == 0 else "no"}
        for number, image_id in asked.select("question_id", "image_id").iter_rows()
    ]
    (tmp_path / "q" / "answers.json").write_text(json.dumps(rows))
    found = run_cli("evaluate nooch-words q/answers.json --format json").ok().json
    shown = run_cli("evaluate nooch-words q/answers.json --tasks car").ok()
    assert "] in the fifth of the images that contradict most, " in shown.out + shown.err
    by_task = of_tasks.filter("label").group_by("task")
    yes = pl.when(pl.col("image_id") % 4 == 0).then("weight").otherwise(0).sum()
    recall = by_task.agg(yes / pl.col("weight").sum())["weight"].mean()
    line = f"answers, context: macro recall, the mean over classes: {100 * recall:.1f}% ["
    assert found["headlines"][1].startswith(line)
    rates = {row["subset"]: row["rate"] for row in found["answers"]}
    hard = of_tasks.filter(pl.col("tenth") >= 8, ~pl.col("label"))
    yes = (hard["image_id"] % 4 == 0).to_numpy()
    assert rates["hard_negative"] == pytest.approx(np.average(yes, weights=hard["weight"]))


def test_predictions_and_captions_have_the_weights_too(words, tmp_path):
    pairs = words.pairs.filter(task="car")
    yes = (pairs["image_id"].to_numpy() % 5 == 0).astype(float)
    values = 0.2 + 0.6 * yes
    frame = pl.DataFrame({"image_id": pairs["image_id"], "task": "car", "probability": values})
    (run,) = nooch.load_predictions(frame, words)
    weighted = weighted_as_sample(run, words.sample_weights)
    assert weighted_as_sample(weighted, words.sample_weights) is weighted
    scores = nooch.evaluate(words, frame, metrics=["fpr"], criteria=["context"])
    absent = ~pairs["label"].to_numpy()
    expected = np.average(yes[absent], weights=pairs["weight"].to_numpy()[absent])
    assert scores.value("fpr", "all", task="car") == pytest.approx(expected)
    captions = [
        {"image_id": i, "caption": "A car." if i % 5 == 0 else "A road."} for i in pairs["image_id"]
    ]
    (tmp_path / "model.json").write_text(json.dumps(captions))
    said = score_captions(words, tmp_path / "model.json", tasks=["car"], bootstrap=0)
    hard = absent & (pairs["tenth"].to_numpy() >= 8)
    rate = said.contexts["model", "context"].estimates["rate", "hard_negative"].value
    assert rate == pytest.approx(np.average(yes[hard], weights=pairs["weight"].to_numpy()[hard]))


def test_rates_are_printed_with_and_without_suspects(run_cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    suite = nooch.load_suite("nooch-coco").only(["car"])
    suspects = set(suite.suspects.filter(task="car")["image_id"])
    asked = draw_questions(suite, suite.select_keys(splits=["test"]), Draw()).frame
    rows = asked.with_columns(
        answer=pl.when(pl.col("image_id").is_in(list(suspects)))
        .then(pl.lit("yes"))
        .otherwise(pl.lit("no"))
    )
    rows.drop("ce", "gist").write_parquet("answers.parquet")
    done = run_cli("evaluate nooch-coco answers.parquet --criterion ce").ok()
    first, second = done.out.splitlines()[:2]
    assert first.startswith("answers, ce: yes to an absent object: ")
    assert second.startswith("answers, without suspects, ce: yes to an absent object: 0.0%")
    hard = asked.filter(ce="hard_negative")
    share = (
        hard.filter(pl.col("image_id").is_in(list(suspects)))["weight"].sum() / hard["weight"].sum()
    )
    assert f"absent object: {100 * share:.1f}%" in first
    assert "labels are left out" in done.err.replace("\n", " ")


@pytest.mark.parametrize(
    ("table", "suite"), [("SHIPPED", "nooch-words"), ("SUSPECTS", "nooch-coco")]
)
def test_a_file_that_was_altered_is_refused(monkeypatch, table, suite):
    monkeypatch.setitem(getattr(suite_folder, table), suite, "0" * 64)
    fails(lambda: nooch.load_suite(suite), "was altered", kind=FormatError)


def test_models_told_apart(shared_data):
    """As docs/vlm.md says: of 15 pairs of models 11, and 7 with POPE's adversarial questions."""
    script = runpy.run_path(str(ROOT / "examples" / "words_power.py"))
    found = script["report"](shared_data)
    told = {name: (n, round(15 * apart)) for name, (n, apart, _) in found.items()}
    assert told == {"nooch-words": (154, 11), "POPE's adversarial": (154, 7)}
    text = " ".join((ROOT / "docs" / "vlm.md").read_text(encoding="utf-8").split())
    assert "154 pairs of `nooch-words`" in text
    assert "d' differs for 11 of the 15 pairs of models, and for 7 with" in text
