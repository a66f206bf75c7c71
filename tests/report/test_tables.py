"""ids and csv: what they hold, by a slow reading of the suite; the torch Dataset of the docs."""

import csv
import json
import math
import re
import string
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from urllib.parse import unquote

import msgspec
import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st
from oracles import suite_rows
from refusals import fails, refused

import nooch
from nooch.base.errors import OutputError
from nooch.criteria import CE
from nooch.report.exports.contract import Names, safe_name
from nooch.report.exports.export import export
from nooch.suites.find import find

SIDES = ("hard_positive", "hard_negative")


def true_name(safe):
    """What ``safe_name`` made safe."""
    return unquote(safe.replace("+", "%"))


def test_ids_hold_the_suite(made, tmp_path):
    export(made.suite, "ids", tmp_path / "below" / "ids.json")
    found = json.loads((tmp_path / "below" / "ids.json").read_text())
    assert (found["format"], found["version"]) == ("nooch-ids", 1)
    assert [(s["criterion"], s["task"], s["split"]) for s in found["sets"]] == list(made.suite.keys)
    assert any(s["hard_positive"] for s in found["sets"])
    for one in found["sets"]:
        key = one["criterion"], one["task"], one["split"]
        assert {side: one.pop(side) for side in SIDES} == {
            side: made.suite.set(*key).ids(side) for side in SIDES
        }
        assert one == msgspec.to_builtins(made.suite.record(*key))
    assert [cue for cue, _ in found["criteria"]["ce"]["cues"]["car"]] == ["road"]
    assert found["criteria"]["~ce"]["expression"] == "~ce"
    assert "fitted" not in found["criteria"]["ce"]
    assert found["dataset"]["fingerprint"] == made.data.fingerprint


def test_no_place_on_a_machine_gets_into_an_export(made, tmp_path):
    for name in ("ids", "csv", "hf"):
        export(made.suite, name, tmp_path / name, data=made.data)
    written = [p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()]
    for place in (b"../dataset", str(made.folder).encode(), str(tmp_path).encode()):
        assert not any(place in content for content in written)


def test_the_fingerprint_is_the_suites_wherever_it_lies(made, tmp_path, make_suite):
    def fingerprint(suite):
        export(suite, "ids", tmp_path / "ids.json", overwrite=True)
        return json.loads((tmp_path / "ids.json").read_text())["suite"]["fingerprint"]

    first = make_suite({"ce": ["car"]}, [1, 2, 3, 4], path="here")
    moved = make_suite({"ce": ["car"]}, [1, 2, 3, 4], path="there")
    assert fingerprint(first) == fingerprint(moved)
    assert fingerprint(first) != fingerprint(make_suite({"ce": ["car"]}, [1, 2, 3, 5], path="here"))


def test_tasks_without_a_set_are_listed_with_the_reason(made, tmp_path):
    criteria = {"ce": CE(alpha=0.99), "hand": CE(cues={"car": ("road",)})}
    suite = find(made.data, criteria, tasks=["car"])
    export(suite, "ids", tmp_path / "ids.json", criteria=["hand"])
    skipped = json.loads((tmp_path / "ids.json").read_text())["skipped"]
    assert [(s["criterion"], s["task"]) for s in skipped] == [("ce", "car")]
    assert "no class has A(C, car) > 0.99" in skipped[0]["reason"]
    refused(lambda: export(suite, "ids", tmp_path / "none", criteria=["ce"]), "ce car", "A(C, car)")


def test_ids_go_only_where_they_may(made, tmp_path):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for out, words, overwrite in (
        (tmp_path / "file" / "ids.json", "is a file", False),
        (tmp_path, "not replaced", True),
        (tmp_path / "link", "exists already", True),
    ):
        write = partial(export, made.suite, "ids", out, overwrite=overwrite)
        fails(write, words, kind=OutputError)


