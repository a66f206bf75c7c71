"""Text in other encodings: read where a mark or the user names it, never guessed."""

import codecs
import json

import polars as pl
import pytest
from hypothesis import given, strategies as st
from refusals import fails
from scored import logits, small_suite

from nooch.base.text_encoding import reading_as, text_lines, transcoded, utf8_bytes
from nooch.data.json_records import json_records
from nooch.data.readers.contract import read
from nooch.data.readers.table_layouts import Columns, LongTable
from nooch.data.readers.tables import TableReading
from nooch.data.table_files import read_table
from nooch.evaluation import evaluate
from nooch.evaluation.answer_files import holds_answers
from nooch.suites import save_suite

TEXT = "image_id,class\n1,Café\n2,Straße\n"
MARKED = {
    "utf-8-sig": TEXT.encode("utf-8-sig"),
    "utf-16-le": codecs.BOM_UTF16_LE + TEXT.encode("utf-16-le"),
    "utf-16-be": codecs.BOM_UTF16_BE + TEXT.encode("utf-16-be"),
}


@given(
    st.text(st.characters(codec="utf-8", exclude_characters="\0\ufeff")), st.sampled_from([*MARKED])
)
def test_marked_text_is_read_and_nothing_is_changed(text, encoding):
    mark = {"utf-8-sig": b"", "utf-16-le": codecs.BOM_UTF16_LE, "utf-16-be": codecs.BOM_UTF16_BE}
    content = mark[encoding] + text.encode(encoding)
    assert utf8_bytes(content, "x").decode() == text
    assert utf8_bytes(text.encode(), "x").decode() == text


@pytest.mark.parametrize("encoding", MARKED)
def test_tables_and_lists_with_a_mark(tmp_path, encoding):
    file = tmp_path / "t.csv"
    file.write_bytes(MARKED[encoding])
    assert read_table(file).rows() == [(1, "Café"), (2, "Straße")]
    assert text_lines(file)[1] == "1,Café"
    data = read(TableReading(file, Columns("image_id"), LongTable("class")))
    assert data.classes == ("Café", "Straße")
    file.with_suffix(".jsonl").write_bytes(codecs.BOM_UTF8 + b'{"a": 1}\n')
    assert json_records(file.with_suffix(".jsonl")) == [{"a": 1}]


def test_other_text_is_refused_until_its_encoding_is_named(tmp_path):
    file = tmp_path / "t.csv"
    file.write_bytes(TEXT.encode("latin-1"))
    words = ("t.csv: line 2 is not UTF-8; cp1252 would read 'Café'", "encoding='cp1252'")
    reads = [
        lambda: read_table(file),
        lambda: read(TableReading(file, Columns("image_id"), LongTable("class"))),
        lambda: text_lines(file),
        lambda: json_records(file),
        lambda: transcoded(file),
    ]
    for act in reads:
        fails(act, *words)
    with reading_as("latin-1"):
        assert read_table(file)["class"].to_list() == ["Café", "Straße"]
        assert reads[1]().classes == ("Café", "Straße")
        # a mark says more than the user
        file.write_bytes(MARKED["utf-16-le"])
        assert read_table(file)["class"].to_list() == ["Café", "Straße"]
    file.write_bytes(TEXT.encode("utf-16-le"))
    fails(lambda: read_table(file), "line 2 contains zero bytes", "utf-16-le")
    file.write_bytes(b"\n" * (5 << 20) + "é".encode("latin-1"))
    fails(lambda: transcoded(file), f"line {(5 << 20) + 1:d} is not UTF-8", "'é'")
    with reading_as("ascii"):
        fails(lambda: transcoded(file), "is not text in ascii")
    fails(lambda: reading_as("nono").__enter__(), "'nono' is not an encoding", kind=ValueError)


def test_encoding_is_an_option_of_every_command(tmp_path, run_cli):
    suite = small_suite()
    save_suite(suite, tmp_path / "suite")
    frame = logits(suite).with_columns(run=pl.lit("Modèle"))
    (tmp_path / "p.csv").write_bytes(frame.write_csv().encode("cp1252"))
    command = f"evaluate {tmp_path / 'suite'} {tmp_path / 'p.csv'}"
    run_cli(command).refused("cp1252 would read 'Modèle'", "--encoding cp1252")
    out = run_cli(f"{command} --format json --encoding cp1252")
    assert out.code == 0
    assert "Modèle" in json.dumps(json.loads(out.out[out.out.index("{") :]), ensure_ascii=False)
    assert run_cli(f"--encoding=cp1252 {command}").code == 0
    assert run_cli(f"{command} --encoding=cp1252").code == 0
    run_cli(f"{command} --encoding nono").refused("'nono' is not an encoding")
    with reading_as("cp1252"):
        assert evaluate(suite, tmp_path / "p.csv").table["run"][0] == "Modèle"


def test_answers_in_utf_16_are_answers(tmp_path):
    line = '{"image_id": 1, "task": "car", "answer": "Sí"}\n'
    file = tmp_path / "a.jsonl"
    for count in (1, 30_000):
        file.write_bytes((line * count).encode("utf-16"))
        assert holds_answers(file)
        assert json_records(file)[0]["answer"] == "Sí"
