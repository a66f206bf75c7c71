"""Questions as a task of lmms-eval."""

import ast
import importlib.util
import io
import json
import math
from dataclasses import replace
from functools import partial

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import given, strategies as st
from PIL import Image
from refusals import fails

from nooch.evaluation.answer_rules import EXACT
from nooch.evaluation.answers import read_answers
from nooch.report.exports import lmms_eval_functions as functions
from nooch.report.exports.export import export
from nooch.suites.questions import load_questions

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
    assert [metric["metric"] for metric in task["metric_list"]] == METRICS
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


PAIRS = st.tuples(st.sampled_from(["yes", "no"]), st.sampled_from(["Yes", "no ", "Yes.", ""]))


@given(st.lists(PAIRS, min_size=1))
def test_metrics_are_counted(pairs):
    results = [
        functions.process_results({"question_id": n, "answer": target}, [text])
        for n, (target, text) in enumerate(pairs)
    ]
    assert all(list(result) == METRICS for result in results)
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
    with pytest.raises(ValueError, match="no path below"):
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
