"""One network for all classes, losses by class, and the choice of tasks: planted ones are found."""

import json

import numpy as np
import polars as pl
import pytest
from commands import completed, kill_when
from refusals import fails
from scipy.sparse import csr_array

import nooch
from nooch.base.errors import InputError, ParameterError, UndefinedError
from nooch.data import save_dataset
from nooch.evaluation import class_losses
from nooch.evaluation.metrics import nll
from nooch.report.results.collect import losses_by_class
from nooch.suites.published_counts import NOOCH_TASKS, paper_tasks
from nooch.training.selection import paper_rule, select_tasks

PLANTED = ("car", "kite", "cup")
CLASSES = ("bird", "boat", "car", "cup", "dog", "kite", "road", "sky", "table", "wall")
CONTEXT = {
    "car": "road",
    "kite": "sky",
    "cup": "table",
    "bird": "sky",
    "boat": "road",
    "dog": "table",
}


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
    data, long = world()
    suite = nooch.find(data, {"ce": nooch.CE()}, tasks=list(CLASSES))
    nooch.save_suite(suite, folder / "suite")
    long.filter(pl.col("image_id") % 3 != 0).write_parquet(folder / "predictions.parquet")
    return folder, suite, long


def test_losses_are_those_of_loops(found):
    _, suite, long = found
    runs = nooch.evaluation.load_predictions(long.filter(pl.col("image_id") % 3 == 1), suite)
    table = class_losses(suite, runs, split="valid")
    assert set(table["task"]) == set(CONTEXT)
    for row in table.iter_rows(named=True):
        challenge = suite.set("ce", row["task"], "valid")
        z = dict(long.filter(task=row["task"]).select("image_id", "logit").rows())
        values = np.array([z[i] for i in challenge.image_ids])
        for part, rows in {
            "all": challenge.labels | True,
            "positive": challenge.labels,
            "negative": ~challenge.labels,
            "hard": challenge.subset < 2,
            "hard_positive": challenge.subset == 0,
            "hard_negative": challenge.subset == 1,
        }.items():
            assert row[part] == pytest.approx(nll(challenge.labels[rows], values[rows]), rel=1e-12)
            if part not in {"all", "hard"}:
                assert row[f"{part}s"] == rows.sum()
        assert row["n"] == len(challenge)
    # over seeds: the mean of the losses
    twice = class_losses(suite, [*runs, *runs], split="valid")
    assert twice.drop("runs").equals(table.drop("runs"))
    assert set(twice["runs"]) == {2}
    fails(lambda: class_losses(suite, runs, split="train"), "'train'", kind=ParameterError)
    fails(lambda: class_losses(suite, [], split="test"), "no task", kind=InputError)


def test_planted_tasks_are_chosen(found, run_cli, tmp_path):
    folder, _, _ = found
    out = tmp_path / "chosen"
    words = f"paper select-tasks {folder / 'suite'} {folder / 'predictions.parquet'}"
    words += " --n 3 --min-hard 5"
    done = run_cli(f"{words} --out {out} --format json").ok()
    assert set(done.json["tasks"]) == set(PLANTED)
    suite = nooch.load_suite(out)
    assert suite.tasks == tuple(done.json["tasks"])
    assert {task for _, task, _ in suite.keys} == set(PLANTED)
    whole = nooch.load_suite(folder / "suite")
    for key in suite.keys:
        assert suite.set(*key).image_ids.equals(whole.set(*key).image_ids)
        assert np.array_equal(suite.set(*key).subset, whole.set(*key).subset)

    def reason_of_dog(done):
        return {row["task"]: row["reason"] for row in done.json["ranking"]}["dog"]

    assert reason_of_dog(done) == "beyond the first 3"
    # dog and cup share the table; kite and bird the sky
    done = run_cli(f"{words} --similar cup=dog,kite=bird --out b --format json")
    assert reason_of_dog(done) == "similar to cup (given)"
    shown = run_cli(f"{words} --out d --similar nooch")
    assert "3 chosen" in shown.out
    assert run_cli(f"{words} --out {out}").code == 2


