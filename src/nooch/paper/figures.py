"""The paper's figures from the available inputs: each as a table and as a drawing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import polars as pl

from nooch.base.calls import checked
from nooch.base.errors import Command, Give, ParameterError, UndefinedError, check_one_of
from nooch.base.files import check_output_file
from nooch.base.words import counted
from nooch.data import ALL, csv_bytes
from nooch.data.table_files import write_files
from nooch.paper.numbers import paper_cells
from nooch.report.figures.levels import (
    LEVELS,
    draw_levels,
    draw_losses,
    level_points,
    loss_points,
    points_of_scores,
)
from nooch.report.figures.style import FORMATS, Dpi, encoded
from nooch.report.figures.sweeps import (
    cue_counts,
    draw_cues,
    draw_sides,
    grid_points,
    hard_by_tau,
    losses_by_area,
    losses_by_tau,
    share_points,
    shares,
    tau_counts,
    tau_points,
)
from nooch.report.images.galleries import PanelImages, SheetSource
from nooch.report.images.sheets import SheetLayout, draw_sheet
from nooch.report.images.sources import MissingSourceError, Sources
from nooch.report.results.cells import in_order

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing


_HARD = ("hard_positive", "hard_negative")


@dataclass(frozen=True)
class SheetPreset:
    """A figure of images.

    Attributes:
        shows: what it shows, in words.
        methods: how many methods must have losses.
        tasks: the paper's tasks; others can be given, as many.
        groups: source and tasks -> the images, panel by panel.
        columns: panels side by side; a callable of the number of tasks.
        any_tasks: whether it shows any number of tasks.
    """

    shows: str
    methods: int
    tasks: tuple[str, ...]
    groups: Callable[[SheetSource, Sequence[str]], list[PanelImages]]
    columns: Callable[[int], int] = field(default=lambda _n: 2)
    any_tasks: bool = False

    def there(self, sources: Sources) -> bool:
        """True if ``all`` draws it: the suite has its tasks and its dataset, and no other tasks are
        requested.
        """
        if sources.tasks is not None or sources.suite is None or sources.data is None:
            return False
        own = sources.data.fingerprint == sources.suite.header.dataset.fingerprint
        return own and set(self.tasks) <= set(sources.suite.tasks)

    def contents(self, sources: Sources) -> tuple[SheetSource, list[PanelImages], SheetLayout]:
        """The source, the images panel by panel, and the layout."""
        tasks = tuple(sources.tasks or self.tasks)
        if not self.any_tasks and len(tasks) != len(self.tasks):
            allowed = f"{len(self.tasks)} of the suite's tasks"
            raise ParameterError(f"{len(tasks)} tasks are given", where=self.shows, allowed=allowed)
        source = SheetSource(sources)
        root = sources.images or source.data.image_root
        if root is None or not Path(root).is_dir():
            raise MissingSourceError("needs the dataset's images", give={"images": ...})
        if len(sources.image_losses.methods) < self.methods:
            give = ({"runs": ...}, {"predictions": ...})
            problem = f"needs losses of {counted(self.methods, 'method')}"
            raise MissingSourceError(problem, give=give)
        groups = self.groups(source, tasks)
        if not any(len(group.chosen.rows) for group in groups):
            raise UndefinedError("no image fits", where=self.shows)
        return source, groups, SheetLayout(self.columns(len(tasks)), 1, 2.2)

    def data(self, sources: Sources) -> pl.DataFrame:
        """The images as a table, with the numbers of the caption."""
        source, groups, _ = self.contents(sources)
        return source.table(groups)

    def draw(self, sources: Sources, dpi: int) -> Drawing:
        """The drawing."""
        source, groups, layout = self.contents(sources)
        return draw_sheet(source.panels(groups), layout, dpi=dpi)


def _criterion(source: SheetSource, kind: str) -> str:
    """The suite's first criterion of a kind."""
    for name, record in source.suite.header.criteria.items():
        if record.kind == kind:
            return name
    give = Command("find", criterion=kind)
    raise MissingSourceError(f"needs a criterion of kind {kind}", give=give)


