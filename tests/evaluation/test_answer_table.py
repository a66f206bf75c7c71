"""Files of answers joined with the questions that they belong to."""

import gzip
import json
from zipfile import ZipFile

import numpy as np
import openpyxl
import polars as pl
import pytest
from refusals import fails, refused

from nooch.evaluation import load_predictions
from nooch.evaluation.answer_files import FORMATS
from nooch.evaluation.answers import read_answers
from nooch.suites import load_suite
from nooch.suites.questions import Draw, draw_questions

TASKS = ["car", "tie", "sports_ball"]


@pytest.fixture(scope="module")
def suite():
    return load_suite("nooch-coco").only(TASKS)


@pytest.fixture(scope="module")
def questions(suite):
    keys = [key for key in suite.keys if key[2] == "test"]
    return draw_questions(suite, keys, Draw()).frame


@pytest.fixture(scope="module")
def said(questions):
    """What a made-up model says to each question: yes for every third."""
    return ["Yes" if number % 3 == 0 else "No" for number in questions["question_id"]]


def _lines(path, records):
    path.write_text("\n".join(json.dumps(record) for record in records))
    return path


def _rows(questions, said):
    return zip(questions.iter_rows(named=True), said, strict=True)


def _pope(rows):
    return [{"question": q["text"], "answer": a} for q, a in rows]


def _pope_by_id(rows):
    return [{"question_id": q["question_id"], "answer": a} for q, a in rows][::-1]


def _llava(rows):
    return [
        {
            "question_id": q["question_id"],
            "prompt": f"{q['text']}\nAnswer briefly.",
            "text": a,
            "answer_id": "x",
        }
        for q, a in rows
    ]


def _lmms_eval(rows):
    return [
        {
            "doc_id": n,
            "target": "yes",
            "filtered_resps": [a],
            "nooch_accuracy": {"question_id": q["question_id"], "score": 1.0},
        }
        for n, (q, a) in enumerate(rows)
    ][::-1]


def _lmms_eval_by_document(rows):
    return [{"doc_id": n, "resps": [[a]]} for n, (_, a) in enumerate(rows)][::-1]


def _amber(rows):
    return [{"id": q["question_id"], "response": a} for q, a in rows]


def _dash(rows):
    # ids of images are part of file names
    name = "x/{:012d}.png".format
    made = ((name(q["image_id"]), q["task"], answer) for q, answer in rows)
    return [{"img_id": image, "object_name": task, "response": a} for image, task, a in made]


def _nooch(rows):
    return [{n: q[n] for n in ("image_id", "task", "weight")} | {"answer": a} for q, a in rows]


def _inspect(rows):
    """Samples as ``inspect eval nooch/questions`` logs them."""
    names = ("image_id", "task", "weight")
    return [
        {
            "id": q["question_id"],
            "epoch": 1,
            "input": [{"role": "user", "content": [
                {"type": "text", "text": q["text"]}, {"type": "image", "image": "attachment://1"},
            ]}],
            "target": "yes",
            "output": {"choices": [{"message": {"content": [
                {"type": "reasoning", "reasoning": "No?"}, {"type": "text", "text": a},
            ]}}]},
            "metadata": {name: q[name] for name in names},
        }
        for q, a in rows
    ]  # fmt: skip


def _inspect_of_others(rows):
    plain = {"epoch": 1, "target": "yes", "metadata": {}}
    return [
        plain
        | {"id": q["question_id"], "input": f"{q['text']} Answer with yes or no."}
        | {"output": {"choices": [{"message": {"content": a}}]}}
        for q, a in rows
    ]


