"""Folders of runs and of collected scores as results: against plain loops, and what is said of
everything that is missing.
"""

import json
import math
import shutil
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from made_runs import SETTINGS, made_runs
from polars.testing import assert_frame_equal
from refusals import fails
from scored import TASKS, small_data, small_suite

from nooch.criteria import CE, Attribute
from nooch.errors import InputError, ParameterError, UndefinedError
from nooch.finding.suite_builder import find
from nooch.report import save_scores
from nooch.report.paper_tables import shown
from nooch.results.paired_runs import paired_results
from nooch.results.result_cells import CELLS, averages_note, with_averages
from nooch.results.run_results import merge, paper_cells, read_results
from nooch.results.score_collection import chosen_scores, collect
from nooch.results.table_contents import legend, like, table_names
from nooch.results.three_valued import Numbers
from nooch.training.run_records import RunsFolder

METRIC = "nll"


@pytest.fixture(scope="module")
def suite():
    return small_suite()


@pytest.fixture(scope="module")
def runs(suite, tmp_path_factory):
    return made_runs(tmp_path_factory.mktemp("whole") / "runs", suite)


@pytest.fixture(scope="module")
def results(runs, suite):
    return read_results(runs.path, [suite])


def loss(suite, runs, name, task, split, subset):
    """Mean loss of a job on a subset, looked up image by image."""
    challenge = suite.set("ce", task, split)
    wanted = set(challenge.ids(subset))
    of = dict(zip(challenge.image_ids.to_list(), challenge.labels.tolist(), strict=True))
    listed = []
    for image, where, z in runs.predictions(name).rows():
        if where == split and image in wanted:
            listed.append(math.log1p(math.exp(-z if of[image] else z)))
    return sum(listed) / len(listed) if listed else None


def test_cells_are_those_of_loops(runs, suite, results):
    compared = 0
    for task in TASKS:
        for method, choices in SETTINGS.items():
            jobs = {
                n: j for n, j in runs.header.jobs.items() if (j.task, j.method) == (task, method)
            }
            worst = {}
            for parameters in choices:
                mine = [n for n, j in jobs.items() if j.parameters == parameters]
                sides = [
                    [loss(suite, runs, n, task, "valid", s) for n in mine]
                    for s in ("hard_positive", "hard_negative")
                ]
                worst[parameters] = (
                    None if None in sides[0] + sides[1] else max(np.mean(side) for side in sides)
                )
            if None in worst.values():
                continue
            chosen = min(worst, key=worst.get)
            mine = [n for n, j in jobs.items() if j.parameters == chosen]
            both = [
                [loss(suite, runs, n, task, "test", s) for n in mine]
                for s in ("hard_positive", "hard_negative")
            ]
            expected = {"hard_positive": both[0], "hard_negative": both[1],
                        "worst_hard": [max(pair) for pair in zip(*both, strict=True)]}  # fmt: skip
            for subset, values in expected.items():
                (row,) = results.cells.filter(
                    criterion="ce", metric=METRIC, subset=subset, task=task, method=method
                ).to_dicts()
                assert row["mean"] == pytest.approx(np.mean(values), rel=1e-5)
                assert row["std"] == pytest.approx(np.std(values, ddof=1), rel=1e-4)
                assert (row["n_seeds"], row["seeds"], row["n_settings"], row["settings"]) == (
                    3,
                    3,
                    len(choices),
                    len(choices),
                )
                assert row["setting"] == ",".join(f"{k}={v:g}" for k, v in chosen)
                compared += 1
    assert compared >= 6


def test_whole_results_have_no_notes(results, runs):
    assert results.notes == []
    assert results.about == "runs, test images, settings chosen by worst-hard"
    cells = results.cells.filter(criterion="ce", metric="auc", subset="hard")
    assert set(cells["task"]) == {*TASKS, "average"}
    assert dict(cells.select("method", "sees").unique().rows())["gdro"].startswith(
        "environments in training"
    )


