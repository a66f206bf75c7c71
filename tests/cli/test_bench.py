"""bench, status and collect as a user types them: a grid on embeddings as features, killed and gone
on with.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import polars as pl
import pytest
from generate_annotations import generate
from small_world import GRID, N_JOBS
from waiting import until

from nooch.challenge import load_suite
from nooch.data import load_dataset, save_dataset

pytest.importorskip("torch")

CONFIG = f"{GRID}epochs: 4\npatience: 2\n"


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A dataset of 700 made-up scenes with an embedding, a suite of it, and a configuration."""
    folder = tmp_path_factory.mktemp("world")
    generate(folder / "annotations", 700, seed=2)
    nooch = [sys.executable, "-m", "nooch"]
    files = [
        f"--{role}={folder}/annotations/{name}.json"
        for role, name in (("things", "instances"), ("stuff", "stuff"), ("captions", "captions"))
    ]
    subprocess.run(
        [*nooch, "import", "coco", *files, "--split", "60/20/20", folder / "dataset"],
        check=True,
        capture_output=True,
    )
    subprocess.run(
        [*nooch, "embed", folder / "dataset", "--encoder", "lexical"],
        check=True,
        capture_output=True,
    )
    subprocess.run(
        [*nooch, "find", folder / "dataset", "--tasks", "car,bowl,cow", "--out", folder / "suite"],
        check=True,
        capture_output=True,
    )
    (folder / "bench.yaml").write_text(CONFIG)
    return folder


@pytest.fixture(scope="module")
def embedding(world):
    (name,) = load_dataset(world / "dataset").embeddings
    return name


def arguments(world, embedding, out, *more):
    return [
        "bench",
        world / "dataset",
        world / "suite",
        "--embedding",
        embedding,
        "--config",
        world / "bench.yaml",
        "--out",
        out,
        *more,
    ]


@pytest.fixture(scope="module")
def undisturbed(world, embedding, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "runs"
    words = [str(word) for word in arguments(world, embedding, out)]
    subprocess.run([sys.executable, "-m", "nooch", *words], check=True, capture_output=True)
    return out


def contents(runs):
    """Bytes of everything but times and checkpoints."""
    files = [
        f
        for f in sorted(runs.rglob("*"))
        if f.is_file() and f.name != "timings.jsonl" and f.parent.name != "passes"
    ]
    return {str(f.relative_to(runs)): f.read_bytes() for f in files}


def test_the_records_of_a_grid(undisturbed, world, run_cli):
    facts = run_cli(f"status {undisturbed} --format json").json
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
        f"collect {undisturbed} {world / 'suite'} --out {tmp_path / 'c'} --rules"
        " worst-hard,mean,auc-hard,easy,worst-environment,oracle --format json"
    )
    assert done.code == 0, done.err
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
    shown = run_cli(f"collect {undisturbed} {world / 'suite'} --out {tmp_path / 'd'}")
    assert "AUC on hard ce images (test), settings chosen by worst-hard" in shown.out
    assert run_cli(f"collect {undisturbed} {world / 'suite'} --out {tmp_path / 'd'}").code == 2


def test_killed_three_times_it_ends_with_the_same_bytes(undisturbed, world, embedding, tmp_path):
    out, random = tmp_path / "runs", np.random.default_rng(5)
    words = [sys.executable, "-m", "nooch", *map(str, arguments(world, embedding, out))]
    kills = 0
    while kills < 3:
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        # from the first checkpoint on, anywhere
        until(
            lambda: list((out / "passes").glob("*.npz")), while_=lambda p=process: p.poll() is None
        )
        time.sleep(float(random.uniform(0, 0.5)))
        if process.poll() is not None:
            break
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        kills += 1
    subprocess.run(words, check=True, capture_output=True)
    assert contents(out) == contents(undisturbed)
    assert not list((out / "passes").glob("*.npz"))
    # once more, it does nothing
    times = (out / "timings.jsonl").read_text()
    subprocess.run(words, check=True, capture_output=True)
    assert (out / "timings.jsonl").read_text() == times


def test_a_lost_job_alone_is_made_again(undisturbed, world, embedding, tmp_path, run_cli):
    out = shutil.copytree(undisturbed, tmp_path / "runs")
    lost = sorted((out / "jobs").iterdir())[3]
    shutil.rmtree(lost)
    kept = {f.name: f.stat().st_mtime_ns for f in (out / "jobs").iterdir()}
    facts = run_cli(f"status {out} --format json").json
    assert facts["done"] == N_JOBS - 1
    assert run_cli(*arguments(world, embedding, out)).code == 0
    assert contents(out) == contents(undisturbed)
    assert {f.name: f.stat().st_mtime_ns for f in (out / "jobs").iterdir() if f != lost} == kept


def test_a_dry_run_writes_nothing(world, embedding, run_cli, tmp_path):
    done = run_cli(
        *arguments(
            world,
            embedding,
            tmp_path / "runs",
            "--dry-run",
            "--format",
            "json",
            "--set",
            "methods=",
            "--set",
            "seeds=[0,1,2]",
        )
    )
    assert done.code == 0, done.err
    facts = done.json
    # 32 settings (Table 8 and ERM), 2 tasks, 3 seeds
    assert (facts["settings"], facts["jobs"], facts["passes"]) == (32, 192, [64, 64, 64])
    assert facts["disk_bytes"] > 0
    assert facts["seconds_per_epoch"] > 0
    done = run_cli(
        *arguments(
            world,
            embedding,
            tmp_path / "runs",
            "--dry-run",
            "--set",
            "methods=",
            "--set",
            "heads=60",
        )
    )
    text = " ".join(done.out.split())
    assert "128: 2 tasks x 32 settings of 9 methods x 2 seeds" in text
    assert "60 jobs" in text
    assert "timed now on cpu: products of matrices alone" in " ".join(done.err.split())
    assert not (tmp_path / "runs").exists()


