"""sweep as a user types it."""

import json
import shutil

import numpy as np
import polars as pl
import pytest
from scored import small_data

import nooch
from nooch.data import save_dataset


@pytest.fixture
def dataset(tmp_path):
    return save_dataset(small_data(), tmp_path / "dataset")


def test_the_exact_form(dataset, run_cli, tmp_path):
    done = run_cli("sweep dataset --alpha 0:0.2:20 --beta 0.01:0.5:20 --out out").ok()
    assert "Where both sides are hard equally often" in done.out
    assert "all tasks" in done.out
    grid = pl.read_parquet(tmp_path / "out" / "grid.parquet")
    alphas, betas = grid["alpha"].unique().sort(), grid["beta"].unique().sort()
    assert alphas.to_list() == pytest.approx(np.linspace(0, 0.2, 20).tolist(), abs=1e-15)
    assert betas.to_list() == pytest.approx(np.linspace(0.01, 0.5, 20).tolist(), abs=1e-15)
    # the ends are the numbers as they were written
    assert (alphas[0], alphas[-1], betas[0], betas[-1]) == (0.0, 0.2, 0.01, 0.5)
    assert grid.height == (5 + 1) * 2 * 400
    header = json.loads((tmp_path / "out" / "sweep.json").read_text())
    assert header["dataset"] == nooch.load_dataset(dataset).fingerprint
    assert header["alpha"] == alphas.to_list()
    assert (header["beta"], header["tau"]) == (betas.to_list(), [])
    assert (header["tasks"], header["splits"]) == ("all", ["valid", "test"])
    assert header["embedding"] is None


def test_counts_are_those_that_find_finds(dataset, run_cli, tmp_path):
    run_cli("sweep dataset --alpha 0,0.02,0.04 --beta 0.1,0.08,0.3,0.16 --out o")
    grid = pl.read_parquet(tmp_path / "o" / "grid.parquet")
    cues = pl.read_parquet(tmp_path / "o" / "cues.parquet")
    for alpha, beta in [(0.0, 0.1), (0.02, 0.08), (0.04, 0.3), (0.0, 0.16)]:
        words = f"--alpha {alpha} --beta {beta} --tasks all --out s --overwrite"
        found = run_cli(f"find dataset {words} --format json")
        sets = {(record["task"], record["split"]): record for record in found.json["sets"]}
        suite = nooch.load_suite(tmp_path / "s")
        points = grid.filter(pl.col("task") != "all tasks", alpha=alpha, beta=beta)
        for row in points.iter_rows(named=True):
            none = {"hard_positives": 0, "hard_negatives": 0}
            record = sets.get((row["task"], row["split"]), none)
            assert all(row[side] == record[side] for side in none)
            n_cues = cues.filter(task=row["task"], alpha=alpha)["n_cues"].item()
            assert n_cues == len(suite.header.criteria["ce"].cues.get(row["task"], []))
        assert sets


def test_lists_single_values_and_json(dataset, run_cli, tmp_path):
    words = "--alpha 0.04 --beta '0.3, 0.1,0.2' --tasks fire_hydrant --split test --format json"
    done = run_cli(f"sweep dataset {words} --out out").ok()
    facts = [done.json[name] for name in ("alpha", "beta", "splits")]
    assert facts == [[0.04], [0.3, 0.1, 0.2], ["test"]]
    equal = pl.read_parquet(tmp_path / "out" / "equal.parquet")
    assert done.json["equal"] == equal.to_dicts()
    grid = pl.read_parquet(tmp_path / "out" / "grid.parquet")
    assert grid.filter(task="fire_hydrant")["beta"].to_list() == [0.1, 0.2, 0.3]


def test_tau_over_embeddings_from_a_file(dataset, run_cli, tmp_path):
    data = nooch.load_dataset(dataset)
    values = np.random.default_rng(0).normal(size=(len(data), 4))
    np.savez(tmp_path / "e.npz", image_ids=data.image_ids, embeddings=values)
    words = "--tau -0.5:0.5:3 --encoder e.npz --tasks car --out out"
    done = run_cli(f"sweep dataset {words} --format json").ok()
    assert done.json["tau"] == [-0.5, 0.0, 0.5]
    tau = pl.read_parquet(tmp_path / "out" / "tau.parquet")
    for row in tau.filter(task="car").iter_rows(named=True):
        found = run_cli(
            f"find dataset --criterion gist --encoder e.npz --tau {row['tau']}"
            f" --tasks car --split {row['split']} --out suite --overwrite --format"
            " json"
        )
        (record,) = found.json["sets"]
        assert all(row[side] == record[side] for side in ("hard_positives", "hard_negatives"))


def test_nothing_hard_on_both_sides_is_said(dataset, run_cli, tmp_path):
    done = run_cli("sweep dataset --alpha 0.9 --beta 0.9 --split test --out out").ok()
    assert "no point of the grid has hard images on both sides" in done.err


def test_an_altered_dataset(dataset, run_cli, tmp_path):
    shutil.copy(dataset / "images.parquet", dataset / "areas.parquet")
    run_cli("sweep dataset --alpha 0.05 --beta 0.1 --out out").refused("areas.parquet")
