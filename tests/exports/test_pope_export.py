"""Questions in POPE's format."""

import json

import polars as pl

from nooch.questions import load_questions


def test_each_line_is_a_question_of_the_table(made, run_cli, tmp_path):
    out = tmp_path / "pope"
    run_cli(f"export {made.folder}/suite {out} --to pope --per-set 2 --seed 3").ok()
    lines = [json.loads(line) for line in (out / "questions.json").read_text().splitlines()]
    table = load_questions(out / "questions.parquet")
    assert set(table.frame["split"]) == {"test"}
    assert table.criteria == ("ce", "~ce")
    assert lines == [
        {"question_id": i, "image": image, "text": text, "label": "yes" if label else "no"}
        for i, image, text, label in table.frame.select(
            "question_id", "image", "text", "label"
        ).iter_rows()
    ]
    names = dict(made.data.images.select("image_id", "file_name").iter_rows())
    assert all(
        names[i] == image for i, image in table.frame.select("image_id", "image").iter_rows()
    )
    for task, a in (("car", "a car"), ("fire_hydrant", "a fire hydrant")):
        texts = table.frame.filter(pl.col("task") == task)["text"].unique().to_list()
        assert texts == [f"Is there {a} in the image?"]


def test_all_images_of_both_splits(made, run_cli, tmp_path):
    out = tmp_path / "pope"
    done = run_cli(
        f"export {made.folder}/suite {out} --to pope --per-set all --splits valid,test"
    ).ok()
    table = load_questions(out / "questions.parquet").frame
    images = made.data.images.filter(pl.col("split") != "train").height
    assert table.height == 2 * images
    assert (table["weight"] == 1).all()
    assert f"{table.height} questions on {images} images" in done.err