def test_collected_scores_give_the_same(runs, suite, results, tmp_path):
    scores, selected, _ = collect(RunsFolder.open(runs.path), suite)
    save_scores(scores, tmp_path / "scores.parquet")
    selected.write_csv(tmp_path / "selected.csv")
    again = read_results(tmp_path, [suite])
    order = ["criterion", "metric", "subset", "task", "method"]
    assert_frame_equal(again.cells.sort(order), results.cells.sort(order))
    # without a suite a criterion is known by its name alone
    assert set(read_results(tmp_path).cells["criterion"]) == {"ce", "~ce"}
    assert set(read_results(tmp_path, roles={"gist": "~ce"}).cells["criterion"]) == {"ce", "gist"}
    fails(
        lambda: read_results(tmp_path, rule="easy"),
        "no setting was chosen by easy",
        kind=UndefinedError,
    )
    fails(lambda: read_results(tmp_path, split="train"), "'train' is no split", kind=ParameterError)
    fails(
        lambda: read_results(tmp_path, roles={"gist": "xyz"}),
        "'xyz' is no criterion",
        kind=ParameterError,
    )
    fails(
        lambda: read_results(tmp_path, roles={"GIST": "ce"}),
        "'GIST' is no kind",
        kind=ParameterError,
    )
    # the choice of other runs
    selected.with_columns(setting=pl.lit("K=99")).write_csv(tmp_path / "selected.csv")
    fails(lambda: read_results(tmp_path), "do not belong together")
    selected.drop("rule").write_csv(tmp_path / "selected.csv")
    fails(lambda: read_results(tmp_path), "selected.csv", "has no column rule")
    selected.with_columns(method=pl.lit(7)).write_csv(tmp_path / "selected.csv")
    fails(lambda: read_results(tmp_path), "selected.csv", "column method is Int64")
    scores.table.with_columns(pl.col("value").cast(pl.String)).write_parquet(
        tmp_path / "scores.parquet"
    )
    fails(lambda: read_results(tmp_path), "scores.parquet", "column value is String")


def test_a_missing_seed_is_marked_and_named(suite, tmp_path):
    lost = made_runs(
        tmp_path / "runs", suite, lost=lambda j: (j.task, j.method, j.seed) == ("car", "erm", 2)
    )
    found = read_results(lost.path, [suite])
    (row,) = found.cells.filter(
        criterion="ce", metric="nll", subset="easy", task="car", method="erm"
    ).to_dicts()
    assert (row["n_seeds"], row["seeds"]) == (2, 3)
    (average,) = found.cells.filter(
        criterion="ce", metric="nll", subset="easy", task="average", method="erm"
    ).to_dicts()
    assert (average["n_seeds"], average["seeds"]) == (2, 3)
    assert any("1 of 24 runs are missing: car: erm, seed 2" in note for note in found.notes)
    (table,), _ = like(found, ["table16"])
    assert table.rows.filter(task="car", method="erm")["n_seeds"].to_list() == [2]


def test_half_a_grid_is_marked(suite, tmp_path):
    lost = made_runs(
        tmp_path / "runs", suite, lost=lambda j: j.setting == "K=30" and j.task == "car"
    )
    found = read_results(lost.path, [suite])
    rows = found.cells.filter(criterion="ce", metric="nll", subset="easy", method="gdro").to_dicts()
    assert {r["task"]: (r["n_settings"], r["settings"]) for r in rows} == {
        "car": (1, 2), "fire_hydrant": (2, 2), "average": (1, 2)}  # fmt: skip
    assert any("car: gdro K=30, seed 0, 1, 2" in note for note in found.notes)


