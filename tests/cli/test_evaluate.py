"""evaluate as a user types it, and what it refuses."""

import json
import re
import shutil
import signal
import subprocess
import sys

import polars as pl
import pytest
from altered_files import write_header
from scored import FORMS, arrays_of, logits, small_data, small_suite
from waiting import HANGS, until

import nooch
from nooch.data import save_dataset

NASTY = "[bold]x[/bold]|*<b>&\x1b[31m\n\x00"


@pytest.fixture
def here(scored, tmp_path, monkeypatch):
    """A copy that a test may write to, and in which it runs."""
    folder = shutil.copytree(scored, tmp_path / "here")
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def long():
    return logits(small_suite())


def _refused(done, message, here):
    done.refused(message)
    names = {file.name for file in here.iterdir()}
    files = {"out.parquet", "out.csv", "out.json", "out-differences.parquet"}
    assert not files & names
    assert not [name for name in names if "partial" in name]


def test_the_exact_forms(here, run_cli):
    done = run_cli("evaluate suite predictions.csv --split test --out scores.parquet").ok()
    assert "Scores on ce challenge sets (test)" in done.out
    scores = pl.read_parquet(here / "scores.parquet")
    columns = "run method seed criterion task split subset cue group metric value low high interval"
    assert scores.columns == [
        *columns.split(),
        "n",
        "n_positive",
        "n_tasks",
        "averaged_tasks",
        "reason",
    ]
    assert set(scores["run"]) == {"predictions"}
    done = run_cli("evaluate suite a.parquet b.parquet --split test --format json").ok()
    assert {row["run"] for row in done.json["scores"]} == {"a", "b"}
    assert {(row["run"], row["baseline"]) for row in done.json["differences"]} == {("b", "a")}
    assert (done.json["conditions"], done.json["failed"]) == (0, [])


def test_the_numbers_are_those_of_the_library(here, run_cli):
    shown = run_cli("evaluate suite predictions.csv --format json").ok().json["scores"]
    assert shown == nooch.evaluate("suite", "predictions.csv").table.to_dicts()


def test_every_form_gives_the_same_bytes(here, run_cli, tmp_path):
    """Integers and text, long and wide, files and Python: one table of scores, to the last bit."""
    suite = nooch.load_suite(here / "suite")
    # values that every type of float holds
    frame = logits(suite).with_columns(logit=(pl.col("logit") * 4).round() / 4)
    text = frame.with_columns(pl.col("image_id").cast(pl.String).str.zfill(12))
    written = {}
    for name, form in FORMS.items():
        for kind, table in (("int", frame), ("text", text)):
            file = tmp_path / f"{name}-{kind}" / f"run{form.ending}"
            file.parent.mkdir()
            form.write(table, file)
            out = file.parent / "scores.parquet"
            run_cli(f"evaluate suite {file} --bootstrap 20", *form.options, "--out", out).ok()
            written[f"{name}-{kind}"] = out.read_bytes()
    values, ids, tasks = arrays_of(frame)
    sources = {
        "frame": {"run": frame},
        "array": nooch.Predictions.from_arrays(values, ids, tasks, scale="logit", run="run"),
    }
    torch = pytest.importorskip("torch")
    for kind in ("float16", "bfloat16", "float32"):
        tensor = torch.tensor(values, dtype=getattr(torch, kind), requires_grad=True)
        sources[kind] = nooch.Predictions.from_arrays(
            tensor, torch.tensor(ids), tasks, scale="logit", run="run"
        )
    for name, source in sources.items():
        nooch.save_scores(nooch.evaluate(suite, source, bootstrap=20), tmp_path / f"{name}.parquet")
        written[name] = (tmp_path / f"{name}.parquet").read_bytes()
    assert len(written) == 2 * len(FORMS) + 5
    differ = [name for name, content in written.items() if content != written["frame"]]
    assert not differ


@pytest.mark.parametrize(
    ("format", "words"),
    [
        ("md", "| task | run | hard pos |"),
        ("tex", r"\begin{tabular}{llrrrrrrrrr}"),
        ("csv", "run,method,seed,criterion"),
    ],
)
def test_formats(here, run_cli, format, words):
    out = here / f"scores.{format}"
    done = run_cli(f"evaluate suite a.parquet b.parquet --out {out}").ok()
    assert "Differences from a on ce challenge sets (test)" in done.out
    assert words in out.read_text()
    if format == "csv":
        table = pl.read_csv(out, infer_schema_length=None)
        scores = nooch.evaluate(nooch.load_suite("suite"), ["a.parquet", "b.parquet"])
        assert table.height == scores.table.height


