"""The smallest difference that a test detects: against the sum over all outcomes, each of them
judged by the function that the commands print, and by simulation, of groups too.
"""

import itertools
import json
from operator import itemgetter

import msgspec
import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st
from planted import planted_data, planted_predictions
from refusals import fails
from scipy.stats import binom, multinomial

import nooch
from nooch.base.errors import ParameterError
from nooch.data import save_dataset
from nooch.evaluation.detectable import (
    KINDS,
    POWER,
    Comparison,
    detectable,
    independent,
    too_few,
)
from nooch.evaluation.findings import SMALLEST
from nooch.evaluation.metrics import rate_gaps
from nooch.evaluation.metrics.proportions import (
    effective_number,
    paired_interval,
    ratio_interval,
    wilson,
)
from nooch.evaluation.metrics.rate_gaps import exact_p, rate_gap
from nooch.suites import save_suite

RATES = [0.005, 0.02, 0.1, 0.3, 0.5]
TESTS = [
    *(("shares", "negative", grouped) for grouped in (False, True)),
    *(("paired", "negative", False), ("ratio", "negative", False), ("ratio", "positive", False)),
]


def called(kind, side, first, second, groups=None):
    """Whether the printed test calls the errors ``first`` more than ``second``, bool (n,) each."""
    of_first, of_second = (None, None) if groups is None else groups
    if kind == "shares":
        both = None if groups is None else np.concatenate(groups)
        condition = np.arange(len(first) + len(second)) < len(first)
        gap = rate_gap(np.concatenate([first, second]), condition, None, both)
        return gap.p <= 0.05 and gap.effect > 0
    if kind == "paired":
        change = first.astype(int) - second
        n = np.array(effective_number(change, of_first))
        low, _ = paired_interval(*(np.array((change == sign).mean()) for sign in (1, -1)), n)
        return low > 0
    yes = [errors ^ (side == "positive") for errors in (first, second)]
    rates = [np.array(each.mean()) for each in yes]
    numbers = [
        np.array(effective_number(each, own))
        for each, own in zip(yes, (of_first, of_second), strict=True)
    ]
    ends = [wilson(rate, n) for rate, n in zip(rates, numbers, strict=True)]
    low, high = ratio_interval(rates[0], ends[0], rates[1], ends[1])
    return bool(high < 1 if side == "positive" else low > 1)


def errors(k, n):
    return np.arange(n) < k


def power_by_hand(kind, side, grouped, hard, easy, rate, difference):
    """The chances of all outcomes that are called a difference."""
    other = min(1.0, rate + difference)
    if kind == "paired":
        cells = [(1 - rate) * other, rate * (1 - other)]
        chances = multinomial(hard, [*cells, 1 - sum(cells)])
        return sum(
            chances.pmf([up, down, hard - up - down])
            for up, down in itertools.product(range(hard + 1), repeat=2)
            if up + down <= hard
            and called(kind, side, errors(up, hard), errors(up + down, hard) & ~errors(up, hard))
        )
    units = (np.arange(hard), hard + np.arange(easy)) if grouped else None
    return sum(
        binom.pmf(x, hard, other) * binom.pmf(k, easy, rate)
        for x, k in itertools.product(range(hard + 1), range(easy + 1))
        if called(kind, side, errors(x, hard), errors(k, easy), units)
    )


@pytest.mark.parametrize("test", TESTS)
@given(
    hard=st.integers(1, 14), easy=st.integers(1, 14), rate=st.sampled_from(RATES),
    difference=st.floats(0.05, 0.95),
)  # fmt: skip
def test_power_is_the_sum_over_all_outcomes(test, hard, easy, rate, difference):
    kind, side, grouped = test
    power = Comparison(kind, rate, side, grouped).power(hard, easy, difference)
    expected = power_by_hand(kind, side, grouped, hard, easy, rate, difference)
    # outcomes beyond five standard deviations are left out
    assert power == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize(("hard", "easy", "difference"), [(90, 150, 0.15), (150, 60, 0.2)])
