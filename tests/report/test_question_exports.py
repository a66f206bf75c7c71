"""Questions in POPE's format, as VLMEvalKit's TSV, and as a task of lmms-eval."""

import ast
import base64
import importlib.util
import io
import json
import math
from dataclasses import replace
from functools import partial

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import given, strategies as st
from PIL import Image
from refusals import fails, refused

import nooch
from nooch.data import read_table
from nooch.evaluation.answer_rules import EXACT
from nooch.evaluation.answers import read_answers
from nooch.report.exports import lmms_eval_functions as functions
from nooch.report.exports.export import export
from nooch.suites import load_suite
from nooch.suites.questions import load_questions


def test_each_line_is_a_question_of_the_table(made, run_cli, tmp_path):
    out = tmp_path / "pope"
    run_cli(f"export {made.folder}/suite {out} --to pope --per-set 2 --seed 3").ok()
    lines = [json.loads(line) for line in (out / "questions.json").read_text().splitlines()]
    table = load_questions(out / "questions.parquet")
    assert set(table.frame["split"]) == {"test"}
    assert table.criteria == ("ce", "~ce")
    answer = pl.when(pl.col("label") == 1).then(pl.lit("yes")).otherwise(pl.lit("no"))
    columns = ("question_id", "image", "text", answer.alias("label"))
    assert lines == table.frame.select(columns).to_dicts()
    names = dict(made.data.images.select("image_id", "file_name").iter_rows())
    assert table.frame["image"].to_list() == [names[i] for i in table.frame["image_id"]]
    for task, a in (("car", "a car"), ("fire_hydrant", "a fire hydrant")):
        texts = table.frame.filter(pl.col("task") == task)["text"].unique().to_list()
        assert texts == [f"Is there {a} in the image?"]


def test_all_images_of_both_splits(made, run_cli, tmp_path):
    out = tmp_path / "pope"
    options = "--to pope --per-set all --split valid,test"
    done = run_cli(f"export {made.folder}/suite {out} {options}").ok()
    table = load_questions(out / "questions.parquet").frame
    images = made.data.images.filter(pl.col("split") != "train").height
    assert table.height == 2 * images
    assert (table["weight"] == 1).all()
    assert f"{table.height} questions on {images} images" in done.err


NAMES = ["train2017/{:012d}.jpg", "val2017/{:012d}.jpg"]
NAMES += ["train2014/COCO_train2014_{:012d}.jpg", "val2014/COCO_val2014_{:012d}.jpg"]


def test_the_suite_of_the_package_needs_images_alone(run_cli, tmp_path):
    suite = load_suite("nooch-coco")
    sets = [suite.set(*key).image_ids for key in suite.keys if key[2] == "test"]
    ids = pl.concat(sets).unique(maintain_order=True).to_list()
    assert len(ids) == 24_657
    for name in NAMES:
        (tmp_path / "coco" / name).parent.mkdir(parents=True)
    files = {i: NAMES[i % 4].format(i) for i in ids}
    for file in files.values():
        (tmp_path / "coco" / file).touch()
    done = run_cli(f"export nooch-coco {tmp_path}/q --to pope --images {tmp_path}/coco").ok()
    assert "CC BY 4.0" in (tmp_path / "q" / "LICENSES.txt").read_text()
    table = load_questions(tmp_path / "q" / "questions.parquet")
    assert f"{len(table):,} questions on" in done.err
    assert table.criteria == ("ce", "gist")
    asked = table.frame
    assert asked["image"].to_list() == [files[i] for i in asked["image_id"]]
    drawn = asked.group_by("task", "label", "ce", "gist").len()
    assert drawn["len"].max() == 50
    # the weights stand for all images of the sets
    hard = asked.filter(pl.col("ce") == "hard_negative")
    counts = [suite.record("ce", task, "test").hard_negatives for task in suite.tasks]
    assert hard["weight"].sum() == pytest.approx(sum(counts))


