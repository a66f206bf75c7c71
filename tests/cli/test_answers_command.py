"""Questions, answers and captions as a user types them, on the suite that ships with nooch."""

import json

import polars as pl
import pytest

from nooch.suites import load_suite

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
    line = "answers, ce: yes to an absent object: 100.0% [99.5, 100.0] with its context, 0.0%"
    # the first line of standard output, no note among notes
    assert done.out.startswith(line)
    assert done.out.splitlines()[0].endswith("without; 0.0% unknown")
    assert line not in done.err
    assert "answers in words (tolerant, column answer)" in done.err
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
    assert "auc needs probabilities" in wrong.err


def _half_unreadable(tmp_path, unread, n=60):
    """Yes to 20% of absent objects with their context and 10% without; some cannot be read."""
    suite, rows = load_suite(SUITE).set("ce", "car", "test"), []
    for subset, share in (("hard_negative", 5), ("easy_negative", 10)):
        for number, image in enumerate(suite.ids(subset)[:n]):
            said = "Yes." if number % share == 0 else "No."
            said = "The street is wet." if number < unread * n else said
            rows.append({"image_id": image, "task": "car", "answer": said})
    (tmp_path / "a.json").write_text(json.dumps(rows))
    return f"evaluate {SUITE} a.json --criterion ce --tasks car"


def test_unknown_answers_bound_the_headline(run_cli, tmp_path):
    command = _half_unreadable(tmp_path, 0.5)
    line = run_cli(command).ok().out.splitlines()[0]
    start = "a, ce: yes to an absent object: 10.0 to 60.0% ["
    assert line.startswith(start)
    assert "] with its context, 5.0 to 55.0% [" in line
    # 10% of one over 55% of the other, and the other way round
    assert line.endswith("] without: 0.2 to 12.0 times; 50.0% unknown")
    shown = run_cli(f"{command} --format json").ok().json
    assert shown["headlines"][0] == line
    assert shown["headlines"][1].startswith("a, without suspects, ce: yes to an absent object: ")
    rates = {row["subset"]: row for row in shown["answers"] if row["run"] == "a"}
    hard = rates["hard_negative"]
    assert [hard[name] for name in ("rate", "unknown_share", "n")] == [None, 0.5, 60]
    assert [hard["bound_low"], hard["bound_high"]] == pytest.approx([0.1, 0.6])
    # left out they still bound what is said
    skipped = run_cli(f"{command} --unknown skip").ok().out.splitlines()[0]
    assert skipped == line
    # so do all scores, whatever the unreadable answers mean
    scores = {(r["metric"], r["subset"]): r for r in shown["scores"] if r["cue"] is None}
    error = scores["error", "hard_negative"]
    assert (error["value"], error["interval"]) == (None, "unknown")
    assert error["low"] < 0.1
    assert error["high"] > 0.6
    assert error["reason"] == "more than 5% of the answers are unknown"
    claims = scores["fpr", "hard"]
    assert (claims["low"], claims["high"]) == (error["low"], error["high"])
    assert "a: 50.0% of the answers are unknown and count as wrong" in shown["notes"]
    run_cli(f"{command} --out {tmp_path}/scores.md").ok()
    assert "| – [.0" in (tmp_path / "scores.md").read_text()
    points = run_cli(f"{command} --unknown skip --format json").ok().json["scores"]
    assert all(row["interval"] != "unknown" for row in points)


def test_few_unknown_answers_stand_next_to_the_rate(run_cli, tmp_path):
    command = _half_unreadable(tmp_path, 0.05)
    line = run_cli(command).ok().out.splitlines()[0]
    assert "yes to an absent object: 18.3 to 23.3% [" in line
    assert "] with its context, 8.3 to 13.3% [" in line
    assert line.endswith("] without: 1.4 to 2.8 times; 5.0% unknown")
    answers = run_cli(f"{command} --format json").ok().json["answers"]
    assert answers[0]["unknown_share"] == pytest.approx(0.05)
    rates = {row["subset"]: row["rate"] for row in answers if row["run"] == "a"}
    # an unknown answer is a yes about an absent object
    assert rates["hard_negative"] == pytest.approx(14 / 60)
    shown = run_cli(f"{command} --format json").ok().json
    assert all(row["interval"] != "unknown" for row in shown["scores"])
    scores = {(r["metric"], r["subset"], r["task"]): r["value"] for r in shown["scores"]}
    assert scores["fpr", "hard_negative", "car"] == pytest.approx(14 / 60)
    assert run_cli(f"{command} --fail-if fpr@hard_negative>0.2").code == 1
    assert "a: 5.0% of the answers are unknown and count as wrong" in shown["notes"]


def test_answers_with_a_period_or_in_another_language(run_cli, tmp_path):
    """A harness logs "Yes." and "No."; they are unknown where its own rule is asked for."""
    command = _half_unreadable(tmp_path, 0)
    assert "20.0% [" in run_cli(command).ok().out.splitlines()[0]
    exact = run_cli(f"{command} --rule lmms-eval").ok().out.splitlines()[0]
    assert "0.0 to 100.0% [" in exact
    assert exact.endswith("100.0% unknown")
    text = (tmp_path / "a.json").read_text().replace("Yes.", "Ja, da ist ein Auto.")
    (tmp_path / "a.json").write_text(text.replace("No.", "Nein."))
    assert "100.0% unknown" in run_cli(command).ok().out.splitlines()[0]
    assert "20.0% [" in run_cli(f"{command} --language de").ok().out.splitlines()[0]
    run_cli(f"{command} --language xx").refused("--language: there are no words for 'xx'", "pl")


def test_commands_that_need_every_image_refuse_a_sample(run_cli, tmp_path):
    suite = load_suite(SUITE)
    ids = suite.set("ce", "car", "test").ids("hard_negative")[:3]
    rows = [{"image_id": i, "task": "car", "answer": "Yes"} for i in ids[:2]]
    (tmp_path / "a.json").write_text(json.dumps(rows))
    run_cli(f"paper select-tasks {SUITE} a.json --out no").refused("have no prediction")
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
    assert "mentions an absent object: 100.0%" in done.out
    table = pl.read_csv(tmp_path / "s.csv")
    rate = table.filter(task="pooled", metric="rate", subset="easy_negative")
    assert rate.select("run", "value", "n").row(0) == ("model", 0.0, 30)
    gate = f"captions {SUITE} model.json --criterion ce --tasks boat --junit j.xml --fail-if"
    done = run_cli(f"{gate} 'model fpr@hard_negative>0.5'")
    assert done.code == 1
    assert "failed: model fpr@hard_negative>0.5: model, ce, boat, test: fpr on" in done.out
    assert 'failures="1"' in (tmp_path / "j.xml").read_text()
    assert run_cli(f"{gate} 'fpr@easy_negative>0.5' --overwrite").ok()
    rows[0]["caption"] = "a street"
    (tmp_path / "old.json").write_text(json.dumps(rows))
    both = run_cli(f"{gate} worse --overwrite --baseline old.json --format json").ok().json
    assert (both["conditions"], both["failed"]) == (1, [])
    (tmp_path / "few.json").write_text(json.dumps(rows[:10] + rows[-10:]))
    few = run_cli(f"{gate} context --overwrite".replace("model.json", "few.json"))
    assert few.code == 1
    assert "failed: context: few: nothing can be compared: too few images" in few.out
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
