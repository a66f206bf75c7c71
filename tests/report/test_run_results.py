"""Runs and collected scores as results: against plain loops, and notes on all that is missing."""

import json
import math
import shutil
from dataclasses import replace
from functools import partial

import numpy as np
import polars as pl
import pytest
from made_runs import SETTINGS, made_runs
from polars.testing import assert_frame_equal
from refusals import fails, refused
from scored import TASKS, small_data, small_suite

from nooch.base.errors import ParameterError, UndefinedError
from nooch.criteria import CE, Attribute
from nooch.paper.numbers import paper_cells
from nooch.paper.sheet import like, table_names
from nooch.report import save_scores
from nooch.report.results.cells import CELLS, averages_note, with_averages
from nooch.report.results.collect import score_runs
from nooch.report.results.pairs import paired_results
from nooch.report.results.run_results import merge, read_results
from nooch.report.tables.method_tables import auc_tables, legend, shown
from nooch.suites.find import find
from nooch.training.records import RunsFolder

METRIC = "nll"
SIDES = ("hard_positive", "hard_negative")


@pytest.fixture(scope="module")
def suite():
    return small_suite()


@pytest.fixture(scope="module")
def runs(suite, tmp_path_factory):
    return made_runs(tmp_path_factory.mktemp("whole") / "runs", suite)


@pytest.fixture(scope="module")
def results(runs, suite):
    return read_results(runs.path, [suite])


@pytest.fixture
def read_made(suite, tmp_path):
    """A function that reads the results of runs made for the suite."""
    return lambda **named: read_results(made_runs(tmp_path / "runs", suite, **named).path, [suite])


@pytest.fixture
def holed(runs, suite, tmp_path):
    """A function that reads scores collected from the runs, without those that ``lost`` names."""
    scores, selected, _ = score_runs(RunsFolder.open(runs.path), suite)

    def read(lost, **options):
        table = scores.table.with_columns(
            value=pl.when(~lost).then("value"),
            reason=pl.when(lost).then(pl.lit("no image")).otherwise("reason"),
        )
        write_collected(tmp_path, replace(scores, table=table), selected)
        return read_results(tmp_path, [suite], **options)

    return read


def rows_of(results, method, subset="easy", metric="nll"):
    """Task -> the cell of a method under CE."""
    cells = results.cells.filter(criterion="ce", metric=metric, subset=subset, method=method)
    return {row["task"]: row for row in cells.to_dicts()}


def write_collected(folder, scores, selected):
    folder.mkdir(exist_ok=True)
    save_scores(scores, folder / "scores.parquet", overwrite=True)
    selected.write_csv(folder / "selected.csv")
    return folder


def loss(suite, runs, name, task, split, subset):
    """Mean loss of a job on a subset, looked up image by image."""
    challenge = suite.set("ce", task, split)
    wanted = set(challenge.ids(subset))
    of = dict(zip(challenge.image_ids.to_list(), challenge.labels.tolist(), strict=True))
    losses = [
        math.log1p(math.exp(-z if of[image] else z))
        for image, where, z in runs.predictions(name).rows()
        if where == split and image in wanted
    ]
    return sum(losses) / len(losses) if losses else None


def losses_of_sides(suite, runs, names, task, split):
    return [[loss(suite, runs, name, task, split, side) for name in names] for side in SIDES]


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("method", SETTINGS)
def test_cells_are_those_of_loops(runs, suite, results, task, method):
    jobs = {n: j for n, j in runs.header.jobs.items() if (j.task, j.method) == (task, method)}
    choices = SETTINGS[method]
    names = {p: [n for n, j in jobs.items() if j.parameters == p] for p in choices}
    worst = {}
    for parameters in choices:
        sides = losses_of_sides(suite, runs, names[parameters], task, "valid")
        assert None not in sides[0] + sides[1]
        worst[parameters] = max(np.mean(side) for side in sides)
    chosen = min(worst, key=worst.get)
    both = losses_of_sides(suite, runs, names[chosen], task, "test")
    expected = {**dict(zip(SIDES, both, strict=True)), "worst_hard": np.max(both, axis=0)}
    for subset, values in expected.items():
        row = rows_of(results, method, subset)[task]
        assert row["mean"] == pytest.approx(np.mean(values), rel=1e-5)
        assert row["std"] == pytest.approx(np.std(values, ddof=1), rel=1e-4)
        assert (row["n_seeds"], row["seeds"]) == (3, 3)
        assert (row["n_settings"], row["settings"]) == (len(choices), len(choices))
        assert row["setting"] == ",".join(f"{k}={v:g}" for k, v in chosen)


