"""``nooch import waterbirds`` and ``nooch paper waterbirds``."""

import numpy as np
import polars as pl
import pytest

from nooch.data import load_dataset
from nooch.suites import load_suite

FIND = "find data --criterion attribute --preset waterbirds --split {} --out suite".format


@pytest.fixture
def birds(tmp_path):
    """The standard folder, without its images: three quarters of the training birds at home."""
    random, n = np.random.default_rng(0), 60
    y, split = random.integers(0, 2, n), np.repeat([0, 1, 2], 20)
    away = random.random(n) < np.where(split == 0, 0.25, 0.5)
    names = [f"{number}.jpg" for number in range(n)]
    table = {"img_id": range(1, n + 1), "img_filename": names, "y": y, "split": split}
    table |= {"place": np.where(away, 1 - y, y), "place_filename": names}
    (tmp_path / "birds").mkdir()
    pl.DataFrame(table).write_csv(tmp_path / "birds" / "metadata.csv")


def predictions(data, file, place=0.0, seed=0):
    random = np.random.default_rng(seed)
    values = random.normal(size=len(data)) + 2.0 * data.labels("waterbird") - 1
    values += place * (data.images["place"].to_numpy() - 0.5)
    pl.DataFrame({"image_id": data.image_ids, "task": "waterbird", "logit": values}).write_csv(file)
    return file


def test_from_the_standard_folder_to_scores(birds, run_cli, tmp_path):
    done = run_cli("import waterbirds birds data").ok()
    assert "60 images" in done.out
    run_cli(FIND("train,test")).ok()
    assert {key[2] for key in load_suite(tmp_path / "suite").keys} == {"train", "test"}
    data = load_dataset(tmp_path / "data")
    test = data.select("test")
    predictions(test, tmp_path / "bird.csv")
    predictions(test, tmp_path / "place.csv", 8.0)
    scored = run_cli("paper waterbirds suite bird.csv place.csv --format json").ok()
    bird, place = scored.json
    assert (bird["run"], place["run"]) == ("bird", "place")
    assert bird["worst_group_error"] < 0.6
    assert place["worst_group_error"] > 0.9
    assert bird["auc_hard"] > 0.6
    assert place["auc_hard"] < 0.1
    shown = run_cli("paper waterbirds suite bird.csv place.csv")
    for name in ("worst_group_error", "worst_of_four_nll", "error_by_training_groups"):
        assert name in shown.out


def test_evaluate_gives_the_same(birds, run_cli, tmp_path):
    """What docs/waterbirds.md says: the same numbers are in nooch evaluate's table."""
    run_cli("import waterbirds birds data")
    run_cli(FIND("train,test"))
    file = predictions(load_dataset(tmp_path / "data").select("test"), tmp_path / "p.csv", 1.0)
    scored = run_cli(f"paper waterbirds suite {file} --format json").json[0]
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
    nll = [row for row in rows if row["metric"] == "nll" and row["subset"] == "all"]
    groups = [row["value"] for row in nll if row["group"]]
    assert len(groups) == 4
    assert scored["worst_of_four_nll"] == max(groups)


def test_the_genuine_table(shared_data, run_cli, tmp_path):
    done = run_cli(f"import waterbirds {shared_data / 'waterbirds'} data --format json").ok()
    assert done.json["splits"] == {"train": 4795, "valid": 1199, "test": 5794}
    assert "image files are not below" in done.err
    found = run_cli(f"{FIND('train,valid,test')} --format json")
    train = next(s for s in found.json["sets"] if s["split"] == "train")
    hard = train["hard_negatives"], train["hard_positives"]
    easy = train["negatives"] - hard[0], train["positives"] - hard[1]
    assert (easy[0], *hard, easy[1]) == (3498, 184, 56, 1057)
    file = predictions(load_dataset(tmp_path / "data").select("test"), tmp_path / "p.csv", 1.0)
    run_cli(f"paper waterbirds suite {file}").ok()


def test_what_score_refuses(shared_data, run_cli, tmp_path):
    run_cli(f"import waterbirds {shared_data / 'waterbirds'} data")
    run_cli(FIND("test"))
    file = predictions(load_dataset(tmp_path / "data").select("test"), tmp_path / "p.csv")
    assert "'valid' is not a split" in run_cli(f"paper waterbirds suite {file} --split valid").err
    (tmp_path / "data").rename(tmp_path / "moved")
    run_cli(f"paper waterbirds suite {file}").refused("give --dataset")
    run_cli(f"paper waterbirds suite {file} --dataset moved").ok()
