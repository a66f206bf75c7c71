"""The steps under "Into nooch" of the pages on extending nooch, in a copy of the package."""

import inspect
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from planted import planted_data

import nooch

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
# page -> the block with the class, and the file that the page asks for
STEPS = {
    "extending/criterion.md": ("hour.py", "src/nooch/criteria/hour.py"),
    "extending/reader.md": ("labelme.py", "src/nooch/data/readers/labelme.py"),
    "extending/export.md": ("text_lists.py", "src/nooch/report/exports/text_lists.py"),
    "tutorials/your-own-method.md": (
        "soft_maximum.py",
        "src/nooch/training/objectives/soft_maximum.py",
    ),
}
# as these pages say
IMPORTS = {
    "from nooch.criteria import": "from nooch.criteria.contract import",
    "from nooch.training.objectives import": "from nooch.training.objectives.contract import",
}
LINE = re.compile(r"`([^`]+)` in `(\w+)`, in `(src/[^`]+)`")
ROW = re.compile(r"in `(\w+)` of `(tests/[^`]+)`")


def steps(page):
    """The part of a page on what to edit, with spaces between words."""
    text = (DOCS / page).read_text("utf-8").partition("## Into nooch")[2]
    assert text, page
    return " ".join(text.split())


def block(page, title):
    text = (DOCS / page).read_text("utf-8")
    found = re.search(rf'```python title="{title}"\n(.*?)```', text, re.DOTALL)[1]
    # a method is made in its table
    return found.partition("\nmethod = ")[0].replace("from nooch import Method\n", "")


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of the package with everything that the pages add."""
    folder = tmp_path_factory.mktemp("copy")
    shutil.copytree(ROOT / "src", folder / "src")
    for page, (title, file) in STEPS.items():
        code = block(page, title)
        for outside, inside in IMPORTS.items():
            code = code.replace(outside, inside)
        (folder / file).write_text(code)
        lines = LINE.findall(steps(page))
        assert lines, page
        for line, table, path in lines:
            place = folder / path
            before, name, after = place.read_text().partition(f"\n{table}")
            head, entry, rest = re.split(r"(^[^\n]*,$)", after, maxsplit=1, flags=re.MULTILINE)
            text = f"{before}{name}{head}{line},\n{entry}{rest}"
            module = file.removeprefix("src/").removesuffix(".py").replace("/", ".")
            for needed in set(re.findall(r"\b[A-Z]\w+\b", line)) & set(
                re.findall(r"^class (\w+)", code, re.MULTILINE)
            ):
                last = re.findall(r"^from nooch\..*", text, re.MULTILINE)[0]
                text = text.replace(last, f"from {module} import {needed}\n{last}", 1)
            place.write_text(text)
    return folder


@pytest.fixture
def run(copy, tmp_path):
    def ran(*arguments):
        command = [sys.executable, *arguments]
        places = {**os.environ, "PYTHONPATH": str(copy / "src")}
        done = subprocess.run(
            command, cwd=tmp_path, env=places, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return ran


@pytest.fixture
def data(tmp_path):
    """A folder ``data`` with an hour of each image."""
    made = planted_data()
    images = made.images.with_columns(hour=pl.col("image_id") * 7 % 24)
    nooch.save_dataset(nooch.Dataset.build(images, made.classes, made.areas), tmp_path / "data")
    return made


@pytest.mark.parametrize("page", STEPS)
def test_the_rows_are_of_tables_in_tests(page):
    rows = ROW.findall(steps(page))
    assert rows
    for table, path in rows:
        assert re.search(rf"^{table}\b", (ROOT / path).read_text("utf-8"), re.MULTILINE)


def test_a_criterion(run, data):
    find = "find data --criterion ce --criterion hour --match ce --tasks car --out suite"
    run("-m", "nooch", *find.split())
    first = str(data.images["image_id"][0])
    shown = run("-m", "nooch", "explain", "suite", "--task", "car", "--image", first)
    assert "car is usual at" in shown


def test_a_reader(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (DOCS / "extending/reader.md").read_text("utf-8")
    exec(re.search(r"^```python\n(import json.*?)```", text, re.DOTALL | re.MULTILINE)[1], {})
    run("-m", "nooch", "import", "auto", "photos", "out", "--reader", "labelme")
    assert nooch.load_dataset("out").area("car").tolist() == [0.04, 0.0]


def test_an_export(run, data, tmp_path):
    nooch.save_suite(nooch.find(data, "ce", tasks=["car"]), tmp_path / "suite")
    run("-m", "nooch", "export", "suite", "--to", "text", "lists")
    ids = (tmp_path / "lists" / "ce-car-test.txt").read_text().split()
    found = nooch.load_suite(tmp_path / "suite").set("ce", "car", "test")
    assert len(ids) == len(found.ids("hard_positive")) + len(found.ids("hard_negative"))


def test_a_method(run):
    pytest.importorskip("torch", reason="torch is not installed (nooch[train])")
    code = """
