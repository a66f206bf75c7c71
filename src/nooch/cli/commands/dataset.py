"""``nooch tools add-attributes``: columns of a table, and captions, join a dataset."""

from __future__ import annotations

from pathlib import Path

from typer import Argument, Option

from nooch.base.errors import ParameterError
from nooch.base.files import DATASET_MARKER, check_output
from nooch.base.words import counted
from nooch.cli import options as shared
from nooch.cli.runner import Output
from nooch.cli.terminal import note, say, show_progress


def add_attributes_command(
    dataset: str = shared.DatasetArgument,
    places: list[Path] = Argument(
        ...,
        metavar="[TABLE] OUT",
        help="CSV, TSV, Parquet, JSON, JSON lines or Excel, a row for each image, or parts of one;"
        " then the dataset folder to write, which must not exist.",
    ),
    id: str = Option(None, help="Column of image ids or file names; by default detected."),
    columns: str = Option(None, help="Columns to take, by commas; by default all others."),
    captions: list[str] = Option(
        None, help="Files of captions, or a column of text, which become the dataset's captions."
    ),
    image_properties: bool = Option(
        False,
        "--image-properties",
        help="Add brightness, contrast, sharpness, saturation, entropy, aspect, megapixels and"
        " jpeg_quality of the images.",
    ),
    images: Path = Option(None, help="Folder of the images, where the dataset records none."),
    overwrite: bool = shared.OverwriteOption,
) -> Output:
    """Add columns of a table, captions, or properties of image files to a dataset."""
    *tables, out = places
    if len(tables) > 1 or not (tables or captions or image_properties):
        problem = f"{counted(len(tables), 'table')} given"
        ways = ({"captions": ...}, {"image_properties": True}) if not tables else ()
        raise ParameterError(problem, allowed="one TABLE, then OUT", give=ways)
    check_output(out, overwrite=overwrite, marker=DATASET_MARKER)
    from nooch.data import open_dataset, save_dataset
    from nooch.data.image_names import IMAGE_COLUMNS
    from nooch.data.importing import attributes
    from nooch.data.table_files import read_table
    from nooch.evaluation.captions import captioned

    data = open_dataset(dataset)
    given = added = data.images.select("image_id")
    for table in tables:
        given = read_table(table, names=IMAGE_COLUMNS)
        kept = shared.split_names(columns) or None
        added = attributes.attribute_table(data, given, id, kept, where=table)
    listed = added.height
    if image_properties:
        whole = attributes.with_attributes(data, added)
        properties = attributes.image_properties(whole, images, show_progress)
        note(*attributes.unread_notes(properties))
        added = properties.join(added, on="image_id", how="left", maintain_order="left")
    said = (
        captioned(attributes.with_attributes(data, added), captions or ()).captions
        if captions
        else None
    )
    parts = (
        attributes.with_attributes(data.part(number), added, said) for number in range(data.n_parts)
    )
    told = lambda done: show_progress("writing parts", done, data.n_parts)  # noqa: E731
    save_dataset(parts, out, overwrite=overwrite, progress=told)
    names, left = added.columns[1:], given.height - listed
    yield {
        "dataset": str(out),
        "attributes": names,
        "images": len(data),
        "images_listed": listed,
        "rows_left_out": left,
    }
    if absent := len(data) - listed:
        note(f"{absent:,} images are not in the table: they have no value")
    if left:
        note(f"{left:,} rows are of images that are not in the dataset")
    if said is not None:
        names = [*names, "captions"]
        note(f"{said['image_id'].n_unique():,} of {len(data):,} images have captions")
    say(f"{out}: {', '.join(names)} for {listed:,} of {len(data):,} images")