def test_whole_results_have_no_notes(results, runs):
    assert results.notes == []
    assert results.about == "runs, test images; settings chosen on the worse of the two hard sides"
    cells = results.cells.filter(criterion="ce", metric="auc", subset="hard")
    assert set(cells["task"]) == {*TASKS, "average"}
    sees = dict(cells.select("method", "sees").unique().rows())
    assert sees["gdro"].startswith("environments in training")


def test_collected_scores_give_the_same(runs, suite, results, tmp_path):
    scores, selected, _ = score_runs(RunsFolder.open(runs.path), suite)
    write_collected(tmp_path, scores, selected)
    again = read_results(tmp_path, [suite])
    order = ["criterion", "metric", "subset", "task", "method"]
    assert_frame_equal(again.cells.sort(order), results.cells.sort(order))
    # without a suite a criterion is known by its name alone
    assert set(read_results(tmp_path).cells["criterion"]) == {"ce", "~ce"}
    assert set(read_results(tmp_path, roles={"gist": "~ce"}).cells["criterion"]) == {"ce", "gist"}
    for options, words, kind in (
        ({"rule": "easy"}, "no setting was chosen by easy", UndefinedError),
        ({"split": "train"}, "'train' is not a split", ParameterError),
        ({"roles": {"gist": "xyz"}}, "'xyz' is not a criterion", ParameterError),
        ({"roles": {"GIST": "ce"}}, "'GIST' is not a kind", ParameterError),
    ):
        fails(partial(read_results, tmp_path, **options), words, kind=kind)
    text = scores.table.with_columns(pl.col("value").cast(pl.String))
    for table, choice, *words in (
        # the choice of other runs
        (scores.table, selected.with_columns(setting=pl.lit("K=99")), "do not belong to"),
        (scores.table, selected.drop("rule"), "selected.csv", "has no column rule"),
        (scores.table, selected.with_columns(method=pl.lit(7)), "column method is Int64"),
        (text, selected, "scores.parquet", "column value is String"),
    ):
        write_collected(tmp_path, replace(scores, table=table), choice)
        fails(lambda: read_results(tmp_path), *words)


def test_jobs_of_a_run_have_the_same_images_and_are_read_together(suite, tmp_path):
    own = made_runs(tmp_path / "runs", suite)
    jobs = list(own.header.jobs)[:3]
    files = [own.path / "jobs" / job / "predictions.parquet" for job in jobs]
    frames = [own.predictions(job) for job in jobs]
    # a type of its own is no other image
    frames[1].with_columns(pl.col("logit").cast(pl.Float64)).write_parquet(files[1])
    ids, logits = own.outputs(jobs)
    assert ids.equals(frames[0]["image_id"])
    assert logits.tolist() == [frame["logit"].to_list() for frame in frames]
    frames[2].reverse().write_parquet(files[2])
    fails(lambda: own.outputs(jobs), jobs[2], "its images differ", helps=False)
    files[1].write_bytes(b"PAR1")
    fails(lambda: own.outputs(jobs), jobs[1], "cannot be read", helps=False)


def test_a_missing_seed_is_marked_and_named(read_made):
    results = read_made(lost=lambda j: (j.task, j.method, j.seed) == ("car", "erm", 2))
    rows = rows_of(results, "erm")
    for task in ("car", "average"):
        assert (rows[task]["n_seeds"], rows[task]["seeds"]) == (2, 3)
    assert any("1 of 24 runs are missing: car: erm, seed 2" in note for note in results.notes)
    (table,), _ = like(results, ["table16"])
    assert table.rows.filter(task="car", method="erm")["n_seeds"].to_list() == [2]


def test_half_a_grid_is_marked(read_made):
    results = read_made(lost=lambda j: j.setting == "K=30" and j.task == "car")
    rows = rows_of(results, "gdro")
    assert {task: (r["n_settings"], r["settings"]) for task, r in rows.items()} == {
        "car": (1, 2), "fire_hydrant": (2, 2), "average": (1, 2)}  # fmt: skip
    assert any("car: gdro K=30, seed 0, 1, 2" in note for note in results.notes)


def test_a_missing_task_has_no_average(read_made):
    results = read_made(lost=lambda j: (j.task, j.method) == ("car", "gdro"))
    rows = rows_of(results, "gdro")
    assert (rows["car"]["mean"], rows["car"]["reason"]) == (None, "no job is done")
    assert (rows["average"]["mean"], rows["average"]["reason"]) == (None, "no value for car")
    _, notes = like(results, table_names(["16"]))
    text = "no value for car (gdro): no job is done; no average over tasks there"
    assert any(text in note for note in notes)
    # over the other task alone there is one
    alone = rows_of(results.select(tasks=["fire_hydrant"]), "gdro")
    assert alone["average"]["mean"] == pytest.approx(rows["fire_hydrant"]["mean"])


