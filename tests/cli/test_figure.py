"""nooch paper figures as a user types it."""

import shutil

import numpy as np
import polars as pl
import pytest

import nooch
from nooch.paper.figures import FIGURES, figure_data
from nooch.report.images.sources import Sources


@pytest.fixture
def folder(scored, tmp_path):
    """A copy that a test may write to, its dataset with an embedding."""
    shutil.copytree(scored, tmp_path, dirs_exist_ok=True)
    data = nooch.load_dataset(tmp_path / "dataset")
    data = data.with_embedding("e", np.random.default_rng(0).normal(size=(len(data), 4)))
    nooch.save_dataset(data, tmp_path / "dataset", overwrite=True)
    return tmp_path


def test_all_figures_at_once(folder, run_cli):
    words = "--suite suite --dataset dataset --predictions predictions.csv --bootstrap 10"
    grids = "--alpha 0,0.02 --beta 0.05:0.2:3 --tau -0.2:0.2:3 --dpi 40"
    done = run_cli(f"paper figures all {words} {grids} --formats svg --out out").ok()
    run_cli(f"paper figures fig10 {words} --out out --overwrite").ok()
    assert {file.name for file in (folder / "out").iterdir()} == {
        *(f"{name}.{ending}" for name in FIGURES for ending in ("svg", "csv")),
        *("fig10.pdf", "fig10.png"),
    }
    for name, figure in FIGURES.items():
        assert f"{name}: {figure.shows}" in done.out
    # the images of this dataset are nowhere: the figures that show them are left out
    read, left = done.err.split("note: ")[1:]
    assert read.startswith("Predictions: 24 images, logits")
    assert left.split(": ")[1].replace("\n", " ").split(", ")[0] == "fig1"
    assert not set(left.replace(",", "").split()) & set(FIGURES)
    tau = pl.read_csv(folder / "out" / "fig14.csv")["tau"].unique().sort().to_list()
    assert tau == pytest.approx([-0.2, 0.0, 0.2])


def test_figures_of_runs_a_sweep_and_the_paper(folder, run_cli):
    words = "--runs runs --suite suite --sweep sweep --paper"
    done = run_cli(f"paper figures all {words} --formats svg --out out").ok()
    names = ["fig3", "fig4", "fig5", "fig6", "fig7", "fig10", "fig12"]
    assert {file.stem for file in (folder / "out").iterdir()} == set(names)
    suite = nooch.load_suite(folder / "suite")
    expected = figure_data("fig6", Sources(suite=suite, runs=folder / "runs", paper=True))
    assert pl.read_csv(folder / "out" / "fig6.csv", schema=expected.schema).equals(expected)
    left_out = "left out because their input is not given: fig11, fig13, fig14, fig1, fig2"
    assert left_out in " ".join(done.err.split())
    done = run_cli("paper figures all --paper --formats svg --out more --format json").ok()
    assert list(done.json["figures"]) == names[1:5]
    assert done.json["files"][:2] == ["fig4.svg", "fig4.csv"]


def test_a_folder_of_figures_is_added_to_but_files_are_kept(folder, run_cli):
    words = "--paper --out out --formats png --dpi 40"
    run_cli(f"paper figures fig4 {words}").ok()
    run_cli(f"paper figures fig5 {words}").ok()
    run_cli(f"paper figures fig4 {words}").refused("exists already")
    run_cli(f"paper figures fig4 {words} --overwrite").ok()
