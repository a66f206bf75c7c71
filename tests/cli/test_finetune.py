"""Fine-tuning on the command line: pixels, bench with a backbone, collect; killed and resumed."""

import json
import re

import polars as pl
import pytest
from commands import completed, kill_three_times
from small_world import contents

import nooch
from nooch.data import load_dataset, save_dataset
from nooch.models.saved_networks import load_network

pytest.importorskip("torch")
pytest.importorskip("transformers")

METHODS = (
    "{erm: , gdro: {K: 0}, label-undersample: {alpha: 1}, mixup: {alpha: 0.2}, jtt: {epochs: 1, up:"
    " 5}, dfr: }"
)
SETTINGS = {
    "tasks": "[car]",
    "methods": METHODS,
    "lr": "0.02",
    "batch": "16",
    "epochs": "2",
    "seeds": "[0, 1]",
    "networks": "2",
}
N_JOBS = 12


@pytest.fixture(scope="module")
def world(pictures):
    return pictures


def bench(world, out, more="", **settings):
    backbone = "" if "--backbone" in more else f"--backbone config:{world}/small.json"
    values = {**SETTINGS, **settings}
    chosen = " ".join(f"--set '{name}={value}'" for name, value in values.items())
    data = f"{world / 'dataset'} {world / 'suite'} --pixels {world / 'pixels'} --device cpu"
    return f"train bench {data} --out {out} {backbone} {chosen} {more}"


