"""One model, named by files whose numbers are no ids: all ways of reading it say the same."""

import json

import polars as pl
import pytest
from refusals import fails
from scored import TASKS, small_data, small_suite

from nooch.data import Dataset
from nooch.evaluation import evaluate, load_predictions
from nooch.evaluation.answers import read_answers
from nooch.evaluation.captions import score_captions
from nooch.integrity import fsck
from nooch.suites import load_suite, save_suite

NUMBERS = list(range(60))
NAMES = [f"cam/frame_{(number * 7 + 3) % 60:06d}.jpg" for number in NUMBERS]


def _data(names=NAMES):
    data = small_data(NUMBERS)
    images = data.images.with_columns(file_name=pl.Series(names, dtype=pl.String))
    return Dataset.build(images, data.classes, data.areas)


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    """The suite as a folder whose dataset is gone."""
    folder = tmp_path_factory.mktemp("named") / "suite"
    save_suite(small_suite(_data()), folder)
    return load_suite(folder)


def _rows(suite, name):
    """(name of the image, task, label) of all images of the test split."""
    for task in TASKS:
        challenge = suite.set("ce", task, "test")
        for image, label in zip(challenge.image_ids, challenge.labels, strict=True):
            yield name(NAMES[image]), task, bool(label)


SPELLINGS = {
    "as they are": lambda name: name,
    "other folders": lambda name: f"/mnt/data/{name}",
    "Windows": lambda name: "D:\\all\\" + name.replace("/", "\\"),
    "base name": lambda name: name[4:],
    "no ending": lambda name: name[4:-4],
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_perfect_model_is_perfect_however_it_is_read(suite, tmp_path, spelling):
    rows = list(_rows(suite, SPELLINGS[spelling]))
    table = [(image, task, 0.9 if label else 0.1) for image, task, label in rows]
    predictions = pl.DataFrame(table, schema=["image", "task", "prob"], orient="row")
    predictions.write_csv(tmp_path / "p.csv")
    yes_no = {True: "Yes", False: "No"}
    said = [{"img_id": i, "object_name": task, "answer": yes_no[y]} for i, task, y in rows]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, said)))
    runs = load_predictions([tmp_path / "p.csv", tmp_path / "a.jsonl"], suite)
    assert "24 of 24 images by file name" in runs[0].read
    assert "24 of 24 images by file name" in runs[1].notes
    scores = evaluate(suite, runs, metrics=["error", "recall"]).table
    defined = scores.filter(pl.col("value").is_not_null())
    assert set(defined.filter(metric="error")["value"]) == {0.0}
    assert set(defined.filter(metric="recall")["value"]) == {1.0}
    assert defined["run"].n_unique() == 2

    words = [
        {"image": image, "caption": " ".join(of["task"].to_list()).replace("_", " ") or "nothing"}
        for (image,), of in pl.DataFrame(
            [(i, t if label else None) for i, t, label in rows],
            schema=["image", "task"], orient="row",
        ).group_by("image", maintain_order=True)
        for of in [of.drop_nulls()]
    ]  # fmt: skip
    (tmp_path / "c.json").write_text(json.dumps(words))
    captions = score_captions(suite, tmp_path / "c.json", bootstrap=0)
    rates = captions.table.filter(metric="rate", run="c").drop_nulls("value")
    absent = rates.filter(pl.col("subset").str.ends_with("negative"))["value"]
    assert len(absent)
    assert absent.max() == 0
    assert "c: 24 of 24 images by file name" in captions.notes

    verdicts = [{"image_id": i, "task": t, "verdict": yes_no[y].lower()} for i, t, y in rows]
    (tmp_path / "v.json").write_text(json.dumps(verdicts))
    overlaid = evaluate(suite, predictions, overlay=tmp_path / "v.json")
    assert any(note.startswith("0 labels corrected") for note in overlaid.notes)
    assert "corrected labels: 24 of 24 images by file name" in overlaid.notes


def _two_names(rows):
    """Records with the number in a file's name, the id of another image, next to the name."""
    return [{"image_id": int(i[-10:-4]), "file_name": i, "task": t, "yes": y} for i, t, y in rows]


def _boxes(rows):
    box = {"bbox": [0, 0, 9, 9], "score": 0.9}
    return [{**row, **box, "category": row["task"]} for row in rows if row["yes"]]


def _by_image(rows):
    frame = pl.DataFrame(rows).group_by("image_id", "file_name", maintain_order=True).all()
    return [
        {"image_id": row["image_id"], "file_name": row["file_name"],
         "boxes": [[0, 0, 9, 9]] * sum(row["yes"]), "scores": [0.9] * sum(row["yes"]),
         "labels": [t for t, y in zip(row["task"], row["yes"], strict=True) if y]}
        for row in frame.to_dicts()
    ]  # fmt: skip


def _long(rows):
    return pl.DataFrame(rows).select("image_id", "file_name", "task", prob=pl.col("yes") * 0.9)


def _wide(rows):
    return _long(rows).pivot("task", index=["image_id", "file_name"], values="prob").fill_null(0)


@pytest.mark.parametrize("way", [_boxes, _by_image, _long, _wide])
def test_a_file_name_counts_before_the_number_in_it(suite, tmp_path, way):
    content = way(_two_names(_rows(suite, str)))
    file = tmp_path / ("p.json" if isinstance(content, list) else "p.csv")
    if isinstance(content, list):
        file.write_text(json.dumps(content))
    else:
        content.write_csv(file)
    (run,) = load_predictions(file, suite)
    assert any("name different images in" in note for note in run.notes)
    scores = evaluate(suite, [run], metrics=["error"]).table
    assert set(scores.drop_nulls("value")["value"]) == {0.0}


