"""``nooch export``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from typer import Argument, Option

from nooch.base.files import SUITE_MARKER, check_output
from nooch.base.words import counted
from nooch.cli import options as shared
from nooch.cli.prediction_options import read_predictions, with_reading
from nooch.cli.terminal import note, print_result, progress


@with_reading
def export_command(
    suite: Path = shared.SuiteArgument,
    out: str = Argument(..., metavar="OUT", help="File (ids), folder, or FiftyOne dataset."),
    to: str = Option(
        ...,
        help="ids, npy, coco, csv, hf, table, fiftyone, pope, lmms-eval, vlmevalkit, or"
        " package.module:name.",
    ),
    dataset: str = shared.DatasetOption,
    criterion: list[str] = shared.CriterionOption,
    tasks: str = shared.TasksOption,
    splits: str = shared.SplitsOption,
    licence: list[str] = Option(
        [], help="A licence of the data that the annotations do not record. Repeatable."
    ),
    annotations: list[Path] = Option(
        [], help="coco: an annotation file that the dataset was imported from. Repeatable."
    ),
    no_annotations: bool = Option(
        False, "--no-annotations", help="coco: images and categories, without annotation files."
    ),
    subsets: str = Option(
        None, help="coco, fiftyone: subsets such as hard_positive,easy; by default the hard ones."
    ),
    id_field: str = Option(
        None,
        help="fiftyone: field of image ids; by default image_id or coco_id, else files' paths.",
    ),
    predictions: list[Path] = Option(
        [], help="table: predictions, as for nooch evaluate, whose losses are written. Repeatable."
    ),
    images: Path = Option(
        None,
        help="table: folder that is put before the image paths. Questions: folder of the images.",
    ),
    images_as: str = Option(
        None, help="lmms-eval, vlmevalkit: bytes to write the images, too; paths by default."
    ),
    per_set: str = shared.PerSetOption,
    template: str = shared.TemplateOption,
    seed: int = shared.QuestionSeedOption,
    overwrite: bool = shared.OverwriteOption,
    format: shared.Format = shared.FormatOption,
    reading: Any = None,
) -> None:
    """Write challenge sets in another tool's format. The licenses of the data are written, too."""
    from nooch.report.exports.export import ExportSelection, export
    from nooch.suites.summary import suite_with_dataset

    exported, data = suite_with_dataset(suite, dataset)
    options: dict[str, Any] = {
        "annotations": annotations,
        "no_annotations": no_annotations,
        "subsets": shared.split_names(subsets),
        "id_field": id_field,
        "predictions": read_predictions(predictions, reading, exported, data),
        "scale": reading.get("scale"),
        "images": images,
        "images_as": images_as,
    }
    given = {name: value for name, value in options.items() if value}
    given |= shared.question_options(per_set, template, seed)
    names, parts = shared.split_names(tasks), shared.split_names(splits)
    selection = ExportSelection(criterion, names, parts, licence)
    with progress() as update:
        update(f"writing as {to}", 0, 1)
        # what was not given is left to the format; what was given and is not its own is refused
        made: dict[str, Any] = {"data": data, "selection": selection, "overwrite": overwrite}
        done = export(exported, to, out, **made, **given)
    note(*done.notes)
    files = f", {counted(len(done.files), 'file')}" if len(done.files) > 1 else ""
    listed = ", ".join(licence.get("name") or licence["url"] for licence in done.licences)
    contents = f"{counted(done.sets, 'challenge set')} as {to}{files}"
    print_result(format, asdict(done), f"{out}: {contents}; licences: {listed or 'not recorded'}")


def published(
    folder: Path = Argument(
        ..., metavar="PUBLISHED_DIR", help="Folder of the authors' .npy files."
    ),
    labels: list[Path] = Option(
        [],
        help=(
            "Dataset folder, .npz with image_ids, labels and category_names, or instances_*.json,"
            " as often as there are files. Without labels the suite contains only hard images."
        ),
    ),
    out: Path = Option(..., help="Suite folder to write; it must not exist."),
    overwrite: bool = shared.OverwriteOption,
    format: shared.Format = shared.FormatOption,
) -> None:
    """The authors' challenge sets as a suite. The benchmark itself comes as nooch-coco."""
    check_output(out, overwrite=overwrite, marker=SUITE_MARKER)
    from nooch.cli.tables import print_found
    from nooch.suites import save_suite
    from nooch.suites.published import published_suite, read_labels, read_published, unlabeled

    sets, known = read_published(folder), read_labels(labels) if labels else None
    suite = published_suite(sets, known)
    save_suite(suite, out, overwrite=overwrite)
    without = unlabeled(sets, known) if known is not None else {}
    for split in suite.splits:
        if without.get(split):
            note(
                f"{without[split]:,} of {len(sets.splits[split]):,} images of split {split} have"
                " no labels: those that are not hard are left out (add --labels, as"
                " instances_train2017.json and instances_val2017.json)"
            )
    print_found(suite, out, format, f"evaluate {out} PREDICTIONS")
