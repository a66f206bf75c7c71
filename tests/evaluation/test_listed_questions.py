"""Answers to POPE's questions, in every form in which they exist, on nooch-pope."""

import json

import polars as pl
import pytest
from refusals import fails

import nooch
from nooch.evaluation.answers import read_answers
from nooch.suites.questions import question_text

CATEGORIES = "adversarial", "popular", "random"
TEMPLATE = "Is there {a} {task} in the image?"


@pytest.fixture(scope="module")
def pope():
    return nooch.load_suite("nooch-pope")


def rows_of(pope, *names):
    """Questions of lists, one after the other, with an answer that depends on the pair."""
    rows = []
    for name in names:
        pairs = pope.question_lists[name].iter_rows()
        for number, (image_id, task, label) in enumerate(pairs):
            rows.append(
                {
                    "number": number,
                    "image": f"COCO_val2014_{image_id:012d}.jpg",
                    "question": question_text(TEMPLATE, task),
                    "yes": (image_id * 7 + len(task) * 31) % 10 < 4,
                    "label": "yes" if label else "no",
                    "category": name.removeprefix("first_"),
                }
            )
    return rows


def words(row):
    return "Yes" if row["yes"] else "No, there is not."


def llava(rows, part=10_000_000):
    number, before = -1, None
    for row in rows:
        number, before = number + (row["category"] != before), row["category"]
        yield {
            "question_id": number * part + row["number"] + 1,
            "prompt": row["question"] + "\nAnswer the question using a single word or phrase.",
            "text": words(row), "answer_id": "x", "model_id": "m",
        }  # fmt: skip


def lmms_eval(rows):
    for number, row in enumerate(rows):
        metric = {"question_id": str(row["number"] + 1), "score": 1.0}
        yield {
            "doc_id": number, "input": row["question"], "target": row["label"],
            "resps": [[words(row)]], "filtered_resps": [words(row)], "pope_accuracy": metric,
        }  # fmt: skip


def lmms_eval_document(rows):
    for row in lmms_eval(rows):
        question = {"question": row.pop("input"), "category": rows[row["doc_id"]]["category"]}
        yield row | {"doc": {"id": str(row["doc_id"]), "answer": row["target"], **question}}


FORMS = {
    "id, question, image, text": lambda rows: (
        {"id": str(row["number"] + 1), "question": row["question"], "image": f"/val/{row['image']}",
         "text": words(row)} for row in rows
    ),
    "image, text, response, label": lambda rows: (
        {"image": row["image"], "text": row["question"], "response": words(row),
         "label": row["label"]} for row in rows
    ),
    "text, answer, label": lambda rows: (
        {"text": row["question"], "answer": words(row), "label": row["label"]} for row in rows
    ),
    "question, answer": lambda rows: (
        {"question": row["question"].lower(), "answer": words(row)} for row in rows
    ),
    "llava": llava,
    "llava, ids begin again": lambda rows: llava(rows, 0),
    "lmms-eval": lmms_eval,
    "lmms-eval, with its document": lmms_eval_document,
    "vlmevalkit": lambda rows: (
        {"index": row["number"], "question": row["question"] + " Please answer yes or no.",
         "answer": row["label"].title(), "image_path": f"/LMU/{row['number']}.jpg",
         "prediction": words(row)} for row in rows
    ),
    "boxes": lambda rows: (
        {"question": row["question"], "answer": [[0.1, 0.2, 0.5, 1]] if row["yes"] else "no"}
        for row in rows
    ),
}  # fmt: skip


def written(folder, records, name="model.jsonl"):
    file = folder / name
    file.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    return file


