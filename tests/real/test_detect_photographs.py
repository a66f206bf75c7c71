"""A real detector as ONNX on real photographs: its boxes are those computed elsewhere."""

import json

import numpy as np
import polars as pl
import pytest

from nooch.data import load_dataset
from nooch.data.objects import overlaps
from nooch.data.readers.cocostuff import COCOSTUFF_IDS
from nooch.evaluation import load_predictions
from nooch.evaluation.boxes.matched import MatchedRun

pytest.importorskip("torch")
pytest.importorskip("onnxruntime")

N_BOXES, N_OBJECTS, N_FOUND = 20_294, 2_432, 964


def test_boxes_of_yolox(shared_data, run_cli, tmp_path):
    real, model = shared_data / "coco-real", shared_data / "models/yolox-nano/yolox_nano.onnx"
    given = shared_data / "boxes" / "yolox_nano_coco_real.json"
    listed = " ".join(f"--things {file}" for file in sorted(real.glob("*/*/instances_*.json")))
    data, out = tmp_path / "data", tmp_path / "boxes.parquet"
    run_cli(f"import coco {listed} --images {real} {data}").ok()
    done = run_cli(f"predict {data} --model {model} --out {out} --device cpu").ok()
    assert f"{N_BOXES:,} boxes: 80 tasks x 288 images by yolox_nano (detector)" in done.out
    table = pl.read_parquet(out)
    table = table.with_columns(pl.col("task").replace_strict(COCOSTUFF_IDS).alias("category_id"))
    by_pair = table.partition_by("image_id", "category_id", as_dict=True)
    expected = pl.DataFrame(json.loads(given.read_text()))
    same = 0
    for pair, boxes in expected.partition_by("image_id", "category_id", as_dict=True).items():
        own = by_pair[pair]
        a, b = np.array(boxes["bbox"].to_list()), own.select("left", "top", "width", "height")
        iou = overlaps(a.repeat(own.height, 0), np.tile(b.to_numpy(), (len(a), 1)),
                       np.zeros(len(a) * own.height, bool)).reshape(len(a), -1)  # fmt: skip
        near = np.abs(boxes["score"].to_numpy()[:, None] - own["probability"].to_numpy()) <= 0.01
        same += int(((iou >= 0.9) & near).any(axis=1).sum())
    assert same == N_BOXES
    (run,) = load_predictions(out, data=(dataset := load_dataset(data)))
    matched = MatchedRun.match(run, dataset)
    # a class without any box is not in the file: two hair driers
    assert len(matched.found_at) == N_OBJECTS - 2
    assert (matched.found_at > 0.3).sum() == N_FOUND


def test_large_objects_are_missed_by_the_cut_more_than_by_the_context(
    shared_data, run_cli, tmp_path
):
    pytest.importorskip("pycocotools")
    real, model = shared_data / "coco-real", shared_data / "models/yolox-nano/yolox_nano.onnx"
    files = sorted(real.glob("*/*/instances_*.json"))
    data, suite = tmp_path / "data", tmp_path / "suite"
    things = " ".join(f"--things {file}" for file in files)
    run_cli(f"import coco {things} --images {real} {data}").ok()
    run_cli(f"find {data} --criterion context --lift 1 --out {suite}").ok()
    masks = " ".join(f"--annotations {file}" for file in files)
    run_cli(f"intervene {suite} --model {model} {masks} --edit hide-background --threshold 0.3"
            f" --limit 60 --device cpu --out {tmp_path / 'out'}").ok()  # fmt: skip
    table = pl.read_parquet(tmp_path / "out" / "changes.parquet")
    large = table.filter(pl.col("subset") == "large", pl.col("measure") == "recall")
    assert large["n"][0] > 100
    # of all 288 images docs/intervene.md has the intervals; of fewer images they are wide
    recall = dict(large.select("way", "value").rows())
    assert recall["whole"] - recall["mask"] > 0.1
    assert recall["box"] - recall["mask"] > recall["whole"] - recall["box"]
