"""Image sheets of generated scenes: which images they show, where, with which cues shaded; and the
paper's figures of images.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from functools import partial

import numpy as np
import polars as pl
import pytest
from PIL import Image
from refusals import fails, refused

from nooch.base.errors import InputError, OutputError, ParameterError, UndefinedError
from nooch.criteria import CE, Combination, Gist
from nooch.data import save_dataset
from nooch.evaluation import Predictions
from nooch.paper.figures import SHEETS, figure_data, figure_tables, save_figures
from nooch.report.images.cue_masks import COLORS
from nooch.report.images.galleries import NOT_SHADED, PanelImages, SheetSource, save_gallery
from nooch.report.images.sheets import SheetLayout, SheetPanel, Tile, draw_sheet
from nooch.report.images.sources import Sources
from nooch.suites import save_suite
from nooch.suites.find import find

_DPI = 100


@pytest.fixture(scope="module")
def world(data):
    """(dataset with an embedding, suite of CE, gist and a combination on test)."""
    embedding = np.random.default_rng(0).normal(size=(len(data), 4))
    data = data.with_embedding("e", embedding)
    criteria = {"ce": CE(), "gist": Gist("e"), "~ce": Combination("~ce")}
    return data, find(data, criteria, tasks="nooch", splits=["train", "test"], match="ce")


@pytest.fixture
def sources(world):
    data, suite = world
    part = data.select("test")
    random, shape = np.random.default_rng(1), (len(part), len(suite.tasks))
    about = {"image_ids": part.image_ids, "tasks": suite.tasks, "scale": "logit"}
    runs = [
        Predictions.from_arrays(random.normal(size=shape), **about, run=run)
        for run in ("erm", "gdro")
    ]
    return Sources(suite=suite, data=data, predictions=runs)


def _nll(sources, run, task):
    ids = sources.data.images["image_id"]
    labels = dict(zip(ids, sources.data.labels(task), strict=True))
    logits = zip(run.image_ids, run.values[run.tasks.index(task)], strict=True)
    return {i: float(np.logaddexp(0, -logit if labels[i] else logit)) for i, logit in logits}


def _larger(data, task, ids):
    part = data.select("test")
    area = dict(zip(part.images["image_id"], part.area(task), strict=True))
    mean = float(np.mean(part.area(task)[part.labels(task)]))
    return [i for i in ids if area[i] > mean] or list(ids)


def _hard(world, criterion, subset):
    """The hard images of cars that may be shown: positives of a large target alone."""
    ids = world[1].set(criterion, "car", "test").ids(subset)
    return _larger(world[0], "car", ids) if subset == "hard_positive" else ids


def test_a_gallery_shows_the_hardest_images_with_their_cues_shaded(world, sources, tmp_path):
    options = {"criterion": "ce", "per_side": 3, "dpi": _DPI}
    made = save_gallery(["car"], sources, tmp_path / "sheet.png", **options)
    assert made.notes == []
    losses = _nll(sources, sources.predictions[0], "car")
    other = _nll(sources, sources.predictions[1], "car")
    for panel, subset in ((1, "hard_positive"), (2, "hard_negative")):
        expected = sorted(_hard(world, "ce", subset), key=lambda i: (-losses[i], i))[:3]
        shown = made.table.filter(panel=panel)
        erm, gdro = (shown.filter(method=method) for method in ("erm", "gdro"))
        assert erm["image_id"].to_list() == expected
        assert set(shown["subset"]) == {subset}
        assert np.allclose(erm["nll"].to_list(), [losses[i] for i in expected])
        assert np.allclose(gdro["nll"].to_list(), [other[i] for i in expected])


def test_shades_lie_where_the_cues_are_and_nowhere_else(world, tmp_path):
    data, suite = world
    source = SheetSource(Sources(suite=suite, data=data))
    groups = source.groups("car", "ce", 1)
    chosen = next(g for g in groups if (g.criterion, g.subset) == ("ce", "hard_negative"))
    group = PanelImages(source.view("car"), chosen)
    (panel,) = source.panels([group])
    (tile,) = panel.tiles
    cues = [cue for cue, _ in suite.header.criteria["ce"].cues["car"]]
    names = [name for name, _ in tile.masks]
    assert names
    assert set(names) <= set(cues)
    image_id = source.images.ids[int(chosen.rows[0])]
    row = data.row(image_id)
    for name, mask in tile.masks:
        assert mask.mean() == pytest.approx(data.area(name)[row], abs=0.02)
    # the drawn image: what is no cue is as in the file, what is one has the color of its cue
    size = mask.shape[1]
    bare = SheetPanel("a", [Tile(tile.path, (), tile.masks)])
    drawing = draw_sheet([bare], SheetLayout(1, 1, size / _DPI), dpi=_DPI)
    (pixels,) = [np.asarray(ax.images[0].get_array(), dtype=float) for ax in drawing.axes]
    original = np.asarray(Image.open(tile.path).convert("RGB"), dtype=float)
    outside = ~np.logical_or.reduce([m for _, m in tile.masks])
    assert np.abs(pixels - original)[outside].max() == 0
    for (_, mask), color in zip(tile.masks, COLORS, strict=False):
        before = np.abs(original - np.array(color))[mask].mean()
        assert np.abs(pixels - np.array(color))[mask].mean() < 0.75 * before
    legend = drawing.subfigs[0].legends[0]
    assert [text.get_text() for text in legend.get_texts()] == [f"shaded: {n}" for n in names]
    colors = [patch.get_facecolor()[:3] for patch in legend.get_patches()]
    assert np.allclose(np.array(colors) * 255, COLORS[: len(names)])


def test_without_annotations_nothing_is_shaded_and_the_gallery_says_so(world, tmp_path):
    data, suite = world
    images = tmp_path / "elsewhere" / "images"
    shutil.copytree(data.image_root, images)
    made = save_gallery(["car"], Sources(suite=suite, data=data, images=images), tmp_path / "a.pdf")
    assert list(made.notes) == [NOT_SHADED]
    assert made.path.read_bytes().startswith(b"%PDF")
    # names in the dataset's record never lead out of the folders near the images
    sources = [{"role": "things", "file": "../../../etc/passwd"}]
    provenance = {**data.provenance, "sources": sources}
    lying = replace(data, image_root=str(images), provenance=provenance)
    (images / "passwd").write_text("{}")
    suite = find(lying, {"ce": CE()}, tasks=["car"], splits=["test"])
    source = SheetSource(Sources(suite=suite, data=lying))
    assert source.annotations == [images / "passwd"]


def test_a_criterion_without_support_has_a_gallery_by_id(world, tmp_path):
    data, suite = world
    given = ["car"], Sources(suite=suite, data=data), tmp_path / "a.svg"
    made = save_gallery(*given, criterion="~ce", per_side=2)
    for panel, subset in ((1, "hard_positive"), (2, "hard_negative")):
        shown = made.table.filter(panel=panel)["image_id"].to_list()
        assert shown == sorted(_hard(world, "~ce", subset))[:2]
    assert made.table["nll"].null_count() == made.table.height


@pytest.mark.parametrize("name", SHEETS)
def test_figures_of_images_have_the_numbers_of_the_caption(name, sources, tmp_path):
    sheet = SHEETS[name]
    of = replace(sources, tasks=sheet.tasks)
    table = figure_data(name, of)
    assert set(table["task"]) == set(sheet.tasks)
    for row in table.iter_rows(named=True):
        (run,) = [run for run in sources.predictions if run.run == row["method"]]
        assert row["nll"] == pytest.approx(_nll(sources, run, row["task"])[row["image_id"]])
        mark = of.suite.set(row["criterion"], row["task"], "test")
        assert row["image_id"] in mark.ids(row["subset"])
    *pictures, numbers = save_figures([name], of, tmp_path, formats=["png"], dpi=20)
    assert pl.read_csv(numbers, schema=table.schema).equals(table)
    with Image.open(*pictures) as image:
        assert image.format == "PNG"


def test_what_each_figure_of_images_picks(world, sources):
    data, suite = world
    one = {task: _nll(sources, sources.predictions[0], task) for task in suite.tasks}
    two = {task: _nll(sources, sources.predictions[1], task) for task in suite.tasks}

    def image(name, panel, tasks=None):
        table = figure_data(name, replace(sources, tasks=tasks)).filter(panel=panel)
        return table["image_id"][0] if table.height else None

    def furthest(ids, better, worse):
        gaps = {i: worse["car"][i] - better["car"][i] for i in ids}
        return max((i for i in ids if gaps[i] > 0), key=gaps.__getitem__, default=None)

    for subset, panel in (("hard_positive", 1), ("hard_negative", 2)):
        ids = suite.set("ce", "car", "test").ids(subset)
        assert image("fig8", panel) == furthest(ids, two, one)
        assert image("fig26", panel) == furthest(ids, one, two)
    assert image("fig8", 1) is not None
    swapped = replace(sources, methods=["gdro", "erm"])
    images = [figure_data(*of)["image_id"] for of in (("fig8", swapped), ("fig26", sources))]
    assert images[0].equals(images[1])
    # Appendix D.1: targets larger than average among hard positives, and no such filter on easy
    # positives
    positives = suite.set("ce", "cow", "test")
    larger = _larger(data, "cow", positives.ids("hard_positive"))
    assert image("fig19", 1) == max(larger, key=lambda i: one["cow"][i])
    assert image("fig19", 3) == min(positives.ids("easy_positive"), key=lambda i: one["cow"][i])
    ce, gist = suite.set("ce", "cow", "test"), suite.set("gist", "cow", "test")
    assert image("fig9", 1) in set(ce.ids("hard_positive")) & set(gist.ids("easy"))
    assert image("fig9", 2) in set(gist.ids("hard_positive")) & set(ce.ids("easy"))
    assert set(figure_data("fig1", sources)["task"]) == {"kite", "sports_ball", "surfboard"}
    assert set(figure_data("fig1", replace(sources, tasks=["car"]))["task"]) == {"car"}


def test_all_draws_sheets_where_there_are_images(sources):
    names = figure_tables(["all"], sources)
    assert set(SHEETS) <= set(names)
    assert not set(SHEETS) & set(figure_tables(["all"], replace(sources, tasks=["car"])))
    alone = figure_tables(["all"], replace(sources, predictions=sources.predictions[:1]))
    assert set(SHEETS) - set(alone) == {"fig8", "fig26"}
    without = figure_tables(["all"], replace(sources, predictions=None))
    assert {"fig1", "fig2"} <= set(without)
    assert "fig15" not in without


def test_text_stays_within_its_image_on_the_longest_names(sources):
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    source = SheetSource(sources)
    path = source.panels([])
    assert path == []
    file = source.index.root / min(source.index.paths)
    run = "resnet50_supervised_imagenet1k_v2_finetuned_321px"
    words = ["image 000000581929", f"{run} 12.34, environment-undersample 0.56 $x_1$"]
    panels = [
        SheetPanel(f"fire_hydrant: {'Hard positives ' * 6}", [Tile(file, words)] * 5, "note " * 40)
        for _ in range(4)
    ]
    panels.append(SheetPanel("empty", (), "There is no such image."))
    drawing = draw_sheet(panels, SheetLayout(2, 3, 1.0), dpi=50)
    canvas = FigureCanvasAgg(drawing)
    canvas.draw()
    images = [ax for ax in drawing.axes if ax.images]
    heads = [text for panel in drawing.subfigs for text in panel.texts]
    # the title on the left is not public
    words = [text for ax in images for text in ax.get_children() if text is ax._left_title]
    assert (len(images), len(heads), len(words)) == (20, 5, 20)
    boxes = [part.get_window_extent() for part in (*heads, *words, *images)]
    width, height = canvas.get_width_height()
    for number, box in enumerate(boxes):
        assert box.x0 > -1 and box.y0 > -1 and box.x1 < width + 1 and box.y1 < height + 1  # noqa: PT018 - one box
        for other in boxes[:number]:
            across = min(box.x1, other.x1) - max(box.x0, other.x0)
            down = min(box.y1, other.y1) - max(box.y0, other.y0)
            # lines of one text may share the room between them
            assert across < 2 or down < 4


def test_sheets_that_are_refused(world, sources, tmp_path):
    data, suite = world
    sheet = tmp_path / "sheet.png"
    gallery = partial(save_gallery, sources=sources, out=sheet)
    refused(lambda: gallery(["car"], out=tmp_path / "a.gif"), "is not an ending")
    refused(lambda: gallery([]), "of nothing")
    refused(lambda: gallery(["car"], per_side=0), "`per_side`: is 0")
    refused(lambda: gallery(["cat"]), "'cat' is not a task")
    refused(lambda: gallery(["car"], criterion="cee"), "'cee' is not a criterion")
    refused(lambda: gallery(["car"], sources=Sources(suite=suite)), "needs the suite's dataset")
    for change, words, kind in (
        ({"split": "valid"}, "'valid' is not a split", ParameterError),
        ({"data": data.select("test")}, "another dataset", ParameterError),
        ({"images": tmp_path}, "were not found", InputError),
        ({"methods": ["erm", "irm"]}, "irm", ParameterError),
    ):
        fails(partial(gallery, ["car"], sources=replace(sources, **change)), words, kind=kind)
    for name, change, words in (
        ("fig8", {"tasks": ["car", "cow"]}, "2 tasks"),
        ("fig15", {"predictions": None}, "`predictions`"),
        ("fig8", {"predictions": sources.predictions[:1]}, "2 methods"),
    ):
        refused(partial(figure_data, name, replace(sources, **change)), words)
    only = find(data, {"ce": CE()}, tasks=["car", "airplane", "bowl"], splits=["test"])
    refused(lambda: figure_data("fig2", Sources(suite=only, data=data)), "of kind gist")
    refused(lambda: figure_data("fig1", Sources(suite=only, data=data)), "kite")
    assert not sheet.exists()
    sheet.write_text("mine")
    fails(lambda: gallery(["car"]), "exists already", kind=OutputError)
    broken = tmp_path / "images"
    broken.mkdir()
    for name in data.images["file_name"]:
        (broken / name).write_text("no image")
    other, out = replace(sources, images=broken), tmp_path / "b.jpg"
    fails(lambda: save_gallery(["car"], other, out), "is not an image", helps=False)


def test_a_sheet_without_a_hard_image_is_undefined(data, tmp_path):
    without = data.select(rows=~data.labels("car") | (data.images["split"] == "train").to_numpy())
    none = find(without, {"ce": CE(beta=1)}, tasks=["car"], splits=["test"])
    act = partial(save_gallery, ["car"], Sources(suite=none, data=without), tmp_path / "a.png")
    fails(act, "none of these tasks has a hard image", kind=UndefinedError, helps=False)


def test_the_commands(run_cli, world, tmp_path, monkeypatch):
    data, suite = world
    save_dataset(data, tmp_path / "data")
    save_suite(suite, tmp_path / "suite")
    monkeypatch.chdir(tmp_path)
    done = run_cli("gallery suite --task car --dataset data --n 2").ok()
    assert done.out.strip() == "gallery-car.png"
    with Image.open("gallery-car.png") as image:
        assert image.format == "PNG"
    assert run_cli("gallery suite --task car --dataset data").code == 2
    done = run_cli("gallery suite --task car --task cow --dataset data --out a.pdf --format json")
    assert {row["task"] for row in done.json["images"]} == {"car", "cow"}
    run_cli("gallery suite --task car --out b.png").refused("--dataset")
    done = run_cli(
        "paper figures fig1 --suite suite --dataset data --out figures --format json"
    ).ok()
    assert done.json["files"] == ["fig1.svg", "fig1.pdf", "fig1.png", "fig1.csv"]
    run_cli("paper figures fig8 --suite suite --dataset data --out f").refused("--runs")


def test_a_sheet_is_as_wide_as_its_images_and_never_too_large(sources, tmp_path):
    def size(name, **options):
        made = save_gallery(["car"], sources, tmp_path / name, dpi=20, **options)
        with Image.open(made.path) as image:
            return image.size

    table = save_gallery(["car"], sources, tmp_path / "all.png", per_side=10_000, dpi=10).table
    most = table.group_by("panel").agg(pl.col("image_id").n_unique())["image_id"].max()
    assert size("most.png", per_side=10_000) == size("exact.png", per_side=most)
    big = partial(save_gallery, ["car"], sources, tmp_path / "x.png", per_side=100, dpi=2400)
    refused(big, "pixels", "at most 65,000 on a side", "lower dpi")
    assert not (tmp_path / "x.png").exists()
