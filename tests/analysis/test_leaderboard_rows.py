"""The rows of leaderboard/: made from the published files, and what its workflow does with them."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest
import yaml
from refusals import fails

import nooch
from nooch.analysis.leaderboard import leaderboard
from nooch.base.errors import ParameterError
from nooch.evaluation.captions import score_captions

ROOT = Path(__file__).parents[2]
ROWS = ROOT / "leaderboard"
BOARDS = {"nooch-amber": 3, "nooch-opera": 9, "nooch-pope": 6}


def test_the_script_makes_the_rows(shared_data, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    script = ROOT / "scripts" / "make_leaderboard.py"
    spec = importlib.util.spec_from_file_location("make_leaderboard", script)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    made.make(shared_data, tmp_path)
    files = sorted(file.relative_to(ROWS) for file in ROWS.glob("*/*/*"))
    assert files == sorted(file.relative_to(tmp_path) for file in tmp_path.glob("*/*/*"))
    assert sum((ROWS / file).stat().st_size for file in files) < 100_000
    for file in files:
        old, new = ROWS / file, tmp_path / file
        if file.suffix == ".parquet":
            assert pl.read_parquet(old).equals(pl.read_parquet(new)), file
            written = [pq.ParquetFile(one).metadata.created_by for one in (old, new)]
            if written[0] != written[1]:
                # another version of pyarrow writes other bytes
                (new.parent / "model.yaml").write_bytes((old.parent / "model.yaml").read_bytes())
                continue
        assert old.read_bytes() == new.read_bytes(), file
    # rows have the rates of the files that they were made from
    folder = tmp_path / "models"
    for row in sorted((ROWS / "nooch-opera").iterdir()):
        (folder / row.name).mkdir(parents=True)
        published = shared_data / "answers" / "opera-captions" / f"{row.name}.jsonl"
        shutil.copy(published, folder / row.name)
        (folder / row.name / "model.yaml").write_text(f"name: {row.name}\nkind: captions\n")
    tables = [leaderboard(f, suite="nooch-opera").table for f in (ROWS / "nooch-opera", folder)]
    facts = [
        "name",
        "kind",
        "file",
        "sha256",
        "source",
        "commit",
        "license",
        "source_sha256",
        "who",
    ]
    assert tables[0].drop(facts).equals(tables[1].drop(facts))


def workflow(folder):
    """The exit code and output of the step that makes the pages, in a copy of the repository."""
    steps = yaml.safe_load((ROOT / ".github/workflows/leaderboard.yml").read_text())["jobs"]["page"]
    (step,) = [s["run"] for s in steps["steps"] if "nooch leaderboard" in s.get("run", "")]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(["bash", "-e", "-c", step], cwd=folder, check=False, text=True,
                          env={**os.environ, "PATH": path}, capture_output=True)  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def test_the_workflow_makes_the_pages_and_refuses_bad_rows(tmp_path):
    shutil.copytree(ROWS, tmp_path / "leaderboard")
    (tmp_path / "scripts").symlink_to(ROOT / "scripts")
    code, said = workflow(tmp_path)
    assert code == 0, said
    index = (tmp_path / "site" / "index.html").read_text()
    for board, n in BOARDS.items():
        assert f'href="{board}/index.html"' in index
        table = pl.read_csv(tmp_path / "site" / board / "leaderboard.csv")
        assert len(table) == n
        assert re.search(rf"{n} models. Least often: {re.escape(table['name'][0])} \(\d", index)
        assert set(table["license"]) <= {"MIT", "Apache-2.0"}
        page = (tmp_path / "site" / board / "index.html").read_text()
        assert page.count("tied with above") == (table["p"] > 0.05).sum() > 0
        assert f"Least often: {table['name'][0]}" in page
    first = tmp_path / "leaderboard" / "nooch-pope" / "llava15-base-7b"
    bad = first.parent / "bad"
    about, frame = (first / "model.yaml").read_text(), pl.read_parquet(first / "answers.parquet")
    named = "name: bad\n"
    for text, rows, words in (
        (about.replace("7B", "7B again"), None, "has the same file as"),
        (f"{named}sha256: abc\n", frame.head(2999), "and model.yaml says abc"),
        (named, frame.sample(fraction=0.9, seed=0), "% of the questions on "),
        (named, pl.concat([frame, frame.head(1)]), "answers a question several times"),
        (f"{named}source: javascript:alert(1)\n", frame.head(2999), "allowed: https://..."),
    ):
        shutil.rmtree(tmp_path / "site")
        bad.mkdir()
        (bad / "model.yaml").write_text(text)
        if rows is None:
            shutil.copy(first / "answers.parquet", bad)
        else:
            rows.write_parquet(bad / "answers.parquet")
        code, said = workflow(tmp_path)
        assert code != 0
        assert words in said
        shutil.rmtree(bad)


def test_answers_to_a_list_of_the_suite_name_it(tmp_path, monkeypatch):
    """All questions of nooch-pope are more than one list; the remedy is the list answered."""
    fails(lambda: leaderboard(ROWS / "nooch-pope", suite="nooch-pope"),
          "pass questions='adversarial'")  # fmt: skip
    table = leaderboard(ROWS / "nooch-pope", suite="nooch-pope", questions="adversarial").table
    assert set(table["n"]) == {3000}
    # a file of that name is another reading, which is asked for by its path
    monkeypatch.chdir(tmp_path)
    rows = nooch.load_suite("nooch-pope").question_lists["adversarial"]
    shown = pl.concat_str(pl.lit("Is there a "), "task", pl.lit(" in the image?"))
    questions = rows.select(image="image_id", text=shown).with_columns(pl.col("image").cast(str))
    questions.write_ndjson("adversarial")
    text = fails(lambda: leaderboard(ROWS / "nooch-pope", suite="nooch-pope",
                                     questions="adversarial"),
                 "is a list of the suite and a file", kind=ParameterError)  # fmt: skip
    assert f"questions='{tmp_path / 'adversarial'}'" in text


def test_a_sentence_that_is_cut_off_is_not_read(tmp_path):
    """As in `nooch captions`."""
    ids = nooch.load_suite("nooch-opera").image_ids()
    files = []
    for name, end in (("whole", "There is a dog."), ("cut", "There is a dog and a")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.yaml").write_text(f"name: {name}\nkind: captions\n")
        files.append(tmp_path / name / f"{name}.jsonl")
        pl.DataFrame({"image_id": ids, "caption": f"A cat. {end}"}).write_ndjson(files[-1])
    table = leaderboard(tmp_path, suite="nooch-opera").table
    scores = score_captions("nooch-opera", files, bootstrap=0).contexts
    rates = {row["name"]: row["easy_negative"] for row in table.iter_rows(named=True)}
    assert rates["cut"] < rates["whole"]
    for name, rate in rates.items():
        value = scores[name, "context"].estimates["rate", "easy_negative"].value
        assert rate == pytest.approx(value)
    # the length of a list of names says nothing
    shown = leaderboard(ROWS / "nooch-amber", suite="nooch-amber", baseline="llava15-base-7b")
    assert shown.changes
    assert not any(change.equal_length for change in shown.changes)
