"""The context criterion as a user types it: labels alone, and what else takes its suites."""

import re

import numpy as np
import polars as pl
import pytest
from scipy.sparse import csr_array

from nooch.data import Dataset, save_dataset
from nooch.suites import load_suite

TASKS = ["car", "bus", "cow"]
CLASSES = [*TASKS, "light", "grass", "tree"]


def street(n=600, seed=0):
    """Cars and buses near lights, cows on grass; areas are unknown."""
    random = np.random.default_rng(seed)
    scene = random.integers(0, 3, n)
    shares = [[0.6, 0.3, 0.05, 0.7, 0.1, 0.3], [0.1, 0.05, 0.5, 0.1, 0.7, 0.4], [0.1] * 6]
    present = random.random((n, len(CLASSES))) < np.array(shares)[scene]
    splits = random.choice(["train", "valid", "test"], n, p=[0.6, 0.2, 0.2])
    columns = {"image_id": range(n), "file_name": [f"{k}.jpg" for k in range(n)], "split": splits}
    areas = csr_array(np.where(present, np.nan, 0.0))
    return Dataset.build(pl.DataFrame(columns), CLASSES, areas)


@pytest.fixture
def data(tmp_path):
    save_dataset(street(), tmp_path / "data")
    return street()


def test_show_has_thresholds_as_probabilities_and_the_number_of_ties(data, run_cli, tmp_path):
    run_cli("find data --criterion context --tasks car,cow --out lifted").ok()
    shown = run_cli("show lifted").ok().out
    assert "odds ratio" in shown
    rate = data.select("train").labels("car").mean()
    odds = 3 * rate / (1 - rate)
    p = odds / (1 + odds)
    assert f"{np.log(odds):.3g} (P {p:.2g}, {p / rate:.2g} times)" in shown
    assert f"{np.log(odds / 3):.3g} (P {rate:.2g}, 1 times)" in shown
    # other labels in the context give few other supports: counts are matched among ties
    words = "--criterion context --match from:lifted --exclude light,tree --tasks car,cow"
    run_cli(f"find data {words} --out matched").ok()
    facts = run_cli("show matched --format json").ok().json["thresholds"]
    suite = load_suite(tmp_path / "matched")
    tied = 0
    for row in facts:
        one = suite.set(row["criterion"], row["task"], row["split"])
        for side, own in (("positive", one.labels), ("negative", ~one.labels)):
            if "tied" in row[side]:
                support = one.support[own]
                hard = (one.subset[own] != 2) & (support == row[side]["threshold"])
                assert 0 < hard.sum() < row[side]["tied"]
                assert row[side]["tied"] == (support == row[side]["threshold"]).sum()
                tied += 1
    assert tied
    assert re.search(r"\* \(P [\d.]+, [\d.]+ times\)", run_cli("show matched").ok().out)


def test_lifts_are_swept_as_find_takes_them(data, run_cli, tmp_path):
    del data
    done = run_cli("sweep data --lift 1.5,3 --tasks car,cow --out swept --format json")
    assert done.ok().json["lift"] == [1.5, 3.0]
    swept = pl.read_parquet(tmp_path / "swept" / "lift.parquet")
    run_cli("find data --criterion context --lift 1.5 --tasks car,cow --out suite").ok()
    for record in load_suite(tmp_path / "suite").header.sets:
        row = swept.filter(task=record.task, split=record.split, lift=1.5).row(0, named=True)
        assert row["hard_negatives"] == record.hard_negatives
    picture = (tmp_path / "swept" / "hard_by_lift_test.svg").read_text()
    assert "by the context criterion" in picture
    again = run_cli("sweep data --lift 0 --out bad")
    assert "positive numbers" in again.err


def test_a_lift_counts_as_it_is_and_is_no_tau(data, run_cli):
    del data
    for words, said in (("--lift 0", "lift is 0"), ("--lift 2 --tau 1", "both are thresholds")):
        done = run_cli(f"find data --criterion context {words} --out suite")
        assert (done.code, said in done.err) == (2, True)


def _table(folder, **columns):
    """A table of labels, and predictions for the first of them that err by scene."""
    random = np.random.default_rng(0)
    n = 800
    scene = np.arange(n) % 2 == 0
    labels = {"car": (0.6, 0.1), "bus": (0.5, 0.1), "cow": (0.05, 0.5)}
    drawn = {
        name: (random.random(n) < np.where(scene, *p)).astype(int) for name, p in labels.items()
    }
    made = {name: np.asarray(make(drawn)).astype(int) for name, make in columns.items()}
    split = random.choice(["train", "test"], n)
    if "only" in made:
        split, made = np.full(n, "valid"), drawn
    table = pl.DataFrame({"file_name": [f"{k}.jpg" for k in range(n)], "split": split, **made})
    table.write_csv(folder / "labels.csv")
    first = next(iter(made))
    wrong = random.random(n) < np.where(scene, 0.35, 0.05)
    values = np.where((made[first] > 0) ^ wrong, 0.9, 0.1)
    answers = pl.DataFrame({"image_id": table["file_name"], first: values})
    answers.filter(split != "train").write_csv(folder / "answers.csv")
    return ",".join(made)


