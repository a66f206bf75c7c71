"""Commands on a GPU as a user types them: killed and resumed, one job a GPU, predictions."""

import json
import subprocess
import sys
import time

import numpy as np
import polars as pl
import pytest
from pictures import CONFIG, picture_dataset

from nooch.data import save_dataset


def command(*words, **more):
    return subprocess.Popen(
        [sys.executable, "-m", "nooch", *map(str, words)], stderr=subprocess.PIPE, **more
    )


def done(*words):
    process = command(*words, stdout=subprocess.DEVNULL)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err.decode()[-2000:]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("world")
    save_dataset(picture_dataset(folder, n_train=96, n_other=60), folder / "dataset")
    (folder / "small.json").write_text(json.dumps(CONFIG))
    done("pixels", folder / "dataset", "--size", "16", "--out", folder / "pixels")
    done("find", folder / "dataset", "--tasks", "car", "--out", folder / "suite")
    return folder


def bench(world, out, device, *more):
    given = (
        "methods={erm: , gdro: {K: 5}}",
        "seeds=[0]",
        "lr=0.002",
        "batch=16",
        "epochs=3",
        "networks=1",
        "keep_weights=true",
    )
    sets = [word for text in given for word in ("--set", text)]
    words = [
        "bench",
        world / "dataset",
        world / "suite",
        "--pixels",
        world / "pixels",
        "--device",
        device,
        "--out",
        out,
    ]
    return [*words, "--backbone", f"config:{world}/small.json", *sets, *more]


@pytest.fixture(scope="module")
def undisturbed(world, device, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "runs"
    done(*bench(world, out, device))
    return out


def compare(ours, theirs, tolerance=0.01):
    """Jobs of the same identities whose logits differ by rounding alone."""
    names = sorted(path.name for path in (theirs / "jobs").iterdir())
    assert len(names) == 2
    assert sorted(path.name for path in (ours / "jobs").iterdir()) == names
    for name in names:
        one, other = (
            pl.read_parquet(folder / "jobs" / name / "predictions.parquet")
            .sort("split", "image_id")["logit"]
            .to_numpy()
            for folder in (ours, theirs)
        )
        assert np.abs(one - other).max() < tolerance * np.abs(other).max()


def test_killed_and_resumed(world, device, undisturbed, tmp_path):
    out = tmp_path / "runs"
    process = command(*bench(world, out, device), stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while (
        process.poll() is None
        and time.monotonic() < deadline
        and not list((out / "passes").glob("*.npz"))
    ):
        time.sleep(0.005)
    process.kill()
    process.communicate()
    done(*bench(world, out, device))
    compare(out, undisturbed)


def test_one_job_a_gpu(world, device, undisturbed, tmp_path):
    """With --engine local each job sees one GPU; on a processor, a process."""
    kind, engine = device.partition(":")[0], "local" if device != "cpu" else "local:1"
    done(*bench(world, tmp_path / "runs", kind, "--engine", engine))
    compare(tmp_path / "runs", undisturbed)


def test_predictions(world, device, undisturbed, tmp_path):
    weights = next(iter(sorted((undisturbed / "jobs").iterdir()))) / "weights"
    words = [
        "predict",
        world / "suite",
        "--model",
        weights,
        "--images",
        world / "images",
        "--dataset",
        world / "dataset",
    ]
    found = {}
    for name, where in (("here", device), ("there", "cpu")):
        done(*words, "--device", where, "--out", tmp_path / f"{name}.parquet")
        found[name] = (
            pl.read_parquet(tmp_path / f"{name}.parquet").sort("image_id")["logit"].to_numpy()
        )
    assert np.abs(found["here"] - found["there"]).max() < 0.001 * np.abs(found["there"]).max()


def test_features_and_a_dry_run(world, device, tmp_path):
    found = {}
    words = [
        "features",
        world / "dataset",
        "--backbone",
        f"config:{world}/small.json",
        "--pixels",
        world / "pixels",
    ]
    for name, where in (("here", device), ("there", "cpu")):
        done(*words, "--device", where, "--out", tmp_path / name)
        found[name] = np.load(tmp_path / name / "features.npy", allow_pickle=False)
    # a GPU rounds inputs of convolutions to 10 bits here: commands leave TF32 as torch has it
    assert np.abs(found["here"] - found["there"]).max() < 0.01 * np.abs(found["there"]).max()
    process = command(
        *bench(world, tmp_path / "runs", device, "--dry-run", "--format", "json"),
        stdout=subprocess.PIPE,
    )
    text, err = process.communicate(timeout=300)
    assert process.returncode == 0, err.decode()[-2000:]
    assert json.loads(text)["seconds_per_step"] > 0
    assert not (tmp_path / "runs").exists()