def test_images_of_which_some_are_missing_are_a_partial_run(run_cli, tmp_path, monkeypatch):
    """As in a folder of only val2014: weights, interval and headline are of what is there."""
    monkeypatch.chdir(tmp_path)
    run_cli("export nooch-coco all --to pope --tasks car,cup").ok()
    whole = load_questions(tmp_path / "all" / "questions.parquet")
    ids = whole.frame["image_id"].unique().sort().to_list()
    for image_id in ids[::3]:
        (tmp_path / "coco" / NAMES[3].format(image_id)).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "coco" / NAMES[3].format(image_id)).touch()
    done = run_cli("export nooch-coco some --to pope --tasks car,cup --images coco").ok()
    n = len(ids[::3])
    assert f"{n} of the {len(ids)} sampled images have questions" in done.err.replace("\n", " ")
    part = load_questions(tmp_path / "some" / "questions.parquet").frame
    assert set(part["image_id"]) == set(ids[::3])
    assert part["available_share"].unique().to_list() == [n / len(ids)]
    # the obvious way: each stratum has the weight that it had
    strata = ["task", "label", "ce", "gist"]
    sizes = {
        key: sum(f["weight"]) for key, f in whole.frame.partition_by(strata, as_dict=True).items()
    }
    for key, frame in part.partition_by(strata, as_dict=True).items():
        assert frame["weight"].to_list() == pytest.approx([sizes[key] / len(frame)] * len(frame))
    answers = [{"question_id": i, "answer": "yes" if i % 3 else "no"} for i in part["question_id"]]
    (tmp_path / "some" / "answers.json").write_text(json.dumps(answers))
    scored = run_cli("evaluate nooch-coco some/answers.json").ok()
    line = scored.out.replace("\n", " ")
    assert f"of {100 * n / len(ids):.1f}% of the drawn images, those that are there" in line
    dry = "ask nooch-coco --model none --out a.parquet --images coco --tasks car,cup --dry-run"
    assert f"{len(part):,} questions, {n} images" in run_cli(dry).ok().out
    nothing = run_cli("export nooch-coco none --to pope --tasks car --images some")
    assert "images were not found" in nothing.err.replace("\n", " ")


COLUMNS = ["index", "question", "A", "B", "answer", "category", "l2-category"]


def _written(out):
    """The table, and the questions."""
    table = pl.read_csv(out / "nooch_questions.tsv", separator="\t")
    return table, load_questions(out / "questions.parquet").frame


def test_each_row_is_a_question_of_two_options(made, run_cli, tmp_path):
    run_cli(f"export {made.folder}/suite {tmp_path}/q --to vlmevalkit --per-set 2").ok()
    table, asked = _written(tmp_path / "q")
    assert table.columns == [*COLUMNS, "image_path"]
    assert table["index"].to_list() == asked["question_id"].to_list()
    assert table["question"].to_list() == asked["text"].to_list()
    assert (set(table["A"]), set(table["B"])) == ({"Yes"}, {"No"})
    assert [a == "A" for a in table["answer"]] == (asked["label"] == 1).to_list()
    assert table["l2-category"].to_list() == asked["task"].to_list()
    assert table["category"].to_list() == [f"ce:{subset}" for subset in asked["ce"]]
    root = (made.folder / "images").resolve()
    assert table["image_path"].to_list() == [str(root / name) for name in asked["image"]]


def test_an_image_in_base64_is_written_once(made, tmp_path):
    out = tmp_path / "q"
    export(made.suite, "vlmevalkit", out, data=made.data, images_as="bytes", splits=["test"])
    table, asked = _written(out)
    assert table.columns == [*COLUMNS, "image"]
    # as the loader finds it: up to 64 characters are the index of another question
    image_of = dict(zip(table["index"].cast(pl.String), table["image"], strict=True))
    short = [text for text in image_of.values() if len(text) <= 64]
    assert len(short) == asked.height - asked["image"].n_unique() > 0
    for text, name in zip(image_of.values(), asked["image"], strict=True):
        content = image_of[text] if len(text) <= 64 else text
        assert base64.b64decode(content) == (made.folder / "images" / name).read_bytes()


