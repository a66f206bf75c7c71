"""Objectives against the design's numbers, against loops, and against automatic differentiation."""

import math
from statistics import fmean as mean

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from pixel_arrays import derived
from refusals import refused

from nooch.training.objectives import (
    OBJECTIVES,
    VARIANTS,
    Objective,
    TrainingCounts,
    check_objective,
    losses,
)

torch = pytest.importorskip("torch")

Z = [2, -1, 0.5, -0.25, 1.5, -2, 0, 3]
Y = [1, 0, 0, 1, 1, 0, 1, 0]
E = [3, 0, 1, 2, 3, 0, 2, 1]
COUNTS = TrainingCounts.from_numbers([4500, 500], [4000, 300, 50, 650])


def column(values, dtype=torch.float64):
    return torch.tensor(values, dtype=dtype)[:, None]


BATCH = (column(Z), column(Y), column(E, torch.int64))
# of losses and of squared gradients over environments
SUM, SLOPES = 3.1551409619, 2.6454000400
# (name, variant, parameters): value, computed outside of this project
NUMBERS = {
    ("erm", "paper"): {(): 0.7887852405},
    ("gdro", "paper"): {0: 2.0113321679, 5: 2.3000073025, 30: 5.0021839873},
    ("cvar", "released"): {0.05: 3.0485873516, 0.15: 2.0113321679, 0.3: 1.6162012519},
    ("cvar", "paper"): {0.05: 3.0485873516, 0.15: 2.7028356237, 0.3: 1.8137667099},
    ("irm", "paper"): {0: SUM, 1: 5.3195847452},
    ("irm", "released"): {0: SUM, 1: SUM + SLOPES, 4: SUM / 4 + SLOPES},
    ("focal", "paper"): {0.2: 0.7243356071, 0.5: 0.6486825775, 1: 0.5590598014},
    ("focal", "released"): {0.2: 0.2290100586, 0.5: 0.1887937174, 1: 0.1421830237},
    ("label-reweight", "paper"): {0.2: 0.9357336832, 0.5: 1.3182926435, 1: 2.9291256999},
    ("label-reweight", "released"): {0.2: 0.5780970654, 0.5: 0.3954877931, 1: 0.2636213130},
}
PARAMETER = {name: next(iter(kind.ranges), None) for name, kind in OBJECTIVES.items()}


def make(name, counts=COUNTS, variant="paper", **parameters):
    return OBJECTIVES[name](counts, variant=variant, **parameters)


@pytest.mark.parametrize(("name", "variant"), NUMBERS)
def test_the_designs_numbers(name, variant):
    for value, expected in NUMBERS[name, variant].items():
        parameters = {} if value == () else {PARAMETER[name]: value}
        loss = make(name, variant=variant, **parameters)(*BATCH)
        assert float(loss) == pytest.approx(expected, abs=1e-6)


def test_online_gdro_three_steps():
    objective = make("online-gdro", eta=0.01)
    values = [float(objective(*BATCH)) for _ in range(3)]
    assert values == pytest.approx([0.79432517, 0.79990000, 0.80550903], abs=1e-6)
    assert float(objective.q.sum()) == pytest.approx(1)


def test_online_gdro_adjusts_environments_that_the_batch_lacks():
    """As kohpangwei/group_DRO does; an environment without training images has no adjustment."""
    counts = TrainingCounts.from_numbers([90, 10], [64, 4, 16, 0])
    objective = OBJECTIVES["online-gdro"](counts, eta=0.5, K=2.0)
    z, y = column([0.3, -0.2]), column([1.0, 0.0])
    environments = torch.tensor([[0], [0]])
    q = np.full(4, 0.25)
    for _ in range(3):
        mean = np.array([np.mean([np.log1p(np.exp(-0.3)), np.log1p(np.exp(-0.2))]), 0, 0, 0])
        adjusted = mean + 2.0 / np.sqrt([64, 4, 16, np.inf])
        q = q * np.exp(0.5 * adjusted)
        q /= q.sum()
        assert float(objective(z, y, environments)) == pytest.approx(q @ adjusted)
        assert objective.q[:, 0].numpy() == pytest.approx(q)
        assert float(objective.measure(z, y, environments)) == pytest.approx(q @ adjusted)
    # the rarest one's adjustment counts in every step
    assert q[1] > 1 / 4 > q[3]