def _images(source: SheetSource, task: str, methods: Sequence[str], **kind: str) -> PanelImages:
    """The first group of a task with these attributes, and the methods whose NLL is shown. Raises
    UndefinedError: there is none, such as for a task without a set of the criterion.
    """
    for panel in source.groups(task, _criterion(source, "ce"), 1):
        if all(getattr(panel, name) == value for name, value in kind.items()):
            return PanelImages(source.view(task), panel, methods)
    raise UndefinedError(
        f"there is no such group of images: {', '.join(kind.values())}", where="image sheet"
    )


def _extremes(
    source: SheetSource, tasks: Sequence[str], sides: Sequence[str] = _HARD, **kind: str
) -> list[PanelImages]:
    """Fig. 1: hard positives above, hard negatives below, a column for each task. Figs. 15 to 25:
    highest losses on hard images, lowest on easy positives (Appendix D.1).
    """
    ce = _criterion(source, "ce")
    first = source.methods(ce)[:1]
    return [
        _images(source, task, first, **kind, criterion=ce, subset=side)
        for side in sides
        for task in tasks
    ]


def _contrast(source: SheetSource, tasks: Sequence[str], sides: Sequence[str]) -> list[PanelImages]:
    """Figs. 2 and 9: hard by one criterion, easy by the other, both ways, a side for each task."""
    ce, gist = _criterion(source, "ce"), _criterion(source, "gist")
    both = source.methods(ce)
    return [
        _images(source, task, both, kind="criteria", criterion=first, better=other, subset=side)
        for task, side in zip(tasks, sides, strict=True)
        for first, other in ((ce, gist), (gist, ce))
    ]


def _gaps(source: SheetSource, tasks: Sequence[str], ahead: int) -> list[PanelImages]:
    """Figs. 8 and 26: where a method is furthest ahead (``ahead`` 0: baseline; 1: other)."""
    ce = _criterion(source, "ce")
    both = source.methods(ce)
    order = {"kind": "gap", "criterion": ce, "better": both[ahead]}
    return [_images(source, tasks[0], both, **order, subset=side) for side in _HARD]


_TASKS = "car bowl fire_hydrant airplane cow backpack cup surfboard tie sports_ball kite"

SHEETS: Mapping[str, SheetPreset] = MappingProxyType(
    {
        "fig1": SheetPreset(
            "a hard positive and a hard negative of each task",
            0,
            ("kite", "sports_ball", "surfboard"),
            partial(_extremes, kind="hardest"),
            columns=lambda n: n,
            any_tasks=True,
        ),
        "fig2": SheetPreset(
            "hard positives of one task and hard negatives of another, each hard by only one "
            "criterion",
            0,
            ("airplane", "bowl"),
            partial(_contrast, sides=_HARD),
            columns=lambda _n: 4,
        ),
        "fig8": SheetPreset(
            "hard images where the second method is furthest ahead of the first",
            2,
            ("car",),
            partial(_gaps, ahead=1),
        ),
        "fig9": SheetPreset(
            "hard positives by only CE and by only gist",
            1,
            ("cow",),
            partial(_contrast, sides=("hard_positive",)),
        ),
        **{
            f"fig{number}": SheetPreset(
                "a hard positive, a hard negative and an easy positive of"
                f" {task.replace('_', ' ')}",
                1,
                (task,),
                partial(_extremes, sides=(*_HARD, "easy_positive")),
                columns=lambda _n: 3,
            )
            for number, task in enumerate(_TASKS.split(), 15)
        },
        "fig26": SheetPreset(
            "hard images where the first method is furthest ahead of the second",
            2,
            ("car",),
            partial(_gaps, ahead=0),
        ),
    }
)
"""Name -> sheet, numbered as in the paper with appendices."""


@dataclass(frozen=True)
class Figure:
    """A figure of the paper: what it shows, its data as a table, and its drawing."""

    shows: str
    data: Callable[[Sources], pl.DataFrame]
    draw: Callable[[Sources], Drawing]


