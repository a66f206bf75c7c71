"""Data of figures, held to loops over the records, and the drawings of it."""

import io
import math
import statistics
import warnings
from xml.etree import ElementTree as ET

import hypothesis.strategies as st
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from made_runs import made_runs
from PIL import Image
from refusals import fails
from scored import logits, small_data, small_suite

import nooch
from nooch import plot
from nooch.challenge import POOLED
from nooch.errors import ParameterError, UndefinedError
from nooch.evaluation import Predictions, class_losses
from nooch.evaluation.hard_losses import hard_sums
from nooch.finding.loss_sweep import sweep_losses
from nooch.report.figure_style import FORMATS, canvas, encoded, worded
from nooch.report.level_figures import LEVELS, draw_levels, level_points, levels, points_of_scores
from nooch.report.loss_figures import draw_losses, loss_points
from nooch.report.sweep_figures import cue_counts, share_points, tau_counts
from nooch.results.run_results import read_results

ALPHAS, BETAS, TAUS = [0.0, 0.02, 0.05], [0.05, 0.1, 0.16], [-0.5, 0.0, 0.25, 0.5]


@pytest.fixture(scope="module")
def suite():
    return small_suite()


def embedded():
    data = small_data()
    values = np.random.default_rng(0).normal(size=(len(data), 4))
    values[::11] = np.nan
    return data.with_embedding("e", values)


def outputs(data, tasks=("fire_hydrant", "cow"), seed=0):
    values = np.round(np.random.default_rng(seed).normal(size=(len(data), len(tasks))), 1)
    return Predictions.of(values, data.image_ids, tasks, scale="logit", run=f"r{seed}")


def test_points_of_fig_3(suite):
    losses = class_losses(suite, [Predictions.of(*_arrays(suite), scale="logit")], split="test")
    points = loss_points(losses)
    assert points.select("criterion", "side").unique(maintain_order=True).rows() == [
        (criterion, side) for criterion in ("ce", "~ce") for side in ("positive", "negative")
    ]
    logit = {(i, t): v for i, t, v in logits(suite).rows()}
    for row in points.iter_rows(named=True):
        challenge, sign = (
            suite.set(row["criterion"], row["task"], "test"),
            row["side"] == "positive",
        )
        hard = set(challenge.ids(f"hard_{row['side']}"))
        every = {
            i: math.log1p(math.exp(-(1 if y else -1) * logit[i, row["task"]]))
            for i, y in zip(challenge.image_ids, challenge.labels, strict=True)
            if y == sign
        }
        lost = [v for i, v in every.items() if i in hard]
        assert (row["n"], row["n_hard"]) == (len(every), len(lost))
        assert row["all"] == pytest.approx(statistics.fmean(every.values()))
        assert row["hard"] == (pytest.approx(statistics.fmean(lost)) if lost else None)


def _arrays(suite):
    wide = logits(suite).pivot(on="task", index="image_id", values="logit")
    return wide.drop("image_id").to_numpy(), wide["image_id"], wide.columns[1:]


@pytest.mark.parametrize("metric", LEVELS)
def test_points_of_figs_4_to_7_of_runs(suite, metric, tmp_path):
    found = read_results(made_runs(tmp_path / "runs", suite).path, [suite])
    points = level_points(found.cells, metric)
    assert set(points["subset"]) == set(LEVELS[metric])
    for row in points.iter_rows(named=True):
        cells = found.cells.filter(
            pl.col("task") != "average",
            criterion=row["criterion"],
            metric=metric,
            subset=row["subset"],
            method=row["method"],
        )
        sd = math.sqrt(sum(s**2 for s in cells["std"])) / cells.height
        assert row["value"] == pytest.approx(cells["mean"].mean())
        assert (row["low"], row["high"]) == (
            pytest.approx(row["value"] - sd),
            pytest.approx(row["value"] + sd),
        )
        assert (row["tasks"], row["seeds"], row["bar"]) == (2, 3, "sd over seeds")


