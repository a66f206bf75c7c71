"""One network for all classes, losses by class, and the choice of tasks: planted ones are found."""

import json
from functools import partial

import numpy as np
import polars as pl
import pytest
from commands import completed, kill_when
from refusals import fails, refused
from scipy.sparse import csr_array

import nooch
from nooch.base.errors import InputError, UndefinedError
from nooch.data import save_dataset
from nooch.evaluation import class_losses
from nooch.evaluation.metrics import nll
from nooch.report.results.collect import losses_by_class
from nooch.suites.published_counts import NOOCH_TASKS, paper_tasks
from nooch.training.selection import paper_rule, select_tasks

PLANTED = ("car", "kite", "cup")
CLASSES = ("bird", "boat", "car", "cup", "dog", "kite", "road", "sky", "table", "wall")
CONTEXT = {"car": "road", "kite": "sky", "cup": "table"}
CONTEXT |= {"bird": "sky", "boat": "road", "dog": "table"}


def world(n=6000, seed=0):
    """Classes with a context each. A model answers from context and object; for the planted ones,
    from the context alone.
    """
    random = np.random.default_rng(seed)
    areas = np.zeros((n, len(CLASSES)))
    column = {name: number for number, name in enumerate(CLASSES)}
    for cue in ("road", "sky", "table"):
        areas[:, column[cue]] = np.where(random.random(n) < 0.4, random.uniform(0.2, 0.6, n), 0)
    logits = {}
    for task, cue in CONTEXT.items():
        there = areas[:, column[cue]] > 0
        y = random.random(n) < np.where(there, 0.4, 0.05)
        areas[:, column[task]] = np.where(y, 0.03, 0)
        seen = there if task in PLANTED else y
        logits[task] = np.where(seen, 2.0, -2.0) + random.normal(0, 0.3, n)
    split = np.array(["train", "valid", "test"])[np.arange(n) % 3]
    frame = pl.DataFrame({"image_id": range(n), "split": split.tolist()})
    data = nooch.Dataset.build(frame, CLASSES, csr_array(areas))
    long = pl.concat(
        pl.DataFrame({"image_id": range(n), "logit": z}).with_columns(task=pl.lit(t))
        for t, z in logits.items()
    )
    return data, long


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """The suite of all classes on disk, and predictions of valid and test."""
    folder = tmp_path_factory.mktemp("found")
    data, long = world(18_000)
    suite = nooch.find(data, {"ce": nooch.CE()}, tasks=list(CLASSES))
    nooch.save_suite(suite, folder / "suite")
    long.filter(pl.col("image_id") % 3 != 0).write_parquet(folder / "predictions.parquet")
    words = f"paper select-tasks {folder / 'suite'} {folder / 'predictions.parquet'} --format json"
    return suite, long, words


def test_losses_are_those_of_loops(found):
    suite, long, _ = found
    runs = nooch.evaluation.load_predictions(long.filter(pl.col("image_id") % 3 == 1), suite)
    table = class_losses(suite, runs, split="valid")
    assert set(table["task"]) == set(CONTEXT)
    for row in table.iter_rows(named=True):
        challenge = suite.set("ce", row["task"], "valid")
        z = dict(long.filter(task=row["task"]).select("image_id", "logit").rows())
        values, y = np.array([z[i] for i in challenge.image_ids]), challenge.labels
        hard = challenge.subset < 2
        parts = {"all": y | True, "positive": y, "negative": ~y, "hard": hard}
        parts |= {"hard_positive": hard & y, "hard_negative": hard & ~y}
        for part, rows in parts.items():
            assert row[part] == pytest.approx(nll(y[rows], values[rows]), rel=1e-12)
            if part not in {"all", "hard"}:
                assert row[f"{part}s"] == rows.sum()
        assert row["n"] == len(challenge)
    # over seeds: the mean of the losses
    twice = class_losses(suite, [*runs, *runs], split="valid")
    assert twice.drop("runs").equals(table.drop("runs"))
    assert set(twice["runs"]) == {2}
    refused(lambda: class_losses(suite, runs, split="train"), "'train'")
    fails(lambda: class_losses(suite, [], split="test"), "no task", kind=InputError)


