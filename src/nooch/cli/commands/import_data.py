"""``nooch import ...`` and ``nooch annotate``: files of other formats, or images -> a dataset."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer import Argument, Option

from nooch.base.calls import Count
from nooch.base.engines import LocalEngine, engine as engine_of
from nooch.base.errors import ParameterError
from nooch.base.files import DATASET_MARKER, check_output
from nooch.base.split_plan import SplitPlan
from nooch.base.words import counted
from nooch.cli import options as shared
from nooch.cli.declared import Command, takes
from nooch.cli.options import parse_pairs
from nooch.cli.progress_log import logs_of
from nooch.cli.runner import Output
from nooch.cli.terminal import hint, note, say, show_progress
from nooch.data.readers import reading_of

if TYPE_CHECKING:
    from nooch.base.engines.ray import RayEngine
    from nooch.base.engines.slurm import SlurmEngine
    from nooch.data.importing.parts import Imported
    from nooch.data.importing.recognition import Recognized
    from nooch.data.importing.table_roles import Hints
    from nooch.data.readers.contract import Reading

    Engine = LocalEngine | RayEngine | SlurmEngine


Out: Any = Argument(..., metavar="DATASET", help="Folder to write; it must not exist.")
_OF_IMPORT = ("part_size", "images", "broken", "group", "context", "range", "overwrite")


@dataclass(frozen=True)
class _Running:
    """Execution settings of an import.

    Attributes:
        processes: parallel processes, short for --engine local:N; all CPUs by default.
        engine: where files are read: local[:N], ray[:ADDRESS] or slurm[:PARTITION].
    """

    processes: Count | None = None
    engine: str | None = None


def with_import_options(command: Command) -> Command:
    """A command with ``options``, by name: of the import, of the split, and of running."""
    module = "nooch.data.importing.import_dataset:import_dataset"
    for wrap in (
        takes(f"{__name__}:_Running", "options"),
        takes(
            "nooch.base.split_plan:SplitPlan", "options",
            leave=["group"], source={"flags": ["--split"]},
            values={"type": str, "flags": ["--split-values"], "metavar": "0=train,1=valid"},
        ),
        takes(module, "options", only=_OF_IMPORT, overwrite={}),
    ):  # fmt: skip
        command = wrap(command)
    return command


def _plan(options: Mapping[str, Any]) -> SplitPlan | None:
    """The division of images. Raises ParameterError for options of a split without one."""
    if "source" in options:
        values = parse_pairs(options.get("values"), "--split-values", "0=train,1=valid,2=test")
        return SplitPlan(options["source"], options["seed"], values=values)
    if "values" in options:
        problem = "--split-values needs --split"
        raise ParameterError(problem, allowed="--split 70/10/20, or a file")
    return None


def _engine(options: Mapping[str, Any], out: Path, gpus: int) -> Engine:
    """Engine that reads files, each job with so many GPUs; logs are next to the output."""
    processes = options.get("processes")
    if "engine" not in options:
        return LocalEngine(processes, gpus=gpus)
    if processes is not None:
        raise ParameterError(
            "--processes and --engine exclude each other",
            allowed=f"--engine local:{processes}, or another engine",
        )
    return engine_of(options["engine"], logs_of(out), gpus=gpus)


def run_import(
    reading: Reading,
    out: Path,
    options: Mapping[str, Any],
    notes: Sequence[str] = (),
    gpus: int = 0,
) -> Output:
    """Import what ``reading`` names, each job with so many GPUs, and print what was written."""
    # before the engine makes a folder of logs next to it
    check_output(out, overwrite="overwrite" in options, marker=DATASET_MARKER)
    plan, engine = _plan(options), _engine(options, out, gpus)
    if "part_size" not in options:
        size = sum(path.stat().st_size for _, path in reading.files() if path.is_file())
        if size >= LARGE:
            much = f"the files have {size / 1e9:.1f} GB and are merged in memory"
            note(f"{much}; --part-size 125000 merges them part by part")
    from nooch.data.importing.import_dataset import import_dataset

    names = options.keys() & {*_OF_IMPORT}
    imported = import_dataset(
        reading, out, split=plan, notes=notes, map=engine.map, progress=show_progress,
        **{name: options[name] for name in names},
    )  # fmt: skip
    yield from print_imported(out, imported)


LARGE = 4_000_000_000
"""Bytes of annotation files that, imported as one part, need more memory than a laptop has."""


def print_imported(out: Path, imported: Imported) -> Output:
    """Print what was written."""
    from nooch.data import open_dataset

    header = imported.header
    note(*header.provenance.get("notes", []))
    if header.image_root and not imported.missing:
        note(f"images: all {header.n_images:,} files are below {header.image_root}")
    yield {"dataset": str(out), **imported.facts}
    splits = ", ".join(f"{name} {count:,}" for name, count in header.splits.items())
    held = counted(len(header.classes), "class"), counted(imported.captions, "caption")
    say(f"{out}: {counted(header.n_images, 'image')} ({splits}), {', '.join(held)}")
    place, criterion = shlex.quote(str(out)), "ce"
    if not imported.has_areas and imported.annotated > header.n_images:
        # several labels in an image are context of each other
        criterion = "context"
    elif not imported.has_areas and open_dataset(out).context_columns:
        criterion = "context --context all"
    elif not imported.has_areas:
        hint(f"next: nooch check {place} PREDICTIONS --out CHECK")
        return
    hint(f"next: nooch find {place} --criterion {criterion} --out SUITE")


@takes(
    "nooch.data.readers.coco.reader:CocoReading",
    "files",
    only=["things", "stuff", "captions", "stuff_maps", "stuff_map_values"],
    stuff_maps={"type": Path},
)
@with_import_options
def coco(out: Path = Out, *, files: Any, options: Any) -> Output:
    """COCO-format JSON: things, stuff and captions. Joins the files by image."""
    yield from run_import(reading_of("coco", **files), out, options)


@with_import_options
def coco_stuff(
    options: Any,
    root: Path = Argument(
        ..., metavar="ROOT", help="Folder of COCO 2017 and COCO-Stuff, as downloaded."
    ),
    out: Path = Out,
) -> Output:
    """COCO-Stuff 2017 in the usual layouts, found below ROOT. Reads instances, stuff, captions."""
    check_output(out, overwrite="overwrite" in options, marker=DATASET_MARKER)
    from nooch.data.readers.coco.layout import find_coco, find_split

    layout = find_coco(root)
    yield from run_import(layout.reading, out, {"images": layout.images} | options, layout.notes)
    if "source" not in options and (file := find_split(root)):
        note(f"no split was asked for; --split {file} gives the paper's")


@takes(
    "nooch.data.readers.label_maps:MapReading",
    "how",
    only=["classes", "void", "suffix"],
    classes={"type": str, "default": ...},
)
@with_import_options
def label_maps(
    how: Any,
    options: Any,
    maps: Path = Argument(..., metavar="DIR", help="Folder of label maps, one for each image."),
    out: Path = Out,
) -> Output:
    """Label maps: exact areas by counting pixels."""
    yield from run_import(reading_of("label-maps", maps, **how), out, options)


@takes(
    "nooch.data.readers.boxes:BoxReading",
    "how",
    only=["classes", "follow_links"],
    classes={"type": Path},
)
@with_import_options
def boxes(
    how: Any,
    options: Any,
    path: Path = Argument(
        ...,
        metavar="SOURCE",
        help="Folder of YOLO or VOC files, a YOLO data.yaml, or an Open Images CSV.",
    ),
    out: Path = Out,
    kind: str = Option(..., "--boxes", help="Format of the boxes: yolo, voc or openimages."),
) -> Output:
    """Bounding boxes: YOLO, VOC or Open Images. Box areas are used as object areas."""
    # which images there are depends on the image files: they are part of what is read
    reading = reading_of("boxes", path, kind, images=options.pop("images", None), **how)
    yield from run_import(reading, out, options)


@with_import_options
def image_folder(
    options: Any,
    path: Path = Argument(..., metavar="DIR", help="Folder with a folder for each class."),
    out: Path = Out,
) -> Output:
    """A folder of images for each class; areas are unknown. Folders can also be split/class."""
    yield from run_import(reading_of("image-folder", path), out, options)


def with_hints(*leave: str) -> Callable[[Command], Command]:
    """Give a command the options of annotations that are recognized, as ``hints``, by name."""
    return takes(
        "nooch.data.importing.table_roles:Hints",
        "hints",
        leave=["context", "group", *leave],
        group="Annotations",
        class_column={"flags": ["--class"]},
        area_column={"flags": ["--area"]},
        present_column={"flags": ["--present"]},
        positive={"type": str, "metavar": "sky=yes"},
        split_values={"type": str, "metavar": "0=train,1=valid"},
    )


def hints_of(typed: Mapping[str, Any], options: Mapping[str, Any] | None = None) -> Hints:
    """The hints that were typed, in an import with the meaning of splits of its ``options``."""
    from nooch.data.importing.table_roles import Hints

    if options is not None:
        about = {"split_values": options.get("values"), "group": options.get("group")}
        typed = {**typed, **about, "context": options.get("context", ())}
        if "split_column" in typed and "source" in options:
            raise ParameterError("--split and --split-column exclude each other")
    pairs = {
        name: parse_pairs(typed.get(name), f"--{name.replace('_', '-')}", example)
        for name, example in (("positive", "sky=yes"), ("split_values", "0=train,1=valid,2=test"))
    }
    return Hints(**{**typed, **pairs})


@with_import_options
@with_hints("split_values")
def auto(
    options: Any,
    hints: Any,
    path: Path = Argument(..., metavar="PATH", help="File or folder of annotations."),
    out: Path = Out,
) -> Output:
    """Annotations of any known format. Detects the format, and reports why."""
    from nooch.data.importing.recognition import recognize

    yield from _run_recognized(recognize, path, out, options, hints)


@with_import_options
@with_hints("split_values", "void", "reader", "follow_links")
def table(
    options: Any,
    hints: Any,
    file: Path = Argument(
        ...,
        metavar="FILE",
        help="CSV, TSV, Parquet, JSON, JSON lines or Excel; a file or a folder of parts.",
    ),
    out: Path = Out,
) -> Output:
    """A table of labels and attributes, of areas, or of boxes.

    Columns are recognized, unless --id and --label or --class name them.
    """
    from nooch.data.importing.recognition import recognize_table

    yield from _run_recognized(recognize_table, file, out, options, hints)


def _run_recognized(
    recognize: Callable[..., Recognized],
    path: Path,
    out: Path,
    options: Any,
    typed: Mapping[str, Any],
) -> Output:
    """Import what is recognized with the hints that were typed."""
    found = recognize(path, hints_of(typed, options), options.get("images"))
    if found.why:
        note(f"recognized {found.kind}: {found.why}")
    reading: Any = found.reading
    # these are the meaning of its column of splits, not of a file of splits
    if "source" not in options and found.kind == "table" and reading.columns.split:
        options.pop("values", None)
    images = options.pop("images", found.images)
    if found.kind == "boxes":
        reading = replace(reading, images=images or reading.images)
    # boxes and folders of classes name their images themselves
    named = {} if found.kind in {"boxes", "image-folder"} else {"images": images}
    yield from run_import(reading, out, named | options)


def waterbirds(
    folder: Path = Argument(
        ..., metavar="DIR", help="Folder of metadata.csv and the images that it names."
    ),
    out: Path = Out,
    overwrite: bool = shared.OverwriteOption,
) -> Output:
    """Waterbirds in its standard folder. Imports the task waterbird and the attribute place."""
    check_output(out, overwrite=overwrite, marker=DATASET_MARKER)
    from nooch.data.importing.import_dataset import save_imported
    from nooch.data.readers.waterbirds import read_waterbirds

    yield from print_imported(out, save_imported(read_waterbirds(folder), out, overwrite=overwrite))


@with_import_options
@with_hints("split_values", "follow_links")
@takes(
    "nooch.inference.annotate:AnnotationReading",
    "reading",
    leave=["images", "hints"],
    labels={"type": str},
    merge={"type": list[str], "metavar": "NAME=CLASSES"},
    batch={"flags": ["--batch", "--batch-size"]},
    maps={"type": Path},
    segmenter={"default": ..., "metavar": "MODEL"},
)
def annotate_command(
    options: Any,
    reading: Any,
    hints: Any,
    images: Path = Argument(..., metavar="IMAGES", help="Folder of the images."),
    out: Path = Out,
    processes: int = Option(None, min=1, help="Processes, each with its model; one by default."),
) -> Output:  # fmt: skip
    """Annotate images with a segmenter. Areas are predicted; known labels can be added."""
    check_output(out, overwrite="overwrite" in options, marker=DATASET_MARKER)
    from nooch.inference.annotate import AnnotationReading
    from nooch.models.devices import choose_device

    device = choose_device(reading["device"])
    alone = "engine" not in options and processes is None
    if processes or alone:
        # a model is loaded once, and uses all CPUs or the GPU
        options["processes"] = processes or 1
    merged = shared.parse_pairs(
        ",".join(reading.get("merge") or []), "--merge", "road=road+sidewalk"
    )
    reading |= {
        "merge": {name: members.split("+") for name, members in merged.items()},
        "device": device,
    }
    if hints or ("values" in options and "source" not in options):
        reading["hints"] = hints_of(hints, options)
        # these are the meaning of the labels' column of splits
        _ = "source" in options or options.pop("values", None)
    gpus = int(device != "cpu" and not alone)
    yield from run_import(AnnotationReading(images, **reading), out, options, gpus=gpus)
