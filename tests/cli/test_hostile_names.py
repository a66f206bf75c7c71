"""Names that move a cursor, turn text around or are a formula, where they are printed or written;
``test_every_command.py`` shows them to every command.
"""

import csv
import re
import tempfile
from pathlib import Path

import hypothesis.strategies as st
import polars as pl
from hypothesis import given, settings

import nooch
from nooch.cli.terminal import print_text
from nooch.data import csv_bytes, read_table

CAR, TURN = "=car\x1b[2J", "\u202e"


def test_a_document_on_a_terminal_has_no_control_characters(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    print_text(f"a\t{CAR}\n")
    assert capsys.readouterr().out == "a\t=car\\x1b[2J\n"


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
    found = {
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        if re.search(r"write_csv\(|csv\.writer", path.read_text(encoding="utf-8"))
    }
    assert found == {"data/table_files.py"}
