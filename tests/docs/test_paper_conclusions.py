"""The numbers of the paper's conclusions in docs/reproduce.md are those of its shipped tables."""

import re
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

from nooch.paper.numbers import paper_cells

PAGE = (Path(__file__).parents[2] / "docs/reproduce.md").read_text("utf-8")
ROWS = re.findall(r"^\| ([A-Z][^|]+)\. \| ([^|]+) \|", PAGE, re.MULTILINE)
BOTH = ("ce", "gist")
CELLS = paper_cells().cells
NINE = CELLS["method"].unique(maintain_order=True).to_list()
ENVIRONMENT = ["environment-reweight", "environment-undersample", "gdro", "irm"]
CALIBRATED = ["erm", "label-undersample", "environment-undersample"]
TASKS = CELLS.filter(CELLS["task"] != "average", criterion="ce")["task"].unique().to_list()


def but(methods):
    return [method for method in NINE if method not in methods]


def values(criterion, methods, subset="hard", metric="auc", task="average"):
    rows = CELLS.filter(criterion=criterion, subset=subset, metric=metric, task=task)
    means = dict(rows.select("method", "mean").rows())
    return [means[method] for method in methods]


def both(number, methods, *where):
    """A number of the methods' averages under CE and under gist."""
    return [number(values(criterion, methods, *where)) for criterion in BOTH]


def lead(criterion, *where):
    return np.mean(values(criterion, ENVIRONMENT, *where)) - values(criterion, ["erm"], *where)[0]


def gaps(better, worse, number):
    """On how many tasks one (criterion, methods) is above the other, and below, ties left out."""
    pairs = [
        [number(values(*side, "hard", "auc", task)) for side in (better, worse)] for task in TASKS
    ]
    return [sum(sign * (a - b) > 1e-9 for a, b in pairs) for sign in (1, -1)]


def leading():
    counts = [gaps((c, ENVIRONMENT), (c, but(ENVIRONMENT)), max) for c in BOTH]
    return [counts[0][0], counts[1][0], len(TASKS), counts[0][1], counts[1][1]]


def correlations(metric):
    sides = ("hard_positive", "hard_negative")
    of = [[values(criterion, NINE, side, metric) for side in sides] for criterion in BOTH]
    return [spearmanr(*pair).statistic for pair in of]


def calibrated(subset):
    sides = (
        both(max, CALIBRATED, subset, "ece_paper"),
        both(min, but(CALIBRATED), subset, "ece_paper"),
    )
    return [n for pair in zip(*sides, strict=True) for n in pair]


NUMBERS = {
    "Methods that use": lambda: [
        *both(max, ENVIRONMENT), *both(max, but(ENVIRONMENT)), *leading(),
    ],
    "Hard sets": lambda: [
        *both(sum, ["erm"]), *both(sum, ["gdro"]), gaps(("ce", NINE), ("gist", NINE), sum)[0], 12,
    ],
    "The lead of environment methods shrinks": lambda: [lead("ce"), lead("gist")],
    "Environment reweighting": lambda: [
        n for m in ("environment-reweight", "gdro", "erm") for n in both(sum, [m])
    ],
    "Hard positives": lambda: [*correlations("error"), *correlations("nll")],
    "ERM is best": lambda: [
        n
        for metric in ("nll", "error")
        for methods in (["erm"], but(["erm"]))
        for n in both(min, methods, "easy", metric)
    ],
    "Focal loss": lambda: [
        n
        for where in (("hard", "auc"), ("hard_positive", "nll"))
        for methods in (["focal"], ["erm"], ENVIRONMENT)
        for n in both(np.mean, methods, *where)
    ],
    "ERM and undersampling": lambda: [*calibrated("hard"), *calibrated("easy")],
    "CVaR": lambda: [
        *both(sum, ["cvar"], "easy", "ece_paper"), *both(max, but(["cvar"]), "easy", "ece_paper")
    ],
    "The lead of environment methods is": lambda: [lead(c) for c in ("attribute", *BOTH)],
}  # fmt: skip
"""The beginning of a conclusion -> the numbers of its row, deviations left out."""


@pytest.mark.parametrize("conclusion", NUMBERS)
def test_the_numbers_of_a_conclusion(conclusion):
    (row,) = (text for sentence, text in ROWS if sentence.startswith(conclusion))
    text = re.sub(r"(\d) \(\.\d+\)", r"\1", row)
    printed = [float(number) for number in re.findall(r"(?<![\w.])-?\d*\.?\d+", text)]
    # a correlation has two decimals
    precise = [pytest.approx(n, abs=5.01e-3 if n < 0 else 5.01e-4) for n in printed]
    assert NUMBERS[conclusion]() == precise
    assert len(ROWS) == len(NUMBERS)


def test_all_nine_methods_do_worse_under_gist():
    assert all(a > b for a, b in zip(values("ce", NINE), values("gist", NINE), strict=True))