def test_the_first_criterion_with_a_verdict_is_the_category(make_suite, tmp_path):
    suite = make_suite({"ce": ["car"], "gist": ["car", "dog"]}, list(range(1, 9)))
    images = tmp_path / "images"
    images.mkdir()
    for number in range(1, 9):
        (images / f"{number}.png").touch()
    export(suite, "vlmevalkit", tmp_path / "q", images=images)
    table, _ = _written(tmp_path / "q")
    rows = table.select("l2-category", pl.col("category").str.split(":").list.first()).iter_rows()
    assert set(rows) == {("car", "ce"), ("dog", "gist")}


def test_tabs_quotes_and_new_lines_stay_in_their_cell(made, tmp_path):
    template = 'Say "yes"\tor "no":\nis there {a} {task}?'
    options = {"data": made.data, "per_set": 1, "template": template}
    export(made.suite, "vlmevalkit", tmp_path / "q", **options)
    table, asked = _written(tmp_path / "q")
    assert table["question"].to_list() == asked["text"].to_list()
    assert "\t" in table["question"][0]


def test_no_cell_is_a_formula(made, tmp_path):
    options = {"data": made.data, "per_set": 1, "template": '=HYPERLINK("x{task}")'}
    export(made.suite, "vlmevalkit", tmp_path / "q", **options)
    table, asked = _written(tmp_path / "q")
    assert table["question"].to_list() == [f"'{text}" for text in asked["text"]]
    back = read_table(tmp_path / "q" / "nooch_questions.tsv")
    assert back["question"].to_list() == asked["text"].to_list()


def test_its_predictions_lead_back_to_the_questions(made, tmp_path):
    export(made.suite, "vlmevalkit", tmp_path / "q", data=made.data, per_set=2)
    table, asked = _written(tmp_path / "q")
    file = tmp_path / "q" / "model_nooch_questions.tsv"
    predictions = table.with_columns(prediction=pl.col("answer"))
    predictions.write_csv(file, separator="\t", quote_style="always")
    answers = read_answers(file, made.suite)
    assert answers.rule == "tolerant"
    keys = ["image_id", "task"]
    assert answers.frame.sort(keys)["yes"].to_list() == asked.sort(keys)["label"].to_list()


def test_it_needs_image_files(made, tmp_path):
    bare = replace(made.data, image_root=str(tmp_path / "gone"))
    write = partial(export, made.suite, "vlmevalkit", tmp_path / "q", data=made.data)
    fails(lambda: write(data=bare), "needs the image files", "`images`")
    refused(lambda: write(images_as="base64"), "'base64' is not an images_as", "bytes, paths")
    images = tmp_path / "images"
    images.mkdir()
    for name in made.data.images["file_name"]:
        (images / name).write_bytes(b"no image")
    text = fails(lambda: write(data=bare, images=images, images_as="bytes"), "8 bytes", helps=False)
    assert "is not an image" in text
    assert not (tmp_path / "q").exists()


def test_a_file_that_leads_out_of_the_folder_is_not_read(made, published, tmp_path):
    outside = made.data.images.with_columns(file_name=pl.lit("../secret.png"))
    (tmp_path / "images").mkdir()
    (tmp_path / "secret.png").write_bytes(bytes(100))
    data = replace(made.data, images=outside, image_root=str(tmp_path / "images"))
    act = partial(export, published, "vlmevalkit", tmp_path / "q", data=data, images_as="bytes")
    fails(act, "images were not found")


METRICS = ["accuracy", "precision", "recall", "f1", "yes_rate"]
PROMPTS = {"pre_prompt": "Look. ", "post_prompt": " Say yes or no."}


