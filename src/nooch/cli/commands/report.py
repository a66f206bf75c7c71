"""``nooch report``: a suite, its images and results as a folder of pages that opens from disk."""

from __future__ import annotations

from pathlib import Path

import typer

from nooch.cli.option_parsing import (
    AnnotationsOption,
    BootstrapOption,
    DatasetOption,
    ImagesOption,
    MethodsOption,
    OverwriteOption,
    RuleOption,
    SuiteArgument,
    split_names,
)
from nooch.cli.terminal_output import Format, FormatOption, console, note, print_json, progress
from nooch.errors import ParameterError
from nooch.files import Place

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("report")(report_command)


def report_command(
    suite: Path = SuiteArgument,
    out: Path = typer.Option(
        ..., "--out", metavar="SITE", help="Folder to write; it must not exist."
    ),
    dataset: Place = DatasetOption,
    no_dataset: bool = typer.Option(
        False, "--no-dataset", help="Leave the dataset out: no areas, captions or pictures."
    ),
    runs: list[Path] = typer.Option(
        [], "--runs", help="Folder of nooch bench or of nooch collect; repeat for several."
    ),
    predictions: list[Path] = typer.Option(
        [],
        "--predictions",
        help="File of predictions of any model, for scores and losses; repeat for several.",
    ),
    methods: str = MethodsOption,
    images: Path = ImagesOption,
    annotations: list[Path] = AnnotationsOption,
    rule: str = RuleOption,
    split: str = typer.Option(None, help="Split of results and examples; test by default."),
    bootstrap: int = BootstrapOption,
    thumbnails: int = typer.Option(
        200, min=0, help="Pictures for each task and split, besides those of the examples."
    ),
    all_thumbnails: bool = typer.Option(
        False, "--all-thumbnails", help="Pictures of all images of the suite's splits."
    ),
    examples: int = typer.Option(8, min=1, help="Images in each group of examples."),
    overwrite: bool = OverwriteOption,
    format: Format = FormatOption,
) -> None:
    """A static site of a suite: counts, images, results, criteria, examples; it opens from disk and
    asks no other host.
    """
    from nooch.challenge import load_suite
    from nooch.data import load_dataset
    from nooch.evaluation import read_predictions
    from nooch.finding.suite_summary import recorded_dataset
    from nooch.site.report_site import ReportOptions, write_report

    if no_dataset and (dataset is not None or images is not None):
        raise ParameterError(
            "with --no-dataset there is no dataset and there are no images",
            allowed="one of the two",
        )
    found = load_suite(suite)
    data = None
    if dataset is not None:
        data = load_dataset(dataset)
    elif not no_dataset:
        data = recorded_dataset(found, suite)
    options = ReportOptions(
        runs=runs,
        predictions=[
            run for file in predictions for run in read_predictions(file, None, found.tasks, None)
        ],
        methods=None if methods is None else split_names(methods),
        images=images,
        annotations=annotations,
        rule=rule,
        split=split,
        bootstrap=bootstrap,
        thumbnails=None if all_thumbnails else thumbnails,
        examples=examples,
    )
    with progress() as update:
        made = write_report(
            found, out, data=data, options=options, overwrite=overwrite, progress=update
        )
    for text in made.notes:
        note(text)
    if format is Format.json:
        print_json({"site": str(made.path), "notes": list(made.notes)})
    else:
        console().print(f"{made.path}: open {made.path / 'index.html'}", markup=False)