def expected(rows):
    frame = pl.DataFrame(rows).with_columns(pl.col("image").str.slice(-16, 12).cast(pl.Int64))
    return dict(frame.group_by("image").agg(pl.col("yes").sum()).iter_rows())


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "names",
    [("adversarial",), ("random", "popular"), ("adversarial", "first_random", "popular")],
    ids=" ".join,
)
def test_each_form_is_read(pope, tmp_path, form, names):
    if form == "vlmevalkit":
        names = ("vlmevalkit",)
    if form.startswith("lmms-eval") and "first_random" in names:
        names = CATEGORIES
    rows = rows_of(pope, *names)
    answers = read_answers(written(tmp_path, FORMS[form](rows)), pope)
    pairs = {(row["image"], row["question"]): row["yes"] for row in rows}
    assert len(answers.frame) == len(pairs)
    found = answers.frame.select("image_id", "task", "yes").iter_rows()
    for image_id, task, yes in found:
        image = f"COCO_val2014_{image_id:012d}.jpg"
        assert pairs[image, question_text(TEMPLATE, task)] == yes
    assert answers.listed
    of = pl.concat([pope.question_lists[name] for name in names]).unique().height
    assert of == len(pairs)
    lists = {name.removeprefix("first_") for name in names} - {"vlmevalkit"} or {*CATEGORIES}
    categories = answers.frame["category"].str.split(",").explode()
    assert {*categories.unique()} == lists


def test_what_is_left_out_is_unanswered(pope, tmp_path):
    rows = [row for row in rows_of(pope, "popular") if row["number"] % 100]
    for form in ("llava", "id, question, image, text"):
        answers = read_answers(written(tmp_path, FORMS[form](rows)), pope)
        assert len(answers.frame) == 3000
        assert answers.frame["missing"].sum() == 30
        assert any("30 of 3,000 questions have no answer" in note for note in answers.notes)


