"""Data of figures, compared with loops over the records, and their drawings."""

import io
import itertools
import math
import statistics
import warnings
from dataclasses import replace
from functools import cache, partial
from xml.etree import ElementTree as ET

import numpy as np
import polars as pl
import pytest
from made_runs import made_runs
from PIL import Image
from planted import planted_data, planted_predictions
from refusals import fails, refused
from scored import arrays_of, logits, small_data, small_suite

import nooch
from nooch import plot
from nooch.base.errors import ParameterError, UndefinedError, WrongTypeError
from nooch.evaluation import Predictions, class_losses
from nooch.evaluation.losses import sweep_losses
from nooch.evaluation.metrics.proportions import wilson
from nooch.evaluation.rate_words import Rate
from nooch.report.figures.levels import (
    LEVELS,
    compared_rates,
    draw_levels,
    level_panel,
    level_points,
    loss_points,
    points_of_scores,
)
from nooch.report.figures.style import FORMATS, canvas, encoded, worded
from nooch.report.figures.sweeps import cue_counts, draw_cues, share_points, tau_counts
from nooch.report.results.run_results import read_results
from nooch.suites.sweep import POOLED

ALPHAS, BETAS, TAUS = [0.0, 0.02, 0.05], [0.05, 0.1, 0.16], [-0.5, 0.0, 0.25, 0.5]


@pytest.fixture(scope="module")
def suite():
    return small_suite()


@pytest.fixture(scope="module")
def losses(suite):
    runs = [Predictions.from_arrays(*arrays_of(logits(suite)), scale="logit")]
    return class_losses(suite, runs, split="test")


@pytest.fixture(scope="module")
def sweep():
    return nooch.sweep_thresholds(small_data(), alpha=ALPHAS, beta=BETAS)


def embedded():
    data = small_data()
    values = np.random.default_rng(0).normal(size=(len(data), 4))
    values[::11] = np.nan
    return data.with_embedding("e", values)


@pytest.fixture(scope="module")
def scores(suite):
    return nooch.evaluate(suite, logits(suite), bootstrap=5)


def outputs(data, tasks=("fire_hydrant", "cow"), seed=0):
    values = np.round(np.random.default_rng(seed).normal(size=(len(data), len(tasks))), 1)
    return Predictions.from_arrays(values, data.image_ids, tasks, scale="logit", run=f"r{seed}")


def test_points_of_fig_3(losses):
    points = loss_points(losses)
    assert points.select("criterion", "side").unique(maintain_order=True).rows() == [
        (criterion, side) for criterion in ("ce", "~ce") for side in ("positive", "negative")
    ]
    for row in points.iter_rows(named=True):
        side = row["side"]
        (of,) = losses.filter(criterion=row["criterion"], task=row["task"]).rows(named=True)
        assert (row["all"], row["hard"]) == (of[side], of[f"hard_{side}"])
        assert (row["n"], row["n_hard"]) == (of[f"{side}s"], of[f"hard_{side}s"])


def test_points_of_figs_4_to_7_of_runs(suite, tmp_path):
    of_runs = read_results(made_runs(tmp_path / "runs", suite).path, [suite]).cells
    for metric in LEVELS:
        points = level_points(of_runs, metric)
        assert set(points["subset"]) == set(LEVELS[metric])
        for row in points.iter_rows(named=True):
            keys = {key: row[key] for key in ("criterion", "subset", "method")}
            cells = of_runs.filter(pl.col("task") != "average", metric=metric, **keys)
            sd = math.sqrt(sum(s**2 for s in cells["std"])) / cells.height
            mean = cells["mean"].mean()
            assert (row["value"], row["low"], row["high"]) == pytest.approx(
                (mean, mean - sd, mean + sd)
            )
            assert (row["tasks"], row["seeds"], row["bar"]) == (2, 3, "sd over seeds")


