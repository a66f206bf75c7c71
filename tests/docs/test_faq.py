"""The errors of docs/faq.md are those of the program."""

import contextlib
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from commands import completed
from PIL import Image
from planted import planted_data, planted_predictions

import nooch

PAGE = (Path(__file__).parents[2] / "docs" / "faq.md").read_text("utf-8")
ENTRIES = dict(re.findall(r"^### (.+)\n```text\n(.+)\n```$", PAGE, re.MULTILINE))
# question -> a command that gives the error
COMMANDS = {
    "Where are the labels?": "check photos p.csv --out out",
    "Which column has the images?": "import auto noid.csv out",
    "What does a column of two words mean?": "import auto words.csv out",
    "Is a blank cell a no?": "import auto blank.csv out",
    "Umlauts and accents": "import auto latin.csv out",
    "My format is not among the known ones": "import auto empty out",
    "CE needs areas": "find several --criterion ce --out out",
    "One label per image": "find one --criterion context --out out",
    "Too few hard images": "check data p.csv --min-hard 2000 --out out",
    "The gist criterion has nothing to read": "find data --criterion gist --out out",
    "The ids of predictions and images differ": "evaluate suite unknown.csv",
    "Predictions are missing": "evaluate suite part.csv",
    "Logits or probabilities?": "evaluate suite score.csv",
    "Percentages": "evaluate suite percent.csv",
    "Pictures are missing": "gallery suite --task car",
    "A .pt or .pth file is refused": "predict one --model model.pt --out q.csv",
    "The folder exists": "find data --criterion ce --out suite",
}
TABLES = {
    "noid": "a,b\n1,0\n0,1\n",
    "words": "file,sky\n0.jpg,in\n1.jpg,out\n",
    "blank": "filename,sky,road\n0.jpg,1,\n1.jpg,,1\n2.jpg,1,\n3.jpg,,1\n",
    "latin": "filename,himmel,straße\n0.jpg,1,0\n1.jpg,0,1\n",
    "one": "filename,class\n0.jpg,cow\n1.jpg,car\n2.jpg,cow\n3.jpg,car\n",
    "several": "filename,cow,grass\n0.jpg,1,1\n1.jpg,0,1\n2.jpg,1,0\n3.jpg,0,0\n",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with data, predictions, and tables that leave something open."""
    path = tmp_path_factory.mktemp("faq")
    data = planted_data()
    nooch.save_dataset(data, path / "data")
    nooch.save_suite(nooch.find(path / "data", "ce", tasks=["car"]), path / "suite")
    made = planted_predictions(data).filter(pl.Series(data.images["split"] == "test"))
    tables = {
        "p": made,
        "unknown": made.with_columns(pl.col("image_id") + 100_000),
        "part": made.head(300),
        "score": made.rename({"logit": "score"}),
        "percent": made.select(
            "image_id", "task", probability=100 / (1 + np.exp(-made["logit"].to_numpy()))
        ),
    }
    for name, table in tables.items():
        table.write_csv(path / f"{name}.csv")
    for name, text in TABLES.items():
        (path / f"{name}.csv").write_text(text, encoding="latin1")
    (path / "photos").mkdir()
    (path / "empty").mkdir()
    (path / "model.pt").write_bytes(b"")
    for number in range(4):
        Image.new("RGB", (8, 8)).save(path / "photos" / f"{number}.jpg")
    with contextlib.chdir(path):
        for name in ("one", "several"):
            completed(f"import auto {name}.csv {name} --images photos")
    return path


def test_every_error_of_the_page_has_a_command():
    assert COMMANDS.keys() == ENTRIES.keys()


@pytest.mark.parametrize("question", COMMANDS)
def test_the_program_gives_the_error(question, folder, run_cli, monkeypatch):
    monkeypatch.chdir(folder)
    if "predict" in COMMANDS[question]:
        pytest.importorskip("torch", reason="torch is not installed (nooch[train])")
    wanted = re.escape(ENTRIES[question]).replace(r"\.\.\.", ".*")
    assert re.search(wanted, run_cli(COMMANDS[question]).refused())