from nooch.training.methods import METHODS, grid_of_methods
from nooch.training.objectives import TrainingCounts
import torch
print(grid_of_methods(["soft-maximum"]))
sizes = TrainingCounts.from_numbers([3, 1], [2, 1, 1, 0])
made = METHODS["soft-maximum"].objective_class(sizes, variant="paper", sharpness=1.0)
zero = torch.zeros(4, 1, dtype=torch.float64)
print(float(made(zero, zero, torch.tensor([[0], [0], [1], [2]]))))
"""
    settings, value = run("-c", code).splitlines()
    assert (
        settings == "[('soft-maximum', {'sharpness': 1.0}), ('soft-maximum', {'sharpness': 5.0})]"
    )
    # three environments with a mean loss of ln 2: ln(3 e^(ln 2))
    assert float(value) == pytest.approx(1.791759469)


def labelme(folder):
    """The row of the reader: two images with the ids 1 and 2."""
    import json

    corners = [[0, 5], [10, 5], [10, 10]]
    shape = {"label": "road", "shape_type": "polygon", "points": corners}
    (folder / "photos").mkdir()
    for name in "12":
        content = {"imagePath": name, "imageWidth": 10, "imageHeight": 10, "shapes": [shape]}
        (folder / "photos" / f"{name}.json").write_text(json.dumps(content))
    return [folder / "photos"], {}


# test -> import that the row needs, table -> line that is added, names of the tests
ROWS = {
    "tests/suites/test_suite_builder.py": (
        "from nooch.criteria.hour import Hour",
        {"CONFORMING": '"hour": Hour(),', "COLUMNS": '"hour": [*range(24)],'},
        "hour and (fitted or summed) or table",
    ),
    "tests/data/test_conformance.py": (
        "",
        {"EXAMPLES": '"labelme": labelme,'},
        "labelme or every_reader_has",
    ),
    "tests/report/test_conformance.py": (
        "",
        {"PLAIN": '"text",'},
        "text or row",
    ),
}


@pytest.mark.parametrize("path", ROWS)
def test_the_row_passes_what_is_tested(path, copy, run):
    """Step 3 of the pages, in a copy of the tests."""
    needed, rows, names = ROWS[path]
    if not (copy / "tests").exists():
        shutil.copytree(
            ROOT / "tests", copy / "tests", ignore=shutil.ignore_patterns("__pycache__")
        )
        shutil.copy(ROOT / "pyproject.toml", copy)
    text = (copy / path).read_text()
    for table, row in rows.items():
        text, added = re.subn(rf"^{table} = [({{]", rf"\g<0>{row} ", text, flags=re.MULTILINE)
        assert added == 1, table
    lines = inspect.getsource(labelme) if "labelme" in names else ""
    imports = re.search(r"^(import|from) ", text, re.MULTILINE).start()
    place = text.index(f"\n{next(iter(rows))} = ")
    text = f"{text[:imports]}{needed}\n{text[imports:place]}\n{lines}{text[place:]}"
    (copy / path).write_text(text)
    quick = "-q -n 0 -p no:cacheprovider --hypothesis-profile=fast -k"
    out = run(
        "-m", "pytest", *quick.split(), names, str(copy / path), "-c", str(copy / "pyproject.toml")
    )
    assert re.search(r"[1-9]\d* passed", out)