def test_the_only_split_of_a_suite_is_taken_by_default(run_cli, tmp_path):
    data, long = world(900)
    tasks, ids = list(PLANTED), pl.col("image_id") % 3
    nooch.find(data, nooch.CE(), tasks=tasks, splits=["valid"], out=tmp_path / "suite")
    long.filter(ids == 1, pl.col("task").is_in(tasks)).write_parquet(tmp_path / "p.parquet")
    words = "paper select-tasks suite p.parquet --n 1 --min-hard 0"
    assert len(run_cli(f"{words} --out chosen --format json").json["tasks"]) == 1
    run_cli("paper select-tasks suite p.parquet --like paper --out paper").refused(
        "'test' is not a split"
    )
    several = nooch.find(data, nooch.CE(), tasks=tasks, splits=["train", "valid"])
    fails(several.splits_to_score, "which split", "train, valid", kind=ParameterError)
    assert several.splits_to_score(["valid", "valid"]) == ["valid"]


def test_means_over_different_runs_are_noted(found, run_cli):
    folder, _, long = found
    valid = long.filter(pl.col("image_id") % 3 == 1)
    runs = (
        valid.with_columns(run=pl.lit("a")),
        valid.filter(pl.col("task") != "car").with_columns(pl.col("logit") / 2, run=pl.lit("b")),
    )
    pl.concat(runs).write_csv("both.csv")
    said = "note: losses are means over 2 runs, but over fewer for car: "
    words = f"paper select-tasks {folder / 'suite'} both.csv --split valid"
    words += " --min-hard 1 --out chosen"
    assert said in " ".join(run_cli(words).ok().err.split())


def frame(**columns):
    n = len(columns["task"])
    rest = {
        "criterion": ["ce"] * n,
        "all": [0.1] * n,
        "hard_positives": [60] * n,
        "hard_negatives": [60] * n,
    }
    return pl.DataFrame(rest | columns)


def test_ranking_and_reasons():
    losses = frame(
        task=["a", "b", "c", "d"], hard=[0.5, 0.9, None, 0.7], hard_negatives=[60, 60, 60, 49]
    )
    ranking = select_tasks(losses, n=1)
    assert ranking["task"].to_list() == ["b", "d", "a", "c"]
    assert ranking["chosen"].to_list() == [True, False, False, False]
    assert ranking["reason"].to_list() == [
        None,
        "49 hard negatives",
        "beyond the first 1",
        "no hard image with a loss",
    ]
    fails(lambda: select_tasks(losses, criterion="gist"), "gist", kind=ParameterError)
    fails(lambda: select_tasks(losses, n=0), "`n`: is 0", kind=ParameterError)
    fails(lambda: select_tasks(losses, similar=[["a", "x"]]), "'x'", kind=ParameterError)
    fails(lambda: select_tasks(losses, min_hard=1000), "1000 hard", kind=UndefinedError)


def losses_of(counts):
    """Losses of the paper's tasks, larger for later ones, with these counts of hard images."""
    tasks = list(counts)
    positives, negatives = zip(*counts.values(), strict=True)
    hard = [1 - 0.01 * number for number in range(len(tasks))]
    return frame(task=tasks, hard=hard, hard_positives=positives, hard_negatives=negatives)


def test_the_papers_counts_pass_its_rule_on_test_and_on_no_other_split(shared_data):
    published = nooch.paper.read_published(shared_data / "nooch-published")
    counts = {(p.split, p.task, p.side): len(p.ids) for p in published.sets if p.criterion == "ce"}
    sides = {
        split: losses_of(
            {
                t: tuple(counts[split, t, side] for side in ("positive", "negative"))
                for t in NOOCH_TASKS
            }
        )
        for split in ("valid", "test")
    }
    ranking = select_tasks(sides["test"], **paper_rule(NOOCH_TASKS))
    assert ranking["task"].to_list() == list(NOOCH_TASKS)
    assert ranking["chosen"].all()
    on_valid = select_tasks(sides["valid"], **paper_rule(NOOCH_TASKS))
    assert dict(on_valid.select("task", "reason").drop_nulls().rows()) == {
        "kite": "22 hard positives"
    }


