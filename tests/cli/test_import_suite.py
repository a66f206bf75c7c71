"""paper published: the official benchmark from 96 files, and incomplete folders."""

import numpy as np
import polars as pl
import pytest
from scored import small_data

import nooch
from nooch.data import save_dataset
from nooch.suites.published_counts import NOOCH_TASKS, paper_tasks


@pytest.fixture(scope="module")
def official(shared_data):
    """The 96 files and the labels of COCO 2017."""
    labels = shared_data / "coco-stats" / "derived_coco_thing_labels_123287x80.npz"
    return shared_data / "nooch-published", labels


def test_the_official_benchmark(official, run_cli, tmp_path):
    folder, labels = official
    done = run_cli(f"paper published {folder} --labels {labels} --out suite")
    assert "have no labels" not in done.err
    assert done.code == 0, done.err
    assert "48 challenge sets" in done.out
    suite = nooch.load_suite(tmp_path / "suite")
    assert len(suite.keys) == 48
    assert suite.tasks == NOOCH_TASKS
    for task in paper_tasks().values():
        for criterion in ("ce", "gist"):
            counts = suite.record(criterion, task.task, "test")
            hard = counts.hard_positives, counts.hard_negatives
            assert hard == (task.hard_positives, task.hard_negatives)
            images = counts.positives + counts.negatives
            assert (counts.positives, images) == (task.positives, 24657)
            assert suite.set(criterion, task.task, "test").support is None
    verdicts = run_cli(f"tools verify suite {folder} --format json").json
    verdicts = [v for v in verdicts if v["set"].startswith("hard") and v["metric"] == "jaccard"]
    assert len(verdicts) == 2 * (12 + 2) * 2
    assert all(v["value"] == 1 and not v["only_second"] for v in verdicts)

    # a random and a perfect predictor
    random, ids = np.random.default_rng(0), suite.set("ce", "car", "test").image_ids
    truth = np.array([suite.set("ce", task, "test").labels for task in suite.tasks]).T
    frames = {"random": random.normal(size=truth.shape), "perfect": np.where(truth, 1.0, -1.0)}
    for name, values in frames.items():
        pl.DataFrame(
            {"image_id": ids, **dict(zip(suite.tasks, values.T, strict=True))}
        ).write_parquet(tmp_path / f"{name}.parquet")
    run_cli(
        "evaluate suite random.parquet perfect.parquet --split test --scale logit"
        " --out scores.parquet --fail-if 'auc@hard[ce]<0.2' --fail-if 'auc@hard[gist,average]<0.4'"
    ).ok()
    scores = pl.read_parquet(tmp_path / "scores.parquet").filter(metric="auc")
    scores = scores.filter(pl.col("subset").is_in(["all", "hard", "easy"]))
    assert scores.height == 2 * 2 * 13 * 3
    assert set(scores.filter(run="perfect")["value"]) == {1.0}
    for row in scores.filter(pl.col("task") != "average", run="random").iter_rows(named=True):
        n, m = row["n_positive"], row["n"] - row["n_positive"]
        # Mann-Whitney: its standard deviation where the outputs know nothing
        assert abs(row["value"] - 0.5) < 5 * np.sqrt((n + m + 1) / (12 * n * m)), row


def test_json_stands_alone(run_cli, tmp_path):
    folder = _small(tmp_path / "p")
    words = f"paper published {folder} --labels dataset --out suite --format json"
    done = run_cli(words)
    assert [record["task"] for record in done.json["sets"]] == ["car"]
    shown = run_cli("show suite --format json").json
    assert shown["sets"] == done.json["sets"]
    before = (tmp_path / "suite" / "suite.json").read_bytes()
    run_cli(words).refused("exists already")
    run_cli(f"{words} --overwrite").ok()
    assert (tmp_path / "suite" / "suite.json").read_bytes() == before


def _small(folder, **change):
    """Published files of the small dataset: hard are the first images of either label in the test
    split.
    """
    data = small_data()
    part = data.select("test")
    folder.mkdir()
    ids, car = part.image_ids, part.labels("car")
    files = {
        "CE_car_hard_positive_test": ids[car][:3],
        "CE_car_hard_negative_test": ids[~car][:3],
        **change,
    }
    for name, values in files.items():
        if values is not None:
            np.save(folder / f"nooch_ids_{name}.npy", np.array(values))
    splits = {f"{name}_ids": data.select(name).image_ids for name in ("train", "valid", "test")}
    np.savez(folder / "cocostuff_split_image_ids.npz", **splits)
    save_dataset(data, folder.parent / "dataset")
    return folder


def test_labels_of_a_dataset(run_cli, tmp_path):
    folder = _small(tmp_path / "p")
    run_cli(f"paper published {folder} --labels dataset --out suite").ok()
    challenge = nooch.load_suite(tmp_path / "suite").set("ce", "car", "test")
    assert challenge.labels.tolist() == small_data().select("test").labels("car").tolist()
    assert len(challenge.ids("hard")) == 6


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"CE_car_hard_negative_test": None}, "has only the positive side"),
        ({"CE_car_hard_negative_test": [1]}, "hard negatives are not in the split: 1"),
        ({"CE_car_hard_negative_test": [40]}, "1 hard negatives have the other label: 40"),
        ({"CE_car_hard_negative_test": [0.5]}, "integer image ids"),
        (
            {"CE_kite_hard_positive_test": [37], "CE_kite_hard_negative_test": [38]},
            "there are no labels of kite",
        ),
    ],
)
def test_folders_that_are_refused_leave_nothing(run_cli, tmp_path, change, message):
    folder = _small(tmp_path / "p", **change)
    run_cli(f"paper published {folder} --labels dataset --out suite").refused(message)
    assert {file.name for file in tmp_path.iterdir()} == {"p", "dataset"}