def test_what_nooch_asked_is_all_of_pope_once(pope, tmp_path, run_cli, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_cli("export nooch-pope q --to pope").ok()
    asked = pl.read_parquet("q/questions.parquet")
    assert len(asked) == 5127
    yes = pl.when(pl.col("image_id") % 3 == 0).then(pl.lit("yes")).otherwise(pl.lit("no"))
    asked.with_columns(answer=yes, prompt="text").write_parquet("a.parquet")
    for files in ("a.parquet", "a.parquet --questions q"):
        found = run_cli(f"evaluate nooch-pope {files} --format json").ok().json
        assert found["headlines"][0].endswith("; 0.0% unknown")
        assert all(f"POPE, {name}: " in " ".join(found["headlines"]) for name in CATEGORIES)
        truth = rows_of(pope, "popular")
        right = sum((int(r["image"][-16:-4]) % 3 == 0) == (r["label"] == "yes") for r in truth)
        assert f"POPE, popular: accuracy {right / 30:.1f}%" in found["headlines"][3]
    run_cli("export nooch-pope few --to pope --per-set 5").ok()
    assert len(pl.read_parquet("few/questions.parquet")) < 1600


def test_images_and_texts_in_any_order(pope, tmp_path):
    rows = rows_of(pope, "adversarial")
    shuffled = sorted(rows, key=lambda row: (len(row["question"]), row["image"]))
    frames = [
        read_answers(written(tmp_path, FORMS["image, text, response, label"](some)), pope).frame
        for some in (rows, shuffled)
    ]
    assert frames[0].drop("question").equals(frames[1].drop("question"))


def test_the_first_answer_to_another_question_is_named(pope, tmp_path):
    rows = rows_of(pope, "vlmevalkit")
    task = pope.question_lists["vlmevalkit"]["task"][41]
    records = [*FORMS["vlmevalkit"](rows)]
    records[41]["question"] = f"Is there a {'dog' if task != 'dog' else 'cat'} in the image?"
    records[70], records[71] = records[71] | {"index": 70}, records[70] | {"index": 71}
    fails(
        lambda: read_answers(written(tmp_path, records), pope),
        "answer 42 is to 'Is there a", f"about image {rows[41]['image'][-10:-4].lstrip('0')}",
        "5,124 of 5,127 answers", "`questions`",
    )  # fmt: skip


def test_answers_that_could_be_to_several_files(pope, tmp_path):
    rows = rows_of(pope, "popular")
    records = [{k: v for k, v in row.items() if k != "prompt"} for row in llava(rows)]
    fails(
        lambda: read_answers(written(tmp_path, records), pope),
        "fit several of the suite's lists", "`questions`",
    )  # fmt: skip
    # what all three files ask
    file = written(tmp_path, FORMS["image, text, response, label"](
        [row for row in rows if row["label"] == "yes"]))  # fmt: skip
    fails(
        lambda: read_answers(file, pope),
        "all answers belong to questions of adversarial, popular, random", "`questions`",
    )  # fmt: skip
    few = [{"question": "Is there a dog?", "answer": "no"}] * 7
    fails(lambda: read_answers(written(tmp_path, few), pope), "1 of 7 answers are to theirs")


def test_questions_of_a_file_tell_which_of_pope_s_files_it_is(pope, tmp_path):
    rows = rows_of(pope, "popular")
    asked = [{"question_id": row["number"], "image": row["image"], "text": row["question"],
              "label": row["label"]} for row in rows[:600]]  # fmt: skip
    file, questions = tmp_path / "a.jsonl", written(tmp_path, asked, "q.json")
    written(tmp_path, FORMS["image, text, response, label"](rows[:600]), "a.jsonl")
    answers = read_answers(file, pope, questions=questions)
    assert len(answers.frame) == 600
    assert answers.frame["category"].unique().to_list() == ["popular"]


def test_three_files_are_one_model(pope, tmp_path, run_cli, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in CATEGORIES:
        written(tmp_path, llava(rows_of(pope, name)), f"mine_{name}.jsonl")
    found = run_cli("evaluate nooch-pope mine_random.jsonl mine_popular.jsonl"
                    " mine_adversarial.jsonl --by category --format json").ok().json  # fmt: skip
    assert {row["run"] for row in found["scores"]} == {"mine"}
    groups = {row["group"] for row in found["scores"]} - {None}
    assert groups == {f"category={name}" for name in CATEGORIES}
    lines = found["headlines"]
    assert [line.split(":")[0] for line in lines[:5]] == [
        "mine, context", "mine, context", *["mine, context"] * 3,
    ]  # fmt: skip
    for name, line in zip(CATEGORIES, lines[2:5], strict=True):
        rows = rows_of(pope, name)
        hits = sum(row["yes"] and row["label"] == "yes" for row in rows)
        f1 = 200 * hits / (sum(row["yes"] for row in rows) + 1500)
        assert f"POPE, {name}: accuracy" in line
        assert f"F1 {f1:.1f}%" in line
        assert "(3,000 questions)" in line
    named = "files of one model, by their names: mine_random.jsonl to random, mine_popular.jsonl"
    assert named in " ".join(found["notes"])
    # a column that says otherwise is not overruled by a name
    odd = [{**row, "category": "random"} for row in llava(rows_of(pope, "popular"))]
    written(tmp_path, odd, "mine_popular.jsonl")
    ran = run_cli("evaluate nooch-pope mine_random.jsonl mine_popular.jsonl")
    ran.refused("of random by its column category, and of popular by its name")
    # files of different models are not parts of one
    written(tmp_path, llava(rows_of(pope, "random")), "yours_random.jsonl")
    assert run_cli("evaluate nooch-pope mine_popular.jsonl yours_random.jsonl").code


@pytest.mark.parametrize(
    ("file", "f1"),
    [
        ("answers/mitigation-answers/llava15_base_7b.pope_adv.jsonl", {"adversarial": 84.2}),
        ("vlm/answers/llava-1.5-7b.jsonl", {"adversarial": 82.9, "popular": 84.9, "random": 86.0}),
        ("answers/vlmevalkit/vila_13b_POPE.xlsx", {"adversarial": 84.2, "popular": 84.9}),
    ],
)
def test_real_files(pope, shared_data, file, f1):
    """F1 as its authors have it for LLaVA 1.5 7B; others as POPE's script computes."""
    scores = nooch.evaluate(pope, shared_data / file)
    lines = "\n".join(scores.headlines)
    assert all(f"POPE, {name}: " in lines and f"F1 {value}%" in lines for name, value in f1.items())