def test_table_2_passes_the_papers_rule_and_similar_tasks_fall_out():
    table2 = {t.task: (t.hard_positives, t.hard_negatives) for t in paper_tasks().values()}
    more = {
        "sheep": (90, 900),
        "wine_glass": (90, 900),
        "handbag": (90, 900),
        "bottle": (90, 900),
        "tv": (49, 900),
    }
    tasks = [*table2, *more]
    ranking = select_tasks(losses_of(table2 | more), **paper_rule(tasks))
    assert set(ranking.filter(pl.col("chosen"))["task"]) == set(NOOCH_TASKS)
    reasons = dict(ranking.select("task", "reason").drop_nulls().rows())
    assert reasons == {
        "sheep": "similar to cow (given)",
        "handbag": "similar to backpack (given)",
        "bottle": "similar to cup (given)",
        "wine_glass": "similar to cup (given)",
        "tv": "49 hard positives",
    }
    # which of a group is taken follows from the losses
    turned = select_tasks(
        losses_of({"wine_glass": (60, 60), "cup": (60, 60)}), **paper_rule(["wine_glass", "cup"])
    )
    assert turned["chosen"].to_list() == [True, False]


def test_the_papers_rule_on_the_command_line(run_cli, tmp_path):
    data, long = world(18_000)
    nooch.save_suite(nooch.find(data, {"ce": nooch.CE()}, tasks=list(CONTEXT)), tmp_path / "suite")
    long.filter(pl.col("image_id") % 3 == 2).write_parquet(tmp_path / "predictions.parquet")
    words = "paper select-tasks suite predictions.parquet --out"
    like = run_cli(f"{words} like --like paper --format json").ok()
    spelled = "--split test --min-hard 50 --n 12 --similar nooch --criterion ce"
    same = run_cli(f"{words} same {spelled} --format json")
    assert same.json["ranking"] == like.json["ranking"]
    assert all(
        min(r["hard_positives"], r["hard_negatives"]) >= 50
        for r in like.json["ranking"]
        if r["chosen"]
    )
    other = run_cli(f"{words} other --like paper --split valid --n 3 --format json")
    assert other.json["ranking"] == like.json["ranking"]
    assert run_cli(f"{words} no --like papers").code == 2
    assert not (tmp_path / "no").exists()


def test_losses_selection_and_fig_3_are_of_the_same_split(found, run_cli, tmp_path):
    folder, _, _ = found
    given = [folder / "suite", folder / "predictions.parquet"]
    losses = losses_by_class(nooch.load_suite(given[0]), given[1]).rows(named=True)
    chosen = run_cli(
        "paper select-tasks", *given, "--min-hard", "0", "--out", tmp_path / "a", "--format", "json"
    ).json
    words = f"paper figures fig3 --suite {given[0]} --predictions {given[1]} --formats svg"
    run_cli(f"{words} --out f").ok()
    points = pl.read_csv(tmp_path / "f" / "fig3.csv").filter(side="positive").sort("task")
    of_losses = [(row["task"], row["positive"]) for row in losses]
    assert dict(points.select("task", "all").rows()) == pytest.approx(dict(of_losses))
    ranked = sorted((row["task"], row["all"]) for row in chosen["ranking"])
    assert ranked == sorted((row["task"], row["all"]) for row in losses)


