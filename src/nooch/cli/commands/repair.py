"""``nooch weights`` and ``nooch repair``: what follows from the context that misleads a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from typer import Option

from nooch.cli import option_parsing as shared
from nooch.cli.prediction_options import with_reading
from nooch.cli.terminal_output import hint, note, print_json, print_shown, print_table, progress
from nooch.english import counted
from nooch.errors import check_one_of
from nooch.files import Place, check_output_file, replace_file

__all__ = ["repair_command", "weights_command"]


def weights_command(
    dataset: Place = shared.DatasetArgument,
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
    from nooch.data.data_files import parquet_bytes
    from nooch.training.sample_weights import sample_weights

    check_output_file(out, overwrite=overwrite)
    kind = check_one_of("file ending", out.suffix.lower(), (".parquet", ".csv"))
    weights = sample_weights(
        dataset,
        task,
        method,
        alpha=alpha,
        criterion=CE(cues=shared.parse_cues(cues)),
        attribute=attribute,
    )
    replace_file(out, weights.write_csv().encode() if kind == ".csv" else parquet_bytes(weights))
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
    dataset: Place = shared.DatasetOption,
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
    """Train a new last layer on features of your model. Better, worse or inconclusive on test."""
    from nooch.repairing.head_choice import CANDIDATES
    from nooch.repairing.repair import RepairOptions, repair

    options = RepairOptions(
        tasks=shared.split_names(tasks) or None, criterion=criterion, threshold=threshold,
        methods=shared.split_names(methods) or tuple(CANDIDATES), bootstrap=bootstrap, seed=seed,
        **vars(reading),
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
    hint(
        f"{out}: next: nooch evaluate {suite} {out / 'predictions.parquet'} --threshold {threshold}"
    )
