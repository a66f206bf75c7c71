"""The table of figures: what each needs, gives, and writes. A new figure is one row here."""

from dataclasses import replace
from functools import partial

import msgspec
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st
from made_runs import made_runs
from PIL import Image
from refusals import fails, refused
from scored import logits, small_data, small_suite

import nooch
from nooch.base.errors import FormatError, InputError, OutputError, UndefinedError
from nooch.evaluation import CELLS, Predictions
from nooch.paper.figures import FIGURES, figure_data, figure_tables, save_figures
from nooch.paper.numbers import paper_cells, paper_results
from nooch.report.figures.levels import draw_levels
from nooch.report.figures.style import encoded
from nooch.report.figures.sweeps import load_sweep, save_sweep
from nooch.report.images.sources import Sources
from nooch.suites import Suite

GRIDS = {"alpha": [0.0, 0.02], "beta": [0.05, 0.1, 0.16], "tau": [-0.25, 0.0, 0.25]}

_LEVELS = (
    "source criterion metric subset method value low high bar tasks of_tasks averaged_tasks seeds"
)
# name -> columns of its data
COLUMNS = {
    "fig3": "criterion side task all hard n n_hard runs",
    "fig4": _LEVELS,
    "fig5": _LEVELS,
    "fig6": _LEVELS,
    "fig7": _LEVELS,
    "fig10": "alpha cues tasks",
    "fig11": "split side tau low median high tasks",
    "fig12": "task split side alpha beta hard n share",
    "fig13": "task split side alpha beta hard loss",
    "fig14": "task split side tau hard loss low median high tasks",
}


@pytest.fixture(scope="module")
def sources():
    data = small_data()
    data = data.with_embedding("e", np.random.default_rng(0).normal(size=(len(data), 4)))
    # a network of all classes: more tasks and more images than the suite's sets have
    values = np.random.default_rng(1).normal(size=(len(data), len(data.classes)))
    outputs = Predictions.from_arrays(values, data.image_ids, data.classes, scale="logit")
    return Sources(suite=small_suite(), data=data, predictions=outputs, bootstrap=5, **GRIDS)


@pytest.fixture(scope="module")
def next_to_paper(tmp_path_factory):
    """Runs, and the paper's numbers."""
    suite = small_suite()
    runs = made_runs(tmp_path_factory.mktemp("made") / "runs", suite)
    return Sources(suite=suite, runs=runs.path, paper=True)


