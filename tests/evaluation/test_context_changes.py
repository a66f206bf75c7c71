"""What a run changes against a baseline: intervals by a slow oracle, sentences, baselines."""

from __future__ import annotations

import json
import math
from itertools import product
from statistics import NormalDist

import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st
from planted import planted_data
from refusals import refused

import nooch
from nooch.evaluation import evaluate
from nooch.evaluation.captions import score_captions
from nooch.evaluation.context_changes import ContextChange, context_changes
from nooch.evaluation.metrics.paired_changes import Change, PairedAnswers, mean_change
from nooch.evaluation.metrics.proportions import student
from nooch.suites import CELLS

DATA = planted_data()
SUITE = nooch.find(DATA, nooch.CE(), tasks=["car"], splits=["test"])
ROWS = st.lists(
    st.tuples(*[st.booleans()] * 3, st.integers(0, 5), st.sampled_from([1, 3])),
    min_size=6,
    max_size=40,
)


def slow_reach(rows, slopes, quantile):
    """Half the width, by units and answers one at a time; ``slopes``: (run, kind) -> slope."""
    sums, weights, sizes = {}, {}, {}
    for *yes, first, unit, weight in rows:
        weights.setdefault(first, []).append(weight)
        sizes[unit] = sizes.get(unit, 0) + 1
        for run, said in enumerate(yes):
            sums[run, first] = sums.get((run, first), 0) + weight * said
    total = 0.0
    for unit in sizes:
        away = 0.0
        for *yes, first, own, weight in rows:
            for run, said in enumerate(yes) if own == unit else ():
                rate = sums[run, first] / sum(weights[first])
                away += (1 if run else -1) * slopes[run, first] * weight * (said - rate)
        total += away**2
    m = len(sizes)
    total *= m / (m - 1)
    for (_, first), slope in slopes.items():
        total += (slope * np.mean(weights[first])) ** 2 / 2
    return quantile * math.sqrt(total), sums, weights


@given(ROWS)
def test_intervals_are_those_of_a_slow_version(rows):
    first = np.array([row[2] for row in rows])
    unit = np.array([row[3] for row in rows])
    if first.all() or not first.any() or len({*unit}) < 2:
        return
    yes = np.array([row[:2] for row in rows], dtype=float).T
    answers = PairedAnswers(yes, np.array([float(row[4]) for row in rows]), unit)
    quantile = student(np.unique(unit, return_counts=True)[1])
    ratio, (dprime, criterion) = answers.ratio(first), answers.sensitivity(first)
    _, sums, weights = slow_reach(rows, dict.fromkeys(product((0, 1), (True, False)), 0.0), 1)
    more = {key: sums[key] + np.mean(weights[key[1]]) / 2 for key in sums}
    total = {kind: sum(weights[kind]) for kind in (True, False)}
    if all(sums[run, False] for run in (0, 1)) and sums[0, True]:
        slopes = {key: (1 if key[1] else -1) / more[key] for key in more}
        reach, *_ = slow_reach(rows, slopes, quantile)
        middle = math.log(more[1, True] / more[1, False] * more[0, False] / more[0, True])
        before, after = (
            sums[r, True] / total[True] / (sums[r, False] / total[False]) for r in (0, 1)
        )
        assert (ratio.before, ratio.after) == pytest.approx((before, after))
        assert ratio.high == pytest.approx(math.exp(middle + reach))
        assert ratio.low == pytest.approx(math.exp(middle - reach) if after else 0)
        assert ratio.low <= after / before <= ratio.high
    else:
        assert ratio.low is ratio.high is None
    z, slope, normal = {}, {}, NormalDist()
    for run, kind in sums:
        n = len(weights[kind])
        z[run, kind] = normal.inv_cdf((sums[run, kind] / total[kind] * n + 0.5) / (n + 1))
        slope[run, kind] = n / (n + 1) / total[kind] / normal.pdf(z[run, kind])
    for found, signs in ((dprime, (1, -1)), (criterion, (-0.5, -0.5))):
        sign = dict(zip((True, False), signs, strict=True))
        values = [sum(sign[kind] * z[run, kind] for kind in sign) for run in (0, 1)]
        reach, *_ = slow_reach(rows, {key: sign[key[1]] * slope[key] for key in slope}, quantile)
        assert (found.before, found.after) == pytest.approx(values)
        assert found.low == pytest.approx(values[1] - values[0] - reach)
        assert found.high == pytest.approx(values[1] - values[0] + reach)


