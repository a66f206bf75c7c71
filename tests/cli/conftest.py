"""Commands run in the test's own folder, so that paths in them are short; worlds to run them in."""

import contextlib
import json

import numpy as np
import pytest
from commands import completed
from every_command import World
from generate_annotations import generate
from made_runs import made_runs
from pictures import CONFIG, picture_dataset
from scored import logits, small_data, small_suite

import nooch
from nooch.data import save_dataset
from nooch.report.figures.sweeps import save_sweep
from nooch.suites import save_suite


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="session")
def every_world(tmp_path_factory):
    """The world in which every command runs."""
    return World.make(tmp_path_factory.mktemp("every"))


@pytest.fixture(scope="session")
def every(every_world):
    return every_world.folder


@pytest.fixture(scope="session")
def scenes(tmp_path_factory):
    """Annotations of 600 made-up scenes in COCO's files, their dataset, and a suite of it."""
    folder = tmp_path_factory.mktemp("scenes")
    generate(folder / "annotations", 600, seed=1)
    kinds = {"things": "instances", "stuff": "stuff", "captions": "captions"}
    files = " ".join(f"--{kind} annotations/{name}.json" for kind, name in kinds.items())
    with contextlib.chdir(folder):
        completed(
            f"import coco {files} --split 60/20/20 dataset",
            "find dataset --tasks car,bowl,cow --out suite",
        )
    return folder


@pytest.fixture(scope="session")
def annotations(scenes):
    return scenes / "annotations"


@pytest.fixture(scope="session")
def pictures(tmp_path_factory):
    """Pictures, their dataset, pixels and suite, and the configuration of a small network."""
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("pictures")
    save_dataset(picture_dataset(folder, n_train=96, n_other=60), folder / "dataset")
    completed(
        f"train pixels {folder / 'dataset'} --size 16 --out {folder / 'pixels'}",
        f"find {folder / 'dataset'} --tasks car,road --out {folder / 'suite'}",
    )
    (folder / "small.json").write_text(json.dumps(CONFIG))
    return folder


@pytest.fixture(scope="session")
def scored(tmp_path_factory):
    """The small suite, its dataset, predictions of two runs, folders of runs, and a sweep."""
    folder, data = tmp_path_factory.mktemp("scored"), small_data()
    save_dataset(data, folder / "dataset")
    suite = small_suite(data, "../dataset")
    save_suite(suite, folder / "suite")
    save_suite(small_suite(path="elsewhere"), folder / "other")
    for seed, name in enumerate("ab"):
        logits(suite, seed=seed).write_parquet(folder / f"{name}.parquet")
    logits(suite).write_csv(folder / "predictions.csv")
    made_runs(folder / "runs", suite)
    lost = lambda job: (job.task, job.method, job.seed) == ("car", "erm", 1)  # noqa: E731
    made_runs(folder / "half", suite, lost=lost)
    few = {"settings": {"erm": [()], "gdro": [(("K", 5.0),)]}, "seeds": (0,)}
    made_runs(folder / "few", suite, **few)
    save_sweep(nooch.sweep_thresholds(data, alpha=[0.0, 0.02], beta=[0.05, 0.1]), folder / "sweep")
    ones = np.ones((len(data), 2))
    np.savez(folder / "e.npz", image_ids=data.image_ids, embeddings=ones)
    return folder
