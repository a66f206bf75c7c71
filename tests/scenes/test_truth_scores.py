"""Challenge sets against the truth: counts, precision, recall and AUC against loops; the commands."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
from refusals import fails
from sklearn.metrics import roc_auc_score

from nooch.challenge import save_suite
from nooch.criteria import CE, Combination
from nooch.data import save_dataset
from nooch.errors import InputError, OutputError, ParameterError
from nooch.finding.suite_builder import find
from nooch.scenes.truth_scores import AVERAGE, find_score, load_truth, save_truth_scores


@pytest.fixture(scope="module")
def suite(data):
    return find(
        data, {"ce": CE(), "~ce": Combination("~ce")}, tasks="nooch", splits=["train", "test"]
    )


@pytest.fixture(scope="module")
def truth(scenes):
    return load_truth(scenes / "truth.parquet")


@pytest.fixture(scope="module")
def scores(suite, truth):
    return find_score(suite, truth)


def test_scores_are_those_of_loops(suite, truth, scores):
    against = {(i, t): a for i, t, a in truth.select("image_id", "task", "against").rows()}
    rows = scores.table.filter(pl.col("task") != AVERAGE)
    assert rows.height == 2 * len(suite.keys)
    defined = 0
    for row in rows.iter_rows(named=True):
        found = suite.set(row["criterion"], row["task"], row["split"])
        side = row["side"] == "positive"
        images = [
            (
                against[i, row["task"]],
                code != 2,
                None if found.support is None else found.support[k],
            )
            for k, (i, label, code) in enumerate(
                zip(found.image_ids, found.labels, found.subset, strict=True)
            )
            if label == side
        ]
        hits = sum(a and h for a, h, _ in images)
        hard, truly = sum(h for _, h, _ in images), sum(a for a, _, _ in images)
        assert (row["n"], row["against"], row["hard"], row["hits"]) == (
            len(images),
            truly,
            hard,
            hits,
        )
        assert row["precision"] == (hits / hard if hard else None)
        assert row["recall"] == (hits / truly if truly else None)
        if found.support is None or truly in {0, len(images)}:
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
        assert row["auc"] == (
            None if row["criterion"] == "~ce" else pytest.approx(mine["auc"].mean())
        )


def test_other_thresholds_count_what_lies_beyond_them(suite, truth, scores):
    against = {(i, t): a for i, t, a in truth.select("image_id", "task", "against").rows()}
    assert set(scores.thresholds["criterion"]) == {"ce"}
    for row in scores.thresholds.sample(60, seed=0).iter_rows(named=True):
        found = suite.set("ce", row["task"], row["split"])
        side = row["side"] == "positive"
        beyond = [
            against[i, row["task"]]
            for i, label, s in zip(found.image_ids, found.labels, found.support, strict=True)
            if label == side and (s <= row["threshold"] if side else s >= row["threshold"])
        ]
        assert (row["hard"], row["hits"]) == (len(beyond), sum(beyond))
        assert row["precision"] == pytest.approx(np.mean(beyond))


def test_ce_finds_the_papers_contexts_and_most_of_the_truth(suite, scores):
    cues = suite.header.criteria["ce"].cues
    strongest = {task: found[0][0] for task, found in cues.items() if found}
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
    fails(lambda: load_truth(tmp_path / "b.parquet"), "another kind", helps=False)
    pl.concat([truth, truth[:1]]).write_parquet(tmp_path / "c.parquet")
    fails(lambda: load_truth(tmp_path / "c.parquet"), "twice")
    fails(
        lambda: find_score(suite, truth.filter(pl.col("image_id") > 9)),
        "lists no image 2, 3",
        kind=InputError,
    )
    other = truth.with_columns(~pl.col("present"))
    fails(lambda: find_score(suite, other), "another label", kind=InputError)
    fails(
        lambda: find_score(suite, truth.filter(task="none")),
        "no task in common",
        kind=ParameterError,
    )
    fails(
        lambda: find_score(suite, truth, criteria=["cee"]),
        "'cee' is no criterion",
        kind=ParameterError,
    )
    fails(
        lambda: find_score(suite, truth, splits=["valid"]),
        "'valid' is no split",
        kind=ParameterError,
    )


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
    fails(
        lambda: save_truth_scores(scores, tmp_path / "s.txt"), "is no ending", kind=ParameterError
    )


def test_the_commands(run_cli, tmp_path, data, suite, scenes):
    done = run_cli(f"scenes {tmp_path / 'out'} --images 3 --size 32 --workers 1 --format json")
    assert done.code == 0, done.err
    assert done.json["images"] == 3
    assert len(list((tmp_path / "out" / "images").iterdir())) == 3
    again = run_cli(f"scenes {tmp_path / 'out'} --images 3")
    assert again.code == 2
    assert "exists already" in again.err
    assert (
        run_cli(f"scenes {tmp_path / 'out'} --images 2 --size 32 --workers 1 --overwrite").code == 0
    )
    assert (
        "next: nooch import coco" in run_cli(f"scenes {tmp_path / 'b'} --images 1 --workers 1").out
    )
    assert "stray: " in run_cli("scenes --print-config").out
    assert "no folder was given" in run_cli("scenes").err
    save_dataset(data, tmp_path / "data")
    save_suite(suite, tmp_path / "suite")
    scored = run_cli(
        f"find-score {tmp_path / 'suite'} {scenes / 'truth.parquet'} --out {tmp_path / 's.csv'}"
    )
    assert scored.code == 0, scored.err
    assert "Against the truth: ce (test)" in scored.out
    assert (tmp_path / "s-thresholds.csv").is_file()
    asked = run_cli(
        f"find-score {tmp_path / 'suite'} {scenes / 'truth.parquet'} --criterion ce --format json"
    )
    assert {row["criterion"] for row in asked.json["scores"]} == {"ce"}
