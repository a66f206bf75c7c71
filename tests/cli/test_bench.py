"""bench, status and collect as a user types them: a grid on embeddings as features, killed and gone
on with.
"""

import json
import shutil

import numpy as np
import polars as pl
import pytest
from commands import completed, kill_three_times
from small_world import GRID, N_JOBS, contents

from nooch.data import load_dataset, save_dataset
from nooch.suites import load_suite

pytest.importorskip("torch")

CONFIG = f"{GRID}epochs: 4\npatience: 2\n"


@pytest.fixture(scope="module")
def world(scenes, tmp_path_factory):
    """Made-up scenes with an embedding, a suite of them, and a configuration."""
    folder = shutil.copytree(scenes, tmp_path_factory.mktemp("world"), dirs_exist_ok=True)
    completed(f"tools embed {folder / 'dataset'} --encoder lexical")
    (folder / "bench.yaml").write_text(CONFIG)
    return folder


@pytest.fixture(scope="module")
def embedding(world):
    (name,) = load_dataset(world / "dataset").embeddings
    return name


@pytest.fixture(scope="module")
def bench(world, embedding):
    """The command into a folder, with further options."""
    data = f"{world / 'dataset'} {world / 'suite'} --embedding {embedding}"
    return f"train bench {data} --config {world / 'bench.yaml'} --out {{}} {{}}".format


