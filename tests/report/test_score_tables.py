"""Scores as tables for people: numbers in their cells, and no name that breaks a table; and as
files: everything with full precision, written atomically.
"""

import json
import re
from dataclasses import replace
from functools import partial

import polars as pl
import pytest
from refusals import fails
from scored import logits, small_data, small_suite

import nooch
from nooch.base.errors import OutputError, ParameterError
from nooch.base.words import printable
from nooch.criteria import CE
from nooch.evaluation import bootstrap, evaluate
from nooch.evaluation.metrics import ALL_METRICS
from nooch.report import SCORE_FILES, as_json, latex, markdown, save_scores, tables_of
from nooch.report.tables.score_tables import average_label, is_average
from nooch.suites.find import find

TASKS = ("car", "fire_hydrant", "average of 2")
NASTY = "[red]*a*_b_|c\\d <script> & 50% $x$ #1 {e} ~^`\x1b[31m\nnext"


@pytest.fixture(scope="module")
def suite():
    return small_suite()


@pytest.fixture(scope="module")
def scores(suite):
    runs = {"erm": logits(suite), "dro": logits(suite, seed=1)}
    by = {"averages": ["uniform"], "by": ["place"], "attributes": small_data().images}
    with pytest.MonkeyPatch.context() as patch:
        # its sets are smaller than those that have intervals
        patch.setattr(bootstrap, "FEWEST", 2)
        return evaluate(suite, runs, bootstrap=50, baseline="erm", **by)


@pytest.fixture(scope="module")
def alone(suite):
    """Scores of one run."""
    return evaluate(suite, logits(suite), bootstrap=20)


def _cells(table):
    """(task, run, ...) -> {column: cell}."""
    n, heads = table.left, table.columns[table.left :]
    return {tuple(row[:n]): dict(zip(heads, row[n:], strict=True)) for row in table.rows}


def test_which_tables_there_are(scores):
    assert [table.title for table in tables_of(scores)] == [
        "Scores on ce challenge sets (test)",
        "By context cue: ce (test)",
        "By group: ce (test)",
        "Scores on ~ce challenge sets (test)",
        "By group: ~ce (test)",
        "Differences from erm on ce challenge sets (test)",
        "Differences from erm on ~ce challenge sets (test)",
    ]


def test_every_cell_is_a_value_of_the_table(scores, suite):
    table = tables_of(scores, ["auc", "nll", "ece"])[0]
    cells = _cells(table)
    assert list(cells) == [(task, run) for task in TASKS for run in ("erm", "dro")]
    heads = {
        "AUC hard": ("auc", "hard"),
        "NLL hard neg": ("nll", "hard_negative"),
        "AUC avg:uniform": ("auc", "avg:uniform"),
        "ECE easy": ("ece", "easy"),
    }
    for (task, run), row in cells.items():
        for head, (metric, subset) in heads.items():
            place = {"criterion": "ce", "task": task.split(" of ")[0], "run": run}
            wanted = scores.value(metric, subset, **place)
            assert float(row[head].split()[0]) == pytest.approx(wanted, abs=5e-4)
    counts = suite.record("ce", "car", "test")
    assert cells["car", "erm"]["hard pos"] == str(counts.hard_positives)
    assert cells["car", "erm"]["hard neg"] == str(counts.hard_negatives)


def test_intervals_hold_their_value_and_drop_leading_zeros(scores):
    cell = _cells(tables_of(scores)[0])["car", "erm"]["NLL easy neg"]
    numbers = re.fullmatch(r"(0\.\d{3}) \[(\.\d{3}), (1?\.\d{3})\]", cell).groups()
    value, low, high = map(float, numbers)
    assert low < value < high


def test_undefined_is_a_dash_and_never_zero(scores):
    by_cue = _cells(tables_of(scores)[1])
    row = by_cue["car", "erm", "person"]
    assert scores.value("auc", "hard", cue="person", run="erm", criterion="ce", task="car") is None
    assert row["AUC hard"] == "–"