def test_planted_tasks_are_chosen(found, run_cli, tmp_path):
    whole, _, words = found
    losses = losses_by_class(whole, words.split()[3])
    words += " --n 3 --min-hard 5"
    done = run_cli(f"{words} --out chosen").ok()
    assert set(done.json["tasks"]) == set(PLANTED)
    # of the same split
    ranked = sorted((row["task"], row["all"]) for row in done.json["ranking"])
    assert ranked == losses.select("task", "all").sort("task").rows()
    suite = nooch.load_suite(tmp_path / "chosen")
    assert suite.tasks == tuple(done.json["tasks"])
    assert {task for _, task, _ in suite.keys} == set(PLANTED)
    for key in suite.keys:
        assert suite.set(*key).image_ids.equals(whole.set(*key).image_ids)
        assert np.array_equal(suite.set(*key).subset, whole.set(*key).subset)

    def reason_of_dog(done):
        return {row["task"]: row["reason"] for row in done.json["ranking"]}["dog"]

    assert reason_of_dog(done) == "not among the first 3"
    # dog and cup share the table; kite and bird the sky
    done = run_cli(f"{words} --similar cup=dog,kite=bird --out b")
    assert reason_of_dog(done) == "in one group with cup"
    assert "3 chosen" in run_cli(words.replace(" --format json", " --out d --similar nooch")).out
    assert run_cli(f"{words} --out chosen").code == 2


def test_the_papers_rule_on_the_command_line(found, run_cli, tmp_path):
    words = found[2] + " --out"
    like = run_cli(f"{words} like --like paper").ok().json["ranking"]
    spelled = "--split test --min-hard 50 --n 12 --similar nooch --criterion ce"
    assert run_cli(f"{words} same {spelled}").json["ranking"] == like
    assert run_cli(f"{words} other --like paper --split valid --n 3").json["ranking"] == like
    run_cli(f"{words} no --like papers").refused()
    assert not (tmp_path / "no").exists()


def test_the_only_split_of_a_suite_is_taken_by_default(run_cli, tmp_path):
    data, long = world(900)
    tasks, ids = list(PLANTED), pl.col("image_id") % 3
    nooch.find(data, nooch.CE(), tasks=tasks, splits=["valid"], out=tmp_path / "suite")
    long.filter(ids == 1, pl.col("task").is_in(tasks)).write_parquet(tmp_path / "p.parquet")
    words = "paper select-tasks suite p.parquet --out chosen"
    assert len(run_cli(f"{words} --n 1 --min-hard 0 --format json").json["tasks"]) == 1
    run_cli(f"{words} --like paper --overwrite").refused("'test' is not a split")
    several = nooch.find(data, nooch.CE(), tasks=tasks, splits=["train", "valid"])
    refused(several.splits_to_score, "which split", "split='valid'")
    assert several.splits_to_score(["valid", "valid"]) == ["valid"]


def test_means_over_different_runs_are_noted(found, run_cli):
    _, long, words = found
    runs = long.filter(pl.col("image_id") % 3 == 1).with_columns(run=pl.lit("a"))
    less = runs.filter(pl.col("task") != "car").with_columns(pl.col("logit") / 2, run=pl.lit("b"))
    pl.concat([runs, less]).write_csv("both.csv")
    suite = words.split()[2]
    done = run_cli(f"paper select-tasks {suite} both.csv --split valid --min-hard 1 --out chosen")
    said = "note: losses are means over 2 runs, but fewer for car: "
    assert said in " ".join(done.ok().err.split())


def test_losses_of_a_folder_of_runs(scored, run_cli):
    words = f"paper select-tasks {scored}/suite {scored}/runs --min-hard 0 --out"
    done = run_cli(f"{words} chosen --format json").ok()
    assert set(done.json["tasks"]) == {"car", "fire_hydrant"}
    run_cli(f"{words} no --method gdro").refused("2 settings")
    run_cli(f"{words} no --method irm").refused("'irm' is not a method")


def losses_of(counts, **columns):
    """Losses of tasks, smaller for later ones, with these counts of hard images of both sides."""
    positives, negatives = zip(*counts.values(), strict=True)
    hard = {"hard": [1 - 0.01 * number for number in range(len(counts))]}
    hard |= {"hard_positives": positives, "hard_negatives": negatives}
    return pl.DataFrame({"task": [*counts], "criterion": "ce", "all": 0.1, **hard, **columns})


def test_ranking_and_reasons():
    counts = {"a": (50, 60), "b": (60, 60), "c": (60, 60), "d": (60, 49)}
    losses = losses_of(counts, hard=[0.5, 0.9, None, 0.7])
    ranking = select_tasks(losses, n=1)
    assert ranking.select("task", "chosen", "reason").rows() == [
        ("b", True, None),
        ("d", False, "49 hard negatives"),
        ("a", False, "not among the first 1"),
        ("c", False, "no hard image has a loss"),
    ]
    choose = partial(partial, select_tasks, losses)
    refused(choose(criterion="gist"), "gist")
    refused(choose(n=0), "`n`: is 0")
    refused(choose(similar=[["a", "x"]]), "'x'")
    fails(choose(min_hard=1000), "1000 hard", kind=UndefinedError)