@pytest.mark.parametrize("alpha", [0.5, 2.0])
def test_what_training_lacks_counts_nothing_in_validation(alpha):
    objective = make(
        "environment-reweight", TrainingCounts.from_numbers([9, 1], [6, 2, 2, 0]), alpha=alpha
    )
    z, y = column([0.0, 0.0]), column([1.0, 0.0])
    found = float(objective.measure(z, y, torch.tensor([[1], [3]])))
    assert found == pytest.approx((1 / 0.2) ** alpha * np.log(2) / 2)


def test_a_label_without_training_rows_counts_as_half_a_row_in_balanced_softmax():
    objective = make("balanced-softmax", TrainingCounts.from_numbers([10, 0], [10, 0, 0, 0]))
    loss = objective(column([0.0]), column([1.0]), torch.tensor([[0]]))
    # the odds of the label are 1 : 20
    assert float(loss) == pytest.approx(math.log(21), abs=1e-12)


@pytest.mark.parametrize(("p", "m", "rows"), [(0.07, 100, 7), (0.3, 10, 3), (0.3001, 10, 4)])
def test_the_worst_rows_of_released_cvar_are_not_one_more_by_rounding(p, m, rows):
    z = torch.linspace(3, -3, m, dtype=torch.float64)[:, None]
    loss = make("cvar", variant="released", p=p)(z, torch.zeros_like(z), torch.zeros_like(z).long())
    assert float(loss) == pytest.approx(float(losses(z, torch.zeros_like(z))[:rows].mean()))


def test_sizes_of_gradients():
    """The mean weight of training rows; environments and penalty; 1 for means over images."""
    counts = TrainingCounts.from_numbers([90, 10], [80, 10, 10, 0])
    for name, parameters, size in (
        ("erm", {}, 1),
        ("gdro", {"K": 5.0}, 1),
        ("cvar", {"p": 0.1}, 1),
        ("focal", {"gamma": 1.0}, 1),
        ("label-reweight", {"alpha": 1.0}, 2),
        ("environment-reweight", {"alpha": 2.0}, 1 / 0.8 + 20),
        ("irm", {"lambda_": 3.0}, 12),
        ("irm", {"lambda_": 3.0, "variant": "released"}, 4),
        ("vrex", {"beta": 10.0}, 11),
    ):
        assert make(name, counts, **parameters).step_size().item() == pytest.approx(size), name


# hyperparameters that every objective is tried with; two heads never share one
TRIED = {"K": [0.0, 5.0, 60.0], "eta": [0.01, 0.5, 0.1], "lambda_": [0.1, 1.0, 10.0]}
TRIED |= {"beta": [0.0, 1.0, 3.0], "p": [0.05, 0.3, 1.0]}
TRIED |= {"gamma": [0.0, 0.5, 2.0], "alpha": [0.2, 1.0, 2.0]}


def tried(name):
    """Values of an objective's hyperparameters for three heads."""
    return {p: column(TRIED[p])[:, 0] for p in OBJECTIVES[name].ranges}


@st.composite
def batches(draw, heads=3):
    """Logits, labels and environments of heads; some lack environments or have one class."""
    m = draw(st.integers(1, 9))
    numbers = st.floats(-6, 6).map(lambda x: round(x, 3))

    def table(values):
        return [[draw(values) for _ in range(heads)] for _ in range(m)]

    one = draw(st.sampled_from([st.integers(0, 1), st.just(0), st.just(1)]))
    environments = draw(st.sampled_from([st.integers(0, 3), st.integers(1, 2), st.just(3)]))
    logits = torch.tensor(table(numbers), dtype=torch.float64)
    labels = torch.tensor(table(one), dtype=torch.float64)
    return logits, labels, torch.tensor(table(environments))