@given(ROWS)
def test_the_other_way_around_a_change_is_the_reverse(rows):
    first = np.array([row[2] for row in rows])
    yes = np.array([row[:2] for row in rows], dtype=float).T
    columns = np.ones(len(rows)), np.array([row[3] for row in rows])
    there, back = PairedAnswers(yes, *columns), PairedAnswers(yes[::-1], *columns)
    one, other = there.ratio(first), back.ratio(first)
    if one.low and other.low:
        assert (one.low, one.high) == pytest.approx((1 / other.high, 1 / other.low))
    gaps = there.share(), back.share()
    assert (gaps[0].low, gaps[0].high) == pytest.approx((-gaps[1].high, -gaps[1].low), abs=1e-9)
    assert gaps[0].p == pytest.approx(gaps[1].p)
    # a run against itself changes nothing, and its interval has a width
    alike = PairedAnswers(yes[[0, 0]], *columns)
    for same in (alike.ratio(first), *alike.sensitivity(first)):
        if same.low is not None:
            assert same.low < same.none < same.high
            assert not same.fell
            assert not same.rose


def test_changes_without_answers_of_a_kind_and_means():
    nothing = PairedAnswers(np.zeros((2, 0)), np.zeros(0), np.zeros(0, int))
    assert nothing.share() == Change(None, None, None, None, 0)
    assert mean_change(np.zeros(0), np.zeros(0), np.zeros(0, int)).change is None
    some = PairedAnswers(np.ones((2, 3)), np.ones(3), np.arange(3))
    assert some.ratio(np.ones(3, bool)).low is None
    assert some.sensitivity(np.ones(3, bool))[0].change is None
    # one group does not show how much groups differ
    grouped = PairedAnswers(np.eye(2, 4), np.ones(4), np.zeros(4, int))
    assert grouped.sensitivity(np.arange(4) < 2)[0].high == math.inf
    before, after = np.array([5.0, 7, 9, 11]), np.array([4.0, 7, 7, 7])
    words = mean_change(before, after, np.arange(4))
    gaps = after - before
    reach = 3.182446 * gaps.std(ddof=1) / 2
    ends = gaps.mean() - reach, gaps.mean() + reach
    assert (words.low, words.high) == pytest.approx(ends, rel=1e-6)
    assert mean_change(before, after, np.zeros(4, int)).high == math.inf


def changed(rate, elsewhere, ratio):
    """Of (before, after, low, high)."""
    ratio = Change(*ratio, n=9, none=1.0)
    parts = {"rate_with": Change(*rate, n=9), "rate_without": Change(*elsewhere, n=9)}
    return ContextChange("dpo", "base", "ce", {**parts, "ratio": ratio}, 500)


FALLS, RISES, SAME = (0.2, 0.1, -0.15, -0.05), (0.1, 0.2, 0.05, 0.15), (0.2, 0.21, -0.02, 0.04)
STAYS = (13.7, 13.4, 0.85, 1.15)
SENTENCES = {
    "errs less: the ratio falls from 2.5 to 1.8 [1.5, 2.2]": (SAME, SAME, (2.5, 1.8, 0.6, 0.88)),
    "errs less: the ratio falls from 2.50 to 1.80 [1.50, 2.48]":
        (FALLS, SAME, (2.5, 1.8, 0.6, 0.99)),
    "says less: the rate falls, the ratio stays (13.7 to 13.4 [11.6, 15.8])": (FALLS, FALLS, STAYS),
    "says more: the rate rises, the ratio stays (13.7 to 13.4 [11.6, 15.8])": (RISES, RISES, STAYS),
    "too few to tell: rate 20.0 to 21.0% [18.0, 24.0], ratio 13.7 to 13.4 [11.6, 15.8], 500 images":
        (SAME, SAME, STAYS),
    "too few to tell: the rate falls, ratio 13.8 to 13.4 [6.9, 27.6], 500 images":
        (FALLS, FALLS, (13.8, 13.4, 0.5, 2.0)),
    "errs more: the ratio rises from 2.0 to 4.0 [3.0, 5.0]": (RISES, SAME, (2.0, 4.0, 1.5, 2.5)),
    "says less: the rate falls, the ratio rises (2.0 to 4.0 [3.0, 5.0])":
        (FALLS, FALLS, (2.0, 4.0, 1.5, 2.5)),
    "errs more: the rate without the context rises; the ratio falls from 2.5 to 1.8 [1.5, 2.2]":
        (SAME, RISES, (2.5, 1.8, 0.6, 0.88)),
    "too few to tell: no ratio; rate 20.0 to 10.0% [5.0, 15.0] with the context, 20.0 to 21.0%"
    " [18.0, 24.0] without": (FALLS, SAME, (2.5, None, None, None)),
}  # fmt: skip


