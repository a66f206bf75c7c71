"""``nooch intervene``, ``weights``, ``repair``, ``collect-next``: causes, and what to do."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer import Option

from nooch.base.errors import some_of
from nooch.base.files import check_output
from nooch.base.words import counted
from nooch.cli import options as shared
from nooch.cli.declared import takes
from nooch.cli.prediction_options import with_reading
from nooch.cli.terminal import hint, note, print_json, print_shown, print_table, progress, say

if TYPE_CHECKING:
    pass


def intervene_command(
    suite: Path = shared.SuiteArgument,
    model: str = Option(..., help="Hub id or folder, as for nooch predict."),
    edit: str = Option("hide-cue", help="hide-cue, blur-cue, hide-object or swap-background."),
    backbone: str = shared.BackboneOption,
    annotations: list[Path] = Option(
        ..., help="COCO file of the dataset, repeated for several, or a folder of label maps."
    ),
    out: Path = Option(..., help="Folder to write; it must not exist."),
    images: Path = shared.ImagesOption,
    task_map: str = shared.TaskMapOption,
    dataset: str = shared.DatasetOption,
    tasks: str = shared.TasksOption,
    split: str = Option(None, help="Split whose images are edited; test by default."),
    size: int = shared.SizeOption,
    range: str = shared.RangeOption,
    batch: int = shared.BatchOption,
    device: str = shared.DeviceOption,
    threshold: str = shared.ThresholdOption,
    bootstrap: int = shared.BootstrapOption,
    seed: int = Option(0, min=0, help="Seed of control patches, backgrounds and resamples."),
    overwrite: bool = shared.OverwriteOption,
    format: shared.Format = shared.FormatOption,
) -> None:
    """Hide the context or the object, and predict again. Is it the context that misleads?"""
    from nooch.analysis.intervene import CHANGES, InterveneOptions, intervene
    from nooch.inference.predict import tasks_to_predict
    from nooch.models.task_maps import read_task_map
    from nooch.models.task_models import load_task_model
    from nooch.report.tables.score_tables import tables_of
    from nooch.suites.summary import suite_with_dataset

    check_output(out, overwrite=overwrite, marker=CHANGES)
    options = InterveneOptions(
        edit, annotations, split, images, threshold, shared.parse_range(range), batch,
        bootstrap, seed,
    )  # fmt: skip
    found, data = suite_with_dataset(suite, dataset)
    names = tasks_to_predict(found, shared.split_names(tasks) or None)
    words = None if task_map is None else read_task_map(task_map)
    how: dict[str, Any] = {"size": size, "device": device, "backbone": backbone}
    network = load_task_model(model, names, words, skip_unmapped=tasks is None, **how)
    if skipped := [task for task in names if task not in network.tasks]:
        note(f"left out, as the model or the map has no label for them: {some_of(skipped)}")
    with progress() as update:
        made: dict[str, Any] = {"overwrite": overwrite, "progress": update}
        result = intervene(found, network, out, data=data, options=options, **made)
    note(*result.notes)
    if format is shared.Format.json:
        print_json({"sentences": result.sentences, "changes": result.table.to_dicts()})
        return
    print_shown(tables_of(result.scores, ["yes_rate"]))
    for text in result.sentences:
        say(text)
    files = " ".join(f"{out / name}" for name in ("before.parquet", "edit.parquet"))
    same = f"--threshold {out / 'thresholds.csv'}" + (f" --split {split}" if split else "")
    hint(f"next: nooch evaluate {suite} {files} {same}")


def weights_command(
    dataset: str = shared.DatasetArgument,
    task: str = Option(..., help="A class."),
    out: Path = Option(..., help="File to write: .parquet or .csv."),
    method: str = Option("environment-undersample", help="Or label-reweight, subg, ..."),
    alpha: float = Option(1.0, help="0 for no effect, 1 for groups of equal weight."),
    cues: str = Option(None, help="Given cues, such as car=road; the strongest by default."),
    attribute: str = Option(None, help="A column with two values, in place of the cue."),
    overwrite: bool = shared.OverwriteOption,
    format: shared.Format = shared.FormatOption,
) -> None:
    """Weigh images by label or environment. For a training loop of any kind."""
    from nooch.criteria import CE
    from nooch.data.table_files import result_files, write_result
    from nooch.training.weights import sample_weights

    result_files(out, "table", (), overwrite=overwrite)
    weights = sample_weights(
        dataset,
        task,
        method,
        alpha=alpha,
        criterion=CE(cues=shared.parse_cues(cues)),
        attribute=attribute,
    )
    write_result(out, "table", weights, overwrite=overwrite)
    if unweighted := weights["weight"].null_count():
        theirs = counted(unweighted, "image")
        note(f"{theirs} of valid without weight: training has no image of that environment")
    groups = weights.group_by("split", "label", "environment", "weight").len("images")
    shown = groups.sort("split", "label", "environment")
    if format is shared.Format.json:
        print_json({"weights": str(out), "groups": shown.to_dicts()})
        return
    print_table(f"{task}, {method}", shown.columns, shown.rows(), left=3)
    hint(f"{out}: {counted(len(weights), 'image')}")


@with_reading
def repair_command(
    suite: Path = shared.SuiteArgument,
    features: Path = Option(..., help="Folder of nooch features, or a file: .parquet, .npz."),
    out: Path = Option(..., help="Folder to write: head, predictions, changes."),
    predictions: Path = Option(
        None, help="What the model answers now, on valid and test; by default ERM on the features."
    ),
    dataset: str = shared.DatasetOption,
    tasks: str = shared.TasksOption,
    criterion: str = Option(None, help="Whose sets decide; the suite's first by default."),
    methods: str = Option(
        None, help="Out of erm, environment-reweight, environment-undersample, dfr-train, afr."
    ),
    threshold: str = Option("worst-side", help="Before and after: as for nooch evaluate."),
    bootstrap: int = Option(1000, min=1, help="Resamples for intervals."),
    seed: int = Option(0, min=0, help="Of heads, draws and resamples."),
    overwrite: bool = shared.OverwriteOption,
    format: shared.Format = shared.FormatOption,
    reading: Any = None,
) -> None:
    """Train a new last layer on features of your model. With what got better, and what worse."""
    from nooch.analysis.repair import CANDIDATES, RepairOptions, repair

    options = RepairOptions(
        tasks=shared.split_names(tasks) or None, criterion=criterion, threshold=threshold,
        methods=shared.split_names(methods) or tuple(CANDIDATES), bootstrap=bootstrap, seed=seed,
        **reading,
    )  # fmt: skip
    with progress() as update:
        repaired = repair(
            suite, features, out, predictions=predictions, dataset=dataset, options=options,
            overwrite=overwrite, progress=update,
        )  # fmt: skip
    if format is shared.Format.json:
        print_json({"tasks": repaired.table.to_dicts(), "notes": repaired.notes})
        return
    note(*repaired.notes)
    print_shown([repaired.display])
    answers = out / "predictions.parquet"
    hint(f"{out}: next: nooch evaluate {suite} {answers} --threshold {threshold}")


@takes(
    "nooch.analysis.collect_next:collect_next",
    leave=["dataset"],
    features={"type": Path},
    pool_features={"type": Path},
)
def collect_next_command(
    suite: Path = shared.SuiteArgument,
    pool: str = Option(..., metavar="DATASET", parser=shared.dataset_place, help="Other images."),
    out: Path = Option(..., help="File to write: .parquet or .csv."),
    dataset: str = shared.DatasetOption,
    overwrite: bool = shared.OverwriteOption,
    format: shared.Format = shared.FormatOption,
    *,
    settings: Any,
) -> None:
    """Choose images of a pool to collect. Hard ones, of kinds that training has few of."""
    from nooch.analysis.collect_next import collect_next
    from nooch.data.table_files import result_files, write_result

    result_files(out, "table", (), overwrite=overwrite)
    found = collect_next(suite, pool, dataset=dataset, **settings)
    write_result(out, "table", found.table, overwrite=overwrite)
    if format is shared.Format.json:
        content = {"images": found.table.to_dicts(), "tasks": found.tasks.to_dicts()}
        print_json({**content, "notes": found.notes})
        return
    note(*found.notes)
    print_shown([found.display])
    hint(f"{out}: {counted(len(found.table), 'image')}")