def plain_counts():
    classes = [[900.0, 50.0, 10.0], [100.0, 50.0, 1.0]]
    environments = [[800.0, 20.0, 5.0], [100.0, 30.0, 4.0], [50.0, 40.0, 1.0], [50.0, 10.0, 1.0]]
    return TrainingCounts(torch.tensor(classes).double(), torch.tensor(environments).double())


def one_head(counts, head):
    own = slice(head, head + 1)
    return TrainingCounts(counts.classes[:, own], counts.environments[:, own])


VARIED = [(name, variant) for name in OBJECTIVES for variant in VARIANTS]


@pytest.mark.parametrize(("name", "variant"), VARIED)
@given(batches())
@settings(max_examples=20)
def test_many_heads_equal_one_head_at_a_time(name, variant, batch):
    counts = plain_counts()
    values = make(name, counts, variant, **tried(name))(*batch)
    assert values.shape == (3,)
    for head in range(3):
        parameters = {p: TRIED[p][head] for p in OBJECTIVES[name].ranges}
        alone = make(name, one_head(counts, head), variant, **parameters)
        expected = alone(*(part[:, head : head + 1] for part in batch))
        assert float(values[head]) == pytest.approx(float(expected), abs=1e-12)


@pytest.mark.parametrize(("name", "variant"), VARIED)
@given(batches())
@settings(max_examples=20)
def test_the_closed_form_is_the_derivative(name, variant, batch):
    logits, labels, environments = batch
    # each with a state of its own
    one, other, own = (make(name, plain_counts(), variant, **tried(name)) for _ in range(3))
    followed = logits.clone().requires_grad_()
    value = one(followed, labels, environments)
    (expected,) = torch.autograd.grad(value.sum(), followed)
    again, gradient = derived(other, logits, labels, environments)
    assert torch.allclose(again, value.detach(), atol=1e-12, rtol=1e-12)
    # as an objective without a closed form does it
    automatic = Objective.derivative(own, own.terms(*batch))
    assert torch.allclose(automatic[0], again, atol=1e-10)
    assert torch.allclose(automatic[1], expected, atol=1e-10)
    if name == "irm" and variant == "paper":
        # where a slope is 0 the norm has no derivative: both are right
        s = logits.sigmoid()
        for c in range(4):
            inside = (environments == c).double()
            slope = (inside * (s - labels) * logits).sum(dim=0)
            flat = (slope.abs() < 1e-12) & (inside.sum(dim=0) > 0)
            expected[:, flat], gradient[:, flat] = 0, 0
    assert torch.allclose(gradient, expected, atol=1e-10, rtol=1e-8)


def rows_of(batch, head):
    logits, labels, environments = (part[:, head].tolist() for part in batch)
    return list(zip(logits, map(int, labels), environments, strict=True))


def loss(z, y):
    return math.log1p(math.exp(-abs(z))) + max(-z if y else z, 0)


def means(rows):
    """Environment -> mean loss, of those that are there."""
    found = {}
    for z, y, c in rows:
        found.setdefault(c, []).append(loss(z, y))
    return {c: mean(values) for c, values in found.items()}


def naive_vrex(rows, value):
    found = list(means(rows).values())
    return mean(found) + value * mean((one - mean(found)) ** 2 for one in found)


def naive_irm(rows, value):
    slopes = {}
    for z, y, c in rows:
        slopes.setdefault(c, []).append((1 / (1 + math.exp(-z)) - y) * z)
    return sum(means(rows).values()) + value * sum(abs(mean(s)) for s in slopes.values())


def naive_cvar(rows, value):
    left, total = value * len(rows), 0.0
    for worst in sorted((loss(z, y) for z, y, _ in rows), reverse=True):
        total += min(left, 1) * worst
        left = max(left - 1, 0)
    return total / (value * len(rows))


def naive_focal(rows, value):
    q = [1 / (1 + math.exp(-z if y else z)) for z, y, _ in rows]
    return mean((1 - p) ** value * -math.log(p) for p in q)