def test_a_task_without_hard_positives_is_left_out_of_averages(holed):
    """Averages are over the other task, in every table, with the count in the line; strict, there
    is none.
    """
    subsets = ["hard", "hard_positive"]
    lost = (pl.col("task") == "car") & pl.col("subset").is_in(subsets) & (pl.col("split") == "test")
    results = holed(lost)
    (note,) = (text for text in results.averages if "under ce " in text)
    left_out = "left out, because they lack a value: car"
    assert note == f"averages under ce are over 1 of 2 tasks: fire_hydrant; {left_out}"
    for name in ("table9", "table10", "table14", "table16"):
        (table,), notes = like(results, [name])
        average, known = (table.rows.filter(task=task) for task in ("average", "fire_hydrant"))
        assert average["mean"].to_list() == pytest.approx(known["mean"].to_list())
        assert shown(table).rows[-1][0] == "average of 1 of 2"
        assert note in notes
    assert any("averages leave these tasks out" in text for text in like(results, ["table9"])[1])
    strict = holed(lost, strict=True)
    assert strict.averages == []
    (hard,), notes = like(strict, ["table9"])
    assert hard.rows.filter(task="average")["mean"].null_count() == 3
    assert set(hard.rows.filter(task="average")["reason"]) == {"no value for car"}
    assert any("no average over tasks there" in note for note in notes)
    (easy,), _ = like(strict, ["table10"])
    assert easy.rows.filter(task="average")["n_tasks"].to_list() == [2, 2, 2]


def test_what_collect_prints_is_averaged_over_the_same_tasks(holed):
    hole = (pl.col("task") == "car") & (pl.col("subset") == "hard") & (pl.col("method") == "gdro")
    for lost in (pl.lit(value=False), hole):
        tables = auc_tables(holed(lost))
        for subset in ("hard", "easy"):
            (one,) = (t for t in tables if t.title.startswith(f"AUC on {subset} images, ce"))
            rows = shown(one).rows
            assert [row[0] for row in rows] == ["car", "fire_hydrant", "average of 2"]
            for place, method in enumerate(one.methods, len(rows[0]) - len(one.methods)):
                if lost is hole and (subset, method) == ("hard", "gdro"):
                    assert rows[2][place] == "–"
                    continue
                known = [float(row[place].split()[0]) for row in rows]
                assert known[2] == pytest.approx(np.mean(known[:2]), abs=0.0011)


def test_diverged_jobs_are_reported(read_made):
    results = read_made(diverged=lambda j: j.method == "gdro" and (j.task == "car" or not j.seed))
    rows = rows_of(results, "gdro")
    assert rows["car"]["reason"] == "every job has diverged"
    assert (rows["fire_hydrant"]["n_seeds"], rows["fire_hydrant"]["seeds"]) == (2, 3)
    assert sum("diverged" in note for note in results.notes) == 6 + 2


def worse_on_bowls(job):
    """Of GDRO's second setting alone, on one task."""
    return (0.9, 0.5) if (job.task, job.setting) == ("car", "K=30") and job.seed else (0.4, 0.5)


def test_runs_that_are_worse_than_a_constant_are_marked(suite, tmp_path):
    chosen = {"erm": [()], "gdro": [(("K", 30.0),)]}
    runs = made_runs(tmp_path / "runs", suite, settings=chosen, losses=worse_on_bowls)
    marked = read_results(runs.path, [suite])
    (note,) = (text for text in marked.notes if "worse than a constant" in text)
    assert "2 of 12 jobs are worse than a constant" in note
    assert "gdro K=30 2 of 6" in note
    for method, counts in (("erm", [0, 0, 0]), ("gdro", [2, 0, 2])):
        rows = rows_of(marked, method, "hard", "auc")
        assert [rows[task]["n_worse"] for task in ("car", "fire_hydrant", "average")] == counts
    (table,), notes = like(marked, ["table3"])
    lines = {row[0]: row for row in shown(table).rows}
    assert [cell.endswith("†") for cell in lines["car"][-2:]] == [False, True]
    assert not any("†" in cell for cell in lines["fire_hydrant"])
    assert any(text.startswith("†: ") for text in notes)
    # collected, it is in both files, and the same comes out of them
    scores, selected, _ = score_runs(runs, suite)
    worse = scores.table.filter("worse_than_constant").select("run", "task").unique()
    assert sorted(worse.rows()) == [("gdro/K=30/1", "car"), ("gdro/K=30/2", "car")]
    folder = write_collected(tmp_path / "scores", scores, selected)
    collected = read_results(folder, [suite])
    assert [text for text in collected.notes if "worse than a constant" in text] == [note]
    place = ["metric", "subset", "task", "method", "n_worse"]
    cells = [each.cells.select(place) for each in (collected, marked)]
    assert_frame_equal(*cells, check_row_order=False)


