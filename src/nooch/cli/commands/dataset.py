"""``nooch tools add-attributes``: columns of a table join a dataset."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer import Argument, Option

from nooch.base.files import DATASET_MARKER, check_output
from nooch.cli import options as shared
from nooch.cli.terminal import note, print_json, progress, say

if TYPE_CHECKING:
    from nooch.data import Dataset


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
    from nooch.data.importing.attributes import attribute_table, with_attributes
    from nooch.data.table_files import read_table

    data = open_dataset(dataset)
    given = read_table(table, names=IMAGE_COLUMNS)
    columns = shared.split_names(attributes) or None
    joined = attribute_table(given, id, columns, data=data, where=table)
    listed = 0

    def parts() -> Iterator[Dataset]:
        nonlocal listed
        for number in range(data.n_parts):
            part, matched = with_attributes(data.part(number), joined, where=table)
            listed += matched
            yield part

    with progress() as update:
        save_dataset(
            parts(),
            out,
            overwrite=overwrite,
            progress=lambda done: update("writing parts", done, data.n_parts),
        )
    facts: dict[str, Any] = {
        "dataset": str(out),
        "attributes": joined.columns[1:],
        "images": len(data),
        "images_listed": listed,
        "rows_left_out": given.height - listed,
    }
    if format is shared.Format.json:
        print_json(facts)
        return
    if listed < facts["images"]:
        note(f"{facts['images'] - listed:,} images are not in the table: they have no value")
    if facts["rows_left_out"]:
        note(f"{facts['rows_left_out']:,} rows are of images that are not in the dataset")
    say(f"{out}: {', '.join(facts['attributes'])} for {listed:,} of {facts['images']:,} images")