# (rows, numbers of the two labels, numbers of the environments, hyperparameter): the definitions,
# word by word
NAIVE = {
    "erm": lambda rows, n, e, a: mean(loss(z, y) for z, y, _ in rows),
    "label-reweight": lambda rows, n, e, a: mean(
        (sum(n) / n[y]) ** a * loss(z, y) for z, y, _ in rows
    ),
    "environment-reweight": lambda rows, n, e, a: mean(
        (sum(e) / e[c]) ** a * loss(z, y) for z, y, c in rows
    ),
    "balanced-softmax": lambda rows, n, e, a: mean(
        loss(z + math.log(n[1] / n[0]), y) for z, y, _ in rows
    ),
    "gdro": lambda rows, n, e, a: max(v + a / math.sqrt(e[c]) for c, v in means(rows).items()),
    "vrex": lambda rows, n, e, a: naive_vrex(rows, a),
    "irm": lambda rows, n, e, a: naive_irm(rows, a),
    "cvar": lambda rows, n, e, a: naive_cvar(rows, a),
    "focal": lambda rows, n, e, a: naive_focal(rows, a),
}


@pytest.mark.parametrize("name", NAIVE)
@given(batches())
@settings(max_examples=20)
def test_the_definitions(name, batch):
    counts = plain_counts()
    together = make(name, counts, **tried(name))(*batch)
    for head in range(3):
        value = TRIED[PARAMETER[name]][head] if PARAMETER[name] else None
        sizes = counts.classes[:, head].tolist(), counts.environments[:, head].tolist()
        expected = NAIVE[name](rows_of(batch, head), *sizes, value)
        assert float(together[head]) == pytest.approx(expected, abs=1e-9)


def test_special_cases_are_erm():
    erm = make("erm")(*BATCH)
    same = {"focal": {"gamma": 0}, "cvar": {"p": 1}}
    same |= {"label-reweight": {"alpha": 0}, "environment-reweight": {"alpha": 0}}
    for name, parameters in same.items():
        assert float(make(name, **parameters)(*BATCH)) == pytest.approx(float(erm), abs=1e-12)


def test_extreme_logits_stay_finite():
    logits = column([1000.0, -1000.0, 1000.0, -1000.0])
    batch = (logits, column([1.0, 1.0, 0.0, 0.0]), column([0, 1, 2, 3], torch.int64))
    for name in OBJECTIVES:
        objective = make(name, **{p: TRIED[p][1] for p in OBJECTIVES[name].ranges})
        value, gradient = derived(objective, *batch)
        assert torch.isfinite(value).all(), name
        assert torch.isfinite(gradient).all(), name


def test_what_is_refused():
    refused(lambda: make("gdro"), "K", "missing")
    refused(lambda: make("gdro", K=-1), "K", "-1")
    refused(lambda: make("cvar", p=0), "p")
    refused(lambda: make("cvar", p=float("nan")), "p")
    refused(lambda: make("focal", gama=1, gamma=1), "gama", "gamma")
    parts = "published", "paper, released"
    refused(lambda: make("erm", variant="published"), *parts)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_objectives_keep_heads_apart(name):
    kind = OBJECTIVES[name]
    check_objective(kind, {parameter: low for parameter, (low, _) in kind.ranges.items()})


@pytest.mark.parametrize(
    ("values", "part"),
    [
        (lambda of: of.mean(), "a Tensor of shape () for two heads"),
        (lambda of: of, "a Tensor of shape (12, 2)"),
        (lambda of: of.mean(dim=0).tolist(), "a list of shape ()"),
        (lambda of: of.mean(dim=0).detach(), "detached"),
        (lambda of: of.mean(dim=0) / of.sum(), "depends on the outputs of another head"),
    ],
)
def test_objectives_that_cannot_train_many_heads_are_refused(values, part):
    class Own(Objective):
        name = "own"

        def __call__(self, logits, labels, _environments):
            return values(losses(logits, labels))

    refused(lambda: check_objective(Own, {}), "objective own", part, "(H,)")
