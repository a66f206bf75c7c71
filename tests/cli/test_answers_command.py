"""Questions, answers and captions as a user types them, on the suite that ships with nooch."""

import json

import polars as pl
import pytest

from nooch.challenge import load_suite

SUITE = "nooch-coco"


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """Empty files with the names of COCO 2014 for all images of the split test."""
    folder = tmp_path_factory.mktemp("val2014")
    suite = load_suite(SUITE)
    for image in suite.set("ce", "car", "test").image_ids:
        (folder / f"COCO_val2014_{image:012d}.jpg").touch()
    return folder


def test_the_official_benchmark_in_two_lines(images, run_cli, tmp_path):
    done = run_cli(f"export {SUITE} questions --to pope --images {images}").ok()
    assert "4,745 questions on 4,330 images" in done.err
    asked = pl.read_parquet(tmp_path / "questions" / "questions.parquet")
    # a model that sees the context alone
    says = pl.when(pl.col("ce").is_in(["hard_negative", "easy_positive"])).then(pl.lit("yes"))
    rows = asked.select(question="text", answer=says.otherwise(pl.lit("no")))
    rows.write_ndjson(tmp_path / "questions" / "answers.jsonl")
    done = run_cli(f"evaluate {SUITE} questions/answers.jsonl --criterion ce --out s.json").ok()
    line = "answers, ce: yes to an absent object: 100.0 % [99.5, 100.0] with its context, 0.0 %"
    assert line in done.err
    assert "answers in words (pope)" in done.err
    scores = json.loads((tmp_path / "s.json").read_text())["scores"]
    average = {
        (row["subset"], row["metric"]): row["value"] for row in scores if row["task"] == "average"
    }
    assert average["hard", "recall"] == 0.0
    assert average["hard", "fpr"] == 1.0
    assert average["easy", "accuracy"] == 1.0
    assert average["hard", "dprime"] < -2
    # the same answers without their file of questions
    moved = tmp_path / "answers.jsonl"
    (tmp_path / "questions" / "answers.jsonl").rename(moved)
    again = run_cli(f"evaluate {SUITE} answers.jsonl --criterion ce --format json").ok()
    assert "drawn by default" in again.out


def test_a_condition_on_answers(run_cli, tmp_path):
    suite = load_suite(SUITE)
    rows = [
        {"image_id": image, "task": "car", "answer": answer}
        for subset, answer in (("hard_negative", "Yes"), ("easy_negative", "No, none."))
        for image in suite.set("ce", "car", "test").ids(subset)[:40]
    ]
    (tmp_path / "a.json").write_text(json.dumps(rows))
    command = f'evaluate {SUITE} a.json --criterion ce --fail-if "fpr@hard_negative[ce,car]>0.5"'
    assert run_cli(command).code == 1
    wrong = run_cli(f"evaluate {SUITE} a.json --rule popes")
    assert wrong.code == 2
    assert "did you mean pope" in wrong.err
    wrong = run_cli(f"evaluate {SUITE} a.json --metrics auc")
    assert wrong.code == 2
    assert "there is no auc" in wrong.err


def test_commands_that_need_every_image_refuse_a_sample(run_cli, tmp_path):
    suite = load_suite(SUITE)
    ids = suite.set("ce", "car", "test").ids("hard_negative")[:3]
    rows = [{"image_id": i, "task": "car", "answer": "Yes"} for i in ids[:2]]
    (tmp_path / "a.json").write_text(json.dumps(rows))
    losses = run_cli(f"class-losses {SUITE} a.json")
    assert losses.code == 2
    assert "have no prediction" in losses.err
    words = [f"explain {SUITE} --task car --image {i} --predictions a.json" for i in ids[1:]]
    answered, unasked = (run_cli(f"{text} --format json").ok().json for text in words)
    assert answered["answers"][0]["error"] is True
    assert unasked["answers"][0] == {"run": "a", "probability": None, "answer": None, "error": None}


def test_captions(run_cli, tmp_path):
    suite = load_suite(SUITE)
    boat = suite.set("ce", "boat", "test")
    rows = [{"image_id": i, "caption": "a ship at sea"} for i in boat.ids("hard_negative")[:30]]
    rows += [{"image_id": i, "caption": "a street"} for i in boat.ids("easy_negative")[:30]]
    (tmp_path / "model.json").write_text(json.dumps(rows))
    done = run_cli(f"captions {SUITE} model.json --criterion ce --tasks boat --out s.csv").ok()
    assert "100.0" in done.out
    assert "mentions an absent object: 100.0 %" in done.out
    table = pl.read_csv(tmp_path / "s.csv")
    rate = table.filter(task="pooled", measure="rate", subset="easy_negative")
    assert rate.select("run", "value", "n").row(0) == ("model", 0.0, 30)
    shown = json.loads(run_cli(f"captions {SUITE} model.json --format json").ok().out)
    assert len(shown["scores"]) > 10
    for wrong, part in (
        ("captions nooch-coco model.json --out s.csv", "exists"),
        ("captions nooch-coco model.json --out s.txt", ".parquet"),
        ("captions nooch-coco none.json", "none.json"),
        ("captions nooch-coco model.json --synonyms none.yaml", "none.yaml"),
    ):
        refused = run_cli(wrong)
        assert refused.code == 2, wrong
        assert part in refused.err
