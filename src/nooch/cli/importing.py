"""``nooch import ...``: files of other formats -> a dataset folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from nooch.cli.import_steps import engine_for, finish, import_in_parts, mapping_of, not_in_parts, note_size
from nooch.cli.output import Format, FormatOption, note
from nooch.cli.parsing import parse_pairs, split_names
from nooch.errors import ParameterError
from nooch.files import DATASET_MARKER, check_output
from nooch.plans import SplitPlan

__all__ = ["app"]

app = typer.Typer(help="Import annotations as a dataset folder.", no_args_is_help=True, rich_markup_mode=None)


Out: Any = typer.Argument(..., metavar="DATASET", help="Folder to write; it must not exist.")
Images: Any = typer.Option(None, "--images", help="Folder below which the image files lie.")
Split: Any = typer.Option(
    None,
    "--split",
    help="70/10/20 (train/valid/test), an .npz with train_ids, valid_ids and test_ids, or a table image_id, split.",
)
Seed: Any = typer.Option(0, "--seed", help="Seed of a split by percentages.")
Group: Any = typer.Option(None, "--group", help="Column, or pattern on the file name, whose images stay on one side.")
SplitValues: Any = typer.Option(None, "--split-values", help="What split names mean, such as 0=train,1=valid,2=test.")
Overwrite: Any = typer.Option(False, "--overwrite", help="Replace a dataset folder that exists.")
Processes: Any = typer.Option(
    None, "--processes", min=1, help="Parallel processes, short for --engine local:N; all processors by default."
)
EngineOption: Any = typer.Option(
    None, "--engine", metavar="ENGINE", help="Where files are read: local[:N], ray[:ADDRESS] or slurm[:PARTITION]."
)
PartSize: Any = typer.Option(
    None,
    "--part-size",
    min=1,
    metavar="N",
    help="Write a dataset in parts of N images (125000, say), read and merged in bounded memory: for files of any size.",
)

_STUFF = "--stuff files"


@app.command("coco")
def coco(
    out: Path = Out,
    things: list[Path] = typer.Option([], "--things", help="instances_*.json; repeat for several."),
    stuff: list[Path] = typer.Option([], "--stuff", help="stuff_*.json; repeat for several."),
    captions: list[Path] = typer.Option([], "--captions", help="captions_*.json; repeat for several."),
    stuff_maps: Path = typer.Option(None, "--stuff-maps", help="Folder of pixel maps to count the stuff in."),
    stuff_map_values: str = typer.Option(
        "cocostuff", help="cocostuff: value = id - 1, 255 void; pixelmaps: value = id."
    ),
    images: Path = Images,
    split: str = Split,
    seed: int = Seed,
    group: str = Group,
    split_values: str = SplitValues,
    overwrite: bool = Overwrite,
    processes: int = Processes,
    engine: str = EngineOption,
    part_size: int = PartSize,
    format: Format = FormatOption,
) -> None:
    """COCO-format JSON: things and stuff joined by image, with captions."""
    check_output(out, overwrite=overwrite, marker=DATASET_MARKER)
    plan = _plan(split, seed, group, split_values)
    if part_size is not None:
        if stuff_maps is not None:
            raise not_in_parts("--stuff-maps", _STUFF)
        from nooch.readers.coco_reading import CocoReading

        reading = CocoReading(things, stuff, captions)
        import_in_parts(reading, out, part_size, images, plan, overwrite, engine_for(processes, engine, out), format)
        return
    note_size([*things, *stuff, *captions])
    from nooch.readers.coco import read_coco

    with mapping_of("reading annotation files", processes, engine, out) as mapping:
        data = read_coco(
            things,
            stuff,
            captions,
            stuff_maps=stuff_maps,
            stuff_map_values=stuff_map_values,
            images=images,
            map=mapping,
        )
    finish(data, plan, out, overwrite, format)


@app.command("coco-stuff")
def coco_stuff(
    root: Path = typer.Argument(..., metavar="ROOT", help="Folder of COCO 2017 and COCO-Stuff, as downloaded."),
    out: Path = Out,
    images: Path = Images,
    split: str = Split,
    seed: int = Seed,
    group: str = Group,
    split_values: str = SplitValues,
    overwrite: bool = Overwrite,
    processes: int = Processes,
    engine: str = EngineOption,
    part_size: int = PartSize,
    format: Format = FormatOption,
) -> None:
    """COCO-Stuff in the usual layouts: instances, stuff and captions of train2017 and val2017, found below ROOT."""
    check_output(out, overwrite=overwrite, marker=DATASET_MARKER)
    plan = _plan(split, seed, group, split_values)
    from nooch.readers.coco_layout import find_coco, find_split, read_coco_stuff

    if part_size is not None:
        found = find_coco(root)
        if found.stuff_maps is not None:
            raise not_in_parts(f"the pixel maps of stuff in {found.stuff_maps}", _STUFF)
        from nooch.readers.coco_reading import CocoReading

        reading, where = CocoReading(found.things, found.stuff, found.captions), images or found.images
        chosen = engine_for(processes, engine, out)
        import_in_parts(reading, out, part_size, where, plan, overwrite, chosen, format, found.notes)
    else:
        with mapping_of("reading annotation files", processes, engine, out) as mapping:
            data = read_coco_stuff(root, images=images, map=mapping)
        finish(data, plan, out, overwrite, format)
    if plan is None and (file := find_split(root)):
        note(f"no split was asked for; --split {file} gives the paper's")


@app.command("label-maps")
def label_maps(
    maps: Path = typer.Argument(..., metavar="DIR", help="Folder of label maps, one for each image."),
    out: Path = Out,
    classes: str = typer.Option(
        ..., "--classes", help="Class list ('value name' or a name in each line), cocostuff or pixelmaps."
    ),
    void: list[int] = typer.Option([], "--void", help="Value that is no class; repeat for several."),
    suffix: str = typer.Option("", "--suffix", help="What names of maps carry beyond the image's, such as _labelIds."),
    images: Path = Images,
    split: str = Split,
    seed: int = Seed,
    group: str = Group,
    split_values: str = SplitValues,
    overwrite: bool = Overwrite,
    processes: int = Processes,
    engine: str = EngineOption,
    part_size: int = PartSize,
    format: Format = FormatOption,
) -> None:
    """Label maps: exact areas by counting pixels."""
    check_output(out, overwrite=overwrite, marker=DATASET_MARKER)
    plan = _plan(split, seed, group, split_values)
    if part_size is not None:
        from nooch.readers.map_parts import MapReading

        reading = MapReading(maps, classes, void, suffix)
        import_in_parts(reading, out, part_size, images, plan, overwrite, engine_for(processes, engine, out), format)
        return
    from nooch.readers.label_maps import read_label_maps

    with mapping_of("counting label maps", processes, engine, out) as mapping:
        data = read_label_maps(maps, classes, void=void, images=images, suffix=suffix, map=mapping)
    finish(data, plan, out, overwrite, format)


@app.command("boxes")
def boxes(
    source: Path = typer.Argument(
        ..., metavar="SOURCE", help="Folder of YOLO or VOC files, a YOLO data.yaml, or an Open Images CSV."
    ),
    out: Path = Out,
    box_format: str = typer.Option(..., "--format", "--boxes", help="yolo, voc or openimages."),
    classes: Path = typer.Option(
        None,
        "--classes",
        help="Names: one per line or a data.yaml (yolo), or a CSV LabelName,name (openimages).",
    ),
    images: Path = Images,
    split: str = Split,
    seed: int = Seed,
    group: str = Group,
    split_values: str = SplitValues,
    overwrite: bool = Overwrite,
    processes: int = Processes,
    engine: str = EngineOption,
    part_size: int = PartSize,
    json: bool = typer.Option(False, "--json", help="Print JSON (--format names the format of the boxes here)."),
) -> None:
    """Bounding boxes; their areas stand for those of the objects."""
    if part_size is not None:
        raise not_in_parts("files of boxes", "a table of image, class and area (nooch import table --class --area)")
    check_output(out, overwrite=overwrite, marker=DATASET_MARKER)
    from nooch.readers.boxes import read_boxes

    plan = _plan(split, seed, group, split_values)
    with mapping_of("reading boxes", processes, engine, out) as mapping:
        data = read_boxes(source, box_format, classes=classes, images=images, map=mapping)
    finish(data, plan, out, overwrite, Format.json if json else Format.text)


@app.command("table")
def table(
    file: Path = typer.Argument(
        ..., metavar="FILE", help="CSV, TSV, Parquet or JSON lines; a file or a folder of parts."
    ),
    out: Path = Out,
    id: str = typer.Option(..., "--id", help="Column of image ids."),
    label: list[str] = typer.Option(
        [], "--label", help="Label columns, by commas or repeated. The name is the task's."
    ),
    class_column: str = typer.Option(None, "--class", help="Long table: column of class names."),
    area_column: str = typer.Option(
        None, "--area", help="Long table: column of areas as fractions of the image; unknown where not annotated."
    ),
    attributes: list[str] = typer.Option(
        [], "--attributes", help="Columns to keep as attributes, by commas or repeated; by default all others."
    ),
    file_name: str = typer.Option(None, "--file-name", help="Column of image paths."),
    split_column: str = typer.Option(None, "--split-column", help="Column of split names."),
    split_values: str = SplitValues,
    images: Path = Images,
    split: str = Split,
    seed: int = Seed,
    group: str = Group,
    overwrite: bool = Overwrite,
    processes: int = Processes,
    engine: str = EngineOption,
    part_size: int = PartSize,
    format: Format = FormatOption,
) -> None:
    """A table of labels and attributes for each image, or a long table of image, class and area."""
    if (class_column is None) == (not label):
        raise ParameterError(
            "a table needs --label or --class", allowed="--label for a row each image, --class for a long table"
        )
    if split and split_column:
        raise ParameterError("--split and --split-column exclude each other")
    if area_column is not None and class_column is None:
        raise ParameterError("--area needs --class", allowed="both, for a long table of image, class and area")
    if part_size is None and (engine or processes):
        raise ParameterError("a table in one piece is read by one process", remedy="give --part-size too, or neither")
    check_output(out, overwrite=overwrite, marker=DATASET_MARKER)
    from nooch.readers.table import Columns, read_long_table, read_table_of_images

    plan = _plan(split, seed, group, None if split_column else split_values)
    values = parse_pairs(split_values, "--split-values", "0=train,1=valid,2=test")
    kept = split_names(",".join(attributes)) or None
    columns = Columns(id, file_name, split_column, values, kept)
    if part_size is not None:
        from nooch.readers.table_layouts import LongTable, TableOfImages
        from nooch.readers.table_reading import TableReading

        labels = split_names(",".join(label))
        layout = TableOfImages(labels) if class_column is None else LongTable(class_column, area_column)
        reading = TableReading(file, columns, layout)
        import_in_parts(reading, out, part_size, images, plan, overwrite, engine_for(processes, engine, out), format)
        return
    note_size([*file.iterdir()] if file.is_dir() else [file])
    if class_column is None:
        data = read_table_of_images(file, columns, split_names(",".join(label)), images=images)
    else:
        data = read_long_table(file, columns, class_column, area_column, images=images)
    finish(data, plan, out, overwrite, format)


@app.command("waterbirds")
def waterbirds(
    folder: Path = typer.Argument(..., metavar="DIR", help="Folder of metadata.csv and the images that it names."),
    out: Path = Out,
    overwrite: bool = Overwrite,
    format: Format = FormatOption,
) -> None:
    """Waterbirds in its standard folder: the task waterbird, the attribute place, four groups."""
    check_output(out, overwrite=overwrite, marker=DATASET_MARKER)
    from nooch.study.waterbirds import read_waterbirds

    finish(read_waterbirds(folder), None, out, overwrite, format)


def _plan(split: str | None, seed: int, group: str | None, split_values: str | None) -> SplitPlan | None:
    if split is None:
        for option, given in (("--group", group), ("--split-values", split_values)):
            if given is not None:
                raise ParameterError(f"{option} needs --split", allowed="--split 70/10/20, or a file")
        return None
    return SplitPlan(split, seed, group, parse_pairs(split_values, "--split-values", "0=train,1=valid,2=test"))