@pytest.fixture(scope="module")
def undisturbed(world, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "runs"
    completed(bench(world, out))
    return out


def test_fine_tuned_and_collected(world, undisturbed, run_cli, tmp_path):
    facts = run_cli(f"train status {undisturbed} --format json").json
    assert (facts["done"], facts["jobs"]) == (N_JOBS, N_JOBS)
    assert max(p["jobs"] for p in facts["passes"]) == 2
    header = json.loads((undisturbed / "runs.json").read_text())
    assert header["data"]["backbone"]["name"].startswith("config:")
    assert header["settings"]["lr"] == 0.02
    frames = [
        pl.read_parquet(file) for file in (undisturbed / "jobs").glob("*/predictions.parquet")
    ]
    assert len(frames) == N_JOBS
    assert all(frame["logit"].is_finite().all() for frame in frames)
    assert {split: frames[0].filter(split=split).height for split in ("valid", "test")} == {
        "valid": 60,
        "test": 60,
    }
    done = run_cli(f"train score {undisturbed} {world / 'suite'} --out scores --format json").ok()
    assert {row["method"] for row in done.json["selected"]} == {
        "erm",
        "gdro",
        "label-undersample",
        "mixup",
        "jtt",
        "dfr",
    }


def test_killed_three_times_it_ends_with_the_same_bytes(world, undisturbed, tmp_path):
    out, known = tmp_path / "runs", set()

    def further():
        jobs = set((out / "jobs").glob("*"))
        more = list((out / "passes").glob("*.npz")) or jobs - known
        known.update(jobs)
        return more

    kill_three_times(bench(world, out), further, 0.2)
    assert contents(out) == contents(undisturbed)


def test_other_networks_side_by_side_give_the_same(world, undisturbed, run_cli, tmp_path):
    run_cli(bench(world, "runs", networks=1)).ok()
    names = sorted(file.name for file in (undisturbed / "jobs").iterdir())
    assert sorted(file.name for file in (tmp_path / "runs" / "jobs").iterdir()) == names
    for name in names:
        for file in ("predictions.parquet", "metrics.jsonl", "config.json"):
            ours, theirs = (
                folder / "jobs" / name / file for folder in (tmp_path / "runs", undisturbed)
            )
            assert ours.read_bytes() == theirs.read_bytes()


def test_trained_networks_are_kept_where_asked(world, run_cli, tmp_path):
    run_cli(bench(world, "runs", methods="[erm]", seeds="[0]", keep_weights="true")).ok()
    (folder,) = (tmp_path / "runs" / "jobs").iterdir()
    network, header = load_network(folder / "weights", device="cpu")
    assert (header.outputs, network.n_outputs) == (["car"], 1)


def test_a_custom_backbone_is_named_again_to_predict(world, run_cli, tmp_path):
    own = "--backbone own_networks:network"
    run_cli(bench(world, "runs", own, methods="[erm]", seeds="[0]", keep_weights="true")).ok()
    (folder,) = (tmp_path / "runs" / "jobs").iterdir()
    command = f"predict {world / 'suite'} --dataset {world / 'dataset'} --device cpu --model"
    failed = run_cli(f"{command} {folder / 'weights'} --out p.parquet")
    assert failed.code == 2
    assert f"give {own}" in failed.err
    assert "1 task x 120 images" in run_cli(f"{command} {folder / 'weights'} --out p.csv {own}").out
    trained = pl.read_parquet(folder / "predictions.parquet").filter(pl.col("split") != "train")
    both = trained.join(pl.read_csv(tmp_path / "p.csv"), on="image_id")
    assert (both["logit"] - both["logit_right"]).abs().max() < 1e-4
    wrong = run_cli(f"{command} {world} --out q.csv {own}")
    assert "--backbone is for networks that nooch trained" in wrong.err


def test_appendix_a(world, run_cli, tmp_path):
    settings = {
        "methods": "[erm]",
        "seeds": "[0]",
        "augment": "[affine, crop, flip]",
        "schedule": "cosine",
    }
    run_cli(bench(world, "a", **settings, auxiliary="0.5", optimiser="adam")).ok()
    run_cli(bench(world, "b", methods="[erm]", seeds="[0]", train="affine")).ok()


def test_a_dry_run(world, run_cli, tmp_path):
    facts = run_cli(bench(world, "runs", "--dry-run --format json")).json
    assert facts["jobs"] == N_JOBS
    assert sum(facts["passes"]) == N_JOBS
    assert not (tmp_path / "runs").exists()
    done = run_cli(bench(world, "runs", "--dry-run", networks="1"))
    text = " ".join(done.out.split())
    assert "12: 1 task x 6 settings of 6 methods x 2 seeds" in text
    assert "passes 12: 12 of 1 job" in text
    assert not re.search(r"\de[+-]\d|1, 1", text)
    assert not (tmp_path / "runs").exists()


REFUSED = [
    ("--set block=4", "is not a name of the configuration (finetune)"),
    ("--set 'methods=[logistic]'", "logistic is for frozen features"),
    ("--set 'augment=[blur]'", "blur"),
    ("--backbone empty", "config.json"),
    ("--backbone ./nowhere", "is not a backbone"),
    ("--method nooch.base.errors:NoochError", "nooch.Method"),
    ("--embedding x", "--features FOLDER"),
]


@pytest.mark.parametrize(("options", "message"), REFUSED)
def test_what_is_refused_before_anything_is_trained(world, run_cli, tmp_path, options, message):
    (tmp_path / "empty").mkdir()
    run_cli(bench(world, "runs", options)).refused(message)
    assert not (tmp_path / "runs").exists()


def test_pixels_of_another_dataset(world, run_cli, tmp_path):
    data = load_dataset(world / "dataset")
    frame = data.images.with_columns(image_id=pl.col("image_id") + 1000)
    other = nooch.Dataset.build(frame, data.classes, data.areas, image_root=data.image_root)
    save_dataset(other, tmp_path / "dataset")
    run_cli("find dataset --tasks car --out suite").ok()
    words = f"dataset suite --pixels {world / 'pixels'} --out runs"
    run_cli(f"train bench {words} --backbone config:{world}/small.json").refused(
        "contains no pixels of"
    )


def test_memory_that_runs_out_suggests_a_smaller_batch(world, run_cli, tmp_path, monkeypatch):
    from nooch.training import network_pass as network_trainer

    def full(*_):
        raise RuntimeError(
            "[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory"
        )

    monkeypatch.setattr(network_trainer.NetworkTrainer, "step", full)
    error = run_cli(bench(world, "runs")).refused("smaller batch", "--set networks=1")
    assert "--set batch=" in error
