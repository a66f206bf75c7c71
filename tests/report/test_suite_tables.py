"""Tables 2, 6 and 7: the paper's own, of any suite, and next to each other."""

import csv
import json
from dataclasses import replace
from functools import partial

import numpy as np
import polars as pl
import pytest
from oracles import dataset_of
from refusals import fails
from small_world import small_dataset

from nooch.base.errors import ParameterError, UndefinedError
from nooch.criteria import CE, Gist, read_thresholds
from nooch.criteria.scores import ContextScores
from nooch.paper.numbers import SET_TABLES, paper_rows
from nooch.paper.published_sets import published_suite, read_labels, read_published
from nooch.paper.sheet import paper_set_tables, set_tables
from nooch.suites import save_suite
from nooch.suites.find import find
from nooch.suites.published_counts import NOOCH_TASKS, paper_tasks


@pytest.fixture(scope="module")
def suite():
    """CE and gist of three tasks on valid and test; ``road`` has no cue."""
    criteria = {"ce": CE(cues={"car": ["road"], "bowl": ["table"]}), "mine": Gist("made")}
    return find(small_dataset(), criteria, tasks=["car", "bowl", "road"], match="ce")


def test_the_papers_own_numbers(shared_data):
    with (shared_data.parent / "paper" / "nooch_tasks.csv").open() as file:
        rows = {row["task"]: row for row in csv.DictReader(file)}
    counts = ("hard_positives", "hard_negatives", "positives")
    columns = {
        "table2": {name: f"test_{name}" for name in counts},
        "table6": {side: f"gist_tau_{side}_test" for side in ("positive", "negative")},
        "table7": {side: f"gist_tau_{side}_valid" for side in ("positive", "negative")},
    }
    assert list(SET_TABLES) == list(columns)
    for name, theirs in columns.items():
        frame = paper_rows(name)
        assert frame["task"].to_list() == list(rows)
        for column, of in theirs.items():
            assert frame[column].to_list() == [float(row[of]) for row in rows.values()]


def test_the_papers_own_tables(run_cli, tmp_path):
    done = run_cli(
        f"paper tables paper --like table2,table6,table7 --out {tmp_path / 't.json'}"
    ).ok()
    lines = [" ".join(line.split()) for line in done.out.splitlines()]
    assert "kite 55 6,725 451" in lines
    assert "fire_hydrant 0.74 0.35" in lines
    assert "car 0.47 0.50" in lines
    content = json.loads((tmp_path / "t.json").read_text())
    assert len(content["sets"]) == 36
    assert content["cells"] == []


def test_a_table_of_thresholds_is_what_find_takes(run_cli, tmp_path):
    for ending in ("csv", "parquet"):
        out = tmp_path / f"t.{ending}"
        run_cli(f"paper tables paper --like 6 --out {out}").ok()
        tau = {name: task.tau for name, task in paper_tasks().items()}
        sides = (("test", "positive"), ("test", "negative"))
        assert read_thresholds(out) == {n: tuple(map(t.get, sides)) for n, t in tau.items()}


def test_tables_of_a_suite_are_its_records(suite):
    tables, notes = set_tables(suite, ["table2", "table6", "table7"], "s", split="valid")
    places = [("table2", "ce", "valid"), ("table2", "gist", "valid")]
    places += [("table6", "gist", "test"), ("table7", "gist", "valid")]
    assert [(t.name, t.rows["criterion"][0], t.rows["split"][0]) for t in tables] == places
    for table in tables:
        assert table.rows["task"].to_list() == ["car", "bowl", "road"]
        for row in table.rows.filter(pl.col("task") != "road").iter_rows(named=True):
            criterion = {"gist": "mine"}.get(row["criterion"], row["criterion"])
            challenge = suite.set(criterion, row["task"], row["split"])
            expected = (challenge.positive.threshold, challenge.negative.threshold)
            if table.name == "table2":
                hard = [len(challenge.ids(side)) for side in ("hard_positive", "hard_negative")]
                expected = (*hard, challenge.labels.sum())
            assert tuple(row[column] for column in table.columns) == expected
        assert table.rows.filter(task="road")["reason"][0] is not None
    start = "table2, ce: no numbers for road: no class has A(C, road)"
    assert any(text.startswith(start) for text in notes)
    some, _ = set_tables(suite, ["table2"], "s", tasks=["bowl"], roles={"gist": "mine"})
    assert some[0].rows["task"].to_list() == ["bowl"]


def test_positives_without_a_verdict_count_as_positives():
    images = [{"car": 0.1}] * 5 + [{}] * 5
    values = np.array([[1.0, i] for i in range(10)])
    values[:2] = np.nan
    data = dataset_of(images, ["car"]).with_embedding("e", values)
    suite = find(data, {"gist": Gist("e", 0.9)})
    (table,), _ = set_tables(suite, ["table2"], "s", split="all")
    assert table.rows["positives"].to_list() == [5]
    assert suite.record("gist", "car", "all").positives == 3