def _functions(out):
    """The written ``utils.py`` as a module."""
    spec = importlib.util.spec_from_file_location("utils", out / "utils.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _task(out):
    class Loader(yaml.SafeLoader):
        pass

    Loader.add_constructor("!function", lambda loader, node: loader.construct_scalar(node))
    return yaml.load((out / "nooch_questions.yaml").read_text(), Loader)


@pytest.fixture(params=["paths", "bytes"])
def out(request, made, run_cli, tmp_path):
    out = tmp_path / "q"
    options = f"--to lmms-eval --per-set 2 --images-as {request.param}"
    done = run_cli(f"export {made.folder}/suite {out} {options}").ok()
    assert "questions on" in done.err
    return out


def test_the_task_names_what_is_there(out):
    task, written = _task(out), _functions(out)
    assert task["task"] == "nooch_questions"
    assert task["output_type"] == "generate_until"
    data = pl.read_parquet(out / task["dataset_kwargs"]["data_files"][task["test_split"]])
    assert task["doc_to_target"] in data.columns
    named = [task[key] for key in ("doc_to_visual", "doc_to_text", "process_results")]
    named += [metric["aggregation"] for metric in task["metric_list"]]
    assert all(callable(getattr(written, name.removeprefix("utils."))) for name in named)
    better = {metric["metric"]: metric["higher_is_better"] for metric in task["metric_list"]}
    assert better == dict.fromkeys(METRICS, True) | dict.fromkeys(functions.FALSE_YES, False)
    assert set(task["lmms_eval_specific_kwargs"]["default"]) == {"pre_prompt", "post_prompt"}


def test_utils_imports_nothing_of_nooch(out):
    nodes = list(ast.walk(ast.parse((out / "utils.py").read_text())))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module for node in nodes if isinstance(node, ast.ImportFrom)]
    assert set(names) == {"__future__", "math", "pathlib", "typing", "PIL"}


def test_each_document_is_a_question_with_its_image(out, made):
    written = _functions(out)
    asked = load_questions(out / "questions.parquet").frame
    docs = pl.read_parquet(out / "docs.parquet")
    assert docs["question_id"].to_list() == asked["question_id"].to_list()
    assert docs["question"].to_list() == asked["text"].to_list()
    assert [answer == "yes" for answer in docs["answer"]] == (asked["label"] == 1).to_list()
    criterion = load_questions(out / "questions.parquet").criteria[0]
    assert docs.select("subset", "weight").rows() == asked.select(criterion, "weight").rows()
    for doc, name in zip(docs.iter_rows(named=True), asked["image"], strict=True):
        if isinstance(doc["image"], dict):
            # the column is one of images for `datasets`, which opens them
            assert doc["image"]["path"] == name
            doc["image"] = Image.open(io.BytesIO(doc["image"]["bytes"]))
        (image,) = written.doc_to_visual(doc)
        expected = Image.open(made.folder / "images" / name).convert("RGB")
        assert (image.mode, image.tobytes()) == ("RGB", expected.tobytes())
        assert written.doc_to_text(doc, PROMPTS) == f"Look. {doc['question']} Say yes or no."


def test_images_in_the_table_are_marked_as_images(out):
    schema = pq.read_schema(out / "docs.parquet")
    if schema.metadata is None:
        assert pl.read_parquet_schema(out / "docs.parquet")["image"] == pl.String
        return
    info = json.loads(schema.metadata[b"huggingface"])["info"]
    assert info == {"features": {"image": {"_type": "Image"}}}
    # `datasets` follows the mark only where the type is exactly that of its images
    image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    assert schema.field("image").type == image


def test_samples_lead_back_to_the_questions(out, made, tmp_path):
    """The lines that lmms-eval logs, as it writes them: in any order, without the document."""
    written, docs = _functions(out), pl.read_parquet(out / "docs.parquet")
    words = ["Yes", " no\n", "Yes, there is one."]
    lines = []
    for number, doc in enumerate(docs.iter_rows(named=True)):
        text = words[number % 3]
        sample = {"doc_id": number % 4, "target": doc["answer"], "filtered_resps": [text]}
        lines.append({**sample, **written.process_results(doc, [text])})
    file = out / "20260101_samples_nooch_questions.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in reversed(lines)))
    assert read_answers(file, made.suite).frame["yes"].null_count() == 0
    answers = read_answers(file, made.suite, rule="lmms-eval")
    asked = load_questions(out / "questions.parquet").frame
    said = {
        (i, task): {0: 1.0, 1: 0.0}.get(number % 3)
        for number, (i, task) in enumerate(asked.select("image_id", "task").iter_rows())
    }
    rows = answers.frame.select("image_id", "task", "yes").iter_rows()
    assert {(i, task): yes for i, task, yes in rows} == said


