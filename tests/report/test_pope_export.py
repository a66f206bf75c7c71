"""Questions in POPE's format."""

import json

import polars as pl
import pytest

from nooch.suites import load_suite
from nooch.suites.questions import load_questions


def test_each_line_is_a_question_of_the_table(made, run_cli, tmp_path):
    out = tmp_path / "pope"
    run_cli(f"export {made.folder}/suite {out} --to pope --per-set 2 --seed 3").ok()
    lines = [json.loads(line) for line in (out / "questions.json").read_text().splitlines()]
    table = load_questions(out / "questions.parquet")
    assert set(table.frame["split"]) == {"test"}
    assert table.criteria == ("ce", "~ce")
    answer = pl.when(pl.col("label") == 1).then(pl.lit("yes")).otherwise(pl.lit("no"))
    columns = ("question_id", "image", "text", answer.alias("label"))
    assert lines == table.frame.select(columns).to_dicts()
    names = dict(made.data.images.select("image_id", "file_name").iter_rows())
    assert table.frame["image"].to_list() == [names[i] for i in table.frame["image_id"]]
    for task, a in (("car", "a car"), ("fire_hydrant", "a fire hydrant")):
        texts = table.frame.filter(pl.col("task") == task)["text"].unique().to_list()
        assert texts == [f"Is there {a} in the image?"]


def test_all_images_of_both_splits(made, run_cli, tmp_path):
    out = tmp_path / "pope"
    options = "--to pope --per-set all --split valid,test"
    done = run_cli(f"export {made.folder}/suite {out} {options}").ok()
    table = load_questions(out / "questions.parquet").frame
    images = made.data.images.filter(pl.col("split") != "train").height
    assert table.height == 2 * images
    assert (table["weight"] == 1).all()
    assert f"{table.height} questions on {images} images" in done.err


NAMES = ["train2017/{:012d}.jpg", "val2017/{:012d}.jpg"]
NAMES += ["train2014/COCO_train2014_{:012d}.jpg", "val2014/COCO_val2014_{:012d}.jpg"]


def test_the_suite_of_the_package_needs_images_alone(run_cli, tmp_path):
    suite = load_suite("nooch-coco")
    sets = [suite.set(*key).image_ids for key in suite.keys if key[2] == "test"]
    ids = pl.concat(sets).unique(maintain_order=True).to_list()
    assert len(ids) == 24_657
    for name in NAMES:
        (tmp_path / "coco" / name).parent.mkdir(parents=True)
    files = {i: NAMES[i % 4].format(i) for i in ids}
    for file in files.values():
        (tmp_path / "coco" / file).touch()
    done = run_cli(f"export nooch-coco {tmp_path}/q --to pope --images {tmp_path}/coco").ok()
    assert "CC BY 4.0" in (tmp_path / "q" / "LICENCES.txt").read_text()
    table = load_questions(tmp_path / "q" / "questions.parquet")
    assert f"{len(table):,} questions on" in done.err
    assert table.criteria == ("ce", "gist")
    asked = table.frame
    assert asked["image"].to_list() == [files[i] for i in asked["image_id"]]
    drawn = asked.group_by("task", "label", "ce", "gist").len()
    assert drawn["len"].max() == 50
    # the weights stand for all images of the sets
    hard = asked.filter(pl.col("ce") == "hard_negative")
    counts = [suite.record("ce", task, "test").hard_negatives for task in suite.tasks]
    assert hard["weight"].sum() == pytest.approx(sum(counts))
