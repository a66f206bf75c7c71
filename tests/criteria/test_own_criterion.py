"""The custom criterion and encoder of the docs: one part, several parts, fitted elsewhere."""

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from oracles import dataset_of

from nooch.criteria import Summable
from nooch.data import Dataset, divide, load_dataset, save_dataset
from nooch.suites import load_suite

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A module of the docs' code, and a dataset with one part and with several."""
    for name, page, title in (
        ("own_hour", "extending/criterion.md", "## A number for each image"),
        ("own_letters", "criteria.md", "## Custom encoders"),
    ):
        section = (DOCS / page).read_text().partition(title)[2]
        code = re.search(r"```python[^\n]*\n(.*?)```", section, re.DOTALL)[1]
        (tmp_path / f"{name}.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    images = [
        {"Y": 0.1, "A": 0.3} if n % 3 else {"A": (n % 7) / 9} if n % 2 else {"Y": 0.2}
        for n in range(80)
    ]
    splits = [("train", "valid", "test")[n % 3] for n in range(80)]
    data = dataset_of(images, ["Y", "A", "never"], splits)
    hours = pl.Series([(n * 7) % 24 for n in range(80)])
    texts = pl.Series("caption", [f"scene {n} of{n * 'x'}" for n in range(80)])
    captions = data.images.select("image_id", texts)
    data = Dataset.build(data.images.with_columns(hour=hours), data.classes, data.areas, captions)
    save_dataset(data, tmp_path / "whole")
    save_dataset(divide(data, 5), tmp_path / "parts")
    return tmp_path


def _find(run_cli, folder, kind, out, more=""):
    criteria = "--criterion ce --criterion own_hour:Hour --match ce --cues Y=A,A=Y"
    done = run_cli(f"find {folder / kind} {criteria} {more} --out {folder / out}")
    assert done.code == 0, done.err
    return (folder / out / "challenge_sets.parquet").read_bytes()


def test_several_parts_give_the_suite_of_one(folder, run_cli):
    from own_hour import Hour

    assert isinstance(Hour(), Summable)
    whole = _find(run_cli, folder, "whole", "one")
    assert _find(run_cli, folder, "parts", "two", "--engine local:2") == whole
    header = load_suite(folder / "two").header
    assert header.criteria["own_hour:Hour"].fitted["means"].keys() == {"Y", "A"}
    assert {s.task for s in header.skipped if s.criterion == "own_hour:Hour"} == {"never"}
    # the same, fitted elsewhere
    fitted = f"--fitted {folder / 'one'}"
    assert _find(run_cli, folder, "whole", "three", fitted) == whole
    assert _find(run_cli, folder, "parts", "four", fitted) == whole


def test_without_its_fitted_class_it_is_not_read_back(folder, run_cli, monkeypatch):
    import own_hour

    _find(run_cli, folder, "whole", "one")
    monkeypatch.delattr(own_hour.Hour, "fitted")
    command = (
        f"find {folder / 'whole'} --criterion own_hour:Hour --fitted {folder / 'one'} --out no"
    )
    assert "fitted =" in run_cli(command).refused("does not name its fitted class")


def test_the_encoder_embeds_several_parts_as_one(folder, run_cli):
    for kind, engine in (("whole", ""), ("parts", "--engine local:2")):
        done = run_cli(f"tools embed {folder / kind} --encoder own_letters:Letters {engine}")
        assert done.code == 0, done.err
    vectors, whole = (load_dataset(folder / k).embeddings["letters"] for k in ("parts", "whole"))
    assert vectors[3].tolist()[:6] == [0, 0, 1, 0, 2, 1]
    assert np.array_equal(vectors, whole)
