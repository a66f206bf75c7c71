"""Runs against a baseline: pairs, verdicts by a slow count, equal runs, conditions, JUnit."""

from dataclasses import replace
from xml.etree import ElementTree as ET

import numpy as np
import polars as pl
import pytest
from oracles import dataset_of
from planted import planted_data, planted_detector, planted_predictions
from refusals import fails
from scipy.stats import binomtest

import nooch
from nooch.base.errors import ParameterError
from nooch.cli.gate import junit_report
from nooch.data import save_dataset
from nooch.evaluation import Predictions, evaluate, parse_condition
from nooch.evaluation.answer_sample import answers_as_predictions
from nooch.evaluation.answers import Answers
from nooch.evaluation.comparison import compare_runs, paired_errors
from nooch.evaluation.findings import compare_contexts
from nooch.evaluation.judged import judge_runs
from nooch.evaluation.metrics.proportions import paired_interval
from nooch.suites import save_suite
from nooch.suites.questions import Draw, draw_questions

TASKS = ("car", "boat", "cow")
CUES = ("road", "water", "grass")


def _data(n=600, seed=0, scenes=1):
    """Three classes, each mostly with its own cue; scenes of so many alike images."""
    random = np.random.default_rng(seed)
    images = []
    for i in range(n):
        if i % scenes == 0:
            image = {}
            for task, cue in zip(TASKS, CUES, strict=True):
                has = random.random() < 0.4
                image |= {task: 0.2} if has else {}
                image |= {cue: 0.5} if random.random() < (0.7 if has else 0.3) else {}
        images.append(image)
    # a scene is in one split
    splits = ["test" if i // scenes % 4 else "train" for i in range(n)]
    data = dataset_of(images, [*TASKS, *CUES], splits)
    scene = pl.Series("scene", [f"s{i // scenes}" for i in range(n)])
    built = nooch.Dataset.build(data.images.with_columns(scene), data.classes, data.areas)
    return built.grouped("scene") if scenes > 1 else built


def _run(name, data, random, rate=0.3, scenes=1, worse=None):
    """Errors at a rate, the same in a scene; on hard positives of ``worse`` three times as many."""
    labels = np.stack([data.labels(task) for task in TASKS])
    cues = np.stack([data.labels(cue) for cue in CUES])
    rates = np.full(labels.shape, rate)
    if worse is not None:
        rates[TASKS.index(worse)][(labels & ~cues)[TASKS.index(worse)]] = 3 * rate
    drawn = random.random((len(TASKS), len(data) // scenes)).repeat(scenes, axis=1)
    values = np.where(labels ^ (drawn < rates), 1.0, -1.0)
    return Predictions(name, data.images["image_id"], TASKS, values, "logit")


def _compare(suite, data, runs, baseline="old"):
    keys = [key for key in suite.keys if key[2] == "test"]
    return compare_runs(suite, judge_runs(runs, data, "test"), keys, baseline)


def _suite(data):
    cues = {task: [cue] for task, cue in zip(TASKS, CUES, strict=True)}
    return nooch.find(data, {"ce": nooch.CE(cues=cues)}, tasks=TASKS, splits=["test"])


def _counted(suite, data, new, old, task, side):
    """Images of a side, and those wrong in one run alone, one image after the other."""
    hard = suite.set("ce", task, "test")
    n = broken = fixed = 0
    position = {image: i for i, image in enumerate(data.images["image_id"].to_list())}
    of_task = TASKS.index(task)
    for image, label, is_hard in zip(hard.image_ids, hard.labels, hard.hard, strict=True):
        if is_hard and label == (side == "positive"):
            wrong = [(run.values[of_task, position[image]] > 0) != label for run in (new, old)]
            n, broken, fixed = (
                n + 1, broken + (wrong[0] and not wrong[1]), fixed + (wrong[1] and not wrong[0])
            )  # fmt: skip
    return n, broken, fixed


@pytest.mark.parametrize("seed", range(4))
def test_rows_are_those_of_a_slow_count(seed):
    random = np.random.default_rng(seed)
    data = _data(seed=seed)
    suite, old = _suite(data), _run("old", data, random, 0.2)
    new = _run("new", data, random, 0.2, worse=TASKS[seed % 2])
    result = _compare(suite, data, [old, new])
    rows = result.table.to_dicts()
    assert {(row["task"], row["side"]) for row in rows} == {
        (task, side) for task in TASKS for side in ("positive", "negative")
    }
    for row in rows:
        n, broken, fixed = _counted(suite, data, new, old, row["task"], row["side"])
        assert (row["n"], row["n_broken"], row["n_fixed"]) == (n, broken, fixed)
        p = binomtest(broken, broken + fixed).pvalue if broken + fixed else 1
        assert row["p"] == pytest.approx(p, abs=1e-9)
        assert row["difference"] == pytest.approx((broken - fixed) / n)
        ends = paired_interval(np.array(broken / n), np.array(fixed / n), np.array(n))
        assert (row["low"], row["high"]) == pytest.approx(tuple(map(float, ends)))
    # Holm, step by step
    largest = 0.0
    for k, row in enumerate(sorted(rows, key=lambda row: row["p"])):
        largest = max(largest, min(1.0, row["p"] * (len(rows) - k)))
        assert row["p_adjusted"] == pytest.approx(largest)
        shown = largest <= 0.05
        change = (row["low"] > 0) - (row["high"] < 0)
        expected = ("worse" if change > 0 else "better") if shown and change else "unchanged"
        assert row["verdict"] == expected
    assert rows[0]["verdict"] == "worse"
    assert rows[0]["task"] == TASKS[seed % 2]
    back = _compare(suite, data, [old, new], "new").table
    swapped = {"worse": "better", "better": "worse", "unchanged": "unchanged"}
    keyed = {(row["task"], row["side"]): row for row in back.to_dicts()}
    for row in rows:
        other = keyed[row["task"], row["side"]]
        assert other["verdict"] == swapped[row["verdict"]]
        assert other["low"] == pytest.approx(-row["high"], abs=1e-9)


@pytest.mark.parametrize("scenes", [1, 4])
def test_equal_runs_are_rarely_called_worse_and_a_drop_is_found(scenes):
    """Two runs with the same rates; errors of a scene are the same where images are in groups."""
    data = _data(720 * scenes, scenes=scenes)
    suite = _suite(data)
    false = found = 0
    for seed in range(200):
        random = np.random.default_rng(seed)
        old, new = (_run(name, data, random, scenes=scenes) for name in ("old", "new"))
        false += "worse" in _compare(suite, data, [old, new]).table["verdict"]
        if seed < 40:
            drop = _run("new", data, random, scenes=scenes, worse="boat")
            row = _compare(suite, data, [old, drop]).table.row(0, named=True)
            found += (row["task"], row["side"], row["verdict"]) == ("boat", "positive", "worse")
    assert false <= 10
    assert found >= 38


@pytest.mark.parametrize("scenes", [1, 4])
def test_drawn_questions_count_by_their_weights(scenes):
    """As many questions of each label, criterion and subset, which stand for unequal numbers."""
    data = _data(8000, scenes=scenes)
    cues = [dict(zip(TASKS, ([c] for c in of), strict=True)) for of in (CUES, CUES[1:] + CUES[:1])]
    criteria = {name: nooch.CE(cues=of) for name, of in zip(("ce", "other"), cues, strict=True)}
    suite = nooch.find(data, criteria, tasks=TASKS, splits=["test"])
    asked = draw_questions(suite, suite.keys, Draw(per_set=60)).frame
    random = np.random.default_rng(0)
    wrong, runs = {}, []
    for name, extra in {"old": 0.0, "new": 0.4}.items():
        rate = 0.2 + extra * asked["other"].str.starts_with("hard").to_numpy()
        wrong[name] = random.random(len(asked)) < rate
        yes = (asked["label"].cast(pl.Boolean).to_numpy() ^ wrong[name]).astype(float)
        frame = asked.select("image_id", "task", "weight", answer=pl.lit("x"), yes=pl.Series(yes))
        answers = Answers(name, frame.with_columns(probability=pl.lit(None, pl.Float64)), "word")
        runs.append(answers_as_predictions(answers))

    def mean(errors, row):
        key = f"hard_{row['side']}"
        rows = ((asked["task"] == row["task"]) & (asked[row["criterion"]] == key)).to_numpy()
        return np.average(errors[rows], weights=asked["weight"].to_numpy()[rows])

    judged = judge_runs(runs, data, "test", suite=suite)
    table = compare_runs(suite, judged, suite.keys, "old").table
    assert table.height == 6
    for row in table.to_dicts():
        assert row["rate"] == pytest.approx(mean(wrong["new"], row))
        assert row["rate_before"] == pytest.approx(mean(wrong["old"], row))
        assert row["difference"] == pytest.approx(row["rate"] - row["rate_before"])
        assert row["rate_low"] < row["rate"] < row["rate_high"]
        assert row["low"] < row["difference"] < row["high"]
    for row in compare_contexts(suite, judged, [*suite.keys]).table.to_dicts():
        assert row["rate_misleading"] == pytest.approx(mean(wrong[row["run"]], row))
        assert row["low"] < row["rate_misleading"] - row["rate_usual"] < row["high"]


def test_objects_are_paired_whatever_the_order_of_the_images():
    data, run, _ = planted_detector()
    order = np.random.default_rng(0).permutation(len(data))
    frame = pl.DataFrame({"image_id": run.image_ids, "car": run.values[0]})
    suite = nooch.find(data, "ce", splits=["all"], tasks=["car"])
    judged = judge_runs({"new": run, "old": frame[order]}, data, "all", baseline="old")
    (key,) = suite.keys
    # of an image without boxes to match only whether an object is named is known
    wrong, before, rows = paired_errors(*judged.runs, suite.set(*key), "positive")
    assert len(wrong) == len(before) == len(np.unique(rows))
    same = judge_runs({"new": run, "old": run}, data, "all", baseline="old")
    wrong, before, rows = paired_errors(*same.runs, suite.set(*key), "positive")
    assert len(rows) > len(np.unique(rows))
    assert np.array_equal(wrong, before)
    result = compare_runs(suite, same, [key], "old")
    assert set(result.table["verdict"]) == {"unchanged"}
    assert result.sentences == [
        "new is not shown to be worse than old on any of 1 task; 1 unchanged"
    ]


def test_what_is_not_compared_is_named():
    data = _data(400)
    random = np.random.default_rng(0)
    old, new = (_run(name, data, random) for name in ("old", "new"))
    suite = _suite(data)
    only = Predictions("old", old.image_ids, TASKS[:1], old.values[:1], "logit")
    result = _compare(suite, data, [only, new])
    assert set(result.table["task"]) == {"car"}
    assert "not compared with old: boat, cow" in result.notes[1]
    other = Predictions("new", old.image_ids, TASKS[1:2], old.values[1:2], "logit")
    for runs in ([only], [only, other]):
        fails(lambda runs=runs: _compare(suite, data, runs), "no other run has predictions",
              "`baseline`", kind=ParameterError)  # fmt: skip


@pytest.fixture(scope="module")
def compared():
    data = _data()
    random = np.random.default_rng(1)
    old, new = _run("old", data, random, 0.2), _run("new", data, random, 0.2, worse="car")
    return _suite(data), old, new


def _verdicts(compared, *texts, names=("old", "new"), **asked):
    suite, *runs = compared
    named = dict(zip(names, runs, strict=True))
    given = {"reading": {"ignore_unknown": True}, "metrics": ["error"], **asked}
    return evaluate(suite, named, fail_if=list(texts), **given).verdicts


def test_differences_fire_where_the_interval_is_beyond_the_margin(compared):
    suite, old, new = compared
    scores = evaluate(suite, {"old": old, "new": new}, metrics=["error"],
                      reading={"ignore_unknown": True})  # fmt: skip
    rows = scores.differences.filter(
        pl.col("cue").is_null(), metric="error", subset="hard_positive", criterion="ce"
    )
    ends = {row["task"]: (row["low"], row["high"]) for row in rows.iter_rows(named=True)}
    for margin in (-0.5, 0.0, 0.02, 0.3, 0.9):
        for sign, beyond in ((">", lambda a, b, m: a > m), ("<", lambda a, b, m: b < m)):
            text = f"new error@hard_positive {sign} old {'+' if margin >= 0 else '-'} {abs(margin)}"
            verdicts = _verdicts(compared, text)
            assert {v.task: v.fired for v in verdicts} == {
                task: beyond(*ends[task], margin) for task in TASKS
            }
            assert {v.run for v in verdicts} == {"new"}
    # the same difference from the other side
    (one,) = _verdicts(compared, "new error@hard_positive[ce,car] > old")
    (other,) = _verdicts(compared, "old error@hard_positive[ce,car] < new")
    (third,) = _verdicts(compared, "error@hard_positive[ce,car] > baseline", baseline="old")
    (swapped,) = _verdicts(compared, "old error@hard_positive[ce,car] < new", baseline="old")
    assert one.fired
    assert (one.run, other.run, third.run, swapped.run) == ("new", "old", "new", "old")
    assert one.value == pytest.approx(-other.value) == third.value
    assert swapped.value == pytest.approx(other.value)
    assert other.fired
    assert swapped.fired


def test_a_named_run_alone_is_judged_and_a_named_baseline_only_then(compared):
    assert [v.run for v in _verdicts(compared, "new error@hard[ce,car] > 2")] == ["new"]
    text = "error@hard[ce,car] > 2"
    assert [v.run for v in _verdicts(compared, text)] == ["old", "new"]
    assert [v.run for v in _verdicts(compared, text, baseline="old")] == ["new"]
    assert [v.run for v in _verdicts(compared, f"old {text}", baseline="old")] == ["old"]


def test_names_of_runs_that_look_like_numbers_or_margins(compared):
    condition = "error@hard[ce,car] > "
    names = "resnet", "resnet-50"
    (one,) = _verdicts(compared, f"resnet-50 {condition} resnet", names=names)
    (whole,) = _verdicts(compared, f"resnet {condition} resnet-50 + 0", names=names)
    (less,) = _verdicts(compared, f"resnet-50 {condition} resnet - 0.5", names=names)
    assert (one.run, whole.run, less.run) == ("resnet-50", "resnet", "resnet-50")
    assert one.value == pytest.approx(-whole.value)
    assert "not above 0" not in less.reason
    assert less.reason.endswith("above -0.5")
    (spaced,) = _verdicts(compared, f"my new {condition} 2 + 0", names=("2", "my new"))
    assert spaced.run == "my new"
    for text, named, *words in (
        (f"{condition} resnet-50", names, "is a run, and run resnet with a margin"),
        (f"{condition} 2", ("2", "b"), "2 is a number and a run", "2 + 0 for the run"),
        (f"{condition} half", names, "'half' is neither a number nor a run"),
        (f"{condition} 0.5 0.6", names, "'0.5 0.6' is neither a number nor a run"),
        (f"{condition} old + 0.1", ("a", "b"), "'old + 0.1' is neither a number nor a run"),
        (f"neww {condition} old", ("new", "old"), "'neww' is not a run", "did you mean new"),
    ):
        fails(lambda text=text, named=named: _verdicts(compared, text, names=named), *words,
              kind=ParameterError)  # fmt: skip


def test_runs_that_are_not_compared_are_refused(compared):
    suite, old, new = compared
    runs = {"a": old, "b": new, "c": old}
    asked = {"reading": {"ignore_unknown": True}, "metrics": ["error"], "baseline": "a"}
    for text in ("b error@hard > c", "error@hard > c"):
        fails(lambda text=text: evaluate(suite, runs, fail_if=[text], **asked),
              "is not compared with c", kind=ParameterError)  # fmt: skip
    fails(lambda: _verdicts(compared, "new auc@hard < old"), "only by resamples", "`bootstrap`",
          kind=ParameterError)  # fmt: skip
    with_auc = _verdicts(compared, "new auc@hard[ce,car] < old", bootstrap=50)
    assert [v.condition.metric for v in with_auc] == ["auc"]


def test_worse_needs_a_baseline_and_context_is_no_name_of_a_run(compared):
    suite, _, new = compared
    verdicts = _verdicts(compared, "worse", baseline="old")
    fired = {(v.run, v.task): v.fired for v in verdicts}
    assert fired == {("new", task): task == "car" for task in TASKS}
    asked = {"reading": {"ignore_unknown": True}, "metrics": ["error"]}
    fails(lambda: evaluate(suite, {"new": new}, fail_if=["worse"], **asked), "none is named",
          "`baseline`", "context", kind=ParameterError)  # fmt: skip
    plain, named = (
        [(v.task, v.value, v.fired) for v in
         evaluate(suite, {name: new}, fail_if=["context"], **asked).verdicts]
        for name in ("new", "context")
    )  # fmt: skip
    assert plain == named != []
    assert parse_condition(" context ").text == "context"


@pytest.mark.parametrize(("letters", "listed"), [(3, 2), (60, 1), (200, 0)])
def test_changes_with_long_names_are_not_in_the_sentence(compared, letters, listed):
    suite, old, new = compared
    result = _compare(suite, _data(), [old, new])
    two = result.table.filter(verdict="worse").head(1)
    named = [two.with_columns(task=pl.lit(name * letters)) for name in "xy"]
    (sentence,) = replace(result, table=pl.concat(named)).sentences
    assert sentence.startswith("new is worse than old on 2 of 2 tasks")
    assert sentence.count("missed ") == listed
    assert (" and 1 more" in sentence) == (listed == 1)
    assert len(sentence) < 220


def test_the_report_of_conditions_is_junit(compared):
    bad = "a<b>&\x07\"'"
    texts = "worse", f"{bad} error@hard > baseline", "auc@hard_positive<0"
    verdicts = _verdicts(compared, *texts, baseline="old", names=("old", bad), bootstrap=0)
    root = ET.fromstring(junit_report(verdicts))
    (suite,) = root
    cases = list(suite)
    assert [root.tag, suite.tag, {case.tag for case in cases}] == [
        "testsuites", "testsuite", {"testcase"}
    ]  # fmt: skip
    # each condition and task
    assert len(cases) == len({(c.get("classname"), c.get("name")) for c in cases}) == len(verdicts)
    for condition in texts:
        of = [v for v in verdicts if v.condition.text == condition.strip()]
        assert {v.task for v in of} == {*TASKS}
    for one in (root, suite):
        assert {"name", "tests", "failures", "errors"} <= {*one.attrib}
        assert int(one.get("tests")) == len(cases)
        assert int(one.get("failures")) == sum(v.fired for v in verdicts)
    for case, verdict in zip(cases, verdicts, strict=True):
        assert {*case.attrib} == {"classname", "name", "time"}
        failures = [child.tag for child in case]
        assert failures == ["failure"] * verdict.fired
        for failure in case:
            assert failure.get("message") == failure.text
            assert failure.get("type")


def test_check_opens_with_what_changed(tmp_path, run_cli):
    data = planted_data()
    save_dataset(data, tmp_path / "data")
    (tmp_path / "before").mkdir()
    rows = {"new": planted_predictions(data, missed=0.9, seed=2), "old": planted_predictions(data)}
    for name, frame in rows.items():
        frame.write_csv(tmp_path / f"{name}.csv")
    command = f"check {tmp_path / 'data'} {tmp_path / 'new.csv'} --bootstrap 0 --no-slices"
    report = tmp_path / "gate.xml"
    words = f"{command} --criterion ce --baseline {tmp_path / 'old.csv'} --fail-if worse"
    done = run_cli(f"{words} --out {tmp_path / 'a'} --junit {report}")
    assert done.code == 1
    title = "new is worse than old on 1 of 1 task: missed cars without a road 54% -> "
    assert done.out.startswith(title)
    assert "failed: worse: new, car, test: new misses cars without a road more often" in " ".join(
        done.out.split()
    )
    assert ET.fromstring(report.read_bytes()).get("failures") == "1"
    page = (tmp_path / "a/report/index.html").read_text()
    assert f"<h1>{title.replace(' -> ', chr(0xA0) + chr(0x2192) + chr(0xA0))}" in page
    assert page.index("Worse than old: 1 comparison") < page.index("Context: 1 finding")
    assert page.index("right before, wrong (") < page.index("wrong before, right (")
    again = run_cli(f"{words} --out {tmp_path / 'a'} --overwrite --format json --junit {report}")
    assert again.code == 1
    assert [(one["run"], one["task"]) for one in again.json["failed"]] == [("new", "car")]
    assert {row["verdict"] for row in again.json["comparison"]} == {"worse", "unchanged"}
    # only the new one is looked at for context
    assert {row["run"] for row in again.json["findings"]} == {"new"}
    text = (tmp_path / "a/findings.md").read_text()
    assert text.startswith("## new is worse than old on 1 of 1 task")
    sections = [line[4:] for line in text.splitlines() if line.startswith("### ")]
    assert sections == [
        "Worse than old: 1 comparison", "Better than old: none",
        "No difference from old shown: 1 comparison", "Context: 1 finding",
    ]  # fmt: skip
    both = nooch.check(
        tmp_path / "data", [tmp_path / "new.csv", tmp_path / "old.csv"], tmp_path / "b",
        baseline="new", bootstrap=0, slices=False, criterion=["ce"], fail_if=["worse", "context"],
    )  # fmt: skip
    assert both.answer.verdict.startswith("old is not shown to be worse than new on any of 1 task")
    assert "better on 1" in both.answer.verdict
    # a model of the same name, and the very same answers
    rows["old"].write_csv(tmp_path / "before/new.csv")
    named = nooch.check(
        tmp_path / "data", tmp_path / "new.csv", tmp_path / "c", criterion=["ce"], bootstrap=0,
        baseline=tmp_path / "before/new.csv", slices=False, fail_if=["worse"],
    )  # fmt: skip
    assert [v.fired for v in named.scores.verdicts] == [True]
    same = nooch.check(
        tmp_path / "data", tmp_path / "new.csv", tmp_path / "d", criterion=["ce"], bootstrap=0,
        baseline=tmp_path / "new.csv", slices=False, fail_if=["worse"],
    )  # fmt: skip
    assert set(same.comparison.table["verdict"]) == {"unchanged"}
    run_cli(f"{command} --out {tmp_path / 'e'} --baseline odl").refused("'odl' is not a run")
    run_cli(f"{command} --out {tmp_path / 'e'} --junit {report}").refused("exists")
    other = tmp_path / "other.xml"
    run_cli(f"{command} --out {tmp_path / 'e'} --junit {other}").refused("--fail-if")
    assert not other.exists()


def test_evaluate_judges_runs_against_a_file(tmp_path, run_cli):
    data = planted_data()
    save_suite(nooch.find(data, "ce", tasks=["car"], splits=["test"]), tmp_path / "suite")
    for name, missed in (("new", 0.9), ("old", 0.5)):
        frame = planted_predictions(data, missed=missed).join(
            data.images.filter(split="test"), on="image_id", how="semi"
        )
        frame.write_csv(tmp_path / f"{name}.csv")
    words = f"evaluate {tmp_path / 'suite'} {tmp_path / 'new.csv'} --metrics error"
    asked = f"{words} --baseline {tmp_path / 'old.csv'}"
    conditions = "--fail-if worse --fail-if 'new error@hard_positive > old + 0.02'"
    done = run_cli(f"{asked} {conditions} --junit {tmp_path / 'gate.xml'} --format json")
    assert done.code == 1
    failed = [(one["condition"], one["run"], one["task"]) for one in done.json["failed"]]
    assert failed == [
        ("new error@hard_positive > old + 0.02", "new", "car"), ("worse", "new", "car"),
    ]  # fmt: skip
    assert done.json["conditions"] == 2
    run_cli(f"{asked} --fail-if 'error@hard_negative > old'").ok()


CONDITIONS = (
    "worse", "context", "error@hard_positive > 2", "error@hard_positive[ce,average] > 2",
    "error@hard_positive > baseline + 0.9", "other error@hard_positive > old + 0.9",
)  # fmt: skip


@pytest.fixture(scope="module")
def one_small():
    """Cows are never in a misleading context in the test split."""
    data, random = _data(), np.random.default_rng(1)
    usual = data.labels("cow") == data.labels("grass")
    data = data.select(rows=usual | (data.images["split"] == "train").to_numpy())
    return _suite(data), *(_run(name, data, random) for name in ("old", "new", "other"))


def _of_tasks(run, *tasks):
    rows = [TASKS.index(task) for task in tasks]
    return Predictions(run.run, run.image_ids, tasks, run.values[rows], "logit")


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_condition_that_judges_nothing_of_a_run_fires(one_small, condition):
    suite, old, new, other = one_small
    asked = {"reading": {"ignore_unknown": True}, "metrics": ["error"], "baseline": "old"}

    def verdicts(*runs, text=condition):
        found = evaluate(suite, list(runs), fail_if=[text], **asked).verdicts
        return {v.task: (v.value, v.fired) for v in found if v.run == "other"}

    of_cows = _of_tasks(other, "cow")
    # next to a run that is judged as well
    for runs in ([_of_tasks(old, "cow"), of_cows], [old, new, of_cows]):
        assert {*verdicts(*runs).values()} == {(None, True)}
    # a task next to others is only named
    of_tasks = verdicts(old, other)
    assert of_tasks.pop("cow", (None, False)) == (None, False)
    assert of_tasks
    assert None not in dict(of_tasks.values())
    # what the predictions lack, or the condition names, fires
    if "average" not in condition:
        lacking = verdicts(old, _of_tasks(other, "boat", "cow"))
        assert lacking["car"] == (None, True)
        assert lacking["boat"][0] is not None
    named = condition.replace("positive >", "positive[ce,cow] >")
    assert named == condition or verdicts(old, other, text=named) == {"cow": (None, True)}
    if "other" not in condition:
        fails(lambda: verdicts(old), "old is the only run", kind=ParameterError)


def test_a_gate_that_judges_nothing_fails(tmp_path, run_cli):
    data = planted_data()
    is_test = (data.images["split"] == "test").to_numpy()
    data = data.select(rows=~is_test | (np.cumsum(is_test) <= 40))
    save_dataset(data, tmp_path / "data")
    for name, missed in (("new", 1.0), ("old", 0.0)):
        frame = planted_predictions(data, missed=missed)
        frame.filter(data.images["split"] == "test").write_csv(tmp_path / f"{name}.csv")
    words = f"check {tmp_path / 'data'} {tmp_path / 'new.csv'} --out {tmp_path / 'a'} --min-hard 2"
    for gate in ("worse", "context"):
        asked = f"--baseline {tmp_path / 'old.csv'} --bootstrap 0 --fail-if {gate} --format json"
        for command in (words, f"evaluate {tmp_path / 'a/suite'} {tmp_path / 'new.csv'}"):
            report = f"--junit {tmp_path / 'gate.xml'} --overwrite"
            done = run_cli(f"{command} {asked} {report}")
            (failed,) = done.json["failed"]
            assert (done.code, failed["run"], failed["value"]) == (1, "new", None)
            assert failed["reason"].startswith("nothing can be compared: too few images")
            (case,) = ET.fromstring((tmp_path / "gate.xml").read_bytes())[0]
            assert [child.tag for child in case] == ["failure"]
            named = any(n.startswith("not compared with old: car") for n in done.json["notes"])
            assert named or gate == "context"
    opens = (tmp_path / "a" / "findings.md").read_text("utf-8").splitlines()[0]
    assert opens.startswith("## Nothing can be compared with old")


def test_tasks_that_a_gate_does_not_judge_are_named(one_small, tmp_path, run_cli):
    suite, *runs = one_small
    save_suite(suite, tmp_path / "suite")
    for run in runs[:2]:
        frame = pl.concat(
            pl.DataFrame({"image_id": run.image_ids, "task": task, "logit": logits})
            for task, logits in zip(TASKS, run.values, strict=True)
        )
        frame.write_csv(tmp_path / f"{run.run}.csv")
    command = f"evaluate {tmp_path / 'suite'} {tmp_path / 'new.csv'} --ignore-unknown"
    gate = f"--baseline {tmp_path / 'old.csv'} --fail-if worse --junit {tmp_path / 'gate.xml'}"
    done = run_cli(f"{command} {gate}").ok()
    assert "not judged: worse: cow: nothing can be compared: too few" in " ".join(done.err.split())
    assert "none of 2 values fires" in done.err
    (suite,) = ET.fromstring((tmp_path / "gate.xml").read_bytes())
    assert (suite.get("tests"), suite.get("skipped"), suite.get("failures")) == ("3", "1", "0")
    assert [case.get("name") for case in suite if case.find("skipped") is not None] == [
        "worse: cow, test"
    ]
    shown = run_cli(f"{command} {gate} --overwrite --format json").ok().json
    assert [(one["run"], one["task"]) for one in shown["not_judged"]] == [("new", "cow")]
