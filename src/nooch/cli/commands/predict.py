"""``nooch predict``: a network that was trained elsewhere, on the images of a suite."""

from __future__ import annotations

from pathlib import Path

import typer

from nooch.cli.option_parsing import (
    BatchOption,
    CodecOption,
    DatasetOption,
    DeviceOption,
    OverwriteOption,
    ProcessesOption,
    SplitsOption,
    SuiteArgument,
    TasksOption,
    split_names,
)
from nooch.cli.terminal_output import Format, FormatOption, console, print_json, progress
from nooch.errors import check_one_of
from nooch.files import Place, check_output_file

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("predict")(predict_command)


def predict_command(
    suite: Path = SuiteArgument,
    model: str = typer.Option(
        ...,
        "--model",
        help="Hub id or folder: an image classifier, or a model of texts and images such as CLIP.",
    ),
    out: Path = typer.Option(
        ..., "--out", metavar="PREDICTIONS", help="File to write: .parquet or .csv."
    ),
    images: Path = typer.Option(
        None, "--images", help="Folder of images, where the dataset does not record it."
    ),
    task_map: str = typer.Option(
        None,
        "--map",
        help=(
            "YAML file: labels or prompts for each task; imagenet: COCO's classes as ImageNet's. By"
            " default tasks' names."
        ),
    ),
    dataset: Place = DatasetOption,
    tasks: str = TasksOption,
    splits: str = SplitsOption,
    size: int = typer.Option(
        None, min=1, help="Height and width in pixels; by default the model's own."
    ),
    batch: int = BatchOption,
    device: str = DeviceOption,
    run: str = typer.Option(None, "--run", help="Name of the run; by default the model's."),
    codec: str = CodecOption,
    processes: int = ProcessesOption,
    overwrite: bool = OverwriteOption,
    format: Format = FormatOption,
) -> None:
    """Predict the tasks of a suite with any classifier, for nooch evaluate."""
    from nooch.predicting.network_predictions import (
        check_ending,
        find_images,
        predict,
        save_predictions,
        tasks_to_predict,
    )

    check_output_file(check_ending(out), overwrite=overwrite)
    from nooch.challenge import load_suite
    from nooch.data import load_dataset
    from nooch.finding.suite_summary import recorded_dataset
    from nooch.models.image_decoding import CODECS
    from nooch.models.model_kinds import load_task_model
    from nooch.models.task_maps import read_task_map

    check_one_of("codec", codec, CODECS)
    words = None if task_map is None else read_task_map(task_map)
    found = load_suite(suite)
    data = load_dataset(dataset) if dataset is not None else recorded_dataset(found, suite)
    names = tasks_to_predict(found, split_names(tasks) or None)
    ids, paths = find_images(
        found, names, splits=split_names(splits) or None, data=data, images=images
    )
    loaded = load_task_model(model, names, words, size=size, device=device)
    with progress() as update:
        made = predict(
            loaded,
            ids,
            paths,
            batch=batch,
            codec=codec,
            readers=processes,
            run=run,
            progress=lambda done, total: update("predicting", done, total),
        )
    save_predictions(made, out, overwrite=overwrite)
    facts = {
        "predictions": str(out),
        "run": made.run,
        "images": len(ids),
        "tasks": {task: loaded.meaning[task] for task in names},
        "model": {
            "name": loaded.name,
            "kind": loaded.kind,
            "sha256": loaded.identity,
            "size": list(loaded.size),
        },
    }
    if format is Format.json:
        print_json(facts)
        return
    height, width = loaded.size
    console().print(
        f"{out}: {len(names)} tasks x {len(ids):,} images by {loaded.name} ({loaded.kind}) at"
        f" {height} x {width}",
        markup=False,
    )
    console().print(f"next: nooch evaluate {suite} {out}", style="dim", markup=False)
