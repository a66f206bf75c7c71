"""check, in Python and as a command: what it writes, says and refuses, and its baselines."""

import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from generate_annotations import generate
from planted import planted_data, planted_predictions
from refusals import fails
from scipy.sparse import csr_array
from sites import report_of
from sklearn.linear_model import LogisticRegression

import nooch
from nooch.analysis.answer import left_out
from nooch.analysis.check import BASELINES, baseline_runs, check
from nooch.base.errors import InputError, ParameterError, WrongTypeError
from nooch.data import save_dataset
from nooch.data.importing.table_roles import Hints
from nooch.evaluation.metrics import auc
from nooch.evaluation.rate_words import context_words
from nooch.suites import save_suite


@pytest.fixture(scope="module")
def data():
    return planted_data()


@pytest.fixture(scope="module")
def folder(data, tmp_path_factory):
    """The dataset and predictions as files."""
    root = tmp_path_factory.mktemp("check")
    save_dataset(data, root / "dataset")
    planted_predictions(data).write_csv(root / "model.csv")
    return root


def test_one_call_gives_suite_scores_findings_slices_and_page(folder, data, tmp_path):
    asked = folder / "dataset", folder / "model.csv"
    checked = check(*asked, tmp_path / "out", bootstrap=50, criterion=["ce"])
    assert checked.page.is_file()
    names = {file.name for file in (tmp_path / "out").iterdir()}
    assert names == {
        "suite", "scores.parquet", "scores-differences.parquet", "findings.parquet",
        "findings.json", "findings.md", "numbered_findings.parquet", "slices.parquet", "report",
    }  # fmt: skip
    assert pl.read_parquet(tmp_path / "out/findings.parquet").equals(checked.findings.table)
    suite = nooch.load_suite(tmp_path / "out/suite")
    assert suite.tasks == ("car",)
    again = nooch.evaluate(
        suite, folder / "model.csv", reading={"ignore_unknown": True}, split="test"
    )
    assert checked.scores.value("auc", "hard", run="model") == again.value("auc", "hard")
    ((task, model, *counts),) = checked.errors.rows
    assert (task, model) == ("car", "model")
    said = pl.read_csv(folder / "model.csv").join(data.images, on="image_id").filter(split="test")
    said = said.with_columns(car=data.select("test").labels("car"))
    wrong = said.filter((pl.col("logit") > 0) != pl.col("car"))
    n = data.select("test").labels("car").sum()
    missed = wrong["car"].sum()
    assert counts == [f"{missed} of {n}", f"{wrong.height - missed} of {600 - n}"]
    assert set(checked.scores.table["run"]) == {"model", *BASELINES}
    assert set(checked.notes) == {
        'Predictions: 1,200 images, logits (column "logit")',
        "split test: 1 of 1 tasks have at least 20 images out of context",
    }
    assert checked.answer.left_out == [("no predictions", ["road", "tree"])]
    for searched, ending in ((True, "; slices were still searched"), (False, "")):
        few = SimpleNamespace(tasks=[])
        rows = checked.findings.table
        reasons = left_out(["car"], data.classes, checked.suite, few, rows, 999, searched=searched)
        assert reasons[0][0] == f"fewer than 999 images are out of context{ending}"
        assert re.fullmatch(r"car \(\d+ images\)", reasons[0][1][0])
    line = "Left out: 2 classes: no predictions"
    assert f"\n{line}; all on the page" in repr(checked)
    assert f"<details><summary>{line}</summary>" in checked.page.read_text()
    assert "page: " in repr(checked)


def test_a_frame_is_made_a_dataset_first():
    frame = pl.DataFrame({"image_id": [1, 2], "car": [0, 1]})
    for act in (
        lambda: nooch.find(frame, "ce"),
        lambda: nooch.load_dataset(frame),
    ):
        fails(act, "of type DataFrame", "nooch.dataset(frame)", kind=WrongTypeError)


def test_options_of_tables_are_about_annotations(folder, run_cli, tmp_path):
    command = f"check {folder / 'dataset'} {folder / 'model.csv'} --out {tmp_path / 'out'}"
    for hint in ("--label car", "--split-values 0=train", "--blank-is-no"):
        run_cli(f"{command} {hint}").refused("is a dataset", "leave out --")
    assert not (tmp_path / "out").exists()