@pytest.mark.parametrize("tasks", [["car"], ["car", "fire_hydrant"]])
def test_points_of_figs_4_to_7_of_scores(suite, tasks, monkeypatch):
    # its sets are smaller than those that have intervals
    monkeypatch.setattr(nooch.evaluation.bootstrap, "FEWEST", 2)
    runs = {"a": logits(suite), "b": logits(suite, seed=3)}
    scores = nooch.evaluate(suite, runs, tasks=tasks, bootstrap=20)
    points = points_of_scores(scores, "nll")
    assert points.height == 2 * 2 * 4
    for row in points.iter_rows(named=True):
        task = "average" if len(tasks) > 1 else tasks[0]
        of = {"run": row["method"], "criterion": row["criterion"], "task": task}
        value = scores.value("nll", row["subset"], **of)
        assert row["value"] == value
        # a few images that are alike have no interval
        assert row["low"] is None or row["low"] < value < row["high"]
        assert row["tasks"] == row["of_tasks"] == len(tasks)
        assert row["averaged_tasks"] == ", ".join(tasks)
    assert points.drop_nulls("low").height


def test_lines_of_fig_10(sweep):
    counts = cue_counts(sweep.cues)
    assert counts.height == 5 * len(ALPHAS)
    for alpha, k, tasks in counts.rows():
        assert tasks == sum(n >= k for _, a, n in sweep.cues.rows() if a == alpha)


def test_fields_of_fig_12(sweep):
    points = share_points(sweep.grid, "test")
    assert points.height == 2 * len(ALPHAS) * len(BETAS)
    for row in points.iter_rows(named=True):
        rows = sweep.grid.filter(
            pl.col("task") != POOLED, split="test", alpha=row["alpha"], beta=row["beta"]
        )
        hard, n = (sum(rows[column]) for column in (f"hard_{row['side']}s", f"{row['side']}s"))
        assert (row["hard"], row["n"], row["share"]) == (hard, n, pytest.approx(hard / n))


def test_bands_of_fig_11():
    sweep = nooch.sweep_thresholds(embedded(), tau=TAUS, embedding="e")
    bands = tau_counts(sweep.tau, "valid")
    for row in bands.iter_rows(named=True):
        rows = sweep.tau.filter(pl.col("task") != POOLED, split="valid", tau=row["tau"])
        values = rows[f"hard_{row['side']}s"].to_list()
        quartiles = np.percentile(values, [25, 50, 75]).tolist()
        assert (row["low"], row["median"], row["high"]) == pytest.approx(quartiles)
        assert row["tasks"] == len(values)


def _mean_losses(data, runs, task, ids):
    """Mean over images of the mean over runs, by loops."""
    y = dict(zip(data.image_ids.tolist(), data.labels(task).tolist(), strict=True))
    values = []
    for i in ids:
        sign = -1 if y[i] else 1
        logits = [r.values[r.tasks.index(task), r.image_ids.index_of(i)] for r in runs]
        values.append(statistics.fmean(math.log1p(math.exp(sign * logit)) for logit in logits))
    return len(values), sum(values)


def _check_losses(row, side, n, lost):
    assert row[f"hard_{side}s"] == n
    assert row[f"loss_{side}"] == (pytest.approx(lost / n) if n else None)


def test_losses_over_alpha_and_beta_are_those_of_found_sets():
    data, tasks = small_data(), ["fire_hydrant", "cow"]
    runs = [outputs(data), outputs(data, seed=1)]
    grid = sweep_losses(data, runs, alpha=ALPHAS, beta=BETAS).grid
    assert grid["task"].unique(maintain_order=True).to_list() == [*tasks, POOLED]
    n_hard = 0
    for alpha, beta in itertools.product(ALPHAS, BETAS):
        suite = nooch.find(data, {"ce": nooch.CE(alpha, beta)}, tasks=tasks, splits=["test"])
        of_grid = grid.filter(alpha=alpha, beta=beta, split="test")
        pooled = of_grid.row(by_predicate=pl.col("task") == POOLED, named=True)
        for side in ("positive", "negative"):
            total = np.zeros(2)
            for task in tasks:
                row = of_grid.row(by_predicate=pl.col("task") == task, named=True)
                there = ("ce", task, "test") in suite.keys
                ids = suite.set("ce", task, "test").ids(f"hard_{side}") if there else []
                n, lost = _mean_losses(data, runs, task, ids)
                _check_losses(row, side, n, lost)
                total += n, lost
            _check_losses(pooled, side, *total)
            n_hard += total[0]
    assert n_hard > 50