@pytest.mark.parametrize("sentence", SENTENCES)
def test_one_sentence(sentence):
    change = changed(*SENTENCES[sentence])
    assert change.sentence == f"dpo against base, ce: {sentence}"
    assert change.verdict == sentence.partition(":")[0]
    assert json.loads(json.dumps(change.as_json()))["sentence"] == change.sentence


def answered(yes, unknown=()):
    """Two answers of each cell for each of 40 images."""
    n = len(yes)
    rows = {"image_id": np.arange(n) // 8, "task": [f"t{i % 8}" for i in range(n)], "weight": 1.0,
            "cell": [CELLS[i % 4] for i in range(n)], "yes": np.asarray(yes, bool)}  # fmt: skip
    return pl.DataFrame(rows).with_columns(unknown=pl.Series(np.isin(np.arange(n), [*unknown])))


@pytest.mark.parametrize("cell", range(4))
def test_answers_that_are_unknown_never_help(cell):
    """Whatever they mean, the interval with them holds; a run of them makes no verdict better."""
    random = np.random.default_rng(cell)
    base, other = (random.random(320) < 0.4 for _ in range(2))
    unknown = [i for i in range(320) if i % 4 == cell and i % 3 == 0]
    key = ("base", "ce"), ("other", "ce")
    frames = answered(base), answered(np.where(np.isin(np.arange(320), unknown), 0, other), unknown)
    (bounded,) = context_changes(dict(zip(key, frames, strict=True)), "base")
    for meant in (np.zeros(320), np.ones(320), random.random(320) < 0.5):
        said = np.where(np.isin(np.arange(320), unknown), meant, other)
        (known,) = context_changes(dict(zip(key, (frames[0], answered(said)), strict=True)), "base")
        for name, of in known.changes.items():
            around = bounded.changes[name]
            assert around.low <= of.change + 1e-9, name
            assert of.change <= around.high + 1e-9, name


def files_of(tmp_path, rates):
    """Files of answers that say yes at these rates where the object is absent and expected, or
    not.
    """
    challenge = SUITE.set("ce", "car", "test")
    hard, labels = np.asarray(challenge.hard), np.asarray(challenge.labels)
    files = []
    for name, (with_it, without) in rates.items():
        random = np.random.default_rng(3).random(len(labels))
        rate = np.where(labels, 0.9, np.where(hard, with_it, without))
        said = np.where(random < rate, "Yes", "No")
        frame = pl.DataFrame({"image_id": challenge.image_ids, "task": "car", "answer": said})
        (tmp_path / name).parent.mkdir(exist_ok=True)
        frame.write_ndjson(tmp_path / name)
        files.append(tmp_path / name)
    return files