@pytest.fixture(scope="module")
def undisturbed(bench, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "runs"
    completed(bench(out, ""))
    return out


def test_the_records_of_a_grid(undisturbed, world, run_cli):
    facts = run_cli(f"train status {undisturbed} --format json").json
    assert (facts["done"], facts["jobs"]) == (N_JOBS, N_JOBS)
    assert [p["jobs"] for p in facts["passes"]] == [N_JOBS // 2] * 2
    data, suite = load_dataset(world / "dataset"), load_suite(world / "suite")
    expected = data.images.filter(pl.col("split") != "train").height
    seen = set()
    for folder in (undisturbed / "jobs").iterdir():
        record = json.loads((folder / "config.json").read_text())
        lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        assert folder.name == record["id"]
        assert [line["epoch"] for line in lines] == list(range(1, record["epochs"] + 1))
        # the best epoch is the one of the lowest validation value
        assert record["best_epoch"] == min(lines, key=lambda line: line["valid"])["epoch"]
        assert record["epochs"] - record["best_epoch"] <= 2
        predictions = pl.read_parquet(folder / "predictions.parquet")
        assert predictions.height == expected
        assert len(record["environments"]) == 4
        job = record["job"]
        assert record["sees"] == (
            []
            if job["method"] in {"erm", "cvar"}
            else ["environments in training", "environments in validation"]
        )
        seen.add((job["task"], job["method"], str(job["parameters"]), job["seed"]))
        # what is recorded as the loss is that of the predictions
        valid = predictions.filter(split="valid")
        labels = suite.set("ce", job["task"], "valid").labels
        z = valid["logit"].to_numpy().astype(float)
        loss = np.mean(np.logaddexp(0, z) - labels * z)
        assert lines[record["best_epoch"] - 1]["nll"] == pytest.approx(loss, rel=1e-4)
        assert record["nll"] == pytest.approx(loss, rel=1e-6)
        share = labels.mean()
        assert record["constant_nll"] == pytest.approx(
            -share * np.log(share) - (1 - share) * np.log(1 - share)
        )
    assert len(seen) == N_JOBS
    # what workers share while they train is gone
    assert list((undisturbed / "passes").iterdir()) == []


def test_collect_scores_and_chooses(undisturbed, world, run_cli, tmp_path):
    done = run_cli(
        f"train score {undisturbed} {world / 'suite'} --out c --rule"
        " worst-hard,mean,auc-hard,easy,worst-environment,oracle --format json"
    ).ok()
    selected = done.json["selected"]
    scores = pl.read_parquet(tmp_path / "c" / "scores.parquet")
    assert scores["run"].n_unique() == N_JOBS // 2
    assert set(scores["split"]) == {"valid", "test"}
    plain = scores.filter(pl.col("cue").is_null(), split="valid", metric="nll", criterion="ce")
    compared = 0
    for task in ("car", "bowl"):
        worst = {}
        for k in ("K=0", "K=5"):
            sides = [
                plain.filter(pl.col("run").str.starts_with(f"gdro/{k}/"), task=task, subset=side)[
                    "value"
                ].mean()
                for side in ("hard_positive", "hard_negative")
            ]
            worst[k] = max(sides, default=None) if None not in sides else None
        compared += None not in worst.values()
        if None in worst.values():
            # a side without an image: nothing can be chosen
            assert not [r for r in selected if (r["rule"], r["task"]) == ("worst-hard", task)]
            continue
        (row,) = [
            r
            for r in selected
            if (r["rule"], r["task"], r["method"]) == ("worst-hard", task, "gdro")
        ]
        assert (row["setting"], row["n_seeds"], row["n_settings"]) == (
            min(worst, key=worst.get),
            2,
            2,
        )
        assert row["value"] == pytest.approx(min(worst.values()))
    assert compared
    assert {r["rule"] for r in selected} == {
        "worst-hard",
        "mean",
        "auc-hard",
        "easy",
        "worst-environment",
        "oracle",
    }
    assert {r["split"] for r in selected if r["rule"] == "oracle"} == {"test"}
    shown = run_cli(f"train score {undisturbed} {world / 'suite'} --out d")
    chosen = "settings chosen on the worse of the two hard sides"
    assert f"AUC on hard images, ce (d, test images; {chosen})" in shown.out


def test_killed_three_times_it_ends_with_the_same_bytes(undisturbed, bench, tmp_path):
    out = tmp_path / "runs"
    # from the first checkpoint on, anywhere
    kill_three_times(bench(out, ""), lambda: list((out / "passes").glob("*.npz")), 0.5)
    assert contents(out) == contents(undisturbed)
    assert not list((out / "passes").glob("*.npz"))
    # once more, it does nothing
    times = (out / "timings.jsonl").read_text()
    completed(bench(out, ""))
    assert (out / "timings.jsonl").read_text() == times


def test_a_lost_job_alone_is_made_again(undisturbed, bench, tmp_path, run_cli):
    out = shutil.copytree(undisturbed, tmp_path / "runs")
    lost = sorted((out / "jobs").iterdir())[3]
    shutil.rmtree(lost)
    times = {f.name: f.stat().st_mtime_ns for f in (out / "jobs").iterdir()}
    # left where a process was killed just after it had written a job
    (out / "jobs" / f".{min(times)}.lock").touch()
    (out / "jobs" / f".{min(times)}.partial").mkdir()
    (out / "jobs" / f".{min(times)}.partial" / ".nooch").touch()
    assert run_cli(f"train status {out} --format json").json["done"] == N_JOBS - 1
    run_cli(bench(out, "")).ok()
    assert contents(out) == contents(undisturbed)
    assert {f.name: f.stat().st_mtime_ns for f in (out / "jobs").iterdir() if f != lost} == times


def test_a_dry_run_writes_nothing(bench, run_cli, tmp_path):
    options = "--dry-run --set methods="
    facts = run_cli(bench("runs", f"{options} --format json --set seeds=[0,1,2]")).ok().json
    # 32 settings (Table 8 and ERM), 2 tasks, 3 seeds
    assert (facts["settings"], facts["jobs"], facts["passes"]) == (32, 192, [64, 64, 64])
    assert facts["disk_bytes"] > 0
    done = run_cli(bench("runs", f"{options} --set heads=60"))
    text = " ".join(done.out.split())
    assert "128: 2 tasks x 32 settings of 9 methods x 2 seeds" in text
    assert "60 jobs" in text
    assert not (tmp_path / "runs").exists()


def test_methods_that_need_environments_need_a_cue(world, embedding, run_cli, tmp_path):
    run_cli(
        f"find {world / 'dataset'} --criterion gist --encoder {embedding} --tau 0.3 --tasks"
        f" car,airplane --out suite"
    ).ok()
    data = load_dataset(world / "dataset")
    # labels without areas: nothing tells a cue
    from dataclasses import replace

    areas = data.areas.copy()
    areas.data = np.full_like(areas.data, np.nan)
    save_dataset(replace(data, areas=areas), tmp_path / "dataset")
    run_cli(
        f"find dataset --criterion gist --encoder {embedding} --tau 0.3 --tasks"
        f" car,airplane --out labels"
    ).ok()
    words = f"train bench dataset labels --embedding {embedding} --out runs --set epochs=1"
    words += " --set 'seeds=[0]'"
    run_cli(f"{words} --set 'methods=[gdro]'").refused("method gdro: task car has no environments")
    # what needs none is trained, and cannot be chosen by environments
    run_cli(f"{words} --set 'methods=[erm]'").ok()
    chosen = "train score runs labels --rule"
    run_cli(f"{chosen} worst-environment --out none").refused("no job has environments")
    both = run_cli(f"{chosen} worst-environment,mean --out both").ok()
    assert "worst-environment is left out" in both.err


def test_folders_that_do_not_resume(undisturbed, world, bench, run_cli, tmp_path):
    run_cli(bench(undisturbed, "--set lr=0.5 --set condition=none")).refused(
        "runs of another configuration",
        "condition is standardize in the folder, none here; lr is 0.01 in the folder, 0.5 here",
    )
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    assert run_cli(bench("mine", "")).code == 2
    assert run_cli("train status mine").code == 2
    run_cli(f"train bench {world / 'dataset'} {world / 'suite'} --out r").refused("--features")
    run_cli(f"find {world / 'dataset'} --tasks car --beta 0.3 --out suite").ok()
    run_cli(f"train score {undisturbed} suite --out c").refused("trained for another suite")