def test_nothing_is_folded_where_output_goes_to_a_file(here, run_cli):
    done = run_cli(
        "evaluate suite a.parquet b.parquet --bootstrap 50"
        " --average uniform --metrics auc,nll,ece,error"
    )
    rows = [line for line in done.out.splitlines() if line.strip().startswith(("car ", "average"))]
    assert rows
    assert all(line.count("[") == line.count("]") for line in rows)


def test_many_rows_are_cut_in_the_terminal_and_whole_in_files(here, run_cli, long):
    """12 runs of 2 tasks, with their averages: 36 rows, of which 20 are printed."""
    runs = [
        long.with_columns(run=pl.lit(f"run{i:02}"), logit=-pl.col("logit") * i) for i in range(12)
    ]
    pl.concat(runs).write_csv(here / "many.csv")

    def rows(done):
        scores = done.out.split("Scores on ce challenge sets (test)")[1].split("By context cue")[0]
        return len(re.findall(r"run\d\d", scores))

    command = "evaluate suite many.csv --split test"
    done = run_cli(f"{command} --out all.md").ok()
    assert rows(done) == 20
    assert "Scores on ce challenge sets (test): 20 of 36 rows" in done.out
    said = (
        "of more than 20 rows: averages, and rows with the lowest AUC hard (all rows: --out FILE.md"
    )
    assert done.out.count("of more than 20 rows") == done.out.count(said) == 1
    table = (here / "all.md").read_text().split("**")[2]
    assert len(re.findall(r"run\d\d", table)) == 36
    done = run_cli(f"{command} --tasks car,fire_hydrant").ok()
    assert rows(done) == 36
    assert "of 36 rows" not in done.out
    assert (
        len({row["run"] for row in run_cli(f"{command} --format json").ok().json["scores"]}) == 12
    )


def test_options_that_narrow(here, run_cli):
    done = run_cli(
        "evaluate suite a.parquet --criterion ce --tasks car --metrics"
        " auc,nll,auc --split test,test --by place --average valid --seed 3 --format json"
    ).ok()
    rows = done.json["scores"]
    assert {(row["criterion"], row["task"], row["split"]) for row in rows} == {
        ("ce", "car", "test")
    }
    assert {row["group"] for row in rows} == {None, "place=street", "place=field", "place=None"}
    assert {row["cue"] for row in rows} == {None, "road", "person"}
    # what is named twice is taken once
    keys = [tuple(row[c] for c in ("subset", "cue", "group", "metric")) for row in rows]
    assert len(keys) == len(set(keys))
    assert {key[3] for key in keys} == {"auc", "nll"}
    (value,) = [
        row["value"]
        for row in rows
        if row["subset"] == "all" and row["metric"] == "auc" and not row["group"]
    ]
    assert value is not None


def test_several_splits_and_the_baseline(here, run_cli):
    suite = nooch.load_suite(here / "suite")
    for seed, name in enumerate("ab"):
        logits(suite, ["valid", "test"], seed=seed).write_parquet(here / f"{name}.parquet")
    done = run_cli(
        "evaluate suite a.parquet b.parquet --split 'valid, test' --baseline b --format json"
    )
    assert {row["split"] for row in done.json["scores"]} == {"valid", "test"}
    assert {(row["run"], row["baseline"]) for row in done.json["differences"]} == {("a", "b")}


def test_the_dataset_is_found_or_given(here, run_cli):
    words = "evaluate suite a.parquet --by place --format json"
    run_cli(words).ok()
    (here / "dataset").rename(here / "moved")
    _refused(run_cli(words), "not found at its recorded path", here)
    run_cli(f"{words} --dataset moved").ok()
    _refused(run_cli(f"{words} --dataset nowhere"), "is not a dataset", here)


def test_names_from_files_are_no_markup_and_no_control_characters(here, run_cli, long):
    frames = [long.with_columns(run=pl.lit(name)) for name in (NASTY, "other")]
    pl.concat(frames).write_parquet(here / "n.parquet")
    for kind in ("md", "tex"):
        out = here / f"n.{kind}"
        done = run_cli(
            "evaluate suite n.parquet --average '[red]:hard_positive=1' --fail-if 'auc@hard<2'"
            f" --out {out}"
        )
        assert done.code == 1, done.err
        for text in (done.out, done.err, out.read_text()):
            assert "\x1b" not in text
            assert "\x00" not in text
        assert r"Differences from [bold]x[/bold]|*<b>&\x1b[31m\n\x00 on ce" in done.out
        assert "AUC avg:[red]" in done.out
    again = run_cli("evaluate suite n.parquet --format json")
    assert {row["run"] for row in again.json["scores"]} == {NASTY, "other"}