@pytest.mark.parametrize("tasks", [["car"], ["car", "fire_hydrant"]])
def test_points_of_figs_4_to_7_of_scores(suite, tasks):
    scores = nooch.evaluate(
        suite, {"a": logits(suite), "b": logits(suite, seed=3)}, tasks=tasks, bootstrap=20
    )
    points = points_of_scores(scores, "nll")
    assert points.height == 2 * 2 * 4
    for row in points.iter_rows(named=True):
        task = "average" if len(tasks) > 1 else tasks[0]
        value = scores.value(
            "nll", row["subset"], run=row["method"], criterion=row["criterion"], task=task
        )
        assert row["value"] == value
        # a few images that are alike have no interval
        assert row["low"] is None or row["low"] < value < row["high"]
        assert (row["tasks"], row["of_tasks"], row["averaged_tasks"]) == (
            len(tasks),
            len(tasks),
            ", ".join(tasks),
        )
    assert points.drop_nulls("low").height


def test_lines_of_fig_10():
    sweep = nooch.sweep_thresholds(small_data(), alpha=ALPHAS, beta=BETAS)
    counts = cue_counts(sweep.cues)
    assert counts.height == 5 * len(ALPHAS)
    for alpha, k, tasks in counts.rows():
        assert tasks == sum(n >= k for _, a, n in sweep.cues.rows() if a == alpha)


def test_fields_of_fig_12():
    sweep = nooch.sweep_thresholds(small_data(), alpha=ALPHAS, beta=BETAS)
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
        assert (row["low"], row["median"], row["high"]) == pytest.approx(
            np.percentile(values, [25, 50, 75]).tolist()
        )
        assert row["tasks"] == len(values)


_NUMBERS = st.sampled_from([0.0, 0.1, 0.25, 0.5, math.nan]) | st.floats(0, 1)


@given(
    st.lists(st.tuples(_NUMBERS, st.booleans(), st.floats(0, 9))),
    st.lists(st.sampled_from([0.0, 0.1, 0.3, 0.5, 1.0])),
)
def test_sums_over_thresholds_are_those_of_loops(rows, thresholds):
    support, labels, losses = (
        np.array([row[i] for row in rows], kind) for i, kind in enumerate((float, bool, float))
    )
    found = hard_sums(support, labels, losses, np.array(thresholds, float))
    for t, one in zip(thresholds, found, strict=True):
        low = [loss for s, y, loss in rows if y and s < t]
        high = [loss for s, y, loss in rows if not y and s > t]
        assert one.tolist() == pytest.approx([len(low), len(high), sum(low), sum(high)])


def _mean_losses(data, runs, task, ids):
    """Mean over images of the mean over runs, by loops."""
    y = dict(zip(data.image_ids.tolist(), data.labels(task).tolist(), strict=True))
    values = [
        statistics.fmean(
            math.log1p(
                math.exp(
                    -(1 if y[i] else -1)
                    * run.values[run.tasks.index(task), run.image_ids.index_of(i)]
                )
            )
            for run in runs
        )
        for i in ids
    ]
    return len(values), sum(values)


def test_losses_over_alpha_and_beta_are_those_of_found_sets():
    data = small_data()
    runs = [outputs(data), outputs(data, seed=1)]
    grid = sweep_losses(data, runs, alpha=ALPHAS, beta=BETAS).grid
    assert grid["task"].unique(maintain_order=True).to_list() == ["fire_hydrant", "cow", POOLED]
    n_hard = 0
    for alpha in ALPHAS:
        for beta in BETAS:
            suite = nooch.find(
                data, {"ce": nooch.CE(alpha, beta)}, tasks=["fire_hydrant", "cow"], splits=["test"]
            )
            total = {"positive": [0, 0.0], "negative": [0, 0.0]}
            for task in ("fire_hydrant", "cow"):
                row = grid.filter(task=task, alpha=alpha, beta=beta, split="test").row(
                    0, named=True
                )
                for side, sums in total.items():
                    there = ("ce", task, "test") in suite.keys
                    ids = suite.set("ce", task, "test").ids(f"hard_{side}") if there else []
                    n, lost = _mean_losses(data, runs, task, ids)
                    assert row[f"hard_{side}s"] == n
                    assert row[f"loss_{side}"] == (pytest.approx(lost / n) if n else None)
                    sums[0], sums[1] = sums[0] + n, sums[1] + lost
                    n_hard += n
            pooled = grid.filter(task=POOLED, alpha=alpha, beta=beta).row(0, named=True)
            for side, (n, lost) in total.items():
                assert pooled[f"hard_{side}s"] == n
                assert pooled[f"loss_{side}"] == (pytest.approx(lost / n) if n else None)
    assert n_hard > 50