def _of_split(table: pl.DataFrame, sources: Sources) -> str:
    """The split that is requested, if the sweep has it."""
    splits = table["split"].unique(maintain_order=True).to_list()
    return (
        ALL
        if splits == [ALL]
        else check_one_of("split", sources.of_split, splits, owner="the sweep")
    )


_SIDES = ("hard_positive", "hard_negative", "easy")
PAPER_LEVELS = {**LEVELS, **dict.fromkeys(("error", "nll"), _SIDES)}
"""Subsets of Figs. 4 to 7 as the paper has them: no easy side, only both together."""


def _level_points(sources: Sources, metric: str) -> pl.DataFrame:
    """Points of Figs. 4 to 7, methods in the paper's order; with the paper, its kind of ECE and
    its subsets.

    Raises:
        UndefinedError: scores that were collected without the metric.
    """
    parts, subsets = [], LEVELS[metric]
    if sources.paper:
        metric, subsets = ("ece_paper" if metric == "ece" else metric), PAPER_LEVELS[metric]
    if sources.results is not None:
        cells = sources.results.cells
        metrics = cells["metric"].unique(maintain_order=True)
        if metric not in metrics:
            make = Command("train score")
            raise UndefinedError(f"the results have no {metric}", give=make)
        parts.append(level_points(cells, metric, subsets=subsets))
    elif sources.suite is not None and sources.outputs:
        parts.append(points_of_scores(sources.scores, metric, subsets=subsets))
    if sources.paper:
        published = paper_cells().cells.filter(pl.col("criterion") != "attribute")
        of_paper = level_points(published, metric, "paper", subsets)
        shown = parts[0]["criterion"] if parts and parts[0].height else of_paper["criterion"]
        parts.append(of_paper.filter(pl.col("criterion").is_in(shown.implode())))
    if not parts:
        ways: list[Give] = [{name: ..., "suite": ...} for name in ("runs", "predictions")]
        raise MissingSourceError("needs scores of methods", give=[*ways, {"paper": True}])
    points = pl.concat(parts)
    order = {name: place for place, name in enumerate(in_order(points["method"]))}
    place = pl.col("method").replace_strict(order, default=None, return_dtype=pl.Int64)
    return points.sort(place, maintain_order=True)


def _levels(metric: str, shows: str) -> Figure:
    return Figure(
        shows,
        lambda sources: _level_points(sources, metric),
        lambda sources: draw_levels(_level_points(sources, metric)),
    )


FIGURES: Mapping[str, Figure] = MappingProxyType(
    {
        "fig3": Figure(
            "mean loss on hard images against all images of a side, one point per task",
            lambda sources: loss_points(sources.class_losses),
            lambda sources: draw_losses(sources.class_losses),
        ),
        "fig4": _levels("auc", "AUC on hard and easy images"),
        "fig5": _levels("error", "error on hard and easy positives, hard and easy negatives"),
        "fig6": _levels("nll", "NLL on hard and easy positives, hard and easy negatives"),
        "fig7": _levels(
            "ece", "calibration error on hard and easy images (next to the paper: ece_paper)"
        ),
        "fig10": Figure(
            "tasks by number of context cues, by alpha",
            lambda sources: cue_counts(sources.area_sweep.cues),
            lambda sources: draw_cues(sources.area_sweep),
        ),
        "fig11": Figure(
            "hard images of a task by the gist criterion, by tau",
            lambda sources: tau_counts(
                sources.tau_sweep.tau, _of_split(sources.tau_sweep.tau, sources)
            ),
            lambda sources: draw_sides(
                hard_by_tau, sources.tau_sweep, split=_of_split(sources.tau_sweep.tau, sources)
            ),
        ),
        "fig12": Figure(
            "share of images that are hard by CE, over alpha and beta",
            lambda sources: share_points(
                sources.area_sweep.grid, _of_split(sources.area_sweep.grid, sources)
            ),
            lambda sources: draw_sides(
                shares, sources.area_sweep, split=_of_split(sources.area_sweep.grid, sources)
            ),
        ),
        "fig13": Figure(
            "mean loss of hard images by CE, over alpha and beta",
            lambda sources: grid_points(sources.area_losses.grid),
            lambda sources: draw_sides(losses_by_area, sources.area_losses),
        ),
        "fig14": Figure(
            "mean loss of hard images by the gist criterion, by tau",
            lambda sources: tau_points(sources.tau_losses.tau),
            lambda sources: draw_sides(losses_by_tau, sources.tau_losses),
        ),
    }
)
"""Name -> figure, numbered as in the paper with appendices."""