def test_losses_over_tau_are_those_of_found_sets():
    data, tasks = embedded(), ["fire_hydrant", "cow"]
    run = outputs(data)
    tau = sweep_losses(data, run, tau=TAUS, embedding="e", split="valid").tau
    assert tau["split"].unique().to_list() == ["valid"]
    for value, task in itertools.product(TAUS, tasks):
        suite = nooch.find(data, {"gist": nooch.Gist("e", value)}, tasks=tasks, splits=["valid"])
        row = tau.filter(task=task, tau=value).row(0, named=True)
        for side in ("positive", "negative"):
            ids = suite.set("gist", task, "valid").ids(f"hard_{side}")
            _check_losses(row, side, *_mean_losses(data, [run], task, ids))


def test_losses_that_cannot_be_swept():
    data = embedded()
    for words, options in {
        "nothing to sweep": {},
        "alpha together with beta": {"alpha": [0.1]},
        "embedding": {"tau": [0.1]},
        "'f'": {"tau": [0.1], "embedding": "f"},
        "did you mean test": {"tau": [0.1], "embedding": "e", "split": "tset"},
    }.items():
        refused(partial(sweep_losses, data, outputs(data), **options), words)
    sweep = partial(partial, sweep_losses, data, alpha=[0.1], beta=[0.1])
    fails(sweep(outputs(data), tasks=["road"]), "no predictions for road")
    fails(sweep(outputs(data, ("sky",))), "no predictions for car", "only for sky")
    fails(sweep(outputs(data.select("train"))), "have no prediction", "split test")


def drawings(suite, losses, scores):
    """A drawing on axes by each function of nooch.plot."""
    data = embedded()
    sweep = nooch.sweep_thresholds(
        data, alpha=ALPHAS, beta=BETAS, tau=TAUS, embedding="e", splits=["test"]
    )
    swept = sweep_losses(data, outputs(data), alpha=ALPHAS, beta=BETAS, tau=TAUS, embedding="e")
    return {
        "support": lambda ax: plot.support(suite.set("ce", "car", "test"), ax=ax),
        "levels": lambda ax: plot.levels(scores, "nll", "ce", ax=ax),
        "losses": lambda ax: plot.losses(losses, "negative", "ce", ax=ax),
        "cues": lambda ax: plot.cues(sweep, ax=ax),
        "hard_by_tau": lambda ax: plot.hard_by_tau(sweep, "negative", ax=ax),
        "shares": lambda ax: plot.shares(sweep, task="car", ax=ax),
        "losses_by_area": lambda ax: plot.losses_by_area(swept, ax=ax),
        "losses_by_tau": lambda ax: plot.losses_by_tau(swept, ax=ax),
        "findings": lambda ax: plot.findings(planted_check()[1], ax=ax),
        "slices": lambda ax: plot.slices(planted_check()[2], ax=ax),
    }


@cache
def planted_check():
    """A dataset of cars on roads, and findings and slices of a model that errs by the road."""
    data = planted_data()
    suite = nooch.find(data, {"ce": nooch.CE()}, tasks=["car"], splits=["test"])
    answers = planted_predictions(data)
    return data, nooch.cue_findings(suite, answers, data=data), nooch.find_slices(data, answers)


def drawn_rates(ax):
    """Labels, rates with their intervals, and colors of the marks, read back from the axes."""
    labels = [" ".join(label.get_text().split()) for label in ax.get_yticklabels()]
    rows = [{} for _ in labels]
    for line in ax.lines:
        row, kind = rows[round(line.get_ydata()[0])], line.get_color()
        if line.get_marker() != "None":
            row[kind] = [line.get_xdata()[0], line.get_markerfacecolor() == kind]
        elif kind in {"#D55E00", "#0072B2"}:
            row[f"{kind} interval"] = [*line.get_xdata()]
    return labels, rows