def test_differences_have_signs(scores):
    table = tables_of(scores)[-2]
    assert [row[:2] for row in table.rows] == [[task, "dro"] for task in TASKS]
    interval = r"\[[+-]1?\.\d{3}, [+-]1?\.\d{3}\]"
    for cell in (cell for row in table.rows for cell in row[2:]):
        assert re.fullmatch(rf"[+-]\d\.\d{{3}} {interval}|–|[+-]\d\.\d{{3}} \[.*\]", cell), cell


def test_one_run_needs_no_column(alone):
    assert list(tables_of(alone)[0].columns[:2]) == ["task", "hard pos"]


def test_metrics_that_were_not_taken_are_not_shown(suite):
    table, *_ = tables_of(evaluate(suite, logits(suite), metrics=["error"]), ["auc", "error"])
    # each hard side is next to the easy one of its label; the pooled easy, which mixes them, is not
    # shown
    sides = ("hard pos", "easy pos", "hard neg", "easy neg")
    assert table.columns[3:] == [f"error {side}" for side in sides]


def test_every_metric_has_columns(suite):
    table, *_ = tables_of(evaluate(suite, logits(suite), metrics=ALL_METRICS), ALL_METRICS)
    assert len(set(table.columns)) == len(table.columns)
    assert {"F1 hard", "FPR hard neg", "recall easy pos", "Brier hard pos"} <= set(table.columns)


HARD = (pl.col("task") == "average") & (pl.col("subset") == "hard")
OF_CAR = pl.when(HARD).then(pl.lit("car")).otherwise("averaged_tasks")


def test_one_line_is_over_the_same_tasks(alone):
    """Averages over other tasks are taken over those that all columns have, as the line says."""
    short = alone.table.with_columns(averaged_tasks=OF_CAR)
    table = tables_of(replace(alone, table=short), ["auc"])[0]
    of = {row[0]: dict(zip(table.columns, row, strict=True)) for row in table.rows}
    assert list(of) == ["car", "fire_hydrant", "average of 1 of 2"]
    for head in ("AUC hard", "AUC easy", "hard pos", "hard neg"):
        assert of["average of 1 of 2"][head] == of["car"][head].split()[0]


def test_a_strict_average_that_is_null_is_a_dash(suite):
    """A null average names the tasks that have a value; the others stay over all tasks."""
    scores = evaluate(suite, logits(suite), bootstrap=20, strict=True)
    short = scores.table.with_columns(
        averaged_tasks=OF_CAR,
        n_tasks=pl.when(HARD).then(1).otherwise("n_tasks"),
        **{name: pl.when(~HARD).then(name) for name in ("value", "low", "high")},
    )
    lines = []
    for table in (short, scores.table):
        shown = tables_of(replace(scores, table=table), ["auc"])[0]
        lines.append(dict(zip(shown.columns, shown.rows[-1], strict=True)))
    last, known = lines
    assert last == {**known, "AUC hard": "–"}
    assert last["task"] == "average of 2"


def test_labels_of_averages():
    assert average_label([7], 7) == "average of 7"
    assert average_label([6, 6], 7) == "average of 6 of 7"
    assert average_label([3, 6], 7) == "average of 3 to 6 of 7"
    assert all(map(is_average, ("average of 7", "average of 6 of 7", "average of 3 to 6 of 7")))
    assert not any(map(is_average, ("average", "car", "average of cars")))


@pytest.fixture(scope="module")
def nasty(suite):
    runs = {NASTY: logits(suite), "*second": logits(suite, seed=1)}
    return tables_of(evaluate(suite, runs, averages=["x<y:hard_positive=1"]))


def test_control_characters_are_spelled_out(nasty):
    assert printable("a\x1b[31m\tb\u202ec\N{LINE SEPARATOR}é") == r"a\x1b[31m\tb\u202ec\u2028é"
    for form in (markdown, latex):
        for line in form(nasty).split("\n"):
            assert line.isprintable(), line
    assert any(NASTY[:5] in row[1] for row in nasty[0].rows)