def test_other_suites_and_datasets_are_refused(runs, suite, tmp_path):
    data = small_data()
    cues = {"car": ("road",), "fire_hydrant": ("road",)}
    other = find(data, {"ce": CE(beta=0.2, cues=cues)}, tasks=list(TASKS))
    refused(lambda: read_results(runs.path, [other]), "another one of the same dataset")
    edited = data.images.with_columns(pl.lit(1).alias("edition"))
    version = small_suite(type(data).build(edited, data.classes, data.areas))
    refused(lambda: read_results(runs.path, [version]), "another version of it")
    refused(lambda: read_results(runs.path), "`suites`")
    # out of several the right one is found
    assert read_results(runs.path, [other, suite]).notes == []
    fails(lambda: read_results(tmp_path, [suite]), "contains no results")
    refused(lambda: read_results(runs.path, [suite], rule="best"), "'best' is not a rule")
    refused(lambda: read_results(runs.path, [suite], split="train"), "'train' is not a split")


def test_a_job_of_other_data_is_refused(runs, suite, tmp_path):
    copy = shutil.copytree(runs.path, tmp_path / "runs")
    file = copy / "jobs" / "job0003" / "config.json"
    content = json.loads(file.read_text())
    content["data"]["dataset"] = "another version"
    file.write_text(json.dumps(content))
    fails(lambda: read_results(copy, [suite]), "job0003", "another job or other data")


def test_one_criterion_from_two_folders_is_refused(results):
    other = replace(results, about="others")
    words = ("runs, test images", "others", "both have results under ce")
    fails(lambda: merge([results, other]), *words)
    birds = results.cells.filter(criterion="ce").with_columns(criterion=pl.lit("attribute"))
    both = merge([results, replace(results, cells=birds)])
    assert set(both.cells["criterion"]) == {"ce", "~ce", "attribute"}


def test_select_refuses_what_is_not_there(results):
    refused(lambda: results.select(tasks=["zebra"]), "'zebra' is not a task")
    refused(lambda: results.select(methods=["vrex"]), "'vrex' is not a method")
    assert results.select() is results
    assert set(results.select(methods=["erm"]).cells["method"]) == {"erm"}


NAMES = {
    "table3": ["table3"],
    "3, 9": ["table3", "table9"],
    "table9,9": ["table9"],
    "2,table6,7": ["table2", "table6", "table7"],
    # all of results: files of results have one kind of rows
    "all": [f"table{n}" for n in (3, 4, 5, *range(9, 19))],
}


@pytest.mark.parametrize("text", NAMES)
def test_names_of_tables(text):
    assert table_names([text]) == table_names(text.split(",")) == NAMES[text]


def test_names_of_tables_that_are_refused():
    refused(lambda: table_names(["8"]), "'table8' is not a table of results")
    refused(lambda: table_names([" , "]), "no table is named")


def test_blocks_without_results_are_reported(results):
    tables, notes = like(results, ["table9"])
    assert [t.rows["criterion"].unique().to_list() for t in tables] == [["ce"]]
    assert "table9: no results under gist" in notes
    words = "no table can be made: table4: no results under gist"
    fails(lambda: like(results, ["table4"]), words, kind=UndefinedError)


def test_the_papers_tables_are_its_own():
    tables, notes = like(paper_cells(), table_names(["all"]), compare=True)
    assert len(tables) == 3 + 2 * 10
    assert [t.name for t in tables][:3] == ["table3", "table4", "table5"]
    assert all("ECE" in note for note in notes)
    for table in tables:
        assert table.rows.filter(pl.col("mean") != pl.col("paper_mean")).is_empty()
        assert table.rows["deviations"].drop_nulls().abs().max() in {0.0, None}
        assert table.methods[:3] == ["erm", "cvar", "focal"]
    third = tables[0]
    assert third.rows["task"].unique(maintain_order=True).to_list()[-1] == "average"
    assert tables[2].rows["block"].unique(maintain_order=True).to_list() == [
        "error of the worst group", "NLL of the worst group", "AUC on hard"]  # fmt: skip
    assert "among methods that see the same" in legend(by_sight=True)