ALL_FIGURES: Mapping[str, Figure | SheetPreset] = MappingProxyType({**FIGURES, **SHEETS})
"""Name -> figure or image sheet."""


def figure_tables(names: Sequence[str], sources: Sources) -> dict[str, pl.DataFrame]:
    """The data of figures by name; ``all`` stands for those that the sources allow.

    Raises:
        ParameterError: no name, an unknown one, or a figure that needs what is not there; the
            message names the option that gives it.
        UndefinedError: there is nothing to draw.
        NoochError: the sources have data that cannot be used; see what computes it.
    """
    allowed = [*ALL_FIGURES, "all"]
    figures = [check_one_of("figure", name, allowed) for name in names]
    sheets = [name for name, sheet in SHEETS.items() if sheet.there(sources)]
    tables = {}
    for name in dict.fromkeys([*figures, *FIGURES, *sheets] if "all" in figures else figures):
        if name == "all":
            continue
        where = f"{name} ({ALL_FIGURES[name].shows})"
        try:
            tables[name] = ALL_FIGURES[name].data(sources)
        except MissingSourceError as error:
            if name in figures:
                raise error.changed(where=where) from error
            continue
        if not tables[name].height:
            raise UndefinedError("there is nothing to draw", where=where)
    if not tables:
        ways: list[Give] = [{name: ..., "suite": ...} for name in ("runs", "predictions")]
        ways += [{"data": ...}, {"paper": True}]
        raise ParameterError("no figure can be drawn from this", give=ways)
    return tables


def figure_data(name: str, sources: Sources) -> pl.DataFrame:
    """A figure's data as a table. Raises as ``figure_tables``."""
    return figure_tables([name], sources)[name]


@checked
def save_figures(
    names: Sequence[str],
    sources: Sources,
    out: str | Path,
    *,
    formats: Sequence[str] = FORMATS,
    dpi: Dpi = 200,
    overwrite: bool = False,
) -> list[Path]:
    """Write figures as ``NAME.svg``, ``.pdf`` and ``.png`` and their data as ``NAME.csv``, once all
    are drawn.

    Args:
        names: names from ``ALL_FIGURES``, or ``all``: all figures that the sources allow.
        sources: inputs of the figures.
        out: folder to write to; it is created if it is missing.
        formats: endings out of ``svg``, ``pdf`` and ``png``; all by default.
        dpi: resolution of PNG files, in dots per inch.
        overwrite: replace files that exist.

    Returns:
        The files, in order.

    Raises:
        ParameterError: an unknown figure or format, or one whose sources are not there.
        OutputError: a file exists (and ``overwrite`` is false) or cannot be written.
    """
    for ending in formats:
        check_one_of("figure format", ending, FORMATS)
    endings = [*dict.fromkeys(formats), "csv"]

    def files_of(names: Iterable[str]) -> list[Path]:
        places = [Path(out) / f"{name}.{ending}" for name in names for ending in endings]
        return [check_output_file(place, overwrite=overwrite) for place in places]

    # what is named is checked before anything is computed
    files_of(name for name in names if name != "all")
    tables = figure_tables(names, sources)
    files = files_of(tables)
    contents: list[bytes] = []
    for name, table in tables.items():
        drawing = (
            FIGURES[name].draw(sources) if name in FIGURES else SHEETS[name].draw(sources, dpi)
        )
        contents += [encoded(drawing, ending, dpi=dpi) for ending in endings[:-1]]
        contents.append(csv_bytes(table))
    write_files(dict(zip(files, contents, strict=True)))
    return files