@pytest.mark.parametrize(
    ("conditions", "code"),
    [
        (["auc@all<0.01"], 0),
        (["auc@all<0.01", "nll@hard>100"], 0),
        (["auc@all<0.01", "auc@all<2"], 1),
        (["auc@hard[ce]<1.1"], 1),
        (["auc@hard[ce,car]<0"], 0),
        (["auc@hard[*,car]<2"], 1),
        (["auc@hard[ce,average]<2"], 1),
        (["auc@hard_positive[ce,car]<0"], 1),
    ],
)
def test_fail_if(here, run_cli, conditions, code):
    fail_if = [f"--fail-if '{condition}'" for condition in conditions]
    words = " ".join(["evaluate suite a.parquet", *fail_if])
    done = run_cli(f"{words} --format json --out out.csv")
    assert done.code == code, done.err
    assert (here / "out.csv").is_file()
    assert done.json["conditions"] >= len(done.json["failed"])
    assert bool(done.json["failed"]) == (code == 1)
    for failed in done.json["failed"]:
        assert failed["reason"]
        assert failed["condition"] in conditions
    shown = run_cli(words)
    assert shown.code == code
    assert ("failed: " in shown.out) == (code == 1)
    assert ("none of " in shown.err) == (code == 0)


def test_metrics_and_thresholds_of_answers(here, run_cli):
    """Metrics of conditions are computed; what is chosen on valid is stated and recorded."""
    suite = nooch.load_suite(here / "suite")
    logits(suite, ["valid", "test"]).write_parquet(here / "a.parquet")
    words = "evaluate suite a.parquet --metrics accuracy,precision,recall,fpr,f1,brier"
    done = run_cli(f"{words} --threshold valid --fail-if 'balanced_accuracy@hard<0'").ok()
    for text in ("accuracy hard pos", "precision hard", "recall easy pos", "FPR hard neg", "Brier"):
        assert text in done.out
    assert "answers of a are positive above probabilities chosen on valid: car " in done.err
    chosen = run_cli(f"{words} --threshold valid --format json").json
    of_tasks = chosen["settings"]["thresholds"]["a"]
    table = pl.DataFrame({"task": [*of_tasks], "threshold": [*of_tasks.values()]})
    table.write_csv(here / "t.csv")
    given = run_cli(f"{words} --threshold t.csv --format json").json
    assert given["scores"] == chosen["scores"]
    assert given["settings"] == chosen["settings"]
    plain = run_cli(f"{words} --format json").json
    assert "thresholds" not in plain["settings"]


def test_fail_if_without_predictions_of_the_task(here, run_cli, long):
    long.filter(task="car").write_parquet(here / "car.parquet")
    words = "evaluate suite car.parquet --fail-if"
    done = run_cli(f"{words} 'auc@all[ce,fire_hydrant]<0'")
    assert done.code == 1
    assert "auc is undefined: it was not scored" in done.out
    run_cli(f"{words} 'auc@all<0'").ok()


