"""Trained heads on real photographs: msrc-v2, an ImageNet backbone, nine methods, 3 seeds.

The split is random over photographs; some scenes were photographed several times and can fall on
both sides. The cues are given by hand and the area threshold is 0.3 instead of 0.1, so that there
are hard positives at all.
"""

import numpy as np
import polars as pl
import pytest

import nooch
from nooch.benching.bench_config import read_config
from nooch.benching.bench_plan import plan_bench
from nooch.benching.bench_run import bench, status
from nooch.results.score_collection import collect

pytest.importorskip("torch")
pytest.importorskip("transformers")

CUES = {"car": ["road"], "cow": ["grass"], "boat": ["water"], "aeroplane": ["sky"]}
CUES |= {"bicycle": ["road"], "bird": ["water"], "tree": ["sky"]}
SIZE = 128


@pytest.fixture(scope="module")
def collected(shared_data, tmp_path_factory):
    """Scores and chosen settings of 7 tasks x 32 settings x 3 seeds."""
    from nooch.caches.features import extract_features
    from nooch.models.backbones import load_backbone

    folder = tmp_path_factory.mktemp("msrc")
    source = shared_data / "msrc-v2"
    labels, images = source / "labels", source / "images"
    data = nooch.read_label_maps(labels, source / "classes.txt", void=[0], images=images)
    data = nooch.with_split(data, nooch.SplitPlan("40/30/30", seed=1))
    suite = nooch.find(data, {"ce": nooch.CE(beta=0.3, cues=CUES)}, tasks=list(CUES))
    weights = shared_data / "backbones" / "mobilenet_v1_0.75_224"
    backbone = load_backbone(weights, size=SIZE, device="cpu")
    features = extract_features(data, backbone, folder / "features")
    config = read_config({"epochs": 40})
    plan = plan_bench(data, suite, features, config)
    runs = bench(plan, folder / "runs")
    assert status(runs)["done"] == len(plan.jobs) == 7 * 32 * 3
    scores, selected, notes = collect(runs, suite)
    (note,) = notes
    assert "jobs are worse than a constant" in note
    records = [runs.read_job(name) for name in runs.done()]
    return scores, selected, records


def mean_over_tasks(collected, method, subset):
    """AUC on a subset of the test images, of the chosen settings, over tasks and seeds."""
    scores, selected, _ = collected
    chosen = selected.filter(method=method, criterion="ce").select("task", "setting").rows()
    values = []
    for task, setting in chosen:
        name = f"{method}/{setting}/" if setting else f"{method}/"
        of_runs = pl.col("run").str.starts_with(name), pl.col("cue").is_null()
        exact = {"task": task, "subset": subset, "metric": "auc", "split": "test"}
        rows = scores.table.filter(*of_runs, **exact)
        assert rows.height == 3
        values += rows["value"].drop_nulls().to_list()
    return float(np.mean(values))


def test_all_settings_train_stably_at_the_default_rate(collected):
    """With raw features, at 0.01, the largest ratio is 4,031."""
    ratios = {}
    for record in collected[2]:
        assert not record.diverged
        ratios.setdefault(record.job.method, []).append(record.nll / record.constant_nll)
    assert max(max(values) for values in ratios.values()) < 30
    # methods that follow the frequencies are never worse than a constant
    for method in ("erm", "focal"):
        assert max(ratios[method]) < 1, method
    marked = collected[0].table.select("run", "task", "worse_than_constant").unique()
    worse = sum(record.worse_than_constant for record in collected[2])
    assert marked["worse_than_constant"].sum() == worse


def test_heads_on_real_features_tell_objects(collected):
    for method in ("erm", "gdro", "environment-reweight", "focal"):
        assert mean_over_tasks(collected, method, "all") > 0.85, method
    assert mean_over_tasks(collected, "erm", "easy") > 0.95


def test_hard_photographs_are_harder_and_environments_help(collected):
    erm = mean_over_tasks(collected, "erm", "hard")
    assert erm < mean_over_tasks(collected, "erm", "easy") - 0.05
    methods = ("environment-reweight", "environment-undersample", "gdro", "irm")
    helped = [mean_over_tasks(collected, method, "hard") for method in methods]
    assert float(np.mean(helped)) > erm
