"""``nooch tools add-attributes``: columns of a table join a dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from typer import Argument, Option

from nooch.base.files import DATASET_MARKER, check_output
from nooch.cli import options as shared
from nooch.cli.terminal import note, print_json, progress, say


def add_attributes_command(
    dataset: str = shared.DatasetArgument,
    table: Path = Argument(
        ...,
        metavar="TABLE",
        help="CSV, TSV, Parquet, JSON, JSON lines or Excel, a row for each image; or parts of one.",
    ),
    out: Path = Argument(..., metavar="OUT", help="Dataset folder to write; it must not exist."),
    id: str = Option(None, help="Column of image ids or file names; by default recognized."),
    attributes: str = Option(
        None, "--columns", "--attributes", help="Columns to take, by commas; by default all others."
    ),
    overwrite: bool = shared.OverwriteOption,
    format: shared.Format = shared.FormatOption,
) -> None:
    """Add columns of a table to a dataset, as attributes."""
    check_output(out, overwrite=overwrite, marker=DATASET_MARKER)
    from nooch.data import open_dataset, save_dataset
    from nooch.data.image_names import IMAGE_COLUMNS
    from nooch.data.importing.attributes import attribute_table, joined
    from nooch.data.table_files import read_table

    data, given = open_dataset(dataset), read_table(table, names=IMAGE_COLUMNS)
    added = attribute_table(data, given, id, shared.split_names(attributes) or None, where=table)
    parts = (joined(data.part(number), added) for number in range(data.n_parts))
    with progress() as update:
        save_dataset(
            parts,
            out,
            overwrite=overwrite,
            progress=lambda done: update("writing parts", done, data.n_parts),
        )
    facts: dict[str, Any] = {
        "dataset": str(out),
        "attributes": added.columns[1:],
        "images": len(data),
        "images_listed": added.height,
        "rows_left_out": given.height - added.height,
    }
    if format is shared.Format.json:
        print_json(facts)
        return
    if absent := len(data) - added.height:
        note(f"{absent:,} images are not in the table: they have no value")
    if facts["rows_left_out"]:
        note(f"{facts['rows_left_out']:,} rows are of images that are not in the dataset")
    of = f"{added.height:,} of {len(data):,} images"
    say(f"{out}: {', '.join(facts['attributes'])} for {of}")