def test_names_of_no_image_and_of_other_splits(suite, tmp_path):
    rows = list(_rows(suite, str))
    said = [{"img_id": i, "object_name": t, "answer": "No"} for i, t, _ in rows]
    train = {"img_id": NAMES[0], "object_name": "car", "answer": "No"}
    file = tmp_path / "a.jsonl"
    file.write_text("\n".join(map(json.dumps, [*said, train])))
    assert f"1 of {len(said) + 1} answers are left out" in read_answers(file, suite).notes[1]
    strange = {"img_id": "cam/fram_000001.jpg", "object_name": "car", "answer": "No"}
    file.write_text("\n".join(map(json.dumps, [*said, strange])))
    fails(lambda: load_predictions(file, suite), "1 of 25 names match no image: cam/fram_")
    (run,) = load_predictions(file, suite, ignore_unknown=True)
    assert "24 of 25 images by file name" in run.notes
    table = pl.DataFrame(
        [(i, t, 0.5) for i, t, _ in [*rows, (NAMES[0], "car", 0), ("fram.jpg", "car", 0)]],
        schema=["image", "task", "prob"], orient="row",
    )  # fmt: skip
    fails(lambda: load_predictions(table, suite), "1 of 26 images are not in the suite: fram.jpg")
    (run,) = load_predictions(table[:-1], suite)
    end = "25 of 25 images by file name; 1 image of the dataset is not in the suite"
    assert run.read.endswith(end)
    assert evaluate(suite, run).table.height


def test_numbers_that_are_ids_and_file_names_of_other_images(tmp_path):
    data = _data([f"{(number * 7 + 3) % 60}.jpg" for number in NUMBERS])
    suite = small_suite(data)
    frame = pl.DataFrame(
        [(i, t, 0.5) for t in TASKS for i in suite.set("ce", t, "test").image_ids],
        schema=["image_id", "task", "prob"], orient="row",
    )  # fmt: skip
    (typed,) = load_predictions(frame, suite)
    assert typed.image_ids.to_list() == list(range(36, 60))
    frame.write_parquet(tmp_path / "p.parquet")
    frame.write_csv(tmp_path / "p.csv")
    (typed,) = load_predictions(tmp_path / "p.parquet", suite)
    assert typed.image_ids.to_list() == list(range(36, 60))
    fails(lambda: load_predictions(tmp_path / "p.csv", suite), "24 of 24 names mean one image",
          "36 is the id 36, and the file 36.jpg belongs to image 39", "Parquet")  # fmt: skip
    # numbers with zeros in front are names
    padded = _data([f"{(number * 7 + 3) % 60:04d}.jpg" for number in NUMBERS])
    names = frame.with_columns(pl.format("{}", pl.col("image_id").cast(pl.String).str.zfill(4)))
    stems = [padded.images["file_name"][i][:-4] for i in frame["image_id"]]
    names = names.with_columns(image_id=pl.Series(stems))
    names.write_csv(tmp_path / "n.csv")
    fails(lambda: load_predictions(tmp_path / "n.csv", small_suite(padded)), "is the id")


def test_a_suite_records_what_it_needs(tmp_path, suite):
    assert suite.header.image_names == "table"
    folder = tmp_path / "suite"
    save_suite(suite, folder)
    assert load_suite(folder).image_names().files.to_list() == NAMES
    assert fsck(folder).is_whole
    (folder / "image_names.parquet").write_bytes(b"x")
    fails(lambda: load_suite(folder), "image_names.parquet was altered", kind=ValueError)
    (damage,) = fsck(folder).damaged
    assert damage.file == "image_names.parquet"
    (folder / "image_names.parquet").unlink()
    fails(lambda: load_suite(folder), "image_names.parquet is missing", kind=ValueError)


def test_names_that_end_in_ids_need_no_table(tmp_path):
    save_suite(small_suite(_data([f"f_{n:06d}.jpg" for n in NUMBERS])), tmp_path / "suite")
    files = sorted(f.name for f in (tmp_path / "suite").iterdir())
    assert files == ["challenge_sets.parquet", "suite.json"]
    suite = load_suite(tmp_path / "suite")
    frame = pl.DataFrame({"image": ["g/f_37.png", "f_000038"], "task": "car", "prob": [0.5, 0.25]})
    (run,) = load_predictions(frame, suite)
    assert sorted(run.image_ids) == [37, 38]
    assert "2 of 2 images by the number at the end of file names" in run.read


def test_the_shipped_suite_knows_the_names_of_coco():
    suite = load_suite("nooch-coco")
    ids = suite.set("ce", "tie", "test").image_ids[:2].to_list()
    names = pl.Series([f"val2014/COCO_val2014_{ids[0]:012d}.jpg", f"{ids[1]:012d}.jpg", "7.jpg"])
    assert suite.match_names(names, "x").ids.to_list() == [*ids, None]


def test_unknown_images_that_are_left_out_are_counted(suite):
    """By id, where any number could be one; what is known is not counted."""
    ids = [*suite.set("ce", "car", "test").image_ids, 998, 999]
    frame = pl.DataFrame({"image_id": ids, "task": "car", "probability": 0.5})
    (run,) = load_predictions(frame, suite, ignore_unknown=True)
    assert "2 images left out, as unknown (`ignore_unknown`)" in run.read
    (run,) = load_predictions(frame[:-2], suite, ignore_unknown=True)
    assert "left out" not in run.read
