"""Text tables in any form: the cells are those that were written."""

import csv
import io

import polars as pl
from hypothesis import given, strategies as st
from refusals import fails

from nooch.data.table_files import plain_csv, read_table

CELLS = st.text("ab ,;|\t\"'é\n", max_size=5).map(str.strip)


@given(
    st.sampled_from(",;\t|"),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
    st.booleans(),
    st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=6),
)
def test_cells_are_those_that_were_written(tmp_path_factory, sign, encoding, padded, rows):
    path = tmp_path_factory.mktemp("plain") / "t.csv"
    quoted = [["id", "x", "y"], *rows]
    lines = [
        (f"{sign} " if padded else sign).join(
            cell if cell.isalnum() else '"' + cell.replace('"', '""') + '"' for cell in row
        )
        for row in quoted
    ]
    path.write_bytes(("\n".join(lines) + "\n").encode(encoding))
    content = plain_csv(path)
    text = (path.read_bytes() if content is None else content).decode("utf-8-sig")
    assert [*csv.reader(io.StringIO(text, newline=""))] == [[*row] for row in quoted]


def test_a_plain_file_is_not_copied(tmp_path):
    for name, text in {"t.csv": "id,x\n1,a; b\n", "t.tsv": "id\tx\n1\ta, b\n"}.items():
        (tmp_path / name).write_text(text)
        assert plain_csv(tmp_path / name) is None


def test_signs_in_cells_are_no_separators(tmp_path):
    (tmp_path / "t.csv").write_text('"a;b";x\n1;"p,q"\n2;r\n')
    frame = pl.DataFrame({"a;b": [1, 2], "x": ["p,q", "r"]})
    assert read_table(tmp_path / "t.csv").equals(frame)
    (tmp_path / "u.csv").write_text("id,caption\n1, a cat\n2,a dog\n")
    assert read_table(tmp_path / "u.csv")["caption"].to_list() == [" a cat", "a dog"]


def test_of_two_signs_in_a_header_the_one_that_divides_all_rows_counts(tmp_path):
    (tmp_path / "t.csv").write_text("id;cat, big;dog\n1;0,5;0,25\n2;1,5;2,0\n")
    assert read_table(tmp_path / "t.csv").columns == ["id", "cat, big", "dog"]
    (tmp_path / "u.csv").write_text("id,a;b;c\n1,x\n2,y\n")
    assert read_table(tmp_path / "u.csv").columns == ["id", "a;b;c"]
    (tmp_path / "v.csv").write_text("id;x\n1;2;3\n")
    fails(lambda: read_table(tmp_path / "v.csv"), "v.csv: cannot be read", helps=False)
