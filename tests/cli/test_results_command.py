"""paper tables as a user types them."""

import json

import polars as pl
import pytest


@pytest.fixture(autouse=True)
def in_world(scored, monkeypatch, in_tmp_path):
    monkeypatch.chdir(scored)


def words(text):
    return " ".join(text.split())


def test_a_table_in_the_terminal(run_cli):
    done = run_cli("paper tables runs --suite suite --like table3,16").ok()
    chosen = "settings chosen on the worse of the two hard sides"
    assert f"Table 3: AUC on hard images, ce (runs, test images; {chosen})" in done.out
    assert "Table 16: NLL on easy images, ce" in done.out
    lines = [words(line) for line in done.out.splitlines()]
    assert "task images positive erm label-reweight gdro" in lines
    assert any(line.startswith("fire_hydrant ") for line in lines)
    assert any(line.startswith("average of 2 ") for line in lines)
    assert "*" in done.out
    assert "ddof = 1" in words(done.err)
    assert "table16: no results under gist" in words(done.err)


def test_half_a_grid_is_said(run_cli):
    done = run_cli("paper tables half --suite suite --like 16").ok()
    assert "[2/3 seeds]" in done.out
    assert "1 of 24 jobs are not done" in words(done.err)
    assert "car: erm, seed 1" in words(done.err)


def test_all_formats(run_cli, tmp_path):
    base = "paper tables runs --suite suite --like table16 --compare paper --by-sight"
    files = " ".join(f"--out {tmp_path}/r.{e}" for e in ("md", "tex", "csv", "parquet", "json"))
    done = run_cli(f"{base} {files} --paired erm --bootstrap 20").ok()
    assert "Differences from erm on ce challenge sets (test)" in done.out
    names = "r.md r.tex r.csv r.parquet r.json r-differences.csv r-differences.parquet"
    assert {p.name for p in tmp_path.iterdir()} == set(names.split())
    frame = pl.read_parquet(tmp_path / "r.parquet")
    assert set(frame["table"]) == {"table16"}
    assert frame.filter(task="car", method="erm")["paper_mean"].to_list() == [0.059]
    assert frame["comparison"].null_count() < frame.height
    assert r"fire\_hydrant" in (tmp_path / "r.tex").read_text()
    assert "| fire_hydrant | paper |" in (tmp_path / "r.md").read_text()
    assert json.loads((tmp_path / "r.json").read_text())["differences"]
    assert (tmp_path / "r.md").read_text().startswith("**Table 16: ")
    assert (tmp_path / "r.tex").read_text().startswith(r"\begin{table}")
    assert (tmp_path / "r.csv").read_text().startswith("table,criterion,metric")
    cells = run_cli(f"{base} --format json").json["cells"]
    assert {cell["method"] for cell in cells} == {"erm", "label-reweight", "gdro"}
    run_cli(f"{base} {files}").refused("exists already")


def test_counts_next_to_results(run_cli, tmp_path):
    base = "paper tables runs --suite suite --like"
    files = f"--out {tmp_path}/r.csv --out {tmp_path}/r.json"
    done = run_cli(f"{base} 2,16 {files}").ok()
    assert done.out.index("Table 2: Counts") < done.out.index("Table 16: NLL")
    frame = pl.read_csv(tmp_path / "r.csv")
    counts = frame.filter(table="table2", task="car").row(0, named=True)
    assert (counts["mean"], counts["source"]) == (None, "suite")
    assert counts["hard_positives"] > 0
    alone = run_cli(f"{base} 16 --format json").json
    both = json.loads((tmp_path / "r.json").read_text())
    assert both["cells"] == alone["cells"]
    assert alone["sets"] == []
    assert {row["table"] for row in both["sets"]} == {"table2"}


def test_the_papers_own_tables(run_cli, tmp_path):
    run_cli(f"paper tables paper --like all --out {tmp_path}/r.csv").ok()
    assert len((tmp_path / "r.csv").read_text().splitlines()) == 1 + 22 * 13 * 9 + 3 * 9


def test_collected_scores(run_cli, tmp_path):
    scores = tmp_path / "scores"
    run_cli(f"train score runs suite --out {scores}").ok()
    one, other = (
        run_cli(f"paper tables {source} --like 16 --format json").json["cells"]
        for source in (scores, "runs --suite suite")
    )
    assert [c["mean"] for c in one] == pytest.approx([c["mean"] for c in other])
    run_cli(f"paper tables {scores} --like 16 --paired all").refused("no predictions to resample")


def test_two_folders_of_one_criterion_are_refused(run_cli):
    command = "paper tables few half --suite suite --like 16"
    run_cli(command).refused("both have results under ce")
