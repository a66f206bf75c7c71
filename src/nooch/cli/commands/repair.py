"""``nooch intervene``, ``weights``, ``repair``, ``collect-next``: causes, and what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from typer import Option

from nooch.base.errors import some_of
from nooch.base.files import check_output
from nooch.base.words import counted
from nooch.cli import options as shared
from nooch.cli.declared import takes
from nooch.cli.prediction_options import with_reading
from nooch.cli.runner import Output
from nooch.cli.terminal import hint, note, print_results, print_table, say, show_progress


@takes("nooch.analysis.intervene:intervene")
@takes("nooch.models.task_models:load_task_model", "loading", leave=["skip_unmapped"])
def intervene_command(
    settings: Any,
    loading: Any,
    suite: Path = shared.SuiteArgument,
    model: str = Option(..., help="Model as for nooch predict, or a detector."),
    annotations: list[Path] = Option(
        ..., help="COCO file of the dataset, repeated for several, or a folder of label maps."
    ),
    out: Path = Option(..., help="Folder to write; it must not exist."),
    task_map: str = shared.TaskMapOption,
    dataset: str = shared.DatasetOption,
    tasks: str = shared.TasksOption,
) -> Output:
    """Hide the context or the object and predict again. Shows whether the context is the cause."""
    from nooch.analysis.intervene import CHANGES, intervene
    from nooch.inference.predict import tasks_to_predict
    from nooch.models.task_maps import read_task_map
    from nooch.models.task_models import load_task_model
    from nooch.report.tables.score_tables import tables_of
    from nooch.suites.summary import suite_with_dataset

    check_output(out, overwrite="overwrite" in settings, marker=CHANGES)
    challenge_suite, data = suite_with_dataset(suite, dataset)
    names = tasks_to_predict(challenge_suite, shared.split_names(tasks) or None)
    words = None if task_map is None else read_task_map(task_map, names)
    network = load_task_model(
        model, names, words, skip_unmapped=tasks is None, data=data, **loading
    )
    if skipped := [task for task in names if task not in network.tasks]:
        note(f"left out, as the model or the map has no label for them: {some_of(skipped)}")
    result = intervene(
        challenge_suite, network, out, data=data, annotations=annotations,
        progress=show_progress, **settings,
    )  # fmt: skip
    note(*result.notes)
    yield {"sentences": result.sentences, "changes": result.table.to_dicts()}
    print_results(tables_of(result.scores, ["yes_rate"]) if result.scores else [])
    for text in result.sentences:
        say(text)
    files = " ".join(f"{out / name}" for name in ("before.parquet", "edit.parquet"))
    same = f"--threshold {out / 'thresholds.csv'}" + (
        f" --split {settings['split']}" if "split" in settings else ""
    )
    tried = "limit" in settings and "for a first try; to evaluate, leave --limit out"
    if tried or result.scores:
        hint(tried or f"next: nooch evaluate {suite} {files} {same}")


@takes("nooch.training.weights:sample_weights")
def weights_command(
    settings: Any,
    dataset: str = shared.DatasetArgument,
    task: str = Option(..., help="A class."),
    out: Path = Option(..., help="File to write: .parquet or .csv."),
    method: str = Option(
        "environment-undersample", help="Method of weighting, such as label-reweight or subg."
    ),
    cues: str = Option(None, help="Cues to use, such as car=road; by default the strongest."),
    overwrite: bool = shared.OverwriteOption,
) -> Output:
    """Weight images by label or environment. The weights serve any training loop."""
    from nooch.criteria import CE
    from nooch.data.table_files import result_files, write_result
    from nooch.training.weights import sample_weights

    result_files(out, "table", (), overwrite=overwrite)
    criterion = CE(cues=shared.parse_cues(cues))
    weights = sample_weights(dataset, task, method, criterion=criterion, **settings)
    write_result(out, "table", weights, overwrite=overwrite)
    if unweighted := weights["weight"].null_count():
        theirs = counted(unweighted, "image")
        note(f"{theirs} of valid without weight: training has no image of that environment")
    groups = weights.group_by("split", "label", "environment", "weight").len("images")
    shown = groups.sort("split", "label", "environment")
    yield {"weights": str(out), "groups": shown.to_dicts()}
    print_table(f"{task}, {method}", shown.columns, shown.rows(), left=3)
    hint(f"{out}: {counted(len(weights), 'image')}")


@takes("nooch.analysis.repair:repair", predictions={"type": Path})
@with_reading
def repair_command(
    settings: Any,
    reading: Any,
    suite: Path = shared.SuiteArgument,
    features: Path = Option(
        ..., help="Folder of nooch train features, or a file: .parquet, .npz, or .npy with --ids."
    ),
    out: Path = Option(..., help="Folder to write: head, predictions, changes."),
) -> Output:
    """Train a new last layer on features of your model. Reports what got better and worse."""
    from nooch.analysis.repair import repair

    repaired = repair(suite, features, out, reading=reading, progress=show_progress, **settings)
    yield {"tasks": repaired.table.to_dicts(), "notes": repaired.notes}
    note(*repaired.notes)
    print_results([repaired.display])
    answers = out / "predictions.parquet"
    threshold = settings.get("threshold", "worst-side")
    hint(f"{out}: next: nooch evaluate {suite} {answers} --threshold {threshold}")


@takes(
    "nooch.analysis.collect_next:collect_next",
    features={"type": Path},
    pool_features={"type": Path},
    detections={"type": Path},
    threshold={"type": float},
)
@with_reading
def collect_next_command(
    settings: Any,
    reading: Any,
    suite: Path = shared.SuiteArgument,
    pool: str = Option(
        ...,
        metavar="DATASET",
        parser=shared.dataset_place,
        help="Dataset of the images to choose from.",
    ),
    out: Path = Option(..., help="File to write: .parquet or .csv."),
    overwrite: bool = shared.OverwriteOption,
) -> Output:
    """Choose images of a pool to collect. Prefers hard images that training lacks."""
    from nooch.analysis.collect_next import collect_next
    from nooch.data.table_files import result_files, write_result

    result_files(out, "table", (), overwrite=overwrite)
    next_images = collect_next(suite, pool, reading=reading, **settings)
    write_result(out, "table", next_images.table, overwrite=overwrite)
    content = {"images": next_images.table.to_dicts(), "tasks": next_images.tasks.to_dicts()}
    yield {**content, "notes": next_images.notes}
    note(*next_images.notes)
    print_results([next_images.display])
    hint(f"{out}: {counted(len(next_images.table), 'image')}")
