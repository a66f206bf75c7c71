"""``nooch figure``: the paper's figures from what one has, as SVG, PDF and PNG, and their data as CSV."""

from __future__ import annotations

from pathlib import Path

import typer

from nooch.cli.output import Format, FormatOption, console, note, print_json, progress
from nooch.cli.parsing import dataset_place, parse_grid, parse_pairs, split_names
from nooch.files import Place
from nooch.plans import LOSS_SPLIT

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("figure")(figure_command)


def figure_command(
    names: list[str] = typer.Argument(
        ..., metavar="NAME...", help="fig3 to fig7, fig10 to fig14, or all that can be drawn from what is given."
    ),
    out: Path = typer.Option(..., "--out", help="Folder to write to: NAME.svg, .pdf, .png and .csv."),
    suite: Path = typer.Option(None, "--suite", help="Suite folder: fig3 to fig7."),
    dataset: Place = typer.Option(
        None,
        "--dataset",
        metavar="DATASET",
        help="Dataset folder or address, for fig10 to fig14.",
        parser=dataset_place,
    ),
    predictions: list[Path] = typer.Option(
        [], "--predictions", help="Predictions, as for nooch evaluate: fig3 to fig7, fig13, fig14. Repeatable."
    ),
    runs: Path = typer.Option(None, "--runs", help="Folder of nooch bench or nooch collect: fig3 to fig7."),
    sweep: Path = typer.Option(None, "--sweep", help="Folder of nooch sweep-thresholds: fig10 to fig12."),
    paper: bool = typer.Option(
        False, "--paper", help="fig4 to fig7: the paper's own numbers, beside yours if there are any."
    ),
    split: str = typer.Option(LOSS_SPLIT, help="Split whose images are taken."),
    tasks: str = typer.Option(None, help="Tasks, separated by commas; all by default."),
    strict: bool = typer.Option(
        False,
        "--strict",
        help="fig4 to fig7: no average of a value that is undefined for a task; else such tasks are left out.",
    ),
    rule: str = typer.Option("worst-hard", help="Of runs: which hyperparameters, as for nooch collect."),
    method: str = typer.Option("erm", help="fig3, of a folder of runs: the method whose losses are shown."),
    criteria: str = typer.Option(
        None, "--criteria", help="KIND=NAME,...: which criterion stands for ce or gist in results."
    ),
    alpha: str = typer.Option(None, help="fig10, fig12, fig13: thresholds, as for nooch sweep-thresholds."),
    beta: str = typer.Option(None, help="fig12, fig13: likewise."),
    tau: str = typer.Option(None, help="fig11, fig14: likewise."),
    embedding: str = typer.Option(None, help="fig11, fig14: embedding of the dataset; the only one by default."),
    scale: str = typer.Option(None, help="logit or probability: what a wide table of predictions holds."),
    bootstrap: int = typer.Option(1000, min=0, help="Resamples for the intervals of predictions."),
    seed: int = typer.Option(0, min=0, help="Seed of the resamples."),
    formats: str = typer.Option("svg,pdf,png", help="Formats, separated by commas."),
    dpi: int = typer.Option(200, min=10, max=2400, help="Pixels for an inch, of PNG."),
    overwrite: bool = typer.Option(False, "--overwrite", help="Replace files that exist."),
    format: Format = FormatOption,
) -> None:
    """Draw the paper's figures from a suite, runs, predictions, a dataset or a sweep, and write their data."""
    grids = {name: parse_grid(text, f"--{name}") for name, text in (("alpha", alpha), ("beta", beta), ("tau", tau))}
    roles = parse_pairs(criteria, "--criteria", "ce=mine")
    from nooch.challenge import load_suite
    from nooch.data import load_dataset
    from nooch.report.sweep_files import load_sweep
    from nooch.study.figures import FIGURES, Sources, save_figures

    with progress() as update:
        sources = Sources(
            suite=None if suite is None else load_suite(suite),
            data=None if dataset is None else load_dataset(dataset),
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
            embedding=embedding,
            bootstrap=bootstrap,
            seed=seed,
            scale=scale,
            progress=update,
            **{name: values for name, values in grids.items() if values},
        )
        files = save_figures(names, sources, out, formats=split_names(formats), dpi=dpi, overwrite=overwrite)
    drawn = list(dict.fromkeys(file.stem for file in files))
    if format is Format.json:
        print_json({"out": str(out), "figures": {n: FIGURES[n].shows for n in drawn}, "files": [f.name for f in files]})
        return
    if "all" in names and (left := [name for name in FIGURES if name not in drawn]):
        note(f"left out, for what they need is not given: {', '.join(left)}")
    for name in drawn:
        console().print(f"{name}: {FIGURES[name].shows}", markup=False)
    console().print(f"{out}: {', '.join(file.name for file in files)}", style="dim", markup=False)
