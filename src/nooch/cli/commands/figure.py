"""``nooch figure`` and ``nooch gallery``: the paper's figures and image sheets as SVG, PDF and PNG,
and their data as CSV.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from nooch.cli.option_parsing import (
    AnnotationsOption,
    BootstrapOption,
    DatasetOption,
    DpiOption,
    ImagesOption,
    MethodsOption,
    OverwriteOption,
    ResamplesSeedOption,
    RuleOption,
    ScaleOption,
    SuiteArgument,
    dataset_place,
    parse_grid,
    parse_pairs,
    split_names,
)
from nooch.cli.terminal_output import Format, FormatOption, console, note, print_json, progress
from nooch.errors import ParameterError
from nooch.files import Place
from nooch.plans import LOSS_SPLIT

if TYPE_CHECKING:
    from nooch.challenge import Suite
    from nooch.data import Dataset

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("figure")(figure_command)
    app.command("gallery")(gallery_command)


def figure_command(
    names: list[str] = typer.Argument(
        ..., metavar="NAME...", help="fig1 to fig26, or all that can be drawn from what is given."
    ),
    out: Path = typer.Option(
        ..., "--out", help="Folder to write to: NAME.svg, .pdf, .png and .csv."
    ),
    suite: Path = typer.Option(None, "--suite", help="Suite folder: fig1 to fig9, fig15 to fig26."),
    dataset: Place = typer.Option(
        None,
        "--dataset",
        metavar="DATASET",
        help=(
            "Dataset folder or address, for fig10 to fig14, and for images where it is no longer"
            " where it was."
        ),
        parser=dataset_place,
    ),
    predictions: list[Path] = typer.Option(
        [],
        "--predictions",
        help="Predictions, as for nooch evaluate: all but fig10 to fig12. Repeatable.",
    ),
    runs: Path = typer.Option(
        None,
        "--runs",
        help=(
            "Folder of nooch bench (fig1 to fig9, fig15 to fig26) or nooch collect (fig4 to fig7)."
        ),
    ),
    sweep: Path = typer.Option(
        None, "--sweep", help="Folder of nooch sweep-thresholds: fig10 to fig12."
    ),
    paper: bool = typer.Option(
        False,
        "--paper",
        help="fig4 to fig7: the paper's own numbers, next to yours if there are any.",
    ),
    split: str = typer.Option(LOSS_SPLIT, help="Split whose images are taken."),
    tasks: str = typer.Option(
        None, help="Tasks, separated by commas; by default all, or the paper's (images)."
    ),
    strict: bool = typer.Option(
        False,
        "--strict",
        help=(
            "fig4 to fig7: no average of a value that is undefined for a task; else such tasks are"
            " left out."
        ),
    ),
    methods: str = MethodsOption,
    images: Path = ImagesOption,
    annotations: list[Path] = AnnotationsOption,
    rule: str = RuleOption,
    method: str = typer.Option(
        "erm", help="fig3, of a folder of runs: the method whose losses are shown."
    ),
    criteria: str = typer.Option(
        None, "--criteria", help="KIND=NAME,...: which criterion stands for ce or gist in results."
    ),
    alpha: str = typer.Option(
        None, help="fig10, fig12, fig13: thresholds, as for nooch sweep-thresholds."
    ),
    beta: str = typer.Option(None, help="fig12, fig13: likewise."),
    tau: str = typer.Option(None, help="fig11, fig14: likewise."),
    embedding: str = typer.Option(
        None, help="fig11, fig14: embedding of the dataset; the only one by default."
    ),
    scale: str = ScaleOption,
    bootstrap: int = BootstrapOption,
    seed: int = ResamplesSeedOption,
    formats: str = typer.Option("svg,pdf,png", help="Formats, separated by commas."),
    dpi: int = DpiOption,
    overwrite: bool = OverwriteOption,
    format: Format = FormatOption,
) -> None:
    """Draw the paper's figures from a suite, runs, predictions, a dataset or a sweep, and write
    their data.
    """
    grids = {
        name: parse_grid(text, f"--{name}")
        for name, text in (("alpha", alpha), ("beta", beta), ("tau", tau))
    }
    roles = parse_pairs(criteria, "--criteria", "ce=mine")
    from nooch.challenge import load_suite
    from nooch.figures.paper_figures import ALL_FIGURES, Sources, save_figures
    from nooch.figures.sheet_presets import SHEETS
    from nooch.report.sweep_files import load_sweep

    with progress() as update:
        found = None if suite is None else load_suite(suite)
        sources = Sources(
            suite=found,
            data=_dataset(dataset, found if SHEETS.keys() & set(names) else None, suite),
            predictions=predictions or None,
            runs=runs,
            paper=paper,
            sweep=None if sweep is None else load_sweep(sweep),
            split=split,
            rule=rule,
            roles=roles,
            tasks=split_names(tasks) or None,
            strict=strict,
            method=method,
            methods=split_names(methods) or None,
            images=images,
            annotations=annotations,
            embedding=embedding,
            bootstrap=bootstrap,
            seed=seed,
            scale=scale,
            progress=update,
            **{name: values for name, values in grids.items() if values},
        )
        files = save_figures(
            names, sources, out, formats=split_names(formats), dpi=dpi, overwrite=overwrite
        )
    drawn = list(dict.fromkeys(file.stem for file in files))
    if format is Format.json:
        print_json(
            {
                "out": str(out),
                "figures": {n: ALL_FIGURES[n].shows for n in drawn},
                "files": [f.name for f in files],
            }
        )
        return
    if "all" in names and (left := [name for name in ALL_FIGURES if name not in drawn]):
        note(f"left out, for what they need is not given: {', '.join(left)}")
    for name in drawn:
        console().print(f"{name}: {ALL_FIGURES[name].shows}", markup=False)
    console().print(f"{out}: {', '.join(file.name for file in files)}", style="dim", markup=False)


def _dataset(place: Place, suite: Suite | None, folder: Path | None) -> Dataset | None:
    """The dataset that is given, else the one that the suite records, if there is a suite."""
    from nooch.data import load_dataset
    from nooch.finding.suite_summary import recorded_dataset

    if place is not None:
        return load_dataset(place)
    return None if suite is None or folder is None else recorded_dataset(suite, folder)


def gallery_command(
    suite: Path = SuiteArgument,
    task: list[str] = typer.Option(..., "--task", help="Task to show; repeat for several."),
    dataset: Place = DatasetOption,
    split: str = typer.Option("test", help="Split whose images are shown."),
    criterion: str = typer.Option(
        None, help="Criterion whose sets are shown; the suite's first by default."
    ),
    n: int = typer.Option(4, "--n", min=1, help="Images of each side."),
    runs: Path = typer.Option(
        None, "--runs", help="Folder of nooch bench: the highest losses are shown."
    ),
    predictions: list[Path] = typer.Option(
        [], "--predictions", help="Predictions of any model, likewise. Repeatable."
    ),
    methods: str = MethodsOption,
    images: Path = ImagesOption,
    annotations: list[Path] = AnnotationsOption,
    out: Path = typer.Option(
        None, "--out", help="File: .png, .pdf, .svg or .jpg; gallery-TASK.png by default."
    ),
    dpi: int = DpiOption,
    overwrite: bool = OverwriteOption,
    format: Format = FormatOption,
) -> None:
    """One picture of a task's hard positives and hard negatives, with their cues shaded."""
    from nooch.challenge import load_suite
    from nooch.figures.figure_sources import Sources
    from nooch.figures.image_galleries import save_gallery

    found = load_suite(suite)
    data = _dataset(dataset, found, suite)
    if data is None:
        raise ParameterError(
            "the dataset is not where it was", where=str(suite), remedy="give --dataset DATASET"
        )
    sources = Sources(
        suite=found, data=data, runs=runs, predictions=predictions or None, split=split,
        methods=split_names(methods) or None, images=images, annotations=annotations,
    )  # fmt: skip
    # names of tasks come from files: nothing of them leads out of this folder
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", "-".join(task))[:80]
    made = save_gallery(
        task,
        sources,
        out or Path(f"gallery-{name}.png"),
        criterion=criterion,
        per_side=n,
        dpi=dpi,
        overwrite=overwrite,
    )
    for text in made.notes:
        note(text)
    if format is Format.json:
        print_json({"out": str(made.path), "images": made.table.to_dicts()})
    else:
        console().print(str(made.path), markup=False)
