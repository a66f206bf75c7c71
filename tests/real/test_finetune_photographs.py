"""Fine-tuning on real photographs: msrc-v2, an ImageNet backbone, two methods.

As in test_probe_photographs: a random split, on both sides of which a scene can fall; cues by hand;
area threshold 0.3 instead of 0.1, so that there are hard positives at all.
"""

import polars as pl
import pytest
from in_memory import read_label_maps

import nooch
from nooch.models.caches.pixels import build_pixels
from nooch.report.results.collect import score_runs
from nooch.training.bench.config import read_config
from nooch.training.bench.plan import plan_finetune
from nooch.training.bench.run import bench

pytest.importorskip("torch")
pytest.importorskip("transformers")

CUES = {"car": ["road"]}
SIZE = 64


def test_two_methods(shared_data, tmp_path):
    source = shared_data / "msrc-v2"
    labels, images = source / "labels", source / "images"
    data = read_label_maps(labels, source / "classes.txt", void=[0], images=images)
    data = nooch.io.with_split(data, nooch.io.SplitPlan("40/30/30", seed=1))
    suite = nooch.find(data, {"ce": nooch.CE(beta=0.3, cues=CUES)}, tasks=list(CUES))
    pixels = build_pixels(data, tmp_path / "pixels", size=SIZE)
    methods = {"erm": None, "gdro": {"K": 5}}
    settings = {"lr": 0.003, "batch": 16, "epochs": 3, "channels_last": True}
    grid = {"seeds": [0], "methods": methods, "networks": 2}
    config = read_config({**settings, **grid}, "finetune")
    backbone = shared_data / "backbones" / "mobilenet_v1_0.75_224"
    plan = plan_finetune(data, suite, pixels, backbone, config)
    runs = bench(plan, tmp_path / "runs")
    scores, selected, notes = score_runs(runs, suite)
    # three epochs may leave a network worse than a constant; nothing is missing and nothing
    # diverged
    assert all("worse than a constant" in text for text in notes)
    assert selected.select("task", "method").unique().height == 2
    known = pl.col("cue").is_null(), pl.col("task").is_in(list(CUES))
    rows = scores.table.filter(*known, metric="auc", split="test", criterion="ce", subset="all")
    assert rows["value"].null_count() == 0
    assert _mean(rows.filter(pl.col("run").str.starts_with("erm"))) > 0.85
    # gdro sees few images of the rare environments: it learns, and no more is asked
    assert _mean(rows) > 0.7


def _mean(rows):
    return float(rows["value"].mean())
