"""Commands on a GPU as a user types them: killed and resumed, one job a GPU, predictions."""

import json
import shlex
import subprocess
import sys
import time

import numpy as np
import polars as pl
import pytest
from pictures import CONFIG, picture_dataset

from nooch.data import save_dataset


def command(text, **more):
    words = [sys.executable, "-m", "nooch", *shlex.split(text)]
    return subprocess.Popen(words, stderr=subprocess.PIPE, **more)


def finished(text, **more):
    """What a command that succeeds prints to a pipe."""
    process = command(text, **more)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err.decode()[-2000:]
    return out


def run(text):
    finished(text, stdout=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("world")
    save_dataset(picture_dataset(folder, n_train=96, n_other=60), folder / "dataset")
    (folder / "small.json").write_text(json.dumps(CONFIG))
    run(f"train pixels {folder}/dataset --size 16 --out {folder}/pixels")
    run(f"find {folder}/dataset --tasks car --out {folder}/suite")
    return folder


def bench(world, out, device, more=""):
    return (
        f"train bench {world}/dataset {world}/suite --pixels {world}/pixels"
        f" --device {device} --out {out}"
        f" --backbone config:{world}/small.json --set 'methods={{erm: , gdro: {{K: 5}}}}'"
        " --set seeds=[0] --set lr=0.002 --set batch=16 --set epochs=3 --set networks=1"
        f" --set keep_weights=true {more}"
    )


@pytest.fixture(scope="module")
def undisturbed(world, device, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "runs"
    run(bench(world, out, device))
    return out


def logits(file, *order):
    return pl.read_parquet(file).sort(*order)["logit"].to_numpy()


def compare(ours, theirs, tolerance=0.01):
    """Jobs of the same identities whose logits differ by rounding alone."""
    names = sorted(path.name for path in (theirs / "jobs").iterdir())
    assert len(names) == 2
    assert sorted(path.name for path in (ours / "jobs").iterdir()) == names
    for name in names:
        files = [folder / "jobs" / name / "predictions.parquet" for folder in (ours, theirs)]
        one, other = (logits(file, "split", "image_id") for file in files)
        assert np.abs(one - other).max() < tolerance * np.abs(other).max()


def test_killed_and_resumed(world, device, undisturbed, tmp_path):
    out = tmp_path / "runs"
    process = command(bench(world, out, device), stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < deadline:
        if list((out / "passes").glob("*.npz")):
            break
        time.sleep(0.005)
    process.kill()
    process.communicate()
    run(bench(world, out, device))
    compare(out, undisturbed)


def test_one_job_a_gpu(world, device, undisturbed, tmp_path):
    """With --engine local each job sees one GPU; on a CPU, a process."""
    kind, engine = device.partition(":")[0], "local" if device != "cpu" else "local:1"
    run(bench(world, tmp_path / "runs", kind, f"--engine {engine}"))
    compare(tmp_path / "runs", undisturbed)


def test_predictions(world, device, undisturbed, tmp_path):
    weights = next(iter(sorted((undisturbed / "jobs").iterdir()))) / "weights"
    found, text = {}, f"predict {world}/suite --model {weights} --images {world}/images"
    for name, where in (("here", device), ("there", "cpu")):
        file = tmp_path / f"{name}.parquet"
        run(f"{text} --dataset {world}/dataset --device {where} --out {file}")
        found[name] = logits(file, "image_id")
    assert np.abs(found["here"] - found["there"]).max() < 0.001 * np.abs(found["there"]).max()


def test_features_and_a_dry_run(world, device, tmp_path):
    found, text = {}, f"train features {world}/dataset --backbone config:{world}/small.json"
    for name, where in (("here", device), ("there", "cpu")):
        run(f"{text} --pixels {world}/pixels --device {where} --out {tmp_path / name}")
        found[name] = np.load(tmp_path / name / "features.npy", allow_pickle=False)
    # a GPU rounds inputs of convolutions to 10 bits here: commands leave TF32 as torch has it
    assert np.abs(found["here"] - found["there"]).max() < 0.01 * np.abs(found["there"]).max()
    dry = bench(world, tmp_path / "runs", device, "--dry-run --format json")
    assert json.loads(finished(dry, stdout=subprocess.PIPE))["jobs"] > 0
    assert not (tmp_path / "runs").exists()
