"""``nooch import waterbirds``, ``nooch waterbirds make`` and ``score``, and the commands of
docs/waterbirds.md.
"""

import numpy as np
import polars as pl
import pytest
from birds import cub_folder, places_folder

from nooch.challenge import load_suite
from nooch.data import load_dataset

FIND = [
    "find",
    "--criterion",
    "attribute",
    "--preset",
    "waterbirds",
    "--splits",
    "train,test",
    "--out",
]


@pytest.fixture
def folders(tmp_path):
    return cub_folder(tmp_path / "cub", each=12), places_folder(tmp_path / "places")


def predictions(data, file, place=0.0, seed=0):
    random = np.random.default_rng(seed)
    values = (
        random.normal(size=len(data))
        + 2.0 * data.labels("waterbird")
        - 1
        + place * (data.images["place"].to_numpy() - 0.5)
    )
    pl.DataFrame({"image_id": data.image_ids, "task": "waterbird", "logit": values}).write_csv(file)
    return file


def test_from_birds_and_places_to_scores(folders, run_cli, tmp_path):
    cub, places = folders
    made = run_cli(
        f"waterbirds make --cub {cub} --places {places} --confounder 0.75 birds"
        " --processes 2 --format json"
    ).ok()
    assert made.json["images"] == sum(group["images"] for group in made.json["groups"]) == 60
    done = run_cli("import waterbirds birds data").ok()
    assert "60 images" in done.out
    run_cli(*FIND, tmp_path / "suite", tmp_path / "data").ok()
    assert {key[2] for key in load_suite(tmp_path / "suite").keys} == {"train", "test"}
    data = load_dataset(tmp_path / "data")
    assert data.image_root == str((tmp_path / "birds").resolve())
    test = data.select("test")
    files = [
        predictions(test, tmp_path / f"{name}.csv", place)
        for name, place in (("bird", 0.0), ("place", 8.0))
    ]
    scored = run_cli("waterbirds score suite", *files, "--format", "json").ok()
    bird, place = scored.json
    assert (bird["run"], place["run"]) == ("bird", "place")
    assert bird["worst_group_error"] < 0.6
    assert place["worst_group_error"] > 0.9
    assert bird["auc_hard"] > 0.6
    assert place["auc_hard"] < 0.1
    shown = run_cli("waterbirds score suite", *files)
    for name in ("worst_group_error", "worst_of_four_nll", "error_by_training_groups"):
        assert name in shown.out


def test_evaluate_gives_the_same(folders, run_cli, tmp_path):
    """What docs/waterbirds.md says: the same numbers are in nooch evaluate's table."""
    cub, places = folders
    run_cli(f"waterbirds make --cub {cub} --places {places} birds")
    run_cli("import waterbirds birds data")
    run_cli(*FIND, tmp_path / "suite", tmp_path / "data")
    file = predictions(load_dataset(tmp_path / "data").select("test"), tmp_path / "p.csv", 1.0)
    scored = run_cli(f"waterbirds score suite {file} --format json").json[0]
    rows = run_cli(
        f"evaluate suite {file} --average train --average uniform --by group --format json"
    ).json["scores"]
    value = {(row["metric"], row["subset"], row["group"]): row["value"] for row in rows}
    assert scored["worst_group_error"] == max(
        value["error", f"hard_{side}", None] for side in ("positive", "negative")
    )
    assert scored["auc_hard"] == value["auc", "hard", None]
    assert scored["error_over_images"] == value["error", "all", None]
    assert scored["error_by_training_groups"] == pytest.approx(value["error", "avg:train", None])
    assert scored["error_mean_of_groups"] == pytest.approx(value["error", "avg:uniform", None])
    groups = [
        row["value"]
        for row in rows
        if row["metric"] == "nll" and row["subset"] == "all" and row["group"]
    ]
    assert len(groups) == 4
    assert scored["worst_of_four_nll"] == max(groups)


def test_the_genuine_table(shared_data, run_cli, tmp_path):
    done = run_cli(f"import waterbirds {shared_data / 'waterbirds'} data --format json").ok()
    assert done.json["splits"] == {"train": 4795, "valid": 1199, "test": 5794}
    assert "image files are not below" in done.err
    found = run_cli(
        "find data --criterion attribute --preset waterbirds --splits"
        " train,valid,test --out suite --format json"
    )
    train = next(s for s in found.json["sets"] if s["split"] == "train")
    groups = (
        train["negatives"] - train["hard_negatives"],
        train["hard_negatives"],
        train["hard_positives"],
        train["positives"] - train["hard_positives"],
    )
    assert groups == (3498, 184, 56, 1057)
    file = predictions(load_dataset(tmp_path / "data").select("test"), tmp_path / "p.csv", 1.0)
    run_cli(f"waterbirds score suite {file}").ok()


def test_what_make_refuses(folders, run_cli, tmp_path):
    cub, places = folders

    def refused(*words, said):
        done = run_cli(f"waterbirds make --cub {cub} --places {places} out", *words)
        assert (done.code, done.out) == (2, "")
        assert said in done.err
        assert not (tmp_path / "out").exists()

    refused("--confounder", 2, said="confounder is 2")
    refused("--species", "new", said="released")
    refused("--quality", 0, said="quality 0")
    refused("--metadata", tmp_path / "m.csv", "--seed", 3, said="--seed has no meaning")
    refused("--metadata", tmp_path / "m.csv", said="no such file")
    refused("--segmentations", tmp_path / "none", said="no such folder")
    next((cub / "segmentations").rglob("*.png")).unlink()
    refused(said="1 of 60 images are not there")


def test_what_score_refuses(shared_data, run_cli, tmp_path):
    run_cli(f"import waterbirds {shared_data / 'waterbirds'} data")
    run_cli("find data --criterion attribute --preset waterbirds --splits test --out suite")
    file = predictions(load_dataset(tmp_path / "data").select("test"), tmp_path / "p.csv")
    assert "'valid' is no split" in run_cli(f"waterbirds score suite {file} --split valid").err
    (tmp_path / "data").rename(tmp_path / "moved")
    run_cli(f"waterbirds score suite {file}").refused("give --dataset")
    run_cli(f"waterbirds score suite {file} --dataset moved").ok()