WAYS = {
    _inspect: "nooch", _inspect_of_others: "", _pope: "",
    _pope_by_id: "", _llava: "llava", _lmms_eval: "lmms-eval",
    _lmms_eval_by_document: "lmms-eval", _amber: "", _dash: "dash-b", _nooch: "nooch",
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_every_format_gives_the_same_answers(way, suite, questions, said, tmp_path):
    file = _lines(tmp_path / "answers.json", way(_rows(questions, said)))
    read = read_answers(file, suite)
    expected = questions.with_columns(yes=pl.Series(said) == "Yes").sort("image_id", "task")
    assert read.frame["image_id"].equals(expected["image_id"])
    assert read.frame["task"].equals(expected["task"])
    assert (read.frame["yes"] == 1).equals(expected["yes"])
    assert read.rule == "tolerant"
    if WAYS[way] != "dash-b":
        assert read.frame["weight"].equals(expected["weight"])
    by_default = [note for note in read.notes if "drawn by default" in note]
    assert bool(by_default) == (WAYS[way] not in {"dash-b", "nooch"})


def test_a_log_of_inspect_is_recognized_whatever_its_samples_carry(
    suite, questions, said, tmp_path
):
    samples = _inspect(_rows(questions, said))
    samples[0]["attachments"] = {"1": "x" * (1 << 20)}
    samples[1]["output"]["choices"] = []  # of a sample that failed
    log = {"version": 2, "eval": {"task": "nooch/words"}, "results": {"scores": []}}
    (tmp_path / "log.json").write_text(json.dumps(log | {"samples": samples}))
    run = load_predictions(tmp_path / "log.json", suite=suite)[0]
    assert run.said.filter(unknown=True)["image_id"].to_list() == [questions["image_id"][1]]
    (tmp_path / "log.json").write_text(json.dumps(log | {"samples": [samples[1] | {"output": 3}]}))
    fails(lambda: read_answers(tmp_path / "log.json", suite), "logs as Inspect AI writes them")
    (tmp_path / "log.eval").write_bytes(b"PK")
    fails(lambda: load_predictions(tmp_path / "log.eval"), "inspect_ai.log.write_eval_log")


def test_every_format_has_a_way():
    assert set(WAYS.values()) | {"vlmevalkit"} == {*FORMATS, ""}


def test_vlmevalkit_tables(suite, questions, said, tmp_path):
    frame = questions.select(index="question_id", question="text").with_columns(
        A=pl.lit("Yes"),
        B=pl.lit("No"),
        prediction=pl.Series(["A" if answer == "Yes" else "B. No" for answer in said]),
    )
    frame.write_csv(tmp_path / "model_nooch.tsv", separator="\t")
    book = openpyxl.Workbook()
    for row in (frame.columns, *frame.rows()):
        book.active.append(row)
    book.save(tmp_path / "model_nooch.xlsx")
    for ending in ("tsv", "xlsx"):
        read = read_answers(tmp_path / f"model_nooch.{ending}", suite)
        assert (read.run, read.rule) == ("model_nooch", "tolerant")
        assert read.frame["yes"].sum() == said.count("Yes")


def test_questions_beside_the_answers_come_before_drawn_ones(suite, questions, said, tmp_path):
    later = questions.with_columns(pl.col("question_id") + 5000)
    later.write_parquet(tmp_path / "questions.parquet")
    file = _lines(tmp_path / "a.jsonl", _pope(_rows(questions, said)))
    assert read_answers(file, suite).notes == []


def test_questions_in_popes_format_and_names_of_files(suite, questions, said, tmp_path):
    asked = [
        {
            "question_id": 1,
            "image": f"COCO_val2014_{q['image_id']:012d}.jpg",
            "text": q["text"].replace("a tie in the image", "a tie in the imange"),
            "category": str(number),
            "label": "yes" if q["label"] else "no",
        }
        for number, q in enumerate(questions.iter_rows(named=True))
    ]
    # one label of the file is wrong
    asked[7]["label"] = "no" if asked[7]["label"] == "yes" else "yes"
    other = {"question_id": 1, "category": "x", "label": "no"}
    asked.append({**other, "image": "7.jpg", "text": "Is there a zebra in the image?"})
    asked.append({**other, "image": asked[0]["image"], "text": "Is there a zebra in the image?"})
    file = _lines(tmp_path / "q.json", asked)
    answers = [{"question_id": 1, "text": answer} for answer in [*said, "No", "No"]]
    read = read_answers(_lines(tmp_path / "a.jsonl", answers), suite, questions=file)
    assert read.frame.height == len(said)
    assert abs(read.frame["label"].sum() - questions["label"].sum()) == 1
    outside = "their image or object is not in the suite"
    differs = f"{questions['task'][7]} {questions['image_id'][7]}"
    assert read.notes == [
        "1,177 of 1,178 images by the number at the end of file names",
        f"2 of 1,202 answers are left out: {outside}",
        f"1 labels of the questions differ from the suite's, which are used: {differs}",
    ]


def test_several_phrasings_are_averaged_and_unknown_answers_counted(suite, tmp_path):
    ids = suite.set("ce", "car", "test").ids("hard")[:3]
    rows = [
        {"image_id": image, "task": "car", "answer": text, "probability": p, "question_id": number}
        for number, (image, text, p) in enumerate(
            [
                (ids[0], "yes", 0.9),
                (ids[0], "no", 0.4),
                (ids[1], "perhaps", None),
                (ids[2], "Yes.", None),
            ]
        )
    ]
    read = read_answers(_lines(tmp_path / "a.jsonl", rows), suite)
    assert read.frame["yes"].to_list() == [0.5, None, 1.0]
    assert read.frame["probability"].to_list() == [pytest.approx(0.65), None, None]
    assert read.notes == [
        "4 answers are about 3 images and tasks",
        "1 of 3 have both yes and no",
        "1 of 3 answers are neither yes nor no (tolerant): 'perhaps'",
    ]


class TestRefusals:
    @pytest.fixture
    def read(self, suite, tmp_path):
        def read(records, **options):
            return read_answers(_lines(tmp_path / "a.jsonl", records), suite, **options)

        return read

    @pytest.mark.parametrize(
        ("change", "part"),
        [(lambda rows: [{"question_id": 99999, "answer": "no"}, *rows], "99999"),
         (lambda rows: [{**rows[0], "answer": "?"}, *rows], "two different answers: rows 1 and 2"),
         (lambda _: [{"no": 1}], "no known field of answers"),
         (lambda _: [], "contains no record"),
         (lambda rows: [*rows, {"question_id": 3}], "has no field answer"),
         (lambda rows: [*rows, {"question_id": 3, "answer": 4}], "is int"),
         (lambda _: [{"question_id": "x", "answer": "no"}], "fit no question: x"),
         (lambda rows: [{**rows[0], "probability": 1.5}], "not a probability, such as 1.5"),
         (lambda rows: [{**rows[0], "probability": "p"}], "probability is not a number"),
         (lambda _: [{"question_id": 1, "text": "a", "image": "9.jpg"}], "contains questions"),
         (lambda _: [{"question_id": 1, "text": "a", "image_id": 9}], "or captions")],
    )  # fmt: skip
    def test_answers_that_do_not_fit(self, read, questions, said, change, part):
        rows = _pope_by_id(_rows(questions, said))
        fails(lambda: read(change(rows)), part, "a.jsonl")

    def test_answers_to_other_questions(self, read, questions, said):
        rows = _pope(_rows(questions, said))
        rows[4]["question"] = "Is there a zebra in the image?"
        fails(lambda: read(rows), "1 answers belong to other questions", "zebra")

    def test_fewer_answers_without_ids(self, read, questions, said):
        rows = _pope(_rows(questions, said))[1:]
        fails(lambda: read(rows), "do not fit", "`questions`")

    def test_missing_answers_are_named(self, read, questions, said, tmp_path):
        rows = _pope_by_id(_rows(questions, said))[:-2]
        fails(
            lambda: read(rows),
            "1,198 answers",
            "drawn by default, of which there are 1,200",
            "`questions`",
        )
        asked = zip(rows, questions["text"][::-1], strict=False)
        texts = [{**row, "question": text} for row, text in asked]
        missing = "2 of 1,200 questions have no answer: 1, 2"
        assert missing in read(texts).notes
        questions.write_parquet(tmp_path / "asked.parquet")
        assert read(rows, questions=tmp_path / "asked.parquet").notes == [missing]

    def test_an_unknown_rule(self, read):
        said = [{"question_id": 1, "answer": "no"}]
        refused(lambda: read(said, rule="popes"), "did you mean pope")

    @pytest.mark.parametrize(
        "content", [b"{", b"[1]", b"\xff\xfe\x00", b'{"a": 1} oops', b"", b"[" * 5000]
    )
    def test_files_that_are_not_json_records(self, suite, tmp_path, content):
        (tmp_path / "a.json").write_bytes(content)
        fails(lambda: read_answers(tmp_path / "a.json", suite), "a.json")


def test_objects_one_after_the_other(suite, questions, said, tmp_path):
    rows = _pope_by_id(_rows(questions, said))
    (tmp_path / "a.json").write_text("\n".join(json.dumps(row, indent=4) for row in rows))
    (tmp_path / "b.json").write_text(json.dumps(rows))
    first, second = (read_answers(tmp_path / name, suite).frame for name in ("a.json", "b.json"))
    assert first.equals(second)


@pytest.mark.parametrize(
    ("criterion", "rates"),
    [
        ("ce", [(0.167, 48), (0.052, 211), (0.636, 22), (0.8, 30)]),
        ("gist", [(0.167, 66), (0.041, 193), (0.652, 23), (0.793, 29)]),
    ],
)
def test_answers_of_llava_on_the_published_sets(shared_data, criterion, rates):
    """Rates of yes, computed elsewhere from the same files."""
    vlm, suite = shared_data / "vlm", load_suite("nooch-coco")
    asked = vlm / "pope" / "llava_pope_test.jsonl"
    read = read_answers(vlm / "answers" / "llava-1.5-7b.jsonl", suite, questions=asked)
    assert read.notes[-1] == "528 answers are about 311 images and tasks"
    said = {(i, task): yes for i, task, yes in read.frame["image_id", "task", "yes"].iter_rows()}
    names = ["hard_negative", "easy_negative", "hard_positive", "easy_positive"]
    of = {name: [] for name in names}
    for key in suite.keys:
        if key[0] == criterion:
            challenge = suite.set(*key)
            for name in names:
                pairs = ((image, key[1]) for image in challenge.ids(name))
                of[name] += [said[pair] for pair in pairs if pair in said]
    assert [(round(np.mean(of[name]), 3), len(of[name])) for name in names] == rates


def _truth(questions, said):
    return [("no", "yes")[q["label"]] for q in questions.iter_rows(named=True)]


@pytest.mark.parametrize("name", ["prediction", "response", "pred", "text", "output"])
@pytest.mark.parametrize("layout", ["json", "csv"])
def test_the_truth_is_never_read_as_the_answer(suite, questions, tmp_path, name, layout):
    """A model that always says yes, next to the true answers."""
    rows = pl.DataFrame({"question_id": questions["question_id"], "question": questions["text"],
                         "Answer": _truth(questions, None), name: "Yes"})  # fmt: skip
    file = tmp_path / f"a.{layout}"
    (rows.write_json if layout == "json" else rows.write_csv)(file)
    fails(lambda: load_predictions(file, suite), f"answer ('no') and {name} ('Yes')", "`answers`")
    read = read_answers(file, suite, answers=name)
    assert read.frame["yes"].to_list() == [1.0] * len(questions)
    assert not any("warning" in note for note in read.notes)
    # the other reading is the labels, which is noticed
    (run,) = load_predictions(file, suite, answers="Answer")
    assert "column answer" in run.read
    assert any("1,200 answers (column answer) are the labels of the suite" in n for n in run.notes)
    refused(lambda: load_predictions(file, suite, answers="none"), "has no column none")


@pytest.mark.parametrize("answer", ["answer", "label", "gt_answer", "target"])
def test_formats_of_tools_and_columns_of_truth_need_no_question(suite, questions, tmp_path, answer):
    frame = questions.select(index="question_id", question="text", category=pl.lit("x"))
    frame = frame.with_columns(pl.lit("No").alias("prediction"), pl.lit("Yes").alias(answer))
    frame.write_csv(tmp_path / "a.csv")
    assert set(read_answers(tmp_path / "a.csv", suite).frame["yes"]) == {0.0}


def _named_rows(questions, said):
    image = "COCO_val2014_{:012d}.jpg".format
    return [{"image": image(q["image_id"]), "text": q["text"], "label": "no", "response": a,
             "question_id": q["question_id"]} for q, a in _rows(questions, said)]  # fmt: skip


@pytest.mark.parametrize("ids", ["right", "of the order", "none"])
def test_image_and_question_join_answers_in_any_order(suite, questions, said, tmp_path, ids):
    rows = _named_rows(questions, said)[::-1]
    for number, row in enumerate(rows):
        if ids != "right":
            row["question_id"] = number + 1
        if ids == "none":
            del row["question_id"]
    questions.write_parquet(tmp_path / "asked.parquet")
    file = _lines(tmp_path / "a.jsonl", rows)
    for given in ({"questions": tmp_path / "asked.parquet"}, {}):
        read = read_answers(file, suite, **given)
        expected = questions.with_columns(yes=pl.Series(said) == "Yes").sort("image_id", "task")
        assert read.column == "response"
        assert (read.frame["yes"] == 1).equals(expected["yes"])
        assert read.frame["weight"].equals(expected["weight"])


def test_rows_that_are_there_twice(suite, questions, said, tmp_path):
    rows = _named_rows(questions, said)
    once = read_answers(_lines(tmp_path / "a.jsonl", rows), suite)
    twice = read_answers(_lines(tmp_path / "b.jsonl", [*rows, *rows[3:5]]), suite)
    assert twice.frame.equals(once.frame)
    assert "2 answers occur twice and count once: rows 4 and 1201" in twice.notes
    # also of questions that are not those drawn by default: none of them is unanswered
    few = [{k: v for k, v in row.items() if k != "question_id"} for row in rows[:60]]
    for path, again in (("d.jsonl", few), ("e.jsonl", [*few, *few[:7]])):
        read = read_answers(_lines(tmp_path / path, again), suite)
        assert read.frame["yes"].null_count() == 0
        assert not [note for note in read.notes if "no answer" in note]
    other = {**rows[3], "response": "Perhaps"}
    file = _lines(tmp_path / "c.jsonl", [*rows, other])
    fails(lambda: read_answers(file, suite), "rows 4 and 1201", "Perhaps", "remove one")


def test_numbers_0_and_1_are_no_and_yes(suite, questions, said, tmp_path):
    rows = _named_rows(questions, said)
    numbers = [{**row, "response": int(row["response"] == "Yes")} for row in rows]
    words, ones = (
        read_answers(_lines(tmp_path / f"{len(part)}{type(part[0]['response']).__name__}.jsonl",
                            part), suite)
        for part in (rows, numbers)
    )  # fmt: skip
    assert ones.frame["yes"].equals(words.frame["yes"])


@pytest.mark.parametrize(
    "boxes",
    [[12, 40, 200, 310], [[0.5, 1e-05, 1, 0.25]], [[1, 2, 3, 4], [5, 6, 7, 8]], "[[1, 2, 3, 4]]"],
)
def test_boxes_are_yes_but_by_the_rules_of_other_tools(suite, questions, tmp_path, boxes):
    file = _lines(tmp_path / "a.jsonl", _named_rows(questions, [boxes] * len(questions)))
    assert read_answers(file, suite, rule="pope").frame["yes"].eq(1).all()
    assert read_answers(file, suite).frame["yes"].eq(1).all()
    assert read_answers(file, suite, rule="lmms-eval").frame["yes"].is_null().all()


@pytest.mark.parametrize("several", [[], ["Yes", "No"], [1, 2, 3], [[1, 2, 3, 4], "No"]])
def test_other_lists_are_no_answers(suite, questions, tmp_path, several):
    file = _lines(tmp_path / "a.jsonl", _named_rows(questions, [several] * len(questions)))
    fails(lambda: read_answers(file, suite), "the response of record 1 is list", "or boxes")


def test_truth_values_and_packed_files(suite, questions, said, tmp_path):
    rows = [{**row, "response": row["response"] == "Yes"} for row in _named_rows(questions, said)]
    plain = _lines(tmp_path / "a.jsonl", rows)
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(plain.read_bytes()))
    with ZipFile(tmp_path / "c.zip", "w") as archive:
        archive.write(plain, "folder/c.jsonl")
        archive.writestr("__MACOSX/._c.jsonl", "x")
    (tmp_path / "d.json").write_text(json.dumps({"model": "x", "results": rows}))
    mme = [f"{r['image']}\t{r['text']} Please answer yes or no.\tNo\t{a}"
           for r, a in zip(rows, said, strict=True)]  # fmt: skip
    (tmp_path / "e.txt").write_text("\n".join(mme))
    runs = load_predictions([*sorted(tmp_path.iterdir())], suite)
    assert [run.run for run in runs] == ["a", "b", "c", "d", "e"]
    expected = questions.with_columns(yes=pl.Series(said) == "Yes").sort("image_id", "task")
    for run in runs:
        assert run.said.sort("image_id", "task")["yes"].eq(1).equals(expected["yes"])


def test_packed_files_that_are_refused(suite, tmp_path):
    with ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a.json", "[]")
        archive.writestr("b.json", "[]")
    fails(lambda: read_answers(tmp_path / "a.zip", suite), "contains 2 files: a.json, b.json")
    (tmp_path / "a.json.gz").write_bytes(b"no gzip")
    fails(lambda: read_answers(tmp_path / "a.json.gz", suite), "is damaged")
    (tmp_path / "b.json.gz").write_bytes(gzip.compress(b"{"))
    fails(lambda: read_answers(tmp_path / "b.json.gz", suite), f"{tmp_path / 'b.json.gz'}: record")