def test_other_things_that_are_missing(run_cli, tmp_path):
    folder = _small(tmp_path / "p")
    (folder / "cocostuff_split_image_ids.npz").unlink()
    for source, labels, message in (
        (folder, tmp_path / "dataset", "no cocostuff_split_image_ids.npz"),
        (tmp_path / "nowhere", tmp_path / "dataset", "no such folder"),
        (tmp_path, tmp_path / "dataset", "contains no published set"),
        (folder, tmp_path / "nowhere.npz", "cannot be read"),
        (folder, folder, "is not a dataset folder"),
    ):
        run_cli(f"paper published {source} --labels {labels} --out suite").refused(message)
        assert not (tmp_path / "suite").exists()
    # only hard images need neither labels nor the split
    run_cli(f"paper published {folder} --out suite").ok()


def test_without_labels_the_suite_holds_hard_images_alone(official, run_cli, tmp_path):
    folder, _ = official
    done = run_cli(f"paper published {folder} --out hard --format json").ok()
    assert done.json["hard_only"] is True
    suite, whole = nooch.load_suite(tmp_path / "hard"), nooch.load_suite("nooch-coco")
    ids, random = whole.set("ce", "car", "test").image_ids, np.random.default_rng(0)
    columns = {task: random.normal(size=len(ids)) for task in suite.tasks}
    pl.DataFrame({"image_id": ids, **columns}).write_parquet(tmp_path / "run.parquet")
    # predictions of easy images are left out, not refused
    options = "run.parquet --scale logit"
    done = run_cli(f"evaluate hard {options} --out hard.parquet --bootstrap 20").ok()
    assert "only hard images" in done.err
    run_cli(f"evaluate nooch-coco {options} --out all.parquet").ok()
    keys = ["criterion", "task", "subset", "metric"]
    here, there = (
        pl.read_parquet(tmp_path / f"{name}.parquet").sort(keys) for name in ("hard", "all")
    )
    assert here.select(keys).equals(there.select(keys))
    # the share of all images that ece_paper takes is not known
    hard = pl.col("subset").is_in(["hard", "hard_positive", "hard_negative"]) & (
        pl.col("metric") != "ece_paper"
    )
    assert here.filter(hard)["value"].equals(there.filter(hard)["value"])
    assert here.filter(hard, metric="auc", subset="hard")["value"].null_count() == 0
    rest = here.filter(~hard)
    assert rest.height > 0
    assert rest["value"].null_count() == rest.height
    reason = "the suite contains only hard images: which images are easy is not known"
    assert set(rest["reason"]) == {reason}
    # what is not known is said nowhere else
    shown = run_cli("show hard")
    assert "2,585" not in shown.out
    assert "1,539" in shown.out
    easy = whole.set("ce", "car", "test").ids("easy")[0]
    assert run_cli(f"explain hard --task car --image {easy}").code == 2
    only = np.setdiff1d(
        suite.set("ce", "car", "test").ids("hard"), suite.set("gist", "car", "test").ids("hard")
    )
    told = run_cli(f"explain hard --task car --image {only[0]}")
    assert (
        "gist: no verdict: the image is not hard, and the suite contains only hard images"
        in told.out
    )
    run_cli("report hard --out site").ok()
    page = (tmp_path / "site" / "index.html").read_text()
    assert "The suite contains only hard images" in page
    # 1,539 hard positives under CE and under gist, and not a third time as all positives
    assert page.count(">1,539<") == 2
    tabled = run_cli("paper tables hard --like table2 --compare paper --out t.csv").ok()
    assert "how many positives there are is not known" in " ".join(tabled.err.split())
    counts = pl.read_csv(tmp_path / "t.csv")
    assert counts.height == 24
    for column in ("positives", "difference_positives"):
        assert counts[column].null_count() == 24
    assert counts["difference_hard_positives"].to_list() == [0] * 24
    run_cli(f"evaluate hard {options} --average test").refused("needs the easy images")
    run_cli(f"paper select-tasks hard {options} --out no").refused("needs the easy images")


def test_labels_of_coco_files(official, shared_data, run_cli, tmp_path):
    """The genuine files of 288 images: easy images are those that they have, with the labels of the
    derived table.
    """
    folder, labels = official
    real = shared_data / "coco-real"
    files = [real / "coco128" / "annotations" / "instances_train2017.json"]
    tiny = real / "coco-tiny" / "annotations"
    files += [tiny / f"instances_{part}2017.json" for part in ("train", "val")]
    published = f"paper published {folder} --labels {' --labels '.join(map(str, files))}"
    done = run_cli(f"{published} --out suite").ok()
    assert "of 24,657 images of split test have no labels" in " ".join(done.err.split())
    suite, whole = nooch.load_suite(tmp_path / "suite"), nooch.load_suite("nooch-coco")
    assert not suite.header.hard_only
    n = 0
    for key in suite.keys:
        one, other = suite.set(*key), whole.set(*key)
        same = other.image_ids.is_in(one.image_ids.implode()).to_numpy()
        assert same.sum() == len(one)
        np.testing.assert_array_equal(one.labels, other.labels[same])
        np.testing.assert_array_equal(one.subset, other.subset[same])
        n += len(one.ids("easy")) if key[:2] == ("ce", "tie") else 0
    assert n > 0
    mixed = run_cli(f"{published} --labels {labels} --out mixed")
    mixed.refused("one or several COCO JSON files")