def test_criteria_that_were_left_out_do_not_fail(here, run_cli):
    words = "evaluate suite a.parquet --criterion ce --fail-if 'auc@hard<0'"
    run_cli(words).ok()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f[1:], "1 of 24 images of split test have no prediction: 37"),
        (
            lambda f: pl.concat([f, f[:1].with_columns(logit=pl.col("logit") + 1)]),
            "1 predictions are repeated with other values, such as image 37, task car: row 1",
        ),
        (lambda f: f.with_columns(pl.col("image_id") + 20), "images are not in the suite"),
        (lambda f: f.with_columns(logit=pl.lit(float("nan"))), "48 values are NaN"),
        (lambda f: f.with_columns(logit=pl.lit(float("inf"))), "NaN or infinite, such as inf"),
        (lambda f: f.with_columns(logit=pl.lit(None)), "48 values are missing"),
        (lambda f: f.with_columns(logit=pl.lit("x")), "contains String, such as 'x'"),
        (lambda f: f.rename({"logit": "probability"}), "are not a probability"),
        (lambda f: f.with_columns(probability=0.5), "both a column logit and a column probability"),
        (lambda f: f.rename({"logit": "x"}), "neither logit nor probability"),
        (
            lambda f: f.pivot(on="task", index="image_id", values="logit"),
            "if they are logits, give --scale logit",
        ),
        (lambda f: f.with_columns(label=pl.lit(1)), "labels disagree with the suite's"),
        (lambda f: f[:0], "contains no row"),
    ],
)
def test_wrong_predictions_end_with_code_2_and_leave_nothing(here, run_cli, long, change, message):
    change(long).write_csv(here / "bad.csv")
    _refused(run_cli("evaluate suite bad.csv --out out.csv"), message, here)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("bad.parquet", 300, "cannot be read"),
        ("bad.npz", 300, "cannot be read"),
        ("bad.csv", 0, "cannot be read"),
        ("empty", None, "the folder contains no table"),
        ("none.csv", None, "no such file"),
    ],
)
def test_broken_files_of_predictions(here, run_cli, name, content, message):
    (here / "empty").mkdir()
    if content is not None:
        (here / name).write_bytes((here / "a.parquet").read_bytes()[:content])
    _refused(run_cli(f"evaluate suite {name} --out out.csv"), message, here)


def test_a_repeated_run(here, run_cli):
    done = run_cli("evaluate suite a.parquet ./a.parquet --out out.csv")
    _refused(done, "runs occur more than once", here)


def test_suites_that_cannot_be_used(here, run_cli):
    words = "evaluate suite a.parquet --out out.parquet"
    header = json.loads((here / "suite" / "suite.json").read_text())
    write_header(here / "suite" / "suite.json", {**header, "version": 99})
    _refused(run_cli(words), "nooch-suite version 99", here)
    write_header(here / "suite" / "suite.json", header)
    table = pl.read_parquet(here / "suite" / "challenge_sets.parquet")
    table.with_columns(label=1 - pl.col("label")).write_parquet("suite/challenge_sets.parquet")
    _refused(run_cli(words), "challenge_sets.parquet was altered", here)
    (here / "suite" / "challenge_sets.parquet").unlink()
    _refused(run_cli(words), "challenge_sets.parquet is missing", here)
    _refused(run_cli("evaluate dataset a.parquet --out out.parquet"), "is not a suite", here)
    _refused(run_cli("evaluate a.parquet a.parquet --out out.parquet"), "is not a suite", here)


def test_attributes_with_too_many_values(here, run_cli):
    # 60 images have 60 names, which is few enough; 24 of them are scored
    data = small_data()
    many = pl.Series("number", [f"n{i}" for i in range(len(data))])
    save_dataset(
        type(data).build(data.images.with_columns(many), data.classes, data.areas), here / "many"
    )
    words = "evaluate suite a.parquet --by number --dataset many"
    run_cli(f"{words} --format json").ok()


def test_overwrite_replaces_and_the_second_file_too(here, run_cli):
    words = "evaluate suite a.parquet b.parquet --out out.csv"
    run_cli(words).ok()
    before = (here / "out.csv").read_bytes()
    assert run_cli(words).code == 2
    (here / "out.csv").unlink()
    run_cli(words).refused("out-differences.csv: exists already")
    assert not (here / "out.csv").exists()
    run_cli(f"{words} --overwrite").ok()
    assert (here / "out.csv").read_bytes() == before


_SLOW = """
import importlib, time
from pathlib import Path
from nooch.__main__ import run

evaluating = importlib.import_module("nooch.evaluation.evaluate")
score = evaluating.score_task

def slow(*words, **more):
    Path("reached").write_text("")
    # until the signal was sent
    while not Path("sent").exists():
        time.sleep(0.01)
    return score(*words, **more)

evaluating.score_task = slow
run()
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_an_interrupt_leaves_no_file(here, number, code):
    words = "evaluate suite a.parquet b.parquet --bootstrap 100 --out out.parquet"
    process = subprocess.Popen(
        [sys.executable, "-c", _SLOW, *words.split()],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    until((here / "reached").exists, while_=lambda: process.poll() is None)
    process.send_signal(number)
    (here / "sent").touch()
    out, err = process.communicate(timeout=HANGS)
    assert process.returncode == code, err
    # the first word of a line: where polars runs the handler, it prints a line with all of it
    assert not re.search(rb"^Traceback", err, re.MULTILINE), err
    assert b"remedy" not in err
    assert out == b""
    assert not [file.name for file in here.iterdir() if "out" in file.name]