def test_losses_over_tau_are_those_of_found_sets():
    data = embedded()
    run = outputs(data)
    tau = sweep_losses(data, run, tau=TAUS, embedding="e", split="valid").tau
    for value in TAUS:
        suite = nooch.find(
            data, {"gist": nooch.Gist("e", value)}, tasks=["fire_hydrant", "cow"], splits=["valid"]
        )
        for task in ("fire_hydrant", "cow"):
            row = tau.filter(task=task, tau=value).row(0, named=True)
            for side in ("positive", "negative"):
                n, lost = _mean_losses(
                    data, [run], task, suite.set("gist", task, "valid").ids(f"hard_{side}")
                )
                assert (row[f"hard_{side}s"], row["split"]) == (n, "valid")
                assert row[f"loss_{side}"] == (pytest.approx(lost / n) if n else None)


def test_what_losses_cannot_be_swept():
    data = embedded()
    run = outputs(data)
    fails(lambda: sweep_losses(data, run), "nothing to sweep", kind=ParameterError)
    fails(
        lambda: sweep_losses(data, run, alpha=[0.1]),
        "alpha together with beta",
        kind=ParameterError,
    )
    fails(lambda: sweep_losses(data, run, tau=[0.1]), "embedding", kind=ParameterError)
    fails(lambda: sweep_losses(data, run, tau=[0.1], embedding="f"), "'f'", kind=ParameterError)
    fails(
        lambda: sweep_losses(data, run, tau=[0.1], embedding="e", split="tset"),
        "did you mean test",
        kind=ParameterError,
    )
    fails(
        lambda: sweep_losses(data, run, alpha=[0.1], beta=[0.1], tasks=["road"]),
        "no predictions for road",
    )
    fails(
        lambda: sweep_losses(data, outputs(data, ("sky",)), alpha=[0.1], beta=[0.1]),
        "no class of the dataset",
        "sky",
    )
    few = outputs(data.select("train"))
    fails(
        lambda: sweep_losses(data, few, alpha=[0.1], beta=[0.1]), "have no prediction", "split test"
    )


def drawings(suite):
    """A drawing on axes by each function of nooch.plot."""
    data = embedded()
    sweep = nooch.sweep_thresholds(
        data, alpha=ALPHAS, beta=BETAS, tau=TAUS, embedding="e", splits=["test"]
    )
    swept = sweep_losses(data, outputs(data), alpha=ALPHAS, beta=BETAS, tau=TAUS, embedding="e")
    losses = class_losses(suite, [Predictions.of(*_arrays(suite), scale="logit")], split="test")
    scores = nooch.evaluate(suite, logits(suite), bootstrap=5)
    return {
        "support": lambda ax: plot.support(suite.set("ce", "car", "test"), ax=ax),
        "levels": lambda ax: plot.levels(scores, "nll", "ce", ax=ax),
        "losses": lambda ax: plot.losses(losses, "negative", "ce", ax=ax),
        "cues": lambda ax: plot.cues(sweep, ax=ax),
        "hard_by_tau": lambda ax: plot.hard_by_tau(sweep, "negative", ax=ax),
        "shares": lambda ax: plot.shares(sweep, task="car", ax=ax),
        "losses_by_area": lambda ax: plot.losses_by_area(swept, ax=ax),
        "losses_by_tau": lambda ax: plot.losses_by_tau(swept, ax=ax),
    }


def test_every_plot_draws_on_the_axes_that_it_is_given_or_on_new_ones(suite):
    from matplotlib import pyplot as plt

    made = drawings(suite)
    assert set(made) == set(plot.__all__) - {"HasCells"}
    for name, draw in made.items():
        figure, (ax, other) = canvas(2)
        assert draw(ax) is ax, name
        assert ax.get_xlabel(), name
        assert ax.get_title(), name
        assert not other.has_data()
        assert encoded(figure, "png", dpi=50)
        with plt.rc_context({"backend": "agg"}):
            plt.switch_backend("agg")
            alone = draw(None)
            assert alone.has_data(), name
            plt.close(alone.figure)


def test_lines_say_what_the_data_say(suite):
    _, (ax,) = canvas(1)
    counts = cue_counts(nooch.sweep_thresholds(small_data(), alpha=ALPHAS, beta=BETAS).cues)
    plot.cues(nooch.sweep_thresholds(small_data(), alpha=ALPHAS, beta=BETAS), ax=ax)
    for k, line in enumerate(ax.lines, 1):
        assert line.get_xdata().tolist() == counts.filter(cues=k)["alpha"].to_list()
        assert line.get_ydata().tolist() == counts.filter(cues=k)["tasks"].to_list()
    challenge = suite.set("ce", "car", "test")
    _, (ax,) = canvas(1)
    plot.support(challenge, ax=ax)
    assert [line.get_xdata()[0] for line in ax.lines] == [
        challenge.positive.threshold,
        challenge.negative.threshold,
    ]
    # either side adds up to one
    assert sum(bar.get_height() for bar in ax.patches) == pytest.approx(2)