def test_findings_are_drawn_as_the_page_has_them(tmp_path):
    data, found, _ = planted_check()
    checked = nooch.check(data, planted_predictions(data), tmp_path / "out", bootstrap=0)
    for report in (found, checked):
        _, (ax,) = canvas(1)
        labels, (row,) = drawn_rates(plot.findings(report, ax=ax))
        assert labels == ["The model misses cars without a road"]
        (finding,) = checked.answer.findings
        assert finding.sentence.startswith(f"{labels[0]} ")
        there, elsewhere = finding.rates
        assert row == {
            "#D55E00": [there.value, True],
            "#D55E00 interval": [there.low, there.high],
            "#0072B2": [elsewhere.value, True],
            "#0072B2 interval": pytest.approx(
                [float(end) for end in wilson(np.array(elsewhere.value), np.array(elsewhere.n))]
            ),
        }
        assert ax.get_title() == "Errors by context (test)"


def test_slices_are_drawn_as_ranked_and_unconfirmed_ones_hollow():
    _, _, found = planted_check()
    half = found.table.with_columns(confirmed=pl.int_range(pl.len()) == 0)
    slices = replace(found, table=half)
    assert len(slices) == 2
    _, (ax, other) = canvas(2)
    labels, rows = drawn_rates(plot.slices(slices, ax=ax))
    assert labels[0] == "The model misses cars without a road"
    assert labels[1] == "The model claims cars in images with a road but no car"
    for number, (drawn, row) in enumerate(zip(rows, half.iter_rows(named=True), strict=True)):
        assert drawn == {
            "#D55E00": [row["rate"], number == 0],
            "#D55E00 interval": [row["rate_low"], row["rate_high"]],
            "#0072B2": [row["rate_rest"], number == 0],
        }
    shown = [text.get_text() for text in ax.get_legend().texts]
    assert shown == ["in these images", "elsewhere", "not beyond chance"]
    labels, _ = drawn_rates(plot.slices(slices, most=1, ax=other))
    assert len(labels) == 1
    assert len(other.get_legend().texts) == 2


def test_every_plot_draws_on_the_axes_that_it_is_given_or_on_new_ones(suite, losses, scores):
    from matplotlib import pyplot as plt

    made = drawings(suite, losses, scores)
    assert set(made) == set(plot.__all__) - {"HasCells", "save_sweep", "save_gallery"}
    plt.switch_backend("agg")
    for name, draw in made.items():
        _, (ax, other) = canvas(2)
        assert draw(ax) is ax, name
        assert ax.get_xlabel(), name
        assert ax.get_title(), name
        assert not other.has_data()
        alone = draw(None)
        assert alone.has_data(), name
        plt.close(alone.figure)


def test_lines_say_what_the_data_say(suite, sweep):
    _, (ax,) = canvas(1)
    counts = cue_counts(sweep.cues)
    plot.cues(sweep, ax=ax)
    for k, line in enumerate(ax.lines, 1):
        assert line.get_xdata().tolist() == counts.filter(cues=k)["alpha"].to_list()
        assert line.get_ydata().tolist() == counts.filter(cues=k)["tasks"].to_list()
    challenge = suite.set("ce", "car", "test")
    _, (ax,) = canvas(1)
    plot.support(challenge, ax=ax)
    thresholds = [challenge.positive.threshold, challenge.negative.threshold]
    assert [line.get_xdata()[0] for line in ax.lines] == thresholds
    # either side adds up to one
    assert sum(bar.get_height() for bar in ax.patches) == pytest.approx(2)