def test_power_is_the_sum_over_all_outcomes_of_many_images(rate, hard, easy, difference):
    """As above, with the tests of many outcomes at once."""
    for kind, side, grouped in TESTS:
        test = Comparison(kind, rate, side, grouped)
        x, k = (axis.ravel() for axis in np.indices((hard + 1, easy + 1)))
        chances = binom.pmf(x, hard, rate + difference) * binom.pmf(k, easy, rate)
        if kind == "paired":
            x, k = (axis.ravel() for axis in np.indices((hard + 1, hard + 1)))
            x, k = x[x + k <= hard], k[x + k <= hard]
            cells = (1 - rate) * (rate + difference), rate * (1 - rate - difference)
            outcomes = np.stack([x, k, hard - x - k], axis=1)
            chances = multinomial(hard, [*cells, 1 - sum(cells)]).pmf(outcomes)
            is_called = paired_interval(x / hard, k / hard, np.array(hard))[0] > 0
        else:
            with np.errstate(invalid="ignore"):
                is_called = test.calls_larger(x, k, hard, easy)
        assert test.power(hard, easy, difference) == pytest.approx(chances @ is_called, abs=1e-5)


@given(
    tables=st.lists(st.tuples(st.integers(0, 60), st.integers(0, 45)), min_size=1, max_size=4),
    n=st.tuples(st.integers(60, 90), st.integers(45, 90)), most=st.sampled_from([0, 30, 2000]),
)  # fmt: skip
def test_many_exact_tests_are_those_of_gaps(tables, n, most):
    x, k = np.array(tables).T
    with pytest.MonkeyPatch.context() as patch:
        # beyond so many errors the approximation, as there
        patch.setattr(rate_gaps, "_MOST_EXACT", most)
        of_gaps = [
            rate_gap(np.append(errors(a, n[0]), errors(b, n[1])), np.arange(sum(n)) < n[0]).p
            for a, b in tables
        ]
        assert exact_p(x, k, *n) == pytest.approx(of_gaps, abs=1e-8)


@given(
    test=st.sampled_from(TESTS), rate=st.sampled_from(RATES), hard=st.integers(0, 400),
    easy=st.integers(0, 3000), points=st.integers(3, 50),
)  # fmt: skip
def test_the_next_smaller_step_has_less_power(test, rate, hard, easy, points):
    kind, side, grouped = test
    comparison = Comparison(kind, rate, side, grouped)
    smallest = comparison.smallest(hard, easy)
    if smallest is None:
        assert comparison.power(hard, easy, 1.0) < POWER
    else:
        assert comparison.power(hard, easy, smallest / 100) >= POWER
        assert comparison.power(hard, easy, smallest / 100 - 0.001) < POWER
    needed, difference = comparison.needed(hard, easy, points / 100), points / 100
    assert comparison.power(max(hard, needed), max(easy, needed), difference) >= POWER
    if needed > 1:
        fewer = max(hard, needed - 1), max(easy, needed - 1)
        assert comparison.power(*fewer, difference) < POWER


@given(
    test=st.sampled_from(TESTS), rate=st.sampled_from(RATES), hard=st.integers(10, 400),
    easy=st.integers(10, 3000),
)  # fmt: skip
def test_more_images_detect_smaller_differences(test, rate, hard, easy):
    kind, side, grouped = test
    comparison = Comparison(kind, rate, side, grouped)
    few, many = comparison.smallest(hard, easy), comparison.smallest(2 * hard, 2 * easy)
    assert few is None or many <= few
    powers = [comparison.power(hard, easy, step / 20) for step in range(21)]
    assert np.diff(powers).min() >= -1e-5


def drawn(draw, sizes, rate):
    """Errors of images of groups of these sizes that err alike, and their groups."""
    group = np.repeat(np.arange(len(sizes)), sizes)
    return (draw.random(len(sizes)) < rate)[group], group


