"""Where a bench trains: two at once, GPUs of an engine, and a plan for another device."""

import json

import numpy as np
import pytest
from pictures import CONFIG, picture_dataset
from refusals import fails
from small_world import bench_command, make_world

from nooch.base.errors import OutputError
from nooch.criteria import CE
from nooch.suites.find import find
from nooch.training.bench import run as bench_run
from nooch.training.bench.config import read_config
from nooch.training.bench.plan import plan_finetune
from nooch.training.bench.run import planned_for, training_device
from nooch.training.records import RunsFolder

pytest.importorskip("torch")


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return make_world(tmp_path_factory.mktemp("world"), epochs=1)


def test_two_that_train_the_same_runs(world, run_cli, tmp_path):
    run_cli(bench_command(world, "runs", "--set epochs=1")).ok()
    runs = RunsFolder.open(tmp_path / "runs")
    with runs.held():
        refused = run_cli(bench_command(world, "runs", "--set epochs=1"))
        fails(lambda: runs.held().__enter__(), "another process is training", kind=OutputError)
    assert refused.code == 2
    assert "another process is training these runs" in refused.err


def test_gpus_are_asked_for_where_jobs_train_on_them(world, run_cli, tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,3")
    # this process needs none, and without CUDA the worker says so
    done = run_cli(bench_command(world, "runs", "--engine local --device cuda"))
    import torch

    if not torch.cuda.is_available():
        assert done.code == 2
        assert "there is no device 'cuda' here" in done.err
    # the first job's error may end the bench before a second worker has begun
    assert list((tmp_path / "runs-logs").glob("*.log"))
    other = bench_command(world, "other", "--engine")
    run_cli(f"{other} local --device cuda:1").refused("each job has a GPU to itself")
    run_cli(f"{other} local:3 --device cuda").refused("this process may use 2 (0, 3)")
    run_cli(f"{other} local --device cuda --dry-run --format json").ok()
    assert not (tmp_path / "other").exists()


def test_auto_takes_the_gpus_that_the_engine_has(monkeypatch):
    asked = []
    real = bench_run.engine_of
    monkeypatch.setattr(
        bench_run, "engine_of", lambda *a, **k: asked.append(k.get("gpus")) or real(*a, **k)
    )
    monkeypatch.setattr("torch.backends.cuda.is_built", lambda: True)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5")
    assert training_device("auto", "local") == "cuda"
    assert asked[-1] == 1
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert training_device("auto", "local") == "cpu"
    assert asked[-1] == 0


def test_a_plan_for_a_device_that_is_not_here(tmp_path):
    pytest.importorskip("transformers")
    data = picture_dataset(tmp_path, n_train=24, n_other=12)
    suite = find(data, {"ce": CE()}, tasks=["car"])
    (tmp_path / "small.json").write_text(json.dumps(CONFIG))
    config = read_config({"methods": ["erm"], "seeds": [0, 1]}, "finetune")
    pixels = _Pixels(np.zeros((len(data), 16, 16, 3), np.uint8))
    plan = plan_finetune(
        data, suite, pixels, f"config:{tmp_path / 'small.json'}", config, device="cpu"
    )
    there = planned_for(plan, config.settings, "cuda")
    assert there.header.data["backbone"] == {**plan.header.data["backbone"], "device": "cuda"}
    assert not set(there.jobs) & set(plan.jobs)
    assert [len(names) for names in there.header.passes] == [
        len(names) for names in plan.header.passes
    ]
    assert (
        {name for names in there.header.passes for name in names}
        == set(there.jobs)
        == set(there.header.jobs)
    )
    back = planned_for(there, config.settings, "cpu")
    assert (back.header, back.jobs) == (plan.header, plan.jobs)
    assert planned_for(plan, config.settings, "cpu") is plan


class _Pixels:
    def __init__(self, values):
        self.values, self.size, self.identity = values, values.shape[1:3], "made"

    def __len__(self):
        return len(self.values)