def test_what_cannot_be_plotted(suite, sweep, scores):
    few = nooch.evaluate(suite, logits(suite), metrics=["nll"])
    swept = sweep_losses(small_data(), outputs(small_data()), alpha=ALPHAS, beta=BETAS)
    _, findings, slices = planted_check()
    no_findings = replace(findings, table=findings.table.clear())
    no_slices = replace(slices, table=slices.table.clear())
    for draw, *given, words, kind in (
        (plot.support, suite.set("~ce", "car", "test"), "gives no support", UndefinedError),
        (plot.levels, few, "no value of auc", UndefinedError),
        (plot.levels, scores, "ap", "'ap' is not a metric", ParameterError),
        (plot.levels, scores, "criterion='~ce'", ParameterError),
        (plot.levels, scores, "auc", "gist", "'gist'", ParameterError),
        (plot.shares, sweep, "split='test'", ParameterError),
        (plot.shares, sweep, "both", "test", "'both' is not a side", ParameterError),
        (partial(plot.shares, task="cra"), sweep, "positive", "test", "did you mean car",
         ParameterError),
        (plot.hard_by_tau, sweep, "tau was not swept", UndefinedError),
        (plot.losses_by_tau, swept, "tau was not swept", UndefinedError),
        (partial(plot.losses_by_area, task="dog"), swept, "'dog'", ParameterError),
        (plot.findings, no_findings, "no errors by context (test)", UndefinedError),
        (plot.slices, no_slices, "no slices (test)", UndefinedError),
        (plot.findings, slices, "nooch.cue_findings", WrongTypeError),
        (plot.slices, findings, "nooch.find_slices", WrongTypeError),
        (partial(plot.slices, most=0), slices, "`most`", ParameterError),
    ):  # fmt: skip
        fails(partial(draw, *given), words, kind=kind)


HOSTILE = ["$x_1$ $", "<script>&\"'", "a\x00b\nc", "\u202eright to left", "字字", "y" * 10_000]


def test_hostile_names_are_drawn_as_text():
    about = {"source": "here", "metric": "auc", "bar": "sd", "tasks": 1, "of_tasks": 1, "seeds": 3}
    values = [
        {"subset": "hard", "value": 0.5, "low": 0.4, "high": 0.6},
        {"subset": "easy", "value": 0.9, "low": None, "high": None},
    ]
    criteria = HOSTILE[-1], "".join(HOSTILE[:-1])
    named = itertools.product(criteria, HOSTILE, values)
    rows = [{**about, "criterion": c, "method": method, **value} for c, method, value in named]
    _, (ax,) = canvas(1)
    rates = Rate("", 0.5, 9), Rate("elsewhere", 0.1)
    assert encoded(compared_rates([(n, rates, True) for n in HOSTILE], "x", ax).figure, "png")
    drawing = draw_levels(pl.DataFrame(rows))
    shown, *others = (encoded(drawing, ending, dpi=50) for ending in FORMATS)
    assert all(others)
    texts = {element.text for element in ET.fromstring(shown).iter() if element.text}
    assert {worded(name).replace(r"\$", "$") for name in (*HOSTILE, *criteria)} <= texts


def test_the_same_figure_gives_the_same_bytes_in_every_format(sweep):
    one, two = draw_cues(sweep), draw_cues(sweep)
    for ending in FORMATS:
        assert encoded(one, ending, dpi=50) == encoded(two, ending, dpi=50)
    assert encoded(one, "pdf").startswith(b"%PDF-")
    figure, _ = canvas(2, 3.0, 2.0)
    assert Image.open(io.BytesIO(encoded(figure, "png", dpi=100))).size == (600, 200)
    refused(lambda: encoded(one, "gif"), "'gif' is not a figure format")


def test_the_style_of_others_is_left_alone(scores):
    import matplotlib as mpl

    with mpl.rc_context({"font.size": 31, "axes.grid": False}), warnings.catch_warnings():
        warnings.simplefilter("error")
        before = dict(mpl.rcParams)
        points = points_of_scores(scores, "auc")
        figure = draw_levels(points)
        assert dict(mpl.rcParams) == before
        assert figure.axes[0].xaxis.label.get_size() == 9
        other, (ax,) = canvas(1)
        assert level_panel(points, "ce", ax).xaxis.label.get_size() == 31
        assert encoded(other, "svg")
