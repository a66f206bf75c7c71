"""The paper's figures from the available inputs: each as a table and as a drawing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import polars as pl

from nooch.base.errors import ParameterError, UndefinedError, check_one_of
from nooch.base.files import check_output_file
from nooch.data import ALL, csv_bytes
from nooch.report.figures import loss_sweep_figures, sweep_figures
from nooch.report.figures.level_figures import draw_levels
from nooch.report.figures.loss_figures import draw_losses, loss_points
from nooch.report.figures.style import FORMATS, encoded
from nooch.report.images.sheet_presets import SHEETS, SheetPreset
from nooch.report.images.sources import NEEDS, Need, Sources
from nooch.report.tables.score_files import write_files

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

__all__ = [
    "ALL_FIGURES", "FIGURES", "Figure", "Sources", "check_figures", "figure_data", "save_figures",
]  # fmt: skip


@dataclass(frozen=True)
class Figure:
    """A figure of the paper: what it shows, names of ``NEEDS``, its data as a table, and its
    drawing.
    """

    shows: str
    needs: tuple[str, ...]
    data: Callable[[Sources], pl.DataFrame]
    draw: Callable[[pl.DataFrame], Drawing]


def _of_split(table: pl.DataFrame, of: Sources) -> str:
    """The split that is requested, if the sweep has it."""
    known = table["split"].unique(maintain_order=True).to_list()
    return ALL if known == [ALL] else check_one_of("split", of.split, known, owner="the sweep")


def _levels(metric: str, shows: str) -> Figure:
    return Figure(shows, ("scores",), lambda of: of.levels(metric), draw_levels)


FIGURES: Mapping[str, Figure] = MappingProxyType(
    {
        "fig3": Figure(
            "mean loss on hard images against that on all of a side, a point for each task",
            ("suite", "easy images", "outputs"),
            lambda of: loss_points(of.class_losses),
            draw_losses,
        ),
        "fig4": _levels("auc", "AUC on hard and easy images"),
        "fig5": _levels("error", "error on hard and easy positives, hard and easy negatives"),
        "fig6": _levels("nll", "NLL on hard and easy positives, hard and easy negatives"),
        "fig7": _levels(
            "ece", "calibration error on hard and easy images (with the paper, its own kind)"
        ),
        "fig10": Figure(
            "tasks by number of context cues, by alpha",
            ("area sweep",),
            lambda of: sweep_figures.cue_counts(of.area_sweep.cues),
            sweep_figures.draw_cues,
        ),
        "fig11": Figure(
            "hard images of a task by the gist criterion, by tau",
            ("tau sweep",),
            lambda of: sweep_figures.tau_counts(of.tau_sweep.tau, _of_split(of.tau_sweep.tau, of)),
            sweep_figures.draw_tau,
        ),
        "fig12": Figure(
            "share of images that are hard by CE, over alpha and beta",
            ("area sweep",),
            lambda of: sweep_figures.share_points(
                of.area_sweep.grid, _of_split(of.area_sweep.grid, of)
            ),
            sweep_figures.draw_shares,
        ),
        "fig13": Figure(
            "mean loss of hard images by CE, over alpha and beta",
            ("dataset", "predictions"),
            lambda of: loss_sweep_figures.grid_points(of.area_losses.grid),
            loss_sweep_figures.draw_grid_losses,
        ),
        "fig14": Figure(
            "mean loss of hard images by the gist criterion, by tau",
            ("dataset", "predictions", "embedding"),
            lambda of: loss_sweep_figures.tau_points(of.tau_losses.tau),
            loss_sweep_figures.draw_tau_losses,
        ),
    }
)
"""Name -> figure, numbered as in the paper with appendices."""


ALL_FIGURES: Mapping[str, Figure | SheetPreset] = MappingProxyType({**FIGURES, **SHEETS})
"""Name -> figure or image sheet."""


def check_figures(names: Sequence[str], sources: Sources) -> list[str]:
    """Names of figures, each once; ``all`` stands for those that the sources allow. Raises
    ParameterError: no name, an unknown one, or a figure that needs what is not there; the message
    names the option that gives it.
    """
    listed = [name for text in names for name in (_possible(sources) if text == "all" else [text])]
    for name in listed:
        figure = ALL_FIGURES[check_one_of("figure", name, [*ALL_FIGURES, "all"])]
        if missing := _missing(name, sources):
            raise ParameterError(
                f"needs {' and '.join(need.what for need in missing)}",
                where=f"{name} ({figure.shows})",
                remedy="; ".join(need.remedy for need in missing),
            )
    if not listed:
        remedies = dict.fromkeys(n.remedy for n in NEEDS.values() if not n.there(sources))
        raise ParameterError(
            "no figure can be drawn from this",
            allowed=", ".join(ALL_FIGURES),
            remedy="; ".join(remedies),
        )
    return list(dict.fromkeys(listed))


def figure_data(name: str, sources: Sources) -> pl.DataFrame:
    """A figure's data as a table.

    Raises:
        ParameterError: see ``check_figures``.
        UndefinedError: there is nothing to draw.
        NoochError: what the sources hold cannot be used; see what computes it.
    """
    (name,) = check_figures([name], sources)
    table = ALL_FIGURES[name].data(sources)
    if not table.height:
        raise UndefinedError(
            "there is nothing to draw", where=f"{name} ({ALL_FIGURES[name].shows})"
        )
    return table


def save_figures(
    names: Sequence[str],
    sources: Sources,
    out: str | Path,
    *,
    formats: Sequence[str] = FORMATS,
    dpi: int = 200,
    overwrite: bool = False,
) -> list[Path]:
    """Write figures as ``NAME.svg``, ``.pdf`` and ``.png`` and their data as ``NAME.csv``, once all
    are drawn.

    Args:
        names: out of ``ALL_FIGURES``, or ``all``: those that the sources allow.
        sources: inputs of the figures.
        out: folder to write to; it is created where it is missing.
        formats: out of ``FORMATS``.
        dpi: pixels per inch, of PNG.
        overwrite: replace files that exist.

    Returns:
        The files, in order.

    Raises:
        ParameterError: an unknown figure or format, or one whose sources are not there.
        OutputError: a file exists (and ``overwrite`` is false) or cannot be written.
    """
    listed = check_figures(names, sources)
    for ending in formats:
        check_one_of("figure format", ending, FORMATS)
    if not 10 <= dpi <= 2400:
        raise ParameterError(
            f"dpi is {dpi}", where="figures", allowed="10 to 2400 pixels for an inch"
        )
    endings = [*dict.fromkeys(formats), "csv"]
    files = [
        check_output_file(Path(out) / f"{name}.{ending}", overwrite=overwrite)
        for name in listed
        for ending in endings
    ]
    contents: list[bytes] = []
    for name in listed:
        table = figure_data(name, sources)
        drawing = FIGURES[name].draw(table) if name in FIGURES else SHEETS[name].draw(sources, dpi)
        contents += [encoded(drawing, ending, dpi=dpi) for ending in endings[:-1]]
        contents.append(csv_bytes(table))
    write_files(dict(zip(files, contents, strict=True)))
    return files


def _missing(name: str, sources: Sources) -> list[Need]:
    return [NEEDS[need] for need in ALL_FIGURES[name].needs if not NEEDS[need].there(sources)]


def _possible(sources: Sources) -> list[str]:
    """The figures of ``all``."""
    sheets = [name for name, sheet in SHEETS.items() if sheet.there(sources)]
    return [name for name in (*FIGURES, *sheets) if not _missing(name, sources)]
