"""Scores as files: everything with full precision, written atomically."""

import json
from functools import partial

import polars as pl
import pytest
from refusals import fails
from scored import logits, small_suite

import nooch
from nooch.base.errors import OutputError, ParameterError
from nooch.evaluation import evaluate
from nooch.report import SCORE_FILES, as_json, save_scores


@pytest.fixture(scope="module")
def scores():
    suite = small_suite()
    return evaluate(suite, {"a": logits(suite), "b": logits(suite, seed=1)}, bootstrap=20)


@pytest.mark.parametrize("ending", [".parquet", ".csv"])
def test_tables_come_back_bit_by_bit(scores, tmp_path, ending):
    files = save_scores(scores, tmp_path / f"s{ending}")
    assert [file.name for file in files] == [f"s{ending}", f"s-differences{ending}"]
    read = pl.read_parquet if ending == ".parquet" else pl.read_csv
    for file, table in zip(files, (scores.table, scores.differences), strict=True):
        again = read(file).cast(dict(table.schema))
        assert again.equals(table)
    assert scores.table["value"].dtype == pl.Float64


def test_json_holds_everything(scores, tmp_path):
    (file,) = save_scores(scores, tmp_path / "s.json")
    content = json.loads(file.read_text())
    assert content["scores"] == scores.table.to_dicts()
    assert content["differences"] == scores.differences.to_dicts()
    assert content["settings"]["bootstrap"] == 20
    assert content == json.loads(json.dumps(as_json(scores)))
    nulls = [row for row in content["scores"] if row["value"] is None]
    assert nulls
    assert all(row["reason"] for row in nulls)


@pytest.mark.parametrize(("ending", "words"), [(".md", "| task | run |"), (".tex", r"\toprule")])
def test_tables_for_papers(scores, tmp_path, ending, words):
    (file,) = save_scores(scores, tmp_path / f"s{ending}", metrics=["ece"])
    text = file.read_text()
    assert words in text
    assert "ECE hard" in text
    assert "AUC" not in text


@pytest.mark.parametrize("ending", SCORE_FILES)
def test_the_same_scores_give_the_same_bytes(scores, tmp_path, ending):
    files = [save_scores(scores, tmp_path / folder / f"s{ending}")[0] for folder in "ab"]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_one_run_has_no_file_of_differences(tmp_path):
    suite = small_suite()
    nooch.save_scores(evaluate(suite, logits(suite)), tmp_path / "s.csv")
    assert [file.name for file in tmp_path.iterdir()] == ["s.csv"]


@pytest.mark.parametrize("name", ["s", "s.txt", "s.npz", "s.parquet.gz"])
def test_other_endings_are_refused(scores, tmp_path, name):
    words = ("ending of a scores file", ".parquet")
    fails(lambda: save_scores(scores, tmp_path / name), *words, kind=ParameterError)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("there", ["s.csv", "s-differences.csv"])
def test_a_file_that_exists_is_kept_and_nothing_is_written(scores, tmp_path, there):
    (tmp_path / there).write_text("mine")
    out = tmp_path / "s.csv"
    fails(lambda: save_scores(scores, out), "exists already", there, kind=OutputError)
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [(there, "mine")]
    save_scores(scores, out, overwrite=True)
    assert (tmp_path / there).read_text() != "mine"
    assert {file.name for file in tmp_path.iterdir()} == {"s.csv", "s-differences.csv"}


@pytest.mark.parametrize("there", ["s.csv", "s-differences.csv"])
def test_folders_are_never_replaced(scores, tmp_path, there):
    (tmp_path / there).mkdir()
    act = partial(save_scores, scores, tmp_path / "s.csv", overwrite=True)
    fails(act, "is a folder", there, kind=OutputError)
    assert [file.name for file in tmp_path.iterdir()] == [there]


def test_folders_are_made_but_not_below_a_file(scores, tmp_path):
    save_scores(scores, tmp_path / "a" / "b" / "s.md")
    (tmp_path / "file").write_text("")
    fails(lambda: save_scores(scores, tmp_path / "file" / "s.md"), "is a file", kind=OutputError)