@pytest.mark.parametrize(
    "task", ["a/b", "..", "../../x", "C:\\x", "a\nb", ".hidden", "x" * 70 + "é", "*?[a]", "a+2Fb"]
)
def test_names_of_tasks_never_lead_elsewhere(made, make_suite, tmp_path, task):
    suite = make_suite({"ce": [task]}, [1, 2, 3, 4])
    export(suite, "csv", tmp_path / "out", data=made.data)
    (table,) = (tmp_path / "out").rglob("*.csv")
    assert true_name(table.stem) == task
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    assert table.parent == tmp_path / "out" / "ce"


@given(st.text(min_size=1))
def test_safe_names_are_safe_and_can_be_undone(name):
    safe = safe_name(name.encode(errors="replace").decode())
    assert true_name(safe) == name.encode(errors="replace").decode()
    assert not set(safe) - set(f"{string.ascii_letters}{string.digits}_.=-+")
    assert not safe.startswith(".")


def test_two_things_never_share_a_file(made, make_suite, tmp_path):
    for names in ({"ce": ["Car", "car"]}, {"ce": ["x"], "CE": ["x"]}):
        suite = make_suite(names, [1, 2, 3, 4])
        write = partial(export, suite, "csv", tmp_path / "out", data=made.data)
        refused(write, "would both be written")
        assert list(tmp_path.iterdir()) == []
    names = Names()
    assert names.take("a", "one") == names.take("a", "one") == "a"


