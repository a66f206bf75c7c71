"""The Hugging Face folder: tables equal the suite, the card parses."""

import base64
import re
import shutil
from html import unescape
from itertools import product

import polars as pl
import pytest
import yaml
from hypothesis import given, strategies as st
from markdown_it import MarkdownIt
from oracles import suite_rows
from refusals import fails, refused

from nooch.base.errors import InputError
from nooch.report.exports.benchmark import PATTERN, eval_yaml, task_id
from nooch.report.exports.contract import one_line
from nooch.report.exports.export import export
from nooch.report.exports.hugging_face import markdown
from nooch.suites import ChallengeSet, Suite
from nooch.suites.questions import Draw, draw_questions


@pytest.fixture
def folder(made, tmp_path):
    export(made.suite, "hf", tmp_path / "out", data=made.data)
    return tmp_path / "out"


def front_matter(folder):
    text = (folder / "README.md").read_text(encoding="utf-8")
    head, _, body = text.removeprefix("---\n").partition("\n---\n")
    return yaml.safe_load(head), body


def test_tables_hold_the_suite(made, folder):
    names = dict(made.data.images.select("image_id", "file_name").rows())
    expected = {}
    for image_id, criterion, task, split, *about in suite_rows(made.suite):
        row = (image_id, names[image_id], task, *about)
        expected.setdefault((criterion, split), []).append(row)
    assert set(expected) == set(product(("ce", "~ce"), ("valid", "test")))
    for (criterion, split), rows in expected.items():
        path = {"ce": "ce", "~ce": "+7Ece"}[criterion]
        found = pl.read_parquet(folder / "data" / path / f"{split}.parquet")
        assert found.columns == ["image_id", "file_name", "task", "label", "subset", "support"]
        assert found.rows() == rows


def test_the_card_says_where_each_table_is(folder):
    front, _ = front_matter(folder)
    assert front["license"] == "other"
    assert front["license_link"] == "LICENSES.txt"
    assert (folder / front["license_link"]).is_file()
    assert front["task_categories"] == ["image-classification"]
    assert front["size_categories"] == ["n<1K"]
    assert [config["config_name"] for config in front["configs"]] == ["ce", "+7Ece"]
    files = [file for config in front["configs"] for file in config["data_files"]]
    assert {file["split"] for file in files} == {"valid", "test"}
    written = {p.relative_to(folder).as_posix() for p in folder.rglob("*.parquet")}
    assert sorted(file["path"] for file in files) == sorted(written)


def test_the_card_counts(made, folder):
    _, body = front_matter(folder)
    lines = [line.strip("|").split("|") for line in body.splitlines() if line.startswith("| ce ")]
    rows = [[cell.strip() for cell in cells] for cells in lines]
    records = [made.suite.record("ce", task, "test") for task in ("car", "fire_hydrant")]
    hard = [sum(r.hard_positives for r in records), sum(r.hard_negatives for r in records)]
    rows_of_test = pl.read_parquet(folder / "data" / "ce" / "test.parquet").height
    assert ["ce", "test", "2", str(rows_of_test), *map(str, hard)] in rows


def test_file_names_are_left_out_where_nobody_knows_them(made, tmp_path, published):
    export(published, "hf", tmp_path / "out")
    found = pl.read_parquet(tmp_path / "out" / "data" / "ce" / "test.parquet")
    assert "file_name" not in found.columns
    assert found["support"].null_count() == found.height > 0
    assert front_matter(tmp_path / "out")[0]["license"] == "unknown"
    assert "license_link" not in front_matter(tmp_path / "out")[0]


def test_the_split_all_has_a_name_that_is_free_there(make_suite, tmp_path):
    export(make_suite({"ce": ["car"]}, ["a", "b", "c", "d"], split="all"), "hf", tmp_path / "out")
    front, _ = front_matter(tmp_path / "out")
    file = {"split": "full", "path": "data/ce/full.parquet"}
    assert front["configs"] == [{"config_name": "ce", "data_files": [file]}]
    found = pl.read_parquet(tmp_path / "out" / "data" / "ce" / "full.parquet")
    assert found["image_id"].to_list() == ["a", "b", "c", "d"]


NASTY = "---\nlicense: mit\n<script>alert(1)</script> | [x](y) `*_#"


def test_what_users_name_is_only_text(make_suite, tmp_path):
    suite = make_suite({NASTY: [NASTY]}, [1, 2, 3, 4], licenses=[{"name": NASTY, "url": "x\n# y"}])
    export(suite, "hf", tmp_path / "out", licenses=[NASTY])
    front, body = front_matter(tmp_path / "out")
    assert front["license"] == "other"
    shown = MarkdownIt("commonmark").enable("table").render(body)
    assert "<script" not in shown
    assert "<a" not in shown
    assert shown.count("&lt;script&gt;alert(1)&lt;/script&gt;") == 3
    assert shown.count("<tr>") == 2 + 2
    assert shown.count("<h2>") == 4
    for path in (tmp_path / "out").rglob("*"):
        assert path.parent.name in {"out", "data"} or path.parent.parent.name == "data"


def test_criteria_never_share_a_folder(make_suite, tmp_path):
    suite = make_suite({"mine": ["car"], "Mine": ["car"]}, [1, 2, 3, 4])
    refused(lambda: export(suite, "hf", tmp_path / "out"), "would both be written")
    assert list(tmp_path.iterdir()) == []


TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@given(TEXT)
def test_markdown_shows_every_text_as_it_is(text):
    shown = MarkdownIt("commonmark").render(markdown(text))
    assert unescape(shown.removeprefix("<p>").removesuffix("</p>\n")) == one_line(text)


def test_without_images_no_benchmark_is_written(made, folder, run_cli, tmp_path):
    done = run_cli(f"export {made.folder}/suite {tmp_path}/plain --to hf").ok()
    assert "no eval.yaml, as a benchmark of the Hub has; --images adds it" in done.err
    assert not (tmp_path / "plain" / "eval.yaml").exists()
    run_cli(f"export {made.folder}/suite {tmp_path}/no --to hf --per-set 2").refused("per_set")


def test_with_images_the_questions_are_a_configuration(made, run_cli, tmp_path):
    """A split for each cell, each image as it is; only of the splits that are scored."""
    out = tmp_path / "out"
    options = f"--to hf --images {made.folder}/images --per-set 2 --seed 1"
    done = run_cli(f"export {made.folder}/suite {out} {options}").ok()
    front, body = front_matter(out)
    paths = {file["split"]: file["path"] for file in front["configs"][-1]["data_files"]}
    assert [config["config_name"] for config in front["configs"]] == ["ce", "+7Ece", "questions"]
    assert set(pl.read_parquet(out / "questions.parquet")["split"]) == {"test"}
    tasks = yaml.safe_load((out / "eval.yaml").read_text())["tasks"]
    assert {task["split"]: task["id"] for task in tasks} == {
        cell: f"ce-test-{cell}" for cell in paths
    }
    drawn = {
        row["question_id"]: row
        for row in draw_questions(
            made.suite, made.suite.select_keys(splits=["test"]), Draw(2, seed=1)
        ).frame.to_dicts()
    }
    seen = set()
    for cell, path in paths.items():
        for row in pl.read_parquet(out / path).to_dicts():
            about = drawn[row["question_id"]]
            file = made.folder / "images" / row["file_name"]
            assert base64.b64decode(row["image"].partition("base64,")[2]) == file.read_bytes()
            assert about["ce"] == cell
            assert row["answer"] == ("yes" if about["label"] else "no")
            assert [row[name] for name in ("image_id", "task", "question", "weight")] == [
                about[name] for name in ("image_id", "task", "text", "weight")
            ]
            assert re.search(PATTERN, f"*{row['answer']}*, it is.")[1] == row["answer"]
            seen.add(row["question_id"])
        assert f"| {cell.replace('_', chr(92) + '_')} |" in body
    assert seen == set(drawn)
    words = " ".join(done.err.split())
    assert "Inspect AI counts questions alike, nooch by their weights, unless --per-set" in words
    run_cli(f"export {made.folder}/suite {out} {options} --per-set all --overwrite").ok()


def test_questions_without_a_verdict_are_in_no_task(made, tmp_path):
    sets = {key: made.suite.set(*key) for key in made.suite.keys if key[2] == "test"}
    for key, one in sets.items():
        if key[:2] == ("ce", "car"):
            parts = one.image_ids[1:], one.labels[1:], one.subset[1:]
            sets[key] = ChallengeSet(*key, *parts)
    suite = Suite.from_sets(
        sets, dataset=made.suite.header.dataset, criteria=made.suite.header.criteria, skipped=[],
        tasks=made.suite.tasks, splits=["test"],
    )  # fmt: skip
    out, options = tmp_path / "out", {"images": made.folder / "images", "per_set": None}
    done = export(suite, "hf", out, data=made.data, **options)
    assert "1 question without a verdict of ce: in no task" in done.notes
    rows = [pl.read_parquet(file).height for file in (out / "data" / "questions").iterdir()]
    assert sum(rows) == pl.read_parquet(out / "questions.parquet").height - 1


def test_what_is_no_image_leaves_nothing(made, tmp_path, make_suite):
    shutil.copytree(made.folder / "images", tmp_path / "images")
    for file in (tmp_path / "images").iterdir():
        file.write_text("no image")
    options = {"data": made.data, "images": tmp_path / "images"}
    fails(lambda: export(made.suite, "hf", tmp_path / "out", **options), "is not an image",
          kind=InputError, helps=False)  # fmt: skip
    assert [path.name for path in tmp_path.iterdir()] == ["images"]
    suite = make_suite({"Questions": ["car"]}, [1, 2, 3, 4])
    options = {"images": made.folder / "images"}
    refused(lambda: export(suite, "hf", tmp_path / "out", **options), "would both be written")


SPLITS = st.lists(TEXT, min_size=1, max_size=2)


@given(TEXT, SPLITS)
def test_task_ids_are_safe_in_paths(criterion, splits):
    """Inspect AI divides ``hf/OWNER/NAME/TASK@REVISION`` at slashes and at."""
    name = task_id(criterion, splits, "easy_negative")
    assert re.fullmatch(r"[A-Za-z0-9_.=+-]+", name)
    assert name == task_id(criterion, splits[::-1], "easy_negative")
    text = eval_yaml("name", criterion, splits, ["easy_negative", "hard_negative"])
    read = yaml.safe_load(text)
    assert [task["id"] for task in read["tasks"]][1:] == [name]
    assert read["evaluation_framework"] == "inspect-ai"
    assert not re.search(r"[&*]id\d", text)
