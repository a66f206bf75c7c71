"""A sweep as a folder: tables, pictures, and a header, written atomically."""

import json
from dataclasses import replace
from xml.etree import ElementTree as ET

import numpy as np
import polars as pl
import pytest
from oracles import dataset_of
from refusals import fails
from scored import small_data

import nooch
from nooch.base.errors import OutputError
from nooch.report.figures.sweeps import save_sweep

ALPHAS, BETAS = [0.0, 0.02, 0.05], [0.05, 0.1, 0.2, 0.4]


def _ce_sweep(alpha=ALPHAS, beta=BETAS, splits=("test",)):
    return nooch.sweep_thresholds(small_data(), alpha=alpha, beta=beta, splits=splits)


def _gist_sweep():
    data = small_data()
    values = np.random.default_rng(0).normal(size=(len(data), 4))
    data = data.with_embedding("e", values)
    return nooch.sweep_thresholds(data, tau=[-0.5, 0.0, 0.5], embedding="e")


@pytest.fixture(scope="module")
def sweep():
    return _ce_sweep(splits=["valid", "test"])


@pytest.fixture(scope="module")
def folder(sweep, tmp_path_factory):
    """The sweep, saved."""
    place = tmp_path_factory.mktemp("sweep") / "s"
    return save_sweep(sweep, place, {"alpha": ALPHAS, "tasks": "all"})


def test_what_the_folder_holds(sweep, folder):
    names = {file.name for file in folder.iterdir()}
    pictures = {f"hard_by_alpha_and_beta_{split}.svg" for split in ("valid", "test")}
    tables = {f"{name}.parquet" for name in ("cues", "grid", "equal")}
    assert names == {"sweep.json", "cues_by_alpha.svg"} | tables | pictures
    for name in ("cues", "grid", "equal"):
        assert pl.read_parquet(folder / f"{name}.parquet").equals(getattr(sweep, name))
    header = json.loads((folder / "sweep.json").read_text())
    made_by = (header["format"], header["version"], header["nooch"])
    assert made_by == ("nooch-sweep", 1, nooch.__version__)
    assert (header["alpha"], header["tasks"]) == (ALPHAS, "all")
    assert header["equal"] == sweep.equal.to_dicts()


def test_pictures_are_xml_and_say_what_they_show(folder):
    words = {
        "cues_by_alpha": "alpha",
        "hard_by_alpha_and_beta_test": "P(hard | positive), all tasks (test)",
    }
    for name, text in words.items():
        root = ET.parse(folder / f"{name}.svg").getroot()
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert text in {element.text for element in root.iter() if element.text}


def test_gist_sweeps_have_their_own_picture(tmp_path):
    folder = save_sweep(_gist_sweep(), tmp_path / "s")
    assert {file.name for file in folder.iterdir()} == {
        "sweep.json", "tau.parquet", "hard_by_tau_valid.svg", "hard_by_tau_test.svg",
    }  # fmt: skip
    ET.parse(folder / "hard_by_tau_test.svg")
    assert json.loads((folder / "sweep.json").read_text())["equal"] == []


@pytest.mark.parametrize("make", [_ce_sweep, _gist_sweep])
def test_the_same_sweep_gives_the_same_bytes(make, tmp_path):
    folders = [save_sweep(make(), tmp_path / name) for name in "ab"]
    contents = [{file.name: file.read_bytes() for file in f.iterdir()} for f in folders]
    assert contents[0] == contents[1]


@pytest.mark.parametrize(
    ("alpha", "beta"),
    [([0.05], [0.1]), ([0.05], BETAS), (ALPHAS, [0.1]), ([0.9], [0.9]), ([0.0, 0.9], [0.0, 0.9])],
)
def test_grids_of_any_shape_are_drawn(alpha, beta, tmp_path):
    # warnings are errors: nothing is drawn over an empty range
    save_sweep(_ce_sweep(alpha, beta), tmp_path / "s")


@pytest.mark.parametrize(
    "images",
    {
        "no positive to count": [{"Y": 0.1, "A": 0.3}, {"A": 0.5}, {"A": 0.2}],
        "no negative to count": [{"Y": 0.1, "A": 0.3}, {"A": 0.5}, {"Y": 0.2}],
        "no positive to fit on": [{"A": 0.3}, {"A": 0.5}, {"Y": 0.2}],
    }.values(),
)
def test_shares_that_are_undefined_are_drawn(images, tmp_path):
    data = dataset_of(images, ["Y", "A"], ["train", "train", "test"])
    swept = nooch.sweep_thresholds(data, alpha=ALPHAS, beta=BETAS, tasks=["Y"])
    folder = save_sweep(swept, tmp_path / "s")
    ET.parse(folder / "hard_by_alpha_and_beta_test.svg")


def test_a_folder_that_exists_is_kept_unless_it_is_a_sweep(sweep, tmp_path):
    # nothing to draw
    sweep = replace(sweep, cues=sweep.cues.clear(), grid=sweep.grid.clear())
    folder = save_sweep(sweep, tmp_path / "s")
    fails(lambda: save_sweep(sweep, folder), "exists already", kind=OutputError)
    (folder / "grid.parquet").write_text("old")
    save_sweep(sweep, folder, overwrite=True)
    assert not (folder / "grid.parquet").exists()
    (folder / "notes").write_text("mine")
    save_sweep(sweep, folder, overwrite=True)
    assert not (folder / "notes").exists()
    assert (tmp_path / ".s.old" / "notes").read_text() == "mine"
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "suite.json").write_text("{}")
    fails(lambda: save_sweep(sweep, mine, overwrite=True), "sweep.json", kind=OutputError)
    assert [file.name for file in mine.iterdir()] == ["suite.json"]


def test_a_sweep_that_cannot_be_drawn_leaves_nothing(sweep, tmp_path, monkeypatch):
    def breaks(*_, **_named):
        raise RuntimeError("no ink")

    monkeypatch.setattr("nooch.report.figures.sweeps.draw_sides", breaks)
    with pytest.raises(RuntimeError, match="no ink"):
        save_sweep(sweep, tmp_path / "s")
    assert not list(tmp_path.iterdir())