def test_a_baseline_is_a_run_or_a_file(tmp_path, run_cli):
    rates = {"base.jsonl": (0.9, 0.1), "dpo.jsonl": (0.3, 0.1), "far/base.jsonl": (0.5, 0.1)}
    base, dpo, far = files_of(tmp_path, rates)
    first = evaluate(SUITE, [base, dpo])
    (change,) = first.changes
    assert (change.run, change.baseline) == ("dpo", "base")
    assert change.verdict == "errs less"
    assert change.sentence in first.headlines
    estimates = first.contexts["dpo", "ce"].estimates
    assert change.changes["ratio"].after == pytest.approx(estimates["ratio", "negative"].value)
    assert change.changes["rate_without"].after == estimates["rate", "easy_negative"].value
    for given_as in ("dpo", dpo, str(dpo)):
        (reverse,) = evaluate(SUITE, [base, dpo], baseline=given_as).changes
        assert (reverse.run, reverse.baseline, reverse.verdict) == ("base", "dpo", "errs more")
    (added,) = evaluate(SUITE, [dpo], baseline=base).changes
    assert added.changes == change.changes
    # another file of the name of a run is another run
    found = evaluate(SUITE, [base, dpo], baseline=far).changes
    assert {(one.run, one.baseline) for one in found} == {("base", str(far)), ("dpo", str(far))}
    refused(lambda: evaluate(SUITE, [base, dpo], baseline="dpq"), "did you mean dpo?")
    ids = SUITE.set("ce", "car", "test").image_ids
    two = pl.concat(pl.DataFrame({"run": r, "image_id": ids, "car": 0.5}) for r in ("a", "b"))
    two.write_csv(tmp_path / "two.csv")
    refused(lambda: evaluate(SUITE, [dpo], baseline=tmp_path / "two.csv"), "has several runs: a")
    assert evaluate(SUITE, [base, dpo], differences=False).changes == []
    nooch.save_suite(SUITE, tmp_path / "suite")
    shown = run_cli(f"evaluate {tmp_path}/suite {dpo} --baseline {base}").ok().out
    assert change.sentence in " ".join(shown.split())
    assert "Changes from base on ce" in shown
    asked = f"evaluate {tmp_path}/suite {dpo} --baseline {base} --format json"
    assert json.loads(run_cli(asked).ok().out)["changes"] == [
        json.loads(json.dumps(change.as_json()))
    ]


def captions_of(tmp_path, name, mentions, words):
    """Captions of so many words, of which every n-th image's mention a car."""
    ids = SUITE.set("ce", "car", "test").image_ids
    texts = [
        f"{'a car ' if n % mentions == 0 else ''}{'and so on ' * words}." for n in range(len(ids))
    ]
    pl.DataFrame({"image_id": ids, "caption": texts}).write_ndjson(tmp_path / name)
    return tmp_path / name


def test_captions_also_at_equal_length(tmp_path):
    long = captions_of(tmp_path, "long.jsonl", 2, 9)
    short = captions_of(tmp_path, "short.jsonl", 3, 4)
    scores = score_captions(SUITE, short, baseline=long,
                            bootstrap=0)  # fmt: skip
    whole, cut = scores.changes
    assert [whole.equal_length, cut.equal_length] == [False, True]
    assert whole.changes["words"].before > whole.changes["words"].after
    words = cut.changes["words"]
    assert words.before == words.after == whole.changes["words"].after
    assert "at equal length" in cut.sentence
    titles = [table.title for table in scores.tables]
    title = "Changes from long on ce"
    assert titles[-2:] == [title, f"{title}, captions cut to the shorter of the pair"]
    named = score_captions(SUITE, [long, short], baseline="long", bootstrap=0)
    assert [one.changes for one in named.changes] == [whole.changes, cut.changes]
    refused(lambda: score_captions(SUITE, [long, short], baseline="lang"), "did you mean long?")


def test_changes_also_without_suspects(tmp_path):
    """Of a suite with suspect labels, by those that are not: by hand."""
    base, dpo = files_of(tmp_path, {"base.jsonl": (0.9, 0.1), "dpo.jsonl": (0.3, 0.1)})
    challenge = SUITE.set("ce", "car", "test")
    absent = challenge.cell_frame.filter(pl.col("cell").str.ends_with("negative"))
    suite = nooch.find(DATA, nooch.CE(), tasks=["car"], splits=["test"])
    suite.pairs = absent[::2].select("image_id", "task", suspect=pl.lit(value=True))
    all_of, sure = evaluate(suite, [base, dpo]).changes
    assert (sure.run, sure.baseline) == ("dpo, without suspects", "base")
    assert all_of.changes == evaluate(SUITE, [base, dpo]).changes[0].changes
    kept = absent[1::2].filter(cell="hard_negative")["image_id"]
    for file, rate in ((base, "before"), (dpo, "after")):
        said = pl.read_ndjson(file).filter(pl.col("image_id").is_in(kept.implode()))
        by_hand = (said["answer"] == "Yes").mean()
        assert getattr(sure.changes["rate_with"], rate) == pytest.approx(by_hand)
