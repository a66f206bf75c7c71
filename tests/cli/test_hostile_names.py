"""Names that move a cursor, turn text around or are a formula: shown spelled out, wherever."""

import csv
import json
import re
import tempfile
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from image_folders import smooth
from oracles import dataset_of

import nooch
from nooch.base.engines.job_window import Logged
from nooch.cli.terminal import print_text
from nooch.data import Dataset, csv_bytes, read_table, save_dataset

CLEAR, WINDOW, TURN, ISOLATE = "\x1b[2J", "\x9b31m", "\u202e", "\u2066"
CAR, ROAD = f"=car{CLEAR}", f"+road{TURN}{WINDOW}"
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
N = 60


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """``ds`` with photos, ``p.csv``, ``captions.json`` and ``scores.csv``, all of hostile names."""
    folder = tmp_path_factory.mktemp("world")
    random = np.random.default_rng(0)
    there = random.random((N, 2)) < 0.5
    there[:, 1] = np.where(random.random(N) < 0.6, there[:, 0], there[:, 1])
    areas = {CAR: 0.1, ROAD: 0.5}
    images = [
        {n: area for n, area in areas.items() if row[int(n == ROAD)]} for row in there.astype(int)
    ]
    ids = [f"@{n:02}{ISOLATE}\x07" for n in range(N)]
    splits = [("train", "valid", "test")[n % 3] for n in range(N)]
    data = dataset_of(images, [CAR, ROAD], splits, ids)
    names = [f"{n:02}{TURN}.png" for n in range(N)]
    weather = [f"-rain{CLEAR}" if n % 2 else "=dry" for n in range(N)]
    frame = data.images.with_columns(
        file_name=pl.Series(names), weather=pl.Series(weather), width=16, height=16
    )
    (folder / "photos").mkdir()
    for n, name in enumerate(names):
        smooth(n, 16, 16).save(folder / "photos" / name)
    captions = pl.DataFrame({"image_id": ids, "caption": [f"a {CAR} on a {ROAD}"] * N})
    vectors = {"made": random.normal(size=(N, 4)).astype(np.float32)}
    root = str(folder / "photos")
    data = Dataset.build(
        frame, data.classes, data.areas, captions, embeddings=vectors, image_root=root
    )
    save_dataset(data, folder / "ds")
    table = pl.DataFrame({"image_id": ids, "task": CAR, "logit": random.normal(size=N)})
    table = table.with_columns(run=pl.lit(f"model{CLEAR}"))
    (folder / "p.csv").write_bytes(csv_bytes(table))
    said = [{"image_id": i, "caption": f"a {CAR} and {CLEAR}"} for i in ids]
    (folder / "captions.json").write_text(json.dumps(said))
    (folder / "words.json").write_text(json.dumps({CAR: ["car"], ROAD: ["road"]}))
    (folder / "bench.yaml").write_text("seeds: [0]\nmethods: {erm: }\nepochs: 1\n")
    return folder


COMMANDS = """
info ds
info ds --format json
find ds --alpha 0.01 --criterion ce --tasks {car} --out suite
find ds --alpha 0.01 --criterion ce --tasks {car} --engine local:2 --out suite2
sweep-thresholds ds --alpha 0:0.2:3 --beta 0.1 --tasks {car} --split test --out sweep
show suite
show suite --format json
explain suite --task {car} --image {image} --predictions p.csv
evaluate suite p.csv
evaluate suite p.csv --format json
evaluate suite p.csv --out scores.md
evaluate suite p.csv --out scores.tex
evaluate suite p.csv --by weather --out scores.csv
evaluate suite p.csv --fail-if auc@hard<2 -> 1
select-tasks suite p.csv --n 1 --min-hard 1 --out chosen
slices suite p.csv --min-support 2
captions suite captions.json --synonyms words.json
captions suite captions.json --synonyms words.json --format json
audit suite --predictions p.csv --out audit
check ds p.csv --alpha 0.01 --min-hard 1 --out checked
weights ds --task {car} --out w.csv
bench ds suite --embedding made --config bench.yaml --out runs
status runs
collect runs suite --out collected
results runs --suite suite
statements runs --suite suite
report suite --predictions p.csv --out site
gallery suite --task {car} --predictions p.csv --out g.png
figure all --suite suite --predictions p.csv --formats svg --out figures
export suite ids --to ids
export suite csv --to csv
export suite table --to table --predictions p.csv
export suite hf --to hf
export suite pope --to pope
verify suite suite
add-attributes ds w.csv ds2 --columns weight
find ds --criterion ce --tasks nothing{car} --out none -> 2
evaluate suite missing{car}.csv -> 2
"""


def test_no_name_reaches_a_terminal_log_or_file_name(world, run_cli, monkeypatch):
    monkeypatch.chdir(world)
    before = {*world.rglob("*")}
    named = {"car": f"'{CAR}'", "image": f"'@02{ISOLATE}\x07'"}
    for line in COMMANDS.strip().splitlines():
        command, _, code = line.partition(" -> ")
        ran = run_cli(command.format(**named))
        assert ran.code == int(code or 0), (command, ran.err)
        # a document for a pipe is as it is
        shown = ran.err if re.search("--format (csv|markdown)", command) else ran.out + ran.err
        assert not CONTROLS.search(shown), (command, CONTROLS.search(shown), shown)
        if "--format json" in command:
            assert CAR in str(ran.json) or "\\x1b[2J" in str(ran.json)
    for path in {*world.rglob("*")} - before:
        assert not CONTROLS.search(str(path.relative_to(world))), path
        if path.suffix == ".log":
            assert not CONTROLS.search(path.read_text(encoding="utf-8")), path


def test_a_document_on_a_terminal_has_no_control_characters(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    print_text(f"a\t{CAR}\n")
    assert capsys.readouterr().out == "a\t=car\\x1b[2J\n"


def test_a_log_spells_out_what_a_job_prints(tmp_path):
    Logged(print, tmp_path)((0, f"{CAR} {TURN}\n"))
    assert "=car\\x1b[2J \\u202e\n" in (tmp_path / "job-0000000.log").read_text("utf-8")


# text that a spreadsheet would run


@settings(max_examples=50)
@given(
    st.lists(st.text("'=+-@\t\r\n0.9eEa,\"", max_size=6), min_size=1),
    st.text("'=+-@\ta", min_size=1, max_size=4),
)
def test_no_cell_is_a_formula_and_tables_are_read_back_the_same(texts, name):
    # of numbers alone, it would be a column of numbers
    table = pl.DataFrame({name: ["x", *texts], "number": [-1.5] * (1 + len(texts))})
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "t.csv")
        file.write_bytes(csv_bytes(table))
        with file.open(newline="", encoding="utf-8") as lines:
            cells = [cell for row in csv.reader(lines) for cell in row]
        back = read_table(file)
    for cell in cells:
        assert cell[:1] not in {*"=@\t\r\n"}
        assert cell[:1] not in {*"+-"} or re.fullmatch(r"[+-][0-9.]+", cell)
    assert back.columns == table.columns
    assert back[name].to_list() == table[name].to_list()


def test_tables_are_written_as_csv_in_one_place():
    root = Path(nooch.__file__).parent
    # formats of other programs are as those define them
    others = {"report/exports/question_files.py"}
    found = {
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        if re.search(r"write_csv\(|csv\.writer", path.read_text(encoding="utf-8"))
    }
    assert found == others | {"data/table_files.py"}
