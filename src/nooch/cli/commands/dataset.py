"""``nooch tools add-attributes``: columns of a table join a dataset."""

from __future__ import annotations

from pathlib import Path

from typer import Argument, Option

from nooch.base.files import DATASET_MARKER, check_output
from nooch.cli import options as shared
from nooch.cli.runner import Output
from nooch.cli.terminal import note, say, show_progress


def add_attributes_command(
    dataset: str = shared.DatasetArgument,
    table: Path = Argument(
        ...,
        metavar="TABLE",
        help="CSV, TSV, Parquet, JSON, JSON lines or Excel, a row for each image; or parts of one.",
    ),
    out: Path = Argument(..., metavar="OUT", help="Dataset folder to write; it must not exist."),
    id: str = Option(None, help="Column of image ids or file names; by default detected."),
    attributes: str = Option(
        None, "--columns", "--attributes", help="Columns to take, by commas; by default all others."
    ),
    overwrite: bool = shared.OverwriteOption,
) -> Output:
    """Add columns of a table to a dataset, as attributes."""
    check_output(out, overwrite=overwrite, marker=DATASET_MARKER)
    from nooch.data import open_dataset, save_dataset
    from nooch.data.image_names import IMAGE_COLUMNS
    from nooch.data.importing.attributes import attribute_table, joined
    from nooch.data.table_files import read_table

    data, given = open_dataset(dataset), read_table(table, names=IMAGE_COLUMNS)
    added = attribute_table(data, given, id, shared.split_names(attributes) or None, where=table)
    parts = (joined(data.part(number), added) for number in range(data.n_parts))
    told = lambda done: show_progress("writing parts", done, data.n_parts)  # noqa: E731
    save_dataset(parts, out, overwrite=overwrite, progress=told)
    names, left = added.columns[1:], given.height - added.height
    yield {
        "dataset": str(out),
        "attributes": names,
        "images": len(data),
        "images_listed": added.height,
        "rows_left_out": left,
    }
    if absent := len(data) - added.height:
        note(f"{absent:,} images are not in the table: they have no value")
    if left:
        note(f"{left:,} rows are of images that are not in the dataset")
    say(f"{out}: {', '.join(names)} for {added.height:,} of {len(data):,} images")
