"""The table for other viewers, held to a slow reading of suite and predictions."""

import math
from functools import partial

import polars as pl
import pytest
from oracles import suite_rows
from refusals import fails, refused

import nooch
from nooch.report.exports.export import export


def outputs(suite, tasks=("car", "fire_hydrant"), seed=0.0, **columns):
    frames = []
    for criterion, task, split in suite.keys:
        if criterion == "ce" and task in tasks:
            ids = suite.set(criterion, task, split).image_ids
            logits = [(i % 7) - 3 + seed for i in ids]
            frames.append(pl.DataFrame({"image_id": ids, "task": task, "logit": logits}))
    literals = {name: pl.lit(value) for name, value in columns.items()}
    return pl.concat(frames).with_columns(**literals)


def loss(logit, label):
    return math.log1p(math.exp(-logit if label else logit))


def test_rows_are_those_of_the_suite_with_each_runs_loss(made, tmp_path):
    both = {"a": outputs(made.suite), "b": outputs(made.suite, ["car"], 0.5)}
    done = export(made.suite, "table", tmp_path / "out", data=made.data, predictions=both)
    assert {"table.csv", "table.parquet", "LICENSES.txt"} < set(done.files)
    table = pl.read_parquet(tmp_path / "out" / "table.parquet")
    columns = "image_path image_id criterion task split label subset support nll:a nll:b"
    assert table.columns == columns.split()
    paths = dict(made.data.images.select("image_id", "file_name").iter_rows())
    expected = []
    for row in suite_rows(made.suite):
        i, _, task, _, label, *_ = row
        a = pytest.approx(loss((i % 7) - 3.0, label))
        b = pytest.approx(loss((i % 7) - 2.5, label)) if task == "car" else None
        expected.append((paths[i], *row, a, b))
    assert table.rows() == expected
    assert pl.read_csv(tmp_path / "out" / "table.csv", schema=table.schema).equals(table)


def test_paths_below_another_folder_and_without_a_dataset(made, published, tmp_path):
    export(made.suite, "table", tmp_path / "a", data=made.data, images="/photos/")
    first = pl.read_parquet(tmp_path / "a" / "table.parquet").row(0, named=True)
    (name,) = made.data.images.filter(image_id=first["image_id"])["file_name"]
    assert first["image_path"] == f"/photos/{name}"
    done = export(published, "table", tmp_path / "b")
    assert any("no image paths" in text for text in done.notes)
    bare = pl.read_parquet(tmp_path / "b" / "table.parquet")
    assert bare["image_path"].null_count() == bare["support"].null_count() == bare.height > 0


def test_ids_that_are_text(make_suite, tmp_path):
    suite = make_suite({"ce": ["car"]}, ["a", "b", "c", "d"])
    frame = pl.DataFrame({"image_id": ["d", "c", "b", "a"], "logit": [0.0, 0.0, 0.0, 2.0]})
    export(suite, "table", tmp_path / "out", predictions=frame)
    table = pl.read_csv(tmp_path / "out" / "table.csv")
    assert table["image_id"].to_list() == ["a", "b", "c", "d"]
    assert table["nll:predictions"].round(3).to_list() == [0.127, 0.693, 0.693, 0.693]


def test_predictions_that_do_not_fit(made, tmp_path):
    write = partial(export, made.suite, "table", tmp_path / "o", data=made.data)
    fails(lambda: write(predictions=outputs(made.suite).head(3)), "have no prediction")
    other = outputs(made.suite, ["fire_hydrant"])
    fails(lambda: write(tasks=["car"], predictions=other), "predict none of the chosen tasks")
    wide = other.pivot(on="task", index="image_id", values="logit")
    fails(lambda: write(predictions=wide), "`scale`")
    assert not list(tmp_path.iterdir())
    other = partial(export, made.suite, "csv", tmp_path / "o", data=made.data, scale="logit")
    refused(other, "'scale'")


def test_as_a_user_types_it(made, run_cli, tmp_path):
    outputs(made.suite, run="erm/1").write_parquet(tmp_path / "p.parquet")
    run_cli(
        f"export {made.folder}/suite --to table {tmp_path}/out --predictions {tmp_path}/p.parquet"
        " --images photos --criterion ce --split test"
    ).ok()
    table = pl.read_csv(tmp_path / "out" / "table.csv")
    assert table.columns[-1] == "nll:erm/1"
    assert table["image_path"][0].startswith("photos/")
    assert table["split"].unique().to_list() == ["test"]
    suite = nooch.load_suite(made.folder / "suite")
    options = {"metrics": ["nll"], "criteria": ["ce"]}
    losses = nooch.evaluate(suite, tmp_path / "p.parquet", **options)
    hard = table.filter(task="car", subset="hard_positive")["nll:erm/1"]
    assert hard.mean() == pytest.approx(losses.value("nll", "hard_positive", task="car"))
