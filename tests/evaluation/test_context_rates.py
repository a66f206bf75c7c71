"""Pooled rates of yes, against loops."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st
from refusals import fails

from nooch.evaluation.bootstrap import BootstrapDraws
from nooch.evaluation.context_rates import context_rates, headline
from nooch.evaluation.metrics.proportions import wilson
from nooch.suites import CELLS


@st.composite
def answers(draw):
    n = draw(st.integers(1, 40))
    random = np.random.default_rng(draw(st.integers(0, 1000)))
    images, tasks = random.integers(0, max(1, n // 2), n), random.integers(0, 3, n)
    frame = pl.DataFrame(
        {
            "image_id": images,
            "task": pl.Series(tasks).cast(pl.String),
            "cell": random.choice(CELLS, n),
            "yes": random.random(n) < draw(st.sampled_from([0.0, 0.3, 1.0])),
            "weight": random.choice([1.0, 2.5, 7.0], n),
        }
    )
    return frame.unique(["image_id", "task"], maintain_order=True)


def _oracle(frame, weights):
    """Rates, ratios and odds ratios of weighted rows, one row after the other."""
    rows = list(zip(frame.iter_rows(named=True), weights, strict=True))

    def total(cell, yes=None, task=None):
        return sum(
            w
            for row, w in rows
            if row["cell"] == cell and yes in (None, row["yes"]) and task in (None, row["task"])
        )

    def ratio(above, below):
        return above / below if below else None

    result = {("rate", c): ratio(total(c, True), total(c)) for c in CELLS}
    for side in ("positive", "negative"):
        hard, easy = f"hard_{side}", f"easy_{side}"
        pair = result["rate", hard], result["rate", easy]
        result["ratio", side] = None if None in pair else ratio(*pair)
        above = below = 0.0
        for task in frame["task"].unique():
            n = total(hard, task=task) + total(easy, task=task)
            if n:
                above += total(hard, True, task) * total(easy, False, task) / n
                below += total(hard, False, task) * total(easy, True, task) / n
        result["odds_ratio", side] = ratio(above, below)
    recalls = []
    for task in frame["task"].unique():
        yes, n = (total("hard_positive", *of) + total("easy_positive", *of)
                  for of in ((True, task), (None, task)))  # fmt: skip
        recalls += [yes / n] if n else []
    result["macro_recall", "positive"] = ratio(sum(recalls), len(recalls))
    return result


@given(answers())
def test_values_are_those_of_the_definitions(frame):
    expected = _oracle(frame, frame["weight"])
    got = context_rates(frame, bootstrap=0).frame()
    rows = got.select("measure", "subset", "value", "n", "reason").iter_rows()
    for measure, subset, value, n, reason in rows:
        wanted = expected[measure, subset]
        assert (value is None) == (wanted is None) == (reason is not None)
        assert value == pytest.approx(wanted)
        assert n == frame.filter(pl.col("cell").str.ends_with(subset)).height


@given(answers(), st.integers(0, 3))
def test_images_are_resampled_with_all_their_answers(frame, seed):
    n_images = frame["image_id"].n_unique()
    at = frame["image_id"].rank("dense").to_numpy() - 1
    draws = BootstrapDraws(n_images, 40, seed)
    replicates = [
        _oracle(frame, frame["weight"].to_numpy() * column[at])
        for _, block in draws.weights(slice(None))
        for column in block.T
    ]
    got = context_rates(frame, bootstrap=40, seed=seed)
    for (name, side), estimate in got.estimates.items():
        if name == "odds_ratio":
            values = [r[name, side] for r in replicates if r[name, side] is not None]
            bounds = np.percentile(values, [2.5, 97.5]) if len(values) >= 20 else [0, 0]
            if estimate.value is None or bounds[0] == bounds[1]:
                assert estimate.low is None
                assert estimate.high is None
            else:
                assert [estimate.low, estimate.high] == pytest.approx(list(bounds))


def test_rates_without_resamples_have_wilsons_interval():
    frame = pl.DataFrame(
        {
            "image_id": range(10),
            "task": "car",
            "cell": "hard_negative",
            "yes": [True] * 3 + [False] * 7,
        }
    )
    rate = context_rates(frame, bootstrap=0).estimates["rate", "hard_negative"]
    low, high = wilson(np.array([0.3]), np.array([10]))
    assert (rate.value, rate.low, rate.high, rate.n) == (0.3, low[0], high[0], 10)
    assert context_rates(frame).estimates["rate", "easy_negative"].value is None


def test_the_headline_and_when_there_is_none():
    cells = ["hard_negative"] * 4 + ["easy_negative"] * 8
    yes = [True, True, False, False] + [True] + [False] * 7
    frame = pl.DataFrame({"image_id": range(12), "task": "car", "cell": cells, "yes": yes})
    line = headline(context_rates(frame, bootstrap=0), "says yes to")
    start = "says yes to an absent object: 50.0% [8.9, 91.1] with its context, 12.5%"
    assert line.startswith(start)
    assert line.endswith("without: 4.0 times")
    assert headline(context_rates(frame[:4], bootstrap=0), "names") is None
    never = frame.with_columns(yes=pl.col("cell") == "hard_negative")
    assert headline(context_rates(never, bootstrap=0), "names").endswith("without")


def test_no_rows():
    schema = {"image_id": pl.Int64, "task": pl.String, "cell": pl.String, "yes": pl.Boolean}
    frame = pl.DataFrame(schema=schema)
    fails(lambda: context_rates(frame), "no answers", helps=False)
