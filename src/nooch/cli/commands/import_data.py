"""``nooch import ...`` and ``nooch annotate``: files of other formats, or images -> a dataset."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer import Argument, Option

from nooch.base.engines import LocalEngine, engine as engine_of
from nooch.base.errors import ParameterError
from nooch.base.files import DATASET_MARKER, check_output
from nooch.base.split_plan import SplitPlan
from nooch.base.words import counted
from nooch.cli import options as shared
from nooch.cli.options import Format, FormatOption, OverwriteOption, parse_pairs, with_options
from nooch.cli.progress_log import logs_of
from nooch.cli.terminal import hint, note, print_json, progress, say
from nooch.data.readers import reading_of

if TYPE_CHECKING:
    from nooch.base.engines.ray import RayEngine
    from nooch.base.engines.slurm import SlurmEngine
    from nooch.data.importing.parts import Imported
    from nooch.data.readers.contract import Reading

    Engine = LocalEngine | RayEngine | SlurmEngine


Out: Any = Argument(..., metavar="DATASET", help="Folder to write; it must not exist.")


@dataclass(frozen=True)
class ImportOptions:
    """Options of every import, as they were typed."""

    images: Path | None = Option(None, help="Folder below which the image files lie.")
    split: str | None = Option(
        None,
        help="70/10/20 (train/valid/test), .npz of train_ids, valid_ids, test_ids, or a table.",
    )
    seed: int = Option(0, help="Seed of a split by percentages.")
    group: str | None = Option(
        None, help="Column, or pattern on the file name, whose images stay on one side."
    )
    split_values: str | None = Option(
        None, help="What split names mean, such as 0=train,1=valid,2=test."
    )
    overwrite: bool = OverwriteOption
    processes: int | None = Option(
        None, min=1, help="Parallel processes, short for --engine local:N; all CPUs by default."
    )
    engine: str | None = Option(
        None,
        metavar="ENGINE",
        help="Where files are read: local[:N], ray[:ADDRESS] or slurm[:PARTITION].",
    )
    part_size: int | None = Option(
        None,
        min=1,
        metavar="N",
        help="Write parts of at most N images, such as 125000: bounded memory for any size.",
    )
    format: Format = FormatOption

    @property
    def plan(self) -> SplitPlan | None:
        """How images are divided. Raises ParameterError for options of a split without one."""
        if self.split is None:
            for option, text in (("--group", self.group), ("--split-values", self.split_values)):
                if text is not None:
                    raise ParameterError(
                        f"{option} needs --split", allowed="--split 70/10/20, or a file"
                    )
            return None
        return SplitPlan(self.split, self.seed, self.group, self.values)

    @property
    def values(self) -> dict[str, str]:
        """What split names mean."""
        return parse_pairs(self.split_values, "--split-values", "0=train,1=valid,2=test")

    def engine_for(self, out: Path, gpus: int = 0) -> Engine:
        """Where files are read, each job with so many GPUs; logs are next to the output."""
        if self.engine is None:
            return LocalEngine(self.processes, gpus=gpus)
        if self.processes is not None:
            raise ParameterError(
                "--processes and --engine exclude each other",
                allowed=f"--engine local:{self.processes}, or another engine",
            )
        return engine_of(self.engine, logs_of(out), gpus=gpus)


with_import_options = partial(with_options, ImportOptions, "options", ImportOptions)


def run_import(
    reading: Reading, out: Path, options: ImportOptions, notes: Sequence[str] = (), gpus: int = 0
) -> None:
    """Import what ``reading`` names, each job with so many GPUs, and print what was written."""
    # before the engine makes a folder of logs next to it
    check_output(out, overwrite=options.overwrite, marker=DATASET_MARKER)
    plan, engine = options.plan, options.engine_for(out, gpus)
    if options.part_size is None:
        size = sum(path.stat().st_size for _, path in reading.files() if path.is_file())
        if size >= LARGE:
            much = f"the files hold {size / 1e9:.1f} GB and are merged in memory"
            note(f"{much}; --part-size 125000 merges them part by part")
    from nooch.data.importing.import_dataset import import_dataset

    with progress() as update:
        imported = import_dataset(
            reading, out, part_size=options.part_size, images=options.images, split=plan,
            notes=notes, overwrite=options.overwrite, map=engine.map, progress=update,
        )  # fmt: skip
    print_imported(out, imported, options.format)


LARGE = 4_000_000_000
"""Bytes of annotation files that, imported as one part, need more memory than a laptop has."""


def print_imported(out: Path, imported: Imported, format: Format) -> None:
    """Print what was written."""
    header = imported.header
    note(*header.provenance.get("notes", []))
    if format is Format.json:
        print_json(
            {
                "dataset": str(out),
                "images": header.n_images,
                "splits": header.splits,
                "classes": len(header.classes),
                "annotated": imported.annotated,
                "captions": imported.captions,
                "attributes": imported.attributes,
                "area": header.provenance.get("area"),
                "fingerprint": header.fingerprint,
                "notes": header.provenance.get("notes", []),
            }
        )
        return
    splits = ", ".join(f"{name} {count:,}" for name, count in header.splits.items())
    held = counted(len(header.classes), "class"), counted(imported.captions, "caption")
    say(f"{out}: {counted(header.n_images, 'image')} ({splits}), {', '.join(held)}")
    criterion = "ce" if imported.has_areas else 'attribute --phi "EXPRESSION"'
    if not imported.has_areas and imported.annotated > header.n_images:
        # several labels in an image are context of each other
        criterion = "context"
    hint(f"next: nooch find {shlex.quote(str(out))} --criterion {criterion} --out SUITE")


@with_import_options
def coco(
    options: ImportOptions,
    out: Path = Out,
    things: list[Path] = Option([], help="instances_*.json; repeat for several."),
    stuff: list[Path] = Option([], help="stuff_*.json; repeat for several."),
    captions: list[Path] = Option([], help="captions_*.json; repeat for several."),
    stuff_maps: Path = Option(None, help="Folder of pixel maps to count the stuff in."),
    stuff_map_values: str = Option(
        "cocostuff", help="cocostuff: value = id - 1, 255 void; pixelmaps: value = id."
    ),
) -> None:
    """COCO-format JSON: things, stuff and captions. They are joined by image."""
    reading = reading_of("coco", things, stuff, captions, stuff_maps, stuff_map_values)
    run_import(reading, out, options)


@with_import_options
def coco_stuff(
    options: ImportOptions,
    root: Path = Argument(
        ..., metavar="ROOT", help="Folder of COCO 2017 and COCO-Stuff, as downloaded."
    ),
    out: Path = Out,
) -> None:
    """COCO-Stuff 2017 in the usual layouts, found below ROOT. Instances, stuff and captions."""
    check_output(out, overwrite=options.overwrite, marker=DATASET_MARKER)
    from nooch.data.readers.coco.layout import find_coco, find_split

    layout = find_coco(root)
    run_import(
        layout.reading, out, replace(options, images=options.images or layout.images), layout.notes
    )
    if options.split is None and (file := find_split(root)):
        note(f"no split was asked for; --split {file} gives the paper's")


@with_import_options
def label_maps(
    options: ImportOptions,
    maps: Path = Argument(..., metavar="DIR", help="Folder of label maps, one for each image."),
    out: Path = Out,
    classes: str = Option(
        ..., help="Class list ('value name' or a name per line), cocostuff or pixelmaps."
    ),
    void: list[int] = Option([], help="Value that is not a class; repeat for several."),
    suffix: str = Option(
        "", help="What names of maps carry beyond the image's, such as _labelIds."
    ),
) -> None:
    """Label maps: exact areas by counting pixels."""
    run_import(reading_of("label-maps", maps, classes, void, suffix), out, options)


@with_import_options
def boxes(
    options: ImportOptions,
    source: Path = Argument(
        ...,
        metavar="SOURCE",
        help="Folder of YOLO or VOC files, a YOLO data.yaml, or an Open Images CSV.",
    ),
    out: Path = Out,
    kind: str = Option(..., "--boxes", help="Format of the boxes: yolo, voc or openimages."),
    classes: Path = Option(
        None,
        help="Names: one per line or a data.yaml (yolo), or a CSV LabelName,name (openimages).",
    ),
) -> None:
    """Bounding boxes: YOLO, VOC or Open Images. Their areas stand for those of the objects."""
    # which images there are depends on the image files: they are part of what is read
    reading = reading_of("boxes", source, kind, classes, options.images)
    run_import(reading, out, replace(options, images=None))


@with_import_options
def image_folder(
    options: ImportOptions,
    source: Path = Argument(..., metavar="DIR", help="Folder with a folder for each class."),
    out: Path = Out,
) -> None:
    """A folder of images for each class; areas are unknown. Or for each split and class."""
    run_import(reading_of("image-folder", source), out, options)


@with_import_options
def auto(
    options: ImportOptions,
    path: Path = Argument(..., metavar="PATH", help="File or folder of annotations."),
    out: Path = Out,
) -> None:
    """Annotations of any known format, recognized. It says what it recognized, and why."""
    from nooch.data.importing.recognition import recognize

    found = recognize(path)
    note(f"recognized {found.kind}: {found.why}")
    chosen = replace(options, images=options.images or found.images)
    own = found.kind in {"boxes", "image-folder"}
    # boxes and image folders name their images themselves
    run_import(found.reading, out, replace(chosen, images=None) if own else chosen)


@with_import_options
def table(
    options: ImportOptions,
    file: Path = Argument(
        ..., metavar="FILE", help="CSV, TSV, Parquet or JSON lines; a file or a folder of parts."
    ),
    out: Path = Out,
    id: str = Option(..., help="Column of image ids."),
    label: list[str] = Option(
        [], help="Label columns, by commas or repeated. The name is the task's."
    ),
    positive: str = Option(
        None,
        help="Labels of two texts: the one that means present, as sky=yes; sky=* for two classes.",
    ),
    class_column: str = Option(None, "--class", help="Long table: column of class names."),
    area_column: str = Option(
        None,
        "--area",
        help="Long table: column of areas as fractions of the image; unknown where not annotated.",
    ),
    attributes: list[str] = Option(
        [], help="Columns to keep as attributes, by commas or repeated; by default all others."
    ),
    file_name: str = Option(None, help="Column of image paths."),
    split_column: str = Option(None, help="Column of split names."),
) -> None:
    """A table of labels and attributes. Or a long table of image, class and area."""
    if (class_column is None) == (not label):
        raise ParameterError(
            "a table needs --label or --class",
            allowed="--label for a row each image, --class for a long table",
        )
    if options.split and split_column:
        raise ParameterError("--split and --split-column exclude each other")
    if area_column is not None and class_column is None:
        raise ParameterError(
            "--area needs --class", allowed="both, for a long table of image, class and area"
        )
    from nooch.data.readers.table_layouts import Columns, LongTable, TableOfImages

    columns = Columns(
        id,
        file_name,
        split_column,
        options.values,
        shared.split_names(",".join(attributes)) or None,
    )
    labels = shared.split_names(",".join(label))
    layout: LongTable | TableOfImages
    if class_column is None:
        layout = TableOfImages(labels, shared.parse_pairs(positive, "--positive", "sky=yes"))
    else:
        layout = LongTable(class_column, area_column)
    # with a column of splits, their meaning is that of its values
    plan_values = None if split_column else options.split_values
    reading = reading_of("table", file, columns, layout)
    run_import(reading, out, replace(options, split_values=plan_values))


def waterbirds(
    folder: Path = Argument(
        ..., metavar="DIR", help="Folder of metadata.csv and the images that it names."
    ),
    out: Path = Out,
    overwrite: bool = shared.OverwriteOption,
    format: shared.Format = shared.FormatOption,
) -> None:
    """Waterbirds in its standard folder. The task waterbird, the attribute place, four groups."""
    check_output(out, overwrite=overwrite, marker=DATASET_MARKER)
    from nooch.data.importing.import_dataset import save_imported
    from nooch.data.readers.waterbirds import read_waterbirds

    print_imported(out, save_imported(read_waterbirds(folder), out, overwrite=overwrite), format)


@with_import_options
def annotate_command(
    options: ImportOptions,
    images: Path = Argument(..., metavar="IMAGES", help="Folder of the images."),
    out: Path = Out,
    segmenter: str = Option(
        ...,
        metavar="MODEL",
        help="Segmentation model: hub id or folder; folder with model.onnx; package.module:Name.",
    ),
    labels: str = Option(
        None,
        help="Known labels, which count alone for their classes: a dataset, a table, a folder of"
        " images for each class, or what nooch import auto takes.",
    ),
    tasks: str = Option(None, help="Classes of --labels, separated by commas; by default all."),
    merge: list[str] = Option(
        [], metavar="NAME=CLASSES", help="Classes as one: road=road+sidewalk; repeat for several."
    ),
    min_area: float = Option(0.01, help="A class is present above this area, a fraction."),
    min_confidence: float = Option(
        None, help="And from this confidence; by default 0, or 0.5 for a model without areas."
    ),
    embedder: str = Option(
        None, metavar="MODEL", help="CLIP or a backbone that embeds the images, for gist."
    ),
    maps: Path = Option(None, help="Folder to write label maps to, as PNG."),
    skip_broken: bool = Option(
        False, "--skip-broken", help="Leave out, and count, images that cannot be read."
    ),
    size: int = Option(None, min=1, help="Height and width in pixels; by default the model's own."),
    range: str = shared.RangeOption,
    batch: int = Option(8, "--batch", "--batch-size", min=1, help="Images in a batch."),
    device: str = shared.DeviceOption,
    bf16: bool = Option(False, "--bf16", help="Compute in bfloat16."),
    processes: int = Option(None, min=1, help="Processes, each with its model; one by default."),
) -> None:
    """Annotate images with a segmenter. Areas are predicted, labels may be known."""
    check_output(out, overwrite=options.overwrite, marker=DATASET_MARKER)
    from nooch.inference.annotate import AnnotationReading
    from nooch.models.devices import choose_device

    chosen = choose_device(device)
    alone = options.engine is None and processes is None
    # a model is loaded once, and uses all CPUs or the GPU
    options = replace(options, processes=1 if alone else processes)
    merged = shared.parse_pairs(",".join(merge), "--merge", "road=road+sidewalk")
    reading = AnnotationReading(
        images,
        segmenter,
        labels,
        shared.split_names(tasks) or None,
        {name: members.split("+") for name, members in merged.items()},
        min_area,
        min_confidence,
        embedder,
        maps,
        skip_broken=skip_broken,
        device=chosen,
        size=size,
        batch=batch,
        bf16=bf16,
        range=shared.parse_range(range),
    )
    run_import(reading, out, options, gpus=int(chosen != "cpu" and not alone))
