"""Limits of what is read: each fires, and the documentation has their numbers."""

import io
import re
import sys
import zipfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from PIL import Image
from refusals import fails

from nooch.base import limits
from nooch.base.errors import MissingExtraError
from nooch.base.yaml_files import read_yaml
from nooch.base.zips import MOST_MEMBERS
from nooch.cli.main import LONGEST
from nooch.data import read_arrays, read_table
from nooch.data.table_files import MOST_RATIO
from nooch.evaluation.bootstrap import MOST_RESAMPLES

DOCUMENTED = {
    "pixels": Image.MAX_IMAGE_PIXELS,
    "levels": sys.getrecursionlimit(),
    "digits": sys.int_info.default_max_str_digits,
    "aliases": limits.MOST_ALIASES,
    "lists in lists": limits.MOST_NESTED,
    f"unpacked size of a Parquet file of more than {limits.MOST_UNPACKED:,}": limits.MOST_RATIO,
    "members": MOST_MEMBERS,
    "unpacked size of a zip's member of more than 1,048,576": limits.MOST_RATIO,
    "unpacked size of an Excel workbook": limits.MOST_WORKBOOK,
    f"unpacked size of an array of more than {limits.MOST_UNPACKED:,}": limits.MOST_RATIO,
    "area": limits.MOST_AREA,
    "resamples": MOST_RESAMPLES,
    "characters": LONGEST,
}


def test_the_table_of_limits_is_that_of_the_code():
    page = Path(__file__).parents[2] / "docs" / "formats.md"
    section = page.read_text(encoding="utf-8").partition("## Limits")[2].partition("\n## ")[0]
    rows = dict(re.findall(r"^\| (.*?) \| (?:about )?([\d,]+).* \|$", section, re.MULTILINE))
    assert len(rows) == len(DOCUMENTED)
    for (row, shown), (name, number) in zip(rows.items(), DOCUMENTED.items(), strict=True):
        assert row.startswith(name)
        assert int(shown.replace(",", "")) == int(number)


@pytest.mark.parametrize(("size", "shown"), [(2 << 20, "its 'xl/big.xml'"), (1 << 10, "it would")])
def test_a_workbook_that_unpacks_to_much_more(tmp_path, monkeypatch, size, shown):
    path = tmp_path / "t.xlsx"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as book:
        book.writestr("xl/big.xml", bytes(size))
        book.writestr("xl/other.xml", bytes(1))
    # refused by its directory: nothing is unpacked
    monkeypatch.setattr("polars.read_excel", lambda *_, **__: pytest.fail("was opened"))
    monkeypatch.setattr("nooch.data.table_files.MOST_WORKBOOK", size)
    fails(lambda: read_table(path), shown, "would unpack to", "save the sheet as CSV")


def test_excel_without_its_package(tmp_path, monkeypatch):
    pl.DataFrame({"a": [1]}).to_pandas().to_excel(tmp_path / "t.xlsx")
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    kind = MissingExtraError
    fails(lambda: read_table(tmp_path / "t.xlsx"), "openpyxl", "'nooch[excel]'", kind=kind)


@pytest.mark.parametrize("values", [np.zeros(1 << 20), ["x" * 1000] * (1 << 12)])
def test_parquet_that_unpacks_to_much_more(tmp_path, monkeypatch, values):
    """Equal numbers, or a text that is stored once: refused before memory is taken."""
    file = tmp_path / "t.parquet"
    frame = pl.DataFrame({"a": values, "b": [f"b{k}" for k in range(len(values))]})
    frame.write_parquet(file)
    assert read_table(file).equals(frame)
    frame.select("a").write_parquet(file)
    monkeypatch.setattr("nooch.data.table_files.MOST_UNPACKED", 1 << 20)
    most = max(1 << 20, MOST_RATIO * file.stat().st_size)
    fails(lambda: read_table(file), "t.parquet: would unpack to", "bytes, from", f"most {most:,}")


@pytest.mark.parametrize(("size", "refused"), [(1 << 16, False), (1 << 22, True)])
def test_arrays_that_unpack_to_much_more(tmp_path, monkeypatch, size, refused):
    monkeypatch.setattr("nooch.data.arrays.MOST_UNPACKED", 1 << 20)
    file = tmp_path / "bomb.npz"
    np.savez_compressed(file, zeros=np.zeros(size, np.uint8))
    if refused:
        fails(lambda: read_arrays(file, "arrays"), "bomb.npz", "would unpack to 4,194,432 bytes")
    else:
        assert read_arrays(file, "arrays")["zeros"].size == size


def test_a_size_that_an_archive_only_claims(tmp_path):
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(9))
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x.npy", buffer.getvalue()[:100] + b"(" * 20)
    fails(lambda: read_arrays(tmp_path / "a.npz", "arrays"), "a.npz: cannot be read")


def test_lists_of_lists_of_aliases(tmp_path):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    (tmp_path / "c.yaml").write_text("\n".join(lines))
    words = "c.yaml", "has more than 20 aliases", "at most 20"
    fails(lambda: read_yaml(tmp_path / "c.yaml"), *words)
    (tmp_path / "c.yaml").write_text("a: &x [1]\nb: *x\n")
    assert read_yaml(tmp_path / "c.yaml") == {"a": [1], "b": [1]}