OWN = {name: lambda d, name=name: d[name] for name in ("car", "bus", "cow")}
BAD = {
    "one class": ({"car": OWN["car"]}, 2, "the only class", "the only class"),
    "one label per image": (
        {f"c{k}": lambda d, k=k: np.arange(len(d["car"])) % 3 == k for k in range(3)},
        2, "labels exclude each other", "labels exclude each other",
    ),
    "the same class twice": (
        {**OWN, "auto": OWN["car"]}, 0, "auto (implies car)", "The model claims",
    ),
    "a parent class": (
        {**OWN, "vehicle": lambda d: d["car"] | d["bus"]},
        0, "vehicle of car", "--lift 1",
    ),
    "yes and no": (
        {"ill": OWN["car"], "well": lambda d: 1 - d["car"], "old": OWN["bus"]},
        0, "well (implies that ill is absent)", "The model claims",
    ),
    "paper class-network in no image": (
        {**OWN, "unicorn": lambda d: 0 * d["car"]},
        0, "no training images have", "The model claims",
    ),
    "no training split": ({**OWN, "only": OWN["car"]}, 2, "--split 70/10/20", "--split 70/10/20"),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD)
def test_labels_that_hold_little_context_are_refused_or_named(kind, run_cli, tmp_path):
    columns, code, found, checked = BAD[kind]
    names = _table(tmp_path, **columns)
    how = f"--id file_name --label {names} --split-column split"
    run_cli(f"import table labels.csv data {how}").ok()
    done = run_cli("find data --criterion context --tasks all --out suite")
    assert (done.code, found in " ".join((done.out + done.err).split())) == (code, True)
    words = "--criterion context --scale probability --min-hard 10 --out checked"
    done = run_cli(f"check labels.csv answers.csv {words}")
    assert checked in " ".join((done.out + done.err).split())
    assert "Traceback" not in done.err


def test_an_unknown_split_or_class_names_those_there_are(data, run_cli):
    del data
    for words, allowed in (("--split tst", "valid"), ("--exclude truck", "light")):
        done = run_cli(f"find data --criterion context --out suite {words}")
        assert done.code == 2
        assert allowed in done.err


def test_twenty_thousand_classes_are_refused_in_words_and_some_tasks_are_found(run_cli, tmp_path):
    random, n, k = np.random.default_rng(0), 400, 20_000
    rows, columns = np.arange(n).repeat(30), random.integers(1, k, 30 * n)
    columns[::90] = 0
    present = csr_array((np.ones(30 * n), (rows, columns)), shape=(n, k))
    images = pl.DataFrame({"image_id": range(n), "split": ["train", "test"] * (n // 2)})
    areas = csr_array((np.full(present.nnz, 0.1), present.indices, present.indptr), shape=(n, k))
    save_dataset(Dataset.build(images, [f"c{i}" for i in range(k)], areas), tmp_path / "data")
    done = run_cli("find data --criterion context --tasks all --out suite")
    assert done.code == 2
    assert "20,000 tasks with 20,000 classes" in done.err
    assert "--tasks" in done.err
    run_cli("find data --criterion context --tasks c0 --out suite").ok()


@pytest.mark.parametrize("kind", ["ids", "coco --no-annotations", "csv", "pope", "hf"])
def test_its_suites_are_exported_as_others_are(kind, data, run_cli, tmp_path):
    del data
    run_cli("find data --criterion context --tasks car,cow --out suite").ok()
    done = run_cli(f"export suite {tmp_path / 'out'} --to {kind}").ok()
    assert re.search(r"[24] challenge sets as", done.err + done.out)


def test_explanations_slices_and_reports_take_its_suites(data, run_cli, tmp_path):
    run_cli("find data --criterion context --tasks car,cow --out suite").ok()
    image = int(data.select("test").image_ids[0])
    told = " ".join(
        run_cli(f"explain suite --task car --image {image} --dataset data").ok().out.split()
    )
    assert re.search(r"car is (not )?expected: P = \.\d+, [\d.]+ times the base rate", told)
    test = data.select("test")
    answers = pl.DataFrame(
        {"image_id": test.images["image_id"], "car": test.labels("car") * 0.8 + 0.1}
    )
    answers.write_csv(tmp_path / "p.csv")
    assert "slices:" in run_cli("slices suite p.csv --scale probability").ok().err
    run_cli("report suite --predictions p.csv --scale probability --out page").ok()
    assert "context" in (tmp_path / "page" / "index.html").read_text()
    done = run_cli("paper figures fig10 fig11 --suite suite --dataset data --out f")
    assert done.code == 2
    assert "areas are unknown" in done.err