@pytest.mark.parametrize("test", TESTS[1:])
@pytest.mark.parametrize("rate", [0.02, 0.2, 0.5])
def test_groups_are_detected_as_often_as_promised(test, rate):
    """In simulation, of 300 draws: three standard deviations below 78%."""
    kind, side, _ = test
    draw = np.random.default_rng(11)
    sizes = 1 + draw.geometric(0.15, 60), 1 + draw.geometric(0.15, 200)
    n = [int(independent(np.ones(own.sum()), np.repeat(np.arange(len(own)), own))) for own in sizes]
    smallest = Comparison(kind, rate, side, grouped=True).smallest(*n)
    hits = 0
    for _ in range(300):
        first, own = drawn(draw, sizes[0], min(1.0, rate + smallest / 100))
        second, other = drawn(draw, sizes[0 if kind == "paired" else 1], rate)
        hits += called(kind, side, first, second, (own, other + len(sizes[0])))
    assert hits / 300 >= 0.78 - 3 * np.sqrt(0.78 * 0.22 / 300)


@given(n=st.integers(20, 60), size=st.integers(1, 9), weight=st.floats(0.1, 9))
def test_groups_of_equal_size_say_as_much_as_their_effective_number(n, size, weight):
    groups = np.repeat(np.arange(n), size)
    weights = np.full(len(groups), weight)
    alike = (np.arange(n) < n // 2)[groups].astype(float)
    expected = effective_number(alike, groups, weights)
    if size == 1:
        expected = effective_number(alike, groups, weights) * independent(weights, groups) / n
    assert independent(weights, groups) == pytest.approx(expected)
    assert independent(weights, None) == pytest.approx(len(groups))


def small_suite(n=400):
    data = planted_data(n)
    return data, nooch.find(data, {"ce": nooch.CE(cues={"car": ["road"]})}, tasks=["car"])


def test_a_row_for_each_side_and_kind():
    _, suite = small_suite()
    record = suite.record("ce", "car", "test")
    found = detectable(suite, detect=12, rate=0.2)
    assert found.table.height == 2 * len(KINDS)
    rows = {(row["side"], row["kind"]): row for row in found.table.iter_rows(named=True)}
    cells = record.cells
    for (side, kind), row in rows.items():
        hard, easy = cells[::2] if side == "positive" else cells[1::2]
        comparison = Comparison(kind, 0.2, side)
        assert (row["n_hard"], row["n_easy"]) == (hard, easy)
        assert row["smallest"] == comparison.smallest(hard, easy)
        needed = comparison.needed(hard, easy, 0.12)
        if comparison.power(hard, easy, 0.12) < POWER:
            assert row["missing_hard"] == max(0, needed - hard) > 0
        else:
            assert row["missing_hard"] == row["missing_easy"] == 0
    assert rows["negative", "ratio"]["ratio"] == pytest.approx(
        (0.2 + rows["negative", "ratio"]["smallest"] / 100) / 0.2
    )
    text = str(found)
    assert "power of 80%" in text
    assert "20%" in text


def test_below_the_least_number_nothing_is_detected_by_check():
    _, suite = small_suite(90)
    hard = suite.record("ce", "car", "test").hard_positives
    assert 0 < hard < SMALLEST
    row = detectable(suite, detect=90).table.row(0, named=True)
    assert (row["kind"], row["side"], row["smallest"]) == ("shares", "positive", None)
    assert row["reason"] == f"fewer than {SMALLEST}"
    assert row["missing_hard"] == SMALLEST - hard
    assert "none" in str(detectable(suite))


def test_groups_count_as_one():
    data, suite = small_suite()
    pairs = pl.Series("scene", [str(n // 2) for n in range(len(data))])
    grouped = nooch.Dataset.build(data.images.with_columns(pairs), data.classes, data.areas)
    suite = nooch.find(
        grouped, {"ce": nooch.CE(cues={"car": ["road"]})}, tasks=["car"], group="scene"
    )
    found = detectable(suite)
    challenge = suite.set("ce", "car", "test")
    units = suite.units(challenge.image_ids)
    hard = challenge.hard & ~challenge.labels
    row = found.table.filter(side="negative", kind="paired").row(0, named=True)
    assert found.settings["unit"] == "groups by scene"
    assert row["n_hard"] == len(np.unique(units[hard]))
    n = int(independent(np.ones(hard.sum()), units[hard]))
    assert row["smallest"] == Comparison("paired", 0.1).smallest(n, 0)


def test_weights_of_a_sample_count():
    words = nooch.load_suite("nooch-words").only(["airplane"])
    found = detectable(words).table.filter(side="negative")
    weights = words.sample_weights.filter(task="airplane")
    challenge = words.set("context", "airplane", "all")
    cells = pl.DataFrame({"image_id": challenge.image_ids, "cell": challenge.cells})
    own = weights.join(cells, on="image_id").filter(cell=1)["weight"].to_numpy()
    kish = int(own.sum() ** 2 / (own**2).sum())
    row = found.filter(kind="paired").row(0, named=True)
    assert row["n_hard"] == len(own) == 12
    assert row["smallest"] == Comparison("paired").smallest(kish, 0)


def test_a_suite_of_hard_images_compares_models_only():
    suite = small_suite()[1]
    hard_only = suite.with_header(msgspec.structs.replace(suite.header, hard_only=True))
    table = detectable(hard_only).table
    assert table.filter(kind="paired")["smallest"].is_not_null().all()
    others = table.filter(pl.col("kind") != "paired")
    assert set(others["reason"]) == {"no easy images"}
    assert others["smallest"].is_null().all()


def test_too_few_in_words(tmp_path):
    """Wherever check has too few images, it says how many are needed, as ``detectable`` does."""
    data = planted_data(90)
    run, options = planted_predictions(data), {"bootstrap": 0, "slices": False, "stability": 0}
    checked = nooch.check(data, run, tmp_path / "b", min_hard=1, **options)
    suite = checked.suite
    sides = [cells[side::2] for cells in [suite.header.sets[0].cells] for side in range(2)]
    hard, easy = max(sides, key=itemgetter(0))
    needed = max(SMALLEST, Comparison().needed(hard, easy, 0.2))
    words = f"{hard} images; {needed} are needed to see 20 points"
    assert too_few(suite) == too_few(suite, "car") == words
    shown = detectable(suite, detect=20).table.filter(kind="shares", n_hard=hard)
    assert shown["missing_hard"].item() == needed - hard
    fails(lambda: nooch.check(data, run, tmp_path / "a", **options), f"(the most: {words})")
    assert checked.answer.verdict.endswith(f"to judge the model: {words}")
    assert ("too few images with or without its context to tell", [f"car ({words})"]) in (
        checked.answer.left_out
    )
    page = (tmp_path / "b/report/index.html").read_text()
    assert words in page
    # enough images: no more are needed
    assert too_few(small_suite(1600)[1]).endswith(" images")
    assert too_few(suite, "boat").startswith("0 images; ")


def test_show_prints_what_python_finds(run_cli, tmp_path):
    data, suite = small_suite()
    save_dataset(data, tmp_path / "data")
    save_suite(suite, tmp_path / "suite")
    asked = f"show {tmp_path / 'suite'} --detect 12 --rate 0.2"
    content = run_cli(f"{asked} --format json").json["detect"]
    found = detectable(suite, detect=12, rate=0.2)
    assert content["sets"] == json.loads(json.dumps(found.table.to_dicts()))
    assert content["rate"] == 0.2
    assert found.display.title in run_cli(asked).out
    assert "detect" not in run_cli(f"show {tmp_path / 'suite'} --format json").json
    refused = run_cli(f"show {tmp_path / 'suite'} --rate 0.2")
    refused.refused("no difference to detect", "give --detect")
    large = run_cli(f"show {tmp_path / 'suite'} --detect 85 --rate 0.2")
    large.refused("--detect: no rate is 85 points above a rate of 0.2", "at most 80")
    assert not large.out
    fails(lambda: detectable(suite, detect=85, rate=0.2), "at most 80", kind=ParameterError)