def test_markdown_tables_keep_their_shape_whatever_the_names(nasty):
    text = markdown(nasty)
    for block in text.split("\n\n"):
        rows = [line for line in block.splitlines() if line.startswith("|")]
        assert len({len(re.findall(r"(?<!\\)(?:\\\\)*\|", row)) for row in rows}) <= 1
    for line in text.splitlines():
        # what is left of the escaped must hold nothing that means something
        plain = re.sub(r"\\.", "", line)
        assert "<" not in plain
        assert "`" not in plain
        assert "*" not in plain.removeprefix("**").removesuffix("**")
    assert "fire_hydrant" in text


def test_latex_escapes_everything_that_means_something(nasty):
    text = latex(nasty)
    for line in text.splitlines():
        # what the names brought is escaped, so that & stands between columns alone
        body = re.sub(r"\\text(backslash|asciitilde|asciicircum|less|greater|bar)\{\}", "", line)
        body = re.sub(r"\\(begin|end|caption|toprule|midrule|bottomrule|centering|\\)", "", body)
        body = re.sub(r"\\[&%$#_{}]", "", body)
        assert not re.search(r"[\\%$#_~^<>|]", body), line
    for table, block in zip(nasty, text.split(r"\end{table}"), strict=False):
        rows = [line for line in block.splitlines() if line.endswith(r"\\")]
        assert {len(re.findall(r"(?<!\\)&", row)) for row in rows} == {len(table.columns) - 1}


def test_a_row_that_begins_with_a_bracket_is_no_argument_of_the_one_before(alone):
    table = tables_of(alone)[0]
    for name in ("[1cm]", "*"):
        rows = [[name, *row[1:]] for row in table.rows]
        text = latex([replace(table, rows=rows)])
        assert not re.search(r"^[\[*]", text, re.MULTILINE)
        assert f"{{}}{name} &" in text


def test_the_average_has_a_line_above_it(scores):
    text = latex(tables_of(scores)[:1])
    lines = text.splitlines()
    average = next(i for i, line in enumerate(lines) if line.startswith("average"))
    assert lines[average - 1] == r"\midrule"
    assert text.count(r"\midrule") == 2


@pytest.mark.parametrize("ending", [".parquet", ".csv"])
def test_tables_come_back_bit_by_bit(scores, tmp_path, ending):
    files = save_scores(scores, tmp_path / f"s{ending}")
    assert [file.name for file in files] == [f"s{ending}", f"s-differences{ending}"]
    read = pl.read_parquet if ending == ".parquet" else pl.read_csv
    for file, table in zip(files, (scores.table, scores.differences), strict=True):
        again = read(file).cast(dict(table.schema))
        assert again.equals(table)
    assert scores.table["value"].dtype == pl.Float64


def test_json_holds_everything(scores, tmp_path):
    (file,) = save_scores(scores, tmp_path / "s.json")
    content = json.loads(file.read_text())
    assert content["scores"] == scores.table.to_dicts()
    assert content["differences"] == scores.differences.to_dicts()
    assert content["settings"]["bootstrap"] == 50
    assert content == json.loads(json.dumps(as_json(scores)))
    nulls = [row for row in content["scores"] if row["value"] is None]
    assert nulls
    assert all(row["reason"] for row in nulls)


@pytest.mark.parametrize(("ending", "words"), [(".md", "| task | run |"), (".tex", r"\toprule")])
def test_tables_for_papers(scores, tmp_path, ending, words):
    (file,) = save_scores(scores, tmp_path / f"s{ending}", metrics=["ece"])
    text = file.read_text()
    assert words in text
    assert "ECE hard" in text
    assert "AUC" not in text


@pytest.mark.parametrize("ending", SCORE_FILES)
def test_the_same_scores_give_the_same_bytes(scores, tmp_path, ending):
    files = [save_scores(scores, tmp_path / folder / f"s{ending}")[0] for folder in "ab"]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_one_run_has_no_file_of_differences(alone, tmp_path):
    nooch.save_scores(alone, tmp_path / "s.csv")
    assert [file.name for file in tmp_path.iterdir()] == ["s.csv"]