def test_what_cannot_be_plotted(suite):
    sweep = nooch.sweep_thresholds(small_data(), alpha=ALPHAS, beta=BETAS)
    scores = nooch.evaluate(suite, logits(suite))
    fails(
        lambda: plot.support(suite.set("~ce", "car", "test")),
        "gives no support",
        kind=UndefinedError,
    )
    fails(lambda: plot.levels(scores, "ap"), "'ap' is no metric", kind=ParameterError)
    fails(lambda: plot.levels(scores), "which criterion", "ce, ~ce", kind=ParameterError)
    fails(lambda: plot.levels(scores, "auc", "gist"), "'gist'", kind=ParameterError)
    fails(
        lambda: plot.levels(nooch.evaluate(suite, logits(suite), metrics=["nll"])),
        "no value of auc",
        kind=UndefinedError,
    )
    fails(lambda: plot.shares(sweep), "which split", "valid, test", kind=ParameterError)
    fails(lambda: plot.shares(sweep, "both", "test"), "'both' is no side", kind=ParameterError)
    fails(
        lambda: plot.shares(sweep, split="test", task="cra"),
        "did you mean car",
        kind=ParameterError,
    )
    fails(lambda: plot.hard_by_tau(sweep), "tau was not swept", kind=UndefinedError)
    swept = sweep_losses(small_data(), outputs(small_data()), alpha=ALPHAS, beta=BETAS)
    fails(lambda: plot.losses_by_tau(swept), "tau was not swept", kind=UndefinedError)
    fails(lambda: plot.losses_by_area(swept, task="dog"), "'dog'", kind=ParameterError)


@pytest.mark.parametrize(
    "name", ["$x_1$ $", "<script>&\"'", "a\x00b\nc", "\u202eright to left", "字字", "y" * 10_000]
)
def test_hostile_names_are_drawn_as_text(name):
    points = pl.DataFrame(
        {
            "source": ["here"] * 2, "criterion": [name] * 2, "metric": ["auc"] * 2, "subset": ["hard", "easy"], "method": [name] * 2,
            "value": [0.5, 0.9], "low": [0.4, None], "high": [0.6, None], "bar": ["sd"] * 2, "tasks": [1, 1], "of_tasks": [1, 1], "seeds": [3, 3],
        }
    )  # fmt: skip
    for ending in FORMATS:
        assert encoded(draw_levels(points), ending, dpi=50)
    root = ET.fromstring(encoded(draw_levels(points), "svg"))
    texts = {element.text for element in root.iter() if element.text}
    assert worded(name).replace(r"\$", "$") in texts


def test_the_same_figure_gives_the_same_bytes_in_every_format(suite):
    losses = loss_points(
        class_losses(suite, [Predictions.of(*_arrays(suite), scale="logit")], split="test")
    )
    for ending in FORMATS:
        assert encoded(draw_losses(losses), ending) == encoded(draw_losses(losses), ending)
    fails(
        lambda: encoded(draw_losses(losses), "gif"),
        "'gif' is no figure format",
        kind=ParameterError,
    )


def test_png_has_the_size_that_dpi_says():
    figure, _ = canvas(2, 3.0, 2.0)
    assert Image.open(io.BytesIO(encoded(figure, "png", dpi=100))).size == (600, 200)
    assert encoded(figure, "pdf").startswith(b"%PDF-")


def test_the_style_of_others_is_left_alone(suite):
    import matplotlib as mpl

    with mpl.rc_context({"font.size": 31, "axes.grid": False}), warnings.catch_warnings():
        warnings.simplefilter("error")
        before = dict(mpl.rcParams)
        points = points_of_scores(nooch.evaluate(suite, logits(suite)), "auc")
        figure = draw_levels(points)
        assert dict(mpl.rcParams) == before
        assert figure.axes[0].xaxis.label.get_size() == 9
        other, (ax,) = canvas(1)
        assert levels(points, "ce", ax).xaxis.label.get_size() == 31
        assert encoded(other, "svg")