def test_a_missing_task_has_no_average(suite, tmp_path):
    lost = made_runs(tmp_path / "runs", suite, lost=lambda j: (j.task, j.method) == ("car", "gdro"))
    found = read_results(lost.path, [suite])
    rows = {
        r["task"]: r
        for r in found.cells.filter(
            criterion="ce", metric="nll", subset="easy", method="gdro"
        ).to_dicts()
    }
    assert (rows["car"]["mean"], rows["car"]["reason"]) == (None, "no job is done")
    assert (rows["average"]["mean"], rows["average"]["reason"]) == (None, "no value for car")
    _, notes = like(found, table_names(["16"]))
    assert any(
        "no value for car (gdro): no job is done; no average over tasks there" in note
        for note in notes
    )
    # over the other task alone there is one
    one = found.select(tasks=["fire_hydrant"])
    (average,) = one.cells.filter(
        criterion="ce", metric="nll", subset="easy", method="gdro", task="average"
    ).to_dicts()
    assert average["mean"] == pytest.approx(rows["fire_hydrant"]["mean"])


def test_a_task_without_hard_positives_is_left_out_of_averages(suite, runs, tmp_path):
    """Averages are over the other task, in every table, with the count in the line; strict, there
    is none.
    """
    scores, selected, _ = collect(RunsFolder.open(runs.path), suite)
    lost = (
        (pl.col("task") == "car")
        & pl.col("subset").is_in(["hard", "hard_positive"])
        & (pl.col("split") == "test")
    )
    table = scores.table.with_columns(
        value=pl.when(~lost).then("value"),
        reason=pl.when(lost).then(pl.lit("no image")).otherwise("reason"),
    )
    save_scores(replace(scores, table=table), tmp_path / "scores.parquet")
    selected.write_csv(tmp_path / "selected.csv")
    found = read_results(tmp_path, [suite])
    assert [n for n in found.averages if "under ce " in n] == [
        (
            "averages under ce are over 1 of 2 tasks: fire_hydrant; left out, because they lack a"
            " value: car"
        )
    ]
    for name in ("table9", "table10", "table14", "table16"):
        (table,), notes = like(found, [name])
        average, known = (table.rows.filter(task=task) for task in ("average", "fire_hydrant"))
        assert average["mean"].to_list() == pytest.approx(known["mean"].to_list())
        assert shown(table).rows[-1][0] == "average of 1 of 2"
        assert any("averages under ce are over 1 of 2 tasks" in note for note in notes)
    assert any("averages leave these tasks out" in note for note in like(found, ["table9"])[1])
    strict = read_results(tmp_path, [suite], strict=True)
    assert strict.averages == []
    (hard,), notes = like(strict, ["table9"])
    assert hard.rows.filter(task="average")["mean"].null_count() == 3
    assert set(hard.rows.filter(task="average")["reason"]) == {"no value for car"}
    assert any("no average over tasks there" in note for note in notes)
    assert like(strict, ["table10"])[0][0].rows.filter(task="average")["n_tasks"].to_list() == [
        2,
        2,
        2,
    ]


def test_what_collect_prints_is_averaged_over_the_same_tasks(suite, runs):
    scores, selected, _ = collect(RunsFolder.open(runs.path), suite)
    lost = (pl.col("task") == "car") & (pl.col("subset") == "hard") & (pl.col("method") == "gdro")
    holed = replace(scores, table=scores.table.with_columns(value=pl.when(~lost).then("value")))
    for given, label in ((scores, "average of 2"), (holed, "average of 1 of 2")):
        tables = {title: (head, rows) for title, head, rows in chosen_scores(given, selected)}
        for subset in ("hard", "easy"):
            (title,) = [
                name
                for name in tables
                if name.startswith(f"AUC on {subset} ce images") and "worst-hard" in name
            ]
            head, rows = tables[title]
            assert [row[0] for row in rows] == ["car", "fire_hydrant", label]
            for place in range(1, len(head)):
                known = [
                    float(row[place].split()[0])
                    for row in rows[:2]
                    if label == "average of 2" or row[0] != "car"
                ]
                assert float(rows[2][place]) == pytest.approx(sum(known) / len(known), abs=0.0011)