def test_cues_have_intervals_and_shares(folder, run_cli, tmp_path):
    run_cli(f"find {folder / 'dataset'} --tasks car --stability 40 --out {tmp_path / 's'}").ok()
    stable = nooch.load_suite(tmp_path / "s").header.criteria["ce"].stability
    assert [(one.cue, one.share) for one in stable["car"]] == [("road", 1.0)]
    shown = run_cli(f"show {tmp_path / 's'}").out
    assert "100%" in shown
    assert "near alpha" not in shown
    assert "95% interval" in shown
    content = run_cli(f"show {tmp_path / 's'} --format json").json
    assert content["criteria"]["ce"]["stability"]["car"][0]["cue"] == "road"
    assert not content["criteria"]["ce"]["stability"]["car"][0]["near_alpha"]
    run_cli(f"find {folder / 'dataset'} --tasks car --out {tmp_path / 'plain'}")
    assert "stability" not in (tmp_path / "plain/suite.json").read_text()
    few = run_cli(f"find {folder / 'dataset'} --stability 3 --out {tmp_path / 'x'}")
    few.refused("at least 20")
    run_cli(f"check {folder / 'dataset'} p.csv --alpha 5 --out {tmp_path / 'x'}").refused(
        "--alpha: is 5", "did you mean 0.05?"
    )


def test_cues_near_alpha_and_small_sets_are_marked(data, run_cli, tmp_path):
    """A class whose A is at alpha is a cue in half of the resamples; the suite says so all over."""
    alpha = nooch.CE().fit(data.select("train")).strength("road", "car") - 1e-6
    save_dataset(data, tmp_path / "data")
    planted_predictions(data).write_csv(tmp_path / "model.csv")
    asked = tmp_path / "data", tmp_path / "model.csv"
    checked = check(*asked, tmp_path / "out", alpha=alpha, bootstrap=0)
    (stable,) = checked.suite.header.criteria["ce"].stability["car"]
    assert stable.near_alpha
    note = f"cues near alpha: road of car ({stable.share:.0%} of resamples)"
    assert note in checked.notes
    page = (tmp_path / "out/report/index.html").read_text()
    assert note in page
    assert "near alpha" in page
    shown = run_cli(f"show {tmp_path / 'out/suite'}").out
    assert f"{stable.share:.0%} near alpha" in shown
    some, criteria = data.select(rows=np.arange(90)), {"ce": nooch.CE(cues={"car": ["road"]})}
    few = nooch.find(some, criteria, tasks=["car"], splits=["test"])
    save_suite(few, tmp_path / "few")
    record = few.record("ce", "car", "test")
    assert record.hard_positives < 20
    shown = run_cli(f"show {tmp_path / 'few'}").out
    assert "fewer than 20 images" in shown
    assert f" {record.hard_positives}*" in shown
    report_of(few, tmp_path / "page")
    assert f">{record.hard_positives}*</span>" in (tmp_path / "page/index.html").read_text()


def test_the_command_prints_sentences_and_fails_if_asked(folder, run_cli, tmp_path):
    command = f"check {folder / 'dataset'} {folder / 'model.csv'} --bootstrap 0 --criterion ce"
    done = run_cli(f"{command} --out {tmp_path / 'a'}").ok()
    assert "The model misses cars without a road" in done.out
    assert "also: " not in done.out
    assert done.out.count("without a road") == 2  # the verdict, and the finding
    assert f"page: {tmp_path / 'a' / 'report' / 'index.html'}" in done.out.replace("\n", "")
    failed = run_cli(f"{command} --out {tmp_path / 'b'} --fail-if context --format json")
    assert failed.code == 1
    (one,) = failed.json["failed"]
    assert (one["condition"], one["run"], one["value"]) == ("context", "model", 1)
    assert {row["verdict"] for row in failed.json["findings"]} == {"worse"}
    conditions = "--fail-if 'auc@hard[ce,car]<0.99' --fail-if 'f1@hard[ce,car]<1'"
    scored = run_cli(f"{command} --out {tmp_path / 'c'} {conditions}")
    assert scored.code == 1
    assert "failed: auc@hard[ce,car]<0.99: model, ce, car, test: auc" in scored.out
    assert "failed: f1@hard[ce,car]<1: model, ce, car, test: f1 on hard is 0." in scored.out
    run_cli(f"{command} --out {tmp_path / 'd'} --fail-if 'f1@hrad<1'").refused("did you mean hard")
    assert not (tmp_path / "d").exists()
    run_cli(f"{command} --out {tmp_path / 'a'}").refused("--overwrite")
    assert run_cli(f"{command} --out {tmp_path / 'a'} --overwrite").code == 0


def test_annotations_are_imported(tmp_path, run_cli):
    """COCO files without a dataset: the check keeps the one that it made."""
    generate(tmp_path, 600, seed=2)
    random = np.random.default_rng(0)
    coco = json.loads((tmp_path / "instances.json").read_bytes())
    ids = [image["id"] for image in coco["images"]]
    table = pl.DataFrame({"image_id": ids, "car": random.normal(size=len(ids))})
    table.write_csv(tmp_path / "noise.csv")
    (tmp_path / "coco").mkdir()
    for name in ("instances.json", "stuff.json"):
        (tmp_path / name).rename(tmp_path / "coco" / name)
    command = f"check {tmp_path / 'coco'} {tmp_path / 'noise.csv'} --scale logit --min-hard 5"
    done = run_cli(f"{command} --bootstrap 0 --out {tmp_path / 'out'}").ok()
    imported = "imported coco: JSON files: instances.json (things), stuff.json (stuff)"
    assert imported in words(done.err)
    made = nooch.load_dataset(tmp_path / "out/dataset")
    assert len(made) == 600
    suite = nooch.load_suite(tmp_path / "out/suite")
    assert suite.source_dataset().fingerprint == made.fingerprint
    page = (tmp_path / "out/report/index.html").read_text()
    assert "<h1>No context is shown to make noise err more often</h1>" in page