@pytest.mark.parametrize("name", ["s", "s.txt", "s.npz", "s.parquet.gz"])
def test_other_endings_are_refused(scores, tmp_path, name):
    words = ("ending of a scores file", ".parquet")
    fails(lambda: save_scores(scores, tmp_path / name), *words, kind=ParameterError)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("there", ["s.csv", "s-differences.csv"])
def test_a_file_that_exists_is_kept_and_nothing_is_written(scores, tmp_path, there):
    (tmp_path / there).write_text("mine")
    out = tmp_path / "s.csv"
    fails(lambda: save_scores(scores, out), "exists already", there, kind=OutputError)
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [(there, "mine")]
    save_scores(scores, out, overwrite=True)
    assert (tmp_path / there).read_text() != "mine"
    assert {file.name for file in tmp_path.iterdir()} == {"s.csv", "s-differences.csv"}


@pytest.mark.parametrize("there", ["s.csv", "s-differences.csv"])
def test_folders_are_never_replaced(scores, tmp_path, there):
    (tmp_path / there).mkdir()
    act = partial(save_scores, scores, tmp_path / "s.csv", overwrite=True)
    fails(act, "is a folder", there, kind=OutputError)
    assert [file.name for file in tmp_path.iterdir()] == [there]


def test_folders_are_made_but_not_below_a_file(scores, tmp_path):
    save_scores(scores, tmp_path / "a" / "b" / "s.md")
    (tmp_path / "file").write_text("")
    fails(lambda: save_scores(scores, tmp_path / "file" / "s.md"), "is a file", kind=OutputError)


@pytest.mark.parametrize(("metric", "better"), [("auc", True), ("error", False)])
def test_of_many_lines_the_worst_and_all_averages(metric, better):
    """By the first value shown, whichever direction is worse; what is undefined comes last."""
    data = small_data()
    names = [f"thing{i}" for i in range(8)]
    areas = data.areas[:, [0] * len(names) + list(range(len(data.classes)))]
    data = nooch.Dataset.build(data.images, [*names, *data.classes], areas)
    suite = find(data, {"ce": CE(cues=dict.fromkeys(names, ("road",)))}, tasks=names)
    runs = {f"run{i}": logits(suite, seed=i, tasks=names) for i in range(3)}
    scores = evaluate(suite, runs, metrics=[metric], bootstrap=0)
    undefined = (pl.col("task") == "thing3") & (pl.col("run") == "run1")
    table = scores.table.with_columns(value=pl.when(~undefined).then("value"))
    scores = replace(scores, table=table)
    (whole, *_), (short, *_) = tables_of(scores, [metric]), tables_of(scores, [metric], most=9)
    assert (len(whole.rows), list(whole.notes)) == (27, [])
    is_hard = {"subset": "hard" if metric == "auc" else "hard_positive"}
    of_tasks = scores.table.filter(pl.col("task") != "average", metric=metric, **is_hard)
    ordered = of_tasks.filter(pl.col("value").is_not_null()).sort("value", descending=not better)
    values = dict(zip(ordered.select("task", "run").rows(), ordered["value"], strict=True))
    kept = [tuple(row[:2]) for row in short.rows]
    assert len(kept) == 9
    assert [name for name, _ in kept[6:]] == ["average of 8"] * 3
    assert [values[key] for key in kept[:6]] == list(ordered["value"][:6])
    assert all(row in whole.rows for row in short.rows)
    words = "lowest AUC hard" if better else "highest error hard pos"
    assert short.title == f"{whole.title}: 9 of 27 rows"
    assert short.notes == [f"averages, and rows with the {words}"]
    assert tables_of(scores, [metric], most=27)[0].rows == whole.rows
    most = tables_of(scores, [metric], most=26)[0]
    left_out = {tuple(row) for row in whole.rows} - {tuple(row) for row in most.rows}
    assert [row[:2] for row in left_out] == [("thing3", "run1")]
    averages_only = tables_of(scores, [metric], most=2)[0].rows
    assert [row[0] for row in averages_only] == ["average of 8"] * 3