def test_best_is_looked_for_among_methods_that_see_the_same():
    (table,), _ = like(paper_cells(), ["table3"], by_sight=True)
    car = table.rows.filter(task="car", best=True)
    assert set(car.group_by("sees").len()["sees"]) == set(table.rows["sees"])
    assert table.methods[0] == "erm"
    assert table.methods[-1] in {"gdro", "irm"}


def test_table_5_is_the_worse_of_the_two_hard_groups(tmp_path):
    """For each seed the larger of the errors on hard positives and hard negatives."""
    data = small_data()
    odd = Attribute("place IS NOT NULL AND place != 'street'")
    suite = find(data, {"odd": odd}, tasks=list(TASKS))
    runs = made_runs(tmp_path / "runs", suite, criterion="odd")
    results = read_results(runs.path, [suite])
    assert set(results.cells["criterion"]) == {"attribute"}
    (table,), _ = like(results, ["table5"], compare=True)
    assert table.label == "metric"
    place = {"metric": "error", "subset": "worst_hard", "method": "gdro"}
    (chosen,) = results.cells.filter(**place, task="car").to_dicts()
    errors = []
    challenge = suite.set("odd", "car", "test")
    for name, job in runs.header.jobs.items():
        if (job.task, job.method, job.setting) == ("car", "gdro", chosen["setting"]):
            logits = runs.predictions(name).filter(split="test")
            z = dict(logits.select("image_id", "logit").rows())
            positive, negative = (np.mean([z[i] > 0 for i in challenge.ids(s)]) for s in SIDES)
            errors.append(max(1 - positive, negative))
    assert chosen["mean"] == pytest.approx(np.mean(errors))
    assert chosen["std"] == pytest.approx(np.std(errors, ddof=1))
    block = table.rows.filter(block="error of the worst group", task="car", method="gdro")
    assert block["mean"].to_list() == [chosen["mean"]]


def test_paired_differences_are_those_of_the_cells(runs, suite, results):
    given = [runs.path], [suite], results, ["ce"]
    (scores,) = paired_results(*given, baseline="erm", how={"bootstrap": 20})
    assert set(scores.differences["run"]) == {"gdro", "label-reweight"}
    place = ("metric", "subset", "task", "method")
    cells = results.cells.filter(criterion="ce").rows_by_key(place, named=True, unique=True)
    compared = 0
    for row in scores.differences.drop_nulls("difference").to_dicts():
        key = row["metric"], row["subset"], row["task"]
        own, erm = (cells[*key, method]["mean"] for method in (row["run"], "erm"))
        if own is not None and erm is not None:
            assert row["difference"] == pytest.approx(own - erm, abs=1e-6), row
            compared += 1
    assert compared > 50
    pairs = partial(paired_results, suites=[suite], results=results, criteria=["ce", "gist"])
    (every,) = pairs([runs.path], how={"bootstrap": 5, "metrics": ["auc"]})
    assert every.differences.select("run", "baseline").unique().height == 3
    refused(lambda: pairs([runs.path.parent]), "no predictions to resample")
    refused(lambda: pairs([runs.path], baseline="vrex"), "'vrex' is not a method")


def test_tables_of_calibration_say_which_ece():
    tables, _ = like(paper_cells(), ["table17", "table18"])
    assert len(tables) == 4
    for table in tables:
        assert "the paper's ECE (ece_paper)" in table.title
        assert set(table.rows["metric"]) == {"ece_paper"}


def test_names_of_tasks_may_have_commas():
    common = {"metric": "auc", "method": "erm", "sees": "nothing", "std": 0.1, "n_worse": 1}
    rows = [
        {**common, "criterion": criterion, "subset": subset, "task": task, "mean": 0.5}
        for criterion in ("ce", "gist")
        for task in ("tench, Tinca", "car", "cup")
        for subset in ("hard", "easy")
        if (criterion, task) != ("gist", "cup")
    ]
    lost = (pl.col("task") == "car") & (pl.col("subset") == "easy")
    cells = pl.DataFrame(rows, schema=CELLS).with_columns(mean=pl.when(~lost).then("mean"))
    cells = with_averages(cells)
    averages = cells.filter(task="average", criterion="ce")
    assert averages["n_worse"].to_list() == [2, 2]
    note, _ = averages_note(cells)
    tasks = "tench, Tinca, cup; left out, because they lack a value: car"
    assert note.endswith(f"2 of 3 tasks: {tasks}")