def words(text):
    return " ".join(text.split())


def test_the_command_for_slices(folder, run_cli, tmp_path):
    check(folder / "dataset", folder / "model.csv", tmp_path / "out", bootstrap=0, slices=False)
    command = f"slices {tmp_path / 'out' / 'suite'} {folder / 'model.csv'}"
    done = run_cli(f"{command} --out {tmp_path / 'slices.csv'}").ok()
    assert "Images with a road but no car: cars claimed in" in done.out
    assert pl.read_csv(tmp_path / "slices.csv").height > 0
    assert run_cli(f"{command} --format json --min-support 5").json["settings"]["split"] == "test"
    taken = f"--out {tmp_path / 'slices.csv'}"
    for more, text in (("--out x.txt", ".txt"), (taken, "--overwrite")):
        run_cli(f"{command} {more}").refused(text)


def test_tasks_need_enough_hard_images(folder, tmp_path):
    def checked(predictions=folder / "model.csv", **options):
        return lambda: check(folder / "dataset", predictions, tmp_path / "out", **options)

    fails(checked(min_hard=10**6), "no class has 1000000 images out of context")
    words = "'min_hart' is not a keyword of check"
    fails(checked(min_hart=3), words, kind=ParameterError)
    other = pl.read_csv(folder / "model.csv").with_columns(task=pl.lit("cat"))
    fails(checked(other), "there are no predictions for", kind=InputError)
    assert not (tmp_path / "out").exists()


def test_baselines_know_the_prior_and_the_context(data):
    constant, prior, context = baseline_runs(data, ["car", "tree"], "test")
    train, test = data.select("train"), data.select("test")
    assert set(constant.values.ravel()) == {0.5}
    assert set(prior.values[1]) == {train.labels("tree").mean()}
    assert context.tasks == ("car", "tree")
    others = [name for name in data.classes if name != "car"]
    x, images = (np.stack([d.labels(name) for name in others], axis=1) for d in (train, test))
    model = LogisticRegression(tol=1e-10, solver="newton-cholesky").fit(x, train.labels("car"))
    np.testing.assert_allclose(context.values[0], model.decision_function(images), atol=1e-4)