def test_next_to_the_paper(suite):
    tables, notes = set_tables(suite, ["table2", "table6"], "s", compare=True)
    for table in tables:
        for row in table.rows.filter(task="car").iter_rows(named=True):
            for column in table.columns:
                theirs = paper_rows(table.name).filter(task="car")[column][0]
                assert row[f"paper_{column}"] == theirs
                assert row[f"difference_{column}"] == row[column] - theirs
        without = table.rows.filter(task="road").select(f"paper_{c}" for c in table.columns)
        assert set(without.row(0)) == {None}
        lines = table.shown.rows
        assert [line[1] for line in lines[:3]] == ["here", "paper", "difference"]
    assert any("two decimals" in text for text in notes)
    other, notes = set_tables(suite, ["table2"], "s", split="valid", compare=True)
    assert "paper_positives" not in other[0].rows.columns
    assert "table2: not compared, because the paper uses split test" in notes


def test_the_published_sets_have_the_papers_counts(shared_data):
    labels = read_labels(shared_data / "coco-stats" / "derived_coco_thing_labels_123287x80.npz")
    suite = published_suite(read_published(shared_data / "nooch-published"), labels)
    tables, notes = set_tables(suite, ["table2", "table6"], "published", compare=True)
    places = [(table.name, table.rows["criterion"][0]) for table in tables]
    assert places == [("table2", "ce"), ("table2", "gist")]
    for table in tables:
        assert table.rows["task"].to_list() == list(NOOCH_TASKS)
        assert table.rows.select(pl.col("^difference_.*$").abs().sum()).row(0) == (0, 0, 0)
    assert any("table6, gist: no numbers for" in text and "no threshold" in text for text in notes)


def test_ties_are_marked():
    data = dataset_of([{"car": 0.1}] * 4 + [{}] * 4, ["car"], ["test"] * 8)
    data = data.with_embedding("e", np.array([[1.0, 0.0]] * 4 + [[0.0, 1.0]] * 4))
    data = replace(data, images=data.images.with_columns(s=pl.Series([0.0, 0, 1, 1, 0, 0, 1, 1])))
    own, gist = ContextScores("s", 0.5).fit(data, ["car"]), Gist("e").fit(data, ["car"])
    suite = find(data, {"scores": own, "gist": gist}, match="scores")
    (table,), notes = set_tables(suite, ["table6"], "s")
    assert table.rows["tied_positive"].to_list() == [True]
    assert table.shown.rows[0][1].endswith(" (tied)")
    assert any(text.startswith("(tied)") for text in notes)


def test_a_suite_without_such_sets(suite):
    cues = {"ce": CE(cues={"car": ["road"]})}
    bare = find(small_dataset(), cues, tasks=["car"], splits=["valid"])
    for name, words in (("table6", "criteria ce"), ("table2", "splits valid")):
        act = partial(set_tables, bare, [name], "bare")
        fails(act, f"no sets for {name}", words, kind=UndefinedError)
    refused = partial(fails, kind=ParameterError)
    refused(lambda: set_tables(suite, ["table2"], "s", tasks=["cup"]), "'cup' is not a task of s")
    refused(lambda: paper_set_tables(["table2"], ["dog"]), "'dog' is not a task of the paper")
    assert paper_set_tables(["table2"], ["kite"])[0].rows["positives"].to_list() == [451]


def test_all_formats_on_the_command_line(suite, run_cli, tmp_path):
    save_suite(suite, tmp_path / "suite")
    command = f"paper tables {tmp_path / 'suite'} --like 2,6,7 --compare paper"
    endings = ("md", "tex", "csv", "parquet", "json")
    run_cli(" ".join([command, *(f"--out {tmp_path / 'r'}.{ending}" for ending in endings)])).ok()
    frame = pl.read_parquet(tmp_path / "r.parquet")
    assert set(frame["table"]) == {"table2", "table6", "table7"}
    car = frame.filter(table="table2", criterion="ce", task="car")
    assert car["paper_positives"].to_list() == [2585]
    assert frame.filter(table="table7", task="bowl")["paper_negative"].to_list() == [0.57]
    assert pl.read_csv(tmp_path / "r.csv").height == frame.height == 12
    assert "| car | paper | 1,539 | 949 | 2,585 |" in (tmp_path / "r.md").read_text()
    assert "Table 7: Thresholds on support" in (tmp_path / "r.tex").read_text()
    assert len(run_cli(f"{command} --format json").json["sets"]) == 12
    both = tmp_path / "both.csv"
    run_cli(f"paper tables paper --suite {tmp_path / 'suite'} --like table2 --out {both}").ok()
    assert set(pl.read_csv(both)["source"]) == {"suite", "paper"}


REFUSED = {
    "runs --like table2": "there is no suite for table2",
    "nowhere --like table2": "no such folder",
    "suite --like table3": "there are no runs for table3",
    "suite --like table2 --methods erm": "table2 do not compare methods",
    "suite --like table2 --paired erm": "table2 do not compare methods",
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_has_no_tables_of_sets_is_refused(suite, run_cli, tmp_path, words):
    save_suite(suite, tmp_path / "suite")
    (tmp_path / "runs").mkdir()
    run_cli(f"paper tables {words} --out r.md", cwd=tmp_path).refused(REFUSED[words])
    assert not (tmp_path / "r.md").exists()


def test_the_suite_of_the_package_is_a_source(run_cli):
    ran = run_cli("paper tables nooch-coco --like table2 --compare paper --format json").ok()
    rows = [row for row in ran.json["sets"] if row["criterion"] == "ce"]
    assert [row["task"] for row in rows] == list(NOOCH_TASKS)
    for name in ("hard_positives", "hard_negatives"):
        assert {row[f"difference_{name}"] for row in rows} == {0}