def test_earlier_scores_have_no_paper_ece_and_say_so(suite, runs, tmp_path):
    """Scores from before there were easy sides, named averages and ``ece_paper`` stay readable."""
    scores, selected, _ = collect(RunsFolder.open(runs.path), suite)
    earlier = scores.table.filter(
        (pl.col("metric") != "ece_paper")
        & ~pl.col("subset").is_in(["easy_positive", "easy_negative"])
    ).drop("interval", "n_tasks", "averaged_tasks")
    save_scores(replace(scores, table=earlier), tmp_path / "scores.parquet")
    selected.write_csv(tmp_path / "selected.csv")
    found = read_results(tmp_path, [suite])
    tables, notes = like(found, ["table10", "table18"])
    assert [table.name for table in tables] == ["table10"]
    assert any(
        "table18: no ece_paper under ce" in note and "nooch collect again" in note for note in notes
    )


def test_what_diverged_is_said(suite, tmp_path):
    made = made_runs(
        tmp_path / "runs",
        suite,
        diverged=lambda j: j.method == "gdro" and (j.task == "car" or j.seed == 0),
    )
    found = read_results(made.path, [suite])
    rows = {
        r["task"]: r
        for r in found.cells.filter(
            criterion="ce", metric="nll", subset="easy", method="gdro"
        ).to_dicts()
    }
    assert rows["car"]["reason"] == "every job has diverged"
    assert (rows["fire_hydrant"]["n_seeds"], rows["fire_hydrant"]["seeds"]) == (2, 3)
    assert sum("diverged" in note for note in found.notes) == 6 + 2


def worse_on_bowls(job):
    """Of GDRO's second setting alone, on one task."""
    return (0.9, 0.5) if (job.task, job.setting) == ("car", "K=30") and job.seed else (0.4, 0.5)


def test_runs_that_are_worse_than_a_constant_are_marked(suite, results, tmp_path):
    chosen = {"erm": [()], "gdro": [(("K", 30.0),)]}
    runs = made_runs(tmp_path / "runs", suite, settings=chosen, losses=worse_on_bowls)
    found = read_results(runs.path, [suite])
    assert any(
        "2 of 12 jobs are worse than a constant" in text and "gdro K=30 2 of 6" in text
        for text in found.notes
    )
    cells = found.cells.filter(metric="auc", subset="hard")
    counts = {
        (task, method): n for task, method, n in cells.select("task", "method", "n_worse").rows()
    }
    assert counts == {
        ("car", "erm"): 0, ("fire_hydrant", "erm"): 0, ("average", "erm"): 0,
        ("car", "gdro"): 2, ("fire_hydrant", "gdro"): 0, ("average", "gdro"): 2,
    }  # fmt: skip
    (table,), notes = like(found, ["table3"])
    lines = {row[0]: row for row in shown(table).rows}
    assert [cell.endswith("†") for cell in lines["car"][-2:]] == [False, True]
    assert not any("†" in cell for cell in lines["fire_hydrant"])
    assert any(text.startswith("†: ") for text in notes)
    # collected, it is in both files, and the same comes out of them
    scores, selected, _ = collect(runs, suite)
    per_run = scores.table.select("run", "task", "worse_than_constant").unique()
    assert sorted(per_run.filter("worse_than_constant").select("run", "task").rows()) == [
        ("gdro/K=30/1", "car"), ("gdro/K=30/2", "car"),
    ]  # fmt: skip
    (tmp_path / "scores").mkdir()
    save_scores(scores, tmp_path / "scores" / "scores.parquet")
    selected.write_csv(tmp_path / "scores" / "selected.csv")
    collected = read_results(tmp_path / "scores", [suite])
    told = [text for text in found.notes if "worse than a constant" in text]
    assert [text for text in collected.notes if "worse than a constant" in text] == told
    again = collected.cells
    place = ["metric", "subset", "task", "method", "n_worse"]
    assert_frame_equal(again.select(place), found.cells.select(place), check_row_order=False)
    # folders of before say nothing of it
    selected.drop("worse_than_constant").write_csv(tmp_path / "scores" / "selected.csv")
    assert read_results(tmp_path / "scores", [suite]).cells["n_worse"].null_count() == again.height
    assert results.cells["n_worse"].null_count() == results.cells.height
    # a folder that was begun before and gone on with knows it of some jobs
    partly = made_runs(
        tmp_path / "partly",
        suite,
        settings=chosen,
        losses=lambda job: worse_on_bowls(job) if job.seed else (None, None),
    )
    (note,) = (text for text in collect(partly, suite)[2] if "worse than a constant" in text)
    assert "2 of 8 jobs are worse than a constant" in note
    assert "gdro K=30 2 of 4" in note
    assert "of 4 jobs, trained by an earlier version, it is not recorded" in note


