"""The table for other viewers, held to a slow reading of suite and predictions."""

import math

import polars as pl
import pytest
from refusals import fails

import nooch
from nooch.errors import InputError, ParameterError
from nooch.exports.export_suite import export


def outputs(suite, tasks=("car", "fire_hydrant"), seed=0.0, **columns):
    frames = [
        pl.DataFrame(
            {
                "image_id": c.image_ids,
                "task": key[1],
                "logit": [(i % 7) - 3 + seed for i in c.image_ids],
            }
        )
        for key in suite.keys
        if key[0] == "ce" and key[1] in tasks
        for c in [suite.set(*key)]
    ]
    return pl.concat(frames).with_columns(
        **{name: pl.lit(value) for name, value in columns.items()}
    )


def loss(logit, label):
    return math.log1p(math.exp(-logit if label else logit))


def test_rows_are_those_of_the_suite_with_each_runs_loss(made, tmp_path):
    both = {"a": outputs(made.suite), "b": outputs(made.suite, ["car"], 0.5)}
    done = export(made.suite, "table", tmp_path / "out", data=made.data, predictions=both)
    assert {"table.csv", "table.parquet", "LICENCES.txt"} < set(done.files)
    table = pl.read_parquet(tmp_path / "out" / "table.parquet")
    assert table.columns == [
        "image_path", "image_id", "criterion", "task", "split", "label", "subset", "support", "nll:a", "nll:b",
    ]  # fmt: skip
    paths = dict(made.data.images.select("image_id", "file_name").iter_rows())
    expected = []
    for key in made.suite.keys:
        challenge = made.suite.set(*key)
        subsets = {
            i: name
            for name in ("hard_positive", "hard_negative", "easy")
            for i in challenge.ids(name)
        }
        for row, (i, label) in enumerate(
            zip(challenge.image_ids, challenge.labels.tolist(), strict=True)
        ):
            support = None if challenge.support is None else challenge.support[row]
            b = loss((i % 7) - 2.5, label) if key[1] == "car" else None
            a = loss((i % 7) - 3.0, label)
            expected.append(
                (
                    paths[i],
                    i,
                    *key,
                    int(label),
                    subsets[i],
                    support,
                    pytest.approx(a),
                    b and pytest.approx(b),
                )
            )
    assert table.rows() == expected
    assert pl.read_csv(tmp_path / "out" / "table.csv", schema=table.schema).equals(table)


def test_paths_below_another_folder_and_without_a_dataset(made, published, tmp_path):
    export(made.suite, "table", tmp_path / "a", data=made.data, images="/photos/")
    table = pl.read_parquet(tmp_path / "a" / "table.parquet")
    assert (
        table["image_path"][0]
        == f"/photos/{made.data.images.filter(image_id=table['image_id'][0])['file_name'][0]}"
    )
    done = export(published, "table", tmp_path / "b")
    assert any("no image paths" in text for text in done.notes)
    bare = pl.read_parquet(tmp_path / "b" / "table.parquet")
    assert bare["image_path"].null_count() == bare["support"].null_count() == bare.height > 0


def test_ids_that_are_text(make_suite, tmp_path):
    suite = make_suite({"ce": ["car"]}, ["a", "b", "c", "d"])
    said = pl.DataFrame({"image_id": ["d", "c", "b", "a"], "logit": [0.0, 0.0, 0.0, 2.0]})
    export(suite, "table", tmp_path / "out", predictions=said)
    assert pl.read_csv(tmp_path / "out" / "table.csv")["image_id"].to_list() == ["a", "b", "c", "d"]
    assert pl.read_csv(tmp_path / "out" / "table.csv")["nll:predictions"].round(3).to_list() == [
        0.127,
        0.693,
        0.693,
        0.693,
    ]


def test_predictions_that_do_not_fit(made, tmp_path):
    few = outputs(made.suite).head(3)
    fails(
        lambda: export(made.suite, "table", tmp_path / "o", data=made.data, predictions=few),
        "have no prediction",
    )
    other = outputs(made.suite, ["fire_hydrant"])

    def act():
        return export(
            made.suite, "table", tmp_path / "o", data=made.data, tasks=["car"], predictions=other
        )

    fails(act, "predict none of the chosen tasks", kind=InputError)
    wide = other.pivot(on="task", index="image_id", values="logit")
    fails(
        lambda: export(made.suite, "table", tmp_path / "o", data=made.data, predictions=wide),
        "`scale`",
    )
    assert not list(tmp_path.iterdir())
    fails(
        lambda: export(made.suite, "csv", tmp_path / "o", data=made.data, scale="logit"),
        "'scale'",
        kind=ParameterError,
    )


def test_as_a_user_types_it(made, run_cli, tmp_path):
    outputs(made.suite, run="erm/1").write_parquet(tmp_path / "p.parquet")
    words = [
        "--predictions",
        tmp_path / "p.parquet",
        "--images",
        "photos",
        "--criterion",
        "ce",
        "--splits",
        "test",
    ]
    done = run_cli(f"export {made.folder / 'suite'} --to table {tmp_path / 'out'}", *words)
    assert done.code == 0, done.err
    table = pl.read_csv(tmp_path / "out" / "table.csv")
    assert table.columns[-1] == "nll:erm/1"
    assert table["image_path"][0].startswith("photos/")
    assert table["split"].unique().to_list() == ["test"]
    losses = nooch.evaluate(
        nooch.load_suite(made.folder / "suite"),
        tmp_path / "p.parquet",
        metrics=["nll"],
        criteria=["ce"],
    )
    hard = table.filter(task="car", subset="hard_positive")["nll:erm/1"]
    assert hard.mean() == pytest.approx(losses.value("nll", "hard_positive", task="car"))