def rows_of(folder, name):
    with (folder / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_csv_says_what_context_suggests(made, tmp_path):
    export(made.suite, "csv", tmp_path / "out", data=made.data)
    expected = {}
    for image_id, criterion, task, split, y, subset, _ in suite_rows(made.suite):
        # hard: context suggests the other label
        suggested = y if subset == "easy" else 1 - y
        row = (split, f"{image_id:012d}.jpg", y, suggested, image_id, subset)
        expected.setdefault((criterion, task), []).append(tuple(map(str, row)))
    assert set(expected) == set(product(("ce", "~ce"), ("car", "fire_hydrant")))
    for (criterion, task), listed in expected.items():
        folder = {"ce": "ce", "~ce": "+7Ece"}[criterion]
        rows = rows_of(tmp_path / "out", f"{folder}/{task}.csv")
        assert list(rows[0])[:4] == ["split", "filename", "y", "a"]
        columns = ("split", "filename", "y", "a", "image_id", "subset")
        assert [tuple(row[column] for column in columns) for row in rows] == listed
        assert len({(row["y"], row["a"]) for row in rows}) == 4
    supports = [row["support"] for row in rows_of(tmp_path / "out", "ce/car.csv")]
    pairs = [made.suite.set("ce", "car", split).support for split in ("valid", "test")]
    assert [float(text) for text in supports] == np.concatenate(pairs).tolist()
    assert {row["support"] for row in rows_of(tmp_path / "out", "+7Ece/car.csv")} == {""}


def _renamed(made, names):
    """The dataset with other names of its first files, and a suite found in it."""
    names = [*names, *made.data.images["file_name"][len(names) :]]
    series = pl.Series("file_name", names, dtype=pl.String)
    data = replace(made.data, images=made.data.images.with_columns(series))
    splits = ["train", "valid", "test"]
    return data, find(data, {"ce": CE(cues={"car": ("road",)})}, tasks=["car"], splits=splits)


def test_csv_keeps_every_file_name(made, tmp_path):
    data, suite = _renamed(made, ['a,"b".jpg', "line\nbreak.jpg", " space.jpg", "é.jpg"])
    export(suite, "csv", tmp_path / "out", data=data)
    listed = {row["filename"] for row in rows_of(tmp_path / "out", "ce/car.csv")}
    assert listed == set(data.images["file_name"])


def test_csv_needs_a_file_name_for_each_image(made, tmp_path):
    data, suite = _renamed(made, [None])
    write = partial(export, suite, "csv", tmp_path / "out", data=data)
    fails(write, "1 images", "no file name")
    assert list(tmp_path.iterdir()) == []


def outputs(suite, tasks=("car", "fire_hydrant"), seed=0.0, **columns):
    frames = []
    for criterion, task, split in suite.keys:
        if criterion == "ce" and task in tasks:
            ids = suite.set(criterion, task, split).image_ids
            logits = [(i % 7) - 3 + seed for i in ids]
            frames.append(pl.DataFrame({"image_id": ids, "task": task, "logit": logits}))
    return pl.concat(frames).with_columns(**{name: pl.lit(v) for name, v in columns.items()})


def test_csv_has_the_loss_of_each_run(made, tmp_path):
    runs = {"a": outputs(made.suite), "b": outputs(made.suite, ["car"], 0.5)}
    export(made.suite, "csv", tmp_path / "out", data=made.data, predictions=runs)

    def loss(row, add):
        logit = int(row["image_id"]) % 7 - 3 + add
        return math.log1p(math.exp(-logit if row["y"] == "1" else logit))

    for criterion, task in product(("ce", "+7Ece"), ("car", "fire_hydrant")):
        for row in rows_of(tmp_path / "out", f"{criterion}/{task}.csv"):
            assert float(row["nll:a"]) == pytest.approx(loss(row, 0))
            if task == "car":
                assert float(row["nll:b"]) == pytest.approx(loss(row, 0.5))
            else:
                assert row["nll:b"] == ""


def test_predictions_that_do_not_fit(made, tmp_path):
    write = partial(export, made.suite, "csv", tmp_path / "o", data=made.data)
    fails(lambda: write(predictions=outputs(made.suite).head(3)), "have no prediction")
    other = outputs(made.suite, ["fire_hydrant"])
    fails(lambda: write(tasks=["car"], predictions=other), "predict none of the chosen tasks")
    wide = other.pivot(on="task", index="image_id", values="logit")
    fails(lambda: write(predictions=wide), "`scale`")
    assert not list(tmp_path.iterdir())


def test_losses_as_a_user_asks_for_them(made, run_cli, tmp_path):
    outputs(made.suite, run="erm/1").write_parquet(tmp_path / "p.parquet")
    chosen = f"--predictions {tmp_path}/p.parquet --criterion ce --split test"
    run_cli(f"export {made.folder}/suite --to csv {tmp_path}/out {chosen}").ok()
    table = pl.read_csv(tmp_path / "out" / "ce" / "car.csv")
    options = {"metrics": ["nll"], "criteria": ["ce"]}
    losses = nooch.evaluate(made.folder / "suite", tmp_path / "p.parquet", **options)
    hard = table.filter(subset="hard_positive")["nll:erm/1"]
    assert hard.mean() == pytest.approx(losses.value("nll", "hard_positive", task="car"))


def test_the_torch_dataset_of_the_page(made):
    torch = pytest.importorskip("torch", reason="torch is not installed (nooch[train])")
    page = (Path(__file__).parents[2] / "docs" / "exports.md").read_text("utf-8")
    names = {
        "suite": made.suite,
        "data": made.data,
        "transform": lambda image: torch.tensor(np.asarray(image).mean()),
    }
    exec(re.search(r"^```python\n(.*?)```", page, re.DOTALL | re.MULTILINE)[1], names)
    tested, trained = names["tested"], names["trained"]
    one, train = made.suite.set("ce", "car", "test"), made.data.select("train")
    # the made images are of the color of their number
    batches = [*torch.utils.data.DataLoader(tested, batch_size=4)]
    colors, labels, subsets = (torch.cat([b[n] for b in batches]).tolist() for n in range(3))
    assert colors == pytest.approx(one.image_ids.to_list(), abs=40)
    assert (labels, subsets) == (one.labels.tolist(), one.subset.tolist())
    assert [int(item[1]) for item in trained] == train.labels("car").astype(int).tolist()