def test_labels_that_exclude_each_other_have_no_context_baseline():
    images = pl.DataFrame({"image_id": range(90), "split": ["train", "test", "test"] * 30})
    areas = csr_array(np.eye(3)[np.arange(90) // 3 % 3])
    data = nooch.Dataset.build(images, ["cat", "dog", "cow"], areas)
    assert [run.run for run in baseline_runs(data, ["cat"], "test")] == [*BASELINES[:2]]


def test_baselines_are_fitted_where_the_label_is_known(data):
    unknown = np.zeros((len(data), len(data.classes)), bool)
    unknown[::3, data.classes.index("car")] = True
    partly = nooch.Dataset.build(data.images, data.classes, data.areas, unknown=unknown)
    known = data.select(rows=~partly.unknown_labels("car"))
    for split in ("test", "all"):
        of = [one if split == "test" else _without_splits(one) for one in (partly, known)]
        (_, *got), (_, *expected) = (baseline_runs(one, ["car"], split) for one in of)
        same = np.isin(got[0].image_ids, expected[0].image_ids)
        for mine, other in zip(got, expected, strict=True):
            np.testing.assert_allclose(mine.values[:, same], other.values)


def _without_splits(data):
    return replace(data, images=data.images.with_columns(split=pl.lit("all")))


def test_without_splits_no_image_is_predicted_by_its_own_fit(data):
    whole = _without_splits(data)
    suite = nooch.find(whole, {"ce": nooch.CE()}, tasks=["car"])
    context = baseline_runs(whole, ["car"], "all")[2]
    assert len(np.unique(context.values)) > 2
    scores = nooch.evaluate(suite, context)
    assert scores.value("auc", "hard") < 0.2
    assert scores.value("auc", "all") > 0.6


def test_many_tasks_have_fewer_resamples_by_default(tmp_path):
    random, names = np.random.default_rng(0), [f"class_{i}" for i in range(21)]
    areas = np.where(random.random((300, 22)) < 0.5, 0.1, 0)
    areas[:, 0] *= 6
    images = pl.DataFrame({"image_id": range(300), "split": ["train", "test"] * 150})
    data = nooch.Dataset.build(images, ["road", *names], csr_array(areas))
    answers = pl.DataFrame({"image_id": range(300), **dict.fromkeys(names, 1.0)})
    options = {"reading": {"scale": "logit"}, "min_hard": 1, "stability": 0, "slices": False}
    checked = check(data, answers, tmp_path / "out", baselines=False, **options)
    assert len(checked.suite.tasks) == 21
    assert checked.scores.settings["bootstrap"] == 200
    assert "intervals use 200 resamples (more than 20 tasks)" in checked.notes


def _answers(data, *, share, seed=0):
    """Planted predictions in words, about a share of the images."""
    rows = planted_predictions(data).with_columns(
        answer=pl.when(pl.col("logit") > 0).then(pl.lit("Yes.")).otherwise(pl.lit("No, none."))
    )
    asked = np.random.default_rng(seed).random(len(rows)) < share
    return rows.filter(pl.Series(asked)).select("image_id", "task", "answer")


def test_answers_in_words_are_checked_as_predictions_are(folder, data, run_cli, tmp_path):
    """Of all images, every error rate and slice is that of the same answers as logits."""
    _answers(data, share=1).write_ndjson(tmp_path / "model.jsonl")
    checked = [
        check(folder / "dataset", file, tmp_path / name, bootstrap=0, min_hard=5)
        for name, file in (("a", folder / "model.csv"), ("b", tmp_path / "model.jsonl"))
    ]
    first, second = checked
    assert first.findings.table.equals(second.findings.table)
    assert first.slices.table.equals(second.slices.table)
    assert first.errors == second.errors
    assert not any("unknown" in note for note in second.notes)
    for subset in ("hard_positive", "hard_negative"):
        which = {"criterion": "ce", "task": "car", "run": "model"}
        error = [one.scores.value("error", subset, **which) for one in checked]
        assert error[0] == error[1]
    page = (tmp_path / "b/report/index.html").read_text()
    assert page.index("<h1>The model ") < page.index("model, ce: yes to an absent object")
    assert "<q>Yes.</q>" in page
    assert "<td>road</td>" in page


def test_a_check_says_how_many_answers_are_unknown(folder, data, run_cli, tmp_path):
    unread = pl.when(pl.int_range(pl.len()) % 10 == 0).then(pl.lit("Hm.")).otherwise("answer")
    _answers(data, share=1).with_columns(answer=unread).write_ndjson(tmp_path / "model.jsonl")
    asked = folder / "dataset", tmp_path / "model.jsonl"
    checked = check(*asked, tmp_path / "out", bootstrap=0, min_hard=5)
    share = "model: 10.0% of the answers are unknown and count as wrong"
    assert share in checked.notes
    scores = checked.scores.table.filter(pl.col("interval") == "unknown")
    assert scores["run"].unique().to_list() == ["model"]
    assert scores["value"].null_count() == scores.height
    assert share in " ".join(run_cli("slices {} {}".format(*asked)).ok().err.split())


def test_unreadable_answers_do_not_pass_the_gate(folder, data, run_cli, tmp_path):
    """Right answers in the usual context that become unreadable hide no finding."""
    rows = _answers(data, share=1)
    usual = data.images.select("image_id", usual=data.labels("car") == data.labels("road"))
    rows = rows.join(usual, on="image_id", maintain_order="left").with_columns(
        answer=pl.when(pl.col("usual") & (pl.int_range(pl.len()) % 2 == 0)).then(pl.lit("Hm."))
        .otherwise("answer")
    )  # fmt: skip
    rows.drop("usual").write_ndjson(tmp_path / "model.jsonl")
    command = f"check {folder / 'dataset'} {tmp_path / 'model.jsonl'} --bootstrap 0 --min-hard 5"
    done = run_cli(f"{command} --no-slices --fail-if context --out {tmp_path / 'out'}")
    assert done.code == 1
    assert "failed: context: model, car, test: 1 finding: " in done.out


def test_a_sample_is_compared_within_the_images_asked_about(folder, data, run_cli, tmp_path):
    rows = _answers(data, share=0.6)
    rows.write_ndjson(tmp_path / "model.jsonl")
    command = f"check {folder / 'dataset'} {tmp_path / 'model.jsonl'} --bootstrap 0 --min-hard 5"
    done = run_cli(f"{command} --out {tmp_path / 'out'}").ok()
    assert "claims cars in images with a road but no car" in done.out
    test = data.select("test")
    asked = rows.join(test.images, on="image_id").sort("image_id")
    part = test.select(image_ids=asked["image_id"].to_list())
    wrong = (asked["answer"] == "Yes.").to_numpy() != part.labels("car")
    road, car = part.labels("road"), part.labels("car")
    table = pl.read_parquet(tmp_path / "out/findings.parquet").filter(side="negative")
    found = table.select("n_misleading", "rate_misleading", "n_usual", "rate_usual").row(0)
    misleading, usual = ~car & road, ~car & ~road
    rates = wrong[misleading].mean(), wrong[usual].mean()
    counts = misleading.sum(), pytest.approx(rates[0]), usual.sum(), pytest.approx(rates[1])
    assert found == counts
    assert f"{wrong[car].sum()} of {car.sum()}" in done.out
    # a file of questions says which image and task an answer is about
    texts = [
        {
            "question_id": n,
            "image": str(image),
            "label": "no",
            "text": "Is there a car in the image?",
        }
        for n, image in enumerate(rows["image_id"])
    ]
    (tmp_path / "asked.json").write_text("\n".join(map(json.dumps, texts)))
    unnamed = rows.select(pl.int_range(pl.len()).alias("question_id"), "answer")
    unnamed.write_ndjson(tmp_path / "bare.jsonl")
    bare = f"check {folder / 'dataset'} {tmp_path / 'bare.jsonl'} --bootstrap 0 --min-hard 5"
    run_cli(f"{bare} --out {tmp_path / 'no'}").refused(
        "the answers do not name images and tasks", "bare.jsonl", "--questions"
    )
    assert not (tmp_path / "no").exists()
    again = f"{bare} --questions {tmp_path / 'asked.json'} --out {tmp_path / 'again'}"
    files = [text | {"image": f"{text['image']}.jpg"} for text in texts]
    (tmp_path / "files.json").write_text("\n".join(map(json.dumps, files)))
    run_cli(again.replace("asked.json", "files.json")).refused("the file names are unknown")
    run_cli(again).ok()
    again = pl.read_parquet(tmp_path / "again/findings.parquet").filter(side="negative")
    assert again.drop("run").equals(table.drop("run"))
    assert "Is there a car in the image?" in (tmp_path / "again/report/index.html").read_text()


def test_labels_without_areas_are_checked_by_the_context_that_they_are(data, folder, tmp_path):
    presence = data.areas.copy()
    presence.data[:] = np.nan
    labels = replace(data, areas=presence)
    checked = check(labels, folder / "model.csv", tmp_path / "out", bootstrap=0)
    assert list(checked.suite.criteria) == ["context"]
    assert any("areas are unknown" in note for note in checked.notes)
    table = checked.findings.table
    assert not table["by_size"].any()
    road = table.filter(task="car", cue="road", side="positive").row(0, named=True)
    test, ids = labels.select("test"), planted_predictions(data)
    without = test.labels("car") & ~test.labels("road")
    assert road["n_misleading"] == without.sum()
    answers = dict(ids.filter(task="car").select("image_id", "logit").rows())
    missed = [answers[i] <= 0 for i in test.image_ids[without].tolist()]
    assert road["rate_misleading"] == pytest.approx(np.mean(missed))
    assert road["verdict"] == "worse"
    assert "baseline: context only" in set(checked.scores.table["run"])
    both = check(data, folder / "model.csv", tmp_path / "both", bootstrap=0)
    assert list(both.suite.criteria) == ["ce", "context"]
    # what the areas say, presence does not say again
    rows = both.findings.table.filter(task="car", cue="road")
    assert set(rows["criterion"]) == {"ce"}
    only = check(data, folder / "model.csv", tmp_path / "one", bootstrap=0, criterion=["context"])
    assert list(only.suite.criteria) == ["context"]
    no = {"out": tmp_path / "no", "criterion": ["sea"]}
    words = "'sea' is not a criterion"
    fails(lambda: check(data, folder / "model.csv", **no), words, kind=ParameterError)


def test_permuted_labels_have_no_context_and_no_finding_is_confirmed(tmp_path):
    random, n = np.random.default_rng(0), 3000
    present = random.random((n, 6)) < [0.4, 0.3, 0.3, 0.2, 0.3, 0.4]
    images = pl.DataFrame({"image_id": range(n), "split": ["train", "test"] * (n // 2)})
    classes = [f"c{k}" for k in range(6)]
    labels = nooch.Dataset.build(images, classes, csr_array(np.where(present, np.nan, 0.0)))
    test = labels.select("test")
    said = np.stack([test.labels(name) for name in classes], axis=1)
    said ^= random.random(said.shape) < 0.15
    run = nooch.Predictions.from_arrays(4.0 * said - 2, test.image_ids, classes, scale="logit")
    checked = check(labels, run, tmp_path / "out", bootstrap=0, criterion=["context"])
    table = checked.findings.table
    assert table.height
    assert not table["verdict"].is_in(["worse", "better"]).any()
    assert not checked.slices.table["confirmed"].any()
    aucs = []
    for key in checked.suite.keys:
        one = checked.suite.set(*key)
        aucs.append(auc(one.labels, one.support))
    assert np.mean(aucs) == pytest.approx(0.5, abs=0.02)


def test_a_frame_is_checked_and_conditions_judge_the_named_runs(data, tmp_path):
    """The baselines of check are compared with, and never fail a gate."""
    ids = data.images["image_id"].cast(pl.String)
    labels = {name: data.labels(name).astype(int) for name in data.classes}
    frame = data.images.select("split").with_columns(image=ids, **labels)
    asked = frame, planted_predictions(data)
    gate = ["context", "auc@hard<0.99"]
    checked = check(*asked, tmp_path / "a", bootstrap=0, slices=False, tasks="car", fail_if=gate)
    judged = [(verdict.condition.text, verdict.run) for verdict in checked.scores.verdicts]
    assert dict.fromkeys(judged) == dict.fromkeys((text, "predictions") for text in gate[::-1])
    assert set(checked.scores.table["run"]) == {"predictions", *BASELINES}
    # classes that are not asked for lack nothing
    assert checked.answer.left_out == []
    assert nooch.load_dataset(tmp_path / "a" / "dataset").classes == data.classes
    fails(lambda: check(*asked), "check needs out", "`out`", kind=WrongTypeError)


def test_context_is_one_condition_of_check_and_evaluate_and_counts_findings(
    folder, run_cli, tmp_path
):
    """A class and cue is one finding, whatever its sides; labels that are answers have none."""
    model, out = folder / "model.csv", tmp_path / "out"
    words = f"check {folder / 'dataset'} {model} --out {out} --bootstrap 0 --fail-if context"
    done = run_cli(f"{words} --format json")
    assert pl.read_parquet(out / "findings.parquet").filter(verdict="worse").height > 1
    words = f"evaluate {out / 'suite'} {model} --fail-if context --fail-if 'auc@all<0'"
    again = run_cli(f"{words} --format json")
    scores = nooch.evaluate(out / "suite", model, fail_if=["context"])
    by_python = [(v.run, v.value, v.fired, v.reason) for v in scores.verdicts]
    (one,) = done.json["failed"]
    assert again.json["failed"] == [one]
    assert by_python == [("model", 1.0, True, one["reason"])]
    assert one["reason"].startswith("1 finding: The model misses cars without a road")
    assert (done.code, again.code) == (1, 1)
    # at a threshold that nothing is above, cars are missed in all contexts
    none = nooch.evaluate(out / "suite", model, fail_if=["context"], threshold=1)
    assert [(v.value, v.fired, v.reason) for v in none.verdicts] == [(0.0, False, "0 findings")]
    assert run_cli(f"{words} --threshold 1").ok().err.endswith("fires --fail-if\n")
    fails(lambda: nooch.evaluate(out / "suite", model, fail_if=["worst"]), "worse, context, or",
          kind=ParameterError)  # fmt: skip


def made_of(suite):
    return suite.header.criteria["context"].restored().criterion.columns


def test_named_columns_are_the_context_of_a_check(folder, tmp_path, run_cli, monkeypatch):
    """Of a table, where they are no labels, and of a dataset whose labels are context, too."""
    monkeypatch.chdir(tmp_path)
    draw = np.random.default_rng(2)
    n = 900
    site, scanner = (draw.choice(names, n) for names in (["North", "South"], ["GE", "Siemens"]))
    ill = draw.random(n) < np.where(scanner == "GE", 0.2, 0.5)
    said = np.where(ill & (draw.random(n) > np.where(scanner == "GE", 0.5, 0.1)), 0.9, 0.1)
    columns = {"site": site, "scanner": scanner, "sex": draw.choice(["f", "m"], n)}
    table = {"image": [f"{i}.png" for i in range(n)], "malignant": ill.astype(int), **columns,
             "patient": np.arange(n) // 3}  # fmt: skip
    pl.DataFrame(table).with_columns(contrast=ill.astype(int)[::-1]).write_csv("t.csv")
    pl.DataFrame({"image_id": table["image"], "malignant": said}).write_csv("p.csv")
    # columns of texts and 0 and 1 may be labels, unless they are the context
    assert "--label malignant,contrast" in run_cli("check t.csv p.csv --out asked").err
    named = "check t.csv p.csv --context scanner,site,contrast --bootstrap 0 --group patient"
    done = run_cli(f"{named} --label malignant --format json --out one").ok()
    assert "the context is scanner, site, contrast" in done.json["notes"]
    assert " from GE scanners " in done.json["verdict"]
    about = {row["phi"] for row in done.json["slices"]}
    assert about
    assert not any("sex" in phi or "patient" in phi for phi in about)
    # the suite's groups and context are those of what is made with it
    again = nooch.load_suite("one/suite")
    assert (again.source_dataset().group, again.source_dataset().context) == (
        "patient",
        made_of(again),
    )
    found = nooch.find_slices(again.source_dataset(), "p.csv")
    of_suite = found.table
    # names keep their capitals
    assert not any(re.search(r"\b(ge|siemens|north|south)\b", text) for text in found.sentences(99))
    assert made_of(again) == ("scanner", "site", "contrast")
    # the dataset of the check and an import with them as well
    words = "--context scanner,site,contrast --group patient"
    run_cli(f"import table t.csv imported --label malignant {words}").ok()
    for place in ("one/dataset", "imported"):
        kept = nooch.load_dataset(place)
        assert (kept.group, kept.context) == ("patient", made_of(again))
        assert of_suite.equals(nooch.find_slices(place, "p.csv").table)
        same = run_cli(f"check {place} p.csv --bootstrap 0 --format json --out again --overwrite")
        assert same.ok().json["findings"] == done.json["findings"]
    words = "import table t.csv every --label malignant,contrast --group patient --context"
    run_cli(f"{words} patient").refused("has the groups of images")
    assert not Path("every").exists()
    run_cli(f"{words} all").ok()
    assert nooch.load_dataset("every").context == ("site", "scanner", "sex")
    assert kept.fingerprint == kept.with_context(["sex"]).fingerprint
    assert {"sex", "patient"} < {*kept.attributes}
    for names, words in {
        "malignant": "malignant cannot be context", "image,site": "give --context site",
        "scaner": "did you mean scanner",
    }.items():  # fmt: skip
        run_cli(f"check t.csv p.csv --label malignant --context {names} --out x").refused(words)
    for names, words in {
        "site,patient": "has the groups of images",
        "malignant": "is a class, not a column",
    }.items():
        run_cli(f"check one/dataset p.csv --group patient --out x --context {names}").refused(words)
    run_cli("check t.csv p.csv --attributes site --out x").refused("--attributes")
    # classes that are context of each other, and areas
    data = nooch.load_dataset(folder / "dataset")
    hours = pl.Series("hour", np.arange(len(data)) % 4)
    several = replace(data, images=data.images.with_columns(hours, day=hours // 2))
    given = {"bootstrap": 0, "min_hard": 1, "slices": False}
    few = check(several, folder / "model.csv", "few", context=["hour"], **given)
    assert few.suite.criteria == ("context",)
    assert few.suite.header.criteria["context"].parameters["columns"] == ("hour",)
    both = check(
        several, folder / "model.csv", "both", context=["hour"], criterion=["ce", "context"],
        **given,
    )  # fmt: skip
    assert both.suite.criteria == ("ce", "context")
    # a criterion without columns does not lose them
    save_dataset(several, "several")
    given |= {"context": ["hour"], "criterion": ["ce"]}
    check("several", folder / "model.csv", "areas", **given)
    source = nooch.load_suite("areas").source_dataset()
    assert (source.context, source.context_columns) == (("hour",), ("hour",))
    # one criterion for one class of images, named or by default
    done = run_cli("check one/dataset p.csv --context all --bootstrap 0 --out all").ok()
    assert "the context is site, scanner, sex, contrast" in done.err


def test_the_same_images_are_one_finding_of_the_rarer_class(tmp_path):
    """What the model misses of one of two classes, it claims of the other."""
    draw = np.random.default_rng(1)
    ids, scanner = np.arange(900), draw.choice(["GE", "Siemens"], 900)
    for rare, common in (("malignant", "normal"), ("flawed", "ok"), ("a", "b"), ("b", "a")):
        ill = draw.random(900) < np.where(scanner == "GE", 0.2, 0.4)
        table = pl.DataFrame({
            "image_id": ids, "scanner": scanner, "diagnosis": np.where(ill, rare, common),
        })  # fmt: skip
        said = np.where(ill & (draw.random(900) > np.where(scanner == "GE", 0.5, 0.05)), 0.9, 0.1)
        answers = pl.DataFrame({"image_id": ids, rare: said, common: 1 - said})
        hints = Hints(class_column="diagnosis")
        made = check(table, answers, tmp_path / rare, bootstrap=0, hints=hints, min_hard=1)
        findings = [one for one in made.answer.findings if one.kind == "context"]
        assert findings[0].sentence.startswith(f"The model misses {rare} images from GE scanners ")
        missed = {(one.n_wrong, *one.rows.tolist()) for one in findings}
        assert len(missed) == len(findings)
        # both are in the tables
        assert {*made.slices.table.filter("confirmed")["task"]} == {rare, common}


def test_a_scanner_and_a_regression_on_context_are_named(tmp_path):
    """The sentence of a column names its value; a criterion as a whole names what drives it."""
    draw = np.random.default_rng(1)
    ids, scanner = np.arange(1200), draw.choice(["GE", "Siemens"], 1200)
    ill = draw.random(1200) < 0.5
    table = pl.DataFrame({
        "image_id": ids, "split": np.where(ids % 3, "test", "train"), "scanner": scanner,
        "diagnosis": np.where(ill, "malignant", np.where(ids % 2, "normal", "benign")),
    })  # fmt: skip
    wrong = ill & (draw.random(1200) < np.where(scanner == "GE", 0.44, 0.03))
    said = np.where(ill ^ wrong, 0.9, 0.1)
    others = {"normal": (1 - said) * (ids % 2), "benign": (1 - said) * (1 - ids % 2)}
    answers = pl.DataFrame({"image_id": ids, "malignant": said, **others})
    hints = Hints(class_column="diagnosis")
    one = check(table, answers, tmp_path / "one", bootstrap=0, hints=hints)
    assert one.answer.verdict.startswith("The model misses malignant images from GE scanners ")
    # four labels, each too weak for a cue, and errors where most are absent
    shown = draw.random((1200, 4)) < np.where(ill, 0.45, 0.3)[:, None]
    labels = {
        name: shown[:, i].astype(int) for i, name in enumerate(["road", "tree", "sea", "sky"])
    }
    missed = ill & (shown.sum(axis=1) < 2) & (draw.random(1200) < 0.5)
    table = table.select("image_id", "split").with_columns(car=ill.astype(int), **labels)
    answers = pl.DataFrame({"image_id": ids, "car": np.where(ill ^ missed, 0.9, 0.1)})
    whole = check(table, answers, tmp_path / "whole", bootstrap=0, slices=False)
    (finding,) = whole.answer.findings
    assert finding.composite
    assert finding.sentence.startswith("The model misses cars outside their usual context ")
    assert finding.detail.startswith("mostly no ")
    for image in finding.shown:
        present = {name for name in labels if table.filter(image_id=int(image.image_id))[name][0]}
        usual = image.where == finding.rates[1].where
        assert set(image.context) <= (
            present if usual else {f"no {name}" for name in labels if name not in present}
        )
    assert any(image.context for image in finding.shown)
    text = f'<span class="badge none">{finding.shown[0].context[0]}</span>'
    assert text in whole.page.read_text()


def test_a_condition_is_one_more_criterion_of_a_check(folder, data, run_cli, tmp_path):
    """Its rates are those counted by hand, its finding names it, and a later find takes it."""
    condition = "present(road) != y AND NOT present(tree)"
    command = f"check {folder / 'dataset'} {folder / 'model.csv'} --bootstrap 0 --format json"
    done = run_cli(f"{command} --phi '{condition}' --out {tmp_path / 'out'}").ok()
    rows = [row for row in done.json["findings"] if row["criterion"] == "attribute"]
    part = data.select("test")
    y, road, tree = (part.labels(name, unknown=False) for name in ("car", "road", "tree"))
    hard = (y != road) & ~tree
    counts = {(row["side"], row["n_misleading"], row["n_usual"]) for row in rows}
    assert counts == {
        (side, (of & hard).sum(), (of & ~hard).sum())
        for side, of in (("positive", y), ("negative", ~y))
    }
    found = [row for row in done.json["numbered"] if condition in row["sentence"]]
    assert found
    for row in found:
        marks = nooch.Attribute(row["phi"]).fit(part).phi(part, "car")
        assert marks.sum() == row["n"]
    run_cli(f"{command} --phi 'nope = 1' --out {tmp_path / 'x'}").refused("knows no 'nope'")


@pytest.mark.parametrize(
    ("phi", "where"),
    [
        ("word('trailer')", "with 'trailer' in the caption"),
        ("present(tree) AND NOT present(road)", "with a tree and without a road"),
        ("place = 1", "with place = 1"),
        ("NOT word('trailer')", "without 'trailer' in the caption"),
        ("scanner = 'GE' AND (age >= 66.1)", "from GE scanners and with age at least 66.1"),
        ("scanner != 'GE'", "not from GE scanners"),
        ("NOT (47 <= age)", "with age less than 47"),
        ("site IN ('A', 'B') AND NOT night", "with site = A or B and without night"),
        ("word('a') AND word('b')", "with 'a' and 'b' in the caption"),
        ("night = FALSE", "without night"),
        ('area("sky-other") < 0.025', "with sky on less than 2.5%"),
        ("unseen(camera)", "with an unseen camera"),
        ("site IS NULL", "without a value of site"),
        ("age IS NOT NULL AND stage = 2", "with a value of age and stage = 2"),
        ("age IS NOT NULL AND age <= 47.3", "with age at most 47.3"),
        ("place != y", "where place != y"),
        ("y = 1", "where y = 1"),
        ("present(tree) OR night", "where present(tree) OR night"),
        ("present(tree) AND ln(age) > 3", "where present(tree) AND ln(age) > 3"),
    ],
)
def test_a_condition_is_named_in_words_where_it_has_some(phi, where):
    row = {"criterion": "attribute", "cue": None, "task": "car", "one_label": False, "phi": phi}
    assert context_words(row | {"side": "positive"})[0] == f"cars {where}"
    said, misleading, usual = context_words(row | {"side": "negative"})
    assert (said, misleading, usual) == (f"cars in images {where} but no car", where, "elsewhere")