def test_yes_to_absent_objects_is_what_evaluate_gives(out, made):
    """By the context, weighted to the challenge sets; in the harness without nooch."""
    written, docs = _functions(out), pl.read_parquet(out / "docs.parquet")
    draw, results, rows = np.random.default_rng(0), [], []
    for doc in docs.iter_rows(named=True):
        text = "Yes" if draw.random() < 0.7 else "No"
        results.append(written.process_results(doc, [text])["false_yes_hard"])
        rows.append(
            {"question_id": doc["question_id"], "question": doc["question"], "answer": text}
        )
    pl.DataFrame(rows).write_ndjson(out / "answers.jsonl")
    suite = load_suite(f"{made.folder}/suite")
    scores = nooch.evaluate(suite, out / "answers.jsonl")
    criterion = load_questions(out / "questions.parquet").criteria[0]
    (rates,) = (rates for (_, name), rates in scores.contexts.items() if name == criterion)
    for name in ("hard", "easy"):
        value = rates.estimates["rate", f"{name}_negative"].value
        assert getattr(written, f"false_yes_{name}")(results) == pytest.approx(value)
    ratio = rates.estimates["ratio", "negative"].value
    assert written.false_yes_ratio(results) == pytest.approx(ratio)


PAIRS = st.tuples(st.sampled_from(["yes", "no"]), st.sampled_from(["Yes", "no ", "Yes.", ""]))


@given(st.lists(PAIRS, min_size=1))
def test_metrics_are_counted(pairs):
    results = [
        functions.process_results({"question_id": n, "answer": target}, [text])
        for n, (target, text) in enumerate(pairs)
    ]
    assert all(list(result) == [*METRICS, *functions.FALSE_YES] for result in results)
    said = [EXACT["lmms-eval"](text) for _, text in pairs]
    truth = [target == "yes" for target, _ in pairs]
    yes, true = said.count(True), truth.count(True)
    hits = sum(s is True and t for s, t in zip(said, truth, strict=True))
    expected = {
        "accuracy": sum(s is t for s, t in zip(said, truth, strict=True)) / len(pairs),
        "precision": hits / yes if yes else math.nan,
        "recall": hits / true if true else math.nan,
        "f1": 2 * hits / (yes + true) if yes + true else math.nan,
        "yes_rate": yes / len(pairs),
    }
    for name in METRICS:
        value = getattr(functions, name)([result[name] for result in results])
        assert value == pytest.approx(expected[name], nan_ok=True)


@pytest.mark.parametrize("name", ["../secret.png", "/etc/hostname", "a/../../b.png"])
def test_no_image_is_read_outside_the_folder(name):
    with pytest.raises(ValueError, match="not a path below"):
        functions.doc_to_visual({"image": name})


def test_without_a_folder_of_images_the_note_says_where_they_belong(made, published, tmp_path):
    data = replace(made.data, image_root=None)
    done = export(published, "lmms-eval", tmp_path / "q", data=data, per_set=1)
    assert any(str(tmp_path / "q" / "images") in note for note in done.notes)
    (tmp_path / "q" / "images").symlink_to(made.folder / "images")
    doc = pl.read_parquet(tmp_path / "q" / "docs.parquet").row(0, named=True)
    assert _functions(tmp_path / "q").doc_to_visual(doc)[0].size == (10, 10)
    act = partial(export, published, "lmms-eval", tmp_path / "b", data=data, images_as="bytes")
    fails(act, "needs the image files", "`images`")
    assert not (tmp_path / "b").exists()
