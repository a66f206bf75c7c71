"""Challenge sets against the truth: counts, precision, recall, AUC by loops; the commands."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
from refusals import fails
from sklearn.metrics import roc_auc_score

from nooch.base.errors import InputError, OutputError, ParameterError
from nooch.criteria import CE, Combination
from nooch.data import save_dataset
from nooch.paper.truth_scores import AVERAGE, find_score, load_truth, save_truth_scores
from nooch.suites import save_suite
from nooch.suites.find import find


@pytest.fixture(scope="module")
def suite(data):
    criteria = {"ce": CE(), "~ce": Combination("~ce")}
    return find(data, criteria, tasks="nooch", splits=["train", "test"])


@pytest.fixture(scope="module")
def truth(scenes):
    return load_truth(scenes / "truth.parquet")


@pytest.fixture(scope="module")
def scores(suite, truth):
    return find_score(suite, truth)


@pytest.fixture(scope="module")
def against(truth):
    return {(i, t): a for i, t, a in truth.select("image_id", "task", "against").rows()}


def test_scores_are_those_of_loops(suite, against, scores):
    rows = scores.table.filter(pl.col("task") != AVERAGE)
    assert rows.height == 2 * len(suite.keys)
    defined = 0
    for row in rows.iter_rows(named=True):
        challenge = suite.set(row["criterion"], row["task"], row["split"])
        side = row["side"] == "positive"
        support = [None] * len(challenge) if challenge.support is None else challenge.support
        columns = (challenge.image_ids, challenge.labels, challenge.subset, support)
        listed = [entry for entry in zip(*columns, strict=True) if entry[1] == side]
        images = [(against[i, row["task"]], code != 2, s) for i, _, code, s in listed]
        hits = sum(a and h for a, h, _ in images)
        hard, truly = sum(h for _, h, _ in images), sum(a for a, _, _ in images)
        counts = (row["n"], row["against"], row["hard"], row["hits"])
        assert counts == (len(images), truly, hard, hits)
        assert row["precision"] == (hits / hard if hard else None)
        assert row["recall"] == (hits / truly if truly else None)
        if challenge.support is None or truly in {0, len(images)}:
            assert row["auc"] is None
            assert row["reason"]
        else:
            sign = -1 if side else 1
            expected = roc_auc_score([a for a, _, _ in images], [sign * s for _, _, s in images])
            assert row["auc"] == pytest.approx(expected)
            defined += 1
    assert defined > 20


def test_averages_are_of_the_tasks(scores):
    tasks = scores.table.filter(pl.col("task") != AVERAGE)
    for row in scores.table.filter(pl.col("task") == AVERAGE).iter_rows(named=True):
        mine = tasks.filter(*(pl.col(c) == row[c] for c in ("criterion", "split", "side")))
        assert row["n"] == mine["n"].sum()
        assert row["precision"] == pytest.approx(mine["precision"].mean())
        auc = None if row["criterion"] == "~ce" else pytest.approx(mine["auc"].mean())
        assert row["auc"] == auc


def test_other_thresholds_count_images_beyond_them(suite, against, scores):
    assert set(scores.thresholds["criterion"]) == {"ce"}
    for row in scores.thresholds.sample(60, seed=0).iter_rows(named=True):
        challenge = suite.set("ce", row["task"], row["split"])
        side = row["side"] == "positive"
        columns = (challenge.image_ids, challenge.labels, challenge.support)
        images = [(i, s) for i, label, s in zip(*columns, strict=True) if label == side]
        past = [i for i, s in images if (s < row["threshold"] if side else s > row["threshold"])]
        beyond = [against[i, row["task"]] for i in past]
        assert (row["hard"], row["hits"]) == (len(beyond), sum(beyond))
        assert row["precision"] == pytest.approx(np.mean(beyond))


def test_ce_finds_the_papers_contexts_and_most_of_the_truth(suite, scores):
    cues = suite.header.criteria["ce"].cues
    strongest = {task: listed[0][0] for task, listed in cues.items() if listed}
    assert strongest["car"] == "road"
    assert strongest["boat"] == strongest["surfboard"] == "sea"
    assert strongest["cup"] == "dining_table"
    average = scores.table.filter(criterion="ce", task=AVERAGE, split="train")
    # 120 images to fit on: some chance cues too
    assert average["recall"].min() > 0.5
    assert average["auc"].min() > 0.8


def test_truths_that_are_refused(scenes, suite, truth, tmp_path):
    fails(lambda: load_truth(tmp_path / "none.parquet"), "no such file", helps=False)
    truth.drop("against").write_csv(tmp_path / "a.csv")
    fails(lambda: load_truth(tmp_path / "a.csv"), "has no column against")
    truth.with_columns(pl.lit("x").alias("image_id")).write_parquet(tmp_path / "b.parquet")
    fails(lambda: load_truth(tmp_path / "b.parquet"), "another type", helps=False)
    pl.concat([truth, truth[:1]]).write_parquet(tmp_path / "c.parquet")
    fails(lambda: load_truth(tmp_path / "c.parquet"), "twice")

    def refused(truth, part, kind=ParameterError, **options):
        fails(lambda: find_score(suite, truth, **options), part, kind=kind)

    refused(truth.filter(pl.col("image_id") > 9), "lists no image 2, 3", InputError)
    refused(truth.with_columns(~pl.col("present")), "another label", InputError)
    refused(truth.filter(task="none"), "no task in common")
    refused(truth, "'cee' is not a criterion", criteria=["cee"])
    refused(truth, "'valid' is not a split", splits=["valid"])


@pytest.mark.parametrize("ending", ["csv", "parquet", "json"])
def test_files_of_scores(scores, tmp_path, ending):
    path = tmp_path / f"s.{ending}"
    files = save_truth_scores(scores, path)
    if ending == "json":
        assert json.loads(path.read_text())["scores"] == scores.table.to_dicts()
    else:
        read = pl.read_csv if ending == "csv" else pl.read_parquet
        assert [read(f).height for f in files] == [scores.table.height, scores.thresholds.height]
    fails(lambda: save_truth_scores(scores, path), "exists already", kind=OutputError)
    save_truth_scores(scores, path, overwrite=True)
    text = tmp_path / "s.txt"
    fails(lambda: save_truth_scores(scores, text), "is not an ending", kind=ParameterError)


def test_the_commands(run_cli, tmp_path, data, suite, scenes):
    out = tmp_path / "out"
    done = run_cli(f"tools scenes {out} --images 3 --size 32 --processes 1 --format json").ok()
    assert done.json["images"] == 3
    assert len(list((out / "images").iterdir())) == 3
    run_cli(f"tools scenes {out} --images 3").refused("exists already")
    run_cli(f"tools scenes {out} --images 2 --size 32 --processes 1 --overwrite").ok()
    done = run_cli(f"tools scenes {tmp_path / 'b'} --images 1 --processes 1")
    assert "next: nooch import coco" in done.out
    assert "stray: " in run_cli("tools scenes --print-config").out
    assert "no folder was given" in run_cli("tools scenes").err
    save_dataset(data, tmp_path / "data")
    save_suite(suite, tmp_path / "suite")
    command = f"tools scenes-score {tmp_path / 'suite'} {scenes / 'truth.parquet'}"
    scored = run_cli(f"{command} --out {tmp_path / 's.csv'}").ok()
    assert "Against the truth: ce (test)" in scored.out
    assert (tmp_path / "s-thresholds.csv").is_file()
    asked = run_cli(f"{command} --criterion ce --format json")
    assert {row["criterion"] for row in asked.json["scores"]} == {"ce"}
