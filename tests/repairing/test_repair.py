"""Repair: new heads that never look at test, their files, and verdicts by side and cue."""

from dataclasses import replace

import msgspec
import numpy as np
import polars as pl
import pytest
from oracles import dataset_of

import nooch

pytest.importorskip("torch")
QUICK = {"methods": ["erm", "environment-reweight"], "bootstrap": 100}


def world(n=1800, seed=0):
    """Cars mostly on roads, boats mostly on water; features move with the places the most."""
    random = np.random.default_rng(seed)
    split = random.choice(["train", "valid", "test"], n).tolist()
    things = random.random((n, 2)) < 0.4
    places = random.random((n, 2)) < np.where(things, 0.9, 0.15)
    names = ["car", "boat", "road", "water"]
    present = np.hstack([things, places])
    images = [
        {
            name: 0.1 if name in names[:2] else 0.5
            for name, there in zip(names, row, strict=True)
            if there
        }
        for row in present
    ]
    features = random.normal(size=(n, 8)).astype(np.float32)
    features[:, :4] += present * [1.5, 1.5, 4, 4]
    return dataset_of(images, names, split), features


DATA, FEATURES = world()
SUITE = nooch.find(DATA, {"ce": nooch.CE()}, tasks=["car", "boat"])


@pytest.fixture(scope="module")
def repaired(tmp_path_factory):
    out = tmp_path_factory.mktemp("repair") / "out"
    return nooch.repair(SUITE, FEATURES, out, dataset=DATA, **QUICK)


def test_a_head_that_leans_on_the_place_is_repaired(repaired):
    assert repaired.table["task"].to_list() == ["car", "boat"]
    worst = repaired.table.select("worst_hard_before", "worst_hard_after").rows()
    assert all(after < before for before, after in worst)


def test_files_say_the_same(repaired, tmp_path):
    from safetensors.numpy import load_file

    out = repaired.out
    test = np.flatnonzero((DATA.images["split"] == "test").to_numpy())
    about = msgspec.json.decode((out / "head.json").read_bytes())
    thresholds = {row["task"]: row["threshold"] for row in about["tasks"]}
    assert (list(thresholds), about["n_features"]) == (["car", "boat"], 8)
    arrays = load_file(out / "head.safetensors")
    logits = FEATURES[test] @ arrays["weight"].T + arrays["bias"]
    written = pl.read_parquet(out / "predictions.parquet")
    ids = DATA.images["image_id"].gather(test)
    wide = pl.DataFrame({"image_id": ids}).join(
        written.pivot("task", index="image_id", values="logit"), on="image_id", how="left"
    )
    assert np.allclose(wide.select("car", "boat").to_numpy(), logits, atol=1e-4)
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(out / "head.onnx", providers=["CPUExecutionProvider"])
    (given,) = session.run(None, {"features": FEATURES[test]})
    assert np.allclose(given, logits, atol=1e-4)
    scores = nooch.evaluate(SUITE, out / "predictions.parquet", threshold="valid")
    plain = repaired.changes.filter(
        pl.col("cue").is_null(), metric="error", subset="hard", task="car"
    )
    assert plain["after"].item() == scores.value("error", "hard", task="car")
    assert scores.settings["thresholds"]["after"] == thresholds


def test_test_images_change_neither_head_nor_threshold(repaired, tmp_path):
    test = (DATA.images["split"] == "test").to_numpy()
    order = np.arange(len(DATA))
    order[test] = np.random.default_rng(1).permutation(order[test])
    areas = DATA.areas[order]
    other = replace(DATA, areas=areas)
    features = np.where(test[:, None], FEATURES[::-1] * 3 + 1, FEATURES)
    suite = nooch.find(other, {"ce": nooch.CE()}, tasks=["car", "boat"])
    again = nooch.repair(suite, features, tmp_path / "out", dataset=other, **QUICK)
    assert np.array_equal(again.heads, repaired.heads)
    same = ["task", "method", "setting", "threshold"]
    assert again.table.select(same).equals(repaired.table.select(same))
    assert not again.changes.equals(repaired.changes)