def assert_within(drawing):
    """Nothing reaches over the edge of its figure, and no two titles or labels overlap."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(drawing)
    canvas.draw()
    box, (width, height) = drawing.get_tightbbox(canvas.get_renderer()), drawing.get_size_inches()
    assert min(box.x0, box.y0) > -0.02
    assert box.x1 < width + 0.02
    assert box.y1 < height + 0.02
    for texts in ([ax.title for ax in drawing.axes], [ax.xaxis.label for ax in drawing.axes]):
        boxes = [text.get_window_extent() for text in texts if text.get_text()]
        for number, one in enumerate(boxes):
            assert not any(one.overlaps(other) for other in boxes[:number])


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_has_data_a_drawing_and_words(name, sources, tmp_path):
    """Its files are the same bytes every time."""
    data = figure_data(name, sources)
    assert data.columns == COLUMNS[name].split()
    assert data.height
    files = save_figures([name], replace(sources), tmp_path, formats=["svg"])
    assert [file.name for file in files] == [f"{name}.svg", f"{name}.csv"]
    assert sorted(files) == sorted(tmp_path.iterdir())
    # numbers come back as they were, whatever their text
    assert pl.read_csv(files[1], schema=data.schema).equals(data)
    drawing = FIGURES[name].draw(sources)
    assert files[0].read_bytes() == encoded(drawing, "svg")
    panels = [ax for ax in drawing.axes if ax.get_label() != "<colorbar>"]
    assert panels
    for ax in panels:
        assert ax.get_xlabel() or drawing.get_supxlabel()
        assert ax.get_title()
    assert FIGURES[name].shows
    assert_within(drawing)


def test_what_a_figure_needs_is_named_with_the_option_that_gives_it():
    assert list(COLUMNS) == list(FIGURES)
    for name in FIGURES:
        refused(partial(figure_data, name, Sources()), f"{name} (", "needs ", "pass ")


def test_all_draws_what_can_be_drawn(sources):
    assert list(figure_tables(["all"], sources)) == list(FIGURES)
    for names in (["all"], ["fig4", "all"]):
        drawn = list(figure_tables(names, Sources(paper=True)))
        assert drawn == ["fig4", "fig5", "fig6", "fig7"]
    assert list(figure_tables(["all"], Sources(data=small_data()))) == ["fig10", "fig12"]
    refused(lambda: figure_tables(["all"], Sources()), "no figure can be drawn", "`suite`")
    refused(lambda: figure_tables([], sources), "no figure")
    refused(lambda: figure_tables(["fig33"], sources), "did you mean")


def test_all_leaves_out_what_a_suite_of_hard_images_cannot_give(sources):
    header = msgspec.structs.replace(sources.suite.header, hard_only=True)
    hard = replace(sources, suite=Suite(header, sources.suite.set))
    assert list(figure_tables(["all"], hard)) == [name for name in FIGURES if name != "fig3"]
    refused(lambda: figure_data("fig3", hard), "needs easy images", "only hard images")


def test_the_papers_own_numbers():
    paper = paper_results().filter(pl.col("table") != 5, task="average")
    metrics = {"fig4": "auc", "fig5": "error", "fig6": "nll", "fig7": "ece_paper"}
    for name, metric in metrics.items():
        data = figure_data(name, Sources(paper=True))
        assert set(data["criterion"]) == {"ce", "gist"}
        assert data.height == 2 * 9 * data["subset"].n_unique()
        for row in data.iter_rows(named=True):
            keys = {key: row[key] for key in ("subset", "criterion", "method")}
            published = paper.filter(metric=metric, **keys).row(0, named=True)
            assert row["value"] == published["mean"]
            assert row["high"] - row["low"] == pytest.approx(2 * published["std"])
            assert (row["tasks"], row["of_tasks"], row["source"]) == (12, 12, "paper")


def test_two_kinds_of_ece_are_never_in_one_figure(next_to_paper):
    alone = figure_data("fig7", replace(next_to_paper, paper=False))
    assert alone["metric"].unique().to_list() == ["ece"]
    both = replace(next_to_paper)
    with_paper = figure_data("fig7", both)
    assert with_paper["metric"].unique().to_list() == ["ece_paper"]
    assert set(with_paper["source"]) == {"here", "paper"}
    assert "the paper's ECE" in draw_levels(with_paper).get_suptitle()
    # scores from before there was such a metric are not drawn as another one
    cells = both.results.cells.filter(pl.col("metric") != "ece_paper")
    object.__setattr__(both, "results", replace(both.results, cells=cells))
    fails(
        lambda: figure_data("fig7", both), "no ece_paper", "nooch train score", kind=UndefinedError
    )


def test_sides_are_compared_with_their_own_side(sources):
    """A hard side is next to the easy one of its label; the paper pools them, and this is noted."""
    for name in ("fig5", "fig6"):
        assert set(figure_data(name, sources)["subset"]) == set(CELLS)
        paper = figure_data(name, Sources(paper=True))
        assert set(paper["subset"]) == {"hard_positive", "hard_negative", "easy"}
        assert "positives and negatives together" in draw_levels(paper).get_suptitle()


def test_runs_next_to_the_paper(next_to_paper):
    sources = next_to_paper
    data = figure_data("fig4", sources)
    # the runs have no gist
    shown = data.select("source", "criterion").unique()
    assert sorted(shown.rows()) == [("here", "ce"), ("here", "~ce"), ("paper", "ce")]

    def methods(rows):
        return rows["method"].unique(maintain_order=True).to_list()

    published = paper_cells().cells.filter(criterion="ce")
    assert methods(data.filter(source="paper")) == methods(published)
    own = data.filter(source="here", criterion="ce")
    assert methods(own) == ["erm", "label-reweight", "gdro"]
    drawing = FIGURES["fig4"].draw(sources)
    assert drawing.legends[0].get_texts()[-1].get_text() == "paper"
    assert_within(drawing)
    alone = draw_levels(figure_data("fig5", sources).filter(criterion="ce"))
    assert "mean over 2 tasks (here), 12 tasks (paper)" in alone.get_suptitle()
    assert_within(alone)
    # Fig. 3 of runs: their ERM
    assert figure_data("fig3", sources)["runs"].unique().to_list() == [3]
    refused(lambda: figure_data("fig3", replace(sources, method="irm")), "'irm' is not a method")
    one = figure_data("fig4", replace(sources, paper=False, tasks=["car"]))
    assert one["tasks"].unique().to_list() == [1]
    refused(lambda: figure_data("fig13", sources), "`data`")
    given = replace(sources, data=small_data())
    refused(lambda: figure_data("fig13", given), "`predictions`")


def test_predictions_for_other_classes_are_left_alone(sources):
    data = figure_data("fig4", sources)
    values = sources.predictions
    frames = []
    for task in ("car", "fire_hydrant"):
        logits = values.values[values.tasks.index(task)]
        frames.append(pl.DataFrame({"image_id": values.image_ids, "task": task, "logit": logits}))
    scores = nooch.evaluate(sources.suite, pl.concat(frames), reading={"ignore_unknown": True})
    for row in data.iter_rows(named=True):
        of = {"criterion": row["criterion"], "task": "average"}
        assert row["value"] == scores.value("auc", row["subset"], **of)
    strange = Predictions.from_arrays(values.values[:1].T, values.image_ids, ["dog"], scale="logit")
    act = partial(figure_data, "fig4", replace(sources, predictions=strange))
    fails(act, "no predictions for", "dog")
    one = figure_data("fig6", replace(sources, tasks=["car"]))
    assert one["tasks"].unique().to_list() == [1]


def test_a_sweep_is_taken_before_the_dataset(sources, tmp_path):
    grid = {"alpha": [0.0], "beta": [0.05, 0.1]}
    sweep = nooch.sweep_thresholds(sources.data, **grid, splits=["valid", "test"])
    loaded = load_sweep(folder := save_sweep(sweep, tmp_path / "s"))
    for name in ("cues", "grid", "tau", "equal"):
        assert getattr(loaded, name).equals(getattr(sweep, name)), name
        assert getattr(loaded, name).schema == getattr(sweep, name).schema, name
    data = figure_data("fig12", replace(sources, sweep=loaded))
    assert data["alpha"].unique().to_list() == [0.0]
    assert data["split"].unique().to_list() == ["test"]
    valid = figure_data("fig12", Sources(sweep=loaded, split="valid"))
    assert valid["split"].unique().to_list() == ["valid"]
    other = Sources(sweep=loaded, split="train")
    refused(lambda: figure_data("fig12", other), "'train' is not a split of the sweep")
    whole = small_data()
    whole = nooch.Dataset.build(whole.images.drop("split"), whole.classes, whole.areas)
    alone = Sources(sweep=nooch.sweep_thresholds(whole, alpha=[0.0], beta=[0.05]))
    assert figure_data("fig12", alone)["split"].unique().to_list() == ["all"]
    # tau was not swept: the dataset is, where it is there
    assert figure_data("fig11", replace(sources, sweep=loaded)).height
    refused(lambda: figure_data("fig11", Sources(sweep=loaded)), "nooch sweep", "`data`")
    fails(lambda: load_sweep(tmp_path), "is not a sweep", "nooch sweep", kind=FormatError)
    for content in (b"PAR1 nothing", (folder / "cues.parquet").read_bytes()):
        (folder / "grid.parquet").write_bytes(content)
        fails(lambda: load_sweep(folder), "grid.parquet", "nooch sweep", kind=FormatError)


def test_what_a_suite_was_found_in_is_swept_although_few_images_are_annotated(sources):
    data = sources.data
    few = pl.Series(np.arange(len(data)) % 4 == 0)
    known = data.images.with_columns(annotated_things=few)
    data = replace(data, images=known, kinds=dict.fromkeys(data.classes, "thing"))
    with_suite, alone = (replace(sources, data=data, suite=s) for s in (sources.suite, None))
    for name in ("fig12", "fig13"):
        assert figure_data(name, with_suite).height > 0
        fails(partial(figure_data, name, alone), "would be left out", kind=InputError)


def test_embeddings_are_named_where_there_are_several(sources):
    two = replace(sources, data=sources.data.with_embedding("f", np.ones((len(sources.data), 2))))
    refused(lambda: figure_data("fig14", two), "2 embeddings", "`embedding`")
    refused(lambda: figure_data("fig11", replace(two, embedding="g")), "'g' is not an embedding")
    assert figure_data("fig14", replace(two, embedding="e")).equals(figure_data("fig14", sources))
    refused(lambda: figure_data("fig14", replace(sources, data=small_data())), "nooch tools embed")


def test_nothing_is_written_where_one_figure_cannot_be(sources, tmp_path):
    out = tmp_path / "out"
    act = partial(save_figures, ["fig10"], sources, out)
    refused(partial(act, formats=["gif"]), "'gif' is not a figure format")
    refused(partial(act, dpi=5), "`dpi`: is 5")
    refused(lambda: save_figures(["fig10", "fig3"], Sources(data=sources.data), out), "fig3")
    ids = sources.data.image_ids
    cows = Predictions.from_arrays(np.ones((60, 1)), ids, ["cow"], scale="logit")
    none = replace(sources, predictions=cows)
    fails(lambda: save_figures(["fig10", "fig3"], none, out), "no task has both")
    assert not out.exists()
    (file,) = [f for f in save_figures(["fig10"], sources, out, formats=[]) if f.suffix == ".csv"]
    before = file.read_bytes()
    act = partial(save_figures, ["fig12", "fig10"], sources, out)
    fails(act, "exists already", kind=OutputError)
    assert list(out.iterdir()) == [file]
    files = save_figures(["fig10"], sources, out, formats=["png"], dpi=50, overwrite=True)
    assert [f.name for f in files] == ["fig10.png", "fig10.csv"]
    assert file.read_bytes() == before
    with Image.open(files[0]) as image:
        assert image.size == (240, 170)


def test_results_without_a_value_are_nothing_to_draw(tmp_path):
    suite = small_suite()
    runs = made_runs(tmp_path / "runs", suite, lost=lambda job: job.method == "gdro")
    assert "gdro" not in set(figure_data("fig4", Sources(suite=suite, runs=runs.path))["method"])
    equal = logits(suite).with_columns(logit=pl.lit(-0.5))
    alike = Sources(suite=suite, predictions=equal, bootstrap=0)
    assert figure_data("fig4", alike)["low"].null_count() > 0
    empty = Sources(sweep=nooch.sweep_thresholds(small_data(), alpha=[0.0], beta=[0.1]))
    object.__setattr__(empty.sweep, "cues", empty.sweep.cues.clear())
    fails(lambda: figure_data("fig10", empty), "nothing to draw", kind=UndefinedError, helps=False)


@settings(max_examples=5)
@given(st.floats(0, 1), st.floats(0, 1))
def test_any_level_can_be_drawn(value, other):
    about = {"source": "here", "criterion": "ce", "metric": "error", "method": "erm", "bar": "sd"}
    rows = [
        {**about, "subset": "hard_positive", "value": value, "low": None, "high": None},
        {**about, "subset": "easy", "value": other, "low": other - 0.1, "high": other + 0.1},
    ]
    points = pl.DataFrame(rows, schema_overrides={"low": pl.Float64, "high": pl.Float64})
    points = points.with_columns(tasks=1, of_tasks=1, seeds=1)
    (ax,) = draw_levels(points).axes
    marks = [x for line in ax.lines if line.get_marker() != "None" for x in line.get_xdata()]
    assert sorted(marks) == sorted([value, other])
