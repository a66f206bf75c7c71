"""Tables of results for people and programs: marks, escaping, files."""

import json
import re

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from refusals import fails

from nooch.base.errors import OutputError, ParameterError
from nooch.report.tables.method_tables import (
    RESULT_FILES,
    ResultSheet,
    ResultTable,
    check_result_files,
    result_latex,
    result_markdown,
    save_results,
    shown,
)

COLUMNS = {
    pl.String: "block criterion metric subset task method sees reason averaged_tasks",
    pl.Float64: "mean std",
    pl.Int64: "n n_positive n_seeds seeds n_settings settings n_tasks",
    pl.Boolean: "best",
}
SCHEMA = {name: kind for kind, names in COLUMNS.items() for name in names.split()}


def row(task, method, mean, std=0.01, **more):
    common = {"block": "AUC on hard", "criterion": "ce", "metric": "auc", "subset": "hard"}
    counts = {"n": 1234, "n_positive": 5, "n_seeds": 3, "seeds": 3, "n_settings": 4, "settings": 4}
    cell = {"task": task, "method": method, "sees": "nothing", "mean": mean, "std": std}
    return {**common, **counts, **cell, "best": False, **more}


def made(rows, title="Table 9: AUC", **more):
    return ResultTable("table9", title, None, pl.DataFrame(rows, schema=SCHEMA), **more)


BOTH = "environments in training, environments in validation"
ROWS = [
    row("dining_table", "erm", 0.7),
    row("dining_table", "gdro", 0.8, best=True, sees=BOTH),
    row("average", "erm", None, None, reason="no value for tie", n_tasks=1),
    row("average", "gdro", 0.8, None, best=True, sees=BOTH, n_tasks=1),
]


def test_cells():
    table = shown(made(ROWS))
    assert list(table.columns) == ["task", "images", "positive", "erm", "gdro"]
    assert list(map(list, table.rows)) == [
        ["dining_table", "1,234", "5", "0.700 (0.010)", "0.800 (0.010) *"],
        ["average of 1", "1,234", "5", "–", "0.800 *"],
    ]
    assert table.left == 1


LACKING = {
    "a seed": ({"n_seeds": 2}, "0.700 (0.010) [2/3 seeds]"),
    "a setting": ({"n_settings": 3}, "0.700 (0.010) [3/4 settings]"),
    "both": ({"n_seeds": 1, "n_settings": 0, "std": None}, "0.700 [1/3 seeds]"),
    "counts": (dict.fromkeys(("n_seeds", "seeds", "n_settings", "settings")), "0.700 (0.010)"),
}


@pytest.mark.parametrize("case", LACKING)
def test_cells_say_what_they_lack(case):
    change, text = LACKING[case]
    assert shown(made([row("car", "erm", 0.7, **change)])).rows[0][3] == text


def test_a_table_without_counts_has_no_columns_of_them():
    rows = [{**r, "n": None, "n_positive": None} for r in ROWS]
    assert list(shown(made(rows)).columns) == ["task", "erm", "gdro"]


def test_methods_are_grouped_by_what_they_see():
    rows = [row("car", "gdro", 0.8, sees=BOTH), row("car", "suby", 0.7, sees="labels")]
    table = shown(made([*rows, row("car", "erm", 0.6)], by_sight=True))
    assert list(table.columns)[3:] == ["erm", "suby", "gdro"]
    sees = ["nothing", "labels", "environments in training, validation"]
    assert list(table.rows[0]) == ["sees", "", "", *sees]


def test_next_to_the_paper_there_are_three_lines():
    extra = {"paper_mean": 0.75, "paper_std": 0.02, "deviations": 1.234, "comparison": None}
    frame = pl.DataFrame(ROWS[:2], schema=SCHEMA)
    frame = frame.with_columns(**{name: pl.lit(value) for name, value in extra.items()})
    table = shown(ResultTable("table9", "t", "metric", frame))
    assert table.left == 3
    assert [list(r) for r in table.rows] == [
        ["dining_table", "AUC on hard", "here", "1,234", "5", "0.700 (0.010)", "0.800 (0.010) *"],
        ["dining_table", "AUC on hard", "paper", "", "", "0.750 (0.020)", "0.750 (0.020)"],
        ["dining_table", "AUC on hard", "difference / sd", "", "", "+1.2", "+1.2"],
    ]