def test_other_suites_and_datasets_are_refused(runs, suite, tmp_path):
    data = small_data()
    other = find(
        data,
        {"ce": CE(beta=0.2, cues={"car": ("road",), "fire_hydrant": ("road",)})},
        tasks=list(TASKS),
    )
    fails(
        lambda: read_results(runs.path, [other]),
        "another one of the same dataset",
        kind=ParameterError,
    )
    edited = data.images.with_columns(pl.lit(1).alias("edition"))
    version = small_suite(type(data).build(edited, data.classes, data.areas))
    fails(lambda: read_results(runs.path, [version]), "another version of it", kind=ParameterError)
    fails(lambda: read_results(runs.path), "`suite`", kind=ParameterError)
    # out of several the right one is found
    assert read_results(runs.path, [other, suite]).notes == []
    fails(lambda: read_results(tmp_path, [suite]), "holds no results", kind=InputError)
    fails(
        lambda: read_results(runs.path, [suite], rule="best"),
        "'best' is no rule",
        kind=ParameterError,
    )
    fails(
        lambda: read_results(runs.path, [suite], split="train"),
        "'train' is no split",
        kind=ParameterError,
    )


def test_a_job_of_other_data_is_refused(runs, suite, tmp_path):
    copy = shutil.copytree(runs.path, tmp_path / "runs")
    file = copy / "jobs" / "job0003" / "config.json"
    content = json.loads(file.read_text())
    content["data"]["dataset"] = "another version"
    file.write_text(json.dumps(content))
    fails(lambda: read_results(copy, [suite]), "job0003", "trained on other data")


def test_one_criterion_from_two_folders_is_refused(results):
    other = replace(results, about="others")
    fails(
        lambda: merge([results, other]), "runs, test images", "others", "both have results under ce"
    )
    birds = replace(
        results,
        cells=results.cells.filter(criterion="ce").with_columns(criterion=pl.lit("attribute")),
    )
    assert set(merge([results, birds]).cells["criterion"]) == {"ce", "~ce", "attribute"}


def test_select_refuses_what_is_not_there(results):
    fails(lambda: results.select(tasks=["zebra"]), "'zebra' is no task", kind=ParameterError)
    fails(lambda: results.select(methods=["vrex"]), "'vrex' is no method", kind=ParameterError)
    assert results.select() is results
    assert set(results.select(methods=["erm"]).cells["method"]) == {"erm"}


NAMES = {
    "table3": ["table3"],
    "3, 9": ["table3", "table9"],
    "table9,9": ["table9"],
    "all": [f"table{n}" for n in (3, 4, 5, *range(9, 19))],
}


@pytest.mark.parametrize("text", NAMES)
def test_names_of_tables(text):
    assert table_names([text]) == NAMES[text]


def test_names_of_tables_that_are_refused():
    fails(lambda: table_names(["table8"]), "'table8' is no table of results", kind=ParameterError)
    fails(lambda: table_names([" , "]), "no table is named", kind=ParameterError)