REFUSED = {
    "a mistyped hyperparameter": (
        ["--set", "methods={gdro: {k: 5}}"],
        "'k' is no hyperparameter of gdro",
    ),
    "a mistyped method": (["--set", "methods=[gdor]"], "did you mean gdro"),
    "a mistyped name": (["--set", "learning_rate=1"], "is no name of the configuration"),
    "a task that the suite lacks": (
        ["--set", "tasks=[car, carr]"],
        "'carr' is no task of the suite",
    ),
    "a negative rate": (["--set", "lr=-1"], "lr -1"),
    "text for a number": (["--set", "lr=fast"], "lr is 'fast'"),
    "no seed": (["--set", "seeds=[]"], "seeds are"),
    "one seed twice": (["--set", "seeds=[1, 1]"], "seeds are"),
    "half an epoch": (["--set", "epochs=0.5"], "epochs is 0.5"),
    "no value": (["--set", "lr"], "name=value"),
    "broken YAML": (["--set", "lr=[1"], "is no YAML"),
    "an attribute that is not there": (["--set", "environment=place"], "'place'"),
    "an unknown device": (["--device", "gpu"], "gpu"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_before_anything_is_trained(world, embedding, run_cli, tmp_path, case):
    options, message = REFUSED[case]
    done = run_cli(*arguments(world, embedding, tmp_path / "runs", *options))
    assert done.code == 2, done.out
    assert message in " ".join(done.err.split())
    assert not (tmp_path / "runs").exists()


def test_methods_that_need_environments_need_a_cue(world, embedding, run_cli, tmp_path):
    found = run_cli(
        f"find {world / 'dataset'} --criterion gist --encoder {embedding} --tau 0.3 --tasks"
        f" car,airplane --out {tmp_path / 'suite'}"
    )
    assert found.code == 0, found.err
    data = load_dataset(world / "dataset")
    # labels without areas: nothing tells a cue
    from dataclasses import replace

    areas = data.areas.copy()
    areas.data = np.full_like(areas.data, np.nan)
    save_dataset(replace(data, areas=areas), tmp_path / "dataset")
    again = run_cli(
        f"find {tmp_path / 'dataset'} --criterion gist --encoder {embedding} --tau 0.3 --tasks"
        f" car,airplane --out {tmp_path / 'labels'}"
    )
    assert again.code == 0, again.err
    words = [
        "bench",
        tmp_path / "dataset",
        tmp_path / "labels",
        "--embedding",
        embedding,
        "--out",
        tmp_path / "runs",
        "--set",
        "epochs=1",
        "--set",
        "seeds=[0]",
    ]
    done = run_cli(*words, "--set", "methods=[gdro]")
    assert done.code == 2
    assert "method gdro: task car has no environments" in " ".join(done.err.split())
    # what needs none is trained, and cannot be chosen by environments
    assert run_cli(*words, "--set", "methods=[erm]").code == 0
    chosen = ["collect", tmp_path / "runs", tmp_path / "labels", "--rules"]
    none = run_cli(*chosen, "worst-environment", "--out", tmp_path / "none")
    assert none.code == 2
    assert "no job has environments" in none.err
    both = run_cli(*chosen, "worst-environment,mean", "--out", tmp_path / "both")
    assert both.code == 0, both.err
    assert "worst-environment is left out" in both.err


def test_folders_that_are_not_gone_on_with(undisturbed, world, embedding, run_cli, tmp_path):
    done = run_cli(
        *arguments(world, embedding, undisturbed, "--set", "lr=0.5", "--set", "condition=none")
    )
    assert done.code == 2
    told = " ".join(done.err.split())
    assert "runs of another configuration" in told
    assert "condition is standardize there, none here; lr is 0.01 there, 0.5 here" in told
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    assert run_cli(*arguments(world, embedding, tmp_path / "mine")).code == 2
    assert run_cli(f"status {tmp_path / 'mine'}").code == 2
    neither = run_cli(f"bench {world / 'dataset'} {world / 'suite'} --out {tmp_path / 'r'}")
    assert neither.code == 2
    assert "--features" in neither.err
    other = run_cli(f"find {world / 'dataset'} --tasks car --beta 0.3 --out {tmp_path / 'suite'}")
    assert other.code == 0
    wrong = run_cli(f"collect {undisturbed} {tmp_path / 'suite'} --out {tmp_path / 'c'}")
    assert wrong.code == 2
    assert "not the one that was trained for" in " ".join(wrong.err.split())


def test_an_engine_gives_the_same_bytes(undisturbed, world, embedding, tmp_path, run_cli):
    out = tmp_path / "runs"
    words = [
        sys.executable,
        "-m",
        "nooch",
        *map(str, arguments(world, embedding, out, "--engine", "local:2")),
    ]
    subprocess.run(words, check=True, capture_output=True)
    assert contents(out) == contents(undisturbed)
    assert not list((out / "passes").glob("*.npz"))
    # a log for each pass
    assert len(list((tmp_path / "runs-logs").glob("job-*.log"))) == 2
    refused = run_cli(*arguments(world, embedding, tmp_path / "other", "--engine", "condor"))
    assert refused.code == 2
    assert "'condor' is no engine" in refused.err