def test_the_papers_counts_pass_its_rule_on_test_and_on_no_other_split(shared_data):
    published = nooch.paper.read_published(shared_data / "nooch-published")
    counts = {(p.split, p.task, p.side): len(p.ids) for p in published.sets if p.criterion == "ce"}

    def ranking_on(split):
        both = {t: [counts[split, t, s] for s in ("positive", "negative")] for t in NOOCH_TASKS}
        return select_tasks(losses_of(both), **paper_rule(NOOCH_TASKS))

    ranking = ranking_on("test")
    assert ranking["task"].to_list() == list(NOOCH_TASKS)
    assert ranking["chosen"].all()
    reasons = ranking_on("valid").select("task", "reason").drop_nulls().rows()
    assert reasons == [("kite", "22 hard positives")]


def test_table_2_passes_the_papers_rule_and_similar_tasks_fall_out():
    table2 = {t.task: (t.hard_positives, t.hard_negatives) for t in paper_tasks().values()}
    similar = {"sheep": "cow", "wine_glass": "cup", "handbag": "backpack", "bottle": "cup"}
    more = dict.fromkeys(similar, (90, 900)) | {"tv": (49, 900)}
    ranking = select_tasks(losses_of(table2 | more), **paper_rule([*table2, *more]))
    assert set(ranking.filter(pl.col("chosen"))["task"]) == set(NOOCH_TASKS)
    reasons = {task: f"in one group with {other}" for task, other in similar.items()}
    reasons["tv"] = "49 hard positives"
    assert dict(ranking.select("task", "reason").drop_nulls().rows()) == reasons
    # which of a group is taken follows from the losses
    two = losses_of({"wine_glass": (60, 60), "cup": (60, 60)})
    assert select_tasks(two, **paper_rule(["wine_glass", "cup"]))["chosen"].to_list() == [
        True,
        False,
    ]


def test_a_suite_of_some_tasks(found):
    suite = found[0]
    part = suite.only(["kite", "car"])
    assert part.tasks == ("kite", "car")
    assert set(part.header.criteria["ce"].cues) <= {"kite", "car"}
    refused(lambda: suite.only([]), "none")
    refused(lambda: suite.only(["car", "car"]), "each once")
    refused(lambda: suite.only(["caar"]), "did you mean car")


def test_one_network_for_all_classes(pictures, run_cli, tmp_path):
    more = f"--pixels {pictures / 'pixels'} --backbone config:{pictures}/small.json --device cpu"
    classes = (
        f"paper class-network {pictures / 'dataset'} {more} --set epochs=3 --set lr=0.01 --out"
    )
    run_cli(f"{classes} a").ok()
    predictions = pl.read_parquet(tmp_path / "a" / "predictions.parquet")
    assert predictions.group_by("task", "split").len().sort("task", "split").rows() == [
        ("car", "test", 60), ("car", "valid", 60), ("road", "test", 60), ("road", "valid", 60),
    ]  # fmt: skip
    suite = nooch.load_suite(pictures / "suite")
    assert losses_by_class(suite, tmp_path / "a" / "predictions.parquet").height == 1
    facts = json.loads((tmp_path / "a" / "classes.json").read_text())
    assert (facts["settings"]["optimiser"], facts["settings"]["batch"]) == ("adam", 16)
    assert (facts["classes"], facts["left_out"]) == (["car", "road"], [])
    assert len((tmp_path / "a" / "metrics.jsonl").read_text().splitlines()) == facts["epochs"] == 3
    for wrong in ("a", "b --set blcok=3", "b --tasks cra"):
        run_cli(f"{classes} {wrong}").refused()
    data = nooch.load_dataset(pictures / "dataset")
    unknown = np.zeros((len(data), len(data.classes)), bool)
    unknown[0, data.classes.index("car")] = True
    partly = nooch.Dataset.build(data.images, data.classes, data.areas, unknown=unknown)
    save_dataset(partly, tmp_path / "partly")
    less = f"paper class-network partly {more} --set epochs=1 --out"
    assert "the same: 1 class: car" in " ".join(run_cli(f"{less} d").ok().err.split())
    run_cli(f"{less} e --tasks car").refused("labels are unknown for 1 of 1 class")
    # killed, it goes on and ends with the same bytes
    assert kill_when(f"{classes} c", lambda: any(tmp_path.glob(".c.training-*/state.npz")))
    completed(f"{classes} c")
    assert not list(tmp_path.glob(".c.*"))
    for file in ("predictions.parquet", "metrics.jsonl", "classes.json"):
        assert (tmp_path / "c" / file).read_bytes() == (tmp_path / "a" / file).read_bytes()