def test_blocks_without_results_are_said(results):
    tables, notes = like(results, ["table9"])
    assert [t.rows["criterion"].unique().to_list() for t in tables] == [["ce"]]
    assert "table9: no results under gist" in notes
    fails(
        lambda: like(results, ["table4"]),
        "no table can be made: table4: no results under gist",
        kind=UndefinedError,
    )


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
    """An attribute suite: the worst group's error is the larger of those on hard positives and hard
    negatives, for each seed.
    """
    data = small_data()
    suite = find(
        data, {"odd": Attribute("place IS NOT NULL AND place != 'street'")}, tasks=list(TASKS)
    )
    runs = made_runs(tmp_path / "runs", suite, criterion="odd")
    results = read_results(runs.path, [suite])
    assert set(results.cells["criterion"]) == {"attribute"}
    (table,), _ = like(results, ["table5"], compare=True)
    assert table.label == "metric"
    errors = []
    (chosen,) = results.cells.filter(
        metric="error", subset="worst_hard", task="car", method="gdro"
    ).to_dicts()
    for name, job in runs.header.jobs.items():
        if (job.task, job.method, job.setting) == ("car", "gdro", chosen["setting"]):
            z = {
                image: logit
                for image, split, logit in runs.predictions(name).rows()
                if split == "test"
            }
            challenge = suite.set("odd", "car", "test")
            sides = [
                [z[i] > 0 for i in challenge.ids(side)]
                for side in ("hard_positive", "hard_negative")
            ]
            errors.append(max(1 - sum(sides[0]) / len(sides[0]), sum(sides[1]) / len(sides[1])))
    assert chosen["mean"] == pytest.approx(np.mean(errors))
    assert chosen["std"] == pytest.approx(np.std(errors, ddof=1))
    assert (
        table.rows.filter(block="error of the worst group", task="car", method="gdro")["mean"][0]
        == chosen["mean"]
    )


def test_paired_differences_are_those_of_the_cells(runs, suite, results):
    (scores,) = paired_results([runs.path], [suite], results, ["ce"], baseline="erm", bootstrap=20)
    assert set(scores.differences["run"]) == {"gdro", "label-reweight"}
    cells = {
        (r["metric"], r["subset"], r["task"], r["method"]): r["mean"]
        for r in results.cells.filter(criterion="ce").to_dicts()
    }
    compared = 0
    for row in scores.differences.drop_nulls("difference").to_dicts():
        key = row["metric"], row["subset"], row["task"]
        if cells[*key, row["run"]] is None or cells[*key, "erm"] is None:
            continue
        assert row["difference"] == pytest.approx(
            cells[*key, row["run"]] - cells[*key, "erm"], abs=1e-6
        ), row
        compared += 1
    assert compared > 50
    every = paired_results(
        [runs.path], [suite], results, ["ce", "gist"], bootstrap=5, metrics=["auc"]
    )
    assert every[0].differences.select("run", "baseline").unique().height == 3
    fails(
        lambda: paired_results([runs.path.parent], [suite], results, ["ce"]),
        "no predictions to resample",
        kind=ParameterError,
    )
    fails(
        lambda: paired_results([runs.path], [suite], results, ["ce"], baseline="vrex"),
        "'vrex' is no method",
        kind=ParameterError,
    )


def test_tables_of_calibration_say_which_ece():
    tables, _ = like(paper_cells(), ["table17", "table18"])
    assert len(tables) == 4
    for table in tables:
        assert "the paper's ECE (ece_paper)" in table.title
        assert set(table.rows["metric"]) == {"ece_paper"}


def test_names_of_tasks_may_have_commas():
    rows = [
        dict.fromkeys(CELLS) | {
            "criterion": criterion, "metric": "auc", "subset": subset, "task": task, "method": "erm", "sees": "nothing",
            "mean": None if (task, subset) == ("car", "easy") else 0.5, "std": 0.1, "n_worse": 1,
        }
        for criterion in ("ce", "gist") for task in ("tench, Tinca", "car", "cup") for subset in ("hard", "easy")
        if (criterion, task) != ("gist", "cup")
    ]  # fmt: skip
    cells = with_averages(pl.DataFrame(rows, schema=CELLS))
    averages = cells.filter(task="average", criterion="ce")
    assert averages["n_worse"].to_list() == [2, 2]
    note, _ = averages_note(cells)
    assert note.endswith(
        "2 of 3 tasks: tench, Tinca, cup; left out, because they lack a value: car"
    )
    alike, over = Numbers(cells).alike(("ce", "gist"))
    assert over == " (over tench, Tinca)"
    assert alike.get("ce", "auc", "hard", "erm").mean == 0.5
