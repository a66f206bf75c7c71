"""``nooch import table`` as a user types it, in one part and in several."""

import polars as pl
import pytest

from nooch.data import load_dataset, open_dataset

LONG = "--id id --class class --area area"
WIDE = "--id id --label a0,a1 --positive a1=* --attributes place"


@pytest.fixture
def tables(tmp_path):
    """A long table in two files, and a table of images."""
    places = "abcdefghij"
    rows = [
        {"id": i % 50, "class": f"a{i % 7 % 3}", "area": i % 9 / 20, "place": places[i % 10]}
        for i in range(200)
    ]
    (tmp_path / "long").mkdir()
    for number in range(2):
        pl.DataFrame(rows[number::2]).write_csv(tmp_path / "long" / f"{number}.csv")
    wide = [
        {"id": f"i{i}", "place": places[i % 10], "a0": i % 2, "a1": "pq"[i // 3 % 2]}
        for i in range(50)
    ]
    pl.DataFrame(wide).write_parquet(tmp_path / "wide.parquet")
    return tmp_path


@pytest.mark.parametrize(
    ("source", "words", "engine"),
    [("long", LONG, "--engine local:2"), ("wide.parquet", WIDE, "")],
)
def test_parts_and_engines_do_not_change_what_is_printed_and_held(
    run_cli, tables, source, words, engine
):
    command = f"import table {source} {words} --split 60/20/20 --group place"
    one = run_cli(f"{command} --format json whole")
    two = run_cli(f"{command} --format json parts --part-size 20 {engine}").ok()
    assert two.json == one.json | {"dataset": "parts"}
    assert two.err == one.err
    assert one.json["attributes"] == ["place"]
    assert open_dataset("parts").n_parts == 3
    a, b = load_dataset("whole"), load_dataset("parts")
    assert a.fingerprint == b.fingerprint
    assert a.provenance == b.provenance
    one, two = (run_cli(f"{command} {out}") for out in ("w", "p --part-size 9"))
    assert two.out == one.out.replace("w:", "p:").replace("find w", "find p")


def test_the_next_command_fits_what_the_labels_say(run_cli, tmp_path):
    table = pl.DataFrame({"id": range(6), "a": [1, 1, 1, 0, 1, 1], "b": [1, 1, 0, 1, 0, 1]})
    table.with_columns(b=1 - pl.col("a")).write_csv(tmp_path / "one_each.csv")
    table.write_csv(tmp_path / "several.csv")
    table.with_columns(b=1 - pl.col("a"), place=pl.Series([*"xyxyxy"])).write_csv(
        tmp_path / "placed.csv"
    )
    for name, following in {
        "several": "find several --criterion context",
        "placed --attributes place": "find placed --criterion context --context all",
        "one_each": "check one_each PREDICTIONS",
    }.items():
        file = name.split()[0]
        command = f"import table {file}.csv {name.replace(file, file, 1)} --id id --label a,b"
        done = run_cli(f"{command} --split 50/0/50").ok()
        assert f"next: nooch {following}" in done.out


def test_what_cannot_be_done_is_refused(run_cli, tables):
    before = sorted(tables.iterdir())
    for more, message in (
        ("--part-size 0", "--part-size"),
        ("--part-size 9 --split 60/20/20 --group plac", "matches no part of"),
        ("--part-size 9 --images none", "no such folder of images"),
        ("--attributes split", "'split' is not a column"),
        ("--part-size 9 --attributes image_id", "'image_id' is not a column"),
    ):
        run_cli(f"import table long out {LONG} {more}").refused(message)
        assert sorted(tables.iterdir()) == before


def test_remedies_are_options(run_cli, tables):
    done = run_cli("import table long out --id id --label class")
    assert "give --class" in " ".join(done.err.split())
    done = run_cli(f"import table long out {LONG} --attributes place,area")
    assert "give --attributes ATTRIBUTES, only the columns that describe" in " ".join(
        done.err.split()
    )