def test_latex_escapes_names_and_sets_the_best_in_bold():
    nasty = "a_b & 50% #1 {x} \\input{y} ~^"
    rows = [*ROWS, row(nasty, "erm", 0.5, best=True)]
    text = result_latex(ResultSheet([made(rows, "Table 9: 100% of dining_table")], ["no_value"]))
    assert r"dining\_table & 1,234 & 5 & 0.700 (0.010) & \textbf{0.800 (0.010)} \\" in text
    commands = r"\textbackslash{}input\{y\} \textasciitilde{}\textasciicircum{}"
    assert rf"a\_b \& 50\% \#1 \{{x\}} {commands}" in text
    assert r"\caption{Table 9: 100\% of dining\_table}" in text
    assert r"no\_value" in text
    assert not re.search(r"(?<!\\)_", text)
    assert text.count("{") - text.count(r"\{") == text.count("}") - text.count(r"\}")


def test_names_cannot_set_themselves_in_bold():
    rows = [row("\ue000car\ue001", "erm", 0.7)]
    text = result_latex(ResultSheet([made(rows)], ["\ue000note\ue001"]))
    assert r"\textbf" not in text
    assert "car & " in text


def test_markdown_escapes_names_and_sets_the_best_in_bold():
    rows = [*ROWS, row("_a|b_ <i> *c*", "erm", 0.5)]
    text = result_markdown(ResultSheet([made(rows)], ["a | b"]))
    assert "| dining_table | 1,234 | 5 | 0.700 (0.010) | **0.800 (0.010)** |" in text
    assert r"| \_a\|b\_ \<i\> \*c\* | 1,234 | 5 | 0.500 (0.010) | – |" in text
    assert r"a \| b" in text
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines[:5]} == {6}


def test_control_characters_are_spelled_out():
    sheet = ResultSheet([made([row("car\x1b[2J", "erm", 0.7)], title="a\nb")])
    for text in (result_markdown(sheet), result_latex(sheet)):
        assert all(line.isprintable() for line in text.split("\n"))
    assert "a\\\\nb" in result_markdown(sheet)


def test_files(tmp_path):
    differences = pl.DataFrame({"run": ["gdro"], "difference": [0.1]})
    sheet = ResultSheet([made(ROWS), made(ROWS[:1])], ["a note"], differences)
    paths = [tmp_path / f"r{ending}" for ending in RESULT_FILES]
    written = save_results(sheet, paths)
    assert {p.name for p in written} == {p.name for p in tmp_path.iterdir()}
    second = {file.name for file in written} - {path.name for path in paths}
    assert second == {"r-differences.csv", "r-differences.parquet"}
    parquet = pl.read_parquet(tmp_path / "r.parquet")
    assert_frame_equal(parquet, sheet.cells)
    assert parquet.height == 5
    assert pl.read_csv(tmp_path / "r.csv")["task"].to_list() == parquet["task"].to_list()
    content = json.loads((tmp_path / "r.json").read_text())
    assert content["notes"] == ["a note"]
    assert len(content["cells"]) == 5
    assert content["differences"] == differences.to_dicts()
    assert_frame_equal(pl.read_parquet(tmp_path / "r-differences.parquet"), differences)


def test_files_are_checked_before_anything_is_written(tmp_path):
    (tmp_path / "r-differences.csv").write_text("mine")
    sheet = ResultSheet([made(ROWS)], [], pl.DataFrame({"run": ["gdro"]}))
    for paths, kind, words in (
        ([tmp_path / "a.md", tmp_path / "a.docx"], ParameterError, "'.docx' is not an ending"),
        ([tmp_path / "a.md", tmp_path / "r.csv"], OutputError, "exists already"),
    ):
        fails(lambda paths=paths: save_results(sheet, paths), words, kind=kind)
        assert not (tmp_path / "a.md").exists()
    assert check_result_files([tmp_path / "r.csv"]) == [tmp_path / "r.csv"]
    save_results(sheet, [tmp_path / "r.csv"], overwrite=True)
    assert (tmp_path / "r-differences.csv").read_text() == "run\ngdro\n"