def test_a_suite_of_some_tasks(found):
    _, suite, _ = found
    part = suite.only(["kite", "car"])
    assert part.tasks == ("kite", "car")
    assert set(part.header.criteria["ce"].cues) <= {"kite", "car"}
    fails(lambda: suite.only([]), "none", kind=ParameterError)
    fails(lambda: suite.only(["car", "car"]), "different", kind=ParameterError)
    fails(lambda: suite.only(["caar"]), "did you mean car", kind=ParameterError)


@pytest.fixture(scope="module")
def network(pictures):
    """Options of a small network on pixels."""
    backbone = f"--backbone config:{pictures}/small.json --device cpu"
    return f"{pictures / 'dataset'} --pixels {pictures / 'pixels'} {backbone}"


def test_one_network_for_all_classes(pictures, network, run_cli, tmp_path):
    classes = f"paper class-network {network} --set epochs=3 --set lr=0.01 --out"
    run_cli(f"{classes} a").ok()
    predictions = pl.read_parquet(tmp_path / "a" / "predictions.parquet")
    assert predictions.group_by("task", "split").len().sort("task", "split").rows() == [
        ("car", "test", 60), ("car", "valid", 60), ("road", "test", 60), ("road", "valid", 60),
    ]  # fmt: skip
    facts = json.loads((tmp_path / "a" / "classes.json").read_text())
    assert facts["settings"]["optimiser"] == "adam"
    assert (facts["settings"]["batch"], facts["classes"], facts["left_out"]) == (
        16,
        ["car", "road"],
        [],
    )
    assert len((tmp_path / "a" / "metrics.jsonl").read_text().splitlines()) == facts["epochs"] == 3
    outputs = "--predictions a/predictions.parquet --formats svg"
    run_cli(f"paper figures fig3 --suite {pictures / 'suite'} {outputs} --out losses").ok()
    for more in ("a", "b --set blcok=3", "b --tasks cra"):
        run_cli(f"{classes} {more}").refused()
    data = nooch.load_dataset(pictures / "dataset")
    unknown = np.zeros((len(data), len(data.classes)), bool)
    unknown[0, data.classes.index("car")] = True
    partly = nooch.Dataset.build(data.images, data.classes, data.areas, unknown=unknown)
    save_dataset(partly, tmp_path / "partly")
    less = f"paper class-network {tmp_path / 'partly'} {network.partition(' ')[2]}"
    less += " --set epochs=1 --out"
    done = run_cli(f"{less} d").ok()
    assert "the same: 1 class: car" in " ".join(done.err.split())
    run_cli(f"{less} e --tasks car").refused("labels are unknown for 1 of 1 class")
    # killed, it goes on and ends with the same bytes
    assert kill_when(f"{classes} c", lambda: any(tmp_path.glob(".c.training-*/state.npz")))
    completed(f"{classes} c")
    assert not list(tmp_path.glob(".c.*"))
    for file in ("predictions.parquet", "metrics.jsonl", "classes.json"):
        assert (tmp_path / "c" / file).read_bytes() == (tmp_path / "a" / file).read_bytes()


def test_losses_of_a_folder_of_runs(pictures, network, run_cli, tmp_path):
    suite = pictures / "suite"
    settings = "--set 'methods={erm: , gdro: {K: [0, 5]}}' --set tasks=[car]"
    data = network.replace(" ", f" {suite} ", 1)
    run_cli(f"train bench {data} {settings} --set 'seeds=[0, 1]' --set epochs=1 --out runs").ok()
    words = f"paper select-tasks {suite} runs --min-hard 0 --out"
    assert run_cli(f"{words} chosen --format json").ok().json["tasks"] == ["car"]
    run_cli(f"paper figures fig3 --suite {suite} --runs runs --formats svg --out losses").ok()
    assert set(pl.read_csv(tmp_path / "losses" / "fig3.csv").select("task", "runs").rows()) == {
        ("car", 2)
    }
    run_cli(f"{words} no --method gdro").refused("2 settings")
    assert run_cli(f"{words} no --method irm").code == 2
