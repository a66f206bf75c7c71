"""``nooch export``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer

from nooch.cli.option_parsing import (
    CriterionOption,
    DatasetOption,
    OverwriteOption,
    SplitsOption,
    SuiteArgument,
    TasksOption,
    split_names,
)
from nooch.cli.terminal_output import Format, FormatOption, console, note, print_json
from nooch.files import Place

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("export")(export_command)


def export_command(
    suite: Path = SuiteArgument,
    out: str = typer.Argument(
        ..., metavar="OUT", help="File (ids), folder, or FiftyOne dataset to write to."
    ),
    to: str = typer.Option(
        ...,
        "--to",
        help="ids, npy, coco, csv, hf, table, fiftyone, or your own package.module:function.",
    ),
    dataset: Place = DatasetOption,
    criterion: list[str] = CriterionOption,
    tasks: str = TasksOption,
    splits: str = SplitsOption,
    licence: list[str] = typer.Option(
        [],
        "--licence",
        help="A licence of the data that the annotations do not record. Repeatable.",
    ),
    annotations: list[Path] = typer.Option(
        [],
        "--annotations",
        help="coco: an annotation file that the dataset was imported from. Repeatable.",
    ),
    no_annotations: bool = typer.Option(
        False,
        "--no-annotations",
        help="coco: images and categories alone, without annotation files.",
    ),
    subsets: str = typer.Option(
        None,
        help=(
            "coco, fiftyone: of hard_positive,hard_negative,easy,easy_positive,easy_negative; by"
            " default the hard ones."
        ),
    ),
    id_field: str = typer.Option(
        None,
        help=(
            "fiftyone: field of image ids; by default image_id or coco_id, else files are found by"
            " their path."
        ),
    ),
    predictions: list[Path] = typer.Option(
        [],
        "--predictions",
        help="table: predictions, as for nooch evaluate, whose losses are written. Repeatable.",
    ),
    scale: str = typer.Option(
        None, help="table: logit or probability, what a wide table of predictions holds."
    ),
    images: Path = typer.Option(
        None, "--images", help="table: folder that is put before the image paths."
    ),
    overwrite: bool = OverwriteOption,
    format: Format = FormatOption,
) -> None:
    """Write challenge sets in another tool's format, with the licences of the data."""
    from nooch.challenge import load_suite
    from nooch.data import load_dataset
    from nooch.exports.export_suite import ExportSelection, export
    from nooch.finding.suite_summary import recorded_dataset

    found = load_suite(suite)
    options: dict[str, Any] = {
        "annotations": annotations,
        "no_annotations": no_annotations,
        "subsets": split_names(subsets),
        "id_field": id_field,
        "predictions": predictions,
        "scale": scale,
        "images": images,
    }
    done = export(
        found,
        to,
        out,
        data=load_dataset(dataset) if dataset is not None else recorded_dataset(found, suite),
        selection=ExportSelection(criterion, split_names(tasks), split_names(splits), licence),
        overwrite=overwrite,
        # what was not given is left to the format; what was given and is not its own is refused
        **{name: value for name, value in options.items() if value},
    )
    for text in done.notes:
        note(text)
    if format is Format.json:
        print_json(asdict(done))
        return
    files = f", {len(done.files)} files" if len(done.files) > 1 else ""
    names = (
        ", ".join(licence.get("name") or licence["url"] for licence in done.licences)
        or "not recorded"
    )
    console().print(
        f"{out}: {done.sets} challenge sets as {to}{files}; licences: {names}", markup=False
    )
